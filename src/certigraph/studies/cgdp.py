"""Report of the CGDP study and the command `certigraph study cgdp`.

The study runs search agents (harnesses) under several memory conditions, with and without a gate that stops a search
which makes no more progress.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
import typer
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter, MaxNLocator
from pydantic import JsonValue

from certigraph.adapters.benchmarks import load_benchmark
from certigraph.adapters.protocols import Benchmark
from certigraph.adapters.trajectories import TRAJECTORY_FILE
from certigraph.benchmarks.qa.benchmark import CORPUS, QuestionBenchmark
from certigraph.evaluation.compare import ComparisonJob, print_tables, run_comparison
from certigraph.evaluation.comparison import (
    COMPARISON_PAGE,
    MODEL_SEPARATOR,
    ComparedMethod,
    ComparisonPlan,
    cells_of,
    parse_methods,
    unfinished_cells,
)
from certigraph.evaluation.comparison_report import comparison_to_json as plain_comparison
from certigraph.evaluation.comparison_report import write_comparison_report as report_comparison
from certigraph.evaluation.plots import GREY, add_panels, assign_colours
from certigraph.evaluation.result_tables import format_model_note
from certigraph.evaluation.tables import (
    print_report_path,
)
from certigraph.evaluation.workers import HERE, WorkerOptions
from certigraph.graphs.assembly import operators_of
from certigraph.nodes.specs import Spec
from certigraph.runtime.files import read_last_footer
from certigraph.runtime.registry import build_graph, check_takes_answers, parse_swap
from certigraph.runtime.texts import format_count
from certigraph.state.endings import UnknownName
from certigraph.studies.cgdp_gaps import GAPS, MIN_CORRECT_SCORE
from certigraph.studies.cgdp_runs import (
    BELIEFS,
    GATES,
    HARNESSES,
    ITER_RETGEN,
    LOBOTOMIZED,
    MEMORIES,
    OFF,
    ON,
    SHADOW,
    StudyArm,
    is_arm,
    read_study_runs,
    select_arms,
)
from certigraph.studies.cgdp_scores import OWN, RubricChoice, StudyScores, choose_rubric, read_scores, score_study
from certigraph.studies.cgdp_tables import (
    StudyFrames,
    Tables,
    create_replay_gates,
    readable_table,
    study_frames,
    tables_of,
)
from certigraph.studies.tables import (
    format_progress,
    print_frames,
    print_json,
    write_figures,
    write_study_page,
    write_tables,
)

# The arms of a study, as methods of a comparison.

VARIANTS: Mapping[str, Mapping[str, Mapping[str, JsonValue]]] = {
    "": {},
    "alpha=0": {"decide": {"alpha": 0.0}},
    "alpha=1": {"decide": {"alpha": 1.0}},
    "K=12": {"memory": {"target": 12, "trigger": 20}},
    "depth=3": {"decide": {"k": 3}},
    "depth=5": {"decide": {"k": 5}},
    "depth=10": {"decide": {"k": 10}},
}
"""Settings of each variant: name of the variant -> slot -> arguments of the operator.

With K = 12 a belief is reorganised when it has 20 items, in proportion to the default (K = 6, 10 items); the CGDP paper
does not give the 20.
"""


class Ablation(NamedTuple):
    """Harnesses, variants of settings and memory conditions of an ablation; the variant "" is the default setting."""

    harnesses: tuple[str, ...] = HARNESSES
    variants: tuple[str, ...] = ("",)
    memories: tuple[str, ...] = MEMORIES


ABLATIONS: Mapping[str, Ablation] = {
    "": Ablation(),
    "alpha": Ablation(("react", "memgpt"), ("", "alpha=0", "alpha=1")),
    "k": Ablation(("ircot", "react"), ("", "K=12"), memories=("structured",)),
    "depth": Ablation(("ircot",), ("depth=3", "depth=5", "depth=10")),
}
"""Ablations by name; "" is the study itself. Harnesses and memory conditions are those of the CGDP paper (H.1 to H.3).

