"""Values that no writer writes: each is a clear error, or a plain value, in bounded time and memory."""

from __future__ import annotations

import contextlib
import json
import sys
import time
from typing import TYPE_CHECKING, Any

import ormsgpack
import pytest

from hostile.forger import ID, Record, b64, checkpoint, forge, frame, message, raw, value
from langgraph_jsonl_checkpoint import CorruptSessionError, JsonlSaver
from langgraph_jsonl_checkpoint.values import thaw

if TYPE_CHECKING:
    from pathlib import Path

    from langchain_core.runnables import RunnableConfig

CONFIG: RunnableConfig = {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}
SECONDS = 10  # a bound, not what it takes
AT_ONCE = 6  # on a loaded machine


def forged(code: int, *content: Any) -> dict[str, Any]:
    """A `$serde` tag with a msgpack extension."""
    return {"$serde": ["msgpack", b64(ormsgpack.packb(ormsgpack.Ext(code, ormsgpack.packb(content))))]}


def numpy(*payload: Any) -> dict[str, Any]:
    """An array, or what says that it is one."""
    return {"$numpy": list(payload)}


def laughs(text: Any, build: Any, levels: int) -> list[Record]:
    """Values of which each holds the one before, several times."""
    return [value(0, text), *(value(n, build(n - 1)) for n in range(1, levels))]


_MERSENNE = 2**61 - 1  # multiples of it have the hash 0 in Python
ALIKE = [{"$int": f"{_MERSENNE * n:x}"} for n in range(1, 5001)]
JSON = json.dumps(
    {
        "lc": 1,
        "type": "constructor",
        "id": ["langchain", "schema", "messages", "HumanMessage"],
        "kwargs": {"content": "x"},
    }
)
NESTED_DTYPE = json.loads('[["a",' * 300 + '"<i8"' + "]]" * 300)

