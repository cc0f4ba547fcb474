"""Study of the prompt sizes of TDP and other methods (`certigraph study tdp`): how prompts grow as episodes get longer.

A scripted agent walks along a generated corridor of rooms with several graphs, so that episodes can have any length.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib as mpl
import typer
from markupsafe import Markup
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter
from rich.console import Console
from rich.table import Table

from certigraph.adapters.files import replace_file
from certigraph.adapters.models.schemas import minimal_instance
from certigraph.adapters.models.scripts import CHARS_PER_TOKEN, current_situation
from certigraph.adapters.protocols import Benchmark, Context, Environment, Limits, Operator, Responder
from certigraph.evaluation.compare import PIPED_WIDTH, ComparisonJob, run_comparison
from certigraph.evaluation.comparison import (
    PLAN_FILE,
    ComparisonCell,
    ComparisonPlan,
    build_plan,
    cells_of,
    finished_cells,
    parse_methods,
    read_plan,
    unfinished_cells,
)
from certigraph.evaluation.comparison_report import format_model_note, write_csv
from certigraph.evaluation.plots import CHART_STYLE as INK
from certigraph.evaluation.plots import GREY, SERIES_COLOURS, save_drawing
from certigraph.evaluation.statistics import MIN_POINTS, fit_slope
from certigraph.runtime.pages import render_page
from certigraph.runtime.progress import count_steps
from certigraph.runtime.texts import format_count
from certigraph.state.records import Action, Observation, Scores, Task, UnknownName
from certigraph.state.run import FINISH, SEARCH, parse_action
from certigraph.state.trajectory import Footer, Trajectory

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


class PromptSize(NamedTuple):
    """Size of one prompt of a run.

    `rooms` is the number of world steps that the task needs, and `steps` the number of world steps before the prompt.
    `about` is the scope of the prompt: the whole task, a sub-task or TDP's task graph. A scripted model counts one
    token per four characters, rounded down.
    """

    kind: str
    rooms: int
    method: str
    about: str
    operator: str
    subtask: str
    steps: int
    tokens: int
    characters: int
    written: int
    """Tokens of the reply."""


def read_sizes(plan: ComparisonPlan, folder: Path) -> list[PromptSize]:
    """Read the sizes of all prompts of all finished runs, in the order in which they were sent."""
    return [size for cell, trajectory in finished_cells(plan, folder) for size in sizes_of(cell, trajectory)]


def sizes_of(cell: ComparisonCell, trajectory: Trajectory) -> Iterator[PromptSize]:
    """Yield the size of every prompt of one run."""
    kind, _, rooms = cell.task.partition("-")
    nested, steps = any(event.scope for event in trajectory.events), 0
    for event in trajectory.events:
        about = SUBTASK if event.scope else TASK_GRAPH if nested else WHOLE_TASK
        where = (kind, int(rooms), cell.method.name, about, event.node, event.subtask, steps)
        for call in event.calls:
            tokens = int(str(call.get("input_tokens", 0)))
            yield PromptSize(*where, tokens, tokens * CHARS_PER_TOKEN, int(str(call.get("output_tokens", 0))))
        steps += count_steps(event)


# The cost of complete episodes by method: calls, prompt tokens and output tokens.


class EpisodeTotal(NamedTuple):
    """Cost of one episode of a task that needs `rooms` world steps.

    `read` is the number of prompt tokens, `written` the number of output tokens.
    """

    kind: str
    rooms: int
    method: str
    calls: int
    read: int
    written: int


TOTAL_COLUMNS = ("task", "steps", "method", "calls", "prompt tokens", "output tokens")


def totals_of(sizes: Sequence[PromptSize]) -> list[EpisodeTotal]:
    """Sum the calls and tokens of every episode, ordered by kind of task, length, and method."""
    methods = list(dict.fromkeys(size.method for size in sizes))
    ordered = sorted(sizes, key=lambda size: (size.kind, size.rooms, methods.index(size.method)))
    return list(_group_totals(ordered))


def total_cells(total: EpisodeTotal) -> tuple[str, ...]:
    """Format the cost of an episode as table cells, in the order of TOTAL_COLUMNS."""
    return total.kind, str(total.rooms), total.method, str(total.calls), f"{total.read:,}", f"{total.written:,}"


def _group_totals(ordered: Sequence[PromptSize]) -> Iterator[EpisodeTotal]:
    for where, prompts in groupby(ordered, key=lambda size: (size.kind, size.rooms, size.method)):
        calls = list(prompts)
        yield EpisodeTotal(*where, len(calls), sum(call.tokens for call in calls), sum(call.written for call in calls))


# Slopes: whether the largest prompt of an episode grows with the number of world steps.

ANY_OPERATOR = "largest of all"
"""Text in place of an operator's name for the largest prompt of all operators; prompts about TDP's task graph are left
out."""

ROUNDING_SLOPE = 1e-6
"""Slope, in characters per step, up to which growth is taken for a rounding error."""

MAX_BOUNDED_SLOPE = 1.0
"""Characters per step below which the whole interval of a slope must lie so that prompts count as bounded."""

SlopeGroup = tuple[str, str, str, str]
"""Prompts for which a slope is computed: kind of task, method, scope of the prompt, operator."""


class Slope(NamedTuple):
    """Growth of prompts: slope of the least-squares line through the largest prompts of `episodes` episodes.

    The episodes have different lengths. `shortest` and `longest` are the largest prompts, in characters, of the
    shortest and of the longest episode. `slope` is in characters per world step, and `low` and `high` bound its 95 % t
    interval.
    """

    kind: str
    method: str
    about: str
    operator: str
    episodes: int
    shortest: int
    longest: int
    slope: float | None
    low: float | None
    high: float | None
    words: str


def slopes_of(sizes: Iterable[PromptSize]) -> list[Slope]:
    """Compute how prompts grow, for every method and operator on each kind of task.

    For each method the slope over all operators comes first.
    """
    largest: dict[SlopeGroup, dict[int, int]] = {}
    for size in sizes:
        for group in _groups(size):
            by_rooms = largest.setdefault(group, {})
            by_rooms[size.rooms] = max(by_rooms.get(size.rooms, 0), size.characters)
    return [_slope_of_group(group, largest[group]) for group in sorted(largest, key=_group_order)]


def describe_slope(low: float | None, high: float | None) -> str:
    """Describe a slope in words, given the bounds of its interval: growing, bounded, or undecided."""
    if low is None or high is None:
        return f"too few lengths to tell: it takes {MIN_POINTS}"
    if low > ROUNDING_SLOPE:
        return "growing"
    return "bounded" if high < MAX_BOUNDED_SLOPE else "cannot be told"


def _groups(size: PromptSize) -> Iterator[SlopeGroup]:
    if size.about != TASK_GRAPH:
        yield size.kind, size.method, size.about, ANY_OPERATOR
    yield size.kind, size.method, size.about, size.operator


def _group_order(group: SlopeGroup) -> tuple[str, str, bool, str, bool]:
    kind, method, about, operator = group
    return kind, method, about == TASK_GRAPH, about, operator != ANY_OPERATOR


def _slope_of_group(group: SlopeGroup, largest: Mapping[int, int]) -> Slope:
    rooms = sorted(largest)
    characters = [largest[length] for length in rooms]
    slope, low, high = fit_slope(rooms, characters)
    return Slope(*group, len(rooms), characters[0], characters[-1], slope, low, high, describe_slope(low, high))


# The figure: prompts over the world steps of the longest episode, a panel per kind of task, a line per method.

PANEL_TITLES = {DEEP: "one sub-task of all steps", WIDE: f"sub-tasks of {SUBTASK_ROOMS} steps"}


def draw_prompt_growth(sizes: Sequence[PromptSize]) -> Figure:
    """Draw the largest prompt of each method by world step; the line for prompts about TDP's task graph is dashed."""
    figure = Figure(figsize=(10, 3.6), layout="constrained")
    panels = figure.subplots(1, len(PANEL_TITLES), sharey=True)
    for panel, (kind, title) in zip(panels, PANEL_TITLES.items(), strict=True):
        of_kind = [size for size in sizes if size.kind == kind]
        _draw_panel(panel, [size for size in of_kind if size.rooms == max(size.rooms for size in of_kind)])
        panel.set_title(title, fontsize=9, loc="left")
    panels[0].set_ylim(bottom=0)  # after drawing: the panels share the axis, and a limit stops its autoscaling
    panels[0].set_ylabel("characters of the largest prompt")
    if handles := panels[-1].get_legend_handles_labels()[0]:
        figure.legend(handles=handles, loc="outside upper left", ncols=len(handles), frameon=False)
    return figure


