"""An index is never trusted over the log: what it says wrongly is found out, or the lines are read instead of it."""

from __future__ import annotations

import json
import os
import shutil
import time
import tracemalloc
from typing import TYPE_CHECKING, Any

import pytest
from cases.graphs import at, config, put
from cases.logs import text
from guard.scene import CHARGE, LOOKUP, Effects, Model, build

from langgraph_jsonl_checkpoint import CorruptSessionError, JsonlSaver, SessionError, UnsupportedVersionError
from langgraph_jsonl_checkpoint.log import frames, journal, packing, records

from .layout import compressed, index, lie, parts, skippable, with_index, without_index
from .scene import go_on, seen, small

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

pytestmark = pytest.mark.usefixtures("small_frames")

HUGE = 2**62


class Packed:
    """A packed log, what is read of it, and what is read of it when one more checkpoint is there."""

    def __init__(self, folder: Path, fill: Callable[[Path], Path]) -> None:
        self.root = folder / "packed"
        self.log = fill(self.root).relative_to(self.root)
        with JsonlSaver(self.root, restore_memory="never") as saver:
            saver.pack("t")
        self.data = (self.root / self.log).read_bytes()
        twin = shutil.copytree(self.root, folder / "twin")
        self.told = dict(answers(self.root))
        with JsonlSaver(twin, restore_memory="never") as saver:
            go_on(saver)
        self.gone_on = rows(twin)

    def copy(self, root: Path) -> Path:
        """The same under another root; where the log is."""
        return shutil.copytree(self.root, root) / self.log

    def check(self, root: Path, *, may_be: tuple[type[SessionError], ...] = (CorruptSessionError,)) -> set[str]:
        """Each answer is the right one or an error that says where; so is what comes of it if somebody goes on."""
        log = root / self.log
        before, outcomes = log.read_bytes(), set()
        for what, answer in answers(root, log=log, may_be=may_be):
            wrong = answer is not CorruptSessionError and answer != self.told[what]
            assert not wrong, f"another state: {what} is {answer!r:.600}, not {self.told[what]!r:.600}"
            outcomes.add("error" if answer is CorruptSessionError else "right")
        assert log.read_bytes() == before, "reading changes nothing"
        try:
            with JsonlSaver(root, restore_memory="never") as saver:
                go_on(saver)
        except may_be:
            assert log.read_bytes() == before, "what is not stored changes nothing"
            return outcomes
        assert text(log).startswith(text_of(before))
        without_index(log)
        assert rows(root) == self.gone_on, "the log is not what it was and a checkpoint more"
        return outcomes


def text_of(data: bytes) -> bytes:
    """The lines of a log that somebody damaged in its index alone."""
    import zstandard

    return zstandard.ZstdDecompressor().stream_reader(data, read_across_frames=True).read()


def rows(root: Path) -> list[Any]:
    """All checkpoints."""
    with JsonlSaver(root, restore_memory="never") as saver:
        return [tuple(row) for row in saver.list({"configurable": {"thread_id": "t"}})]


def answers(root: Path, *, log: Path | None = None, may_be: tuple[type[SessionError], ...] = ()) -> Any:
    """What a new saver answers to each question, asked first."""
    places = [at(n) for n in range(4)]
    questions: dict[str, Callable[[JsonlSaver], Any]] = {
        "rows": lambda s: [tuple(row) for row in s.list({"configurable": {"thread_id": "t"}})],
        "children": lambda s: [tuple(row) for row in s.list(config("t", "child:1"))],
        "newest": lambda s: s.get_tuple(config("t")),
        "newest child": lambda s: s.get_tuple(config("t", "child:1")),
        "early": lambda s: [s.get_tuple(config("t", ns, place)) for ns in ("", "child:1") for place in places],
        "resume": lambda s: s.resume_state("t"),
        "memory": lambda s: s.session_memory("t"),
        "uncertain": lambda s: s.uncertain("t"),
        "inputs": lambda s: [s.accepts("t", f"input {n}") for n in range(4)],
    }
    for what, question in questions.items():
        with JsonlSaver(root, restore_memory="never") as saver:
            try:
                yield what, question(saver)
            except may_be as error:
                says_where(error, log)
                yield what, CorruptSessionError


