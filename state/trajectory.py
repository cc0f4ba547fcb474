"""The trajectory of a run: append-only JSONL of a header, one line a node execution, and a footer.

A line that could not be written whole (a crash) is tolerated at the end of the file. After a resume, events that ran
ahead of the checkpoint are superseded: the reader drops what they did and keeps what they cost. A model call has a line
of its own before its request is sent; one that no event records, because the run was killed, counts as superseded too.
"""

from collections.abc import Iterable
from typing import Any, Literal

from pydantic import Field, JsonValue

from certigraph.state.endings import INTERRUPTED, Fault
from certigraph.state.folding import Change, folded_state
from certigraph.state.records import Record, Scores, Task, Usage

SCHEMA = 4

READABLE = (2, 3, 4)
"""Schemas that can be read. Since 3 there are events of graphs inside nodes, with `scope` and `subtask`; since 4 lines
have numbers, and each model call that begins has a line.
"""

UNRECORDED = "the run was stopped before the answer was recorded"
"""Failure of a call that began and that no event records."""


class Header(Record):
    """What the run was: enough to tell it from others and, with its local settings, to build it again."""

    type: Literal["header"] = "header"
    schema_version: int = SCHEMA
    run_id: str
    created: str
    graph: str
    operators: dict[str, JsonValue]
    task: Task
    context: dict[str, JsonValue]
    versions: dict[str, str]


class CallBegun(Record):
    """A request that is about to be sent to a model endpoint. The event whose `calls` have its `id` records the call.

    Without such an event the call still counts. `input_tokens` and `usd` are then all that is known of it: an estimate
    of the prompt's length, and what that costs.
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
    """One execution of a node. `t` and `seconds` are wall-clock seconds, `t` since the run (or its resume) began."""

    type: Literal["event"] = "event"
    t: float
    superstep: int
    node: str
    usage: Usage
    calls: list[dict[str, JsonValue]] = Field(default_factory=list)
    update: dict[str, JsonValue] | None = None
    """None when the node raised: it changed nothing but what it spent."""
    replaced: list[str] = Field(default_factory=list)
    """Logs that the update begins anew instead of adding to: a new episode's."""
    scope: str = ""
    """Namespace of the inner graph that the node is of; empty for those of the run's own graph."""
    subtask: str = ""
    """Id of the node of a task graph that the inner graph solved."""


class Resumed(Record):
    """The run went on from the checkpoint of `superstep`; later events before this line are superseded."""

    type: Literal["resumed"] = "resumed"
    superstep: int
    scopes: dict[str, int] = Field(default_factory=dict)
    """The same of inner graphs, by namespace."""

    def keeps(self, event: Event) -> bool:
        """Whether an event before this line is in the checkpoints that the run went on from."""
        latest = self.scopes.get(event.scope, -1) if event.scope else self.superstep
        return event.superstep <= latest and event.update is not None


class Footer(Record):
    """How the run ended. A resumed run may have several; the last one counts."""

    type: Literal["footer"] = "footer"
    ending: str
    message: str = ""
    scores: Scores | None = None
    usage: Usage


Line = Header | CallBegun | Event | Resumed | Footer


class Trajectory(Record):
    """A run as read from its file."""

    header: Header
    events: list[Event]
    superseded: list[Event] = Field(default_factory=list)
    """Executions that no checkpoint holds, and the calls that began and that no execution recorded."""
    footer: Footer | None = None
    resumes: int = 0
    """How often the run was gone on with."""

    @property
    def ending(self) -> str:
        """How the run ended; INTERRUPTED while it has no ending on record."""
        return self.footer.ending if self.footer else INTERRUPTED

    @property
    def usage(self) -> Usage:
        """Everything the run cost, superseded work included: it was paid."""
        return total(e.usage for e in [*self.events, *self.superseded])

    def state(self) -> Any:
        """The graph state that the events add up to, of the type that the graph's name stands for.

        Raises:
            Fault: ("data") an update is none of such a graph.
        """
        certain = [event for event in self.events if event.update is not None]
        changes = [Change(event.update or {}, event.replaced) for event in certain if not event.scope]
        usage = [event.usage for event in certain]
        try:
            state = folded_state(self.header.graph, {"task": self.header.task.as_json(), "usage": usage}, changes)
        except (TypeError, ValueError) as error:
            told = f"the updates of run {self.header.run_id} make no state of {self.header.graph} ({error!s:.200})"
            raise Fault("data", f"{' '.join(told.split())}: restore its trajectory or start the run anew") from error
        return {**state, "spent": total(usage).spent()}


def assembled(lines: Iterable[Line]) -> Trajectory:
    """Put lines together: the latest footer, and events without the superseded ones."""
    header, footer = None, None
    events: list[Event] = []
    superseded: list[Event] = []
    begun: dict[int, CallBegun] = {}
    resumes = 0
    for line in lines:
        match line:
            case Header():
                header = line
            case CallBegun():
                begun[line.id] = line
            case Event():
                events.append(line)
                for id_ in recorded_ids(line):
                    begun.pop(id_, None)
            case Footer():
                footer = line
            case Resumed():
                superseded += [*(e for e in events if not line.keeps(e)), *_unrecorded(begun.values())]
                events = [e for e in events if line.keeps(e)]
                begun, footer = {}, None
                resumes += 1
    if header is None:
        raise Fault("data", "the trajectory has no header line: its run stopped before it began; start it again")
    superseded += _unrecorded(begun.values())
    return Trajectory(header=header, events=events, superseded=superseded, footer=footer, resumes=resumes)


def recorded_ids(event: Event) -> list[int]:
    """The ids of the event's calls that had a line of their own before."""
    return [id_ for call in event.calls if isinstance(id_ := call.get("id"), int)]


def _unrecorded(begun: Iterable[CallBegun]) -> list[Event]:
    """One event for each call that began and that no event records."""
    return [
        Event(
            t=call.t,
            superstep=call.superstep,
            node=call.node,
            usage=Usage(node=call.node, calls=1, input_tokens=call.input_tokens, usd=call.usd),
            calls=[
                {
                    **call.model_dump(include={"id", "role", "model", "schema_name", "input_tokens", "usd"}),
                    "failure": UNRECORDED,
                }
            ],
            scope=call.scope,
            subtask=call.subtask,
        )
        for call in begun
    ]


def total(usages: Iterable[Usage], node: str = "all") -> Usage:
    """The sum of several usages under one name."""
    sums = {name: 0.0 for name in Usage.model_fields if name != "node"}
    for usage in usages:
        for name in sums:
            sums[name] += getattr(usage, name)
    return Usage.model_validate({"node": node, **sums})
