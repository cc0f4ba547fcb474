"""Score by budget: how much of the score a method has after so many calls or tokens, as means over runs."""

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from statistics import mean
from typing import Any, NamedTuple

from certigraph.evaluation.statistics import standard_error
from certigraph.state.trajectory import Event, Trajectory

MOST = 400
"""Points of a curve; more are not seen, and would make a page of a thousand runs heavy."""


class Point(NamedTuple):
    """A run's score (0 to 100), the best of its episodes so far, once so much is spent.

    Tokens are those of prompts and answers; `uncached` leaves out prompt tokens that the model had cached.
    """

    calls: int
    tokens: int
    uncached: int
    score: float


AXES = {"calls": "model calls", "tokens": "tokens, prompt + output", "uncached": "tokens, cached ones left out"}
"""What a curve may run over: fields of Point and their labels."""


class Knot(NamedTuple):
    """A point of a mean curve, which is a step function: these figures hold from `x` on, over n runs."""

    x: int
    mean: float
    stderr: float
    n: int


Curves = Mapping[str, Mapping[str, Sequence[Knot]]]
"""Axis -> method -> curve."""


def points_of(trajectory: Trajectory) -> list[Point]:
    """A run's points, first to last. Work that a resume did anew counts once: it is what the method needs.

    The last point has the benchmark's own verdict, for worlds that keep no score on the way.
    """
    points: list[Point] = []
    calls = tokens = cached = 0
    best = episode = 0.0
    for event in trajectory.events:
        calls += event.usage.calls
        tokens += event.usage.input_tokens + event.usage.output_tokens
        cached += event.usage.cached_tokens
        episode = _after(event, episode)
        best = max(best, episode)
        points.append(Point(calls, tokens, tokens - cached, best))
    footer = trajectory.footer
    verdict = 100 * footer.scores.value if footer and footer.scores else best
    return [*points, Point(calls, tokens, tokens - cached, verdict)]


def mean_curve(runs: Sequence[Sequence[Point]], axis: str) -> list[Knot]:
    """The mean of several runs over one axis: a run has 0 before its first point and keeps its last score."""
    steps = [_steps(run, axis) for run in runs]
    at = _thinned(sorted({0}.union(*(xs for xs, _ in steps))))
    scores = ([_score_at(x, xs, ys) for xs, ys in steps] for x in at)
    return [Knot(x, mean(found), standard_error(found), len(found)) for x, found in zip(at, scores, strict=True)]


def curves_of(runs: Mapping[str, Sequence[Sequence[Point]]]) -> Curves:
    """The curves of every method that has runs, over each axis."""
    return {axis: {name: mean_curve(mine, axis) for name, mine in runs.items() if mine} for axis in AXES}


def curve_lines(curves: Curves) -> Iterable[dict[str, Any]]:
    """The curves as lines of a table."""
    for axis, methods in curves.items():
        for method, knots in methods.items():
            yield from ({"axis": axis, "method": method, **knot._asdict()} for knot in knots)


def _after(event: Event, score: float) -> float:
    """The episode's score after an event: the last non-negative one shown, else the rewards so far in percent.

    What an inner graph was shown counts once its own run has it: it may have been a copy of the world.
    """
    update: dict[str, Any] = event.update or {}
    if event.scope or "observation" not in update:
        return score
    seen = update["observation"]
    before = 0.0 if "history" in event.replaced else score  # a new episode's log begins anew
    shown = seen.get("data", {}).get("score")
    if shown is None:
        return before + 100 * float(seen.get("reward", 0.0))
    return float(shown) if shown >= 0 else before


def _steps(run: Sequence[Point], axis: str) -> tuple[list[int], list[float]]:
    return [getattr(point, axis) for point in run], [point.score for point in run]


def _score_at(x: int, xs: Sequence[int], ys: Sequence[float]) -> float:
    known = bisect_right(xs, x)
    return ys[known - 1] if known else 0.0


def _thinned(xs: list[int]) -> list[int]:
    every = -(-len(xs) // MOST)
    return sorted({*xs[::every], xs[-1]})
