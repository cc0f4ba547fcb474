"""Tables of the CGDP study: scores, differences, the gate, the Pareto frontier, beliefs, gaps and prompts.

TABLES has a function for each table, which computes it from the data frames. `readable_table` prepares a table for
printing. An arm is a combination of harness, memory condition, gate and settings; see `cgdp_runs`.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from statistics import stdev
from typing import Any, NamedTuple

import pandas as pd

from certigraph.evaluation.analyses.cgdp_frames import WITH_CHANGE, StudyFrames
from certigraph.evaluation.analyses.cgdp_runs import (
    FREEFORM,
    GAPS,
    LOBOTOMIZED,
    NATIVE,
    OFF,
    ON,
    SHADOW,
    STRUCTURED,
    StudyArm,
)
from certigraph.evaluation.comparison_summary import Difference, compute_difference
from certigraph.evaluation.statistics import (
    STATISTIC_COLUMNS,
    Statistic,
    adjust_p_values,
    average_of,
    compute_by_group,
    ratio_of,
    relative_change,
    share_interval,
)

# Differences between arms, paired over tasks (CGDP, tables 8, 15, 16, 20 to 22).

MEMORY_PAIRS = (
    (STRUCTURED, NATIVE),
    (FREEFORM, NATIVE),
    (STRUCTURED, LOBOTOMIZED),
    (FREEFORM, LOBOTOMIZED),
    (LOBOTOMIZED, NATIVE),
    (FREEFORM, STRUCTURED),
)
"""Pairs of memory conditions that are compared; a difference is the left one minus the right one."""

DIFFERENCE_FIGURES = ("n", "difference", "low", "high", "p", "p_holm", "detectable")
EFFECT_COLUMNS = ["family", "measure", "left", "right", *DIFFERENCE_FIGURES, "words"]


class ArmPair(NamedTuple):
    """Two arms that differ in one respect: `memory`, `gate` or `setting`.

    This respect is the `family` within which p-values are adjusted for multiple tests.
    """

    family: str
    left: StudyArm
    right: StudyArm


def pairs_of(arms: Sequence[StudyArm]) -> Iterator[ArmPair]:
    """Yield the pairs of arms that the study compares: they differ in memory, in a real gate, or in the settings."""
    for left in arms:
        for right in arms:
            if left._replace(memory=right.memory) == right and (left.memory, right.memory) in MEMORY_PAIRS:
                yield ArmPair("memory", left, right)
            elif left._replace(gate=right.gate) == right and left.gate == ON and right.gate != ON:
                yield ArmPair("gate", left, right)
            elif left._replace(variant="") == right and left.variant:
                yield ArmPair("setting", left, right)


def difference_table(episodes: pd.DataFrame, measures: Sequence[str] = ("score", "tokens")) -> pd.DataFrame:
    """Compute the paired differences between arms: one row per pair of arms and measure, left minus right.

    Differences are over the tasks that both arms have, in the unit of the measure. `low` and `high` bound the 95 % BCa
    bootstrap interval over tasks, `p` is from the paired t-test, and `p_holm` is adjusted by Holm's method over all
    pairs of the family in that measure. `detectable` is the smallest difference that the test finds with a power of
    0.8.
    """
    arms = _arms_in(episodes)
    rows = [line for measure in measures for line in _family_rows(episodes, list(pairs_of(arms)), measure)]
    return pd.DataFrame(rows, columns=EFFECT_COLUMNS)


def difference_table_by_hops(episodes: pd.DataFrame) -> pd.DataFrame:
    """Compute the differences in score separately for each number of hops (passages that an answer needs).

    P-values are adjusted within each number of hops.
    """
    return _differences_by(episodes.dropna(subset=["hops"]), "hops")


def difference_table_by_answerable(episodes: pd.DataFrame) -> pd.DataFrame:
    """Compute the differences in score separately for questions with and without an answer (CGDP, table 9).

    The table is empty unless the study has both kinds. P-values are adjusted within each kind.
    """
    both = episodes["answerable"].nunique() > 1
    return _differences_by(episodes if both else episodes.head(0), "answerable")


def _differences_by(episodes: pd.DataFrame, column: str) -> pd.DataFrame:
    tables = [difference_table(rows, ["score"]).assign(**{column: value}) for value, rows in episodes.groupby(column)]
    return pd.concat(tables, ignore_index=True) if tables else pd.DataFrame(columns=[*EFFECT_COLUMNS, column])


def paired_difference(left: Mapping[str, Sequence[float]], right: Mapping[str, Sequence[float]]) -> Difference:
    """Compute the paired difference left minus right over common tasks; `n` is 0 if there is no common task."""
    common = left.keys() & right.keys()
    return compute_difference("left", "right", left if common else {}, right if common else {})


def values_by_task(rows: pd.DataFrame, column: str) -> dict[str, list[float]]:
    """Group the values of a column by task, one value per run."""
    return {str(task): values.astype(float).tolist() for task, values in rows.groupby("task", sort=False)[column]}


def _add_adjusted_p(differences: Sequence[Difference]) -> list[Difference]:
    """Add p-values adjusted by Holm's method to the differences of one family of tests."""
    values = adjust_p_values([difference.p for difference in differences])
    return [difference.model_copy(update={"p_adjusted": p}) for difference, p in zip(differences, values, strict=True)]


