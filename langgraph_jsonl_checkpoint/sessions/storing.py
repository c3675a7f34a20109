"""The two calls that store: what `put` and `put_writes` were given, frozen before anything waits.

A call object is made in the caller's thread, which may be an event loop's, so that takes no lock and touches no disk.
The thread that appends asks it for its records later.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from uuid import UUID

import msgspec
from langgraph.checkpoint.base import get_checkpoint_metadata

from langgraph_jsonl_checkpoint.errors import ValueEncodingError
from langgraph_jsonl_checkpoint.log import records
from langgraph_jsonl_checkpoint.upstream import channels, tasks
from langgraph_jsonl_checkpoint.values.freeze import Freezer
from langgraph_jsonl_checkpoint.values.shadows import Shadow

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from langchain_core.runnables import RunnableConfig

    from langgraph_jsonl_checkpoint.sessions.session import Session
    from langgraph_jsonl_checkpoint.values.page import Page
    from langgraph_jsonl_checkpoint.values.seal import Serde

_TOLD = ("id", "channel_values", "channel_versions", "versions_seen")


class PutCall:
    """A call of `put`.

    Attributes:
        serde: The serde of its thread.
        ns: Its namespace.
        id: Its id.
        ends_run: Whether nothing is left to do behind it.
        is_update: Whether somebody changed the state by hand (`update_state`).
    """

    def __init__(
        self,
        session: Session,
        serde: Serde,
        config: RunnableConfig,
        checkpoint: Mapping[str, Any],
        metadata: Mapping[str, Any],
        changed: Sequence[str],
    ) -> None:
        configurable = config["configurable"]
        self.serde = serde
        self.ns: str = configurable.get("checkpoint_ns", "")
        self.id = id_text(checkpoint["id"], "checkpoint's id")
        parent = configurable.get("checkpoint_id")
        self._parent = parent and id_text(parent, "parent's id")
        try:
            self._changed = [str.__str__(c) for c in changed]
            self._next = channels.next_nodes(checkpoint)
        except (TypeError, AttributeError):
            _check_names(checkpoint)
            raise
        told: dict[str, Any] = {**get_checkpoint_metadata(config, metadata)}  # type: ignore[arg-type]
        # The state transition stands in the clear, also where metadata is sealed.
        self._step = told.pop("step") if type(told.get("step")) is int else None
        self._source = told.pop("source") if type(told.get("source")) is str else None
        rest = {k: v for k, v in checkpoint.items() if k not in _TOLD}
        self._created = rest.pop("ts") if type(rest.get("ts")) is str else msgspec.UNSET
        self._v = rest.pop("v") if type(rest.get("v")) is int else msgspec.UNSET
        self._updated = rest.pop("updated_channels") if _is_names(rest.get("updated_channels", 0)) else msgspec.UNSET

        applied = self.ns == "" and (self._source == "input" or tasks.is_stored_at_exit(configurable))
        self._input = configurable.get("input_id") if applied else None

        freezer = Freezer(session.shadows.known, serde.tree)
        before = session.shadows.of(self.ns)
        self._shadow = Shadow(
            self._fields(freezer, "channel", checkpoint.get("channel_values", {}), before.channels),
            self._fields(freezer, "version", checkpoint.get("channel_versions", {}), before.versions),
            self._fields(freezer, "version seen", checkpoint.get("versions_seen", {}), before.seen),
        )
        # Metadata is JSON in every saver, so its tuples come back as lists.
        self._metadata = self._fields(freezer, "metadata", told, look=_listed)
        self._extra = self._fields(freezer, "field", rest) if rest else None
        self.is_update = self._source == "update"
        self.ends_run = (
            self.ns == "" and self._source == "loop" and not self._next and channels.is_compiled(checkpoint)
        )

    def _fields(
        self,
        freezer: Freezer,
        name: str,
        values: Mapping[str, Any],
        before: Any = None,
        *,
        look: Callable[[Any], Any] = lambda value: value,
    ) -> Any:
        """Some of the checkpoint's fields, frozen; `look` prepares their values."""
        try:
            return freezer.fields(look(values), before)
        except Exception:
            # Find out which value it is, for the error.
            for key, value in values.items():
                what = f"{name} of checkpoint {self.id!r}, key {key!r},"
                _named(lambda value: freezer.freeze(look(value)), value, what)
            raise

    def records(self, page: Page) -> list[records.Record]:
        """The call's records."""
        checkpoint = records.Checkpoint(
            ns=self.ns,
            id=self.id,
            parent=self._parent,
            step=self._step,
            source=self._source,
            next=self._next,
            changed=self._changed,
            created=self._created,
            v=self._v,
            channels=page.text(self._shadow.channels),
            versions=page.text(self._shadow.versions),
            seen=page.text(self._shadow.seen),
            updated=self._updated,
            input=None if self._input is None else str(self._input),
            metadata=page.text(self._metadata),
            extra=page.text(self._extra) if self._extra is not None else records.NO_TEXT,
        )
        if not self.ends_run:
            return [checkpoint]
        return [checkpoint, records.Terminal(ns="", checkpoint=self.id, reason="completed")]

    def done(self, session: Session) -> None:
        """The checkpoint is stored: from now on the next one of its namespace is compared with it."""
        session.shadows.cast(self.ns, self._shadow)
        if self.ends_run:
            session.shadows.release()


