"""Tables of CGDP's study."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from statistics import stdev
from typing import Any, NamedTuple

import pandas as pd

from certigraph.evaluation.analyses.cgdp_frames import Frames
from certigraph.evaluation.analyses.cgdp_runs import (
    FREEFORM,
    GAPS,
    LOBOTOMIZED,
    NATIVE,
    OFF,
    ON,
    SHADOW,
    STRUCTURED,
    Arm,
)
from certigraph.evaluation.comparison_summary import Difference, difference_of
from certigraph.evaluation.statistics import COLUMNS, Told, average_of, changed, grouped, holm, ratio_of, share_interval

# What differs between arms, paired over tasks (CGDP, tables 8, 15, 16, 20 to 22).

MEMORY_PAIRS = (
    (STRUCTURED, NATIVE),
    (FREEFORM, NATIVE),
    (STRUCTURED, LOBOTOMIZED),
    (FREEFORM, LOBOTOMIZED),
    (LOBOTOMIZED, NATIVE),
    (FREEFORM, STRUCTURED),
)
"""Which condition is set against which."""

FIGURES = ("n", "difference", "low", "high", "p", "p_holm", "detectable")
EFFECT_COLUMNS = ["family", "measure", "left", "right", *FIGURES, "words"]


class Pair(NamedTuple):
    """Two arms that differ in one thing, which names the family of tests that they belong to."""

    family: str
    left: Arm
    right: Arm


def pairs_of(arms: Sequence[Arm]) -> Iterator[Pair]:
    """All pairs of arms that the study compares: by memory, by a real gate, by an ablation's setting."""
    for left in arms:
        for right in arms:
            if left._replace(memory=right.memory) == right and (left.memory, right.memory) in MEMORY_PAIRS:
                yield Pair("memory", left, right)
            elif left._replace(gate=right.gate) == right and left.gate == ON and right.gate != ON:
                yield Pair("gate", left, right)
            elif left._replace(variant="") == right and left.variant:
                yield Pair("setting", left, right)


def effects(episodes: pd.DataFrame, measures: Sequence[str] = ("score", "tokens")) -> pd.DataFrame:
    """A line a pair and measure: left minus right over the tasks of both, in the measure's unit.

    `p` is the paired t-test's, `p_holm` Holm's over all pairs of the family in that measure; `low` and `high` bound
    the 95 % interval, a bootstrap's over tasks; `detectable` is the least difference so many tasks would show.
    """
    arms = _arms(episodes)
    found = [line for measure in measures for line in _family_wise(episodes, list(pairs_of(arms)), measure)]
    return pd.DataFrame(found, columns=EFFECT_COLUMNS)


def effects_by_hops(episodes: pd.DataFrame) -> pd.DataFrame:
    """The same of scores for questions of each number of hops; a family is that of one number."""
    by_hops = episodes.dropna(subset=["hops"]).groupby("hops")
    found = [effects(rows, ["score"]).assign(hops=hops) for hops, rows in by_hops]
    return pd.concat(found, ignore_index=True) if found else pd.DataFrame(columns=[*EFFECT_COLUMNS, "hops"])


def difference(left: Mapping[str, Sequence[float]], right: Mapping[str, Sequence[float]]) -> Difference:
    """Left minus right over the tasks of both; of no common task, one over none."""
    common = left.keys() & right.keys()
    return difference_of("left", "right", left if common else {}, right if common else {})


def by_task(rows: pd.DataFrame, column: str) -> dict[str, list[float]]:
    """The values of each task's runs."""
    return {str(task): values.astype(float).tolist() for task, values in rows.groupby("task", sort=False)[column]}


def adjusted(found: Sequence[Difference]) -> list[Difference]:
    """One family of tests: each with its p by Holm's rule."""
    values = holm([difference.p for difference in found])
    return [one.model_copy(update={"p_adjusted": p}) for one, p in zip(found, values, strict=True)]


def _family_wise(episodes: pd.DataFrame, pairs: Sequence[Pair], measure: str) -> Iterator[dict[str, object]]:
    rows = {name: by_task(mine, measure) for name, mine in episodes.groupby("method", sort=False)}
    for family in dict.fromkeys(pair.family for pair in pairs):
        mine = [pair for pair in pairs if pair.family == family]
        found = adjusted([difference(rows[pair.left.name], rows[pair.right.name]) for pair in mine])
        for pair, one in zip(mine, found, strict=True):
            named = one.model_copy(update={"method": pair.left.name, "against": pair.right.name})
            yield {"family": family, "measure": measure, **_told(named)}


def _told(found: Difference) -> dict[str, object]:
    plain = found.model_dump(include={"n", "low", "high", "p", "detectable"})
    named = {"left": found.method, "right": found.against, "difference": found.mean}
    return {**named, **plain, "p_holm": found.p_adjusted, "words": found.words}


