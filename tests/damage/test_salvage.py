"""What a salvage must not do: mix logs, half a state, forget that nobody knows what a tool did."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import pytest
from kill.bare import records
from kill.conversations import build, config, log_of, turn
from kill.conversations import fill as converse
from langchain_core.messages import HumanMessage
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.checkpoint.serde.encrypted import EncryptedSerializer
from values.forge import forge
from values.thread import Thread

from damage.scene import HURT, WELL, Log, everything, fill, is_part_of
from langgraph_jsonl_checkpoint import CorruptSessionError, JsonlSaver

if TYPE_CHECKING:
    from pathlib import Path


def lose(path: Path, number: int) -> None:
    """Fill a frame with zeros."""
    log = Log(path.read_bytes())
    size = len(log.frame(number))
    path.write_bytes(log.data[: log.begin(number)] + bytes(size) + log.data[log.begin(number) + size :])


@pytest.mark.parametrize("thread", ["plain", "delta", "asks"])
def test_whichever_commit_is_lost_no_state_is_made_of_less_than_it_was(tmp_path: Path, thread: str) -> None:
    """Of each checkpoint that is left, values, metadata and what its DeltaChannels are rebuilt from are as before."""
    converse(tmp_path)

    def seen(saver: JsonlSaver, name: str) -> dict[str, Any]:
        found = list(saver.list(config(name)))
        return {
            each.checkpoint["id"]: (
                each.checkpoint,
                each.metadata,
                {} if "messages" in each.checkpoint["channel_values"] else history(saver, each.config),
            )
            for each in found
        }

    def history(saver: JsonlSaver, at: Any) -> Any:
        return saver.get_delta_channel_history(config=at, channels=["messages"]) if thread == "delta" else {}

    path = log_of(tmp_path, thread)
    whole = Log(path.read_bytes())
    with JsonlSaver(tmp_path, restore_memory="never") as saver:
        before = seen(saver, thread)
    left = []
    for number in whole.numbers:
        path.write_bytes(whole.data)
        lose(path, number)
        with JsonlSaver(tmp_path, restore_memory="never") as saver:
            report = saver.salvage(thread, f"saved {number}")
            found = seen(saver, f"saved {number}")
            assert all(before[k] == v for k, v in found.items())
            assert saver.verify(f"saved {number}").ok
            assert report.lost
            left.append(len(found))
            head = saver.get_tuple(config(f"saved {number}"))
            if head is not None:
                saver.put_writes(head.config, [("messages", [HumanMessage("more", id="more")])], "more")
                assert saver.verify(f"saved {number}").ok
    assert left[0] == len(before), "a header that is lost costs no state"
    assert max(left[1:]) >= len(before) - 1
    assert path.with_name(path.name).read_bytes() != whole.data, "the damaged log is as it was"


def test_records_on_both_sides_of_the_damage_are_kept(tmp_path: Path) -> None:
    """qwen-code#6501: nothing but what is damaged, and what refers to it, is left out; the report says what."""
    with Thread(tmp_path, fsync="never") as thread:
        messages: list[Any] = []
        for number in range(6):
            messages.append(HumanMessage(f"message {number}", id=str(number)))
            thread.step(
                {"messages": messages[:3] if number == 3 else messages[:]}, seen={"a": {"b": "0" * 32 + ".0.1"}}
            )
        path = thread.saver.path("thread")
        log = Log(path.read_bytes())
        lose(path, 4)
        report = thread.saver.salvage("thread", "saved")
        assert [each.metadata["step"] for each in everything(thread.saver, "saved")] == [5, 4, 2, 1, 0]
    seq = log.seq(4)
    assert report.missing == ((seq, log.seq(5) - 1),)
    assert [problem.seq for problem in report.lost] == [seq]
    assert "missing" in str(report)


def test_no_commit_of_another_log_gets_in(tmp_path: Path) -> None:
    """Not even one that refers to nothing, and whose seq could come next; behind a gap or at the end."""
    with JsonlSaver(tmp_path, fsync="never") as saver:
        for name, length in (("hurt", 6), ("other", 12)):
            head = {"configurable": {"thread_id": name, "checkpoint_ns": ""}}
            for number in range(length):
                checkpoint = empty_checkpoint() | {"channel_values": {"of": name, "number": number}}
                version = saver.get_next_version(None, None)
                checkpoint["channel_versions"] = {"of": version, "number": version}
                head = saver.put(head, checkpoint, {"source": "loop", "step": number, "parents": {}}, {})
        path = saver.path("hurt")
        log, other = Log(path.read_bytes()), Log(saver.path("other").read_bytes())
        foreign = other.data[other.begin(8) :]
        for number, data in enumerate(
            (
                log.data + foreign,
                log.data + bytes(300) + foreign,
                log.data[: log.begin(5)] + bytes(300) + foreign,
                log.data[: log.begin(4)] + foreign + log.data[log.begin(4) :],
            )
        ):
            path.write_bytes(data)
            report = saver.salvage("hurt", f"saved {number}")
            found = [t.checkpoint["channel_values"] for t in everything(saver, f"saved {number}")]
            kept = 4 if number == 2 else 6
            assert found == [{"of": "hurt", "number": n} for n in reversed(range(kept))]
            assert "another log" in report.dropped[0].reason
            assert saver.verify(f"saved {number}").ok


