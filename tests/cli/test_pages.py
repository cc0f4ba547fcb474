"""The pages that commands write: each renders and has the numbers of the data that is written with it."""

import csv
import json
import re
from collections import Counter
from html import unescape
from pathlib import Path

import pytest

from certigraph.cli import main

SIMULATED = "--model simulated:seed=0"

SWEEP = """\
model: simulated:seed=0
benchmarks: [{name: blocksworld, limit: 2}]
graphs: [sdp, react]
operators: [{}, {validate: always_pass}]
budget: {steps: 30}
"""


def certigraph(*arguments: str) -> None:
    with pytest.raises(SystemExit) as done:
        main([*arguments])
    assert not done.value.code


def page_text(path: Path) -> str:
    """The visible text of a page, in one line."""
    page = path.read_text(encoding="utf-8")
    assert page.rstrip().endswith("</html>")
    page = re.sub("<(script|style|svg)\\b.*?</\\1>", " ", page, flags=re.DOTALL)
    return " ".join(unescape(re.sub("<[^>]*>", " ", page)).split())


def rows(path: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(path.open(encoding="utf-8")))


@pytest.mark.slow
@pytest.mark.parametrize(
    "arguments",
    [
        f"sdp blocksworld --task 6-2 {SIMULATED}",
        "tdp hotpotqa:interactive",
        "step blocksworld",
        "reflexion blocksworld",
        "pbai swe_qa",
        "monotonic rewardprediction",
    ],
)
def test_the_report_of_a_run_has_its_score_and_what_each_operator_did(
    arguments: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.delenv("CERTIGRAPH_DATA", raising=False)  # real questions about software need its repository
    certigraph("run", *arguments.split(), "--json", "--out", str(tmp_path))
    summary = json.loads(capsys.readouterr().out.splitlines()[-1])
    shown = page_text(Path(summary["folder"]) / "report.html")
    lines = (Path(summary["folder"]) / "trajectory.jsonl").read_text("utf-8").splitlines()
    _, *events, footer = [json.loads(line) for line in lines]
    assert f"{summary['graph']} · {summary['benchmark']}" in shown
    assert f"{footer['scores']['value'] * 100:.3g} of 100" in shown
    for node, times in Counter(event["node"] for event in events).items():
        assert re.search(rf"\b{node} {times} \d", shown), node
    assert re.search(rf"\b{footer['usage']['calls']}\b", shown)


@pytest.mark.slow
@pytest.mark.parametrize(
    "command",
    [f"compare sdp react --on blocksworld --limit 1 {SIMULATED}", f"ablate sdp blocksworld --limit 1 {SIMULATED}"],
)
def test_the_page_of_a_comparison_has_the_scores_of_its_table(command: str, tmp_path: Path):
    certigraph(*command.split(), "--out", str(tmp_path))
    shown = page_text(tmp_path / "comparison.html")
    table = rows(tmp_path / "table.csv")
    assert len(table) > 1
    for method in table:
        assert method["method"] in shown
        assert f"{float(method['score']):.1f}" in shown


@pytest.mark.slow
def test_the_pages_of_a_sweep_and_of_its_anatomy_have_their_rates(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    Path("sweep.yaml").write_text(SWEEP, encoding="utf-8")
    certigraph("sweep", "sweep.yaml", "--out", "sweep")
    shown = page_text(Path("sweep/sweep.html"))
    found = rows(Path("sweep/sweep.csv"))
    assert [row["method"] for row in found] == ["sdp", "sdp validate=always_pass", "react"]
    assert all(f"{float(row['score']):.1f}" in shown and row["calls"] in shown for row in found)
    certigraph("anatomy", "sweep/blocksworld", "--out", "anatomy")
    assert all(row["method"] in page_text(Path("anatomy/anatomy.html")) for row in found)
