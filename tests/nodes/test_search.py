"""Answers of search agents: how long they may be, and what stands in place of one that cannot be found."""

from collections.abc import Mapping
from typing import Any

import pytest
from helpers.cases import first_fast
from helpers.worlds.library_world import GOAL, LibraryBenchmark, ScriptedModel, run_graph, search_move

from certigraph.benchmarks.locomo.benchmark import UNANSWERABLE_ANSWER, LoCoMo
from certigraph.benchmarks.swe_qa.benchmark import SweQA
from certigraph.graphs import ircot, iter_retgen, memgpt, pbai, react

PROSE = " ".join(f"Line {number} of the file calls it." for number in range(70))[:2_000].rstrip(". ")

AGENTS: Mapping[str, Any] = {
    "react": react.build,
    "memgpt": memgpt.build,
    "ircot": ircot.build,
    "iter_retgen": iter_retgen.build,
    "pbai": pbai.build,
}


def explaining(prompt: str, times: int) -> dict[str, str]:
    """Searches once, and then hands in two thousand characters."""
    return search_move("Lake Osk") if times == 0 else {**search_move(""), "tool": "finish", "text": PROSE}


@pytest.mark.parametrize("agent", first_fast(AGENTS, 2))
def test_an_explanation_of_two_thousand_characters_is_handed_in_whole(agent: str):
    scripted_model = ScriptedModel(
        tool=explaining, sentence={"sentence": f"So the answer is: {PROSE}."}, answer={"answer": PROSE}
    )
    world = LibraryBenchmark(rounds=3)
    world.longest_answer = SweQA.longest_answer  # type: ignore[attr-defined]
    run_graph(AGENTS[agent](), scripted_model, world)
    assert world.worlds[-1].answer == PROSE


@pytest.mark.parametrize("agent", first_fast(AGENTS, 2))
@pytest.mark.parametrize("window", [0, 4_096])
def test_a_benchmark_of_short_answers_does_not_cut_queries(agent: str, window: int):
    """The answer that ends the search is cut at its own length."""
    long = " ".join(f"word{number}" for number in range(600))

    def moving(prompt: str, times: int) -> dict[str, str]:
        return search_move(long) if times == 0 else {**search_move(long), "tool": "finish"}

    written = {"sentence": {"sentence": long}, "generation": {"generation": long}, "answer": {"answer": long}}
    world = LibraryBenchmark(rounds=3)
    world.longest_answer = 100  # type: ignore[attr-defined]
    run_graph(AGENTS[agent](), ScriptedModel(tool=moving, **written), world, window=window)
    queries = [str(action.args["query"]).removeprefix(f"{GOAL} ") for action in world.worlds[-1].actions[:-1]]
    assert 2_000 in map(len, queries)
    assert max(map(len, queries)) <= 2_000
    assert len(world.worlds[-1].answer) == 100


@pytest.mark.parametrize(
    ("agent", "gated"),
    [(agent, gated) for agent in AGENTS for gated in (False, True) if gated or agent != "react"],  # it has no rounds
)
def test_where_an_answer_may_be_missing_nobody_is_made_to_guess(agent: str, gated: bool):
    """Whether a gate or the number of rounds ends the search, the last request names the answer for what is unknown."""

    async def stopping(state: Any, runtime: Any) -> dict[str, Any]:
        from certigraph.state.run import Stagnation

        return {"stagnation": Stagnation(stop=True, reason="by the test")}

    scripted_model = ScriptedModel(
        tool=lambda prompt, times: search_move(f"q{times}"), answer={"answer": UNANSWERABLE_ANSWER}
    )
    world = LibraryBenchmark(rounds=2)
    world.unknown_answer = LoCoMo.unknown_answer  # type: ignore[attr-defined]
    run_graph(AGENTS[agent](**({"gate": stopping} if gated else {})), scripted_model, world)
    assert UNANSWERABLE_ANSWER in scripted_model.prompts("answer")[-1]
    assert world.worlds[-1].answer == UNANSWERABLE_ANSWER


@pytest.mark.parametrize("agent", ["react", "pbai"])
def test_an_agent_that_finds_nothing_more_knows_what_to_hand_in(agent: str):
    """In a world where an answer may be missing, each request for an action names what is handed in then."""
    scripted_model, world = ScriptedModel(tool=explaining), LibraryBenchmark(rounds=3)
    world.unknown_answer = "UNTOLD"  # type: ignore[attr-defined]
    run_graph(AGENTS[agent](), scripted_model, world)
    assert len(scripted_model.prompts("tool")) == 2
    assert all("UNTOLD" in prompt for prompt in scripted_model.prompts("tool"))


def test_the_style_of_answers_is_in_every_request_that_can_end_with_one():
    style = "a limerick about the answer"
    for agent, field in (("react", "tool"), ("memgpt", "tool"), ("ircot", "sentence"), ("pbai", "tool")):
        scripted_model, world = (
            ScriptedModel(tool=explaining, sentence=lambda p, t: {"sentence": "Osk is a lake."}),
            LibraryBenchmark(rounds=2),
        )
        world.answer_style = style  # type: ignore[attr-defined]
        run_graph(AGENTS[agent](), scripted_model, world)
        prompts = [prompt for fields, prompt in scripted_model.requests if {field, "answer"} & fields]
        assert prompts
        assert GOAL in prompts[0]
        assert all(style in prompt for prompt in prompts), agent
