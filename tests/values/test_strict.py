"""Which classes a log may have rebuilt: those that this process expects, without anybody having to ask for it."""

from __future__ import annotations

import base64
import dataclasses
import enum
import operator
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping, Sequence  # noqa: TC003 - annotations are looked at
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, NewType, Required

import pytest
from langchain_core.messages import AIMessage
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.checkpoint.memory import InMemorySaver  # noqa: F401 - named in another process
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.func import entrypoint, task
from langgraph.graph import START, StateGraph
from langgraph.types import Command, interrupt  # noqa: F401 - named in another process
from pydantic import BaseModel
from typing_extensions import TypeAliasType, TypedDict

from langgraph_jsonl_checkpoint import JsonlSaver
from langgraph_jsonl_checkpoint.values import serializer
from langgraph_jsonl_checkpoint.values.expected import EXPECTED, expect, expect_signatures

from .test_cases import packed

if TYPE_CHECKING:
    from pathlib import Path

    from langchain_core.runnables import RunnableConfig
    from langgraph.checkpoint.base import Checkpoint

CONFIG: RunnableConfig = {"configurable": {"thread_id": "t"}}


class Colour(enum.Enum):
    """In the schema, within another."""

    RED = "red"


@dataclasses.dataclass
class Inner:
    """In the schema, within another."""

    colour: Colour
    size: int = 1


class Model(BaseModel):
    """In the schema."""

    name: str
    inner: Inner | None = None


class Pair(NamedTuple):
    """Nowhere in the schema: LangGraph collects no named tuples."""

    a: int


@dataclasses.dataclass
class Hidden:
    """Nowhere in the schema."""

    secret: int


class Part(TypedDict, total=False):
    """A subgraph's state."""

    inner: Inner


class State(TypedDict, total=False):
    """A graph's state."""

    model: Model
    inners: list[Inner]
    anything: Any


HELD: dict[str, Any] = {
    "model": Model(name="m", inner=Inner(Colour.RED, 2)),
    "inners": [Inner(Colour.RED), Inner(Colour.RED, 3)],
    "anything": [Hidden(1), Pair(2)],
}
KNOWN = {k: HELD[k] for k in ("model", "inners")}
PAYLOAD = {**KNOWN, "anything": [{"secret": 1}, {"a": 2}]}


def graph(saver: Any, *, seen: list[Any] | None = None) -> Any:
    """A graph whose one node puts what is held, and a subgraph that was compiled before there was a saver."""
    part = StateGraph(Part)
    part.add_node("part", lambda _: {"inner": Inner(Colour.RED, 9)})
    part.add_edge(START, "part")
    compiled = part.compile(interrupt_after=["part"])

    def node(state: State) -> State:
        if seen is not None:
            seen.append({k: v for k, v in state.items() if v is not None})
        return HELD

    builder = StateGraph(State)
    builder.add_node("node", node)
    builder.add_node("part", compiled)
    builder.add_edge(START, "node")
    builder.add_edge("node", "part")
    return builder.compile(checkpointer=saver)


class Two(NamedTuple):
    """In the schema of the wide state, as the others here are."""

    a: int
    b: Colour


@dataclasses.dataclass
class OfSequence:
    """Holds a class that nothing else names."""

    deep: Mapping[str, OfField]


@dataclasses.dataclass
class OfField:
    """In a field of another."""

    x: int = 1


@dataclasses.dataclass
class OfAlias:
    """Behind a name for a type."""

    x: int = 1


@dataclasses.dataclass
class OfResult:
    """What a workflow returns."""

    x: int = 1


@dataclasses.dataclass
class OfSaved:
    """What a workflow keeps."""

    x: int = 1


@dataclasses.dataclass
class OfTask:
    """What a task returns."""

    x: int = 1


Loop = TypeAliasType("Loop", "list[OfAlias | Loop]")
Named = NewType("Named", Two)


class Wide(TypedDict, total=False):
    """A state in types that LangGraph's collector does not look into."""

    two: Two
    rows: Annotated[Sequence[OfSequence], operator.add]
    loop: Required[Loop]
    named: list[Named | None]
    process: subprocess.Popen[bytes]


