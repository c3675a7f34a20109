"""A call that a live process runs is running; one whose process is dead is uncertain, at once."""

from __future__ import annotations

import errno
import os
import threading
from typing import TYPE_CHECKING, Any

import pytest

from guard.scene import AGENTS, CONFIG, NODES, PAY, asked, go, told
from langgraph_jsonl_checkpoint import ToolCallRunningError
from langgraph_jsonl_checkpoint.log import files

if TYPE_CHECKING:
    from guard.conftest import Place

SHAPES = pytest.mark.parametrize("shape", [*AGENTS, *NODES, "subgraph"])
BOTH_WAYS = pytest.mark.parametrize("asynchronous", [False, True], ids=["sync", "async"])


def writers(place: Place) -> list[str]:
    """The files of writers."""
    folder = place.root / "sessions" / ".writers"
    return os.listdir(folder) if folder.exists() else []


@SHAPES
@BOTH_WAYS
def test_a_second_process_does_not_start_a_running_call(place: Place, shape: str, asynchronous: bool) -> None:
    """It stops with an error that no handler or retry gets; the first process ends its run as if nothing had been."""
    pid = place.process(shape, holds=["charge"])["pid"]
    saver = place.saver()
    assert [call.status for call in saver.resume_state("t").tool_calls] == ["running"]
    assert saver.uncertain("t") == ()
    graph = place.graph(shape, saver=saver)
    for _ in range(2):
        with pytest.raises(ToolCallRunningError, match="charge-1"):
            go(graph, None, asynchronous=asynchronous)
    assert (place.model.requests, place.effects("charge")) == ([], 1)
    place.release(pid)
    assert [call.status for call in saver.resume_state("t").tool_calls] == ["completed"]
    assert place.effects("charge") == 1


@SHAPES
@BOTH_WAYS
def test_a_dead_writers_lock_is_free_at_once(place: Place, shape: str, asynchronous: bool) -> None:
    """The kernel frees it with the process: no lease has to run out before a human is asked."""
    pid = place.process(shape, holds=["charge"])["pid"]
    saver = place.saver()
    assert saver.uncertain("t") == ()
    place.kill(pid)
    assert [call.tool_call_id for call in saver.uncertain("t")] == ["charge-1"]
    (question,) = asked(go(place.graph(shape, saver=saver), None, asynchronous=asynchronous))
    assert question["calls"][0]["tool_call_id"] == "charge-1"
    assert place.effects("charge") == 1


def test_a_running_read_only_call_is_not_started_either(place: Place) -> None:
    """It does no harm twice, but a run that goes on twice does."""
    pid = place.process("create_agent", holds=["charge"], policy={"read_only": ["charge"]})["pid"]
    with pytest.raises(ToolCallRunningError):
        go(place.graph("create_agent", policy={"read_only": ["charge"]}), None)
    place.release(pid)


@pytest.mark.parametrize("same_saver", [True, False])
@BOTH_WAYS
def test_a_call_is_started_once_in_one_process(place: Place, same_saver: bool, asynchronous: bool) -> None:
    """Another run of the thread, in another thread of the process, on the same saver or on another one."""
    inside, leave = threading.Event(), threading.Event()

    def hold() -> None:
        inside.set()
        assert leave.wait(20)

    saver = place.saver()
    first = place.graph("create_agent", saver=saver, bodies={"charge": hold})
    results: list[Any] = []
    run = threading.Thread(target=lambda: results.append(go(first, PAY)))
    run.start()
    assert inside.wait(20)
    second = place.graph("create_agent", saver=saver if same_saver else None)
    with pytest.raises(ToolCallRunningError):
        go(second, None, asynchronous=asynchronous)
    assert place.effects("charge") == 1
    leave.set()
    run.join()
    assert told(results[0]["messages"]) == {"charge-1": "charged 40 EUR"}


@pytest.mark.parametrize("raises", [(), ("charge",)])
def test_a_process_that_ends_leaves_no_file(place: Place, raises: Any) -> None:
    """In good order, or with an error that nobody caught: no lock of it is left to be asked about."""
    assert place.process("create_agent", raises=raises)["code"] == len(raises)
    assert writers(place) == []


def test_a_saver_that_is_closed_leaves_no_file(place: Place) -> None:
    """It has one while it runs, and none when it is closed; the file of a dead one goes when somebody looks."""
    place.crash("create_agent")
    assert len(writers(place)) == 1
    saver = place.saver()
    assert len(saver.uncertain("t")) == 1
    assert writers(place) == []
    go(place.graph("create_agent", saver=saver), None)
    assert len(writers(place)) == 1
    saver.close()
    assert writers(place) == []


def is_on_a_read_only_medium(patch: pytest.MonkeyPatch) -> None:
    """Nothing is opened to be written, and nothing removed."""
    opened = files.open

    def refuse(path: str, *_: Any) -> int:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS), path)

    def only_read(path: str, flags: int, *mode: Any) -> int:
        return (refuse if flags & (os.O_RDWR | os.O_WRONLY | os.O_CREAT) else opened)(path, flags, *mode)

    patch.setattr(files, "open", only_read)
    patch.setattr(files, "unlink", refuse)


@pytest.mark.parametrize("dead", [True, False], ids=["dead", "alive"])
def test_whether_a_writer_lives_is_known_on_a_read_only_medium(place: Place, dead: bool) -> None:
    """Its file is asked and not written: the thread is read; where it can be written again, it goes on."""
    pid = place.process("create_agent", holds=["charge"])["pid"]
    if dead:
        place.kill(pid)
    with pytest.MonkeyPatch.context() as patch:
        is_on_a_read_only_medium(patch)
        saver = place.saver()
        assert saver.get_tuple(CONFIG) is not None
        state = saver.resume_state("t")
        assert (state.crashed, [call.status for call in state.tool_calls]) == (
            dead,
            ["uncertain" if dead else "running"],
        )
    if not dead:
        place.release(pid)
    saver = place.saver()
    assert len(asked(go(place.graph("create_agent", saver=saver), None))) == int(dead)
    assert [call.status for call in saver.resume_state("t").tool_calls] == ["uncertain" if dead else "completed"]


def test_a_writer_that_nobody_can_ask_about_is_not_taken_for_dead(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its file is another user's: the thread is read, and its call counts as running until somebody can ask."""
    place.crash("create_agent")
    opened = files.open

    def refuse(path: str, *given: Any) -> int:
        if "/.writers/" in path:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)
        return opened(path, *given)

    monkeypatch.setattr(files, "open", refuse)
    saver = place.saver()
    assert saver.get_tuple(CONFIG) is not None
    state = saver.resume_state("t")
    assert (state.crashed, [call.status for call in state.tool_calls]) == (False, ["running"])
    monkeypatch.undo()
    assert [call.status for call in saver.uncertain("t")] == ["uncertain"]
    assert asked(go(place.graph("create_agent", saver=saver), None))
