"""Report of the CGDP study and the command `certigraph study cgdp`.

The study runs search agents (harnesses) under several memory conditions, with and without a gate that stops a search
which makes no more progress.
"""

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
import typer
from markupsafe import Markup
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
from certigraph.evaluation.comparison_report import ComparisonResults
from certigraph.evaluation.comparison_report import comparison_to_json as plain_comparison
from certigraph.evaluation.comparison_report import write_comparison_report as report_comparison
from certigraph.evaluation.plots import GREY, add_panels, assign_colours, chart_style, save_drawing
from certigraph.evaluation.result_tables import format_model_note
from certigraph.evaluation.tables import (
    frame_cells,
    print_report_path,
    records_of,
    table_console,
    terminal_table,
    write_frame,
    write_page,
)
from certigraph.evaluation.workers import HERE, WorkerOptions
from certigraph.graphs.assembly import operators_of
from certigraph.nodes.gates import MAX_CHANGE
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

# The arms of a study, as methods of a comparison.

GATE = "exhaustion_gate"

MEMORYLESS = (ITER_RETGEN,)
"""Harnesses without a memory, for which the condition `lobotomized` (memory taken away) does not exist."""

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
    """Harnesses, variants of settings and memory conditions of an ablation.

    The empty variant is the default setting; empty `memories` mean all memory conditions.
    """

    harnesses: tuple[str, ...]
    variants: tuple[str, ...]
    memories: tuple[str, ...] = ()


ABLATIONS: Mapping[str, Ablation] = {
    "alpha": Ablation(("react", "memgpt"), ("", "alpha=0", "alpha=1")),
    "k": Ablation(("ircot", "react"), ("", "K=12"), memories=("structured",)),
    "depth": Ablation(("ircot",), ("depth=3", "depth=5", "depth=10")),
}
"""Ablations by name. Harnesses and memory conditions are those of the CGDP paper (H.1 to H.3).

`alpha`, the weight of BM25 in retrieval, is varied to both ends of its range.
"""


class StudySelection(NamedTuple):
    """Selection of the arms of a study, which are combinations of harness, memory condition and gate.

    Empty `harnesses` or `memories` mean those of the ablation that `ablate` names, or all if there is none.
    """

    harnesses: Sequence[str] = ()
    memories: Sequence[str] = ()
    gates: Sequence[str] = (SHADOW,)
    ablate: str = ""
    other_graphs: Sequence[str] = ()
    """Other graphs to run on the same tasks, such as `sdp`; only the page of the comparison shows them."""
    gate: str = GATE
    """The gate operator, in the notation of `--swap`; `gates` say whether it stops runs."""


def methods_of(selection: StudySelection) -> tuple[ComparedMethod, ...]:
    """Convert the selected arms of the study, and the other graphs, to methods of one comparison.

    Raises:
        UnknownName: a harness, memory condition, gate, operator or ablation is unknown.
    """
    ablation = ABLATIONS.get(selection.ablate)
    if selection.ablate and not ablation:
        raise UnknownName(f"unknown ablation {selection.ablate!r}; known: {', '.join(ABLATIONS)}")
    harnesses, memories = (ablation.harnesses, ablation.memories) if ablation else ((), ())
    arms = combine_arms(
        selection.harnesses or harnesses or HARNESSES, selection.memories or memories or MEMORIES, selection.gates
    )
    _, gate = parse_swap(f"gate={selection.gate}")
    methods = (method_of(arm, gate) for arm in (apply_ablation(arms, ablation) if ablation else arms))
    return (*methods, *parse_methods(selection.other_graphs))


def combine_arms(harnesses: Sequence[str], memories: Sequence[str], gates: Sequence[str]) -> list[StudyArm]:
    """Combine harnesses x memory conditions x gates into arms, without the conditions that a harness does not have.

    Raises:
        UnknownName: a name is unknown, or no combination is left.
    """
    for what, names, known in (
        ("harness", harnesses, HARNESSES),
        ("memory", memories, MEMORIES),
        ("gate", gates, GATES),
    ):
        if unknown := [name for name in names if name not in known]:
            raise UnknownName(f"unknown {what} {unknown[0]!r}; known: {', '.join(known)}")
    if {OFF, SHADOW} <= set(gates):
        raise UnknownName("--gate off and --gate shadow make the same runs twice: shadow has both, omit off")
    crossed = [StudyArm(*cell) for cell in product(harnesses, memories, gates)]
    arms = [arm for arm in crossed if not (arm.harness in MEMORYLESS and arm.memory == LOBOTOMIZED)]
    if not arms:
        raise UnknownName(f"{', '.join(MEMORYLESS)} has no memory to take away: name another --memory or --harness")
    return arms


