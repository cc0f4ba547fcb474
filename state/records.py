"""Records that all methods share, and bounded reading.

Everything that a run stores (a trajectory, a checkpoint) is built from these records. They are frozen pydantic models
that refuse unknown fields. The last two parts read JSON and lines of files within limits of depth and length.
"""

import hashlib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue

from certigraph.state.endings import Fault

Arguments = dict[str, JsonValue]
"""Arguments of an action or a predicate: JSON values by name."""

RESTORE = "restore"
"""Kind of a predicate that asks to bring the world back to an earlier certified state.

Its argument `to` is the number of that state. The certificate of such a predicate restores that state.
"""


class Record(BaseModel):
    """Base class of everything that is stored. Records are immutable and refuse unknown fields."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    def as_json(self) -> dict[str, Any]:
        """Return the record as plain JSON values.

        Fields that have their default are left out, to keep stored lines short.
        """
        return self.model_dump(mode="json", exclude_defaults=True)


class Task(Record):
    """What an agent has to do: a goal in words, and the constants of the task by name."""

    benchmark: str
    id: str
    goal: str = ""
    condition: str = ""
    """The goal written as a condition that can be checked; empty where `goal` is such a condition already."""
    constants: Arguments = Field(default_factory=dict)


class Predicate(Record):
    """A checkable condition on the world, such as "block a is on block b" (target state, SDP section 3.1)."""

    text: str
    kind: str = "condition"
    args: Arguments = Field(default_factory=dict)


WRITTEN, OFFERED = "written", "offered"
"""Keys in the `args` of an action that was matched to the world's list: what the agent wrote, if it is another text,
and the listed actions that it was offered and did not mean."""


CHECK = "check"
"""Kind of an action that does nothing in the world: the agent finds its target met already, and what the world shows
now is judged. It counts as a step of the run."""


class Action(Record):
    """What the agent does: text, and typed arguments where the benchmark defines them."""

    text: str
    kind: str = "text"
    args: Arguments = Field(default_factory=dict)

    @property
    def written(self) -> str:
        """What the agent wrote, if it is another text than the action's; else empty."""
        return str(self.args.get(WRITTEN, ""))

    @property
    def offered(self) -> tuple[str, ...]:
        """The listed actions that the agent was offered, if it meant none of them."""
        given = self.args.get(OFFERED)
        return tuple(map(str, given)) if isinstance(given, list | tuple) else ()


class Observation(Record):
    """What the world returned for an action."""

    text: str
    accepted: bool = True
    """False if the world refused the action and did not change."""
    reward: float = 0.0
    done: bool = False
    """Whether the world takes no further action."""
    solved: bool = False
    """Whether the world itself reports that the goal of the task is reached."""
    sources: tuple[str, ...] = ()
    """Ids of the passages or pages that the text shows."""
    data: Arguments = Field(default_factory=dict)
    """Further values by name, such as a score."""

    @property
    def failed(self) -> bool:
        """Whether the world understood the action and says, by `result` in `data`, that it had no effect."""
        return self.data.get("result") == "failed"

    def digest(self) -> str:
        """Return 16 hex digits that identify the observation.

        A replay after a crash compares them with the recorded ones.
        """
        return hashlib.sha256(self.model_dump_json().encode()).hexdigest()[:16]


class FoundItem(Record):
    """One item of a list that a research step found, with the source that names it.

    Attributes:
        name: the item alone.
        detail: what the step asks for of the item, such as a number or a date; empty if only the name was asked for.
        source: URL of the source; empty if it is unknown.
        quote: words of the source that show the item.
    """

    name: str
    detail: str = ""
    source: str = ""
    quote: str = ""

    @property
    def text(self) -> str:
        """The item and its detail on one line."""
        return f"{self.name}: {self.detail}" if self.detail else self.name


class Finding(Record):
    """What a research step found out, in words, with the sources that support it and those that contradict it."""

    about: str
    text: str
    sources: tuple[str, ...] = ()
    against: tuple[str, ...] = ()
    dispute: str = ""
    """What the sources in `against` claim instead."""
    quotes: tuple[str, ...] = ()
    """Words of the sources that show it, each with its URL."""
    items: tuple[FoundItem, ...] = ()
    """The items of a list, if the finding is one. `text` describes the list, and need not repeat them."""

    @property
    def whole(self) -> str:
        """The text, followed by all items."""
        return f"{self.text} [{'; '.join(item.text for item in self.items)}]" if self.items else self.text


Decider = Literal["", "code", "model", "oracle", "code and model", "code and oracle"]
"""Who decided a verdict: a rule on what the world returned, a model, or the world's own state, which agents never see.

Of several predicates, code may decide some, and a model or the world's own state the others.

Empty where nobody looked at the world, as with a policy that lets every target pass.
"""


