"""FORMAT.md says what the code does: its example is read as a log."""

from __future__ import annotations

import json
import re
from pathlib import Path

import msgspec
import pytest
import zstandard
from langchain_core.messages import AIMessage, HumanMessage

from langgraph_jsonl_checkpoint import CorruptSessionError, JsonlSaver, UnsupportedVersionError
from langgraph_jsonl_checkpoint.folds import contents
from langgraph_jsonl_checkpoint.log import records
from langgraph_jsonl_checkpoint.values.types import UNTAG

FORMAT = (Path(__file__).parent.parent / "FORMAT.md").read_text()
EXAMPLE = re.search(r"```json\n(.*?)```", FORMAT, re.DOTALL)[1].splitlines()
CONFIG = {"configurable": {"thread_id": "trip-7"}}


def written(saver: JsonlSaver, lines: list[str]) -> Path:
    """A log made of lines with zstandard alone: a frame for each commit, which ends in a chain."""
    path = saver.path("trip-7")
    path.parent.mkdir(parents=True)
    compressor = zstandard.ZstdCompressor(write_checksum=True)
    commit = ""
    with path.open("wb") as log:
        for line in lines:
            commit += line + "\n"
            if '"chain":' in line:
                log.write(compressor.compress(commit.encode()))
                commit = ""
    return path


def test_the_example_is_a_log(saver: JsonlSaver) -> None:
    """The worked example opens, and holds the state that its text tells."""
    written(saver, EXAMPLE)
    newest, first = saver.list(CONFIG)
    question, answer = HumanMessage("Where is Lund?", id="h1"), AIMessage("In Sweden.", id="a1")
    assert newest.checkpoint["channel_values"] == {"messages": [question, answer]}
    assert newest.metadata == {"source": "loop", "step": 1, "parents": {}}
    assert newest.parent_config == first.config
    assert first.checkpoint["channel_values"] == {"messages": [question], "branch:to:model": None}
    assert first.pending_writes == [("0b7c4f6e-0000-0000-0000-000000000001", "messages", [answer])]


def test_every_record_type_and_every_tag_is_described() -> None:
    """A type or a tag that the code knows stands in FORMAT.md."""
    assert set(records.TYPES) <= set(re.findall(r"`([a-z]+)`", FORMAT))
    assert set(UNTAG) <= set(re.findall(r"\$[a-z]+", FORMAT))


def test_the_contents_of_the_index_are_described() -> None:
    """With their version, which goes up when they change, and each of their fields."""
    (row,) = (line for line in FORMAT.splitlines() if line.startswith("| `contents` |"))
    assert re.findall(r"what the folds say, (\d+)\)", row) == [str(contents.VERSION)]
    assert set(contents.Stored.__struct_fields__) <= set(re.findall(r"`([a-z]+)`", row))


def test_a_foreign_version_is_refused_before_anything_else_is_looked_at(saver: JsonlSaver) -> None:
    """Version 2 may mean anything by its records; the error names both versions."""
    header = json.loads(EXAMPLE[0]) | {"version": 2}
    written(saver, [json.dumps(header, separators=(",", ":")), '{"seq":1,"type":"what","chain":"0"}'])
    with pytest.raises(UnsupportedVersionError, match="version 2"):
        saver.get_tuple(CONFIG)


def rechained(lines: list[str]) -> list[str]:
    """The lines with the chains that belong to them."""
    from langgraph_jsonl_checkpoint.log import journal

    out: list[str] = []
    position, held = journal.Position(), []
    for line in lines:
        held.append(re.sub(r',"chain":"[0-9a-f]*"', "", line).encode())
        if '"chain":' in line:
            frame, position = journal.commit(position, held)
            out += zstandard.ZstdDecompressor().decompress(frame).decode().splitlines()
            held = []
    return out


@pytest.mark.parametrize("ignorable", [True, False])
def test_an_unknown_type_is_refused_unless_it_may_be_ignored(saver: JsonlSaver, ignorable: bool) -> None:
    """A record from a newer version is passed over if it says so; the log goes on being written behind it."""
    flag = ',"ignorable":true' if ignorable else ""
    newer = '{"seq":7,"type":"dream","ts":"2026-11-29T12:00:00.000Z"' + flag + ',"chain":""}'
    written(saver, rechained([*EXAMPLE, newer]))
    if not ignorable:
        with pytest.raises(UnsupportedVersionError, match=r"'dream'.*seq 7"):
            saver.get_tuple(CONFIG)
        return
    newest = saver.get_tuple(CONFIG)
    saver.put_writes(newest.config, [("messages", [HumanMessage("And Umeå?")])], "task")
    with JsonlSaver(saver.path("trip-7").parents[2]) as again:
        assert again.get_tuple(CONFIG).pending_writes == [("task", "messages", [HumanMessage("And Umeå?")])]


def test_a_log_in_another_threads_place_is_refused(saver: JsonlSaver) -> None:
    """The header holds the true ids: a file that was moved does not pass for another thread."""
    path = written(saver, EXAMPLE)
    elsewhere = saver.path("trip-8")
    elsewhere.parent.mkdir()
    path.rename(elsewhere)
    with pytest.raises(CorruptSessionError, match=r"'trip-7'.*'trip-8'"):
        saver.get_tuple({"configurable": {"thread_id": "trip-8"}})


def test_a_line_begins_with_seq_type_and_ts() -> None:
    """A reader finds what a line is without parsing it."""
    line = records.line(7, "2026-11-29T12:00:00.000Z", records.Message(n=0, message=msgspec.Raw(b"{}")))
    assert line == b'{"seq":7,"type":"message","ts":"2026-11-29T12:00:00.000Z","n":0,"message":{}}'
