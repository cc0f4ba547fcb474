"""Comparisons: saved plans are enforced, and runs are resumed after any interruption."""

import asyncio
import csv
import fcntl
import json
import re
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from helpers.processes.children import child_environment
from helpers.sample_runs import recorded_runs
from helpers.sample_runs.recorded_runs import points, rows_of, trajectory
from helpers.sample_runs.sweeps import ended_trajectories, superseded_calls

from certigraph import cli
from certigraph.adapters.protocols import Budget, Context
from certigraph.evaluation.compare import ComparisonJob, build_job, run_comparison
from certigraph.evaluation.comparison import (
    Choice,
    ComparisonOutline,
    build_plan,
    cells_of,
    format_differences,
    parse_methods,
    read_cell_trajectory,
    read_plan,
    run_cell,
    save_or_check_plan,
)
from certigraph.evaluation.comparison_report import compute_results, write_comparison_page, write_comparison_report
from certigraph.evaluation.comparison_summary import comparison_of
from certigraph.evaluation.measures import ComparisonRow, RoleUsage
from certigraph.evaluation.plots import AXIS_LABELS, mean_curve
from certigraph.state.endings import Fault, Interrupted, UnknownName
from certigraph.state.trajectory import Event

pytest.importorskip("scipy", reason="pip install 'certigraph[eval]'")


pytestmark = pytest.mark.slow  # whole comparisons

TASKS = ("3-0", "4-0")


def job_of(*graphs: str, tasks: Sequence[str] = TASKS, calls: int = 6, swaps: Sequence[str] = ()) -> ComparisonJob:
    context = Context(budget=Budget(calls=calls))
    return build_job(parse_methods(graphs or ("react", "sdp"), swaps), "blocksworld", Choice(ids=tasks), context)


def done(given: ComparisonJob, folder: Path) -> list[str]:
    """Run the comparison and return the cells that were run."""
    messages: list[str] = []
    run_comparison(
        given, folder, silent=True, listener=lambda cell, _: messages.append(f"{cell.method.name} {cell.task}")
    )
    return messages


def row(method: str, task: str = "t", **figures: Any) -> ComparisonRow:
    usual = {"ending": "goal", "score": 0.0, "solved": False, "calls": 1, "prompt_tokens": 0, "cached_tokens": 0}
    usual |= {"output_tokens": 0, "steps": 0, "seconds": 0.0, "roles": {}, "run": "r"}
    return ComparisonRow.model_validate({"method": method, "task": task, **usual, **figures})


# --- plans


def test_methods_take_names_and_swaps():
    plain, bare = parse_methods(["sdp", "bare=sdp"], ["bare:validate=always_pass"])
    assert (plain.name, bare.name, bare.graph) == ("sdp", "bare", "sdp")
    assert plain.operators["validate"] != bare.operators["validate"] == {"name": "always_pass", "args": {}}


@pytest.mark.parametrize(
    ("graphs", "swaps", "fix"),
    [
        (["sdpp"], [], "did you mean sdp"),
        (["sdp", "sdp"], [], "NAME=GRAPH"),
        (["sdp"], ["step:validate=always_pass"], "METHOD:SLOT=OPERATOR"),
        (["sdp"], ["sdp:validator=always_pass"], "validate"),
    ],
)
def test_methods_that_do_not_exist(graphs: list[str], swaps: list[str], fix: str):
    with pytest.raises(UnknownName, match=fix):
        parse_methods(graphs, swaps)


def test_cells_go_task_by_task(tmp_path: Path):
    cells = cells_of(job_of().plan, tmp_path)
    assert [(c.task, c.method.name) for c in cells] == [(t, m) for t in TASKS for m in ("react", "sdp")]
    assert len({cell.folder for cell in cells}) == 4


def test_a_changed_plan_is_refused_with_what_differs_and_without_runs_replaced(tmp_path: Path):
    for plan in (job_of(calls=7).plan, job_of().plan, job_of().plan):
        save_or_check_plan(plan, tmp_path, "the command")
    assert read_plan(tmp_path).budget.calls == 6
    run = cells_of(job_of().plan, tmp_path)[0].folder / "run"
    run.mkdir(parents=True)
    (run / "trajectory.jsonl").touch()
    changed = job_of(tasks=("3-0", "4-1"), calls=7).plan
    with pytest.raises(Fault, match=r"4-0 there.* 4-1 here; budget\.calls: 6 there, 7 here"):
        save_or_check_plan(changed, tmp_path, "the command")
    fewer, swapped = job_of(tasks=("3-0",)).plan, job_of(swaps=["sdp:validate=always_pass"]).plan
    assert re.findall(r"\d", format_differences(job_of().plan, fewer)) == ["2", "1"]
    assert "always_pass here" in format_differences(job_of().plan, swapped)
    other_graph, trials = job_of("react=sdp", "sdp").plan, job_of().plan.model_copy(update={"trials": 2})
    for other in (fewer, swapped, other_graph, trials):
        with pytest.raises(Fault):
            save_or_check_plan(other, tmp_path, "the command")


