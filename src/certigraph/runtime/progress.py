"""Progress of a plan, computed from the events of a graph: predicates, attempts, certificates and replans.

`PlanHistory` takes events as they arrive. The live view, reports, task graphs and evaluation tables read it. It keeps
records as they are in a trajectory and validates only the few that are shown, so that a thousand runs are read in
little time.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, NamedTuple

from certigraph.state.endings import GOAL
from certigraph.state.records import RESTORE, Attempt, Audit, Certificate, Predicate, Usage
from certigraph.state.tools import reasons_refused
from certigraph.state.trajectory import Event

PlainRecord = Mapping[str, Any]
"""A record as the JSON object of a trajectory line. Fields that have their default value are missing."""

# Certified states if agents go back to earlier ones, in time and memory linear in the number of certificates.


class ReachedState(NamedTuple):
    """A certified state: the index of the certificate that led to it, and the state before.

    `predicates` and `passed` are the numbers of certified predicates and of those that a policy let pass uncertified.
    """

    certificate: int
    before: "ReachedState | None"
    predicates: int
    passed: int


def valid_certificates(certificates: Sequence[Certificate]) -> set[int]:
    """Return the indices of the certificates that led to the latest certified state.

    Certificates before a return to an earlier state are left out; those that a policy forced are included.
    """
    states: list[ReachedState | None] = [None]
    for certificate in certificates:
        _add_state(states, certificate.depth, forced=bool(certificate.forced), restores=certificate.restores)
    return set(_certificate_chain(states[-1]))


def _add_state(states: list[ReachedState | None], depth: int, *, forced: bool, restores: int | None) -> None:
    # The empty state stands first, so that certificate i leads from state i to state i + 1.
    if restores is not None:
        states.append(states[restores])
        return
    before = states[-1]
    predicates, passed = (before.predicates, before.passed) if before else (0, 0)
    gained = (0, depth) if forced else (depth, 0)
    states.append(ReachedState(len(states) - 1, before, predicates + gained[0], passed + gained[1]))


def _certificate_chain(state: ReachedState | None) -> Iterator[int]:
    while state:
        yield state.certificate
        state = state.before


# Certificates with their cost.


class StepCost(NamedTuple):
    """Cost: numbers of world steps, model calls, and input and output tokens together."""

    steps: int = 0
    calls: int = 0
    tokens: int = 0

    def plus(self, usage: Usage, steps: int) -> "StepCost":
        """Return the cost with that of one more execution of a graph node added."""
        tokens = usage.input_tokens + usage.output_tokens
        return StepCost(self.steps + steps, self.calls + usage.calls, self.tokens + tokens)


@dataclass(frozen=True)
class CertificateCost:
    """A certificate, with what it cost since the previous one.

    `record` is the certificate, or a pass that a policy forced. `rejected` is the number of rejected attempts at its
    first predicate, `tried` that of all attempts since the latest certificate or replan.
    """

    record: PlainRecord
    rejected: int
    tried: int
    cost: StepCost

    @cached_property
    def certificate(self) -> Certificate:
        """The certificate as a validated record."""
        return Certificate.model_validate(self.record)

    @property
    def targets(self) -> Sequence[PlainRecord]:
        """The predicates that the certificate certified."""
        targets: Sequence[PlainRecord] = self.record["targets"]
        return targets

    @property
    def restores(self) -> int | None:
        """Number of the earlier certified state that the agent went back to; None if it did not go back."""
        restores: int | None = self.record.get("restores")
        return restores

    @property
    def returns(self) -> bool:
        """Whether the agent went back to an earlier certified state, instead of certifying predicates of the task."""
        return self.restores is not None

    @property
    def forced(self) -> bool:
        """Whether a policy let the predicates pass uncertified."""
        return bool(self.record.get("forced"))

    @property
    def positions(self) -> range:
        """Positions of the certificate's predicates in the plan."""
        return range(self.record["position"], self.record["position"] + len(self.targets))

    def status(self, *, valid: bool) -> str:
        """Return the status of the certificate's predicates, one of those in the tables of `evaluation.frames`.

        Args:
            valid: False if the agent later went back to a state that it had reached before this certificate.
        """
        if self.returns:
            return "return"
        if self.forced:
            return "forced" if valid else "dropped"
        return "certified" if valid else "undone"


# Moments of a plan.


