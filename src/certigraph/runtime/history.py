"""History of a run, computed from its trajectory: plan, episodes, predicted rewards and TDP's task graph.

The live view and the reports both read a `RunHistory`; neither knows the other.
"""

from collections.abc import Mapping, Sequence
from graphlib import TopologicalSorter
from typing import Any, Literal, NamedTuple

from pydantic import JsonValue

from certigraph.runtime.episodes import EpisodeHistory, RatingHistory
from certigraph.runtime.progress import PlanHistory, count_steps
from certigraph.runtime.result import is_goal_denied, is_solved, is_unscored, verdict_scores_of
from certigraph.runtime.texts import CERTIFIED_LABEL, UNCHECKED_LABEL, clip_text
from certigraph.state.graph_states import state_type
from certigraph.state.records import Usage
from certigraph.state.tdp import Node, Outcome
from certigraph.state.trajectory import (
    AnsweredQuestion,
    CutPrompt,
    Event,
    Footer,
    Header,
    Question,
    Resumed,
    Trajectory,
    TrajectoryLine,
    assemble_trajectory,
    find_cut_prompts,
)

# A node of the task graph.

MAX_NAME_CHARACTERS = 60
"""Maximum number of characters of a sub-task's name."""

NodeStatus = Literal["pending", "working", "completed", "failed", "removed"]
"""Status of a sub-task; "removed": a revision has taken it out of the task graph."""


class NodeProgress:
    """A sub-task of the task graph with its progress, taken from the events of the graph that works on it.

    Args:
        node: the sub-task as it was first specified.
        added: number of the revision that added it; 0 if the first task graph had it.
    """

    def __init__(self, node: Node, added: int = 0) -> None:
        self.node, self.added = node, added
        self.status: NodeStatus = node.status
        self.earlier: list[tuple[int, Node]] = []
        """Earlier versions of the sub-task, each with the number of the revision that changed it."""
        self.removed = 0
        self.outcome: Outcome | None = None
        self.events: list[Event] = []
        self.spans: list[tuple[float, float]] = []
        """Start and end of each execution of a graph node for the sub-task, in seconds since the start of the run."""
        self.plan = PlanHistory()
        """Plan of the graph that works on the sub-task; empty if that graph certifies no predicates."""
        self.calls = self.tokens = self.steps = self.replans = self.gave_up = 0
        self.seconds = 0.0
        self.action = ""

    @property
    def name(self) -> str:
        """The id of the sub-task, shortened to a label."""
        return clip_text(self.node.id, MAX_NAME_CHARACTERS)

    @property
    def changed(self) -> str:
        """How revisions changed the sub-task, in one or two words; empty if none did."""
        if self.removed:
            return f"{self.outcome.status}, removed" if self.outcome else "removed"
        return "revised" if self.earlier else "added" if self.added else ""

    def set_node(self, node: Node) -> None:
        """Update with the sub-task as the task graph has it now."""
        self.node, self.status, self.removed = node, node.status, 0
        if node.status == "pending":  # it is done again
            self.outcome = None

    def add_usage(self, event: Event) -> None:
        """Add the usage of an event of the graph that works on the sub-task."""
        usage = event.usage
        self.calls += usage.calls
        self.tokens += usage.input_tokens + usage.output_tokens
        self.seconds += usage.seconds

    def fold(self, event: Event, ended: float) -> None:
        """Update with an event of the graph that works on the sub-task.

        Args:
            event: the event.
            ended: time of the event, in seconds since the start of the run.
        """
        self.events.append(event)
        self.spans.append((max(ended - event.usage.seconds, 0.0), ended))
        if self.status == "pending":
            self.status = "working"
        self.steps += count_steps(event)
        if "|" in event.scope:
            return
        self.plan.fold(event)
        update: Mapping[str, Any] = event.update or {}
        self.action = update.get("action", {}).get("text", self.action)
        # Plans of solvers without predicates (`outline`) count here too, which `plan.replans` leaves out.
        if event.node == "replan" and event.update is not None:
            replanned = bool(update.keys() - {"gave_up"})
            self.replans += replanned
            self.gave_up += not replanned


