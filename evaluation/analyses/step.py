"""Data of the STEP paper's figures and tables.

Contents: accidental wins, the best episode of each run, the effect of STEP's Planner, and curves of the score by step.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import product
from pathlib import Path
from statistics import fmean, stdev
from typing import Literal

from certigraph.adapters.benchmarks import data_folder
from certigraph.adapters.scienceworld.recordings import GoldRecording, read_recordings
from certigraph.adapters.scienceworld.splits import STEP_LONG, STEP_SHORT
from certigraph.evaluation.comparison_report import write_rows
from certigraph.evaluation.frames import MAX_SCORE, EpisodeTrace, TracedMethod
from certigraph.state.records import Record

# Order and titles of methods and tasks, and STEP's groups of tasks.

GRAPH_TITLES = {
    "step": "STEP",
    "clin": "CLIN",
    "sdp": "SDP",
    "react": "ReAct",
    "react_reward": "ReAct + StateFactory",
    "mcts": "MCTS + StateFactory",
    "reflexion": "Reflexion",
    "plan_and_solve": "Plan-and-Solve",
}
"""Name of the method that each graph implements, as figures show it; figures have the methods in this order."""

TASK_GROUPS = {**dict.fromkeys(STEP_SHORT.values(), "S"), **dict.fromkeys(STEP_LONG.values(), "L")}
"""Group of each of the STEP paper's nine short (S) and nine long (L) tasks, in the order of the paper's table."""


def methods_of(traces: Iterable[EpisodeTrace]) -> list[TracedMethod]:
    """Return the methods of episodes, those without swapped operators first."""
    graphs = list(GRAPH_TITLES)

    def rank(method: TracedMethod) -> tuple[bool, int, str, str]:
        index = graphs.index(method.graph) if method.graph in graphs else len(graphs)
        return bool(method.swaps), index, str(method), method.model

    return sorted({trace.method for trace in traces}, key=rank)


def tasks_of(traces: Iterable[EpisodeTrace]) -> list[str]:
    """Return the tasks of episodes: those of the STEP paper in the order of its table, then the others by name."""
    indices = {task: index for index, task in enumerate(TASK_GROUPS)}
    return sorted({trace.task for trace in traces}, key=lambda task: (indices.get(task, len(indices)), task))


def method_titles(methods: Iterable[TracedMethod]) -> dict[TracedMethod, str]:
    """Return the title of each method, with the name of its model if there are several models."""
    methods = list(methods)
    several = len({method.model for method in methods}) > 1
    return {method: _title(method) + (f", {method.model}" if several else "") for method in methods}


def _title(method: TracedMethod) -> str:
    graph = GRAPH_TITLES.get(method.graph, method.graph)
    return f"{graph} ({', '.join(method.swaps)})" if method.swaps else graph


# Accidental wins: episodes that reached ScienceWorld's goal without its procedure (STEP, section 4.2.2).
#
# In some tasks the last action is to focus on an answer that is visible from the start, such as one of two inclined
# planes: a correct guess scores 100 at once. A win counts as accidental when its last action is a focus and the score
# before it was less than half of the gold path's score before its last focus. That score is the sum of milestones,
# which are worth 50 of the 100 points together; without a gold path that ends in a focus, 50 is taken. The threshold
# is half, not all, because some milestones, such as reading a recipe, may legitimately be skipped.

MIN_GOLD_SHARE = 0.5
"""Share of the gold path's milestone score that a win by a focus action must have before; below it is accidental."""

DEFAULT_MILESTONES = 50.0
"""Milestone score that is assumed for a task that ends in a focus action and has no gold path."""


class AccidentalWin(Record):
    """An episode that won by accident: a lucky focus action reached the goal without the task's procedure.

    `before` is the score before the winning step, and `gold` the score of the gold path before its last focus action.
    """

    run: str
    method: str
    task_id: str
    episode: int
    step: int
    action: str
    before: float
    gold: float


def find_accident(trace: EpisodeTrace, golds: Mapping[str, float]) -> AccidentalWin | None:
    """Return the accidental win of an episode; None if it did not win, or not by accident.

    `golds` has, by task, the score of the gold path before its last focus action, as `gold_scores` returns it.
    """
    if not trace.solved:
        return None
    won = next(index for index, score in enumerate(trace.scores) if score >= MAX_SCORE)
    before, gold = trace.at(won), golds.get(trace.task, DEFAULT_MILESTONES)
    if before >= MIN_GOLD_SHARE * gold or not is_focus(trace.actions, won):
        return None
    return AccidentalWin(
        run=trace.run,
        method=str(trace.method),
        task_id=trace.task_id,
        episode=trace.episode,
        step=won + 1,
        action=trace.actions[won],
        before=before,
        gold=gold,
    )