`alpha`, the weight of BM25 in retrieval, is varied to both ends of its range.
"""


class StudySelection(NamedTuple):
    """Selection of the arms of a study, which are combinations of harness, memory condition and gate.

    Empty `harnesses` or `memories` mean those of the ablation that `ablate` names.
    """

    harnesses: Sequence[str] = ()
    memories: Sequence[str] = ()
    gates: Sequence[str] = (SHADOW,)
    ablate: str = ""
    other_graphs: Sequence[str] = ()
    """Other graphs to run on the same tasks, such as `sdp`; only the page of the comparison shows them."""
    gate: str = "exhaustion_gate"
    """The gate operator, in the notation of `--swap`; `gates` say whether it stops runs."""


def methods_of(selection: StudySelection) -> tuple[ComparedMethod, ...]:
    """Convert the selected arms of the study, and the other graphs, to methods of one comparison.

    Raises:
        UnknownName: a harness, memory condition, gate, operator or ablation is unknown.
    """
    if selection.ablate not in ABLATIONS:
        raise UnknownName(f"unknown ablation {selection.ablate!r}; known: {', '.join(filter(None, ABLATIONS))}")
    harnesses, variants, memories = ABLATIONS[selection.ablate]
    arms = combine_arms(selection.harnesses or harnesses, selection.memories or memories, selection.gates)
    varied = [arm._replace(variant=variant) for arm in arms for variant in variants]
    fitting = [arm for arm in varied if arm.memory in BELIEFS or "memory" not in VARIANTS[arm.variant]]
    _, gate = parse_swap(f"gate={selection.gate}")
    return (*(method_of(arm, gate) for arm in fitting), *parse_methods(selection.other_graphs))


def combine_arms(harnesses: Sequence[str], memories: Sequence[str], gates: Sequence[str]) -> list[StudyArm]:
    """Combine harnesses x memory conditions x gates into arms, without the conditions that a harness does not have.

    Raises:
        UnknownName: a name is unknown, or no combination is left.
    """
    given = {"harness": (harnesses, HARNESSES), "memory": (memories, MEMORIES), "gate": (gates, GATES)}
    for what, (names, known) in given.items():
        if unknown := [name for name in names if name not in known]:
            raise UnknownName(f"unknown {what} {unknown[0]!r}; known: {', '.join(known)}")
    if {OFF, SHADOW} <= set(gates):
        raise UnknownName("--gate off and --gate shadow make the same runs twice: shadow has both, omit off")
    arms = [StudyArm(*cell) for cell in product(harnesses, memories, gates) if cell[:2] != (ITER_RETGEN, LOBOTOMIZED)]
    if not arms:
        raise UnknownName(f"{ITER_RETGEN} has no memory to take away: name another --memory or --harness")
    return arms


def method_of(arm: StudyArm, gate: Spec) -> ComparedMethod:
    """Convert an arm to a method of a comparison; `gate` is the gate operator.

    Raises:
        UnknownName: a graph, slot or operator is unknown.
    """
    settings = VARIANTS[arm.variant]
    as_published = {"searches": 0} if arm.memory in BELIEFS else {}
    swaps = {"memory": Spec(name=arm.memory, args={**as_published, **settings.get("memory", {})})}
    if arm.gate != OFF:
        swaps["gate"] = gate if arm.gate == ON else Spec(name="shadow", args={"gate": gate})
    if retrieval := settings.get("decide"):
        decide = Spec.model_validate(operators_of(build_graph(arm.harness))["decide"])
        swaps["decide"] = Spec(name="retrieving", args={"decide": decide, **retrieval})
    return ComparedMethod(name=arm.name, graph=arm.harness, operators=operators_of(build_graph(arm.harness, swaps)))


# The page, whose texts stand in its template.


def describe_best(scores: pd.DataFrame) -> str:
    """Name the arm with the highest mean score and the one with the fewest tokens; empty without runs."""
    means = scores.pivot_table("value", "method", "measure", sort=False)
    if means.empty:
        return ""
    best: Any = means.sort_values("tokens", kind="stable")["score"].idxmax()
    cheapest: Any = means["tokens"].idxmin()
    size = format_count(int(scores["tasks"].max()), "task")
    found = f"Highest mean score: {best} with {means['score'][best]:.1f} of 100 over {size}"
    found = f"{found}, {means['tokens'][best]:,.0f} tokens a run."
    fewest = f"Fewest tokens: {cheapest} with {means['tokens'][cheapest]:,.0f} a run."
    return found if cheapest == best else f"{found} {fewest}"


# The figures: quality against tokens, and the growth of prompts, with a panel per harness.

COLOURS = assign_colours(MEMORIES)


def draw_quality(tables: Tables) -> Figure:
    """Draw a point for each memory condition: its mean score over its mean tokens, with a panel per harness.

    Points with the gate are hollow. A line joins the conditions on the Pareto frontier.
    """

    def draw(panel: Any, rows: pd.DataFrame) -> None:
        for gate, best in rows[rows["frontier"]].sort_values("tokens").groupby("gate"):
            panel.plot(best["tokens"], best["score"], "--" if gate == ON else "-", color=GREY, linewidth=1, zorder=1)
        for row in rows.itertuples():
            colour = COLOURS[str(row.memory)]
            face = "none" if row.gate == ON else colour
            panel.scatter(row.tokens, row.score, s=36, facecolors=face, edgecolors=colour, zorder=2)
        panel.set_xlim(left=0)
        panel.xaxis.set_major_formatter(EngFormatter(sep=""))

    return _draw_panels(tables["pareto"], draw, "tokens a run", "mean score")


def draw_prompt_growth(tables: Tables) -> Figure:
    """Draw the prompt tokens of the agent by search round: a line with its 95 % interval for each memory condition."""

    def draw(panel: Any, rows: pd.DataFrame) -> None:
        requests = rows[rows["value"] > 0]  # no model is asked where the first query is the question
        for (memory, _gate), line in requests.groupby(["memory", "gate"], sort=False):
            colour, numbers = COLOURS[str(memory)], line["round"].astype(int).tolist()
            panel.plot(numbers, line["value"].tolist(), color=colour, marker=".", linewidth=1.4)
            low, high = line["low"].tolist(), line["high"].tolist()
            panel.fill_between(numbers, low, high, color=colour, alpha=0.14, linewidth=0)
        panel.yaxis.set_major_formatter(EngFormatter(sep=""))
        panel.xaxis.set_major_locator(MaxNLocator(integer=True))

    return _draw_panels(tables["prompts"], draw, "round", "prompt tokens of the agent")


def _draw_panels(table: pd.DataFrame, draw: Callable[[Any, pd.DataFrame], None], across: str, up: str) -> Figure:
    groups = list(table.groupby(["harness", "variant"], sort=False))
    columns = max(1, min(len(groups), 4))
    lines = max(1, -(-len(groups) // columns))
    # at least as wide as the page, so that texts have the size of the page's texts
    figure = Figure(figsize=(max(3.1 * columns, 9.0), 3.0 * lines + 0.5), layout="constrained")
    panels = add_panels(figure, len(groups), columns)
    for panel, ((harness, variant), rows) in zip(panels, groups, strict=True):
        draw(panel, rows)
        panel.set_title(f"{harness} {variant}".strip())
        panel.set_xlabel(across)
    if groups:
        panels[0].set_ylim(bottom=0)  # after drawing: the panels share the axis, and a limit stops its autoscaling
        panels[0].set_ylabel(up)
        shown = {memory: colour for memory, colour in COLOURS.items() if memory in set(table["memory"])}
        handles = [panels[0].plot([], [], "o", color=colour, label=memory)[0] for memory, colour in shown.items()]
        figure.legend(handles=handles, loc="outside upper left", ncols=len(handles))
    return figure


# The files of a study: frames and tables as CSV, figures, and the page.

STUDY_PAGE = "study.html"


class StudyReport(NamedTuple):
    """Data frames and tables of a CGDP study so far."""

    frames: StudyFrames
    tables: Tables


def write_report(
    plan: ComparisonPlan, folder: Path, benchmark: Benchmark, scores: StudyScores | None = None
) -> StudyReport:
    """Write the report of a CGDP study so far, and return its data frames and tables.

    All tables and figures use `scores`, which are by a rubric; with None, the benchmark's scores. Writes `study.html`,
    `episodes.csv`, `rounds.csv`, `replays.csv`, a CSV for each table, and `quality` and `growth` as PNG and SVG. Page
    and CSV files are replaced only when they are complete.
    """
    judged = scores.by_answer if scores else None
    frames = study_frames(read_study_runs(plan, folder, benchmark, judged), create_replay_gates())
    tables = {**tables_of(frames), "errors": error_table(plan, folder)}
    write_tables({**frames._asdict(), **tables}, folder)
    figures = {"quality": partial(draw_quality, tables), "growth": partial(draw_prompt_growth, tables)}
    model, arms = plan.outline.model, sum(map(is_arm, plan.methods))
    progress = format_progress(len(frames.episodes), arms * len(plan.tasks) * plan.trials)
    write_study_page(
        folder / STUDY_PAGE,
        "study_cgdp.html",
        {name: readable_table(name, table) for name, table in tables.items()},
        write_figures(figures, folder),
        verdict=describe_best(tables["scores"]),
        notes=[score_note(scores), small_corpus_note(benchmark, plan.tasks)],
        title=f"CGDP's study on {plan.benchmark}",
        scope=f"{plan.benchmark}, {model}, {progress}{format_model_note(model.split(MODEL_SEPARATOR))}",
        wrong_below=round(100 * MIN_CORRECT_SCORE),
        gaps={name: " ".join((shows.__doc__ or "").split()) for name, shows in GAPS.items()},
    )
    return StudyReport(frames, tables)


def error_table(plan: ComparisonPlan, folder: Path) -> pd.DataFrame:
    """Count the runs of each arm that ended in an error.

    There is one row per arm and `ending`: `count` runs of all `runs` of the arm. No other table has these runs; the
    next call of the command repeats them.
    """
    folders = [(cell.method.name, cell.run_folder) for cell in cells_of(select_arms(plan), folder)]
    footers = [(method, read_last_footer(run / TRAJECTORY_FILE)) for method, run in folders if run]
    ended = pd.DataFrame(
        [(method, footer.ending) for method, footer in footers if footer], columns=["method", "ending"]
    )
    counts = ended.groupby(["method", "ending"], sort=False).size().reset_index(name="count")
    counts = counts.assign(runs=counts.groupby("method")["count"].transform("sum"))
    return counts[counts["ending"].str.startswith("error:")]


def score_note(scores: StudyScores | None) -> str:
    """Say who scored the answers, and how many have no score yet."""
    if scores is None:
        return "Scores are the benchmark's own."
    missing = f" {format_count(scores.left, 'answer')} without a score; their runs are left out." if scores.left else ""
    return f"Scores are by the rubric {scores.rubric}, judged by {scores.judge}.{missing}"


# Whether the corpus is large enough that new passages can tell anything.

MIN_SEARCHES = 20
"""Number of searches whose passages a corpus must be able to fill. With fewer, passages repeat whatever is asked."""


def small_corpus_note(benchmark: Benchmark, tasks: Sequence[str]) -> str:
    """Say so if the questions are searched in too few passages for the share of unique passages (UPR); else "".

    UPR measures how much of a search is new, for which a corpus must be large (CGDP section 5.2).
    """
    if not isinstance(benchmark, QuestionBenchmark) or benchmark.retrieves:
        return ""
    passages = max((len(benchmark.gold(benchmark.task(id_)).passages) for id_ in tasks), default=0)
    found = benchmark.limits.passages
    if not passages or passages >= MIN_SEARCHES * found:
        return ""
    few = f"{benchmark.name} searches the {passages} passages given with a question, {found} at a time"
    effect = "so after a round or two nothing is new whatever is asked, and gates act on repeated queries alone"
    return f"{few}, {effect}; study gates on {benchmark.plain}:{CORPUS}."


# The command `certigraph study cgdp`.

COMMAND = "certigraph study cgdp"

DEFAULT_BENCHMARK = f"musique:{CORPUS}"
"""A corpus that is large enough for gates: the passages of all questions are searched together."""


def run_command(
    order: ComparisonJob,
    folder: Path,
    *,
    at_once: int,
    workers: WorkerOptions = HERE,
    report_only: bool,
    as_json: bool,
    rubric: RubricChoice | None = None,
) -> int:
    """Execute the unfinished runs of a CGDP study (not with `report_only`), write the report and print it.

    The JSON output is one object: the tables by name, `scored` (who scored), and under `comparison` the comparison with
    other graphs, if any. `at_once` is the number of runs, or of judgements, at a time, and `workers` are the processes
    that execute the runs. With `report_only`, no run is started and no judge is asked. `rubric` is as in the call
    before if it is None.

    Returns:
        The exit status: 1 while runs are unfinished or answers not scored, else 0.

    Raises:
        UnknownName: the benchmark does not take answers to questions, or there is no such rubric.
        Interrupted: by Ctrl-C; the message has the command that resumes the study.
        Fault: as in `compare`.
    """
    name, data = order.plan.benchmark, order.context.data
    benchmark = order.benchmark or load_benchmark(name, data, import_own=not report_only)
    check_takes_answers("pbai", benchmark)
    chosen = choose_rubric(folder, rubric)
    if (note := small_corpus_note(benchmark, order.plan.tasks)) and not as_json:
        typer.echo(note, err=True)
    if not report_only:
        run_comparison(order._replace(command=COMMAND), folder, at_once=at_once, workers=workers, silent=as_json)
        score_study(order, folder, benchmark, chosen, at_once=at_once, silent=as_json)
    scores = read_scores(order, folder, benchmark, chosen)
    tables = write_report(order.plan, folder, benchmark, scores).tables
    findings = None if all(map(is_arm, order.plan.methods)) else report_comparison(order.plan, folder)
    if as_json:
        compared = {"comparison": plain_comparison(findings.comparison, findings.estimates)} if findings else {}
        print_json(tables, scored=scores.words if scores else OWN, **compared)
    else:
        print_study(tables, scores)
        print_report_path(folder / STUDY_PAGE)
        if findings:
            print_tables(findings.comparison, findings.estimates, as_json=False)
            print_report_path(folder / COMPARISON_PAGE)
    return 1 if unfinished_cells(cells_of(order.plan, folder)) or (scores and scores.left) else 0


PRINTED_TABLES = ("scores", "differences", "gate", "reorganisation", "errors", "artefacts", "gaps")
"""Tables that are printed; the page has others too, and says what each shows."""


def print_study(tables: Tables, scores: StudyScores | None = None) -> None:
    """Print the tables in PRINTED_TABLES that have rows, and who scored the answers."""
    shown = {name: readable_table(name, tables[name]) for name in PRINTED_TABLES if len(tables[name])}
    # a terminal is too narrow for all columns
    narrow = {name: table.drop(columns=["tasks", "spread"], errors="ignore") for name, table in shown.items()}
    print_frames(narrow, notes=[score_note(scores)])
