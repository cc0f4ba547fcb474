"""TDP's task graph, its revision, and the state and views of Supervisor and sub-tasks."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise
from typing import Literal, NamedTuple, Self

from pydantic import model_validator
from typing_extensions import TypedDict

from certigraph.state.records import GAVE_UP, GOAL, Log, Observation, Record, Spent, Step, Task
from certigraph.state.run import (
    ActingState,
    Belief,
    DecideView,
    Entry,
    Evidence,
    RunState,
    Turn,
    belief_of,
    decide_view,
    remembered_turns,
    world_ending,
)

# TDP's task graph (section 3.2): sub-tasks, and what each needs. Immutable; what is no such graph cannot be made.
#
# The goal is the one unfinished node that no unfinished node needs: what settles the task. Every other unfinished
# node leads to it.

Status = Literal["pending", "completed", "failed"]


class Node(Record):
    """A sub-task with a specification that stands alone, and the ids of those whose outcomes it needs."""

    id: str
    task: str
    needs: tuple[str, ...] = ()
    status: Status = "pending"


class Dag(Record):
    """A task graph, or an empty one. Raises a validation error with all `problems` where the nodes make none."""

    nodes: tuple[Node, ...] = ()

    @model_validator(mode="after")
    def _checked(self) -> Self:
        if found := list(problems(self.nodes)):
            raise ValueError("; ".join(found))
        return self

    @property
    def by_id(self) -> Mapping[str, Node]:
        """The nodes by id, in the order in which they are listed."""
        return {node.id: node for node in self.nodes}

    @property
    def pending(self) -> tuple[Node, ...]:
        """The nodes that have not run."""
        return tuple(node for node in self.nodes if node.status == "pending")

    @property
    def ready(self) -> tuple[Node, ...]:
        """The nodes that may run now: all that they need is completed."""
        completed = {node.id for node in self.nodes if node.status == "completed"}
        return tuple(node for node in self.pending if completed.issuperset(node.needs))

    @property
    def goal(self) -> Node | None:
        """The node that settles the task; where all have run, the one that was it last. None in an empty graph."""
        ends = sinks(self.pending) or sinks(self.nodes)
        return ends[-1] if ends else None

    def order(self) -> tuple[str, ...]:
        """The ids in a topological order, the same for the same graph."""
        return tuple(TopologicalSorter({node.id: node.needs for node in self.nodes}).static_order())

    def before(self, id_: str) -> frozenset[str]:
        """Everything that a node builds on: what it needs, what that needs, and so on."""
        nodes = self.by_id
        found, waiting = set[str](), list(nodes[id_].needs)
        while waiting:
            need = waiting.pop()
            if need not in found:
                found.add(need)
                waiting += nodes[need].needs
        return frozenset(found)

    def with_status(self, statuses: Mapping[str, Status]) -> "Dag":
        """The graph with what became of some nodes, all of which were ready."""
        # Checked anew: a checkpoint whose graph is refused would come back as plain values, without a word.
        nodes = self.by_id
        ran = {id_: nodes[id_].model_copy(update={"status": status}) for id_, status in statuses.items()}
        return Dag(nodes=tuple(ran.get(node.id, node) for node in self.nodes))


def problems(nodes: Iterable[Node]) -> Iterator[str]:
    """What keeps nodes from being a task graph, each with the ids: none where `Dag` takes them."""
    nodes = tuple(nodes)
    known = Counter(node.id for node in nodes)
    if nameless := [node.id or "?" for node in nodes if not (node.id and node.task)]:
        yield f"sub-tasks without id or text: {', '.join(nameless)}"
    if twice := [id_ for id_, count in known.items() if count > 1]:
        yield f"ids used twice: {', '.join(twice)}"
    if unknown := [f"{node.id} needs {need}" for node in nodes for need in node.needs if need not in known]:
        yield f"needs that are no sub-task: {', '.join(unknown)}"
    if cycle := cycle_in(nodes):
        yield f"sub-tasks that wait for each other: {' -> '.join(cycle)}"
    elif len(ends := sinks(node for node in nodes if node.status == "pending")) > 1:
        yield f"several ends: {', '.join(node.id for node in ends)}; all but the last one must be needed by another"


def cycle_in(nodes: Iterable[Node]) -> tuple[str, ...]:
    """The ids along a cycle, each needed by the next and the first again at the end; none where there is no cycle."""
    try:
        TopologicalSorter({node.id: node.needs for node in nodes}).prepare()
    except CycleError as error:
        return tuple(error.args[1])
    return ()


def sinks(nodes: Iterable[Node]) -> list[Node]:
    """Those of the nodes that none of them needs."""
    nodes = list(nodes)
    needed = {need for node in nodes for need in node.needs}
    return [node for node in nodes if node.id not in needed]


# What a model gave for a task graph, made one by rule, and no further from what it said than need be.

Nodes = tuple[Node, ...]


class Mended(NamedTuple):
    """Nodes that make a task graph, and what was changed about them, a line each."""

    nodes: Nodes
    notes: tuple[str, ...]


def flaws(nodes: Nodes, most: int) -> Iterator[str]:
    """What keeps nodes from being the graph of a whole task with at most `most` sub-tasks, each with the ids."""
    if not nodes:
        yield "there is no sub-task"
    if len(nodes) > most:
        yield f"{len(nodes)} sub-tasks, at most {most} are allowed; too many: {_ids(nodes[most:])}"
    if same := _others(nodes, _first(nodes, lambda node: node.task)):
        yield f"the same text as another sub-task: {_ids(same)}"
    yield from problems(nodes)


def mended(nodes: Iterable[Node], *, goal: str, most: int) -> Mended:
    """The nodes as a graph without flaws; what has none stays as it is.

    Args:
        nodes: as a model gave them; none of them has run.
        goal: text of the task, the one sub-task where no other is left.
        most: nodes that are kept; what settles the task is one of them.
    """
    made, notes = tuple(nodes), list[str]()
    for mend in (_named, _once, _distinct, _known, _acyclic, _one_end, lambda nodes: _few(nodes, most)):
        made, changed = mend(made)
        notes += changed
    if made:
        return Mended(made, tuple(notes))
    return Mended((Node(id="task", task=goal),), (*notes, "mended: the task is its only sub-task"))


def _named(nodes: Nodes) -> Mended:
    return _kept(nodes, [node for node in nodes if node.id and node.task], "without id or text")


def _once(nodes: Nodes) -> Mended:
    return _kept(nodes, _first(nodes, lambda node: node.id), "the same id again")


def _distinct(nodes: Nodes) -> Mended:
    return _kept(nodes, _first(nodes, lambda node: node.task), "the same text again")


def _known(nodes: Nodes) -> Mended:
    known = {node.id for node in nodes}
    return _needing(nodes, {node.id: [need for need in node.needs if need in known] for node in nodes})


def _acyclic(nodes: Nodes) -> Mended:
    """Whatever is listed first in a cycle waits for something listed later: it no longer does."""
    place, needs = {node.id: n for n, node in enumerate(nodes)}, {node.id: node.needs for node in nodes}
    made = nodes
    while cycle := cycle_in(made):
        need, first = min(pairwise(cycle), key=lambda pair: place[pair[1]])
        needs[first] = tuple(other for other in needs[first] if other != need)
        made = tuple(node.model_copy(update={"needs": needs[node.id]}) for node in nodes)
    return _needing(nodes, needs)


def _one_end(nodes: Nodes) -> Mended:
    """The last end settles the task."""
    return _towards(_ends(nodes)[-1], nodes) if nodes else Mended(nodes, ())


def _few(nodes: Nodes, most: int) -> Mended:
    """What settles the task and what can be done first, as many as there is room for."""
    if len(nodes) <= most:
        return Mended(nodes, ())
    goal = _ends(nodes)[-1]
    order = TopologicalSorter({node.id: node.needs for node in nodes}).static_order()
    ids = {goal, *[id_ for id_ in order if id_ != goal][: most - 1]}
    kept, notes = _kept(nodes, [node for node in nodes if node.id in ids], f"more than {most}")
    return Mended(_towards(goal, _known(kept).nodes).nodes, notes)


def _towards(goal: str, nodes: Nodes) -> Mended:
    """The goal needs all other ends."""
    others = [id_ for id_ in _ends(nodes) if id_ != goal]
    return _needing(nodes, {node.id: (*node.needs, *others) for node in nodes if node.id == goal})


def _ends(nodes: Nodes) -> list[str]:
    return [node.id for node in sinks(nodes)]


def _first(nodes: Nodes, key: Callable[[Node], str]) -> list[Node]:
    found = dict[str, Node]()
    for node in nodes:
        found.setdefault(key(node), node)
    return [*found.values()]


def _kept(nodes: Nodes, kept: Sequence[Node], why: str) -> Mended:
    out = _others(nodes, kept)
    return Mended(tuple(kept), (f"mended: left out {_ids(out)}, {why}",) if out else ())


def _others(nodes: Nodes, kept: Sequence[Node]) -> list[Node]:
    return [node for node in nodes if not any(node is one for one in kept)]


def _needing(nodes: Nodes, needs: Mapping[str, Sequence[str]]) -> Mended:
    made = [node.model_copy(update={"needs": tuple(needs.get(node.id, node.needs))}) for node in nodes]
    pairs = [(old, new) for old, new in zip(nodes, made, strict=True) if old != new]
    notes = (f"mended: {new.id} needs {', '.join(new.needs) or 'nothing'}" for _, new in pairs)
    return Mended(tuple(made), tuple(notes))


def _ids(nodes: Iterable[Node]) -> str:
    return ", ".join(node.id or "?" for node in nodes)


# Self-Revision's changes to a task graph (TDP section 3.4): what has run stays as it is, whatever a model says.


class Revision(NamedTuple):
    """What is to become of a graph."""

    change: Nodes = ()
    """Pending nodes as they are to be, by id."""
    add: Nodes = ()
    remove: tuple[str, ...] = ()


def room(dag: Dag, most: int) -> int:
    """How many nodes may be added. Failed ones take none: what replaces them needs it."""
    return max(most - sum(node.status != "failed" for node in dag.nodes), 0)


def new_ids(dag: Dag, count: int) -> list[str]:
    """So many ids that no node has."""
    taken = {node.id for node in dag.nodes}
    return [id_ for number in range(1, len(taken) + count + 1) if (id_ := f"n{number}") not in taken][:count]


def effective(dag: Dag, revision: Revision) -> Revision:
    """The revision without changes that change nothing: models repeat what is there."""
    there = {(node.id, node.task, node.needs) for node in dag.nodes}
    change, add = ([n for n in nodes if (n.id, n.task, n.needs) not in there] for nodes in revision[:2])
    return Revision(tuple(change), tuple(add), tuple(dict.fromkeys(revision.remove)))


def refusals(dag: Dag, revision: Revision, most: int) -> Iterator[str]:
    """What keeps a revision from being carried out, each with the ids."""
    yield from _out_of_reach(dag, revision)
    nodes = revised(dag, revision)
    if (count := sum(node.status != "failed" for node in nodes)) > most:
        yield f"{count} sub-tasks that have not failed, at most {most} are allowed"
    # What ran last would pass for what settles the task.
    if dag.pending and all(node.status != "pending" for node in nodes):
        yield f"{_join_ids(node.id for node in dag.pending)}: without them nothing is left that settles the task"
    yield from problems(nodes)


def ran_otherwise(before: Dag, after: Dag) -> list[str]:
    """The ids of nodes that have run in one of two graphs and are not the same in both."""
    ran = [{node.id: node for node in dag.nodes if node.status != "pending"} for dag in (before, after)]
    return [id_ for id_ in {**ran[0], **ran[1]} if ran[0].get(id_) != ran[1].get(id_)]


def revised(dag: Dag, revision: Revision) -> Nodes:
    """The nodes as they are to be, what settles the task last; of a revision that is refused no task graph.

    Those that have run come first, each as it is.
    """
    changed = {node.id: node for node in revision.change}
    left = [node for node in dag.pending if node.id not in revision.remove]
    run = [node for node in dag.nodes if node.status != "pending"]
    return (*run, *_goal_last([*(changed.get(node.id, node) for node in left), *revision.add]))


def _out_of_reach(dag: Dag, revision: Revision) -> Iterator[str]:
    status = {node.id: node.status for node in dag.nodes}
    touched = [*(node.id for node in revision.change), *revision.remove]
    if unknown := [id_ for id_ in touched if id_ not in status]:
        yield f"there is no sub-task {_join_ids(unknown)} to change or remove"
    if over := [id_ for id_ in touched if status.get(id_, "pending") != "pending"]:
        yield f"{_join_ids(over)}: what has run cannot be changed or removed; add a new sub-task with a new id"
    if twice := [id_ for id_ in touched if touched.count(id_) > 1]:
        yield f"{_join_ids(twice)}: changed twice, or changed and removed"
    new = [*revision.change, *revision.add]
    if vain := [f"{node.id} needs {need}" for node in new for need in node.needs if status.get(need) == "failed"]:
        yield f"{_join_ids(vain)}, which failed: it would never be done"


def _goal_last(nodes: list[Node]) -> list[Node]:
    needed = {need for node in nodes for need in node.needs}
    return sorted(nodes, key=lambda node: node.id not in needed)


def _join_ids(ids: Iterable[str]) -> str:
    return ", ".join(dict.fromkeys(ids))


# State of one sub-task at work (TDP section 3.3), and the views that keep its operators to it.
#
# Plan-and-Act and the one-shot plan use the same state for the whole task.


class Progress(Record):
    """The Supervisor's word on a sub-task after an action."""

    status: Literal["needs_more_steps", "completed", "failed"] = "needs_more_steps"
    reason: str = ""
    off_plan: bool = False
    """Whether what was observed conflicts with the plan so that it must be made anew."""
    guidance: str = ""
    """What to do next, in the large."""
    result: str = ""
    """What those who need the sub-task have to know; once it has ended."""


