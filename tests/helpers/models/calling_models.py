"""A scripted model that makes calls of tools, for agents of LangChain and deepagents."""

from collections.abc import Mapping, Sequence
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from pydantic import PrivateAttr


class Caller(BaseChatModel):
    """A model that makes rounds of calls in each turn, and then reports what the tools answered."""

    rounds: Sequence[Sequence[tuple[str, Mapping[str, Any]]]]
    _prompts: list[list[BaseMessage]] = PrivateAttr(default_factory=list)

    @property
    def prompts(self) -> list[list[BaseMessage]]:
        """The messages of each request."""
        return self._prompts

    @property
    def _llm_type(self) -> str:
        return "caller"

    def bind_tools(self, tools: Any, **kwargs: Any) -> Any:
        return self

    def _generate(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> ChatResult:
        self._prompts.append(messages)
        turn = messages[max(place for place, one in enumerate(messages) if one.type == "human") :]
        made = sum(isinstance(one, AIMessage) for one in turn)
        reply = AIMessage("\n".join(one.text for one in turn if one.type == "tool"))
        if made < len(self.rounds):
            calls: list[Any] = [
                {"name": name, "args": dict(args), "id": f"{len(messages)}-{number}"}
                for number, (name, args) in enumerate(self.rounds[made])
            ]
            reply = AIMessage("", tool_calls=calls)
        return ChatResult(generations=[ChatGeneration(message=reply)])


class SameIdsCaller(Caller):
    """Gives the calls of each response the same ids, as some models do."""

    def _generate(self, *args: Any, **kwargs: Any) -> ChatResult:
        result = super()._generate(*args, **kwargs)
        message: Any = result.generations[0].message
        for number, call in enumerate(message.tool_calls):
            call["id"] = f"call_{number}"
        return result
