"""Tests of `evaluation.compare`."""

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from helpers.sample_runs.recorded_runs import rows_of
from helpers.servers.postgres_server import Server

from certigraph import cli
from certigraph.adapters.models.prices import PRICES_VARIABLE
from certigraph.adapters.protocols import Budget, Context
from certigraph.evaluation.compare import build_job, run_comparison
from certigraph.evaluation.comparison import Choice, parse_methods
from certigraph.evaluation.evaluate import evaluate
from certigraph.evaluation.evaluation_results import compare_logs, read_evaluation
from certigraph.evaluation.progress_display import show_progress
from certigraph.evaluation.result_tables import comparison_line
from certigraph.evaluation.sweep import prepare_sweep
from certigraph.state.endings import Fault

# Comparison of separate evaluations by their logs, and messages for those that cannot be compared.

pytest.importorskip("inspect_ai", reason="pip install 'certigraph[eval]'")


TASKS = ["3-0", "3-1", "3-2", "4-0", "4-1", "4-2"]


def log(out: Path, graph: str = "sdp", ids: list[str] = TASKS, swaps: tuple[str, ...] = (), trials: int = 1) -> Path:
    agent = "simulated:propose=0.1,act=0.3,accept=0,reject=0"
    found = evaluate(graph, "blocksworld", model=agent, ids=ids, swaps=swaps, trials=trials, out=out, quiet=True)
    return Path(found.log)