class PlanAttempt:
    """An attempt at a predicate of the plan.

    `number` counts the attempts at this predicate from 1, `step` the world steps so far; `answer` is the world's latest
    observation as text; `prompts` are the lines of `prompts.jsonl` with the model calls since the moment before.
    `certified`: a certificate followed. `discharged`: the verdict holds, and a certificate or a
    forced pass followed. Neither follows a verdict that holds if an audit denied the goal, or if the run stopped in
    between.
    """

    def __init__(self, record: PlainRecord, number: int, step: int, answer: str, prompts: Sequence[int] = ()) -> None:
        self.record, self.number, self.step, self.answer = record, number, step, answer
        self.prompts = prompts
        self.certified = self.discharged = False

    @cached_property
    def attempt(self) -> Attempt:
        """The attempt as a validated record."""
        return Attempt.model_validate(self.record)

    @property
    def position(self) -> int:
        """Index in the plan of the predicate that was attempted."""
        position: int = self.record["position"]
        return position

    @property
    def target(self) -> PlainRecord:
        """The predicate that was attempted."""
        target: PlainRecord = self.record["target"]
        return target

    @property
    def depth(self) -> int:
        """Cascade depth of the verdict: number of predicates that hold; 0 if the attempted one does not."""
        depth: int = self.record["verdict"]["depth"]
        return depth

    @cached_property
    def refusals(self) -> list[str]:
        """Why calls of the attempted action were not made, such as the reason that a person gave."""
        return reasons_refused(self.attempt.action)

    def discharge(self, *, forced: bool) -> None:
        """Record that a certificate or, if `forced`, a pass without certification followed the attempt."""
        self.certified |= not forced
        self.discharged |= bool(self.depth)


class PlanReplan(NamedTuple):
    """A replan at a position of the plan.

    `tail` is the number of predicates that the new plan has from there, 0 if there is none. `extends`: the replan
    continued a plan that was cut because it had too many conditions. `reason` says why it gave up, if the operator did.
    `failed`: it did not finish, because of an error or a limit.
    """

    position: int
    step: int
    tail: int
    extends: bool = False
    prompts: Sequence[int] = ()
    reason: str = ""
    failed: bool = False

    @property
    def gave_up(self) -> bool:
        """Whether the replan finished, and there is no new plan."""
        return not (self.tail or self.extends or self.failed)


class PlanAudit(NamedTuple):
    """An audit of the goal, with the position of the plan at which it was made."""

    position: int
    audit: Audit
    prompts: Sequence[int] = ()


PlanMoment = PlanAttempt | PlanReplan | PlanAudit
"""Something that happened at a position of the plan: an attempt, a replan or an audit."""

PredicateStatus = Literal["certified", "forced", "undone", "restored", "failed", "target", "waiting"]
"""Status of a predicate of the plan.

"forced": a policy let it pass uncertified. "undone": certified, but invalidated or taken back by going back to an
earlier state. "restored": it stands for going back. "target": the next to certify, in a run that goes on or was stopped
by a limit or an error. "failed": the next to certify, in a run that ended without the goal. "waiting": not reached, or
the next to certify in a run that solved its task.
"""


class PredicateRow(NamedTuple):
    """One predicate of the plan with its status, its certificate, and what happened at its position, in order."""

    position: int
    predicate: Predicate
    status: PredicateStatus
    certificate: Certificate | None
    moments: tuple[PlanMoment, ...]


# The fold.

GATHER_NODE = "gather"
"""Node of TDP's graph that repeats in the run's own world what sub-tasks did in copies of it."""

CHECK_NODES = frozenset({"audit", "revalidate"})
"""Graph nodes that can lead to a replan although attempts at the present predicate are left."""

EXTENDING_NODE = "certify"
"""Graph node that runs before Replan when Replan continues a plan that was cut.

Such a replan counts neither as a replan nor as exhausted attempts.
"""

PLANNING_NODES = frozenset({"reset", "propose"})
"""Graph nodes whose cost belongs to the plan and not to its first predicate."""


class Exhaustion(NamedTuple):
    """The first time that all attempts at a target were used up.

    `head` is the position of the target in the plan, `planned` the length of the plan.
    """

    head: int
    planned: int


