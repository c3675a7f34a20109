"""The table that `examples/crash_table.py` prints, which the README shows."""

from __future__ import annotations

import itertools
import re
import subprocess
import sys
from pathlib import Path

EXAMPLE = Path(__file__).parents[2] / "examples" / "crash_table.py"
SHAPES = ["create_agent", "StateGraph and ToolNode", "create_agent as a node of a graph"]
RESUMED = {"sync, async": "invoke(None)", "exit": "asked again"}
# With SqliteSaver, with JsonlSaver.
ENDS = {
    "started": [("1", "charged 40 euros"), ("0", "outcome unknown", "yes")],
    "charged": [("2", "charged 40 euros"), ("1", "outcome unknown", "yes")],
    "returned": [("2", "charged 40 euros"), ("1", "charged 40 euros", "no")],
}


def test_the_table_shows_what_happens() -> None:
    """With SqliteSaver the card is charged twice and the model hears of one charge; with JsonlSaver it is not."""
    done = subprocess.run([sys.executable, EXAMPLE], capture_output=True, text=True, check=True)
    assert done.stderr == ""
    lines = done.stdout.splitlines()
    assert max(map(len, lines)) <= 100
    table = [tuple(re.split(r"  +", line.strip())) for line in lines[lines.index(SHAPES[0]) :] if line]
    expected = []
    for shape in SHAPES:
        expected.append((shape,))
        for (killed, (theirs, ours)), (durability, resumed) in itertools.product(ENDS.items(), RESUMED.items()):
            # Under `exit` the recorded result belongs to a call that no model knows of any more.
            asks = "yes" if durability == "exit" else ours[-1]
            expected.append((killed, durability, resumed, *theirs, *ours[:-1], asks))
    assert table == expected
