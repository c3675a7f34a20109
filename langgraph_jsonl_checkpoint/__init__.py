"""A LangGraph checkpointer over one append-only zstd JSONL log per thread."""

from langgraph_jsonl_checkpoint.errors import (
    ClosedSaverError,
    CorruptSessionError,
    DeletedSessionError,
    FailedSessionError,
    SessionError,
    UnsupportedVersionError,
    ValueEncodingError,
)
from langgraph_jsonl_checkpoint.saver import JsonlSaver

__all__ = [
    "ClosedSaverError",
    "CorruptSessionError",
    "DeletedSessionError",
    "FailedSessionError",
    "JsonlSaver",
    "SessionError",
    "UnsupportedVersionError",
    "ValueEncodingError",
]
