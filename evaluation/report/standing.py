"""Which certificates still stand after returns to earlier states, in time and memory linear in their number."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from certigraph.state.records import Certificate


class Reached(NamedTuple):
    """A certified state: the index of the certificate that led to it, the state before, and its size."""

    certificate: int
    before: "Reached | None"
    predicates: int


def reached(certificates: Sequence[Certificate]) -> list[Reached | None]:
    """Every certified state in order, the empty one (None) first."""
    states: list[Reached | None] = [None]
    for index, certificate in enumerate(certificates):
        if certificate.restores is not None:
            states.append(states[certificate.restores])
        else:
            states.append(Reached(index, states[-1], held(states[-1]) + certificate.depth))
    return states


def standing(certificates: Sequence[Certificate]) -> set[int]:
    """Indices of the certificates whose predicates make up the latest certified state."""
    return set(_chain(reached(certificates)[-1]))


def held(state: Reached | None) -> int:
    """How many predicates a certified state holds."""
    return state.predicates if state else 0


def _chain(state: Reached | None) -> Iterator[int]:
    while state:
        yield state.certificate
        state = state.before
