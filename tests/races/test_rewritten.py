"""A log is packed or pruned while others read it and append to it."""

from __future__ import annotations

import itertools
import time
from typing import TYPE_CHECKING, Any

import pytest
from cases.graphs import ChatState, config, sequence

from langgraph_jsonl_checkpoint import JsonlSaver
from races.checks import check, check_reads, order, whole
from races.jobs import name_of, store, store_writes

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from races.conftest import Crew


def fill(root: Path, length: int) -> None:
    """A thread of so many checkpoints with their writes."""
    with JsonlSaver(root, fsync="never") as saver:
        for place in range(length):
            store(saver, "t", "w", place)
            store_writes(saver, "t", "w", place)


def pack_by_another(root: Path, saver: JsonlSaver) -> None:
    """Another saver packs the thread."""
    with JsonlSaver(root) as other:
        assert other.pack("t")


def pack(root: Path, saver: JsonlSaver) -> None:
    """The saver that reads packs the thread."""
    assert saver.pack("t")


def pack_twice(root: Path, saver: JsonlSaver) -> None:
    """The thread is packed, appended to and packed again."""
    pack_by_another(root, saver)
    store(saver, "t", "w", 90)
    pack_by_another(root, saver)


def evict(root: Path, saver: JsonlSaver) -> None:
    """The reader's session is packed and closed for another."""
    pack(root, saver)
    store(saver, "other", "w", 0)


def close(root: Path, saver: JsonlSaver) -> None:
    """The saver that reads packs the thread and is closed."""
    pack(root, saver)
    saver.close()


def delete(root: Path, saver: JsonlSaver) -> None:
    """The log is packed, and then deleted."""
    pack(root, saver)
    with JsonlSaver(root) as other:
        other.delete_thread("t")


@pytest.mark.parametrize("packed_before", [False, True])
@pytest.mark.parametrize("what", [pack_twice, evict, close, delete])
def test_a_half_read_list_goes_on_as_it_began(
    root: Path, what: Callable[[Path, JsonlSaver], Any], packed_before: bool
) -> None:
    """What is packed, closed or deleted under it changes nothing of what a list gives."""
    fill(root, 12)
    with JsonlSaver(root) as saver:
        if packed_before:
            saver.pack("t")
            store(saver, "t", "w", 12)
        whole_list = [*saver.list(config())]
    saver = JsonlSaver(root, max_open=1)
    found = saver.list(config())
    rows = [*itertools.islice(found, 3)]
    what(root, saver)
    assert [*rows, *found] == whole_list
    saver.close()


@pytest.mark.parametrize("what", [pack, pack_by_another, evict])
def test_a_half_read_history_and_a_run_go_on_over_packing(
    root: Path, what: Callable[[Path, JsonlSaver], Any]
) -> None:
    """The states of a graph, read one by one while the log is packed; then the graph runs on."""
    with JsonlSaver(root, max_open=1) as saver:
        graph = sequence(ChatState, ("n", lambda state: {"messages": [("ai", f"{len(state['messages'])}")]})).compile(
            checkpointer=saver
        )
        for turn in range(4):
            graph.invoke({"messages": [("user", f"turn {turn}")]}, config())
        expected = [*graph.get_state_history(config())]
        history = graph.get_state_history(config())
        states = [*itertools.islice(history, 2)]
        what(root, saver)
        assert [*states, *history] == expected
        said = graph.invoke({"messages": [("user", "more")]}, config())["messages"]
        assert [message.text for message in said[-2:]] == ["more", "9"]
        with JsonlSaver(root) as fresh:
            assert fresh.get_tuple(config()).checkpoint["channel_values"]["messages"] == said
        whole(saver.path("t"))


def test_packing_while_others_append_and_read_loses_nothing(crew: Crew) -> None:
    """Two processes append, one reads in every way, two pack without a pause, and are killed."""
    writers = [crew.start("write", name, ids=["t"], count=60, threads=2, fsync="never") for name in "ab"]
    writers[0].until("put")
    reader = crew.start("read_on", "r")
    packers = [crew.start("pack_on", f"p{number}") for number in range(2)]
    for packer in packers:
        packer.until("packed", 3)
        packer.kill()
    packers.append(crew.start("pack_on", "p2"))
    for writer in writers:
        writer.finish()
    packers[-1].until("packed", 1)
    reader.until("read", len(reader.reports("read")) + 1)
    reader.kill()
    packers[-1].kill()
    for before, after in itertools.pairwise(reader.reports("read")):
        for writer, places in before["listed"].items():
            assert after["listed"][writer][-len(places) :] == places, "what was read once is read again"
    assert check(crew.root, ["t"], writers) == 2 * 2 * 60 * 2


@pytest.mark.parametrize("writers", [1, 3])
def test_pruning_while_others_append_loses_no_newest(crew: Crew, writers: int) -> None:
    """Each process appends to a namespace of its own; whatever is pruned meanwhile, its newest is there."""
    appending = [crew.start("write_on", f"w{number}", ns=f"w{number}") for number in range(writers)]
    for each in appending:
        each.until("put", 3)
    pruner = crew.start("prune_on", "p")
    pruner.until("pruned", 10)
    pruner.kill()
    dead = time.monotonic()
    for each in appending:
        each.until("put", len(each.reports("put")) + 5)
        each.kill()
        assert each.reports("refused") == []
    with JsonlSaver(crew.root) as saver:
        path = saver.path("t")
    stored = order(path)
    assert whole(path)[0]["generation"] >= 10
    expected = {}
    for each in appending:
        puts = each.reports("put")
        places = [place for _, place in stored[each.name]]
        assert places == sorted({*places})
        gone = {put["place"] for put in puts} - {*places}
        assert gone, "nothing of it was pruned"
        assert all(put["begun"] < dead for put in puts if put["place"] in gone)
        assert max(gone) < min(places), "a prune takes what is older than the newest, and nothing else"
        expected |= {name_of(each.name, place): [each.name, place, False] for place in places}
    check_reads(crew.root, "t", expected, 40)
