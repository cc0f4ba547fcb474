"""Study of the prompt sizes of TDP and other methods (`certigraph study tdp`): how prompts grow as episodes get longer.

A scripted agent walks along a generated corridor of rooms with several graphs, so that episodes can have any length.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
import typer
from markupsafe import Markup
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter

from certigraph.adapters.models.schemas import minimal_instance
from certigraph.adapters.models.scripts import CHARS_PER_TOKEN, current_situation
from certigraph.adapters.protocols import Benchmark, Context, Environment, Limits, Operator, Responder
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
from certigraph.evaluation.measures import MISSING_VALUE
from certigraph.evaluation.plots import GREY, assign_colours, chart_style, save_drawing
from certigraph.evaluation.result_tables import format_model_note
from certigraph.evaluation.statistics import MIN_POINTS, fit_slope
from certigraph.evaluation.tables import (
    format_interval,
    print_report_path,
    records_of,
    table_console,
    terminal_table,
    write_frame,
    write_page,
)
from certigraph.runtime.texts import format_count
from certigraph.state.endings import UnknownName
from certigraph.state.records import Action, Observation, Scores, Task
from certigraph.state.run import FINISH, SEARCH, parse_action
from certigraph.state.trajectory import Footer

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
        return {"nodes": _build_nodes(task.id.partition("-")[0], last)}
    if "steps" in fields:
        return {"steps": [f"search[room {room:02}]" for room in left] or ["finish[the last word]"]}
    if "tool" in fields:
        return _choose_action(left, last)
    if "status" in fields:
        return _judge_progress(left, last)
    return minimal_instance(dict(schema))


def _build_nodes(kind: str, rooms: int) -> list[dict[str, Any]]:
    """Build a chain of subtasks for TDP's task graph; each subtask needs the one before it."""
    size = SUBTASK_ROOMS if kind == WIDE else rooms
    firsts = range(1, rooms + 1, size)
    return [
        {
            "id": f"n{number:02}",
            "task": f"Read the words of rooms {first:02} to {min(first + size - 1, rooms):02}, in order.",
            "needs": [f"n{number - 1:02}"] if number else [],
        }
        for number, first in enumerate(firsts)
    ]


def _choose_action(left: range, last: int) -> dict[str, str]:
    if left:
        return {"thought": "The next room.", "tool": SEARCH, "text": f"room {left[0]:02}"}
    return {"thought": "All rooms are read.", "tool": FINISH, "text": f"word-{last:02}"}


def _judge_progress(left: range, last: int) -> dict[str, Any]:
    status = "needs_more_steps" if left else "completed"
    result = f"The last word was word-{last:02}."
    return {"reason": "As planned.", "status": status, "off_plan": False, "guidance": "Go on.", "result": result}


# The world: a corridor of rooms with a word in each, of which one is read per step.
#
# The task `deep-40` has forty rooms as one subtask, `wide-40` the same rooms in subtasks of four. All rooms answer with
# the same number of characters, so that prompts grow only by the amount of history that they hold.

CORRIDOR = "corridor"

MAX_ROOMS = 96
"""Maximum number of rooms; all numbers have two digits, so that all texts have the same length."""

ROOM_TEXT = "Room {room:02}: the word is word-{room:02}. Its walls are bare, its lamp is lit, and its door leads on."


class Corridor(Benchmark):
    """Generated benchmark: a corridor of rooms with a word in each. The correct answer is the word in the last room."""

    name = CORRIDOR
    briefing = "A corridor of rooms. search[room 07] tells the word in room 07; finish[...] hands in an answer."
    configurations: Sequence[str] = ("",)
    answers = True
    tools = (SEARCH, FINISH)

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

    def operators(self) -> Mapping[str, Operator]:
        """Return an empty mapping: the benchmark has no operators of its own."""
        return {}

    def expert(self) -> Responder:
        """Return the scripted agent, which reads every room once, in order."""
        return respond

    def figures(self, runs: Sequence[tuple[str, Footer]]) -> dict[str, float]:
        """Return the number of runs."""
        return {"n": len(runs)}


class CorridorWorld(Environment):
    """One episode in the corridor. Its only state is the submitted answer."""

    concurrent = False

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
            return Observation(text=f"{action.text!r} is no room: write search[room 07]", accepted=False)
        return Observation(text=ROOM_TEXT.format(room=int(room)))

    def view(self) -> str:
        """Return the view, which is the same in every room."""
        return "A corridor of numbered rooms."

    def admissible(self) -> None:
        """Return None: any room may be named."""

    def score(self) -> Scores:
        """Return the score: 1 if the answer is the word in the last room, else 0."""
        return Scores(value=float(self._answer == self._word), answer=self._answer)

    def close(self) -> None:
        """Do nothing: the world holds no resources."""


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

