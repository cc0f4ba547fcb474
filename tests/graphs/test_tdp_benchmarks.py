"""TDP and the graphs that it is compared with, by `scripted:expert`, to a scored end in every benchmark."""

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from golds import PLANNERS, UNLIMITED, reached
from real_data import data_folder
from twins import Twins

from certigraph.adapters.benchmarks import load_benchmark
from certigraph.adapters.hotpotqa.benchmark import HotpotQA
from certigraph.adapters.protocols import Context
from certigraph.adapters.scienceworld.recordings import Recording, read_recordings
from certigraph.adapters.scienceworld.splits import ids
from certigraph.evaluation.frames import find_runs
from certigraph.evaluation.judges import WordJudge, cases_in, judge, rubric
from certigraph.graphs import cot, plan_and_act, react, tdp
from certigraph.runtime.result import Result
from certigraph.runtime.run import run

GRAPHS: dict[str, Callable[..., Any]] = {
    "tdp": tdp.build,
    "plan_and_act": plan_and_act.build,
    "cot": cot.build,
    "react": react.build,
}

QUESTIONS = [
    ("hotpotqa", "dev-bridge-0"),
    ("hotpotqa", "dev-comparison-0"),
    ("hotpotqa:corpus", "dev-bridge-1"),
    ("hotpotqa:interactive", "dev-bridge-0"),
    ("hotpotqa:interactive", "dev-comparison-0"),
    ("musique", "3hop__dev_1"),
    ("locomo", "made-0/0"),
    ("locomo", "made-0/10"),
    ("locomo", "made-0/0-swapped"),
    ("swe_qa", "made/3"),
]
"""Chains and comparisons, at hand, in a corpus and by title; turns of a talk, one that is in none; a repository."""

RECORDED = ("find-plant", "identify-life-stages-2", "inclined-plane-determine-angle", "use-thermometer")


@pytest.fixture(autouse=True)
def no_encoder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setattr("certigraph.adapters.retrieval.dense.encoder", lambda: None)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("CERTIGRAPH_INDEX", raising=False)
    monkeypatch.delenv("CERTIGRAPH_DATA", raising=False)


def ran(graph: Any, benchmark: str, task: str, out: Path, data: Path | None = None, **more: Any) -> Result:
    return run(graph, load_benchmark(benchmark, str(data) if data else None), task, context=Context(**more), out=out)


@pytest.mark.parametrize("graph", GRAPHS)
@pytest.mark.parametrize(("benchmark", "task"), QUESTIONS, ids=[" ".join(pair) for pair in QUESTIONS])
def test_a_question_is_answered_right_on_the_evidence(graph: str, benchmark: str, task: str, tmp_path: Path):
    result = ran(GRAPHS[graph](), benchmark, task, tmp_path)
    assert result.scores, result.message
    parts = result.scores.parts
    assert (result.ending, parts["em"]) == ("goal" if graph == "tdp" else "world_ended", 1.0)
    assert (parts["forced"], parts["evidence_found"] or 1.0) == (0.0, 1.0)


def levels(result: Result) -> list[list[str]]:
    """The ids of each batch."""
    depth: dict[str, int] = {}
    for id_ in result.state["dag"].order():
        depth[id_] = 1 + max((depth[need] for need in result.state["dag"].by_id[id_].needs), default=-1)
    return [sorted(id_ for id_, own in depth.items() if own == level) for level in range(max(depth.values()) + 1)]


def test_hops_wait_for_the_bridge_that_leads_to_them_and_for_nothing_else(tmp_path: Path):
    bridge = ran(tdp.build(), "hotpotqa", "dev-bridge-0", tmp_path)
    assert levels(bridge) == [["hop-1"], ["hop-2"], ["answer"]]
    comparison = ran(tdp.build(), "hotpotqa", "dev-comparison-0", tmp_path)
    assert levels(comparison) == [["hop-1", "hop-2"], ["answer"]]


def test_a_sub_task_searches_for_its_own_hop_alone_and_hands_in_its_answer(tmp_path: Path):
    result = ran(tdp.build(), "hotpotqa:interactive", "dev-comparison-0", tmp_path)
    hops = HotpotQA().gold(result.state["task"]).hops
    outcomes = {outcome.node: outcome for outcome in result.state["outcomes"]}
    for number, hop in enumerate(hops, 1):
        [step] = outcomes[f"hop-{number}"].steps
        assert step.action.text == f"search[{hop.passage.title}]"
        assert outcomes[f"hop-{number}"].result == f"answer: {hop.answer}"
    assert [step.action.kind for step in outcomes["answer"].steps] == ["finish"]


@pytest.mark.parametrize("most", [1, 2, 3])
def test_with_few_nodes_hops_share_one(most: int, tmp_path: Path):
    limits = load_benchmark("musique").limits.model_copy(update={"nodes": most})
    result = ran(tdp.build(), "musique", "4hop__dev_3", tmp_path, limits=limits)
    assert len(result.state["dag"].nodes) == most
    assert result.scores and result.scores.parts["em"] == 1.0
    if most > 1:
        assert result.scores.parts["evidence_found"] == 1.0