REFUSED: dict[str, list[Record]] = {
    # References.
    "absurd range": [value(0, 1), checkpoint({"$list": [[0, 10**18]]})],
    "absurd range in a dict": [value(0, ["k", 1]), checkpoint({"$map": [[0, 10**18]]})],
    "range beyond 64 bits": [value(0, 1), checkpoint({"$list": [[0, 10**30]]})],
    "range before all": [value(0, 1), checkpoint({"$list": [[-1, 0]]})],
    "range backwards": [value(0, 1), value(1, 1), checkpoint({"$list": [[1, 0]]})],
    "range over a gap": [value(0, 1), value(10**18, 1), checkpoint({"$list": [[0, 10**12]]})],
    "range of a dict over a gap": [value(0, ["k", 1]), value(10**18, 1), checkpoint({"$map": [[0, 10**12]]})],
    "range that is none": [checkpoint({"$list": 5})],
    "range of texts": [checkpoint({"$list": ["abc"]})],
    "range of fractions": [value(0, 1), checkpoint({"$list": [[0.5, 1]]})],
    "reference to itself": [value(0, {"$ref": 0}), checkpoint({"$ref": 0})],
    "reference forward": [value(0, {"$ref": 1}), value(1, 1), checkpoint({"$ref": 0})],
    "reference to nothing": [value(0, 1), checkpoint({"$ref": 5})],
    "reference below zero": [value(0, 1), checkpoint({"$ref": -1})],
    "reference by text": [value(0, 1), checkpoint({"$ref": "a"})],
    "list in itself": [value(0, {"$list": [[0, 0]]}), checkpoint({"$ref": 0})],
    "dict in itself": [value(0, ["k", {"$map": [[0, 0]]}]), checkpoint({"$map": [[0, 0]]})],
    "stem that is itself": [value(0, {"$list": [0]}), checkpoint({"$list": [0]})],
    "stems in a circle": [value(0, {"$list": [1]}, {"$list": [0]}), checkpoint({"$list": [1]})],
    "stem forward": [value(0, {"$list": [1]}, {"$list": [[0, 0]]}), checkpoint({"$list": [0]})],
    "stem that is none": [value(0, "text"), checkpoint({"$list": [0]})],
    "stem that is a message": [message(0), checkpoint({"$list": [0]})],
    "message like itself": [message(0, like={"$ref": 0}, id="1"), checkpoint({"$ref": 0})],
    "message like a later one": [message(0, like={"$ref": 1}, id="1"), message(1), checkpoint({"$ref": 0})],
    "message like a value": [value(0, 1), message(1, like={"$ref": 0}, id="1"), checkpoint({"$ref": 1})],
    "dict of messages": [message(0), checkpoint({"$map": [[0, 0]]})],
    "dict entry that is none": [value(0, {"a": 1}), checkpoint({"$map": [[0, 0]]})],
    # More than any memory holds.
    "references to references": [*laughs("x" * 100, lambda n: [{"$ref": n}] * 2, 60), checkpoint({"$ref": 59})],
    "lists of lists": [*laughs(1, lambda n: {"$list": [[n, n]] * 10}, 30), checkpoint({"$ref": 29})],
    "stems of stems": [
        value(0, 1),
        value(1, {"$list": [[0, 0]] * 2}),
        *(value(n, {"$list": [n - 1, n - 1]}) for n in range(2, 60)),
        checkpoint({"$list": [59]}),
    ],
    "one list many times": [value(0, *["x" * 10] * 5000), checkpoint({"$list": [[0, 4999]] * 500})],
    "overlapping lists": [
        value(0, *["x" * 10] * 5000),
        checkpoint({"$list": [[n, 4999 - n] for n in range(2500)]}),
    ],
    "one dict many times": [value(0, *[["k", 1]] * 5000), checkpoint({"$map": [[0, 4999]] * 500})],
    "one text many times": [value(0, "x" * 10**6), checkpoint({"$list": [[0, 0]] * 500})],
    "laughs in a serde's bytes": [
        checkpoint(
            {
                "$serde": [
                    "jsonl",
                    b64(
                        json.dumps(
                            {
                                "messages": [],
                                "values": [f for _, f in laughs(1, lambda n: [{"$ref": n}] * 2, 60)],
                                "value": {"$ref": 59},
                            }
                        ).encode()
                    ),
                ]
            }
        )
    ],
    # Depth.
    "nested lists": [raw(b"[" * 100_000 + b"]" * 100_000)],
    "nested dicts": [raw(b'{"a":' * 100_000 + b"1" + b"}" * 100_000)],
    "nested tags": [raw(b'{"$tuple":[' * 5000 + b"]}" * 5000)],
    "nested references": [
        value(0, 1),
        *(value(n, {"$ref": n - 1}) for n in range(1, 3000)),
        checkpoint({"$ref": 2999}),
    ],
    "messages like each other": [
        message(0),
        *(message(n, like={"$ref": n - 1}) for n in range(1, 3000)),
        checkpoint({"$ref": 2999}),
    ],
    # Numbers.
    "infinite number": [raw(b"1e999999999")],
    "int that is none": [checkpoint({"$int": "z"})],
    "int of an int": [checkpoint({"$int": 5})],
    "fraction of a text": [checkpoint({"$fraction": ["1e100000000", 1]})],
    "fraction by zero": [checkpoint({"$fraction": [1, 0]})],
    "fraction to reduce": [checkpoint({"$fraction": [{"$int": "f" * 10**6}, {"$int": "e" * (10**6 + 1)}]})],
    "range by zero": [checkpoint({"$range": [0, 10, 0]})],
    "decimal that is none": [checkpoint({"$decimal": "one"})],
    "complex of texts": [checkpoint({"$complex": ["1", 2]})],
    "keys with one hash": [checkpoint({"$dict": [[each, 1] for each in ALIKE]})],
    "set with one hash": [checkpoint({"$set": ALIKE})],
    "counter with one hash": [checkpoint({"$counter": [[each, 1] for each in ALIKE]})],
    "timedelta": [checkpoint({"$timedelta": [10**12, 0, 0]})],
    "timezone": [checkpoint({"$timezone": ["x"]})],
    "date": [checkpoint({"$date": "x"})],
    # Arrays.
    "array of objects": [checkpoint(numpy("|O", [1], "C", b64(b"x" * 8)))],
    "array with a field of objects": [checkpoint(numpy([["a", "|O"]], [1], "C", b64(b"x" * 8)))],
    "array with a huge shape": [checkpoint(numpy("<i8", [10**9, 10**9], "C", ""))],
    "array of a huge void": [checkpoint(numpy("|V2000000000", [1], "C", ""))],
    "array of nothing": [checkpoint(numpy("|V0", [5], "C", ""))],
    "array of huge arrays": [checkpoint(numpy([["a", "<i8", [10**9]]], [1], "C", b64(b"x" * 8)))],
    "array of an endless type": [checkpoint(numpy("i8," * 100_000, [1], "C", b64(b"x" * 8)))],
    "array of a deep type": [checkpoint(numpy(NESTED_DTYPE, [1], "C", b64(b"x" * 8)))],
    "scalar without bytes": [checkpoint(numpy("<i8", None, "C", ""))],
    # Other tags.
    "unknown tag": [checkpoint({"$object": ["os", "system", "x"]})],
    "set of lists": [checkpoint({"$set": [[1]]})],
    "deque below zero": [checkpoint({"$deque": [[1], -1]})],
    "deque without end": [checkpoint({"$deque": [[1], 10**30]})],
    "zone outside": [checkpoint({"$zone": "../../../../etc/passwd"})],
    "zone of a device": [checkpoint({"$zone": "/dev/zero"})],
    "factory": [checkpoint({"$defaultdict": ["eval", []]})],
    "path class": [checkpoint({"$path": ["os", "x"]})],
    "regex that is deep": [checkpoint({"$regex": ["(" * 5000 + ")" * 5000, 0]})],
    "bytes that are none": [checkpoint({"$bytes": "!!"})],
    "send": [checkpoint({"$send": 5})],
    "interrupt": [checkpoint({"$interrupt": 5})],
    "message class": [message(0, **{"class": "touch", "x": 1}), checkpoint({"$ref": 0})],
    "message of a list": [message(0, **{"class": ["AIMessage"], "x": 1}), checkpoint({"$ref": 0})],
    "message without class": [message(0, x=1, y=2), checkpoint({"$ref": 0})],
    # The serde's bytes.
    "pickle": [checkpoint({"$serde": ["pickle", b64(b"cbuiltins\nprint\n(S'x'\ntR.")]})],
    "LangChain's JSON": [checkpoint({"$serde": ["json", b64(JSON.encode())]})],
    "serde that is none": [checkpoint({"$serde": 5})],
    "sealed without a seal": [raw(b'{"$sealed":["x","eA=="]}')],
}

