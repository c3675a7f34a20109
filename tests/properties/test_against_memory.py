"""JsonlSaver answers as InMemorySaver does, after any calls, to two savers that are reopened at random."""

from __future__ import annotations

import copy
import itertools
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.types import Interrupt, Send
from values.same import difference

from langgraph_jsonl_checkpoint import JsonlSaver

from .model import Model, newest_first, place_of, plain

if TYPE_CHECKING:
    from collections.abc import Iterable

    from langchain_core.runnables import RunnableConfig
    from langgraph.checkpoint.base import CheckpointTuple

THREADS = ["a", "b", "c/../d"]
NAMESPACES = ["", "child", "other|inner"]
CHANNELS = ["messages", "files", "n", "__pregel_tasks"]
PATHS = ["", "~__pregel_pull, a", "~__pregel_push, 0000000002, False"]
RUNS = ["run-1", "run-2"]

threads = st.sampled_from(THREADS)
namespaces = st.sampled_from(NAMESPACES)
some = st.integers(0, 1 << 16)
texts = st.sampled_from(["", "short", "long " * 60, "\ud800", "\x00"])
messages = st.builds(HumanMessage, texts, id=st.sampled_from("123")) | st.builds(AIMessage, texts)
values = (
    st.none()
    | st.integers(0, 3)
    | texts
    | st.lists(messages, max_size=4)
    | st.dictionaries(st.sampled_from("abc"), texts, max_size=3)
    | st.tuples(st.booleans(), texts)
    | st.builds(lambda m: [Send("node", {"messages": m})], st.lists(messages, max_size=3))
)
special = {
    "__error__": texts,
    "__interrupt__": st.builds(lambda v: (Interrupt(v, id="i"),), texts),
    "__resume__": st.lists(texts, max_size=2),
    "__scheduled__": st.none(),
}
writes = st.lists(
    st.tuples(st.sampled_from(CHANNELS), values)
    | st.sampled_from(sorted(special)).flatmap(lambda c: st.tuples(st.just(c), special[c])),
    max_size=4,
)
changes_of_state = st.dictionaries(st.sampled_from(CHANNELS), values, max_size=3)
kinds = st.sampled_from(["known", "newest", "missing", "empty"])
filters = st.sampled_from(
    [
        None,
        {},
        {"source": "loop"},
        {"step": 1},
        {"tag": None},
        {"run_id": "run-1", "step": 1},
        {"tag": {"a": 1}},
    ]
)


