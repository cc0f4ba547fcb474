"""The study of TDP's prompt sizes."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from string import Template
from typing import Any, NamedTuple

import matplotlib as mpl
import typer
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter
from rich.console import Console
from rich.table import Table
from scipy import stats

from certigraph.adapters.files import whole_file
from certigraph.adapters.models.schemas import minimal
from certigraph.adapters.models.scripted import CHARS_PER_TOKEN, current_situation
from certigraph.adapters.protocols import Context, Limits, Operator, Responder
from certigraph.evaluation.compare import PIPED, Order, carry_out
from certigraph.evaluation.comparison import (
    FILE,
    Cell,
    Plan,
    cells_of,
    done_cells,
    left,
    methods_from,
    plan_of,
    read_plan,
)
from certigraph.evaluation.comparison_report import FIGURES, answering, write_csv
from certigraph.evaluation.plots import CHART_STYLE as INK
from certigraph.evaluation.plots import GREY, INKS, written
from certigraph.evaluation.statistics import CONFIDENCE
from certigraph.runtime.history import steps_of
from certigraph.runtime.html import PAGE as LAYOUT
from certigraph.runtime.html import STYLE, Markup, counted, html_table, joined, tag
from certigraph.state.records import Action, Observation, Scores, Task, UnknownName
from certigraph.state.run import FINISH, SEARCH, parsed
from certigraph.state.trajectory import Footer, Trajectory

# The scripted agent of the corridor: whatever it is asked, in the form of any graph's question.

DEEP, WIDE = "deep", "wide"
"""Kinds of task: one sub-task of all rooms, or one of every four."""

STRETCH = 4
"""Rooms of a wide task's sub-tasks."""

RANGE = re.compile(r"rooms (\d+) to (\d+)")


def respond(prompt: str, schema: Mapping[str, Any]) -> Any:
    """The answer that fits where the run stands.

    Raises:
        LookupError: asked outside a run.
    """
    situation, fields = current_situation(), schema.get("properties", {})
    if situation is None:
        raise LookupError("the corridor's agent answers inside a run: certigraph study tdp")
    task, turns = situation.state["task"], len(situation.state.get("turns", ()))
    first, last = map(int, RANGE.search(task.goal).groups())  # type: ignore[union-attr]
    left = range(first + turns, last + 1)
    if "nodes" in fields:
        return {"nodes": _nodes(task.id.partition("-")[0], last)}
    if "steps" in fields:
        return {"steps": [f"search[room {room:02}]" for room in left] or ["finish[the last word]"]}
    if "tool" in fields:
        return _move(left, last)
    if "status" in fields:
        return _judgement(left, last)
    return minimal(dict(schema))


def _nodes(kind: str, rooms: int) -> list[dict[str, Any]]:
    """Sub-tasks in a row, each of which needs the one before."""
    size = STRETCH if kind == WIDE else rooms
    firsts = range(1, rooms + 1, size)
    return [
        {
            "id": f"n{number:02}",
            "task": f"Read the words of rooms {first:02} to {min(first + size - 1, rooms):02}, in order.",
            "needs": [f"n{number - 1:02}"] if number else [],
        }
        for number, first in enumerate(firsts)
    ]


def _move(left: range, last: int) -> dict[str, str]:
    if left:
        return {"thought": "The next room.", "tool": SEARCH, "text": f"room {left[0]:02}"}
    return {"thought": "All rooms are read.", "tool": FINISH, "text": f"word-{last:02}"}


def _judgement(left: range, last: int) -> dict[str, Any]:
    status = "needs_more_steps" if left else "completed"
    result = f"The last word was word-{last:02}."
    return {"reason": "As planned.", "status": status, "off_plan": False, "guidance": "Go on.", "result": result}


# A corridor of rooms with a word in each, read one a step: episodes of any length, for measuring prompts.
#
# A task is `deep-40`, forty rooms as one sub-task, or `wide-40`, the same rooms in sub-tasks of four. Every room
# answers with as many characters as any other, so that whatever grows in a prompt grows by what the prompt holds.

NAME = "corridor"

MOST = 96
"""Rooms; numbers have two digits, so that none is longer than another."""

ROOM = "Room {room:02}: the word is word-{room:02}. Its walls are bare, its lamp is lit, and its door leads on."