def apply_ablation(arms: Sequence[StudyArm], ablation: Ablation) -> list[StudyArm]:
    """Combine every arm with the variants of an ablation that fit the memory condition of the arm."""
    varied = [arm._replace(variant=variant) for arm in arms for variant in ablation.variants]
    return [arm for arm in varied if arm.memory in BELIEFS or "memory" not in VARIANTS[arm.variant]]


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


# The page: one self-contained HTML file with the tables and their captions.


class StudySection(NamedTuple):
    """Section of the page: title, caption, names of the tables, and the name of the figure, if the section has one."""

    title: str
    caption: str
    tables: tuple[str, ...]
    figure: str = ""


SECTIONS = (
    StudySection(
        "Scores and tokens",
        "Means a run with 95 % intervals over tasks, methods as harness/memory; score 0 to 100. Natural runs: what a "
        "shadow gate asked is left out.",
        ("scores",),
    ),
    StudySection(
        "Runs that an error ended",
        "They are in no other table, and the next call tries them again. Where arms differ in them, the others are "
        "over easier tasks: what fails under an arm may be its hardest.",
        ("errors",),
    ),
    StudySection(
        "Differences",
        "Left minus right, paired over tasks: bootstrap interval, paired t-test, Holm-Bonferroni over each family and "
        "measure, and the least difference that so many tasks would show four times in five.",
        ("differences",),
    ),
    StudySection(
        "Quality against tokens",
        "Filled: natural runs; hollow: with the gate. A line joins the conditions that no other one of the harness "
        "beats, dashed with the gate.",
        ("pareto",),
        "quality",
    ),
    StudySection(
        "Exhaustion gate",
        "The blended counterfactual: the gate's own answer where it fired, else the natural one, both of the same run. "
        "Savings are net: the final answer that the gate asks for is counted, and what the gate itself asks.",
        ("gate", "gate_by_memory", "fire_rounds"),
    ),
    StudySection(
        "Other settings of the gate: a replay without answers",
        "When each setting would have fired on the recorded rounds. A replay knows no scores, and its savings leave "
        "out the final answer, which would still have to be paid for.",
        ("gate_replay",),
    ),
    StudySection(
        "Settings that also check how much the belief changed",
        f"The same replay with and without a third condition: at most {MAX_CHANGE:.0%} of the belief's items are new "
        "in a stagnant round (columns with changed). Same: share of runs in which both fire after the same round or "
        "neither does. Arms without a belief are left out.",
        ("state_difference",),
    ),
    StudySection(
        "Rounds",
        "Search rounds of a run, mean with 95 % interval, and median. Below, what gates look at by round: mean unique "
        "passage rate, and the shares of rounds that find little new (at most 0.3) or repeat an action (from 0.6).",
        ("rounds_of_runs", "signals"),
    ),
    StudySection(
        "Prompts by round",
        "Prompt tokens of the agent's own question, over the runs that came so far; memory's own calls are left out.",
        ("prompts",),
        "growth",
    ),
    StudySection(
        "What belief states take",
        "Reorganisation curates a belief that has grown beyond its trigger. Artefacts: runs in which an open question "
        "of a structured belief says that nothing is known.",
        ("reorganisation", "artefacts"),
    ),
    StudySection(
        "By number of hops",
        "Hops are the gold passages of a question; those of which the benchmark names none are left out. Families "
        "of tests are those of one number of hops.",
        ("hops", "differences_by_hops"),
    ),
    StudySection(
        "Questions with and without an answer",
        "Differences in score, left minus right, paired over tasks; families of tests are those of one kind.",
        ("differences_by_answerable",),
    ),
    StudySection(
        "Gaps",
        f"Wrong: a score below {100 * MIN_CORRECT_SCORE:g} of 100. "
        + " ".join(f"{gap.name}, {gap.definition}." for gap in GAPS),
        ("gaps",),
    ),
)


def _verdict(scores: pd.DataFrame) -> str:
    # the best and the cheapest of the arms; the others are in the tables
    by_measure = {
        measure: dict(zip(rows["method"].astype(str), rows["value"].astype(float), strict=True))
        for measure, rows in scores.groupby("measure")
    }
    score, tokens = by_measure.get("score", {}), by_measure.get("tokens", {})
    if not score:
        return ""
    best = min(score, key=lambda method: (-score[method], tokens[method]))
    cheapest, size = min(tokens, key=lambda method: tokens[method]), format_count(int(scores["tasks"].max()), "task")
    found = f"Highest mean score: {best} with {score[best]:.1f} of 100 over {size}, {tokens[best]:,.0f} tokens a run."
    return found if cheapest == best else f"{found} Fewest tokens: {cheapest} with {tokens[cheapest]:,.0f} a run."


