"""The system calls that touch the disk for a log, by the names that `os` gives them: all of them go through here.

Nothing stands between a caller and the call. A disk that fails or loses power can be put in their place.
"""

from __future__ import annotations

import fcntl
import os

from filelock import lock_descriptor, unlock_descriptor

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
pread = os.pread
pwrite = os.pwrite
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
flock = fcntl.flock
