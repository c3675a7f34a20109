"""Which classes a log may have rebuilt: those that this process expects, without anybody having to ask for it."""

from __future__ import annotations

import base64
import dataclasses
import enum
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from langgraph.checkpoint.memory import InMemorySaver  # noqa: F401 - named in another process
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.graph import START, StateGraph
from pydantic import BaseModel
from typing_extensions import TypedDict

from langgraph_jsonl_checkpoint import JsonlSaver
from langgraph_jsonl_checkpoint.values import serializer

from .test_cases import packed

if TYPE_CHECKING:
    from pathlib import Path

    from langchain_core.runnables import RunnableConfig

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
