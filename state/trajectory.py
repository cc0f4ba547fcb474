"""Trajectories of runs: the lines of the file, what they add up to, and the serializer of checkpoints."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from operator import not_
from typing import Any, Literal, NamedTuple

import ormsgpack
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from pydantic import Field, JsonValue

from certigraph.state.endings import INTERRUPTED, Fault
from certigraph.state.graph_states import NodeUpdate, fold_state
from certigraph.state.records import WRITTEN, Record, Scores, Task, Usage, allow_in_checkpoints
from certigraph.state.run import ANSWER_ACTIONS

# The trajectory of a run is append-only JSONL: a header, one line per execution of a node, and a footer.
#
# An incomplete last line (after a crash) is ignored. After a resume, events that are later than the checkpoint are
# superseded: the reader drops their updates and keeps their cost. A question stays open until the run is resumed. A
# model call has a line of its own before its request is sent; a call that no event records, because the run was killed,
# counts as superseded too.

SCHEMA_VERSION = 5
"""Version of the trajectory schema in which lines are written."""

READABLE_SCHEMAS = (2, 3, 4, 5)
"""Versions of the trajectory schema that can be read.

Version 3 added events of graphs inside nodes, with `scope` and `subtask`. Version 4 added line numbers, and a line for
each model call when it starts. Since version 5 checkpoints name records by their present modules, so only runs of
version 5 can be resumed.
"""

UNRECORDED_FAILURE = "the run was stopped before the answer was recorded"
"""Failure of a model call that was started but whose result no event records."""


class Header(Record):
    """First line of a trajectory: what was run. With the run's local settings it is enough to build the run again."""

    type: Literal["header"] = "header"
    schema_version: int = SCHEMA_VERSION
    run_id: str
    created: str
    graph: str
    operators: dict[str, JsonValue]
    task: Task
    context: dict[str, JsonValue]
    versions: dict[str, str]
    method: str = Field(default="", exclude_if=not_)
    """Method of which a user's own graph is one; empty for certigraph's graphs, and for graphs of another form."""
    own_operators: dict[str, JsonValue] = Field(default_factory=dict, exclude_if=not_)
    """Operators that a user's own graph has by itself, and its method by default has not, by slot."""

    @property
    def all_operators(self) -> dict[str, JsonValue]:
        """Operators of the run as far as the header knows them, those that an own graph has by itself included."""
        return {**self.own_operators, **self.operators}

    @property
    def trial(self) -> int:
        """Number of the run among the repetitions of its task, from 0."""
        trial = self.context.get("trial", 0)
        return trial if isinstance(trial, int) else 0


class CallStarted(Record):
    """A request that is about to be sent to a model endpoint.

    The event that has this `id` in its `calls` records the result. A call without such an event still counts; all that
    is known about it is `input_tokens`, an estimate of the prompt's length, and the cost of that in `usd`.
    """

    type: Literal["call_begun"] = "call_begun"
    id: int = 0
    """Number of the call in its run, from 1."""
    t: float = 0.0
    superstep: int = 0
    node: str
    scope: str = ""
    subtask: str = ""
    role: str = ""
    model: str = ""
    schema_name: str = ""
    input_tokens: int = 0
    usd: float = 0.0


class Event(Record):
    """One execution of a graph node: its cost, its model calls, and its update of the state.

    `t` and `usage.seconds` are wall-clock seconds; `t` is counted from the start of the run or of its latest resume.
    """

    type: Literal["event"] = "event"
    t: float
    superstep: int
    node: str
    usage: Usage
    calls: list[dict[str, JsonValue]] = Field(default_factory=list)
    update: dict[str, JsonValue] | None = None
    """The update of the state; None if the node raised. A node that raised changed nothing, but its cost counts."""
    replaced: list[str] = Field(default_factory=list)
    """Names of logs that the update replaces instead of extending, because a new episode began."""
    repeated: int = 0
    """Number of steps that `history` begins with and the update leaves out, because earlier lines have them."""
    scope: str = ""
    """Namespace of the graph inside a node to which the executed node belongs; empty for the run's outermost graph."""
    subtask: str = ""
    """Id of the sub-task of the task graph on which that inner graph worked."""

    @property
    def prompts(self) -> list[int]:
        """Lines of the run's `prompts.jsonl` that have the event's model calls; empty if the run keeps none."""
        return [number for call in self.calls if isinstance(number := call.get("prompt"), int)]


