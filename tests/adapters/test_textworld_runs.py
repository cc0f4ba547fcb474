"""TextWorld under graphs: the scripted expert wins, chance rarely does."""

from pathlib import Path

import pytest

from certigraph.adapters.benchmarks import load_benchmark
from certigraph.adapters.protocols import Context
from certigraph.runtime.run import run

pytest.importorskip("textworld", reason="pip install 'certigraph[textworld]'")

TASKS = ("quest-5-0", "cooking-1-0", "treasure_hunter-5-0")


def score(graph: str, model: str, task: str, out: Path) -> float:
    result = run(graph, load_benchmark("textworld"), task, context=Context(model=model), out=out)
    assert result.state["history"] and result.scores, result.ending
    return result.scores.value


@pytest.mark.slow
@pytest.mark.parametrize("graph", ["react", "sdp", "reflexion", "clin", "plan_and_solve", "plan_and_act"])
def test_the_expert_wins(graph: str, tmp_path: Path):
    assert [score(graph, "scripted:expert", task, tmp_path) for task in TASKS] == [1.0] * 3


@pytest.mark.slow
@pytest.mark.parametrize("graph", ["react", "sdp"])
def test_chance_rarely_wins(graph: str, tmp_path: Path):
    assert sum(score(graph, "scripted:random", task, tmp_path) == 1.0 for task in TASKS) < 3
