"""Reward by step with its spread (STEP, figure 4): the numbers."""

from collections.abc import Iterator, Sequence
from itertools import product
from statistics import fmean, stdev
from typing import Literal

from certigraph.evaluation.figures.order import methods_of, tasks_of
from certigraph.evaluation.figures.traces import Method, Trace
from certigraph.state.records import Record

Episodes = Literal["all", "first", "last"]


class Curve(Record):
    """Mean score so far (0 to 100) by step, step 0 first, over `n` episodes.

    `sd` is the sample standard deviation, 0 where there is one episode. An episode that is over keeps its score, for
    otherwise the mean would be that of the slow ones.
    """

    method: Method
    task: str
    episodes: Episodes
    n: int
    mean: tuple[float, ...]
    sd: tuple[float, ...]


def curves(traces: Sequence[Trace]) -> list[Curve]:
    """One curve a task and method, over all episodes of all runs."""
    return [_curve(method, task, "all", part) for method, task, part in _parts(traces)]


def learning(traces: Sequence[Trace]) -> list[Curve]:
    """Two curves a task and method whose runs have several episodes: over their first, and over their last ones."""
    found: list[Curve] = []
    for method, task, part in _parts(traces):
        if any(trace.episode > 1 for trace in part):
            found.append(_curve(method, task, "first", [trace for trace in part if trace.episode == 1]))
            found.append(_curve(method, task, "last", [trace for trace in part if trace.last]))
    return [curve for curve in found if curve.n]


def _parts(traces: Sequence[Trace]) -> Iterator[tuple[Method, str, list[Trace]]]:
    for task, method in product(tasks_of(traces), methods_of(traces)):
        if part := [trace for trace in traces if (trace.method, trace.task) == (method, task)]:
            yield method, task, part


def _curve(method: Method, task: str, episodes: Episodes, traces: Sequence[Trace]) -> Curve:
    length = max((len(trace.scores) for trace in traces), default=0)
    columns = [[trace.at(step) for trace in traces] for step in range(length + 1)] if traces else []
    return Curve(
        method=method,
        task=task,
        episodes=episodes,
        n=len(traces),
        mean=tuple(map(fmean, columns)),
        sd=tuple(stdev(column) if len(column) > 1 else 0.0 for column in columns),
    )
