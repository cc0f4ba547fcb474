"""HTML report of a run: one self-contained page that loads nothing and runs no script.

The page is the template `run.html`, which shows a `RunHistory`. Here is what a template cannot compute: the layout of
charts and drawings, the badge of the ending, facts from the header, and the prompts that a run kept.
"""

import json
import os
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any, Literal, NamedTuple
from urllib.parse import quote

from pydantic import JsonValue

from certigraph.adapters.json_lines import read_bounded_lines
from certigraph.adapters.models.chat_models import describe_models
from certigraph.adapters.models.exchanges import KeptExchange
from certigraph.adapters.models.scripts import ERROR_LABELS, IMPOSSIBLE_PREFIX
from certigraph.adapters.trajectories import MAX_TRAJECTORY_LINE, read_trajectory
from certigraph.nodes.specs import Spec
from certigraph.runtime.approvals import answer_lines, format_question, outcome_decisions
from certigraph.runtime.effect_history import RefusedCall, read_effects
from certigraph.runtime.files import (
    PROMPTS_FILE,
    REPORT_FILE,
    check_no_links,
    find_manifest,
    translate_trajectory_errors,
)
from certigraph.runtime.history import (
    EpisodeSummary,
    NodeProgress,
    PlanReplan,
    RatedStep,
    RunHistory,
    TaskGraph,
    read_history,
)
from certigraph.runtime.outside_runs import OWN_MODEL
from certigraph.runtime.pages import render_page
from certigraph.runtime.result import Result, error_rates_of, has_simulated_validator, is_unscored
from certigraph.runtime.texts import (
    CERTIFIED_LABEL,
    EMPTY_REASONS,
    PASSED_LABEL,
    format_count,
    format_cut_prompts,
    format_empty_share,
    shorten_text,
    split_answer,
)
from certigraph.state.call_checks import CallOutcome
from certigraph.state.effects import Effect
from certigraph.state.endings import EXHAUSTED, FINISHED, GAVE_UP, GOAL, WORLD_ENDED, Fault
from certigraph.state.rewards import TRUE_REWARDS
from certigraph.state.tools import calls_of, format_call
from certigraph.state.trajectory import Event, Header, Trajectory, total_usage

# Line charts over steps. The template `line_chart` draws them.

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 400, 170, 40, 8, 12, 30
"""Size of a chart and its margins, in SVG units."""

MAX_SCORE = 100.0
"""The highest score."""

COLOUR_COUNT = 6
"""Number of colours of lines. The seventh line has the colour of the first."""

NO_STEP = "No step was taken in the world."


class Curve(NamedTuple):
    """A line of a chart: its steps and values, CSS classes and tooltip."""

    points: Sequence[tuple[float, float]]
    look: str
    title: str = ""


class StepChart(NamedTuple):
    """A chart of values over steps; without curves, its label is shown in its place."""

    title: str
    label: str
    """Description for readers who do not see the drawing."""
    curves: Sequence[Curve] = ()
    low: float = 0
    high: float = 1
    steps: int = 0
    stairs: bool = True
    """Whether a value stays as it is from one point to the next."""
    across: str = ""
    """Label of the axis of steps."""
    marks: Sequence[tuple[float, str]] = ()
    """Marks at the axis: step and CSS class."""
    key: Sequence[tuple[str, str]] = ()
    """Legend below the drawing: CSS classes of the sign, and text."""
    width: int = WIDTH
    height: int = HEIGHT
    left: int = LEFT
    right: int = WIDTH - RIGHT

    def x(self, step: float) -> float:
        """Convert a step to SVG units."""
        return LEFT + (WIDTH - LEFT - RIGHT) * step / max(self.steps, 1)

    def y(self, value: float) -> float:
        """Convert a value to SVG units."""
        return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * (value - self.low) / ((self.high - self.low) or 1)

    def path(self, curve: Curve) -> str:
        """Return the SVG path of a curve."""
        (step, value), *others = [(f"{self.x(step):.1f}", f"{self.y(value):.1f}") for step, value in curve.points]
        turns = (f"H{step} V{value}" if self.stairs else f"L{step} {value}" for step, value in others)
        return " ".join([f"M{step} {value}", *turns])


