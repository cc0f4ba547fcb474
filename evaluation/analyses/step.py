"""The STEP paper's tables."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import product
from pathlib import Path
from statistics import fmean, stdev
from typing import Literal

from certigraph.adapters.benchmarks import data_folder
from certigraph.adapters.scienceworld.recordings import Recording, read_recordings
from certigraph.adapters.scienceworld.splits import STEP_LONG, STEP_SHORT
from certigraph.evaluation.comparison_report import write_rows
from certigraph.evaluation.frames import FULL, Method, Trace
from certigraph.state.records import Record

# In which order methods and tasks appear, how they are called, and STEP's groups of tasks.

TITLES = {
    "step": "STEP",
    "clin": "CLIN",
    "sdp": "SDP",
    "react": "ReAct",
    "react_reward": "ReAct + StateFactory",
    "mcts": "MCTS + StateFactory",
    "reflexion": "Reflexion",
    "plan_and_solve": "Plan-and-Solve",
}
"""The graphs as papers call them, STEP beside CLIN."""

GROUPS = {**dict.fromkeys(STEP_SHORT.values(), "S"), **dict.fromkeys(STEP_LONG.values(), "L")}
"""STEP's nine short and nine long tasks, in the order of its table."""


def methods_of(traces: Iterable[Trace]) -> list[Method]:
    """The methods, whole ones before those with operators swapped."""
    graphs = list(TITLES)

    def rank(method: Method) -> tuple[bool, int, str, str]:
        place = graphs.index(method.graph) if method.graph in graphs else len(graphs)
        return bool(method.swaps), place, str(method), method.model

    return sorted({trace.method for trace in traces}, key=rank)


def tasks_of(traces: Iterable[Trace]) -> list[str]:
    """The tasks: STEP's in the order of its table, then the others by name."""
    places = {task: place for place, task in enumerate(GROUPS)}
    return sorted({trace.task for trace in traces}, key=lambda task: (places.get(task, len(places)), task))


def titles(methods: Iterable[Method]) -> dict[Method, str]:
    """What to call each method; its model is named where there are several."""
    methods = list(methods)
    several = len({method.model for method in methods}) > 1
    return {method: _title(method) + (f", {method.model}" if several else "") for method in methods}


def _title(method: Method) -> str:
    graph = TITLES.get(method.graph, method.graph)
    return f"{graph} ({', '.join(method.swaps)})" if method.swaps else graph


# Accidental wins: episodes that reached ScienceWorld's goal past its procedure (STEP, section 4.2.2).
#
# In some tasks the last thing to do is to focus on an answer that is in sight from the start, one inclined plane of
# two: guessing it right scores 100 at once. A win counts as accidental when its last action is a focus and the score
# before that was less than half of what the task's gold path has before its own last focus. That score adds up
# milestones, which are worth 50 of the 100 points together; where no gold path is known, or it does not end in a
# focus, 50 is taken. Half, and not all, because some milestones, like reading a recipe, can honestly be skipped.

SHARE = 0.5
"""Part of the gold path's milestones without which a win by focus is an accident."""

MILESTONES = 50.0
"""What the milestones of a task are worth that one focus solves."""


class Accident(Record):
    """An accidental win: the score was `before` at that step, the gold path's `gold` before its last focus."""

    run: str
    method: str
    task_id: str
    episode: int
    step: int
    action: str
    before: float
    gold: float


def accident_of(trace: Trace, golds: Mapping[str, float]) -> Accident | None:
    """What was accidental about an episode's win; None where it did not win, or not by accident."""
    if not trace.solved:
        return None
    won = next(index for index, score in enumerate(trace.scores) if score >= FULL)
    before, gold = trace.at(won), golds.get(trace.task, MILESTONES)
    if before >= SHARE * gold or not focused(trace.actions, won):
        return None
    return Accident(
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
    """The score before the winning focus of each recorded gold path that ends in one, by task; empty without data."""
    folder = data_folder("scienceworld", data)
    path = folder / "gold_var0.jsonl.gz" if folder else None
    recordings = read_recordings(path) if path and path.is_file() else ()
    return {r.task: _before(r) for r in recordings if focused(r.gold, r.firstdone - 1)}


def focused(actions: Sequence[str], index: int) -> bool:
    """Whether that action is a focus, or the number that answers which object an ambiguous focus meant."""
    while index > 0 and actions[index].strip().isdecimal():
        index -= 1
    return actions[index].strip().lower().startswith("focus")


def _before(recording: Recording) -> float:
    won = recording.firstdone - 1
    return float(recording.scores[won - 1]) if won else 0.0


# The best trace of each run (STEP, figure 5): the numbers.


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


# What STEP loses without its Planner (table 2): each task with the Planner against the same task without.

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


# Reward by step with its spread (STEP, figure 4): the numbers.

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


# The numbers behind the figures as CSV.

Line = Mapping[str, object]

SERIES = ("method", "model", "task")


def write_csv(path: Path, columns: Sequence[str], lines: Sequence[Line]) -> None:
    """Write a header and one line each; floats with four decimals at most."""
    plain = ({name: _plain(value) for name, value in line.items()} for line in lines)
    write_rows(path, columns, plain, ends="\n")


def curve_lines(curves: Sequence[Curve]) -> Iterator[Line]:
    """One line a curve and step."""
    for curve in curves:
        for step, (mean, sd) in enumerate(zip(curve.mean, curve.sd, strict=True)):
            yield {
                **_series(curve.method, curve.task),
                "episodes": curve.episodes,
                "n": curve.n,
                "step": step,
                "mean": mean,
                "sd": sd,
            }


def row_lines(rows: Sequence[Row]) -> Iterator[Line]:
    """One line a row and step."""
    for row in rows:
        for step, score in enumerate(row.scores, 1):
            yield {**_series(row.method, row.task), "runs": row.runs, "step": step, "score": score}


def _series(method: Method, task: str) -> Line:
    return {"method": str(method), "model": method.model, "task": task}


def _plain(value: object) -> object:
    return f"{round(value, 4):g}" if isinstance(value, float) else value
