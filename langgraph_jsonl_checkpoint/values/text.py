"""Text that is made of values, for records and for models."""

from __future__ import annotations

import re
from asyncio import CancelledError

_LONGEST = 2000  # characters of an error's text
_ADDRESS = re.compile(r"(<(?:[^<>]|<\w+>)*?) at 0x[0-9a-fA-F]+(?=[^<>]*>)")  # <function f.<locals>.<lambda> at 0x1>


def without_addresses(text: str) -> str:
    """A text without the addresses in the `repr` of objects, which differ in each process and mean nothing."""
    return _ADDRESS.sub(r"\1", text)


def error_text(error: BaseException) -> str:
    """What is recorded of an error."""
    name = type(error).__name__
    if isinstance(error, CancelledError):
        return name  # its text is of no use to a reader: a mark of asyncio's, or nothing
    return without_addresses(f"{name}: {error}")[:_LONGEST]


def printable(text: str) -> str:
    """A text on one line, without anything that a terminal takes for a command: a stranger may have chosen it."""
    return text if text.isprintable() else "".join(c if c.isprintable() else _escaped(c) for c in text)


def _escaped(character: str) -> str:
    return character.encode("unicode_escape").decode()
