"""A log that is rewritten while others use it: they notice, and nothing that they store is lost."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest

from cases.graphs import TwinState, at, both, chain, config, ids, is_twin, put, sequence
from cases.logs import of_type, records
from langgraph_jsonl_checkpoint import JsonlSaver

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from cases.conftest import Access

REWRITES: dict[str, Callable[[Any], None]] = {
    "prune": lambda saver: saver.prune(["t"]),
    "delete_for_runs": lambda saver: saver.delete_for_runs(["old"]),
}


def _fill(saver: Any) -> None:
    for place in range(4):
        run = "old" if place < 3 else "new"
        put(saver, at(place), {"n": [place] * 200}, parent=at(place - 1) if place else None, run_id=run)
        saver.put_writes(config(checkpoint_id=at(place)), [("x", [place])], "task")


@pytest.mark.parametrize("rewrite", REWRITES)
@pytest.mark.parametrize("read_first", [True, False])
def test_another_saver_goes_on_in_the_new_generation(root: Path, rewrite: str, read_first: bool) -> None:
    """LangGraph PR#6883: a saver with the thread open appends to the new file, not the one replaced."""
    with JsonlSaver(root) as saver, JsonlSaver(root) as other:
        _fill(saver)
        assert len([*other.list(config())]) == 4
        REWRITES[rewrite](saver)
        if read_first:
            assert ids(other.list(config())) == [at(3)]
            assert other.get_tuple(config(checkpoint_id=at(1))) is None
        other.put_writes(config(checkpoint_id=at(3)), [("y", [3])], "task-2")
        put(other, at(4), {"n": [3] * 200}, parent=at(3))
        for opened in (saver, other):
            assert ids(opened.list(config())) == [at(4), at(3)]
            assert opened.get_tuple(config()).checkpoint["channel_values"] == {"n": [3] * 200}
            found = opened.get_tuple(config(checkpoint_id=at(3)))
            assert found.checkpoint["channel_values"] == {"n": [3] * 200}
            assert found.pending_writes == [("task", "x", [3]), ("task-2", "y", [3])]
    with JsonlSaver(root) as saver:
        assert ids(saver.list(config())) == [at(4), at(3)]
        (session,) = of_type(saver.path("t"), "session")
        assert session["generation"] == 1


@pytest.mark.parametrize("savers", [1, 2])
@pytest.mark.parametrize("rewrite", REWRITES)
def test_no_put_is_lost_to_a_rewrite(root: Path, savers: int, rewrite: str) -> None:
    """LangGraph PR#6883: puts go on while another thread, or saver, rewrites the log again and again."""
    opened = [JsonlSaver(root, fsync="never") for _ in range(savers)]
    writer, rewriter = opened[0], opened[-1]
    _fill(writer)
    stored, last = [3], 120

    def write() -> None:
        for place in range(4, last):
            put(writer, at(place), {"n": [place, "kept"] * 40}, parent=at(place - 1), run_id=f"r{place}")
            writer.put_writes(config(checkpoint_id=at(place)), [("x", [place])], "task")
            found = writer.get_tuple(config())
            assert found.checkpoint["channel_values"] == {"n": [place, "kept"] * 40}
            assert found.pending_writes == [("task", "x", [place])]
            stored.append(place)

    gone = set()
    with ThreadPoolExecutor(1) as pool:
        writing = pool.submit(write)
        while not writing.done():
            REWRITES[rewrite](rewriter)
            if stored[-1] - len(gone) > 8:
                # A run well behind the newest, and each time another.
                rewriter.delete_for_runs([f"r{len(gone) + 4}"])
                gone.add(at(len(gone) + 4))
        writing.result()
    newest = opened[0].get_tuple(config())
    assert newest.checkpoint["id"] == at(last - 1)
    assert newest.pending_writes == [("task", "x", [last - 1])]
    for saver in opened:
        assert saver.get_tuple(config()) == newest
        saver.close()
    records(opened[0].path("t"))
    with JsonlSaver(root) as saver:
        assert saver.get_tuple(config()) == newest
        left = {*ids(saver.list(config()))}
    assert gone
    if rewrite == "delete_for_runs":
        assert left == {at(place) for place in range(3, last)} - gone


