"""Tables of the STEP paper as data frames: accidental wins, scores by step, best episodes, and the Planner's effect."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import zip_longest
from math import nan
from pathlib import Path
from typing import Any

import pandas as pd

from certigraph.adapters.benchmarks import data_folder
from certigraph.benchmarks.scienceworld.recordings import read_recordings
from certigraph.benchmarks.scienceworld.splits import STEP_LONG, STEP_SHORT
from certigraph.evaluation.frame_rows import MAX_SCORE
from certigraph.evaluation.frames import Frames, find_runs, read_frames
from certigraph.state.endings import INTERRUPTED, Fault

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


def read_episodes(folders: Iterable[Path]) -> tuple[pd.DataFrame, list[Path]]:
    """Read the episodes of all finished runs below folders; a run that is there twice counts once.

    Returns:
        The episodes as in `episode_frame`, and the folders of the runs that were left out because they are unfinished
        or failed.

    Raises:
        Fault: a folder is missing, there is no run, or no run is finished.
    """
    found = find_runs(folders)
    paths = {header.run_id: (path, header) for path, header in found.runs}
    frames = read_frames(found._replace(runs=list(paths.values())))
    endings = frames.runs["ending"]
    left_out = frames.runs.loc[(endings == INTERRUPTED) | endings.str.startswith("error:"), "run"]
    episodes = episode_frame(frames)
    finished = episodes[~episodes["run"].isin(left_out)].reset_index(drop=True)
    if finished.empty:
        raise Fault("data", "no episode of a finished run in these folders: give folders that `certigraph run` wrote")
    return finished, [path.parent for path in (*(paths[run][0] for run in left_out), *found.unbegun)]


def episode_frame(frames: Frames) -> pd.DataFrame:
    """Build a data frame with a row for each episode that has an action.

    `method` is the graph with its swapped operators. For ScienceWorld, `task` is the name of the task without split
    and variation, because variations are treated as samples of one task; `task_id` is the complete id. `episode` counts
    from 1 within a run, and `last` marks the last one. `scores` is the tuple of scores (0 to 100) after each of the
    `actions`, `final` the final score, `solved` 0 or 1, and `steps` the number of actions.
    """
    about = frames.runs[["run", "graph", "swaps", "model", "roles", "benchmark", "task"]]
    steps = frames.steps.groupby(["run", "episode"], sort=False).agg(actions=("action", tuple), scores=("score", tuple))
    episodes = steps.reset_index().merge(about.rename(columns={"task": "task_id"}), on="run")
    final = episodes["scores"].map(lambda scores: scores[-1]).astype(float)
    return episodes.assign(
        method=(episodes["graph"] + " " + episodes["swaps"].str.replace(", ", " ")).str.strip(),
        model=(episodes["model"] + " " + episodes["roles"]).str.strip(),
        task=list(map(_task_name, episodes["benchmark"], episodes["task_id"])),
        last=episodes["episode"] == episodes.groupby("run")["episode"].transform("max"),
        final=final,
        solved=(final >= MAX_SCORE).astype(float),
        steps=episodes["scores"].map(len),
    )


def order_episodes(episodes: pd.DataFrame) -> pd.DataFrame:
    """Make `method` and `task` ordered categories, and add `title`, the name of the method for figures.

    Methods without swapped operators come first, and tasks are in the order of the STEP paper's table. The title has
    the model if there are several models.
    """
    several = episodes["model"].nunique() > 1
    known = episodes[["graph", "swaps", "method", "model"]].drop_duplicates().itertuples(index=False, name=None)
    methods = sorted((swaps != "", _rank(graph, GRAPH_TITLES), *names) for graph, swaps, *names in known)
    tasks = sorted(episodes["task"].unique(), key=lambda task: (_rank(task, TASK_GROUPS), task))
    order = {"method": list(dict.fromkeys(method for *_, method, _ in methods)), "task": tasks}
    titles = episodes["graph"].replace(GRAPH_TITLES) + (" (" + episodes["swaps"] + ")").where(
        episodes["swaps"] != "", ""
    )
    categories = {name: pd.Categorical(episodes[name], names, ordered=True) for name, names in order.items()}
    return episodes.assign(title=titles + (", " + episodes["model"] if several else ""), **categories)


def _task_name(benchmark: str, task: str) -> str:
    if benchmark.partition(":")[0] == "scienceworld":
        return task.rpartition("/")[-1].partition(":")[0]
    return f"{benchmark} {task}"


def _rank(name: str, known: Iterable[str]) -> int:
    order = list(known)
    return order.index(name) if name in order else len(order)


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


def find_accidents(episodes: pd.DataFrame, golds: Mapping[str, float]) -> pd.DataFrame:
    """Find the episodes that won by accident: a lucky focus action reached the goal without the task's procedure.

    Args:
        episodes: the episodes.
        golds: score of the gold path before its last focus action, by task, as `read_gold_scores` returns it.

    Returns:
        A row for each accidental win, with ACCIDENT_COLUMNS and the index of the episode in `episodes`. `step` and
        `action` are the winning ones, `before` is the score before the winning step, and `gold` that of the gold path.
    """
    rows = {}
    one: Any
    for one in episodes[episodes["solved"] > 0].itertuples():
        won = next(step for step, score in enumerate(one.scores) if score >= MAX_SCORE)
        before, gold = one.scores[won - 1] if won else 0.0, golds.get(one.task, DEFAULT_MILESTONES)
        if is_focus(one.actions, won) and before < MIN_GOLD_SHARE * gold:
            rows[one.Index] = (one.run, one.method, one.task_id, one.episode, won + 1, one.actions[won], before, gold)
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
    return _curves(episodes.assign(episodes="all"), ["task", "method", "model"])


def learning_curves(episodes: pd.DataFrame) -> pd.DataFrame:
    """Compute the curves of `reward_curves` separately over the first and over the last episode of each run.

    `episodes` is "first" or "last". Only tasks and methods whose runs have several episodes are included.
    """
    by = ["task", "method", "model"]
    several = episodes[episodes.groupby(by, observed=True)["episode"].transform("max") > 1]
    first, last = several[several["episode"] == 1], several[several["last"]]
    return _curves(pd.concat([first.assign(episodes="first"), last.assign(episodes="last")]), [*by, "episodes"])


def best_curves(episodes: pd.DataFrame) -> pd.DataFrame:
    """Compute the data of figure 5: the mean score by step, from 1, over the best episode of each of `runs` runs."""
    curves = _curves(select_best(episodes).assign(episodes="best"), ["method", "model", "task"])
    shown = curves[curves["step"] > 0].rename(columns={"n": "runs", "mean": "score"})
    return shown[[*SERIES, "runs", "step", "score"]]


def select_best(episodes: pd.DataFrame) -> pd.DataFrame:
    """Select the episode with the highest final score of each run; of several, the shortest one."""
    ranked = episodes.sort_values(["final", "steps"], ascending=[False, True], kind="stable")
    return ranked.drop_duplicates("run").sort_index()


def _curves(episodes: pd.DataFrame, by: list[str]) -> pd.DataFrame:
    curves = [_curve(part) for _, part in episodes.groupby(by, observed=True)]
    return pd.concat(curves, ignore_index=True) if curves else pd.DataFrame(columns=CURVE_COLUMNS)


def _curve(part: pd.DataFrame) -> pd.DataFrame:
    scores = zip_longest(*((0.0, *scores) for scores in part["scores"]), fillvalue=nan)
    held = pd.DataFrame(scores).ffill()  # a row per step, a column per episode
    figures = {"step": held.index, "mean": held.mean(axis=1), "sd": held.std(axis=1).fillna(0.0)}
    return pd.DataFrame({**part.iloc[0][[*SERIES, "episodes"]], "n": len(part), **figures})


# STEP with and without its Planner.


def planner_tasks(episodes: pd.DataFrame) -> pd.DataFrame:
    """Compare STEP with and without its Planner on every task that was run with both (STEP, table 2, by task).

    Without its Planner means with `planner=none` as the only swapped operator.

    Returns:
        A row for each model and task. `score` is the mean score (0 to 100) and `success` the percentage of solved runs
        with the Planner, over the best episode of each run; `score_without` and `success_without` are those without
        it. `group` is S or L (short or long), or empty if the task is not one of the STEP paper's eighteen.
    """
    best = select_best(episodes[episodes["graph"] == "step"])
    part = best.assign(swapped=best["swaps"].map({"": "", "planner=none": "_without"}), success=100 * best["solved"])
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
