"""A damaged thread and a healthy one beside it, and the ways in which a log is damaged.

Nothing here uses the package's own reading: damage is made with zstandard, hashlib and json alone.
"""

# ruff: noqa: D103 - the name of a kind of damage says what it is

from __future__ import annotations

import hashlib
import json
import random
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import zstandard
from kill.bare import frames
from kill.conversations import build, turn

from langgraph_jsonl_checkpoint import JsonlSaver

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from langgraph.checkpoint.base import CheckpointTuple

HURT, WELL, OTHER = "plain", "asks", "copy"
CONFIG = {"configurable": {"thread_id": HURT}}
MAGIC = b"\x28\xb5\x2f\xfd"
GARBAGE = random.Random(49876).randbytes(300)


class Log:
    """A log's bytes: its frames, and the seq with which each begins."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        found = frames(data)
        self.ends = [0, *(end for end, text in found if text)]  # without skippable frames
        self.texts = [text for _, text in found if text]
        self.seqs = [json.loads(text.split(b"\n")[0])["seq"] for text in self.texts]
        self.next = json.loads(self.texts[-1].splitlines()[-1])["seq"] + 1

    def frame(self, number: int) -> bytes:
        """A frame's bytes; negative numbers count from the end."""
        number %= len(self.texts)
        return self.data[self.ends[number] : self.ends[number + 1]]

    def begin(self, number: int) -> int:
        """Where a frame begins."""
        return self.ends[number % len(self.texts)]

    def seq(self, number: int) -> int:
        """The seq with which a frame begins."""
        return self.seqs[number]

    def with_frames(self, order: Iterable[int | bytes]) -> bytes:
        """A log of these frames."""
        return b"".join(each if isinstance(each, bytes) else self.frame(each) for each in order)

    @property
    def numbers(self) -> list[int]:
        """The numbers of all frames."""
        return list(range(len(self.texts)))

    def chained(self, number: int, change: Callable[[list[bytes]], list[bytes]]) -> bytes:
        """The log with the lines of one frame changed, and a chain that fits from there on."""
        digest, made = b"", []
        for at, text in enumerate(self.texts):
            lines = [_unchained(line) for line in text.splitlines()]
            if at == number % len(self.texts):
                lines = change(lines)
            frame, digest = committed(lines, digest)
            made.append(frame)
        return b"".join(made)


def committed(lines: list[bytes], before: bytes, key: bytes = b"") -> tuple[bytes, bytes]:
    """A frame of one commit that follows a digest, and its own digest (FORMAT.md, Grammar)."""
    body = b"\n".join(lines) + b"\n"
    digest = hashlib.blake2b(before + body, digest_size=16, key=key).digest()
    return compressed(body[:-2] + b',"chain":"' + digest.hex().encode() + b'"}\n'), digest


def compressed(text: bytes) -> bytes:
    """One frame."""
    return zstandard.ZstdCompressor(write_checksum=True, write_content_size=True).compress(text)


def skippable(content: bytes) -> bytes:
    """A frame that decoders pass over."""
    return b"\x5a\x2a\x4d\x18" + len(content).to_bytes(4, "little") + content


def _unchained(line: bytes) -> bytes:
    at = line.rfind(b',"chain":"')
    return line if at < 0 else line[:at] + b"}"


def gigantic(size: int = 1 << 40) -> bytes:
    """A small frame that declares a huge text: one RLE block, 8 bytes of content size, a checksum."""
    return (
        MAGIC + b"\xe4" + size.to_bytes(8, "little") + (1 | 1 << 1 | 100 << 3).to_bytes(3, "little") + b"{" + bytes(4)
    )


@dataclass(frozen=True)
class Corrupt:
    """Readers raise `CorruptSessionError`."""

    offset: int
    seq: int


@dataclass(frozen=True)
class Torn:
    """Readers give what is before; the next writer moves the rest aside."""

    offset: int
    seq: int


@dataclass(frozen=True)
class Hidden(Corrupt):
    """The same, but of those readers alone that need the record."""


class Refused:
    """Readers raise `UnsupportedVersionError`."""


class Same:
    """Readers give all that was written."""


Outcome = Corrupt | Torn | Refused | Same
DAMAGE: dict[str, Callable[[Log, Log], tuple[bytes, Outcome]]] = {}
"""By name: given a log, and another session's, the damaged bytes and what readers make of them."""


def damage(make: Callable[[Log, Log], tuple[bytes, Outcome]]) -> None:
    """Enter damage into the table."""
    DAMAGE[make.__name__] = make


def _flip(data: bytes, at: int) -> bytes:
    return data[:at] + bytes([data[at] ^ 0x10]) + data[at + 1 :]


# --- cut


@damage
def truncated_to_zero(log: Log, other: Log) -> tuple[bytes, Outcome]:
    return b"", Corrupt(0, 0)


@damage
def header_cut_in_its_magic(log: Log, other: Log) -> tuple[bytes, Outcome]:
    return log.data[:3], Corrupt(0, 0)


@damage
def header_cut_before_its_end(log: Log, other: Log) -> tuple[bytes, Outcome]:
    return log.data[: log.ends[1] - 1], Corrupt(0, 0)


