"""Shares, means and ratios with 95 % intervals that know which rows share a task."""

from collections.abc import Callable, Sequence
from math import isnan, nan
from typing import Any, NamedTuple

import pandas as pd

from certigraph.evaluation import statistics
from certigraph.evaluation.statistics import mean_of

COLUMNS = ["n", "tasks", "value", "low", "high"]


class Told(NamedTuple):
    """A figure over `n` rows of so many tasks, and its interval; NaN where there are too few to tell."""

    n: int
    tasks: int
    value: float
    low: float = nan
    high: float = nan


NOTHING = Told(0, 0, nan)


def share_of(rows: pd.DataFrame, hits: "pd.Series[bool]") -> Told:
    """The share of rows that hit, with Wilson's interval for as many independent rows as these are worth.

    Where rows share tasks that is the number that would have the clustered standard error (the design effect), at
    least the number of tasks.
    """
    return Told(*statistics.share_of(hits.astype(bool).tolist(), _tasks(rows)))


def average_of(rows: pd.DataFrame, values: "pd.Series[Any]", top: float | None = None) -> Told:
    """The mean of the values that are there, none of them below 0; `top` is the highest possible one."""
    there = values.notna()
    if not there.any():
        return NOTHING
    tasks = _tasks(rows[there])
    told = mean_of(values[there].astype(float).tolist(), tasks, top=top)
    return Told(told.n, told.clusters, told.mean, _amount(told.low), _number(told.high))


def ratio_of(rows: pd.DataFrame, top: "pd.Series[Any]", bottom: "pd.Series[Any]") -> Told:
    """Sum by sum of amounts, as in tokens per predicate; the interval is that of the linearised ratio, cut at 0."""
    above, below = top.to_numpy(dtype=float), bottom.to_numpy(dtype=float)
    if rows.empty or not below.sum():
        return NOTHING._replace(n=len(rows))
    value = float(above.sum() / below.sum())
    told = mean_of(((above - value * below) / below.mean()).tolist(), _tasks(rows))
    return Told(told.n, told.clusters, value, _amount(value + _number(told.low)), value + _number(told.high))


def grouped(rows: pd.DataFrame, by: Sequence[str], told: Callable[[pd.DataFrame], Told]) -> pd.DataFrame:
    """One line a group, in the order in which groups appear: their names, then n, tasks, value, low and high."""
    groups = rows.groupby(list(by), sort=False, dropna=False)
    lines = [(*name, *told(group)) for name, group in groups]
    return pd.DataFrame(lines, columns=[*by, *COLUMNS])


def shares(rows: pd.DataFrame, column: str) -> pd.DataFrame:
    """What part of each method's rows has each value of a column; of one method the parts add up to 1."""
    values = rows[column].drop_duplicates().sort_values()
    told = [
        (method, value, *share_of(group, group[column] == value))
        for method, group in rows.groupby("method", sort=False)
        for value in values
    ]
    return pd.DataFrame(told, columns=["method", column, *COLUMNS])


def _tasks(rows: pd.DataFrame) -> list[str]:
    return (rows["benchmark"] + " " + rows["task"]).tolist()


def _amount(low: float | None) -> float:
    """A lower bound of what cannot be negative."""
    return _number(low) if low is None or isnan(low) else max(0.0, float(low))


def _number(value: float | None) -> float:
    return nan if value is None else float(value)
