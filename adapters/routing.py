"""Hierarchical routing: how much of a goal state is fulfilled (StateFactory, section 3.2.3, appendix B)."""

from collections.abc import Callable, Sequence
from importlib import import_module
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from certigraph.state.factored import Entity, FactoredState

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Vectors = NDArray[np.float32]

Encode = Callable[[Sequence[str]], "Vectors"]
"""Texts to vectors of length one, a row each."""


class Match(NamedTuple):
    """What became of one goal object: the object of the world that fits it best, and how well."""

    wanted: str
    found: str
    fulfilled: float
    """Identity similarity times mean attribute similarity, in [0, 1]."""


class Routed(NamedTuple):
    """The reward, in [0, 1], and the matches that it is the mean of."""

    reward: float
    matches: tuple[Match, ...]


def routed(goal: FactoredState, state: FactoredState, encode: Encode) -> Routed:
    """The mean over goal objects of the best object's identity similarity times its mean attribute similarity.

    A goal attribute is compared with the value under the object's most similar attribute name (a hard maximum, ties to
    the first: Eq. 10). A goal object without attributes counts by its identity alone, an object without attributes as
    fulfilling none. Similarities below 0 count as 0. An empty goal or state is worth 0.
    """
    if not goal.entities or not state.entities:
        return Routed(0.0, ())
    numpy = import_module("numpy")
    identities = _similarities([e.identity for e in goal.entities], [e.identity for e in state.entities], encode)
    scores = identities * _attributes(goal.entities, state.entities, encode)
    best = numpy.argmax(scores, axis=1)
    fulfilled = [float(scores[place, found]) for place, found in enumerate(best)]
    matches = tuple(
        Match(wanted.identity, state.entities[found].identity, score)
        for wanted, found, score in zip(goal.entities, best, fulfilled, strict=True)
    )
    return Routed(min(1.0, sum(fulfilled) / len(fulfilled)), matches)


def _attributes(wanted: Sequence[Entity], present: Sequence[Entity], encode: Encode) -> "Vectors":
    """Mean attribute similarity, shape (goal objects, objects): Eqs. 10 and 11."""
    numpy = import_module("numpy")
    keys = _similarities(_names(wanted), _names(present), encode)
    values = _similarities(_values(wanted), _values(present), encode)
    table = numpy.zeros((len(wanted), len(present)), dtype=numpy.float32)
    columns = [(place, start, end) for place, (start, end) in enumerate(_spans(present)) if end > start]
    rows = _spans(wanted)
    for place, start, end in columns:
        nearest = keys[:, start:end].argmax(axis=1) + start
        satisfied = values[numpy.arange(len(values)), nearest]
        table[:, place] = [satisfied[first:last].mean() if last > first else 1.0 for first, last in rows]
    table[[place for place, (first, last) in enumerate(rows) if first == last]] = 1.0
    return table  # type: ignore[no-any-return]


def _similarities(left: Sequence[str], right: Sequence[str], encode: Encode) -> "Vectors":
    numpy = import_module("numpy")
    if not left or not right:
        return numpy.zeros((len(left), len(right)), dtype=numpy.float32)  # type: ignore[no-any-return]
    unique = list(dict.fromkeys([*left, *right]))
    row = {text: place for place, text in enumerate(unique)}
    vectors = encode(unique)
    ours, theirs = vectors[[row[text] for text in left]], vectors[[row[text] for text in right]]
    return numpy.clip(ours @ theirs.T, 0.0, 1.0)  # type: ignore[no-any-return]


def _names(entities: Sequence[Entity]) -> list[str]:
    return [name for entity in entities for name in entity.attributes]


def _values(entities: Sequence[Entity]) -> list[str]:
    return [value for entity in entities for value in entity.attributes.values()]


def _spans(entities: Sequence[Entity]) -> list[tuple[int, int]]:
    """Where the attributes of each entity begin and end in the lists of all."""
    ends = [0]
    for entity in entities:
        ends.append(ends[-1] + len(entity.attributes))
    return list(pairwise(ends))