def _arms(episodes: pd.DataFrame) -> list[Arm]:
    lines = episodes[["harness", "memory", "gate", "variant"]].drop_duplicates().itertuples(index=False)
    return [Arm(*map(str, line)) for line in lines]


# What the gate did, and what it would have changed (CGDP, tables 5, 16, 17 and 19, and the sweep of appendix G).

ARM = ["method", "harness", "memory", "variant"]
PERCENT = 100


def gated(episodes: pd.DataFrame) -> pd.DataFrame:
    """The blended counterfactual of every arm with a shadow gate: blended minus natural, paired over tasks.

    `fire` is the share of runs in which the gate fired, `mean_round` and `median_round` after how many rounds;
    `change` is in points of 100 with p by Holm over the arms, `spread` its standard deviation over runs (table 18);
    `saving` is the percentage of all natural tokens that the gate saves net of its final answers, below 0 a loss.
    """
    shadowed = episodes[episodes["gate"] == SHADOW]
    return _gating_row(shadowed, ARM)


def gated_by_memory(episodes: pd.DataFrame) -> pd.DataFrame:
    """The same pooled over harnesses: their runs of a task count as its trials."""
    shadowed = episodes[(episodes["gate"] == SHADOW) & (episodes["variant"] == "")]
    return _gating_row(shadowed, ["memory"])


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


def _gating_row(rows: pd.DataFrame, by: Sequence[str]) -> pd.DataFrame:
    groups = [(names, group) for names, group in rows.groupby(list(by), sort=False)]
    changes = adjusted([difference(by_task(g, "blended_score"), by_task(g, "score")) for _, g in groups])
    lines = [
        {**dict(zip(by, names, strict=True)), **_firing(group), **_changed(change, group)}
        for (names, group), change in zip(groups, changes, strict=True)
    ]
    return pd.DataFrame(lines, columns=[*by, *GATING_FIGURES])


def _firing(rows: pd.DataFrame) -> dict[str, object]:
    fired = share_interval(rows, rows["fired"].notna())
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


GATING_FIGURES = (
    *("n", "fire", "fire_low", "fire_high", "mean_round", "median_round", "natural", "blended"),
    *("change", "change_low", "change_high", "p", "p_holm", "spread", "saving", "saving_low", "saving_high"),
)


# Quality against tokens, and which conditions of a harness no other one beats in both (CGDP, figure 2).

PARETO_COLUMNS = ["harness", "variant", "memory", "gate", "n", "tokens", "score", "frontier"]


class Point(NamedTuple):
    """A condition: mean tokens and mean score (0 to 100) a run."""

    tokens: float
    score: float


def pareto(episodes: pd.DataFrame) -> pd.DataFrame:
    """A line a condition, natural (`gate` off) and gated; of a shadow both, the gated one blended.

    `frontier` marks those that no other condition beats in score or tokens without losing in the other, of the same
    harness and variant; natural and gated ones have a frontier each.
    """
    found = pd.DataFrame(list(_points(episodes)), columns=PARETO_COLUMNS[:-1])
    best: set[object] = set()
    for _, rows in found.groupby(["harness", "variant", "gate"], sort=False):
        points = [Point(tokens, score) for tokens, score in zip(rows["tokens"], rows["score"], strict=True)]
        best |= {at for at, kept in zip(rows.index, frontier(points), strict=True) if kept}
    return found.assign(frontier=[at in best for at in found.index])


def frontier(points: Sequence[Point]) -> list[bool]:
    """Which points are beaten by none: at least as good in both and better in one."""
    return [not any(_beats(other, point) for other in points) for point in points]


def _beats(one: Point, other: Point) -> bool:
    return one.score >= other.score and one.tokens <= other.tokens and one != other


def _points(episodes: pd.DataFrame) -> Iterator[tuple[Any, ...]]:
    by = ["harness", "variant", "memory", "gate"]
    for (harness, variant, memory, gate), rows in episodes.groupby(by, sort=False):
        natural = (len(rows), float(rows["tokens"].mean()), float(rows["score"].mean()))
        yield harness, variant, memory, ON if gate == ON else OFF, *natural
        if gate == SHADOW:
            blended = (len(rows), float(rows["blended_tokens"].mean()), float(rows["blended_score"].mean()))
            yield harness, variant, memory, ON, *blended


# Every table of the study by name: pure functions of the frames, each written as CSV under its name.

ARM_COLUMNS = ["method", "harness", "memory", "gate", "variant"]

THOUSAND = 1_000

Tables = dict[str, pd.DataFrame]


def scores(frames: Frames) -> pd.DataFrame:
    """Mean `score` (0 to 100), `tokens`, `calls` and `rounds` a run of each arm, with 95 % intervals."""
    tops = {"score": 100.0, "tokens": None, "calls": None, "rounds": None}
    return _each(frames.episodes, ARM_COLUMNS, {name: partial(_average, name, top) for name, top in tops.items()})


