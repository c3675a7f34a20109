"""Strings with lone surrogates, which Python's may have and JSON must not: a log has them as `{"$str": base64}`."""

from __future__ import annotations

import base64
from typing import Any


def tag_text(text: str) -> Any:
    """A string as a tree: itself, unless it holds lone surrogates."""
    text = str.__str__(text)
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return {"$str": base64.b64encode(text.encode("utf-8", "surrogatepass")).decode()}
    return text


def untag_text(tree: Any) -> str:
    """The string of a tree that `tag_text` made.

    Raises:
        ValueError: It is no such tree.
    """
    if type(tree) is str:
        return tree
    if type(tree) is not dict or type(tree.get("$str")) is not str:
        raise ValueError(f"a name is a string, not {tree!r:.100}")
    return base64.b64decode(tree["$str"], validate=True).decode("utf-8", "surrogatepass")