def test_of_several_values_in_a_record_those_that_are_whole_are_kept(tmp_path: Path) -> None:
    """A value that refers to a lost one goes; its neighbours, and who refers to them, stay."""
    with Thread(tmp_path, fsync="never") as thread:
        thread.step({"files": {f"{n}.py": f"{n}" * 300 for n in range(20)}})
        thread.step({"files": {f"{n}.py": f"{n}" * 300 for n in range(20)}, "more": 1})

        def lie(record: dict[str, Any]) -> dict[str, Any]:
            if record["type"] != "value":
                return record
            values = record["values"]
            return record | {"values": [*values[:-1], {"$ref": 999}, ["x.py", {"$ref": record["n"]}]]}

        path = thread.saver.path("thread")
        forge(path, lie)
        thread.saver.salvage("thread", "saved")
        ((kept),) = [r["values"] for r in records(thread.saver.path("saved")) if r["type"] == "value"][:1]
        assert len(kept) == len(next(r for r in thread.records("value"))["values"]) - 2
        assert thread.saver.verify("saved").ok


def test_whole_lines_of_a_torn_frame_are_kept_and_named(tmp_path: Path) -> None:
    """A torn commit's first lines are there though its end is not: no checksum holds them, and the report says so."""
    with Thread(tmp_path, fsync="never") as thread:
        thread.step({"messages": [HumanMessage("first", id="0")]})
        # Not one block, so that a part of the frame can be decompressed.
        texts = [HumanMessage(random.Random(n).randbytes(60_000).hex(), id=str(n)) for n in range(1, 5)]
        thread.step({"messages": texts})
        path = thread.saver.path("thread")
        log = Log(path.read_bytes())
        path.write_bytes(log.data[: (log.begin(-1) + len(log.data)) // 2])
        report = thread.saver.salvage("thread", "saved")
        assert report.unchecked
        assert report.unchecked[0] == log.seq(-1)
        assert report.lost[0].torn
        assert "without a checksum" in str(report)
        assert thread.saver.verify("saved").ok
        assert [t.metadata["step"] for t in everything(thread.saver, "saved")] == [0]


def test_a_hook_that_may_have_lost_its_records_is_no_hook(tmp_path: Path) -> None:
    """A call without a record never started if a hook was there. Where records are lost nobody may say so."""
    with Thread(tmp_path, fsync="never") as thread:
        thread.saver.ledger("thread").announce()
        for number in range(4):
            thread.step({"number": number})
        path = thread.saver.path("thread")
        thread.saver.salvage("thread", "whole")
        lose(path, 3)
        thread.saver.salvage("thread", "saved")

        def hooks(name: str) -> list[bool]:
            return [r.get("hook", False) for r in records(thread.saver.path(name)) if r["type"] == "open"]

        assert hooks("whole") == [True]
        assert hooks("saved") == [False]


def test_a_new_log_says_where_it_comes_from_and_what_it_lacks(tmp_path: Path) -> None:
    """Its header names the thread and its last record, its first record counts what is gone."""
    fill(tmp_path)
    with JsonlSaver(tmp_path) as saver:
        lose(saver.path(HURT), 4)
        report = saver.salvage(HURT, "saved")
        head, prune, *rest = records(saver.path("saved"))
        assert head["forked_from"]["thread_id"] == HURT
        assert (prune["type"], prune["strategy"]) == ("prune", "salvage")
        missing = sum(last - first + 1 for first, last in report.missing)
        assert prune["removed"] == {"records": missing + len(report.dropped)}
        assert len(rest) == report.records


def test_a_salvaged_thread_runs_on(tmp_path: Path) -> None:
    """A graph goes on from it, and all of it is read again."""
    fill(tmp_path)
    with JsonlSaver(tmp_path, restore_memory="never") as saver:
        whole = everything(saver)
        lose(saver.path(HURT), -1)
        saver.salvage(HURT, "delta")  # a thread of the conversations' names
        assert is_part_of(everything(saver, "delta"), whole, thread="delta")
    with JsonlSaver(tmp_path, restore_memory="never") as saver:
        turn(build(saver, HURT), "delta", "go on", 3)
        messages = saver.get_tuple(config("delta")).checkpoint["channel_values"]["messages"]
        assert [message.text for message in messages[-3:]] == ["go on", f"heard {len(messages) - 2}", "done"]
        assert saver.verify("delta").ok


def test_a_salvage_never_writes_over_a_log(tmp_path: Path) -> None:
    """Neither the damaged one nor any other; nothing is left behind."""
    fill(tmp_path)
    with JsonlSaver(tmp_path) as saver:
        before = {name: saver.path(name).read_bytes() for name in (HURT, WELL)}
        for into in (HURT, WELL):
            with pytest.raises(ValueError, match="another"):
                saver.salvage(HURT, into)
        assert {name: saver.path(name).read_bytes() for name in before} == before
        assert [file.name for file in saver.path(WELL).parent.iterdir()] == ["session.jsonl.zst"]


def test_sealed_records_are_sealed_for_the_new_thread(tmp_path: Path) -> None:
    """With the serde all is read again and nothing is in the clear; without it nothing is done."""
    serde = EncryptedSerializer.from_pycryptodome_aes(key=b"0" * 16)
    with Thread(tmp_path, serde=serde, fsync="never") as thread:
        for number in range(3):
            thread.step({"secret": [f"hush {number}", {"a": ["hush"] * 200}]})
        assert thread.saver.verify("thread").ok
        whole = everything(thread.saver, "thread")
        lose(thread.saver.path("thread"), 3)
        thread.saver.salvage("thread", "saved")
        assert thread.saver.verify("saved").ok
        assert [t.checkpoint for t in everything(thread.saver, "saved")] == [t.checkpoint for t in whole[1:]]
        assert all(b"hush" not in text for text in Log(thread.saver.path("saved").read_bytes()).texts)
    with JsonlSaver(tmp_path) as saver:
        report = saver.verify("saved")
        assert (report.ok, report.sealed > 0) == (True, True)
        with pytest.raises(CorruptSessionError, match="no record"):
            saver.salvage("saved", "again")
