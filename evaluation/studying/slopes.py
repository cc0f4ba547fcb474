"""Whether prompts grow with the world steps that a task takes: the largest of each episode against its length."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from scipy import stats

from certigraph.evaluation.statistics import CONFIDENCE
from certigraph.evaluation.studying.prompt_sizes import TASK_GRAPH, Size

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
