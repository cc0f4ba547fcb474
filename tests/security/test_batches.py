"""Threats 4 and 10 through whole batches: ids that are paths or markup, in `eval`, `compare` and a measurement."""

import csv
import os
from pathlib import Path
from urllib.parse import quote

import pytest
from security.test_paths import PATHS
from security.test_viewers import HOSTILE, assert_inert

pytest.importorskip("inspect_ai", reason="pip install 'certigraph[eval]'")

from certigraph.adapters.protocols import Budget, Context
from certigraph.adapters.trajectories import read_trajectory
from certigraph.benchmarks.blocksworld.benchmark import BlocksWorld
from certigraph.evaluation.compare import build_job, run_comparison
from certigraph.evaluation.comparison import DATA_FILES, Choice, parse_methods
from certigraph.evaluation.comparison_report import write_comparison_report
from certigraph.evaluation.evaluate import evaluate
from certigraph.evaluation.inspect_tasks import create_dataset
from certigraph.state.endings import Fault
from certigraph.state.records import Task
from certigraph.studies.rewards import FailedPair, predictor_table
from certigraph.studies.rewards_report import RewardFindings, write_rewards_page

pytestmark = pytest.mark.slow  # whole batches

IDS = [*(path for path in PATHS if "\0" not in path), HOSTILE]


@pytest.fixture
def hostile(monkeypatch: pytest.MonkeyPatch) -> None:
    """BlocksWorld's tasks under other names."""
    plain = BlocksWorld().task("3-0")
    monkeypatch.delenv("CERTIGRAPH_DATA", raising=False)
    fields = {"goal": f"{plain.goal} {HOSTILE}"}
    monkeypatch.setattr(BlocksWorld, "task", lambda self, id_: plain.model_copy(update={"id": id_, **fields}))
    monkeypatch.setattr(BlocksWorld, "tasks", lambda self, split="": [self.task(id_) for id_ in IDS])


def stays(tmp_path: Path, out: Path) -> None:
    """Everything that was written is below `out`, every run in a folder of its own."""
    assert {path for path in tmp_path.rglob("*") if path.is_file()} == {p for p in out.rglob("*") if p.is_file()}
    runs = [read_trajectory(path) for path in out.rglob("trajectory.jsonl")]
    assert {run.header.task.id for run in runs} == set(IDS)
    assert len({path.parent for path in out.rglob("trajectory.jsonl")}) == len(runs)


def test_an_evaluation_of_hostile_tasks_stays_in_its_folder(hostile: None, tmp_path: Path, monkeypatch) -> None:
    out = tmp_path / "a" / "b" / "runs"
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("INSPECT_LOG_DIR", str(out))
    done = evaluate("react", "blocksworld", budget=["calls=2"], out=out, quiet=True)
    assert {row.id for row in done.rows} == set(IDS)
    stays(tmp_path, out)


def test_an_id_that_a_log_would_cut_off_is_refused() -> None:
    with pytest.raises(Fault, match="without NUL"):
        create_dataset("x", [Task(benchmark="x", id="a"), Task(benchmark="x", id="a\0b")])


def test_a_comparison_of_hostile_tasks_stays_in_its_folder_and_is_text(hostile: None, tmp_path: Path) -> None:
    out = tmp_path / "a" / "b" / "compared"
    context = Context(budget=Budget(calls=2))
    job = build_job(parse_methods(["react", "sdp"], ()), "blocksworld", Choice(ids=tuple(IDS)), context)
    run_comparison(job, out, silent=True)
    write_comparison_report(job.plan, out)
    stays(tmp_path, out)
    reports = {quote(path.relative_to(out).as_posix()): path for path in out.rglob("report.html")}
    assert len(reports) == 2 * len(IDS)
    page = out / "comparison.html"
    assert_inert(page.read_text(encoding="utf-8"), [*reports, *DATA_FILES])
    for report in reports.values():
        back = quote(Path(os.path.relpath(page, report.parent)).as_posix())
        assert_inert(report.read_text(encoding="utf-8"), [back])
    with (out / "rows.csv").open(newline="") as file:
        for row in csv.DictReader(file):
            assert not any(cell.startswith(("=", "@", "\t", "\r")) or cell == "-rf" for cell in row.values())


def test_a_measurement_of_hostile_pairs_is_text(tmp_path: Path) -> None:
    failed = [FailedPair(predictor=HOSTILE, pair=HOSTILE, reason=HOSTILE)]
    findings = RewardFindings(predictor_table((), ()), findings=[HOSTILE], failed=failed, notes=[HOSTILE])
    write_rewards_page(findings, {}, tmp_path / "rewards.html")
    assert_inert((tmp_path / "rewards.html").read_text(encoding="utf-8"))