def progress_chart(run: RunHistory) -> StepChart:
    """Draw the number of certified predicates by world step, with attempts, replans and forced passes at the axis.

    Rises are certificates, falls are returns to earlier states.
    """
    plan, statuses, title = run.plan, Counter(row.status for row in run.rows), "Progress"
    if not plan.logged:
        return StepChart(title, NO_STEP)
    marks = {
        "miss": {attempt.step for attempt in plan.attempts if attempt.counted and not attempt.discharged},
        "turn": {moment.step for moment in plan.moments if isinstance(moment, PlanReplan) and not moment.extends},
        "pass": {attempt.step for attempt in plan.attempts if attempt.forced},
    }
    replan = f"replan ({plan.gave_up:,} gave up)" if plan.gave_up else "replan"
    names = {"miss": "attempt without a certificate", "turn": replan, "pass": PASSED_LABEL}
    total = statuses.total() - statuses["undone"] - statuses["restored"]
    points = [(0, 0), *plan.curve, (plan.logged, plan.curve[-1][1] if plan.curve else 0)]
    return StepChart(
        title,
        f"{statuses['certified']} predicates {run.certified} in {plan.logged} world steps",
        [Curve(points, "progress")],
        high=max(total, *(count for _, count in points)),
        steps=plan.logged,
        across=f"{plan.logged} world steps",
        marks=[(step, look) for look, found in marks.items() for step in sorted(found)],
        key=[(f"{look}-key", names[look]) for look, found in marks.items() if found],
    )


def score_chart(episodes: Sequence[EpisodeSummary]) -> StepChart:
    """Draw the score after every world step, with a line for each episode."""
    scores = [score for episode in episodes for score in episode.scores]
    if not scores:
        return StepChart("Score by step", NO_STEP)
    looks = [f"ink{(episode.number - 1) % COLOUR_COUNT}" for episode in episodes]
    titles = [f"episode {e.number} ended at {e.reported:g} after {len(e.scores)}" for e in episodes]
    steps = max(len(episode.scores) for episode in episodes)
    return StepChart(
        "Score by step",
        f"score by world step: {'; '.join(titles)}",
        [
            Curve([*enumerate([episode.start, *episode.scores])], f"score {look}", text)
            for episode, look, text in zip(episodes, looks, titles, strict=True)
        ],
        low=min(0.0, *scores),
        high=MAX_SCORE,
        steps=steps,
        across=format_count(steps, "world step"),
        key=[(f"dot {look}", f"episode {e.number}") for look, e in zip(looks, episodes, strict=True) if len(looks) > 1],
    )


def reward_chart(recordings: Sequence[Sequence[RatedStep]], true: Sequence[Sequence[float]] = ()) -> StepChart:
    """Draw the predicted rewards of all recordings; `true` are the true ones of each, which are drawn dashed."""
    if not recordings:
        return StepChart("Predicted reward by step", "No step was rated.")
    looks = [f"ink{number % COLOUR_COUNT}" for number in range(len(recordings))]
    longest = max(map(len, recordings))
    predicted = [[one.reward for one in rated] for rated in recordings]
    curves = [Curve([*enumerate(line)], f"score {look}") for line, look in zip(predicted, looks, strict=True)]
    curves += [Curve([*enumerate(line)], f"score {look} true") for line, look in zip(true, looks, strict=False) if line]
    dashed = [("", "dashed: true rewards")] * bool(true)
    return StepChart(
        "Predicted reward by step",
        f"predicted reward by step of {format_count(len(recordings), 'recording')}",
        curves,
        steps=longest - 1,
        stairs=False,
        across=format_count(longest, "step"),
        key=[*((f"dot {look}", f"recording {number}") for number, look in enumerate(looks, 1)), *dashed],
    )


# The drawing of a task graph: one row of boxes for each level; a wide level takes several rows.

TASKS_WIDTH, MARGIN = 1_080, 36
"""Width of the drawing, and the margin at both sides for edges that go around a row."""

MAX_ROOMY_NODES = 40
"""Maximum number of sub-tasks for boxes that show the specification. In larger task graphs they show the id alone."""

MAX_BOX_WIDTH = 330


class NodeBox(NamedTuple):
    """Rectangle of a sub-task in the drawing, and the number of its row."""

    worked: NodeProgress
    x: float
    y: float
    width: float
    height: float
    row: int

    @property
    def middle(self) -> float:
        """The x coordinate of the middle of the box."""
        return self.x + self.width / 2


