"""A run's events folded into plan, certificates and one row of figures."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from certigraph.runtime.files import legible
from certigraph.state.records import FAULTS, RESTORE, Certificate, Record, Usage
from certigraph.state.trajectory import Event, Trajectory

# Which certificates still stand after returns to earlier states, in time and memory linear in their number.


class Reached(NamedTuple):
    """A certified state: the index of the certificate that led to it, the state before, and its size."""

    certificate: int
    before: "Reached | None"
    predicates: int


class Tally(NamedTuple):
    """Predicates of the latest certified state, and those that a policy let pass on the way to it, uncertified."""

    certified: int
    passed: int


def reached(certificates: Sequence[Certificate]) -> list[Reached | None]:
    """Every certified state in order, the empty one (None) first; one after a forced pass is no larger."""
    states: list[Reached | None] = [None]
    for index, certificate in enumerate(certificates):
        if certificate.restores is not None:
            states.append(states[certificate.restores])
        else:
            gained = 0 if certificate.forced else certificate.depth
            states.append(Reached(index, states[-1], held(states[-1]) + gained))
    return states


def standing(certificates: Sequence[Certificate]) -> set[int]:
    """Indices of the certificates that led to the latest certified state, forced ones included."""
    return set(_chain(reached(certificates)[-1]))


def tally(certificates: Sequence[Certificate]) -> Tally:
    """What stands at the end."""
    last = reached(certificates)[-1]
    passed = (certificates[index] for index in _chain(last) if certificates[index].forced)
    return Tally(held(last), sum(certificate.depth for certificate in passed))


def held(state: Reached | None) -> int:
    """How many predicates a certified state holds."""
    return state.predicates if state else 0


def _chain(state: Reached | None) -> Iterator[int]:
    while state:
        yield state.certificate
        state = state.before


# A certificate on record, or a pass that a policy forced, and what it took.

Plain = Mapping[str, Any]
"""A record as its trajectory line has it: fields of default value are left out."""


class Cost(NamedTuple):
    """Steps taken in the world, model calls, and tokens of prompts and answers."""

    steps: int = 0
    calls: int = 0
    tokens: int = 0

    def plus(self, usage: Usage, steps: int) -> "Cost":
        """With one more execution of a node."""
        return Cost(self.steps + steps, self.calls + usage.calls, self.tokens + _tokens(usage))


class Certified(NamedTuple):
    """A certificate, the number of rejected tries at its first predicate, and all that was spent since the last one."""

    record: Plain
    rejected: int
    cost: Cost

    @property
    def targets(self) -> Sequence[Plain]:
        """The predicates it discharged."""
        found: Sequence[Plain] = self.record["targets"]
        return found

    @property
    def returns(self) -> bool:
        """Whether it returned to an earlier certified state instead of discharging predicates of the task."""
        return self.record.get("restores") is not None

    @property
    def forced(self) -> bool:
        """Whether a policy let its predicates pass, which certifies none."""
        return bool(self.record.get("forced"))

    def status(self, *, stands: bool) -> str:
        """What became of its predicates, as in `frames.Frames`; `stands`: no return went behind it."""
        if self.returns:
            return "return"
        if self.forced:
            return "forced" if stands else "dropped"
        return "certified" if stands else "undone"


def _tokens(usage: Usage) -> int:
    return usage.input_tokens + usage.output_tokens


# One run of a comparison as a row of figures, read from its trajectory.

GATHER = "gather"
"""The node that brings what TDP's sub-tasks did in copies of the world into the world itself."""


class Prompted(Record):
    """Prompt tokens of one role, and how many of them the model had cached."""

    prompt_tokens: int = 0
    cached_tokens: int = 0

    @property
    def share(self) -> float:
        """Cached tokens per prompt token, 0 to 1."""
        return self.cached_tokens / self.prompt_tokens if self.prompt_tokens else 0.0


class RunCost(Record):
    """What was spent: calls and tokens that were paid, US dollars, world steps, wall-clock seconds inside nodes."""

    calls: int
    prompt_tokens: int
    cached_tokens: int
    output_tokens: int
    steps: int
    seconds: float
    usd: float = 0.0
    roles: dict[str, Prompted]