class PlanHistory:
    """Plan of one graph so far, computed from its events.

    For a graph without predicates it holds little more than the number of world steps.
    """

    def __init__(self) -> None:
        self.plan: Sequence[PlainRecord] = ()
        self.head = 0
        self.steps = 0
        """Number of world steps, without those that TDP's node `gather` repeats."""
        self.logged = 0
        """Length of the log of world steps. A new episode starts a new log."""
        self.moments: list[PlanMoment] = []
        self.attempts: list[PlanAttempt] = []
        self.certificates: list[CertificateCost] = []
        self.curve: list[tuple[int, int]] = []
        """World step and number of certified predicates that still hold, after every certificate."""
        self.invalidated: frozenset[tuple[int, int]] = frozenset()
        """Predicates that are invalidated: index of the certificate, and index of the predicate among its targets.

        Going back to an earlier state takes back the invalidations since.
        """
        self.replans = 0
        """Number of replans that led to new predicates; `gave_up` counts the others."""
        self.extended = False
        """Whether the latest replan continued a plan that was cut because it had too many conditions."""
        self.exhaustion: Exhaustion | None = None
        self.tried = 0
        """Number of attempts since the latest certificate or replan."""
        self.rejection = ""
        """Reason why the latest attempt was rejected, or the goal denied by an audit; empty after a certificate."""
        self.prompts: list[int] = []
        """Lines of `prompts.jsonl` with the model calls that planned before the first attempt."""
        self._prompts: list[int] = []
        self._states: list[ReachedState | None] = [None]
        self._invalidated_at = [self.invalidated]
        self._cost_since = StepCost()
        self._first_open = 0
        self._answer = self._before = ""

    def fold(self, event: Event) -> None:
        """Update with one event of the graph. An event without an update failed, and only its usage counts."""
        update: PlainRecord = event.update or {}
        steps = count_steps(event)
        self.steps += steps
        before = event.repeated if "history" in event.replaced else self.logged
        self.logged = before + len(update.get("history", ()))
        self._answer = update.get("observation", {}).get("text", self._answer)
        (self.prompts if event.node in PLANNING_NODES else self._prompts).extend(event.prompts)
        if event.node == "replan":
            self._replan(update, failed=event.update is None)
        if event.update is not None:
            self._before = event.node
        for invalidation in update.get("invalidations", ()):
            self._invalidate(invalidation)
        if event.node not in PLANNING_NODES:
            self._cost_since = self._cost_since.plus(event.usage, steps)
        self.plan = update.get("plan", self.plan)
        for attempt in update.get("attempts", ()):
            self._attempt(attempt)
        for certificate in update.get("certificates", ()):
            self._certify(certificate)
        for audit in update.get("audits", ()):
            self._audit(Audit.model_validate(audit))
        self.head = update.get("head", self.head)

    @property
    def in_force(self) -> int:
        """Number of certified predicates that still hold.

        Not counted are invalidated predicates, and those that were taken back by going back to an earlier state.
        """
        state = self._states[-1]
        return (state.predicates if state else 0) - len(self.invalidated)

    @property
    def passed(self) -> int:
        """Number of predicates that a policy let pass uncertified and that were not taken back later."""
        state = self._states[-1]
        return state.passed if state else 0

    @property
    def gave_up(self) -> int:
        """Number of replans that gave up."""
        return sum(isinstance(moment, PlanReplan) and moment.gave_up for moment in self.moments)

    @property
    def total(self) -> int:
        """Number of predicates: those that still hold, those that passed uncertified, and those still to come."""
        return self.in_force + self.passed + max(len(self.plan) - self.head, 0)

    @property
    def target(self) -> str:
        """Text of the target, the predicate to certify next; empty if there is none."""
        return self.plan[self.head]["text"] if self.head < len(self.plan) else ""

    def open_attempts(self) -> Sequence[PlanAttempt]:
        """Return the attempts since the latest certificate."""
        return self.attempts[self._first_open :]

    def valid_indices(self) -> frozenset[int]:
        """Return the indices of the certificates that led to the latest certified state, forced ones included."""
        return frozenset(_certificate_chain(self._states[-1]))

    def rows(self, ending: str, *, solved: bool = False) -> list[PredicateRow]:
        """Build one row for every predicate, by position in the plan.

        Predicates that only attempts or certificates name have rows too, because a graph may have no plan.

        Args:
            ending: the ending of the run; empty if it has none yet.
            solved: whether the score says that the task is solved, so that no predicate failed.
        """
        certificate_at = {
            position: index for index, entry in enumerate(self.certificates) for position in entry.positions
        }
        valid, in_force, moments_at = self.valid_indices(), self._positions_in_force(), self._moments_by_position()
        head = self.head if self.plan else max(certificate_at, default=-1) + 1
        rows = []
        for position, target in sorted(self._targets().items()):
            index = certificate_at.get(position)
            certificate = None if index is None else self.certificates[index].certificate
            is_valid = position in in_force or (certificate is not None and bool(certificate.forced) and index in valid)
            status = _status_of(certificate, is_valid, position == head and not solved, ending)
            moments = tuple(moments_at[position])
            rows.append(PredicateRow(position, Predicate.model_validate(target), status, certificate, moments))
        return rows

    def _targets(self) -> dict[int, PlainRecord]:
        attempted = {attempt.position: attempt.target for attempt in self.attempts}
        certified = {
            position: target
            for entry in self.certificates
            for position, target in zip(entry.positions, entry.targets, strict=True)
        }
        return {**attempted, **certified, **dict(enumerate(self.plan))}

    def _positions_in_force(self) -> set[int]:
        return {
            position
            for index in _certificate_chain(self._states[-1])
            for number, position in enumerate(self.certificates[index].positions)
            if not self.certificates[index].forced and (index, number) not in self.invalidated
        }

    def _moments_by_position(self) -> Mapping[int, list[PlanMoment]]:
        grouped: defaultdict[int, list[PlanMoment]] = defaultdict(list)
        for moment in self.moments:
            grouped[moment.position].append(moment)
        return grouped

    def _replan(self, update: PlainRecord, *, failed: bool) -> None:
        self.extended, tried, self.tried = self._before == EXTENDING_NODE, self.tried, 0
        plan = update.get("plan", ())
        self.replans += bool(plan) and not self.extended
        if tried and self._before not in CHECK_NODES | {EXTENDING_NODE}:
            self.exhaustion = self.exhaustion or Exhaustion(self.head, len(self.plan))
        tail = max(len(plan) - self.head, 0)
        prompts, reason = self._take_prompts(), update.get("gave_up", "")
        self.moments.append(PlanReplan(self.head, self.steps, tail, self.extended, prompts, reason, failed))

    def _attempt(self, record: PlainRecord) -> None:
        position, target, verdict = record["position"], record["target"], record["verdict"]
        before = sum(t.position == position and t.target == target for t in self.open_attempts())
        attempt = PlanAttempt(record, before + 1, self.steps, self._answer, self._take_prompts())
        self.attempts.append(attempt)
        self.moments.append(attempt)
        self.tried += 1
        self.rejection = "" if verdict["depth"] else verdict.get("reason", "")

    def _audit(self, audit: Audit) -> None:
        self.moments.append(PlanAudit(self.head, audit, self._take_prompts()))
        if not audit.confirmed:
            self.rejection = f"audit of the goal: denied: {audit.reason}".removesuffix(": ")

    def _take_prompts(self) -> Sequence[int]:
        taken, self._prompts = tuple(self._prompts), []
        return taken

    def _certify(self, record: PlainRecord) -> None:
        rejected = sum(t.target == record["targets"][0] for t in self.open_attempts()[:-1])
        entry = CertificateCost(record, rejected, self.tried, self._cost_since)
        self.certificates.append(entry)
        _add_state(self._states, len(entry.targets), forced=entry.forced, restores=entry.restores)
        if entry.restores is not None:
            self.invalidated = self._invalidated_at[entry.restores]
        self._invalidated_at.append(self.invalidated)
        self.curve.append((record["step"], self.in_force))
        self._cost_since, self._first_open = StepCost(), len(self.attempts)
        self.tried, self.rejection = 0, ""
        if self.attempts:
            self.attempts[-1].discharge(forced=entry.forced)

    def _invalidate(self, record: PlainRecord) -> None:
        self.invalidated |= {(record["certificate"], record["target"])}
        if self.curve and record["step"] <= self.curve[-1][0]:  # found after the step that led to the certificate
            self.curve[-1] = self.curve[-1][0], self.in_force


