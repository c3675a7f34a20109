"""The examples run as they stand, and what they print is true."""

from __future__ import annotations

import itertools
import re
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parent.parent / "examples"

# The crash table.
SHAPES = ["create_agent", "StateGraph and ToolNode", "create_agent as a node of a graph"]
RESUMED = {"sync, async": "invoke(None)", "exit": "asked again"}
# With SqliteSaver, with JsonlSaver.
ENDS = {
    "started": [("1", "charged 40 euros"), ("0", "outcome unknown", "yes")],
    "charged": [("2", "charged 40 euros"), ("1", "outcome unknown", "yes")],
    "returned": [("2", "charged 40 euros"), ("1", "charged 40 euros", "no")],
}


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Run an example as a user does, in an empty directory and without a terminal; what it printed."""
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))
    monkeypatch.delenv("PYTHONPATH", raising=False)

    def run_example(name: str, *arguments: str) -> str:
        done = subprocess.run(
            [sys.executable, EXAMPLES / name, *arguments],
            cwd=tmp_path,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        assert (done.returncode, done.stderr) == (0, "")
        return done.stdout

    return run_example


def test_a_killed_agent_reads_on_where_it_was(run) -> None:
    """The demo's second process reads no file that the first had finished, and comes to an answer."""
    said = run("demo.py")
    finished = re.search(r"read +(\d+) files.*\n +began +(\S+)\n +kill -9 .*\(exit code -9\)", said)
    assert finished, said
    goes_on = (
        r"restored +[1-9]\d* messages, .*\n +remembered +a session memory of [1-9]\d* characters .*\n"
        rf" +next +tools: read_file\('{finished[2]}'\)\n"
        rf" +read +\d+ files, {finished[2]} to .*\n"
        rf" +read again +0 of the {finished[1]} that were finished\n +answer +The 24 files have "
    )
    assert re.search(goes_on, said), said


def test_a_worker_continues_its_threads_and_leaves_what_is_uncertain(run) -> None:
    """Each card is charged once over three workers, each job is applied once, and the open call is only reported."""
    first, second, third, end = run_of_workers(run("worker.py"))
    assert first == [
        "ann  new job, in its thread 1 time: charged 40 euros for the lamp",
        "exit code -9",
    ]
    assert second == [
        "ann  known job, in its thread 1 time: charged 40 euros for the lamp",
        "bob  known job, in its thread 1 time: charged 50 euros for the chair",
        "exit code -9",
    ]
    assert third == [
        "ann  known job, in its thread 1 time: charged 40 euros for the lamp",
        "bob  known job, in its thread 1 time: charged 50 euros for the chair",
        "cem  left to a human: charge_card({'thing': 'desk', 'euros': 40}) is uncertain",
        "dee  new job, in its thread 1 time: charged 50 euros for the shelf",
        "exit code 0",
    ]
    assert end == ["lamp 40, chair 50, desk 40, shelf 50"]


def run_of_workers(said: str) -> list[list[str]]:
    """What each worker printed, then what was printed at the end."""
    parts = re.split(r"^(?:worker \d.*\n|the charges:)", said, flags=re.MULTILINE)
    return [[line.strip() for line in part.splitlines()] for part in parts[1:]]


@pytest.mark.parametrize(
    ("arguments", "told", "charges"),
    [
        ((), "Outcome unknown: ", 1),
        (("reject",), "Outcome unknown: ", 1),
        (("respond", "It went through, receipt 1."), "It went through, receipt 1.", 1),
        (("approve",), "Charged 30 euros.", 2),
    ],
    ids=["no terminal", "reject", "respond", "approve"],
)
def test_a_human_decides_about_an_uncertain_charge(run, arguments, told: str, charges: int) -> None:
    """Nothing is charged before the decision; only an approval charges again; the model is told what is known."""
    said = run("human.py", *arguments)
    assert "charged the card and was killed (exit code -9)" in said
    before, after = said.split("the decision ")
    assert re.search(r"the run asks +charge_card\({'euros': 30}\), attempt 1: ", before), said
    assert re.search(r"the bank's books +1 charge\(s\)", before), said
    assert re.search(rf"the model is told .*{re.escape(told)}", after), said
    assert re.search(rf"the bank's books +{charges} charge\(s\)", after), said
    assert re.search(r"the run +completed, 0 uncertain\n", after), said


@pytest.mark.slow
def test_the_crash_table_shows_what_happens(run) -> None:
    """With SqliteSaver the card is charged twice and the model hears of one charge; with JsonlSaver it is not."""
    lines = run("crash_table.py").splitlines()
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