WIDE: dict[str, Any] = {
    "two": Two(1, Colour.RED),
    "rows": [OfSequence({"a": OfField(2)})],
    "loop": [OfAlias(2), [OfAlias(3)]],
    "named": [Two(2, Colour.RED), None],
}


def wide_graph(saver: Any) -> Any:
    """A graph whose one node puts all that its schema names."""
    builder = StateGraph(Wide)
    builder.add_node("node", lambda _: WIDE)
    builder.add_edge(START, "node")
    return builder.compile(checkpointer=saver)


@task
def work(x: int) -> OfTask:
    """A task with a result of a class of its own."""
    return OfTask(x)


def workflow(saver: Any) -> Any:
    """A workflow that waits between its task and its end."""

    @entrypoint(checkpointer=saver)
    def flow(x: int, *, previous: OfSaved | None = None) -> entrypoint.final[OfResult, OfSaved]:
        done, before = work(x).result(), previous.x if previous else 0
        if not before:
            interrupt("go on?")
        return entrypoint.final(value=OfResult(done.x + before), save=OfSaved(done.x))

    return flow


def another_process(root: Path, what: str) -> str:
    """What an expression gives in a process that has stored nothing."""
    code = f"import sys; sys.path[:0] = ['tests']; from values.test_strict import *; print({what})"
    order = [sys.executable, "-c", code.replace("ROOT", repr(str(root)))]
    env = {k: v for k, v in os.environ.items() if k != "LANGGRAPH_STRICT_MSGPACK"}
    done = subprocess.run(order, capture_output=True, text=True, timeout=60, check=True, env=env)
    return done.stdout.strip() + ("\n" + done.stderr.strip() if done.stderr else "")


def test_what_a_process_stored_comes_back_as_it_was(tmp_path: Path) -> None:
    """A first notebook: any class, in the schema or not, in a second run and under a new saver."""
    seen: list[Any] = []
    graph(JsonlSaver(tmp_path), seen=seen).invoke({}, CONFIG)
    saver = JsonlSaver(tmp_path)
    assert graph(saver).get_state(CONFIG).values == HELD
    graph(saver, seen=seen).invoke({"anything": HELD["anything"]}, CONFIG)
    assert seen == [{}, HELD]
    assert saver.get_tuple(CONFIG).checkpoint["channel_values"]["anything"] == HELD["anything"]


def test_a_process_that_comes_later_rebuilds_what_is_in_the_schemas(tmp_path: Path) -> None:
    """`compile` tells the saver, also of an older subgraph; of others the payload comes, and a warning names them."""
    with JsonlSaver(tmp_path) as saver:
        graph(saver).invoke({}, CONFIG)
    said = another_process(tmp_path, "graph(JsonlSaver(ROOT)).get_state(CONFIG).values == PAYLOAD")
    assert said.startswith("True\n")
    assert "Blocked deserialization of values.test_strict.Hidden" in said
    state = "graph(JsonlSaver(ROOT)).get_state(CONFIG, subgraphs=True).tasks[0].state.values"
    assert another_process(tmp_path, state).splitlines()[0] == str({"inner": Inner(Colour.RED, 9)})
    raw = "(graph(s := JsonlSaver(ROOT)), s.get_tuple(CONFIG).checkpoint['channel_values']['inners'])[1]"
    assert another_process(tmp_path, raw).splitlines()[0] == str(HELD["inners"])


def test_a_class_is_found_wherever_a_schema_names_it(tmp_path: Path) -> None:
    """In any generic type, alias or field, at any depth; of these only what the serializer stores."""
    with JsonlSaver(tmp_path) as saver:
        wide_graph(saver).invoke({"rows": [], "loop": []}, CONFIG)
    same = "wide_graph(JsonlSaver(ROOT)).get_state(CONFIG).values == WIDE"
    assert another_process(tmp_path, same) == "True"
    expected = "(wide_graph(None), {n for m, n in EXPECTED if m == 'values.test_strict'})[1]"
    names = {"Colour", "Two", "OfSequence", "OfField", "OfAlias", "OfTask"}
    assert eval(another_process(tmp_path, expected)) == names
    assert another_process(tmp_path, "(wide_graph(None), ('subprocess', 'Popen') in EXPECTED)[1]") == "False"