class Corridor:
    """The benchmark. An answer is right that is the last room's word."""

    name = NAME
    briefing = "A corridor of rooms. search[room 07] tells the word in room 07; finish[...] hands in an answer."
    configurations: Sequence[str] = ("",)
    answers = True
    tools = (SEARCH, FINISH)

    def __init__(self, data: Path | None = None, config: str = "") -> None:
        self.limits = Limits(steps=2 * MOST, nodes=MOST, revisions=MOST)

    def tasks(self, split: str = "") -> Sequence[Task]:
        """The shortest task of each kind."""
        return [self.task(f"{kind}-{STRETCH:02}") for kind in (DEEP, WIDE)]

    def task(self, task_id: str) -> Task:
        """Raises UnknownName where the id is not of the form `deep-40` or `wide-40`."""
        kind, _, rooms = task_id.partition("-")
        if kind not in (DEEP, WIDE) or not rooms.isdecimal() or not 0 < int(rooms) <= MOST:
            raise UnknownName(f"no task {task_id!r}; write deep-40 or wide-40, up to {MOST} rooms")
        goal = f"Read the words of rooms 01 to {int(rooms):02}, in order, and hand in the last one."
        return Task(benchmark=self.name, id=task_id, goal=goal)

    def open(self, task: Task) -> "Rooms":
        """The corridor; the same for all tasks."""
        return Rooms(f"word-{task.id.partition('-')[2]:0>2}")

    def operators(self) -> Mapping[str, Operator]:
        """None of its own."""
        return {}

    def expert(self) -> Responder:
        """Reads every room once, in order."""
        return respond

    def figures(self, runs: Sequence[tuple[str, Footer]]) -> dict[str, float]:
        """How many there are."""
        return {"n": len(runs)}


class Rooms:
    """The live world: nothing in it changes but that an answer ends it."""

    concurrent = False

    def __init__(self, word: str) -> None:
        self._word, self._answer = word, ""

    def reset(self) -> Observation:
        """At the door."""
        self._answer = ""
        return Observation(text=self.view())

    def step(self, action: Action) -> Observation:
        """Read a room or hand an answer in; anything else is refused."""
        meant = parsed(action)
        if meant and meant.kind == FINISH:
            self._answer = str(meant.args["answer"])
            return Observation(text="Handed in.", done=True)
        room = str(meant.args.get("query", "")).removeprefix("room ") if meant else ""
        if not room.isdecimal() or not 0 < int(room) <= MOST:
            return Observation(text=f"{action.text!r} is no room: write search[room 07]", accepted=False)
        return Observation(text=ROOM.format(room=int(room)))

    def view(self) -> str:
        """The same from every room."""
        return "A corridor of numbered rooms."

    def admissible(self) -> None:
        """Any room may be named."""

    def score(self) -> Scores:
        """Whether the answer is the last room's word."""
        return Scores(value=float(self._answer == self._word), answer=self._answer)

    def close(self) -> None:
        """Nothing is held."""


# How large every prompt of a run was, and after how many world steps, as its trajectory tells.

WHOLE_TASK, SUBTASK, TASK_GRAPH = "whole task", "sub-task", "task graph"
"""What a prompt is about: everything, one sub-task, or TDP's graph of them."""


