"""What a session has frozen lately, by the identity of the live object."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from langgraph_jsonl_checkpoint.values.copies import look

if TYPE_CHECKING:
    from langgraph_jsonl_checkpoint.values.parts import DictPart, Item, ListPart

_ITEMS, _SIZE = 2048, 4 << 20  # items of a generation, and bytes of their texts, from which the next one begins
_CONTAINERS = 64  # numbered containers that are remembered


class Known:
    """Items by the identity of the live object: `put` finds the messages that `put_writes` stored before it.

    An item counts only while its object is what it was. There are two generations of items. The older one is dropped
    when the younger one is full, which bounds what is kept alive.
    """

    def __init__(self) -> None:
        self._young: dict[int, Item] = {}
        self._old: dict[int, Item] = {}
        self._containers: dict[int, tuple[object, ListPart | DictPart]] = {}
        self._size = 0

    def find(self, value: Any) -> Item | None:
        """The item that was written for this object, if the object still is what it was."""
        item = self.last(value)
        try:
            return item if item is not None and item.copy == look(value) else None
        except Exception:  # noqa: BLE001 - what cannot be compared, an array say, took the place of what could
            return None

    def last(self, value: Any) -> Item | None:
        """The item that was last written for this object, whatever the object is now."""
        item = self._young.get(id(value)) or self._old.get(id(value))
        return item if item is not None and item.object is value else None

    def add(self, item: Item, size: int) -> None:
        """Remember an item by its object; `size` is the text's, about."""
        if len(self._young) >= _ITEMS or self._size >= _SIZE:
            self._old, self._young, self._size = self._young, {}, 0
        self._young[id(item.object)] = item
        self._size += size

    def find_container(self, key: object) -> ListPart | DictPart | None:
        """The last numbered container with this key: a dict, or a list's first element.

        The caller compares with it before anything else. So a state that is a channel's value, a write and a
        `Send`'s argument is written once.
        """
        kept, part = self._containers.get(id(key), (None, None))
        return part if kept is key else None

    def add_container(self, key: object, part: ListPart | DictPart) -> None:
        """Remember a numbered container by its key."""
        if len(self._containers) >= _CONTAINERS:
            self._containers.clear()
        self._containers[id(key)] = key, part
