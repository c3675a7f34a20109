"""Chat models whose answers are known.

An answer follows from the messages that a model is shown and from nothing else, so a model in a new process goes on
where the one before was stopped.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult

if TYPE_CHECKING:
    from typing import Self


class ChatModel(BaseChatModel):
    """A chat model that is its `answer`."""

    @abstractmethod
    def answer(self, messages: list[BaseMessage]) -> AIMessage:
        """What it says to these messages."""

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools: Any, **_: Any) -> Self:
        """The script knows its tools."""
        return self

    def _generate(self, messages: list[BaseMessage], *_: Any, **__: Any) -> ChatResult:
        return ChatResult(generations=[ChatGeneration(message=self.answer(messages))])


class ScriptedModel(ChatModel):
    """Answers from a list: its next answer's place there is the number of AIMessages that it is shown.

    An answer is an AIMessage, its text, or a function that makes one. What the model was asked is kept in `requests`,
    if there is such a list.
    """

    script: Any
    requests: Any = None

    def answer(self, messages: list[BaseMessage]) -> AIMessage:
        """The script's next answer."""
        if self.requests is not None:
            self.requests.append(list(messages))
        said = self.script[sum(isinstance(message, AIMessage) for message in messages)]
        if isinstance(said, str):
            return AIMessage(said)
        return (said() if callable(said) else said).model_copy(deep=True)
