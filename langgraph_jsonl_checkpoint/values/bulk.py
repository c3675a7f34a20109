"""What JSON has as it is, frozen without a Python step for each member: numbers in lists, small dicts of text."""

from __future__ import annotations

from typing import Any

import msgspec

from langgraph_jsonl_checkpoint.values.copies import LEAVES, SCALARS, TEXT, Scalars, copy_of_number
from langgraph_jsonl_checkpoint.values.parts import LARGE, REFERENCE, Frozen, ListPart, View

_FEW = 64  # members of a dict up to which it may be small
_INT64 = 1 << 63
_PLAIN = LEAVES - {float}
_encode = msgspec.json.Encoder().encode


def part_of_scalar(value: Any) -> Any:
    """The part of a string, a number or None: itself, unless JSON does not have it."""
    if type(value) is int and not -_INT64 <= value < _INT64:
        return {"$int": hex(value)}
    if type(value) is float and value - value != 0.0:
        return {"$float": repr(value)}
    return value


def scalars(value: list[Any]) -> Frozen | None:
    """A long list of small scalars, such as an embedding, without a Python step for each; None if it is none."""
    kinds = set(map(type, value))
    if not kinds <= SCALARS:
        return None
    if float in kinds and not all(v - v == 0.0 for v in value if type(v) is float):
        return None
    if int in kinds and not all(-_INT64 <= v < _INT64 for v in value if type(v) is int):
        return None
    made = ListPart(value, View(value, Scalars(value), []))
    return made, made.states, REFERENCE


def extended(value: list[Any], old: ListPart, scalars: Frozen) -> Frozen:
    """A long list of scalars whose place holds a numbered list: only what was appended is new."""
    kept = old.length
    if kept > len(value) or Scalars(old.parts[:kept]) != value[:kept]:
        return scalars
    if kept == len(value):
        return old, old.copy, REFERENCE
    made = scalars[0]
    made.before, made.stretches = old, [(0, kept), (-1, len(value) - kept)]
    return scalars


def small_dict(value: dict[Any, Any], large: int) -> tuple[msgspec.Raw, dict[str, Any]] | None:
    """The text and the copy of a small dict of what JSON has, or of dicts of that: versions, metadata, arguments.

    It needs no Python step for each member. None for any other dict, which is looked at member by member.
    """
    if len(value) > _FEW:
        return None
    keys, leaves = [*value], [*value.values()]
    kinds = {*map(type, leaves)}
    if dict in kinds:
        inner = {key: dict(member) for key, member in value.items() if type(member) is dict}  # one look here, too
        value = {**value, **inner}
        leaves = [leaf for leaf in leaves if type(leaf) is not dict]
        for member in inner.values():
            keys += member
            leaves += member.values()
        kinds = {*map(type, leaves)}
    if not (kinds <= _PLAIN and {*map(type, keys)} <= TEXT and _are_small(leaves, kinds)):
        return None
    try:
        text = _encode(value)
    except UnicodeEncodeError:
        return None
    if len(text) >= large or b'{"$' in text:
        return None
    differ = not kinds <= TEXT and (0 in leaves or 1 in leaves)
    return msgspec.Raw(text), _copy_of_plain(value) if differ else value


def _are_small(leaves: list[Any], kinds: set[type]) -> bool:
    """Whether each string and each number stays where it stands."""
    if str in kinds and max([len(leaf) for leaf in leaves if type(leaf) is str]) >= LARGE - 2:
        return False
    ints = [leaf for leaf in leaves if type(leaf) is int] if int in kinds else [0]
    return min(ints) >= -_INT64 and max(ints) < _INT64


def _copy_of_plain(value: dict[str, Any]) -> dict[str, Any]:
    return {
        key: _copy_of_plain(member)
        if type(member) is dict
        else copy_of_number(member)
        if member in (0, 1)
        else member
        for key, member in value.items()
    }


def looks_like_a_tag(value: dict[str, Any]) -> bool:
    """Whether a dict's text could be read as something else, so that its members are written as pairs."""
    return len(value) == 1 and next(iter(value)).startswith("$")