def _draw_panel(panel: Any, sizes: Sequence[PromptSize]) -> None:
    for number, method in enumerate(dict.fromkeys(size.method for size in sizes)):
        of_method = [size for size in sizes if size.method == method]
        _draw_line(
            panel,
            _largest_prompts(s for s in of_method if s.about != TASK_GRAPH),
            color=SERIES_COLOURS[number],
            label=method,
        )
        graph = list(_largest_prompts(s for s in of_method if s.about == TASK_GRAPH))
        if graph:
            _draw_line(
                panel, graph, color=SERIES_COLOURS[number], label=f"{method}, task graph", linestyle="--", marker="."
            )
    panel.set_xlabel("world steps taken", color=GREY)
    panel.yaxis.set_major_formatter(EngFormatter(sep=""))
    panel.spines[["top", "right"]].set_visible(False)


def _draw_line(panel: Any, points: Iterable[tuple[int, int]], **style: Any) -> None:
    steps, characters = zip(*points, strict=True)
    panel.plot(steps, characters, linewidth=1.4, **style)


def _largest_prompts(sizes: Iterable[PromptSize]) -> Iterator[tuple[int, int]]:
    by_step: dict[int, int] = {}
    for size in sizes:
        by_step[size.steps] = max(by_step.get(size.steps, 0), size.characters)
    yield from sorted(by_step.items())


