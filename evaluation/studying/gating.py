"""What the gate did, and what it would have changed (CGDP, tables 5, 16, 17 and 19, and the sweep of appendix G)."""

from collections.abc import Callable, Sequence
from statistics import stdev

import pandas as pd

from certigraph.evaluation.anatomy.intervals import share_of
from certigraph.evaluation.comparing.summary import Difference
from certigraph.evaluation.statistics import changed
from certigraph.evaluation.studying.arms import SHADOW
from certigraph.evaluation.studying.effects import adjusted, by_task, difference

ARM = ["method", "harness", "memory", "variant"]
PERCENT = 100


def gated(episodes: pd.DataFrame) -> pd.DataFrame:
    """The blended counterfactual of every arm with a shadow gate: blended minus natural, paired over tasks.

    `fire` is the share of runs in which the gate fired, `mean_round` and `median_round` after how many rounds;
    `change` is in points of 100 with p by Holm over the arms, `spread` its standard deviation over runs (table 18);
    `saving` is the percentage of all natural tokens that the gate saves net of its final answers, below 0 a loss.
    """
    shadowed = episodes[episodes["gate"] == SHADOW]
    return _told(shadowed, ARM)


def gated_by_memory(episodes: pd.DataFrame) -> pd.DataFrame:
    """The same pooled over harnesses: their runs of a task count as its trials."""
    shadowed = episodes[(episodes["gate"] == SHADOW) & (episodes["variant"] == "")]
    return _told(shadowed, ["memory"])


def fire_rounds(episodes: pd.DataFrame) -> pd.DataFrame:
    """How many runs of each arm fired after each round, real gates included."""
    fired = episodes.dropna(subset=["fired"])
    counts = fired.groupby(["method", "fired"], sort=False).size().reset_index(name="runs")
    return counts.sort_values(["method", "fired"], kind="stable", ignore_index=True)


def replayed(replays: pd.DataFrame) -> pd.DataFrame:
    """Every setting replayed on recorded rounds, without answers: share fired, mean round, tokens not spent in percent.

    `saving` leaves out what the final answer at the gate costs: the least that an answer takes is still to be paid.
    """
    lines = [
        {
            "setting": setting,
            "method": method,
            "n": len(rows),
            "fire": float(rows["fired"].notna().mean()),
            "mean_round": _mean(rows["fired"]),
            "saving": PERCENT * float(rows["saved"].sum()) / max(float(rows["tokens"].sum()), 1.0),
        }
        for (setting, method), rows in replays.groupby(["setting", "method"], sort=False)
    ]
    return pd.DataFrame(lines, columns=["setting", "method", "n", "fire", "mean_round", "saving"])


def saving_of(rows: pd.DataFrame) -> tuple[float, float | None, float | None]:
    """Net tokens saved in percent of the natural ones, sum by sum, with the bootstrap interval over tasks."""
    found = changed(by_task(rows, "tokens"), by_task(rows, "blended_tokens"))
    saving, low, high = (None if percent is None else -percent for percent in (found.percent, found.high, found.low))
    return saving or 0.0, low, high


def _told(rows: pd.DataFrame, by: Sequence[str]) -> pd.DataFrame:
    groups = [(names, group) for names, group in rows.groupby(list(by), sort=False)]
    changes = adjusted([difference(by_task(g, "blended_score"), by_task(g, "score")) for _, g in groups])
    lines = [
        {**dict(zip(by, names, strict=True)), **_firing(group), **_changed(change, group)}
        for (names, group), change in zip(groups, changes, strict=True)
    ]
    return pd.DataFrame(lines, columns=[*by, *FIGURES])


def _firing(rows: pd.DataFrame) -> dict[str, object]:
    fired = share_of(rows, rows["fired"].notna())
    return {
        "n": len(rows),
        "fire": fired.value,
        "fire_low": fired.low,
        "fire_high": fired.high,
        "mean_round": _mean(rows["fired"]),
        "median_round": _mean(rows["fired"], lambda known: float(known.median())),
    }


def _changed(change: Difference, rows: pd.DataFrame) -> dict[str, object]:
    apart = (rows["blended_score"] - rows["score"]).tolist()
    saving, low, high = saving_of(rows)
    return {
        "natural": float(rows["score"].mean()),
        "blended": float(rows["blended_score"].mean()),
        "change": change.mean,
        "change_low": change.low,
        "change_high": change.high,
        "p": change.p,
        "p_holm": change.p_adjusted,
        "spread": stdev(apart) if len(apart) > 1 else None,
        "saving": saving,
        "saving_low": low,
        "saving_high": high,
    }


def _mean(values: "pd.Series[int]", told: Callable[["pd.Series[int]"], float] | None = None) -> float | None:
    known = values.dropna()
    if known.empty:
        return None
    return told(known) if told else float(known.mean())


FIGURES = (
    *("n", "fire", "fire_low", "fire_high", "mean_round", "median_round", "natural", "blended"),
    *("change", "change_low", "change_high", "p", "p_holm", "spread", "saving", "saving_low", "saving_high"),
)
