"""Tests of `evaluation.comparison_report`."""

import csv
import json
import math
import os
import re
import shutil
import sys
from collections.abc import Callable
from io import StringIO
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
from helpers.files.product import product_files
from helpers.web.browser_pages import layout_at, needs_browser
from inspect_ai.log import read_eval_log
from rich.console import Console

from certigraph import cli
from certigraph.adapters import benchmarks
from certigraph.adapters.protocols import Budget, Context
from certigraph.adapters.trajectories import read_trajectory
from certigraph.benchmarks.blocksworld.benchmark import BlocksWorld
from certigraph.evaluation.anatomy import analyse
from certigraph.evaluation.compare import ablate, build_job, run_comparison
from certigraph.evaluation.comparison import (
    DATA_FILES,
    Choice,
    ComparisonOutline,
    parse_methods,
    read_plan,
)
from certigraph.evaluation.comparison_report import (
    MAX_SHOWN_CHANGES,
    RunCell,
    compute_results,
    find_score_changes,
    flatten_record,
    lay_out_page,
    write_comparison_page,
    write_comparison_report,
)
from certigraph.evaluation.comparison_summary import (
    AMOUNT_LABELS,
    Comparison,
    adapt_to_methods,
    comparison_of,
)
from certigraph.evaluation.evaluate import evaluate
from certigraph.evaluation.evaluation_results import compare_logs, print_evaluations
from certigraph.evaluation.measures import ComparisonRow, GoalPrecision, RoleUsage, fault_warnings
from certigraph.evaluation.result_tables import (
    call_bars,
    call_table,
    format_verdict,
    method_table,
    terminal_tables,
)
from certigraph.evaluation.tables import FittedTable
from certigraph.runtime.report import write_report
from certigraph.state.endings import Fault
from certigraph.state.records import Task

# The pages and files of a comparison.