@pytest.mark.parametrize("task", ["dev-bridge-0", "dev-comparison-0"])
def test_what_failed_for_want_of_steps_is_waited_for_no_longer(task: str, tmp_path: Path):
    limits = load_benchmark("hotpotqa:interactive").limits.model_copy(update={"steps": 4})
    result = ran(tdp.build(), "hotpotqa:interactive", task, tmp_path, limits=limits)
    assert "failed" in {outcome.status for outcome in result.state["outcomes"]}
    assert (result.ending, result.scores and result.scores.parts["em"]) == ("goal", 1.0), result.message


@pytest.mark.parametrize("solve", ["sdp", "react", "ircot"])
def test_a_sub_task_is_answered_by_other_graphs_too(solve: str, tmp_path: Path):
    result = ran(tdp.build(solve=solve), "hotpotqa", "dev-bridge-1", tmp_path)
    assert (result.ending, result.scores and result.scores.parts["em"]) == ("goal", 1.0), result.message
    hops = HotpotQA().gold(result.state["task"]).hops
    told = [outcome.result for outcome in result.state["outcomes"]][:-1]
    assert told == [f"answer: {hop.answer}" for hop in hops]


@pytest.mark.parametrize("graph", ["tdp", "plan_and_act", "cot"])
@pytest.mark.parametrize("task", ["4-0", "tower-12"])
def test_blocks_are_stacked(graph: str, task: str, tmp_path: Path):
    result = ran(GRAPHS[graph](), "blocksworld", task, tmp_path)
    assert (result.ending, result.scores and result.scores.value) == ("goal", 1.0), result.message


def test_blocks_are_stacked_condition_by_condition_each_certified(tmp_path: Path):
    result = ran(tdp.build(solve="sdp"), "blocksworld", "4-0", tmp_path)
    assert (result.ending, result.scores and result.scores.value) == ("goal", 1.0), result.message
    assert all(outcome.certified for outcome in result.state["outcomes"])


@cache
def recordings() -> list[Recording]:
    return read_recordings(data_folder("scienceworld") / "gold_var0.jsonl.gz")


@pytest.mark.parametrize("name", PLANNERS)
@pytest.mark.parametrize("family", RECORDED)
def test_a_recorded_gold_path_is_followed_to_100(name: str, family: str, tmp_path: Path):
    build, benchmark = PLANNERS[name]
    live = Twins(recordings(), benchmark.partition(":")[2])
    result = run(build(), live, f"gold/{family}:0", context=UNLIMITED, out=tmp_path)
    assert reached(result), result.message
    actions = [step.action.text for step in result.state["history"]]
    assert actions == list(live.recorded[f"gold/{family}:0"].actions)
    if name == "tdp":
        chain = result.state["dag"].nodes
        assert [node.needs for node in chain] == [(), *((node.id,) for node in chain[:-1])]
        assert {node.status for node in chain} == {"completed"}


def test_a_judge_scores_the_answers_of_finished_runs(tmp_path: Path):
    ran(tdp.build(), "hotpotqa", "dev-bridge-0", tmp_path / "runs")
    cases = cases_in(find_runs([tmp_path / "runs"]))
    done = judge(cases.ended, rubric("tdp"), Context(benchmark=WordJudge()), tmp_path / "judged.jsonl")
    [case] = cases.ended
    assert (case.method, case.answer) == ("tdp", HotpotQA().gold(case.task).answers[0])
    assert [judgement.score for judgement in done.judgements] == [100.0]


@pytest.mark.slow
@pytest.mark.parametrize("graph", GRAPHS)
def test_real_questions_are_answered_by_titles_within_thirty_steps(graph: str, tmp_path: Path):
    made = HotpotQA(data_folder("hotpotqa"), "interactive")
    assert (made.limits.steps, made.limits.nodes) == (30, None)
    built = GRAPHS[graph]()
    for task in made.tasks()[::8]:
        result = run(built, made, task, out=tmp_path)
        assert result.scores and result.scores.parts["em"] == result.scores.parts["evidence_found"] == 1.0, task.id
        assert len(result.state["history"]) <= 30


@pytest.mark.slow
@pytest.mark.parametrize("graph", GRAPHS)
@pytest.mark.parametrize("benchmark", ["musique", "locomo"])
def test_real_questions_of_other_kinds_are_answered(graph: str, benchmark: str, tmp_path: Path):
    made = load_benchmark(benchmark, str(data_folder(benchmark).parent))
    built = GRAPHS[graph]()
    for task in made.tasks()[::20][:15]:
        result = run(built, made, task, out=tmp_path)
        assert result.scores and result.scores.parts["em"] == 1.0, (task.id, result.message)


@pytest.mark.slow
@pytest.mark.parametrize("name", PLANNERS)
@pytest.mark.parametrize("task", [*ids("short"), "tdp-100/find-non-living-thing:244"])
def test_the_real_simulator_is_walked_to_100(name: str, task: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("XDG_CACHE_HOME")
    build, benchmark = PLANNERS[name]
    result = run(build(), benchmark, task, context=Context(), out=tmp_path)
    assert reached(result), result.message
    assert len(result.state["history"]) <= 60
