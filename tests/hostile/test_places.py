"""A directory in which somebody else was first: links, pipes, other owners, wrong modes; and what we leave there."""

from __future__ import annotations

import errno
import os
import pathlib
import shutil
import stat
import subprocess
import sys
import tempfile
from typing import TYPE_CHECKING, Any

import pytest
from langchain_core.messages import HumanMessage

from langgraph_jsonl_checkpoint import CorruptSessionError, JsonlSaver

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from langchain_core.runnables import RunnableConfig

NOBODY = 65534
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files to others")


def config(thread_id: str = "t") -> RunnableConfig:
    """A thread's config."""
    return {"configurable": {"thread_id": thread_id, "checkpoint_ns": ""}}


def put(saver: JsonlSaver, thread_id: str = "t", step: int = 0, following: tuple[str, ...] = ()) -> None:
    """Put a checkpoint, which leads to nodes if it is to leave a run open."""
    version = saver.get_next_version(None, None)
    values: dict[str, Any] = {"messages": [HumanMessage("hello " * 200, id=str(step))]}
    values |= {f"branch:to:{node}": None for node in following}
    made = {"v": 4, "id": f"1f000000-0000-6000-8000-{step:012}", "ts": "2026", "channel_values": values}
    made |= {"channel_versions": dict.fromkeys(values, version), "versions_seen": {}}
    saver.put(config(thread_id), made, {"source": "loop", "step": step}, made["channel_versions"])


def snapshot(folder: Path) -> dict[str, Any]:
    """Everything in a folder, with what it holds."""
    found: dict[str, Any] = {}
    for path in sorted(folder.rglob("*")):
        at = path.lstat()
        found[str(path.relative_to(folder))] = (
            oct(at.st_mode),
            path.read_bytes() if stat.S_ISREG(at.st_mode) else None,
        )
    return found


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    """A folder with a file and a log, of which nothing may change."""
    folder = tmp_path / "victim"
    folder.mkdir()
    (folder / "precious").write_text("here")
    with JsonlSaver(tmp_path / "elsewhere") as saver:
        put(saver)
        (folder / "session.jsonl.zst").write_bytes(saver.path("t").read_bytes())
    return folder


USES: dict[str, Callable[[JsonlSaver], Any]] = {
    "get_tuple": lambda s: s.get_tuple(config()),
    "put": lambda s: put(s, following=("n",)),
    "resume_state": lambda s: s.resume_state("t"),
    "pack": lambda s: s.pack("t"),
    "prune": lambda s: s.prune(["t"]),
    "copy to": lambda s: s.copy_thread("good", "t"),
    "copy from": lambda s: s.copy_thread("t", "new"),
}


def _link_to_log(place: Path, victim: Path) -> None:
    place.mkdir(parents=True)
    (place / "session.jsonl.zst").symlink_to(victim / "session.jsonl.zst")


def _link_to_nothing(place: Path, victim: Path) -> None:
    place.mkdir(parents=True)
    (place / "session.jsonl.zst").symlink_to(victim / "made")


def _link_to_folder(place: Path, victim: Path) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    place.symlink_to(victim)


def _link_to_no_folder(place: Path, victim: Path) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    place.symlink_to(victim / "made")


def _pipe(place: Path, victim: Path) -> None:
    place.mkdir(parents=True)
    os.mkfifo(place / "session.jsonl.zst")


def _folder(place: Path, victim: Path) -> None:
    (place / "session.jsonl.zst").mkdir(parents=True)


PLANTED = [_link_to_log, _link_to_nothing, _link_to_folder, _link_to_no_folder, _pipe, _folder]


@pytest.mark.parametrize("plant", PLANTED)
def test_what_stands_in_the_place_of_a_log_is_never_followed(
    tmp_path: Path, victim: Path, plant: Callable[[Path, Path], None]
) -> None:
    """A link, a pipe or a folder: an error at once, nothing of where it leads changes, the other threads go on."""
    root = tmp_path / "root"
    with JsonlSaver(root) as saver:
        put(saver, "good")
        place = saver.path("t").parent
    plant(place, victim)
    before = snapshot(victim)
    for name, use in USES.items():
        with JsonlSaver(root) as saver:
            if name == "copy to":
                with pytest.raises((OSError, ValueError)):
                    use(saver)
            elif name == "resume_state" and plant is _link_to_no_folder:
                with pytest.raises((OSError, LookupError)):
                    use(saver)
            else:
                with pytest.raises(OSError, match=r"(?i)link|symbolic|no file|directory") as refusal:
                    use(saver)
                assert refusal.value.errno in (errno.ELOOP, errno.EINVAL, errno.EISDIR, errno.ENXIO), name
            assert {found.config["configurable"]["thread_id"] for found in saver.list(None)} == {"good"}
            assert "good" in [info.thread_id for info in saver.sessions()]
            assert snapshot(victim) == before
    with JsonlSaver(root) as saver:
        if plant is _folder:
            return
        saver.delete_thread("t")
        assert snapshot(victim) == before
        assert not os.path.lexists(place)
        put(saver)  # and the thread begins anew
        assert saver.get_tuple(config()) is not None


