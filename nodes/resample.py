"""Triggered resampling (CGDP appendix B): where a search stagnates, a new hypothesis instead of the end."""

from typing import Any

from langgraph.runtime import Runtime

from certigraph.adapters.context import Context
from certigraph.adapters.protocols import Operator
from certigraph.nodes.hypothesise import hypotheses
from certigraph.nodes.judged_gate import state_of
from certigraph.nodes.specs import factory
from certigraph.state.beliefs import Stagnation
from certigraph.state.endings import UnknownName
from certigraph.state.gathering import GateView


@factory
def resampling(gate: Operator, *, times: int = 2) -> Operator:
    """Where the gate would stop, give the agent a direction that fits what was found and start counting anew.

    The direction stays in mind until the next one, or until the gate itself advises. After `times` of them, or where
    the model has none, it stops.

    Raises:
        UnknownName: a negative number of times.
    """
    if times < 0:
        raise UnknownName(f"resampling(times={times}): at least 0, as in gate=resampling:gate=exhaustion_gate,times=2")

    async def resampling(state: GateView, runtime: Runtime[Context]) -> dict[str, Any]:
        before: Stagnation = state["stagnation"]
        found: Stagnation = (await gate(state, runtime))["stagnation"]
        kept = {"advice": found.advice or before.advice, "resampled": before.resampled}
        if not found.stop or before.resampled >= times:
            return {"stagnation": found.model_copy(update=kept)}
        tried = dict.fromkeys(r.action for r in state["rounds"])
        new = await hypotheses(state["task"], runtime, most=1, known=state_of(state), tried=tried)
        if not new:
            return {"stagnation": found.model_copy(update=kept)}
        advice = f"The search stood still. Take another direction: {new[0]}"
        return {"stagnation": Stagnation(reason=found.reason, advice=advice, resampled=before.resampled + 1)}

    return resampling