def _family_rows(episodes: pd.DataFrame, pairs: Sequence[ArmPair], measure: str) -> Iterator[dict[str, object]]:
    rows = {
        name: values_by_task(family_pairs, measure) for name, family_pairs in episodes.groupby("method", sort=False)
    }
    for family in dict.fromkeys(pair.family for pair in pairs):
        family_pairs = [pair for pair in pairs if pair.family == family]
        differences = _add_adjusted_p(
            [paired_difference(rows[pair.left.name], rows[pair.right.name]) for pair in family_pairs]
        )
        for pair, one in zip(family_pairs, differences, strict=True):
            named = one.model_copy(update={"method": pair.left.name, "against": pair.right.name})
            yield {"family": family, "measure": measure, **_difference_row(named)}


def _difference_row(difference: Difference) -> dict[str, object]:
    plain = difference.model_dump(include={"n", "low", "high", "p", "detectable"})
    named = {"left": difference.method, "right": difference.against, "difference": difference.mean}
    return {**named, **plain, "p_holm": difference.p_adjusted, "words": difference.words}


def _arms_in(episodes: pd.DataFrame) -> list[StudyArm]:
    lines = episodes[["harness", "memory", "gate", "variant"]].drop_duplicates().itertuples(index=False)
    return [StudyArm(*map(str, line)) for line in lines]


# The gate and its counterfactual (CGDP, tables 5, 16, 17 and 19, and the sweep of appendix G).

ARM_KEYS = ["method", "harness", "memory", "variant"]
PERCENT = 100


def gate_table(episodes: pd.DataFrame) -> pd.DataFrame:
    """Compute, for every arm with a shadow gate, what the gate would have changed in score and tokens.

    `natural` is the mean score without the gate, and `blended` that with the gate's answer where it fired. `fire` is
    the share of runs in which the gate fired; `mean_round` and `median_round` are the rounds after which it fired.
    `change` is blended minus natural in points of 100, paired over tasks, with p-values adjusted by Holm's method over
    the arms; `spread` is its standard deviation over runs (CGDP, table 18). `saving` is the percentage of all tokens
    that the gate saves, net of its final answers; a loss is negative.
    """
    shadowed = episodes[episodes["gate"] == SHADOW]
    return _gate_rows(shadowed, ARM_KEYS)


def gate_table_by_memory(episodes: pd.DataFrame) -> pd.DataFrame:
    """Compute what the gate would have changed, as in `gate_table`, for each memory condition, pooled over harnesses.

    The runs of all harnesses on a task count as trials of this task.
    """
    shadowed = episodes[(episodes["gate"] == SHADOW) & (episodes["variant"] == "")]
    return _gate_rows(shadowed, ["memory"])


def fire_round_table(episodes: pd.DataFrame) -> pd.DataFrame:
    """Count, for each arm and search round, the runs in which the gate fired after this round; real gates included."""
    fired = episodes.dropna(subset=["fired"])
    counts = fired.groupby(["method", "fired"], sort=False).size().reset_index(name="runs")
    return counts.sort_values(["method", "fired"], kind="stable", ignore_index=True)


