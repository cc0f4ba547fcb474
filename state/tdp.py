"""State of TDP: the task graph, its repair and revision, and the views of the Supervisor."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise
from operator import not_
from typing import Annotated, Literal, NamedTuple, Self

from pydantic import Field, model_validator
from typing_extensions import TypedDict

from certigraph.state.channels import SNAPSHOT_EVERY, ChangesChannel, Log
from certigraph.state.effects import Effect
from certigraph.state.endings import EXHAUSTED, GAVE_UP, GOAL
from certigraph.state.records import Observation, Record, Spent, Step, Task
from certigraph.state.run import (
    AnsweredCall,
    Evidence,
    NestedStart,
    RunState,
    world_ending,
)

# TDP's task graph (section 3.2): sub-tasks and their dependencies. A graph is immutable, and an invalid one cannot be
# created. Its goal is the one pending node that no pending node needs: completing it completes the task, and every
# other pending node leads to it.

NodeStatus = Literal["pending", "completed", "failed"]
"""Status of a sub-task."""


class Node(Record):
    """A sub-task in TDP's task graph: a self-contained specification, and the ids of the sub-tasks that it needs."""

    id: str
    task: str
    needs: tuple[str, ...] = ()
    status: NodeStatus = "pending"
    single: bool = False
    """Whether one action is expected to be enough, so that a plan of it would say nothing. Only over tools."""


class Dag(Record):
    """TDP's task graph, possibly empty: a directed acyclic graph of sub-tasks.

    Raises:
        ValidationError: the nodes form no valid task graph; the message lists all reasons that `graph_problems` yields.
    """

    nodes: tuple[Node, ...] = ()

    @model_validator(mode="after")
    def _checked(self) -> Self:
        if messages := list(graph_problems(self.nodes)):
            raise ValueError("; ".join(messages))
        return self

    @property
    def by_id(self) -> Mapping[str, Node]:
        """The nodes by id, in the order of `nodes`."""
        return {node.id: node for node in self.nodes}

    @property
    def pending(self) -> tuple[Node, ...]:
        """The sub-tasks that have not run yet."""
        return tuple(node for node in self.nodes if node.status == "pending")

    @property
    def ready(self) -> tuple[Node, ...]:
        """The sub-tasks that may run now, because all sub-tasks that they need are completed."""
        completed = {node.id for node in self.nodes if node.status == "completed"}
        return tuple(node for node in self.pending if completed.issuperset(node.needs))

    @property
    def goal(self) -> Node | None:
        """The sub-task that completes the whole task; None in an empty graph.

        It is the pending sub-task that no pending one needs. After all sub-tasks have run, it is the last one that no
        other needs.
        """
        ends = sinks(self.pending) or sinks(self.nodes)
        return ends[-1] if ends else None

    def order(self) -> tuple[str, ...]:
        """Return the ids in a topological order, which is always the same for the same graph."""
        return tuple(TopologicalSorter({node.id: node.needs for node in self.nodes}).static_order())

    def before(self, id_: str) -> frozenset[str]:
        """Return the ids of all sub-tasks on which a sub-task depends, directly or indirectly."""
        nodes = self.by_id
        ancestors, waiting = set[str](), list(nodes[id_].needs)
        while waiting:
            need = waiting.pop()
            if need not in ancestors:
                ancestors.add(need)
                waiting += nodes[need].needs
        return frozenset(ancestors)

    def with_status(self, statuses: Mapping[str, NodeStatus]) -> "Dag":
        """Return the graph with new statuses for the sub-tasks in `statuses`, each of which was ready.

        Raises:
            ValueError: one of them is not a sub-task of the graph.
        """
        nodes = self.by_id
        if unknown := statuses.keys() - nodes.keys():
            raise ValueError(f"no sub-tasks of the task graph: {', '.join(sorted(unknown))}")
        # Validated again, because a checkpoint with an invalid graph would silently be restored as plain values.
        ran = {id_: nodes[id_].model_copy(update={"status": status}) for id_, status in statuses.items()}
        return Dag(nodes=tuple(ran.get(node.id, node) for node in self.nodes))


class StatusChanges(Record):
    """What a run stores of its task graph when sub-tasks have run: their new statuses, by id."""

    statuses: dict[str, NodeStatus]


