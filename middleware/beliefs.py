"""`BeliefMemory`: facts and open questions in place of an agent's older tool calls and their answers."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from langchain.agents.middleware import ModelRequest, ModelResponse
from langgraph.runtime import Runtime

from certigraph.adapters.processes import wait_for_node
from certigraph.adapters.protocols import Operator
from certigraph.adapters.tools.outcomes import Effect
from certigraph.middleware.progress import RecordsState
from certigraph.middleware.views import DeclaresEffects, MarksMessages, SeenTurns, UsageState, usage_update
from certigraph.nodes.beliefs import to_memory
from certigraph.nodes.message_beliefs import (
    KEPT_ROUNDS,
    MAX_OLD_TOKENS,
    belief_in,
    believed_rounds,
    rounds_to_believe,
    update_belief,
    with_belief,
)
from certigraph.nodes.message_gates import RECORDS_KEY, records_of
from certigraph.nodes.outside_agents import Model, OutsideAgent, OutsideEffects, no_tools


class BeliefMemoryState(RecordsState, UsageState):
    """State of an agent with a belief, which is plain JSON in `certigraph`."""


class BeliefMemory(DeclaresEffects, MarksMessages):
    """Keeps a long run within a bounded context: a belief takes the place of older tool calls (CGDP's memory).

    The belief holds facts with their sources, and open questions. A model updates it, with one call for each response
    with tool calls that it takes in, and one more where the belief has grown too long. Nothing happens, and nothing is
    spent, while older calls and answers have at most `above` tokens. After that they are taken in whenever those that
    have gathered since have more, so that the beginning of a prompt stays the same in between.

    Only what the agent's model reads changes; the `messages` of the state stay whole. Requests, answers and the latest
    `keep` rounds stay as they are. What the agent wrote next to a call is left out together with it. The calls whose
    effect lasts stay listed, each in one line: declare look-ups in `effects`, so that they are not. A model that fails
    to update the belief leaves the calls and answers where they are. So does a process that resumes a run, up to its
    first answer of the agent's model, unless `model` is given.

    Its custom events (`stream_mode="custom"`) are `{"type": "belief", "rounds", "facts", "questions", "usage"}`. It is
    no match for `SummarizationMiddleware`, which removes messages: use one of them.

    Args:
        memory: an operator of the slot `memory`, or its name: `structured` (facts and questions) or `freeform` (notes).
        model: the model that updates the belief; None for the agent's own.
        keep: number of latest rounds that the agent sees whole.
        above: tokens of older rounds from which on the belief takes them in, by an estimate of 3.5 characters each.
        effects: what repeating the calls of tools does, as for `certigraph.agent`.

    Raises:
        ValueError: `keep` or `above` is negative.
        UnknownName: there is no memory of that name.
    """

    state_schema = BeliefMemoryState

    def __init__(
        self,
        memory: Operator | str = "structured",
        *,
        model: Model | None = None,
        keep: int = KEPT_ROUNDS,
        above: int = MAX_OLD_TOKENS,
        effects: Mapping[str, Effect] | None = None,
    ) -> None:
        super().__init__()
        if keep < 0 or above < 0:
            raise ValueError(f"BeliefMemory(keep={keep}, above={above}): neither is negative")
        self.memory, self.model, self.effects = to_memory(memory), model, OutsideEffects(effects)
        self._seen = SeenTurns()
        self.keep, self.above = keep, above

    def before_model(self, state: Any, runtime: Runtime[Any]) -> dict[str, Any] | None:
        """Take older rounds into the belief."""
        return wait_for_node(self._update(state, runtime))

    async def abefore_model(self, state: Any, runtime: Runtime[Any]) -> dict[str, Any] | None:
        """Take older rounds into the belief."""
        return await self._update(state, runtime)

    def wrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], ModelResponse[Any]]
    ) -> ModelResponse[Any]:
        """Show the belief to the agent's model."""
        return handler(self._show(request))

    async def awrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]]
    ) -> ModelResponse[Any]:
        """Show the belief to the agent's model."""
        return await handler(self._show(request))

    def _show(self, request: ModelRequest[Any]) -> ModelRequest[Any]:
        parts, _ = self._seen.note(request)
        shown = {**request.state, "messages": request.messages}
        if not believed_rounds(shown, parts.answer_forms):
            return request
        lasts = parts.world(self.effects.given).lasts
        return request.override(messages=with_belief(shown, lasts=lasts, others=parts.answer_forms))

    async def _update(self, state: Mapping[str, Any], runtime: Runtime[Any]) -> dict[str, Any] | None:
        parts = self._seen.find(state["messages"])
        model = self.model or (parts.model if parts else None)
        if model is None:
            return None
        forms = parts.answer_forms if parts else frozenset[str]()
        rounds = rounds_to_believe(state, keep=self.keep, above=self.above, others=forms)
        records, spent = await update_belief(state, rounds, self.memory, OutsideAgent(no_tools(), model), runtime)
        if records == records_of(state):
            return None
        belief = belief_in({RECORDS_KEY: records})
        counts = {"rounds": len(spent), "facts": len(belief.facts), "questions": len(belief.questions)}
        runtime.stream_writer({"type": "belief", **counts, "usage": [one.as_json() for one in spent]})
        return {RECORDS_KEY: records, **usage_update(*spent)}


__all__ = ["BeliefMemory", "BeliefMemoryState"]
