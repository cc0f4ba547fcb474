"""History of a run, folded from its events: plan, attempts, certificates, and one row of a comparison."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from certigraph.runtime.files import translate_trajectory_errors
from certigraph.state.records import FAULT_ENDINGS, RESTORE, Certificate, Record, Usage
from certigraph.state.trajectory import Event, Trajectory

# Certificates that are valid after returns to earlier states, in time and memory linear in their number.


class ReachedState(NamedTuple):
    """A certified state: index of the certificate that led to it, the state before, and its number of predicates."""

    certificate: int
    before: "ReachedState | None"
    predicates: int


class PredicateCounts(NamedTuple):
    """Number of predicates in the latest certified state, and of those that a policy let pass uncertified."""

    certified: int
    passed: int


def reached_states(certificates: Sequence[Certificate]) -> list[ReachedState | None]:
    """Return every certified state in order, the empty state (None) first; a forced pass adds no predicate."""
    states: list[ReachedState | None] = [None]
    for index, certificate in enumerate(certificates):
        if certificate.restores is not None:
            states.append(states[certificate.restores])
        else:
            gained = 0 if certificate.forced else certificate.depth
            states.append(ReachedState(index, states[-1], predicate_count_of(states[-1]) + gained))
    return states


def valid_certificates(certificates: Sequence[Certificate]) -> set[int]:
    """Return the indices of the certificates that led to the latest certified state, forced ones included."""
    return set(_certificate_chain(reached_states(certificates)[-1]))


def count_predicates(certificates: Sequence[Certificate]) -> PredicateCounts:
    """Count the predicates that are certified and passed at the end."""
    last = reached_states(certificates)[-1]
    passed = (certificates[index] for index in _certificate_chain(last) if certificates[index].forced)
    return PredicateCounts(predicate_count_of(last), sum(certificate.depth for certificate in passed))


def predicate_count_of(state: ReachedState | None) -> int:
    """Count the predicates of a certified state."""
    return state.predicates if state else 0


def _certificate_chain(state: ReachedState | None) -> Iterator[int]:
    while state:
        yield state.certificate
        state = state.before


# Certificates with their cost.

PlainRecord = Mapping[str, Any]
"""A record as JSON in a trajectory line, without fields that have their default value."""


class StepCost(NamedTuple):
    """Numbers of world steps, model calls, and input and output tokens."""

    steps: int = 0
    calls: int = 0
    tokens: int = 0

    def plus(self, usage: Usage, steps: int) -> "StepCost":
        """Return the cost with one more execution of a node."""
        return StepCost(self.steps + steps, self.calls + usage.calls, self.tokens + _token_count(usage))


class CertificateCost(NamedTuple):
    """A certificate or forced pass, the rejected attempts at its first predicate, and the cost since the last one."""

    record: PlainRecord
    rejected: int
    cost: StepCost

    @property
    def targets(self) -> Sequence[PlainRecord]:
        """The predicates that it certified."""
        targets: Sequence[PlainRecord] = self.record["targets"]
        return targets

    @property
    def returns(self) -> bool:
        """Whether it returned to an earlier certified state instead of certifying predicates of the task."""
        return self.record.get("restores") is not None

    @property
    def forced(self) -> bool:
        """Whether a policy let its predicates pass uncertified."""
        return bool(self.record.get("forced"))

    def status(self, *, valid: bool) -> str:
        """Return the status of its predicates, as in `frames.Frames`.

        Args:
            valid: whether no return led to a state before it.
        """
        if self.returns:
            return "return"
        if self.forced:
            return "forced" if valid else "dropped"
        return "certified" if valid else "undone"


def _token_count(usage: Usage) -> int:
    return usage.input_tokens + usage.output_tokens


# One run as a row of a comparison.

GATHER_NODE = "gather"
"""TDP's node that repeats in the world what sub-tasks did in copies of it."""


class PromptTokens(Record):
    """Prompt tokens of one role, and how many of them were in the model's cache."""

    prompt_tokens: int = 0
    cached_tokens: int = 0

    @property
    def share(self) -> float:
        """Cached tokens per prompt token, 0 to 1."""
        return self.cached_tokens / self.prompt_tokens if self.prompt_tokens else 0.0


