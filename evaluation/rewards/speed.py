"""How fast predictors are: trajectories a second, in a process that has seen nothing, and again once it has."""

import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

from certigraph.adapters.benchmarks import load_benchmark
from certigraph.adapters.context import Context
from certigraph.evaluation.comparing.plan import Method
from certigraph.evaluation.rewards.rating import BENCHMARK, Piece, Rated, rate
from certigraph.state.records import Record

PAIRS = 40
"""Pairs that are timed, spread over all."""


class Speed(Record):
    """Trajectories a second of one process; `cold` has loading the encoder and every text's first vector in it."""

    predictor: str
    trajectories: int
    cold: float
    warm: float
    digest: str = ""
    """Of the predictor, its models and the pairs: a file's line of other ones is not taken for these."""


def speed(method: Method, pairs: Sequence[str], context: Context) -> Speed | None:
    """Time a predictor in a process of its own; None where it cannot rate them."""
    some = list(pairs)[:: max(1, len(pairs) // PAIRS)][:PAIRS]
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as executor:
        return executor.submit(timed, method, some, context).result()


def timed(method: Method, pairs: Sequence[str], context: Context) -> Speed | None:
    """Time a predictor here, the pairs read beforehand: twice, one pass after the other."""
    load_benchmark(BENCHMARK, context.data).tasks()
    passes = []
    for _ in range(2):
        began = time.perf_counter()
        rows = [rate(Piece(method, pair, context)) for pair in pairs]
        passes.append(time.perf_counter() - began)
    rated = sum(len(row.rewards) for row in rows if isinstance(row, Rated))
    if not rated:
        return None
    cold, warm = (round(rated / seconds, 1) for seconds in passes)
    return Speed(predictor=method.name, trajectories=rated, cold=cold, warm=warm)
