"""State of the agents that look ahead: candidates for the next action, what they would lead to, what that is worth."""

import hashlib
import json
from collections.abc import Sequence

from typing_extensions import TypedDict

from certigraph.state.acting import ActingState, DecideView, Turn, decide_view
from certigraph.state.channels import Log
from certigraph.state.factored import FactoredState, as_mapping
from certigraph.state.records import Record, Task
from certigraph.state.rewarding import FactorView, Seen


class Foreseen(Record):
    """What a world model says that an action leads to."""

    action: str
    observation: str
    accepted: bool = True
    done: bool = False
    solved: bool = False
    """Whether the world says that the goal is reached; no model's prediction says so."""


class Appraisal(Record):
    """What a candidate's outcome is worth."""

    action: str
    reward: float
    gain: float
    """The reward of the outcome less that of the state before it (StateFactory Eq. 15)."""
    seen: bool = False
    """Whether the episode was in that state before, as far as states are extracted."""


class Imagined(Record):
    """An outcome as a state, for who looks further ahead from there."""

    foreseen: Foreseen
    appraisal: Appraisal
    factored: FactoredState
    goal: FactoredState


class AppraisingState(ActingState, total=False):
    """ReAct's state with where it stands (`factored`, `goal`, `reward`) and what it has in mind to do."""

    factored: FactoredState
    goal: FactoredState
    reward: float
    candidates: tuple[str, ...]
    foreseen: tuple[Foreseen, ...]
    appraisals: tuple[Appraisal, ...]
    visited: Log[str]
    """Digests of the states that the episode was in."""


class LookaheadView(DecideView):
    """What proposes actions and imagines their outcomes: as who decides, and where they would be taken."""

    path: tuple[str, ...]
    """Imagined actions that lead there from the present; the last of `turns` are theirs."""
    candidates: tuple[str, ...]


class AppraiseView(TypedDict):
    """What appraises outcomes: the state that the candidates start from, and the outcomes."""

    task: Task
    factored: FactoredState
    goal: FactoredState
    reward: float
    foreseen: tuple[Foreseen, ...]


class ChooseView(DecideView):
    """What the agent that chooses sees: as who decides, and what every candidate is worth."""

    appraisals: tuple[Appraisal, ...]


def standing_view(state: AppraisingState) -> FactorView:
    """What StateFactory's operators see of the live world: the latest step."""
    history = state["history"]
    step = Seen(action=history[-1].action.text if history else "", observation=state["observation"].text)
    return {"task": state["task"], "step": step, "factored": state["factored"], "goal": state["goal"]}


def lookahead_view(state: AppraisingState) -> LookaheadView:
    """Candidates and outcomes of the next action."""
    return {**decide_view(state), "path": (), "candidates": state["candidates"]}


def appraise_view(state: AppraisingState) -> AppraiseView:
    """Outcomes that start from where the agent is."""
    return {
        "task": state["task"],
        "factored": state["factored"],
        "goal": state["goal"],
        "reward": state["reward"],
        "foreseen": state["foreseen"],
    }


def choose_view(state: AppraisingState) -> ChooseView:
    """The part of the state that the agent chooses by."""
    return {**decide_view(state), "appraisals": state["appraisals"]}


def turns_of(outcomes: Sequence[Foreseen]) -> tuple[Turn, ...]:
    """Imagined steps as turns."""
    return tuple(Turn(action=o.action, observation=o.observation, accepted=o.accepted) for o in outcomes)


def digest(state: FactoredState) -> str:
    """Sixteen hex digits that tell two states apart, in whatever order their facts came to be known."""
    return hashlib.sha256(json.dumps(as_mapping(state), sort_keys=True).encode()).hexdigest()[:16]
