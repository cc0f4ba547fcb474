"""The trajectory of a run: records, reading, folding and serialization."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import Field, JsonValue, TypeAdapter

from certigraph.state.records import (
    INTERRUPTED,
    Fault,
    Record,
    Scores,
    Task,
    Usage,
    growth_of,
    json_value,
    read_bounded_lines,
    read_first_line,
)
from certigraph.state.rewards import AppraisingState, RewardState, TreeState
from certigraph.state.run import ActingState, OutlineState, RunState
from certigraph.state.sdp import SDPState
from certigraph.state.search import HypothesesState
from certigraph.state.step import StepState, TrialState
from certigraph.state.tdp import SubtaskState, TDPState

# The state of every graph by the graph's name, for those who read a trajectory without the graph.

STATES: dict[str, Any] = {
    "sdp": SDPState,
    "step": StepState,
    "react": ActingState,
    "react_reward": AppraisingState,
    "mcts": TreeState,
    "plan_and_solve": OutlineState,
    "reflexion": TrialState,
    "clin": TrialState,
    "pbai": ActingState,
    "ircot": ActingState,
    "memgpt": ActingState,
    "iter_retgen": ActingState,
    "hypotheses": HypothesesState,
    "tdp": TDPState,
    "subtask": SubtaskState,
    "plan_and_act": SubtaskState,
    "cot": SubtaskState,
    "monotonic": RewardState,
    "reward_head": RewardState,
    "reward_judge": RewardState,
    "statefactory": RewardState,
}


def state_type(graph: str) -> Any:
    """The TypedDict of a graph's state; of an unknown graph, what all have."""
    return STATES.get(graph, RunState)


# The state that a run's updates add up to.


class Change(NamedTuple):
    """What one node returned, and which of its keys took the place of what was there."""

    update: Mapping[str, Any]
    replaced: Sequence[str] = ()


def folded_state(graph: str, begun: Mapping[str, Any], changes: Iterable[Change]) -> Any:
    """The state of a graph, from what it began with and what its nodes returned, in order.

    Raises:
        TypeError, ValueError: an update is none of such a graph.
    """
    kind = state_type(graph)
    growth = growth_of(kind)
    folded: dict[str, Any] = {**{name: [] for name in growth.lists}, **begun}
    for change in changes:
        _apply(folded, change, growth.logs)
    return _validator(kind).validate_python(folded)


def _apply(folded: dict[str, Any], change: Change, logs: frozenset[str]) -> None:
    """Fold one change into lists and values of its own: nothing that it holds is changed."""
    growing = logs - {*change.replaced}
    for key, value in change.update.items():
        if key in growing:
            folded[key].extend(value)
        else:
            folded[key] = list(value) if key in logs else value


@lru_cache(maxsize=32)
def _validator(kind: Any) -> TypeAdapter[Any]:
    return TypeAdapter(kind)


# The trajectory of a run: append-only JSONL of a header, one line a node execution, and a footer.
#
# A line that could not be written whole (a crash) is tolerated at the end of the file. After a resume, events that
# ran ahead of the checkpoint are superseded: the reader drops what they did and keeps what they cost. A model call
# has a line of its own before its request is sent; one that no event records, because the run was killed, counts as
# superseded too.

SCHEMA = 5

READABLE = (2, 3, 4, 5)
"""Schemas that can be read. Since 3 there are events of graphs inside nodes, with `scope` and `subtask`; since 4 lines
have numbers, and each model call that begins has a line; since 5 checkpoints name the records by their present modules,
so that only runs of 5 can be resumed.
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


# The lines of trajectory files: a torn last line is tolerated, anything else that is wrong is named.
#
# A line in the file is the JSON of a record with one key more, its `number`, so that lines that are gone are noticed.

LONGEST_LINE = 1 << 26
"""Bytes. A line holds what one node said and was told, which prompts bound far below that."""

_RESTORE = "restore the file, or delete the run (`certigraph delete`) and start it again"

_LINE: TypeAdapter[Line] = TypeAdapter(Annotated[Line, Field(discriminator="type")])


def read_trajectory(path: Path | str) -> Trajectory:
    """Read a trajectory from its file, or from the folder of its run.

    Raises:
        Fault: the file or one of its lines is missing, a line other than the last is not a trajectory line, or one has
            more than 64 MB.
    """
    path = Path(path)
    path = path / "trajectory.jsonl" if path.is_dir() else path
    if not path.is_file():
        raise Fault("data", f"no trajectory at {path}: give the folder of a run, as `certigraph run` printed it")
    try:
        return assembled(read_lines(path))
    except Fault as fault:
        told = str(fault)
        raise Fault(fault.boundary, told if str(path) in told else f"{path}: {told}") from fault


def first_line(path: Path) -> bytes:
    """The first line of a file, its header's, with its newline; nothing where it is longer than any is."""
    return read_first_line(path, LONGEST_LINE)


def read_lines(path: Path) -> Iterator[Line]:
    """The lines of a file in order, without a torn last one. Raises Fault as `read_trajectory` does."""
    expected = 1
    with path.open("rb") as file:
        for row, text in enumerate(read_bounded_lines(file, str(path), LONGEST_LINE, _RESTORE), 1):
            if not text.strip(b"\n"):
                continue
            try:
                number, line = _parse_numbered(text)
            except Fault as error:
                raise Fault(error.boundary, f"{path}: {error}") from None
            except ValueError as error:  # no JSON, no UTF-8 (a character cut in two) or no line of ours
                if not text.endswith(b"\n"):
                    return
                shown = text[:80].decode(errors="replace")
                message = f"{path}:{row}: not a trajectory line ({type(error).__name__}): {shown!r}; {_RESTORE}"
                raise Fault("data", message) from error
            if number is not None and number != expected:
                raise Fault("data", f"{path}:{row}: {_misplaced(number, expected)}; {_RESTORE}")
            expected += 1
            yield line


def with_number(text: str, number: int) -> str:
    """The JSON of a line with its number, from 1."""
    return f'{text[:-1]},"number":{number}}}'


def parse_line(text: str | bytes) -> Line:
    """One line. Raises ValueError when it is none, and Fault when it is the header of another schema's trajectory."""
    return _parse_numbered(text)[1]


def _parse_numbered(text: str | bytes) -> tuple[int | None, Line]:
    """The number of a line, which those of schemas before 4 lack, and the line."""
    plain = json_value(text)
    number = plain.pop("number", None) if isinstance(plain, dict) else None
    if number is not None and type(number) is not int:
        raise ValueError(f"{number!r:.40} is no number of a line")
    if isinstance(plain, dict) and plain.get("type") == "header":
        _check_schema(plain)
    return number, _LINE.validate_python(plain)


def _misplaced(number: int, expected: int) -> str:
    if number < expected:
        return f"line {number} follows line {expected - 1}"
    return f"line {expected} is missing" if number == expected + 1 else f"lines {expected} to {number - 1} are missing"


def _check_schema(header: dict[str, Any]) -> None:
    found, versions = header.get("schema_version", SCHEMA), header.get("versions")
    if found not in READABLE:
        wrote = versions.get("certigraph", "") if isinstance(versions, dict) else ""
        readable = " and ".join(map(str, READABLE))
        told = f"trajectory schema {found!r}, written by certigraph {wrote or 'of an unknown version'}; this one reads"
        raise Fault("data", f"{told} {readable}: read it with the certigraph that wrote it, or start the run anew")
