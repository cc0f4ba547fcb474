"""Runs cut into rounds for exports."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import cache, cached_property
from typing import Any, NamedTuple

from certigraph.adapters.redaction import redact
from certigraph.evaluation.frames import method_of
from certigraph.runtime.registry import model_name
from certigraph.state.records import Action, Arguments, Attempt, Certificate, Fault, Observation, Task, Usage
from certigraph.state.step import Lesson, Trial
from certigraph.state.trajectory import Event, Header, Trajectory, total

# A run cut into rounds: an action with all that was said about it, or one node's work that is no action.

OPENING = frozenset({"action", "plan", "outline", "trials", "lessons", "dag", "outcomes", "factored", "rewards"})
"""What a node returns that begins a round; those that judge an action return none of it."""


class Round:
    """Consecutive events of one purpose.

    `episode` counts from 1; `target` is what the agent worked for, in words: the predicate at the head of the plan, or
    a subtask; empty where it had none. `head` counts the predicates of the plan that were certified or let pass.
    """

    def __init__(self, episode: int, aim: "_Aim", events: tuple[Event, ...]) -> None:
        self.episode, self.events = episode, events
        self.target, self.head = aim

    @cached_property
    def update(self) -> Mapping[str, Any]:
        """What its nodes returned, together."""
        return {key: value for event in self.events for key, value in (event.update or {}).items()}

    @property
    def node(self) -> str:
        """The node that began it."""
        return self.events[0].node

    @property
    def failed(self) -> bool:
        """Whether its node raised: it cost something and changed nothing."""
        return self.events[0].update is None

    @property
    def usage(self) -> Usage:
        """What it cost."""
        return total(event.usage for event in self.events)

    @property
    def resets(self) -> bool:
        """Whether an episode begins here."""
        return "history" in self.events[0].replaced

    @property
    def action(self) -> Action | None:
        """The action that was chosen, whether or not the world came to take it."""
        chosen = self.update.get("action")
        return Action.model_validate(chosen) if chosen else None

    @property
    def thought(self) -> str:
        """The thought behind the action."""
        return str(self.update.get("thought", ""))

    @property
    def observation(self) -> Observation | None:
        """What the world answered, or showed at the beginning of an episode."""
        answered = self.update.get("observation")
        return Observation.model_validate(answered) if answered else None

    @property
    def attempt(self) -> Attempt | None:
        """The judged attempt at a predicate."""
        return next((Attempt.model_validate(a) for a in self.update.get("attempts", ())), None)

    @property
    def certificate(self) -> Certificate | None:
        """The certificate that the attempt earned; one that a policy `forced` says so."""
        return next((Certificate.model_validate(c) for c in self.update.get("certificates", ())), None)


def rounds(events: Iterable[Event]) -> Iterator[Round]:
    """The rounds of a run in order; every event is in one of them."""
    episode, state, group = 0, dict[str, Any](), list[Event]()
    aim = _aim(state)
    for event in events:
        if group and _begins(event) and not _goes_on(group, event):
            yield Round(episode, aim, tuple(group))
            group, aim = [], _aim(state)
        episode += "history" in event.replaced
        state.update({key: value for key, value in (event.update or {}).items() if key in _AIMING})
        group.append(event)
    if group:
        yield Round(episode, aim, tuple(group))


class _Aim(NamedTuple):
    target: str
    head: int


_AIMING = frozenset({"plan", "head", "subtask"})


def _aim(state: Mapping[str, Any]) -> _Aim:
    """What the agent works for, by the latest values of the channels that say it."""
    plan, head = state.get("plan", ()), state.get("head", 0)
    text = plan[head]["text"] if head < len(plan) else state.get("subtask", {}).get("text", "")
    return _Aim(text, head)


def _begins(event: Event) -> bool:
    update = event.update or {}
    assigns = "subtask" in update and "subtasks" not in update  # STEP's Planner; its Evaluator returns both
    return not update or bool(OPENING & update.keys()) or "history" in event.replaced or assigns


def _goes_on(group: Sequence[Event], event: Event) -> bool:
    """Whether what began with the world's state goes on, up to the action or reward; what fails is its own round."""
    began = group[0].update or {}
    reached = any({"rewards", "action"} & (earlier.update or {}).keys() for earlier in group)
    return "factored" in began and "history" not in began and not reached and event.update is not None


# A run with graphs inside its nodes, taken apart: every inner graph's events by themselves, and the run's own.


class Part(NamedTuple):
    """The events of one graph in order; `scope` is its namespace and `subtask` the node that it solved."""

    scope: str
    subtask: str
    events: tuple[Event, ...]


class Parts(NamedTuple):
    """The run's own events, and those of its inner graphs in the order in which these began."""

    own: tuple[Event, ...]
    inner: tuple[Part, ...]

    def within(self, scope: str = "") -> list[Part]:
        """The graphs right inside that one; a node of theirs may have the id of one of its own."""
        return [part for part in self.inner if part.scope.rpartition("|")[0] == scope]


