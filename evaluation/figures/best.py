"""The best trace of each run (STEP, figure 5): the numbers."""

from collections.abc import Sequence
from statistics import fmean

from certigraph.evaluation.figures.order import methods_of, tasks_of
from certigraph.evaluation.figures.traces import Method, Trace
from certigraph.state.records import Record


class Row(Record):
    """Score so far (0 to 100) after step 1, 2, ..., the mean over the best traces of `runs` runs.

    It ends where the longest of them does; until then a trace that is over keeps its score.
    """

    method: Method
    task: str
    runs: int
    scores: tuple[float, ...]


def best_traces(traces: Sequence[Trace]) -> list[Trace]:
    """Of each run the episode with the highest score, the shortest of those."""
    best: dict[str, Trace] = {}
    for trace in traces:
        rival = best.setdefault(trace.run, trace)
        if (trace.final, -len(trace.scores)) > (rival.final, -len(rival.scores)):
            best[trace.run] = trace
    return list(best.values())


def best_rows(traces: Sequence[Trace]) -> list[Row]:
    """One row a method and task that was tried with it."""
    best = best_traces(traces)
    cells = [(method, task) for method in methods_of(best) for task in tasks_of(best)]
    groups = ((m, t, [trace for trace in best if (trace.method, trace.task) == (m, t)]) for m, t in cells)
    return [Row(method=m, task=t, runs=len(group), scores=_means(group)) for m, t, group in groups if group]


def _means(traces: Sequence[Trace]) -> tuple[float, ...]:
    longest = max(len(trace.scores) for trace in traces)
    return tuple(fmean(trace.at(step) for trace in traces) for step in range(1, longest + 1))
