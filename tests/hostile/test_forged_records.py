"""Records whose fields are not what FORMAT.md says: each is an error that says where, by each reader."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage

from hostile.forger import HEADER, ID, Record, checkpoint, forge, message, value
from langgraph_jsonl_checkpoint import JsonlSaver, SessionError, inject

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from langchain_core.runnables import RunnableConfig

AT = {"thread_id": "t", "checkpoint_ns": ""}
CONFIG: RunnableConfig = {"configurable": AT}


OLD = "1f000000-0000-6000-8000-000000000000"
ASKED = [HumanMessage("hello"), AIMessage("", tool_calls=[{"id": "c", "name": "n", "args": {"a": 1}}])]


def writes(*triples: Any, **more: Any) -> Record:
    """Writes for the one checkpoint."""
    return "writes", {"ns": "", "checkpoint": ID, "task": "task", "path": "", "writes": list(triples), **more}


def tool(status: str, **more: Any) -> Record:
    """A step of the one tool call."""
    return "tool", {"task": "task", "call": "c", "status": status, **more}


NO_NAMES: tuple[Any, ...] = ({"$str": 5}, {"$str": "!!"}, {"$str": "/w=="})
ODD: tuple[Any, ...] = (5, 1.5, True, [], [1], {}, {"a": 1}, {"$ref": 99}, {"$nonsense": 1}, *NO_NAMES, "x" * 10**6)
FIELDS = {
    "session": "thread_id workspace generation delegation_depth parent forked_from",
    "open": "writer pid host versions hook within died recovered",
    "message": "n message",
    "value": "n values",
    "checkpoint": "ns id parent step source next changed created v channels versions seen updated input metadata "
    "extra",
    "writes": "ns checkpoint task path writes",
    "tool": "task call status attempt ns checkpoint name args effect check orphan result error decision message by "
    "spent waits_for elsewhere redacted",
    "terminal": "ns checkpoint reason error",
    "close": "writer error",
    "prune": "strategy removed inputs",
}
NAMES = [(kind, name) for kind, names in FIELDS.items() for name in names.split()]

LOG: list[Record] = [
    ("open", {"writer": "someone", "pid": 1, "host": "h", "versions": {}}),
    message(0),
    value(1, "text"),
    checkpoint({"$list": [[0, 1]]}, id=OLD, metadata={"run_id": "other"}),
    checkpoint({"$list": [[0, 1]]}, next=["node"], parent=OLD, input="i", metadata={"run_id": "r"}),
    writes([0, "v", 1], [-1, "__error__", "x"]),
    tool("requested", name="n", args={"a": 1}, effect="side_effects", checkpoint=ID, ns=""),
    tool("started", attempt=1, by="someone"),
    tool("failed", error="e", result=1),
    tool("resolved", decision="approve", attempt=1, message="m", by="resolve"),
    ("terminal", {"ns": "", "checkpoint": ID, "reason": "failed", "error": "e"}),
    ("close", {"writer": "someone"}),
    ("prune", {"strategy": "s", "removed": {}, "inputs": ["i"]}),
]

READERS: dict[str, Callable[[JsonlSaver], Any]] = {
    "get_tuple": lambda s: s.get_tuple(CONFIG),
    "list": lambda s: list(s.list(CONFIG)),
    "list with a filter": lambda s: list(s.list(None, filter={"a": 1})),
    "delta history": lambda s: s.get_delta_channel_history(config=CONFIG, channels=["v", "w"]),
    "resume_state": lambda s: str(s.resume_state("t")),
    "session_memory": lambda s: str(s.session_memory("t")),
    "uncertain": lambda s: s.uncertain("t"),
    "accepts": lambda s: s.accepts("t", "i"),
    "sessions": lambda s: [str(info) for info in s.sessions(children=True)],
    "put_writes": lambda s: s.put_writes({"configurable": {**AT, "checkpoint_id": ID}}, [("a", 1)], "t"),
    "verify": lambda s: str(s.verify("t")),
    "salvage": lambda s: str(s.salvage("t", "saved")),
    "pack": lambda s: s.pack("t"),
    "get_tuple, packed": lambda s: s.get_tuple(CONFIG),
    "resume_state, packed": lambda s: str(s.resume_state("t")),
    "inject": lambda s: inject(ASKED, s, CONFIG),
    "prune": lambda s: s.prune(["t"]),
    "copy_thread": lambda s: s.copy_thread("t", "u"),
    "delete_for_runs": lambda s: s.delete_for_runs(["r"]),
    "delete_thread": lambda s: s.delete_thread("t"),
}


@pytest.mark.parametrize(("kind", "field"), NAMES)
def test_a_field_that_is_not_what_its_record_says_is_an_error_that_says_so(
    tmp_path: Path, kind: str, field: str
) -> None:
    """A SessionError, or a value; never another exception, with each odd value and by each reader."""
    for number, odd in enumerate(ODD):
        records = [(k, {**f, field: odd}) if k == kind else (k, f) for k, f in LOG]
        header = (HEADER[0], {**HEADER[1], field: odd}) if kind == "session" else HEADER
        root = tmp_path / str(number)
        with JsonlSaver(root) as saver:
            forge(saver.path("t"), records, header=header)
        for name, read in READERS.items():
            with JsonlSaver(root, fsync="never") as saver:
                assert _refusal(read, saver, root) is None, f"{name} of {odd!r:.40}"


def _refusal(read: Callable[[JsonlSaver], Any], saver: JsonlSaver, root: Path) -> Exception | None:
    """What a reader raises that is none of the package's errors, or does not say where."""
    try:
        read(saver)
    except SessionError as error:
        return None if str(root) in str(error) else error
    except Exception as error:
        return error
    return None