class TaskDrawing(NamedTuple):
    """Boxes of all sub-tasks, by id, and edges: the SVG path of each, and the status that gives it its colour.

    `roomy` is True if the boxes show the specification and not the id alone.
    """

    boxes: Mapping[str, NodeBox]
    edges: Sequence[tuple[str, str]]
    height: float
    roomy: bool


def draw_tasks(tasks: TaskGraph) -> TaskDrawing:
    """Place every sub-task below the sub-tasks that it needs, and near their middle."""
    roomy, boxes, row, levels = len(tasks.nodes) <= MAX_ROOMY_NODES, dict[str, NodeBox](), 0, tasks.levels()
    most, height, across, down = (4, 68, 22, 38) if roomy else (9, 26, 14, 24)
    widest = min(max(map(len, levels), default=1), most)
    width = min((TASKS_WIDTH - 2 * MARGIN - across * (widest - 1)) / widest, MAX_BOX_WIDTH)

    def middle_above(worked: NodeProgress) -> float:
        above = [boxes[need].middle for need in worked.node.needs if need in boxes]
        return sum(above) / len(above) if above else TASKS_WIDTH / 2

    for level in levels:
        level.sort(key=middle_above)
        for start in range(0, len(level), most):
            placed = level[start : start + most]
            left = (TASKS_WIDTH - len(placed) * (width + across) + across) / 2
            for number, worked in enumerate(placed):
                x, y = left + number * (width + across), 4.0 + row * (height + down)
                boxes[worked.node.id] = NodeBox(worked, x, y, width, height, row)
            row += 1
    edges = [
        (_edge_path(boxes[need], box), "removed" if box.worked.removed else boxes[need].worked.status)
        for box in boxes.values()
        for need in box.worked.node.needs
        if need in boxes
    ]
    return TaskDrawing(boxes, edges, row * (height + down) - down + 8, roomy)


def _edge_path(above: NodeBox, below: NodeBox) -> str:
    # A curve with an arrow head; one that passes other rows bends around the boxes in between.
    x, y, to_x, to_y = above.middle, above.y + above.height, below.middle, below.y - 1
    if below.row == above.row + 1:
        half = (y + to_y) / 2
        return f"M{x:.0f} {y:.0f}C{x:.0f} {half:.0f} {to_x:.0f} {half:.0f} {to_x:.0f} {to_y:.0f}m-4 -6l4 6l4 -6"
    x, y, to_x, to_y = above.x + above.width, above.y + above.height / 2, below.x + below.width + 1, below.y + 14
    out = min(max(x, to_x) + 26 + 5 * (below.row - above.row), TASKS_WIDTH - 3)
    return f"M{x:.0f} {y:.0f}C{out:.0f} {y:.0f} {out:.0f} {to_y:.0f} {to_x:.0f} {to_y:.0f}m6 -4l-6 4l6 4"


def merge_spans(spans: Iterable[tuple[float, float]], gap: float) -> Sequence[tuple[float, float]]:
    """Merge spans of time that are at most `gap` seconds apart, so that the timeline of a long run stays small."""
    merged: list[tuple[float, float]] = []
    for start, stop in sorted(spans):
        if merged and start <= merged[-1][1] + gap:
            merged[-1] = (merged[-1][0], max(stop, merged[-1][1]))
        else:
            merged.append((start, stop))
    return merged


# How the run ended, its answer, and facts about it.

ReportKind = Literal["plan", "episodes", "rewards", "tasks"]
"""What the main part of a report shows."""

ENDINGS = {WORLD_ENDED: "the world ended first", GAVE_UP: "gave up", EXHAUSTED: "exhausted"}
"""Badges of runs that ended without reaching the goal."""

ANSWER_ENDINGS = {
    WORLD_ENDED: "answered",
    FINISHED: "answered, not certified",
    GAVE_UP: "answered after giving up",
    EXHAUSTED: "answered where the gate stopped it",
}
"""Badges of agents without predicates that gave an answer. Only the score decides whether it is correct."""

AGENT_ENDINGS = {"question": ("idle", "asks the user"), "refused": ("bad", "a call was refused")}
"""CSS class and badge of agents' runs that ended because a person is needed."""

