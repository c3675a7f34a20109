"""LangGraph's serializer with this package's types: a tuple comes back as a tuple, NaN as NaN."""

from __future__ import annotations

from typing import Any

import msgspec
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

from langgraph_jsonl_checkpoint.log import records
from langgraph_jsonl_checkpoint.log.journal import Line
from langgraph_jsonl_checkpoint.log.lines import Lines
from langgraph_jsonl_checkpoint.values.book import Book
from langgraph_jsonl_checkpoint.values.freeze import Freezer
from langgraph_jsonl_checkpoint.values.known import Known
from langgraph_jsonl_checkpoint.values.numbers import no_numbers
from langgraph_jsonl_checkpoint.values.seal import Serde
from langgraph_jsonl_checkpoint.values.thaw import Thawer

_KIND = "jsonl"


class _Stored(msgspec.Struct):
    """A log in small: what is numbered, in order, and the value that refers to it."""

    messages: list[records.Message]
    values: list[records.Value]
    value: msgspec.Raw


class TypedSerializer(JsonPlusSerializer):
    """The default serde of a saver: what a saver reads back equals what its serde reads back.

    What this package's codec does not know is stored as `JsonPlusSerializer` does it, and comes back under the
    same rules.
    """

    def dumps_typed(self, obj: Any) -> tuple[str, bytes]:
        """An object as a type and bytes."""
        kind, data = "", b""

        def leaf(value: Any) -> Any:
            nonlocal kind, data
            if value is obj:
                kind, data = super(TypedSerializer, self).dumps_typed(value)
                return None
            return Serde(self, "", seals=False).tree(value)

        part = Freezer(Known(), leaf).freeze(obj)[0]
        if kind:
            return kind, data
        page = Book(Lines("")).page(None)
        value = page.text(part)
        messages = [r for r in page.records if isinstance(r, records.Message)]
        values = [r for r in page.records if isinstance(r, records.Value)]
        return _KIND, msgspec.json.encode(_Stored(messages, values, value))

    def loads_typed(self, data: tuple[str, bytes]) -> Any:
        """The object of a type and bytes, whichever of the two serializers made them."""
        if data[0] != _KIND:
            return super().loads_typed(data)
        stored = msgspec.json.decode(data[1], type=_Stored)
        items: list[records.Message | records.Value] = [*stored.messages, *stored.values]
        lines, numbers = Lines(""), no_numbers()
        for seq, record in enumerate(sorted(items, key=lambda r: r.n)):
            kind, text = records.type_of(record), records.line(seq, "", record)
            lines.add([Line(kind, text)], [])
            numbers.apply(kind, text, seq)
        return Thawer(Book(lines, numbers), Serde(self, "", seals=False)).value(stored.value)
