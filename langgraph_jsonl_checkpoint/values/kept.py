"""Messages that were read before: they are built again from their fields, without looking at the log's lines."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from langgraph_jsonl_checkpoint.values import messages
from langgraph_jsonl_checkpoint.values.copies import EMPTY, LEAVES

if TYPE_CHECKING:
    from langchain_core.messages import BaseMessage

_MOST = 8192  # messages that are kept
_SHORT = 4096  # bytes of a message's line up to which it is kept: a longer one is mostly text, and not worth it


class _Fields(NamedTuple):
    """What a message was read as: its class, its fields, those that are containers as JSON, and which were given.

    Whoever gets a message may change it. So messages share strings and numbers only, and each gets containers of its
    own: to decode them is faster than to copy them.
    """

    cls: type[BaseMessage]
    leaves: dict[str, Any]
    containers: bytes
    given: set[str]

    def message(self) -> BaseMessage:
        state = self.leaves.copy()
        state.update(msgspec.json.decode(self.containers))
        return messages.assembled(self.cls, state, {}, self.given.copy())


class Kept:
    """The messages of one generation of a session that were read more than once, by number."""

    def __init__(self) -> None:
        self._fields: dict[int, _Fields | None] = {}

    def get(self, number: int) -> BaseMessage | None:
        """The message with that number; None if it is not kept."""
        fields = self._fields.get(number)
        return None if fields is None else fields.message()

    def between(self, first: int, last: int) -> list[BaseMessage] | None:
        """The messages from number `first` to `last`; None if one of them is not kept."""
        if last - first >= len(self._fields):  # a forged range of millions is not walked through
            return None
        found = [fields for fields in map(self._fields.get, range(first, last + 1)) if fields is not None]
        return [fields.message() for fields in found] if len(found) == last + 1 - first else None

    def note(self, number: int, message: BaseMessage, line: bytes | msgspec.Raw) -> None:
        """A message was made of its line, and is not yet handed out."""
        if number not in self._fields:
            if len(self._fields) < _MOST and len(line) <= _SHORT:
                self._fields[number] = None  # most are read once
            return
        state = message.__dict__
        containers = {name: value for name, value in state.items() if type(value) not in LEAVES}
        # In a line without tags, all of them are what JSON has; in any, an empty list or dict is.
        has_tags = b"$" in bytes(line)
        if message.__pydantic_extra__ or has_tags and any(type(v) not in EMPTY or v for v in containers.values()):
            return
        leaves = {**state, **dict.fromkeys(containers)}
        text = msgspec.json.encode(containers)
        self._fields[number] = _Fields(type(message), leaves, text, set(message.__pydantic_fields_set__))
