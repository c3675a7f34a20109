"""Thread ids are data: each has a folder of its own under the root, whatever it looks like."""

from __future__ import annotations

import itertools
import os
import random
import re
import unicodedata
from typing import TYPE_CHECKING

import msgspec
import pytest

from cases.graphs import ChatState, at, chain, config, ids, put, sequence
from langgraph_jsonl_checkpoint import JsonlSaver, ValueEncodingError
from langgraph_jsonl_checkpoint.log import records

if TYPE_CHECKING:
    from pathlib import Path

    from cases.conftest import Access

TRAVERSALS = [
    *(
        "../../x",
        "../x",
        "/etc/x",
        "/",
        "..",
        ".",
        "...",
        "a/../b",
        "a/b",
        "a//b",
        "a/./b",
        "./a",
        "~",
        "~root/x",
    ),
    *("a\\b", "..\\..\\x", "C:\\x", "C:x", "\\\\host\\share", "%2e%2e%2f", "..%2fx", "%", "%%", "%25", "%41"),
    *(
        "a\0b",
        "\0",
        "",
        " ",
        " a",
        "a ",
        "\n",
        "a\nb",
        "-rf",
        "*",
        "?",
        "a|b",
        "a:b",
        "$HOME",
        "`id`",
        "'",
        '"',
    ),
]
ALIKE = [
    *(
        "Alice",
        "alice",
        "ALICE",
        "aLICE",
        "%41lice",
        "straße",
        "strasse",
        "STRASSE",
        "ß",
        "ss",
        "İ",
        "i̇",
        "i",
        "I",
    ),
    *(
        "con",
        "CON",
        "con.txt",
        "nul",
        "NUL",
        "com1",
        "lpt9",
        "aux",
        "prn",
        "a",
        "a.",
        "a..",
        "a. ",
        "a .",
        ".a",
    ),
    *(
        "\u00e9",
        "e\u0301",
        "\ufb01",
        "fi",
        "\u212b",
        "\u00c5",
        "A\u030a",
        "\u017f",
        "s",
        "\uff41",
        "\u03a9",
        "\u2126",
    ),
    *(
        "session.jsonl.zst",
        "default",
        "日本語",
        "😀",
        "\ud800",
        "\udc80",
        "\udcff",
        "\ufeffa",
        "\u202ea",
        "a\u200bb",
    ),
]
LONG = [
    *(
        "a" * 200,
        "a" * 201,
        "a" * 255,
        "a" * 300,
        "a" * 10_000,
        "a" * 9_999 + "b",
        "A" * 300,
        "a" * 299 + "b",
    ),
    *("é" * 100, "é" * 300, "é" * 299 + "e", "😀" * 3000, "\0" * 300, "../" * 300, "x" * 99 + "%" * 200),
]
ALL = TRAVERSALS + ALIKE + LONG


def test_the_lists_have_no_name_twice() -> None:
    """Each of the ids below is another thread."""
    assert len(set(ALL)) == len(ALL)


def _folded(path: Path) -> str:
    """A name as a file system may see it that folds case, normalises and drops trailing dots and spaces."""
    folded = unicodedata.normalize("NFKD", path.parent.name).casefold()
    return unicodedata.normalize("NFKD", folded).rstrip(". ").removesuffix(":")


@pytest.mark.parametrize("names", [TRAVERSALS, ALIKE, LONG], ids=["traversals", "alike", "long"])
def test_any_thread_id_comes_back_from_its_own_folder_under_the_root(root: Path, names: list[str]) -> None:
    """conductr#282, areev: all under the root, all distinct after case folding, each with its own content."""
    with JsonlSaver(root) as saver:
        for number, name in enumerate(names):
            stored = put(saver, at(number), {"name": f"{number}"}, thread_id=name)
            assert stored == config(name, checkpoint_id=at(number))
            saver.put_writes(stored, [("x", number)], "task")
    with JsonlSaver(root) as saver:
        for number, name in enumerate(names):
            (found,) = saver.list(config(name))
            assert found.config["configurable"]["thread_id"] == name
            assert found.checkpoint["channel_values"] == {"name": f"{number}"}
            assert saver.get_tuple(config(name)).pending_writes == [("task", "x", number)]
        everything = {item.config["configurable"]["thread_id"]: item.checkpoint["id"] for item in saver.list(None)}
        assert everything == {name: at(number) for number, name in enumerate(names)}
        folders = [saver.path(name) for name in names]
    assert len({_folded(path) for path in folders}) == len(names)
    for path in folders:
        assert path.parent.parent == root / "default"
        assert path.resolve() == root.resolve() / "default" / path.parent.name / "session.jsonl.zst"
        assert path.is_file()
    assert sorted(os.listdir(root / "default")) == sorted(path.parent.name for path in folders)
    assert os.listdir(root.parent) == [root.name]