class RunCost(Record):
    """Usage of runs: calls and tokens that were paid for, US dollars, world steps, wall-clock seconds inside nodes."""

    calls: int
    prompt_tokens: int
    cached_tokens: int
    output_tokens: int
    steps: int
    seconds: float
    usd: float = 0.0
    roles: dict[str, PromptTokens]


class ComparisonRow(RunCost):
    """A finished run; `score` is 0 to 100, `trial` counts from 0."""

    method: str
    task: str
    trial: int = 0
    ending: str
    score: float
    solved: bool
    scored: bool = True
    """Whether the world gave a score."""
    run: str

    @property
    def verdict(self) -> bool | None:
        """Whether the task is solved; None without a score."""
        return self.solved if self.scored else None

    @property
    def fault(self) -> bool:
        """Whether the world or its data failed; such runs count in no statistic."""
        return self.ending in FAULT_ENDINGS


def sum_costs(rows: Sequence[ComparisonRow]) -> RunCost:
    """Sum the cost of several runs."""
    amounts = ("calls", "prompt_tokens", "cached_tokens", "output_tokens", "steps", "seconds", "usd")
    sums = {name: sum(getattr(row, name) for row in rows) for name in amounts}
    return RunCost(**sums, roles=merge_roles(row.roles for row in rows))


def values_by_task(rows: Sequence[ComparisonRow], figure: str) -> dict[str, list[float]]:
    """Group the values of one column by task, a value for each trial."""
    values = defaultdict[str, list[float]](list)
    for row in rows:
        values[row.task].append(float(getattr(row, figure)))
    return dict(values)