@damage
def commit_cut_in_its_frame_header(log: Log, other: Log) -> tuple[bytes, Outcome]:
    return log.data[: log.begin(-1) + 5], Torn(log.begin(-1), log.seq(-1))


@damage
def commit_cut_in_its_block(log: Log, other: Log) -> tuple[bytes, Outcome]:
    return log.data[: log.begin(-1) + 60], Torn(log.begin(-1), log.seq(-1))


@damage
def commit_cut_in_its_checksum(log: Log, other: Log) -> tuple[bytes, Outcome]:
    return log.data[:-2], Torn(log.begin(-1), log.seq(-1))


@damage
def first_commit_cut(log: Log, other: Log) -> tuple[bytes, Outcome]:
    return log.data[: log.ends[1] + 9], Torn(log.ends[1], 1)


# --- tails


@damage
def tail_of_zeros(log: Log, other: Log) -> tuple[bytes, Outcome]:
    return log.data + bytes(4096), Torn(len(log.data), log.next)


@damage
def tail_of_garbage(log: Log, other: Log) -> tuple[bytes, Outcome]:
    return log.data + GARBAGE, Torn(len(log.data), log.next)


@damage
def tail_of_another_text_file(log: Log, other: Log) -> tuple[bytes, Outcome]:
    return log.data + b'{"seq":7,"type":"message"}\n' * 9, Torn(len(log.data), log.next)


@damage
def tail_of_an_earlier_part_of_another_log(log: Log, other: Log) -> tuple[bytes, Outcome]:
    return log.data + other.data[other.begin(3) + 20 : other.begin(6)], Torn(len(log.data), log.next)


@damage
def tail_of_whole_frames_of_another_log(log: Log, other: Log) -> tuple[bytes, Outcome]:
    return log.data + other.data[other.begin(-2) :], Corrupt(len(log.data), log.next)


@damage
def tail_of_another_log_that_went_on_for_longer(log: Log, other: Log) -> tuple[bytes, Outcome]:
    cut = log.data[: log.begin(4)]
    return cut + other.data[other.begin(5) + 20 :], Corrupt(len(cut), log.seq(4))


@damage
def commit_torn_and_its_end_lost_to_zeros(log: Log, other: Log) -> tuple[bytes, Outcome]:
    at = log.begin(-1)
    return log.data[: at + 40] + bytes(len(log.data) - at - 40), Torn(at, log.seq(-1))


@damage
def commit_torn_and_old_data_behind(log: Log, other: Log) -> tuple[bytes, Outcome]:
    # A commit with this seq that was taken back once: it follows nothing here, so it is no sign of damage.
    old, _ = committed([b'{"seq":%d,"type":"value","ts":"2026-11-29T12:00:00.000Z"}' % log.seq(-1)], b"elsewhere")
    return log.data[: log.begin(-1) + 40] + bytes(500) + old, Torn(log.begin(-1), log.seq(-1))


# --- in the middle


@damage
def bit_flipped_in_the_header(log: Log, other: Log) -> tuple[bytes, Outcome]:
    return _flip(log.data, 40), Corrupt(0, 0)


@damage
def bit_flipped_in_the_middle(log: Log, other: Log) -> tuple[bytes, Outcome]:
    return _flip(log.data, log.begin(4) + 30), Corrupt(log.begin(4), log.seq(4))


@damage
def bit_flipped_in_the_last_commit(log: Log, other: Log) -> tuple[bytes, Outcome]:
    return _flip(log.data, log.begin(-1) + 30), Torn(log.begin(-1), log.seq(-1))


@damage
def zeros_in_the_middle(log: Log, other: Log) -> tuple[bytes, Outcome]:
    begin, end = log.begin(4) + 10, log.begin(6) + 10
    return log.data[:begin] + bytes(end - begin) + log.data[end:], Corrupt(log.begin(4), log.seq(4))


@damage
def zeros_put_in_between(log: Log, other: Log) -> tuple[bytes, Outcome]:
    at = log.begin(4)
    return log.data[:at] + bytes(512) + log.data[at:], Corrupt(at, log.seq(4))


@damage
def zeros_put_in_before_the_last_commit(log: Log, other: Log) -> tuple[bytes, Outcome]:
    at = log.begin(-1)
    return log.data[:at] + bytes(512) + log.data[at:], Corrupt(at, log.seq(-1))


@damage
def frame_dropped(log: Log, other: Log) -> tuple[bytes, Outcome]:
    return log.with_frames([n for n in log.numbers if n != 4]), Corrupt(log.begin(4), log.seq(4))


@damage
def frame_doubled(log: Log, other: Log) -> tuple[bytes, Outcome]:
    return log.with_frames([*log.numbers[:5], *log.numbers[4:]]), Corrupt(log.begin(5), log.seq(5))


@damage
def frames_swapped(log: Log, other: Log) -> tuple[bytes, Outcome]:
    return log.with_frames([*log.numbers[:4], 5, 4, *log.numbers[6:]]), Corrupt(log.begin(4), log.seq(4))


