"""`eval`, `compare` and `anatomy` print the same interval for the same runs."""

from typing import Any

import pytest

pytest.importorskip("inspect_ai", reason="pip install 'certigraph[eval]'")

import pandas as pd

from certigraph.adapters.benchmarks import load_benchmark
from certigraph.evaluation.anatomy import score_by_horizon
from certigraph.evaluation.comparison import ComparisonOutline
from certigraph.evaluation.comparison_summary import comparison_of, estimate_figures
from certigraph.evaluation.frames import Frames
from certigraph.evaluation.measures import ComparisonRow
from certigraph.runtime.result import BenchmarkRow
from certigraph.state.records import Scores, Usage
from certigraph.state.trajectory import Footer


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
