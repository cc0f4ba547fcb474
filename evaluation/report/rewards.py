"""Predicted rewards on a report's page: a curve for each recording, and under every step what was compared."""

from collections.abc import Sequence

from certigraph.evaluation.report.html import Markup, counted, joined, shortened, tag
from certigraph.evaluation.report.parts import figure
from certigraph.evaluation.report.rated import Rated, Rating
from certigraph.state.factored import FactoredState

WIDTH, HEIGHT = 400, 170
LEFT, RIGHT, TOP, BOTTOM = 26, 8, 12, 30

LEAST_GAIN = 0.005
"""Changes of the reward that are shown."""

LONGEST_PART = 1_500
"""Characters of an observation or a state."""


def reward_figures(rating: Rating) -> list[Markup]:
    """How much was rated, and what each recording came to."""
    shown = [figure("steps", f"{len(rating.rated):,}", f"of {counted(len(rating.steps), 'recorded step')} rated")]
    for number, rated in enumerate(rating.recordings, 1):
        highest = max(one.reward for one in rated)
        shown.append(figure(f"recording {number}", f"{rated[-1].reward:.2f}", f"last reward, {highest:.2f} at most"))
    return shown


def reward_drawing(rating: Rating, true: Sequence[Sequence[float]] = ()) -> Markup:
    """An inline SVG of all recordings, the true rewards dashed where they are known; words where nothing was rated."""
    if not rating.rated:
        return tag("p", "No step was rated.", class_="quiet")
    longest = max(len(rated) for rated in rating.recordings)
    lines = [_line([one.reward for one in rated], number, longest) for number, rated in enumerate(rating.recordings)]
    lines += [_line(rewards, number, longest, "true") for number, rewards in enumerate(true)]
    drawing = tag(
        "svg",
        tag("line", x1=LEFT, x2=WIDTH - RIGHT, y1=_y(0), y2=_y(0), class_="axis"),
        tag("line", x1=LEFT, x2=WIDTH - RIGHT, y1=_y(1), y2=_y(1), class_="whole"),
        *lines,
        *(tag("text", f"{mark}", x=LEFT - 8, y=_y(mark) + 4, text_anchor="end") for mark in (0, 1)),
        tag("text", counted(longest, "step"), x=WIDTH - RIGHT, y=HEIGHT - 5, text_anchor="end"),
        viewBox=f"0 0 {WIDTH} {HEIGHT}",
        role="img",
        aria_label=f"predicted reward by step of {counted(len(rating.recordings), 'recording')}",
    )
    names = [tag("span", _dot(number), f"recording {number + 1}") for number in range(len(rating.recordings))]
    dashed = [tag("span", "dashed: true rewards")] if true else []
    return joined(drawing, tag("p", *names, *dashed, class_="key"))


def reward_column(rating: Rating) -> Markup:
    """Every recording, step by step."""
    parts = (_recording(rated, number) for number, rated in enumerate(rating.recordings))
    return joined(*parts) if rating.rated else tag("p", "No step was rated.", class_="quiet")


def _recording(rated: Sequence[Rated], number: int) -> Markup:
    facts = f"{counted(len(rated), 'step')} · last reward {rated[-1].reward:.2f}"
    name = tag("b", f"Recording {number + 1}")
    summary = tag("summary", _dot(number), name, tag("span", facts, class_="when"))
    turns = (_step(one, before) for one, before in zip(rated, [None, *rated], strict=False))
    return tag("details", summary, tag("div", *turns, class_="turns"), class_="episode", open="")


def _step(one: Rated, before: Rated | None) -> Markup:
    gain = one.reward - before.reward if before else 0.0
    look = f"points {'good' if gain > 0 else 'bad'}"
    changed = [tag("span", f"{gain:+.2f}", class_=look)] if abs(gain) > LEAST_GAIN else []
    summary = tag(
        "summary",
        tag("span", f"{one.reward:.2f}", class_="number"),
        tag("span", one.step.action or "(looked)", class_="action"),
        tag("span", *changed),
        tag("span", one.step.observation, class_="answer"),
    )
    told = {"observation": one.step.observation, "goal state": _told(one.goal), "state": _told(one.state)}
    shown = {name: shortened(text, LONGEST_PART) for name, text in told.items() if text}
    parts = (tag("div", tag("b", name), text, class_="part") for name, text in shown.items())
    return tag("details", summary, *parts, class_="turn rated")


def _told(state: FactoredState) -> str:
    return "\n".join(sentence for entity in state.entities for sentence in entity.sentences())


def _dot(number: int) -> Markup:
    return tag("i", class_=f"dot ink{number % 6}")


def _line(rewards: Sequence[float], number: int, longest: int, kind: str = "") -> Markup:
    wide = (WIDTH - LEFT - RIGHT) / max(longest - 1, 1)
    points = " L".join(f"{LEFT + wide * place:.1f} {_y(reward):.1f}" for place, reward in enumerate(rewards))
    return tag("path", d=f"M{points}", class_=f"score ink{number % 6} {kind}".strip())


def _y(reward: float) -> float:
    return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * reward