MAX_OPEN_ROWS = 16
"""Maximum number of rows of a table that is shown unfolded on the page; longer tables are folded."""


def write_study_page(
    path: Path, plan: ComparisonPlan, tables: Tables, drawings: Mapping[str, Markup], done: int, notes: Sequence[str]
) -> None:
    """Write the HTML page of the study.

    `tables` and `drawings` (figures) are by name, `done` is the number of finished runs. `notes` say who scored, and
    what limits the meaning of the figures; empty ones are left out.
    """
    runs = sum(map(is_arm, plan.methods)) * len(plan.tasks) * plan.trials
    model = plan.outline.model
    missing = f"; {format_count(runs - done, 'run')} not finished" if done < runs else ""
    runs_done = f"{format_count(done, 'run')}{missing}"
    always = {"errors"} if done else set()
    parts = [p for p in SECTIONS if always & {*p.tables} or any(not tables[name].empty for name in p.tables)]
    write_page(
        path,
        "study_cgdp.html",
        package="certigraph.studies",
        title=f"CGDP's study on {plan.benchmark}",
        scope=f"{plan.benchmark}, {model}, {runs_done}{format_model_note(model.split(MODEL_SEPARATOR))}",
        verdict=_verdict(tables["scores"]),
        notes=list(filter(None, notes)),
        sections=parts,
        drawings=drawings,
        tables={name: frame_cells(readable_table(name, tables[name])) for part in parts for name in part.tables},
        most_open=MAX_OPEN_ROWS,
    )


# The figures: quality against tokens, and the growth of prompts, with a panel per harness.

COLOURS = assign_colours(MEMORIES)
MAX_COLUMNS, PANEL_WIDTH, PANEL_HEIGHT = 4, 3.1, 3.0
"""Maximum number of panels in a row of a figure; width and height of a panel in inches."""

MIN_WIDTH = 9.0
"""Minimum width of a figure in inches: that of the page, so that its texts have the size of the page's texts."""


def draw_quality(tables: Tables) -> Figure:
    """Draw a point for each memory condition: its mean score over its mean tokens, with a panel per harness.

    Points with the gate are hollow. A line joins the conditions on the Pareto frontier.
    """
    return _draw_panels(tables["pareto"], _draw_frontier, "tokens a run", "mean score")


def draw_prompt_growth(tables: Tables) -> Figure:
    """Draw the prompt tokens of the agent by search round: a line with its 95 % interval for each memory condition."""
    return _draw_panels(tables["prompts"], _draw_growth, "round", "prompt tokens of the agent")


STUDY_FIGURES: dict[str, Callable[[Tables], Figure]] = {"quality": draw_quality, "growth": draw_prompt_growth}


