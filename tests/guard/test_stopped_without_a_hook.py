"""A run without a hook that an exception ended, in a process that ended in good order; then a hook is added."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from cases.logs import of_type

from guard.scene import CHARGE, CONFIG, PAY, Model, asked, build, go
from langgraph_jsonl_checkpoint import JsonlSaver

if TYPE_CHECKING:
    from guard.conftest import Place

STOPPED = """
import sys
from pathlib import Path
from guard.scene import CONFIG, PAY, Effects, Model, CHARGE, build, go
from langgraph_jsonl_checkpoint import JsonlSaver

def stop():
    raise KeyboardInterrupt

folder, ending = Path(sys.argv[1]), sys.argv[2]
effects, model = Effects(folder, {"charge": stop}), Model(rounds=[[CHARGE]])

def run(saver):
    go(build("tool_node", saver, effects.tools, model, hook=False), PAY, durability="sync")

if ending == "with":
    with JsonlSaver(folder / "sessions") as saver:
        run(saver)
elif ending == "finally":
    saver = JsonlSaver(folder / "sessions")
    try:
        run(saver)
    finally:
        saver.close()
else:
    saver = JsonlSaver(folder / "sessions")
    run(saver)
"""


@pytest.mark.parametrize("ending", ["with", "finally", "at exit"])
def test_a_tool_that_was_stopped_by_hand_is_asked_about(place: Place, ending: str) -> None:
    """Ctrl-C behind the effect: the writer closed, and still nobody knows whether the call had begun."""
    child = subprocess.run(
        [sys.executable, "-c", STOPPED, str(place.root), ending],
        capture_output=True,
        timeout=60,
        check=False,
        cwd=Path(__file__).parents[1],
    )
    assert b"KeyboardInterrupt" in child.stderr
    assert place.effects("charge") == 1
    saver = place.saver()
    assert not saver.resume_state("t").crashed
    assert [call.status for call in saver.uncertain("t")] == ["uncertain"]
    assert len(asked(go(place.graph("tool_node", saver=saver), None))) == 1
    assert place.effects("charge") == 1


def pause(place: Place) -> None:
    """Stop before the tools, in a `with`."""
    with JsonlSaver(place.root / "sessions") as saver:
        go(waiting(place, saver), PAY)


def pause_in_a_loop(place: Place) -> None:
    """The same in an `async with`."""

    async def run() -> None:
        async with JsonlSaver(place.root / "sessions") as saver:
            await waiting(place, saver).ainvoke(PAY, CONFIG)

    asyncio.run(run())


def waiting(place: Place, saver: JsonlSaver) -> Any:
    """A graph without a hook that stops before its tools."""
    graph: Any = build("tool_node", saver, place.effects.tools, Model(rounds=[[CHARGE]]), hook=False)
    graph.interrupt_before_nodes = ["tools"]
    return graph


@pytest.mark.parametrize("pauses", [pause, pause_in_a_loop])
@pytest.mark.parametrize("handling", [False, True], ids=["", "in an except"])
def test_a_run_that_waits_at_its_tools_is_not_asked_about(place: Place, pauses: Any, handling: bool) -> None:
    """Stopped before them by a writer that closed, nothing had begun, whatever was handled around it before."""
    if handling:
        try:
            {}["earlier"]
        except KeyError:
            pauses(place)
    else:
        pauses(place)
    assert [r.get("error", "") for r in of_type(place.log, "close")] == [""]
    saver = place.saver()
    assert saver.uncertain("t") == ()
    assert asked(go(place.graph("tool_node", saver=saver), None)) == []
    assert place.effects("charge") == 1