@pytest.fixture(scope="module")
def compared_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A comparison of two methods on two tasks, with its report."""
    folder = tmp_path_factory.mktemp("compared")
    context = Context(budget=Budget(calls=50))
    given = build_job(parse_methods(("react", "sdp"), ()), "blocksworld", Choice(ids=("3-0", "3-1")), context)
    run_comparison(given, folder, silent=True)
    write_comparison_report(given.plan, folder)
    return folder


@pytest.mark.slow
def test_every_run_links_to_its_report(compared_folder: Path):
    links = re.findall('<a href="([^"#]+)"', (compared_folder / "comparison.html").read_text())
    files = [compared_folder / unquote(link) for link in links]
    assert {file.name for file in files if file.parent == compared_folder} == set(DATA_FILES)
    assert all(file.is_file() for file in files)
    with (compared_folder / "rows.csv").open(newline="") as lines:
        rows = list(csv.DictReader(lines))
    assert all(read_trajectory(compared_folder / row["folder"]).header.run_id == row["run"] for row in rows)
    reports = [file for file in files if file.parent != compared_folder]
    assert {report.parent for report in reports} == {path.parent for path in compared_folder.rglob("trajectory.jsonl")}
    assert len(reports) == 4
    texts = [report.read_text(encoding="utf-8") for report in reports]
    assert [sum(f"{graph} · blocksworld 3-" in text for text in texts) for graph in ("react", "sdp")] == [2, 2]


@pytest.mark.slow
def test_only_a_method_that_certifies_has_a_goal_precision(compared_folder: Path):
    react, sdp = json.loads((compared_folder / "table.json").read_text())["methods"]
    assert (react["endings"], react["goals"]["n"], sdp["goals"]["n"]) == ({"goal": 2}, 0, 2)


@pytest.mark.parametrize(
    ("names", "model", "warned"),
    [
        (("react", "sdp"), "simulated:act=0.3", True),
        (("sdp", "again=sdp"), "simulated", False),
        (("react", "sdp"), "scripted:expert", False),
    ],
)
def test_a_simulated_agent_ranks_no_methods(names: tuple[str, ...], model: str, warned: bool):
    plan = build_job(parse_methods(names), "blocksworld", Choice(ids=("3-0",)), Context(model=model)).plan
    adapted = adapt_to_methods(comparison_of(plan.outline, []), plan)
    assert len(adapted.warnings) == warned


def test_solved_runs_that_did_not_certify_their_goal_are_reported():
    plan = build_job(parse_methods(("sdp", "react")), "blocksworld", Choice(ids=("3-0", "3-1")), Context()).plan
    rows = [
        row(method, task, ending, 100.0)
        for method, ending in (("sdp", "gave_up"), ("react", "world_ended"))
        for task in ("3-0", "3-1")
    ]
    (warning,) = comparison_of(plan.outline, rows, certifying=["sdp"]).warnings
    assert "sdp" in warning
    assert "2 of the 2 runs" in warning
    certified = [one.model_copy(update={"ending": "goal"}) for one in rows]
    assert comparison_of(plan.outline, certified, certifying=["sdp"]).warnings == ()


def links_to_whole(folder: Path) -> list[str]:
    return re.findall(r'<b>part of</b> <a href="([^"]+)"', (folder / "report.html").read_text(encoding="utf-8"))


@pytest.mark.slow
def test_a_report_links_to_the_page_of_its_comparison_also_after_a_move(compared_folder: Path, tmp_path: Path):
    moved = Path(shutil.copytree(compared_folder, tmp_path / "moved to #2"))
    runs = [path.parent for path in moved.rglob("trajectory.jsonl")]
    for run in runs:
        [link] = links_to_whole(run)
        assert (run / unquote(link)).resolve() == (moved / "comparison.html").resolve()
        assert (run / unquote(link)).is_file()
    cli_report(runs[0])
    assert len(links_to_whole(runs[0])) == 1
    (moved / "comparison.html").unlink()
    cli_report(runs[0])
    assert links_to_whole(runs[0]) == []


def cli_report(folder: Path) -> None:
    """Write the report of a run again, as `certigraph report` does."""
    write_report(read_trajectory(folder), folder / "report.html")


@pytest.mark.slow
def test_estimates_are_traceable_to_the_runs_that_were_replayed(compared_folder: Path, tmp_path: Path):
    found = ablate("sdp", "blocksworld", (), Choice(ids=("4-0", "4-1"), trials=2), out=tmp_path)
    with (tmp_path / "replays.csv").open(newline="") as lines:
        rows = list(csv.DictReader(lines))
    assert len(rows) == 3 * 2 * 2
    for estimate in found.estimates:
        values = [float(row["estimate"]) for row in rows if row["variant"] == estimate.method]
        assert sum(values) / len(values) == pytest.approx(estimate.replayed)
    for row in rows:
        header = read_trajectory(tmp_path / row["folder"]).header
        assert (header.task.id, header.context["trial"]) == (row["task"], int(row["trial"]))
        assert "/1-sdp/" in row["folder"]
    assert 'href="replays.csv"' in (tmp_path / "comparison.html").read_text(encoding="utf-8")
    assert not (compared_folder / "replays.csv").exists()  # nothing was replayed there


def test_runs_with_different_scores_are_counted_by_method_and_the_first_are_shown():
    def cell(score: float | None) -> RunCell:
        return RunCell(f"{score}", "", score)

    scores: list[tuple[float | None, float | None, float | None]] = [(100, 0, 100)] * (MAX_SHOWN_CHANGES + 2)
    scores += [(0, 50, 0), (100, 100, 100), (None, 0, 0), (100, None, 100)]
    runs = [(f"t{number}", [cell(score) for score in row]) for number, row in enumerate(scores)]
    [changes] = find_score_changes(["full", "worse", "equal"], runs)
    assert (changes.method, changes.hidden) == ("worse", 3)
    assert re.findall(r"\d+", changes.summary) == ["1", "24", "22"]
    assert [task for task, *_ in changes.pairs] == [f"t{number}" for number in range(MAX_SHOWN_CHANGES)]


@pytest.mark.slow
def test_only_reports_of_runs_that_went_on_are_written_again(compared_folder: Path, tmp_path: Path):
    folder = Path(shutil.copytree(compared_folder, tmp_path / "copy"))
    kept, outdated, *_ = sorted(folder.rglob("report.html"))
    for report in (kept, outdated):
        report.write_text("as it was")
    os.utime(outdated, (0, 0))
    write_comparison_report(read_plan(folder), folder)
    assert kept.read_text() == "as it was"
    assert "certified" in outdated.read_text(encoding="utf-8")


@pytest.mark.slow
def test_writing_the_page_enters_few_files(compared_folder: Path, tmp_path: Path):
    found, page = compute_results(read_plan(compared_folder), compared_folder), tmp_path / "page.html"
    write_comparison_page(found, page)  # imports and compiles what the next call finds
    entered = set[str]()

    def note(frame: Any, event: str, _: object) -> None:
        if event == "call":
            entered.add(frame.f_code.co_filename)

    sys.setprofile(note)
    try:
        write_comparison_page(found, page)
    finally:
        sys.setprofile(None)
    own = {Path(name).resolve() for name in entered}.intersection(product_files())
    assert 1 < len(own) <= 10, own


def widened(comparison: Comparison) -> Comparison:
    """The same comparison with figures that are as long as they get, and with a prompt cache."""
    long = {"score": 100.0, "low": 56.6, "high": 100.0, "pass_all": 100.0, "successes": 100, "runs": 100, "begun": 100}
    costs = dict.fromkeys(("calls", "prompt_tokens", "cached_tokens", "output_tokens", "steps"), 99_999)
    goals = GoalPrecision(n=100, confirmed=100, value=1.0, low=0.57, high=1.0)
    roles = dict.fromkeys(("executor", "planner", "validator"), RoleUsage(prompt_tokens=9, cached_tokens=8))
    changes = {**long, **costs, "goals": goals, "roles": roles, "method": "validate=capped:depth=1+replan=give_up"}
    methods = tuple(summary.model_copy(update=changes) for summary in comparison.methods)
    return comparison.model_copy(update={"methods": methods})


@pytest.mark.slow
@needs_browser
@pytest.mark.parametrize("width", [400, 1000, 1200, 1600])
def test_the_page_fits_its_window(width: int, compared_folder: Path, tmp_path: Path):
    plan = read_plan(compared_folder)
    found = compute_results(plan, compared_folder)
    laid_out = lay_out_page(plan, widened(found.comparison), found.estimates, (), compared_folder)
    page = tmp_path / "page.html"
    write_comparison_page(found._replace(page=laid_out), page)
    layout = layout_at(width, page.read_text(encoding="utf-8").replace("<details>", "<details open>"), tmp_path)
    assert layout.width <= width
    assert not layout.scrolled or width < 1200


# Tables on a terminal: columns are left out where they do not fit.


def wide_comparison() -> Comparison:
    names = ("sdp", "validate=always_pass", "validate=capped:depth=1")
    rows = [row(name, task, score=50.0 * n) for task in TASKS for n, name in enumerate(names)]
    return comparison_of(ComparisonOutline("blocksworld", "scripted:expert", names, TASKS), rows)


def tables_at(width: int, comparison: Comparison) -> str:
    console = Console(width=width, file=StringIO())
    for table in terminal_tables(comparison):
        console.print(table)
    return console.file.getvalue()  # type: ignore[attr-defined, no-any-return]


@pytest.mark.parametrize("width", [80, 100, 200])
def test_tables_fit_a_terminal_with_whole_cells(width: int):
    shown = tables_at(width, wide_comparison())
    assert max(map(len, shown.splitlines())) <= width
    assert "…" not in shown
    for name in ("validate=always_pass", "validate=capped:depth=1"):
        assert len([line for line in shown.splitlines() if name in line]) == 2 + len(AMOUNT_LABELS)
    heads = shown.splitlines()[0].split()
    assert {"method", "score", "precision"} <= {*heads}
    assert ("output" in heads) == (width == 200)
    assert ("not shown" in shown) == (width < 200)


def test_columns_that_do_not_fit_are_named():
    table = FittedTable(("name", "change", "p", "words"), [("a", "+1", "0.2", "more " * 5)])
    console = Console(width=40, file=StringIO())
    console.print(table)
    heads, _, *notes = console.file.getvalue().splitlines()  # type: ignore[attr-defined]
    assert heads.split() == ["name", "change", "p"]
    assert notes[-1].endswith("words")


# Faults of worlds and data are counted separately, never as failures of a method; errors of models are failures.

pytest.importorskip("inspect_ai", reason="pip install 'certigraph[eval]'")


TASKS = ("3-0", "3-1", "3-2", "3-3")


def row(method: str, task: str, ending: str = "goal", score: float = 0.0) -> ComparisonRow:
    figures: dict[str, Any] = dict.fromkeys(("calls", "prompt_tokens", "cached_tokens", "output_tokens", "steps"), 0)
    named = {"method": method, "task": task, "ending": ending, "score": score, "solved": score == 100}
    return ComparisonRow(**figures, **named, seconds=0.0, roles={}, run=f"{method}-{task}")


def test_parts_that_a_benchmark_shows_stand_in_place_of_the_score():
    plain = compared(row("react", "3-0", score=100), row("sdp", "3-0"))
    heads, _ = method_table(plain.methods)
    assert heads[:3] == ("method", "score", "95 % interval")
    shown = [{"utility": 1.0, "attack success": 1.0}, {"utility": 0.0, "attack success": 0.0}]
    rows = [row("react", "3-0", score=100), row("react", "3-1"), row("sdp", "3-0"), row("sdp", "3-1")]
    rows = [one.model_copy(update={"shown": parts}) for one, parts in zip(rows, shown * 2, strict=True)]
    comparison = compared(*rows)
    heads, lines = method_table(comparison.methods)
    assert heads[:4] == ("method", "utility", "95 % interval", "attack success")
    assert [line[3] for line in lines] == ["50.0", "50.0"]
    assert "react utility 50.0, attack success 50.0 of 100" in format_verdict(comparison)


def test_empty_calls_stand_with_all_calls():
    rows = [row(method, "3-0").model_copy(update={"calls": 9, "empty_calls": 4}) for method in ("react", "sdp")]
    heads, lines = method_table(compared(*rows).methods)
    assert [line[heads.index("calls")] for line in lines] == ["9 (4 empty)"] * 2
    uncounted = compared(row("react", "3-0"), *rows[1:]).methods[0]
    assert (uncounted.empty_calls, "empty_calls" in uncounted.model_dump()) == (None, False)


def costly(method: str, task: str, empty: dict[str, int], **calls: int) -> ComparisonRow:
    """A run with these calls by role, of which some were empty."""
    roles = {role: RoleUsage(calls=count, output_tokens=count) for role, count in calls.items()}
    counted = {"calls": sum(calls.values()), "empty_calls": sum(empty.values()), "empty": empty, "roles": roles}
    return row(method, task).model_copy(update=counted)


def test_calls_stand_by_role_and_those_without_information_by_reason():
    methods = compared(
        costly("react", "3-0", {}, executor=10),
        costly("react", "3-1", {"chains": 1}, executor=10),
        costly("sdp", "3-0", {"verdicts": 3}, planner=1, executor=5, validator=4),
        costly("sdp", "3-1", {"verdicts": 1, "ended": 1}, planner=1, executor=9),
    ).methods
    heads, lines = call_table(methods)
    assert heads == ("method", "score", "calls a run", "executor", "planner", "validator", "empty", *REASONS)
    assert lines == [
        ("react", "0.0", "10", "10", "-", "-", "5%", "0%", "5%", "0%"),
        ("sdp", "0.0", "10", "7", "1", "2", "25%", "20%", "0%", "5%"),
    ]
    react, sdp = call_bars(methods)
    assert [(look, amount) for look, amount, _ in sdp.roles] == [("ink0", 7), ("ink1", 1), ("ink2", 2)]
    assert [text for *_, text in sdp.roles] == ["executor 7", "planner 1", "validator 2"]
    assert sdp.empty == [
        ("gap gap0", 2.0, "verdicts that changed nothing 20%"),
        ("gap gap3", 0.5, "calls after the end 5%"),
    ]
    assert (react.roles[0][0], react.length, sdp.length) == ("ink0", 10, 10)
    parts = {"utility": 0.5, "attack success": 0.0}
    in_parts = compared(*(costly(one, "3-0", {}, executor=1).model_copy(update={"shown": parts}) for one in NAMES))
    heads, lines = call_table(in_parts.methods)
    assert (heads[1], lines[0][1]) == ("utility", "50.0")
    unknown = compared(row("react", "3-0"), row("sdp", "3-0")).methods
    assert (call_table(unknown)[1], call_bars(unknown)) == ([], [])


NAMES, REASONS = ("react", "sdp"), ("verdicts", "chains", "ended")


def test_files_have_calls_by_role_and_empty_calls_by_reason_with_their_shares():
    flat = flatten_record(costly("sdp", "3-0", {"verdicts": 3}, planner=2, executor=10).model_dump())
    named = {name: value for name, value in flat.items() if name.startswith(("calls_", "empty_"))}
    assert named == {
        "empty_calls": 3,
        "calls_planner": 2,
        "calls_executor": 10,
        "empty_verdicts": 3,
        "empty_verdicts_share": 0.25,
    }


@pytest.mark.slow
def test_the_page_has_the_calls_of_each_method_next_to_its_score(compared_folder: Path):
    page = (compared_folder / "comparison.html").read_text(encoding="utf-8")
    rows = re.findall(r"<tr><td>(\w+)</td><td>([\d.]+)</td><td>([\d.]+)</td><td>\s*<div class=\"stack\"", page)
    assert [(method, score) for method, score, _ in rows] == [("react", "100.0"), ("sdp", "100.0")]
    table = json.loads((compared_folder / "table.json").read_text())["methods"]
    assert [sum(role["calls"] for role in one["roles"].values()) for one in table] == [one["calls"] for one in table]


def test_a_lost_run_says_so_in_its_cell():
    lost = row("react", "3-0", "world_ended").model_copy(update={"loss": "lost: the world ended at -100"})
    assert lost.ending_words == "world_ended, lost: the world ended at -100"
    out_of_moves = lost.model_copy(update={"loss": "the world ended without the goal: moves"})
    assert out_of_moves.ending_words == "world_ended"


def compared(*rows: ComparisonRow) -> Comparison:
    return comparison_of(ComparisonOutline("blocksworld", "scripted:expert", ("react", "sdp"), TASKS), rows)


@pytest.fixture
def broken(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Make the worlds of some tasks fail."""
    opened = BlocksWorld.open

    def breaking(*tasks: str, boundary: str = "environment") -> None:
        def fails(self: BlocksWorld, task: Task) -> Any:
            if task.id in tasks:
                raise Fault(boundary, "the simulator crashed")  # type: ignore[arg-type]
            return opened(self, task)

        monkeypatch.setattr(BlocksWorld, "open", fails)

    monkeypatch.delenv("CERTIGRAPH_DATA", raising=False)
    benchmarks._load_shipped.cache_clear()
    return breaking