HARMLESS: dict[str, list[Record]] = {
    "long int": [checkpoint({"$int": "f" * 10**6})],
    "long float": [checkpoint({"$float": "9" * 10**6})],
    "long decimal": [checkpoint({"$decimal": "9" * 10**6})],
    "decimal with a huge exponent": [checkpoint({"$decimal": "1e999999999"})],
    "long number": [raw(b"9" * 4000 + b"e-3999")],
    "huge range": [checkpoint({"$range": [0, 10**18, 1]})],
    "regex that backtracks": [checkpoint({"$regex": ["(a+)+$", 32]})],
    "regex that repeats": [checkpoint({"$regex": ["(?:(?:a{0,1000}){0,1000}){0,1000}", 0]})],
    "regex of many words": [checkpoint({"$regex": ["|".join(f"a{n}" for n in range(10_000)), 0]})],
    "regex that prints": [checkpoint({"$regex": ["a+", 128]})],
    "array without elements": [checkpoint(numpy("<i8", [10**15, 0], "C", ""))],
    "nested 400 deep": [raw(b"[" * 400 + b"]" * 400)],
    "message with odd fields": [
        message(0, **{"class": "AIMessage", "content": 5, "tool_calls": 5, "__class__": "x", "__dict__": 5}),
        checkpoint({"$ref": 0}),
    ],
    "class of a module that is not loaded": [checkpoint(forged(0, "antigravity", "x", "payload"))],
    "class with arguments": [checkpoint(forged(1, "this", "s", ["payload"]))],
    "class with keywords": [checkpoint(forged(2, "subprocess", "Popen", {"args": "payload"}))],
    "method": [checkpoint(forged(3, "os", "path", "payload", "exists"))],
    "pydantic v1": [checkpoint(forged(4, "antigravity", "x", {"a": "payload"}))],
    "pydantic v2": [checkpoint(forged(5, "antigravity", "x", {"a": "payload"}, "model_validate_json"))],
    "builtin": [checkpoint(forged(0, "builtins", "eval", "payload"))],
}


