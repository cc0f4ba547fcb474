"""What a report tells of a run, folded from its events: the plan's rows and what happened at each."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple

from certigraph.evaluation.anatomy.folding import EXTENDED
from certigraph.evaluation.report.standing import held, reached, standing
from certigraph.state.certified import predicates_in_force
from certigraph.state.endings import GOAL
from certigraph.state.records import Attempt, Audit, Certificate, Invalidation, Predicate
from certigraph.state.trajectory import Event, Trajectory

Status = Literal["certified", "forced", "undone", "restored", "failed", "target", "waiting"]


class Try(NamedTuple):
    """An attempt, the world step it was made at, and what the world answered.

    `discharged`: a certificate came of it, be it one that a policy forced. An attempt that was judged to hold has none
    where an audit denied the goal, or where the run stopped in between.
    """

    attempt: Attempt
    step: int
    answer: str
    discharged: bool = False


class Replanned(NamedTuple):
    """A replan at a position of the plan; `tail` is the length of the new rest, 0 when there was none.

    `extends`: it was the rest of a plan that was cut.
    """

    position: int
    step: int
    tail: int
    extends: bool = False


class Audited(NamedTuple):
    """An audit of the goal, made at a position of the plan."""

    position: int
    audit: Audit


Moment = Try | Replanned | Audited


class Row(NamedTuple):
    """One predicate of the plan, how it ended, and what was done about it in order."""

    position: int
    predicate: Predicate
    status: Status
    certificate: Certificate | None
    moments: tuple[Moment, ...]


class Story(NamedTuple):
    """A run as a report shows it."""

    rows: list[Row]
    moments: list[Moment]
    standing: list[tuple[int, int]]
    """(world step, predicates that stand certified) after every certificate."""
    steps: int

    def count(self, *statuses: Status) -> int:
        """How many predicates of the plan have one of the statuses."""
        return sum(row.status in statuses for row in self.rows)

    @property
    def replans(self) -> int:
        """Replans that brought a new tail."""
        return sum(isinstance(m, Replanned) and m.tail > 0 and not m.extends for m in self.moments)

    @property
    def forced(self) -> bool:
        """Whether the last predicate of the plan, its goal, was let pass and not certified."""
        return bool(self.rows) and self.rows[-1].status == "forced"


def read_story(trajectory: Trajectory) -> Story:
    """Fold a trajectory. A graph without plan or head is shown by its certificates and attempts."""
    state, moments = trajectory.state(), _moments(trajectory.events)
    certificates = state.get("certificates", [])
    return Story(
        rows=list(_rows(state, moments, trajectory.footer.ending if trajectory.footer else "")),
        moments=moments,
        standing=[*zip((c.step for c in certificates), _held(certificates, state), strict=True)],
        steps=len(state.get("history", [])),
    )


def _held(certificates: Sequence[Certificate], state: Mapping[str, Any]) -> Iterator[int]:
    """How many predicates were in force after every certificate."""
    found: Sequence[Invalidation] = state.get("invalidations", ())
    if not found:
        yield from map(held, reached(certificates)[1:])
        return
    for number, certificate in enumerate(certificates, 1):
        known = [invalidation for invalidation in found if invalidation.step <= certificate.step]
        yield len(predicates_in_force(certificates[:number], known))


def _rows(state: Mapping[str, Any], moments: Sequence[Moment], ending: str) -> Iterator[Row]:
    certificates, at = state.get("certificates", []), _by_position(moments)
    by_position = {c.position + n: i for i, c in enumerate(certificates) for n in range(c.depth)}
    kept, plan = standing(certificates), _plan(state)
    places = predicates_in_force(certificates, state.get("invalidations", ()))
    in_force = {certificates[place.certificate].position + place.target for place in places}
    head = state.get("head", max(by_position, default=-1) + 1)
    for position, predicate in sorted(plan.items()):
        index = by_position.get(position)
        certificate = None if index is None else certificates[index]
        stands = position in in_force or (certificate is not None and bool(certificate.forced) and index in kept)
        status = _status(certificate, stands, position == head, ending)
        yield Row(position, predicate, status, certificate, tuple(at[position]))


def _plan(state: Mapping[str, Any]) -> dict[int, Predicate]:
    certified = {c.position + n: t for c in state.get("certificates", []) for n, t in enumerate(c.targets)}
    attempted = {a.position: a.target for a in state.get("attempts", [])}
    return {**attempted, **certified, **dict(enumerate(state.get("plan", [])))}


def _status(certificate: Certificate | None, stands: bool, at_head: bool, ending: str) -> Status:
    if certificate and certificate.restores is not None:
        return "restored"
    if certificate:
        return "undone" if not stands else "forced" if certificate.forced else "certified"
    if not at_head:
        return "waiting"
    return "target" if not ending or ending == GOAL or ending.startswith(("limit:", "error:")) else "failed"


def _moments(events: Sequence[Event]) -> list[Moment]:
    moments: list[Moment] = []
    head, step, answer, latest, before = 0, 0, "", -1, ""
    for event in (event for event in events if not event.scope):
        update: dict[str, Any] = {**(event.update or {})}
        step += len(update.get("history", []))
        answer = update.get("observation", {}).get("text", answer)
        for attempt in update.get("attempts", []):
            latest = len(moments)
            moments.append(Try(Attempt.model_validate(attempt), step, answer))
        if update.get("certificates") and latest >= 0:
            moments[latest] = _discharged(moments[latest])
        for audit in update.get("audits", []):
            moments.append(Audited(head, Audit.model_validate(audit)))
        if event.node == "replan":
            tail = max(len(update.get("plan", [])) - head, 0)
            moments.append(Replanned(head, step, tail, extends=before == EXTENDED))
        before = before if event.update is None else event.node
        head = update.get("head", head)
    return moments


def _discharged(moment: Moment) -> Moment:
    return moment._replace(discharged=True) if isinstance(moment, Try) and moment.attempt.verdict.depth else moment


def _by_position(moments: Sequence[Moment]) -> defaultdict[int, list[Moment]]:
    grouped: defaultdict[int, list[Moment]] = defaultdict(list)
    for moment in moments:
        grouped[moment.attempt.position if isinstance(moment, Try) else moment.position].append(moment)
    return grouped
