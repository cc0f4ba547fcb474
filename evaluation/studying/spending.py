"""What each round of a run read and spent."""

from collections.abc import Sequence
from typing import NamedTuple

from certigraph.state.trajectory import Event

DECIDE, MEMORY, GATE = "decide", "memory", "gate"
CLOSING = ("answer", "deliver")
"""Nodes after the last round."""


class Spending(NamedTuple):
    """One round, from 1: prompt tokens of the agent's own node, of memory, and tokens of all but the gate."""

    number: int
    agent: int
    memory: int
    tokens: int


def spending_of(events: Sequence[Event]) -> list[Spending]:
    """Every round of a run. A round begins with the agent's decision; what the gate asks is no part of it."""
    rounds: list[Spending] = []
    for event in events:
        if event.node == DECIDE:
            rounds.append(Spending(len(rounds) + 1, 0, 0, 0))
        if rounds and event.node not in (GATE, *CLOSING):
            rounds[-1] = _with(rounds[-1], event)
    return rounds


def tokens_of(events: Sequence[Event]) -> int:
    """Prompt and output tokens of several events."""
    return sum(event.usage.spent().tokens for event in events)


def _with(spent: Spending, event: Event) -> Spending:
    read = event.usage.input_tokens
    return spent._replace(
        agent=spent.agent + read * (event.node == DECIDE),
        memory=spent.memory + read * (event.node == MEMORY),
        tokens=spent.tokens + tokens_of([event]),
    )
