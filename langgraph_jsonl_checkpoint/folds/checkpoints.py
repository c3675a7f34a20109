"""Checkpoints and pending writes: what the `checkpoint` and `writes` records of a log come to.

The fold knows where each record stands and no more; a record is parsed when somebody asks for it.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import msgspec

from langgraph_jsonl_checkpoint.log import records
from langgraph_jsonl_checkpoint.log.surrogates import untag_text
from langgraph_jsonl_checkpoint.upstream import channels, namespaces

if TYPE_CHECKING:
    from collections.abc import Iterator

    from langgraph_jsonl_checkpoint.log.lines import Lines

_R = TypeVar("_R", bound=records.Record)

# Names stand first in a line; one that holds an escape, or is no plain string, is left to the parser.
_NAMES = re.compile(rb'\{"seq":\d+,"type":"[a-z]+","ts":"[^"]*","ns":"([^"\\]*)","(?:id|checkpoint)":"([^"\\]*)"')
_SPECIAL = b"[-"  # without it a line has no write to a special channel
_REMEMBERED = 64  # checkpoints for which it is remembered what writes are stored; several are of use with subgraphs
_INPUT = b',"input":'  # without it a checkpoint applies no input that has an id


class Write(NamedTuple):
    """One pending write."""

    path: str
    task: str
    idx: int
    channel: str
    text: msgspec.Raw


class _Step(msgspec.Struct):
    """The status of a `tool` record, and the attempt that starts with it."""

    status: str
    attempt: int = 0


class _Named(msgspec.Struct):
    """The names of a checkpoint, or of the checkpoint that writes are for."""

    ns: Any
    id: Any = None
    checkpoint: Any = None


class Places(msgspec.Struct):
    """Where the records stand.

    Attributes:
        spaces: By namespace and id: the seq of the checkpoint's last record, or -1, and of the writes for it.
        ended: The seq of the `terminal` record of the last run, if it stopped.
        ended_at: The namespace and the id of its checkpoint.
        inputs: The ids of the inputs that were applied.
        answer: The seq of the last answer that was given to a run as a whole.
    """

    spaces: dict[str, dict[str, list[int]]]
    ended: int | None
    ended_at: tuple[str, str]
    inputs: set[str]
    answer: int | None


class Checkpoints:
    """The fold. Ids and namespaces are those of LangGraph, which are strings.

    Args:
        lines: The log's lines.
        places: What was folded before.

    Attributes:
        lines: The log's lines.
        places: Where the records stand.
    """

    def __init__(self, lines: Lines, places: Places) -> None:
        self.lines = lines
        self.places = places
        # By namespace, the greatest id, and its record, parsed. The greatest is the newest, and not the one that was
        # written last: the ids of several processes interleave.
        self._newest_ids: dict[str, str] = {}
        for ns, held in self.places.spaces.items():
            if ids := [name for name, seqs in held.items() if seqs[0] >= 0]:
                self._newest_ids[ns] = max(ids)
        self._newest: dict[str, tuple[int, records.Checkpoint]] = {}
        # The writes that a reader asked for last: their checkpoint's seqs, how many of these are parsed, and what
        # those come to. By namespace and id, the same for writers, who only ask which writes are stored.
        self._asked: tuple[list[int], int, dict[tuple[str, int], Write]] = ([], 1, {})
        self._stored: dict[tuple[str, str], tuple[list[int], int, set[tuple[str, int]]]] = {}

    def apply(self, kind: str, text: bytes, seq: int) -> None:
        """Take in the next line of the log; types that say nothing about checkpoints are passed over."""
        places = self.places
        if kind == "checkpoint":
            self._take_checkpoint(text, seq)
        elif kind == "writes":
            self._take_writes(text, seq)
        elif kind == "terminal":
            record = records.parse_as(records.Terminal, text)
            places.ended, places.ended_at = seq, (record.ns, record.checkpoint)
        elif kind == "tool":
            if places.ended is not None:
                self._take_step(text)
        elif kind == "prune":
            places.inputs.update(records.parse_as(records.Prune, text).inputs or ())

    def _take_checkpoint(self, text: bytes, seq: int) -> None:
        places = self.places
        ns, name = _names(text)
        found = places.spaces.setdefault(ns, {}).setdefault(name, [-1])
        found[0] = seq
        if name >= self._newest_ids.get(ns, ""):
            self._newest_ids[ns] = name
        if places.ended is not None:
            # Then the run goes on. An interrupt may come before the checkpoints that led to it; and while a task
            # waits, or has failed, a subgraph in another task of its superstep may go on to its end.
            within, at = places.ended_at
            if name > at and namespaces.is_within(within, ns):
                places.ended = None
        if _INPUT in text:
            input_id = records.parse_as(records.Checkpoint, text).input
            if input_id is not None:
                places.inputs.add(input_id)

    def _take_step(self, text: bytes) -> None:
        """A call that starts is a run that goes on, unless it stands beside a task that waits for a human."""
        step = msgspec.json.decode(text, type=_Step)
        ended = self.ended
        if step.status == "started" and ended is not None and (ended.reason != "interrupted" or step.attempt > 1):
            self.places.ended = None

    def _take_writes(self, text: bytes, seq: int) -> None:
        places = self.places
        ns, name = _names(text)
        places.spaces.setdefault(ns, {}).setdefault(name, [-1]).append(seq)
        if _SPECIAL in text:
            record = records.parse_as(records.Writes, text)
            if any(index == channels.RESUME_INDEX for index, _, _ in record.writes):
                if places.ended is not None and name >= places.ended_at[1]:
                    places.ended = None  # a human has answered; an answer may come behind the end that it led to
                if record.task == channels.NULL_TASK:
                    places.answer = seq

    @property
    def ended(self) -> records.Terminal | None:
        """How the last run stopped, if it did."""
        seq = self.places.ended
        return None if seq is None else self._parsed(seq, records.Terminal)

    @property
    def inputs(self) -> set[str]:
        """The ids of the inputs that were applied."""
        return self.places.inputs

    @property
    def answer(self) -> tuple[int, msgspec.Raw] | None:
        """The record and the text of the last answer that was given to a run as a whole."""
        seq = self.places.answer
        if seq is None:
            return None
        record = self._parsed(seq, records.Writes)
        return seq, [text for index, _, text in record.writes if index == channels.RESUME_INDEX][-1]

    def get(self, ns: str, checkpoint_id: str | None) -> records.Checkpoint | None:
        """A namespace's checkpoint with this id, or its newest."""
        newest = self._newest_ids.get(ns)
        name = checkpoint_id or newest
        seqs = self.places.spaces.get(ns, {}).get(name or "")
        if name is None or not seqs or seqs[0] < 0:
            return None
        seq, record = self._newest.get(ns, (-1, None))
        if record is None or seq != seqs[0]:
            record = self._parsed(seqs[0], records.Checkpoint)
            if (record.ns, record.id) != (ns, name):
                raise self.lines.corrupt(seqs[0], f"the log's index says that checkpoint {name!r} stands here")
            if name == newest:
                self._newest[ns] = seqs[0], record
        return record

    def writes(self, ns: str, checkpoint_id: str) -> list[Write]:
        """A checkpoint's pending writes in the order in which a run applies them."""
        # (task_path, task_id, idx), as langgraph.checkpoint.base.writes_sort_key has it
        return sorted(self._writes_of(ns, checkpoint_id).values(), key=lambda w: w[:3])

    @property
    def is_unfinished(self) -> bool:
        """Whether the thread's last run, as far as it is stored, neither ended nor paused for a human."""
        return self.places.ended is None and self.leads_on

    @property
    def leads_on(self) -> bool:
        """Whether the thread's newest checkpoint leads to tasks, be it that its run has paused or failed since."""
        newest = self.get("", None)
        return newest is not None and bool(newest.next)

    def has(self, ns: str, checkpoint_id: str) -> bool:
        """Whether a checkpoint is stored."""
        return self.places.spaces.get(ns, {}).get(checkpoint_id, (-1,))[0] >= 0

    def has_write(self, ns: str, checkpoint_id: str, task: str, index: int) -> bool:
        """Whether an ordinary write is stored already, so that storing it again would change nothing."""
        return index >= 0 and (task, index) in self._stored_of(ns, checkpoint_id)

    def seq(self, ns: str, checkpoint_id: str) -> int:
        """Where in the log a checkpoint's content stands."""
        return self.places.spaces[ns][checkpoint_id][0]

    def namespaces(self) -> list[str]:
        """The namespaces that have a checkpoint."""
        return list(self._newest_ids)

    def newest_first(self, ns: str | None = None) -> list[tuple[str, str]]:
        """(id, namespace) of the checkpoints of one namespace or all, descending by id."""
        spaces = self.places.spaces if ns is None else {ns: self.places.spaces.get(ns, {})}
        # Copies: a reader lists without the lock while the session goes on.
        rows = [
            (name, space) for space, held in list(spaces.items()) for name, seqs in list(held.items()) if seqs[0] >= 0
        ]
        return sorted(rows, reverse=True)

    def ancestors(self, ns: str, checkpoint_id: str | None) -> Iterator[tuple[str, records.Checkpoint]]:
        """A checkpoint's stored ancestors, the nearest first; a chain that turns back on itself ends there."""
        record = self.get(ns, checkpoint_id)
        seen = set() if record is None else {record.id}
        while record is not None and record.parent is not None:
            name = record.parent
            if name in seen:
                return
            seen.add(name)
            record = self.get(ns, name)
            if record is not None:
                yield name, record

    def _writes_of(self, ns: str, checkpoint_id: str) -> dict[tuple[str, int], Write]:
        seqs = self.places.spaces.get(ns, {}).get(checkpoint_id)
        if seqs is None:
            return {}
        of, taken, known = self._asked
        if of is not seqs:
            taken, known = 1, {}
        end = len(seqs)  # a reader has no lock: others come while it parses these
        if taken < end:
            known = dict(known)  # readers go through the old one without the lock
        for record in self._writes_at(seqs[taken:end], ns, checkpoint_id):
            task = record.task
            for index, channel, text in record.writes:
                # Special channels overwrite; of ordinary writes the first one stays.
                if index < 0 or (task, index) not in known:
                    known[task, index] = Write(record.path, task, index, channel, text)
        self._asked = seqs, end, known
        return known

    def _stored_of(self, ns: str, checkpoint_id: str) -> set[tuple[str, int]]:
        # Only who appends asks, with the session's lock: what is known grows in place, and costs what is new.
        seqs = self.places.spaces.get(ns, {}).get(checkpoint_id)
        if seqs is None:
            return set()
        of, taken, stored = self._stored.pop((ns, checkpoint_id), ([], 1, set()))
        if of is not seqs:
            taken, stored = 1, set()
        for record in self._writes_at(seqs[taken:], ns, checkpoint_id):
            stored.update((record.task, index) for index, _, _ in record.writes)
        self._stored[ns, checkpoint_id] = seqs, len(seqs), stored
        if len(self._stored) > _REMEMBERED:
            del self._stored[next(iter(self._stored))]
        return stored

    def _writes_at(self, seqs: list[int], ns: str, checkpoint_id: str) -> Iterator[records.Writes]:
        for seq in seqs:
            record = self._parsed(seq, records.Writes)
            if (record.ns, record.checkpoint) != (ns, checkpoint_id):
                raise self.lines.corrupt(seq, f"the log's index says that writes for {checkpoint_id!r} stand here")
            yield record

    def _parsed(self, seq: int, cls: type[_R]) -> _R:
        try:
            return records.parse_as(cls, self.lines.text(seq))
        except (msgspec.DecodeError, LookupError, TypeError) as error:
            raise self.lines.corrupt(seq, f"the record is no {cls.__name__.lower()} record ({error})") from error


def _names(text: bytes) -> tuple[str, str]:
    """The namespace and the checkpoint id of a line."""
    found = _NAMES.match(text)
    if found is not None:
        return found[1].decode(), found[2].decode()
    try:
        named = msgspec.json.decode(text, type=_Named)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    ns, name = named.ns, named.id if named.checkpoint is None else named.checkpoint
    return untag_text(ns), untag_text(name)