def parts_of(events: Iterable[Event]) -> Parts:
    """Take the events of a run apart. Graphs that ran at the same time are mixed in a trajectory."""
    grouped: dict[tuple[str, str], list[Event]] = {("", ""): []}
    for event in events:
        grouped.setdefault((event.scope, event.subtask), []).append(event)
    own = grouped.pop(("", ""))
    return Parts(tuple(own), tuple(Part(*place, tuple(found)) for place, found in grouped.items()))


def solved_in(part: Round) -> list[str]:
    """The sub-tasks whose outcomes a round of the run's own graph brought."""
    return [str(outcome["node"]) for outcome in part.update.get("outcomes", ())]


# A round in words, for formats that are conversations.

BOOKS = ("begin", "recall", "gather")
"""Nodes that only keep books, unless they ask a model."""


def asked(task: Task) -> str:
    """What the user wants."""
    return task.goal or f"{task.benchmark} {task.id}"


def silent(part: Round) -> bool:
    """Whether a round only kept books."""
    return part.node in BOOKS and not part.usage.calls and not part.failed


def told(part: Round) -> str:
    """What the agent said in a round, or what happened in it."""
    if part.failed:
        return f"{part.node} failed."
    if part.resets:
        return f"Episode {part.episode} begins."
    return part.action.text if part.action else "\n".join(_lines(part)) or f"{part.node}: nothing."


def tool_name(action: Action) -> str:
    """The name under which an action is a tool call."""
    return "act" if action.kind == "text" else action.kind


def tool_arguments(action: Action) -> Arguments:
    """The arguments of that call: the action's own, and its text."""
    return {**action.args, "text": action.text}


def _lines(part: Round) -> list[str]:
    update = part.update
    if "trials" in update:
        return [_ended(Trial.model_validate(trial)) for trial in update["trials"]]
    if update.get("lessons"):
        return [_taught(Lesson.model_validate(update["lessons"][-1]))]
    if "outcomes" in update:
        return [f"{outcome['node']} {outcome['status']}: {outcome['result']}" for outcome in update["outcomes"]]
    if "dag" in update:
        return [_node(node) for node in update["dag"].get("nodes", ())]
    if "subtask" in update:
        return [str(update["subtask"]["text"])]
    # a new plan repeats what is certified already
    conditions = [str(predicate["text"]) for predicate in update.get("plan", ())][part.head :]
    rated = [f"reward {one['reward']:.2f}" for one in update.get("rewards", ())]
    return conditions or rated or [str(step) for step in update.get("outline", ())]


def _node(node: Mapping[str, Any]) -> str:
    needs = node.get("needs")
    return f"{node['id']}: {node['task']}" + (f" (needs {', '.join(needs)})" if needs else "")


def _ended(trial: Trial) -> str:
    return f"Episode {trial.number} ended after {trial.steps} steps: {trial.ending}, score {trial.scores.value:g}."


def _taught(lesson: Lesson) -> str:
    return "\n".join(filter(None, [lesson.report, lesson.reflection, *lesson.insights, *lesson.strategy]))


# A trajectory as it may leave the house: without keys, without folders of this machine, in valid Unicode.

_FOLDERS = re.compile(r"(?<![\w:/.~])~?/(?:[^\s/:'\"]+/)+")
_CONTEXT = ("model", "roles", "budget", "limits", "trial", "data")


def cleaned(trajectory: Trajectory) -> Trajectory:
    """The same run with keys masked, lone surrogates replaced, and of a path in a message the last name alone."""
    # the same texts come again and again: a view, its observation, the names of fields
    copy = Trajectory.model_validate(_plain(trajectory.model_dump(), cache(_valid)))
    footer = copy.footer and copy.footer.model_copy(update={"message": without_folders(copy.footer.message)})
    return copy.model_copy(update={"footer": footer})


def circumstances(header: Header) -> dict[str, Any]:
    """What a header says of method, operators, context and versions, without the folders of the machine it ran on."""
    context = {key: header.context[key] for key in _CONTEXT if header.context.get(key)}
    roles = context.get("roles")
    if isinstance(roles, dict):
        context["roles"] = {role: model_name(str(name)) for role, name in roles.items()}
    about = {"context": context, "versions": header.versions}
    told = {"method": method_name(header), "operators": header.operators, **about}
    plain: dict[str, Any] = _plain(told, without_folders)
    return plain


def method_name(header: Header) -> str:
    """The graph with what is swapped in it, as in `sdp validate=always_pass`."""
    return without_folders(str(method_of(header)))


def started(header: Header) -> datetime:
    """When the run began. Raises Fault where the header holds no ISO date."""
    try:
        return datetime.fromisoformat(header.created)
    except ValueError as error:
        told = f"run {header.run_id} was created {header.created!r}, which is no ISO date"
        raise Fault("data", f"{told}; restore its trajectory.jsonl or leave the run out") from error


def without_folders(text: str) -> str:
    """The text with absolute paths cut to their last name."""
    return _FOLDERS.sub("", text)


def _valid(text: str) -> str:
    return redact(text.encode("utf-16", "surrogatepass").decode("utf-16", "replace"))


def _plain(value: Any, change: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return change(value)
    if isinstance(value, dict):
        return {change(key): _plain(part, change) for key, part in value.items()}
    return [_plain(part, change) for part in value] if isinstance(value, (list, tuple)) else value
