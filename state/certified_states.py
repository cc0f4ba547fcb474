"""The certified state of a run, computed from its certificates: SDP's state space (SDP paper, Table 1).

It is not stored in the state of a run.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from certigraph.state.channels import LogIndexes
from certigraph.state.records import (
    CHECK,
    ESTABLISHED,
    OUTDATED,
    Action,
    Attempt,
    Certificate,
    Fact,
    Finding,
    Invalidation,
    Predicate,
    Record,
)


class KnownFinding(Record):
    """A finding. If a policy let it pass uncertified, `forced` is the name of that policy."""

    finding: Finding
    forced: str = ""


class CertifiedState(Record):
    """Everything certified so far, in order.

    The last predicate is the current state, s_t in the SDP paper (Table 1).
    """

    predicates: tuple[Predicate, ...] = ()
    actions: tuple[Action, ...] = ()
    evidence: tuple[str, ...] = ()
    """The evidence for each action, taken from its certificate."""
    known: tuple[KnownFinding, ...] = ()
    """The findings of all certificates. Those that a policy let pass uncertified are included and marked."""


class Transition(Record):
    """One action, and the predicates that had been found true before and after it (SDP section 3.2)."""

    before: CertifiedState
    action: Action
    after: CertifiedState
    depth: int
    step: int


def certified_states(certificates: Sequence[Certificate]) -> list[CertifiedState]:
    """Return the certified state before the first certificate, which is empty, and the one after each certificate."""
    states = [CertifiedState()]
    for certificate in certificates:
        states.append(_next_state(states, certificate))
    return states


def certified_state(certificates: Sequence[Certificate], invalidations: Sequence[Invalidation] = ()) -> CertifiedState:
    """Return the latest certified state, without predicates that were invalidated.

    The actions and findings of an invalidated predicate's certificate stay. Earlier states are built only if a
    certificate went back to one of them.
    """
    index = _index_of(certificates)
    latest = certified_states(certificates)[-1] if index.restored else index.state()
    if not invalidations:
        return latest
    valid = tuple(entry.predicate for entry in predicates_in_force(certificates, invalidations))
    return latest.model_copy(update={"predicates": valid})


class _CertificateIndex:
    """Index of a log of certificates: all that they certify, and whether one of them went back to an earlier state."""

    def __init__(self) -> None:
        self.restored = False
        self._certified: list[Certificate] = []
        self._predicates: list[Predicate] = []
        self._known: list[KnownFinding] = []

    def add(self, certificates: Iterable[Certificate]) -> None:
        for certificate in certificates:
            self.restored |= certificate.restores is not None
            self._known += _known_findings([certificate])
            if not certificate.forced:
                self._certified.append(certificate)
                self._predicates += certificate.targets

    def state(self) -> CertifiedState:
        # The records are validated already, so validation is skipped.
        return CertifiedState.model_construct(
            predicates=tuple(self._predicates),
            actions=tuple([certificate.action for certificate in self._certified]),
            evidence=tuple([certificate.evidence for certificate in self._certified]),
            known=tuple(self._known),
        )


_index_of: LogIndexes[Certificate, _CertificateIndex] = LogIndexes(_CertificateIndex)


def went_back(certificates: Sequence[Certificate]) -> bool:
    """Return whether one of the certificates went back to an earlier certified state."""
    return _index_of(certificates).restored


def valid_certificates(restored: Sequence[int | None]) -> set[int]:
    """Return the indices of the certificates that led to the latest certified state, forced ones included.

    Takes time and memory linear in the number of certificates, however often the agent went back.

    Args:
        restored: for each certificate, the number of the earlier state that it went back to; None if it did not.
    """
    latest = [-1]  # for each state, the certificate that led to it; -1 for the empty state
    before: dict[int, int] = {}
    for index, state in enumerate(restored):
        if state is None:
            before[index] = latest[-1]
        latest.append(index if state is None else latest[state])
    valid, index = set(), latest[-1]
    while index >= 0:
        valid.add(index)
        index = before[index]
    return valid


class CertifiedPredicate(NamedTuple):
    """A certified predicate and where it was certified: target number `target` of certificate number `certificate`."""

    certificate: int
    target: int
    predicate: Predicate


def predicates_in_force(
    certificates: Sequence[Certificate], invalidations: Sequence[Invalidation] = ()
) -> list[CertifiedPredicate]:
    """Return the predicates of the latest certified state that still hold, in order.

    Predicates that were invalidated since that state was reached are left out. Going back to an earlier state restores
    the predicates that held there, even if they were invalidated in between.
    """
    if not went_back(certificates):
        entries = [
            entry for index, certificate in enumerate(certificates) for entry in _predicates_of(index, certificate)
        ]
        return _drop_invalidated(entries, invalidations)
    states: list[list[CertifiedPredicate]] = [[]]
    since = 0
    for index, certificate in enumerate(certificates):
        if certificate.restores is not None:
            states.append(states[certificate.restores])
        else:
            recent = [i for i in invalidations if since <= i.step < certificate.step]
            states.append([*_drop_invalidated(states[-1], recent), *_predicates_of(index, certificate)])
        since = certificate.step
    return _drop_invalidated(states[-1], [i for i in invalidations if i.step >= since])


def _predicates_of(index: int, certificate: Certificate) -> list[CertifiedPredicate]:
    if certificate.forced:
        return []
    return [CertifiedPredicate(index, number, predicate) for number, predicate in enumerate(certificate.targets)]


def _drop_invalidated(
    entries: Sequence[CertifiedPredicate], invalidations: Sequence[Invalidation]
) -> list[CertifiedPredicate]:
    lost = {(invalidation.certificate, invalidation.target) for invalidation in invalidations}
    return [entry for entry in entries if (entry.certificate, entry.target) not in lost]


def transitions(certificates: Sequence[Certificate]) -> list[Transition]:
    """Return the certified transitions in order. Certificates that a policy forced are not transitions."""
    states = certified_states(certificates)
    return [
        Transition(before=before, action=c.action, after=after, depth=c.depth, step=c.step)
        for before, c, after in zip(states, certificates, states[1:], strict=False)
        if not c.forced
    ]


def _next_state(states: Sequence[CertifiedState], certificate: Certificate) -> CertifiedState:
    if certificate.restores is not None:
        return states[certificate.restores]
    known = states[-1].known + _known_findings([certificate])
    if certificate.forced:
        return states[-1].model_copy(update={"known": known})
    return CertifiedState(
        predicates=states[-1].predicates + certificate.targets,
        actions=(*states[-1].actions, certificate.action),
        evidence=(*states[-1].evidence, certificate.evidence),
        known=known,
    )


def _known_findings(certificates: Sequence[Certificate]) -> tuple[KnownFinding, ...]:
    return tuple(KnownFinding.model_construct(finding=c.finding, forced=c.forced) for c in certificates if c.finding)


# What verdicts established besides the conditions of the plan.


class _FactIndex:
    """Index of a log of attempts: the facts that were noted with them, by text."""

    def __init__(self) -> None:
        self.facts: dict[str, Fact] = {}
        self._actions = 0

    def add(self, attempts: Iterable[Attempt]) -> None:
        for attempt in attempts:
            noted = attempt.action.args  # before the action was taken
            self._note(_texts(noted.get(ESTABLISHED)), _texts(noted.get(OUTDATED)))
            self._actions += attempt.action.kind != CHECK
            self._note(attempt.verdict.facts, attempt.verdict.outdated)

    def _note(self, established: Sequence[str], outdated: Sequence[str]) -> None:
        for text in (*outdated, *established):
            self.facts.pop(text, None)
        self.facts |= {text: Fact(text=text, step=self._actions) for text in established}


def _texts(value: object) -> list[str]:
    return [*map(str, value)] if isinstance(value, list | tuple) else []


_facts_of: LogIndexes[Attempt, _FactIndex] = LogIndexes(_FactIndex)


def facts_of(attempts: Sequence[Attempt]) -> tuple[Fact, ...]:
    """Return what agents noted and verdicts established, and what later ones did not contradict, oldest first.

    Of equal facts the latest is returned.
    """
    return tuple(_facts_of(attempts).facts.values())