def says_where(error: SessionError, log: Path | None) -> None:
    """An error about a damaged log names the file, and a place in it."""
    if isinstance(error, CorruptSessionError):
        assert error.path == str(log)
        assert 0 <= error.offset <= os.path.getsize(error.path)
        assert error.seq >= 0
        assert error.reason


def agent(root: Path) -> Path:
    """A closed log of an agent whose tool calls are guarded, as thread "t"."""
    root.mkdir(parents=True)
    with JsonlSaver(root, fsync="never", restore_memory="never") as saver:
        graph = build("create_agent", saver, Effects(root).tools, Model(rounds=[[CHARGE, LOOKUP]]), memory=True)
        graph.invoke({"messages": [("user", "pay")]}, config("t"))
        return saver.path("t")


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory) -> Packed:
    """A small packed log of two namespaces."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(packing, "_TEXT", 1000)
        return Packed(tmp_path_factory.mktemp("small"), lambda root: small(root, turns=3))


@pytest.fixture(scope="module")
def worked(tmp_path_factory: pytest.TempPathFactory) -> Packed:
    """An agent's packed log."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(packing, "_TEXT", 1000)
        return Packed(tmp_path_factory.mktemp("agent"), agent)


# --- damage

STEP = 7


@pytest.mark.parametrize("frame", ["one frame", "many frames"])
@pytest.mark.parametrize("phase", range(STEP))
def test_a_flipped_bit_anywhere_gives_the_right_state_or_an_error(tmp_path: Path, phase: int, frame: str) -> None:
    """Header, index or frames: nothing of a packed log is taken for a torn end, and no other state is read."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(packing, "_TEXT", 1000 if frame == "many frames" else 1 << 18)
        whole = Packed(tmp_path, lambda root: small(root, turns=2))
    header = len(parts(whole.root / whole.log).header)
    root = tmp_path / "flipped"
    log = whole.copy(root)
    for place in range(phase, len(whole.data), STEP):
        data = bytearray(whole.data)
        data[place] ^= 1 << place % 8
        log.write_bytes(data)
        may_be = (SessionError,) if place < header else (CorruptSessionError,)
        with JsonlSaver(root, restore_memory="never") as saver:
            try:
                found = [tuple(row) for row in saver.list({"configurable": {"thread_id": "t"}})]
                told: Any = saver.resume_state("t")
            except may_be as error:
                if not header <= place < header + 8:  # the index's own length
                    says_where(error, log)
                continue
        assert found == whole.told["rows"], f"another state: byte {place}"
        assert told == whole.told["resume"], f"another state: byte {place}"


@pytest.mark.parametrize("frame", ["one frame", "many frames"])
def test_a_flipped_bit_around_the_index_loses_nothing_when_somebody_appends(tmp_path: Path, frame: str) -> None:
    """Each bit of the index's own frame header and of the bytes around it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(packing, "_TEXT", 1000 if frame == "many frames" else 1 << 18)
        whole = Packed(tmp_path, lambda root: small(root, turns=1))
    begin = len(parts(whole.root / whole.log).header)
    root = tmp_path / "flipped"
    log = whole.copy(root)
    for bit in range(8 * (begin + 12), 8 * (begin - 2), -1):
        data = bytearray(whole.data)
        data[bit // 8] ^= 1 << bit % 8
        log.write_bytes(data)
        with JsonlSaver(root, restore_memory="never") as saver:
            try:
                put(saver, at(90), {"n": 90}, parent=at(0))
            except CorruptSessionError:
                assert log.read_bytes() == data
                continue
        assert {file.name for file in log.parent.iterdir()} == {log.name}, "a part was moved aside as torn"
        with JsonlSaver(root, restore_memory="never") as saver:
            assert [tuple(row) for row in saver.list(None)][1:] == whole.told["rows"]


def test_a_log_cut_anywhere_in_its_packed_frames_has_whole_frames_or_nothing(packed: Packed, tmp_path: Path) -> None:
    """No writer leaves that: what is read is a begin of what was there, or an error, and never something else."""
    root = tmp_path / "cut"
    log = packed.copy(root)
    lines = text(packed.root / packed.log)
    for cut in range(1, len(packed.data), 5):
        log.write_bytes(packed.data[:cut])
        with JsonlSaver(root, restore_memory="never") as saver:
            try:
                found = [tuple(row) for row in saver.list({"configurable": {"thread_id": "t"}})]
            except SessionError:
                continue
        names = {(row[0]["configurable"]["checkpoint_ns"], row[0]["configurable"]["checkpoint_id"]) for row in found}
        for row in packed.told["rows"]:
            configurable = row[0]["configurable"]
            if (configurable["checkpoint_ns"], configurable["checkpoint_id"]) in names:
                (same,) = [r for r in found if r[0] == row[0]]
                assert same[:4] == row[:4]
                assert [w for w in same[4] if w not in row[4]] == []
        assert len(found) <= len(packed.told["rows"])
    assert lines


BAD_CONTENT: dict[str, Callable[[bytes], bytes]] = {
    "nothing": lambda c: b"",
    "cut off": lambda c: c[: len(c) // 2],
    "all but its checksum": lambda c: c[:-4],
    "zeros": lambda c: bytes(len(c)),
    "text": lambda c: b"hello",
    "no JSON": lambda c: compressed(b"hello"),
    "JSON of something else": lambda c: compressed(b"[]"),
    "an empty object": lambda c: compressed(b"{}"),
    "null": lambda c: compressed(b"null"),
    "twice": lambda c: c + c,
    "garbage behind it": lambda c: c + b"garbage" * 50,
    "a frame that declares more than it holds": lambda c: c[:5] + b"\xff\xff\xff" + c[8:],
}


@pytest.mark.parametrize("what", BAD_CONTENT)
def test_an_index_that_is_not_whole_is_passed_over(packed: Packed, tmp_path: Path, what: str) -> None:
    """The lines are read instead; a log without its index is a log like any other."""
    log = packed.copy(tmp_path / "root")
    with_index(log, BAD_CONTENT[what](parts(log).index))
    assert packed.check(tmp_path / "root") == {"right"}


def test_a_log_whose_index_was_taken_out_is_a_log(packed: Packed, tmp_path: Path) -> None:
    """It is read, written, and packed again."""
    log = packed.copy(tmp_path / "root")
    without_index(log)
    with JsonlSaver(tmp_path / "root", restore_memory="never") as saver:
        assert saver.pack("t")
    assert text(log) == text(packed.root / packed.log)
    assert packed.check(tmp_path / "root") == {"right"}


def test_an_index_behind_the_frames_is_none(packed: Packed, tmp_path: Path) -> None:
    """Only what stands behind the header is looked at; elsewhere it is passed over."""
    log = packed.copy(tmp_path / "root")
    found = parts(log)
    log.write_bytes(found.header + found.frames + skippable(found.index))
    assert dict(answers(tmp_path / "root")) == packed.told
    with JsonlSaver(tmp_path / "root", restore_memory="never") as saver:
        saver.pack("t")
        go_on(saver)
    assert rows(tmp_path / "root") == packed.gone_on


def test_the_index_of_another_log_is_found_out(packed: Packed, tmp_path: Path) -> None:
    """A log made of the same calls, whose times and writers differ."""
    with JsonlSaver(tmp_path / "other") as saver:
        other = small(tmp_path / "other", turns=3)
        saver.pack("t")
    log = packed.copy(tmp_path / "root")
    with_index(log, parts(other).index)
    packed.check(tmp_path / "root")


def test_the_index_of_the_log_as_it_was_is_found_out_or_right(packed: Packed, tmp_path: Path) -> None:
    """What was appended and packed since is not missing."""
    root = tmp_path / "root"
    log = packed.copy(root)
    old = parts(log).index
    with JsonlSaver(root, restore_memory="never") as saver:
        go_on(saver)
        expected = rows(root)
        saver.pack("t")
    with_index(log, old)
    with JsonlSaver(root, restore_memory="never") as saver:
        try:
            found = [tuple(row) for row in saver.list({"configurable": {"thread_id": "t"}})]
        except CorruptSessionError:
            return
    assert found == expected


# --- lies

Index = dict[str, Any]


def _spaces(told: Index) -> dict[str, Any]:
    return told["contents"]["places"]["spaces"]


def _swap(held: list[Any], one: int, two: int) -> None:
    held[one], held[two] = held[two], held[one]


def _each_seq(told: Index, change: Callable[[int], int]) -> None:
    for space in _spaces(told).values():
        for name, seqs in space.items():
            space[name] = [change(seq) for seq in seqs]


LIES: dict[str, Callable[[Index], Any]] = {
    # of the frames
    "no frames": lambda i: i.update(packed=[]),
    "one frame less": lambda i: i["packed"].pop(),
    "the last frame and what is behind it are left out": lambda i: (
        i.update(behind=[i["packed"][-1][0], *i["packed"][-1][2:]]),
        i["packed"].pop(),
    ),
    "the first frame left out": lambda i: i["packed"].pop(0),
    "two frames as one": lambda i: (i["packed"][0].__setitem__(1, i["packed"][1][1]), i["packed"].pop(1)),
    "frames in another order": lambda i: i["packed"].reverse(),
    "an offset": lambda i: (i["packed"][0].__setitem__(1, 5), i["packed"][1].__setitem__(0, 5)),
    "frames of negative length": lambda i: (
        i["packed"][0].__setitem__(1, 10**6),
        i["packed"][1].__setitem__(0, 10**6),
    ),
    "a negative offset": lambda i: (i["packed"][-1].__setitem__(1, -5), i["behind"].__setitem__(0, -5)),
    "an end within the last frame": lambda i: (
        i["packed"][-1].__setitem__(1, i["packed"][-1][1] - 9),
        i["behind"].__setitem__(0, i["behind"][0] - 9),
    ),
    "an end behind the file": lambda i: (i["packed"][-1].__setitem__(1, HUGE), i["behind"].__setitem__(0, HUGE)),
    "an end one byte behind the file": lambda i: (
        i["packed"][-1].__setitem__(1, i["packed"][-1][1] + 1),
        i["behind"].__setitem__(0, i["behind"][0] + 1),
    ),
    "a frame's seq": lambda i: i["packed"][1].__setitem__(2, i["packed"][1][2] + 1),
    "a frame's seq, less": lambda i: i["packed"][1].__setitem__(2, i["packed"][1][2] - 1),
    "the first seq": lambda i: i["packed"][0].__setitem__(2, 0),
    "a negative seq": lambda i: i["packed"][1].__setitem__(2, -1),
    "the seq behind them": lambda i: i["behind"].__setitem__(1, i["behind"][1] + 1),
    "the seq behind them, less": lambda i: i["behind"].__setitem__(1, i["behind"][1] - 1),
    "the seq behind them, huge": lambda i: i["behind"].__setitem__(1, HUGE),
    "the seq behind them, too large": lambda i: i["behind"].__setitem__(1, 2**64),
    "a frame's chain": lambda i: i["packed"][1].__setitem__(3, "00" * 16),
    "a chain that is none": lambda i: i["packed"][1].__setitem__(3, "what"),
    "the chain behind them": lambda i: i["behind"].__setitem__(2, "00" * 16),
    "the chain behind them, short": lambda i: i["behind"].__setitem__(2, "00"),
    "the chain behind them, none": lambda i: i["behind"].__setitem__(2, "what"),
    # of checkpoints
    "no contents": lambda i: i.update(contents={}),
    "null contents": lambda i: i.update(contents=None),
    "contents of another version": lambda i: i.update(contents={"spots": i["contents"]["places"]}),
    "places of another version": lambda i: i["contents"].update(places={"where": _spaces(i)}),
    "spaces of another version": lambda i: [
        space.update({k: [[v]]}) for space in _spaces(i).values() for k, v in space.items()
    ],
    "a namespace that is none": lambda i: _spaces(i).update(forged=_spaces(i)[""]),
    "namespaces exchanged": lambda i: i["contents"]["places"].update(
        spaces={"": _spaces(i)["child:1"], "child:1": _spaces(i)[""]}
    ),
    "a checkpoint as another": lambda i: _spaces(i)[""].update({at(1): _spaces(i)[""][at(0)]}),
    "a checkpoint under an id that is none": lambda i: _spaces(i)[""].update({at(3): _spaces(i)[""][at(0)]}),
    "no seqs": lambda i: _spaces(i)[""].update({at(1): []}),
    "seqs one less": lambda i: _each_seq(i, lambda seq: seq - 1),
    "seqs one more": lambda i: _each_seq(i, lambda seq: seq + 1),
    "seqs of headers": lambda i: _each_seq(i, lambda seq: 0),
    "seqs behind the log": lambda i: _each_seq(i, lambda seq: seq + 1000),
    "seqs, huge": lambda i: _each_seq(i, lambda seq: HUGE),
    "seqs, negative": lambda i: _each_seq(i, lambda seq: -seq - 2),
    "seqs, too large": lambda i: _each_seq(i, lambda seq: 2**64),
    "writes of another checkpoint": lambda i: _spaces(i)[""][at(1)].__setitem__(1, _spaces(i)[""][at(0)][1]),
    "writes of another namespace": lambda i: _spaces(i)[""][at(1)].__setitem__(1, _spaces(i)["child:1"][at(1)][1]),
    "writes twice": lambda i: _spaces(i)[""][at(1)].append(_spaces(i)[""][at(1)][1]),
    "an end that is none": lambda i: i["contents"]["places"].update(ended=3, ended_at=at(2)),
    "an end, huge": lambda i: i["contents"]["places"].update(ended=HUGE, ended_at=at(2)),
    "an answer that is none": lambda i: i["contents"]["places"].update(answer=HUGE),
    # of numbers
    "no numbers": lambda i: i["contents"].pop("numbers"),
    "numbers of another version": lambda i: i["contents"].update(numbers={"where": []}),
    "numbers exchanged": lambda i: _swap(i["contents"]["numbers"]["seqs"], 0, 1),
    "numbers shifted": lambda i: i["contents"]["numbers"].update(
        firsts=[n + (n > 0) for n in i["contents"]["numbers"]["firsts"]]
    ),
    "numbers of lines that have none": lambda i: i["contents"]["numbers"].update(
        seqs=[0 for _ in i["contents"]["numbers"]["seqs"]]
    ),
    "numbers behind the log": lambda i: i["contents"]["numbers"].update(
        seqs=[seq + 1000 for seq in i["contents"]["numbers"]["seqs"]]
    ),
    "numbers, huge": lambda i: i["contents"]["numbers"].update(
        firsts=[HUGE + n for n in i["contents"]["numbers"]["firsts"]], next=2**63 - 1
    ),
    "fewer seqs than numbers": lambda i: i["contents"]["numbers"]["seqs"].pop(),
    "fewer numbers than seqs": lambda i: i["contents"]["numbers"]["firsts"].pop(),
    "numbers falling": lambda i: i["contents"]["numbers"]["firsts"].reverse(),
    "the next number, less": lambda i: i["contents"]["numbers"].update(next=1),
    "the next number, zero": lambda i: i["contents"]["numbers"].update(next=0),
    "the next number, negative": lambda i: i["contents"]["numbers"].update(next=-5),
    "the next number, huge": lambda i: i["contents"]["numbers"].update(next=2**63 - 1),
    # of writers
    "no runs": lambda i: i["contents"].pop("runs"),
    "runs of another version": lambda i: i["contents"].update(runs={"who": "me"}),
    "steps, huge": lambda i: i["contents"].update(steps=[HUGE], called=True),
    "steps of other lines": lambda i: i["contents"].update(steps=[1, 2, 3], called=True),
}


@pytest.mark.parametrize("what", LIES)
def test_an_index_that_lies_gives_the_right_state_or_an_error(packed: Packed, tmp_path: Path, what: str) -> None:
    """Each question, asked of a new saver, is answered rightly or refused; so is a checkpoint that follows."""
    root = tmp_path / "root"
    lie(packed.copy(root), LIES[what])
    packed.check(root)


AGENT_LIES: dict[str, Callable[[Index], Any]] = {
    "a step twice": lambda i: i["contents"]["steps"].insert(2, i["contents"]["steps"][2]),
    "steps in another order": lambda i: i["contents"]["steps"].reverse(),
    "fewer writers": lambda i: i["contents"]["runs"].update(writers=[]),
}


@pytest.mark.parametrize("what", AGENT_LIES)
def test_an_index_that_lies_about_tool_calls_is_found_out(worked: Packed, tmp_path: Path, what: str) -> None:
    """No call is forgotten, and none is told of that was not there."""
    root = tmp_path / "root"
    lie(worked.copy(root), AGENT_LIES[what])
    worked.check(root)


UNTOLD: dict[str, Callable[[Index], Any]] = {
    "the newest left out": lambda i: _spaces(i)[""].pop(at(2)),
    "writes left out": lambda i: _spaces(i)[""][at(1)].pop(),
    "inputs left out": lambda i: i["contents"]["places"].update(inputs=[]),
    "inputs that nobody gave": lambda i: i["contents"]["places"].update(inputs=["input 0", "input 3"]),
    "torn ends that were none": lambda i: i["contents"]["runs"].update(
        recovered=[{"offset": 1, "bytes": 1, "file": "x"}]
    ),
}
UNTOLD_OF_AGENTS: dict[str, Callable[[Index], Any]] = {
    "no calls": lambda i: i["contents"]["types"].remove("tool"),
    "no end": lambda i: i["contents"]["places"].update(ended=None),
}


@pytest.mark.parametrize("what", [*UNTOLD, *UNTOLD_OF_AGENTS])
def test_verify_finds_an_index_that_leaves_something_out(
    packed: Packed, worked: Packed, tmp_path: Path, what: str
) -> None:
    """Whole, of this log, of this version, and made to deceive: nothing that is read says otherwise, the lines do."""
    root = tmp_path / "root"
    whole = packed if what in UNTOLD else worked
    log = whole.copy(root)
    with JsonlSaver(root) as saver:
        assert saver.verify("t").ok
    lie(log, {**UNTOLD, **UNTOLD_OF_AGENTS}[what])
    with JsonlSaver(root) as saver:
        assert not saver.verify("t").ok


HUGE_LIES: dict[str, Callable[[Index], Any]] = {
    "frames": lambda i: i.update(
        packed=[*([n, n + 1, n + 1, "00" * 16] for n in range(5_000))], behind=[5_000, 5_001, "00" * 16]
    ),
    "numbers": LIES["numbers, huge"],
    "next": LIES["the next number, huge"],
    "seqs": LIES["seqs, huge"],
    "end": LIES["an end behind the file"],
    "seq": LIES["the seq behind them, huge"],
    "two frames far apart": lambda i: (
        i["packed"][-1].__setitem__(2, HUGE),
        i["behind"].__setitem__(1, HUGE + 5),
    ),
    "steps": LIES["steps, huge"],
}


@pytest.mark.parametrize("what", HUGE_LIES)
def test_huge_numbers_in_an_index_cost_next_to_nothing(packed: Packed, tmp_path: Path, what: str) -> None:
    """Nothing is made as large, and nothing is counted as far, as an index says."""
    root = tmp_path / "root"
    lie(packed.copy(root), HUGE_LIES[what])
    tracemalloc.start()
    begun = time.process_time()
    try:
        for _, answer in answers(root, log=root / packed.log, may_be=(CorruptSessionError,)):
            assert answer is not None
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 200 * 2**20
    assert time.process_time() - begun < 10


def test_a_record_that_must_not_be_ignored_is_not_hidden_by_an_index(root: Path) -> None:
    """A newer version wrote a type that this one does not know, and packed it: the log is refused all the same."""
    log = small(root, turns=2)
    data = log.read_bytes()
    position = journal.follow(data, journal.Position()).position
    unknown = b'{"seq":%d,"type":"verdict","ts":"%s","x":1}' % (position.seq, records.now().encode())
    with JsonlSaver(root, restore_memory="never") as saver:
        saver.pack("t")
        told = index(log)["contents"]
    told["types"].append("verdict")
    contents = json.dumps(told).encode()
    log.write_bytes(packing.pack(data + journal.commit(position, [unknown])[0], contents))
    with JsonlSaver(root) as saver, pytest.raises(UnsupportedVersionError, match="verdict"):
        saver.get_tuple(config())


def test_a_changed_commit_at_the_begin_of_a_packed_frame_is_found_when_it_is_read(root: Path) -> None:
    """Valid zstd, valid JSON, the chain that stood there: it does not follow the frame before."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(packing, "_TEXT", 1 << 18)
        with JsonlSaver(root, fsync="never") as saver:
            for n in range(5):
                put(saver, at(n), {"n": f"number {n}"})
            log = saver.path("t")
            saver.pack("t")
    found = parts(log)
    content, _ = frames.read(memoryview(found.frames), 0)
    forged = compressed(content.replace(b"number 0", b"forged 0"))
    told = index(log)
    told["packed"][0][1] = told["behind"][0] = len(forged)
    log.write_bytes(found.header + skippable(compressed(json.dumps(told).encode())) + forged)
    with JsonlSaver(root) as saver, pytest.raises(CorruptSessionError):
        list(saver.list(config()))


def test_frames_of_another_log_are_no_frames_of_this_one(packed: Packed, tmp_path: Path) -> None:
    """A packed frame that was exchanged follows no commit of the log."""
    with JsonlSaver(tmp_path / "other") as saver:
        other = small(tmp_path / "other", turns=3)
        saver.pack("t")
    root = tmp_path / "root"
    log = packed.copy(root)
    mine, theirs = index(log)["packed"], index(other)["packed"]
    found, foreign = parts(log), parts(other)
    for at_frame in range(1, min(len(mine), len(theirs))):
        begin, end = mine[at_frame][:2]
        swapped = foreign.frames[theirs[at_frame][0] : theirs[at_frame][1]]
        told = index(log) if at_frame == 1 else told  # noqa: F821
        change = len(swapped) - (end - begin)
        moved = json.loads(json.dumps(told))
        moved["packed"][at_frame][1] += change
        for frame in moved["packed"][at_frame + 1 :]:
            frame[0] += change
            frame[1] += change
        moved["behind"][0] += change
        data = found.frames[:begin] + swapped + found.frames[end:]
        log.write_bytes(found.header + skippable(compressed(json.dumps(moved).encode())) + data)
        assert "error" in packed.check(root)


@pytest.mark.parametrize("what", ["seen"])
def test_the_right_index_is_right(packed: Packed, worked: Packed, tmp_path: Path, what: str) -> None:
    """The tests above see no error where there is no lie."""
    for number, each in enumerate((packed, worked)):
        root = tmp_path / str(number)
        lie(each.copy(root), lambda told: None)
        assert each.check(root) == {"right"}
        with JsonlSaver(root, restore_memory="never") as saver:
            assert seen(saver, "t")["rows"]