class Size(NamedTuple):
    """One prompt. `rooms` are the world steps that its task takes, `steps` those taken before it was asked.

    A scripted model counts four characters a token, rounded down to whole tokens.
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
    """Tokens of the answer."""


def sizes_in(plan: Plan, folder: Path) -> list[Size]:
    """The prompts of all finished runs, in the order in which they were asked."""
    return [size for cell, trajectory in done_cells(plan, folder) for size in sizes_of(cell, trajectory)]


def sizes_of(cell: Cell, trajectory: Trajectory) -> Iterator[Size]:
    """The prompts of one run."""
    kind, _, rooms = cell.task.partition("-")
    nested, steps = any(event.scope for event in trajectory.events), 0
    for event in trajectory.events:
        about = SUBTASK if event.scope else TASK_GRAPH if nested else WHOLE_TASK
        where = (kind, int(rooms), cell.method.name, about, event.node, event.subtask, steps)
        for call in event.calls:
            tokens = int(str(call.get("input_tokens", 0)))
            yield Size(*where, tokens, tokens * CHARS_PER_TOKEN, int(str(call.get("output_tokens", 0))))
        steps += steps_of(event)


# What whole episodes cost as they grow: calls, tokens read and tokens written, by method.


class Total(NamedTuple):
    """One episode of a task that takes `rooms` world steps."""

    kind: str
    rooms: int
    method: str
    calls: int
    read: int
    written: int


TOTAL_HEADS = ("task", "steps", "method", "calls", "prompt tokens", "output tokens")


def totals_of(sizes: Sequence[Size]) -> list[Total]:
    """The sums of every episode, by task and length, the methods in the order in which they were given."""
    methods = list(dict.fromkeys(size.method for size in sizes))
    ordered = sorted(sizes, key=lambda size: (size.kind, size.rooms, methods.index(size.method)))
    return list(_totals(ordered))


def total_cells(total: Total) -> tuple[str, ...]:
    """An episode as text, in the order of TOTAL_HEADS."""
    return total.kind, str(total.rooms), total.method, str(total.calls), f"{total.read:,}", f"{total.written:,}"


def _totals(ordered: Sequence[Size]) -> Iterator[Total]:
    for where, found in groupby(ordered, key=lambda size: (size.kind, size.rooms, size.method)):
        calls = list(found)
        yield Total(*where, len(calls), sum(call.tokens for call in calls), sum(call.written for call in calls))


# Whether prompts grow with the world steps that a task takes: the largest of each episode against its length.

ANY = "largest of all"
"""In place of an operator's name: whichever asked the most; those of TDP's task graph apart."""

NOTHING = 1e-6
"""Characters a step that are rounding."""

LITTLE = 1.0
"""Characters a step below which a slope that may be 0 is taken for none."""

LEAST = 3
"""Lengths below which a slope has no interval."""

Group = tuple[str, str, str, str]
"""Kind of task, method, what a prompt is about, operator."""


class Slope(NamedTuple):
    """The least-squares line through the largest prompts of `episodes` episodes of different lengths.

    `shortest` and `longest` are those prompts of the shortest and of the longest episode, in characters; `slope` is in
    characters a world step, `low` and `high` bound its 95 % interval by Student's t.
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


def slopes_of(sizes: Iterable[Size]) -> list[Slope]:
    """A slope for every method and operator of each kind of task, the method as a whole first."""
    largest: dict[Group, dict[int, int]] = {}
    for size in sizes:
        for group in _groups(size):
            known = largest.setdefault(group, {})
            known[size.rooms] = max(known.get(size.rooms, 0), size.characters)
    return [_slope(group, largest[group]) for group in sorted(largest, key=_place)]


def said(low: float | None, high: float | None) -> str:
    """What the bounds of a slope say of it."""
    if low is None or high is None:
        return f"too few lengths to tell: it takes {LEAST}"
    if low > NOTHING:
        return "growing"
    return "bounded" if high < LITTLE else "cannot be told"


def _groups(size: Size) -> Iterator[Group]:
    if size.about != TASK_GRAPH:
        yield size.kind, size.method, size.about, ANY
    yield size.kind, size.method, size.about, size.operator


def _place(group: Group) -> tuple[str, str, bool, str, bool]:
    kind, method, about, operator = group
    return kind, method, about == TASK_GRAPH, about, operator != ANY


def _slope(group: Group, largest: Mapping[int, int]) -> Slope:
    rooms = sorted(largest)
    found = [largest[length] for length in rooms]
    slope, low, high = fitted(rooms, found)
    return Slope(*group, len(rooms), found[0], found[-1], slope, low, high, said(low, high))


def fitted(at: Sequence[float], values: Sequence[float]) -> tuple[float | None, float | None, float | None]:
    """The slope of the least-squares line with the bounds of its interval; None below three points."""
    if len(at) < LEAST:
        return None, None, None
    if len(set(values)) == 1:  # no spread to have an error
        return 0.0, 0.0, 0.0
    line = stats.linregress(at, values)
    half = float(stats.t.ppf((1 + CONFIDENCE) / 2, len(at) - 2) * line.stderr)
    return float(line.slope), float(line.slope) - half, float(line.slope) + half


# Prompts over the world steps of the longest episode, a panel a kind of task, a line a method.

TITLES = {DEEP: "one sub-task of all steps", WIDE: f"sub-tasks of {STRETCH} steps"}


