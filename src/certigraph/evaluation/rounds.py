"""Rounds of a run, for exports.

A round is an action with its observation and verdict, or the work of one node that is not an action. The module also
separates the events of inner graphs (graphs that run inside a node of another graph), formats rounds as text, and
removes API keys and folder names from trajectories.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import cache, cached_property
from typing import Any, NamedTuple

from certigraph.adapters.redaction import redact
from certigraph.evaluation.frames import method_of_header
from certigraph.runtime.registry import model_name
from certigraph.runtime.texts import format_score
from certigraph.state.endings import Fault
from certigraph.state.records import Action, Arguments, Attempt, Certificate, Observation, Task, Usage
from certigraph.state.step import Lesson, Trial
from certigraph.state.trajectory import Event, Header, Trajectory, total_usage

# The rounds of a run.

ROUND_OPENERS = frozenset({"action", "plan", "outline", "trials", "lessons", "dag", "outcomes", "factored", "rewards"})
"""State channels whose update starts a new round. Nodes that judge an action do not write them."""


BOOKKEEPING_NODES = ("begin", "recall", "gather")
"""Nodes that only update the state, unless they ask a model. Runs shown as conversations leave them out."""


class RunRound:
    """Consecutive node executions of a run (events) that belong to one action or to one piece of other work.

    `episode` counts from 1. `target` is the text of the predicate or subtask that the agent worked on; empty if there
    was none. `head` is the number of predicates at the beginning of the plan that were certified, or accepted by a
    policy without a certificate.
    """

    def __init__(self, episode: int, aim: tuple[str, int], events: tuple[Event, ...]) -> None:
        self.episode, self.events = episode, events
        self.target, self.head = aim

    @cached_property
    def update(self) -> Mapping[str, Any]:
        """The state updates of the round's nodes, merged."""
        return {key: value for event in self.events for key, value in (event.update or {}).items()}

    @property
    def node(self) -> str:
        """Name of the node that the round starts with."""
        return self.events[0].node

    @property
    def failed(self) -> bool:
        """Whether the first node of the round raised an error. Such a round has a cost, but changed no state."""
        return self.events[0].update is None

    @property
    def usage(self) -> Usage:
        """Cost of the round: the sum over its events."""
        return total_usage(event.usage for event in self.events)

    @property
    def resets(self) -> bool:
        """Whether the round starts an episode."""
        return "history" in self.events[0].replaced

    @property
    def action(self) -> Action | None:
        """The action that was chosen in the round, whether or not it was executed."""
        chosen = self.update.get("action")
        return Action.model_validate(chosen) if chosen else None

    @property
    def thought(self) -> str:
        """The agent's reasoning before the action of the round."""
        return str(self.update.get("thought", ""))

    @property
    def observation(self) -> Observation | None:
        """The observation after the action, or the first observation of an episode."""
        observation = self.update.get("observation")
        return Observation.model_validate(observation) if observation else None

    @property
    def attempt(self) -> Attempt | None:
        """The attempt at a predicate that was judged in the round; None if there was none."""
        return next((Attempt.model_validate(a) for a in self.update.get("attempts", ())), None)

    @property
    def certificate(self) -> Certificate | None:
        """The certificate of the attempt; None if there was none.

        If a policy accepted the target without certifying it, the field `forced` names the policy.
        """
        return next((Certificate.model_validate(c) for c in self.update.get("certificates", ())), None)

    # As part of a conversation, for formats that are conversations.

    @property
    def shows_nothing(self) -> bool:
        """Whether a conversation leaves the round out: a node of BOOKKEEPING_NODES without a model call or failure."""
        return self.node in BOOKKEEPING_NODES and not self.usage.calls and not self.failed

    @property
    def text(self) -> str:
        """The round as the text of a message: its action if it has one, else its result."""
        if self.failed:
            return f"{self.node} failed."
        if self.resets:
            return f"Episode {self.episode} begins."
        return self.action.text if self.action else "\n".join(_round_lines(self)) or f"{self.node}: nothing."

    @property
    def tool_call(self) -> tuple[str, Arguments] | None:
        """The action as the name and the arguments of a tool, its text among them; None if the round has no action."""
        if not (action := self.action):
            return None
        return "act" if action.kind == "text" else action.kind, {**action.args, "text": action.text}

    @property
    def solved(self) -> list[str]:
        """The ids of the sub-tasks whose outcomes the round recorded."""
        return [str(outcome["node"]) for outcome in self.update.get("outcomes", ())]


