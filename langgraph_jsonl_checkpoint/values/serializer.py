"""LangGraph's serializer with this package's types: a tuple comes back as a tuple, NaN as NaN."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import msgspec
import ormsgpack
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

from langgraph_jsonl_checkpoint.log import records
from langgraph_jsonl_checkpoint.log.journal import Line
from langgraph_jsonl_checkpoint.log.lines import Lines
from langgraph_jsonl_checkpoint.values.book import Book
from langgraph_jsonl_checkpoint.values.expected import EXPECTED
from langgraph_jsonl_checkpoint.values.freeze import Freezer
from langgraph_jsonl_checkpoint.values.known import Known
from langgraph_jsonl_checkpoint.values.numbers import no_numbers
from langgraph_jsonl_checkpoint.values.page import Page
from langgraph_jsonl_checkpoint.values.seal import Serde
from langgraph_jsonl_checkpoint.values.thaw import Thawer

if TYPE_CHECKING:
    from collections.abc import Iterable

_KIND = "jsonl"
_CONSTRUCTORS = range(6)  # the extensions of JsonPlusSerializer's msgpack that name a class


class _Stored(msgspec.Struct):
    """A log in small: what is numbered, in order, and the value that refers to it."""

    messages: list[records.Message]
    values: list[records.Value]
    value: msgspec.Raw


class TypedSerializer(JsonPlusSerializer):
    """The default serde of a saver: what a saver reads back equals what its serde reads back.

    What this package's codec does not know is stored as `JsonPlusSerializer` does it, and comes back as in its strict
    mode: stored bytes may name any class, and only one that this process expects is imported and called. Those are
    LangGraph's list of safe ones, the classes in the schemas of graphs that were compiled here, those of
    `with_allowlist` and `allowed_msgpack_modules`, and those of values that were stored here. Of any other class the
    payload comes back, a dict mostly, and a warning names it.

    Args:
        **options: As for `JsonPlusSerializer`; `allowed_msgpack_modules=True` allows every class.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(**{"allowed_msgpack_modules": None, **options})
        self._is_strict = options.get("allowed_msgpack_modules") is not True
        self._strict: tuple[int, JsonPlusSerializer] = (0, self)

    def with_msgpack_allowlist(self, extra_allowlist: Iterable[tuple[str, ...] | type]) -> Self:
        """This serializer, which expects these classes from now on, as every other one in the process does."""
        if self._is_strict:
            EXPECTED.update((t.__module__, t.__name__) if isinstance(t, type) else t for t in extra_allowlist)
        return self

    def dumps_typed(self, obj: Any) -> tuple[str, bytes]:
        """An object as a type and bytes."""
        kind, data = "", b""

        def leaf(value: Any) -> Any:
            nonlocal kind, data
            if value is obj:
                kind, data = super(TypedSerializer, self).dumps_typed(value)
                if kind == "msgpack" and self._is_strict:
                    _expect(data)
                return None
            return Serde(self, "", seals=False).tree(value)

        part = Freezer(Known(), leaf).freeze(obj)[0]
        if kind:
            return kind, data
        page = Page(Book(Lines("")), None)
        value = page.text(part)
        messages = [r for r in page.records if isinstance(r, records.Message)]
        values = [r for r in page.records if isinstance(r, records.Value)]
        return _KIND, msgspec.json.encode(_Stored(messages, values, value))

    def loads_typed(self, data: tuple[str, bytes]) -> Any:
        """The object of a type and bytes, whichever of the two serializers made them."""
        if data[0] != _KIND:
            return JsonPlusSerializer.loads_typed(self._reader(), data)
        stored = msgspec.json.decode(data[1], type=_Stored)
        items: list[records.Message | records.Value] = [*stored.messages, *stored.values]
        lines, numbers = Lines(""), no_numbers()
        for seq, record in enumerate(sorted(items, key=lambda r: r.n)):
            kind, text = records.type_of(record), records.line(seq, "", record)
            lines.add([Line(kind, text)], [])
            numbers.apply(kind, text, seq)
        return Thawer(Book(lines, numbers), Serde(self, "", seals=False)).value(stored.value)

    def _reader(self) -> JsonPlusSerializer:
        """This serializer with all classes allowed that are expected by now."""
        count, reader = self._strict
        if self._is_strict and count != len(EXPECTED):
            expected = tuple(EXPECTED)
            reader = super().with_msgpack_allowlist(expected)
            self._strict = len(expected), reader
        return reader


def _expect(data: bytes) -> None:
    """Expect the classes that stored bytes name: whoever stored an object of a class has the class."""

    def look(code: int, content: bytes) -> None:
        if code in _CONSTRUCTORS:
            module, name, *_ = ormsgpack.unpackb(content, ext_hook=look, option=ormsgpack.OPT_NON_STR_KEYS)
            EXPECTED.add((module, name))

    ormsgpack.unpackb(data, ext_hook=look, option=ormsgpack.OPT_NON_STR_KEYS)
