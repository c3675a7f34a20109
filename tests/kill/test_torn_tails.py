"""A log whose end is torn: a writer died there, or a disk lost what came last."""

from __future__ import annotations

import itertools
import random
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.base import CheckpointTuple, empty_checkpoint

from kill.bare import frames, records
from kill.script import CONFIG, END, INPUT, THREAD, build, plain, rest
from langgraph_jsonl_checkpoint import CorruptSessionError, JsonlSaver

if TYPE_CHECKING:
    from pathlib import Path

    from langchain_core.runnables import RunnableConfig

MAGIC = b"\x28\xb5\x2f\xfd"
TAILS = {
    "nothing": b"",
    "zeros": bytes(4096),
    "garbage": random.Random(24425).randbytes(700),
    "begins of frames": MAGIC * 50,
}


class Stage(NamedTuple):
    """A log after a call: its bytes, and all that can be read from it."""

    data: bytes
    stored: list[CheckpointTuple]


def step(saver: JsonlSaver, config: RunnableConfig, messages: list[Any], number: int) -> RunnableConfig:
    """Put a checkpoint."""
    checkpoint = empty_checkpoint()
    checkpoint["channel_values"] = {"messages": messages[:], "files": {f"{number}.py": "x = 1\n" * 60}}
    version = saver.get_next_version(None, None)
    checkpoint["channel_versions"] = {"messages": version, "files": version}
    new = checkpoint["channel_versions"]
    return saver.put(config, checkpoint, {"source": "loop", "step": number, "parents": {}}, new)


@pytest.fixture(scope="module")
def stages(tmp_path_factory: pytest.TempPathFactory) -> list[Stage]:
    """A thread of four steps, each a put and a put_writes, after each call."""
    found = []
    messages: list[Any] = [HumanMessage("what is in the files?", id="0")]
    config: RunnableConfig = {"configurable": {"thread_id": THREAD, "checkpoint_ns": ""}}

    with JsonlSaver(tmp_path_factory.mktemp("whole"), fsync="never") as saver:

        def remember() -> None:
            found.append(Stage(saver.path(THREAD).read_bytes(), list(saver.list(CONFIG))))

        for number in range(4):
            config = step(saver, config, messages, number)
            remember()
            messages.append(AIMessage(f"file {number} says ünïcödé {number * 7919}", id=str(number + 1)))
            saver.put_writes(config, [("messages", messages[-1:]), ("branch:to:agent", None)], f"task {number}")
            remember()
    return found


def put_log(root: Path, data: bytes) -> Path:
    """A log under a new root."""
    with JsonlSaver(root) as saver:
        log = saver.path(THREAD)
    log.parent.mkdir(parents=True)
    log.write_bytes(data)
    return log


@pytest.mark.slow
@pytest.mark.parametrize("tail", TAILS)
def test_a_log_cut_at_any_byte_keeps_every_earlier_commit(tmp_path: Path, stages: list[Stage], tail: str) -> None:
    """Cut at any byte of its last three commits, a log has all before, and the cut end lies beside it."""
    whole = stages[-1].data
    for cut in range(len(stages[-4].data), len(whole) + 1):
        data = whole[:cut] + TAILS[tail]
        # The last commit that is whole; a tail of zeros can complete a commit that ends in zeros.
        before = next(stage for stage in reversed(stages) if data.startswith(stage.data))
        torn = data[len(before.data) :]
        log = put_log(tmp_path / str(cut), data)

        with JsonlSaver(tmp_path / str(cut), fsync="never") as saver:
            assert list(saver.list(CONFIG)) == before.stored
            assert log.read_bytes() == data, "reading changes nothing"
            newest = before.stored[0]
            config = step(saver, newest.config, [*newest.checkpoint["channel_values"]["messages"]], 9)
            saver.put_writes(config, [("messages", [AIMessage("late", id="late")])], "late task")
            appended = saver.get_tuple(CONFIG)
        assert appended is not None
        assert appended.metadata["step"] == 9
        assert [value for _, _, value in appended.pending_writes or []] == [[AIMessage("late", id="late")]]

        with JsonlSaver(tmp_path / str(cut)) as saver:
            assert list(saver.list(CONFIG)) == [appended, *before.stored]
        assert log.read_bytes().startswith(before.data)
        lines = records(log)
        assert [line["seq"] for line in lines] == list(range(len(lines)))
        aside = {file.name: file.read_bytes() for file in log.parent.glob("session.torn-*")}
        assert list(aside.values()) == ([torn] if torn else [])
        assert [line["recovered"] for line in lines if "recovered" in line] == [
            {"offset": len(before.data), "bytes": len(torn), "file": name} for name in aside
        ]
        assert {file.name for file in log.parent.iterdir()} == {log.name, *aside}