class Verdict(Record):
    """How many predicates of the plan hold now, counted from the target without a gap (SDP Eq. 3).

    The target is the predicate to certify next.
    """

    depth: int = Field(ge=0)
    """The number of predicates; 0 means that the target does not hold."""
    reason: str = ""
    evidence: str = ""
    """Words that the verdict rests on, or the id of their source."""
    decided_by: Decider = ""
    facts: tuple[str, ...] = ()
    """What the observation showed beyond the predicates."""
    outdated: tuple[str, ...] = ()
    """Texts of earlier facts that the observation contradicts."""
    unreachable: bool = False
    """Whether the first predicate that does not hold cannot come true as it is worded: the rest is planned again."""
    exhausted: bool = False
    """Whether no further attempt can help, so that the run ends."""
    looked: bool = False
    """Whether the action only gathered evidence, or came before the answer with which the goal is judged.

    Such an action does not count against the budget of attempts."""
    pending: bool = False
    """Whether nobody judged, because actions follow that were chosen together with this one."""
    skipped: int = Field(default=0, ge=0)
    """How many predicates just before the last of the `depth` ones nobody judged.

    The last one is then the goal, which the world reports reached; they are passed over and not certified."""
    finding: Finding | None = None
    """What a research step found out."""
    forced: str = ""
    """Name of the policy that lets the target pass although it was refused; nothing is certified then."""

    @property
    def is_counted(self) -> bool:
        """Whether the attempt counts against the budget of attempts: somebody judged it, and it did not only look."""
        return not (self.looked or self.pending)


class Fact(Record):
    """What the world had shown by the action number `step`, and what later steps may need."""

    text: str
    step: int


class Step(Record):
    """One entry of an episode's log: an action taken in the world, and the digest of the observation it returned."""

    action: Action
    digest: str


class Attempt(Record):
    """One attempt to make the target, a predicate of the plan, hold.

    Attempts are append-only and never alter the certified state.
    """

    position: int = Field(ge=0)
    target: Predicate
    action: Action
    digest: str
    verdict: Verdict


class Certificate(Record):
    """One certified transition: the action that made the predicates `targets` hold.

    `step` is the number of the world step, from 1, and `position` is that of the first target in the plan. The states
    before and after are not stored: `certified_states` in `state.run` computes them, so that checkpoints stay small.
    `evidence`, `decided_by` and `finding` are those of the verdict. `restores` is the number of the earlier certified
    state that the action went back to, if it did. `forced` names a policy that let the targets pass without certifying
    them: such a certificate only moves the position in the plan, and adds its finding, marked, to the known findings.
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

    def __str__(self) -> str:
        """Format the certificate on one line for a reader; `repr` has all fields."""
        texts = ("the goal" if target.kind == "goal" else " ".join(target.text.split()) for target in self.targets)
        decider = f" by {self.decided_by}" if self.decided_by else ""
        status = f"passed by {self.forced}" if self.forced else f"certified{decider}"
        return f"step {self.step}, {status}: {'; '.join(texts)}"

    @property
    def depth(self) -> int:
        """Cascade depth k: how many predicates this one action satisfied."""
        return len(self.targets)


class Audit(Record):
    """One audit of the goal after `step` world steps: whether everything that the goal demands holds at that time.

    `votes` are the answers of the models, in order; the tuple is empty if the world itself decided.
    """

    confirmed: bool
    reason: str = ""
    votes: tuple[bool, ...] = ()
    step: int = Field(default=0, ge=0)


class Revalidation(Record):
    """Result of checking certified predicates again: indices (from 0) of those that no longer hold, and the reason."""

    undone: tuple[int, ...] = ()
    reason: str = ""


class Invalidation(Record):
    """A certified predicate that was found to hold no longer, after `step` world steps. Append-only.

    The predicate is target number `target` of certificate number `certificate`, both counted from 0. The certificate
    itself stays unchanged, because the predicate did hold when the certificate was issued.
    """

    certificate: int = Field(ge=0)
    target: int = Field(ge=0)
    predicate: Predicate
    step: int = Field(ge=0)
    reason: str = ""


class Usage(Record):
    """Cost of one execution of a graph node.

    `seconds` is wall-clock time; tokens are as the model's endpoint counts them.
    """

    node: str
    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    usd: float = 0.0
    seconds: float = 0.0

    def spent(self) -> "Spent":
        """Convert the usage to the units in which budgets are given."""
        tokens = self.input_tokens + self.output_tokens
        return Spent(calls=self.calls, tokens=tokens, usd=self.usd, seconds=self.seconds)


class Spent(Record):
    """What a run has spent, in the units in which budgets are given."""

    calls: int = 0
    tokens: int = 0
    usd: float = 0.0
    seconds: float = 0.0

    def __add__(self, other: "Spent") -> "Spent":
        """Add two amounts field by field."""
        return Spent(
            calls=self.calls + other.calls,
            tokens=self.tokens + other.tokens,
            usd=self.usd + other.usd,
            seconds=self.seconds + other.seconds,
        )


class Scores(Record):
    """A benchmark's score of an episode: `value` in [0, 1], parts of the score by name, and the answer given."""

    value: float
    parts: dict[str, float | None] = Field(default_factory=dict)
    answer: JsonValue = None