def test_a_folder_name_is_safe_on_every_file_system(root: Path) -> None:
    """areev: bounded, plain ASCII, no reserved name, no trailing dot; to ask for it creates nothing."""
    with JsonlSaver(root) as saver:
        for name in ALL:
            folder = saver.path(name).parent.name
            assert re.fullmatch(r"[a-z0-9_%~.-]{1,240}", folder), ascii(name)
            assert not re.fullmatch(r"(con|prn|aux|nul|com\d|lpt\d)(\..*)?", folder), ascii(name)
            assert not folder.endswith("."), ascii(name)
            assert folder not in (".", ".."), ascii(name)
            assert saver.path(name) == JsonlSaver(root).path(name)
    assert not root.exists()


def test_random_ids_have_distinct_folders(tmp_path: Path) -> None:
    """conductr#282: 4,000 ids of the characters that make escapes collide."""
    source = random.Random(7)
    alphabet = "aA%~/.\\\0 2ef5é\u0301"
    names = {"".join(source.choices(alphabet, k=source.randint(0, 6))) for _ in range(4000)}
    names |= {prefix + "z" * 250 for prefix in itertools.islice(names, 200)}
    with JsonlSaver(tmp_path) as saver:
        assert len({_folded(saver.path(name)) for name in names}) == len(names)


@pytest.mark.parametrize("name", ["../../x", "", "a\0b", "Alice", "\udc80", "é" * 5000])
def test_a_graph_runs_under_any_thread_id(access: Access, name: str) -> None:
    """conductr#282: a run, a second run after reopening, and the deletion of it."""
    graph = access.graph(sequence(ChatState, ("n", lambda _: {"messages": [("ai", "ok")]})))
    chain(access, 1, thread_id="alice")
    graph.invoke({"messages": [("user", "one")]}, config(name))
    access.reopen()
    graph.invoke({"messages": [("user", "two")]}, config(name))
    messages = graph.get_state(config(name)).values["messages"]
    assert [message.content for message in messages] == ["one", "ok", "two", "ok"]
    access.delete_thread(name)
    assert access.get_tuple(config(name)) is None
    assert ids(access.list(config("alice"))) == [at(0)]


@pytest.mark.parametrize("names", [(7, "7"), ("7", 7)])
def test_a_thread_id_that_is_a_number_is_its_text(access: Access, names: tuple) -> None:
    """LangGraph PR#4281: written with 7, read with `"7"`, and the other way round."""
    written, read = names
    chain(access, 2, thread_id=written)
    access.put_writes(config(written, checkpoint_id=at(1)), [("x", 1)], "task")
    found = access.get_tuple(config(read))
    assert (found.checkpoint["id"], found.pending_writes) == (at(1), [("task", "x", 1)])
    assert ids(access.list(config(read))) == [at(1), at(0)]
    assert [item.config["configurable"]["thread_id"] for item in access.list(None)] == ["7", "7"]
    assert access.get_tuple(config("07")) is None
    assert access.get_tuple(config("7.0")) is None
    access.copy_thread(read, 8)
    assert ids(access.list(config("8"))) == [at(1), at(0)]
    access.prune([written])
    assert ids(access.list(config(read))) == [at(1)]
    access.delete_thread(read)
    assert access.get_tuple(config(written)) is None


