"""Report of a measurement of predicted rewards, and the command `certigraph rewards measure`.

A predictor is a graph that predicts the rewards of recorded trajectories. Predictions are compared with the true
rewards by the EPIC distance, 0 to 1, lower is better.
"""

import json
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import pandas as pd
import typer
from markupsafe import Markup
from matplotlib.figure import Figure

from certigraph.adapters.benchmarks import load_benchmark
from certigraph.adapters.encoders import load_encoder
from certigraph.adapters.files import read_json, replace_text
from certigraph.adapters.protocols import Context
from certigraph.benchmarks.rewardprediction.dataset import TrajectoryPair
from certigraph.evaluation.comparison import ComparedMethod
from certigraph.evaluation.plots import GREY, SERIES_COLOURS, series_colour
from certigraph.evaluation.progress_display import show_progress
from certigraph.evaluation.statistics import stratified_mean
from certigraph.evaluation.tables import format_estimate, print_report_path
from certigraph.runtime.registry import current_versions, model_name
from certigraph.runtime.texts import format_count
from certigraph.state.endings import Fault, Interrupted
from certigraph.state.rewards import GRANULARITIES
from certigraph.studies.reward_data import (
    DomainCount,
    append_line,
    count_table,
    first_of_each_domain,
    read_counts,
    read_lines,
)
from certigraph.studies.reward_heads import TransferResult
from certigraph.studies.rewards import (
    BOUNDS,
    EPIC_FIGURE,
    OVERALL,
    REWARD_BENCHMARK,
    FailedPair,
    PredictorSpeed,
    ProbedEncoder,
    RatedPair,
    RatingJob,
    distance_differences,
    encoder_of,
    format_probes,
    granularity_of,
    has_known_goal,
    job_digest,
    measure_speed,
    predictor_table,
    probe_encoders,
    rate_pairs,
    rating_digest,
    read_rated_pairs,
)
from certigraph.studies.tables import (
    join_intervals,
    print_frames,
    print_json,
    write_figures,
    write_study_page,
    write_tables,
)

# Findings of the StateFactory paper, checked: the order of granularities, and the small loss by goals read online.


def describe_findings(methods: Sequence[ComparedMethod], table: pd.DataFrame, rows: Sequence[RatedPair]) -> list[str]:
    """Format findings about the predictors, one sentence each, compared with those of the StateFactory paper.

    Findings about predictors that were not measured are left out.

    Args:
        methods: the predictors.
        table: their measures by domain, as `predictor_table` returns them.
        rows: the predictions.
    """
    overall, first = overall_lines(table), table["predictor"].iloc[0]
    shown = table[(table["predictor"] == first) & (table["domain"] != OVERALL)]
    wrong = ", ".join(shown.loc[shown["final_positive"] <= shown["final_negative"], "domain"])
    where = f"not in {wrong}" if wrong else "in every domain"
    by_rules = ", ".join(overall.index[overall["read_by"].str.contains("rules")])
    what = "states and goals were read by rules that people wrote for these worlds, not by a language model"
    return [
        *_granularity_finding(methods, overall[EPIC_FIGURE]),
        *_goal_finding(methods, rows),
        f"{first}: mean final reward of positive trajectories above that of negative ones {where}.",
        *([f"{by_rules}: {what}."] if by_rules else []),
    ]