# Revisions of the task graph.


class RevisionSummary(NamedTuple):
    """Ids of the sub-tasks that a revision of the task graph added, changed and removed.

    `notes` say what was refused or repaired.
    """

    number: int
    added: tuple[str, ...]
    changed: tuple[str, ...]
    removed: tuple[str, ...]
    notes: tuple[str, ...]

    @property
    def line(self) -> str:
        """The revision on one line; empty if it changed nothing."""
        changes = {"added": self.added, "changed": self.changed, "removed": self.removed}
        parts = [f"{change} {', '.join(ids)}" for change, ids in changes.items() if ids]
        return "; ".join([*parts, *self.notes])


def summarize_revision(
    number: int, before: Mapping[str, Node], after: Sequence[Node], notes: Sequence[str]
) -> RevisionSummary:
    """Summarize the revision that led from one version of the task graph to the next.

    Args:
        number: number of the revision.
        before: the sub-tasks of the earlier version by id.
        after: the sub-tasks of the later version.
        notes: what was refused or repaired.
    """
    remaining = {node.id for node in after}
    return RevisionSummary(
        number,
        added=tuple(node.id for node in after if node.id not in before),
        changed=tuple(node.id for node in after if node.id in before and has_changed(node, before[node.id])),
        removed=tuple(id_ for id_ in before if id_ not in remaining),
        notes=tuple(notes),
    )


def has_changed(node: Node, other: Node) -> bool:
    """Whether two versions of a sub-task differ in their text or dependencies."""
    return (node.task, node.needs) != (other.task, other.needs)


# The task graph.