def test_the_log_of_these_tests_is_sound(tmp_path: Path) -> None:
    """With no odd value every reader reads it, so that an error above is the odd value's."""
    with JsonlSaver(tmp_path) as saver:
        forge(saver.path("t"), LOG)
        assert saver.verify("t").ok
        for read in READERS.values():
            read(saver)


def test_a_record_that_is_left_out_or_doubled_is_no_crash(tmp_path: Path) -> None:
    """Each record alone, each one missing, and the last ones first."""
    logs = (
        [[record] for record in LOG] + [LOG[:n] + LOG[n + 1 :] for n in range(len(LOG))] + [LOG[::-1], LOG + LOG[3:]]
    )
    for number, records in enumerate(logs):
        root = tmp_path / str(number)
        for read in READERS.values():
            with JsonlSaver(root) as saver:
                if not saver.path("t").exists():
                    forge(saver.path("t"), records)
                assert _refusal(read, saver, root) is None


def test_the_writer_that_a_log_names_leads_to_no_file_outside(tmp_path: Path) -> None:
    """Whoever asks whether `../../x` lives looks into the folder of writers, and removes nothing elsewhere."""
    victim = tmp_path / "victim"
    victim.write_text("here")
    root = tmp_path / "root"
    (root / ".writers").mkdir(parents=True)
    for name in ("../../victim", str(victim), "../victim", "..", "", "\0", "a/b"):
        with JsonlSaver(root) as saver:
            forge(saver.path("t"), [("open", {"writer": name}), checkpoint(1, next=["node"])])
            saver.resume_state("t")
            saver.get_tuple(CONFIG)
    assert victim.read_text() == "here"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["root", "victim"]


def test_a_file_that_a_log_says_it_moved_aside_is_not_touched(tmp_path: Path) -> None:
    """`recovered` is told and never followed."""
    victim = tmp_path / "victim"
    victim.write_text("here")
    recovered = {"offset": -1, "bytes": 10**15, "file": str(victim)}
    with JsonlSaver(tmp_path / "root") as saver:
        forge(saver.path("t"), [("open", {"writer": "w", "recovered": recovered}), checkpoint(1)])
        assert saver.resume_state("t").recovered == (recovered,)
        saver.delete_thread("t")
    assert victim.read_text() == "here"
