"""Platforms and file systems that lack something are refused with an error that says what, and nothing is written."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
from cases.graphs import config, ids, put

from langgraph_jsonl_checkpoint import JsonlSaver
from langgraph_jsonl_checkpoint.log import files

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

WINDOWS = """
import asyncio, importlib, os, pkgutil, sys
import filelock, langchain.agents, langgraph.checkpoint.base, langgraph.graph, langgraph.prebuilt, zstandard
for name in ("pread", "pwrite", "fdatasync", "fchmod", "fork", "register_at_fork", "O_CLOEXEC", "O_DIRECTORY",
             "O_NOFOLLOW", "O_NONBLOCK", "getuid", "geteuid"):
    delattr(os, name)
sys.modules["fcntl"] = None
import langgraph_jsonl_checkpoint as package
for module in pkgutil.walk_packages(package.__path__, "langgraph_jsonl_checkpoint."):
    importlib.import_module(module.name)
try:
    package.JsonlSaver(sys.argv[1])
except NotImplementedError as error:
    print(error)
"""


def test_the_package_can_be_imported_on_windows_and_a_saver_is_refused(tmp_path: Path) -> None:
    """Without the calls that Windows lacks every module imports, and the error names the calls and a way out."""
    root = tmp_path / "sessions"
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = subprocess.run([sys.executable, "-c", WINDOWS, root], env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "no pread, pwrite, O_CLOEXEC, O_DIRECTORY, O_NOFOLLOW, flock" in done.stdout
    assert "WSL" in done.stdout
    assert not root.exists()


FROZEN = """
import importlib.metadata, json, sys
def version(name):
    raise importlib.metadata.PackageNotFoundError(name)
importlib.metadata.version = version
from cases.graphs import put, at
from cases.logs import of_type
from langgraph_jsonl_checkpoint import JsonlSaver
with JsonlSaver(sys.argv[1]) as saver:
    put(saver, at(1), {"n": 1})
    print(json.dumps([list(record["versions"]) for record in of_type(saver.path("t"), "open")]))
"""


def test_a_frozen_program_without_metadata_of_its_packages_stores(tmp_path: Path) -> None:
    """Its logs name Python's version alone."""
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = subprocess.run(
        [sys.executable, "-c", FROZEN, tmp_path], env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == [["python"]]


def _refusing(number: int) -> Callable[..., Any]:
    def refuse(*_: Any, **__: Any) -> Any:
        raise OSError(number, os.strerror(number))

    return refuse


@pytest.mark.parametrize("number", [errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS])
def test_a_file_system_without_locks_is_read_and_not_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """As NFS without a lock daemon: an append raises the system's error, and nobody writes without a lock."""
    with JsonlSaver(tmp_path) as saver:
        put(saver, "1", {"n": 1})
        path = saver.path("t")
    before = path.read_bytes()
    with monkeypatch.context() as patch:
        patch.setattr(files, "lock_descriptor", _refusing(number))
        with JsonlSaver(tmp_path) as saver:
            for call in (
                lambda saver=saver: put(saver, "2", {"n": 2}),
                lambda saver=saver: saver.put_writes(config(checkpoint_id="1"), [("n", 2)], "task"),
                lambda saver=saver: saver.pack("t"),
                lambda saver=saver: saver.delete_thread("t"),
            ):
                with pytest.raises(OSError, match=os.strerror(number)):
                    call()
                assert path.read_bytes() == before
                assert ids(saver.list(config())) == ["1"]
                assert saver.get_tuple(config()) is not None  # the next run begins
    with JsonlSaver(tmp_path) as saver:
        put(saver, "2", {"n": 2})
        assert ids(saver.list(config())) == ["2", "1"]


@pytest.mark.parametrize("number", [errno.EPERM, errno.EOPNOTSUPP, errno.EMLINK])
def test_a_file_system_without_hard_links_holds_no_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """A log cannot be created there without a moment in which half of it is seen; no file of it is left."""
    with monkeypatch.context() as patch, JsonlSaver(tmp_path) as saver:
        patch.setattr(files, "link", _refusing(number))
        with pytest.raises(OSError, match=os.strerror(number)):
            put(saver, "1", {"n": 1})
        assert [*saver.path("t").parent.iterdir()] == []
        assert saver.get_tuple(config()) is None
    with JsonlSaver(tmp_path) as saver:
        put(saver, "1", {"n": 1})
        assert ids(saver.list(config())) == ["1"]