def test_a_local_model_is_known_by_its_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "tiny.gguf").touch()
    monkeypatch.setenv("CERTIGRAPH_GGUF", str(tmp_path / "tiny.gguf"))
    plan = build_plan(
        "blocksworld", parse_methods(["react"]), TASKS, Context(model="local", roles={"planner": "local"})
    )
    assert (plan.model, plan.roles) == ("local:tiny.gguf", {"planner": "local:tiny.gguf"})


# --- execution


def test_what_is_done_is_kept(tmp_path: Path):
    given = job_of()
    assert done(given, tmp_path) == ["react 3-0", "sdp 3-0", "react 4-0", "sdp 4-0"]
    files = {path: path.read_bytes() for path in tmp_path.rglob("trajectory.jsonl")}
    assert done(given, tmp_path) == []
    assert {path: path.read_bytes() for path in tmp_path.rglob("trajectory.jsonl")} == files
    endings = {(r.method, r.task): (r.ending, r.score, r.calls) for r in rows_of(given.plan, tmp_path)}
    assert endings["sdp", "3-0"] == ("limit:calls", 0.0, 6)
    assert endings["sdp", "4-0"] == ("goal", 100.0, 5)
    assert endings["react", "4-0"] == ("goal", 100.0, 4)


def test_checkpoints_are_kept_only_of_runs_that_can_go_on(tmp_path: Path):
    given = job_of()
    done(given, tmp_path)
    kept = {
        row.ending: bool(list(tmp_path.rglob(f"{row.run}/checkpoints.sqlite"))) for row in rows_of(given.plan, tmp_path)
    }
    assert kept == {"limit:calls": True, "goal": False}


def test_an_interrupted_comparison_says_how_it_goes_on(tmp_path: Path):
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    given = job_of()
    with pytest.raises(Interrupted, match=f"certigraph compare --out {tmp_path}"):
        run_comparison(given, tmp_path, silent=True, listener=interrupt)
    assert len(done(given, tmp_path)) == 3