def split_rounds(events: Iterable[Event]) -> Iterator[RunRound]:
    """Split the events of a run into rounds, in order; every event is in one of them."""
    episode, state, group = 0, dict[str, Any](), list[Event]()
    aim = _current_aim(state)
    for event in events:
        if group and _starts_round(event) and not _continues_step(group, event):
            yield RunRound(episode, aim, tuple(group))
            group, aim = [], _current_aim(state)
        episode += "history" in event.replaced
        state.update({key: value for key, value in (event.update or {}).items() if key in _AIM_CHANNELS})
        group.append(event)
    if group:
        yield RunRound(episode, aim, tuple(group))


_REVISION_KEYS = frozenset({"revisions", "notes"})
"""What TDP's Self-Revision writes, also where it leaves the task graph as it is."""

_AIM_CHANNELS = frozenset({"plan", "head", "subtask"})


def _current_aim(state: Mapping[str, Any]) -> tuple[str, int]:
    """Determine what the agent is working on: the predicate at the plan's head, else its subtask."""
    plan, head = state.get("plan", ()), state.get("head", 0)
    text = plan[head]["text"] if head < len(plan) else state.get("subtask", {}).get("text", "")
    return text, head


def _starts_round(event: Event) -> bool:
    update = event.update or {}
    assigns = "subtask" in update and "subtasks" not in update  # STEP's Planner; its Evaluator returns both
    openers = ROUND_OPENERS & update.keys() or update.keys() >= _REVISION_KEYS
    return not update or bool(openers) or "history" in event.replaced or assigns


def _continues_step(group: Sequence[Event], event: Event) -> bool:
    """Return whether an event continues the round `group` that started with a factored state (StateFactory).

    Such a round continues up to the action or reward. A failed node is a round of its own.
    """
    first = group[0].update or {}
    reached = any({"rewards", "action"} & (earlier.update or {}).keys() for earlier in group)
    return "factored" in first and "history" not in first and not reached and event.update is not None


# The events of a run by graph: those of the run's graph, and those of each graph inside its nodes.


class GraphEvents(NamedTuple):
    """The events of one inner graph in order; `scope` is its namespace, `subtask` the id of the sub-task it solved."""

    scope: str
    subtask: str
    events: tuple[Event, ...]


class EventsByGraph(NamedTuple):
    """Events of the run's own graph, and events of its inner graphs, in the order in which the inner graphs started."""

    own: tuple[Event, ...]
    inner: tuple[GraphEvents, ...]

    def within(self, scope: str = "") -> list[GraphEvents]:
        """Return the inner graphs directly inside the graph with the namespace `scope`.

        Ids of sub-tasks are unique only within one graph.
        """
        return [part for part in self.inner if part.scope.rpartition("|")[0] == scope]


def split_by_graph(events: Iterable[Event]) -> EventsByGraph:
    """Group the events of a run by graph. In a trajectory the events of graphs that run concurrently are mixed."""
    grouped: dict[tuple[str, str], list[Event]] = {("", ""): []}
    for event in events:
        grouped.setdefault((event.scope, event.subtask), []).append(event)
    own = grouped.pop(("", ""))
    return EventsByGraph(
        tuple(own), tuple(GraphEvents(*key, tuple(events_of_graph)) for key, events_of_graph in grouped.items())
    )


# Rounds as text, for formats that are conversations.


def task_text(task: Task) -> str:
    """Return the goal of a task; if it has no text, the benchmark and id of the task."""
    return task.goal or f"{task.benchmark} {task.id}"