def growing_prompts(sizes: Sequence[Size]) -> Figure:
    """The largest prompt that a method asks after so many steps; that of TDP's task graph is dashed."""
    figure = Figure(figsize=(10, 3.6), layout="constrained")
    panels = figure.subplots(1, len(TITLES), sharey=True)
    for panel, (kind, title) in zip(panels, TITLES.items(), strict=True):
        mine = [size for size in sizes if size.kind == kind]
        _panel(panel, [size for size in mine if size.rooms == max(size.rooms for size in mine)])
        panel.set_title(title, fontsize=9, loc="left")
    panels[0].set_ylim(bottom=0)  # after all are drawn: the panels share it, and a limit ends its adapting
    panels[0].set_ylabel("characters of the largest prompt")
    if handles := panels[-1].get_legend_handles_labels()[0]:
        figure.legend(handles=handles, loc="outside upper left", ncols=len(handles), frameon=False)
    return figure


def _panel(panel: Any, sizes: Sequence[Size]) -> None:
    for number, method in enumerate(dict.fromkeys(size.method for size in sizes)):
        mine = [size for size in sizes if size.method == method]
        _line(panel, _largest(s for s in mine if s.about != TASK_GRAPH), color=INKS[number], label=method)
        graph = list(_largest(s for s in mine if s.about == TASK_GRAPH))
        if graph:
            _line(panel, graph, color=INKS[number], label=f"{method}, task graph", linestyle="--", marker=".")
    panel.set_xlabel("world steps taken", color=GREY)
    panel.yaxis.set_major_formatter(EngFormatter(sep=""))
    panel.spines[["top", "right"]].set_visible(False)


def _line(panel: Any, points: Iterable[tuple[int, int]], **look: Any) -> None:
    at, characters = zip(*points, strict=True)
    panel.plot(at, characters, linewidth=1.4, **look)


def _largest(sizes: Iterable[Size]) -> Iterator[tuple[int, int]]:
    found: dict[int, int] = {}
    for size in sizes:
        found[size.steps] = max(found.get(size.steps, 0), size.characters)
    yield from sorted(found.items())


# Everything that is written of the study of TDP's prompts: sizes and slopes as CSV, a figure, and a page.

PAGE = "study.html"
TITLE = "Prompts of TDP and of others as episodes grow"
HEADS = ("task", "method", "prompts about", "operator", "shortest", "longest", "slope", "95 % interval", "in words")

KEY = (
    "A line is the largest prompt of an episode against the world steps that its task takes, over episodes of "
    "different lengths: shortest and longest in characters, the slope in characters a step. Growing: the whole "
    f"interval of the slope is above 0; bounded: it holds 0 or less and stays below {LITTLE:g}. Deep tasks are one "
    f"sub-task of all steps, wide ones sub-tasks of {STRETCH}, each of which needs the one before; to the other "
    "methods both are the same task. No prompt holds more than `limits.context` characters of earlier rounds, which "
    "these episodes stay below."
)

TOTAL_KEY = (
    "What all calls of an episode read and wrote together. TDP pays for a decomposition, a plan and a revision a "
    "sub-task, and a judgement an action; Plan-and-Act for a plan of all that is left after every action."
)


class Study(NamedTuple):
    """What the study has come to so far."""

    sizes: list[Size]
    slopes: list[Slope]
    totals: list[Total]


def report(plan: Plan, folder: Path) -> Study:
    """Write the report as far as the study has come, and return what was found.

    Writes `study.html`, `prompts.csv` with a line a prompt, `slopes.csv`, `totals.csv` with a line an episode,
    `prompts.png` and `prompts.svg`.
    """
    sizes = sizes_in(plan, folder)
    study = Study(sizes, slopes_of(sizes), totals_of(sizes))
    for name, lines in (("prompts", study.sizes), ("slopes", study.slopes), ("totals", study.totals)):
        with whole_file(folder / f"{name}.csv") as draft:
            write_csv(draft, [line._asdict() for line in lines])
    with mpl.rc_context(INK):
        drawing = written(growing_prompts(sizes), folder / "prompts")
    with whole_file(folder / PAGE) as draft:
        draft.write_text(_page(plan, study, drawing), encoding="utf-8")
    return study


