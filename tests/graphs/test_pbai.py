"""The search harnesses as PBAI loops: their rounds, what each sees, and every memory condition with each."""

from pathlib import Path
from typing import Any

import pytest
from helpers.cases import first_fast
from helpers.worlds.library_world import (
    GOAL,
    LibraryBenchmark,
    ScriptedModel,
    new_search,
    run_graph,
    same_passages,
    same_search,
    search_move,
)

from certigraph.adapters.episodes import EPISODES
from certigraph.adapters.models.scripts import ScriptedChat
from certigraph.adapters.protocols import Budget, Context
from certigraph.adapters.trajectories import read_trajectory
from certigraph.benchmarks.blocksworld.benchmark import BlocksWorld
from certigraph.graphs import hypotheses, ircot, iter_retgen, memgpt, pbai, react
from certigraph.graphs.hypotheses import explore
from certigraph.nodes.beliefs import lobotomized
from certigraph.nodes.gates import exhaustion_gate, no_gate
from certigraph.nodes.memgpt import manage
from certigraph.nodes.search import agreed_answer, hypothesise
from certigraph.runtime.registry import build_graph
from certigraph.runtime.run import run
from certigraph.state.endings import Fault, LimitReached, UnknownName
from certigraph.state.search import Branch

ROUNDS = {pbai: 10, ircot: 10, react: 7, memgpt: 12, iter_retgen: 4}
CONDITIONS = ("native", "lobotomized", "structured", "freeform")
SEARCHES = ("pbai", "ircot", "memgpt", "iter_retgen", "hypotheses")

ANSWERS: dict[str, Any] = {
    "tool": new_search,
    "sentence": lambda prompt, times: {"sentence": f"Then comes river {times}."},
    "generation": lambda prompt, times: {"generation": f"It may be river {times}."},
    "facts": {"facts": [{"fact": "Ada mapped it", "source": "Ren"}], "resolved": [], "questions": []},
    "text": "Ada mapped it",
    "answer": {"answer": "Ada"},
}


PAIRS = [(g, memory) for g in ROUNDS for memory in CONDITIONS if (g, memory) != (iter_retgen, "lobotomized")]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("graph", "memory", "gate"),
    [*((*pair, None) for pair in PAIRS), *((graph, "structured", exhaustion_gate()) for graph in ROUNDS)],
)
def test_every_harness_runs_its_rounds_in_every_condition(graph: Any, memory: str, gate: Any):
    world = LibraryBenchmark()
    state = run_graph(graph.build(memory=memory, **({"gate": gate} if gate else {})), ScriptedModel(**ANSWERS), world)
    assert len(state["rounds"]) == ROUNDS[graph]
    assert state["belief"].form == memory
    assert (world.worlds[0].answer, graph.ending(state)) == ("Ada", "world_ended")


@pytest.mark.parametrize("memory", ["lobotomized", lobotomized])
def test_iter_retgen_has_nothing_to_wipe(memory: Any):
    with pytest.raises(UnknownName):
        iter_retgen.build(memory=memory)


def test_limits_take_the_place_of_a_harness_own_rounds():
    assert len(run_graph(ircot.build(), ScriptedModel(**ANSWERS), LibraryBenchmark(rounds=3))["rounds"]) == 3


def test_an_agent_that_answers_ends_its_search():
    scripted_model = ScriptedModel(
        tool=lambda prompt, times: [search_move("Osk"), {**search_move("Ada"), "tool": "finish"}][times]
    )
    world = LibraryBenchmark()
    state = run_graph(pbai.build(), scripted_model, world)
    assert (len(state["turns"]), world.worlds[0].answer, "forced" in state["action"].args) == (2, "Ada", False)


def test_steps_spent_force_an_answer_too():
    state = run_graph(pbai.build(), ScriptedModel(**ANSWERS), LibraryBenchmark(steps=2))
    assert (pbai.ending(state), len(state["turns"])) == ("limit:steps", 3)


