"""msgspec or orjson, on what a log is really made of.

orjson is the faster parser of a whole document. But a session is opened by reading records of which most
values are never asked for: msgspec decodes a line into its type, checks it on the way, and leaves those
values (`msgspec.Raw`) the bytes they are. That is why the package uses msgspec.
"""

from __future__ import annotations

import tempfile
import timeit
from statistics import median
from typing import TYPE_CHECKING, Any

import msgspec
import orjson
import workload

from langgraph_jsonl_checkpoint import JsonlSaver
from langgraph_jsonl_checkpoint.log import records

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


def lines() -> dict[str, bytes]:
    """The last line of each record type, in the log of a chat of 70 supersteps."""
    with tempfile.TemporaryDirectory() as folder, JsonlSaver(folder) as saver:
        workload.Chat(saver).say(10)
        text = workload.text(saver.path("bench"))
    return {msgspec.json.decode(line)["type"]: line for line in text.splitlines()}


def microseconds(call: Callable[[], Any]) -> float:
    """The median of seven runs of at least 20 ms each."""
    timer = timeit.Timer(call)
    once = max(timer.timeit(1), 1e-7)
    runs = max(1, int(0.02 / once))
    return 1e6 * median(timer.repeat(7, runs)) / runs


def tables(*, quick: bool) -> Iterator[tuple[str, list[dict[str, Any]]]]:  # noqa: ARG001 - it takes seconds
    """Each library in its own best form, on the same bytes."""
    log = lines()
    text = "".join(chunk for chunk, _ in zip(workload.texts(), range(5000), strict=False))
    values = {
        "a message": msgspec.json.decode(log["message"])["message"],
        "a checkpoint record": msgspec.json.decode(log["checkpoint"]),
        "a string of 5 MB": text,
    }
    decode, encode = msgspec.json.Decoder().decode, msgspec.json.Encoder().encode
    rows = []
    for name, value in values.items():
        data = encode(value)
        if orjson.loads(data) != value or decode(orjson.dumps(value)) != value:
            raise AssertionError(name)
        for what, theirs, ours in (
            ("encode", lambda v=value: orjson.dumps(v), lambda v=value: encode(v)),
            ("decode", lambda d=data: orjson.loads(d), lambda d=data: decode(d)),
        ):
            rows.append(_row(name, what, len(data), theirs, ours))
    for kind in ("message", "checkpoint"):
        data = log[kind]
        rows.append(
            _row(
                f"a {kind} line",
                "open a log",
                len(data),
                lambda d=data: orjson.loads(d),
                lambda d=data, k=kind: records.parse(k, d),
            )
        )
    yield "JSON libraries (medians, µs)", rows


def _row(name: str, what: str, size: int, theirs: Callable[[], Any], ours: Callable[[], Any]) -> dict[str, Any]:
    orjson_takes, msgspec_takes = microseconds(theirs), microseconds(ours)
    return {
        "payload": name,
        "bytes": size,
        "": what,
        "orjson": orjson_takes,
        "msgspec": msgspec_takes,
        "msgspec / orjson": msgspec_takes / orjson_takes,
    }
