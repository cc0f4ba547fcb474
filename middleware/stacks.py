"""`stack`: certigraph's middleware and LangChain's in an order that works."""

from collections.abc import Mapping
from typing import Any

from langchain.agents.middleware import (
    AgentMiddleware,
    HumanInTheLoopMiddleware,
    ModelFallbackMiddleware,
    ModelRetryMiddleware,
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

FIRST: tuple[type[Any], ...] = (OrderedCalls,)
"""Classes that stand before all others, in this order."""

LAST: tuple[type[Any], ...] = (
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
"""Classes that stand after all others, in this order.

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
    """
    for one in middleware:
        if isinstance(one, HumanInTheLoopMiddleware) and one.interrupt_mode != "per_call":
            reason = "it asks about all calls of a response at once, before it is known which of them are made"
            raise ValueError(f"HumanInTheLoopMiddleware(interrupt_mode='batched') cannot be used here: {reason}; {FIX}")
        if effects and isinstance(one, DeclaresEffects) and not one.effects.given:
            one.effects = OutsideEffects(effects)
    return sorted(middleware, key=_rank)


def _rank(one: AgentMiddleware[Any, Any, Any]) -> int:
    if isinstance(one, FIRST):
        return next(place for place, kind in enumerate(FIRST) if isinstance(one, kind))
    if isinstance(one, LAST):
        return len(FIRST) + 1 + next(place for place, kind in enumerate(LAST) if isinstance(one, kind))
    return len(FIRST)


FIX = "give interrupt_mode='per_call'"

__all__ = ["stack"]