def overall_lines(table: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of the table over all domains, or of the only domain, with the predictors as index."""
    return table.drop_duplicates("predictor", keep="last").set_index("predictor")  # `overall` is the last


def _granularity_finding(methods: Sequence[ComparedMethod], epic: "pd.Series[float]") -> list[str]:
    names = {granularity_of(method): method.name for method in methods}
    distances = {g: epic[names[g]] for g in GRANULARITIES if names.get(g) in epic.index}
    if len(distances) < 2:
        return []
    expected, ranked = list(distances), sorted(distances, key=distances.__getitem__, reverse=True)
    verdict = "the paper's order" if ranked == expected else f"not the paper's order, which is {' > '.join(expected)}"
    return [f"EPIC by granularity: {' > '.join(f'{g} {distances[g]:.3f}' for g in ranked)}; {verdict}."]


def _goal_finding(methods: Sequence[ComparedMethod], rows: Sequence[RatedPair]) -> list[str]:
    online = next((method.name for method in methods if granularity_of(method) == "attribute"), "")
    offline = next((method.name for method in methods if has_known_goal(method)), "")
    differences = distance_differences(rows, online, offline)
    if not differences:
        return []
    mean, bounds = stratified_mean(differences)
    low, high = bounds or (None, None)
    gap = format_estimate(mean, low, high, "+.3f")
    return [
        f"EPIC with goals interpreted online minus with goals read off the expert's end: {gap}; the paper has +0.02."
    ]


# The figures: distances as bars, rewards along examples, and the transfer of supervised heads.


def draw_bars(table: pd.DataFrame) -> Figure:
    """Draw the mean pooled EPIC distance by domain: one bar with its 95 % interval per predictor."""
    names, domains = list(table["predictor"].unique()), list(table["domain"].unique())
    figure = Figure(figsize=(max(6.0, 0.22 * len(names) * len(domains) + 1), 3.4), layout="constrained")
    panel: Any = figure.subplots()
    width = 0.85 / len(names)
    for index, name in enumerate(names):
        part = table[table["predictor"] == name]
        positions = part["domain"].map(domains.index) + (index - (len(names) - 1) / 2) * width
        mean, low, high = (part[f"{EPIC_FIGURE}{bound}"].astype(float) for bound in BOUNDS)
        errors = [(mean - low).fillna(0), (high - mean).fillna(0)]
        ink, hatch = series_colour(index), "//" if index >= len(SERIES_COLOURS) else None
        panel.bar(positions, mean, width, yerr=errors, color=ink, hatch=hatch, label=name, ecolor=GREY)
    panel.set_xticks(range(len(domains)), domains)
    panel.set_ylabel("EPIC distance, pooled")
    figure.legend(loc="outside upper left", ncols=min(4, len(names)))
    return figure


def draw_curves(rows: Sequence[RatedPair], pairs: Mapping[str, TrajectoryPair], names: Sequence[str]) -> Figure:
    """Draw true and predicted rewards by step, for one pair of trajectories of each domain and at most 3 predictors.

    It is the pair with the median EPIC distance of the first predictor.
    """
    examples = _select_examples([row for row in rows if row.predictor == names[0]])
    figure = Figure(figsize=(7.5, 1.7 * len(examples) + 0.6), layout="constrained")
    panels = figure.subplots(len(examples), 2, sharey=True, squeeze=False)
    for (domain, pair), line in zip(examples.items(), panels, strict=True):
        rated = [row for name in names[:3] for row in rows if (row.predictor, row.pair) == (name, pair)]
        for index, panel in enumerate(line):
            recording = pairs[pair].recordings[index]
            steps = range(1, len(recording.trajectory) + 1)
            true = [row.reward.shaped for row in recording.trajectory]
            panel.step(steps, true, where="mid", color=GREY, linewidth=3, alpha=0.5, label="true")
            for row in rated:
                ink = series_colour(names.index(row.predictor))
                panel.plot(steps, row.rewards[index], ".-", color=ink, linewidth=1.2, label=row.predictor)
            panel.set_title(f"{domain}, {'negative' if index else 'positive'}", fontsize=8, loc="left")
    panels[0][0].set_ylim(-0.04, 1.04)
    handles, labels = panels[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper left", ncols=len(labels))
    figure.supxlabel("step")
    return figure


def _select_examples(rows: Sequence[RatedPair]) -> dict[str, str]:
    ranked: dict[str, list[str]] = {}
    for row in sorted(rows, key=lambda row: (row.domain, row.figures[EPIC_FIGURE], row.pair)):
        ranked.setdefault(row.domain, []).append(row.pair)
    return {domain: of_domain[len(of_domain) // 2] for domain, of_domain in ranked.items()}


def draw_heat_map(transfer: TransferResult) -> Figure:
    """Draw the EPIC distances of supervised reward heads as a heat map.

    Rows are the domains that heads were trained on, columns the domains that they rated.
    """
    size = 0.8 * len(transfer.domains)
    figure = Figure(figsize=(size + 2.2, 0.45 * len(transfer.trained) + 1.2), layout="constrained")
    panel: Any = figure.subplots()
    panel.imshow(transfer.distances, cmap="viridis_r", vmin=0.1, vmax=0.75, aspect="auto")
    for row, distances in enumerate(transfer.distances):
        for column, distance in enumerate(distances):
            ink = "white" if distance > 0.45 else "black"
            panel.text(column, row, f"{distance:.2f}", ha="center", va="center", color=ink, fontsize=8)
    panel.set_xticks(range(len(transfer.domains)), transfer.domains, rotation=20, ha="right")
    panel.set_yticks(range(len(transfer.trained)), transfer.trained)
    panel.set(xlabel="rated", ylabel="trained on")
    return figure


# The files and the output of a measurement.

TRANSFER_FILE, REWARDS_PAGE = "transfer.json", "rewards.html"


class RewardFindings(NamedTuple):
    """Results of a reward measurement so far: `predictor_table`, findings as sentences, and details."""

    table: pd.DataFrame
    findings: Sequence[str]
    speeds: Sequence[PredictorSpeed] = ()
    failed: Sequence[FailedPair] = ()
    counts: Sequence[DomainCount] = ()
    notes: Sequence[str] = ()
    """Notes about the data, such as the number of tasks without a pair of trajectories."""


def distance_table(table: pd.DataFrame) -> pd.DataFrame:
    """Prepare the pooled EPIC distances for reading: one row per predictor and a column per domain."""
    domains, names = table["domain"].unique(), table["predictor"].unique()
    wide = join_intervals(table).pivot(index="predictor", columns="domain", values=EPIC_FIGURE)
    return wide.reindex(index=names, columns=domains).fillna("").reset_index()


def write_rewards_page(findings: RewardFindings, drawings: Mapping[str, Markup], path: Path) -> None:
    """Write the HTML page of a reward measurement."""
    table, costs = findings.table, ["read_by", "calls", "tokens", "usd"]
    tables = {
        "distances": distance_table(table),
        "costs": overall_lines(table)[costs].reset_index(),
        "figures": table.drop(columns=costs),
        "speeds": pd.DataFrame([one.model_dump(exclude={"digest"}) for one in findings.speeds]),
        "failed": pd.DataFrame([one.model_dump(exclude={"of_model"}) for one in findings.failed]),
        "counts": count_table(findings.counts),
    }
    write_study_page(
        path,
        "reward_measurement.html",
        tables,
        drawings,
        notes=[*findings.findings, *findings.notes],
        title="How well rewards are predicted",
        scope=f"RewardPrediction, {format_count(max(table['n'], default=0), 'pair')} of trajectories",
    )


def write_report(
    methods: Sequence[ComparedMethod],
    benchmark: Any,
    rows: Sequence[RatedPair],
    failed: Sequence[FailedPair],
    speeds: Sequence[PredictorSpeed],
    probes: Sequence[ProbedEncoder],
    out: Path,
) -> RewardFindings:
    """Write `table.csv`, the figures and `rewards.html`, and return the results.

    Raises:
        Fault: ("data") no predictor could predict the rewards of any pair.
    """
    names = [method.name for method in methods if any(row.predictor == method.name for row in rows)]
    if not names:
        raise Fault("data", f"no pair could be rated: {failed[0].reason if failed else 'there are none'}")
    table = predictor_table(rows, names)
    counts = list(read_counts(benchmark.data).values()) if benchmark.data else []
    notes = [f"{format_count(n, 'task')} of {domain} left out: no pair" for domain, n in benchmark.unpaired.items()]
    sentences = [*describe_findings(methods, table, rows), *format_probes(methods, table, probes)]
    findings = RewardFindings(table, sentences, speeds, failed, counts, notes)
    write_tables({"table": table}, out)
    figures = {"bars": partial(draw_bars, table), "curves": partial(draw_curves, rows, benchmark.pairs, names)}
    if (out / TRANSFER_FILE).is_file():
        figures["heat"] = partial(draw_heat_map, TransferResult.model_validate(read_json(out / TRANSFER_FILE)))
    write_rewards_page(findings, write_figures(figures, out), out / REWARDS_PAGE)
    return findings


def write_transfer(done: TransferResult, out: Path) -> None:
    """Write the transfer matrix of reward heads and its drawing to the folder of a measurement.

    The measurement shows the drawing when its page is written the next time.
    """
    out.mkdir(parents=True, exist_ok=True)
    replace_text(out / TRANSFER_FILE, done.model_dump_json(indent=1) + "\n")
    write_figures({"heat": partial(draw_heat_map, done)}, out)


def print_findings(findings: RewardFindings, out: Path, *, as_json: bool) -> None:
    """Print the pooled EPIC distances and the findings, or one JSON object."""
    if as_json:
        lines = findings.table.astype(object).where(findings.table.notna(), None).to_dict("records")
        print_json({}, lines=lines, findings=findings.findings, speeds=[one.model_dump() for one in findings.speeds])
        return
    fast = [f"{one.predictor}: {one.cold:g} trajectories/s cold, {one.warm:g} warm" for one in findings.speeds]
    notes = [*findings.findings, *findings.notes, *fast]
    print_frames({"EPIC distance, pooled, with 95 % intervals": distance_table(findings.table)}, notes)
    print_report_path(out / REWARDS_PAGE)


# The command `certigraph rewards measure`.

ROWS_FILE, SPEEDS_FILE, PROBES_FILE = "rows.jsonl", "speeds.jsonl", "encoders.jsonl"

PREDICTORS_FILE = "predictors.json"
"""File with graph, operators and models of every predictor of the last measurement, and the versions of packages."""

MAX_TIMED_SECONDS = 2.0
"""Maximum median number of seconds per pair for a predictor to be timed.

For slower predictors, and for those that ask a model, the saved time of each prediction is enough.
"""


def measure_rewards(
    methods: Sequence[ComparedMethod],
    context: Context,
    out: Path,
    *,
    domains: Sequence[str] = (),
    limit: int = 0,
    at_once: int = 1,
    as_json: bool = False,
) -> int:
    """Predict the rewards of all pairs with all predictors, write the report and print the tables.

    Predictions that are saved in the folder `out` are not repeated.

    Returns:
        The exit status: 1 if the rewards of a pair could not be predicted, else 0.

    Raises:
        Interrupted: by Ctrl-C; the predictions so far are saved.
        Fault: there are no pairs, a named encoder is missing, or the model gives no usable answers.
    """
    benchmark: Any = load_benchmark(REWARD_BENCHMARK, context.data)
    named = (benchmark.pairs[task.id] for domain in domains or ("",) for task in benchmark.tasks(domain))
    pairs = [pair.id for pair in first_of_each_domain(named, limit)]
    for name in filter(None, map(encoder_of, methods)):
        load_encoder(name)
    out.mkdir(parents=True, exist_ok=True)
    about = {
        "predictors": [method.model_dump(mode="json") for method in methods],
        "model": model_name(context.model),
        "roles": {role: model_name(name) for role, name in context.roles.items()},
        "trial": context.trial,  # the seed of models that choose at random
        "versions": current_versions(),
    }
    replace_text(out / PREDICTORS_FILE, json.dumps(about, indent=1) + "\n")
    try:
        with show_progress("rated", len(methods) * len(pairs), silent=as_json) as display:

            def report(done: int, failures: int) -> None:
                display.report("rated", done, f"{failures} failed" if failures else "")

            failed = rate_pairs(methods, pairs, context, out / ROWS_FILE, at_once=at_once, progress=report)
        wanted = {job_digest(RatingJob(method, pair, context)) for method in methods for pair in pairs}
        rows = list({row.digest: row for row in read_rated_pairs(out / ROWS_FILE) if row.digest in wanted}.values())
        if not as_json:
            typer.echo("timing predictors: a minute or two; the ratings are saved", err=True)
        speeds = _measure_speeds(methods, pairs, context, rows, out / SPEEDS_FILE)
        probes = probe_encoders(methods, [benchmark.pairs[pair] for pair in pairs], out / PROBES_FILE)
    except KeyboardInterrupt:
        raise Interrupted(f"interrupted; resume with: the same command and --out {out}") from None
    findings = write_report(methods, benchmark, rows, failed, speeds, probes, out)
    print_findings(findings, out, as_json=as_json)
    return 1 if failed else 0


def _measure_speeds(
    methods: Sequence[ComparedMethod], pairs: Sequence[str], context: Context, rows: Sequence[RatedPair], path: Path
) -> list[PredictorSpeed]:
    known = {key.digest: key for key in read_lines(path, PredictorSpeed)}
    digests = {method.name: rating_digest(method, context, "", "\n".join(pairs)) for method in methods}
    for method in methods:
        of_method = [row for row in rows if row.predictor == method.name]
        slow = not of_method or median(row.seconds for row in of_method) > MAX_TIMED_SECONDS
        if digests[method.name] in known or slow or any(row.spent.calls for row in of_method):
            continue
        if result := measure_speed(method, pairs, context):
            known[digests[method.name]] = result.model_copy(update={"digest": digests[method.name]})
            append_line(path, known[digests[method.name]])
    return [known[key] for key in digests.values() if key in known]
