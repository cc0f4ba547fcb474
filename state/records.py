"""Records that every method shares, endings, and the channel types of graph state."""

import hashlib
import json
import os
from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import IO, Annotated, Any, Literal, NamedTuple, TypeVar, get_type_hints

from langgraph.channels import DeltaChannel
from pydantic import BaseModel, ConfigDict, Field, JsonValue

# The records that every method shares: frozen, exact, JSON-plain (vocabulary: README, "Words").

Arguments = dict[str, JsonValue]

RESTORE = "restore"
"""Kind of the predicate "the world is again as certified state `to` had it"; its certificate returns there."""


class Record(BaseModel):
    """Base of everything stored: immutable, unknown fields refused."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    def as_json(self) -> dict[str, Any]:
        """Plain JSON values, defaults left out, so that a stored line stays short."""
        return self.model_dump(mode="json", exclude_defaults=True)


class Task(Record):
    """What is to be done: a goal in words and the constants that come with it."""

    benchmark: str
    id: str
    goal: str = ""
    condition: str = ""
    """The goal as a condition to check; empty where the goal's own text is one."""
    constants: Arguments = Field(default_factory=dict)


class Predicate(Record):
    """A checkable condition on the world (SDP's target state, section 3.1)."""

    text: str
    kind: str = "condition"
    args: Arguments = Field(default_factory=dict)


class Action(Record):
    """What the agent does: text, and typed arguments where the benchmark has them."""

    text: str
    kind: str = "text"
    args: Arguments = Field(default_factory=dict)


class Observation(Record):
    """What the world answered. `accepted` is False when the world refused the action and did not change.

    `done`: the world takes no further action; `solved`: it says itself that the task's goal is reached.
    """

    text: str
    accepted: bool = True
    reward: float = 0.0
    done: bool = False
    solved: bool = False
    sources: tuple[str, ...] = ()
    data: Arguments = Field(default_factory=dict)

    def digest(self) -> str:
        """Sixteen hex digits that tell two observations apart; replay after a crash compares them."""
        return hashlib.sha256(self.model_dump_json().encode()).hexdigest()[:16]


class Finding(Record):
    """What a step of an inquiry came to, in words, and the sources that bear it out or say otherwise."""

    about: str
    text: str
    sources: tuple[str, ...] = ()
    against: tuple[str, ...] = ()
    dispute: str = ""
    """What the sources `against` say instead."""


class Verdict(Record):
    """How many consecutive predicates at the head of the plan hold (SDP Eq. 3); 0 means the target is unmet.

    `exhausted` says that no further attempt can help: the run ends there. `looked` says that the action only gathered
    evidence, which is no try at the target: it does not count against the budget of attempts. `forced` names the policy
    that lets the target pass although it was refused: the run goes on, and nothing is certified by it.
    """

    depth: int = Field(ge=0)
    reason: str = ""
    evidence: str = ""
    exhausted: bool = False
    looked: bool = False
    finding: Finding | None = None
    forced: str = ""


class Step(Record):
    """One entry of the world's log: the action taken and the digest of what it answered."""

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
    """One certified transition: the action that made `targets` hold at world step `step` (1-based).

    The states before and after are not stored but folded from the certificates (`certified_states`), so that a
    checkpoint stays small. `evidence` and `finding` are what the verdict named as bearing it out, `restores` the
    certified state that the transition returned to. One that a policy `forced` only moves the cursor: it adds its
    finding to what is known, marked, and nothing to what is certified.
    """

    step: int = Field(ge=1)
    position: int = Field(ge=0)
    targets: tuple[Predicate, ...] = Field(min_length=1)
    action: Action
    digest: str
    evidence: str = ""
    restores: int | None = None
    finding: Finding | None = None
    forced: str = ""

    @property
    def depth(self) -> int:
        """Cascade depth k: how many predicates the one action discharged."""
        return len(self.targets)


class Audit(Record):
    """One audit of the goal, made after `step` world steps: whether all that the goal demands holds then.

    `votes` are those of the models that were asked, in order; empty where the world itself decided.
    """

    confirmed: bool
    reason: str = ""
    votes: tuple[bool, ...] = ()
    step: int = Field(0, ge=0)


class Revalidation(Record):
    """Which of the checked predicates do not hold any more, as indices from 0, and why."""

    undone: tuple[int, ...] = ()
    reason: str = ""


class Invalidation(Record):
    """A certified predicate that was found not to hold any more, after `step` world steps. Append-only.

    It was target number `target` of certificate number `certificate`, both counted from 0. The certificate stays as it
    is: the predicate did hold when it was issued.
    """

    certificate: int = Field(ge=0)
    target: int = Field(ge=0)
    predicate: Predicate
    step: int = Field(ge=0)
    reason: str = ""


class Usage(Record):
    """What one execution of a node cost. Seconds are wall-clock; tokens as the endpoint counts them."""

    node: str
    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    usd: float = 0.0
    seconds: float = 0.0

    def spent(self) -> "Spent":
        """The same in the units of a budget."""
        tokens = self.input_tokens + self.output_tokens
        return Spent(calls=self.calls, tokens=tokens, usd=self.usd, seconds=self.seconds)


