"""A scripted chat model that calls tools, for agents that are not certigraph's."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, ToolCall
from langchain_core.messages.ai import UsageMetadata
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.runnables import Runnable
from langchain_core.utils.function_calling import convert_to_openai_tool
from pydantic import Field


def call(name: str, id: str, /, **args: Any) -> ToolCall:
    """Return a call of a tool."""
    return ToolCall(name=name, args=args, id=id, type="tool_call")


class CallingChat(BaseChatModel):
    """Gives scripted replies in order, and the last one again and again.

    Requests with an answer schema, which certigraph's operators send, get `answers` instead.
    """

    model_name: str = "calling"
    replies: Sequence[Any]
    """Each a text, calls, a message, or an exception that is raised."""
    answers: Sequence[Mapping[str, Any]] = ()
    tokens: tuple[int, int] = (10, 5)
    """Tokens that each reply reports, of input and output."""
    requests: list[list[BaseMessage]] = Field(default_factory=list)
    """The prompts of the replies so far."""
    offered: list[list[str]] = Field(default_factory=list)
    """The tools that each of them offered."""
    prompts: list[str] = Field(default_factory=list)
    """The prompts with an answer schema."""

    @property
    def _llm_type(self) -> str:
        return "calling"

    def bind_tools(self, tools: Sequence[Any], **kwargs: Any) -> Runnable[Any, Any]:
        """Bind the names of tools."""
        names = [convert_to_openai_tool(tool)["function"]["name"] for tool in tools]
        return self.bind(names=names)

    def _generate(
        self, messages: list[BaseMessage], stop: Any = None, run_manager: Any = None, **kwargs: Any
    ) -> ChatResult:
        if "response_format" in kwargs:
            self.prompts.append("\n".join(one.text for one in messages))
            reply: Any = json.dumps(self.answers[min(len(self.prompts), len(self.answers)) - 1])
        else:
            self.requests.append(messages)
            self.offered.append(kwargs.get("names", []))
            reply = self.replies[min(len(self.requests), len(self.replies)) - 1]
        if isinstance(reply, BaseException):
            raise reply
        read, wrote = self.tokens
        usage = UsageMetadata(input_tokens=read, output_tokens=wrote, total_tokens=read + wrote)
        if isinstance(reply, str):
            reply = AIMessage(reply)
        elif not isinstance(reply, AIMessage):
            reply = AIMessage("", tool_calls=list(reply))
        message = reply.model_copy(update={"usage_metadata": usage})
        return ChatResult(generations=[ChatGeneration(message=message)])
