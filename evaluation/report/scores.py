"""The score after every world step as a small drawing, one line an episode."""

from certigraph.evaluation.report.episode import Episode
from certigraph.evaluation.report.episodes import Episodes
from certigraph.evaluation.report.html import Markup, joined, tag

WIDTH, HEIGHT = 400, 170
LEFT, RIGHT, TOP, BOTTOM = 40, 8, 12, 30

FULL = 100.0
INKS = 6
"""Colours told apart; the seventh episode has the first one's again."""


def score_drawing(episodes: Episodes) -> Markup:
    """An inline SVG with its key; words where the world was never stepped."""
    if not episodes.steps:
        return tag("p", "No step was taken in the world.", class_="quiet")
    scale = _Scale(episodes)
    drawing = tag(
        "svg",
        _level(scale.y(0), "axis"),
        _level(scale.y(FULL), "whole"),
        *(_line(episode, scale) for episode in episodes.all),
        *_labels(scale),
        viewBox=f"0 0 {WIDTH} {HEIGHT}",
        role="img",
        aria_label=f"score by world step: {'; '.join(map(_said, episodes.all))}",
    )
    return joined(drawing, _key(episodes))


def ink(episode: Episode) -> str:
    """The class that gives an episode its colour, in the drawing and in the column."""
    return f"ink{(episode.number - 1) % INKS}"


class _Scale:
    def __init__(self, episodes: Episodes) -> None:
        self.steps = max(len(episode.scores) for episode in episodes.all)
        self.lowest = min([0.0, *(score for episode in episodes.all for score in episode.scores)])

    def x(self, step: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * step / self.steps

    def y(self, score: float) -> float:
        return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * (score - self.lowest) / (FULL - self.lowest)


def _level(y: float, kind: str) -> Markup:
    return tag("line", x1=LEFT, x2=WIDTH - RIGHT, y1=f"{y:.1f}", y2=f"{y:.1f}", class_=kind)


def _line(episode: Episode, scale: _Scale) -> Markup:
    rises = (f"H{scale.x(step):.1f} V{scale.y(score):.1f}" for step, score in enumerate(episode.scores, 1))
    path = f"M{scale.x(0):.1f} {scale.y(episode.start):.1f} {' '.join(rises)}"
    return tag("path", tag("title", _said(episode)), d=path, class_=f"score {ink(episode)}")


def _labels(scale: _Scale) -> list[Markup]:
    marks = sorted({scale.lowest, 0.0, FULL})
    ticks = [tag("text", f"{mark:g}", x=LEFT - 8, y=f"{scale.y(mark) + 4:.1f}", text_anchor="end") for mark in marks]
    steps = f"{scale.steps} world step{'' if scale.steps == 1 else 's'}"
    return [*ticks, tag("text", steps, x=WIDTH - RIGHT, y=HEIGHT - 5, text_anchor="end")]


def _key(episodes: Episodes) -> Markup:
    if len(episodes.all) < 2:
        return joined()
    shown = (tag("span", tag("i", class_=f"dot {ink(e)}"), f"episode {e.number}") for e in episodes.all)
    return tag("p", *shown, class_="key")


def _said(episode: Episode) -> str:
    return f"episode {episode.number} ended at {episode.reported:g} after {len(episode.scores)}"
