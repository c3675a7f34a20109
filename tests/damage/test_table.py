"""Each kind of damage, given to each reader: the error that says where, or the repair with its byte count."""

from __future__ import annotations

import errno
import os
import shutil
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from kill.bare import records
from langchain_core.messages import HumanMessage
from langgraph.checkpoint.base import CheckpointTuple, empty_checkpoint

from damage.scene import (
    CONFIG,
    DAMAGE,
    HURT,
    OTHER,
    WELL,
    Corrupt,
    Hidden,
    Log,
    Refused,
    Same,
    Torn,
    everything,
    fill,
    is_part_of,
)
from langgraph_jsonl_checkpoint import CorruptSessionError, JsonlSaver, SessionError, UnsupportedVersionError
from langgraph_jsonl_checkpoint.cli import main
from langgraph_jsonl_checkpoint.log import files

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


class Written(NamedTuple):
    """A root with two threads, and what was written in them."""

    root: Path
    log: Log
    other: Log
    hurt: list[CheckpointTuple]
    well: list[CheckpointTuple]


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Written:
    """The threads before any damage."""
    root = tmp_path_factory.mktemp("written")
    fill(root)
    with JsonlSaver(root) as saver:
        other = Log(saver.path(OTHER).read_bytes())
        saver.delete_thread(OTHER)
        return Written(root, Log(saver.path(HURT).read_bytes()), other, everything(saver), everything(saver, WELL))


class Case:
    """One kind of damage, done to a copy of the threads."""

    def __init__(self, written: Written, root: Path, name: str) -> None:
        self.written = written
        self.root = root
        self._expected: list[CheckpointTuple] | None = None
        shutil.copytree(written.root, root)
        self.saver = JsonlSaver(root, fsync="never", restore_memory="never")
        self.path = self.saver.path(HURT)
        self.data, self.outcome = DAMAGE[name](written.log, written.other)
        self.cut = self.outcome.offset if isinstance(self.outcome, Torn) else len(self.data)

    def hurt(self) -> None:
        """Do the damage, in place, as a disk does."""
        with self.path.open("r+b") as file:
            file.truncate(len(self.data))
            file.write(self.data)

    def expected(self) -> list[CheckpointTuple]:
        """What is to be read of a log that is torn or whole: what the part before the tear says."""
        if self._expected is not None:
            return self._expected
        aside = self.root.with_name("aside")
        shutil.copytree(self.written.root, aside)
        with JsonlSaver(aside) as saver:
            saver.path(HURT).write_bytes(self.data[: self.cut])
            self._expected = everything(saver)
        return self._expected

    def check_error(self, error: SessionError) -> None:
        """The error is the expected one, and nothing was changed."""
        if isinstance(self.outcome, Refused):
            assert type(error) is UnsupportedVersionError
            assert str(self.path) in str(error)
        else:
            assert type(error) is CorruptSessionError
            assert (error.path, error.offset, error.seq) == (str(self.path), self.outcome.offset, self.outcome.seq)
        self.check_untouched()

    def check_hidden(self, read: Callable[[], Any], *, changes: bool = False) -> None:
        """Either the reader does not need the record, or its error says which one it is."""
        try:
            found = read()
            if isinstance(found, CheckpointTuple):
                assert is_part_of([found], self.written.hurt)
        except CorruptSessionError as error:
            # It may name the checkpoint that needs the record.
            assert (error.path, error.seq >= self.outcome.seq) == (str(self.path), True)  # noqa: PT017
        if not changes:
            self.check_untouched()

    def check_untouched(self) -> None:
        """The log is as the damage left it, and nothing lies beside it."""
        assert self.path.read_bytes() == self.data
        assert [file.name for file in self.path.parent.iterdir()] == [self.path.name]

    def check_neighbour(self) -> None:
        """The thread beside it is listed, named and readable."""
        found = list(self.saver.list(None))
        assert [each for each in found if each.config["configurable"]["thread_id"] == WELL] == self.written.well
        hurt = [each for each in found if each.config["configurable"]["thread_id"] == HURT]
        assert is_part_of([each for each in hurt if each.metadata["step"] < 90], self.written.hurt)
        assert WELL in [info.thread_id for info in self.saver.sessions()]


@pytest.fixture
def case(written: Written, tmp_path: Path, request: pytest.FixtureRequest) -> Any:
    """The damage that the test is about."""
    case = Case(written, tmp_path / "root", request.param)
    yield case
    case.saver.close()


