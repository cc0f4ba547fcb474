"""What rated pairs say of predictors: means by domain and over domains, with 95 % intervals; tasks are the units."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from certigraph.adapters.rewardprediction.benchmark import FIGURES
from certigraph.evaluation.rewards.rating import Rated
from certigraph.evaluation.statistics import RESAMPLES, SEED, mean_of
from certigraph.evaluation.statistics import interval as paired_interval

OVERALL = "overall"
"""The mean of the domains' means, each counting as much as any other."""

EPIC = FIGURES[0]
"""The headline: pooled over a task's recordings."""


class Mean(NamedTuple):
    """A mean with the bounds of its 95 % interval, where there is one."""

    mean: float
    low: float | None = None
    high: float | None = None


class Line(NamedTuple):
    """A predictor in a domain, or over all."""

    predictor: str
    domain: str
    n: int
    figures: Mapping[str, Mean]
    difference: Mean | None = None
    """Its pooled EPIC distance minus the first predictor's on the same tasks; below 0 it predicts better."""


Values = Mapping[str, Sequence[float]]
"""By domain, a figure of each task."""


def lines_of(rows: Sequence[Rated], names: Sequence[str]) -> list[Line]:
    """A line for each predictor and domain, `overall` last where there are several domains."""
    found = {name: [row for row in rows if row.predictor == name] for name in names}
    return [line for name in names for line in _lines(name, found[name], found[names[0]])]


def difference(rows: Sequence[Rated], others: Sequence[Rated]) -> dict[str, list[float]]:
    """By domain, the pooled EPIC distances of rows minus those of others on the same pairs."""
    before = {row.pair: row.figures[EPIC] for row in others}
    both = [row for row in rows if row.pair in before]
    return _by_domain(both, [row.figures[EPIC] - before[row.pair] for row in both])


def stratified(values: Values) -> Mean:
    """The mean of the domains' means. The interval resamples tasks within each domain, by a seeded bootstrap.

    A domain of one task adds nothing to the width; with no domain that has more there is no interval.
    """
    means = {domain: float(np.mean(found)) for domain, found in values.items()}
    middle = float(np.mean(list(means.values())))
    if all(len(found) < 2 for found in values.values()):
        return Mean(middle)
    random = np.random.default_rng(SEED)
    draws = np.mean([_resampled(found, random) for found in values.values()], axis=0)
    low, high = np.percentile(draws, (2.5, 97.5))
    return Mean(middle, float(low), float(high))


def _lines(name: str, rows: Sequence[Rated], first: Sequence[Rated]) -> list[Line]:
    figures = {figure: _by_domain(rows, [row.figures[figure] for row in rows]) for figure in FIGURES}
    apart = difference(rows, first) if rows and rows[0].predictor != first[0].predictor else {}
    lines = [
        Line(name, domain, len(found), {f: _mean(by[domain]) for f, by in figures.items()}, _paired(apart.get(domain)))
        for domain, found in figures[EPIC].items()
    ]
    if len(lines) > 1:
        over = {figure: stratified(by) for figure, by in figures.items()}
        lines.append(Line(name, OVERALL, len(rows), over, stratified(apart) if apart else None))
    return lines


def _mean(values: Sequence[float]) -> Mean:
    found = mean_of(values, top=1.0)
    return Mean(found.mean, found.low, found.high)


def _paired(apart: Sequence[float] | None) -> Mean | None:
    if not apart:
        return None
    low, high = paired_interval(apart) or (None, None)
    return Mean(float(np.mean(apart)), low, high)


def _by_domain(rows: Sequence[Rated], values: Sequence[float]) -> dict[str, list[float]]:
    found: dict[str, list[float]] = {domain: [] for domain in sorted({row.domain for row in rows})}
    for row, value in zip(rows, values, strict=True):
        found[row.domain].append(value)
    return found


def _resampled(values: Sequence[float], random: np.random.Generator) -> np.ndarray:
    """Means of resamples."""
    n = len(values)
    counts = random.multinomial(n, np.full(n, 1 / n), RESAMPLES)
    return np.asarray(counts @ np.asarray(values) / n)
