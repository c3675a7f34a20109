"""LangChain messages ⇄ plain JSON: the class's name and the fields that are not at their default.

A message that differs in a few fields from one that is stored, such as one that LangGraph gave its id after its
node's writes were stored, is "like" that one.

Messages are rebuilt from a fixed list of classes, by their stored fields and not through their constructor:
validators that a later release adds must not change what an old log says. Fields that a later release adds get
their default.
"""

from __future__ import annotations

from inspect import getattr_static
from typing import TYPE_CHECKING, Any

from langchain_core import messages

if TYPE_CHECKING:
    from langchain_core.messages import BaseMessage

MEMORY_ID = "session-memory"
MEMORY_BEGIN = "<session-memory>"


class MemoryMessage(messages.HumanMessage):
    """A session's memory at the head of restored messages, told from a user's message by its class; never stored."""


def is_lent(value: object) -> bool:
    """Whether a value is the memory that a saver lent, or takes it away: neither is a part of the state.

    Its class is lost where messages become dicts and messages again; a user's own message may have its id.
    """
    if type(value) is MemoryMessage:
        return True
    if not isinstance(value, messages.BaseMessage) or value.id != MEMORY_ID:
        return False
    return isinstance(value, messages.RemoveMessage) or (
        isinstance(value, messages.HumanMessage) and _first_text(value.content).startswith(MEMORY_BEGIN)
    )


def _first_text(content: Any) -> str:
    first = content[0] if type(content) is list and content else content
    text = first.get("text") if type(first) is dict else first
    return text if type(text) is str else ""


CLASSES: dict[str, type[BaseMessage]] = {
    name: getattr(messages, name)
    for name in (
        "AIMessage",
        "AIMessageChunk",
        "ChatMessage",
        "ChatMessageChunk",
        "FunctionMessage",
        "FunctionMessageChunk",
        "HumanMessage",
        "HumanMessageChunk",
        "RemoveMessage",
        "SystemMessage",
        "SystemMessageChunk",
        "ToolMessage",
        "ToolMessageChunk",
    )
}
KNOWN = frozenset(CLASSES.values())

_WORDS = frozenset({"class", "like"})  # beside the fields in a message's text
_FIELDS = {cls: dict.fromkeys(cls.model_fields).keys() for cls in KNOWN}
_DEFAULTS = {
    cls: {
        name: field.get_default(call_default_factory=True)
        for name, field in cls.model_fields.items()
        if not field.is_required()
    }
    for cls in KNOWN
}
# All fields in the class's order, which is what a message's text says, and a cache's key: required ones are absent.
_ABSENT = object()
_TEMPLATES = {cls: {name: _DEFAULTS[cls].get(name, _ABSENT) for name in fields} for cls, fields in _FIELDS.items()}
_REQUIRED = {cls: [name for name in fields if name not in _DEFAULTS[cls]] for cls, fields in _FIELDS.items()}
# Each message gets containers of its own.
_EMPTY = {cls: [(k, type(v)) for k, v in d.items() if type(v) in (list, dict)] for cls, d in _DEFAULTS.items()}
# What pydantic's own __setstate__ sets, which looks each of them up by its name and takes several times as long.
_set_state, _set_extra, _set_fields, _set_private = (
    getattr_static(messages.BaseMessage, slot).__set__
    for slot in ("__dict__", "__pydantic_extra__", "__pydantic_fields_set__", "__pydantic_private__")
)


def stored(cls: type[BaseMessage], fields: dict[str, Any], extra: dict[str, Any]) -> list[str] | None:
    """The names of those fields of a message that are not at their default, in the class's order.

    None if they cannot be told from what else a message's text holds: then only the serde can store the message.
    """
    if extra and not extra.keys().isdisjoint(_WORDS):
        return None
    defaults = _DEFAULTS[cls]
    names = []
    for name in _FIELDS[cls]:
        if name in fields:
            value, default = fields[name], defaults.get(name, _ABSENT)
            if value is not default and not (type(value) is type(default) and value == default):
                names.append(name)
    return names + list(extra) if extra else names


def build(name: str, given: dict[str, Any]) -> BaseMessage:
    """The message of class `name` with these fields, whose containers become the message's own.

    Raises:
        LookupError: No such class is known.
    """
    cls = CLASSES[name]
    template = _TEMPLATES[cls]
    state = template.copy()
    state.update(given)
    extra = {} if len(state) == len(template) else {k: state.pop(k) for k in given if k not in template}
    for field, kind in _EMPTY[cls]:
        if field not in given:
            state[field] = kind()
    for field in _REQUIRED[cls]:
        if field not in given:
            del state[field]
    return assembled(cls, state, extra, set(given))


def assembled(cls: type[BaseMessage], state: dict[str, Any], extra: dict[str, Any], given: set[str]) -> BaseMessage:
    """A message of its fields, of those that its class does not have, and of the names of those that were given."""
    message = cls.__new__(cls)
    _set_state(message, state)
    _set_extra(message, extra)
    _set_fields(message, given)
    _set_private(message, None)
    return message
