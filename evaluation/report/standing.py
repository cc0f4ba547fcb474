"""Which certificates still stand after returns to earlier states, in time and memory linear in their number."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from certigraph.state.records import Certificate


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
