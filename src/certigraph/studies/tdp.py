"""Study of the prompt sizes of TDP and other methods (`certigraph study tdp`): how prompts grow as episodes get longer.

A scripted agent walks along a generated corridor of rooms with several graphs, so that episodes can have any length.
"""

import re
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter

from certigraph.adapters.models.schemas import minimal_instance
from certigraph.adapters.models.scripts import CHARS_PER_TOKEN, current_situation
from certigraph.adapters.protocols import Benchmark, Context, Environment, Limits, Responder
from certigraph.evaluation.compare import ComparisonJob, run_comparison
from certigraph.evaluation.comparison import (
    PLAN_FILE,
    ComparisonPlan,
    build_plan,
    cells_of,
    finished_cells,
    parse_methods,
    read_plan,
    recorded_run_of,
    unfinished_cells,
)
from certigraph.evaluation.frames import frames_of
from certigraph.evaluation.plots import GREY, assign_colours
from certigraph.evaluation.result_tables import format_model_note
from certigraph.evaluation.statistics import MIN_POINTS, fit_slope
from certigraph.evaluation.tables import print_report_path
from certigraph.state.endings import UnknownName
from certigraph.state.records import Action, Observation, Scores, Task
from certigraph.state.run import FINISH, SEARCH, parse_action
from certigraph.studies.tables import (
    format_progress,
    print_frames,
    print_json,
    write_figures,
    write_study_page,
    write_tables,
)

# The scripted agent of the corridor, which answers in the schema of any graph's prompts.

DEEP, WIDE = "deep", "wide"
"""Kinds of task: one subtask with all rooms, or one subtask for every four rooms."""

SUBTASK_ROOMS = 4
"""Number of rooms in each subtask of a wide task."""

ROOM_RANGE = re.compile(r"rooms (\d+) to (\d+)")


def respond(prompt: str, schema: Mapping[str, Any]) -> Any:
    """Answer a prompt without a model, from the state of the current run; the answer fits the schema.

    Raises:
        LookupError: there is no current run.
    """
    situation, fields = current_situation(), schema.get("properties", {})
    if situation is None:
        raise LookupError("the corridor's agent answers only inside a run: use certigraph study tdp")
    task, turns = situation.state["task"], len(situation.state.get("turns", ()))
    first, last = map(int, ROOM_RANGE.search(task.goal).groups())  # type: ignore[union-attr]
    left = range(first + turns, last + 1)
    if "nodes" in fields:
        return {"nodes": _chain_of_subtasks(last, SUBTASK_ROOMS if task.id.startswith(WIDE) else last)}
    if "steps" in fields:
        return {"steps": [f"search[room {room:02}]" for room in left] or ["finish[the last word]"]}
    if "tool" in fields and left:
        return {"thought": "The next room.", "tool": SEARCH, "text": f"room {left[0]:02}"}
    if "tool" in fields:
        return {"thought": "All rooms are read.", "tool": FINISH, "text": f"word-{last:02}"}
    if "status" in fields:
        status = {"status": "needs_more_steps" if left else "completed", "result": f"The last word was word-{last:02}."}
        return {"reason": "As planned.", "off_plan": False, "guidance": "Go on.", **status}
    return minimal_instance(dict(schema))


def _chain_of_subtasks(rooms: int, size: int) -> list[dict[str, Any]]:
    """Build the subtasks of TDP's task graph, with `size` rooms each; each subtask needs the one before it."""
    return [
        {
            "id": f"n{number:02}",
            "task": f"Read the words of rooms {first:02} to {min(first + size - 1, rooms):02}, in order.",
            "needs": [f"n{number - 1:02}"] if number else [],
        }
        for number, first in enumerate(range(1, rooms + 1, size))
    ]


# The world: a corridor of rooms with a word in each, of which one is read per step.
#
# The task `deep-40` has forty rooms as one subtask, `wide-40` the same rooms in subtasks of four. All rooms answer with
# the same number of characters, so that prompts grow only by the amount of history that they hold.

CORRIDOR = "corridor"

MAX_ROOMS = 96
"""Maximum number of rooms; all numbers have two digits, so that all texts have the same length."""