GOAL_BADGES = {
    "rewards": ("idle", "rated"),
    "tasks": ("idle", "task graph completed"),
    "episodes": ("good", "goal reached"),
}
"""CSS class and text of the ending `goal`, by kind of the report; for a plan it depends on the validator."""


def ending_badge(run: RunHistory, kind: ReportKind) -> tuple[str, str]:
    """Return CSS class and text for a run's ending; it is green if the score says that the task is solved."""
    footer, rows = run.footer, run.rows
    if footer is None:
        return "idle", "waits for an answer" if run.questions else "interrupted"
    stopped = f"stopped: {run.ending}"
    if run.ending == GOAL:
        audited = run.header is not None and "audit" in run.header.all_operators
        look, text = "good", f"goal {CERTIFIED_LABEL if audited else run.certified}"
        if not (
            kind == "episodes" and run.plan.certificates
        ):  # with them the goal of an agent without a plan is judged
            look, text = GOAL_BADGES.get(kind, (look, text))
        return ("bad", f"{text}, denied by the scorer") if run.denied else ("good" if run.solved else look, text)
    if run.ending in AGENT_ENDINGS:
        return AGENT_ENDINGS[run.ending]
    if kind != "plan" and footer.scores is not None and footer.scores.answer:
        look, text, solved = "idle", ANSWER_ENDINGS.get(run.ending, stopped), ""
    elif kind == "plan" and run.ending == GAVE_UP and rows and rows[-1].status == "forced":
        look, text, solved = "forced", f"goal {PASSED_LABEL}", f"solved; goal {PASSED_LABEL}"
    elif run.ending in ENDINGS:
        look, text, solved = "bad", ENDINGS[run.ending], "solved, not certified" if kind == "plan" else "solved"
    else:
        look, text, solved = "idle", stopped, ""
    return ("good", solved or text) if run.solved else (look, text)


class Answer(NamedTuple):
    """Answer of a run: a table with a list of entries in each cell, or a text."""

    text: str = ""
    columns: Sequence[str] = ()
    rows: Sequence[Sequence[Sequence[str]]] = ()


def lay_out_answer(answer: JsonValue) -> Answer:
    """Lay out an answer: a list of dicts (an itinerary) as a table, text as text, anything else as JSON."""
    if isinstance(answer, list) and answer and all(isinstance(row, dict) for row in answer):
        rows = [row for row in answer if isinstance(row, dict)]
        columns = list(dict.fromkeys(key for row in rows for key in row))
        return Answer("", columns, [[_cell_entries(row.get(column)) for column in columns] for row in rows])
    if isinstance(answer, str):
        return Answer("\n".join(split_answer(answer)))
    return Answer(json.dumps(answer, indent=2, ensure_ascii=False))


def _cell_entries(value: JsonValue) -> list[str]:
    if value in (None, "", "-"):
        return []
    if isinstance(value, str):
        return [entry for part in value.split(";") if (entry := part.strip())]
    return [json.dumps(value, ensure_ascii=False)]


PART_OF = "part of"
"""Name of the fact that names the comparison, ablation or sweep of a run."""


def facts_of(run: RunHistory, trajectory: Trajectory) -> dict[str, str]:
    """Return facts about a run by name: its models, operators, when it started and was resumed."""
    header, roles = trajectory.header, trajectory.header.context.get("roles")
    model = describe_models(str(header.context.get("model", "not recorded")), roles if isinstance(roles, dict) else {})
    if header.context.get("model") == OWN_MODEL:
        model = ", ".join(_models_called(trajectory)) or OWN_MODEL
    operators = [_describe_operator(slot, spec) for slot, spec in header.all_operators.items()]
    times = "once" if trajectory.resumes == 1 else f"{trajectory.resumes} times, the last time"
    facts = {
        PART_OF: str(header.context.get("group") or ""),
        "model": model.removeprefix("model "),
        "method": header.method,
        "started": header.created.replace("T", " "),
        "run": header.run_id,
        "operators": ", ".join(operators),
        "reranker": str(header.versions.get("reranker") or ""),
        "resumed": f"{times} after step {run.resumed_at}" if trajectory.resumes else "",
    }
    if rates := error_rates_of(header):
        name, _, value = rates.partition(": ")
        if has_simulated_validator(header):
            value += "; any single verdict may be such an error, whatever its reason says"
        if ERROR_LABELS["propose"] in value:
            value += f"; a wrong condition, which cannot be reached, reads “{IMPOSSIBLE_PREFIX}”"
        facts[name] = value
    return {name: value for name, value in facts.items() if value}


