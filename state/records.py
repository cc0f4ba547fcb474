"""The records that every method shares: frozen, exact, JSON-plain (vocabulary: README, "Words")."""

import hashlib
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, JsonValue

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