def _round_lines(part: RunRound) -> list[str]:
    update = part.update
    if "trials" in update:
        return [
            f"Episode {one.number} ended after {one.steps} steps: {one.ending}, score {format_score(one.scores.value)}."
            for one in map(Trial.model_validate, update["trials"])
        ]
    if update.get("lessons"):
        lesson = Lesson.model_validate(update["lessons"][-1])
        return list(filter(None, [lesson.report, lesson.reflection, *lesson.insights, *lesson.strategy]))
    if "outcomes" in update:
        return [f"{outcome['node']} {outcome['status']}: {outcome['result']}" for outcome in update["outcomes"]]
    if "dag" in update or update.keys() >= _REVISION_KEYS:
        return list(_task_graph_lines(update))
    if "subtask" in update:
        return [str(update["subtask"]["text"])]
    # a new plan repeats the predicates that are certified already
    conditions = [str(predicate["text"]) for predicate in update.get("plan", ())][part.head :]
    rewards = [f"reward {reward['reward']:.2f}" for reward in update.get("rewards", ())]
    return conditions or rewards or [str(step) for step in update.get("outline", ())]


def _task_graph_lines(update: Mapping[str, Any]) -> Iterator[str]:
    if "dag" not in update:
        yield from map(str, update["notes"] or ["The task graph stays as it is."])
        return
    yield from (f"{id_} {status}" for id_, status in update["dag"].get("statuses", {}).items())
    for node in update["dag"].get("nodes", ()):
        needs = node.get("needs")
        yield f"{node['id']}: {node['task']}" + (f" (needs {', '.join(needs)})" if needs else "")


# Trajectories for other people: without API keys and folders of this machine, in valid Unicode.

_FOLDERS = re.compile(r"(?<![\w:/.~])~?/(?:[^\s/:'\"]+/)+")
_CONTEXT_KEYS = ("model", "roles", "budget", "limits", "trial", "data")


def clean_trajectory(trajectory: Trajectory) -> Trajectory:
    """Return a copy of a run that can be given to other people.

    API keys are masked, lone surrogates (invalid Unicode) are replaced, and paths in the final message are cut to their
    last name.
    """
    # cached, because the same texts recur: a view, its observation, the names of fields
    copy = Trajectory.model_validate(_map_texts(trajectory.model_dump(), cache(_clean_text)))
    footer = copy.footer and copy.footer.model_copy(update={"message": cut_folders(copy.footer.message)})
    return copy.model_copy(update={"footer": footer})


def run_metadata(header: Header) -> dict[str, Any]:
    """Collect method, operators, context and versions from the header of a run, without folders of the machine."""
    context = {key: header.context[key] for key in _CONTEXT_KEYS if header.context.get(key)}
    roles = context.get("roles")
    if isinstance(roles, dict):
        context["roles"] = {role: model_name(str(name)) for role, name in roles.items()}
    about = {"context": context, "versions": header.versions}
    metadata = {"method": method_name(header), "operators": header.operators, **about}
    plain: dict[str, Any] = _map_texts(metadata, cut_folders)
    return plain


def method_name(header: Header) -> str:
    """Return the name of the graph with its swapped operators, as in `sdp validate=always_pass`."""
    return cut_folders(method_of_header(header).name)


def start_time(header: Header) -> datetime:
    """Return the start time of a run.

    Raises:
        Fault: ("data") the time in the header is not a valid ISO date.
    """
    try:
        return datetime.fromisoformat(header.created)
    except ValueError as error:
        problem = f"run {header.run_id} was created {header.created!r}, which is not an ISO date"
        raise Fault("data", f"{problem}; restore its trajectory.jsonl or leave the run out") from error


def cut_folders(text: str) -> str:
    """Cut absolute paths in a text to their last name."""
    return _FOLDERS.sub("", text)


def _clean_text(text: str) -> str:
    return redact(text.encode("utf-16", "surrogatepass").decode("utf-16", "replace"))


def _map_texts(value: Any, change: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return change(value)
    if isinstance(value, dict):
        return {change(key): _map_texts(part, change) for key, part in value.items()}
    return [_map_texts(part, change) for part in value] if isinstance(value, (list, tuple)) else value
