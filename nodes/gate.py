"""The exhaustion gate (CGDP section 5.2): stops a search whose actions repeat and whose observations bring nothing new.

It asks no model: the signals are facts about the rounds. Settings beyond the published default are labelled in
`gate_grid`.
"""

from collections.abc import Iterator, Sequence
from itertools import takewhile
from typing import Any

from langgraph.runtime import Runtime

from certigraph.adapters.context import Context
from certigraph.adapters.protocols import Operator
from certigraph.nodes.specs import factory
from certigraph.state.beliefs import Round, Stagnation
from certigraph.state.endings import UnknownName
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

    Raises:
        UnknownName: a threshold outside [0, 1], or a patience below 1.
    """
    _checked("exhaustion_gate", patience, jaccard=jaccard, upr=upr)

    async def exhaustion_gate(state: GateView, runtime: Runtime[Context]) -> dict[str, Any]:
        stagnant = [r.jaccard >= jaccard and r.upr <= upr for r in state["rounds"]]
        return {"stagnation": _counted(state, stagnant, patience)}

    return exhaustion_gate


@factory
def smooth_gate(*, jaccard: float = 0.6, upr: float = 0.15, patience: int = 2, decay: float = 0.5) -> Operator:
    """The same over exponentially weighted moving averages, since a search runs dry gradually (appendix G.2).

    Args:
        jaccard: least average similarity.
        upr: highest average unique passage rate.
        patience: consecutive stagnant rounds.
        decay: weight of the latest round, in (0, 1]; 1 is the discrete gate.

    Raises:
        UnknownName: as `exhaustion_gate`, or a decay outside (0, 1].
    """
    _checked("smooth_gate", patience, jaccard=jaccard, upr=upr, decay=decay)

    async def smooth_gate(state: GateView, runtime: Runtime[Context]) -> dict[str, Any]:
        averages = list(_averages(state["rounds"], decay))
        counted = _counted(state, [similar >= jaccard and novel <= upr for similar, novel in averages], patience)
        return {"stagnation": counted.model_copy(update={"level": averages[-1][1]})}

    return smooth_gate


def _averages(rounds: Sequence[Round], decay: float) -> Iterator[tuple[float, float]]:
    """Similarity and novelty, smoothed, after each round; before the first nothing repeats and all is new."""
    similar, novel = 0.0, 1.0
    for latest in rounds:
        similar = (1 - decay) * similar + decay * latest.jaccard
        novel = (1 - decay) * novel + decay * latest.upr
        yield similar, novel


def _counted(state: GateView, stagnant: Sequence[bool], patience: int) -> Stagnation:
    # Counted from the rounds, and no further than since the last reset of the streak: gates can be combined.
    in_a_row = sum(1 for _ in takewhile(bool, reversed(stagnant)))
    streak, latest = min(in_a_row, state["stagnation"].streak + 1), state["rounds"][-1]
    if streak < patience:
        return Stagnation(streak=streak)
    told = f"{streak} rounds in a row: similarity {latest.jaccard:.2f} to a recent action, {latest.upr:.0%} new"
    return Stagnation(streak=streak, stop=True, reason=told)


def _checked(name: str, patience: int, **shares: float) -> None:
    wrong: dict[str, object] = {key: value for key, value in shares.items() if not _within(value, 0, 1)}
    wrong |= {"patience": patience} if not (isinstance(patience, int) and patience >= 1) else {}
    wrong |= {"decay": 0} if shares.get("decay") == 0 else {}
    if wrong:
        told = ", ".join(f"{key}={value}" for key, value in wrong.items())
        raise UnknownName(f"{name}({told}): thresholds lie in [0, 1], decay in (0, 1], and patience is at least 1")


def _within(value: object, least: float, most: float) -> bool:
    return isinstance(value, int | float) and least <= value <= most
