"""A LangGraph checkpointer over one append-only zstd JSONL log per thread."""

from typing import TYPE_CHECKING, Any

from langgraph_jsonl_checkpoint.agents.context import ainject, inject
from langgraph_jsonl_checkpoint.agents.inputs import aresume_or_invoke, resume_or_invoke
from langgraph_jsonl_checkpoint.agents.policy import ToolPolicy
from langgraph_jsonl_checkpoint.agents.questions import adecide, decide
from langgraph_jsonl_checkpoint.agents.recorder import SessionRecorder
from langgraph_jsonl_checkpoint.agents.tool_guard import ToolGuard
from langgraph_jsonl_checkpoint.errors import (
    ChainKeyError,
    ClosedSaverError,
    CorruptSessionError,
    DeletedSessionError,
    FailedSessionError,
    NoSessionError,
    SessionError,
    ToolCallError,
    ToolCallRunningError,
    ToolLogError,
    UncertainToolCallError,
    UnsupportedVersionError,
    ValueEncodingError,
    WrongSerdeError,
)
from langgraph_jsonl_checkpoint.folds.memory import MemoryDeriver, SessionMemory
from langgraph_jsonl_checkpoint.folds.resume import ResumeState, ToolCall
from langgraph_jsonl_checkpoint.saver import JsonlSaver
from langgraph_jsonl_checkpoint.upkeep.salvage import Salvage
from langgraph_jsonl_checkpoint.upkeep.threads import SessionInfo
from langgraph_jsonl_checkpoint.upkeep.verification import Head, Problem, Verification

if TYPE_CHECKING:
    from langgraph_jsonl_checkpoint.agents.middleware import SessionMiddleware

__all__ = [
    "ChainKeyError",
    "ClosedSaverError",
    "CorruptSessionError",
    "DeletedSessionError",
    "FailedSessionError",
    "Head",
    "JsonlSaver",
    "MemoryDeriver",
    "NoSessionError",
    "Problem",
    "ResumeState",
    "Salvage",
    "SessionError",
    "SessionInfo",
    "SessionMemory",
    "SessionMiddleware",
    "SessionRecorder",
    "ToolCall",
    "ToolCallError",
    "ToolCallRunningError",
    "ToolGuard",
    "ToolLogError",
    "ToolPolicy",
    "UncertainToolCallError",
    "UnsupportedVersionError",
    "ValueEncodingError",
    "Verification",
    "WrongSerdeError",
    "adecide",
    "ainject",
    "aresume_or_invoke",
    "decide",
    "inject",
    "resume_or_invoke",
]


def __getattr__(name: str) -> Any:
    # The one name that needs `langchain`, which a graph of one's own does not.
    if name != "SessionMiddleware":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        from langgraph_jsonl_checkpoint.agents.middleware import SessionMiddleware  # noqa: PLC0415
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] != "langchain":
            raise
        raise ImportError(
            "SessionMiddleware is for create_agent and needs langchain: pip install "
            "'langgraph-jsonl-checkpoint[agents]'"
        ) from error
    return SessionMiddleware
