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
    table = _Table(_texts(goal.entities), _texts(state.entities), encode)
    identities = table.of([e.identity for e in goal.entities], [e.identity for e in state.entities])
    scores = identities * _attributes(goal.entities, state.entities, table)
    best = numpy.argmax(scores, axis=1)
    fulfilled = [float(scores[place, found]) for place, found in enumerate(best)]
    matches = tuple(
        Match(wanted.identity, state.entities[found].identity, score)
        for wanted, found, score in zip(goal.entities, best, fulfilled, strict=True)
    )
    return Routed(min(1.0, sum(fulfilled) / len(fulfilled)), matches)


class _Table:
    """Similarities of the goal's texts and the world's, each pair of texts compared once, negative ones as 0."""

    def __init__(self, wanted: Sequence[str], present: Sequence[str], encode: Encode) -> None:
        rows, columns = list(dict.fromkeys(wanted)), list(dict.fromkeys(present))
        self.row = {text: place for place, text in enumerate(rows)}
        self.column = {text: place for place, text in enumerate(columns)}
        vectors, numpy = encode([*rows, *columns]), import_module("numpy")
        # einsum and not @, whose threads take a hundred times as long on a busy machine once torch is loaded
        self.cosines = numpy.clip(numpy.einsum("ik,jk->ij", vectors[: len(rows)], vectors[len(rows) :]), 0.0, 1.0)

    def of(self, wanted: Sequence[str], present: Sequence[str]) -> "Vectors":
        """Shape (len(wanted), len(present)); equal texts have equal rows or columns to the last bit, so ties hold."""
        chosen = import_module("numpy").ix_([self.row[text] for text in wanted], [self.column[t] for t in present])
        return self.cosines[chosen]  # type: ignore[no-any-return]


def _attributes(wanted: Sequence[Entity], present: Sequence[Entity], table: _Table) -> "Vectors":
    """Mean attribute similarity, shape (goal objects, objects): Eqs. 10 and 11."""
    numpy = import_module("numpy")
    keys = table.of(_names(wanted), _names(present))
    values = table.of(_values(wanted), _values(present))
    satisfied, attribute = numpy.zeros((len(keys), len(present)), dtype=numpy.float32), numpy.arange(len(keys))
    for place, (start, end) in enumerate(_spans(present)):
        if end > start:
            satisfied[:, place] = values[attribute, keys[:, start:end].argmax(axis=1) + start]
    weights = numpy.zeros((len(wanted), len(keys)), dtype=numpy.float32)
    for place, (first, last) in enumerate(_spans(wanted)):
        weights[place, first:last] = 1 / max(1, last - first)
    bare = numpy.array([not entity.attributes for entity in wanted])
    return numpy.where(bare[:, None], 1.0, numpy.einsum("ij,jk->ik", weights, satisfied))  # type: ignore[no-any-return]


def _texts(entities: Sequence[Entity]) -> list[str]:
    return [*(entity.identity for entity in entities), *_names(entities), *_values(entities)]


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