class Resumed(Record):
    """The run was resumed from the checkpoint of `superstep`.

    Events before this line that are later than that checkpoint are superseded: their work is done again.
    """

    type: Literal["resumed"] = "resumed"
    superstep: int
    scopes: dict[str, int] = Field(default_factory=dict)
    """Supersteps of the latest checkpoints of graphs inside nodes, by namespace of the graph."""
    answers: dict[str, JsonValue] = Field(default_factory=dict)
    """Answers to the run's open questions, by id of the question."""
    waited: bool = False
    """Whether the run had stopped at a question, so that nodes which ran parallel to it are finished too."""

    def keeps(self, event: Event) -> bool:
        """Return whether the checkpoints from which the run was resumed contain an event before this line."""
        latest = self.scopes.get(event.scope, -1) if event.scope else self.superstep
        return event.superstep <= latest + self.waited and event.update is not None


class Question(Record):
    """A question that the graph put to a person (`interrupt`). The run waits until it is resumed with an answer."""

    type: Literal["question"] = "question"
    id: str
    """LangGraph's id of the interrupt."""
    value: JsonValue
    """What the graph handed to `interrupt`."""
    node: str = ""


class AnsweredQuestion(Record):
    """A question to a person and the answer that was given."""

    question: Question
    answer: JsonValue


class Footer(Record):
    """Last line of a trajectory: how the run ended. A resumed run may have several footers; the last one counts."""

    type: Literal["footer"] = "footer"
    ending: str
    message: str = ""
    scores: Scores | None = None
    usage: Usage


class CutPrompt(NamedTuple):
    """A model call whose prompt did not fit into the model's context window, so that parts were left out."""

    node: str
    role: str
    superstep: int
    subtask: str
    """Id of the sub-task on which the node worked; empty outside a task graph."""
    left_out: tuple[str, ...]
    """What was left out, such as `the oldest 10 of 60 turns`."""
    window: int
    """Tokens of the context window; 0 if an earlier version of certigraph recorded the call."""


def find_cut_prompts(events: Iterable[Event]) -> list[CutPrompt]:
    """Return the calls of some events whose prompts were cut, in order."""
    found = []
    for event in events:
        for call in event.calls:
            cut, window = call.get("cut"), call.get("window")
            if isinstance(cut, list) and cut:
                size = window if isinstance(window, int) else 0
                place = (event.node, str(call.get("role", "")), event.superstep, event.subtask)
                found.append(CutPrompt(*place, tuple(map(str, cut)), size))
    return found


class EmptyCalls(NamedTuple):
    """Model calls that brought no information, by reason; each call counts once.

    What the world answers to an action that it took is information, also if nothing came of the action. Work that was
    repeated after a crash does not count.
    """

    verdicts: int = 0
    """Judgements that left everything as it was.

    These are a verdict that finds the target unmet and tells nothing else (no new fact, no outdated one, no closed
    way), a subtask that stays open, an action that is allowed, certified predicates that all still hold, a task graph
    that stays as it is, and progress without any news: no further step of the plan is done, and the advice is what it
    was before or a step of the plan.
    """
    chains: int = 0
    """Choices that were made again although actions chosen before were still to be taken: the world refused the name of
    an action, or does not list it, so that the rest of the chain was dropped.

    A chain that ends at an action without effect, at a loss of points or at a condition that did not come true ends by
    what the world answered, and is not counted.
    """
    questions: int = 0
    """Questions which thing, or which of the world's actions, a written action means."""
    ended: int = 0
    """Calls after the world had ended, except for what is due then: a verdict that tells something, the judgement of an
    answer that was handed in, an audit, and lessons for the next episode."""
    requests: int = 0
    """Requests that failed, or were repeated because their answer could not be used."""

    @property
    def total(self) -> int:
        """Number of these calls."""
        return sum(self)


NEWS = ("depth", "facts", "outdated", "unreachable", "exhausted", "finding", "forced")
"""Fields of a verdict that tell something where they differ from their defaults."""

CHOICE_FORM, MEANING_FORM = "choice", "Meaning"
"""Names of the answer schemas of a choice from a list, and of ReAct's question which action was meant."""