def test_pairs_with_a_fault_in_either_arm_are_left_out_and_counted():
    rows = [row("react", task, score=100) for task in TASKS]
    rows += [row("sdp", "3-0", score=100), row("sdp", "3-1", "error:environment"), row("sdp", "3-2", "error:data")]
    found = compared(*rows, row("sdp", "3-3", "gave_up"))
    assert [(m.n, m.score, m.faults, m.begun) for m in found.methods] == [(2, 100, 0, 4), (2, 50, 2, 4)]
    assert (found.n, found.faults) == (2, 2)
    (apart,) = found.differences
    assert (apart.n, apart.mean, apart.faults) == (2, -50, 2) and "2 pairs left out" in apart.words
    heads, (react, sdp) = method_table(found.methods)
    assert (react[heads.index("faults")], sdp[heads.index("faults")]) == ("0/4", "2/4")
    (warning,) = found.warnings
    assert "react 0/4, sdp 2/4" in warning


def test_an_ending_says_what_the_score_contradicts_or_adds():
    words = [row("sdp", "t", ending, score).ending_words for ending in ("goal", "world_ended") for score in (0, 100)]
    assert ["denied" in words[0], *words[1:3], "solved" in words[3]] == [True, "goal", "world_ended", True]


def test_errors_of_models_and_operators_count_as_failures_and_are_named():
    rows = [row("react", task, score=100) for task in TASKS]
    found = compared(*rows, *(row("sdp", task, "error:model") for task in TASKS))
    assert [(m.n, m.score, m.faults) for m in found.methods] == [(4, 100, 0), (4, 0, 0)]
    (warning,) = found.warnings
    assert "sdp: 4 of 4 runs ended error:model and count as failures" in warning
    assert found.left == 4


