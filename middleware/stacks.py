"""`stack`: certigraph's middleware and LangChain's in an order that works."""

from collections.abc import Callable, Mapping
from typing import Any

from langchain.agents.middleware import (
    AgentMiddleware,
    HumanInTheLoopMiddleware,
    ModelFallbackMiddleware,
    ModelRetryMiddleware,
    SummarizationMiddleware,
    ToolRetryMiddleware,
)

from certigraph.adapters.tools.outcomes import Effect
from certigraph.middleware.beliefs import BeliefMemory
from certigraph.middleware.budgets import BudgetLimit
from certigraph.middleware.certification import Certified
from certigraph.middleware.commitments import CommitTools
from certigraph.middleware.effects import EffectsOnce
from certigraph.middleware.ordered_calls import OrderedCalls
from certigraph.middleware.progress import ProgressGate
from certigraph.middleware.views import DeclaresEffects
from certigraph.nodes.outside_agents import OutsideEffects
from certigraph.state.endings import Stopped

ORDER: tuple[type[Any], ...] = (
    OrderedCalls,
    AgentMiddleware,
    ProgressGate,
    CommitTools,
    ModelRetryMiddleware,
    ModelFallbackMiddleware,
    HumanInTheLoopMiddleware,
    ToolRetryMiddleware,
    EffectsOnce,
    BeliefMemory,
    BudgetLimit,
    Certified,
)
"""Classes in the order in which they stand; `AgentMiddleware` is every other one.

A person decides about calls that passed the check and that the gate lets through. A retry goes through the ledger each
time, and each request that it or a fallback sends counts in the budget. `Certified` reads the response of the model
before any other, and the system prompt as the model gets it.
"""


def stack(
    *middleware: AgentMiddleware[Any, Any, Any], effects: Mapping[str, Effect] | None = None
) -> list[AgentMiddleware[Any, Any, Any]]:
    """Return middleware in an order that works, for `create_agent(middleware=...)` and `create_deep_agent`.

    Middleware of other classes keeps the order in which it is given.

    Args:
        middleware: certigraph's, LangChain's and your own.
        effects: as for `certigraph.agent`, for all of certigraph's that have none of their own.

    Raises:
        ValueError: a combination cannot work; the message says what to use instead.
        TypeError: something else than middleware is given.
    """
    for one in middleware:
        if not isinstance(one, AgentMiddleware):
            form = "give middleware one by one, as in stack(OrderedCalls(), Certified())"
            raise TypeError(f"stack was given {one!r:.100}, which is not middleware: {form}")
        if isinstance(one, HumanInTheLoopMiddleware) and one.interrupt_mode != "per_call":
            reason = "it asks about all calls of a response at once, before it is known which of them are made"
            raise ValueError(f"HumanInTheLoopMiddleware(interrupt_mode='batched') cannot be used here: {reason}; {FIX}")
        if effects and isinstance(one, DeclaresEffects):
            if one.effects.of_stack and one.effects.given != effects:
                raise ValueError(f"{one.name} is in another stack with other effects: create one for each agent")
            if not one.effects.given:
                one.effects = OutsideEffects(effects, of_stack=True)
        if isinstance(one, ToolRetryMiddleware | ModelRetryMiddleware):
            one.retry_on = _spare_stops(one.retry_on)
    kinds = list(map(_kind_of, middleware))
    if twice := [kind for kind in ORDER if kinds.count(kind) > 1 and kind.__module__.startswith("certigraph.")]:
        raise ValueError(f"{twice[0].__name__} stands twice in a stack: give one")
    if BeliefMemory in kinds and SummarizationMiddleware in map(type, middleware):
        reason = "both bound the context, and a belief has to see the messages that a summary removes"
        raise ValueError(
            f"BeliefMemory and SummarizationMiddleware cannot be used together: {reason}; give one of them"
        )
    return sorted(middleware, key=lambda one: ORDER.index(_kind_of(one)))


def _spare_stops(retry_on: Any) -> Callable[[Exception], bool]:
    """Return what a retry repeats, without what stops a run of certigraph's: a call of unknown outcome, a budget."""

    def repeats(error: Exception) -> bool:
        if isinstance(error, Stopped):
            return False
        return isinstance(error, retry_on) if isinstance(retry_on, tuple) else bool(retry_on(error))

    return repeats


def _kind_of(one: AgentMiddleware[Any, Any, Any]) -> type[Any]:
    """Return the class of `ORDER` to which a middleware belongs."""
    return next((kind for kind in ORDER if kind is not AgentMiddleware and isinstance(one, kind)), AgentMiddleware)


FIX = "give interrupt_mode='per_call'"

__all__ = ["stack"]