def test_a_list_that_is_read_across_a_rewrite_ends(access: Access) -> None:
    """LangGraph PR#6883: what it still gives was there; it neither hangs nor calls the log damaged."""
    _fill(access)
    slow = access.saver.list(config())
    assert next(slow).checkpoint["id"] == at(3)
    with JsonlSaver(access.root) as other:
        other.prune(["t"])
        put(other, at(4), {"n": "new"}, parent=at(3))
    assert {*ids(slow)} <= {at(2), at(1), at(0)}
    assert ids(access.list(config())) == [at(4), at(3)]


def test_a_copy_made_while_the_source_is_written_is_whole(root: Path) -> None:
    """LangGraph PR#6883: each copy is the thread at some moment: a run of steps with their writes."""
    with JsonlSaver(root, fsync="never") as saver, JsonlSaver(root, fsync="never") as other:
        put(saver, at(0), {"n": 0})

        def write() -> None:
            for place in range(1, 120):
                saver.put_writes(config(checkpoint_id=at(place - 1)), [("n", place)], "task")
                put(saver, at(place), {"n": place}, parent=at(place - 1))

        with ThreadPoolExecutor(1) as pool:
            writing = pool.submit(write)
            copies = 0
            while not writing.done() or copies < 2:
                other.copy_thread("t", f"copy-{copies}")
                copies += 1
            writing.result()
        for number in range(copies):
            found = [*other.list(config(f"copy-{number}"))]
            assert ids(found) == [at(place) for place in reversed(range(len(found)))]
            for item in found[1:]:
                assert item.pending_writes == [("task", "n", item.checkpoint["channel_values"]["n"] + 1)]


def test_prune_keeps_the_newest_branch_of_a_forked_delta_thread(access: Access) -> None:
    """langgraph#8443, PR#6883: the newest id is on the fork, and its state needs none of the other branch."""
    graph = access.graph(sequence(TwinState, *((name, lambda _, name=name: both(name)) for name in "abc")))
    graph.invoke(both("in"), config())
    (old,) = [step for step in graph.get_state_history(config()) if step.values.get("plain") == ["in", "a"]]
    final = graph.invoke(None, graph.update_state(old.config, both("fork"), as_node="a"))
    access.prune(["t"])
    assert graph.get_state(config()).values == final == both("in", "a", "fork", "b", "c")
    again = graph.invoke(both("in-2"), config())
    assert is_twin(again)
    assert graph.get_state(config()).values == again


def test_a_rewrite_ends_in_a_cycle_of_parents_and_where_a_parent_is_missing(access: Access) -> None:
    """SqliteSaver's own test: a walk that keeps a DeltaChannel's ancestors ends, and keeps them."""
    for parent, place in [(None, 1), (1, 2), (2, 3), (3, 1)]:
        put(access, at(place), parent=parent and at(parent), counters_since_delta_snapshot={"items": (1, 1)})
        access.put_writes(config(checkpoint_id=at(place)), [("items", [place])], "task")
    before = access.get_delta_channel_history(config=config(), channels=["items"])
    access.prune(["t"])
    assert access.get_delta_channel_history(config=config(), channels=["items"]) == before
    put(access, at(9), parent=at(8), counters_since_delta_snapshot={"items": (1, 1)})
    access.prune(["t"])
    access.delete_for_runs(["none"])
    assert at(9) in ids(access.list(config()))


def test_a_rewrite_of_a_thread_that_needs_none_changes_nothing(access: Access) -> None:
    """LangGraph PR#6883: runs that the thread does not know, a thread already pruned."""
    chain(access, 1)
    access.prune(["t"])
    before = access.saver.path("t").read_bytes()
    access.prune(["t"])
    access.delete_for_runs(["unknown"])
    assert access.saver.path("t").read_bytes() == before
