"""Thread and workspace ids ⇄ safe file names.

The names are distinct wherever the ids are, also on a file system that folds case or normalises Unicode, and
never leave their directory: only `a-z 0-9 _ -` stand for themselves, every other byte of the id's UTF-8 is
`%xx`. A lone `%` is the empty id, and an id that is too long for a file name ends in `%~` and a hash.
"""

from __future__ import annotations

import hashlib
import re

_PLAIN = frozenset(b"abcdefghijklmnopqrstuvwxyz0123456789_-")
_LONGEST = 200  # file systems allow 255 bytes
_IS_PLAIN = re.compile(rf"[a-z0-9_-]{{1,{_LONGEST}}}\Z").match
_KEPT = 100  # how much of a long name stays readable before its hash
# Windows opens devices under these names, whatever the directory.
_RESERVED = re.compile(r"(con|prn|aux|nul|com[0-9]|lpt[0-9])\Z")


def escape(name: str) -> str:
    """The file name for an id; `unescape` gives the id back unless it was too long."""
    if _IS_PLAIN(name) and not _RESERVED.match(name):
        return name
    raw = name.encode("utf-8", "surrogatepass")
    out = "".join(chr(b) if b in _PLAIN else f"%{b:02x}" for b in raw) or "%"
    if _RESERVED.match(out):
        out = f"%{raw[0]:02x}{out[1:]}"
    if len(out) > _LONGEST:
        kept = re.sub(r"%.?\Z", "", out[:_KEPT])  # never half an escape
        out = f"{kept}%~{hashlib.sha256(raw).hexdigest()}"
    return out


def unescape(name: str) -> str | None:
    """The id of a file name; None if the name ends in a hash, or no id has it."""
    if name == "%":
        return ""
    if _IS_PLAIN(name) and not _RESERVED.match(name):
        return name
    try:
        raw = re.sub(r"%([0-9a-f]{2})", lambda m: chr(int(m[1], 16)), name).encode("latin-1")
        found = raw.decode("utf-8", "surrogatepass")
    except UnicodeError:
        return None
    return found if escape(found) == name else None