def _models_called(trajectory: Trajectory) -> list[str]:
    """Return the names of the models that a run has called, as far as they say it."""
    called = (str(call.get("model")) for event in trajectory.events for call in event.calls)
    return [name for name in dict.fromkeys(called) if name != "unknown"]


def _describe_operator(slot: str, spec: Any) -> str:
    name = str(Spec.model_validate(spec)) if spec.get("args") else spec["name"]
    return slot if name == slot else f"{slot} = {name}"


OUTCOME_LABELS = {"repeat": "made again, as a person decided", "happened": "it happened, as a person answered"}
"""What a person decided about a call that was cut off; `stop` ends the run before the call has an answer."""


def settled_calls(run: RunHistory) -> dict[str, str]:
    """Return what a person decided about calls that were cut off, by the text of the call.

    Where only some of several equal calls were cut off, none is returned: an answer does not say which one it settles.
    """
    decided: defaultdict[str, list[str]] = defaultdict(list)
    for call, outcome in outcome_decisions(run.answered):
        decided[str(call)].append(OUTCOME_LABELS.get(outcome, ""))
    made = Counter(str(call) for attempt in run.plan.attempts for call in calls_of(attempt.attempt.action))
    whole = {call: labels for call, labels in decided.items() if len(labels) == made[call]}
    return {call: "; ".join(filter(None, dict.fromkeys(labels))) for call, labels in whole.items()}


# Effects: calls of tools that were made and whose effect lasts, and calls that a check denied.

CHECK_LABELS: Mapping[CallOutcome, str] = {
    "allowed": "allowed",
    "forbidden": "forbidden",
    "read_first": "something has to be read first",
    "ask_first": "the user has to agree first",
    "unchecked": "it could not be checked",
}
"""What a check found about a call."""

CHECKERS = {"code": "by code", "model": "by a model", "person": "by a person"}
"""Who decided about a call before it was made."""


class EffectsView(NamedTuple):
    """The box of effects: calls that were made and whose effect lasts, and calls that a check denied."""

    effects: Sequence[Effect]
    refused: Sequence[RefusedCall]

    @property
    def covered(self) -> int:
        """Number of effects that a certificate covers."""
        return sum(effect.certificate is not None for effect in self.effects)

    @property
    def summary(self) -> str:
        """How many calls there are, how many are covered, and how many were denied."""
        counts = {
            "covered by a certificate": self.covered,
            "not covered": len(self.effects) - self.covered,
            "refused before being made": len(self.refused),
        }
        parts = [f"{count:,} {what}" for what, count in counts.items() if count]
        return ", ".join([format_count(len(self.effects), "lasting call"), *parts])


def describe_check(effect: Effect) -> str:
    """Say what was found about a call before it was made, and who decided: a check, a person, both or nobody."""
    found = [f"{CHECK_LABELS[effect.check.outcome]} {CHECKERS[effect.check.decided_by]}"] if effect.check else []
    person = [f"{effect.person} by a person"] if effect.person else []
    return ", ".join([*found, *person]) or "not checked"


def view_effects(trajectory: Trajectory) -> EffectsView | None:
    """Return the box of effects; None for a run that has no effect, and of which no call was denied."""
    if all((event.update or {}).keys().isdisjoint({"answers", "checks"}) for event in trajectory.events):
        return None  # worlds without tools are not read twice
    history = read_effects(trajectory.events)
    view = EffectsView(history.effects, history.refused)
    return view if view.effects or view.refused else None


# Prompts and replies, read from the file in which a run kept them.

MAX_PROMPT_CHARACTERS = 2_000_000
"""Maximum number of characters of all prompts and replies in a report, so that a browser opens it at once."""


class ShownPrompt(NamedTuple):
    """A prompt and its reply as a report shows them; without texts if the report has no space left for them."""

    number: int
    """Line of the file."""
    exchange: KeptExchange
    texts: list[tuple[str, str]]
    """Role and text of each message, then the reply, why it was refused, and the parameters of the request."""