@pytest.mark.parametrize("workspace", ["../../x", "/etc", "", "Default", "default ", "con", "é" * 300, "a/b", "."])
def test_a_workspace_is_a_folder_of_its_own(root: Path, workspace: str) -> None:
    """conductr#282: the same thread id in two workspaces is two threads, and no workspace leaves the root."""
    with JsonlSaver(root) as plain, JsonlSaver(root, workspace=workspace) as saver:
        put(plain, at(0), {"x": "default"})
        put(saver, at(1), {"x": "workspace"})
        path = saver.path("t")
        assert path.resolve().parent.parent.parent == root.resolve()
        assert path.parent.parent.name.casefold() != "default"
        assert ids(plain.list(None)) == [at(0)]
        assert ids(saver.list(None)) == [at(1)]
    with JsonlSaver(root, workspace=workspace) as saver:
        assert saver.get_tuple(config()).checkpoint["channel_values"] == {"x": "workspace"}
    assert os.listdir(root.parent) == [root.name]


def test_all_names_of_workspaces_are_distinct_folders_under_the_root(root: Path) -> None:
    """conductr#282, areev: what is tried as a thread id, tried as a workspace; none meets the writers' folder."""
    names = [name for name in ALL if name != "default"] + [".writers", ".WRITERS", "%2ewriters"]
    for number, name in enumerate(names):
        with JsonlSaver(root, workspace=name) as saver:
            put(saver, at(number), {"x": number})
    for number, name in enumerate(names):
        with JsonlSaver(root, workspace=name) as saver:
            assert [item.checkpoint["channel_values"] for item in saver.list(None)] == [{"x": number}]
            assert [info.thread_id for info in saver.sessions()] == ["t"]
            assert saver.path("t").resolve().parent.parent.parent == root.resolve()
    assert len({unicodedata.normalize("NFKC", name).casefold() for name in os.listdir(root)}) == len(names)
    assert os.listdir(root.parent) == [root.name]


@pytest.mark.parametrize("name", [0, -1, 7, 2**70, 1.5, True])
def test_whatever_is_given_as_a_thread_id_is_its_text(root: Path, name: object) -> None:
    """LangGraph PR#4281: ints of any size and sign, and what else callers put there."""
    with JsonlSaver(root) as saver:
        put(saver, at(0), {"x": 1}, thread_id=name)
        saver.put_writes(config(name, checkpoint_id=at(0)), [("x", 1)], "task")
    with JsonlSaver(root) as saver:
        assert saver.get_tuple(config(str(name))).pending_writes == [("task", "x", 1)]
        assert [info.thread_id for info in saver.sessions()] == [str(name)]
        saver.delete_thread(name)
        assert saver.get_tuple(config(name)) is None


def test_odd_names_of_parents_and_inputs_are_data(root: Path) -> None:
    """The thread that started this one and the input it applies have names of the same kinds."""
    odd = [name for name in ALL if name and len(name) < 1000]
    with JsonlSaver(root) as saver:
        for number, name in enumerate(odd):
            where = config(f"child {number}")
            where["configurable"] |= {"parent_thread_id": name, "input_id": name}
            checkpoint = {"v": 4, "id": at(0), "ts": "2026", "channel_values": {}}
            checkpoint |= {"channel_versions": {}, "versions_seen": {}}
            saver.put(where, checkpoint, {"source": "input", "step": -1}, {})
    with JsonlSaver(root) as saver:
        parents = {info.thread_id: info.parent for info in saver.sessions(children=True)}
        assert parents == {f"child {number}": name for number, name in enumerate(odd)}
        assert not any(saver.accepts(f"child {number}", name) for number, name in enumerate(odd))
        assert all(saver.accepts(f"child {number}", name + "x") for number, name in enumerate(odd))
    assert os.listdir(root.parent) == [root.name]


def test_namespaces_and_ids_are_data_too(access: Access, root: Path) -> None:
    """conductr#282: no namespace, checkpoint id, task id, channel or path makes a file or meets another."""
    odd = [name for name in ALL if name] + ["a|b:c|d", "n" * 3000]
    for name in odd:
        stored = put(access, name, {name: [name]}, ns=name)
        access.put_writes(stored, [(name, name)], name, name)
    files = [names for _, _, names in os.walk(root) if names]
    assert files == [["session.jsonl.zst"]]
    access.reopen()
    for name in odd:
        found = access.get_tuple(config(ns=name))
        assert found.config == config(ns=name, checkpoint_id=name)
        assert found.checkpoint["channel_values"] == {name: [name]}
        assert found.pending_writes == [(name, name, name)]
        assert ids(access.list(config(ns=name))) == [name]