def replay_table(replays: pd.DataFrame) -> pd.DataFrame:
    """Summarise the replay of other gate settings: share of runs in which the gate would have fired, and mean round.

    `saving` is the percentage of tokens saved. It is too high by the cost of the gate's final answers, which a replay
    does not know.
    """
    plain = replays[~replays["setting"].str.endswith(WITH_CHANGE)]
    lines = [
        {"setting": setting, "method": method, "n": len(rows), **_replay_fields(rows)}
        for (setting, method), rows in plain.groupby(["setting", "method"], sort=False)
    ]
    return pd.DataFrame(lines, columns=["setting", "method", "n", *REPLAY_FIGURES])


REPLAY_FIGURES = ("fire", "mean_round", "saving")


def _replay_fields(rows: pd.DataFrame) -> dict[str, object]:
    return {
        "fire": float(rows["fired"].notna().mean()),
        "mean_round": _mean(rows["fired"]),
        "saving": PERCENT * float(rows["saved"].sum()) / max(float(rows["tokens"].sum()), 1.0),
    }


def state_difference_table(replays: pd.DataFrame) -> pd.DataFrame:
    """Compare each setting of the gate with the same one that also checks how much the belief changed (CGDP, G.4).

    `same` is the share of runs in which both fire after the same round, or neither fires. `fire`, `mean_round` and
    `saving` are as in `replay_table`; those of the second setting end in `_changed`. Arms without a belief are left
    out.
    """
    checked = replays[replays["setting"].str.endswith(WITH_CHANGE)]
    plain = replays.set_index(["setting", "method", "run"])
    lines = []
    for (setting, method), rows in checked.groupby(["setting", "method"], sort=False):
        label = str(setting).removesuffix(WITH_CHANGE)
        paired = plain.loc[[(label, method, run) for run in rows["run"]]]
        same = paired["fired"].fillna(0).to_numpy() == rows["fired"].fillna(0).to_numpy()
        changed = {f"{name}_changed": value for name, value in _replay_fields(rows).items()}
        figures = {"n": len(rows), "same": float(same.mean()), **_replay_fields(paired), **changed}
        lines.append({"setting": label, "method": method, **figures})
    changed_figures = (f"{name}_changed" for name in REPLAY_FIGURES)
    return pd.DataFrame(lines, columns=["setting", "method", "n", "same", *REPLAY_FIGURES, *changed_figures])


def saving_of(rows: pd.DataFrame) -> tuple[float, float | None, float | None]:
    """Compute the tokens that the gate saves, in percent of the tokens without it, with a BCa bootstrap over tasks.

    Returns:
        Value, lower and upper bound.
    """
    change = relative_change(values_by_task(rows, "tokens"), values_by_task(rows, "blended_tokens"))
    saving, low, high = (None if percent is None else -percent for percent in (change.percent, change.high, change.low))
    return saving or 0.0, low, high


def _gate_rows(rows: pd.DataFrame, by: Sequence[str]) -> pd.DataFrame:
    groups = [(names, group) for names, group in rows.groupby(list(by), sort=False)]
    changes = _add_adjusted_p(
        [paired_difference(values_by_task(g, "blended_score"), values_by_task(g, "score")) for _, g in groups]
    )
    lines = [
        {**dict(zip(by, names, strict=True)), **_fire_fields(group), **_change_fields(change, group)}
        for (names, group), change in zip(groups, changes, strict=True)
    ]
    return pd.DataFrame(lines, columns=[*by, *GATING_FIGURES])


def _fire_fields(rows: pd.DataFrame) -> dict[str, object]:
    fired = share_interval(rows, rows["fired"].notna())
    return {
        "n": len(rows),
        "fire": fired.value,
        "fire_low": fired.low,
        "fire_high": fired.high,
        "mean_round": _mean(rows["fired"]),
        "median_round": _mean(rows["fired"], lambda known: float(known.median())),
    }


def _change_fields(change: Difference, rows: pd.DataFrame) -> dict[str, object]:
    differences = (rows["blended_score"] - rows["score"]).tolist()
    saving, low, high = saving_of(rows)
    return {
        "natural": float(rows["score"].mean()),
        "blended": float(rows["blended_score"].mean()),
        "change": change.mean,
        "change_low": change.low,
        "change_high": change.high,
        "p": change.p,
        "p_holm": change.p_adjusted,
        "spread": stdev(differences) if len(differences) > 1 else None,
        "saving": saving,
        "saving_low": low,
        "saving_high": high,
    }