class Row(RunCost):
    """A finished run; `score` is 0 to 100, `trial` counts from 0."""

    method: str
    task: str
    trial: int = 0
    ending: str
    score: float
    solved: bool
    scored: bool = True
    """Whether the world gave a score at all."""
    run: str

    @property
    def verdict(self) -> bool | None:
        """Whether the scorer says that the task is solved; None without a score."""
        return self.solved if self.scored else None

    @property
    def fault(self) -> bool:
        """Whether the world or its data failed, so that no figure counts the run."""
        return self.ending in FAULTS


def cost_of(rows: Sequence[Row]) -> RunCost:
    """What several runs cost together."""
    amounts = ("calls", "prompt_tokens", "cached_tokens", "output_tokens", "steps", "seconds", "usd")
    sums = {name: sum(getattr(row, name) for row in rows) for name in amounts}
    return RunCost(**sums, roles=merged(row.roles for row in rows))


def by_task(rows: Sequence[Row], figure: str) -> dict[str, list[float]]:
    """One figure of each task's trials."""
    found = defaultdict[str, list[float]](list)
    for row in rows:
        found[row.task].append(float(getattr(row, figure)))
    return dict(found)


def row_of(method: str, task: str, trajectory: Trajectory, trial: int = 0) -> Row:
    """The row of a run that has its ending. One that came to no verdict, not even to a world, scores 0.

    Raises:
        Fault: ("data") the trajectory is of no such run.
    """
    footer, usage = trajectory.footer, trajectory.usage
    with legible(trajectory.header.run_id):
        steps = sum(map(steps_of, trajectory.events))
        roles = _roles([*trajectory.events, *trajectory.superseded])
    value = footer.scores.value if footer and footer.scores else 0.0
    return Row(
        method=method,
        task=task,
        trial=trial,
        ending=trajectory.ending,
        score=100 * value,
        solved=value >= 1,
        scored=bool(footer and footer.scores),
        calls=usage.calls,
        prompt_tokens=usage.input_tokens,
        cached_tokens=usage.cached_tokens,
        output_tokens=usage.output_tokens,
        steps=steps,
        seconds=usage.seconds,
        usd=usage.usd,
        roles=roles,
        run=trajectory.header.run_id,
    )


def merged(several: Iterable[Mapping[str, Prompted]]) -> dict[str, Prompted]:
    """The roles of several runs together."""
    sums: dict[str, Prompted] = {}
    for roles in several:
        for role, more in roles.items():
            known = sums.get(role, Prompted())
            sums[role] = Prompted(
                prompt_tokens=known.prompt_tokens + more.prompt_tokens,
                cached_tokens=known.cached_tokens + more.cached_tokens,
            )
    return sums


def steps_of(event: Event) -> int:
    """World steps of one event: what `act` added to the log, episode after episode, in inner graphs too.

    A log that is begun anew holds what was done before, and `gather` repeats what sub-tasks did.
    """
    repeats = event.node == GATHER or "history" in event.replaced
    log: Any = [] if repeats else (event.update or {}).get("history", [])
    return len(log)


def _roles(events: Iterable[Event]) -> dict[str, Prompted]:
    calls: list[dict[str, Any]] = [call for event in events for call in event.calls]
    return merged({call["role"]: _prompted(call)} for call in calls)


def _prompted(call: Mapping[str, Any]) -> Prompted:
    return Prompted(prompt_tokens=call.get("input_tokens", 0), cached_tokens=call.get("cached_tokens", 0))


# One pass over the events of a run: its plan, tries, certificates and what each took, without building the state.
#
# `Trajectory.state()` validates every record; a thousand runs are read here in the time that takes for a few.

CHECKS = frozenset({"audit", "revalidate"})
"""Nodes that lead to a replan though tries at the target are left."""

EXTENDED = "certify"
"""The node before Replan where it extends a plan that was cut: that is neither a replan nor are tries used up."""

PLANNING = frozenset({"reset", "propose"})
"""Nodes whose cost is the whole plan's, not that of the first predicate."""


