"""Ids and names of other types than strings: taken where it is plain what they mean, else refused by name."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

import pytest
from langgraph.checkpoint.base import empty_checkpoint

from langgraph_jsonl_checkpoint import ValueEncodingError

if TYPE_CHECKING:
    from .thread import Thread


@pytest.mark.parametrize("stored", [str, lambda run: run], ids=["as a string", "as a UUID"])
@pytest.mark.parametrize("told", [str, lambda run: run], ids=["by a string", "by a UUID"])
def test_a_run_is_deleted_by_its_id_whatever_type_it_has(thread: Thread, stored: type, told: type) -> None:
    """LangChain's run ids are UUIDs, and metadata holds either."""
    run = uuid.uuid4()
    thread.step({"channel": 1}, metadata={"run_id": stored(run)})
    thread.step({"channel": 2}, metadata={"run_id": stored(uuid.uuid4())})
    thread.saver.delete_for_runs([told(run)])
    thread.reopen()
    assert [saved.checkpoint["channel_values"] for saved in thread.saver.list(None)] == [{"channel": 2}]


def test_a_uuid_is_its_text(thread: Thread) -> None:
    """As a checkpoint's id, a parent's and a task's, stored and asked for."""
    saver, config = thread.saver, thread.head
    ids = [uuid.UUID(int=n) for n in (1, 2)]
    for each in ids:
        config = saver.put(config, {**empty_checkpoint(), "id": each}, {}, {})
        assert config["configurable"]["checkpoint_id"] == str(each)
        config["configurable"]["checkpoint_id"] = each
    saver.put_writes(config, [("channel", 1)], ids[0])
    thread.reopen()
    for name in (ids[1], str(ids[1])):
        told = {"configurable": {**thread.head["configurable"], "checkpoint_id": name}}
        for found in (thread.saver.get_tuple(told), *thread.saver.list(told)):
            assert found.checkpoint["id"] == str(ids[1])
            assert found.parent_config["configurable"]["checkpoint_id"] == str(ids[0])
            assert found.pending_writes == [(str(ids[0]), "channel", 1)]
        [older] = thread.saver.list(None, before=told)
        assert older.checkpoint["id"] == str(ids[0])


def test_metadata_may_have_any_keys(thread: Thread) -> None:
    """As in an InMemorySaver: a number stays one, and can be asked for."""
    thread.step({}, metadata={1: "x", (1, 2): {3: 4}, "a": 1})
    thread.reopen()
    assert {k: v for k, v in thread.read().metadata.items() if k in (1, (1, 2), "a")} == {
        1: "x",
        (1, 2): {3: 4},
        "a": 1,
    }
    assert len(list(thread.saver.list(None, filter={1: "x"}))) == 1
    assert not list(thread.saver.list(None, filter={1: "y"}))


@pytest.mark.parametrize(
    ("limit", "count"),
    [(2.0, 2), (1.5, 2), (0, 0), (0.0, 0), (-1, 0), (10**20, 3), (float("inf"), 3), (True, 1)],
)
def test_a_limit_is_any_number(thread: Thread, limit: Any, count: int) -> None:
    """As many as the official savers give."""
    for number in range(3):
        thread.step({"channel": number})
    of_thread = {"configurable": {"thread_id": thread.thread_id}}
    for config in (of_thread, None):
        assert len(list(thread.saver.list(config, limit=limit))) == count


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "id": ({"id": 5}, "checkpoint's id is a string or a UUID, not 5"),
    "channel": ({"channel_values": {5: 1}, "channel_versions": {5: "1"}}, "channel_values has the key 5"),
    "version": ({"channel_versions": {None: "1"}}, "channel_versions has the key None"),
    "seen": ({"versions_seen": {"node": None}}, "versions_seen of 'node' is a dict, not None"),
    "seen, a node": ({"versions_seen": {7: {}}}, "versions_seen has the key 7"),
    "values": ({"channel_values": None}, "channel_values is a dict, not None"),
}


@pytest.mark.parametrize(("fields", "says"), [pytest.param(*r, id=name) for name, r in REFUSED.items()])
def test_a_checkpoint_with_something_else_for_a_name_is_refused_by_it(
    thread: Thread, fields: dict[str, Any], says: str
) -> None:
    """The error names the field, and nothing is stored."""
    checkpoint = {**empty_checkpoint(), **fields}
    with pytest.raises(ValueEncodingError, match=says):
        thread.saver.put(thread.head, checkpoint, {}, checkpoint["channel_versions"])
    assert not list(thread.saver.list(None))


def test_a_parent_or_task_that_is_no_id_is_refused_by_it(thread: Thread) -> None:
    """The error says whose id it is."""
    config = thread.step({})
    odd = {"configurable": {**config["configurable"], "checkpoint_id": 7}}
    with pytest.raises(ValueEncodingError, match="parent's id"):
        thread.saver.put(odd, empty_checkpoint(), {}, {})
    with pytest.raises(ValueEncodingError, match="checkpoint's id"):
        thread.saver.put_writes(odd, [("channel", 1)], "task")
    with pytest.raises(ValueEncodingError, match="task's id"):
        thread.saver.put_writes(config, [("channel", 1)], 7)