def update_dag(dag: Dag, writes: Sequence[Dag | StatusChanges]) -> Dag:
    """Return the task graph after updates in order: the reducer of the state's `dag`.

    An update is a whole graph, or new statuses of some of its sub-tasks, so that what a run stores does not grow with
    the product of its sub-tasks and its batches.

    Raises:
        ValueError: an update changes the status of a sub-task that the graph does not have.
    """
    for write in writes:
        dag = dag.with_status(write.statuses) if isinstance(write, StatusChanges) else write
    return dag


def graph_problems(nodes: Iterable[Node]) -> Iterator[str]:
    """Yield the reasons why nodes form no valid task graph, each with ids of nodes.

    Nothing is yielded for a valid one.
    """
    nodes = tuple(nodes)
    known = Counter(node.id for node in nodes)
    if nameless := [node.id or "?" for node in nodes if not (node.id and node.task)]:
        yield f"sub-tasks without id or text: {', '.join(nameless)}"
    if twice := [id_ for id_, count in known.items() if count > 1]:
        yield f"ids used twice: {', '.join(twice)}"
    if unknown := [f"{node.id} needs {need}" for node in nodes for need in node.needs if need not in known]:
        yield f"needs that are not a sub-task: {', '.join(unknown)}"
    if cycle := find_cycle(nodes):
        yield f"sub-tasks that wait for each other: {' -> '.join(cycle)}"
    elif len(ends := sinks(node for node in nodes if node.status == "pending")) > 1:
        yield f"several ends: {', '.join(node.id for node in ends)}; all but the last one must be needed by another"


def find_cycle(nodes: Iterable[Node]) -> tuple[str, ...]:
    """Return the ids along a cycle of dependencies, or an empty tuple if there is none.

    Each id is needed by the next one, and the first is repeated at the end.
    """
    nodes, before = tuple(nodes), set[str]()
    for node in nodes:  # most graphs are in a topological order, which is checked much faster than a cycle is sought
        if not before.issuperset(node.needs):
            break
        before.add(node.id)
    else:
        return ()
    try:
        TopologicalSorter({node.id: node.needs for node in nodes}).prepare()
    except CycleError as error:
        return tuple(error.args[1])
    return ()


def sinks(nodes: Iterable[Node]) -> list[Node]:
    """Return those of the nodes on which none of the others depends."""
    nodes = list(nodes)
    needed = {need for node in nodes for need in node.needs}
    return [node for node in nodes if node.id not in needed]


# Repair of a model's task graph by rules, which change as little of its answer as possible.

Nodes = tuple[Node, ...]


class RepairedNodes(NamedTuple):
    """Nodes that form a valid task graph, and one line about each change that was made to them."""

    nodes: Nodes
    notes: tuple[str, ...]


def decomposition_problems(nodes: Nodes, most: int) -> Iterator[str]:
    """Yield the reasons why a model's nodes are not a valid decomposition of a task, each with the ids of the nodes.

    Args:
        nodes: nodes of the model's answer.
        most: maximum number of nodes.
    """
    if not nodes:
        yield "there is no sub-task"
    if len(nodes) > most:
        yield f"{len(nodes)} sub-tasks, at most {most} are allowed; too many: {_format_node_ids(nodes[most:])}"
    if same := _all_but(nodes, _first_of_each(nodes, lambda node: node.task)):
        yield f"the same text as another sub-task: {_format_node_ids(same)}"
    yield from graph_problems(nodes)


def repair_nodes(nodes: Iterable[Node], *, goal: str, most: int) -> RepairedNodes:
    """Repair the nodes of a model's answer so that they form a valid task graph. Valid nodes stay unchanged.

    Args:
        nodes: nodes of the answer, none of which has run.
        goal: text of the task; it becomes the only sub-task if no other is left.
        most: maximum number of nodes to keep, among them the one that completes the task.
    """
    repaired, notes = tuple(nodes), list[str]()
    for repair in (
        _drop_incomplete,
        _drop_repeated_ids,
        _drop_repeated_texts,
        _drop_unknown_needs,
        _break_cycles,
        _join_ends,
        lambda nodes: _limit_count(nodes, most),
    ):
        repaired, lines = repair(repaired)
        notes += lines
    if repaired:
        return RepairedNodes(repaired, tuple(notes))
    return RepairedNodes((Node(id="task", task=goal),), (*notes, "mended: the task is its only sub-task"))