class Corridor(Benchmark):
    """Generated benchmark: a corridor of rooms with a word in each. The correct answer is the word in the last room."""

    name = CORRIDOR
    briefing = "A corridor of rooms. search[room 07] tells the word in room 07; finish[...] hands in an answer."
    answers = True

    def __init__(self, data: Path | None = None, config: str = "") -> None:
        self.limits = Limits(steps=2 * MAX_ROOMS, nodes=MAX_ROOMS, revisions=MAX_ROOMS)

    def tasks(self, split: str = "") -> Sequence[Task]:
        """Return the shortest task of each kind."""
        return [self.task(f"{kind}-{SUBTASK_ROOMS:02}") for kind in (DEEP, WIDE)]

    def task(self, task_id: str) -> Task:
        """Return a task by its id.

        Raises:
            UnknownName: the id is not of the form `deep-40` or `wide-40`.
        """
        kind, _, rooms = task_id.partition("-")
        if kind not in (DEEP, WIDE) or not rooms.isdecimal() or not 0 < int(rooms) <= MAX_ROOMS:
            raise UnknownName(f"no task {task_id!r}; write deep-40 or wide-40, up to {MAX_ROOMS} rooms")
        goal = f"Read the words of rooms 01 to {int(rooms):02}, in order, and hand in the last one."
        return Task(benchmark=self.name, id=task_id, goal=goal)

    def open(self, task: Task) -> "CorridorWorld":
        """Open the corridor; tasks differ only in the last room."""
        return CorridorWorld(f"word-{task.id.partition('-')[2]:0>2}")

    def expert(self) -> Responder:
        """Return the scripted agent, which reads every room once, in order."""
        return respond


class CorridorWorld(Environment):
    """One episode in the corridor. Its only state is the submitted answer."""

    def __init__(self, word: str) -> None:
        self._word, self._answer = word, ""

    def reset(self) -> Observation:
        """Go back to the door and return the first observation."""
        self._answer = ""
        return Observation(text=self.view())

    def step(self, action: Action) -> Observation:
        """Read a room or submit an answer; other actions are refused."""
        command = parse_action(action)
        if command and command.kind == FINISH:
            self._answer = str(command.args["answer"])
            return Observation(text="Handed in.", done=True)
        room = str(command.args.get("query", "")).removeprefix("room ") if command else ""
        if not room.isdecimal() or not 0 < int(room) <= MAX_ROOMS:
            return Observation(text=f"{action.text!r} is not a room: write search[room 07]", accepted=False)
        text = f"Room {int(room):02}: the word is word-{int(room):02}."
        return Observation(text=f"{text} Its walls are bare, its lamp is lit, and its door leads on.")

    def view(self) -> str:
        """Return the view, which is the same in every room."""
        return "A corridor of numbered rooms."

    def score(self) -> Scores:
        """Return the score: 1 if the answer is the word in the last room, else 0."""
        return Scores(value=float(self._answer == self._word), answer=self._answer)


# The size of every prompt of a run, by the number of world steps before it.

WHOLE_TASK, SUBTASK, TASK_GRAPH = "whole task", "sub-task", "task graph"
"""Scope of a prompt: the complete task, one subtask, or TDP's task graph."""

EPISODE = ["kind", "rooms", "method"]
SIZE_COLUMNS = [*EPISODE, "about", "operator", "subtask", "steps", "tokens", "characters", "written"]


def size_table(calls: pd.DataFrame) -> pd.DataFrame:
    """Convert model calls (`frames.Frames.calls`) to the sizes of their prompts, in the order in which they were sent.

    `rooms` is the number of world steps that the task needs, `steps` the number of world steps before the prompt, and
    `written` the number of tokens of the reply. `about` is the scope of the prompt. A scripted model counts one token
    per four characters, rounded down.
    """
    calls = calls[~calls["superseded"]]
    tasks = calls["task"].str.split("-")
    inner = calls["scope"] != ""
    about = inner.groupby(calls["run"]).transform("any").map({True: TASK_GRAPH, False: WHOLE_TASK}).mask(inner, SUBTASK)
    columns = {"node": "operator", "input_tokens": "tokens", "output_tokens": "written"}
    characters = calls["input_tokens"] * CHARS_PER_TOKEN
    sizes = calls.rename(columns=columns).assign(kind=tasks.str[0], rooms=tasks.str[-1].astype(int), about=about)
    return sizes.assign(characters=characters)[SIZE_COLUMNS]


# The tables: the cost of complete episodes by method, and slopes, which show whether the largest prompt of an episode
# grows with the number of world steps.

ANY_OPERATOR = "largest of all"
"""Text in place of an operator's name for the largest prompt of all operators; prompts about TDP's task graph are left
out."""

MAX_BOUNDED_SLOPE = 1.0
"""Characters per step below which the whole interval of a slope must lie so that prompts count as bounded."""