class AgainstMemory(RuleBasedStateMachine):
    """Each call goes to a saver and to the model; each answer is compared."""

    def __init__(self) -> None:
        super().__init__()
        self.root = Path(tempfile.mkdtemp())
        self.savers = [JsonlSaver(self.root, fsync="never") for _ in range(2)]
        self.model = Model()
        self.count = itertools.count(1)
        self.deleted: list[tuple[str, str, str, JsonlSaver]] = []

    def teardown(self) -> None:
        """Everything, read by a saver that has seen nothing before."""
        try:
            with JsonlSaver(self.root) as fresh:
                self.compare_all(fresh)
        finally:
            for saver in self.savers:
                saver.close()
            shutil.rmtree(self.root)

    def compare_all(self, saver: JsonlSaver) -> None:
        """All threads, all checkpoints, all histories."""
        self.compare_lists(list(saver.list(None)), self.model.list(None))
        for thread, ns in itertools.product(THREADS, NAMESPACES):
            for name in [None, *self.model.ids(thread, ns)]:
                self.compare(saver, self.config(thread, ns, name))

    def compare_lists(self, got: list[CheckpointTuple], want: Iterable[CheckpointTuple]) -> None:
        """The same checkpoints, and `got` descending by id."""
        assert difference(newest_first(got), newest_first(want)) is None
        ids = [t.config["configurable"]["checkpoint_id"] for t in got]
        assert ids == sorted(ids, reverse=True)

    def compare(self, saver: JsonlSaver, config: RunnableConfig) -> None:
        """One checkpoint, and what a DeltaChannel would read of its ancestors."""
        assert difference(plain(saver.get_tuple(config)), plain(self.model.get_tuple(config))) is None
        channels = [*CHANNELS, "absent"]
        got = saver.get_delta_channel_history(config=config, channels=channels)
        want = self.model.get_delta_channel_history(config=config, channels=channels)
        assert difference(dict(got), dict(want)) is None

    def config(self, thread: str, ns: str, name: str | None = None) -> RunnableConfig:
        """The config of a checkpoint, or of a namespace's newest."""
        config: RunnableConfig = {"configurable": {"thread_id": thread, "checkpoint_ns": ns}}
        if name is not None:
            config["configurable"]["checkpoint_id"] = name
        return config

    def known(self, thread: str, ns: str, which: int) -> str | None:
        """One of a namespace's checkpoints; half the time the newest."""
        ids = self.model.ids(thread, ns)
        if not ids:
            return None
        return ids[-1] if which % 2 else ids[which % len(ids)]

    def any_known(self, which: int) -> tuple[str, str, str] | None:
        """One checkpoint of all; half the time of those with the greatest ids."""
        places = itertools.product(THREADS, NAMESPACES)
        found = sorted(((t, n, i) for t, n in places for i in self.model.ids(t, n)), key=lambda p: p[2])
        if which % 2:
            found = found[-2:]
        return found[which // 2 % len(found)] if found else None

    # --- writing

    @initialize(thread=threads, values=changes_of_state)
    def begin(self, thread: str, values: dict[str, Any]) -> None:
        """A thread that has something."""
        self.put(thread, "", 0, "first", 0, values, [], "run-1", 0)

    @rule(
        thread=threads,
        ns=namespaces,
        which=some,
        parent=st.sampled_from(["known", "known", "known", "none", "missing"]),
        rank=some,
        changes=changes_of_state,
        gone=st.lists(st.sampled_from(CHANNELS), max_size=1),
        run=st.sampled_from([*RUNS, None]),
        by=some,
    )
    def put(self, thread, ns, which, parent, rank, changes, gone, run, by) -> None:
        """A checkpoint after a known one, after none, or after one that nobody has; ids in any order."""
        number = next(self.count)
        # Mostly ascending; now and then an id that sorts before others.
        name = f"1f{number if rank % 4 else rank % (number + 1):06}-{number:06}"
        before = {"known": self.known(thread, ns, which), "none": None, "missing": "1f-nobody"}.get(parent)
        self.store(thread, ns, name, before, changes, gone, {"run_id": run} if run else {}, by)

    @rule(which=some, changes=changes_of_state, by=some)
    def put_again(self, which, changes, by) -> None:
        """The same id again: other content, the same place, the same writes."""
        if place := self.any_known(which):
            thread, ns, name = place
            parent = self.model.storage[thread][ns][name][2]
            self.store(thread, ns, name, parent, changes, [], {"tag": {"a": 1}}, by)

    def store(self, thread, ns, name, parent, changes, gone, metadata, by) -> None:
        """Put into both, from copies of their own."""
        number = next(self.count)
        config = self.config(thread, ns, parent)
        before = self.model.get_tuple(config) if parent else None
        values = dict(before.checkpoint["channel_values"]) if before else {}
        versions = dict(before.checkpoint["channel_versions"]) if before else {}
        new = {channel: f"{number:08}.{channel}" for channel in [*changes, *gone]}
        values = {c: v for c, v in (values | changes).items() if c not in gone}
        checkpoint = {
            "v": 4,
            "id": name,
            "ts": f"2026-01-02T03:04:05.{number:06}+00:00",
            "channel_values": values,
            "channel_versions": versions | new,
            "versions_seen": {"node": new} if number % 2 else {},
            "updated_channels": sorted(new) if number % 3 else None,
        }
        if number % 5 == 0:
            checkpoint["pending_sends"] = []
        metadata = {
            "source": ("loop", "input", "update")[number % 3],
            "step": number % 3,
            "parents": {},
        } | metadata
        config["configurable"]["user"] = "someone\x00"
        config["metadata"] = {"ignored": ["a"], "kept": number % 2}
        answers = [
            saver.put(*copy.deepcopy((config, checkpoint, metadata, new)))
            for saver in (self.savers[by % 2], self.model)
        ]
        assert place_of(answers[0]) == place_of(answers[1])

    @rule(which=some, writes=writes, task=st.sampled_from(["t1", "t2"]), path=st.sampled_from(PATHS), by=some)
    def put_writes(self, which, writes, task, path, by) -> None:
        """Writes of a task, again and again: the first ordinary one and the last special one stay."""
        if place := self.any_known(which):
            for saver in (self.savers[by % 2], self.model):
                saver.put_writes(self.config(*place), copy.deepcopy(writes), task, path)

    @rule(
        thread=threads,
        ns=namespaces,
        writes=writes,
        changes=changes_of_state,
        by=some,
    )
    def put_writes_first(self, thread, ns, writes, changes, by) -> None:
        """Writes may come before the checkpoint that they belong to."""
        number = next(self.count)
        name = f"1f{number:06}-{number:06}"
        for saver in (self.savers[by % 2], self.model):
            saver.put_writes(self.config(thread, ns, name), copy.deepcopy(writes), "early", "")
        self.store(thread, ns, name, self.known(thread, ns, by), changes, [], {}, by // 2)

    # --- reading

    @rule(thread=threads, ns=namespaces, which=some, kind=kinds, by=some)
    def get(self, thread, ns, which, kind, by) -> None:
        """By id, without, with one that nobody has, and with an empty one."""
        if kind == "known" and (place := self.any_known(which)):
            self.compare(self.savers[by % 2], self.config(*place))
        else:
            name = {"missing": "1f-nobody", "empty": ""}.get(kind)
            self.compare(self.savers[by % 2], self.config(thread, ns, name))

    @rule(
        thread=threads,
        ns=st.none() | namespaces,
        which=some,
        of_one=st.booleans(),
        wanted=filters,
        before=st.none() | some,
        limit=st.none() | st.integers(-1, 4),
        by=some,
    )
    def list(self, thread, ns, which, of_one, wanted, before, limit, by) -> None:
        """Descending by id, filtered, before another one, no more than asked for."""
        config: RunnableConfig = {"configurable": {"thread_id": thread}}
        if ns is not None:
            config["configurable"]["checkpoint_ns"] = ns
            if of_one and (name := self.known(thread, ns, which)):
                config["configurable"]["checkpoint_id"] = name
        asked = {"filter": wanted}
        if before is not None and (name := self.known(thread, ns or "", before)):
            asked["before"] = self.config(thread, ns or "", name)
        want = newest_first(self.model.list(config, **asked))
        if limit is not None:
            # InMemorySaver goes namespace by namespace; which ones a limit takes is only defined for one.
            want = want[: max(limit, 0)]
        got = [plain(t) for t in self.savers[by % 2].list(config, **asked, limit=limit)]
        assert difference(got, want) is None

    @rule(wanted=filters, limit=st.none() | st.integers(0, 3), by=some)
    def list_all(self, wanted, limit, by) -> None:
        """Every thread, the newest first."""
        want = newest_first(self.model.list(None, filter=wanted))
        got = list(self.savers[by % 2].list(None, filter=wanted, limit=limit))
        if limit is None:
            self.compare_lists(got, self.model.list(None, filter=wanted))
        else:
            # Which of two copies a limit takes is nobody's promise.
            names = [t.config["configurable"]["checkpoint_id"] for t in got]
            assert names == [t["config"]["checkpoint_id"] for t in want[:limit]]
            assert all(plain(t) in want for t in got)

    # --- removing and copying

    @rule(thread=threads, by=some)
    def delete_thread(self, thread, by) -> None:
        """Gone for both savers; the same id starts empty."""
        for ns in NAMESPACES:
            self.deleted += [(thread, ns, name, self.savers[by % 2]) for name in self.model.ids(thread, ns)[-1:]]
        for saver in (self.savers[by % 2], self.model):
            saver.delete_thread(thread)
        assert not self.savers[by % 2].path(thread).exists()
        for saver in self.savers:
            self.compare(saver, self.config(thread, ""))

    @precondition(lambda self: self.deleted)
    @rule(which=some)
    def late_writes(self, which) -> None:
        """Writes for a checkpoint of a deleted thread, from a task that still ran, do not bring it back."""
        thread, ns, name, saver = self.deleted[which % len(self.deleted)]
        # A copy brought the same ids back; then it is no late write.
        if saver in self.savers and name not in self.model.ids(thread, ns):
            saver.put_writes(self.config(thread, ns, name), [("n", 1)], "late", "")

    @rule(source=threads, into=threads, by=some)
    def copy_thread(self, source, into, by) -> None:
        """All of a thread under another name; never over one that exists; nothing of one that does not."""
        saver = self.savers[by % 2]
        # A thread whose checkpoints were all deleted by run still has a log.
        existing = [thread for thread in THREADS if saver.path(thread).exists()]
        assert set(self.model.threads()) <= set(existing)
        if source not in existing:
            saver.copy_thread(source, "nowhere")
            assert not saver.path("nowhere").exists()
        elif into in existing:
            try:
                saver.copy_thread(source, into)
            except ValueError:
                return
            raise AssertionError(f"{into} was there")
        else:
            saver.copy_thread(source, into)
            self.model.copy_thread(source, into)

    @rule(runs=st.lists(st.sampled_from([*RUNS, "run-3"]), max_size=2), by=some)
    def delete_for_runs(self, runs, by) -> None:
        """The checkpoints of these runs are gone, in all threads."""
        for saver in (self.savers[by % 2], self.model):
            saver.delete_for_runs(runs)

    @rule(chosen=st.lists(st.sampled_from([*THREADS, "nobody"]), max_size=2, unique=True), by=some)
    def prune(self, chosen, by) -> None:
        """The newest checkpoint of each namespace stays."""
        for saver in (self.savers[by % 2], self.model):
            saver.prune(chosen, strategy="keep_latest")

    @rule(which=some)
    def reopen(self, which) -> None:
        """A saver is closed; another one takes its place."""
        self.savers[which % 2].close()
        self.savers[which % 2] = JsonlSaver(self.root, fsync="never")
        self.compare_all(self.savers[which % 2])


AgainstMemory.TestCase.settings = settings(
    deadline=None,
    max_examples=80,
    stateful_step_count=30,
    suppress_health_check=list(HealthCheck),
    # On a disk, shrinking takes minutes; add Phase.shrink to see the shortest way to a failure.
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
    report_multiple_bugs=False,
)
TestAgainstMemory = AgainstMemory.TestCase
