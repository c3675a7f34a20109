"""A log's lines by seq: those of packed frames are read when somebody asks for them, all others stay in memory."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from typing import TYPE_CHECKING, NamedTuple

from langgraph_jsonl_checkpoint.errors import CorruptSessionError
from langgraph_jsonl_checkpoint.log import frames, journal

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from langgraph_jsonl_checkpoint.log.logfile import LogFile


_BEGIN = journal.Position()
_LOADED = 1 << 30  # bytes of packed frames that stay in memory


class Packed(NamedTuple):
    """A packed frame.

    Attributes:
        offset: Its byte offset.
        end: The offset behind it.
        seq: The seq of its first record.
        chain: Digest of the commit before it, in hexadecimal.
    """

    offset: int
    end: int
    seq: int
    chain: str


class Lines:
    """The lines.

    Args:
        path: The log's path, for errors.
        file: The log, if there are packed frames.
        header: The line of its header, if there are packed frames.
        packed: Its packed frames, which begin with seq 1 and lie behind each other.
        behind: The position behind them.
        key: The key of the chain.

    Attributes:
        next: The seq of the next record.
        held: How many bytes of lines are in memory.
    """

    def __init__(
        self,
        path: str,
        file: LogFile | None = None,
        header: bytes = b"",
        packed: Sequence[Packed] = (),
        behind: journal.Position = _BEGIN,
        key: bytes = b"",
    ) -> None:
        self._path = path
        self._file = file
        self._header = header
        self._packed = packed
        self._key = key
        self._firsts = [frame.seq for frame in packed]
        self._loaded: dict[int, list[bytes]] = {}
        self._last: tuple[int, list[bytes]] = (0, [])  # the packed frame that was read last
        self._behind, self._chain = behind.seq, behind.chain.hex()
        self._is_checked = False
        self._tail: list[bytes] = []
        self._kinds: list[str] = []
        self._frame_seqs, self._frame_offsets = array("Q"), array("Q")
        self.next = behind.seq
        self.held = self._held_loaded = 0

    def add(self, lines: Sequence[journal.Line], begins: Sequence[tuple[int, int]]) -> None:
        """Take in the next lines, and (seq of the first record, offset) of each of their frames."""
        for kind, text in lines:
            self._kinds.append(kind)
            self._tail.append(text)
            self.held += len(text)
        for seq, offset in begins:
            self._frame_seqs.append(seq)
            self._frame_offsets.append(offset)
        self.next += len(lines)

    def text(self, seq: int) -> bytes:
        """A record's line, without the chain field.

        Raises:
            CorruptSessionError: Its frame is damaged.
        """
        if seq >= self._behind:
            return self._tail[seq - self._behind]
        first, lines = self._last
        if not 0 <= seq - first < len(lines):
            at = bisect_right(self._firsts, seq) - 1
            if at < 0:
                return self._header
            first, lines = self._last = self._firsts[at], self._loaded.get(at) or self._load(at)
        return journal.unchained(lines[seq - first])

    def line(self, seq: int) -> journal.Line:
        """A record's type and line. Raises what `text` raises."""
        if seq >= self._behind:
            return journal.Line(self._kinds[seq - self._behind], self._tail[seq - self._behind])
        return journal.line_of(self.text(seq))

    def since(self, seq: int) -> Iterator[journal.Line]:
        """The lines from a seq on, in order; those of packed frames do not stay in memory."""
        if self._header and not seq:
            yield journal.line_of(self._header)
        for at, first in enumerate(self._firsts):
            if seq < self._seq_behind(at):
                lines = self._loaded.get(at) or self._read(at)
                yield from map(journal.line_of, lines[max(seq - first, 0) :])
        begin = max(seq - self._behind, 0)
        yield from map(journal.Line, self._kinds[begin:], self._tail[begin:])

    def offset(self, seq: int) -> int:
        """The byte offset of the frame that holds a record."""
        if seq >= self._behind and self._frame_seqs:
            return self._frame_offsets[max(bisect_right(self._frame_seqs, seq) - 1, 0)]
        at = bisect_right(self._firsts, seq) - 1
        return self._packed[at].offset if at >= 0 else 0

    @property
    def loose(self) -> int:
        """How many bytes of lines behind the packed frames are in memory."""
        return self.held - self._held_loaded

    def check_end(self) -> None:
        """Check, the first time, that the packed frames end as the index says.

        Raises:
            CorruptSessionError: They do not.
        """
        if self._packed and not self._is_checked:
            last = len(self._packed) - 1
            text = (self._loaded.get(last) or self._read(last))[-1] + b"\n"
            if journal.chain_of(text) != self._chain:
                raise self.corrupt(
                    self._behind - 1, "the packed frames do not end with the commit that the index says"
                )
            self._is_checked = True

    def corrupt(
        self, seq: int, reason: str, kind: type[CorruptSessionError] = CorruptSessionError
    ) -> CorruptSessionError:
        """The error about a record."""
        return kind(self._path, self.offset(seq), seq, reason)

    def _load(self, at: int) -> list[bytes]:
        lines = self._read(at)
        size = sum(map(len, lines))
        if self._held_loaded + size > _LOADED:  # memory is bounded; what is needed again is read again
            self.held -= self._held_loaded
            self._loaded, self._held_loaded = {}, 0
        self._loaded[at] = lines
        self._held_loaded += size
        self.held += size
        return lines

    def _read(self, at: int) -> list[bytes]:
        """A packed frame's lines as they stand there, with their chain fields."""
        frame = self._packed[at]
        try:
            data = b"" if self._file is None else self._file.read(frame.offset, frame.end)
            text, _ = frames.read(memoryview(data), 0)
            return journal.split(text, frame.seq, self._seq_behind(at), bytes.fromhex(frame.chain), self._key)
        except (frames.BadFrameError, journal.OutOfSequenceError, ValueError) as error:
            raise CorruptSessionError(self._path, frame.offset, frame.seq, str(error)) from None

    def _seq_behind(self, at: int) -> int:
        return self._firsts[at + 1] if at + 1 < len(self._firsts) else self._behind
