"""A disk under the log: it counts and records each operation, fails one, and knows what a power cut would leave.

The operations are the real ones, on real files. Beside them the disk keeps what has reached its plates: a sync of a
file brings the file's bytes there, a sync of a directory its entries, and nothing else does.
"""

from __future__ import annotations

import contextlib
import errno
import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from langgraph_jsonl_checkpoint.log import files

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pytest

CHANGES = frozenset({"pwrite", "ftruncate", "fdatasync", "fsync", "link", "unlink", "rename", "mkdir", "rmdir"})
ALLOCATES = frozenset({"pwrite", "link", "rename", "mkdir"})  # and an open that makes a file


@dataclass
class Node:
    """A file or a directory.

    Attributes:
        kept: What is on the plates: a file's bytes, or a directory's entries.
        waiting: The changes that are not: (offset, bytes) is a write, (size, None) a cut, a dict names entries that
            came or (None) went.
    """

    kept: Any
    waiting: list[Any] = field(default_factory=list)

    @property
    def now(self) -> Any:
        """What the kernel shows."""
        return after(self.kept, self.waiting)

    def sync(self) -> None:
        """Bring all to the plates."""
        self.kept, self.waiting = self.now, []


def after(kept: Any, changes: list[Any]) -> Any:
    """A file's bytes, or a directory's entries, after these changes."""
    if isinstance(kept, dict):
        entries = {name: node for change in [kept, *changes] for name, node in change.items()}
        return {name: node for name, node in entries.items() if node is not None}
    data = bytearray(kept)
    for offset, written in changes:
        if written is None:
            del data[offset:]
        data += bytes(max(offset - len(data), 0))
        if written is not None:
            data[offset : offset + len(written)] = written
    return bytes(data)


class Fault(NamedTuple):
    """How an operation fails.

    Attributes:
        code: The error.
        part: How much of a write is done before it fails; one byte at least, if it is not 0.
        lasts: Whether all that need room on the disk fail from then on, until `free`.
        drops: Whether a sync that fails gives up the pages that it could not write, as Linux does.
    """

    code: int
    part: float = 0
    lasts: bool = False
    drops: bool = True


class Operation(NamedTuple):
    """One operation.

    Attributes:
        name: Its name.
        file: The name of the file that it was about.
        changes: Whether it may leave another disk behind.
    """

    name: str
    file: str
    changes: bool


