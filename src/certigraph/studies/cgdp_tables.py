"""Tables of the CGDP study: scores, differences, the gate, the Pareto frontier, beliefs, gaps and prompts.

`study_frames` reads the study's runs to data frames, from which `tables_of` computes all tables. `readable_table`
prepares a table for reading.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import pandas as pd
from langgraph.runtime import Runtime

from certigraph.adapters.protocols import Context, Operator
from certigraph.evaluation.comparison_summary import Difference, adjust_family, compute_difference
from certigraph.evaluation.frame_rows import CLOSING_NODES, GATE_NODE, FrameRow, RecordedRun
from certigraph.evaluation.frames import KEY_COLUMNS, ColumnTypes, Frames, build_frame, frames_of
from certigraph.evaluation.statistics import (
    STATISTIC_COLUMNS,
    Measure,
    ScoresByTask,
    compute_by_group,
    measure_table,
    relative_change,
    share_interval,
)
from certigraph.graphs.catalogue import OPERATORS
from certigraph.nodes.gates import MAX_CHANGE, gate_grid
from certigraph.nodes.operators import call_operator
from certigraph.nodes.slots import build_operator
from certigraph.runtime.run import run_blocking
from certigraph.state.run import Stagnation
from certigraph.studies.cgdp_gaps import GAPS, belief_fields
from certigraph.studies.cgdp_runs import FREEFORM, LOBOTOMIZED, NATIVE, OFF, ON, SHADOW, STRUCTURED, StudyArm, StudyRun
from certigraph.studies.tables import join_intervals

# The frames, from which all tables of the study are computed.

ARM_COLUMNS = ["method", "harness", "memory", "gate", "variant"]
RUN_COLUMNS: ColumnTypes = {**dict.fromkeys(ARM_COLUMNS, "str"), **KEY_COLUMNS}
EPISODE_COLUMNS: ColumnTypes = {
    **RUN_COLUMNS,
    "ending": "str",
    **dict.fromkeys(("score", "benchmark_score"), "float64"),
    **dict.fromkeys(("rounds", "calls", "tokens", "prompt_tokens", "fired"), "Int64"),
    "blended_score": "float64",
    **dict.fromkeys(("blended_tokens", "answer_tokens"), "Int64"),
    **dict.fromkeys(("reorganisations", "reorganisation_calls", "reorganisation_tokens"), "Int64"),
    "artefact": "boolean",
    "hops": "Int64",
    "answerable": "boolean",
    **dict.fromkeys(GAPS, "boolean"),
}
ROUND_COLUMNS: ColumnTypes = {
    **RUN_COLUMNS,
    **dict.fromkeys(("round", "agent", "memory_node", "tokens"), "Int64"),
    **dict.fromkeys(("jaccard", "upr", "change"), "float64"),
}
REPLAY_COLUMNS: ColumnTypes = {**RUN_COLUMNS, "setting": "str", **dict.fromkeys(("fired", "saved", "tokens"), "Int64")}


class StudyFrames(NamedTuple):
    """Three data frames about finished runs; each starts with the columns of RUN_COLUMNS.

    episodes: one row per run. `score` is that of the recorded run, and `blended_score` the score if a shadow gate had
        stopped it, both from 0 to 100 and by the rubric of the study; `benchmark_score` is the benchmark's own.
        `tokens`, `calls` and `prompt_tokens` leave out the requests of a shadow gate; `blended_tokens` are those until
        it would have stopped the run, with the `answer_tokens` of the answer that it requested. `fired` is the search
        round, from 1, after which the gate fired, if it did; `rounds` is their number. `reorganisations` to `artefact`
        are described at `belief_fields`. `answerable` is whether the corpus has an answer.
    rounds: one row per search round; see `evaluation.frames.Frames`.
    replays: one row per run that no gate stopped and per other setting of the gate: the round after which the setting
        would have fired, and the tokens of all that came later (`saved`), from which the answer that the gate would
        have requested is not subtracted. A label that ends in WITH_CHANGE: the setting also checks how much the belief
        changed (CGDP, appendix G.4).
    """

    episodes: pd.DataFrame
    rounds: pd.DataFrame
    replays: pd.DataFrame


def study_frames(runs: Iterable[StudyRun], gates: Mapping[str, Operator]) -> StudyFrames:
    """Build the data frames from runs, one run at a time; `gates` are the gate settings to replay, by name."""
    judged: list[FrameRow] = []
    replayed: list[FrameRow] = []

    def judge_runs() -> Iterator[RecordedRun]:
        for seen in runs:
            where = {"benchmark": seen.task.benchmark, "task": seen.task.id, "trial": seen.trial, "run": seen.run}
            key = {"method": seen.arm.name, **seen.arm._asdict(), **where}
            judged.append({**key, **_judged_fields(seen), **belief_fields(seen)})
            fired = run_blocking(replay_gates(seen, gates))
            replayed.extend({**key, "setting": name, "fired": number} for name, number in fired.items())
            yield RecordedRun(seen.arm.name, seen.task.id, seen.trial, seen.trajectory)

    frames = frames_of(judge_runs())
    episodes, replays = build_frame(judged, EPISODE_COLUMNS), build_frame(replayed, REPLAY_COLUMNS)
    episodes = _add_columns(episodes, _costs_of(frames, episodes), EPISODE_COLUMNS)
    rounds = _add_columns(frames.rounds, episodes.set_index("run")[ARM_COLUMNS[1:]], ROUND_COLUMNS)
    replays = _add_columns(replays, episodes.set_index("run")[["tokens"]], REPLAY_COLUMNS)
    return StudyFrames(episodes, rounds, replays.assign(saved=_saved_tokens(frames, replays)))


def _add_columns(rows: pd.DataFrame, of_runs: pd.DataFrame, columns: ColumnTypes) -> pd.DataFrame:
    # Columns about runs, whose index is the id of the run.
    added = rows.assign(**{str(name): rows["run"].map(of_runs[name]) for name in of_runs})
    return added[list(columns)].astype(dict(columns))


def _judged_fields(seen: StudyRun) -> FrameRow:
    is_shadowed = seen.arm.gate == SHADOW and seen.fired is not None
    return {
        "ending": seen.trajectory.ending,
        "score": 100 * seen.score,
        "benchmark_score": 100 * seen.benchmark_scores.value,
        "rounds": len(seen.rounds),
        "fired": seen.fired,
        "blended_score": 100 * (seen.gate_score if is_shadowed else seen.score),
        "hops": len(seen.support) or None,
        "answerable": seen.answerable,
        **{gap: shows(seen) for gap, shows in GAPS.items()},
    }


# The blended counterfactual of the gate (CGDP, appendix G): its answer where it fired, else the natural one. One run
# with a shadow gate holds both: it continues to its natural end, and where the gate would have stopped it, the final
# answer was requested once. The cost of the gated run is the cost until then, with that request.


def _costs_of(frames: Frames, episodes: pd.DataFrame) -> pd.DataFrame:
    """Compute the cost of each run, natural and blended; the index is the id of the run."""
    gates, done = episodes.set_index("run")["gate"], _with_tokens(frames.executions)
    natural = done[(done["node"] != GATE_NODE) | (done["run"].map(gates) == ON)].groupby("run")
    costs = natural.agg(calls=("calls", "sum"), tokens=("tokens", "sum"), prompt_tokens=("input_tokens", "sum"))
    stops = frames.rounds[(frames.rounds["run"].map(gates) == SHADOW) & frames.rounds["stop"].fillna(False)]
    last = stops.groupby("run")["round"].min().reindex(done["run"]).set_axis(done.index)
    before = last.isna() | ((done["round"] <= last).fillna(False) & ~done["node"].isin(CLOSING_NODES))
    calls = _with_tokens(frames.calls[~frames.calls["superseded"]])
    # the role executor gives the final answer; a gate that asks a model uses another role
    answers = calls[(calls["node"] == GATE_NODE) & (calls["role"] == "executor") & calls["run"].isin(stops["run"])]
    blended, answered = done[before].groupby("run")["tokens"].sum(), answers.groupby("run")["tokens"].sum()
    return costs.assign(blended_tokens=blended, answer_tokens=answered).fillna({"answer_tokens": 0})


def _with_tokens(rows: pd.DataFrame) -> pd.DataFrame:
    return rows.assign(tokens=rows["input_tokens"] + rows["output_tokens"])


# Replay of gate settings on recorded rounds: when each would have fired.

WITH_CHANGE = "_d"
"""End of the labels of settings that also check how much the belief changed."""


def create_replay_gates() -> dict[str, Operator]:
    """Create a gate operator for each of the settings to replay (`certigraph.nodes.gates.gate_grid`), by label."""
    grid = {**gate_grid(), **{f"{label}{WITH_CHANGE}": spec for label, spec in gate_grid(MAX_CHANGE).items()}}
    return {label: build_operator(spec, OPERATORS) for label, spec in grid.items()}


async def replay_gates(seen: StudyRun, gates: Mapping[str, Operator]) -> dict[str, int | None]:
    """Compute after which search round of a run each gate would have fired; nothing for a run with a real gate."""
    has_changes = any(r.change is not None for r in seen.rounds)  # only a belief has
    fired: dict[str, int | None] = {}
    for name, gate in gates.items() if seen.arm.gate != ON else ():
        if not has_changes and name.endswith(WITH_CHANGE):
            continue
        stagnation, number = Stagnation(), 0
        while not stagnation.stop and number < len(seen.rounds):
            number += 1
            # the part of the state that a gate without a model reads
            view = {"task": seen.task, "rounds": seen.rounds[:number], "stagnation": stagnation}
            stagnation = (await call_operator(gate, view, Runtime(context=Context())))["stagnation"]
        fired[name] = number if stagnation.stop else None
    return fired


def _saved_tokens(frames: Frames, replays: pd.DataFrame) -> "pd.Series[int]":
    # What came after the round in which the gate of each replay would have fired.
    opening = _with_tokens(frames.executions[frames.executions["node"] == "reset"]).groupby("run")["tokens"].sum()
    rounds = frames.rounds.assign(spent=frames.rounds.groupby("run")["tokens"].cumsum())
    searches = rounds[rounds["query"].notna()]
    searches = searches.assign(fired=searches.groupby("run").cumcount().astype("Int64") + 1)
    spent = replays.merge(searches[["run", "fired", "spent"]], "left", ["run", "fired"])["spent"]
    before = opening.reindex(replays["run"], fill_value=0).set_axis(replays.index)
    return (replays["tokens"] - before - spent).fillna(0)


# Differences between arms, paired over tasks (CGDP, tables 8, 15, 16, 20 to 22).

MEMORY_PAIRS = (
    *((STRUCTURED, NATIVE), (FREEFORM, NATIVE), (STRUCTURED, LOBOTOMIZED)),
    *((FREEFORM, LOBOTOMIZED), (LOBOTOMIZED, NATIVE), (FREEFORM, STRUCTURED)),
)
"""Pairs of memory conditions that are compared; a difference is the left one minus the right one."""

DIFFERENCE_COLUMNS = [
    *("family", "measure", "left", "right"),
    *("n", "difference", "low", "high", "p", "p_holm", "detectable", "words"),
]


def pairs_of(arms: Sequence[StudyArm]) -> Iterator[tuple[str, StudyArm, StudyArm]]:
    """Yield the pairs of arms that the study compares: they differ in `memory`, a real `gate`, or the `setting`.

    This respect comes first: it is the family within which p-values are adjusted for multiple tests.
    """
    for left in arms:
        for right in arms:
            if left._replace(memory=right.memory) == right and (left.memory, right.memory) in MEMORY_PAIRS:
                yield "memory", left, right
            elif left._replace(gate=right.gate) == right and left.gate == ON and right.gate != ON:
                yield "gate", left, right
            elif left._replace(variant="") == right and left.variant:
                yield "setting", left, right


def difference_table(episodes: pd.DataFrame, measures: Sequence[str] = ("score", "tokens")) -> pd.DataFrame:
    """Compute the paired differences between arms, left minus right (CGDP, tables 8, 15, 16 and 20 to 22).

    There is one row per pair of arms and measure, over the tasks that both arms have, in the unit of the measure. `low`
    and `high` bound the 95 % BCa bootstrap interval over tasks, `p` is from the paired t-test, and `p_holm` is adjusted
    by Holm's method over all pairs of the family in that measure. `detectable` is the smallest difference that the test
    finds with a power of 0.8.
    """
    arms = episodes[ARM_COLUMNS[1:]].drop_duplicates().itertuples(index=False, name=None)
    pairs = list(pairs_of([StudyArm(*arm) for arm in arms]))
    lines = []
    for measure in measures:
        values = {str(name): values_by_task(rows, measure) for name, rows in episodes.groupby("method", sort=False)}
        for family in dict.fromkeys(family for family, _, _ in pairs):
            names = [(left.name, right.name) for of_pair, left, right in pairs if of_pair == family]
            differences = _family_of_tests((values[left], values[right]) for left, right in names)
            for (left, right), found in zip(names, differences, strict=True):
                words = found.model_copy(update={"method": left, "against": right}).words
                tests = (found.p, found.p_adjusted, found.detectable)
                lines.append((family, measure, left, right, found.n, found.mean, found.low, found.high, *tests, words))
    return pd.DataFrame(lines, columns=DIFFERENCE_COLUMNS)


def differences_by(episodes: pd.DataFrame, column: str, least: int = 1) -> pd.DataFrame:
    """Compute the differences in score for each value of a column; the pairs with one value are a family of tests.

    The column is `hops`, the number of passages that an answer needs, or `answerable` (CGDP, table 9). With fewer than
    `least` values the table is empty.
    """
    tables = [difference_table(rows, ["score"]).assign(**{column: value}) for value, rows in episodes.groupby(column)]
    empty = pd.DataFrame(columns=[*DIFFERENCE_COLUMNS, column])
    return pd.concat(tables, ignore_index=True) if len(tables) >= least else empty


def values_by_task(rows: pd.DataFrame, column: str) -> dict[str, list[float]]:
    """Group the values of a column by task, one value per run."""
    return {str(task): values.astype(float).tolist() for task, values in rows.groupby("task", sort=False)[column]}


def _family_of_tests(pairs: Iterable[tuple[ScoresByTask, ScoresByTask]]) -> list[Difference]:
    # Differences left minus right over common tasks, with p-values adjusted by Holm's method.
    common = [(left, right) if left.keys() & right.keys() else ({}, {}) for left, right in pairs]
    return adjust_family([compute_difference("left", "right", left, right) for left, right in common])


# The gate and its counterfactual (CGDP, tables 5, 16, 17 and 19, and the sweep of appendix G).


def gate_table(episodes: pd.DataFrame, by: Sequence[str] = ("method", "harness", "memory", "variant")) -> pd.DataFrame:
    """Compute what the gate would have changed, for every arm with a shadow gate (CGDP, tables 5, 16, 18 and 19).

    `natural` is the mean score without the gate, and `blended` that with the gate's answer where it fired. `fire` is
    the share of runs in which the gate fired; `mean_round` and `median_round` are the rounds after which it fired.
    `change` is blended minus natural in points of 100, paired over tasks, with p-values adjusted by Holm's method over
    the arms; `spread` is its standard deviation over runs (CGDP, table 18). `saving` is the percentage of all tokens
    that the gate saves, net of its final answers; a loss is negative.

    `by` are the columns that form a group in place of arms, such as the memory condition (CGDP, table 17); the runs of
    all harnesses on a task then count as trials of this task.
    """
    groups = list(episodes[episodes["gate"] == SHADOW].groupby(list(by), sort=False))
    changes = _family_of_tests((values_by_task(g, "blended_score"), values_by_task(g, "score")) for _, g in groups)
    lines = [(*names, *_gate_figures(g, change)) for (names, g), change in zip(groups, changes, strict=True)]
    return pd.DataFrame(lines, columns=[*by, *GATE_FIGURES])


GATE_FIGURES = (
    *("n", "fire", "fire_low", "fire_high", "mean_round", "median_round", "natural", "blended"),
    *("change", "change_low", "change_high", "p", "p_holm", "spread", "saving", "saving_low", "saving_high"),
)


def _gate_figures(rows: pd.DataFrame, change: Difference) -> Iterator[Any]:
    # In the order of GATE_FIGURES.
    yield from (len(rows), *share_interval(rows, rows["fired"].notna())[2:])
    fired = rows["fired"].dropna().astype(float)
    yield from (fired.mean(), fired.median(), rows["score"].mean(), rows["blended_score"].mean())
    yield from (change.mean, change.low, change.high, change.p, change.p_adjusted)
    yield (rows["blended_score"] - rows["score"]).std()
    yield from saving_of(rows)


def saving_of(rows: pd.DataFrame) -> tuple[float, float | None, float | None]:
    """Compute the tokens that the gate saves, in percent of those without it, and the bounds of its 95 % interval."""
    change = relative_change(values_by_task(rows, "tokens"), values_by_task(rows, "blended_tokens"))
    saving, low, high = (None if percent is None else -percent for percent in (change.percent, change.high, change.low))
    return saving or 0.0, low, high


def fire_round_table(episodes: pd.DataFrame) -> pd.DataFrame:
    """Count, for each arm and search round, the runs in which the gate fired after this round; real gates included."""
    counts = episodes.groupby(["method", "fired"], sort=False).size().reset_index(name="runs")
    return counts.sort_values(["method", "fired"], kind="stable", ignore_index=True)


def replay_table(replays: pd.DataFrame) -> pd.DataFrame:
    """Summarise the replay of other gate settings (the sweep of CGDP, appendix G): share of runs that fire, mean round.

    `saving` is the percentage of tokens saved. It is too high by the cost of the gate's final answers, which a replay
    does not know.
    """
    return _replay_figures(replays[~replays["setting"].str.endswith(WITH_CHANGE)]).reset_index()


def state_difference_table(replays: pd.DataFrame) -> pd.DataFrame:
    """Compare each setting of the gate with the same one that also checks how much the belief changed (CGDP, G.4).

    `same` is the share of runs in which both fire after the same round, or neither fires. `fire`, `mean_round` and
    `saving` are as in `replay_table`; those of the second setting end in `_changed`. Arms without a belief are left
    out.
    """
    checked = replays[replays["setting"].str.endswith(WITH_CHANGE)]
    checked = checked.assign(setting=checked["setting"].str.removesuffix(WITH_CHANGE))
    plain = checked[[*REPLAY_KEYS, "run"]].merge(replays, on=[*REPLAY_KEYS, "run"], how="left")
    is_same = checked["fired"].fillna(0).to_numpy() == plain["fired"].fillna(0).to_numpy()
    figures = _replay_figures(plain)
    figures.insert(1, "same", plain.assign(same=is_same).groupby(REPLAY_KEYS, sort=False)["same"].mean().astype(float))
    return figures.join(_replay_figures(checked).drop(columns="n").add_suffix("_changed")).reset_index()


REPLAY_KEYS = ["setting", "method"]


def _replay_figures(replays: pd.DataFrame) -> pd.DataFrame:
    groups = replays.groupby(REPLAY_KEYS, sort=False)
    sums = groups.agg(n=("run", "size"), fired=("fired", "count"), saved=("saved", "sum"), tokens=("tokens", "sum"))
    fire, saving = sums["fired"] / sums["n"], 100 * sums["saved"] / sums["tokens"].clip(lower=1)
    rounds = groups["fired"].mean()
    return sums[["n"]].assign(fire=fire.astype(float), mean_round=rounds.astype(float), saving=saving.astype(float))


# Quality against tokens, and the Pareto frontier of the conditions of each harness (CGDP, figure 2).


def pareto_table(episodes: pd.DataFrame) -> pd.DataFrame:
    """Compute mean score and tokens of every memory condition without the gate and with it (CGDP, figure 2).

    Runs with a shadow gate give both rows; the row with the gate has the scores and tokens with the gate's answer. The
    column `frontier` marks the Pareto frontier of each harness, variant and gate: no other condition is at least as
    good in score and tokens, and better in one of them.
    """
    lines = []
    for (*condition, gate), rows in episodes.groupby(["harness", "variant", "memory", "gate"], sort=False):
        for kind, shown in {"": ON if gate == ON else OFF, **({"blended_": ON} if gate == SHADOW else {})}.items():
            tokens, score = float(rows[f"{kind}tokens"].mean()), rows[f"{kind}score"].mean()
            lines.append((*condition, shown, len(rows), tokens, score))
    table = pd.DataFrame(lines, columns=["harness", "variant", "memory", "gate", "n", "tokens", "score"])
    best = []
    for _, rows in table.groupby(["harness", "variant", "gate"], sort=False):
        for row in rows.itertuples():
            as_good = rows[(rows["score"] >= row.score) & (rows["tokens"] <= row.tokens)]
            if len(as_good[["score", "tokens"]].drop_duplicates()) == 1:  # its equals alone
                best.append(row.Index)
    return table.assign(frontier=table.index.isin(best))


# Statistics of arms, each as a description of groups and measures.

STATISTICS_OF_RUNS = {"score": Measure("score", top=100.0), **{n: Measure(n) for n in ("tokens", "calls", "rounds")}}

REORGANISATION_COSTS = {
    "calls": Measure("reorganisation_calls"),
    "tokens": Measure("reorganisation_tokens"),
    "tokens a call": Measure("reorganisation_tokens", per="reorganisation_calls"),
    "share of tokens": Measure("reorganisation_tokens", per="tokens"),
}


def round_table(episodes: pd.DataFrame) -> pd.DataFrame:
    """Compute the mean search rounds of each arm with their interval, and the median (CGDP, table 14)."""
    means = compute_by_group(episodes, ARM_COLUMNS, Measure("rounds"))
    medians = episodes.groupby("method", sort=False)["rounds"].median().astype(float)
    return means.assign(median=means["method"].map(medians))


def reorganisation_table(episodes: pd.DataFrame) -> pd.DataFrame:
    """Compute what it cost each arm to reorganise beliefs (CGDP, H.4).

    The measures are the share of runs that reorganised a belief, and over these runs the mean calls and tokens of
    reorganisations, their tokens per call, and their share of all tokens.
    """
    rows = episodes.assign(reorganised=episodes["reorganisations"] > 0)
    share = measure_table(rows, ARM_COLUMNS, {"share of runs": Measure("reorganised", top=1.0)})
    costs = measure_table(rows[rows["reorganised"].fillna(False)], ARM_COLUMNS, REORGANISATION_COSTS)
    return pd.concat([share, costs], ignore_index=True)


def gap_table(episodes: pd.DataFrame) -> pd.DataFrame:
    """Count the runs of each arm that show each gap G1 to G7, a kind of failure (CGDP, table 7).

    `shown` is their number, `n` the number of runs for which the gap can be decided, and `value` the share.
    """
    table = measure_table(episodes, ARM_COLUMNS, {gap: Measure(gap, top=1.0) for gap in GAPS}, label="gap")
    shown = (table["n"] * table["value"]).astype(float).round().astype("Int64")
    return table.assign(shown=shown)[["gap", *ARM_COLUMNS, "shown", *STATISTIC_COLUMNS]]


STALE_UPR, SIMILAR_ACTION = 0.3, 0.6
"""Thresholds of the default gate: a round at or below the first finds little new, one from the second on repeats."""


def signal_table(rounds: pd.DataFrame) -> pd.DataFrame:
    """Compute what gates look at, by search round: unique passage rate, and shares of rounds beyond the thresholds.

    `upr` is the mean with its interval, `stale` the share of rounds that find little new, `repeated` the share that
    repeat an action.
    """
    known, by = rounds.dropna(subset=["upr"]), [*ARM_COLUMNS, "round"]
    means = compute_by_group(known, by, Measure("upr"))
    flags = known.assign(stale=known["upr"] <= STALE_UPR, repeated=known["jaccard"] >= SIMILAR_ACTION)
    shares = flags.groupby(by, sort=False, as_index=False)[["stale", "repeated"]].mean()
    return means.merge(shares, on=by, how="left") if len(means) else means


# All tables by name; each is written as CSV under its name.

Tables = dict[str, pd.DataFrame]


def tables_of(frames: StudyFrames) -> Tables:
    """Compute all tables of the study, by name; a table without data has no rows."""
    runs, rounds, replays = frames
    by_hops = runs.dropna(subset=["hops"]).sort_values("hops", kind="stable")
    return {
        "scores": measure_table(runs, ARM_COLUMNS, STATISTICS_OF_RUNS),
        "differences": difference_table(runs),
        "gate": gate_table(runs),
        "gate_by_memory": gate_table(runs[runs["variant"] == ""], ["memory"]),
        "fire_rounds": fire_round_table(runs),
        "gate_replay": replay_table(replays),
        "state_difference": state_difference_table(replays),
        "reorganisation": reorganisation_table(runs),
        "artefacts": compute_by_group(runs.dropna(subset=["artefact"]), ARM_COLUMNS, Measure("artefact", top=1.0)),
        "hops": compute_by_group(by_hops, [*ARM_COLUMNS, "hops"], Measure("score", top=100.0)),
        "differences_by_hops": differences_by(runs, "hops"),
        "differences_by_answerable": differences_by(runs, "answerable", least=2),
        "rounds_of_runs": round_table(runs),
        "signals": signal_table(rounds),
        "gaps": gap_table(runs),
        "prompts": compute_by_group(rounds, [*ARM_COLUMNS, "round"], Measure("agent")),
        "pareto": pareto_table(runs),
    }


PIVOTS = {"scores": (["method", "n"], "measure"), "gaps": (["method"], "gap")}
"""Tables of which one column is spread over columns: the columns that stay, and the column that is spread."""


def readable_table(name: str, table: pd.DataFrame) -> pd.DataFrame:
    """Prepare the table with this name for reading: measures or gaps in columns, and no redundant columns.

    A gap is shown as the number of runs that show it / the number of runs for which it can be decided.
    """
    if table.empty:
        return table
    if name == "gaps":
        shown = [f"{shown}/{n}" for shown, n in zip(table["shown"], table["n"], strict=True)]
        table = table.assign(value=shown).drop(columns=["low", "high"])
    table = join_intervals(table)
    if name in PIVOTS:
        lines, column = PIVOTS[name]
        table = table.pivot_table("value", lines, column, aggfunc="first", sort=False).reset_index()
    shortened = table.drop(columns=ARM_COLUMNS[1:], errors="ignore") if "method" in table else table
    return shortened.loc[:, [column for column in shortened.columns if not (shortened[column] == "").all()]]