class KeptPrompts:
    """Prompts and replies of a run, handed out until MAX_PROMPT_CHARACTERS are used up. Without a file there are none.

    Args:
        path: the file, `prompts.jsonl` in the folder of the run.
    """

    def __init__(self, path: Path) -> None:
        self.path, self._starts, self._left = path, [0], MAX_PROMPT_CHARACTERS
        if path.is_file():
            with path.open("rb") as file:
                lines = read_bounded_lines(file, str(path), MAX_TRAJECTORY_LINE, _PROMPTS_ADVICE)
                lengths = [len(line) for line in lines if line.endswith(b"\n")]  # a running process may write one
            self._starts = list(accumulate(lengths, initial=0))
        self.rest = set(range(1, len(self._starts)))
        """Lines of the prompts that were not taken yet."""

    @property
    def kept(self) -> bool:
        """Whether there is a prompt."""
        return len(self._starts) > 1

    def take(self, numbers: Iterable[int]) -> list[ShownPrompt]:
        """Return the prompts on these lines of the file. Lines that it does not have are left out.

        Raises:
            Fault: ("data") a line of the file is damaged.
        """
        return [self._show(number) for number in numbers if 0 < number < len(self._starts)]

    def take_rest(self) -> Iterator[ShownPrompt]:
        """Return the prompts that were not taken yet, while there is space for their texts. Raises as `take` does."""
        for number in sorted(self.rest):
            shown = self._show(number)
            if not shown.texts:
                self.rest.add(number)
                return
            yield shown

    def _show(self, number: int) -> ShownPrompt:
        self.rest.discard(number)
        with self.path.open("rb") as file:
            file.seek(self._starts[number - 1])
            line = file.read(self._starts[number] - self._starts[number - 1])
        try:
            kept = KeptExchange.model_validate_json(line)
            texts = list(_texts_of(kept))
        except ValueError as error:  # also of numbers with too many digits to be written
            raise Fault("data", f"{self.path}:{number}: not a line of kept prompts: {_PROMPTS_ADVICE}") from error
        size = sum(len(text) for _, text in texts)
        if size > self._left:
            return ShownPrompt(number, kept, [])
        self._left -= size
        return ShownPrompt(number, kept, texts)


_PROMPTS_ADVICE = "restore the file, or delete it to get the report without prompts"


def _texts_of(kept: KeptExchange) -> Iterator[tuple[str, str]]:
    request: dict[str, Any] = {**kept.request}
    messages = request.pop("messages", [])
    parts: list[tuple[str, Any]] = []
    for message in messages if isinstance(messages, list) else []:
        others = {**message} if isinstance(message, dict) else {"content": message}
        parts += [(str(others.pop("role", "")), others.pop("content", "")), *others.items()]
    parts += [("reply", kept.response or "(none)"), ("failure", kept.call.get("failure")), *request.items()]
    for name, value in parts:
        if value or name != "failure":
            text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
            yield name.replace("_", " "), text


# The page.

UNCHECKED_NOTE = "Nothing was certified: the validator always_pass accepted each predicate without a check."
"""Message of a run whose validator looks at nothing."""

MAX_GOAL_CHARACTERS = 4_000
"""Maximum number of characters of the task's goal."""


def write_report(
    run: Trajectory | Result | Path | str, path: Path | str | None = None, *, whole: Path | None = None
) -> Path:
    """Write the HTML report of a finished, interrupted or running run, and return its path.

    In the folder of a run that keeps its prompts, the report shows them. The report of a run that is a part of a
    comparison links to its page: to `whole`, by default to the page that exists in a folder around the run's.

    Args:
        run: the result of a run, its trajectory, or its folder.
        path: path of the report; by default `report.html` in the folder of the run.
        whole: page of the comparison that the run is a part of.

    Raises:
        TypeError: `run` is of another type, or is a trajectory without a path for the report.
        Fault: ("data") the trajectory has contents that no run of its graph writes, the file of prompts is damaged, or
            one of the paths is a link.
    """
    if isinstance(run, Trajectory):
        if path is None:
            raise TypeError("a trajectory has no folder: name the report, write_report(trajectory, 'report.html')")
        trajectory, path = run, Path(path)
    elif isinstance(run, str | Path):
        trajectory, path = read_trajectory(Path(run)), Path(path or Path(run) / REPORT_FILE)
    elif isinstance(run, Result):
        trajectory, path = run.trajectory, Path(path or run.folder / REPORT_FILE)
    else:
        raise TypeError(f"{run!r:.100} is not a run: give the result of a run, its trajectory, or its folder")
    prompts = path.parent / PROMPTS_FILE
    check_no_links(path, prompts)
    with translate_trajectory_errors(trajectory.header.run_id):
        link = _link_to_whole(trajectory.header, path, whole)
        page = render_report(trajectory, KeptPrompts(prompts), link)
    path.write_text(page, encoding="utf-8", errors="replace")  # texts of worlds may hold half of a surrogate pair
    return path


