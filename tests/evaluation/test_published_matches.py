"""Tests of `evaluation.published_matches`, and of what `eval` and `compare` print and write of it."""

import json
from pathlib import Path

import pytest

from certigraph import cli
from certigraph.adapters.benchmarks import load_benchmark
from certigraph.adapters.protocols import Budget, Context, Limits
from certigraph.benchmarks.scienceworld.splits import STEP_LONG, STEP_SHORT
from certigraph.evaluation.comparison import build_plan, parse_methods
from certigraph.evaluation.evaluation_results import Evaluation, print_evaluations
from certigraph.evaluation.published_matches import (
    PublishedMatch,
    RunSetting,
    find_matches,
    normalise_model,
    view_matches,
)
from certigraph.runtime.registry import paper_swaps
from certigraph.runtime.result import BenchmarkRow
from certigraph.state.records import Scores, Usage
from certigraph.state.trajectory import Footer

VALIDATION = {str(n) for n in range(180)}


def setting(
    graph: str = "sdp",
    benchmark: str = "travelplanner:paper",
    models: tuple[str, ...] = ("openai:gpt-4o",),
    tasks: set[str] = VALIDATION,
    *,
    swaps: dict[str, str] | None = None,
    limited: bool = False,
) -> RunSetting:
    return RunSetting(graph, swaps or {}, benchmark, {*models}, tasks, limited)


def here(found: tuple[PublishedMatch, ...], model: str = "GPT-4o") -> list[str]:
    """What is different in the runs from the figure with a model."""
    (match,) = [match for match in found if match.figure.model == model]
    return [mark for mark in match.here if mark.startswith(("other", "perhaps"))]


# Which figures belong to runs.


def test_a_figure_belongs_to_runs_of_its_graph_benchmark_and_metric():
    found = find_matches(setting(), {"final_pass", "goal"})
    assert [(m.figure.model, m.figure.percent) for m in found] == [
        ("Gemini-3.1-flash-lite", "61.7"),
        ("GPT-4o", "65.6"),
    ]
    for other in (
        setting(graph="step"),
        setting(graph="my.graphs:build"),
        setting(benchmark="blocksworld"),
        setting(benchmark="travelplanner:tools"),
        setting(benchmark="travelplanner:rollback"),
    ):
        assert find_matches(other, {"final_pass"}) == ()
    assert find_matches(setting(), {"score"}) == ()


def test_an_exchanged_operator_makes_another_method():
    world = "scienceworld:paper"
    usual = find_matches(setting(benchmark=world), {"overall"})
    ablated = find_matches(setting(benchmark=world, swaps={"validate": "always_pass"}), {"overall"})
    assert ([m.figure.percent for m in usual], [m.figure.percent for m in ablated]) == (["59.16"], ["15.7"])
    assert "runs of the variant instead of replays" in ablated[0].here
    assert find_matches(setting(benchmark=world, swaps={"realize": "mine:realize"}), {"overall"}) == ()


def test_a_figure_on_exactly_the_same_tasks_replaces_the_one_on_all():
    def percents(tasks: set[str]) -> list[tuple[str, list[str]]]:
        paper = paper_swaps("step")
        found = find_matches(setting("step", "scienceworld", ("openai:gpt-4o-mini",), tasks, swaps=paper), {"score"})
        return [(match.figure.percent, list(match.here)) for match in found]

    short = {f"step-18/{task}:1" for task in STEP_SHORT.values()}
    assert percents({"step-18/boil:1"}) == [("21.5", [])]
    assert percents(short) == [("79.9", [])]
    assert percents(short | {f"step-18/{task}:1" for task in STEP_LONG.values()}) == [("67.4", [])]
    assert percents({"boil:1"}) == [("67.4", ["other tasks"])]
    default = find_matches(setting("step", "scienceworld", ("openai:gpt-4o-mini",), short), {"score"})
    assert [(match.figure.percent, list(match.here)) for match in default] == [("79.9", ["cheaper loop"])]


# What is different in the runs.


def test_nothing_is_marked_where_nothing_is_different():
    assert here(find_matches(setting(), {"final_pass"})) == []


@pytest.mark.parametrize(
    ("changed", "mark"),
    [
        (setting(models=("openai:gpt-4o-mini",)), "other model"),
        (setting(models=("scripted:expert",)), "other model"),
        (setting(models=("openai:gpt-4o", "local:qwen-0.5b")), "other model"),
        (setting(benchmark="travelplanner"), "other configuration"),
        (setting(tasks={"0", "1"}), "other tasks"),
        (setting(tasks={f"train/{n}" for n in range(180)}), "other tasks"),
        (setting(limited=True), "other limits"),
    ],
)
def test_each_difference_is_marked(changed: RunSetting, mark: str):
    assert here(find_matches(changed, {"final_pass"})) == [mark]


def test_tasks_that_a_paper_does_not_name_are_never_taken_for_the_same():
    tdp = find_matches(setting("tdp", "scienceworld:tdp", tasks={str(n) for n in range(100)}), {"score"})
    assert here(tdp) == ["perhaps other tasks"]
    few = find_matches(setting("tdp", "scienceworld:tdp", tasks={"1"}), {"score"})
    assert here(few) == ["other tasks"]


