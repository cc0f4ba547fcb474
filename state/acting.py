"""State of the agents that act without predicates: ReAct, and what plan-and-solve adds to it."""

from collections.abc import Iterable, Sequence

from typing_extensions import TypedDict

from certigraph.state.beliefs import Belief, BelievingState, advised, belief_of
from certigraph.state.channels import Log
from certigraph.state.records import Action, Observation, Record, Task
from certigraph.state.run import Evidence

REFUSED = "Refused: "
"""How the advice begins that names an action not to take."""


class Turn(Record):
    """One turn of an episode: what the agent thought and did, and what the world answered."""

    thought: str = ""
    action: str
    observation: str
    accepted: bool = True
    reward: float = 0.0
    sources: tuple[str, ...] = ()
    """Ids of the passages that were found, in the order of the observation's lines."""


class ActingState(BelievingState, total=False):
    """Everything a run of ReAct knows; `turns` are this episode's."""

    turns: Log[Turn]
    thought: str
    """The thought behind `action`."""


class OutlineState(ActingState, total=False):
    """ReAct's state with a plan that is written once, before the first action."""

    outline: tuple[str, ...]


class DecideView(TypedDict):
    """What the agent that acts sees: its assignment, what it did so far, the world now, and advice if it has any."""

    task: Task
    assignment: str
    """What it works on: the task's goal, or a subtask whose executor must not see the task."""
    turns: Sequence[Turn]
    evidence: Evidence
    advice: Sequence[str]
    belief: Belief
    """What its memory holds; empty without one."""


class OutlineView(TypedDict):
    """What the writer of an outline sees."""

    task: Task
    evidence: Evidence


def decide_view(state: ActingState) -> DecideView:
    """The part of the state that ReAct's agent may read."""
    return {
        "task": state["task"],
        "assignment": state["task"].goal,
        "turns": remembered_turns(state),
        "evidence": state["evidence"],
        "advice": advised(state),
        "belief": belief_of(state),
    }


def remembered_turns(state: ActingState) -> tuple[Turn, ...]:
    """The turns that the agent's memory leaves it."""
    turns, window = tuple(state["turns"]), belief_of(state).window
    return turns if window is None else turns[len(turns) - min(window, len(turns)) :]


def outlined_view(state: OutlineState) -> DecideView:
    """The same, with the steps of the plan as advice."""
    return {**decide_view(state), "advice": state["outline"]}


def outline_view(state: OutlineState) -> OutlineView:
    """The part of the state that the writer of an outline may read."""
    return {"task": state["task"], "evidence": state["evidence"]}


def turn_of(thought: str, action: Action, observation: Observation) -> Turn:
    """The turn that an action and its answer make."""
    return Turn(
        thought=thought,
        action=action.text,
        observation=observation.text,
        accepted=observation.accepted,
        reward=observation.reward,
        sources=observation.sources,
    )


def acts(turns: Iterable[Turn]) -> tuple[Turn, ...]:
    """The turns as actions and answers, without thoughts: STEP's other roles and CLIN's memory do not see them."""
    return tuple(turn.model_copy(update={"thought": ""}) for turn in turns)