def test_a_workflow_goes_on_with_the_classes_that_its_functions_name(tmp_path: Path) -> None:
    """What its task returned, and what it saved, in a process that has stored neither."""
    with JsonlSaver(tmp_path) as saver:
        workflow(saver).invoke(2, CONFIG)
    go_on = "workflow(JsonlSaver(ROOT)).invoke(Command(resume=True), CONFIG)"
    assert another_process(tmp_path, go_on) == "OfResult(x=2)"
    assert another_process(tmp_path, "workflow(JsonlSaver(ROOT)).invoke(3, CONFIG)") == "OfResult(x=5)"


@pytest.mark.parametrize("first", ["task", "package"])
def test_a_task_is_known_whether_it_is_older_than_the_package(first: str) -> None:
    """The function of an entrypoint tells which tasks it calls; a task's own import order does not matter."""
    package = "from langgraph_jsonl_checkpoint.values.expected import EXPECTED"
    code = """
from langgraph.func import entrypoint, task
from dataclasses import dataclass
@dataclass
class Made: x: int
@task
def inner() -> "list[Made]": ...
@task
def outer() -> "Missing": inner()
"""
    flow = """
@entrypoint()
def flow(x: "Missing"): outer()
print(("__main__", "Made") in EXPECTED)
"""
    parts = [code, package, flow] if first == "task" else [package, code, flow]
    done = subprocess.run(
        [sys.executable, "-c", "\n".join(parts)], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.strip() == "True"


def test_an_annotation_that_fails_hides_no_other() -> None:
    """A name that only a type checker has, beside one that is there."""
    for told in (HalfKnown, half_known):
        EXPECTED.discard((__name__, "Hidden"))
        (expect_signatures if told is half_known else lambda t: expect([t]))(told)
        assert (__name__, "Hidden") in EXPECTED


class HalfKnown(TypedDict):
    """A schema of which half can be resolved."""

    first: Path
    second: Sequence[Hidden]


def half_known(first: Path, second: Hidden) -> None:
    """A function of which half can be resolved."""


def test_without_a_graph_nothing_is_rebuilt(tmp_path: Path) -> None:
    """Whoever looks at sessions has the classes of none: the payload, and nothing is imported."""
    with JsonlSaver(tmp_path) as saver:
        graph(saver).invoke({}, CONFIG)
    look = "{k: v for k, v in JsonlSaver(ROOT).get_tuple(CONFIG).checkpoint['channel_values'].items() if k in HELD}"
    said = another_process(tmp_path, look).splitlines()[0]
    bare = {"colour": "red", "size": 1}
    assert eval(said) == {
        "model": {"name": "m", "inner": {"colour": "red", "size": 2}},
        "inners": [bare, bare | {"size": 3}],
        "anything": [{"secret": 1}, {"a": 2}],
    }


@dataclasses.dataclass(frozen=True)
class Place:
    """Nowhere in a schema, and hashed."""

    at: Any


# Each with what it is where nobody expects the class, and where it is built from a list for its tuple.
HASHED = {
    "set": ({Place(1)}, [{"at": 1}]),
    "frozenset": (frozenset({Place(1)}), [{"at": 1}]),
    "set in a set": ({frozenset({(Place(1), 2)})}, [[({"at": 1}, 2)]]),
    "key": ({Place(1): 2}, [[{"at": 1}, 2]]),
    "counter": (Counter([Place(1)]), [[{"at": 1}, 1]]),
    "large": ({Place("x" * 2000): [1]}, [[{"at": "x" * 2000}, [1]]]),
    "in a message": (AIMessage("", additional_kwargs={"a": {Place(1)}}), "additional_kwargs={'a': [{'at': 1}]}"),
}


def test_a_container_whose_objects_are_no_more_hashed_comes_back_as_a_list(tmp_path: Path) -> None:
    """What nobody expects comes as a dict, which no set holds: the thread is read, and nobody calls it damaged."""
    with JsonlSaver(tmp_path) as saver:
        held = {k: v for k, (v, _) in HASHED.items()}
        config = saver.put({"configurable": {"thread_id": "t", "checkpoint_ns": ""}}, checkpoint(held), {}, {})
        assert saver.get_tuple(config).checkpoint["channel_values"] == held
    read = "JsonlSaver(ROOT).get_tuple(CONFIG).checkpoint['channel_values']"
    same = "[v == w or str(w) in str(v) for v, (_, w) in zip(%s.values(), HASHED.values())]"
    said = another_process(tmp_path, same % read)
    assert said.splitlines()[0] == str([True] * len(HASHED))
    assert "Blocked deserialization of values.test_strict.Place" in said


def test_a_container_whose_objects_lose_their_hash_is_read_where_it_was_stored(tmp_path: Path) -> None:
    """The serializer makes a list of an object's tuple, and what holds one is not hashed."""
    held = {"set": {Place((1, 2))}, "dict": {Place((1, 2)): 3}, "plain": {(1, 2)}}
    with JsonlSaver(tmp_path) as saver:
        saver.put({"configurable": {"thread_id": "t", "checkpoint_ns": ""}}, checkpoint(held), {}, {})
        got = saver.get_tuple(CONFIG).checkpoint["channel_values"]
    assert got == {"set": [Place([1, 2])], "dict": [[Place([1, 2]), 3]], "plain": {(1, 2)}}


def checkpoint(values: dict[str, Any]) -> Checkpoint:
    """A checkpoint of these channels."""
    return {**empty_checkpoint(), "channel_values": values, "channel_versions": dict.fromkeys(values, "1")}


@pytest.mark.parametrize(
    "saver",
    [
        "JsonlSaver(ROOT).with_allowlist([Hidden, Pair])",
        "JsonlSaver(ROOT, serde=serializer.TypedSerializer(allowed_msgpack_modules=[Hidden, Pair]))",
        "JsonlSaver(ROOT, serde=JsonPlusSerializer(allowed_msgpack_modules=[Hidden, Pair]))",
    ],
)
def test_a_class_that_no_schema_names_can_be_allowed(tmp_path: Path, saver: str) -> None:
    """By LangGraph's own names for it."""
    with JsonlSaver(tmp_path) as first:
        graph(first).invoke({}, CONFIG)
    said = another_process(tmp_path, f"graph({saver}).get_state(CONFIG).values['anything'] == HELD['anything']")
    assert said.splitlines()[0] == "True"


def test_what_a_state_holds_allows_no_other_class(tmp_path: Path) -> None:
    """A process that stored some classes builds those and still no other one."""
    strict = serializer.TypedSerializer()
    assert strict.loads_typed(strict.dumps_typed(Hidden(1))) == Hidden(1)
    for tag in (packed(0, "os", "getcwd", "x"), packed(2, "subprocess", "Popen", {"args": ["false"]})):
        kind, data = tag["$serde"]
        assert strict.loads_typed((kind, base64.b64decode(data))) in ("x", {"args": ["false"]})
    with pytest.raises(NotImplementedError):
        strict.loads_typed(("pickle", b"cbuiltins\nprint\n(S'x'\ntR."))


def test_other_savers_go_on_as_they_were(tmp_path: Path) -> None:
    """Only the default serde of a JsonlSaver is strict by itself: not LangGraph's, nor any other saver."""
    allowed = "JsonPlusSerializer()._allowed_msgpack_modules"
    said = another_process(tmp_path, f"(m := InMemorySaver(), graph(m).checkpointer is m, {allowed})[1:]")
    assert said.splitlines()[0] == "(True, True)"


def test_compiling_leaves_the_saver_the_one_it_is(tmp_path: Path) -> None:
    """`graph.checkpointer is saver`, as without strict mode."""
    saver = JsonlSaver(tmp_path)
    assert graph(saver).checkpointer is saver
    assert isinstance(saver.serde, JsonPlusSerializer)
