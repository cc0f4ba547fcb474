"""Reward heads: small networks on frozen sentence vectors that rate a trajectory (StateFactory, section 3.1.1).

A file holds one head for each fold of tasks, trained on the other folds: no task is rated by a head that saw it.
It is a plain npz of arrays: reading it runs nothing.
"""

import zlib
from collections.abc import Sequence
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from tokenize import TokenError
from typing import TYPE_CHECKING, Any, NamedTuple
from zipfile import BadZipFile

from pydantic import Field

from certigraph.adapters.caching import whole_file
from certigraph.adapters.encoding import Encoder
from certigraph.state.endings import Fault
from certigraph.state.records import Record
from certigraph.state.rewarding import Seen

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Array = NDArray[np.float32]

HOW = "certigraph rewards train DATA --out head.npz, then rate=supervised:head=head.npz"

SPOILT = (
    *(OSError, EOFError, ValueError, LookupError, TypeError, RuntimeError, MemoryError, ArithmeticError),
    *(BadZipFile, zlib.error, SyntaxError, TokenError),
)
"""What numpy and zipfile raise for a file that is none of ours: of another packing, encrypted, of a vast shape, ..."""


class Card(Record):
    """What a file of heads says of itself."""

    version: int = Field(1, ge=1, le=1)
    encoder: str
    domains: tuple[str, ...]
    folds: int = Field(ge=1)
    tasks: int
    seed: int


class Head(NamedTuple):
    """A network of one hidden layer: features are standardised, scores are standardised and squashed."""

    mean: "Array"
    spread: "Array"
    hidden: "Array"
    hidden_bias: "Array"
    out: "Array"
    scale: "Array"
    """The mean of its scores in training, and their standard deviation."""

    def rewards(self, features: "Array") -> "Array":
        """Rewards in (0, 1), shape (rows,), for features of shape (rows, width)."""
        numpy = import_module("numpy")
        hidden = numpy.maximum(((features - self.mean) / self.spread) @ self.hidden + self.hidden_bias, 0.0)
        return 1 / (1 + numpy.exp(-(hidden @ self.out - self.scale[0]) / self.scale[1]))  # type: ignore[no-any-return]


class Heads(NamedTuple):
    """The heads of a file, one a fold."""

    card: Card
    heads: tuple[Head, ...]

    def of(self, task_id: str) -> Head:
        """The head that was trained without the task, if the task was among those trained on."""
        return self.heads[fold_of(task_id, self.card.folds)]


def fold_of(task_id: str, folds: int) -> int:
    """The fold of a task, by its id alone: the same on every machine."""
    return zlib.crc32(f"fold:{task_id}".encode()) % folds


def prefix_features(goal: str, steps: Sequence[Seen], encoder: Encoder) -> "Array":
    """Features of every prefix of a trajectory, shape (len(steps), width): what it shows last and on average.

    Of the last action and observation, and of the mean observation: the vectors, their products with the goal's, and
    cosines with it (last, mean, greatest so far). A prefix knows nothing of what comes after it, nor how long that is.
    """
    numpy = import_module("numpy")
    count = len(steps)
    vectors = encoder.encode([goal, *(s.action or "look around" for s in steps), *(s.observation for s in steps)])
    wanted, actions, seen = vectors[0], vectors[1 : count + 1], vectors[count + 1 :]
    mean = seen.cumsum(axis=0) / numpy.arange(1, count + 1)[:, None]
    near = seen @ wanted
    told = numpy.stack([near, mean @ wanted, numpy.maximum.accumulate(near)], axis=1)
    parts = (actions, seen, mean, seen * wanted, mean * wanted, told)
    return numpy.concatenate(parts, axis=1).astype(numpy.float32)  # type: ignore[no-any-return]


def save_heads(path: Path, heads: Heads) -> None:
    """Write a file of heads, whole or not at all."""
    numpy = import_module("numpy")
    arrays = {f"{n}.{name}": array for n, head in enumerate(heads.heads) for name, array in head._asdict().items()}
    with whole_file(path) as unfinished, unfinished.open("wb") as file:
        numpy.savez(file, card=numpy.array(heads.card.model_dump_json()), **arrays)


def load_heads(path: Path) -> Heads:
    """Read a file of heads, once for as long as it stays the same.

    Raises:
        Fault: ("model") there is none, or it is no such file; the message has the command that makes one.
    """
    try:
        return _read(path, path.stat().st_mtime_ns)
    except SPOILT as error:
        raise Fault("model", f"{path} is no file of reward heads ({error!r:.120}): {HOW}") from error


@lru_cache(maxsize=4)
def _read(path: Path, written: int) -> Heads:
    with import_module("numpy").load(path, allow_pickle=False) as stored:
        card = Card.model_validate_json(str(stored["card"]))
        return Heads(card, tuple(_head(stored, n) for n in range(card.folds)))


def _head(stored: Any, number: int) -> Head:
    return Head(**{name: stored[f"{number}.{name}"] for name in Head._fields})