def hops(frames: Frames) -> pd.DataFrame:
    """Mean score of each arm by the number of gold passages that a question takes."""
    known = frames.episodes.dropna(subset=["hops"]).sort_values("hops", kind="stable")
    return grouped(known, [*ARM_COLUMNS, "hops"], partial(_average, "score", 100.0))


def reorganisation(frames: Frames) -> pd.DataFrame:
    """What curating the belief takes (CGDP, H.4): of which part of runs, and of those that did, calls and tokens.

    `share of tokens` is of all tokens of the runs that reorganised, `tokens a call` of the reorganisations' calls.
    """
    kept = frames.episodes.dropna(subset=["reorganisations"])
    did = kept[kept["reorganisations"] > 0]
    parts = (
        _each(kept, ARM_COLUMNS, {"share of runs": lambda rows: share_interval(rows, rows["reorganisations"] > 0)}),
        _each(
            did,
            ARM_COLUMNS,
            {
                "calls": partial(_average, "reorganisation_calls", None),
                "tokens": partial(_average, "reorganisation_tokens", None),
                "tokens a call": partial(_ratio, "reorganisation_tokens", "reorganisation_calls"),
                "share of tokens": partial(_ratio, "reorganisation_tokens", "tokens"),
            },
        ),
    )
    return pd.concat(parts, ignore_index=True)


def artefacts(frames: Frames) -> pd.DataFrame:
    """Share of runs in which an open question of a structured belief says that nothing is known (CGDP, table 4)."""
    told = frames.episodes.dropna(subset=["artefact"])
    return grouped(told, ARM_COLUMNS, lambda rows: share_interval(rows, rows["artefact"].astype(bool)))


def gaps(frames: Frames) -> pd.DataFrame:
    """Runs of each arm that show each gap: how many (`shown`), of how many in which it can be told, and the share."""
    found = [_gap(frames.episodes, gap.name) for gap in GAPS]
    return pd.concat(found, ignore_index=True)[["gap", *ARM_COLUMNS, "shown", *COLUMNS]]


def prompts(frames: Frames) -> pd.DataFrame:
    """Prompt tokens of the agent's own question by round, over the runs that came so far."""
    return grouped(frames.rounds, [*ARM_COLUMNS, "round"], partial(_average, "agent", None))


TABLES: dict[str, Callable[[Frames], pd.DataFrame]] = {
    "scores": scores,
    "differences": lambda frames: effects(frames.episodes),
    "gate": lambda frames: gated(frames.episodes),
    "gate_by_memory": lambda frames: gated_by_memory(frames.episodes),
    "fire_rounds": lambda frames: fire_rounds(frames.episodes),
    "gate_replay": lambda frames: replayed(frames.replays),
    "reorganisation": reorganisation,
    "artefacts": artefacts,
    "hops": hops,
    "differences_by_hops": lambda frames: effects_by_hops(frames.episodes),
    "gaps": gaps,
    "prompts": prompts,
    "pareto": lambda frames: pareto(frames.episodes),
}


def tables_of(frames: Frames) -> Tables:
    """All tables; one without a line where there is nothing to tell yet."""
    return {name: table(frames) for name, table in TABLES.items()}


def cell(value: Any) -> str:
    """A figure as a table shows it: three digits, thousands whole, `-` where there is none; yes and no in words."""
    if isinstance(value, str):
        return value
    if value is True or value is False:
        return "yes" if value else "no"
    if pd.isna(value):
        return "-"
    if not isinstance(value, float):
        return f"{value:,}"
    return f"{value:,.0f}" if abs(value) >= THOUSAND else f"{value:.3g}"


def _each(rows: pd.DataFrame, by: list[str], measures: dict[str, Callable[[pd.DataFrame], Told]]) -> pd.DataFrame:
    found = [grouped(rows, by, told).assign(measure=measure) for measure, told in measures.items()]
    return pd.concat(found, ignore_index=True)[[*by, "measure", *COLUMNS]]


def _gap(episodes: pd.DataFrame, name: str) -> pd.DataFrame:
    told = episodes.dropna(subset=[name])
    lines = grouped(told, ARM_COLUMNS, lambda rows: share_interval(rows, rows[name].astype(bool)))
    return lines.assign(gap=name, shown=(lines["n"] * lines["value"]).astype(float).round().astype("Int64"))


def _average(column: str, top: float | None, rows: pd.DataFrame) -> Told:
    return average_of(rows, rows[column], top=top)


def _ratio(above: str, below: str, rows: pd.DataFrame) -> Told:
    return ratio_of(rows, rows[above], rows[below])


# The study's tables as people read them: measures and gaps side by side, and no column that says a thing twice.


def readable(name: str, table: pd.DataFrame) -> pd.DataFrame:
    """A table with text and figures for a reader; the CSV file of that name has all its columns."""
    if table.empty:
        return table
    beside = BESIDE[name](table) if name in BESIDE else _bounded(table)
    told = beside.drop(columns=ARM_COLUMNS[1:], errors="ignore") if "method" in beside else beside
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
