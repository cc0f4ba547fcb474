"""The exhaustion gate (CGDP section 5.2): stops a search whose actions repeat and whose observations bring nothing new.

It asks no model: the signals are facts about the rounds. Settings beyond the published default are labelled in
`gate_grid`.
"""

from typing import Any

from langgraph.runtime import Runtime

from certigraph.adapters.context import Context
from certigraph.adapters.protocols import Operator
from certigraph.nodes.specs import factory
from certigraph.state.beliefs import Round, Stagnation
from certigraph.state.gathering import GateView


async def no_gate(state: GateView, runtime: Runtime[Context]) -> dict[str, Any]:
    """Never stop: the round cap and the agent itself do."""
    return {"stagnation": Stagnation()}


@factory
def exhaustion_gate(*, jaccard: float = 0.6, upr: float = 0.3, patience: int = 2) -> Operator:
    """Stop after `patience` consecutive stagnant rounds; a round is stagnant where both thresholds say so.

    Args:
        jaccard: least similarity to a recent action (tau_J).
        upr: highest unique passage rate (tau_U).
        patience: p; the defaults are the paper's best setting over all harnesses.
    """

    async def exhaustion_gate(state: GateView, runtime: Runtime[Context]) -> dict[str, Any]:
        latest = state["rounds"][-1]
        stagnant = latest.jaccard >= jaccard and latest.upr <= upr
        return {"stagnation": _counted(state["stagnation"], latest, stagnant, patience)}

    return exhaustion_gate


@factory
def smooth_gate(*, jaccard: float = 0.6, upr: float = 0.15, patience: int = 2, decay: float = 0.5) -> Operator:
    """The same over exponentially weighted moving averages, since a search runs dry gradually (appendix G.2).

    Args:
        jaccard: least average similarity.
        upr: highest average unique passage rate.
        patience: consecutive stagnant rounds.
        decay: weight of the latest round, in (0, 1]; 1 is the discrete gate.
    """

    async def smooth_gate(state: GateView, runtime: Runtime[Context]) -> dict[str, Any]:
        similar, novel = 0.0, 1.0
        for r in state["rounds"]:
            similar, novel = _mixed(similar, r.jaccard, decay), _mixed(novel, r.upr, decay)
        stagnant = similar >= jaccard and novel <= upr
        return {"stagnation": _counted(state["stagnation"], state["rounds"][-1], stagnant, patience)}

    return smooth_gate


def _mixed(average: float, latest: float, decay: float) -> float:
    return (1 - decay) * average + decay * latest


def _counted(before: Stagnation, latest: Round, stagnant: bool, patience: int) -> Stagnation:
    streak = before.streak + 1 if stagnant else 0
    if streak < patience:
        return Stagnation(streak=streak)
    told = f"{streak} rounds in a row: similarity {latest.jaccard:.2f} to a recent action, {latest.upr:.0%} new"
    return Stagnation(streak=streak, stop=True, reason=told)