def test_a_world_that_takes_no_answer_is_left_without_one():
    with pytest.raises(LimitReached, match=r"2 of 2 rounds are spent.*Limits\(rounds=4\)") as reached:
        run_graph(pbai.build(), ScriptedModel(**ANSWERS), LibraryBenchmark(answers=False, rounds=2))
    assert reached.value.ending == "limit:rounds"


def test_in_a_world_that_takes_no_answer_a_harness_has_as_many_rounds_as_steps():
    world = LibraryBenchmark(answers=False, steps=25)
    with pytest.raises(LimitReached, match="25 of 25 steps"):
        run_graph(pbai.build(gate=no_gate), ScriptedModel(**ANSWERS), world)
    assert len(world.worlds[0].actions) == 25


def test_ircot_searches_for_the_question_then_for_its_sentences_until_one_answers():
    values = ["The Ren feeds it.", "So the answer is: Ada Lov."]
    world = LibraryBenchmark()
    run_graph(ircot.build(), ScriptedModel(sentence=lambda prompt, times: {"sentence": values[times]}), world)
    queries = [action.args.get("query") for action in world.worlds[0].actions]
    assert queries == [GOAL, "The Ren feeds it.", None]
    assert world.worlds[0].answer == "Ada Lov"
    assert world.worlds[0].actions[0].args["alpha"] == 0.9


def test_ircot_reads_the_latest_fifteen_paragraphs_and_each_once():
    world = LibraryBenchmark(lambda query: tuple(f"{query[-2:]}p{n}" for n in range(4)), rounds=7)
    scripted_model = ScriptedModel(**ANSWERS)
    run_graph(ircot.build(), scripted_model, world)
    last = scripted_model.prompts("sentence")[-1]
    assert last.count("word about") == 15
    assert "about k?p0." not in last
    repeating = ScriptedModel(**ANSWERS)
    run_graph(ircot.build(), repeating, LibraryBenchmark(same_passages, rounds=5))
    assert repeating.prompts("sentence")[-1].count("about alpha.") == 1


def test_iter_retgen_searches_for_the_question_and_its_last_generation():
    world = LibraryBenchmark()
    scripted_model = ScriptedModel(**ANSWERS)
    run_graph(iter_retgen.build(), scripted_model, world)
    queries = [action.args.get("query") for action in world.worlds[0].actions[:-1]]
    assert queries == [GOAL, *(f"{GOAL} It may be river {n}." for n in range(3))]
    assert scripted_model.prompts("answer")[0].count("> search[") == 1  # its answer too sees the latest passages alone


def test_memgpt_is_warned_flushes_its_queue_and_keeps_three_turns_and_a_summary():
    summaries = lambda prompt, times: {"summary": f"SUMMARY {times}"}  # noqa: E731
    scripted_model = ScriptedModel(tool=new_search, summary=summaries, answer={"answer": "Ada"})
    state = run_graph(memgpt.build(decide=manage(queue=4_000)), scripted_model, LibraryBenchmark(words=60))
    prompts = scripted_model.prompts("tool")
    warned = [n for n, prompt in enumerate(prompts) if "nearly full" in prompt]
    assert warned and warned[0] > 3
    after = prompts[warned[0] + 1]
    assert (after.count("> search["), "SUMMARY 0" in after) == (4, True)
    assert "SUMMARY 0" in scripted_model.prompts("summary")[1]
    assert max(map(len, prompts)) < 6_000
    assert state["belief"].reorganised == len(warned) == len(scripted_model.prompts("summary"))


def test_searches_ask_for_a_page_in_memgpt_and_by_weight_everywhere():
    world = LibraryBenchmark()
    run_graph(memgpt.build(), ScriptedModel(**ANSWERS), world)
    assert world.worlds[0].actions[0].args == {"query": "q0 r0", "alpha": 0.5, "k": 5}


