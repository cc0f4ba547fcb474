"""Certified progress over world steps as a small drawing: rises are certificates, falls are returns."""

from itertools import pairwise

from certigraph.evaluation.report.html import Markup, joined, tag
from certigraph.evaluation.report.story import Replanned, Story, Try
from certigraph.evaluation.report.words import PASSED

WIDTH, HEIGHT = 400, 170
LEFT, RIGHT, TOP, BOTTOM = 26, 6, 12, 30


def progress_drawing(story: Story) -> Markup:
    """An inline SVG; words where the world was never stepped."""
    if not story.steps:
        return tag("p", "No step was taken in the world.", class_="quiet")
    scale = _Scale(story)
    line, wide, high = scale.path(story.standing), scale.x(story.steps), scale.y(0)
    area = f"{line} L{wide:.1f} {high:.1f} L{scale.x(0):.1f} {high:.1f} Z"
    drawing = tag(
        "svg",
        tag("line", x1=LEFT, x2=WIDTH - RIGHT, y1=high, y2=high, class_="axis"),
        tag("line", x1=LEFT, x2=WIDTH - RIGHT, y1=scale.y(scale.top), y2=scale.y(scale.top), class_="whole"),
        tag("path", d=area, class_="area"),
        tag("path", d=line, class_="progress"),
        *_ticks(story, scale),
        *_labels(story, scale),
        viewBox=f"0 0 {WIDTH} {HEIGHT}",
        role="img",
        aria_label=f"{story.count('certified')} predicates certified in {story.steps} world steps",
    )
    return joined(drawing, _key(story))


class _Scale:
    def __init__(self, story: Story) -> None:
        self.steps = story.steps
        waiting = story.count("forced", "failed", "target", "waiting")
        self.top = max([story.count("certified") + waiting, *(count for _, count in story.standing)])

    def x(self, step: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * step / self.steps

    def y(self, count: float) -> float:
        return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * count / max(self.top, 1)

    def path(self, standing: list[tuple[int, int]]) -> str:
        points = [(0, 0), *standing, (self.steps, standing[-1][1] if standing else 0)]
        turns = [f"H{self.x(step):.1f} V{self.y(count):.1f}" for _, (step, count) in pairwise(points)]
        return f"M{self.x(0):.1f} {self.y(0):.1f} {' '.join(turns)}"


def _ticks(story: Story, scale: _Scale) -> list[Markup]:
    base = scale.y(0)
    return [
        *(tag("line", x1=x, x2=x, y1=base + 3, y2=base + 9, class_="miss") for x in map(scale.x, _uncertified(story))),
        *(tag("circle", cx=x, cy=base, r=3, class_="turn") for x in map(scale.x, _replanned(story))),
        *(tag("circle", cx=x, cy=base, r=4, class_="pass") for x in map(scale.x, _forced(story))),
    ]


def _key(story: Story) -> Markup:
    line, dot, disc = (tag("i", class_=f"{name}-key") for name in ("miss", "turn", "pass"))
    shown = [tag("span", line, "attempt without a certificate")] if _uncertified(story) else []
    shown += [tag("span", dot, "replan")] if _replanned(story) else []
    shown += [tag("span", disc, PASSED)] if _forced(story) else []
    return tag("p", *shown, class_="key") if shown else joined()


def _uncertified(story: Story) -> list[int]:
    return sorted({m.step for m in story.moments if isinstance(m, Try) and not m.discharged})


def _replanned(story: Story) -> list[int]:
    return sorted({m.step for m in story.moments if isinstance(m, Replanned) and not m.extends})


def _forced(story: Story) -> list[int]:
    return sorted({m.step for m in story.moments if isinstance(m, Try) and m.attempt.verdict.forced})


def _labels(story: Story, scale: _Scale) -> list[Markup]:
    return [
        tag("text", str(scale.top), x=LEFT - 8, y=scale.y(scale.top) + 4, text_anchor="end"),
        tag("text", "0", x=LEFT - 8, y=scale.y(0) + 4, text_anchor="end"),
        tag("text", f"{story.steps} world steps", x=WIDTH - RIGHT, y=HEIGHT - 5, text_anchor="end"),
    ]
