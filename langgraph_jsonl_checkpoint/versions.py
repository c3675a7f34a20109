"""Channel versions: strings that sort after the one before, and that no other fork or process makes."""

from __future__ import annotations

import math
import re
from typing import Any

_DIGITS = 32  # as the official savers have it: "00000000000000000000000000000007.0.6180339887498949"


def next_version(current: Any, unique: str) -> Any:
    """The version after `current`.

    Args:
        current: None; an int or a float, whose kind a thread from another saver keeps, because LangGraph compares a
            checkpoint's versions with each other; or any saver's string.
        unique: A string that no other call gets: two forks of a thread must not share a version.
    """
    if current is None:
        return f"{1:0{_DIGITS}}.{unique}"
    if isinstance(current, int):
        return current + 1
    if isinstance(current, float):
        return (
            math.nextafter(max(current, math.floor(current) + 1.0), math.inf)
            if current >= 2**53
            else math.floor(current) + 1.0
        )
    digits = re.match(r"~?(\d+)", current)
    number = int(digits[1]) + 1 if digits else 1
    following = f"{number:0{_DIGITS}}.{unique}"
    if following <= current:
        # Not padded as the official ones are ("7"), or no number at all: "~" sorts after every ASCII version.
        following = f"~{following}"
    return following if following > current else f"{current}~{unique}"
