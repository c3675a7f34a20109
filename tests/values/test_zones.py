"""Times with a zone: every one is stored, and read on a machine that knows no zones."""

from __future__ import annotations

import io
import sys
import zoneinfo
from datetime import UTC, datetime, time, timedelta, timezone, tzinfo
from typing import TYPE_CHECKING, Any

import pydantic
import pytest
from dateutil import tz
from langchain_core.messages import ToolMessage

from langgraph_jsonl_checkpoint import CorruptSessionError, SessionError, ValueEncodingError
from langgraph_jsonl_checkpoint.values import types

from .same import difference
from .samples import PARIS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .thread import Thread


class Lunch(tzinfo):
    """A user's own zone."""

    def __init__(self, offset: timedelta | None) -> None:
        self._offset = offset

    def utcoffset(self, _: datetime | None) -> timedelta | None:
        """The same all year."""
        return self._offset

    def dst(self, _: datetime | None) -> timedelta | None:
        """None is known."""
        return None


class Broken(tzinfo):
    """A zone whose offset nobody can ask for."""


@pytest.fixture
def no_zones(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A machine without zone data."""
    for name in {"tzdata", *(name for name in sys.modules if name.startswith("tzdata."))}:
        monkeypatch.setitem(sys.modules, name, None)
    before = zoneinfo.TZPATH
    zoneinfo.reset_tzpath([])
    zoneinfo.ZoneInfo.clear_cache()
    yield
    zoneinfo.reset_tzpath(before)


def keyless() -> zoneinfo.ZoneInfo:
    """A zone that was read from a file and has no name."""
    # Version 1, no transitions, one type of local time: an hour east.
    head = b"TZif" + bytes(16) + b"".join(n.to_bytes(4, "big") for n in (0, 0, 0, 0, 1, 4))
    return zoneinfo.ZoneInfo.from_file(io.BytesIO(head + (3600).to_bytes(4, "big") + b"\0\0CET\0"))


PARSE = pydantic.TypeAdapter(datetime).validate_python
FOREIGN = {
    "pydantic, UTC": (PARSE("2026-01-01T00:00:00Z"), UTC),
    "pydantic, an offset": (PARSE("2026-01-01T00:00:00+02:00"), timezone(timedelta(hours=2))),
    "pydantic, a time": (
        pydantic.TypeAdapter(time).validate_python("12:00:00+02:00"),
        timezone(timedelta(hours=2)),
    ),
    "dateutil, UTC": (datetime(2026, 1, 1, tzinfo=tz.tzutc()), UTC),
    "dateutil, an offset": (datetime(2026, 1, 1, tzinfo=tz.tzoffset("X", 3600)), timezone(timedelta(hours=1))),
    "a file's": (datetime(2026, 1, 1, tzinfo=keyless()), timezone(timedelta(hours=1))),
    "a user's": (datetime(2026, 1, 1, tzinfo=Lunch(timedelta(minutes=7))), timezone(timedelta(minutes=7))),
    "a user's, in a fold": (
        datetime(2026, 1, 1, fold=1, tzinfo=Lunch(timedelta(seconds=7))),
        timezone(timedelta(seconds=7)),
    ),
    "a user's without an offset": (datetime(2026, 1, 1, tzinfo=Lunch(None)), None),
}


@pytest.mark.parametrize(("value", "zone"), [pytest.param(*v, id=name) for name, v in FOREIGN.items()])
def test_a_zone_of_another_library_becomes_its_offset(thread: Thread, value: Any, zone: timezone | None) -> None:
    """The same moment, in a zone of the standard library; as the official serde has it."""
    held = {"channel": value, "messages": [ToolMessage("x", tool_call_id="1", artifact={"at": value})]}
    thread.step(held)
    thread.reopen()
    read = thread.values()
    want = value.replace(tzinfo=zone)
    assert difference(read["channel"], want) is None
    assert difference(read["messages"][0].artifact, {"at": want}) is None
    if zone is not None:
        assert read["channel"] == value


@pytest.mark.parametrize("value", [datetime(2026, 1, 1, tzinfo=Broken()), keyless()], ids=["broken", "no key"])
def test_a_zone_that_tells_nothing_is_refused(thread: Thread, value: Any) -> None:
    """An error that names the channel, and never a naive time or None in its place."""
    with pytest.raises(ValueEncodingError, match="my_channel"):
        thread.step({"my_channel": value})


@pytest.mark.usefixtures("no_zones")
@pytest.mark.parametrize("fold", [0, 1])
def test_without_zone_data_a_time_is_read_at_its_offset(
    thread: Thread, caplog: pytest.LogCaptureFixture, fold: int
) -> None:
    """The same moment, with a warning that names the zone; other values are what they were."""
    moment = datetime(2025, 10, 26, 2, 30, fold=fold, tzinfo=PARIS)
    thread.step({"channel": [moment], "time": time(1, 2, tzinfo=PARIS), "other": 1})
    thread.reopen()
    read = thread.values()
    want = moment.replace(tzinfo=timezone(timedelta(hours=2 - fold)))
    assert difference(read, {"channel": [want], "time": time(1, 2), "other": 1}) is None
    assert "Europe/Paris" in caplog.text


@pytest.mark.usefixtures("no_zones")
def test_without_zone_data_a_zone_is_no_damage(thread: Thread) -> None:
    """A zone by itself has no offset to be read at: the error says what to install."""
    thread.step({"channel": PARIS})
    thread.reopen()
    with pytest.raises(SessionError, match="tzdata") as refusal:
        thread.read()
    assert not isinstance(refusal.value, CorruptSessionError)


def test_a_time_that_was_stored_with_its_zone_alone_is_read() -> None:
    """What the first version wrote: the zone as a value, and no offset."""
    read = types.UNTAG["$datetime"](["2025-10-26T02:30:00", PARIS, 1])
    assert difference(read, datetime(2025, 10, 26, 2, 30, fold=1, tzinfo=PARIS)) is None
