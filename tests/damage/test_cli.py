"""The command line as its users meet it: a process, its output and its exit code."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
from langgraph.checkpoint.serde.encrypted import EncryptedSerializer
from values.thread import Thread

from damage.scene import HURT, WELL, Log, everything, fill
from langgraph_jsonl_checkpoint import JsonlSaver
from langgraph_jsonl_checkpoint.cli import main

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Two threads."""
    fill(tmp_path)
    with JsonlSaver(tmp_path) as saver:
        saver.delete_thread("copy")
    return tmp_path


@pytest.fixture
def shell(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Runs a command of a shell, in which "$@" is the command line, and gives what came of it."""
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, sys.path)))
    monkeypatch.delenv("PYTHONUNBUFFERED", raising=False)

    def run(script: str, *arguments: object) -> tuple[int, str, str]:
        command = [sys.executable, "-m", "langgraph_jsonl_checkpoint", *map(str, arguments)]
        found = subprocess.run(["bash", "-c", script, "-", *command], check=False, capture_output=True, timeout=60)
        return found.returncode, found.stdout.decode(), found.stderr.decode()

    return run


def test_it_runs_as_a_module(root: Path, shell: Any) -> None:
    """`python -m langgraph_jsonl_checkpoint verify`, in a process of its own."""
    code, out, error = shell('"$@"', "verify", root)
    assert (code, error) == (0, "")
    assert out.count(": good; ") == 2
    code, _, error = shell('"$@"', "sing")
    assert code == 2
    assert "usage" in error


def test_the_exit_code_is_of_the_logs_whoever_reads_what_is_said(root: Path, shell: Any) -> None:
    """A pipe that is closed early, or an output that is closed, changes no exit code, stops nothing, adds no word."""
    for output, thread in (("| true", WELL), (">&-", HURT)):
        code, _, error = shell(f'set -o pipefail; "$@" {output}', "salvage", root, thread)
        assert (code, error) == (0, ""), output
        assert main(["verify", str(root), f"{thread}-salvaged"]) == 0
    assert shell('"$@" 2>&-', "verify", root, "--workspace", "empty")[0] == 2


def test_what_cannot_be_written_is_not_said_to_be_unreadable(root: Path, capsys: pytest.CaptureFixture) -> None:
    """The error names the place of the new log, and nothing is said of the one that it was to be made of."""
    (root / "default" / "new").touch()
    assert main(["salvage", str(root), HURT, "--into", "new"]) == 2
    out = capsys.readouterr().out
    assert "Not a directory" in out
    assert str(root / "default" / "new") in out
    assert "cannot be read" not in out


def test_what_cannot_be_said_is_no_damage(root: Path, shell: Any) -> None:
    """An output that cannot be written has exit code 2, and the reason; no log is blamed for it."""
    code, _, error = shell('"$@" > /dev/full', "verify", root)
    assert code == 2
    assert "No space left" in error
    assert "Exception" not in error


def test_a_name_says_nothing_to_the_terminal(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    """A thread id may be a stranger's: it colours, moves and forges no line."""
    name = "\x1b[31mred\x07\u202e\nother: good"
    with Thread(tmp_path, thread_id=name) as thread:
        thread.step({"a": 1})
    assert main(["verify", str(tmp_path)]) == 0
    assert main(["verify", str(tmp_path), name, "\x1b]0;no such thread"]) == 2
    out = capsys.readouterr().out
    assert out.count("\n") == 3
    assert out.replace("\n", "").isprintable()
    assert "\\x1b[31mred\\x07\\u202e\\nother: good: good; " in out


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["verify"],
        ["verify", "{root}/nowhere"],
        ["verify", "{root}", "--workspace", "empty"],
        ["verify", "{root}", "no such thread"],
        ["verify", "{root}", "--head", "1:00"],
        ["verify", "{root}", HURT, "--head", "nonsense"],
        ["verify", "{root}", HURT, "--chain-key-file", "{root}/nowhere"],
        ["salvage", "{root}"],
        ["salvage", "{root}", "no such thread"],
        ["salvage", "{root}", HURT, "--into", WELL],
        ["salvage", "{root}", HURT, WELL, "--into", "new"],
    ],
    ids=" ".join,
)
def test_what_cannot_be_done_has_exit_code_2(root: Path, arguments: list[str]) -> None:
    """Nothing is written, and the exit code is not that of damage."""
    before = sorted(root.rglob("*"))
    try:
        code = main([each.format(root=root) for each in arguments])
    except SystemExit as exit_:
        code = exit_.code
    assert code == 2
    assert sorted(root.rglob("*")) == before


def test_a_head_is_printed_and_taken_again(root: Path, capsys: pytest.CaptureFixture) -> None:
    """Kept elsewhere, it shows a cut end, which the log alone does not."""
    assert main(["verify", str(root), HURT]) == 0
    head = capsys.readouterr().out.strip().rsplit("; head ", 1)[1]
    assert main(["verify", str(root), HURT, "--head", head]) == 0
    with JsonlSaver(root) as saver:
        path = saver.path(HURT)
    log = Log(path.read_bytes())
    path.write_bytes(log.data[: log.begin(-1)])
    assert main(["verify", str(root), HURT]) == 0
    assert main(["verify", str(root), HURT, "--head", head]) == 1


def test_a_key_comes_from_a_file(tmp_path: Path) -> None:
    """Byte for byte; without it the log is damaged to whoever looks."""
    key = b"\x00secret\n"
    with Thread(tmp_path / "root", chain_key=key) as thread:
        thread.step({"a": 1})
    file = tmp_path / "key"
    file.write_bytes(key)
    assert main(["verify", str(tmp_path / "root"), "--chain-key-file", str(file)]) == 0
    assert main(["verify", str(tmp_path / "root")]) == 1


def test_a_log_whose_long_name_only_its_header_knows_is_not_passed_over(
    tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    """With the header damaged nobody can tell which thread it is; that there is one is said."""
    with Thread(tmp_path, thread_id="long " * 200) as thread:
        thread.step({"a": 1})
        path = thread.saver.path("long " * 200)
    assert main(["verify", str(tmp_path)]) == 0
    path.write_bytes(bytes(100))
    assert main(["verify", str(tmp_path)]) == 1
    assert str(path) in capsys.readouterr().out


def test_salvage_without_a_name_adds_one(root: Path, capsys: pytest.CaptureFixture) -> None:
    """`<thread>-salvaged`; a log that is whole is copied, and that is no damage."""
    assert main(["salvage", str(root), HURT, WELL]) == 0
    with JsonlSaver(root) as saver:
        for name in (HURT, WELL):
            assert len(everything(saver, f"{name}-salvaged")) == len(everything(saver, name))
    assert main(["salvage", str(root), HURT, WELL]) == 2, "they are there now"


def test_a_serde_that_is_not_the_logs_is_no_damage(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    """A sealed log is good to `verify`; `salvage`, which cannot open it, has the exit code of what cannot be read."""
    with Thread(
        tmp_path, thread_id="sealed", serde=EncryptedSerializer.from_pycryptodome_aes(key=b"1" * 32)
    ) as thread:
        thread.step({"a": 1})
    assert main(["verify", str(tmp_path)]) == 0
    assert main(["salvage", str(tmp_path), "sealed"]) == 2
    assert "serde" in capsys.readouterr().out
