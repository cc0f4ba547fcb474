"""TDP's state, and the views of the Supervisor's operators (sections 3.2 and 3.4)."""

from collections.abc import Sequence

from typing_extensions import TypedDict

from certigraph.state.channels import Log
from certigraph.state.dag import Dag, Node, Status
from certigraph.state.endings import GAVE_UP, GOAL
from certigraph.state.records import Observation, Record, Spent, Step, Task
from certigraph.state.run import Entry, Evidence, RunState, world_ending


class Outcome(Record):
    """What became of a node."""

    node: str
    status: Status
    """Pending where its part of the budget was spent: it begins again later, by itself, with all that is left."""
    result: str
    """What the nodes that need it are told, or why it is not completed."""
    ending: str
    """Why the graph that solved it ended."""
    certified: tuple[str, ...] = ()
    """The predicates that were certified on the way, where its solver certifies some."""
    steps: tuple[Step, ...] = ()
    """What it did in the world; of a node that is not the goal without the action that ended its own copy of it.

    None of a pending one, whose copy is thrown away.
    """
    taken: int = 0
    """World steps, those included."""
    observation: Observation
    """What its world said last."""


class TDPState(RunState, total=False):
    """Everything a run of TDP knows. `outcomes` in the order in which the nodes were gathered."""

    dag: Dag
    outcomes: Log[Outcome]
    gathered: int
    """How many of the outcomes are in `history` and in the graph's statuses."""
    concurrent: bool
    """Whether the world may be stepped in copies at the same time."""
    revisions: int
    notes: Log[str]
    """What was wrong with graphs and revisions that a model gave, and was refused or mended."""


class DecomposeView(TypedDict):
    """Who decomposes sees the task and the world as it is at the start."""

    task: Task
    evidence: Evidence
    observation: Observation


class SolveView(TypedDict):
    """What a dispatched node gets: its specification, where it begins and with what, and its part of the budget."""

    task: Task
    node: Node
    entry: Entry
    steps: int
    """World steps that it may take."""
    share: int
    """How many nodes divide what is left of the budget."""
    spent: Spent


class ReviseView(TypedDict):
    """Who revises sees the whole graph and every outcome, no traces."""

    task: Task
    dag: Dag
    outcomes: Sequence[Outcome]
    evidence: Evidence
    observation: Observation


def decompose_view(state: TDPState) -> DecomposeView:
    """The part of the state that the decomposing Supervisor may read."""
    return {"task": state["task"], "evidence": state["evidence"], "observation": state["observation"]}


def revise_view(state: TDPState) -> ReviseView:
    """The part of the state that Self-Revision may read."""
    return {
        "task": state["task"],
        "dag": state["dag"],
        "outcomes": tuple(state["outcomes"]),
        "evidence": state["evidence"],
        "observation": state["observation"],
    }


def latest_outcomes(state: TDPState) -> Sequence[Outcome]:
    """The outcomes of the batch that has just run, in the graph's own order, whichever ended first."""
    place = {id_: number for number, id_ in enumerate(state["dag"].order())}
    return sorted(state["outcomes"][state["gathered"] :], key=lambda outcome: place[outcome.node])


def steps_taken(state: TDPState) -> int:
    """World steps of all nodes that were gathered."""
    return sum(outcome.taken for outcome in state["outcomes"][: state["gathered"]])


def ending(state: TDPState) -> str:
    """`goal` where the node that settles the task is completed, as its Supervisor saw it; else what the world says."""
    return GOAL if settled(state) else world_ending(state)


def message(state: TDPState) -> str:
    """Which sub-task a run failed at that gave up, and why; empty for any other."""
    failed = [outcome for outcome in state.get("outcomes", ()) if outcome.status == "failed"]
    if not failed or ending(state) != GAVE_UP:
        return ""
    return f"sub-task {failed[-1].node} failed and no revision replaced it: {failed[-1].result}"


def settled(state: TDPState) -> bool:
    """Whether the node that settles the task is completed."""
    dag = state.get("dag")
    return dag is not None and dag.goal is not None and dag.goal.status == "completed" and not dag.pending