def _link_to_whole(header: Header, path: Path, whole: Path | None) -> str:
    """Return the relative address of the page of the comparison that a run is a part of; empty if there is none."""
    folder = path.resolve().parent
    found = find_manifest(folder) if header.context.get("group") and not whole else None
    page = found[0] / found[1].page if found else whole
    if page is None or not (whole or page.is_file()):
        return ""
    return quote(Path(os.path.relpath(page.resolve(), folder)).as_posix())


def render_report(trajectory: Trajectory, prompts: KeptPrompts, link: str = "") -> str:
    """Render the report of a run; `link` is the address of the page of its comparison."""
    run, header, footer = read_history(trajectory), trajectory.header, trajectory.footer
    kind, charts = _kind_and_charts(run)
    answer = footer.scores.answer if footer and footer.scores and kind != "rewards" else None
    notes = [footer.message] if footer and footer.message else list(map(format_question, trajectory.questions))
    by_node: defaultdict[str, list[Event]] = defaultdict(list)
    for event in [*trajectory.events, *trajectory.superseded]:
        by_node[event.node].append(event)
    return render_page(
        "run.html",
        title=f"{header.graph} · {header.task.benchmark} {header.task.id}",
        goal=shorten_text(header.task.goal, MAX_GOAL_CHARACTERS) or f"{header.task.benchmark} {header.task.id}",
        run=run,
        trajectory=trajectory,
        kind=kind,
        badge=ending_badge(run, kind),
        unscored=is_unscored(header),
        messages=[*([UNCHECKED_NOTE] if run.unchecked else []), *notes],
        facts=facts_of(run, trajectory),
        links={PART_OF: link} if link else {},
        answer=None if answer is None else lay_out_answer(answer),
        effects=view_effects(trajectory),
        describe_check=describe_check,
        check_labels=CHECK_LABELS,
        checkers=CHECKERS,
        format_call=format_call,
        answered=answer_lines(run.answered, run.questions) if run.answered else [],
        settled=settled_calls(run) if run.answered else {},
        charts=charts,
        node_costs=[(len(events), total_usage((e.usage for e in events), node)) for node, events in by_node.items()],
        empty_reasons=EMPTY_REASONS,
        empty_share=format_empty_share(run.empty, trajectory.usage.calls),
        cut_summary=format_cut_prompts(run.cut_prompts, trajectory.usage.calls),
        prompts=prompts,
        simulated=has_simulated_validator(header),
        impossible=IMPOSSIBLE_PREFIX,
        calls_of=calls_of,
        draw_tasks=draw_tasks,
        merge_spans=merge_spans,
    )


def _kind_and_charts(run: RunHistory) -> tuple[ReportKind, list[StepChart]]:
    episodes = run.episodes
    if run.rating.steps:
        answer = run.footer.scores.answer if run.footer and run.footer.scores else None
        true: Any = answer.get(TRUE_REWARDS, ()) if isinstance(answer, dict) else ()
        return "rewards", [reward_chart(run.rating.recordings, true)]
    if run.tasks.drawn:
        inner, combined = [worked.inside.episodes for worked in run.tasks.started], EpisodeSummary(1)
        combined.scores = [score for history in inner for episode in history.all for score in episode.scores]
        return "tasks", [score_chart([combined])] if any(history.graded for history in inner) else []
    if episodes.acting:
        return "episodes", [score_chart(episodes.all)] if episodes.scored or not episodes.steps else []
    return "plan", [progress_chart(run), *([score_chart(episodes.all)] if episodes.graded else [])]