class TaskGraph:
    """TDP's task graph with the progress of its sub-tasks, computed from the events of a run.

    `nodes` are all sub-tasks by id, including removed ones. `drawn` is True if the run has a task graph.
    """

    def __init__(self, graph: str = "") -> None:
        self.drawn = "dag" in state_type(graph).__annotations__
        self._begin()

    def fold(self, event: Event) -> None:
        """Update with one event of the run's outermost graph or of a graph that works on a sub-task."""
        ended = self._since_begin(event)
        if event.scope:
            self._work(event, ended)
            return
        update: dict[str, Any] = {**(event.update or {})}
        if "outcomes" in event.replaced:
            self._begin()
        self.prompts += event.prompts
        self.drawn |= "dag" in update
        if statuses := (update.get("dag") or {}).get("statuses"):
            self._set_statuses(statuses)
        elif update.get("dag") or (self.nodes and update.get("notes")):
            self._draw(update)
        for outcome in map(Outcome.model_validate, update.get("outcomes", ())):
            if worked := self.nodes.get(outcome.node):
                worked.outcome, worked.status = outcome, outcome.status
        if event.node in ("decompose", "revise"):
            self.supervisor_spans.append((max(ended - event.usage.seconds, 0.0), ended))

    def add_usage(self, event: Event) -> None:
        """Add the usage of a superseded event, whose work was done again after a resume."""
        if event.scope and (worked := self._node_of(event)):
            worked.add_usage(event)

    @property
    def goal(self) -> str:
        """Id of the sub-task that completes the whole task; empty if there are no sub-tasks.

        It is the one that no other sub-task needs.
        """
        live = [worked.node for worked in self.nodes.values() if not worked.removed]
        for nodes in ([node for node in live if node.status == "pending"], live):
            needed = {need for node in nodes for need in node.needs}
            if ends := [node.id for node in nodes if node.id not in needed]:
                return ends[-1]
        return ""

    def count(self, status: str) -> int:
        """Count the sub-tasks with a status."""
        return sum(worked.status == status for worked in self.nodes.values())

    @property
    def live(self) -> int:
        """Number of sub-tasks that were not removed."""
        return len(self.nodes) - self.count("removed")

    @property
    def steps(self) -> int:
        """Number of world steps of all sub-tasks."""
        return sum(worked.steps for worked in self.nodes.values())

    def levels(self) -> list[list[NodeProgress]]:
        """Group the sub-tasks by level: the length of the longest path of dependencies that leads to them.

        Inside a level they are in the order in which the task graph lists them.
        """
        needs = {id_: [n for n in worked.node.needs if n in self.nodes] for id_, worked in self.nodes.items()}
        level: dict[str, int] = {}
        for id_ in TopologicalSorter(needs).static_order():
            level[id_] = 1 + max((level[need] for need in needs[id_]), default=-1)
        levels: list[list[NodeProgress]] = [[] for _ in range(max(level.values(), default=-1) + 1)]
        for id_, worked in self.nodes.items():
            levels[level[id_]].append(worked)
        return levels

    def _begin(self) -> None:
        self.nodes: dict[str, NodeProgress] = {}
        self.revisions: list[RevisionSummary] = []
        self.supervisor_spans: list[tuple[float, float]] = []
        """Start and end of every execution of `decompose` or `revise`, in seconds since the start of the run."""
        self.resume_times: list[float] = []
        self.prompts: list[int] = []
        """Lines of the run's `prompts.jsonl` with the model calls that made and revised the task graph."""
        self._scopes: dict[str, str] = {}
        self._latest = self._before = 0.0

    def _since_begin(self, event: Event) -> float:
        # Times of a resumed run count from 0 again; the time between a kill and the resume is left out.
        if event.t < self._latest:
            self._before += self._latest
            self.resume_times.append(self._before)
        self._latest = event.t
        return self._before + event.t

    def _work(self, event: Event, ended: float) -> None:
        if worked := self._node_of(event):
            worked.add_usage(event)
            worked.fold(event, ended)

    def _node_of(self, event: Event) -> NodeProgress | None:
        # An event of a graph that is nested deeper belongs to the node of this graph around it.
        outermost, *deeper = event.scope.split("|")
        if not deeper:
            self._scopes[outermost] = event.subtask
        return self.nodes.get(self._scopes.get(outermost, ""))

    def _set_statuses(self, statuses: Mapping[str, str]) -> None:
        for id_, status in statuses.items():
            if worked := self.nodes.get(id_):
                worked.set_node(worked.node.model_copy(update={"status": status}))

    def _draw(self, update: dict[str, Any]) -> None:
        before = {id_: worked.node for id_, worked in self.nodes.items() if not worked.removed}
        drawn = update.get("dag")  # a revision that changed nothing stores its notes only
        nodes = [Node.model_validate(node) for node in drawn.get("nodes", ())] if drawn else [*before.values()]
        change = summarize_revision(update.get("revisions", 0), before, nodes, update.get("notes", ()))
        if change.number and change.line:
            self.revisions.append(change)
        for node in nodes:
            worked = self.nodes.setdefault(node.id, NodeProgress(node, change.number))
            if has_changed(node, worked.node):
                worked.earlier.append((change.number, worked.node))
            worked.set_node(node)
        for id_ in change.removed:
            self.nodes[id_].status, self.nodes[id_].removed = "removed", change.number


# The history of a run.

USAGE_FIELDS = ("calls", "input_tokens", "output_tokens", "cached_tokens", "usd", "seconds")
"""Fields of a usage that are added up."""


UNCHECKING_OPERATOR = "always_pass"
"""Name of the operator that accepts each condition without a look at the world."""


def is_unchecked(header: Header) -> bool:
    """Whether a run's validator accepts whatever the world shows, so that its certificates certify nothing."""
    return _names_operator(header.all_operators, UNCHECKING_OPERATOR)


def _names_operator(described: JsonValue, name: str) -> bool:
    """Whether an operator is among those that a header describes, or in the arguments of one of them."""
    if not isinstance(described, dict):
        return False
    return described.get("name") == name or any(_names_operator(part, name) for part in described.values())