class Tried(NamedTuple):
    """An attempt: `number` counts the tries at this target from 1, `step` is the world step it was made at."""

    position: int
    target: Plain
    number: int
    depth: int
    step: int


class Exhaustion(NamedTuple):
    """The first time all tries at a target were used up: cursor and plan length then."""

    head: int
    planned: int


@dataclass
class Fold:
    """What the events of a run add up to; of a graph without predicates, little but `steps`."""

    plan: Sequence[Plain] = ()
    head: int = 0
    steps: int = 0
    replans: int = 0
    exhaustion: Exhaustion | None = None
    tries: list[Tried] = field(default_factory=list)
    certificates: list[Certified] = field(default_factory=list)
    since: Cost = field(default_factory=Cost)
    fresh: int = 0
    """Where in `tries` those since the last certificate begin."""
    decided: set[int] = field(default_factory=set)
    """Which of `tries` were certified."""
    invalidated: set[tuple[int, int]] = field(default_factory=set)
    """Certified predicates found undone, and not held again by a return: index of the certificate, its target."""
    invalidated_at: list[frozenset[tuple[int, int]]] = field(default_factory=lambda: [frozenset()])
    """The same for every certified state, the empty one first."""
    before: str = ""
    """The node of the event before that did not fail."""

    def take(self, event: Event) -> None:
        """Go on by one event. One without an update failed: it changed nothing but what it spent."""
        update: dict[str, Any] = event.update or {}
        if event.node == "replan":
            if self.before not in CHECKS | {EXTENDED}:
                self.exhaustion = self.exhaustion or Exhaustion(self.head, len(self.plan))
            self.replans += bool(update.get("plan")) and self.before != EXTENDED
        if event.update is not None:
            self.before = event.node
        for lost in update.get("invalidations", ()):
            self.invalidated.add((lost["certificate"], lost["target"]))
        taken = steps_of(event)
        self.steps += taken
        self.since = self.since if event.node in PLANNING else self.since.plus(event.usage, taken)
        self.plan = update.get("plan", self.plan)
        for attempt in update.get("attempts", ()):
            self.tries.append(self._tried(attempt))
        for certificate in update.get("certificates", ()):
            self._certify(certificate)
        self.head = update.get("head", self.head)

    def open_tries(self) -> Sequence[Tried]:
        """Those since the last certificate."""
        return self.tries[self.fresh :]

    def standing(self) -> frozenset[int]:
        """Which certificates and passes still hold at the end: those that no return went behind."""
        states: list[tuple[int, ...]] = [()]
        for place, certificate in enumerate(self.certificates):
            to = certificate.record.get("restores")
            states.append((*states[-1], place) if to is None else states[to])
        return frozenset(states[-1])

    def _tried(self, attempt: Plain) -> Tried:
        position, target = attempt["position"], attempt["target"]
        before = sum(t.position == position and t.target == target for t in self.open_tries())
        return Tried(position, target, before + 1, attempt["verdict"]["depth"], self.steps)

    def _certify(self, record: Plain) -> None:
        to = record.get("restores")
        if to is not None:
            self.invalidated = {*self.invalidated_at[to]}
        self.invalidated_at.append(frozenset(self.invalidated))
        first = record["targets"][0]
        rejected = sum(t.target == first for t in self.open_tries()[:-1])
        self.certificates.append(Certified(record, rejected, self.since))
        self.since, self.fresh = Cost(), len(self.tries)
        if not self.certificates[-1].forced:
            self.decided.add(self.fresh - 1)


def folded_graphs(events: Iterable[Event]) -> Sequence[Fold]:
    """Fold all events of a run: its own graph's, then those of each graph inside a node, as these began."""
    folds = {"": Fold()}
    for event in events:
        folds.setdefault(event.scope, Fold()).take(event)
    return tuple(folds.values())


def kind_of(target: Plain) -> str:
    """The kind of a predicate; `condition` where it has none of its own."""
    kind: str = target.get("kind", "condition")
    return kind


def is_return(target: Plain) -> bool:
    """Whether a predicate asks for a return to an earlier certified state."""
    return kind_of(target) == RESTORE