def gold_scores(data: str | None = None) -> dict[str, float]:
    """Read the score of each gold path before its winning action, by task.

    Only gold paths that end in a focus action are included. The result is empty if there is no ScienceWorld data.
    """
    folder = data_folder("scienceworld", data)
    path = folder / "gold_var0.jsonl.gz" if folder else None
    recordings = read_recordings(path) if path and path.is_file() else ()
    return {r.task: _score_before_win(r) for r in recordings if is_focus(r.gold, r.firstdone - 1)}


def is_focus(actions: Sequence[str], index: int) -> bool:
    """Return whether the action at an index is ScienceWorld's `focus on OBJECT`.

    If the world then asked which object was meant, the number given as the answer counts too.
    """
    while index > 0 and actions[index].strip().isdecimal():
        index -= 1
    return actions[index].strip().lower().startswith("focus")


def _score_before_win(recording: GoldRecording) -> float:
    won = recording.firstdone - 1
    return float(recording.scores[won - 1]) if won else 0.0


# Data of figure 5: the best episode of each run.


class BestTraceRow(Record):
    """Mean score (0 to 100) after step 1, 2, ... over the best episodes of `runs` runs of a method on a task.

    It is as long as the longest of these episodes; a shorter episode keeps its final score.
    """

    method: TracedMethod
    task: str
    runs: int
    scores: tuple[float, ...]


def select_best_traces(traces: Sequence[EpisodeTrace]) -> list[EpisodeTrace]:
    """Select the episode with the highest final score of each run; of several, the shortest one."""
    best: dict[str, EpisodeTrace] = {}
    for trace in traces:
        rival = best.setdefault(trace.run, trace)
        if (trace.final, -len(trace.scores)) > (rival.final, -len(rival.scores)):
            best[trace.run] = trace
    return list(best.values())


def best_trace_rows(traces: Sequence[EpisodeTrace]) -> list[BestTraceRow]:
    """Compute the mean score by step of the best episodes, one row per method and task."""
    best = select_best_traces(traces)
    cells = [(method, task) for method in methods_of(best) for task in tasks_of(best)]
    groups = ((m, t, [trace for trace in best if (trace.method, trace.task) == (m, t)]) for m, t in cells)
    return [
        BestTraceRow(method=m, task=t, runs=len(group), scores=_mean_scores(group)) for m, t, group in groups if group
    ]


def _mean_scores(traces: Sequence[EpisodeTrace]) -> tuple[float, ...]:
    longest = max(len(trace.scores) for trace in traces)
    return tuple(fmean(trace.at(step) for trace in traces) for step in range(1, longest + 1))


# Data of table 2: STEP with and without its Planner.

WITHOUT_PLANNER = ("planner=none",)


class PlannerPair(Record):
    """Results of STEP on one task with and without its Planner, over the best episode of each run.

    `score` is the mean score (0 to 100), and `success` the percentage of solved runs. `group` is S or L (short or
    long), or empty if the task is not one of the STEP paper's eighteen.
    """

    model: str
    task: str
    group: str
    score: float
    score_without: float
    success: float
    success_without: float


class PlannerChange(Record):
    """Mean results of STEP over the tasks of a group with and without its Planner.

    A change is without minus with the Planner, in points: a loss is negative.
    """

    model: str
    group: str
    tasks: int
    score: float
    score_without: float
    score_change: float
    success: float
    success_without: float
    success_change: float


def planner_pairs(traces: Sequence[EpisodeTrace]) -> list[PlannerPair]:
    """Compare STEP with and without its Planner on every task that was run with both.

    Without its Planner means with `planner=none` as the only swapped operator.
    """
    best = [trace for trace in select_best_traces(traces) if trace.method.graph == "step"]
    result = []
    for model in sorted({trace.method.model for trace in best}):
        for task in tasks_of(best):
            task_traces = [trace for trace in best if (trace.method.model, trace.task) == (model, task)]
            unchanged = [trace for trace in task_traces if not trace.method.swaps]
            without = [trace for trace in task_traces if trace.method.swaps == WITHOUT_PLANNER]
            if unchanged and without:
                result.append(_planner_pair(model, task, unchanged, without))
    return result


def planner_changes(paired: Sequence[PlannerPair]) -> list[PlannerChange]:
    """Compute the Planner's effect over the short, the long and all tasks of each model.

    Every task has the same weight.
    """
    models = dict.fromkeys(pair.model for pair in paired)
    parts = [
        (m, group, [p for p in paired if p.model == m and group in (p.group, "All")])
        for m in models
        for group in ("S", "L", "All")
    ]
    return [_planner_change(model, group, part) for model, group, part in parts if part]


