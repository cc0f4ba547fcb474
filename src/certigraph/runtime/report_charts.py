"""Line charts of a run report, drawn over steps: certified predicates, scores, and predicted rewards."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from certigraph.runtime.episodes import EpisodeHistory, EpisodeSummary, RatingHistory
from certigraph.runtime.progress import PlanAttempt, PlanReplan, add_gave_up_count
from certigraph.runtime.report_plan import PlanTable
from certigraph.runtime.texts import PASSED_LABEL, format_count

WIDTH, HEIGHT, RIGHT, TOP, BOTTOM = 400, 170, 8, 12, 30
"""Size of a chart and its margins, in SVG units. The left margin depends on the labels."""

MAX_SCORE = 100.0
"""The highest score."""

COLOUR_COUNT = 6
"""Number of colours of lines. The seventh line has the colour of the first."""

NO_STEP = "No step was taken in the world."
NO_RATING = "No step was rated."


class ChartLine(NamedTuple):
    """A line of a chart: its SVG path, CSS classes and tooltip."""

    path: str
    look: str
    title: str = ""


class LineChart(NamedTuple):
    """A chart over steps, as the template `line_chart` draws it; with a `notice`, that is shown in its place."""

    title: str
    notice: str = ""
    label: str = ""
    """Description for readers who do not see the drawing."""
    left: int = 0
    levels: Sequence[tuple[float, str]] = ()
    """Horizontal lines: height and CSS class."""
    lines: Sequence[ChartLine] = ()
    marks: Sequence[tuple[float, float, str]] = ()
    """Marks at the axis: position and CSS class."""
    ticks: Sequence[tuple[float, str]] = ()
    """Labels at the left: height and text."""
    across: str = ""
    """Label of the axis of steps."""
    key: Sequence[tuple[str, str]] = ()
    """Legend below the drawing: CSS classes of the sign, and text."""
    width: int = WIDTH
    height: int = HEIGHT
    right: int = WIDTH - RIGHT


class ChartScale(NamedTuple):
    """Scale from steps and values to SVG units: left margin, last step, lowest and highest value."""

    left: int
    steps: int
    low: float
    high: float

    def x(self, step: float) -> float:
        """Convert a step."""
        return self.left + (WIDTH - self.left - RIGHT) * step / max(self.steps, 1)

    def y(self, value: float) -> float:
        """Convert a value."""
        return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * (value - self.low) / ((self.high - self.low) or 1)

    def stairs(self, points: Iterable[tuple[float, float]]) -> str:
        """Build the SVG path of a value that stays as it is from one point to the next."""
        (step, value), *others = points
        turns = [f"H{self.x(step):.1f} V{self.y(value):.1f}" for step, value in others]
        return f"M{self.x(step):.1f} {self.y(value):.1f} {' '.join(turns)}"

    def levels(self) -> list[tuple[float, str]]:
        """Return the axis at 0 and the line at the highest value."""
        return [(self.y(0), "axis"), (self.y(self.high), "whole")]


def colour_class(number: int) -> str:
    """Return the CSS class for the colour of a line, which are numbered from 0."""
    return f"ink{number % COLOUR_COUNT}"


# Certified predicates: rises are certificates, falls are returns to earlier states.


def progress_chart(table: PlanTable) -> LineChart:
    """Draw the number of certified predicates by world step, with attempts, replans and forced passes at the axis."""
    plan, title = table.plan, "Progress"
    if not plan.logged:
        return LineChart(title, NO_STEP)
    certified = table.count("certified")
    most = max([certified + table.count("forced", "failed", "target", "waiting"), *(count for _, count in plan.curve)])
    scale = ChartScale(26, plan.logged, 0, most)
    line = scale.stairs([(0, 0), *plan.curve, (plan.logged, plan.curve[-1][1] if plan.curve else 0)])
    area = f"{line} L{scale.x(plan.logged):.1f} {scale.y(0):.1f} L{scale.x(0):.1f} {scale.y(0):.1f} Z"
    attempts = [moment for moment in plan.moments if isinstance(moment, PlanAttempt)]
    steps = {
        "miss": {attempt.step for attempt in attempts if attempt.attempt.verdict.is_counted and not attempt.discharged},
        "turn": {moment.step for moment in plan.moments if isinstance(moment, PlanReplan) and not moment.extends},
        "pass": {attempt.step for attempt in attempts if attempt.attempt.verdict.forced},
    }
    replan = add_gave_up_count("replan", plan.gave_up)
    names = {"miss": "attempt without a certificate", "turn": replan, "pass": PASSED_LABEL}
    return LineChart(
        title,
        label=f"{certified} predicates {table.label} in {plan.logged} world steps",
        left=scale.left,
        levels=scale.levels(),
        lines=[ChartLine(area, "area"), ChartLine(line, "progress")],
        marks=[(scale.x(step), scale.y(0), look) for look, found in steps.items() for step in sorted(found)],
        ticks=[(scale.y(most), str(most)), (scale.y(0), "0")],
        across=f"{plan.logged} world steps",
        key=[(f"{look}-key", names[look]) for look, found in steps.items() if found],
    )


# Scores, one line an episode.


def score_chart(episodes: EpisodeHistory) -> LineChart:
    """Draw the score after every world step, with a line for each episode."""
    title = "Score by step"
    if not episodes.steps:
        return LineChart(title, NO_STEP)
    lowest = min([0.0, *(score for episode in episodes.all for score in episode.scores)])
    scale = ChartScale(40, max(len(episode.scores) for episode in episodes.all), lowest, MAX_SCORE)
    described = [_describe_score(episode) for episode in episodes.all]
    looks = [colour_class(episode.number - 1) for episode in episodes.all]
    curves = [scale.stairs(enumerate([episode.start, *episode.scores])) for episode in episodes.all]
    return LineChart(
        title,
        label=f"score by world step: {'; '.join(described)}",
        left=scale.left,
        levels=scale.levels(),
        lines=[
            ChartLine(path, f"score {look}", text) for path, look, text in zip(curves, looks, described, strict=True)
        ],
        ticks=[(scale.y(mark), f"{mark:g}") for mark in sorted({lowest, 0.0, MAX_SCORE})],
        across=format_count(scale.steps, "world step"),
        key=[
            (f"dot {look}", f"episode {episode.number}")
            for look, episode in zip(looks, episodes.all, strict=True)
            if len(looks) > 1
        ],
    )


def _describe_score(episode: EpisodeSummary) -> str:
    return f"episode {episode.number} ended at {episode.reported:g} after {len(episode.scores)}"


# Predicted rewards, one line a recording.


def reward_chart(rating: RatingHistory, true: Sequence[Sequence[float]] = ()) -> LineChart:
    """Draw the predicted rewards of all recordings.

    Args:
        rating: the rated steps.
        true: true rewards of each recording, which are drawn dashed.
    """
    title = "Predicted reward by step"
    if not rating.rated:
        return LineChart(title, NO_RATING)
    recordings = rating.recordings
    longest = max(map(len, recordings))
    scale = ChartScale(26, longest - 1, 0, 1)
    predicted = [[one.reward for one in rated] for rated in recordings]
    lines = [ChartLine(_reward_path(rewards, scale), f"score {colour_class(n)}") for n, rewards in enumerate(predicted)]
    lines += [
        ChartLine(_reward_path(rewards, scale), f"score {colour_class(n)} true") for n, rewards in enumerate(true)
    ]
    return LineChart(
        title,
        label=f"predicted reward by step of {format_count(len(recordings), 'recording')}",
        left=scale.left,
        levels=scale.levels(),
        lines=lines,
        ticks=[(scale.y(mark), f"{mark}") for mark in (0, 1)],
        across=format_count(longest, "step"),
        key=[(f"dot {colour_class(n)}", f"recording {n + 1}") for n in range(len(recordings))]
        + [("", "dashed: true rewards")] * bool(true),
    )


def _reward_path(rewards: Sequence[float], scale: ChartScale) -> str:
    return "M" + " L".join(f"{scale.x(step):.1f} {scale.y(reward):.1f}" for step, reward in enumerate(rewards))