class Spent(Record):
    """What a run has spent, in the units of its budget."""

    calls: int = 0
    tokens: int = 0
    usd: float = 0.0
    seconds: float = 0.0

    def __add__(self, other: "Spent") -> "Spent":
        """The two together."""
        return Spent(
            calls=self.calls + other.calls,
            tokens=self.tokens + other.tokens,
            usd=self.usd + other.usd,
            seconds=self.seconds + other.seconds,
        )


class Scores(Record):
    """A benchmark's verdict on an episode: `value` in [0, 1], its parts by name, and what was delivered."""

    value: float
    parts: dict[str, float | None] = Field(default_factory=dict)
    answer: JsonValue = None


# How a run may end: a closed set of names, and the exceptions that carry the ones raised on the way.

GOAL = "goal"
WORLD_ENDED = "world_ended"
GAVE_UP = "gave_up"
EXHAUSTED = "exhausted"

INTERRUPTED = "interrupted"
"""No ending: what is said of a run that has none on record."""

LimitKind = Literal["calls", "tokens", "usd", "seconds", "steps", "plan", "subtasks", "rounds"]
"""What a run may use up: its budget, the steps of an episode, and what a method allows itself (`METHODS_OWN`)."""

METHODS_OWN: tuple[LimitKind, ...] = ("plan", "subtasks", "rounds")
"""Limits that only some methods have: a run that one of them ended says less about the method than about the limit."""

FAULTS = frozenset({"error:environment", "error:data"})
"""Endings by a failure of the world or its data: such a run says nothing about a method, so no rate counts it.

`error:model` and `error:operator` count as failures of the method: answers that fit no form and operators that raise
are its own, and an endpoint that is down for long cannot be told from them afterwards."""

Boundary = Literal["model", "environment", "data", "operator"]


def resumable(ending: str) -> bool:
    """Whether a run can go on from its last checkpoint: an ending of the method's own is final."""
    return ending == INTERRUPTED or ending.startswith(("limit:", "error:"))


def is_error(ending: str) -> bool:
    """Whether something outside the method failed: the ending is `error:<boundary>`."""
    return ending.startswith("error:")


class UnknownName(KeyError):
    """A graph, benchmark, task, operator or model that does not exist; the message lists those that do."""

    def __str__(self) -> str:
        """The message as it was written, where KeyError would quote it."""
        return str(self.args[0])


class Interrupted(Exception):
    """Ctrl-C, with the command that goes on; the command line library would swallow a KeyboardInterrupt's words."""


class Stopped(Exception):
    """A run was stopped from outside its graph; `ending` is the name that goes into the trajectory's footer."""

    ending: str


class LimitReached(Stopped):
    """A budget or another limit is spent. The thread stays resumable with a larger one.

    Args:
        kind: what is spent, which names the ending.
        limit: how much there was.
        spent: how much was used.
        happened: what happened, in words that name both numbers; that so much of the kind is spent otherwise.
        option: the field of `Budget` or `Limits` that is to be larger; the kind otherwise.
    """

    def __init__(self, kind: LimitKind, limit: float, spent: float, *, happened: str = "", option: str = "") -> None:
        self.kind, self.limit, self.spent = kind, limit, spent
        self.ending = f"limit:{kind}"
        self.of_method = kind == "steps" or kind in METHODS_OWN
        more = f"--budget {option or kind}={2 * max(limit, spent) or 1:g}"
        super().__init__(f"{happened or f'{spent:g} of {limit:g} {kind} are spent'}; resume with more: {more}")


class Fault(Stopped):
    """Something outside the method failed: the model's endpoint, the world, the data or an operator's own code."""

    def __init__(self, boundary: Boundary, message: str) -> None:
        self.boundary = boundary
        self.ending = f"error:{boundary}"
        super().__init__(message)


# The two channel types beyond "last value wins": append-only logs and plans, both of flat checkpoint cost.

T = TypeVar("T")

SNAPSHOT_EVERY = 5000
"""Writes between full copies of a channel: a small number makes the stored history quadratic."""


def _extend(log: list[Any], writes: Sequence[list[Any]]) -> list[Any]:
    return [*log, *(entry for write in writes for entry in write)]


def _last(plan: list[Any], writes: Sequence[list[Any]]) -> list[Any]:
    return list(writes[-1]) if writes else plan


# One alias for every append-only log, so that the beta channel behind it can be exchanged in one place.
Log = Annotated[list[T], DeltaChannel(_extend, snapshot_frequency=SNAPSHOT_EVERY)]

Plan = Annotated[list[Predicate], DeltaChannel(_last, snapshot_frequency=SNAPSHOT_EVERY)]


class Growth(NamedTuple):
    """How the list channels of a state take an update; of all other channels the last value wins."""

    lists: frozenset[str]
    """Channels that are empty lists before their first update."""
    logs: frozenset[str]
    """Those of them that add an update to what they hold."""


