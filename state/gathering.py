"""The views of the operators that gather context (CGDP): memory, gate and final answer. Any graph's state will do."""

from collections.abc import Sequence
from typing import Any

from typing_extensions import TypedDict

from certigraph.state.acting import Turn, remembered_turns
from certigraph.state.beliefs import (
    Belief,
    BelievingState,
    Round,
    Stagnation,
    belief_of,
    round_of,
    stagnation_of,
    stopped,
)
from certigraph.state.certified import CertifiedState, certified_state
from certigraph.state.endings import EXHAUSTED, GAVE_UP, WORLD_ENDED
from certigraph.state.records import Observation, Task
from certigraph.state.run import Evidence, RunState, world_ending
from certigraph.state.searching import FINISH

BY_GATE, BY_ROUNDS, BY_STEPS, BY_METHOD = "gate", "rounds", "steps", "method"
"""What forced a final answer: the gate, the harness's own number of rounds, the world's steps, or a plan given up."""


class MemoryView(TypedDict):
    """The extractor sees b_t and o_t, nothing else of the episode (CGDP appendix E)."""

    task: Task
    belief: Belief
    observation: Observation


class GateView(TypedDict):
    """A gate sees the rounds so far, the latest last, and, where it asks a model, the state of the investigation."""

    task: Task
    rounds: Sequence[Round]
    stagnation: Stagnation
    belief: Belief
    turns: Sequence[Turn]
    evidence: Evidence
    certified: CertifiedState


class AnswerView(TypedDict):
    """Who has to give the final answer sees what the agent's memory left it, and what is certified."""

    task: Task
    belief: Belief
    turns: Sequence[Turn]
    evidence: Evidence
    certified: CertifiedState


def memory_view(state: Any) -> MemoryView:
    """The part of the state that the extractor may read."""
    return {"task": state["task"], "belief": belief_of(state), "observation": state["observation"]}


def gate_view(state: Any) -> GateView:
    """The part of the state that a gate may read; the round that has just ended is the last of `rounds`."""
    return {
        **answer_view(state),
        "rounds": [*state["rounds"], *latest_round(state)],
        "stagnation": stagnation_of(state),
    }


def latest_round(state: Any) -> list[Round]:
    """The round that has just ended and is not among `rounds` yet; none before the first action."""
    return [round_of(state["action"], state["observation"], state["rounds"])] if state.get("action") else []


def answer_view(state: Any) -> AnswerView:
    """The part of the state that the author of the final answer may read."""
    return {
        "task": state["task"],
        "belief": belief_of(state),
        "turns": remembered_turns(state) if "turns" in state else (),
        "evidence": state["evidence"],
        "certified": certified_state(state.get("certificates", ()), state.get("invalidations", ())),
    }


def ending(state: BelievingState) -> str:
    """Why an episode ended that a gate may have stopped: a forced answer says what forced it."""
    observation = state.get("observation")
    over = observation is not None and observation.done  # then the world came first
    return forced_ending(state) or (EXHAUSTED if stopped(state) and not over else world_ending(state))


def forced_ending(state: RunState) -> str:
    """The ending that a forced answer stands for; empty where none was given."""
    action = state.get("action")
    forced = action.args.get("forced") if action and action.kind == FINISH else None
    if forced is None:
        return ""
    return {BY_GATE: EXHAUSTED, BY_ROUNDS: WORLD_ENDED, BY_STEPS: "limit:steps"}.get(str(forced), GAVE_UP)