@pytest.fixture(autouse=True)
def _small(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """The bound of what may repeat is seconds' worth; a smaller one tests it as well."""
    if "real" not in request.node.name:
        monkeypatch.setattr(thaw, "_REPEATED", 1 << 26)


@pytest.mark.parametrize("records", [pytest.param(r, id=name) for name, r in REFUSED.items()])
def test_a_value_that_no_writer_writes_is_an_error_that_says_where(tmp_path: Path, records: list[Record]) -> None:
    """By each reader, at once; other threads are listed."""
    with JsonlSaver(tmp_path) as saver:
        path = saver.path("t")
    forge(path, records)
    begin = time.perf_counter()
    with JsonlSaver(tmp_path) as saver:
        _is_refused(lambda: saver.get_tuple(CONFIG), path, len(records))
        _is_refused(lambda: list(saver.list(CONFIG)), path, len(records))
        assert list(saver.list(None)) == []
        assert [info.thread_id for info in saver.sessions()] == ["t"]
        assert saver.verify("t").problems
        for use in (lambda: saver.resume_state("t"), lambda: saver.prune(["t"]), lambda: _write(saver)):
            with contextlib.suppress(CorruptSessionError):  # it is the record's own matter, or stands in the way
                use()
        _is_refused(lambda: saver.get_tuple(CONFIG), path, len(records))
    assert time.perf_counter() - begin < SECONDS


def _write(saver: JsonlSaver) -> None:
    saver.put_writes({"configurable": {**CONFIG["configurable"], "checkpoint_id": ID}}, [("a", ["b"])], "task")


def _is_refused(read: Any, path: Path, last: int) -> None:
    begin = time.perf_counter()
    with pytest.raises(CorruptSessionError) as refusal:
        read()
    assert time.perf_counter() - begin < AT_ONCE
    error = refusal.value
    assert (error.path, error.offset, error.seq) == (str(path), len(frame_of_header(path)), last)
    assert error.reason


def frame_of_header(path: Path) -> bytes:
    """The first frame of a log, whose length is where the second begins."""
    data = path.read_bytes()
    begin = data.index(frame(b"")[:4], 4)
    return data[:begin]


@pytest.mark.parametrize("records", [pytest.param(r, id=name) for name, r in HARMLESS.items()])
def test_a_strange_value_is_a_value_at_once(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], records: list[Record]
) -> None:
    """What costs no more than its text is read; a class that nobody expects is its payload, and is not imported."""
    with JsonlSaver(tmp_path) as saver:
        forge(saver.path("t"), records)
    before, begin = set(sys.modules), time.perf_counter()
    with JsonlSaver(tmp_path) as saver:
        found = saver.get_tuple(CONFIG).checkpoint["channel_values"]["v"]
        _write(saver)
        assert saver.get_tuple(CONFIG).pending_writes == [("task", "a", ["b"])]
    assert time.perf_counter() - begin < SECONDS
    assert not {"antigravity", "this"} & (set(sys.modules) - before)
    assert not hasattr(found, "pid")
    assert capfd.readouterr().out == ""


def test_the_real_bound_of_what_may_repeat_takes_seconds(tmp_path: Path) -> None:
    """A value that stands for 2**60 others is refused as soon as it is more than a memory holds."""
    with JsonlSaver(tmp_path) as saver:
        forge(saver.path("t"), REFUSED["references to references"])
        begin = time.perf_counter()
        with pytest.raises(CorruptSessionError, match="references repeat more than"):
            saver.get_tuple(CONFIG)
        assert time.perf_counter() - begin < 60


def test_what_a_program_repeats_is_read(tmp_path: Path) -> None:
    """The bound is far from what states hold: 20 sends of one state of 1,000 messages, one text at 1,000 places."""
    messages = [{"class": "HumanMessage", "content": "x" * 500, "id": str(n)} for n in range(1000)]
    numbered = [message(n, **fields) for n, fields in enumerate(messages)]
    send = {"$send": ["node", {"messages": {"$list": [[0, 999]]}}]}
    with JsonlSaver(tmp_path) as saver:
        text = value(1000, "y" * 10_000)
        forge(saver.path("t"), [*numbered, text, checkpoint([[send] * 20, {"$list": [[1000, 1000]] * 1000}])])
        sends, texts = saver.get_tuple(CONFIG).checkpoint["channel_values"]["v"]
    assert len(sends) == 20
    assert all(len(each.arg["messages"]) == 1000 for each in sends)
    assert texts == ["y" * 10_000] * 1000


def test_a_list_that_goes_on_in_many_places_is_read(tmp_path: Path) -> None:
    """A chain of 3,000 stems, as 100,000 scattered elements make it, needs no stack."""
    stems = [value(1, {"$list": [[0, 0]]}), *(value(n, {"$list": [n - 1, [0, 0]]}) for n in range(2, 3000))]
    with JsonlSaver(tmp_path) as saver:
        forge(saver.path("t"), [value(0, 7), *stems, checkpoint({"$list": [2999]})])
        assert saver.get_tuple(CONFIG).checkpoint["channel_values"]["v"] == [7] * 2999