def test_a_model_that_is_not_stated_is_not_called_another():
    (match,) = find_matches(setting("react", "scienceworld", tasks={"step-18/boil:1"}), {"score"})
    assert (match.figure.model, match.here) == ("", ())


@pytest.mark.parametrize(
    ("ours", "name"),
    [
        ("openai:gpt-4o-2024-08-06", "gpt-4o"),
        ("openai:gpt-4o?effort=low", "gpt-4o"),
        ("anthropic/claude-x-20250219", "claude-x"),
        ("openai:vendor/GPT-OSS-20B", "gpt-oss-20b"),
        ("gpt-4o-mini", "gpt-4o-mini"),
    ],
)
def test_models_are_named_as_in_papers(ours: str, name: str):
    assert normalise_model(ours) == name


def test_limits_of_a_comparison_are_marked_if_they_are_not_the_benchmarks():
    def limited(limits: Limits, budget: Budget) -> bool:
        context = Context(limits=limits, budget=budget)
        return build_plan("scienceworld:tdp", parse_methods(["tdp"]), ["boil:0"], context).settings["tdp"].limited

    usual = load_benchmark("scienceworld:tdp").limits
    assert not limited(usual, Budget())
    assert limited(usual.model_copy(update={"steps": 5}), Budget())
    assert limited(usual, Budget(calls=20))


def test_the_score_of_a_comparison_is_the_mean_of_these_metrics():
    runs = [
        (f"find-plant:{n}", Footer(ending="goal", scores=Scores(value=v), usage=Usage(node="all")))
        for n, v in enumerate((0.25, 0.75))
    ]
    figures = load_benchmark("scienceworld").figures(runs)
    assert [figures[name] for name in load_benchmark("scienceworld").score_metrics] == [0.5, 0.5]


# The table.


def test_each_source_has_a_column_and_a_method_without_a_figure_there_an_empty_cell():
    names = {"sdp": {}, "validate=always_pass": {"validate": "always_pass"}}
    rows = [
        (name, "1.0", find_matches(setting(benchmark="musique:corpus-hops", swaps=swaps), {"f1"}))
        for name, swaps in names.items()
    ]
    view = view_matches(rows, "method")
    assert view is not None
    assert [line[2:] for line in view.lines] == [("51.9", ""), ("", "10.1")]
    assert [note.partition(":")[0] for note in view.notes] == ["SDP table 5, GPT-4o (f1)", "SDP table 6, GPT-4o (f1)"]


# The output of commands.


def evaluation(benchmark: str, figures: dict[str, float]) -> Evaluation:
    footer = Footer(ending="goal", scores=Scores(value=1.0), usage=Usage(node="all"))
    rows = (BenchmarkRow(id="0", footer=footer),)
    return Evaluation(
        graph="sdp", benchmark=benchmark, model="m", swaps={}, figures=figures, intervals={}, rows=rows, log="x.eval"
    )


def test_eval_prints_the_figures_of_each_configuration(capsys: pytest.CaptureFixture[str]):
    done = [evaluation("travelplanner:paper", {"final_pass": 0.5, "malformed": 0.0})]
    print_evaluations(done, as_json=False)
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["final_pass", "50.0", "61.7", "65.6"] in lines
    assert sum("malformed" in line for line in lines) == 1
    print_evaluations([*done, evaluation("travelplanner", {"final_pass": 0.25})], as_json=True)
    parsed = json.loads(capsys.readouterr().out)
    assert [m["figure"]["percent"] for m in parsed["published"]] == ["61.7", "65.6"]
    assert "other configuration" in parsed["beside"]["travelplanner"]["published"][0]["here"]


def test_eval_prints_nothing_for_runs_without_a_figure(capsys: pytest.CaptureFixture[str]):
    done = [evaluation("blocksworld", {"solved": 1.0})]
    print_evaluations(done, as_json=False)
    assert "published" not in capsys.readouterr().out
    print_evaluations(done, as_json=True)
    assert "published" not in json.loads(capsys.readouterr().out)


def compared(folder: Path, benchmark: str, capsys: pytest.CaptureFixture[str]) -> str:
    with pytest.raises(SystemExit) as stop:
        cli.main(["compare", "sdp", "react", "--on", benchmark, "--limit", "1", "--out", str(folder)])
    assert stop.value.code == 0
    return capsys.readouterr().out


@pytest.mark.slow
def test_compare_prints_and_writes_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.delenv("CERTIGRAPH_DATA", raising=False)
    printed = compared(tmp_path / "one", "travelplanner:paper", capsys)
    page = (tmp_path / "one" / "comparison.html").read_text(encoding="utf-8")
    table = json.loads((tmp_path / "one" / "table.json").read_text(encoding="utf-8"))
    assert "published figures in percent" in printed
    for text in (printed, page):
        assert "SDP table 2, GPT-4o: 180 validation tasks" in text
        assert "sdp, final_pass" in text
    percents = {
        method: [m["figure"]["percent"] for m in found if m["figure"]["metric"] == "final_pass"]
        for method, found in table["published"].items()
    }
    assert percents == {"sdp": ["61.7", "65.6"], "react": ["7.2"]}
    assert {row["method"] for row in table["differences"]} == {"react"}
