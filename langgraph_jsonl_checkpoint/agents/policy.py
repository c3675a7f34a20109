"""What running a tool does, and so whether it may run again.

The order, first answer wins:

| | asked | says |
|---|---|---|
| 1 | `ToolPolicy(side_effects=…)` | side effects: the careful answer wins if the user says two things |
| 2 | `ToolPolicy(idempotent=…)` | idempotent |
| 3 | `ToolPolicy(read_only=…)` | read-only |
| 4 | the tool's metadata: `readOnlyHint` is true | read-only |
| 5 | `idempotentHint` is true | idempotent |
| 6 | `readOnlyHint` or `idempotentHint` is false, or `destructiveHint` is true | side effects |
| 7 | `ToolPolicy(default=…)` | side effects, if nothing is given |

The hints are those of MCP's ToolAnnotations, in camel case or snake case, at the top of `tool.metadata` or under its
key `annotations`; None means that nothing is said.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol, get_args

from langgraph_jsonl_checkpoint.folds.tool_calls import Effect


class Described(Protocol):
    """A tool, as far as a policy asks it."""

    @property
    def metadata(self) -> Mapping[str, Any] | None:
        """Where its hints are."""


Choice = Iterable[str] | Callable[[str, Mapping[str, Any]], bool]
"""Tools: their names, or a predicate over (name, args)."""


class ToolPolicy:
    """Which tools may run again after a crash without asking.

    Args:
        read_only: Tools that change nothing.
        idempotent: Tools that may run twice with one effect.
        side_effects: Tools that must not run twice unseen.
        checks: Tools whose results say whether the work is right, such as tests: the session memory keeps the last.
        default: What a tool is that nothing is said about.

    Raises:
        ValueError: `default` is none of the three.
        TypeError: A choice is a single string, or holds something else than names.

    Example:
        >>> policy = ToolPolicy(read_only=["search"], idempotent=lambda name, args: args.get("dry_run") is True)
        >>> policy.effect("search", {}, None)
        'read_only'
        >>> policy.effect("send_email", {"dry_run": False}, None)
        'side_effects'
    """

    def __init__(
        self,
        *,
        read_only: Choice = (),
        idempotent: Choice = (),
        side_effects: Choice = (),
        checks: Choice = (),
        default: Effect = "side_effects",
    ) -> None:
        if default not in get_args(Effect):
            raise ValueError(f"default is one of {', '.join(map(repr, get_args(Effect)))}, not {default!r}")
        self._choices: tuple[tuple[Effect, Callable[[str, Mapping[str, Any]], bool]], ...] = (
            ("side_effects", _predicate("side_effects", side_effects)),
            ("idempotent", _predicate("idempotent", idempotent)),
            ("read_only", _predicate("read_only", read_only)),
        )
        self._checks = _predicate("checks", checks)
        self._default = default

    def effect(self, name: str, args: Mapping[str, Any], tool: Described | None) -> Effect:
        """What running a tool with these arguments does."""
        for effect, chosen in self._choices:
            if chosen(name, args):
                return effect
        return _hinted(getattr(tool, "metadata", None)) or self._default

    def is_check(self, name: str, args: Mapping[str, Any]) -> bool:
        """Whether the tool's result says if the work is right."""
        return bool(self._checks(name, args))


def _predicate(option: str, choice: Choice) -> Callable[[str, Mapping[str, Any]], bool]:
    if callable(choice):
        return choice
    if isinstance(choice, str):
        raise TypeError(f"{option} takes several tool names or a predicate, not the string {choice!r}")
    given = list(choice)
    for name in given:
        if not isinstance(name, str):
            raise TypeError(f"{option} takes the names of tools, or a predicate, and {name!r} is no name")
    names = frozenset(given)
    return lambda name, _: name in names


def _hinted(metadata: Mapping[str, Any] | None) -> Effect | None:
    read_only = _hint(metadata, "readOnlyHint", "read_only_hint")
    idempotent = _hint(metadata, "idempotentHint", "idempotent_hint")
    if read_only:
        return "read_only"
    if idempotent:
        return "idempotent"
    # destructiveHint=False only says that what is changed is added: that twice is still twice.
    if read_only is False or idempotent is False or _hint(metadata, "destructiveHint", "destructive_hint"):
        return "side_effects"
    return None


def _hint(metadata: Mapping[str, Any] | None, *names: str) -> bool | None:
    """A hint as it was given; None if nothing was said."""
    places = [metadata, metadata.get("annotations")] if isinstance(metadata, Mapping) else []
    for place in places:
        for name in names:
            said = place.get(name) if isinstance(place, Mapping) else getattr(place, name, None)
            if isinstance(said, bool):
                return said
    return None


def checked(policy: ToolPolicy | None) -> ToolPolicy:
    """The policy; one under which only tools whose metadata say so may run again, if there is none.

    Raises:
        TypeError: It is something else.
    """
    if policy is not None and not isinstance(policy, ToolPolicy):
        raise TypeError(f"policy is a ToolPolicy, not {policy!r}")
    return policy or ToolPolicy()
