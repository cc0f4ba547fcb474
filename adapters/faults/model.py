"""Any chat model, failing at known rates: for own LangGraph graphs as for the runs here."""

import asyncio
import itertools
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar

from langchain_core.callbacks import AsyncCallbackManagerForLLMRun, CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import BaseMessage
from langchain_core.outputs import ChatResult
from langchain_core.runnables import Runnable
from pydantic import PrivateAttr

from certigraph.adapters.faults.rates import ANSWERING, FAILING, MODEL, SLOW, Rates
from certigraph.adapters.faults.rewiring import rewired
from certigraph.adapters.faults.spoiling import client_error, spoiled


class FaultyModel(BaseChatModel):
    """Asks `chat` and injects faults: `FaultyModel(chat=mine, faults="timeout=0.1,seed=3")`.

    A request that fails raises what OpenAI's client raises when its own retries are spent, and never reaches `chat`;
    an answer that is spoiled was asked for and is billed. Drawn from the messages and how often they were asked
    before, so that concurrency changes nothing and a question that is asked again may be answered.
    """

    chat: BaseChatModel
    faults: Rates
    trial: int = 0
    """Which repetition of the task this is; each is drawn anew."""
    cache: Any = False
    """LangChain's cache of answers stays out: a fault is not the model's answer."""

    spoils: ClassVar[bool] = True
    """Tells the cache of replies, which does not load this file, to stay out as well."""

    _asked: dict[str, Iterator[int]] = PrivateAttr(default_factory=dict)
    _struck: list[str] = PrivateAttr(default_factory=list)

    @property
    def injected(self) -> Counter[str]:
        """How many faults of each kind were injected so far."""
        return Counter(self._struck)

    def bind_tools(self, tools: Sequence[Any], **kwargs: Any) -> Runnable[Any, Any]:
        """The tools in the form of the model behind."""
        return rewired(self.chat.bind_tools(tools, **kwargs), self.chat, self)

    def with_structured_output(self, schema: Any, **kwargs: Any) -> Runnable[Any, Any]:
        """The structured output of the model behind, which meets spoiled answers as it would real ones."""
        return rewired(self.chat.with_structured_output(schema, **kwargs), self.chat, self)

    def model_post_init(self, context: Any, /) -> None:
        """Carry the metadata of the model behind, which say what serves it."""
        self.metadata = self.metadata or self.chat.metadata

    def __getattr__(self, name: str) -> Any:
        """Whatever else the model behind has: its name, address and price."""
        if name.startswith("_") or name == "chat":
            return super().__getattr__(name)  # type: ignore[misc]
        return getattr(self.chat, name)

    @property
    def _llm_type(self) -> str:
        return self.chat._llm_type

    @property
    def _identifying_params(self) -> dict[str, Any]:
        return {**self.chat._identifying_params, "faults": str(self.faults)}

    def _get_ls_params(self, stop: list[str] | None = None, **kwargs: Any) -> Any:
        return self.chat._get_ls_params(stop, **kwargs)

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        kind = self._drawn(messages)
        time.sleep(self.faults.delay if kind == SLOW else 0)
        return _struck(self.chat._generate(messages, stop, run_manager, **kwargs), kind)

    async def _agenerate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        kind = self._drawn(messages)
        await asyncio.sleep(self.faults.delay if kind == SLOW else 0)
        return _struck(await self.chat._agenerate(messages, stop, run_manager, **kwargs), kind)

    def _drawn(self, messages: list[BaseMessage]) -> str:
        """The fault of this request, which is counted; one that fails is raised."""
        question = repr([(m.type, m.content, _called(m)) for m in messages])
        # one step each, so that threads cannot take the same number
        number = next(self._asked.setdefault(question, itertools.count()))
        kind = self.faults.strikes(MODEL, self.trial, question, number)
        if kind:
            self._struck.append(kind)
        if kind in FAILING:
            raise client_error(kind, self.faults)
        return kind


_Spoil = Callable[[ChatResult, str], ChatResult]


def _struck(result: ChatResult, kind: str) -> ChatResult:
    if kind not in ANSWERING:
        return result
    generations = [g.model_copy(update=_replaced(g, kind)) for g in result.generations]
    return result.model_copy(update={"generations": generations})


def _replaced(generation: Any, kind: str) -> dict[str, Any]:
    message = spoiled(generation.message, kind)
    return {"message": message, "text": message.text, "generation_info": None}


def _called(message: BaseMessage) -> list[Any]:
    """The calls of tools in a message, without their ids, which are drawn by chance."""
    return [(call["name"], call["args"]) for call in getattr(message, "tool_calls", [])]
