"""A packing that fails raises, and leaves the log as it was."""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING, Any

import pytest
from cases.graphs import at, config, prose, put
from cases.logs import records, text
from cases.test_full_disk import files_of_at_most

from langgraph_jsonl_checkpoint import JsonlSaver
from langgraph_jsonl_checkpoint.log import entries, files, frames

from .layout import is_packed
from .scene import go_on, seen, seen_anew, small

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def check(root: Path, saver: JsonlSaver, told: dict[str, Any], data: bytes) -> None:
    """The log is as it was to all, the saver goes on with it, and packs it when there is room."""
    log = saver.path("t")
    assert log.read_bytes() == data
    assert [file.name for file in log.parent.iterdir()] == [log.name]
    assert seen(saver, "t") == told == seen_anew(root, "t")
    newest = go_on(saver)
    lines = text(log)
    assert saver.pack("t")
    assert text(log) == lines
    assert saver.get_tuple(config()) == newest
    with JsonlSaver(root) as other:
        assert other.get_tuple(config()) == newest
    records(log)


@pytest.mark.parametrize("packed_before", [False, True])
@pytest.mark.parametrize("room", [0, 1, 100, 700])
def test_a_packing_without_room_leaves_the_log_as_it_was(root: Path, room: int, packed_before: bool) -> None:
    """kimi-code#2902: it raises, nothing is left beside the log, and the session is none that failed."""
    log = small(root)
    with JsonlSaver(root, restore_memory="never") as saver:
        if packed_before:
            saver.pack("t")
            put(saver, at(50), {"n": prose(1, 900)})
        told, data = seen(saver, "t"), log.read_bytes()
        with files_of_at_most(room), pytest.raises(OSError, match="File too large"):
            saver.pack("t")
        check(root, saver, told, data)


def _fails(code: int) -> Callable[..., Any]:
    def fail(*_: Any, **__: Any) -> Any:
        raise OSError(code, os.strerror(code))

    return fail


@pytest.mark.parametrize("call", ["pwrite", "fdatasync", "link", "rename", "open"])
def test_a_packing_whose_kernel_call_fails_leaves_the_log_as_it_was(
    root: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    """No space, a disk that does not sync, a folder that may not be changed."""
    log = small(root)
    with JsonlSaver(root, restore_memory="never") as saver:
        told, data = seen(saver, "t"), log.read_bytes()
        with monkeypatch.context() as patch:
            if call == "open":
                opened = files.open
                patch.setattr(
                    files, "open", lambda p, f, *m: opened(p, f, *m) if not f & os.O_CREAT else _fails(errno.EROFS)()
                )
            else:
                patch.setattr(files, call, _fails(errno.EIO))
            with pytest.raises(OSError):  # noqa: PT011 - each call has its own
                saver.pack("t")
        check(root, saver, told, data)


def test_a_packed_log_whose_folder_was_not_synced_is_read(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The last step fails, when the packed log stands in its place: it raises, and all go on with what is there."""
    log = small(root)
    with JsonlSaver(root, restore_memory="never") as saver:
        told, lines = seen(saver, "t"), text(log)
        with monkeypatch.context() as patch:
            patch.setattr(entries, "sync_directory", _fails(errno.EIO))
            with pytest.raises(OSError, match="Input/output"):
                saver.pack("t")
        assert text(log) == lines
        assert seen(saver, "t") == told == seen_anew(root, "t")
        newest = go_on(saver)
    with JsonlSaver(root) as saver:
        assert saver.get_tuple(config()) == newest


def test_a_frame_that_does_not_come_back_is_not_stored(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was packed is read again before it takes the log's place."""
    log = small(root)
    with JsonlSaver(root, restore_memory="never") as saver:
        told, data = seen(saver, "t"), log.read_bytes()
        real = frames.compress
        with monkeypatch.context() as patch:
            patch.setattr(frames, "compress", lambda text, level=1: real(bytes(text).replace(b"a", b"b"), level))
            with pytest.raises(Exception):  # noqa: B017, PT011 - whatever says that it cannot be packed
                saver.pack("t")
        check(root, saver, told, data)


def test_a_damaged_log_is_not_packed(root: Path) -> None:
    """Not a byte of it is changed, and what is damaged stays to be seen."""
    log = small(root)
    data = bytearray(log.read_bytes())
    data[len(data) // 2] ^= 0xFF
    log.write_bytes(data)
    with JsonlSaver(root) as saver, pytest.raises(Exception, match="damaged"):
        saver.pack("t")
    assert log.read_bytes() == data
    assert not is_packed(log)
