"""The examples run as they stand, and what they print is true."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parent.parent / "examples"


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
        rf"restored +[1-9]\d* messages, .*\n +next +tools: read_file\('{finished[2]}'\)\n"
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