def _drop_incomplete(nodes: Nodes) -> RepairedNodes:
    return _keep_only(nodes, [node for node in nodes if node.id and node.task], "without id or text")


def _drop_repeated_ids(nodes: Nodes) -> RepairedNodes:
    return _keep_only(nodes, _first_of_each(nodes, lambda node: node.id), "the same id again")


def _drop_repeated_texts(nodes: Nodes) -> RepairedNodes:
    return _keep_only(nodes, _first_of_each(nodes, lambda node: node.task), "the same text again")


def _drop_unknown_needs(nodes: Nodes) -> RepairedNodes:
    known = {node.id for node in nodes}
    return _set_needs(nodes, {node.id: [need for need in node.needs if need in known] for node in nodes})


def _break_cycles(nodes: Nodes) -> RepairedNodes:
    """Break each cycle at the first listed of its nodes: what that node needs within the cycle is removed."""
    position, needs = {node.id: n for n, node in enumerate(nodes)}, {node.id: node.needs for node in nodes}
    acyclic = nodes
    while cycle := find_cycle(acyclic):
        need, first = min(pairwise(cycle), key=lambda pair: position[pair[1]])
        needs[first] = tuple(other for other in needs[first] if other != need)
        acyclic = tuple(node.model_copy(update={"needs": needs[node.id]}) for node in nodes)
    return _set_needs(nodes, needs)


def _join_ends(nodes: Nodes) -> RepairedNodes:
    """Make the last end the goal of the graph. An end is a node that no other node needs."""
    return _lead_to(_end_ids(nodes)[-1], nodes) if nodes else RepairedNodes(nodes, ())


def _limit_count(nodes: Nodes, most: int) -> RepairedNodes:
    """Keep the goal and the nodes that can run first, at most `most` in all."""
    if len(nodes) <= most:
        return RepairedNodes(nodes, ())
    goal = _end_ids(nodes)[-1]
    order = TopologicalSorter({node.id: node.needs for node in nodes}).static_order()
    ids = {goal, *[id_ for id_ in order if id_ != goal][: most - 1]}
    limited, notes = _keep_only(nodes, [node for node in nodes if node.id in ids], f"more than {most}")
    return RepairedNodes(_lead_to(goal, _drop_unknown_needs(limited).nodes).nodes, notes)


def _lead_to(goal: str, nodes: Nodes) -> RepairedNodes:
    """Let the goal need all other ends, that is, all other nodes that no node needs."""
    others = [id_ for id_ in _end_ids(nodes) if id_ != goal]
    return _set_needs(nodes, {node.id: (*node.needs, *others) for node in nodes if node.id == goal})


def _end_ids(nodes: Nodes) -> list[str]:
    return [node.id for node in sinks(nodes)]


def _first_of_each(nodes: Nodes, key: Callable[[Node], str]) -> list[Node]:
    firsts = dict[str, Node]()
    for node in nodes:
        firsts.setdefault(key(node), node)
    return [*firsts.values()]


def _keep_only(nodes: Nodes, remaining: Sequence[Node], why: str) -> RepairedNodes:
    dropped = _all_but(nodes, remaining)
    return RepairedNodes(tuple(remaining), (f"mended: left out {_format_node_ids(dropped)}, {why}",) if dropped else ())


def _all_but(nodes: Nodes, selected: Sequence[Node]) -> list[Node]:
    return [node for node in nodes if not any(node is other for other in selected)]


def _set_needs(nodes: Nodes, needs: Mapping[str, Sequence[str]]) -> RepairedNodes:
    updated = [node.model_copy(update={"needs": tuple(needs.get(node.id, node.needs))}) for node in nodes]
    pairs = [(old, new) for old, new in zip(nodes, updated, strict=True) if old != new]
    notes = (f"mended: {new.id} needs {', '.join(new.needs) or 'nothing'}" for _, new in pairs)
    return RepairedNodes(tuple(updated), tuple(notes))


def _format_node_ids(nodes: Iterable[Node]) -> str:
    return ", ".join(node.id or "?" for node in nodes)


# Self-Revision's changes to a task graph (TDP section 3.4). Nodes that have run never change, whatever a model answers.


