"""The certified state, folded from certificates: SDP's state space (Table 1)."""

from collections.abc import Sequence
from typing import NamedTuple

from certigraph.state.records import Action, Certificate, Finding, Invalidation, Predicate, Record


class Known(Record):
    """A finding, and the policy that let it pass where none of it is certified."""

    finding: Finding
    forced: str = ""


class CertifiedState(Record):
    """Everything certified so far, in order. The last predicate is the paper's s_t."""

    predicates: tuple[Predicate, ...] = ()
    actions: tuple[Action, ...] = ()
    evidence: tuple[str, ...] = ()
    """What bears out each action, as its certificate has it."""
    known: tuple[Known, ...] = ()
    """The findings of certificates; those that were forced are handed on too, and marked."""


class Transition(Record):
    """One certified transition (s_t, a_t, s_t+k), SDP section 3.2."""

    before: CertifiedState
    action: Action
    after: CertifiedState
    depth: int
    step: int


def certified_states(certificates: Sequence[Certificate]) -> list[CertifiedState]:
    """All certified states, the empty one first: one more than there are certificates."""
    states = [CertifiedState()]
    for certificate in certificates:
        states.append(_after(states, certificate))
    return states


def certified_state(certificates: Sequence[Certificate], invalidations: Sequence[Invalidation] = ()) -> CertifiedState:
    """The latest certified state, without building those before it unless one was returned to.

    Invalidated predicates are left out of it; the actions and findings of their certificates stay.
    """
    if any(c.restores is not None for c in certificates):
        latest = certified_states(certificates)[-1]
    else:
        # Asked for at every superstep, and made of records that are valid already.
        certified = [c for c in certificates if not c.forced]
        latest = CertifiedState.model_construct(
            predicates=tuple(p for c in certified for p in c.targets),
            actions=tuple(c.action for c in certified),
            evidence=tuple(c.evidence for c in certified),
            known=_known(certificates),
        )
    if not invalidations:
        return latest
    held = tuple(place.predicate for place in predicates_in_force(certificates, invalidations))
    return latest.model_copy(update={"predicates": held})


class Place(NamedTuple):
    """A certified predicate and where its certificate is: target number `target` of certificate `certificate`."""

    certificate: int
    target: int
    predicate: Predicate


def predicates_in_force(certificates: Sequence[Certificate], invalidations: Sequence[Invalidation] = ()) -> list[Place]:
    """The predicates of the latest certified state that were not invalidated since it was reached, in order.

    A return to an earlier state brings back what was in force there, also what was invalidated in between.
    """
    if all(c.restores is None for c in certificates):
        places = [place for index, certificate in enumerate(certificates) for place in _places(index, certificate)]
        return _without(places, invalidations)
    states: list[list[Place]] = [[]]
    since = 0
    for index, certificate in enumerate(certificates):
        if certificate.restores is not None:
            states.append(states[certificate.restores])
        else:
            recent = [i for i in invalidations if since <= i.step < certificate.step]
            states.append([*_without(states[-1], recent), *_places(index, certificate)])
        since = certificate.step
    return _without(states[-1], [i for i in invalidations if i.step >= since])


def _places(index: int, certificate: Certificate) -> list[Place]:
    """The predicates that certificate number `index` adds to the certified state."""
    if certificate.forced:
        return []
    return [Place(index, number, predicate) for number, predicate in enumerate(certificate.targets)]


def _without(places: Sequence[Place], invalidations: Sequence[Invalidation]) -> list[Place]:
    lost = {(invalidation.certificate, invalidation.target) for invalidation in invalidations}
    return [place for place in places if (place.certificate, place.target) not in lost]


def transitions(certificates: Sequence[Certificate]) -> list[Transition]:
    """The certified transitions in order; none where a policy forced a target."""
    states = certified_states(certificates)
    return [
        Transition(before=before, action=c.action, after=after, depth=c.depth, step=c.step)
        for before, c, after in zip(states, certificates, states[1:], strict=False)
        if not c.forced
    ]


def _after(states: Sequence[CertifiedState], certificate: Certificate) -> CertifiedState:
    if certificate.restores is not None:
        return states[certificate.restores]
    known = states[-1].known + _known([certificate])
    if certificate.forced:
        return states[-1].model_copy(update={"known": known})
    return CertifiedState(
        predicates=states[-1].predicates + certificate.targets,
        actions=(*states[-1].actions, certificate.action),
        evidence=(*states[-1].evidence, certificate.evidence),
        known=known,
    )


def _known(certificates: Sequence[Certificate]) -> tuple[Known, ...]:
    return tuple(Known.model_construct(finding=c.finding, forced=c.forced) for c in certificates if c.finding)
