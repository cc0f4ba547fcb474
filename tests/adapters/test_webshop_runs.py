"""WebShop under graphs: the scripted expert buys what is wanted, a random visitor seldom does."""

from pathlib import Path

import pytest

from certigraph.adapters.protocols import Context
from certigraph.adapters.webshop.benchmark import WebShop
from certigraph.runtime.run import run
from certigraph.state.records import Scores, Usage
from certigraph.state.trajectory import Footer


def visited(graph: str, model: str, place: int, out: Path):
    shop = WebShop()
    task = shop.tasks()[place]
    return shop.demonstration(task), run(graph, shop, task.id, context=Context(model=model), out=out)


@pytest.mark.parametrize("graph", ["react", "sdp"])
def test_the_expert_buys_what_is_wanted(graph: str, tmp_path: Path):
    way, result = visited(graph, "scripted:expert", 3, tmp_path)
    assert [step.action.text for step in result.state["history"]] == way
    assert result.scores and result.scores.parts["success"] == 1.0, result.ending


def test_a_random_visitor_does_not_buy_what_is_wanted(tmp_path: Path):
    _, result = visited("react", "scripted:random", 3, tmp_path)
    assert result.state["history"] and result.scores and result.scores.value < 1.0


def test_figures_are_means_over_runs_and_count_those_that_bought_nothing():
    def footer(reward: float, bought: str | None) -> Footer:
        return Footer(ending="goal", usage=Usage(node="all"), scores=Scores(value=reward, answer=bought))

    told = WebShop().figures([("a", footer(1.0, "A")), ("b", footer(0.5, "B")), ("c", footer(0.0, None))])
    assert told["n"] == 3 and told["score"] == 0.5
    assert told["success"] == pytest.approx(1 / 3) and told["bought"] == pytest.approx(2 / 3)
    assert told["score_stderr"] == pytest.approx(0.5 / 3**0.5)
