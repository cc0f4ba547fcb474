"""The gate's settings held against recorded rounds: when each would have fired, without the answers it would have got.

A replay takes a run's rounds as they were and tells nothing about scores. Tokens that it counts as saved are those of
the rounds after the fire round and of the natural final answer; the gate's own final answer is not in them.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from certigraph.adapters.protocols import Operator
from certigraph.evaluation.run import blocking
from certigraph.evaluation.shipped import OPERATORS
from certigraph.evaluation.studying.reading import Seen
from certigraph.evaluation.studying.spending import GATE, spending_of, tokens_of
from certigraph.nodes.gate_grid import gate_grid
from certigraph.nodes.specs import operator_from
from certigraph.state.beliefs import Round, Stagnation


class Replayed(NamedTuple):
    """One setting on one run: the round after which it would have fired, from 1 (None: never), and tokens saved."""

    setting: str
    fired: int | None
    saved: int


def replayed_gates() -> dict[str, Operator]:
    """The settings that are replayed, by label: our grid of sixteen (`certigraph.nodes.gate_grid`)."""
    return {label: operator_from(spec, OPERATORS) for label, spec in gate_grid().items()}


def replays_of(seen: Seen, gates: Mapping[str, Operator]) -> list[Replayed]:
    """Every setting on a run that no gate stopped."""
    natural = tokens_of([event for event in seen.events if event.node != GATE])
    opening = tokens_of([event for event in seen.events if event.node == "reset"])
    rounds = [spent.tokens for spent in spending_of(seen.events)]
    fired = blocking(_fire_rounds(gates, seen))
    return [Replayed(name, at, 0 if at is None else natural - opening - sum(rounds[:at])) for name, at in fired.items()]


async def _fire_rounds(gates: Mapping[str, Operator], seen: Seen) -> dict[str, int | None]:
    return {name: await _fire_round(gate, seen) for name, gate in gates.items()}


async def _fire_round(gate: Operator, seen: Seen) -> int | None:
    stagnation, rounds = Stagnation(), seen.rounds
    for number in range(1, len(rounds) + 1):
        view = _view(seen, rounds[:number], stagnation)
        stagnation = (await gate(view, None))["stagnation"]
        if stagnation.stop:
            return number
    return None


def _view(seen: Seen, rounds: Sequence[Round], stagnation: Stagnation) -> dict[str, Any]:
    """What a gate without a model reads of its view."""
    return {"task": seen.trajectory.header.task, "rounds": rounds, "stagnation": stagnation}
