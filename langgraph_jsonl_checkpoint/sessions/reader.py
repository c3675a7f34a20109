"""Checkpoint tuples from a session: what `get_tuple`, `list` and `get_delta_channel_history` give out.

A `Reader` is made under the session's lock and used without it: records do not change, and a new generation of the
session has folds of its own.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import msgspec
from langgraph.checkpoint.base import CheckpointTuple

from langgraph_jsonl_checkpoint.errors import CorruptSessionError
from langgraph_jsonl_checkpoint.log import records
from langgraph_jsonl_checkpoint.log.garbage import no_collections
from langgraph_jsonl_checkpoint.values.adopt import Handed
from langgraph_jsonl_checkpoint.values.thaw import BadTextError, Thawer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from langchain_core.runnables import RunnableConfig
    from langgraph.checkpoint.base import DeltaChannelHistory

    from langgraph_jsonl_checkpoint.sessions.session import Session
    from langgraph_jsonl_checkpoint.values.seal import Serde


class Reader:
    """Reads what a session held when this was made."""

    def __init__(self, session: Session, serde: Serde) -> None:
        self.fold = session.checkpoints
        self.thaw = Thawer(session.book, serde)
        self._identity = session.identity
        self._lines = session.lines
        self._shadows = session.shadows

    def get(self, ns: str, checkpoint_id: str | None) -> CheckpointTuple | None:
        """A checkpoint, or a namespace's newest."""
        record = self.fold.get(ns, checkpoint_id)
        if record is None:
            return None
        with no_collections():
            found = self.tuple(ns, record, self.metadata(record))
        self._shadows.hand(ns, Handed(record, found.checkpoint, self.thaw))
        return found

    def list(
        self,
        ns: str | None,
        checkpoint_id: str | None,
        before: str | None,
        wanted: Mapping[str, Any] | None,
        behind: tuple[str, str] | None = None,
    ) -> Iterator[tuple[tuple[str, str], CheckpointTuple]]:
        """((id, namespace), tuple) of the checkpoints that match, descending, from `behind` one on if it is given."""
        for name, space in self.fold.newest_first(ns):
            if checkpoint_id and name != checkpoint_id or before and name >= before:
                continue
            if behind is not None and (name, space) >= behind:
                continue
            record = self.fold.get(space, name)
            if record is None:
                continue
            metadata = self.metadata(record)
            if wanted and any(metadata.get(k) != v for k, v in wanted.items()):
                continue
            with no_collections():
                found = self.tuple(space, record, metadata)
            yield (name, space), found

    def tuple(self, ns: str, record: records.Checkpoint, metadata: dict[str, Any]) -> CheckpointTuple:
        """A record as LangGraph's tuple; its values are the caller's own."""
        name = record.id
        value = self._value
        checkpoint: dict[str, Any] = {
            "id": name,
            "channel_values": self._mapping(record, record.channels),
            "channel_versions": self._mapping(record, record.versions),
            "versions_seen": self._mapping(record, record.seen),
        }
        updated = [*record.updated] if type(record.updated) is list else record.updated
        optional = {"v": record.v, "ts": record.created, "updated_channels": updated}
        checkpoint |= {key: field for key, field in optional.items() if field is not msgspec.UNSET}
        if record.extra is not records.NO_TEXT:
            checkpoint |= self._mapping(record, record.extra)
        return CheckpointTuple(
            config=self._config(ns, name),
            checkpoint=checkpoint,  # type: ignore[arg-type]
            metadata=metadata,  # type: ignore[arg-type]
            parent_config=self._config(ns, record.parent) if record.parent else None,
            pending_writes=[(w.task, w.channel, value(record, w.text)) for w in self.fold.writes(ns, name)],
        )

    def metadata(self, record: records.Checkpoint) -> dict[str, Any]:
        """A checkpoint's metadata, as it was put."""
        found = self._mapping(record, record.metadata)
        if record.source is not None:
            found["source"] = record.source
        if record.step is not None:
            found["step"] = record.step
        return found

    def delta_history(
        self, ns: str, checkpoint_id: str | None, channels: Sequence[str]
    ) -> dict[str, DeltaChannelHistory]:
        """For each channel the writes on the path to a checkpoint since the last stored value, and that value.

        One walk over the ancestors serves all channels. The value that a checkpoint holds is older than the writes
        that are stored with it, so these count; all that is older does not.
        """
        found: dict[str, DeltaChannelHistory] = {c: {"writes": []} for c in channels}
        missing = dict.fromkeys(channels)
        for name, record in self.fold.ancestors(ns, checkpoint_id):
            if not missing:
                break
            for write in reversed(self.fold.writes(ns, name)):
                if write.channel in missing:
                    found[write.channel]["writes"].append(
                        (write.task, write.channel, self._value(record, write.text))
                    )
            held = self._read(self.thaw.members, record, record.channels)
            for channel in [c for c in missing if c in held]:
                found[channel]["seed"] = self._read(self.thaw.built, record, held[channel])
                del missing[channel]
        for entry in found.values():
            entry["writes"].reverse()
        return found

    def _value(self, record: records.Checkpoint, text: msgspec.Raw) -> Any:
        return self._read(self.thaw.value, record, text)

    def _mapping(self, record: records.Checkpoint, text: msgspec.Raw) -> dict[str, Any]:
        found: dict[str, Any] = self._read(self.thaw.mapping, record, text)
        return found

    def _read(self, read: Callable[[Any], Any], record: records.Checkpoint, text: Any) -> Any:
        try:
            return read(text)
        except BadTextError as error:
            name = record.id
            raise self._damaged(self.fold.seq(record.ns, name), f"checkpoint {name!r}", error) from error

    @contextlib.contextmanager
    def reading(self, seq: int, what: str) -> Iterator[None]:
        """Read values of a record; an error says which one it is."""
        try:
            yield
        except (BadTextError, msgspec.DecodeError, LookupError, ValueError, TypeError, AttributeError) as error:
            raise self._damaged(seq, what, error) from error

    def _damaged(self, seq: int, what: str, error: Exception) -> CorruptSessionError:
        says = error.says if isinstance(error, BadTextError) else CorruptSessionError
        return self._lines.corrupt(seq, f"{what} cannot be read: {error}", says)

    def _config(self, ns: str, checkpoint_id: str) -> RunnableConfig:
        return {
            "configurable": {
                "thread_id": self._identity.thread_id,
                "checkpoint_ns": ns,
                "checkpoint_id": checkpoint_id,
            }
        }