def branching(answers: list[str], **more: Any) -> tuple[dict[str, Any], ScriptedModel, LibraryBenchmark]:
    """A run of three hypotheses whose searches answer at once, in the order of their directions."""

    def answered(prompt: str, times: int) -> dict[str, str]:
        number = next(n for n in range(3) if f"direction {n}" in prompt)
        return {**search_move(answers[number]), "tool": "finish"}

    directions = {"hypotheses": [f"direction {n}" for n in range(3)]}
    scripted_model, world = (
        ScriptedModel(tool=answered, hypotheses=directions, answer={"answer": "chosen"}),
        LibraryBenchmark(),
    )
    return run_graph(hypotheses.build(**more), scripted_model, world), scripted_model, world


def test_each_hypothesis_is_searched_for_in_a_world_of_its_own_and_the_answer_of_all_is_delivered_once():
    state, scripted_model, world = branching(["Ada Lov", "ada  lov.", "Ada Lov"])
    assert [b.answer for b in sorted(state["branches"], key=lambda b: b.number)] == ["Ada Lov", "ada lov.", "Ada Lov"]
    assert [len(library.actions) for library in world.worlds] == [1, 1, 1, 1]
    assert world.worlds[0].answer == "Ada Lov"
    assert scripted_model.prompts("answer") == []
    assert hypotheses.ending(state) == "world_ended"


def test_the_choice_is_made_from_what_every_search_found_and_what_it_left_open():
    def moving(prompt: str, times: int) -> dict[str, str]:
        way = "one" if "one way" in prompt else "other"
        return (
            {**search_move(f"answer {way}"), "tool": "finish"}
            if f"fact {way}" in prompt
            else search_move(f"query {way}")
        )

    def extracting(prompt: str, times: int) -> dict[str, Any]:
        way = "one" if "about query one" in prompt else "other"
        return {"facts": [{"fact": f"fact {way}", "source": ""}], "resolved": [], "questions": [f"open {way}?"]}

    ways = {"hypotheses": ["one way", "the other way"]}
    scripted_model = ScriptedModel(
        tool=moving, facts=extracting, hypotheses=ways, answer={"reasoning": "", "answer": "chosen"}
    )
    state = run_graph(hypotheses.build(), scripted_model, LibraryBenchmark(lambda query: (query,)))
    [prompt] = scripted_model.prompts("answer")
    shown = [f"{what} {way}" for way in ("one", "other") for what in ("answer", "fact", "open")]
    assert [text for text in shown if text not in prompt] == []
    assert state["action"].args["agreed"] == "0 of 2"


def test_the_answer_says_how_many_searches_gave_it():
    for answers, agreed in ((["chosen", "Bob", "Chosen."], "2 of 3"), (["Ada", "Ada", "ada"], "3 of 3")):
        state, *_ = branching(answers)
        assert state["action"].args["agreed"] == agreed


@pytest.mark.parametrize("number", [1, 2, 6])
def test_as_many_hypotheses_are_searched_for_as_are_asked_for(number: int):
    scripted_model = ScriptedModel(**ANSWERS, hypotheses={"hypotheses": [f"way {n}" for n in range(9)]})
    graph = hypotheses.build(hypothesise=hypothesise(number=number))
    assert len(run_graph(graph, scripted_model, LibraryBenchmark(rounds=1))["branches"]) == number


@pytest.mark.parametrize(
    ("answers", "winner"),
    [(["A", "a.", "A"], "A"), (["A", "a.", "B"], ""), (["A", "B"], ""), (["", "B", ""], "B"), (["", ""], "")],
)
def test_searches_agree_if_all_that_answered_gave_the_same(answers: list[str], winner: str):
    assert agreed_answer([Branch(number=n, hypothesis="", answer=a) for n, a in enumerate(answers, 1)]) == winner