def test_where_the_first_runs_all_fail_alike_the_rest_is_not_tried(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    given = job_of(tasks=[f"3-{n}" for n in range(9)])
    monkeypatch.setattr(type(given.benchmark), "open", broken)
    with pytest.raises(Fault, match=r"first 3 runs failed alike \(no Java here\).*certigraph compare --out"):
        done(given, tmp_path)
    assert len(list(tmp_path.rglob("trajectory.jsonl"))) == 3
    monkeypatch.undo()
    assert len(done(given, tmp_path)) == 18


def broken(*_: object) -> None:
    raise Fault("environment", "no Java here")


def test_errors_are_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    code = "from pathlib import Path\nfrom certigraph.nodes.sdp import validate\n"
    code += "async def touchy(state, runtime):\n"
    code += f"    if not Path({str(tmp_path / 'mended')!r}).exists(): raise ZeroDivisionError('touchy')\n"
    code += "    return await validate(state, runtime)\n"
    (tmp_path / "touchy_operator.py").write_text(code)
    monkeypatch.syspath_prepend(tmp_path)
    given = job_of("sdp", "react", tasks=["3-0"], calls=50, swaps=["sdp:validate=touchy_operator:touchy"])
    assert done(given, tmp_path / "out") == ["sdp 3-0", "react 3-0"]
    assert [r.method for r in rows_of(given.plan, tmp_path / "out")] == ["react"]
    (tmp_path / "mended").touch()
    assert done(given, tmp_path / "out") == ["sdp 3-0"]
    assert [r.ending for r in rows_of(given.plan, tmp_path / "out")] == ["goal", "goal"]


def test_a_run_that_died_before_its_first_line_begins_again(tmp_path: Path):
    given = job_of()
    cell = cells_of(given.plan, tmp_path)[0]
    (cell.folder / "20200101-dead").mkdir(parents=True)
    (cell.folder / "20200101-dead" / "trajectory.jsonl").write_text('{"type": "hea')
    assert read_cell_trajectory(cell) is None
    carried = asyncio.run(run_cell(given.plan, cell, given.context, given.benchmark))
    assert carried.footer == read_cell_trajectory(cell).footer  # type: ignore[union-attr]


def test_one_process_at_a_time(tmp_path: Path):
    with (tmp_path / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(Fault, match="another process"):
            done(job_of(), tmp_path)


# --- statistics


def test_tasks_that_a_method_lacks_are_left_out_for_all():
    rows = [row("react", "3-0", score=40), row("sdp", "3-0", score=60), row("react", "4-0", score=100, solved=True)]
    found = comparison_of(job_of().plan.outline, rows)
    assert [(m.n, m.score, m.successes) for m in found.methods] == [(1, 40, 0), (1, 60, 0)]
    (apart,) = found.differences
    assert (apart.method, apart.against, apart.mean, apart.words) == (
        "sdp",
        "react",
        20,
        "too few tasks for a conclusion: n=1, at least 6 needed",
    )


def test_a_method_that_finished_nothing_empties_no_table():
    found = comparison_of(job_of("react", "sdp", "step").plan.outline, [row("react", score=40), row("sdp", score=60)])
    assert [(m.method, m.n, m.score) for m in found.methods] == [("react", 0, 0.0), ("sdp", 0, 0.0), ("step", 0, 0.0)]
    rows = [row(method, task, score=50) for method in ("react", "sdp") for task in TASKS]
    found = comparison_of(job_of("react", "sdp", "step").plan.outline, rows)
    assert [(m.method, m.n) for m in found.methods] == [("react", 2), ("sdp", 2), ("step", 0)]
    assert [d.words for d in found.differences] == ["equal on every task at n=2", "no task that both finished"]


def test_the_difference_is_paired_by_task():
    tasks = [f"3-{n}" for n in range(8)]
    rows = [row("sdp", t, score=10.0 * n + 30 + n % 2) for n, t in enumerate(tasks)]
    rows += [row("react", t, score=10.0 * n) for n, t in enumerate(tasks)]
    (apart,) = comparison_of(job_of(tasks=tasks).plan.outline, rows).differences
    assert apart.mean == 30.5
    assert apart.low == pytest.approx(30.5, abs=0.5)
    assert apart.words == "above react at n=8"


def event(node: str, calls: int = 0, new: bool = False, **observation: Any) -> Event:
    update: dict[str, Any] = {"observation": {"text": "", **observation}} if observation else {}
    replaced = ["history"] if new else []
    cost = {"requests": calls, "cached": 40 * calls}
    return recorded_runs.event(node, 100 * calls, 10 * calls, **cost, update=update, replaced=replaced)


def test_the_score_so_far_is_the_best_episode_s():
    found = points(
        trajectory(
            event("reset", new=True, data={"score": 8}),
            event("decide", calls=2),
            event("act", data={"score": 30}),
            event("decide", calls=1),
            event("act", data={"score": -100}),
            event("reset", new=True, data={"score": 8}),
            event("decide", calls=1),
            event("act", data={"score": 50}),
            value=0.5,
        )
    )
    assert list(found[["calls", "score"]].itertuples(index=False, name=None)) == [
        (0, 8), (2, 8), (2, 30), (3, 30), (3, 30), (3, 30), (4, 30), (4, 50), (4, 50),
    ]  # fmt: skip
    assert found.iloc[-1][["calls", "tokens", "uncached"]].tolist() == [4, 440, 280]


def test_rewards_stand_in_where_no_score_is_shown():
    acts = [event("act", reward=0.25), event("act", reward=0.25), event("reset", new=True, reward=0.0)]
    assert points(trajectory(*acts, value=0.9))["score"].tolist() == [25, 50, 50, 90]


def test_a_mean_curve_steps_where_any_run_does():
    one = trajectory(event("decide", calls=2), event("act", data={"score": 40}), value=0.4)
    other = trajectory(event("decide", calls=3), event("act", data={"score": 80}), value=0.8)
    knots = mean_curve(points(one, other), "calls")
    assert [(k.x, k.mean, k.stderr, k.n) for k in knots] == [(0, 0, 0, 2), (2, 20, 20, 2), (3, 60, 20, 2)]


def test_everything_is_written_and_the_curves_end_at_the_table(tmp_path: Path):
    given = job_of()
    done(given, tmp_path)
    comparison = write_comparison_report(given.plan, tmp_path).comparison
    assert {m.method: m.score for m in comparison.methods} == {"react": 100, "sdp": 50}
    with (tmp_path / "curves.csv").open() as file:
        last = {(line["axis"], line["method"]): float(line["mean"]) for line in csv.DictReader(file)}
    assert last == {(axis, m.method): m.score for axis in AXIS_LABELS for m in comparison.methods}
    assert json.loads((tmp_path / "table.json").read_text())["n"] == 2
    assert (tmp_path / "curves.png").read_bytes().startswith(b"\x89PNG")
    page = (tmp_path / "comparison.html").read_text()
    assert (tmp_path / "curves.svg").read_text().rpartition("<svg")[2] in page
    loaded = re.findall(r'(?<!<a )(?:href|src)="(?!#)[^"]*"|url\((?!#)[^)]*\)|<script|<link', page)
    assert loaded == []
    assert all((tmp_path / link).is_file() for link in re.findall(r'<a href="(?!#)([^"]*)"', page))


def test_the_page_escapes_what_comes_from_outside(tmp_path: Path):
    plan = job_of().plan.model_copy(update={"tasks": ("<script>1</script>",), "model": "<i>m</i>"})
    write_comparison_page(compute_results(plan, tmp_path), tmp_path / "page.html")
    assert not re.search("<script|<i>m", (tmp_path / "page.html").read_text())


def test_cached_shares():
    assert (RoleUsage(prompt_tokens=200, cached_tokens=150).share, RoleUsage().share) == (0.75, 0.0)


# --- the command


def call_command(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as stop:
        cli.main(["compare", *arguments])
    out, err = capsys.readouterr()
    return int(stop.value.code or 0), out, err


@pytest.mark.slow
def test_the_command_runs_goes_on_and_reports(capsys: pytest.CaptureFixture[str], tmp_path: Path):
    out = str(tmp_path / "c")
    chosen = ("--on", "blocksworld", "--task", "3-0", "--task", "4-0", "--budget", "calls=6")
    status, shown, errors = call_command(capsys, "react", "sdp", *chosen, "--out", out)
    assert status == 0
    assert f"certigraph compare --out {out}\n" in errors
    status, shown, errors = call_command(capsys, "--report-only", "--out", out, "--json")
    assert (status, errors) == (0, "")
    assert [m["method"] for m in json.loads(shown)["methods"]] == ["react", "sdp"]
    assert "4 done" in call_command(capsys, "--out", out)[2]


SLOW = """
import asyncio
from certigraph.nodes.sdp import always_pass

async def slow(state, runtime):
    await asyncio.sleep(0.1)
    return await always_pass(state, runtime)
"""

ABLATION = "ablate sdp blocksworld --swap validate=ablated_operators:slow --swap replan=give_up --task 3-0 --task 4-0 "
ABLATION += "--trials 2 --model simulated:act=0.2,seed=3 --budget calls=30 --out"

Row = tuple[str, float, int, int]


@pytest.mark.long
def test_an_ablation_that_is_killed_three_times_gives_the_rows_of_an_undisturbed_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.delenv("CERTIGRAPH_DATA", raising=False)
    (tmp_path / "ablated_operators.py").write_text(SLOW)
    out, before = tmp_path / "killed", dict[Path, bytes]()
    for finished in (2, 5, 9):
        kill_ablation(out, tmp_path, finished)
        after = {path: path.read_bytes() for path in out.rglob("trajectory.jsonl")}
        assert all(after[path].startswith(text) for path, text in before.items())  # a run is gone on with
        before = after
    assert 9 <= len(ended_trajectories(out)) < 12
    for folder in (out, tmp_path / "whole"):
        subprocess.run(command_of(folder), env=child_environment(tmp_path), capture_output=True, check=True)
    assert len(list(out.rglob("trajectory.jsonl"))) == len(outcomes_of(out)) == 12
    assert all(path.read_bytes().startswith(text) for path, text in before.items())
    assert outcomes_of(out) == outcomes_of(tmp_path / "whole")


def command_of(out: Path) -> list[str]:
    code = "import sys; from certigraph.cli import main; main(sys.argv[1:])"
    return [sys.executable, "-c", code, *ABLATION.split(), str(out)]


def kill_ablation(out: Path, site: Path, finished: int) -> None:
    """Start the ablation and kill it inside a run, once so many runs have ended."""
    process = subprocess.Popen(command_of(out), env=child_environment(site), stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 120
    while process.poll() is None and time.monotonic() < deadline:
        over = len(ended_trajectories(out))
        begun = [path for path in out.rglob("trajectory.jsonl") if path.stat().st_size]  # a header is there
        if over >= finished and len(begun) > over:
            break
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    assert process.wait(timeout=60) == -signal.SIGKILL


def outcomes_of(out: Path) -> dict[tuple[str, str, int], Row]:
    """Ending, score and steps of each run, and its calls without those that a kill undid."""
    return {
        (row.method, row.task, row.trial): (
            row.ending,
            row.score,
            row.steps,
            row.calls - superseded_calls(out, row.run),
        )
        for row in rows_of(read_plan(out), out)
    }


def test_runs_that_a_method_s_own_limit_ended_are_warned_about():
    ended = [("sdp", "goal"), ("sdp", "limit:plan"), ("step", "limit:subtasks"), ("step", "limit:steps")]
    rows = [row(method, task=f"t{n % 2}", ending=ending) for n, (method, ending) in enumerate(ended)]
    comparison = comparison_of(ComparisonOutline("blocksworld", "local", ("sdp", "step"), ("t0", "t1")), rows)
    assert comparison.warnings == (
        "sdp: 1 of 2 runs ended at limit:plan; raise it with --budget plan=N",
        "step: 1 of 2 runs ended at limit:subtasks; raise it with --budget subtasks=N or failures=N",
    )
