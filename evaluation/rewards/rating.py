"""Predicting the rewards of pairs, in several processes, in a folder that can be gone on with."""

import time
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from certigraph.adapters.benchmarks import load_benchmark
from certigraph.adapters.context import Context
from certigraph.adapters.rewardprediction.world import figures
from certigraph.evaluation.comparing.plan import Method
from certigraph.evaluation.rewards.digests import digest_of
from certigraph.evaluation.rewards.keeping import append, read_lines
from certigraph.evaluation.rewards.processes import in_processes
from certigraph.evaluation.settings import AnyGraph
from certigraph.state.endings import Fault, Stopped
from certigraph.state.records import Record

BENCHMARK = "rewardprediction"

MOST_FAULTS = 3
"""Pairs in a row for which the model has no usable answer before the measurement stops; a small one fails at some."""


class Rated(Record):
    """One pair as one predictor rates it."""

    predictor: str
    pair: str
    domain: str
    rewards: tuple[tuple[float, ...], ...]
    """Of each step, the positive recording first."""
    figures: dict[str, float]
    """See `certigraph.adapters.rewardprediction.world.figures`."""
    seconds: float
    digest: str
    """See `certigraph.evaluation.rewards.digests`: a row of another pair, predictor or code is not taken for this."""


class Failed(Record):
    """A pair that a predictor could not rate; it is tried again when the measurement goes on."""

    predictor: str
    pair: str
    reason: str
    of_model: bool = False
    """Whether it is the model's fault, which may be so for every other pair too."""


class Piece(NamedTuple):
    """What one process does at a time."""

    method: Method
    pair: str
    context: Context


def rate(piece: Piece) -> Rated | Failed:
    """Predict a pair's rewards, or say why they cannot be predicted."""
    benchmark: Any = load_benchmark(BENCHMARK, piece.context.data)
    pair, task = benchmark.pairs[piece.pair], benchmark.task(piece.pair)
    began = time.perf_counter()
    try:
        state = _graph(piece.method.model_dump_json()).invoke({"task": task}, context=piece.context)
    except Stopped as stopped:
        of_model = isinstance(stopped, Fault) and stopped.boundary == "model"
        return Failed(predictor=piece.method.name, pair=piece.pair, reason=str(stopped), of_model=of_model)
    except Exception as error:  # noqa: BLE001 - an operator is anybody's code: its failure costs one pair
        return Failed(predictor=piece.method.name, pair=piece.pair, reason=f"{type(error).__name__}: {error}")
    seconds, rewards = time.perf_counter() - began, state["action"].args["rewards"]
    return Rated(
        predictor=piece.method.name,
        pair=pair.id,
        domain=pair.domain,
        rewards=tuple(tuple(round(float(one), 6) for one in trajectory) for trajectory in rewards),
        figures=figures(pair.recordings, rewards),
        seconds=round(seconds, 6),
        digest=digest(piece),
    )


def digest(piece: Piece) -> str:
    """Hex digits that tell what is rated, by what."""
    benchmark: Any = load_benchmark(BENCHMARK, piece.context.data)
    pair = benchmark.pairs[piece.pair]
    return digest_of(piece.method, piece.context, pair.domain, pair.model_dump_json())


def rate_all(
    methods: Sequence[Method],
    pairs: Sequence[str],
    context: Context,
    rows: Path,
    *,
    at_once: int = 1,
    told: Callable[[int, int], None] = lambda done, failed: None,
) -> list[Failed]:
    """Rate every pair by every predictor, but for what the file of rows has, and add to it; what could not be rated.

    Raises:
        Fault: ("model") the model answered nothing usable for MOST_FAULTS pairs in a row; what was rated is kept.
    """
    known = {row.digest for row in read_rated(rows)}
    wanted = [Piece(method, pair, context) for method in methods for pair in pairs]
    left = [piece for piece in wanted if digest(piece) not in known]
    failed: list[Failed] = []
    faults = 0
    for done, row in enumerate(_outcomes(left, at_once), len(wanted) - len(left) + 1):
        if isinstance(row, Rated):
            append(rows, row)
        else:
            failed.append(row)
        told(done, len(failed))
        faults = faults + 1 if isinstance(row, Failed) and row.of_model else 0
        if faults == MOST_FAULTS:
            raise Fault("model", f"stopped after {faults} pairs in a row: {failed[-1].reason}")
    return failed


def _outcomes(pieces: Sequence[Piece], at_once: int) -> Iterable[Rated | Failed]:
    if at_once == 1:
        yield from map(rate, pieces)
        return
    for piece, row in in_processes(rate, pieces, at_once):
        yield row or Failed(predictor=piece.method.name, pair=piece.pair, reason="its process died")


def read_rated(path: Path) -> list[Rated]:
    """The rows of a measurement."""
    return read_lines(path, Rated)


@lru_cache(maxsize=64)
def _graph(method: str) -> AnyGraph:
    return Method.model_validate_json(method).build()