class EmptyCallCounter:
    """Counter of the model calls that brought no information, computed from the events of a run as they arrive."""

    def __init__(self) -> None:
        self._counts = Counter[str]()
        self._places = defaultdict[str, _Place](_Place)

    @property
    def empty(self) -> EmptyCalls:
        """The calls so far."""
        return EmptyCalls(**self._counts)

    def fold(self, event: Event) -> None:
        """Update with one event of the run, or of a graph inside one of its nodes."""
        answered = [call for call in event.calls if not call.get("failure")]
        place, update = self._places[event.scope], event.update
        self._counts["requests"] += len(event.calls) - len(answered)
        if update is not None:
            if answered:
                self._counts.update(place.count_empty(event.node, update, answered))
            place.advance(update)


def count_empty_calls(events: Iterable[Event]) -> EmptyCalls:
    """Count the model calls of a run, of graphs inside its nodes too, that brought no information."""
    counter = EmptyCallCounter()
    for event in events:
        counter.fold(event)
    return counter.empty


@dataclass
class _Place:
    """What is known of one graph of a run when its next event arrives, as far as it decides what a call is worth."""

    upcoming: Sequence[Mapping[str, Any]] = ()
    observation: Mapping[str, Any] = field(default_factory=dict)
    handed_in: bool = False
    outline: Sequence[str] = ()
    progress: Mapping[str, Any] = field(default_factory=dict)

    def advance(self, update: Mapping[str, Any]) -> None:
        """Update with what a node returned."""
        self.upcoming = update.get("upcoming", self.upcoming)
        self.observation = _record(update, "observation") or self.observation
        self.outline = update.get("outline", self.outline)
        self.progress = _record(update, "progress") if "progress" in update else self.progress
        for step in update.get("history", ())[-1:]:
            self.handed_in = _record(step, "action").get("kind") in ANSWER_ACTIONS

    def count_empty(self, node: str, update: Mapping[str, Any], calls: Sequence[Mapping[str, Any]]) -> dict[str, int]:
        """Count by reason which calls of a node brought no information, given the update that came of them."""
        if self.observation.get("done") and not self._is_due(update):
            return {"ended": len(calls)}
        if "action" in update and "history" not in update:
            choosing = [call for call in calls if call.get("role") == "executor"]
            questions = self._count_questions(_record(update, "action"), choosing)
            return {"questions": questions, "chains": int(bool(self.upcoming) and questions < len(choosing))}
        return {"verdicts": len(calls)} if self._leaves_all_as_it_was(node, update) else {}

    def _is_due(self, update: Mapping[str, Any]) -> bool:
        verdicts = [attempt["verdict"] for attempt in update.get("attempts", ())]
        if any(map(_tells, verdicts)) or not update.keys().isdisjoint(("audits", "lessons")):
            return True
        return self.handed_in and not update.keys().isdisjoint(("attempts", "subtasks", "progress"))

    def _count_questions(self, action: Mapping[str, Any], calls: Sequence[Mapping[str, Any]]) -> int:
        """Count the calls that asked what an action means, among those that led to the choice of an action.

        After a refused action of which none of the offered meanings was meant, the last of them chose another action.
        """
        forms = [call.get("schema_name") for call in calls]
        meanings, choices = forms.count(MEANING_FORM), forms.count(CHOICE_FORM)
        options = self.observation.get("data", {}).get("options", ())
        if action.get("args", {}).get(WRITTEN) or action.get("text") in options:
            return meanings + choices
        refused = not self.observation.get("accepted", True)
        return meanings + (choices - (choices == len(calls)) if refused else 0)

    def _leaves_all_as_it_was(self, node: str, update: Mapping[str, Any]) -> bool:
        if attempts := update.get("attempts"):
            return not any(_tells(attempt["verdict"]) for attempt in attempts)
        if "approval" in update:
            return bool(_record(update, "approval").get("approved", True))
        if "subtasks" in update:
            return bool(_record(update, "subtask").get("status", "open") == "open")
        if "progress" in update:
            return self._repeats(_record(update, "progress"))
        if node == "revalidate":
            return not update.get("invalidations")
        return node == "revise" and not update.get("dag")

    def _repeats(self, progress: Mapping[str, Any]) -> bool:
        if progress.get("status", "needs_more_steps") != "needs_more_steps" or progress.get("off_plan"):
            return False
        known = {"", *map(_plain, (self.progress.get("guidance", ""), *self.outline))}
        goes_on = progress.get("done", 0) > self.progress.get("done", 0)
        return not goes_on and _plain(progress.get("guidance", "")) in known