def _planner_pair(
    model: str, task: str, unchanged: Sequence[EpisodeTrace], without: Sequence[EpisodeTrace]
) -> PlannerPair:
    return PlannerPair(
        model=model,
        task=task,
        group=TASK_GROUPS.get(task, ""),
        score=fmean(trace.final for trace in unchanged),
        score_without=fmean(trace.final for trace in without),
        success=fmean(100.0 * trace.solved for trace in unchanged),
        success_without=fmean(100.0 * trace.solved for trace in without),
    )


def _planner_change(model: str, group: str, part: Sequence[PlannerPair]) -> PlannerChange:
    score, score_without = fmean(p.score for p in part), fmean(p.score_without for p in part)
    success, success_without = fmean(p.success for p in part), fmean(p.success_without for p in part)
    return PlannerChange(
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


# Data of figure 4: reward by step with its standard deviation.

Episodes = Literal["all", "first", "last"]


class RewardCurve(Record):
    """Mean score (0 to 100) by step, from step 0, over `n` episodes of a method on a task.

    `sd` is the sample standard deviation, 0 for one episode. An episode that has ended keeps its score; otherwise the
    mean of later steps would cover only the slow episodes. `episodes` says which episodes of each run are included.
    """

    method: TracedMethod
    task: str
    episodes: Episodes
    n: int
    mean: tuple[float, ...]
    sd: tuple[float, ...]


def reward_curves(traces: Sequence[EpisodeTrace]) -> list[RewardCurve]:
    """Compute the mean score by step for each task and method, over all episodes of all runs."""
    return [_reward_curve(method, task, "all", part) for method, task, part in _group_traces(traces)]


def learning_curves(traces: Sequence[EpisodeTrace]) -> list[RewardCurve]:
    """Compute the mean score by step separately over the first and over the last episode of each run.

    Only tasks and methods whose runs have several episodes are included.
    """
    result: list[RewardCurve] = []
    for method, task, part in _group_traces(traces):
        if any(trace.episode > 1 for trace in part):
            result.append(_reward_curve(method, task, "first", [trace for trace in part if trace.episode == 1]))
            result.append(_reward_curve(method, task, "last", [trace for trace in part if trace.last]))
    return [curve for curve in result if curve.n]


def _group_traces(traces: Sequence[EpisodeTrace]) -> Iterator[tuple[TracedMethod, str, list[EpisodeTrace]]]:
    for task, method in product(tasks_of(traces), methods_of(traces)):
        if part := [trace for trace in traces if (trace.method, trace.task) == (method, task)]:
            yield method, task, part


def _reward_curve(method: TracedMethod, task: str, episodes: Episodes, traces: Sequence[EpisodeTrace]) -> RewardCurve:
    length = max((len(trace.scores) for trace in traces), default=0)
    columns = [[trace.at(step) for trace in traces] for step in range(length + 1)] if traces else []
    return RewardCurve(
        method=method,
        task=task,
        episodes=episodes,
        n=len(traces),
        mean=tuple(map(fmean, columns)),
        sd=tuple(stdev(column) if len(column) > 1 else 0.0 for column in columns),
    )


# The data of the figures as CSV.

CsvLine = Mapping[str, object]

SERIES_COLUMNS = ("method", "model", "task")


def write_rounded_csv(path: Path, columns: Sequence[str], lines: Sequence[CsvLine]) -> None:
    """Write a CSV file with a header; floats are rounded to four decimals."""
    plain = ({name: _round_float(value) for name, value in line.items()} for line in lines)
    write_rows(path, columns, plain, ends="\n")


def curve_lines(curves: Sequence[RewardCurve]) -> Iterator[CsvLine]:
    """Convert curves of the mean score to CSV lines, one per curve and step."""
    for curve in curves:
        for step, (mean, sd) in enumerate(zip(curve.mean, curve.sd, strict=True)):
            yield {
                **_series_fields(curve.method, curve.task),
                "episodes": curve.episodes,
                "n": curve.n,
                "step": step,
                "mean": mean,
                "sd": sd,
            }


def best_trace_lines(rows: Sequence[BestTraceRow]) -> Iterator[CsvLine]:
    """Convert the scores of best episodes to CSV lines, one per row and step."""
    for row in rows:
        for step, score in enumerate(row.scores, 1):
            yield {**_series_fields(row.method, row.task), "runs": row.runs, "step": step, "score": score}


def _series_fields(method: TracedMethod, task: str) -> CsvLine:
    return {"method": str(method), "model": method.model, "task": task}


def _round_float(value: object) -> object:
    return f"{round(value, 4):g}" if isinstance(value, float) else value
