"""Sweeps carried out: limited, extended, reported; and what is written of them."""

import csv
import json
import re
from pathlib import Path

import pytest

pytest.importorskip("yaml", reason="pip install 'certigraph[eval]'")
pytest.importorskip("statsmodels", reason="pip install 'certigraph[eval]'")

from sweeps import RUNS, TEXT, ended, file, runs_left, worked

from certigraph.evaluation.sweep_report import sweep, worked_off
from certigraph.state.records import Fault
from certigraph.state.trajectory import read_trajectory

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def _generated_worlds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CERTIGRAPH_DATA", raising=False)


def test_a_spent_purse_stops_the_sweep_and_a_larger_one_goes_on(tmp_path: Path):
    given, out = file(tmp_path, TEXT + "most: {calls: 12}\n"), tmp_path / "out"
    found = sweep(given, out)
    assert 12 <= found.spent.calls < 12 + 30  # the run that was under way ended by its own budget
    assert found.found[0].left > 0  # in the midst of the first benchmark
    assert found.left < RUNS
    [stopped] = found.stopped
    assert re.match(rf"\d+ of 12 calls are made: {found.left} runs left; go on with a larger `most` in ", stopped)
    assert stopped.endswith(f"certigraph sweep {given} --out {out}")
    page = (out / "sweep.html").read_text()
    assert f"partial: {found.left} of {RUNS} runs are still to be run" in page
    assert stopped.partition(";")[0] in page
    assert json.loads((out / "sweep.json").read_text())["partial"] is True
    before = ended(out)
    assert ended(out).keys() == before.keys() == {row.run for one in found.found for row in one.comparison.rows}
    assert worked(given, out) == [stopped]  # what was spent is known to a new process
    assert ended(out) == before

    assert worked(file(tmp_path, TEXT + "most: {calls: 6000}\n"), out) == []
    assert runs_left(given, out) == [0, 0]
    assert {name: ended(out)[name] for name in before} == before


def test_hours_are_those_of_one_start(tmp_path: Path):
    given = file(tmp_path, TEXT + "most: {hours: 0.00000001}\n")
    [stopped] = worked(given, tmp_path / "out")
    assert (
        stopped == f"1e-08 hours are over: {RUNS} runs left; go on with certigraph sweep {given} --out {tmp_path}/out"
    )


def test_a_benchmark_may_be_added_and_nothing_else_changed(tmp_path: Path):
    small = TEXT.replace("  - {name: travelplanner, limit: 1}\n", "").replace("limit: 3", "limit: 1")
    out = tmp_path / "out"
    worked(file(tmp_path, small), out)
    before = ended(out)
    with pytest.raises(Fault, match=r"another sweep.yaml \(trials: 1 there, 2 here\): benchmarks may be added"):
        worked(file(tmp_path, small + "trials: 2\n"), out)
    with pytest.raises(Fault, match=r"tasks\.2"):
        worked(file(tmp_path, small.replace("limit: 1", "limit: 2")), out)
    with pytest.raises(Fault, match=r"has runs of blocksworld, which .*sweep.yaml lacks"):
        worked(file(tmp_path, small.replace("{name: blocksworld", "{label: b, name: blocksworld")), out)
    with pytest.raises(Fault, match=r"another sweep.yaml \(trials"):  # nor is a report of other runs written
        worked_off(file(tmp_path, small + "trials: 2\n"), out, report_only=True, as_json=True)
    assert ended(out) == before
    worked(file(tmp_path, TEXT.replace("limit: 3", "limit: 1") + "at_once: 2\n"), out)
    assert before.items() <= ended(out).items()
    assert len(ended(out)) == 2 * len(before)


def test_every_number_leads_to_its_runs(tmp_path: Path):
    label = "<b>blocks</b>"
    given, out = (
        file(tmp_path, TEXT.replace("{name: blocksworld", f'{{label: "{label}", name: blocksworld')),
        tmp_path / "o",
    )
    found = sweep(given, out)
    with (out / "rows.csv").open() as lines:
        rows = list(csv.DictReader(lines))
    assert len(rows) == RUNS
    for row in rows:
        trajectory = read_trajectory(out / row["folder"])
        assert (trajectory.header.run_id, trajectory.header.task.id) == (row["run"], row["task"])
        assert trajectory.usage.calls == int(row["calls"])
    blocks = next(one for one in found.found if one.title == label)
    scores = [float(row["score"]) for row in rows if row["benchmark"] == label and row["method"] == "react"]
    [summary] = [summary for summary in blocks.comparison.methods if summary.method == "react"]
    assert summary.score == pytest.approx(sum(scores) / len(scores))
    assert [effect.difference.method for effect in found.effects] == 2 * ["sdp validate=always_pass"]
    page = (out / "sweep.html").read_text()
    links = re.findall(r'(?:href|src)="(?!#)([^"]*)"|url\((?!#)[^)]*\)|<script|<link', page)
    assert links == [one.page for one in found.found]
    assert all((out / link).is_file() for link in links)
    assert label not in page
    assert "&lt;b&gt;blocks&lt;/b&gt;" in page
    assert (out / "scores.png").read_bytes().startswith(b"\x89PNG")