class SubtaskState(ActingState, total=False):
    """Everything that one sub-task knows. Its specification is its task's goal, `outline` its plan."""

    known: tuple[str, ...]
    """The outcomes of the sub-tasks that it needs."""
    last: bool
    """Whether it settles the whole task: then it is done when the world is."""
    outline: tuple[str, ...]
    progress: Progress
    replanned: int


class PlanView(TypedDict):
    """The Planner sees the specification, what it builds on, and the world now."""

    task: Task
    assignment: str
    known: Sequence[str]
    evidence: Evidence


class ReplanView(PlanView):
    """A plan is made anew from the same, the plan so far, this sub-task's own trace, and what went against it."""

    outline: Sequence[str]
    turns: Sequence[Turn]
    belief: Belief
    reason: str


class SuperviseView(PlanView):
    """The Supervisor sees one sub-task at work, nothing of the others."""

    outline: Sequence[str]
    turns: Sequence[Turn]
    belief: Belief
    last: bool


def plan_view(state: SubtaskState) -> PlanView:
    """The part of the state that the Planner may read."""
    task = state["task"]
    return {"task": task, "assignment": task.goal, "known": state["known"], "evidence": state["evidence"]}


def execute_view(state: SubtaskState) -> DecideView:
    """The part of the state that the Executor may read: plan and guidance are its advice.

    What the sub-tasks that it needs came to is shown beside it, in `known`.
    """
    guidance = state["progress"].guidance if "progress" in state else ""
    seen = decide_view(state)
    steps = [f"Plan, step {number}: {step}" for number, step in enumerate(state["outline"], 1)]
    told = [*steps, *([f"Now: {guidance}"] if guidance else []), *seen["advice"]]
    return {**seen, "advice": tuple(told)}


