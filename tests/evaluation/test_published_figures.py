"""Tests of `evaluation.published_figures`: every published figure names what exists here."""

import json
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from pydantic import ValidationError

from certigraph import cli
from certigraph.adapters.benchmarks import load_benchmark, split_name
from certigraph.adapters.protocols import Environment
from certigraph.benchmarks.assistantbench.benchmark import ResearchQuestion
from certigraph.benchmarks.research.scoring import official_scores, research_figures
from certigraph.benchmarks.rewardprediction.benchmark import FIGURE_NAMES
from certigraph.benchmarks.rewardprediction.dataset import PUBLISHED_DOMAINS
from certigraph.evaluation.published_figures import PublishedTable, published_figures
from certigraph.runtime.registry import GRAPHS, build_graph, parse_swap
from certigraph.state.records import Scores, Usage
from certigraph.state.trajectory import Footer

FIGURES = list(published_figures())
BENCHMARKS = sorted({name for figure in FIGURES for name in figure.benchmarks})


def footer(scores: Scores | None) -> Footer:
    return Footer(ending="goal", scores=scores, usage=Usage(node="all"))


# The metrics that `certigraph eval` would print, computed from one made-up run of each kind.


def science_metrics(name: str) -> Mapping[str, float]:
    ids = ("boil:0", "use-thermometer:0", "find-plant:0")
    return load_benchmark(name).figures([(id_, footer(Scores(value=0.5))) for id_ in ids])


def opened_metrics(name: str) -> Mapping[str, float]:
    live = load_benchmark(name)
    task = live.tasks()[0]
    world: Environment = live.open(task)
    world.reset()
    return live.figures([(task.id, footer(world.score()))])


def research_metrics(name: str) -> Mapping[str, float]:
    questions = [ResearchQuestion(id=d, text="?", answer="a", difficulty=d) for d in ("Easy", "Medium", "Hard")]
    return research_figures([(question, official_scores("a", "a")) for question in questions])


def reward_metrics(name: str) -> Mapping[str, float]:
    scores = Scores(value=0.5, parts=dict.fromkeys(FIGURE_NAMES, 0.5))
    return load_benchmark(name).figures([(f"{domain}/1", footer(scores)) for domain in PUBLISHED_DOMAINS])


METRICS: dict[str, Callable[[str], Mapping[str, float]]] = {
    "assistantbench": research_metrics,
    "hotpotqa": opened_metrics,
    "musique": opened_metrics,
    "rewardprediction": reward_metrics,
    "scienceworld": science_metrics,
    "travelplanner": opened_metrics,
}


@pytest.mark.parametrize("name", BENCHMARKS)
def test_every_metric_is_one_that_an_evaluation_prints(name: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("CERTIGRAPH_DATA", raising=False)
    wanted = {figure.metric for figure in FIGURES if name in figure.benchmarks}
    assert wanted - METRICS[split_name(name)[0]](name).keys() == set()


def test_every_method_is_a_graph_with_operators_or_marked_as_missing():
    rows = {(figure.graph, *figure.swaps.items()) for figure in FIGURES if figure.graph}
    assert {graph for graph, *_ in rows} <= {*GRAPHS}
    for graph, *swaps in rows:
        build_graph(graph, dict(parse_swap(f"{slot}={operator}") for slot, operator in swaps))
    missing = {figure.method for figure in FIGURES if not figure.graph}
    assert {"GoalAct", "DRRN", "KG-A2C", "CALM", "SayCan"} <= missing


def test_every_task_that_a_column_names_exists():
    ids = {id_ for figure in FIGURES for id_ in figure.task_ids}
    live = load_benchmark("scienceworld")
    assert len(ids) == 18
    # figures look every id up, and start no simulator
    assert live.figures([(id_, footer(None)) for id_ in ids])["n"] == 18


def test_no_row_is_there_twice():
    keys = [
        (f.paper, f.table, f.benchmarks, f.method, str(f.swaps), f.model, f.variant, f.metric, f.label) for f in FIGURES
    ]
    assert len(keys) == len(set(keys)) > 400


def test_values_are_fractions_with_the_decimals_of_the_paper():
    assert all(0 <= figure.value <= 1 for figure in FIGURES)
    (epic,) = [
        f
        for f in FIGURES
        if f.source == "StateFactory table 1, gpt-oss-20b, medium effort"
        and f.metric == "epic"
        and f.graph == "statefactory"
    ]
    assert (epic.value, epic.percent) == (0.297, "29.7")
    (medium,) = [f for f in FIGURES if f.paper == "SDP" and f.graph == "sdp" and f.metric == "medium"]
    assert (medium.value, medium.percent) == (0.535, "53.50")


TABLE: dict[str, Any] = {
    "table": "table 9",
    "benchmarks": ["blocksworld"],
    "protocol": "10 tasks",
    "tasks": 10,
    "ids": "",
    "columns": ["goal"],
    "rows": [{"method": "A", "model": "m", "values": ["50.0"]}],
}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"columns": ["goal", "score"]}, "1 values, 2 columns"),
        ({"percent": False}, "50.0 is not in 0 to 1"),
        ({"benchmarks": []}, "at least 1 item"),
        ({"note": "x"}, "Extra inputs"),
    ],
)
def test_a_wrong_file_is_refused(change: dict[str, Any], message: str):
    PublishedTable.model_validate_json(json.dumps(TABLE))
    with pytest.raises(ValidationError, match=message):
        PublishedTable.model_validate_json(json.dumps(TABLE | change))


# The command that lists them.


def listed(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    with pytest.raises(SystemExit) as stop:
        cli.main(["published", *arguments])
    assert stop.value.code == 0
    return capsys.readouterr().out


def test_the_command_has_json(capsys: pytest.CaptureFixture[str]):
    found = json.loads(listed(capsys, "scienceworld:tdp", "--json"))
    assert len(found) == 8
    assert {figure["metric"] for figure in found} == {"score"}


def test_papers_are_those_whose_tables_can_be_read():
    assert {figure.paper for figure in FIGURES} == {"SDP", "StateFactory", "STEP", "TDP"}
