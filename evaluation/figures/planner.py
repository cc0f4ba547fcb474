"""What STEP loses without its Planner (table 2): each task with the Planner against the same task without."""

from collections.abc import Sequence
from statistics import fmean

from certigraph.evaluation.figures.best import best_traces
from certigraph.evaluation.figures.order import GROUPS, tasks_of
from certigraph.evaluation.figures.traces import Trace
from certigraph.state.records import Record

WITHOUT = ("planner=none",)


class Pair(Record):
    """A task with and without the Planner: mean score (0 to 100) and solved runs in percent, best episode of each run.

    `group` is STEP's: S, L, or empty for a task that is not one of its eighteen.
    """

    model: str
    task: str
    group: str
    score: float
    score_without: float
    success: float
    success_without: float


class Change(Record):
    """The mean over the pairs of a group, and what leaving the Planner out changes, in points: negative is a loss."""

    model: str
    group: str
    tasks: int
    score: float
    score_without: float
    score_change: float
    success: float
    success_without: float
    success_change: float


def pairs(traces: Sequence[Trace]) -> list[Pair]:
    """The tasks that STEP ran both with its own operators and with `planner=none` alone changed, by model."""
    best = [trace for trace in best_traces(traces) if trace.method.graph == "step"]
    found = []
    for model in sorted({trace.method.model for trace in best}):
        for task in tasks_of(best):
            mine = [trace for trace in best if (trace.method.model, trace.task) == (model, task)]
            whole = [trace for trace in mine if not trace.method.swaps]
            without = [trace for trace in mine if trace.method.swaps == WITHOUT]
            if whole and without:
                found.append(_pair(model, task, whole, without))
    return found


def changes(paired: Sequence[Pair]) -> list[Change]:
    """Short, long and all tasks of each model, as far as there are any; every task counts the same."""
    models = dict.fromkeys(pair.model for pair in paired)
    parts = [
        (m, group, [p for p in paired if p.model == m and group in (p.group, "All")])
        for m in models
        for group in ("S", "L", "All")
    ]
    return [_change(model, group, part) for model, group, part in parts if part]


def _pair(model: str, task: str, whole: Sequence[Trace], without: Sequence[Trace]) -> Pair:
    return Pair(
        model=model,
        task=task,
        group=GROUPS.get(task, ""),
        score=fmean(trace.final for trace in whole),
        score_without=fmean(trace.final for trace in without),
        success=fmean(100.0 * trace.solved for trace in whole),
        success_without=fmean(100.0 * trace.solved for trace in without),
    )


def _change(model: str, group: str, part: Sequence[Pair]) -> Change:
    score, score_without = fmean(p.score for p in part), fmean(p.score_without for p in part)
    success, success_without = fmean(p.success for p in part), fmean(p.success_without for p in part)
    return Change(
        model=model,
        group=group,
        tasks=len(part),
        score=score,
        score_without=score_without,
        score_change=score_without - score,
        success=success,
        success_without=success_without,
        success_change=success_without - success,
    )