ROUNDING_SLOPE = 1e-6
"""Slope, in characters per step, up to which growth is taken for a rounding error."""

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
    largest = (
        pd.concat([about_work, sizes]).groupby([*SLOPE_KEYS, "rooms"], sort=False)["characters"].max().reset_index()
    )
    order = largest.assign(graph=largest["about"] == TASK_GRAPH, single=largest["operator"] != ANY_OPERATOR)
    ordered = order.sort_values(["kind", "method", "graph", "about", "single"], kind="stable")
    lines = [
        (*names, *_slope_figures(points.sort_values("rooms")))
        for names, points in ordered.groupby(SLOPE_KEYS, sort=False)
    ]
    return pd.DataFrame(lines, columns=[*SLOPE_KEYS, *SLOPE_FIGURES])


def describe_slope(low: float | None, high: float | None) -> str:
    """Describe a slope in words, given the bounds of its interval: growing, bounded, or undecided."""
    if low is None or high is None:
        return f"too few lengths for a conclusion: at least {MIN_POINTS} needed"
    if low > ROUNDING_SLOPE:
        return "growing"
    return "bounded" if high < MAX_BOUNDED_SLOPE else "undecided"


def _slope_figures(points: pd.DataFrame) -> tuple[Any, ...]:
    characters = points["characters"].tolist()
    slope, low, high = fit_slope(points["rooms"].tolist(), characters)
    # sizes are whole tokens: one more or less is rounding, which a few lengths cannot tell from growth
    constant = high is not None and max(characters) - min(characters) <= CHARS_PER_TOKEN
    words = "bounded" if constant else describe_slope(low, high)
    return len(points), characters[0], characters[-1], slope, low, high, words


# The figure: prompts over the world steps of the longest episode, a panel per kind of task, a line per method.

PANEL_TITLES = {DEEP: "one sub-task of all steps", WIDE: f"sub-tasks of {SUBTASK_ROOMS} steps"}


def draw_prompt_growth(sizes: pd.DataFrame) -> Figure:
    """Draw the largest prompt of each method by world step; the line for prompts about TDP's task graph is dashed."""
    figure = Figure(figsize=(10, 3.6), layout="constrained")
    panels = figure.subplots(1, len(PANEL_TITLES), sharey=True)
    for panel, (kind, title) in zip(panels, PANEL_TITLES.items(), strict=True):
        of_kind = sizes[sizes["kind"] == kind]
        _draw_panel(panel, of_kind[of_kind["rooms"] == of_kind["rooms"].max()])
        panel.set_title(title)
    panels[0].set_ylim(bottom=0)  # after drawing: the panels share the axis, and a limit stops its autoscaling
    panels[0].set_ylabel("characters of the largest prompt")
    if handles := panels[-1].get_legend_handles_labels()[0]:
        figure.legend(handles=handles, loc="outside upper left", ncols=len(handles))
    return figure


def _draw_panel(panel: Any, sizes: pd.DataFrame) -> None:
    colours = assign_colours(sizes["method"].unique())
    is_graph = sizes["about"] == TASK_GRAPH
    for (method, graph), prompts in sizes.groupby([sizes["method"], is_graph], sort=False):
        largest = prompts.groupby("steps")["characters"].max()
        style = {"label": f"{method}, task graph", "linestyle": "--", "marker": "."} if graph else {"label": method}
        panel.plot(largest.index, largest.tolist(), linewidth=1.4, color=colours[method], **style)
    panel.set_xlabel("world steps taken", color=GREY)
    panel.yaxis.set_major_formatter(EngFormatter(sep=""))


# The files of the study: sizes, slopes and totals as CSV, the figure, and the page.

STUDY_PAGE = "study.html"
PAGE_TITLE = "Prompts of TDP and of others as episodes grow"
SLOPE_TITLES = (
    "task",
    "method",
    "prompts about",
    "operator",
    "shortest",
    "longest",
    "slope",
    "95 % interval",
    "in words",
)
TOTAL_TITLES = ("task", "steps", "method", "calls", "prompt tokens", "output tokens")

