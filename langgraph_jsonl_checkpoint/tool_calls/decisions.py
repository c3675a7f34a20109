"""What a human may decide about an uncertain call."""

from __future__ import annotations

from typing import Any

KINDS = ("approve", "respond", "reject")


def checked(decision: Any) -> tuple[str, str]:
    """A decision as (kind, message).

    Raises:
        ValueError: It is none.
    """
    if not isinstance(decision, dict) or decision.get("type") not in KINDS:
        raise ValueError(f'a decision is {{"type": {" | ".join(KINDS)}, "message": str}}, not {decision!r}')
    message = decision.get("message") or ""
    if not isinstance(message, str):
        raise ValueError(f"a decision's message is a string, not {message!r}")  # noqa: TRY004
    if decision["type"] == "respond" and not message:
        raise ValueError('the decision "respond" needs the call\'s result as its message')
    return decision["type"], message
