"""Goal precision: the share of runs ending `goal` that are solved, in every output that shows it."""

import io
import json
from pathlib import Path

import pytest
from helpers.worlds.scripted_benchmark import Script
from rich.console import Console
from statsmodels.stats.proportion import proportion_confint

from certigraph.adapters.protocols import Context
from certigraph.evaluation.comparison import ComparisonOutline
from certigraph.evaluation.comparison_report import flatten_record
from certigraph.evaluation.comparison_summary import comparison_of
from certigraph.evaluation.evaluation_results import Evaluation, print_evaluations
from certigraph.evaluation.measures import ComparisonRow, GoalPrecision, RunOutcome, goal_precision
from certigraph.evaluation.result_tables import method_table
from certigraph.runtime.live import LiveView
from certigraph.runtime.report import write_report
from certigraph.runtime.result import BenchmarkRow as EvalRow
from certigraph.runtime.run import run
from certigraph.state.records import Scores, Usage
from certigraph.state.trajectory import Footer


def outcomes(confirmed: int, denied: int) -> list[RunOutcome]:
    return [RunOutcome(f"t{n}", "goal", n < confirmed) for n in range(confirmed + denied)]


def test_the_share_of_goal_runs_that_are_solved_with_wilsons_interval():
    others = [
        RunOutcome("x", "limit:steps", False),
        RunOutcome("y", "world_ended", True),
        RunOutcome("z", "goal", None),
    ]
    found = goal_precision([*outcomes(3, 1), *others])
    assert (found.n, found.confirmed, found.value) == (4, 3, 0.75)
    assert (found.low, found.high) == pytest.approx(proportion_confint(3, 4, method="wilson"))


def test_runs_of_one_task_count_as_one_where_they_agree():
    repeated = goal_precision([outcome for outcome in outcomes(2, 1) for _ in range(10)])
    assert (repeated.n, repeated.value) == (30, pytest.approx(2 / 3))
    assert (repeated.low, repeated.high) == pytest.approx(proportion_confint(2, 3, method="wilson"), abs=0.01)


@pytest.mark.parametrize("n", range(1, 30))
def test_no_rounding_shows_at_the_ends_of_an_interval(n: int):
    assert goal_precision(outcomes(0, n)).low == 0.0
    assert goal_precision(outcomes(n, 0)).high == 1.0


def test_without_a_scored_goal_there_is_no_precision():
    assert goal_precision([RunOutcome("x", "goal", None), RunOutcome("y", "gave_up", False)]) == GoalPrecision()
    assert str(GoalPrecision()) == "-"


def row(task: str, ending: str, score: float, scored: bool = True) -> ComparisonRow:
    spent = {"calls": 1, "prompt_tokens": 1, "cached_tokens": 0, "output_tokens": 1, "steps": 1, "seconds": 1.0}
    solved = {"score": score, "solved": score >= 100, "scored": scored}
    return ComparisonRow(method="sdp", task=task, ending=ending, run="r", roles={}, **spent, **solved)


def test_comparisons_show_it_next_to_the_successes():
    rows = [row("a", "goal", 100), row("b", "goal", 0), row("c", "limit:steps", 0)]
    (summary,) = comparison_of(ComparisonOutline("toy", "m", ("sdp",), ("a", "b", "c")), rows).methods
    heads, (line,) = method_table([summary])
    assert dict(zip(heads, line, strict=True))["goal precision"].startswith("1/2, 50 %")
    assert flatten_record(summary.model_dump())["goal_precision_value"] == 0.5
    (unscored,) = comparison_of(
        ComparisonOutline("toy", "m", ("sdp",), ("a",)), [row("a", "goal", 0, scored=False)]
    ).methods
    assert str(unscored.goals) == "-"


def evaluation(*runs: tuple[str, float | None]) -> Evaluation:
    footers = [
        Footer(ending=e, scores=None if v is None else Scores(value=v), usage=Usage(node="all")) for e, v in runs
    ]
    rows = tuple(EvalRow(id=str(n), planned=1, footer=footer) for n, footer in enumerate(footers))
    return Evaluation(
        graph="sdp", benchmark="toy", model="m", swaps={}, figures={}, intervals={}, rows=rows, log="x.eval"
    )


def test_evaluations_print_it_and_have_it_in_their_json(capsys: pytest.CaptureFixture[str]):
    done = [evaluation(("goal", 1.0), ("goal", 0.5), ("gave_up", 0.0))]
    print_evaluations(done, as_json=False)
    assert "1/2, 50 %" in capsys.readouterr().out
    print_evaluations(done, as_json=True)
    assert json.loads(capsys.readouterr().out)["goal_precision"]["confirmed"] == 1
    assert str(evaluation(("goal", None)).comparison.methods[0].goals) == "-"


def test_json_has_the_same_fields_of_every_configuration(capsys: pytest.CaptureFixture[str]):
    first = evaluation(("goal", 1.0))
    other = evaluation(("goal", 1.0), ("error:data", None)).model_copy(update={"benchmark": "toy:hard"})
    print_evaluations([first, other], as_json=True)
    parsed = json.loads(capsys.readouterr().out)
    found = parsed["beside"]["toy:hard"]
    assert (found["n"], found["runs"], found["faults"]) == (1, 2, 1)
    assert found["endings"] == {"goal": 1, "error:data": 1}
    assert found["warnings"]
    assert {*parsed} - {"graph", "benchmark", "model", "language_model", "statistics", "beside"} <= {*found}


@pytest.mark.parametrize("score", [0.0, 1.0])
def test_a_run_whose_goal_the_scorer_denies_is_marked(score: float, tmp_path: Path):
    console = Console(file=io.StringIO(), width=120)
    world = Script(plan=1, verdicts=[1], score=score)
    with LiveView(console) as view:
        result = run("sdp", world, "only", context=Context(), out=tmp_path, listener=view)
    assert result.ending == "goal"
    page = write_report(result.trajectory, tmp_path / "report.html").read_text(encoding="utf-8")
    frame = Console(record=True, force_terminal=True, width=110, height=30, file=io.StringIO())
    with LiveView(frame) as view:
        for line in [result.trajectory.header, *result.trajectory.events, result.trajectory.footer]:
            view(line)
    for shown in (page, console.file.getvalue(), frame.export_text()):
        assert ("denied by the scorer" in shown) == (score < 1)