@pytest.mark.slow
@pytest.mark.parametrize("harness", ["ircot", "iter_retgen", "memgpt", "pbai", "react"])
def test_any_harness_searches_along_a_hypothesis_and_its_calls_are_counted(harness: str):
    scripted_model = ScriptedModel(**ANSWERS, hypotheses={"hypotheses": ["up the river", "down the river"]})
    graph = hypotheses.build(explore=explore(harness=harness), hypothesise=hypothesise(number=2))
    state = run_graph(graph, scripted_model)
    assert [branch.answer for branch in state["branches"]] == ["Ada", "Ada"]
    assert state["spent"].calls == len(scripted_model.requests)
    prompts = [prompt for fields, prompt in scripted_model.requests if fields & {"tool", "sentence", "generation"}]
    assert all(("up the river" in prompt) != ("down the river" in prompt) for prompt in prompts)


def test_searches_share_the_budget_and_one_that_has_spent_its_part_gives_no_answer():
    scripted_model = ScriptedModel(**ANSWERS, hypotheses={"hypotheses": ["one way", "another"]})
    state = run_graph(hypotheses.build(), scripted_model, budget=Budget(calls=12))
    assert [(branch.answer, branch.ending) for branch in state["branches"]] == [("", "limit:calls")] * 2
    assert state["spent"].calls <= 12
    assert state["action"].args["answer"] == "Ada"
    assert all(branch.rounds and "Ada mapped it" in branch.belief for branch in state["branches"])  # and what it found
    assert "Ada mapped it" in scripted_model.prompts("answer")[-1]


def test_the_worlds_of_searches_are_closed_however_they_end():
    scripted_model = ScriptedModel(**ANSWERS, hypotheses={"hypotheses": ["one way", "another"]})
    before = set(EPISODES)
    run_graph(hypotheses.build(), scripted_model, budget=Budget(calls=12))
    assert set(EPISODES) == before
    broken = LibraryBenchmark(lambda query: 1 / 0)
    with pytest.raises(Fault, match="the world failed"):
        run_graph(hypotheses.build(), scripted_model, broken)
    assert set(EPISODES) == before


def test_the_answer_brings_along_what_its_searches_found():
    scripted_model = ScriptedModel(**ANSWERS, hypotheses={"hypotheses": ["one way", "another"]})
    state = run_graph(hypotheses.build(), scripted_model, LibraryBenchmark(lambda query: ("both", query[:2]), rounds=2))
    found = [set(branch.retrieved) for branch in state["branches"]]
    assert len(set.union(*found)) > 2
    assert set(state["action"].args["retrieved"]) == set.union(*found)
    assert [branch.rounds for branch in state["branches"]] == [2, 2]


def test_hypotheses_need_a_world_that_takes_an_answer():
    scripted_model = ScriptedModel()
    state = run_graph(hypotheses.build(), scripted_model, LibraryBenchmark(answers=False))
    assert (state["hypotheses"], scripted_model.requests) == ((), [])


@pytest.mark.parametrize("name", first_fast(SEARCHES, 2))
def test_a_run_is_recorded_and_adds_up_to_its_state(name: str, tmp_path: Path):
    scripted_model = ScriptedModel(**ANSWERS, hypotheses={"hypotheses": ["one way", "another"]})
    context = Context(chat=ScriptedChat(responder=scripted_model))
    result = run(build_graph(name), LibraryBenchmark(rounds=2), "only", context=context, out=tmp_path)
    assert result.ending == "world_ended"
    trajectory = read_trajectory(result.folder)
    assert trajectory.usage.calls == len(scripted_model.requests)
    assert len(trajectory.state()["history"]) == len(result.state["history"])


def test_a_search_graph_on_another_world_ends_without_an_answer():
    context = Context(benchmark=BlocksWorld(), chat=ScriptedChat(responder=ScriptedModel(tool=same_search)))
    state = pbai.build().invoke({"task": {"benchmark": "blocksworld", "id": "4-0"}}, context=context)
    assert state["action"].kind == "search"


def test_an_unknown_condition_is_named_with_those_there_are():
    with pytest.raises(UnknownName, match="known: native, lobotomized, structured, freeform"):
        memgpt.build(memory="perfect")