@pytest.fixture(scope="module")
def full(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return log(tmp_path_factory.mktemp("full"))


@pytest.mark.long
@pytest.mark.slow
def test_two_logs_are_paired_by_task(full: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    bare = log(tmp_path, swaps=("validate=always_pass",))
    found = compare_logs([full, bare])
    assert [(m.method, m.n, m.runs) for m in found.methods] == [("sdp", 6, 6), ("sdp validate=always_pass", 6, 6)]
    (difference,) = found.differences
    assert difference.mean == pytest.approx(found.methods[1].score - found.methods[0].score)
    with pytest.raises(SystemExit) as stop:
        cli.main(["compare", str(full), str(bare), "--json"])
    assert stop.value.code == 0
    assert json.loads(capsys.readouterr().out)["differences"][0]["mean"] == difference.mean


@pytest.mark.slow
def test_logs_of_one_method_are_distinguished_by_number(full: Path, tmp_path: Path):
    again = tmp_path / "again.eval"
    again.write_bytes(full.read_bytes())
    assert [m.method for m in compare_logs([full, again]).methods] == ["sdp no. 1", "sdp no. 2"]


@pytest.mark.slow
def test_a_log_that_is_given_twice_is_refused(full: Path):
    with pytest.raises(Fault, match=r"is given twice: give each log once"):
        compare_logs([full, full.parent / "." / ".." / full.parent.name / full.name])


@pytest.mark.slow
def test_logs_of_two_models_are_distinguished_by_model(full: Path, tmp_path: Path):
    other = evaluate("sdp", "blocksworld", model="scripted:expert", ids=TASKS, out=tmp_path, quiet=True)
    names = [m.method for m in compare_logs([full, Path(other.log)]).methods]
    assert names[0].startswith("sdp, simulated:")
    assert names[1] == "sdp, scripted:expert"


@pytest.mark.slow
@pytest.mark.parametrize(("ending", "n"), [("error:environment", 5), ("error:model", 6)])
def test_tasks_with_a_fault_are_left_out_and_errors_of_the_model_are_not(
    ending: str, n: int, full: Path, monkeypatch: pytest.MonkeyPatch
):
    whole = read_evaluation(full)
    footer = whole.rows[0].footer.model_copy(update={"ending": ending})
    broken = whole.rows[0].model_copy(update={"footer": footer})
    cut = whole.model_copy(update={"rows": (broken, *whole.rows[1:])})
    found = {Path("a"): whole, Path("b"): cut}
    monkeypatch.setattr("certigraph.evaluation.evaluation_results.read_evaluation", found.__getitem__)
    comparison = compare_logs(list(found))
    assert (comparison.n, comparison.planned, [m.n for m in comparison.methods]) == (n, 6, [n, n])
    assert ("1 task with a fault left out" in comparison_line(comparison)) == (n < 6)


@pytest.mark.slow
def test_other_tasks_or_trials_are_refused_by_name(full: Path, tmp_path: Path):
    other = log(tmp_path, ids=["3-0", "5-0"], trials=2)
    wrong = rf"different tasks .*only in {full}: .*3-1.*; only in {other}: 3-0 trial 1, 5-0.*same --split"
    with pytest.raises(Fault, match=wrong):
        compare_logs([full, other])


@pytest.mark.slow
def test_another_benchmark_is_refused(full: Path, tmp_path: Path):
    found = evaluate("sdp", "travelplanner", limit=1, out=tmp_path, quiet=True)
    with pytest.raises(Fault, match=r"about blocksworld, .* about travelplanner"):
        compare_logs([full, Path(found.log)])


# A limit of dollars is refused before anything starts if the price of a model is unknown, for every role.

pytest.importorskip("inspect_ai", reason="pip install 'certigraph[eval]'")
pytest.importorskip("yaml", reason="pip install 'certigraph[eval]'")


MINE = "openai:mine"


def evaluated(out: Path) -> None:
    evaluate(model=MINE, budget=["usd=1"], limit=1, out=out)


def evaluated_by_workers(out: Path) -> None:
    evaluate(model="scripted:expert", roles=[f"planner={MINE}"], budget=["usd=1"], limit=1, ray="local", out=out)


def compared(out: Path) -> None:
    build_job(parse_methods(["sdp"]), "blocksworld", Choice(limit=1), Context(model=MINE, budget=Budget(usd=1)))


def swept(out: Path) -> None:
    file = out / "sweep.yaml"
    file.write_text(f"benchmarks: [blocksworld]\ngraphs: [sdp]\nmodel: {MINE}\nlimit: 1\nbudget: {{usd: 1}}\n")
    try:
        prepare_sweep(file, out / "sweep")
    finally:
        file.unlink()


@pytest.mark.parametrize("begin", [evaluated, evaluated_by_workers, compared, swept])
def test_dollars_without_a_price_are_refused(
    begin: Callable[[Path], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("CERTIGRAPH_BASE_URL", "http://127.0.0.1:9/v1")
    monkeypatch.delenv(PRICES_VARIABLE, raising=False)
    monkeypatch.delenv("CERTIGRAPH_DATA", raising=False)
    with pytest.raises(Fault, match="mine has no known price") as refused:
        begin(tmp_path)
    assert refused.value.ending == "error:model"
    assert list(tmp_path.iterdir()) == []


# A comparison with checkpoints on a server leaves none there.

pytest.importorskip("psycopg", reason="pip install 'certigraph[postgres]'")
pytest.importorskip("statsmodels", reason="pip install 'certigraph[eval]'")


@pytest.mark.slow
def test_checkpoints_of_runs_that_are_over_are_deleted(used: Server, tmp_path: Path):
    given = build_job(parse_methods(["sdp"]), "blocksworld", Choice(ids=["3-0"]), Context())
    run_comparison(given, tmp_path, silent=True)
    [row] = rows_of(given.plan, tmp_path)
    assert used.sql("SELECT count(*) FROM checkpoints WHERE thread_id = %s", row.run) == [(0,)]


def test_the_cursor_stays_visible_so_that_a_kill_cannot_hide_it(monkeypatch: pytest.MonkeyPatch, capsys):
    monkeypatch.setenv("FORCE_COLOR", "1")
    with show_progress("work", 3) as display:
        display.advance(1)
        assert re.findall(r"\x1b\[\?25[hl]", capsys.readouterr().err)[-1] == "\x1b[?25h"