@pytest.mark.parametrize("length", [60_000, 90_000, 120_000, 3_000_000])
def test_a_thread_id_may_be_longer_than_what_is_read_first(root: Path, length: int) -> None:
    """Its header fills more than the first 64 KiB even compressed: the thread is read, listed, packed and goes on."""
    name = "".join(random.Random(length).choices("0123456789abcdefghijklmnopqrstuvwxyz", k=length))
    with JsonlSaver(root) as saver:
        stored = chain(saver, 3, thread_id=name)
    with JsonlSaver(root) as saver:
        assert ids(saver.list(config(name))) == stored[::-1]
        assert [info.thread_id for info in saver.sessions()] == [name]
        saver.pack(name)  # if it was not packed when it was closed
    with JsonlSaver(root) as saver:
        assert saver.get_tuple(config(name)).checkpoint["channel_values"] == {"n": 2}
        put(saver, at(3), {"n": 3}, thread_id=name)
        assert ids(saver.list(None)) == [at(3), *stored[::-1]]
        assert saver.verify(name).ok


def test_a_thread_id_that_no_header_can_hold_is_refused(root: Path) -> None:
    """Nothing is stored of what no reader would take, neither of the thread nor of one that would name it."""
    name = "x" * (1 << 22)
    with JsonlSaver(root) as saver:
        with pytest.raises(ValueEncodingError, match="longer than"):
            put(saver, at(1), thread_id=name)
        put(saver, at(1), thread_id=name[: 1 << 21])
        with pytest.raises(ValueEncodingError, match="longer than"):
            saver.copy_thread(name[: 1 << 21], "y" * (1 << 21))
        assert ids(saver.list(None)) == [at(1)]
        put(saver, at(2), thread_id=name[: 1 << 21])
    with JsonlSaver(root) as saver:
        assert ids(saver.list(None)) == [at(2), at(1)]


@pytest.mark.parametrize("name", ["a", "", "é", "\ud800", type("Name", (str,), {})("a")], ids=ascii)
def test_a_record_has_its_names_as_plain_strings(name: str) -> None:
    """Only its line knows how a name is written that JSON must not hold: whoever reads the record gets the name."""
    made = [
        records.Session(format=records.FORMAT, version=1, thread_id=name, workspace=name, parent=name),
        records.Open(writer="w", within=[name, "b"]),
        records.Writes(ns=name, checkpoint=name, task=name, path=name, writes=[(0, name, records.NO_TEXT)]),
        records.Tool(task=name, call=name, status="requested", name=name, orphan=[name, "b"]),
    ]
    for record in made:
        read = records.parse(records.type_of(record), records.line(0, "", record))
        assert read == record
        fields = msgspec.structs.asdict(read)
        names = [
            v for k, v in fields.items() if k in ("thread_id", "workspace", "parent", "ns", "task", "call", "name")
        ]
        names += [*fields.get("within", []), *(channel for _, channel, _ in fields.get("writes", []))]
        assert {type(each) for each in names} <= {str}


@pytest.mark.parametrize("field", ["ns", "checkpoint", "task", "path"])
@pytest.mark.parametrize("odd", [None, 5, {"$str": 5}])
def test_what_is_no_name_is_neither_written_nor_read_as_one(field: str, odd: object) -> None:
    """A record without a name that it must have is no record."""
    names: dict = {"ns": "", "checkpoint": "c", "task": "t", "path": ""}
    with pytest.raises(TypeError):
        records.line(0, "", records.Writes(**{**names, field: odd}, writes=[]))
    text = msgspec.json.encode({**names, field: odd, "writes": []})
    with pytest.raises(msgspec.DecodeError):
        records.parse("writes", text)


@pytest.mark.parametrize("wrong", [{}, {"configurable": {}}, {"configurable": {"checkpoint_ns": ""}}], ids=str)
def test_a_config_without_a_thread_is_told_what_it_lacks(root: Path, wrong: dict) -> None:
    """LangGraph lets a config with a namespace alone through; no saver has a thread for it."""
    with JsonlSaver(root) as saver:
        for call in (saver.get_tuple, lambda config: list(saver.list(config)), lambda c: saver.put(c, {}, {}, {})):
            with pytest.raises(KeyError, match="names no thread; give"):
                call(wrong)
