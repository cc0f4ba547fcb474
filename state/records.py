"""Records that all methods share.

Everything that a run stores (a trajectory, a checkpoint) is built from these records. They are frozen pydantic models
that refuse unknown fields.
"""

import hashlib
from collections.abc import Callable, Mapping
from operator import not_
from typing import Annotated, Any, Literal

from langgraph.checkpoint.serde import _msgpack
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, JsonValue, PlainSerializer, model_validator

Arguments = dict[str, JsonValue]
"""Arguments of an action or a predicate: JSON values by name."""

LARGE_INTEGER = "integer beyond 64 bits"
"""Key under which an integer beyond 64 bits is stored as text. Checkpoints have no such integers."""


def _store_integers(value: Any) -> Any:
    large = isinstance(value, int) and not -(2**63) <= value < 2**64
    return {LARGE_INTEGER: str(value)} if large else _map_parts(_store_integers, value)


def _restore_integers(value: Any) -> Any:
    if isinstance(value, dict) and len(value) == 1 and isinstance(text := value.get(LARGE_INTEGER), str):
        return int(text)
    return _map_parts(_restore_integers, value)


def _map_parts(change: Callable[[Any], Any], value: Any) -> Any:
    # most parts are texts, and every record of an action is converted
    if isinstance(value, dict):
        return {key: part if type(part) is str else change(part) for key, part in value.items()}
    return [change(part) for part in value] if isinstance(value, list | tuple) else value


StoredArguments = Annotated[
    Arguments, BeforeValidator(_restore_integers), PlainSerializer(_store_integers, return_type=Arguments)
]
"""Arguments whose integers may have any size. What is stored is JSON in which large ones are texts."""

RESTORE = "restore"
"""Kind of a predicate that asks to bring the world back to an earlier certified state.

Its argument `to` is the number of that state. The certificate of such a predicate restores that state.
"""


def allow_in_checkpoints(module: str, name: str) -> None:
    """Let every serializer of LangGraph restore a class or function of certigraph, strict ones and parents' included.

    LangGraph has no public way for a package to name its types, and the serializer is the caller's choice. What is
    named here only holds data.
    """
    _msgpack.SAFE_MSGPACK_TYPES |= {(module, name)}


class Record(BaseModel):
    """Base class of everything that is stored. Records are immutable and refuse unknown fields."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    @classmethod
    def __pydantic_init_subclass__(cls, **options: Any) -> None:
        super().__pydantic_init_subclass__(**options)
        allow_in_checkpoints(cls.__module__, cls.__name__)

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


BRINGS, UNTIL, AT_MOST, CLAIMS = "brings", "until", "at_most", "claims"
"""Keys in the `args` of an action of a chain: the condition of the plan that it should bring about, the condition until
which it is taken, how often at most, and the condition that the agent says holds before it."""

ESTABLISHED, OUTDATED = "established", "outdated"
"""Keys in the `args` of the first action of a chain: what the agent noted before it, and earlier notes that are no
longer true."""


class Action(Record):
    """What the agent does: text, and typed arguments where the benchmark defines them."""

    text: str
    kind: str = "text"
    args: StoredArguments = Field(default_factory=dict)

    @property
    def written(self) -> str:
        """What the agent wrote, if it is another text than the action's; else empty."""
        return str(self.args.get(WRITTEN, ""))

    @property
    def offered(self) -> tuple[str, ...]:
        """The listed actions that the agent was offered, if it meant none of them."""
        given = self.args.get(OFFERED)
        return tuple(map(str, given)) if isinstance(given, list | tuple) else ()


def with_args(action: Action, args: Mapping[str, Any]) -> Action:
    """Return a copy of an action with further arguments, in place of those of the same name."""
    return action.model_copy(update={"args": {**action.args, **args}})


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

    @property
    def goal_report(self) -> str:
        """The words in which the world reports that the goal is reached: `goal` in `data`, else the text."""
        return str(self.data.get("goal") or self.text)

    @property
    def options(self) -> tuple[str, ...]:
        """What an action may mean, by `options` in `data`, if the world asks that instead of taking it."""
        given = self.data.get("options")
        return tuple(map(str, given)) if isinstance(given, list) else ()

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


Ground = Literal["quotes", "calls", "absence"]
"""What a model's verdict over tools rests on, as code found it.

`quotes`: words in the answers of calls that were made. `calls`: calls that were made and did not fail. `absence`: the
complete list of calls that were made and whose effect lasts.
"""


