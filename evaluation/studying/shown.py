"""The study's tables as people read them: measures and gaps side by side, and no column that says a thing twice."""

from collections.abc import Callable, Mapping
from typing import Any

import pandas as pd

from certigraph.evaluation.studying.tables import ARM, cell


def readable(name: str, table: pd.DataFrame) -> pd.DataFrame:
    """A table with text and figures for a reader; the CSV file of that name has all its columns."""
    if table.empty:
        return table
    beside = BESIDE[name](table) if name in BESIDE else _bounded(table)
    told = beside.drop(columns=ARM[1:], errors="ignore") if "method" in beside else beside
    return told.loc[:, [column for column in told.columns if not (told[column] == "").all()]]


def by_arm(scores: pd.DataFrame) -> pd.DataFrame:
    """A line an arm, its measures side by side."""
    told = scores.assign(told=[_interval(line) for line in scores.itertuples(index=False)])
    return _beside(told, ["method", "n"], "measure")


def by_gap(gaps: pd.DataFrame) -> pd.DataFrame:
    """A line an arm, the gaps side by side: runs that show it, of those that can tell."""
    told = gaps.assign(told=[f"{line.shown}/{line.n}" for line in gaps.itertuples(index=False)])
    return _beside(told, ["method"], "gap")


BOUNDED = (
    *((figure, "low", "high") for figure in ("value", "difference")),
    *((figure, f"{figure}_low", f"{figure}_high") for figure in ("fire", "change", "saving")),
)
"""Figures with the bounds of their intervals."""

BESIDE: Mapping[str, Callable[[pd.DataFrame], pd.DataFrame]] = {"scores": by_arm, "gaps": by_gap}


def _bounded(table: pd.DataFrame) -> pd.DataFrame:
    """Figures and their bounds in one column."""
    for figure, low, high in BOUNDED:
        if {figure, low, high} <= set(table.columns):
            told = list(map(_between, table[figure], table[low], table[high]))
            table = table.assign(**{figure: told}).drop(columns=[low, high])
    return table


def _beside(told: pd.DataFrame, lines: list[str], columns: str) -> pd.DataFrame:
    return told.pivot_table("told", lines, columns, aggfunc="first", sort=False).reset_index()


def _interval(line: Any) -> str:
    return _between(line.value, line.low, line.high)


def _between(value: Any, low: Any, high: Any) -> str:
    return cell(value) + ("" if pd.isna(low) else f" ({cell(low)} to {cell(high)})")