SLOPE_KEYS = ["kind", "method", "about", "operator"]
SLOPE_FIGURES = ["episodes", "shortest", "longest", "slope", "low", "high", "words"]


def total_table(sizes: pd.DataFrame) -> pd.DataFrame:
    """Sum the `calls`, prompt tokens (`read`) and output tokens (`written`) of every episode.

    Episodes are ordered by kind of task, length, and method in the order of the study.
    """
    methods = pd.Categorical(sizes["method"], sizes["method"].unique())
    episodes = sizes.assign(method=methods).groupby(EPISODE, observed=True)
    totals = episodes.agg(calls=("tokens", "size"), read=("tokens", "sum"), written=("written", "sum")).reset_index()
    return totals.astype({"method": "str"})


def slope_table(sizes: pd.DataFrame) -> pd.DataFrame:
    """Compute how prompts grow with the length of an episode, by kind of task, method, scope and operator.

    It is a test of TDP's claim that decoupled prompts are bounded. For each method the slope over all operators comes
    first. `slope` is that of the least-squares line through the largest prompts of `episodes` episodes of different
    lengths, in characters per world step; `low` and `high` bound its 95 % t interval. `shortest` and `longest` are the
    largest prompts, in characters, of the shortest and of the longest episode.
    """
    about_work = sizes[sizes["about"] != TASK_GRAPH].assign(operator=ANY_OPERATOR)
    groups = pd.concat([about_work, sizes]).groupby([*SLOPE_KEYS, "rooms"], sort=False)
    largest = groups["characters"].max().reset_index()
    order = largest.assign(graph=largest["about"] == TASK_GRAPH, single=largest["operator"] != ANY_OPERATOR)
    ordered = order.sort_values(["kind", "method", "graph", "about", "single"], kind="stable")
    lines = [
        (*names, *_slope_figures(points.sort_values("rooms")))
        for names, points in ordered.groupby(SLOPE_KEYS, sort=False)
    ]
    return pd.DataFrame(lines, columns=[*SLOPE_KEYS, *SLOPE_FIGURES])


def _slope_figures(points: pd.DataFrame) -> tuple[Any, ...]:
    characters = points["characters"].tolist()
    slope, low, high = fit_slope(points["rooms"].tolist(), characters)
    if low is None or high is None:
        words = f"too few lengths for a conclusion: at least {MIN_POINTS} needed"
    elif max(characters) - min(characters) <= CHARS_PER_TOKEN:
        words = "bounded"  # sizes are whole tokens: one more or less is rounding
    elif low > 1e-6:  # more than a rounding error
        words = "growing"
    else:
        words = "bounded" if high < MAX_BOUNDED_SLOPE else "undecided"
    return len(points), characters[0], characters[-1], slope, low, high, words


# The figure: prompts over the world steps of the longest episode, a panel per kind of task, a line per method.


def draw_prompt_growth(sizes: pd.DataFrame) -> Figure:
    """Draw the largest prompt of each method by world step; the line for prompts about TDP's task graph is dashed."""
    titles = {DEEP: "one sub-task of all steps", WIDE: f"sub-tasks of {SUBTASK_ROOMS} steps"}
    figure = Figure(figsize=(10, 3.6), layout="constrained")
    panels = figure.subplots(1, len(titles), sharey=True)
    for panel, (kind, title) in zip(panels, titles.items(), strict=True):
        of_kind = sizes[sizes["kind"] == kind]
        longest = of_kind[of_kind["rooms"] == of_kind["rooms"].max()]
        colours = assign_colours(longest["method"].unique())
        for (method, graph), prompts in longest.groupby(
            [longest["method"], longest["about"] == TASK_GRAPH], sort=False
        ):
            largest = prompts.groupby("steps")["characters"].max()
            style = {"label": f"{method}, task graph", "linestyle": "--", "marker": "."} if graph else {"label": method}
            panel.plot(largest.index, largest.tolist(), linewidth=1.4, color=colours[method], **style)
        panel.set_title(title)
        panel.set_xlabel("world steps taken", color=GREY)
        panel.yaxis.set_major_formatter(EngFormatter(sep=""))
    panels[0].set_ylim(bottom=0)  # after drawing: the panels share the axis, and a limit stops its autoscaling
    panels[0].set_ylabel("characters of the largest prompt")
    if handles := panels[-1].get_legend_handles_labels()[0]:
        figure.legend(handles=handles, loc="outside upper left", ncols=len(handles))
    return figure