def _mean(values: "pd.Series[int]", statistic: Callable[["pd.Series[int]"], float] | None = None) -> float | None:
    known = values.dropna()
    if known.empty:
        return None
    return statistic(known) if statistic else float(known.mean())


GATING_FIGURES = (
    *("n", "fire", "fire_low", "fire_high", "mean_round", "median_round", "natural", "blended"),
    *("change", "change_low", "change_high", "p", "p_holm", "spread", "saving", "saving_low", "saving_high"),
)


# Quality against tokens, and the Pareto frontier of the conditions of each harness (CGDP, figure 2).

PARETO_COLUMNS = ["harness", "variant", "memory", "gate", "n", "tokens", "score", "frontier"]


class ParetoPoint(NamedTuple):
    """Mean tokens and mean score (0 to 100) per run of a memory condition."""

    tokens: float
    score: float


def pareto_table(episodes: pd.DataFrame) -> pd.DataFrame:
    """Compute mean score and tokens of every memory condition without the gate (`gate` off) and with it (on).

    Runs with a shadow gate give both rows; the row with the gate has the scores and tokens with the gate's answer. The
    column `frontier` marks the Pareto frontier: conditions that no other condition of the same harness, variant and
    gate dominates in score and tokens.
    """
    table = pd.DataFrame(list(_pareto_rows(episodes)), columns=PARETO_COLUMNS[:-1])
    best: set[object] = set()
    for _, rows in table.groupby(["harness", "variant", "gate"], sort=False):
        points = [ParetoPoint(tokens, score) for tokens, score in zip(rows["tokens"], rows["score"], strict=True)]
        best |= {index for index, optimal in zip(rows.index, frontier_flags(points), strict=True) if optimal}
    return table.assign(frontier=[index in best for index in table.index])


def frontier_flags(points: Sequence[ParetoPoint]) -> list[bool]:
    """Return, for each point, whether it is on the Pareto frontier.

    A point is not on the frontier if another point is at least as good in score and tokens, and better in one of them.
    """
    return [not any(_dominates(other, point) for other in points) for point in points]


def _dominates(one: ParetoPoint, other: ParetoPoint) -> bool:
    return one.score >= other.score and one.tokens <= other.tokens and one != other


def _pareto_rows(episodes: pd.DataFrame) -> Iterator[tuple[Any, ...]]:
    by = ["harness", "variant", "memory", "gate"]
    for (harness, variant, memory, gate), rows in episodes.groupby(by, sort=False):
        natural = (len(rows), float(rows["tokens"].mean()), float(rows["score"].mean()))
        yield harness, variant, memory, ON if gate == ON else OFF, *natural
        if gate == SHADOW:
            blended = (len(rows), float(rows["blended_tokens"].mean()), float(rows["blended_score"].mean()))
            yield harness, variant, memory, ON, *blended


# All tables by name; each is written as CSV under its name.

ARM_COLUMNS = ["method", "harness", "memory", "gate", "variant"]

THOUSAND = 1_000

Tables = dict[str, pd.DataFrame]


def score_table(frames: StudyFrames) -> pd.DataFrame:
    """Compute the mean score (0 to 100), tokens, calls and search rounds per run of each arm, with 95 % intervals."""
    tops = {"score": 100.0, "tokens": None, "calls": None, "rounds": None}
    return _measure_rows(
        frames.episodes, ARM_COLUMNS, {name: partial(_average, name, top) for name, top in tops.items()}
    )


def hops_table(frames: StudyFrames) -> pd.DataFrame:
    """Compute the mean score of each arm by the number of gold passages that a question needs."""
    known = frames.episodes.dropna(subset=["hops"]).sort_values("hops", kind="stable")
    return compute_by_group(known, [*ARM_COLUMNS, "hops"], partial(_average, "score", 100.0))


def round_table(frames: StudyFrames) -> pd.DataFrame:
    """Compute the mean search rounds of each arm with their interval, and the median (CGDP, table 14)."""
    means = compute_by_group(frames.episodes, ARM_COLUMNS, partial(_average, "rounds", None))
    medians = frames.episodes.groupby("method", sort=False)["rounds"].median().astype(float)
    return means.assign(median=means["method"].map(medians))