class Disk:
    """The disk. What lies outside of `root` is none of its business.

    Attributes:
        done: The operations since it was told to count.
        descriptors: The open ones, and the paths that they were opened with.
        locked: Those that hold a lock.
        hit: Whether an operation has failed.
    """

    def __init__(self, root: str) -> None:
        self.root = root
        self.tree = Node({})
        self.done: list[Operation] = []
        self.descriptors: dict[int, str] = {}
        self.locked: set[int] = set()
        self.hit = False
        self.watcher: Any = lambda: None
        self._nodes: dict[int, Node] = {}
        self._at = -1
        self._part = 0.0
        self._fault: Fault | None = None
        self._is_full = False
        self._is_dead = False
        self._is_quiet = False
        self._real = {name: getattr(files, name) for name in files.__all__}

    def install(self, patch: pytest.MonkeyPatch) -> None:
        """Put the disk under the package."""
        for name in files.__all__:
            patch.setattr(files, name, self._operation(name, getattr(self, f"_{name}", self._real[name])))

    def fail(self, at: int, fault: Fault) -> None:
        """Let the operation with this number, counted from 0, fail."""
        self._at, self._fault = at, fault

    def free(self) -> None:
        """There is room again."""
        self._is_full = False

    def die(self, at: int, part: float = 0) -> None:
        """Let nothing be done from the operation with this number on, but a part of it if it writes: a kill."""
        self._at, self._fault, self._part = at, None, part

    def revive(self) -> None:
        """Let another process begin: the kernel has closed what the one before had open."""
        for fd in list(self.descriptors):
            self._close(fd)
        self._is_dead, self._at = False, -1

    @contextlib.contextmanager
    def quiet(self) -> Iterator[None]:
        """Neither count nor fail what is done."""
        self._is_quiet = True
        try:
            yield
        finally:
            self._is_quiet = False

    @property
    def held(self) -> list[str]:
        """The paths whose lock somebody holds."""
        return sorted(self.descriptors[fd] for fd in self.locked)

    def _operation(self, name: str, call: Any) -> Any:
        def operation(*args: Any, **options: Any) -> Any:
            makes = name == "open" and bool(args[1] & os.O_CREAT)
            if self._is_quiet:
                return call(*args, **options)
            if self._is_dead:
                raise OSError(errno.EBADF, "the process is dead")
            at = len(self.done)
            subject = args[0] if isinstance(args[0], str) else self.descriptors.get(args[0], "")
            self.done.append(Operation(name, os.path.basename(subject), makes or name in CHANGES))
            if at == self._at or self._is_full and (makes or name in ALLOCATES):
                self.hit = True
                if self._fault is None:
                    self._is_dead = True
                    if name == "pwrite" and self._part:
                        call(args[0], _part(args[1], self._part), args[2])
                    raise OSError(errno.EBADF, "the process is dead")
                self._is_full = self._is_full or self._fault.lasts
                self._break(name, call, args)
            found = call(*args, **options)
            if self.done[at].changes:
                self.watcher()
            return found

        return operation

    def _break(self, name: str, call: Any, args: tuple) -> None:
        assert self._fault is not None
        if name == "pwrite" and self._fault.part:
            call(args[0], _part(args[1], self._fault.part), args[2])
        elif name == "close":
            call(*args)  # Linux has closed it, whatever it says
        elif name == "fdatasync" and self._fault.drops:
            self._nodes[args[0]].waiting = []
        named = (
            [args[0]] if isinstance(args[0], str) else []
        )  # the kernel knows a descriptor's file, and does not say it
        raise OSError(self._fault.code, f"{os.strerror(self._fault.code)} (injected)", *named)

    # --- the operations

    def _node(self, path: str) -> Node:
        node = self.tree
        for name in os.path.relpath(path, self.root).split(os.sep):
            node = node if name == "." else node.now[name]
        return node

    def _enter(self, path: str, node: Node | None) -> None:
        if path != self.root:
            self._node(os.path.dirname(path)).waiting.append({os.path.basename(path): node})

    def _open(self, path: str, flags: int, mode: int = 0o777) -> int:
        new = flags & os.O_CREAT and not os.path.lexists(path)
        fd: int = self._real["open"](path, flags, mode)
        if new:
            self._enter(path, Node(b""))
        self.descriptors[fd] = path
        self._nodes[fd] = self._node(path)
        return fd

    def _close(self, fd: int) -> None:
        self._real["close"](fd)
        self.descriptors.pop(fd, None)  # one that was open before is let go of whenever it is collected
        self.locked.discard(fd)

    def _pwrite(self, fd: int, data: memoryview, offset: int) -> int:
        done: int = self._real["pwrite"](fd, data, offset)
        self._nodes[fd].waiting.append((offset, bytes(data[:done])))
        return done

    def _ftruncate(self, fd: int, size: int) -> None:
        self._real["ftruncate"](fd, size)
        self._nodes[fd].waiting.append((size, None))

    def _fdatasync(self, fd: int) -> None:
        self._nodes[fd].sync()

    _fsync = _fdatasync

    def _link(self, path: str, to: str) -> None:
        self._real["link"](path, to)
        self._enter(to, self._node(path))

    def _unlink(self, path: str) -> None:
        self._real["unlink"](path)
        self._enter(path, None)

    def _rename(self, path: str, to: str) -> None:
        node = self._node(path)
        self._real["rename"](path, to)
        assert os.path.dirname(path) == os.path.dirname(to)
        self._node(os.path.dirname(to)).waiting.append({os.path.basename(path): None, os.path.basename(to): node})

    def _mkdir(self, path: str, mode: int = 0o777) -> None:
        self._real["mkdir"](path, mode)
        self._enter(path, Node({}))

    def _rmdir(self, path: str) -> None:
        self._real["rmdir"](path)
        self._enter(path, None)

    def _lock_descriptor(self, fd: int, **options: Any) -> bool:
        taken: bool = self._real["lock_descriptor"](fd, **options)
        if taken:
            self.locked.add(fd)
        return taken

    def _unlock_descriptor(self, fd: int) -> None:
        self._real["unlock_descriptor"](fd)
        self.locked.discard(fd)


def _part(data: memoryview, part: float) -> bytes:
    return bytes(data[: max(int(len(data) * part), 1)])
