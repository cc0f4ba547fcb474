"""StateFactory's first two operators as its graph has them: by rules where a world's text has some, else by a model."""

from typing import Any

from langgraph.runtime import Runtime

from certigraph.adapters.context import Context
from certigraph.adapters.factoring import factors_of
from certigraph.nodes.prompted_goal import prompted_goal
from certigraph.nodes.prompted_state import prompted_state
from certigraph.nodes.symbolic import symbolic_goal, symbolic_state
from certigraph.state.rewarding import FactorView


async def extract_state(state: FactorView, runtime: Runtime[Context]) -> dict[str, Any]:
    """Read the step by the world's own rules, else ask a model (Eq. 4)."""
    by_rules = factors_of(state["task"]) is not None
    return await (symbolic_state if by_rules else prompted_state())(state, runtime)


async def interpret_goal(state: FactorView, runtime: Runtime[Context]) -> dict[str, Any]:
    """Interpret the goal by the world's own rules, else ask a model (Eq. 6)."""
    by_rules = factors_of(state["task"]) is not None
    return await (symbolic_goal if by_rules else prompted_goal())(state, runtime)