def slope_cells(slope: Slope) -> tuple[str, ...]:
    """A slope as text, in the order of HEADS."""
    told = "-" if slope.slope is None else f"{slope.slope:+.1f}"
    between = "-" if slope.low is None or slope.high is None else f"{slope.low:+.1f} to {slope.high:+.1f}"
    sizes = f"{slope.shortest:,}", f"{slope.longest:,}"
    return slope.kind, slope.method, slope.about, slope.operator, *sizes, told, between, slope.words


def _page(plan: Plan, study: Study, drawing: Markup) -> str:
    """Nothing is loaded, no script runs, everything from outside is escaped."""
    planned = len(plan.methods) * len(plan.tasks)
    done = len({(size.method, size.kind, size.rooms) for size in study.sizes})
    lacking = f"; {counted(planned - done, 'run')} not finished" if done < planned else ""
    told = f"{counted(done, 'scripted run')}{lacking}{answering([plan.model])}"
    lines = html_table(HEADS, map(slope_cells, study.slopes), looks="comparison worded")
    totals = html_table(TOTAL_HEADS, map(total_cells, study.totals), looks="comparison worded")
    body = joined(
        tag("header", tag("p", told, class_="overline"), tag("h1", TITLE)),
        tag("section", tag("h2", "Longest episodes"), tag("div", drawing, class_="drawing wide")),
        tag("section", tag("h2", "Slopes"), lines, tag("p", KEY, class_="key")),
        tag("section", tag("h2", "Tokens of whole episodes"), totals, tag("p", TOTAL_KEY, class_="key")),
    )
    return Template(LAYOUT).substitute(title=TITLE, style=STYLE + FIGURES, body=body)


# What `certigraph study tdp` does between its options and its table.

COMMAND = "certigraph study tdp"

GRAPHS = ("tdp", "plan_and_act", "cot", "react")

EVERY = 2 * STRETCH
"""World steps between one length and the next; episodes of a single sub-task need nothing of another."""

LONGEST = 40


def order_of(longest: int | None, folder: Path) -> Order:
    """The study of episodes of up to so many steps; by default the one that the folder was begun with, or of LONGEST.

    Raises:
        UnknownName: too few steps for three lengths, or more than the corridor has.
    """
    corridor = Corridor()
    context = Context(limits=corridor.limits)
    plan = plan_of(NAME, methods_from(GRAPHS), _tasks(LONGEST if longest is None else longest), context)
    if longest is None and (folder / FILE).is_file() and (there := read_plan(folder)).benchmark == NAME:
        plan = there
    return Order(plan, context, corridor, COMMAND)


def worked_off(given: Order, folder: Path, *, report_only: bool, as_json: bool) -> int:
    """Do what is left of the study unless only its report is wanted, and print it; exit status 1 while runs are left.

    Raises:
        Interrupted: by Ctrl-C; the message is the command that goes on.
        Fault: as `compare` does, or there is nothing to report.
    """
    if report_only:
        read_plan(folder)
    else:
        carry_out(given, folder, silent=as_json)
    study = report(given.plan, folder)
    if as_json:
        typer.echo(
            json.dumps({name: [line._asdict() for line in getattr(study, name)] for name in ("slopes", "totals")})
        )
    else:
        _print(study, folder)
    return 1 if left(cells_of(given.plan, folder)) else 0


def _tasks(longest: int) -> list[str]:
    lengths = range(EVERY, longest + 1, EVERY)
    if len(lengths) < LEAST or longest > MOST:
        raise UnknownName(f"--longest {longest}: {LEAST} lengths, {EVERY} apart, need {LEAST * EVERY} to {MOST} steps")
    return [f"{kind}-{length:02}" for kind in (DEEP, WIDE) for length in lengths]


def _print(study: Study, folder: Path) -> None:
    console = Console(highlight=False)
    console = console if console.is_terminal else Console(highlight=False, width=PIPED)
    table = Table(*HEADS, box=None)
    for slope in study.slopes:  # the page has a line for every operator
        if slope.operator == ANY or slope.about == TASK_GRAPH:
            table.add_row(*slope_cells(slope))
    console.print(table, markup=False)
    totals = Table(*TOTAL_HEADS, box=None)
    longest = max((total.rooms for total in study.totals), default=0)
    for total in study.totals:
        if total.rooms in (EVERY, longest):  # the shortest episodes and the longest
            totals.add_row(*total_cells(total))
    console.print(totals, markup=False)
    Console(highlight=False, soft_wrap=True).print(f"report: {folder / PAGE}", style="dim", markup=False)