# The files of the study: sizes, slopes and totals as CSV, the figure, and the page.

STUDY_PAGE = "study.html"


class PromptStudy(NamedTuple):
    """Tables of the study of prompt sizes so far: `size_table`, `slope_table` and `total_table`."""

    prompts: pd.DataFrame
    slopes: pd.DataFrame
    totals: pd.DataFrame


def write_report(plan: ComparisonPlan, folder: Path) -> PromptStudy:
    """Write the report of the study so far, and return the tables.

    Writes `study.html`, `prompts.csv` with a row per prompt, `slopes.csv`, `totals.csv` with a row per episode,
    `prompts.png` and `prompts.svg`.
    """
    sizes = size_table(frames_of(recorded_run_of(*done) for done in finished_cells(plan, folder)).calls)
    study = PromptStudy(sizes, slope_table(sizes), total_table(sizes))
    write_tables(study._asdict(), folder)
    progress = format_progress(len(study.totals), len(plan.methods) * len(plan.tasks), "scripted run")
    write_study_page(
        folder / STUDY_PAGE,
        "study_tdp.html",
        {"slopes": study.slopes, "totals": study.totals},
        write_figures({"prompts": partial(draw_prompt_growth, sizes)}, folder),
        title="Prompts of TDP and of others as episodes grow",
        scope=f"{progress}{format_model_note([plan.model])}",
        bounded_below=f"{MAX_BOUNDED_SLOPE:g}",
        subtask_rooms=SUBTASK_ROOMS,
    )
    return study


# The command `certigraph study tdp`.

COMMAND = "certigraph study tdp"

LENGTH_STEP = 2 * SUBTASK_ROOMS
"""Number of world steps by which the lengths of episodes differ. The shortest wide task has two subtasks, so that one
needs the other."""

DEFAULT_LONGEST = 40
"""Default number of world steps of the longest episode."""


def build_order(longest: int | None, folder: Path) -> ComparisonJob:
    """Build the study as a comparison of graphs on episodes with up to `longest` world steps.

    Args:
        longest: maximum number of world steps; None: that of the study in the folder, else DEFAULT_LONGEST.
        folder: folder of the study.

    Raises:
        UnknownName: `longest` is too small for three different lengths, or larger than the number of rooms.
    """
    corridor = Corridor()
    context = Context(limits=corridor.limits)
    if longest is None and (folder / PLAN_FILE).is_file() and (stored := read_plan(folder)).benchmark == CORRIDOR:
        return ComparisonJob(stored, context, corridor, COMMAND)
    longest = DEFAULT_LONGEST if longest is None else longest
    lengths = range(LENGTH_STEP, longest + 1, LENGTH_STEP)
    if len(lengths) < MIN_POINTS or longest > MAX_ROOMS:
        need = f"{MIN_POINTS} lengths, {LENGTH_STEP} apart, need {MIN_POINTS * LENGTH_STEP} to {MAX_ROOMS} steps"
        raise UnknownName(f"--longest {longest}: {need}")
    tasks = [f"{kind}-{length:02}" for kind in (DEEP, WIDE) for length in lengths]
    plan = build_plan(CORRIDOR, parse_methods(("tdp", "plan_and_act", "cot", "react")), tasks, context)
    return ComparisonJob(plan, context, corridor, COMMAND)


def run_command(order: ComparisonJob, folder: Path, *, report_only: bool, as_json: bool) -> int:
    """Execute the unfinished runs of the study (not with `report_only`), write the report and print it.

    Returns:
        The exit status: 1 while runs are unfinished, else 0.

    Raises:
        Interrupted: by Ctrl-C; the message has the command that resumes the study.
        Fault: as in `compare`, or there is nothing to report.
    """
    if report_only:
        read_plan(folder)
    else:
        run_comparison(order, folder, silent=as_json)
    study = write_report(order.plan, folder)
    if as_json:
        print_json({"slopes": study.slopes, "totals": study.totals})
    else:
        slopes, totals = study.slopes, study.totals
        # the page has all rows
        of_methods = (slopes["operator"] == ANY_OPERATOR) | (slopes["about"] == TASK_GRAPH)
        ends = totals["rooms"].isin([LENGTH_STEP, totals["rooms"].max()])
        print_frames({"characters of the largest prompt": slopes[of_methods], "tokens of episodes": totals[ends]})
        print_report_path(folder / STUDY_PAGE)
    return 1 if unfinished_cells(cells_of(order.plan, folder)) else 0