def reorganisation_table(frames: StudyFrames) -> pd.DataFrame:
    """Compute what it cost each arm to reorganise beliefs (CGDP, H.4).

    The measures are the share of runs that reorganised a belief, and over these runs the mean calls and tokens of
    reorganisations, their tokens per call, and their share of all tokens.
    """
    applicable = frames.episodes.dropna(subset=["reorganisations"])
    reorganised = applicable[applicable["reorganisations"] > 0]
    parts = (
        _measure_rows(
            applicable, ARM_COLUMNS, {"share of runs": lambda rows: share_interval(rows, rows["reorganisations"] > 0)}
        ),
        _measure_rows(
            reorganised,
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


def artefact_table(frames: StudyFrames) -> pd.DataFrame:
    """Compute the share of runs whose belief has an open question which only says that nothing is known.

    Only structured beliefs have open questions. See CGDP, table 4.
    """
    applicable = frames.episodes.dropna(subset=["artefact"])
    return compute_by_group(applicable, ARM_COLUMNS, lambda rows: share_interval(rows, rows["artefact"].astype(bool)))


def gap_table(frames: StudyFrames) -> pd.DataFrame:
    """Count the runs of each arm that show each gap G1 to G7 (kind of failure).

    `shown` is their number, `n` the number of runs for which the gap can be decided, and `value` the share.
    """
    tables = [_gap_rows(frames.episodes, gap.name) for gap in GAPS]
    return pd.concat(tables, ignore_index=True)[["gap", *ARM_COLUMNS, "shown", *STATISTIC_COLUMNS]]


def prompt_table(frames: StudyFrames) -> pd.DataFrame:
    """Compute the mean prompt tokens of the agent's decisions by search round, over the runs that reached the round."""
    return compute_by_group(frames.rounds, [*ARM_COLUMNS, "round"], partial(_average, "agent", None))


STALE_UPR, SIMILAR_ACTION = 0.3, 0.6
"""Thresholds of the default gate: a round at or below the first finds little new, one from the second on repeats."""


def signal_table(frames: StudyFrames) -> pd.DataFrame:
    """Compute what gates look at, by search round: unique passage rate, and shares of rounds beyond the thresholds.

    `upr` is the mean with its interval, `stale` the share of rounds that find little new, `repeated` the share that
    repeat an action.
    """
    known = frames.rounds.dropna(subset=["upr"])
    means = compute_by_group(known, [*ARM_COLUMNS, "round"], partial(_average, "upr", None))
    flags = known.assign(stale=known["upr"] <= STALE_UPR, repeated=known["jaccard"] >= SIMILAR_ACTION)
    shares = flags.groupby([*ARM_COLUMNS, "round"], sort=False, as_index=False)[["stale", "repeated"]].mean()
    return means.merge(shares, on=[*ARM_COLUMNS, "round"], how="left") if len(means) else means


TABLES: dict[str, Callable[[StudyFrames], pd.DataFrame]] = {
    "scores": score_table,
    "differences": lambda frames: difference_table(frames.episodes),
    "gate": lambda frames: gate_table(frames.episodes),
    "gate_by_memory": lambda frames: gate_table_by_memory(frames.episodes),
    "fire_rounds": lambda frames: fire_round_table(frames.episodes),
    "gate_replay": lambda frames: replay_table(frames.replays),
    "state_difference": lambda frames: state_difference_table(frames.replays),
    "reorganisation": reorganisation_table,
    "artefacts": artefact_table,
    "hops": hops_table,
    "differences_by_hops": lambda frames: difference_table_by_hops(frames.episodes),
    "differences_by_answerable": lambda frames: difference_table_by_answerable(frames.episodes),
    "rounds_of_runs": round_table,
    "signals": signal_table,
    "gaps": gap_table,
    "prompts": prompt_table,
    "pareto": lambda frames: pareto_table(frames.episodes),
}


def tables_of(frames: StudyFrames) -> Tables:
    """Compute all tables of the study, by name; a table without data has no rows."""
    return {name: table(frames) for name, table in TABLES.items()}


def format_cell(value: Any) -> str:
    """Format a table value as text.

    Floats get three significant digits, or none after the point from a thousand on; a missing value is `-`, and a truth
    value yes or no.
    """
    if isinstance(value, str):
        return value
    if value is True or value is False:
        return "yes" if value else "no"
    if pd.isna(value):
        return "-"
    if not isinstance(value, float):
        return f"{value:,}"
    return f"{value:,.0f}" if abs(value) >= THOUSAND else f"{value:.3g}"


def _measure_rows(
    rows: pd.DataFrame, by: list[str], measures: dict[str, Callable[[pd.DataFrame], Statistic]]
) -> pd.DataFrame:
    tables = [
        compute_by_group(rows, by, measure_function).assign(measure=measure)
        for measure, measure_function in measures.items()
    ]
    return pd.concat(tables, ignore_index=True)[[*by, "measure", *STATISTIC_COLUMNS]]


def _gap_rows(episodes: pd.DataFrame, name: str) -> pd.DataFrame:
    decidable = episodes.dropna(subset=[name])
    lines = compute_by_group(decidable, ARM_COLUMNS, lambda rows: share_interval(rows, rows[name].astype(bool)))
    return lines.assign(gap=name, shown=(lines["n"] * lines["value"]).astype(float).round().astype("Int64"))


def _average(column: str, top: float | None, rows: pd.DataFrame) -> Statistic:
    return average_of(rows, rows[column], top=top)


def _ratio(above: str, below: str, rows: pd.DataFrame) -> Statistic:
    return ratio_of(rows, rows[above], rows[below])


# Tables for people: measures and gaps in columns, without redundant columns.


def readable_table(name: str, table: pd.DataFrame) -> pd.DataFrame:
    """Prepare the table with this name for printing; some columns are joined or left out, which the CSV file has."""
    if table.empty:
        return table
    pivoted = PIVOTS[name](table) if name in PIVOTS else _join_bounds(table)
    shortened = pivoted.drop(columns=ARM_COLUMNS[1:], errors="ignore") if "method" in pivoted else pivoted
    return shortened.loc[:, [column for column in shortened.columns if not (shortened[column] == "").all()]]


def pivot_by_arm(scores: pd.DataFrame) -> pd.DataFrame:
    """Convert the table of scores to one row per arm of the study, with the measures in columns."""
    texts = scores.assign(text=[_interval_of_row(line) for line in scores.itertuples(index=False)])
    return _pivot(texts, ["method", "n"], "measure")


def pivot_by_gap(gaps: pd.DataFrame) -> pd.DataFrame:
    """Convert the table of gaps (kinds of failure) to one row per arm of the study, with a column for each gap.

    Cells have the number of runs that show the gap / the number of runs for which it can be decided.
    """
    texts = gaps.assign(text=[f"{line.shown}/{line.n}" for line in gaps.itertuples(index=False)])
    return _pivot(texts, ["method"], "gap")


BOUNDED_FIGURES = (
    *((figure, "low", "high") for figure in ("value", "difference")),
    *((figure, f"{figure}_low", f"{figure}_high") for figure in ("fire", "change", "saving")),
)
"""Columns with a value, each with the two columns that bound its interval."""

PIVOTS: Mapping[str, Callable[[pd.DataFrame], pd.DataFrame]] = {"scores": pivot_by_arm, "gaps": pivot_by_gap}


def _join_bounds(table: pd.DataFrame) -> pd.DataFrame:
    """Join each value and the bounds of its interval in one column."""
    for figure, low, high in BOUNDED_FIGURES:
        if {figure, low, high} <= set(table.columns):
            texts = list(map(_format_interval, table[figure], table[low], table[high]))
            table = table.assign(**{figure: texts}).drop(columns=[low, high])
    return table


def _pivot(texts: pd.DataFrame, lines: list[str], columns: str) -> pd.DataFrame:
    return texts.pivot_table("text", lines, columns, aggfunc="first", sort=False).reset_index()


def _interval_of_row(line: Any) -> str:
    return _format_interval(line.value, line.low, line.high)


def _format_interval(value: Any, low: Any, high: Any) -> str:
    return format_cell(value) + ("" if pd.isna(low) else f" ({format_cell(low)} to {format_cell(high)})")