SLOPE_NOTE = (
    "A line is the largest prompt of an episode against the world steps that its task takes, over episodes of "
    "different lengths: shortest and longest in characters, the slope in characters a step. Growing: the whole "
    f"interval of the slope is above 0; bounded: it holds 0 or less and stays below {MAX_BOUNDED_SLOPE:g}. Deep tasks "
    f"are one sub-task of all steps, wide ones sub-tasks of {SUBTASK_ROOMS}, each of which needs the one before; "
    "to the other methods both are the same task. These episodes stay below what a prompt may hold of earlier rounds: "
    "the model's window, or with a small model `limits.context` characters."
)

TOTAL_NOTE = (
    "What all calls of an episode read and wrote together. TDP pays for a decomposition, a plan and a revision a "
    "sub-task, and a judgement an action; Plan-and-Act for a plan of all that is left after every action."
)


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
    for name, table in study._asdict().items():
        write_frame(table, folder / f"{name}.csv")
    with chart_style():
        drawing = save_drawing(draw_prompt_growth(sizes), folder / "prompts")
    _write_study_page(plan, study, drawing, folder / STUDY_PAGE)
    return study


def slope_cells(slopes: pd.DataFrame) -> Iterator[tuple[str, ...]]:
    """Format the slopes as rows of a table with the titles SLOPE_TITLES."""
    line: Any
    for line in slopes.itertuples():
        slope = MISSING_VALUE if pd.isna(line.slope) else f"{line.slope:+.1f}"
        figures = slope, format_interval(line.low, line.high, "+.1f")
        sizes = f"{line.shortest:,}", f"{line.longest:,}"
        yield line.kind, line.method, line.about, line.operator, *sizes, *figures, line.words


def total_cells(totals: pd.DataFrame) -> Iterator[tuple[str, ...]]:
    """Format the costs of episodes as rows of a table with the titles TOTAL_TITLES."""
    line: Any
    for line in totals.itertuples():
        yield line.kind, str(line.rooms), line.method, str(line.calls), f"{line.read:,}", f"{line.written:,}"


def _write_study_page(plan: ComparisonPlan, study: PromptStudy, drawing: Markup, path: Path) -> None:
    planned = len(plan.methods) * len(plan.tasks)
    done = len(study.totals)
    missing = f"; {format_count(planned - done, 'run')} not finished" if done < planned else ""
    write_page(
        path,
        "study_tdp.html",
        package="certigraph.studies",
        title=PAGE_TITLE,
        scope=f"{format_count(done, 'scripted run')}{missing}{format_model_note([plan.model])}",
        drawing=drawing,
        slopes=(SLOPE_TITLES, slope_cells(study.slopes)),
        slope_note=SLOPE_NOTE,
        totals=(TOTAL_TITLES, total_cells(study.totals)),
        total_note=TOTAL_NOTE,
    )


# The command `certigraph study tdp`.

COMMAND = "certigraph study tdp"

STUDY_GRAPHS = ("tdp", "plan_and_act", "cot", "react")

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
    plan = build_plan(
        CORRIDOR, parse_methods(STUDY_GRAPHS), _task_ids(DEFAULT_LONGEST if longest is None else longest), context
    )
    if longest is None and (folder / PLAN_FILE).is_file() and (stored := read_plan(folder)).benchmark == CORRIDOR:
        plan = stored
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
        typer.echo(json.dumps({"slopes": records_of(study.slopes), "totals": records_of(study.totals)}))
    else:
        _print_report(study, folder)
    return 1 if unfinished_cells(cells_of(order.plan, folder)) else 0


def _task_ids(longest: int) -> list[str]:
    lengths = range(LENGTH_STEP, longest + 1, LENGTH_STEP)
    if len(lengths) < MIN_POINTS or longest > MAX_ROOMS:
        raise UnknownName(
            f"--longest {longest}: {MIN_POINTS} lengths, {LENGTH_STEP} apart, "
            f"need {MIN_POINTS * LENGTH_STEP} to {MAX_ROOMS} steps"
        )
    return [f"{kind}-{length:02}" for kind in (DEEP, WIDE) for length in lengths]


def _print_report(study: PromptStudy, folder: Path) -> None:
    slopes, totals = study.slopes, study.totals
    shown = slopes[
        (slopes["operator"] == ANY_OPERATOR) | (slopes["about"] == TASK_GRAPH)
    ]  # the page has every operator
    ends = totals[totals["rooms"].isin([LENGTH_STEP, totals["rooms"].max()])]  # the shortest episodes and the longest
    console = table_console()
    for table in (terminal_table(SLOPE_TITLES, slope_cells(shown)), terminal_table(TOTAL_TITLES, total_cells(ends))):
        console.print(table, markup=False)
    print_report_path(folder / STUDY_PAGE)