class WritesCall:
    """A call of `put_writes`.

    Attributes:
        serde: The serde of its thread.
        ns: The namespace of the checkpoint.
        checkpoint_id: The checkpoint whose task it is.
        ends_run: Whether the writes say that the run stops here: with an error, or to ask a human.
    """

    def __init__(
        self,
        session: Session,
        serde: Serde,
        config: RunnableConfig,
        writes: Sequence[tuple[str, Any]],
        task_id: str,
        task_path: str,
    ) -> None:
        configurable = config["configurable"]
        self.serde = serde
        self.ns: str = configurable.get("checkpoint_ns", "")
        self.checkpoint_id = id_text(configurable["checkpoint_id"], "checkpoint's id")
        self._task, self._path = id_text(task_id, "task's id"), task_path
        self._writes: list[tuple[int, str, Any]] = []
        freezer = Freezer(session.shadows.known, serde.tree)
        before = getattr(session.shadows.of(self.ns).channels, "parts", {})
        for i, (channel, value) in enumerate(writes):
            what = f"write to {channel!r} of task {task_id!r}"
            part, _, _ = _named(freezer.freeze, value, what, before.get(channel))
            self._writes.append((channels.index_of(channel, i), channel, part))
        self._reason, self._error = None, None
        if self.ns == "":
            self._reason, self._error = channels.end_of_run([(c, p) for _, c, p in self._writes])
        self.ends_run = self._reason is not None

    def is_stored(self, session: Session) -> bool:
        """Whether all of it is stored already, so that storing it again would change nothing."""
        has = session.checkpoints.has_write
        return all(has(self.ns, self.checkpoint_id, self._task, index) for index, _, _ in self._writes)

    def records(self, page: Page, ended: records.Terminal | None) -> list[records.Record]:
        """The call's records; `ended` is how the run ended so far."""
        writes = records.Writes(
            ns=self.ns,
            checkpoint=self.checkpoint_id,
            task=self._task,
            path=self._path,
            writes=[(index, channel, page.text(part)) for index, channel, part in self._writes],
        )
        if self._reason is None:
            return [writes]
        answered = any(index == channels.RESUME_INDEX for index, _, _ in self._writes)  # so the run had gone on
        if (
            ended is not None
            and not answered
            and (ended.checkpoint, ended.reason) == (self.checkpoint_id, self._reason)
        ):
            return [writes]  # several tasks interrupt: one end
        error = page.text(self._error) if self._error is not None else records.NO_TEXT
        return [writes, records.Terminal(ns="", checkpoint=self.checkpoint_id, reason=self._reason, error=error)]


def id_text(value: Any, what: str) -> str:
    """An id as it is stored, and told to others.

    Raises:
        ValueEncodingError: It is neither a string nor a UUID.
    """
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, UUID):
        return str(value)
    raise ValueEncodingError(f"a {what} is a string or a UUID, not {value!r:.100}; nothing was stored")


def _check_names(checkpoint: Mapping[str, Any]) -> None:
    """Raise an error that says which of a checkpoint's fields is no dict, or has a key that is no string.

    Raises:
        ValueEncodingError: One of them is so.
    """
    told = {name: checkpoint.get(name, {}) for name in ("channel_values", "channel_versions", "versions_seen")}
    if isinstance(told["versions_seen"], Mapping):
        told |= {f"versions_seen of {node!r}": seen for node, seen in told["versions_seen"].items()}
    for name, fields in told.items():
        if not isinstance(fields, Mapping):
            raise ValueEncodingError(f"{name} is a dict, not {fields!r:.100}; nothing was stored")
        for key in fields:
            if not isinstance(key, str):
                raise ValueEncodingError(f"{name} has the key {key!r:.100}, which is no string; nothing was stored")


def _named(store: Callable[..., Any], value: Any, what: str, *more: Any) -> Any:
    """What `store` makes of a value; if it cannot, an error that names the value's place."""
    try:
        return store(value, *more)
    except RecursionError:
        raise ValueEncodingError(
            f"{what} holds a value that is nested too deeply or contains itself; nothing was stored"
        ) from None
    except Exception as error:
        raise ValueEncodingError(
            f"{what} holds a {type(value).__name__} that cannot be stored ({type(error).__name__}: {error}); nothing "
            "was stored. Store a plain value, or give the saver a serde that can dump it."
        ) from error


def _listed(value: Any) -> Any:
    if type(value) is dict:
        return {k: _listed(v) for k, v in value.items()}
    return [_listed(v) for v in value] if type(value) in (list, tuple) else value


def _is_names(value: Any) -> bool:
    return value is None or type(value) is list and {str}.issuperset(map(type, value))