class Sighting(Record):
    """A condition of the plan that a rule found to hold after an action, and the words of the world that show it."""

    text: str
    quote: str


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
    # every checkpoint holds a verdict: one that is not about tools takes no space for the next two fields
    rests_on: tuple[Ground, ...] = Field(default=(), exclude_if=not_)
    """What a model's verdict over tools rests on; empty for any other verdict."""
    calls: tuple[int, ...] = Field(default=(), exclude_if=not_)
    """Numbers of those calls in the episode, from 1."""
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
    sightings: tuple[Sighting, ...] = Field(default=(), exclude_if=not_)
    """Conditions of the rest of the plan that rules found to hold after this action and did not after the one before.

    All later verdicts on these conditions rest on them: what came true on the way is not judged again."""
    since: tuple[int, ...] = Field(default=(), exclude_if=not_)
    """For each of the `depth` predicates the number of the action, from 1, after which it first held, as far as a model
    says so; 0 where it is not known, and empty if none is."""
    skipped: tuple[int, ...] = Field(default=(), exclude_if=not_)
    """Which of the `depth` predicates, counted from 0, nobody judged.

    The last one is then the goal, which the world reports reached; they are passed over and not certified."""
    finding: Finding | None = None
    """What a research step found out."""
    forced: str = ""
    """Name of the policy that lets the target pass although it was refused; nothing is certified then."""

    @model_validator(mode="before")
    @classmethod
    def _read_former(cls, values: Any) -> Any:
        # Earlier versions stored how many predicates just before the last one were skipped.
        if isinstance(values, dict) and isinstance(number := values.get("skipped"), int):
            last = int(values.get("depth", 0)) - 1
            return {**values, "skipped": tuple(range(last - number, last))}
        return values

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
    listed: bool = False
    """Whether the world's actions were listed before it, if that draws random numbers (`Environment.listing_draws`)."""


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
    `evidence`, `decided_by`, `rests_on`, `calls` and `finding` are those of the verdict. `restores` is the number of
    the earlier certified state that the action went back to, if it did. `forced` names a policy that let the targets
    pass without certifying them: such a certificate only moves the position in the plan, and adds its finding, marked,
    to the known findings.
    """

    step: int = Field(ge=1)
    position: int = Field(ge=0)
    targets: tuple[Predicate, ...] = Field(min_length=1)
    action: Action
    digest: str
    evidence: str = ""
    decided_by: Decider = ""
    rests_on: tuple[Ground, ...] = Field(default=(), exclude_if=not_)
    calls: tuple[int, ...] = Field(default=(), exclude_if=not_)
    restores: int | None = None
    finding: Finding | None = None
    forced: str = ""

    def __str__(self) -> str:
        """Format the certificate on one line for a reader; `repr` has all fields."""
        texts = ("the goal" if target.kind == "goal" else " ".join(target.text.split()) for target in self.targets)
        decider = f" by {self.decided_by}" if self.decided_by else ""
        decider += f" ({', '.join(self.rests_on)})" if self.rests_on else ""
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
    judged: bool = Field(default=True, exclude_if=bool)
    """Whether anybody judged: an answer that asks the user something passes without."""


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
    usd: float = Field(default=0.0, exclude_if=not_)  # every checkpoint stores it
    seconds: float = 0.0

    def __add__(self, other: "Spent") -> "Spent":
        """Add two amounts field by field."""
        return Spent(
            calls=self.calls + other.calls,
            tokens=self.tokens + other.tokens,
            usd=self.usd + other.usd,
            seconds=round(self.seconds + other.seconds, 6),  # as each is: a sum of floats has a tail of digits
        )

    def __sub__(self, other: "Spent") -> "Spent":
        """Return what was spent after `other`, field by field."""
        return Spent(
            calls=self.calls - other.calls,
            tokens=self.tokens - other.tokens,
            usd=self.usd - other.usd,
            seconds=round(self.seconds - other.seconds, 6),
        )


class Scores(Record):
    """A benchmark's score of an episode: `value` in [0, 1], parts of the score by name, and the answer given."""

    value: float
    parts: dict[str, float | None] = Field(default_factory=dict)
    answer: JsonValue = None
    labels: dict[str, str] = Field(default_factory=dict, exclude_if=not_)
    """Labels of the parts that are shown in place of the value, by part; empty where the value alone says enough."""

    @property
    def shown(self) -> dict[str, float]:
        """The parts that are shown in place of the value, by label; empty where the value is shown."""
        parts = ((label, self.parts.get(name)) for name, label in self.labels.items())
        return {label: value for label, value in parts if value is not None}