def test_equal_small_shares_of_faults_are_reported_without_a_doubt():
    ended = [*["goal"] * 39, "error:environment"]
    (equal,) = fault_warnings({"a": ended, "b": ended}, "again")
    assert "a 1/40, b 1/40" in equal and "differ" not in equal and "more than" not in equal
    (many,) = fault_warnings({"a": ["goal", "error:data"]}, "again")
    assert "more than 5%" in many
    assert not [*fault_warnings({"a": ["goal", "limit:calls"], "b": []}, "again")]


@pytest.mark.slow
@pytest.mark.parametrize("boundary", ["environment", "data"])
def test_an_evaluation_is_over_the_runs_without_a_fault(boundary: str, broken, tmp_path: Path, capsys):
    broken("3-1", "3-3", boundary=boundary)
    done = evaluate("react", "blocksworld", ids=TASKS, out=tmp_path, quiet=True)
    assert (done.n, done.faults, len(done.rows), done.figures["solved"]) == (2, 2, 4, 1.0)
    log = read_eval_log(done.log)
    assert log.results and (log.results.scores[0].scored_samples, log.results.scores[0].unscored_samples) == (2, 2)
    values = {str(sample.id): sample.scores["certigraph"] for sample in log.samples or [] if sample.scores}
    assert math.isnan(values["3-1"].as_float()) and values["3-1"].reason == f"error:{boundary}"
    print_evaluations([done], as_json=False)
    printed = capsys.readouterr().out
    assert "faults" in printed and "2/4" in printed and "warning: faults" in printed
    print_evaluations([done], as_json=True)
    found = json.loads(capsys.readouterr().out)
    assert (found["n"], found["runs"], found["faults"], found["solved"]) == (2, 4, 2, 1.0) and found["warnings"]