class GraphRevision(NamedTuple):
    """Changes to make to a task graph: nodes to change, nodes to add, and ids of nodes to remove."""

    change: Nodes = ()
    """New versions of pending nodes. Their ids say which nodes they replace."""
    add: Nodes = ()
    remove: tuple[str, ...] = ()


def remaining_capacity(dag: Dag, most: int) -> int:
    """Return how many nodes may still be added to a task graph, which may have at most `most` nodes.

    Failed nodes do not count, because other nodes have to replace them.
    """
    return max(most - sum(node.status != "failed" for node in dag.nodes), 0)


def new_ids(dag: Dag, count: int) -> list[str]:
    """Return `count` ids that no node of the graph has yet."""
    taken = {node.id for node in dag.nodes}
    return [id_ for number in range(1, len(taken) + count + 1) if (id_ := f"n{number}") not in taken][:count]


def drop_repetitions(dag: Dag, revision: GraphRevision) -> GraphRevision:
    """Return a revision without changes that repeat the present graph, as answers of models often do."""
    present = {(node.id, node.task, node.needs) for node in dag.nodes}
    change, add = ([n for n in nodes if (n.id, n.task, n.needs) not in present] for nodes in revision[:2])
    return GraphRevision(tuple(change), tuple(add), tuple(dict.fromkeys(revision.remove)))


def refusal_reasons(dag: Dag, revision: GraphRevision, most: int) -> Iterator[str]:
    """Yield the reasons why a revision must be refused, each with ids of nodes; nothing if it may be applied."""
    yield from _invalid_changes(dag, revision)
    nodes = apply_revision(dag, revision)
    if (count := sum(node.status != "failed" for node in nodes)) > most:
        yield f"{count} sub-tasks that have not failed, at most {most} are allowed"
    # Without a pending node, one that has run would count as the goal.
    if dag.pending and all(node.status != "pending" for node in nodes):
        yield f"{_join_ids(node.id for node in dag.pending)}: without them nothing is left that settles the task"
    yield from graph_problems(nodes)


def changed_after_run(before: Dag, after: Dag) -> list[str]:
    """Return the ids of nodes that have run in one of two task graphs and differ between the graphs."""
    old, new = ({node.id: node for node in dag.nodes if node.status != "pending"} for dag in (before, after))
    return [id_ for id_ in {**old, **new} if (one := old.get(id_)) is not (other := new.get(id_)) and one != other]


def apply_revision(dag: Dag, revision: GraphRevision) -> Nodes:
    """Return the nodes of a task graph after a revision: first those that have run, unchanged, last the goal.

    If the revision should have been refused, the nodes form no valid task graph.
    """
    changed = {node.id: node for node in revision.change}
    left = [node for node in dag.pending if node.id not in revision.remove]
    run = [node for node in dag.nodes if node.status != "pending"]
    return (*run, *_goal_last([*(changed.get(node.id, node) for node in left), *revision.add]))


def _invalid_changes(dag: Dag, revision: GraphRevision) -> Iterator[str]:
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


# TDP's state, and the views of the Supervisor's operators (sections 3.2 and 3.4).


class Outcome(Record):
    """Result of one run of a sub-task; `node` is the id of the sub-task in the task graph."""

    node: str
    status: NodeStatus
    """`completed`, `failed`, or `pending` if the sub-task's share of the budget was used up.

    A pending sub-task starts again later, alone, with all of the budget that is left.
    """
    result: str
    """What dependent sub-tasks are shown, or the reason why the sub-task is not completed."""
    ending: str
    """Ending of the graph that worked on the sub-task."""
    stopped: bool = Field(default=False, exclude_if=not_)
    """Whether a gate of that graph ended the sub-task, and so the run."""
    certified: tuple[str, ...] = ()
    """The predicates certified for the sub-task, if the graph that worked on it certifies any."""
    steps: tuple[Step, ...] = ()
    """The sub-task's steps in the world.

    If an action ended the sub-task's own copy of the world, it is left out, unless the sub-task is the goal. A pending
    sub-task has no steps, because its copy is discarded.
    """
    taken: int = 0
    """Number of world steps taken for the sub-task, including those that are not in `steps`."""
    observation: Observation
    """The latest observation in the sub-task's world."""
    answers: tuple[AnsweredCall, ...] = ()
    """What tools answered in the sub-task, if the run committed to where arguments come from, or checks calls.

    It decides from which tool's answer a value in a later sub-task comes, and only checks of calls show it.
    """
    effects: tuple[Effect, ...] = Field(default=(), exclude_if=not_)
    """Calls of the sub-task that were made and whose effect lasts; it is shown to no operator."""


