"""Tables of the STEP paper as data frames: accidental wins, scores by step, best episodes, and the Planner's effect."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import zip_longest
from math import nan

import pandas as pd

from certigraph.adapters.benchmarks import data_folder
from certigraph.adapters.scienceworld.recordings import read_recordings
from certigraph.adapters.scienceworld.splits import STEP_LONG, STEP_SHORT
from certigraph.evaluation.frames import MAX_SCORE, EpisodeTrace, TracedMethod

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


def episode_frame(traces: Sequence[EpisodeTrace]) -> pd.DataFrame:
    """Build a data frame with a row for each episode.

    `method` and `task` are ordered categories: methods without swapped operators come first, tasks are in the order of
    the STEP paper's table. `title` is the method's name for figures, with its model if there are several models.
    `final` is the final score (0 to 100), `solved` 0 or 1, and `scores` the tuple of scores after each action.
    """
    methods = sorted({trace.method for trace in traces}, key=_method_rank)
    several = len({method.model for method in methods}) > 1
    tasks = sorted({trace.task for trace in traces}, key=lambda task: (_rank(task, TASK_GROUPS), task))
    rows = [
        {
            "method": str(trace.method),
            "model": trace.method.model,
            "title": _title(trace.method) + (f", {trace.method.model}" if several else ""),
            "graph": trace.method.graph,
            "swaps": trace.method.swaps,
            "task": trace.task,
            "run": trace.run,
            "episode": trace.episode,
            "last": trace.last,
            "final": trace.final,
            "solved": float(trace.solved),
            "steps": len(trace.scores),
            "scores": trace.scores,
        }
        for trace in traces
    ]
    order = {"method": list(dict.fromkeys(map(str, methods))), "task": tasks}
    frame = pd.DataFrame(rows)
    return frame.assign(**{name: pd.Categorical(frame[name], known, ordered=True) for name, known in order.items()})


def _rank(name: str, known: Iterable[str]) -> int:
    order = list(known)
    return order.index(name) if name in order else len(order)


def _method_rank(method: TracedMethod) -> tuple[bool, int, str, str]:
    return bool(method.swaps), _rank(method.graph, GRAPH_TITLES), str(method), method.model


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

ACCIDENT_COLUMNS = ["run", "method", "task_id", "episode", "step", "action", "before", "gold"]


def find_accidents(traces: Sequence[EpisodeTrace], golds: Mapping[str, float]) -> pd.DataFrame:
    """Find the episodes that won by accident: a lucky focus action reached the goal without the task's procedure.

    Args:
        traces: the episodes.
        golds: score of the gold path before its last focus action, by task, as `read_gold_scores` returns it.

    Returns:
        A row for each accidental win, with ACCIDENT_COLUMNS and the index of the episode in `traces`. `step` and
        `action` are the winning ones, `before` is the score before the winning step, and `gold` that of the gold path.
    """
    rows = {}
    for index, trace in enumerate(traces):
        won = next((step for step, score in enumerate(trace.scores) if score >= MAX_SCORE), None)
        gold = golds.get(trace.task, DEFAULT_MILESTONES)
        if not trace.solved or won is None or not is_focus(trace.actions, won):
            continue
        if (before := trace.at(won)) < MIN_GOLD_SHARE * gold:
            win = (won + 1, trace.actions[won], before, gold)
            rows[index] = (trace.run, str(trace.method), trace.task_id, trace.episode, *win)
    return pd.DataFrame.from_dict(rows, orient="index", columns=ACCIDENT_COLUMNS)


def read_gold_scores(data: str | None = None) -> dict[str, float]:
    """Read the score of each gold path before its winning action, by task.

    Only gold paths that end in a focus action are included. The result is empty if there is no ScienceWorld data.
    """
    folder = data_folder("scienceworld", data)
    path = folder / "gold_var0.jsonl.gz" if folder else None
    recordings = read_recordings(path) if path and path.is_file() else ()
    wins = ((gold, gold.firstdone - 1) for gold in recordings)
    return {gold.task: float(gold.scores[won - 1]) if won else 0.0 for gold, won in wins if is_focus(gold.gold, won)}


def is_focus(actions: Sequence[str], index: int) -> bool:
    """Return whether the action at an index is ScienceWorld's `focus on OBJECT`.

    If the world then asked which object was meant, the number given as the answer counts too.
    """
    while index > 0 and actions[index].strip().isdecimal():
        index -= 1
    return actions[index].strip().lower().startswith("focus")


# Scores by step. An episode that has ended keeps its score; otherwise the mean of later steps would cover only the slow
# episodes.

SERIES = ["method", "model", "title", "task"]
"""Columns that identify a curve."""

CURVE_COLUMNS = [*SERIES, "episodes", "n", "step", "mean", "sd"]


def reward_curves(episodes: pd.DataFrame) -> pd.DataFrame:
    """Compute the data of figure 4: the mean score by step of each task and method, over all episodes of all runs.

    Returns:
        CURVE_COLUMNS: mean score (0 to 100) after `step` actions, from 0, over `n` episodes, with the sample standard
        deviation `sd`, 0 for one episode. `episodes` is "all".
    """
    return _curves(("all", part) for part in _series(episodes, "task", "method", "model"))


def learning_curves(episodes: pd.DataFrame) -> pd.DataFrame:
    """Compute the curves of `reward_curves` separately over the first and over the last episode of each run.

    `episodes` is "first" or "last". Only tasks and methods whose runs have several episodes are included.
    """
    several = [part for part in _series(episodes, "task", "method", "model") if part["episode"].max() > 1]
    return _curves(
        (name, chosen)
        for part in several
        for name, chosen in (("first", part[part["episode"] == 1]), ("last", part[part["last"]]))
        if len(chosen)
    )


def best_curves(episodes: pd.DataFrame) -> pd.DataFrame:
    """Compute the data of figure 5: the mean score by step, from 1, over the best episode of each of `runs` runs."""
    curves = _curves(("best", part) for part in _series(select_best(episodes), "method", "model", "task"))
    shown = curves[curves["step"] > 0].rename(columns={"n": "runs", "mean": "score"})
    return shown[[*SERIES, "runs", "step", "score"]]


def select_best(episodes: pd.DataFrame) -> pd.DataFrame:
    """Select the episode with the highest final score of each run; of several, the shortest one."""
    ranked = episodes.sort_values(["final", "steps"], ascending=[False, True], kind="stable")
    return ranked.drop_duplicates("run").sort_index()


def _series(episodes: pd.DataFrame, *order: str) -> Iterator[pd.DataFrame]:
    return (part for _, part in episodes.groupby(list(order), observed=True))


def _curves(parts: Iterable[tuple[str, pd.DataFrame]]) -> pd.DataFrame:
    curves = [_curve(name, part) for name, part in parts]
    return pd.concat(curves, ignore_index=True) if curves else pd.DataFrame(columns=CURVE_COLUMNS)


def _curve(name: str, part: pd.DataFrame) -> pd.DataFrame:
    scores = zip_longest(*((0.0, *scores) for scores in part["scores"]), fillvalue=nan)
    held = pd.DataFrame(scores).ffill()  # a row per step, a column per episode
    figures = {"step": held.index, "mean": held.mean(axis=1), "sd": held.std(axis=1).fillna(0.0)}
    return pd.DataFrame({**part.iloc[0][SERIES], "episodes": name, "n": len(part), **figures})


# STEP with and without its Planner.

WITHOUT_PLANNER = ("planner=none",)


def planner_tasks(episodes: pd.DataFrame) -> pd.DataFrame:
    """Compare STEP with and without its Planner on every task that was run with both (STEP, table 2, by task).

    Without its Planner means with `planner=none` as the only swapped operator.

    Returns:
        A row for each model and task. `score` is the mean score (0 to 100) and `success` the percentage of solved runs
        with the Planner, over the best episode of each run; `score_without` and `success_without` are those without
        it. `group` is S or L (short or long), or empty if the task is not one of the STEP paper's eighteen.
    """
    best = select_best(episodes[episodes["graph"] == "step"])
    part = best.assign(
        swapped=best["swaps"].map({(): "", WITHOUT_PLANNER: "_without"}.get), success=100 * best["solved"]
    )
    part = part.dropna(subset="swapped").rename(columns={"final": "score"})
    grouped = part.groupby(["model", "task", "swapped"], observed=True)[["score", "success"]].mean()
    means = pd.DataFrame(grouped.unstack("swapped"))
    means.columns = ["".join(parts) for parts in means.columns]
    table = means.reindex(columns=["score", "score_without", "success", "success_without"]).dropna().reset_index()
    table.insert(2, "group", [TASK_GROUPS.get(task, "") for task in table["task"]])
    return table


def planner_changes(tasks: pd.DataFrame) -> pd.DataFrame:
    """Compute STEP's table 2: the means of `planner_tasks` over the short, the long and all tasks of each model.

    Every task has the same weight. A change is without minus with the Planner, in points: a loss is negative.
    """
    both = pd.concat([tasks[tasks["group"] != ""], tasks.assign(group="All")])
    both["group"] = pd.Categorical(both["group"], ["S", "L", "All"])
    grouped = both.groupby(["model", "group"], observed=True)
    table = grouped[["score", "score_without", "success", "success_without"]].mean()
    table.insert(0, "tasks", grouped.size())
    table.insert(3, "score_change", table["score_without"] - table["score"])
    table["success_change"] = table["success_without"] - table["success"]
    return table.reset_index()