def test_a_link_beside_a_log_is_removed_and_never_followed(tmp_path: Path, victim: Path) -> None:
    """`.new-*` and side files that somebody planted: a rewrite and a deletion unlink them, and no more."""
    before = snapshot(victim)
    with JsonlSaver(tmp_path / "root") as saver:
        put(saver)
        put(saver, step=1)
        folder = saver.path("t").parent
        for name in (".new-0123456789abcdef", ".new-x", "session.torn-0-x", "other"):
            (folder / name).symlink_to(victim / "precious")
        saver.pack("t")
        saver.prune(["t"])
        put(saver, step=2)
        assert len(list(saver.list(config()))) == 2
        assert snapshot(victim) == before
        saver.delete_thread("t")
        assert not folder.exists()
        assert snapshot(victim) == before


def test_a_link_that_leads_to_itself_stops_no_list(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Whatever the system says of one name: the threads beside it are listed, and it is told of."""
    with JsonlSaver(tmp_path) as saver:
        put(saver)
        (tmp_path / "default" / "loop").symlink_to("loop")
        assert [info.thread_id for info in saver.sessions()] == ["t"]
        assert len(list(saver.list(None))) == 1
        saver.delete_for_runs(["none"])
    assert str(tmp_path / "default" / "loop") in caplog.text


def test_links_in_the_folder_of_writers_are_never_followed(tmp_path: Path, victim: Path) -> None:
    """A writer's file that is a link is no sign of life, and what it leads to stays."""
    root = tmp_path / "root"
    with JsonlSaver(root) as saver:
        put(saver, following=("n",))
        (own,) = os.listdir(root / ".writers")
        before = snapshot(victim)
        (root / ".writers" / "deadbeef").symlink_to(victim / "precious")
        os.unlink(root / ".writers" / own)
        (root / ".writers" / own).symlink_to(victim / "precious")
        with JsonlSaver(root) as other, pytest.raises(OSError, match=r"(?i)link"):
            other.resume_state("t")
        assert snapshot(victim) == before
        os.unlink(root / ".writers" / own)
    assert snapshot(victim) == before


def test_the_root_and_a_workspace_may_be_links(tmp_path: Path) -> None:
    """Whoever owns the machine puts its sessions where there is room."""
    disk = tmp_path / "disk"
    disk.mkdir()
    (tmp_path / "root").symlink_to(disk)
    (disk / "space").mkdir()
    (disk / "default").symlink_to(disk / "space")
    with JsonlSaver(tmp_path / "root") as saver:
        put(saver)
        assert saver.get_tuple(config()) is not None
        assert (disk / "space" / "t" / "session.jsonl.zst").is_file()
        saver.delete_thread("t")
    assert os.listdir(disk / "space") == []


def test_another_threads_folder_under_a_name_is_refused(tmp_path: Path) -> None:
    """A log moved or copied to another name, another workspace: its header says whose it is."""
    with JsonlSaver(tmp_path) as saver:
        put(saver, "mine")
        os.rename(saver.path("mine").parent, saver.path("yours").parent)
        with pytest.raises(CorruptSessionError, match="is of thread 'mine'"):
            saver.get_tuple(config("yours"))
        assert saver.get_tuple(config("mine")) is None
        assert list(saver.list(None)) == []


LEAVES = """
import os, sys
os.umask(int(sys.argv[2], 8))
if len(sys.argv) > 3:
    os.setgid(int(sys.argv[3])); os.setuid(int(sys.argv[3]))
sys.path.insert(0, sys.argv[4] if len(sys.argv) > 4 else "tests")
from hostile.test_places import config, put
from langgraph_jsonl_checkpoint import JsonlSaver
saver = JsonlSaver(sys.argv[1])
for step in range(3):
    put(saver, step=step, following=("n",))
put(saver, "packed")
with open(saver.path("t"), "ab") as log:
    log.write(b"torn")
saver.close()
saver = JsonlSaver(sys.argv[1], workspace="other")
put(saver, "t")
saver.close()
saver = JsonlSaver(sys.argv[1])
put(saver, step=3, following=("n",))
saver.pack("packed")
saver.prune(["t"])
put(saver, step=4, following=("n",))
saver.copy_thread("t", "copy")
os._exit(0)  # and so leaves its writer's file
"""


def leaves(root: Path, umask: int, *more: str) -> None:
    """Run a writer that does all that makes files, in a process with this umask."""
    order = [sys.executable, "-c", LEAVES, str(root), f"{umask:o}", *more]
    subprocess.run(order, check=True, timeout=60, cwd=os.getcwd())


def modes(root: Path) -> dict[str, int]:
    """The modes of all that lies in a folder, and of the folder."""
    return {str(path.relative_to(root)): stat.S_IMODE(path.lstat().st_mode) for path in [root, *root.rglob("*")]}


@pytest.mark.parametrize("umask", [0, 0o022, 0o077])
def test_files_are_0600_and_directories_0700_under_any_umask(tmp_path: Path, umask: int) -> None:
    """Logs, side files of torn ends, packed and pruned logs, copies, writers' files, and every new directory."""
    root = tmp_path / "deep" / "root"
    leaves(root, umask)
    found = modes(tmp_path / "deep")
    names = {os.path.basename(name) for name in found}
    assert any(name.startswith("session.torn-") for name in names)
    assert ".writers" in names
    assert "copy" in names
    for name, mode in found.items():
        is_folder = (tmp_path / "deep" / name).is_dir()
        assert oct(mode) == oct(0o700 if is_folder else 0o600), name


def test_a_root_that_is_open_to_all_gets_closed_folders(tmp_path: Path) -> None:
    """What was there keeps its mode; what is made in it is ours alone."""
    root = tmp_path / "root"
    root.mkdir()
    root.chmod(0o777)
    leaves(root, 0)
    found = modes(root)
    assert found.pop(".") == 0o777
    assert set(found.values()) == {0o600, 0o700}


@pytest.fixture
def for_all() -> Iterator[Path]:
    """A folder that every user may enter, as those of pytest are not."""
    folder = pathlib.Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


@as_root
def test_files_of_another_owner_do_not_stop_the_others(for_all: Path) -> None:
    """As an ordinary user: a log, a folder that is root's is a PermissionError; lists leave it out and say so."""
    root = for_all / "root"
    with JsonlSaver(root) as saver:
        for thread in ("roots log", "roots folder", "mine", "read only"):
            put(saver, thread)
        paths = {thread: saver.path(thread) for thread in ("roots log", "roots folder", "mine", "read only")}
    for path in [root, *root.rglob("*")]:
        os.chown(path, NOBODY, NOBODY)
    os.chown(paths["roots log"], 0, 0)
    os.chown(paths["roots folder"].parent, 0, 0)
    os.chown(paths["read only"], 0, 0)
    paths["read only"].chmod(0o644)
    as_nobody(lambda: _uses(root))


def as_nobody(use: Callable[[], None]) -> None:
    """Do something as an ordinary user, in a child."""
    pid = os.fork()
    if not pid:
        code = 1
        try:
            os.setgid(NOBODY)
            os.setuid(NOBODY)
            use()
            code = 0
        except BaseException:
            sys.excepthook(*sys.exc_info())  # type: ignore[arg-type]
        finally:
            os._exit(code)
    assert os.waitpid(pid, 0)[1] == 0


def _uses(root: Path) -> None:
    saver = JsonlSaver(root)
    for thread in ("roots log", "roots folder"):
        for use in (lambda t: saver.get_tuple(config(t)), lambda t: put(saver, t)):
            with pytest.raises(PermissionError):
                use(thread)
    assert saver.get_tuple(config("read only")) is not None
    with pytest.raises(PermissionError) as refused:
        put(saver, "read only", 1)
    assert not hasattr(refused.value, "__notes__"), "nothing was written, so nothing had to be cut off"
    put(saver, "mine", 1)
    listed = [found.config["configurable"]["thread_id"] for found in saver.list(None)]
    assert sorted(listed) == ["mine", "mine", "read only"]
    put(saver, "new")
    saver.delete_thread("mine")
    assert saver.get_tuple(config("mine")) is None
    saver.close()


@as_root
def test_a_torn_end_that_may_not_be_cut_is_left_where_it_is(for_all: Path) -> None:
    """Of a log that is only to be read, in a folder that is one's own: each try is refused, and leaves no copy."""
    root = for_all / "root"
    with JsonlSaver(root) as saver:
        put(saver)
        log = saver.path("t")
    with log.open("ab") as file:
        file.write(b"torn")
    for path in [root, *root.rglob("*")]:
        os.chown(path, NOBODY, NOBODY)
    os.chown(log, 0, 0)
    log.chmod(0o644)

    def use() -> None:
        for _ in range(2):
            with JsonlSaver(root) as saver, pytest.raises(PermissionError):
                put(saver, step=1)

    as_nobody(use)
    assert [path.name for path in log.parent.iterdir()] == [log.name]


@as_root
def test_a_root_that_cannot_be_written_is_read(for_all: Path) -> None:
    """An ordinary user, a root of somebody else's that all may read: reads work, writes are a PermissionError."""
    root = for_all / "root"
    with JsonlSaver(root) as saver:
        put(saver)
    for path in [root, *root.rglob("*")]:
        path.chmod(0o755 if path.is_dir() else 0o644)

    def use() -> None:
        with JsonlSaver(root) as saver:
            assert saver.get_tuple(config()) is not None
            assert len(list(saver.list(None))) == 1
            for thread in ("t", "new"):
                with pytest.raises(PermissionError):
                    put(saver, thread, 1)
                with pytest.raises(PermissionError):
                    saver.copy_thread("t", "copy")

    as_nobody(use)