class TDPState(RunState, total=False):
    """State of a run of TDP.

    `outcomes` are in the order in which they were gathered, that is, carried over into the run's own world.
    """

    dag: Annotated[Dag, ChangesChannel(update_dag, snapshot_frequency=SNAPSHOT_EVERY)]
    outcomes: Log[Outcome]
    gathered: int
    """Number of outcomes that are already in `history` and in the statuses of `dag`."""
    batch: tuple[str, ...]
    """Ids of the sub-tasks whose outcomes were gathered last."""
    concurrent: bool
    """Whether several copies of the world may be used at the same time."""
    revisions: int
    notes: Log[str]
    """Problems of task graphs and revisions from a model that were refused or repaired."""


class DecomposeView(TypedDict):
    """View of the operator that decomposes the task into a task graph: the task and the world at the start."""

    task: Task
    evidence: Evidence
    observation: Observation


class SolveView(TypedDict):
    """What the run of a sub-task gets: the sub-task, its start in the world, and its share of the budget."""

    task: Task
    node: Node
    entry: NestedStart
    steps: int
    """Maximum number of world steps."""
    share: int
    """Number of sub-tasks that divide the rest of the budget among them."""
    spent: Spent


class ReviseView(TypedDict):
    """View of the operator that revises the task graph: the complete graph and all outcomes, but no turns."""

    task: Task
    dag: Dag
    outcomes: Sequence[Outcome]
    batch: Sequence[str]
    """Ids of the sub-tasks that ran last."""
    evidence: Evidence
    observation: Observation
    steps: int
    """Number of world steps of all sub-tasks so far."""


def decompose_view(state: TDPState) -> DecomposeView:
    """Return the part of the state that the operator which decomposes the task may read."""
    return {"task": state["task"], "evidence": state["evidence"], "observation": state["observation"]}


def revise_view(state: TDPState) -> ReviseView:
    """Return the part of the state that the operator which revises the task graph may read."""
    return {
        "task": state["task"],
        "dag": state["dag"],
        "outcomes": tuple(state["outcomes"]),
        "batch": state.get("batch", ()),
        "evidence": state["evidence"],
        "observation": state["observation"],
        "steps": steps_taken(state),
    }


def latest_outcomes(state: TDPState) -> Sequence[Outcome]:
    """Return the outcomes of the sub-tasks that have just run, in topological order of the task graph.

    They are not yet carried over into the run's own world.
    """
    latest = state["outcomes"][state["gathered"] :]
    if len(latest) < 2:
        return latest
    position = {id_: number for number, id_ in enumerate(state["dag"].order())}
    return sorted(latest, key=lambda outcome: position[outcome.node])


def steps_taken(state: TDPState) -> int:
    """Return the number of world steps of all gathered sub-tasks."""
    return sum(outcome.taken for outcome in state["outcomes"][: state["gathered"]])


def tdp_ending(state: TDPState) -> str:
    """Return `goal` if the goal of the task graph is completed according to its Supervisor.

    Else it is `exhausted` if a gate ended a sub-task, or the world's ending.
    """
    if is_goal_completed(state):
        return GOAL
    return EXHAUSTED if is_stopped_in_batch(state) else world_ending(state)


def is_stopped_in_batch(state: TDPState) -> bool:
    """Return whether a gate ended one of the sub-tasks that were gathered last."""
    return any(outcome.stopped and outcome.node in state["batch"] for outcome in state.get("outcomes", ()))


def tdp_message(state: TDPState) -> str:
    """Return which sub-task failed in a run that gave up, and why. The text is empty for any other ending."""
    failed = [outcome for outcome in state.get("outcomes", ()) if outcome.status == "failed"]
    if not failed or tdp_ending(state) != GAVE_UP:
        return ""
    return f"sub-task {failed[-1].node} failed and no revision replaced it: {failed[-1].result}"


def is_goal_completed(state: TDPState) -> bool:
    """Return whether the sub-task that completes the whole task is completed and no sub-task is pending."""
    dag = state.get("dag")
    return dag is not None and dag.goal is not None and dag.goal.status == "completed" and not dag.pending