class RunHistory:
    """History of a run so far, computed from trajectory lines as they arrive.

    A line takes a few microseconds.
    """

    def __init__(self) -> None:
        self.header: Header | None = None
        self.footer: Footer | None = None
        self.questions: list[Question] = []
        """The questions for whose answers the run waits."""
        self.answered: list[AnsweredQuestion] = []
        """The questions that were answered, in order."""
        self.spent = dict.fromkeys(USAGE_FIELDS, 0.0)
        self.cut_prompts: list[CutPrompt] = []
        """Model calls whose prompts were cut to the model's context window."""
        self._lines: list[TrajectoryLine] = []
        self._begin()

    @property
    def certified(self) -> str:
        """The label of predicates with a certificate."""
        return UNCHECKED_LABEL if self.header and is_unchecked(self.header) else CERTIFIED_LABEL

    def take(self, line: TrajectoryLine) -> None:
        """Update with one trajectory line.

        A resume takes back everything that was done after its checkpoint, except the cost.
        """
        self._lines.append(line)
        if isinstance(line, Header):
            self.header = line
            self._begin()
        elif isinstance(line, Question):
            self.questions.append(line)
        elif isinstance(line, Footer):
            self.footer, self.questions = line, []
            # a view that starts with a resume was not sent the events that were superseded before
            self._raise_spent(line.usage)
        elif isinstance(line, Resumed):
            self.take_trajectory(assemble_trajectory(self._lines))
            self.footer = None
        elif isinstance(line, Event):
            for name in USAGE_FIELDS:
                self.spent[name] += getattr(line.usage, name)
            self.cut_prompts += find_cut_prompts([line])
            self._fold(line)

    def take_trajectory(self, trajectory: Trajectory) -> None:
        """Replace the history by that of a complete trajectory.

        Superseded events, whose work was done again after a resume, count only as cost.
        """
        self.header, self.footer = trajectory.header, trajectory.footer
        self.questions, self.answered = [*trajectory.questions], trajectory.answered
        self.cut_prompts = trajectory.cut_prompts
        self._begin()
        for event in trajectory.events:
            self._fold(event)
        for event in trajectory.superseded:
            self.tasks.add_usage(event)
        # only the assembled trajectory counts calls that a killed process left without an event
        self._raise_spent(trajectory.usage)

    @property
    def ending(self) -> str:
        """The run's ending; empty while there is none."""
        return self.footer.ending if self.footer else ""

    @property
    def solved(self) -> bool:
        """Whether the run has ended with the full score of a benchmark."""
        return bool(is_solved(verdict_scores_of(self.header, self.footer)))

    @property
    def denied(self) -> bool:
        """Whether the run ended `goal` although its score says that the task is not solved."""
        return is_goal_denied(self.ending, is_solved(verdict_scores_of(self.header, self.footer)))

    @property
    def steps(self) -> int:
        """Number of world steps, including those of earlier episodes and of all sub-tasks."""
        return self.tasks.steps if self.tasks.drawn else self.episodes.steps

    @property
    def tokens(self) -> int:
        """Number of input and output tokens."""
        return int(self.spent["input_tokens"] + self.spent["output_tokens"])

    def limit(self, name: str) -> int | None:
        """Return one of the run's limits by name, as the trajectory's header has it; None if it has none."""
        limits = self.header.context.get("limits") if self.header else None
        recorded = limits.get(name) if isinstance(limits, dict) else None
        return recorded if isinstance(recorded, int) else None

    def _begin(self) -> None:
        graph, unscored = (self.header.graph, is_unscored(self.header)) if self.header else ("", False)
        self.plan, self.episodes = PlanHistory(), EpisodeHistory(graph, unscored=unscored)
        self.tasks, self.rating = TaskGraph(graph), RatingHistory()
        self.cost: float | None = None
        """What was spent of the money that the task allows, if the world reports it."""

    def _fold(self, event: Event) -> None:
        self.tasks.fold(event)
        if event.scope:  # plan and certificates of a graph inside a node are not those of the run
            return
        self.plan.fold(event)
        self.episodes.fold(event)
        self.rating.fold(event)
        update: Mapping[str, Any] = event.update or {}
        self.cost = update.get("observation", {}).get("data", {}).get("cost", self.cost)

    def _raise_spent(self, usage: Usage) -> None:
        self.spent = {name: max(spent, getattr(usage, name)) for name, spent in self.spent.items()}


def read_history(trajectory: Trajectory) -> RunHistory:
    """Build the `RunHistory` of a complete trajectory."""
    history = RunHistory()
    history.take_trajectory(trajectory)
    return history