def supervise_view(state: SubtaskState) -> SuperviseView:
    """The part of the state that the Supervisor of a sub-task may read."""
    return {**_traced(state), "last": state["last"]}  # type: ignore[typeddict-item]


def replan_view(state: SubtaskState) -> ReplanView:
    """The part of the state that the Planner may read when the plan is made anew."""
    reason = state["progress"].reason if "progress" in state else ""
    return {**_traced(state), "reason": reason}  # type: ignore[typeddict-item]


def subtask_ending(state: SubtaskState) -> str:
    """`goal` where its Supervisor calls it completed."""
    return GOAL if state["progress"].status == "completed" else GAVE_UP


def _traced(state: SubtaskState) -> dict[str, object]:
    traced = {"outline": state["outline"], "turns": remembered_turns(state), "belief": belief_of(state)}
    return {**plan_view(state), **traced}


# TDP's state, and the views of the Supervisor's operators (sections 3.2 and 3.4).


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


def tdp_ending(state: TDPState) -> str:
    """`goal` where the node that settles the task is completed, as its Supervisor saw it; else what the world says."""
    return GOAL if settled(state) else world_ending(state)


def message(state: TDPState) -> str:
    """Which sub-task a run failed at that gave up, and why; empty for any other."""
    failed = [outcome for outcome in state.get("outcomes", ()) if outcome.status == "failed"]
    if not failed or tdp_ending(state) != GAVE_UP:
        return ""
    return f"sub-task {failed[-1].node} failed and no revision replaced it: {failed[-1].result}"


def settled(state: TDPState) -> bool:
    """Whether the node that settles the task is completed."""
    dag = state.get("dag")
    return dag is not None and dag.goal is not None and dag.goal.status == "completed" and not dag.pending
