"""What a checkpoint's DeltaChannels are rebuilt from: the last stored value of each, and all writes since.

LangGraph stores such a value every few supersteps only. So a checkpoint may need some of its ancestors.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

from langgraph_jsonl_checkpoint.upstream import channels
from langgraph_jsonl_checkpoint.values.thaw import BadTextError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from langgraph_jsonl_checkpoint.folds.checkpoints import Checkpoints
    from langgraph_jsonl_checkpoint.log import records
    from langgraph_jsonl_checkpoint.values.thaw import Thawer


def rebuilt_from(fold: Checkpoints, thaw: Thawer, record: records.Checkpoint) -> tuple[list[str], bool]:
    """The ancestors that a checkpoint needs, the nearest first, and whether nothing that it needs is missing.

    Raises:
        CorruptSessionError: A checkpoint on the way cannot be read.
    """
    wanted = set(channels.delta_channels(metadata_of(fold, thaw, record)))
    if wanted:
        wanted -= _held(fold, thaw, record)
    needed: list[str] = []
    last = record
    for name, ancestor in fold.ancestors(record.ns, record.id):
        if not wanted:
            break
        needed.append(name)
        wanted -= _held(fold, thaw, ancestor)
        last = ancestor
    return needed, not wanted or last.parent is None


def metadata_of(fold: Checkpoints, thaw: Thawer, record: records.Checkpoint) -> dict[str, Any]:
    """A checkpoint's metadata.

    Raises:
        CorruptSessionError: It cannot be read.
    """
    with _reading(fold, record):
        return thaw.mapping(record.metadata)


def _held(fold: Checkpoints, thaw: Thawer, record: records.Checkpoint) -> set[str]:
    """The channels whose value a checkpoint holds."""
    with _reading(fold, record):
        return set(thaw.members(record.channels))


def _reading(fold: Checkpoints, record: records.Checkpoint) -> contextlib.AbstractContextManager[None]:
    return reading(fold, fold.seq(record.ns, record.id), f"checkpoint {record.id!r}")


@contextlib.contextmanager
def reading(fold: Checkpoints, seq: int, what: str) -> Iterator[None]:
    """Read texts of a record; an error says which one it is."""
    try:
        yield
    except BadTextError as error:
        raise fold.lines.corrupt(seq, f"{what} cannot be read: {error}", error.says) from error
