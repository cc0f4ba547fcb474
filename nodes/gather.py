"""Gather: bring what the nodes of a batch did into the world of the whole run, in the order of the task graph."""

from typing import Any

from langgraph.runtime import Runtime

from certigraph.adapters.benchmarks import in_world
from certigraph.adapters.context import Context
from certigraph.adapters.episodes import live_episode
from certigraph.state.tdp import TDPState, latest_outcomes


async def gather(state: TDPState, runtime: Runtime[Context]) -> dict[str, Any]:
    """Repeat in the run's own world what was done in copies of it; what was done in it needs no repeating.

    Raises:
        Fault: the world failed.
    """
    return await in_world(_gathered, state["task"], runtime, state, runtime)


def _gathered(state: TDPState, runtime: Runtime[Context]) -> dict[str, Any]:
    history, outcomes = state["history"], latest_outcomes(state)
    steps = [step for outcome in outcomes for step in outcome.steps]
    observation, copied = state["observation"], state["concurrent"]
    episode = live_episode(state["episode"], state["task"], history if copied else [*history, *steps], runtime)
    if copied:
        for step in steps:
            observation = episode.step(step.action)
    elif outcomes:
        observation = outcomes[-1].observation
    return {"observation": observation, "evidence": episode.evidence(), "history": episode.log[len(history) :]}