def _draw_panels(table: pd.DataFrame, draw: Callable[[Any, pd.DataFrame], None], across: str, up: str) -> Figure:
    groups = list(table.groupby(["harness", "variant"], sort=False))
    columns = max(1, min(len(groups), MAX_COLUMNS))
    lines = max(1, -(-len(groups) // columns))
    figure = Figure(figsize=(max(PANEL_WIDTH * columns, MIN_WIDTH), PANEL_HEIGHT * lines + 0.5), layout="constrained")
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


def _draw_frontier(panel: Any, rows: pd.DataFrame) -> None:
    for gate, best in rows[rows["frontier"]].sort_values("tokens").groupby("gate"):
        panel.plot(best["tokens"], best["score"], "--" if gate == ON else "-", color=GREY, linewidth=1, zorder=1)
    for row in rows.itertuples():
        colour, hollow = COLOURS[str(row.memory)], row.gate == ON
        face = "none" if hollow else colour
        panel.scatter(row.tokens, row.score, s=36, facecolors=face, edgecolors=colour, zorder=2)
    panel.set_xlim(left=0)
    panel.xaxis.set_major_formatter(EngFormatter(sep=""))


def _draw_growth(panel: Any, rows: pd.DataFrame) -> None:
    requests = rows[rows["value"] > 0]  # no model is asked where the first query is the question
    for (memory, _gate), line in requests.groupby(["memory", "gate"], sort=False):
        colour, numbers = COLOURS[str(memory)], line["round"].astype(int).tolist()
        panel.plot(numbers, line["value"].tolist(), color=colour, marker=".", linewidth=1.4)
        panel.fill_between(numbers, line["low"].tolist(), line["high"].tolist(), color=colour, alpha=0.14, linewidth=0)
    panel.yaxis.set_major_formatter(EngFormatter(sep=""))
    panel.xaxis.set_major_locator(MaxNLocator(integer=True))


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
    study = StudyReport(frames, {**tables_of(frames), "errors": error_table(plan, folder)})
    for name, frame in {**frames._asdict(), **study.tables}.items():
        write_frame(frame, folder / f"{name}.csv")
    with chart_style():
        drawings = {name: save_drawing(draw(study.tables), folder / name) for name, draw in STUDY_FIGURES.items()}
    notes = (score_note(scores), small_corpus_note(benchmark, plan.tasks))
    write_study_page(folder / STUDY_PAGE, plan, study.tables, drawings, len(frames.episodes), notes)
    return study


def error_table(plan: ComparisonPlan, folder: Path) -> pd.DataFrame:
    """Count the runs of each arm that ended in an error.

    There is one row per arm and `ending`: `count` runs of all `runs` of the arm. No other table has these runs; the
    next call of the command repeats them.
    """
    folders = [(cell.method.name, cell.run_folder) for cell in cells_of(select_arms(plan), folder)]
    footers = [(method, read_last_footer(run / TRAJECTORY_FILE)) for method, run in folders if run]
    ended = [(method, footer.ending) for method, footer in footers if footer]
    runs, counts = Counter(method for method, _ in ended), Counter(ended)
    lines = [(*key, count, runs[key[0]]) for key, count in counts.items() if key[1].startswith("error:")]
    return pd.DataFrame(lines, columns=["method", "ending", "count", "runs"])


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


# The tables for a terminal, or as one JSON object.

PRINTED_TABLES = {
    "scores": "means a run, with 95 % intervals",
    "differences": "left minus right, paired over tasks",
    "gate": "the gate's answer where it fired, else the natural one",
    "reorganisation": "curating the belief",
    "errors": "runs that an error ended: left out above, tried again by the next call",
    "artefacts": "open questions that say that nothing is known, share of runs",
    "gaps": "gaps: runs that show them, of those that can tell",
}
"""Titles of the tables that are printed; the page and the CSV files have all tables."""

ALWAYS_PRINTED = {"scores", "gaps"}
"""Tables that are printed also without rows."""

HIDDEN_COLUMNS = {"tasks", "spread"}
"""Columns that are not printed in a terminal, because it is too narrow."""


def print_study(tables: Tables, scores: StudyScores | None = None) -> None:
    """Print the tables in PRINTED_TABLES, and who scored the answers."""
    console = table_console()
    console.print(f"\n{score_note(scores)}", markup=False)
    for name, title in PRINTED_TABLES.items():
        if tables[name].empty and name not in ALWAYS_PRINTED:
            continue
        frame = readable_table(name, tables[name]).drop(columns=HIDDEN_COLUMNS, errors="ignore")
        console.print(f"\n{title}", style="bold", markup=False)
        console.print(terminal_table(*frame_cells(frame)), markup=False)


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
    if report_only:
        scores = read_scores(order, folder, benchmark, chosen)
    else:
        scores = score_study(order, folder, benchmark, chosen, at_once=at_once, silent=as_json)
    tables = write_report(order.plan, folder, benchmark, scores).tables
    findings = None if all(map(is_arm, order.plan.methods)) else report_comparison(order.plan, folder)
    if as_json:
        compared = {"comparison": plain_comparison(findings.comparison, findings.estimates)} if findings else {}
        scored = {"scored": scores.words if scores else OWN}
        rows = {name: records_of(table) for name, table in tables.items()}
        typer.echo(json.dumps({**rows, **scored, **compared}, ensure_ascii=False))
    else:
        _print_report(tables, scores, findings, folder)
    return 1 if unfinished_cells(cells_of(order.plan, folder)) or (scores and scores.left) else 0


def _print_report(tables: Tables, scores: StudyScores | None, findings: ComparisonResults | None, folder: Path) -> None:
    print_study(tables, scores)
    pages = [STUDY_PAGE]
    if findings:
        print_tables(findings.comparison, findings.estimates, as_json=False)
        pages.append(COMPARISON_PAGE)
    for page in pages:
        print_report_path(folder / page)
