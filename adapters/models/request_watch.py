"""What happens while a call of a model runs: the requests that are sent for it, and the chunks of a stream."""

from collections.abc import Callable, Iterable
from typing import Any
from uuid import UUID

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessageChunk
from langchain_core.outputs import ChatGenerationChunk
from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import ensure_config
from langchain_core.tracers._streaming import _StreamingCallbackHandler, _V2StreamingCallbackHandler

from certigraph.state.endings import Stopped


class RequestHalted(BaseException):
    """A budget stops a request. No model with retries or fallbacks catches this exception and goes on.

    Attributes:
        reason: the exception that stops the run.
    """

    def __init__(self, reason: Stopped) -> None:
        self.reason = reason
        super().__init__(str(reason))


class RequestWatch(BaseCallbackHandler):
    """Callback that counts the requests of one call, keeps the chunks of its stream, and holds it to the budget.

    Args:
        count_repetition: is called with the failure of a request before the model sends another one.
        check_budget: raises a `Stopped` when the budget is spent.
    """

    run_inline = True  # in the order in which the chunks arrive

    def __init__(self, count_repetition: Callable[[str], None], check_budget: Callable[[], None]) -> None:
        self._count_repetition, self._check_budget = count_repetition, check_budget
        self._runs: list[UUID] = []
        self._inside: set[UUID] = set()
        self._chunks: list[AIMessageChunk] = []
        self._failure = ""
        self.has_begun = False
        """Whether the last request is streamed, and something has arrived."""

    def sum_chunks(self) -> AIMessageChunk | None:
        """Return the sum of the chunks that arrived for the last request; None if there are none."""
        if not self._chunks:
            return None
        first, *others = self._chunks
        return first + others if others else first

    def on_chat_model_start(
        self, serialized: Any, messages: Any, *, run_id: UUID, parent_run_id: UUID | None = None, **kwargs: Any
    ) -> None:
        """Count a request. Those that a chat model makes by another chat model count with it."""
        if self._is_inside(run_id, parent_run_id):
            return
        if self._runs:
            self._halt_at_limit(lambda: self._count_repetition(self._failure))
        self._runs, self._chunks, self.has_begun = [*self._runs, run_id], [], False

    def on_chain_start(
        self, serialized: Any, inputs: Any, *, run_id: UUID, parent_run_id: UUID | None = None, **kwargs: Any
    ) -> None:
        """Note a chain within a chat model, such as its retries."""
        self._is_inside(run_id, parent_run_id)

    def _is_inside(self, run_id: UUID, parent_run_id: UUID | None) -> bool:
        """Return whether a run is a part of a request that is counted already."""
        if parent_run_id in self._inside or parent_run_id in self._runs:
            self._inside.add(run_id)
        return run_id in self._inside

    def on_llm_error(self, error: BaseException, *, run_id: UUID, **kwargs: Any) -> None:
        """Keep why a request failed."""
        self._failure = f"{type(error).__name__}: {error}"

    def on_llm_new_token(self, token: Any, *, chunk: Any = None, run_id: UUID, **kwargs: Any) -> None:
        """Keep a chunk."""
        message = chunk.message if isinstance(chunk, ChatGenerationChunk) else None
        if run_id in self._runs and isinstance(message, AIMessageChunk):
            self._chunks.append(message)
        self.on_stream_event(chunk, run_id=run_id)

    def on_stream_event(self, event: Any, *, run_id: UUID, **kwargs: Any) -> None:
        """Note that something has arrived, and look at the clock, because a fast endless stream never waits."""
        self.has_begun = True
        self._halt_at_limit(self._check_budget)

    def _halt_at_limit(self, work: Callable[[], None]) -> None:
        try:
            work()
        except Stopped as reason:
            raise RequestHalted(reason) from None


def is_streamed(models: Iterable[BaseChatModel], config: RunnableConfig) -> bool:
    """Return whether a request may be streamed: somebody watches the graph's messages, or a model streams by itself."""
    callbacks: Any = ensure_config(config).get("callbacks") or []
    handlers = getattr(callbacks, "handlers", callbacks)
    watching = (_StreamingCallbackHandler, _V2StreamingCallbackHandler)
    watched = any(isinstance(handler, watching) for handler in handlers)
    return any((watched or getattr(one, "streaming", None)) and one.disable_streaming is not True for one in models)
