"""Records that every method shares, endings and exceptions, channel types of graph state, and bounded reading of JSON.

Everything that a run stores (a trajectory, a checkpoint) is built from these records. They are frozen pydantic models
that refuse unknown fields.
"""

import hashlib
import json
import os
from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import IO, Annotated, Any, Literal, NamedTuple, TypeVar, get_type_hints

from langgraph.channels import DeltaChannel
from pydantic import BaseModel, ConfigDict, Field, JsonValue

Arguments = dict[str, JsonValue]
"""Arguments of an action or a predicate: JSON values by name."""

RESTORE = "restore"
"""Kind of the predicate "the world is back in certified state number `to`"; its certificate returns to that state."""


class Record(BaseModel):
    """Base class of everything that is stored: immutable, and unknown fields are refused."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    def as_json(self) -> dict[str, Any]:
        """Return plain JSON values without the fields that have their default, so that a stored line stays short."""
        return self.model_dump(mode="json", exclude_defaults=True)


class Task(Record):
    """What an agent has to do: a goal in words and the constants that come with it."""

    benchmark: str
    id: str
    goal: str = ""
    condition: str = ""
    """The goal written as a condition that can be checked; empty where `goal` is such a condition already."""
    constants: Arguments = Field(default_factory=dict)


class Predicate(Record):
    """A checkable condition on the world (SDP's target state, section 3.1)."""

    text: str
    kind: str = "condition"
    args: Arguments = Field(default_factory=dict)


class Action(Record):
    """What the agent does: text, and typed arguments where the benchmark defines them."""

    text: str
    kind: str = "text"
    args: Arguments = Field(default_factory=dict)


class Observation(Record):
    """What the world returned for an action.

    `accepted` is False when the world refused the action and did not change. `done`: the world takes no further action.
    `solved`: the world itself reports that the task's goal is reached.
    """

    text: str
    accepted: bool = True
    reward: float = 0.0
    done: bool = False
    solved: bool = False
    sources: tuple[str, ...] = ()
    data: Arguments = Field(default_factory=dict)

    def digest(self) -> str:
        """Return 16 hex digits that identify this observation; a replay after a crash compares them."""
        return hashlib.sha256(self.model_dump_json().encode()).hexdigest()[:16]


class Finding(Record):
    """What a research step found, in words, with the sources that support it and those that contradict it."""

    about: str
    text: str
    sources: tuple[str, ...] = ()
    against: tuple[str, ...] = ()
    dispute: str = ""
    """What the sources in `against` claim instead."""


Decider = Literal["", "code", "model", "oracle"]
"""Who decided a verdict: a rule on what the world returned, a model, or the world's own state, which agents never see.

Empty where nobody looked at the world, as with a policy that lets every target pass.
"""


class Verdict(Record):
    """How many consecutive predicates at the head of the plan hold (SDP Eq. 3); 0 means that the target is unmet.

    `evidence` quotes what the verdict rests on, or is the id of its source, and `decided_by` says who decided.
    `exhausted`: no further attempt can help, so the run ends. `looked`: the action only gathered evidence and is not a
    try at the target, so it does not count against the budget of attempts. `forced`: name of the policy that lets the
    refused target pass; the run continues, and nothing is certified by it.
    """

    depth: int = Field(ge=0)
    reason: str = ""
    evidence: str = ""
    decided_by: Decider = ""
    exhausted: bool = False
    looked: bool = False
    finding: Finding | None = None
    forced: str = ""


class Step(Record):
    """One entry of the world's log: the action taken and the digest of the observation it returned."""

    action: Action
    digest: str


class Attempt(Record):
    """One try at a target. Append-only; never alters the certified state."""

    position: int = Field(ge=0)
    target: Predicate
    action: Action
    digest: str
    verdict: Verdict


class Certificate(Record):
    """One certified transition: the action that made `targets` hold at world step `step` (counted from 1).

    The states before and after are not stored: `certified_states` computes them from the certificates, so that a
    checkpoint stays small. `evidence`, `decided_by` and `finding` are those of the verdict; `restores` is the number of
    the certified state that the transition returned to. A `forced` certificate only moves the position in the plan: its
    finding is added, marked, to the known findings, and nothing is added to what is certified.
    """

    step: int = Field(ge=1)
    position: int = Field(ge=0)
    targets: tuple[Predicate, ...] = Field(min_length=1)
    action: Action
    digest: str
    evidence: str = ""
    decided_by: Decider = ""
    restores: int | None = None
    finding: Finding | None = None
    forced: str = ""

    @property
    def depth(self) -> int:
        """Cascade depth k: how many predicates this one action satisfied."""
        return len(self.targets)


class Audit(Record):
    """One audit of the goal after `step` world steps: whether everything that the goal demands holds at that time.

    `votes` are the answers of the models in order; empty where the world itself decided.
    """

    confirmed: bool
    reason: str = ""
    votes: tuple[bool, ...] = ()
    step: int = Field(default=0, ge=0)


class Revalidation(Record):
    """Which of the checked predicates no longer hold (indices from 0), and why."""

    undone: tuple[int, ...] = ()
    reason: str = ""


class Invalidation(Record):
    """A certified predicate that was found to hold no longer, after `step` world steps. Append-only.

    It is target number `target` of certificate number `certificate`, both counted from 0. The certificate stays
    unchanged: the predicate did hold when it was issued.
    """

    certificate: int = Field(ge=0)
    target: int = Field(ge=0)
    predicate: Predicate
    step: int = Field(ge=0)
    reason: str = ""


class Usage(Record):
    """Cost of one execution of a node. Seconds are wall-clock time; tokens are as the endpoint counts them."""

    node: str
    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    usd: float = 0.0
    seconds: float = 0.0

    def spent(self) -> "Spent":
        """Convert to the units of a budget."""
        tokens = self.input_tokens + self.output_tokens
        return Spent(calls=self.calls, tokens=tokens, usd=self.usd, seconds=self.seconds)


class Spent(Record):
    """What a run has spent, in the units of its budget."""

    calls: int = 0
    tokens: int = 0
    usd: float = 0.0
    seconds: float = 0.0

    def __add__(self, other: "Spent") -> "Spent":
        """Add two amounts, field by field."""
        return Spent(
            calls=self.calls + other.calls,
            tokens=self.tokens + other.tokens,
            usd=self.usd + other.usd,
            seconds=self.seconds + other.seconds,
        )


class Scores(Record):
    """A benchmark's score of an episode: `value` in [0, 1], its parts by name, and the delivered answer."""

    value: float
    parts: dict[str, float | None] = Field(default_factory=dict)
    answer: JsonValue = None


# The ways a run may end, a closed set of names, and the exceptions that stop a run with one of them.

GOAL = "goal"
WORLD_ENDED = "world_ended"
GAVE_UP = "gave_up"
EXHAUSTED = "exhausted"

FINISHED = "finished"
"""Ending of a graph outside certigraph that reached its end and does not name an ending."""

INTERRUPTED = "interrupted"
"""Status of a run whose trajectory records no ending."""

LimitKind = Literal["calls", "tokens", "usd", "seconds", "steps", "plan", "subtasks", "rounds"]
"""What can run out: the budget, the steps of an episode, and a method's internal limits (`METHOD_LIMITS`)."""

METHOD_LIMITS: tuple[LimitKind, ...] = ("plan", "subtasks", "rounds")
"""Internal limits that only some methods have. A run that hits one says more about the limit than about the method."""

FAULT_ENDINGS = frozenset({"error:environment", "error:data"})
"""Endings by a failure of the world or its data. They say nothing about the method, so no success rate counts them.

`error:model` and `error:operator` count as failures of the method: malformed answers and operators that raise are the
method's fault, and an endpoint that was down for long cannot be distinguished from them afterwards.
"""

Boundary = Literal["model", "environment", "data", "operator"]
"""Which part outside the method failed."""


def is_resumable(ending: str) -> bool:
    """Return whether a run can continue from its last checkpoint; an ending that the method chose is final."""
    return ending == INTERRUPTED or ending.startswith(("limit:", "error:"))


def is_error(ending: str) -> bool:
    """Return whether something outside the method failed, that is, whether the ending is `error:<boundary>`."""
    return ending.startswith("error:")


class UnknownName(KeyError):
    """A graph, benchmark, task, operator or model that does not exist; the message lists the existing names."""

    def __str__(self) -> str:
        """Return the message without the quotes that KeyError would add."""
        return str(self.args[0])


class Interrupted(Exception):
    """Ctrl-C, with the command that resumes the run.

    It is no KeyboardInterrupt because the command line library would drop the message of one.
    """


class Stopped(RuntimeError):
    """A run was stopped from outside its graph; `ending` is the name written to the trajectory's footer.

    It is a RuntimeError because LangGraph's server hides the messages of other exceptions from its clients.
    """

    ending: str


class LimitReached(Stopped):
    """A budget or another limit is used up. The thread can be resumed with a larger one.

    Args:
        kind: what is used up; it names the ending.
        limit: the amount that was allowed.
        spent: the amount that was used.
        happened: sentence for the message that names both numbers; default: "SPENT of LIMIT KIND are spent".
        option: field of `Budget` or `Limits` that has to be larger; default: `kind`.
    """

    def __init__(self, kind: LimitKind, limit: float, spent: float, *, happened: str = "", option: str = "") -> None:
        self.kind, self.limit, self.spent = kind, limit, spent
        self.ending = f"limit:{kind}"
        self.of_method = kind == "steps" or kind in METHOD_LIMITS
        more = f"--budget {option or kind}={2 * max(limit, spent) or 1:g}"
        super().__init__(f"{happened or f'{spent:g} of {limit:g} {kind} are spent'}; resume with more: {more}")


class Fault(Stopped):
    """Something outside the method failed: the model's endpoint, the world, the data or an operator's code."""

    def __init__(self, boundary: Boundary, message: str) -> None:
        self.boundary = boundary
        self.ending = f"error:{boundary}"
        super().__init__(message)


# Channel types of graph state besides LangGraph's default (last value wins): append-only logs and plans. A checkpoint
# stores only what changed, so its size does not grow with the length of the run.

T = TypeVar("T")

SNAPSHOT_EVERY = 5000
"""Number of writes between full copies of a channel. A small number makes the stored history quadratic in length."""


def _extend_log(log: list[Any], writes: Sequence[list[Any]]) -> list[Any]:
    return [*log, *(entry for write in writes for entry in write)]


def _last_write(plan: list[Any], writes: Sequence[list[Any]]) -> list[Any]:
    return list(writes[-1]) if writes else plan


# One alias for every append-only log, so that LangGraph's beta DeltaChannel can be replaced in one place.
Log = Annotated[list[T], DeltaChannel(_extend_log, snapshot_frequency=SNAPSHOT_EVERY)]

Plan = Annotated[list[Predicate], DeltaChannel(_last_write, snapshot_frequency=SNAPSHOT_EVERY)]


class ListChannels(NamedTuple):
    """How the list channels of a state take an update; of every other channel the last value wins."""

    lists: frozenset[str]
    """Channels that are empty lists before their first update."""
    logs: frozenset[str]
    """Those list channels that append an update to what they hold."""


@lru_cache(maxsize=32)
def list_channels_of(state: Any) -> ListChannels:
    """Return the list channels of a state's TypedDict."""
    hints = get_type_hints(state, include_extras=True)
    channels = {
        name: annotation
        for name, hint in hints.items()
        for annotation in getattr(hint, "__metadata__", ())
        if _is_delta_channel(annotation)
    }
    return ListChannels(
        frozenset(channels),
        frozenset(name for name, annotation in channels.items() if annotation.reducer is _extend_log),
    )


def _is_delta_channel(mark: Any) -> bool:
    return isinstance(mark, DeltaChannel)


# JSON from outside. Values nested too deep for recursive code are refused like malformed JSON.

MAX_DEPTH = 100
"""Maximum nesting depth. The deepest value this library writes, an answer (32) in a trajectory line, has about half."""


def parse_json(text: str | bytes) -> Any:
    """Parse a JSON text of at most 100 levels.

    Raises:
        ValueError: the text is not JSON, or nested deeper (json.loads would raise a RecursionError).
    """
    plain = text if isinstance(text, str) else text.decode(json.detect_encoding(text))
    try:
        value = json.loads(plain)
    except RecursionError:
        raise TooDeepError() from None
    _check_depth(value, plain.count("[") + plain.count("{"))
    return value


def parse_json_at(text: str, start: int) -> tuple[Any, int]:
    """Parse the JSON value that begins at `start`; return it and its end.

    Raises:
        ValueError: as `parse_json`; a TooDeepError if it is nested too deep.
    """
    try:
        value, end = _DECODER.raw_decode(text, start)
    except RecursionError:
        raise TooDeepError() from None
    _check_depth(value, text.count("[", start, end) + text.count("{", start, end))
    return value, end


class TooDeepError(ValueError):
    """JSON with more levels of nesting than `MAX_DEPTH`."""

    def __init__(self) -> None:
        super().__init__(f"nested deeper than {MAX_DEPTH} levels")


_DECODER = json.JSONDecoder()


def _check_depth(value: Any, brackets: int) -> None:
    # counting brackets is a hundred times as fast as walking the value, and decides most cases
    if brackets > MAX_DEPTH and _depth(value) > MAX_DEPTH:
        raise TooDeepError()


def replace_surrogates(text: str) -> str:
    """Replace each unpaired half of a surrogate pair with U+FFFD: no file, database or request can carry it."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _depth(value: Any) -> int:
    """Return the nesting depth of lists and objects, counting no further than one level above the limit."""
    depth, level = 0, _nested([value])
    while level and depth <= MAX_DEPTH:
        depth, level = depth + 1, [part for value in level for part in _nested(value)]
    return depth


def _nested(value: Any) -> list[Any]:
    parts = value.values() if isinstance(value, dict) else value
    return [part for part in parts if isinstance(part, (dict, list))]


# Reading files line by line with a maximum line length, so that a file of one endless line cannot fill the memory.

MAX_LINE = 1 << 24
"""Maximum bytes per line of a data file, a journal or a list of results; the longest known line has under a tenth."""

_CHUNK_BYTES = 1 << 20
"""Bytes read at a time."""

SPLIT_LINE_ADVICE = "is it another file, or a damaged one? Name the right file, or split that line"
"""Default advice in the message about a line that is too long."""


def read_bounded_lines(
    file: IO[bytes], name: str, most: int = MAX_LINE, fix: str = SPLIT_LINE_ADVICE
) -> Iterator[bytes]:
    """Read the lines of an open file in order, each with its newline, holding only one in memory.

    Args:
        file: opened for reading bytes; compressed files (gzip, bz2) and members of archives work too.
        name: name of the file for the error message.
        most: maximum number of bytes per line.
        fix: advice for the reader of the error message.

    Raises:
        Fault: ("data") a line is longer; at most `most` bytes and 1 MiB of it were read.
    """
    number = 0
    while line := _read_line(file, most):
        number += 1
        if len(line) > most:
            raise Fault("data", f"{name}:{number}: a line has more than {most:,} bytes: {fix}")
        yield bytes(line)


def read_first_line(path: Path, most: int = MAX_LINE) -> bytes:
    """Read the first line of a file with its newline; return b"" if the line has more than `most` bytes."""
    with path.open("rb") as file:
        line = _read_line(file, most)
    return bytes(line) if len(line) <= most else b""


def _read_line(file: IO[bytes], most: int) -> bytes | bytearray:
    first = file.readline(_CHUNK_BYTES)
    if len(first) < _CHUNK_BYTES or first.endswith(b"\n"):
        return first
    line = bytearray(first)  # grows in place; `readline(most)` collects pieces and joins them: twice the memory
    while len(line) <= most and not line.endswith(b"\n") and (piece := file.readline(_CHUNK_BYTES)):
        line += piece
    return line


def ends_with_newline(path: Path) -> bool:
    """Return whether a file is empty or ends with a newline, that is, whether its last line is complete."""
    with path.open("rb") as file:
        if not file.seek(0, os.SEEK_END):
            return True
        file.seek(-1, os.SEEK_END)
        return file.read(1) == b"\n"


def drop_incomplete_line(path: Path) -> None:
    """Cut an incomplete last line (everything after the last newline) off a file; ignore a missing file."""
    if not path.is_file():
        return
    with path.open("r+b") as file:
        end = file.seek(0, os.SEEK_END)
        while end:
            start = max(end - _CHUNK_BYTES, 0)
            file.seek(start)
            length = file.read(end - start).rfind(b"\n") + 1
            if length:
                end = start + length
                break
            end = start
        if end < file.seek(0, os.SEEK_END):
            file.truncate(end)