# JSON from outside. Values nested too deep for recursive code are refused like malformed JSON.

MAX_DEPTH = 100
"""Maximum nesting depth of JSON that is read.

The deepest JSON that this library writes, an answer in a trajectory line, has about half of it.
"""


def parse_json(text: str | bytes) -> Any:
    """Parse a JSON text with at most 100 levels of nesting.

    Raises:
        ValueError: the text is not JSON, or is nested deeper (where `json.loads` would raise a RecursionError).
    """
    plain = text if isinstance(text, str) else text.decode(json.detect_encoding(text))
    try:
        value = json.loads(plain)
    except RecursionError:
        raise TooDeepError() from None
    _check_depth(value, plain.count("[") + plain.count("{"))
    return value


def parse_json_at(text: str, start: int) -> tuple[Any, int]:
    """Parse the JSON value that begins at index `start` of a text. Return the value and the index of its end.

    Raises:
        ValueError: there is no JSON value; a TooDeepError if it is nested deeper than `MAX_DEPTH`.
    """
    try:
        value, end = _DECODER.raw_decode(text, start)
    except RecursionError:
        raise TooDeepError() from None
    _check_depth(value, text.count("[", start, end) + text.count("{", start, end))
    return value, end


class TooDeepError(ValueError):
    """JSON text has more levels of nesting than `MAX_DEPTH`."""

    def __init__(self) -> None:
        super().__init__(f"nested deeper than {MAX_DEPTH} levels")


_DECODER = json.JSONDecoder()


def _check_depth(value: Any, brackets: int) -> None:
    # counting brackets is a hundred times as fast as walking the value, and decides most cases
    if brackets > MAX_DEPTH and _depth(value) > MAX_DEPTH:
        raise TooDeepError()


def replace_surrogates(text: str) -> str:
    """Replace each unpaired UTF-16 surrogate with U+FFFD, because no file, database or request can carry it."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _depth(value: Any) -> int:
    """Return the nesting depth of lists and objects. Counting stops one level above `MAX_DEPTH`."""
    depth, level = 0, _nested([value])
    while level and depth <= MAX_DEPTH:
        depth, level = depth + 1, [part for value in level for part in _nested(value)]
    return depth


def _nested(value: Any) -> list[Any]:
    parts = value.values() if isinstance(value, dict) else value
    return [part for part in parts if isinstance(part, (dict, list))]


# Reading files line by line with a maximum line length, so that a file of one endless line cannot fill the memory.

MAX_LINE = 1 << 24
"""Maximum bytes per line of a data file, a journal or a list of results. The longest known line has under a tenth."""

_CHUNK_BYTES = 1 << 20
"""Number of bytes that are read at a time."""

SPLIT_LINE_ADVICE = "is it another file, or a damaged one? Name the right file, or split that line"
"""Advice in the error message about a line that is too long, unless the caller gives another one."""


def read_bounded_lines(
    file: IO[bytes], name: str, most: int = MAX_LINE, fix: str = SPLIT_LINE_ADVICE
) -> Iterator[bytes]:
    """Read the lines of an open file in order, each with its newline, holding only one in memory.

    Args:
        file: file opened for reading bytes; compressed files (gzip, bz2) and members of archives work too.
        name: name of the file for the error message.
        most: maximum number of bytes per line.
        fix: advice at the end of the error message.

    Raises:
        Fault: ("data") a line is longer. Of that line, at most `most` bytes and 1 MiB were read.
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
    """Return whether the last line of a file is complete: the file ends with a newline, or is empty."""
    with path.open("rb") as file:
        if not file.seek(0, os.SEEK_END):
            return True
        file.seek(-1, os.SEEK_END)
        return file.read(1) == b"\n"


def drop_incomplete_line(path: Path) -> None:
    """Cut off an incomplete last line of a file, that is, all bytes after its last newline. Ignore a missing file."""
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