@damage
def frame_of_another_session_put_in(log: Log, other: Log) -> tuple[bytes, Outcome]:
    return log.with_frames([*log.numbers[:4], other.frame(4), *log.numbers[4:]]), Corrupt(log.begin(4), log.seq(4))


@damage
def frame_of_another_session_in_the_place_of_one(log: Log, other: Log) -> tuple[bytes, Outcome]:
    return log.with_frames([*log.numbers[:4], other.frame(4), *log.numbers[5:]]), Corrupt(log.begin(4), log.seq(4))


@damage
def log_of_another_session(log: Log, other: Log) -> tuple[bytes, Outcome]:
    return other.data, Corrupt(0, 0)


@damage
def header_twice(log: Log, other: Log) -> tuple[bytes, Outcome]:
    return log.with_frames([0, *log.numbers]), Corrupt(log.begin(1), 1)


@damage
def no_header(log: Log, other: Log) -> tuple[bytes, Outcome]:
    return log.data[log.begin(1) :], Corrupt(0, 0)


@damage
def skippable_frame_put_in(log: Log, other: Log) -> tuple[bytes, Outcome]:
    return log.with_frames([*log.numbers[:4], skippable(b"note"), *log.numbers[4:]]), Corrupt(
        log.begin(4), log.seq(4)
    )


# --- whole frames that say what no writer says


@damage
def seq_gap(log: Log, other: Log) -> tuple[bytes, Outcome]:
    def change(lines: list[bytes]) -> list[bytes]:
        return [
            line.replace(b'{"seq":%d' % seq, b'{"seq":%d' % (seq + 1), 1) for seq, line in enumerate(lines, first)
        ]

    first = log.seq(-1)
    return log.chained(-1, change), Corrupt(_rechained(log).begin(-1), first)


@damage
def line_that_is_no_json(log: Log, other: Log) -> tuple[bytes, Outcome]:
    def change(lines: list[bytes]) -> list[bytes]:
        return [lines[0][:-1] + b',"x":NaN}', *lines[1:]]

    return log.chained(4, change), Hidden(_rechained(log).begin(4), log.seq(4))


@damage
def frame_that_is_no_line(log: Log, other: Log) -> tuple[bytes, Outcome]:
    return log.data + compressed(b"hello"), Corrupt(len(log.data), log.next)


@damage
def frame_without_text(log: Log, other: Log) -> tuple[bytes, Outcome]:
    return log.data + compressed(b""), Corrupt(len(log.data), log.next)


@damage
def gigantic_content_size_at_the_end(log: Log, other: Log) -> tuple[bytes, Outcome]:
    return log.data + gigantic(), Torn(len(log.data), log.next)


@damage
def gigantic_content_size_in_the_middle(log: Log, other: Log) -> tuple[bytes, Outcome]:
    return log.with_frames([*log.numbers[:4], gigantic(), *log.numbers[5:]]), Corrupt(log.begin(4), log.seq(4))


@damage
def foreign_version(log: Log, other: Log) -> tuple[bytes, Outcome]:
    return log.chained(0, lambda lines: [lines[0].replace(b'"version":1', b'"version":2')]), Refused()


@damage
def unknown_type(log: Log, other: Log) -> tuple[bytes, Outcome]:
    line = b'{"seq":%d,"type":"dream","ts":"2026-11-29T12:00:00.000Z"}' % log.next
    return log.data + committed([line], _digest(log))[0], Refused()


@damage
def unknown_type_that_may_be_ignored(log: Log, other: Log) -> tuple[bytes, Outcome]:
    line = b'{"seq":%d,"type":"dream","ts":"2026-11-29T12:00:00.000Z","ignorable":true}' % log.next
    return log.data + committed([line], _digest(log))[0], Same()


def _digest(log: Log) -> bytes:
    return bytes.fromhex(json.loads(log.texts[-1].splitlines()[-1])["chain"])


def _rechained(log: Log) -> Log:
    """The log as `chained` writes it, whose frames may differ in size."""
    return Log(log.chained(0, lambda lines: lines))


# --- the threads


def fill(root: Path) -> None:
    """Two threads, and one that is deleted again to have a third session's bytes."""
    with JsonlSaver(root, fsync="never") as saver:
        for thread, turns in ((HURT, 2), (WELL, 2), (OTHER, 3)):
            agent = build(saver, thread)
            for number in range(turns):
                turn(agent, thread, f"turn {number} of {thread}", number + 1)


def everything(saver: JsonlSaver, thread: str = HURT) -> list[CheckpointTuple]:
    """All that can be read of a thread."""
    return list(saver.list({"configurable": {"thread_id": thread}}))


def is_part_of(found: list[CheckpointTuple], whole: list[CheckpointTuple], *, thread: str = HURT) -> bool:
    """Whether what was read of a thread was written, though maybe not all of it."""

    def plain(each: CheckpointTuple) -> Any:
        return each.checkpoint, each.metadata

    written = {each.checkpoint["id"]: each for each in whole}
    return all(
        each.config["configurable"]["thread_id"] == thread
        and plain(each) == plain(written[each.checkpoint["id"]])
        and all(write in written[each.checkpoint["id"]].pending_writes for write in each.pending_writes)
        for each in found
    )