def test_a_torn_end_is_torn_again(tmp_path: Path, stages: list[Stage]) -> None:
    """A log torn anew after each repair keeps each torn end in a file of its own, and all that was whole."""
    log = put_log(tmp_path, stages[-1].data)
    expected = stages[-1].stored
    torn = []
    for number in range(5):
        torn.append(f"torn end {number}".encode())
        with log.open("ab") as file:
            file.write(torn[-1])
        with JsonlSaver(tmp_path) as saver:
            assert list(saver.list(CONFIG)) == expected
            step(saver, expected[0].config, [], 10 + number)
            expected = list(saver.list(CONFIG))
        assert len(expected) == 5 + number
    assert sorted(file.read_bytes() for file in log.parent.glob("session.torn-*")) == torn


def test_damage_before_the_end_is_not_a_torn_end(tmp_path: Path, stages: list[Stage]) -> None:
    """A changed byte in a commit that others follow is an error that says where; nothing is moved."""
    whole = stages[-1].data
    begin, end = len(stages[-4].data), len(stages[-3].data)
    for place in range(begin, end):
        data = whole[:place] + bytes([whole[place] ^ 0xFF]) + whole[place + 1 :]
        log = put_log(tmp_path / str(place), data)
        with JsonlSaver(tmp_path / str(place)) as saver:
            with pytest.raises(CorruptSessionError) as caught:
                saver.get_tuple(CONFIG)
            with pytest.raises(CorruptSessionError):
                step(saver, stages[-1].stored[0].config, [], 9)
        assert (caught.value.path, caught.value.offset) == (str(log), begin)
        assert log.read_bytes() == data
        assert [file.name for file in log.parent.iterdir()] == [log.name]


def test_a_run_cut_between_put_and_put_writes_has_the_old_state_or_the_new(tmp_path: Path) -> None:
    """Cut at any byte, a run has the state before or after that commit and goes on (langgraph#8039)."""
    did: list[str] = []
    with JsonlSaver(tmp_path / "whole", fsync="never") as saver:
        build(saver, lambda *_, **__: None).invoke(INPUT, CONFIG, durability="sync")
        data = saver.path(THREAD).read_bytes()
    ends = [end for end, _ in frames(data)]
    for end, after in itertools.pairwise(ends[-9:]):
        put_log(tmp_path / str(end), data[:end])
        with JsonlSaver(tmp_path / str(end), fsync="never", restore_memory="never") as saver:
            old = saver.get_tuple(CONFIG)
            models, keys = rest(old)
            agent = build(saver, lambda kind, **_: did.append(kind))
            messages = agent.get_state(CONFIG).values["messages"]
            # Two lookups run at once, and either may be stored first.
            assert plain(messages) == [message for message in END if message in plain(messages)]
            did.clear()
            assert plain(agent.invoke(None, CONFIG)["messages"]) == END
        assert (did.count("model"), did.count("tool")) == (models, len(keys))
        for cut in range(end + 1, after):
            put_log(tmp_path / str(cut), data[:cut])
            with JsonlSaver(tmp_path / str(cut), fsync="never", restore_memory="never") as saver:
                assert saver.get_tuple(CONFIG) == old