@lru_cache(maxsize=32)
def growth_of(state: Any) -> Growth:
    """The list channels of a state's TypedDict."""
    hints = get_type_hints(state, include_extras=True)
    deltas = {name: mark for name, hint in hints.items() for mark in getattr(hint, "__metadata__", ()) if _grows(mark)}
    return Growth(frozenset(deltas), frozenset(name for name, mark in deltas.items() if mark.reducer is _extend))


def _grows(mark: Any) -> bool:
    return isinstance(mark, DeltaChannel)


# JSON from outside: what nobody could walk through afterwards is refused like what is no JSON.

DEEPEST = 100
"""Levels of nesting. What we write has about half as many at most: a model's answer (32) inside a trajectory's line."""


def json_value(text: str | bytes) -> Any:
    """The value of a JSON text of at most 100 levels.

    Raises:
        ValueError: it is no JSON, or deeper, where json.loads would end with a RecursionError.
    """
    plain = text if isinstance(text, str) else text.decode(json.detect_encoding(text))
    try:
        value = json.loads(plain)
    except RecursionError:
        raise TooDeepError() from None
    _check_depth(value, plain.count("[") + plain.count("{"))
    return value


def next_json_value(text: str, start: int) -> tuple[Any, int]:
    """The value that begins at `start`, and where it ends. Raises as `json_value`, TooDeepError where it is deeper."""
    try:
        value, end = _DECODER.raw_decode(text, start)
    except RecursionError:
        raise TooDeepError() from None
    _check_depth(value, text.count("[", start, end) + text.count("{", start, end))
    return value, end


class TooDeepError(ValueError):
    """JSON with more levels than are read."""

    def __init__(self) -> None:
        super().__init__(f"nested deeper than {DEEPEST} levels")


_DECODER = json.JSONDecoder()


def _check_depth(value: Any, brackets: int) -> None:
    # counting brackets is a hundred times as fast as walking, and settles it for most texts
    if brackets > DEEPEST and _depth(value) > DEEPEST:
        raise TooDeepError()


def replace_surrogates(text: str) -> str:
    """The text with U+FFFD for every half of a surrogate pair, which no file, database or request can carry."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _depth(value: Any) -> int:
    """How many lists and objects stand inside one another, as far as it matters."""
    depth, level = 0, _nested([value])
    while level and depth <= DEEPEST:
        depth, level = depth + 1, [part for one in level for part in _nested(one)]
    return depth


def _nested(value: Any) -> list[Any]:
    parts = value.values() if isinstance(value, dict) else value
    return [part for part in parts if isinstance(part, (dict, list))]


# Lines of files, read with a bound: a file of one endless line costs the bound, not its size.

MAX_LINE = 1 << 24
"""Bytes of a line of a data file, a journal or a list of results; the longest known has less than a tenth of that."""

_PIECE = 1 << 20
"""Bytes read at a time."""

CORRECT = "is it another file, or a damaged one? Name the right file, or split that line"
"""The fix for a line that is too long, where the caller knows no better one."""


def read_bounded_lines(file: IO[bytes], name: str, most: int = MAX_LINE, fix: str = CORRECT) -> Iterator[bytes]:
    """Read the lines of an open file in order, each with its newline, without ever holding more than one.

    Args:
        file: opened for reading bytes; packed files (gzip, bz2) and members of archives too.
        name: of the file, for the message of an error.
        most: bytes that a line may have.
        fix: what the reader of the message should do.

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
    """Read the first line of a file with its newline; nothing where it has more than `most` bytes."""
    with path.open("rb") as file:
        line = _read_line(file, most)
    return bytes(line) if len(line) <= most else b""


def _read_line(file: IO[bytes], most: int) -> bytes | bytearray:
    first = file.readline(_PIECE)
    if len(first) < _PIECE or first.endswith(b"\n"):
        return first
    line = bytearray(first)  # grows in place, where `readline(most)` collects and then joins: twice the memory
    while len(line) <= most and not line.endswith(b"\n") and (piece := file.readline(_PIECE)):
        line += piece
    return line


def ends_line(path: Path) -> bool:
    """Whether a file is empty or ends with a newline, so that its last line was written whole."""
    with path.open("rb") as file:
        if not file.seek(0, os.SEEK_END):
            return True
        file.seek(-1, os.SEEK_END)
        return file.read(1) == b"\n"


def drop_torn_line(path: Path) -> None:
    """Cut what follows the last newline off a file, whatever its length; do nothing where there is no such file."""
    if not path.is_file():
        return
    with path.open("r+b") as file:
        end = file.seek(0, os.SEEK_END)
        while end:
            start = max(end - _PIECE, 0)
            file.seek(start)
            kept = file.read(end - start).rfind(b"\n") + 1
            if kept:
                end = start + kept
                break
            end = start
        if end < file.seek(0, os.SEEK_END):
            file.truncate(end)