# The files of the study: sizes, slopes and totals as CSV, the figure, and the page.

STUDY_PAGE = "study.html"
PAGE_TITLE = "Prompts of TDP and of others as episodes grow"
SLOPE_COLUMNS = (
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

SLOPE_NOTE = (
    "A line is the largest prompt of an episode against the world steps that its task takes, over episodes of "
    "different lengths: shortest and longest in characters, the slope in characters a step. Growing: the whole "
    f"interval of the slope is above 0; bounded: it holds 0 or less and stays below {MAX_BOUNDED_SLOPE:g}. Deep tasks "
    f"are one sub-task of all steps, wide ones sub-tasks of {SUBTASK_ROOMS}, each of which needs the one before; "
    "to the other methods both are the same task. No prompt holds more than `limits.context` characters of earlier "
    "rounds, which these episodes stay below."
)

TOTAL_NOTE = (
    "What all calls of an episode read and wrote together. TDP pays for a decomposition, a plan and a revision a "
    "sub-task, and a judgement an action; Plan-and-Act for a plan of all that is left after every action."
)


class PromptStudy(NamedTuple):
    """Results of the study of prompt sizes so far."""

    sizes: list[PromptSize]
    slopes: list[Slope]
    totals: list[EpisodeTotal]


def write_report(plan: ComparisonPlan, folder: Path) -> PromptStudy:
    """Write the report of the study so far, and return the results.

    Writes `study.html`, `prompts.csv` with a row per prompt, `slopes.csv`, `totals.csv` with a row per episode,
    `prompts.png` and `prompts.svg`.
    """
    sizes = read_sizes(plan, folder)
    study = PromptStudy(sizes, slopes_of(sizes), totals_of(sizes))
    for name, lines in (("prompts", study.sizes), ("slopes", study.slopes), ("totals", study.totals)):
        with replace_file(folder / f"{name}.csv") as draft:
            write_csv(draft, [line._asdict() for line in lines])
    with mpl.rc_context(INK):
        drawing = save_drawing(draw_prompt_growth(sizes), folder / "prompts")
    with replace_file(folder / STUDY_PAGE) as draft:
        draft.write_text(_format_page(plan, study, drawing), encoding="utf-8")
    return study


def slope_cells(slope: Slope) -> tuple[str, ...]:
    """Format a slope as table cells, in the order of SLOPE_COLUMNS."""
    text = "-" if slope.slope is None else f"{slope.slope:+.1f}"
    between = "-" if slope.low is None or slope.high is None else f"{slope.low:+.1f} to {slope.high:+.1f}"
    sizes = f"{slope.shortest:,}", f"{slope.longest:,}"
    return slope.kind, slope.method, slope.about, slope.operator, *sizes, text, between, slope.words


def _format_page(plan: ComparisonPlan, study: PromptStudy, drawing: Markup) -> str:
    """Format the HTML page of the study. It loads no other files and has no scripts; text from runs is escaped."""
    planned = len(plan.methods) * len(plan.tasks)
    done = len({(size.method, size.kind, size.rooms) for size in study.sizes})
    missing = f"; {format_count(planned - done, 'run')} not finished" if done < planned else ""
    return render_page(
        "study_tdp.html",
        "certigraph.evaluation",
        title=PAGE_TITLE,
        scope=f"{format_count(done, 'scripted run')}{missing}{format_model_note([plan.model])}",
        drawing=drawing,
        slopes=(SLOPE_COLUMNS, map(slope_cells, study.slopes)),
        slope_note=SLOPE_NOTE,
        totals=(TOTAL_COLUMNS, map(total_cells, study.totals)),
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
        typer.echo(
            json.dumps({name: [line._asdict() for line in getattr(study, name)] for name in ("slopes", "totals")})
        )
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
    console = Console(highlight=False)
    console = console if console.is_terminal else Console(highlight=False, width=PIPED_WIDTH)
    table = Table(*SLOPE_COLUMNS, box=None)
    for slope in study.slopes:  # the page has a row for every operator
        if slope.operator == ANY_OPERATOR or slope.about == TASK_GRAPH:
            table.add_row(*slope_cells(slope))
    console.print(table, markup=False)
    totals = Table(*TOTAL_COLUMNS, box=None)
    longest = max((total.rooms for total in study.totals), default=0)
    for total in study.totals:
        if total.rooms in (LENGTH_STEP, longest):  # the shortest episodes and the longest
            totals.add_row(*total_cells(total))
    console.print(totals, markup=False)
    Console(highlight=False, soft_wrap=True).print(f"report: {folder / STUDY_PAGE}", style="dim", markup=False)