each_damage = pytest.mark.parametrize("case", DAMAGE, indirect=True)


def put(saver: JsonlSaver, step: int = 90) -> None:
    """Put a checkpoint behind all others."""
    checkpoint = empty_checkpoint()
    checkpoint["channel_values"] = {"messages": [HumanMessage(f"put {step}", id=f"put {step}")]}
    version = saver.get_next_version(None, None)
    checkpoint["channel_versions"] = {"messages": version}
    config = {"configurable": {"thread_id": HURT, "checkpoint_ns": ""}}
    saver.put(config, checkpoint, {"source": "loop", "step": step, "parents": {}}, {"messages": version})


READERS: dict[str, Callable[[JsonlSaver], Any]] = {
    "get_tuple": lambda saver: saver.get_tuple(CONFIG),
    "list": everything,
    "resume_state": lambda saver: saver.resume_state(HURT),
    "session_memory": lambda saver: saver.session_memory(HURT),
    "head": lambda saver: saver.head(HURT),
    "copy_thread": lambda saver: saver.copy_thread(HURT, "copied"),
}


@each_damage
@pytest.mark.parametrize("reader", READERS)
def test_a_reader_gives_what_was_written_or_says_where_it_is_damaged(case: Case, reader: str) -> None:
    """Nothing is changed by reading; a torn end is left to the next writer."""
    case.hurt()
    check_reader(case, reader)


