"""StateFactory's first two operators without a model: worlds whose text is templated are read by rules."""

from typing import Any

from langgraph.runtime import Runtime

from certigraph.adapters.context import Context
from certigraph.adapters.factoring import needed_factors
from certigraph.state.rewarding import FactorView


async def symbolic_state(state: FactorView, runtime: Runtime[Context]) -> dict[str, Any]:
    """Read the step by the world's own rules (Eq. 4).

    Raises:
        Fault: ("data") nothing reads that world; the message says what does.
    """
    step = state["step"]
    reading = needed_factors(state["task"])
    found = reading.extract(state["factored"], state["task"].goal, step.action, step.observation)
    return {"factored": found}


async def symbolic_goal(state: FactorView, runtime: Runtime[Context]) -> dict[str, Any]:
    """Interpret the goal by the world's own rules (Eq. 6). Raises as `symbolic_state` does."""
    reading = needed_factors(state["task"])
    return {"goal": reading.interpret(state["task"].goal, state["factored"], state["goal"])}
