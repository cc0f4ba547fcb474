"""A chat model without a model: deterministic answers to JSON schemas, for tests, examples and dry runs."""

import json
from typing import Any

from langchain_core.callbacks import AsyncCallbackManagerForLLMRun, CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.messages.ai import UsageMetadata
from langchain_core.outputs import ChatGeneration, ChatResult
from pydantic import Field, PrivateAttr

from certigraph.adapters.loops import off_loop_waiting
from certigraph.adapters.models.instances import minimal
from certigraph.adapters.models.schemas import Schema
from certigraph.adapters.protocols import Responder

CHARS_PER_TOKEN = 4
TEXT: Schema = {"type": "string"}


class ScriptedChat(BaseChatModel):
    """Answers like an endpoint with JSON schema mode, from the messages and the schema alone.

    Without a responder the answer is the least instance of the schema. `replies` are given verbatim instead, in order,
    whatever was asked.
    """

    responder: Responder | None = Field(None, exclude=True)
    replies: tuple[str, ...] | None = None
    model_name: str = "scripted"
    free: bool = Field(True, exclude=True, description="whether its calls cost nothing")
    blocks: bool = Field(False, exclude=True, description="whether the responder may wait for a simulator")
    _given: int = PrivateAttr(0)

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        prompt = "\n\n".join(str(m.content) for m in messages)
        form = kwargs.get("response_format")
        text = self._next_reply() if self.replies is not None else self._answer(prompt, form)
        message = AIMessage(text, usage_metadata=_usage(prompt, text))
        return ChatResult(generations=[ChatGeneration(message=message)])

    async def _agenerate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        if self.blocks:
            return await off_loop_waiting(lambda: self._generate(messages, stop, **kwargs))
        return self._generate(messages, stop, **kwargs)

    def _next_reply(self) -> str:
        replies = self.replies or ()
        if self._given >= len(replies):
            raise LookupError(f"all {len(replies)} replies are given; pass more: ScriptedChat(replies=(...))")
        self._given += 1
        return replies[self._given - 1]

    def _answer(self, prompt: str, form: Schema | None) -> str:
        schema = form["json_schema"]["schema"] if form else TEXT
        value = self.responder(prompt, schema) if self.responder else minimal(schema)
        return json.dumps(value, ensure_ascii=False) if form else str(value)


def _usage(prompt: str, text: str) -> UsageMetadata:
    read, written = len(prompt) // CHARS_PER_TOKEN, len(text) // CHARS_PER_TOKEN
    return UsageMetadata(input_tokens=read, output_tokens=written, total_tokens=read + written)