def comparison_row_of(method: str, task: str, trajectory: Trajectory, trial: int = 0) -> ComparisonRow:
    """Build the row of a finished run. A run without a verdict scores 0.

    Raises:
        Fault: ("data") the trajectory has contents that no run of its graph writes.
    """
    footer, usage = trajectory.footer, trajectory.usage
    with translate_trajectory_errors(trajectory.header.run_id):
        steps = sum(map(count_steps, trajectory.events))
        roles = _prompt_tokens_by_role([*trajectory.events, *trajectory.superseded])
    value = footer.scores.value if footer and footer.scores else 0.0
    return ComparisonRow(
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


def merge_roles(several: Iterable[Mapping[str, PromptTokens]]) -> dict[str, PromptTokens]:
    """Sum the prompt tokens of several runs by role."""
    sums: dict[str, PromptTokens] = {}
    for roles in several:
        for role, more in roles.items():
            known = sums.get(role, PromptTokens())
            sums[role] = PromptTokens(
                prompt_tokens=known.prompt_tokens + more.prompt_tokens,
                cached_tokens=known.cached_tokens + more.cached_tokens,
            )
    return sums


def count_steps(event: Event) -> int:
    """Count the world steps of one event: the entries that `act` added to the log, also in inner graphs."""
    # A log that is replaced holds earlier steps, and `gather` repeats the steps of sub-tasks.
    repeats = event.node == GATHER_NODE or "history" in event.replaced
    log: Any = [] if repeats else (event.update or {}).get("history", [])
    return len(log)


def _prompt_tokens_by_role(events: Iterable[Event]) -> dict[str, PromptTokens]:
    calls: list[dict[str, Any]] = [call for event in events for call in event.calls]
    return merge_roles({call["role"]: _prompt_tokens_of(call)} for call in calls)


def _prompt_tokens_of(call: Mapping[str, Any]) -> PromptTokens:
    return PromptTokens(prompt_tokens=call.get("input_tokens", 0), cached_tokens=call.get("cached_tokens", 0))


# One pass over the events of a run. `Trajectory.state()` validates every record; this reads a thousand runs in the time
# that it needs for a few.

CHECK_NODES = frozenset({"audit", "revalidate"})
"""Nodes that lead to a replan although attempts at the target are left."""

EXTENDING_NODE = "certify"
"""The node before Replan when it extends a plan that was cut; this counts neither as a replan nor as exhaustion."""

PLANNING_NODES = frozenset({"reset", "propose"})
"""Nodes whose cost belongs to the plan, not to its first predicate."""


class CountedAttempt(NamedTuple):
    """An attempt: `number` counts the attempts at its target from 1, `step` is the number of world steps so far."""

    position: int
    target: PlainRecord
    number: int
    depth: int
    step: int


class Exhaustion(NamedTuple):
    """The first time that all attempts at a target were used up: position in the plan and length of the plan."""

    head: int
    planned: int


@dataclass
class RunSummary:
    """Summary of the events of a run; for a graph without predicates, little more than `steps`."""

    plan: Sequence[PlainRecord] = ()
    head: int = 0
    steps: int = 0
    replans: int = 0
    exhaustion: Exhaustion | None = None
    attempts: list[CountedAttempt] = field(default_factory=list)
    certificates: list[CertificateCost] = field(default_factory=list)
    cost_since: StepCost = field(default_factory=StepCost)
    first_open: int = 0
    """Index in `attempts` of the first attempt after the last certificate."""
    certified: set[int] = field(default_factory=set)
    """Indices in `attempts` of the attempts that were certified."""
    invalidated: set[tuple[int, int]] = field(default_factory=set)
    """Invalidated predicates that no return restored: index of the certificate, index of its target."""
    invalidated_at: list[frozenset[tuple[int, int]]] = field(default_factory=lambda: [frozenset()])
    """The same for every certified state, the empty one first."""
    before: str = ""
    """The node of the latest event that did not fail."""

    def fold(self, event: Event) -> None:
        """Fold one event. An event without an update failed and adds only its usage."""
        update: dict[str, Any] = event.update or {}
        if event.node == "replan":
            if self.before not in CHECK_NODES | {EXTENDING_NODE}:
                self.exhaustion = self.exhaustion or Exhaustion(self.head, len(self.plan))
            self.replans += bool(update.get("plan")) and self.before != EXTENDING_NODE
        if event.update is not None:
            self.before = event.node
        for invalidation in update.get("invalidations", ()):
            self.invalidated.add((invalidation["certificate"], invalidation["target"]))
        steps = count_steps(event)
        self.steps += steps
        self.cost_since = self.cost_since if event.node in PLANNING_NODES else self.cost_since.plus(event.usage, steps)
        self.plan = update.get("plan", self.plan)
        for attempt in update.get("attempts", ()):
            self.attempts.append(self._count_attempt(attempt))
        for certificate in update.get("certificates", ()):
            self._certify(certificate)
        self.head = update.get("head", self.head)

    def open_attempts(self) -> Sequence[CountedAttempt]:
        """Return the attempts since the last certificate."""
        return self.attempts[self.first_open :]

    def valid_indices(self) -> frozenset[int]:
        """Return the indices of certificates and passes that are valid at the end."""
        states: list[tuple[int, ...]] = [()]
        for index, certificate in enumerate(self.certificates):
            restored = certificate.record.get("restores")
            states.append((*states[-1], index) if restored is None else states[restored])
        return frozenset(states[-1])

    def _count_attempt(self, attempt: PlainRecord) -> CountedAttempt:
        position, target = attempt["position"], attempt["target"]
        before = sum(t.position == position and t.target == target for t in self.open_attempts())
        return CountedAttempt(position, target, before + 1, attempt["verdict"]["depth"], self.steps)

    def _certify(self, record: PlainRecord) -> None:
        restored = record.get("restores")
        if restored is not None:
            self.invalidated = {*self.invalidated_at[restored]}
        self.invalidated_at.append(frozenset(self.invalidated))
        first = record["targets"][0]
        rejected = sum(t.target == first for t in self.open_attempts()[:-1])
        self.certificates.append(CertificateCost(record, rejected, self.cost_since))
        self.cost_since, self.first_open = StepCost(), len(self.attempts)
        if not self.certificates[-1].forced:
            self.certified.add(self.first_open - 1)


def fold_graphs(events: Iterable[Event]) -> Sequence[RunSummary]:
    """Fold the events of a run by graph: the outermost graph first, then the graphs inside nodes."""
    folds = {"": RunSummary()}
    for event in events:
        folds.setdefault(event.scope, RunSummary()).fold(event)
    return tuple(folds.values())


def kind_of(target: PlainRecord) -> str:
    """Return the kind of a predicate, by default `condition`."""
    kind: str = target.get("kind", "condition")
    return kind


def is_return(target: PlainRecord) -> bool:
    """Whether a predicate stands for a return to an earlier certified state."""
    return kind_of(target) == RESTORE
