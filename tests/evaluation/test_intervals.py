"""`eval`, `compare` and `anatomy` print the same interval for the same runs."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("inspect_ai", reason="pip install 'certigraph[eval]'")

import pandas as pd

from certigraph.adapters.benchmarks import load_benchmark
from certigraph.cli import main
from certigraph.evaluation.anatomy import score_by_horizon
from certigraph.evaluation.comparison import ComparisonOutline
from certigraph.evaluation.comparison_summary import comparison_of, estimate_figures
from certigraph.evaluation.frames import Frames
from certigraph.evaluation.measures import ComparisonRow
from certigraph.runtime.result import BenchmarkRow
from certigraph.state.records import Scores, Usage
from certigraph.state.trajectory import Footer

OPTIONS = ["--limit", "6", "--trials", "2", "--model", "simulated:act=0.3,seed=2", "--budget", "attempts=1"]


def printed_by(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    with pytest.raises(SystemExit, match="0"):
        main(list(arguments))
    return capsys.readouterr().out


def bounds_in(printed: str, start: str) -> tuple[float, float]:
    """The first interval in a line that begins with `start`, in percent."""
    lines = [line for line in printed.splitlines() if line.split()[: len(start.split())] == start.split()]
    found = [re.search(r"(\d+(?:\.\d)?)%? to (\d+(?:\.\d)?)", line) for line in lines]
    low, high = next(filter(None, found)).groups()
    return float(low), float(high)


@pytest.mark.long
@pytest.mark.slow
def test_three_commands_print_one_interval(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    shown = {
        graph: printed_by(capsys, "eval", graph, "blocksworld", *OPTIONS, "--out", f"runs/{graph}")
        for graph in ("sdp", "react")
    }
    logs = sorted(map(str, Path("runs").glob("*/*.eval")))
    compared = printed_by(capsys, "compare", *logs)
    as_json = json.loads(printed_by(capsys, "compare", *logs, "--json"))
    studied = {graph: printed_by(capsys, "anatomy", f"runs/{graph}", "--out", f"study/{graph}") for graph in shown}
    for graph, printed in shown.items():
        found = bounds_in(printed, "solved")
        assert found == bounds_in(compared, graph)
        [exact] = [(line["low"], line["high"]) for line in as_json["methods"] if line["method"] == graph]
        assert found == pytest.approx(exact, abs=0.051)
        assert bounds_in(studied[graph], "solved") == pytest.approx(exact, abs=0.51)
        rates = pd.read_csv(tmp_path / "study" / graph / "solved.csv").iloc[0]
        assert (100 * rates["low"], 100 * rates["high"]) == pytest.approx(exact)
    low, high = bounds_in(shown["sdp"], "solved")
    assert 0 < low < high < 100, "some of these runs fail"


@pytest.mark.parametrize(
    "values",
    [
        {str(task): [float(task % 3 > 0), 1.0] for task in range(7)},
        {str(task): [task / 8, (task % 4) / 4, 1.0] for task in range(7)},
        {str(task): [1.0] for task in range(5)},
        {"one": [1.0, 0.0, 0.0]},
        {"a": [0.5, 0.25], "b": [0.75, 0.75]},
        {"a": [0.5], "b": [0.5]},
    ],
    ids=["successes", "scores", "all solved", "one task", "two tasks", "equal scores"],
)
def test_three_statistics_have_one_interval(values: dict[str, list[float]]):
    scores = [(task, trial, value) for task, trials in values.items() for trial, value in enumerate(trials)]
    evaluated = [
        BenchmarkRow(
            id=task, trial=trial, footer=Footer(ending="goal", scores=Scores(value=value), usage=Usage(node="all"))
        )
        for task, trial, value in scores
    ]
    estimates = estimate_figures(
        "sdp", [(row.id, row.footer) for row in evaluated], load_benchmark("blocksworld").figures
    )
    [solved] = [one for one in estimates if one.figure == "solved"]
    interval = None if solved.low is None or solved.high is None else (solved.low, solved.high)

    spent: Any = dict.fromkeys(("calls", "prompt_tokens", "cached_tokens", "output_tokens", "steps", "seconds"), 0)
    about: Any = {"method": "sdp", "ending": "goal", "roles": {}, "run": "r"}
    compared = [
        ComparisonRow(task=task, trial=trial, score=100 * value, solved=value >= 1, **about, **spent)
        for task, trial, value in scores
    ]
    trials = len(scores) // len(values)
    [method] = comparison_of(ComparisonOutline("blocksworld", "m", ("sdp",), tuple(values), trials), compared).methods

    frame = pd.DataFrame(
        [{"method": "sdp", "benchmark": "blocksworld", "task": task, "score": value} for task, _, value in scores]
    )
    frame = frame.assign(horizon=3, horizon_name="blocks")
    [studied] = score_by_horizon(Frames(frame, *[frame] * (len(Frames._fields) - 1))).itertuples()

    if interval is None:
        assert (method.low, method.high, pd.isna(studied.low), pd.isna(studied.high)) == (None, None, True, True)
    else:
        assert interval == pytest.approx((studied.low / 100, studied.high / 100))
        assert interval == pytest.approx((method.low / 100, method.high / 100))