def _status_of(certificate: Certificate | None, is_valid: bool, at_head: bool, ending: str) -> PredicateStatus:
    if certificate and certificate.restores is not None:
        return "restored"
    if certificate:
        return "undone" if not is_valid else "forced" if certificate.forced else "certified"
    if not at_head:
        return "waiting"
    return "target" if not ending or ending == GOAL or ending.startswith(("limit:", "error:")) else "failed"


def count_steps(event: Event) -> int:
    """Count the world steps of one event: the entries that the node `act` added to the log of steps."""
    # A log that is replaced holds earlier steps, and `gather` repeats the steps of sub-tasks.
    repeats = event.node == GATHER_NODE or "history" in event.replaced
    log: Any = [] if repeats else (event.update or {}).get("history", [])
    return len(log)


def fold_graphs(events: Iterable[Event]) -> Sequence[PlanHistory]:
    """Return the plan history of each graph of a run: first the outermost graph, then the graphs inside nodes."""
    folds = {"": PlanHistory()}
    for event in events:
        folds.setdefault(event.scope, PlanHistory()).fold(event)
    return tuple(folds.values())


def add_gave_up_count(text: str, gave_up: int) -> str:
    """Add to a text about replans how many gave up, if any did: 0 replans (1 gave up)."""
    return f"{text} ({gave_up:,} gave up)" if gave_up else text


def kind_of(target: PlainRecord) -> str:
    """Return the kind of a predicate that is given as JSON; by default `condition`."""
    kind: str = target.get("kind", "condition")
    return kind


def is_return(target: PlainRecord) -> bool:
    """Whether a predicate stands for going back to an earlier certified state."""
    return kind_of(target) == RESTORE
