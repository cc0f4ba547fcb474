"""A gate at work without consequence: what it would have answered, and when, in a run that goes on (CGDP table 13).

One run then yields both sides of the blended comparison: the answer at the gate where it would have stopped, else the
natural one.
"""

from typing import Any

from langgraph.runtime import Runtime

from certigraph.adapters.benchmarks import benchmark_of
from certigraph.adapters.context import Context
from certigraph.adapters.protocols import Operator
from certigraph.nodes.answer import answer
from certigraph.nodes.specs import factory
from certigraph.state.gathering import GateView


@factory
def shadow(gate: Operator) -> Operator:
    """Run a gate; where it would stop first, ask for the final answer there, keep both, and go on.

    `Stagnation.at` is the round, `Stagnation.answer` the answer; None in a world that takes none. The tokens of that
    one question are the gate node's, as are those of a gate that asks a model, which is not asked again. Of a gate
    that also advises only the stop is seen: what its advice would have led to no run without it can tell.
    """

    async def shadow(state: GateView, runtime: Runtime[Context]) -> dict[str, Any]:
        before = state["stagnation"]
        if before.at is not None:
            return {"stagnation": before}
        found = (await gate(state, runtime))["stagnation"]
        silent = found.model_copy(update={"stop": False, "advice": ""})  # advice would change the run
        if not found.stop:
            return {"stagnation": silent}
        seen = {"at": len(state["rounds"]), "answer": await _answered(state, runtime)}
        return {"stagnation": silent.model_copy(update=seen)}

    return shadow


async def _answered(state: GateView, runtime: Runtime[Context]) -> str | None:
    if not getattr(benchmark_of(state["task"], runtime), "answers", False):
        return None
    return str((await answer(state, runtime))["action"].args["answer"])
