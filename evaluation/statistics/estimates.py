"""A mean over tasks and trials with its interval. Trials of a task are a cluster: they share its difficulty."""

import math
from collections.abc import Hashable, Sequence
from statistics import mean, stdev
from typing import NamedTuple

CONFIDENCE = 0.95

NO_SPREAD = 1e-9
"""A standard error below this share of the largest score is rounding."""


class Estimate(NamedTuple):
    """A mean of `n` scores in `clusters` clusters, in the scores' unit.

    `low` and `high` bound the 95 % interval, and are None where the scores show too little to have one. `stderr` is
    0 where there is no spread to go by, and `mean` is 0 where there are no scores.
    """

    n: int
    clusters: int
    mean: float
    stderr: float
    low: float | None
    high: float | None


def standard_error(scores: Sequence[float]) -> float:
    """Of the mean of independent scores; 0 for fewer than two, which show no spread."""
    return stdev(scores) / math.sqrt(len(scores)) if len(scores) > 1 else 0.0


def mean_of(scores: Sequence[float], clusters: Sequence[str] | None = None, *, top: float | None = None) -> Estimate:
    """The mean with a cluster-robust standard error and a t interval with clusters - 1 degrees of freedom.

    The error is that of a regression on a constant (Liang and Zeger 1986), its square times G / (G - 1) for G
    clusters. With the same number of trials for every task it is the standard error of the tasks' means.

    Args:
        scores: One a trial.
        clusters: The task of each score; None makes each score its own cluster.
        top: The highest possible score, 0 being the lowest. The interval then stays within, and where all scores are
            0 or all are `top`, it is Wilson's over clusters. Without it, equal scores have no interval.

    Raises:
        ValueError: scores and clusters differ in number.
    """
    names = range(len(scores)) if clusters is None else clusters
    codes = _codes(names, len(scores))
    count = len(set(codes))
    middle = float(mean(scores)) if scores else 0.0
    if count < 2:
        return Estimate(len(scores), count, middle, 0.0, None, None)
    stderr, low, high = _clustered(scores, codes)
    if stderr <= NO_SPREAD * max(map(abs, scores)):
        return Estimate(len(scores), count, middle, 0.0, *_without_spread(middle, count, top))
    if top is not None:
        low, high = max(0.0, low), min(top, high)
    return Estimate(len(scores), count, middle, stderr, low, high)


class Share(NamedTuple):
    """The share of `n` outcomes in `clusters` clusters that are hits, 0 to 1, and its 95 % interval.

    NaN where there is no outcome.
    """

    n: int
    clusters: int
    value: float = math.nan
    low: float = math.nan
    high: float = math.nan


def share_of(hits: Sequence[bool], clusters: Sequence[str]) -> Share:
    """The share of hits, with Wilson's interval for as many independent outcomes as these are worth.

    Where outcomes share a cluster (a task) that is the number that would have the clustered standard error (the design
    effect), at least the number of clusters.

    Raises:
        ValueError: hits and clusters differ in number.
    """
    if not hits:
        return Share(0, 0)
    found = mean_of([float(hit) for hit in hits], clusters)
    effective = _effective_n(found)
    return Share(found.n, found.clusters, found.mean, *_wilson(found.mean * effective, effective))


def wilson(successes: int, n: int) -> tuple[float, float]:
    """Wilson's 95 % score interval (1927) of a probability; all of 0 to 1 after no trial.

    Raises:
        ValueError: there are more successes than trials, or fewer than none.
    """
    if not 0 <= successes <= n:
        raise ValueError(f"{successes} successes in {n} trials: successes are counted from 0 to the number of trials")
    if n == 0:
        return 0.0, 1.0
    return _wilson(successes, n)


def _wilson(successes: float, n: float) -> tuple[float, float]:
    from statsmodels.stats.proportion import proportion_confint

    low, high = proportion_confint(successes, n, alpha=1 - CONFIDENCE, method="wilson")
    # the bounds are exact there, but for rounding
    return float(low) if successes else 0.0, float(high) if successes < n else 1.0


def _effective_n(found: Estimate) -> float:
    """The number of independent outcomes that a share counts as: all of them where no two share a cluster."""
    spread = found.mean * (1 - found.mean)
    if found.n == found.clusters or not spread or found.clusters < 2:
        return found.clusters
    return min(max(spread / found.stderr**2, found.clusters), found.n) if found.stderr else found.n


def _codes(names: Sequence[Hashable], n: int) -> list[int]:
    if len(names) != n:
        raise ValueError(f"{n} scores, but {len(names)} clusters: give the cluster of each score")
    known = {name: code for code, name in enumerate(dict.fromkeys(names))}
    return [known[name] for name in names]


def _clustered(scores: Sequence[float], codes: Sequence[int]) -> tuple[float, float, float]:
    from statsmodels.regression.linear_model import OLS  # pulls in pandas: only those who estimate wait for it

    constant = [1.0] * len(scores)
    fit = OLS([float(score) for score in scores], constant).fit(
        cov_type="cluster", cov_kwds={"groups": codes}, use_t=True
    )
    low, high = fit.conf_int(alpha=1 - CONFIDENCE)[0]
    return float(fit.bse[0]), float(low), float(high)


def _without_spread(middle: float, count: int, top: float | None) -> tuple[float, float] | tuple[None, None]:
    """Scores between 0 and top have a mean of at most top x (share above 0), which Wilson bounds; so from above too."""
    if top is None or middle not in (0.0, top):
        return None, None
    low, high = wilson(count if middle else 0, count)
    return top * low, top * high
