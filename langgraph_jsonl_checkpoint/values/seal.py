"""What the saver's serde stores: values that the codec does not know, and everything, if it is not the default serde.

Only `dumps_typed` and `loads_typed` are asked of a serde. A serde that is not LangGraph's own may be there to hide
what it stores, so under it every text of the log is sealed as a whole, with the thread that it belongs to.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Any

import msgspec
from langgraph.checkpoint.serde.encrypted import EncryptedSerializer

from langgraph_jsonl_checkpoint.values.types import tag_bytes, untag_bytes

if TYPE_CHECKING:
    from langgraph.checkpoint.serde.base import SerializerProtocol


SEALED = b'{"$sealed":'
"""What a sealed text begins with; nothing else in a line has these bytes."""


class SealError(ValueError):
    """A text that a serde cannot open: it is sealed with another, or in the clear where all is sealed."""


class Serde:
    """A saver's serde, for one thread.

    Args:
        serde: The saver's.
        thread_id: The thread that sealed texts belong to.
        seals: Whether every text of the log is sealed.
    """

    def __init__(self, serde: SerializerProtocol, thread_id: str, *, seals: bool) -> None:
        self._serde = serde
        self._thread_id = thread_id
        self.seals = seals

    def tree(self, value: Any) -> Any:
        """The tree of a value that only the serde can store.

        Raises:
            TypeError: The serde cannot either.
        """
        if not self.seals:
            # What LangGraph's serde makes of these, and stays readable.
            if isinstance(value, BaseException):
                return repr(value)
            if isinstance(value, str) and not isinstance(value, Enum):
                return str.__str__(value)
        kind, data = self._serde.dumps_typed(value)
        return {"$serde": [kind, tag_bytes(data)]}

    def value(self, payload: Any) -> Any:
        """The value of a `$serde` tag."""
        kind, text = payload
        if kind == "json":
            raise ValueError("a value is in LangChain's JSON, which names classes, and no log of ours holds it")
        return self._serde.loads_typed((self._encrypted(kind), untag_bytes(text)))

    def seal(self, text: bytes) -> bytes:
        """A text of the log, hidden."""
        kind, data = self._serde.dumps_typed({"thread_id": self._thread_id, "json": text.decode()})
        return msgspec.json.encode({"$sealed": [kind, tag_bytes(data)]})

    def open(self, text: bytes) -> bytes:
        """The text that was sealed; the text itself under the default serde.

        Raises:
            SealError: The text was sealed and should not be, was not and should be, or with another key.
            ValueError: It belongs to another thread.
        """
        if not self.seals:
            if text.startswith(SEALED):
                raise SealError("the text was sealed by another serializer, and this saver has the default one")
            return text
        tree = msgspec.json.decode(text)
        if type(tree) is not dict or tree.keys() != {"$sealed"}:
            raise SealError("the text is not sealed, and this saver's serializer seals all")
        kind, data = tree["$sealed"]
        sealed = self._encrypted(kind), untag_bytes(data)
        try:
            found = self._serde.loads_typed(sealed)
        except Exception as error:
            raise SealError(f"{type(error).__name__}: {error}") from error
        if found["thread_id"] != self._thread_id:
            raise ValueError("the text was sealed for another thread")
        return str(found["json"]).encode()

    def moved(self, tree: Any, owner: Serde) -> Any:
        """A record's tree with all that `owner` sealed sealed anew, for this thread."""
        if type(tree) is list:
            return [self.moved(t, owner) for t in tree]
        if type(tree) is not dict:
            return tree
        if tree.keys() == {"$sealed"}:
            return msgspec.Raw(self.seal(owner.open(msgspec.json.encode(tree))))
        return {k: self.moved(t, owner) for k, t in tree.items()}

    def _encrypted(self, kind: str) -> str:
        # EncryptedSerializer takes plain data, too (langgraph#8938), as a forged log would hold it.
        if isinstance(self._serde, EncryptedSerializer) and "+" not in kind:
            raise ValueError("the value is not encrypted, and this saver's serializer encrypts all")
        return kind