def _record(update: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    """Return a record of an update; an empty one if a user's own graph has another value under its key."""
    value = update.get(key)
    return value if isinstance(value, Mapping) else {}


def _tells(verdict: Mapping[str, Any]) -> bool:
    return any(verdict.get(name) for name in NEWS)


def _plain(text: str) -> str:
    return " ".join(text.lower().split()).rstrip(".")


TrajectoryLine = Header | CallStarted | Event | Question | Resumed | Footer
"""Any line of a trajectory."""


class Trajectory(Record):
    """A run as read from its trajectory file."""

    header: Header
    events: list[Event]
    superseded: list[Event] = Field(default_factory=list)
    """Work that counts only as cost: executions that a resume repeated, and model calls without a recorded result."""
    footer: Footer | None = None
    resumes: int = 0
    """How often the run was resumed."""
    resumed_after: int = 0
    """Number of events that the latest resume kept."""
    questions: list[Question] = Field(default_factory=list)
    """The questions for whose answers the run waits."""
    answered: list[AnsweredQuestion] = Field(default_factory=list)
    """The questions that were answered, in order. After an answer that could not be used the question comes again."""

    @property
    def ending(self) -> str:
        """The run's ending; `interrupted` while none is recorded."""
        return self.footer.ending if self.footer else INTERRUPTED

    @property
    def usage(self) -> Usage:
        """Cost of the run, including superseded work, which was done again after a resume."""
        return total_usage(e.usage for e in [*self.events, *self.superseded])

    @property
    def cut_prompts(self) -> list[CutPrompt]:
        """The calls whose prompts were cut to the model's context window; superseded ones last."""
        return find_cut_prompts([*self.events, *self.superseded])

    @property
    def unpriced_calls(self) -> int:
        """Number of calls of models whose price is unknown; `usage.usd` lacks their cost."""
        return sum(bool(call.get("unpriced")) for event in [*self.events, *self.superseded] for call in event.calls)

    def state(self) -> Any:
        """Compute the final graph state from the events. Its type is found by the name of the graph.

        Raises:
            Fault: ("data") an update does not fit that type.
        """
        successful = [event for event in self.events if event.update is not None]
        changes = [NodeUpdate(event.update or {}, event.replaced) for event in successful if not event.scope]
        usage = [event.usage for event in successful]
        try:
            state = fold_state(self.header.graph, {"task": self.header.task.as_json(), "usage": usage}, changes)
        except (TypeError, ValueError) as error:
            problem = f"the updates of run {self.header.run_id} do not fit the state of {self.header.graph}"
            message = f"{problem} ({error!s:.200}): restore its trajectory or start a new run"
            raise Fault("data", " ".join(message.split())) from error
        return {**state, "spent": total_usage(usage).spent()}


def assemble_trajectory(lines: Iterable[TrajectoryLine]) -> Trajectory:
    """Combine lines into a trajectory. Of several footers the last one counts.

    Events whose work was done again after a resume become the trajectory's `superseded` events.

    Raises:
        Fault: ("data") there is no header.
    """
    header, footer = None, None
    events: list[Event] = []
    superseded: list[Event] = []
    started: dict[int, CallStarted] = {}
    questions: list[Question] = []
    answered: list[AnsweredQuestion] = []
    resumes = resumed_after = 0
    for line in lines:
        match line:
            case Header():
                header = line
            case CallStarted():
                started[line.id] = line
            case Event():
                events.append(line)
                for id_ in recorded_call_ids(line):
                    started.pop(id_, None)
            case Question():
                questions.append(line)
            case Footer():
                footer, questions = line, []
            case Resumed():
                superseded += [*(e for e in events if not line.keeps(e)), *_unrecorded_events(started.values())]
                events = [e for e in events if line.keeps(e)]
                given = line.answers
                answered += [AnsweredQuestion(question=q, answer=given[q.id]) for q in questions if q.id in given]
                started, footer, questions = {}, None, []
                resumes, resumed_after = resumes + 1, len(events)
    if header is None:
        raise Fault("data", "the trajectory has no header line: its run was stopped before it started; start it again")
    superseded += _unrecorded_events(started.values())
    run = Trajectory(header=header, events=events, superseded=superseded, footer=footer, questions=questions)
    return run.model_copy(update={"answered": answered, "resumes": resumes, "resumed_after": resumed_after})


def recorded_call_ids(event: Event) -> list[int]:
    """Return the ids of the event's model calls that were announced by a `CallStarted` line."""
    return [id_ for call in event.calls if isinstance(id_ := call.get("id"), int)]


def _unrecorded_events(started: Iterable[CallStarted]) -> list[Event]:
    """Return one event for each model call that was started but whose result no event records."""
    return [
        Event(
            t=call.t,
            superstep=call.superstep,
            node=call.node,
            usage=Usage(node=call.node, calls=1, input_tokens=call.input_tokens, usd=call.usd),
            calls=[
                {
                    **call.model_dump(include={"id", "role", "model", "schema_name", "input_tokens", "usd"}),
                    "failure": UNRECORDED_FAILURE,
                }
            ],
            scope=call.scope,
            subtask=call.subtask,
        )
        for call in started
    ]


def total_usage(usages: Iterable[Usage], node: str = "all") -> Usage:
    """Return the sum of several usages, under the name `node`."""
    sums = {name: 0.0 for name in Usage.model_fields if name != "node"}
    for usage in usages:
        for name in sums:
            sums[name] += getattr(usage, name)
    sums["seconds"] = round(sums["seconds"], 6)  # as `Spent` adds them
    return Usage.model_validate({"node": node, **sums})


# Serialization of records in checkpoints.


class TupleSerializer(JsonPlusSerializer):
    """LangGraph's serializer, extended so that tuples in channels are restored; msgpack alone returns lists.

    A record that stays in its channel from one checkpoint to the next is encoded once.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._encoded: dict[str, tuple[Record, ormsgpack.Fragment]] = {}

    def dumps_typed(self, obj: Any) -> tuple[str, bytes]:
        """Serialize a checkpoint or the value of one channel."""
        if isinstance(obj, dict) and "channel_values" in obj:
            channels = obj["channel_values"]
            obj = {**obj, "channel_values": {name: self._encode(name, value) for name, value in channels.items()}}
        return super().dumps_typed(_mark_tuple(obj))

    def _encode(self, channel: str, value: Any) -> Any:
        if not isinstance(value, Record):
            return _mark_tuple(value)
        known = self._encoded.get(channel)
        if known is None or known[0] is not value:
            known = self._encoded[channel] = value, ormsgpack.Fragment(super().dumps_typed(value)[1])
        return known[1]


def serializer(*types: type[Any]) -> JsonPlusSerializer:
    """Return a checkpoint serializer that restores all record types defined so far and refuses other classes.

    A checkpoint saver of your own needs it: `SqliteSaver(connection, serde=serializer())`.

    Args:
        *types: classes of your own that are restored too, such as an agent's `response_format`.
    """
    allowed = [(kind.__module__, kind.__name__) for kind in (*_subclasses_of(Record), *types)]
    return TupleSerializer(allowed_msgpack_modules=[*allowed, (__name__, tuple_of.__name__)])


def tuple_of(items: list[Any]) -> tuple[Any, ...]:
    """Rebuild a tuple from a list. A checkpoint stores a tuple as a call of this function."""
    return tuple(items)


allow_in_checkpoints(__name__, tuple_of.__name__)


@dataclass
class _TupleMarker:
    """A tuple that is stored as a call of `tuple_of`.

    LangGraph stores a dataclass as its class name and its fields; the name of this class is therefore `tuple_of`.
    """

    items: list[Any]


_TupleMarker.__name__ = tuple_of.__name__


def _mark_tuple(value: Any) -> Any:
    return _TupleMarker(list(value)) if type(value) is tuple else value


def _subclasses_of(parent: type[Record]) -> Iterator[type[Record]]:
    for child in parent.__subclasses__():
        yield child
        yield from _subclasses_of(child)