@each_damage
def test_a_log_that_can_only_be_read_is_read_the_same(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a read-only medium: the same states, the same errors; an append is refused, and nothing is repaired."""
    case.hurt()
    opened = files.open

    def only_read(path: Any, flags: int, *mode: int) -> int:
        if flags & os.O_RDWR and os.fspath(path) == str(case.path):
            raise OSError(errno.EROFS, os.strerror(errno.EROFS), path)
        return opened(path, flags, *mode)

    monkeypatch.setattr(files, "open", only_read)
    check_reader(case, "list")
    with pytest.raises((OSError, SessionError)):
        put(case.saver)
    assert case.path.read_bytes() == case.data


def check_reader(case: Case, reader: str) -> None:
    """A reader gives what was written, or says where the log is damaged; it changes nothing."""
    read = READERS[reader]
    if isinstance(case.outcome, Hidden):
        case.check_hidden(lambda: read(case.saver))
    elif isinstance(case.outcome, (Corrupt, Refused)):
        with pytest.raises(SessionError) as caught:
            read(case.saver)
        case.check_error(caught.value)
    else:
        expected = case.expected()
        found = read(case.saver)
        assert everything(case.saver) == expected
        if reader == "get_tuple":
            assert found == (expected[0] if expected else None)
        if reader == "resume_state" and expected:
            assert found.checkpoint.id == expected[0].checkpoint["id"]
        if reader == "copy_thread":
            assert [t.checkpoint for t in everything(case.saver, "copied")] == [t.checkpoint for t in expected]
        case.check_untouched()
    case.check_neighbour()


@each_damage
@pytest.mark.parametrize("writer", ["put", "pack"])
def test_a_writer_repairs_a_torn_end_and_touches_nothing_else(case: Case, writer: str) -> None:
    """What is torn lies beside the log, byte for byte, and the log says how much; it goes on and all is read."""
    case.hurt()

    def write() -> None:
        put(case.saver) if writer == "put" else case.saver.pack(HURT)

    if isinstance(case.outcome, Hidden):
        for change in (put, lambda saver: saver.prune([HURT])):
            case.check_hidden(lambda: change(case.saver), changes=True)  # noqa: B023 - called at once
        return
    if isinstance(case.outcome, (Corrupt, Refused)):
        with pytest.raises(SessionError) as caught:
            write()
        case.check_error(caught.value)
        case.check_neighbour()
        return
    expected = case.expected()
    write()
    torn = case.data[case.cut :]
    aside = {file.name: file.read_bytes() for file in case.path.parent.glob("session.torn-*")}
    assert list(aside.values()) == ([torn] if torn else [])
    assert [line["recovered"] for line in records(case.path) if "recovered" in line] == [
        {"offset": case.cut, "bytes": len(torn), "file": name} for name in aside
    ]
    for step in range(91, 94):
        put(case.saver, step)
    with JsonlSaver(case.root) as again:
        found = everything(again)
        assert [each.metadata["step"] for each in found[: -len(expected) or None]] == [93, 92, 91, 90][
            : 4 if writer == "put" else 3
        ]
        assert found[len(found) - len(expected) :] == expected
        assert again.verify(HURT).ok
    case.check_neighbour()


@each_damage
def test_a_reader_that_follows_never_gives_what_was_not_written(case: Case) -> None:
    """Damage under an open saver is found, or it goes on giving what it has read; its writer does not go on."""
    assert everything(case.saver) == case.written.hurt
    case.hurt()
    for _ in range(2):
        try:
            assert is_part_of(everything(case.saver), case.written.hurt)
        except SessionError as error:
            case.check_error(error)
    case.check_untouched()
    case.check_neighbour()


@each_damage
def test_verify_reports_the_damage_and_changes_nothing(case: Case) -> None:
    """The first problem is at the place where readers stop; a log that is whole has none."""
    case.hurt()
    if isinstance(case.outcome, Refused):
        with pytest.raises(UnsupportedVersionError):
            case.saver.verify(HURT)
    else:
        report = case.saver.verify(HURT)
        assert report.ok is isinstance(case.outcome, Same)
        first = [(p.path, p.offset, p.seq, p.torn) for p in report.problems[:1]]
        if not report.ok:
            is_torn = isinstance(case.outcome, Torn)
            assert first == [(str(case.path), case.outcome.offset, case.outcome.seq, is_torn)]
        assert report.bytes == len(case.data)
    case.check_untouched()
    assert case.saver.verify(WELL).ok


@each_damage
def test_salvage_gives_a_whole_log_that_holds_only_what_was_written(case: Case) -> None:
    """The damaged log stays, the new one passes its check, goes on, and no state in it is another than it was."""
    case.hurt()
    is_left = len(case.data) >= case.written.log.ends[2] and case.data != case.written.other.data
    if isinstance(case.outcome, Refused) or not is_left:
        with pytest.raises(UnsupportedVersionError if isinstance(case.outcome, Refused) else CorruptSessionError):
            case.saver.salvage(HURT, "saved")
        assert not case.saver.path("saved").exists()
        case.check_untouched()
        return
    report = case.saver.salvage(HURT, "saved")
    case.check_untouched()
    found = everything(case.saver, "saved")
    assert is_part_of(found, case.written.hurt, thread="saved")
    assert case.saver.verify("saved").ok
    if isinstance(case.outcome, Same):
        assert (report.lost, report.missing, report.dropped, len(found)) == ((), (), (), len(case.written.hurt))
    else:
        first = (report.lost or report.dropped)[0]
        assert (first.offset, first.seq) == (case.outcome.offset, case.outcome.seq)
    if isinstance(case.outcome, Torn):
        assert [t.checkpoint for t in case.expected()] == [t.checkpoint for t in found][-len(case.expected()) :]
    case.saver.put_writes(found[0].config, [("messages", [HumanMessage("later")])], "later") if found else None
    assert case.saver.verify("saved").ok
    case.check_neighbour()


@each_damage
def test_the_command_line_says_it_with_its_exit_code(case: Case, capsys: pytest.CaptureFixture) -> None:
    """0 good, 1 damaged, 2 cannot be read; the thread beside it is told of, too."""
    case.hurt()
    code = {Corrupt: 1, Hidden: 1, Torn: 1, Refused: 2, Same: 0}[type(case.outcome)]
    assert main(["verify", str(case.root)]) == code
    out = capsys.readouterr().out
    assert f"{WELL}: good" in out
    assert (f"{HURT}: good" in out) == (code == 0)
    if code == 1:
        assert f"byte {case.outcome.offset}, record {case.outcome.seq}: " in out
    assert main(["verify", str(case.root), WELL]) == 0
    assert main(["salvage", str(case.root), HURT]) == code
    case.check_untouched()


@each_damage
def test_what_is_done_to_all_threads_is_done_to_the_healthy_ones(case: Case) -> None:
    """`delete_for_runs` raises because of the damaged thread, after it has done the others."""
    case.hurt()
    run = case.written.well[0].metadata["run_id"]
    try:
        case.saver.delete_for_runs([run])
    except SessionError as error:
        case.check_error(error)
    left = everything(case.saver, WELL)
    assert run not in [each.metadata["run_id"] for each in left]
    assert len(left) < len(case.written.well)