@pytest.mark.slow
def test_an_evaluation_of_faults_alone_has_no_rate(broken, tmp_path: Path):
    broken(*TASKS)
    done = evaluate("react", "blocksworld", ids=TASKS, out=tmp_path, quiet=True)
    assert (done.n, done.faults) == (0, 4) and "solved" not in done.figures


@pytest.mark.slow
def test_logs_are_compared_without_the_pairs_that_a_fault_took(broken, tmp_path: Path):
    whole = evaluate("sdp", "blocksworld", ids=TASKS, out=tmp_path, quiet=True)
    broken("3-1")
    part = evaluate("react", "blocksworld", ids=TASKS, out=tmp_path, quiet=True)
    found = compare_logs([Path(whole.log), Path(part.log)])
    assert [(m.n, m.score, m.faults, m.begun) for m in found.methods] == [(3, 100, 0, 4), (3, 100, 1, 4)]
    assert (found.n, found.faults, found.differences[0].faults) == (3, 1, 1)


@pytest.mark.long
@pytest.mark.slow
def test_comparison_anatomy_and_pages_name_the_faults_and_the_next_call_mends_them(broken, tmp_path: Path, capsys):
    context = Context(budget=Budget(calls=50))
    given = build_job(parse_methods(("react", "sdp"), ()), "blocksworld", Choice(ids=TASKS), context)
    broken("3-1")
    run_comparison(given, tmp_path, silent=True)
    found = write_comparison_report(given.plan, tmp_path)
    assert [(m.n, m.score, m.faults, m.begun) for m in found.comparison.methods] == [(3, 100, 1, 4), (3, 100, 1, 4)]
    page = (tmp_path / "comparison.html").read_text()
    assert "react 1/4, sdp 1/4" in page and "1 pair left out" in page
    assert json.loads((tmp_path / "table.json").read_text())["warnings"]
    tables = analyse(found.frames)
    assert tables["solved"][["n", "value"]].values.tolist() == [[3, 1.0], [3, 1.0]]
    assert tables["faults"][["n", "value"]].values.tolist() == [[4, 0.25], [4, 0.25]]
    with pytest.raises(SystemExit, match="0"):
        cli.main(["anatomy", str(tmp_path), "--out", str(tmp_path / "anatomy")])
    assert "faults" in capsys.readouterr().out
    broken()
    run_comparison(given, tmp_path, silent=True)
    mended = write_comparison_report(given.plan, tmp_path).comparison
    assert (mended.n, mended.faults, mended.warnings, mended.left) == (4, 0, (), 0)
