"""The system calls that touch the disk for a log, by the names that `os` gives them: all of them go through here.

They are the calls themselves, with nothing around them. Tests replace them by a disk that fails or loses power.
"""

from __future__ import annotations

import contextlib
import os

from filelock import lock_descriptor, unlock_descriptor

with contextlib.suppress(ModuleNotFoundError):
    import fcntl
    import resource

__all__ = [
    "close",
    "fdatasync",
    "flock",
    "fstat",
    "fsync",
    "ftruncate",
    "link",
    "listdir",
    "lock_descriptor",
    "mkdir",
    "open",
    "pread",
    "pwrite",
    "rename",
    "rmdir",
    "stat",
    "unlink",
    "unlock_descriptor",
    "utime",
]

open = os.open  # noqa: A001 (the name that the call has)
close = os.close
stat = os.stat
fstat = os.fstat
ftruncate = os.ftruncate
fdatasync = getattr(os, "fdatasync", os.fsync)  # macOS has none
fsync = os.fsync
link = os.link
unlink = os.unlink
rename = os.rename
mkdir = os.mkdir
rmdir = os.rmdir
listdir = os.listdir
utime = os.utime

_MISSING = [name for name in ("pread", "pwrite", "O_CLOEXEC", "O_DIRECTORY", "O_NOFOLLOW") if not hasattr(os, name)]
if "fcntl" not in globals():
    _MISSING.append("flock")
if not _MISSING:
    pread = os.pread
    pwrite = os.pwrite
    flock = fcntl.flock
    LOCK_SH, LOCK_NB = fcntl.LOCK_SH, fcntl.LOCK_NB


def most_open() -> int:
    """How many descriptors this process may have."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return 1 << 30 if soft == resource.RLIM_INFINITY else soft


def check_platform() -> None:
    """Refuse a platform whose files cannot do what a log asks of them, before anything is written.

    Raises:
        NotImplementedError: It lacks a call. Windows does, and could not replace a log that somebody reads.
    """
    if _MISSING:
        raise NotImplementedError(
            f"session logs need files as POSIX has them, and this platform has no {', '.join(_MISSING)}. "
            "On Windows run it under WSL, with the sessions in a Linux file system."
        )
