"""What the state of every graph has: the task, the live episode's log, what the world shows, and what was spent."""

from operator import add
from typing import Annotated

from typing_extensions import TypedDict

from certigraph.state.channels import Log
from certigraph.state.endings import GAVE_UP, GOAL, WORLD_ENDED
from certigraph.state.records import Action, Observation, Record, Spent, Step, Task, Usage


class Evidence(Record):
    """What the world shows now, whatever the last action answered. Changes with every action; not certified."""

    view: str = ""
    sources: tuple[str, ...] = ()
    """Ids of the passages at hand, where the world finds passages."""


class Entry(Record):
    """Where a run begins that is a part of another, in its world: TDP's sub-tasks are such runs."""

    episode: str
    """Key of the live episode."""
    steps: tuple[Step, ...] = ()
    """What was done in the world before."""
    observation: Observation
    """What it answered last."""
    apart: bool = False
    """Whether the run gets a copy of the world, where those steps are repeated first."""
    known: tuple[str, ...] = ()
    """What the parts that it builds on came to."""
    last: bool = False
    """Whether it settles the whole task."""


class RunInput(TypedDict):
    """What a caller gives: a task, or just its benchmark and id."""

    task: Task


class RunState(TypedDict, total=False):
    """The channels that the nodes `reset` and `act` and the meter write; every graph's state extends them."""

    task: Task
    episode: str
    """Key of the live episode in the episode table."""
    history: Log[Step]
    """The log of this episode: what a replay repeats."""
    evidence: Evidence
    action: Action
    observation: Observation
    usage: Log[Usage]
    spent: Annotated[Spent, add]


def world_ending(state: RunState) -> str:
    """Why a run without predicates ended, by what its world said last."""
    observation = state.get("observation")
    if observation and observation.solved:
        return GOAL
    return WORLD_ENDED if observation and observation.done else GAVE_UP
