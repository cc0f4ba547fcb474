"""The exhaustion gate and its kin: when exactly they stop a search, and in which graphs."""

import asyncio
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
from helpers.worlds.scripted_benchmark import Script, script_input
from hypothesis import given, settings
from hypothesis import strategies as st
from langgraph.runtime import Runtime

from certigraph.adapters.models.scripts import ScriptedChat
from certigraph.adapters.protocols import Context, Limits
from certigraph.benchmarks.blocksworld.benchmark import BlocksWorld
from certigraph.graphs import ircot, pbai, react, sdp, step
from certigraph.graphs.catalogue import OPERATORS
from certigraph.nodes.beliefs import structured
from certigraph.nodes.gates import (
    either,
    exhaustion_gate,
    gap_gate,
    gate_grid,
    judged_gate,
    resampling,
    satisfied_gate,
    shadow,
    smooth_gate,
)
from certigraph.nodes.slots import build_operator, spec_of
from certigraph.nodes.world import act
from certigraph.runtime.registry import parse_swap
from certigraph.state.certified_states import CertifiedState
from certigraph.state.endings import UnknownName
from certigraph.state.records import Action, Observation
from certigraph.state.run import (
    Belief,
    BelievedFact,
    Evidence,
    SearchRound,
    Stagnation,
    round_of,
)
from certigraph.state.search import search_ending

ANSWER = {"answer": "Ada"}


def judged(
    gate: Any, rounds: list[SearchRound], before: Stagnation | None = None, scripted_model: ScriptedModel | None = None
) -> Stagnation:
    world = LibraryBenchmark()
    view = {
        "task": world.task("only"),
        "rounds": rounds,
        "stagnation": before or Stagnation(),
        "belief": Belief(),
        "turns": (),
        "evidence": Evidence(),
        "certified": CertifiedState(),
    }
    runtime = Runtime(context=Context(benchmark=world, chat=ScriptedChat(responder=scripted_model or ScriptedModel())))
    return asyncio.run(gate(view, runtime))["stagnation"]


def stops(gate: Any, signals: list[tuple[float, float]]) -> list[bool]:
    """Whether the gate stops after each round, were it not heeded."""
    rounds = [SearchRound(action="a", chunks=(), jaccard=j, upr=u) for j, u in signals]
    values, stagnation = [], Stagnation()
    for n in range(1, len(rounds) + 1):
        stagnation = judged(gate, rounds[:n], stagnation)
        values.append(stagnation.stop)
    return values


signals = st.lists(st.sampled_from([(1.0, 0.0), (0.6, 0.3), (0.59, 0.0), (1.0, 0.31), (0.0, 1.0)]), max_size=9)


@pytest.mark.slow
@settings(max_examples=40)
@given(signals, st.integers(1, 4))
def test_it_stops_after_exactly_so_many_stagnant_rounds_in_a_row(found: list[tuple[float, float]], patience: int):
    stagnant = [j >= 0.6 and u <= 0.3 for j, u in found]
    expected = [n >= patience and all(stagnant[n - patience : n]) for n in range(1, len(found) + 1)]
    assert stops(exhaustion_gate(patience=patience), found) == expected


@pytest.mark.slow
@settings(max_examples=40)
@given(signals)
def test_a_smooth_gate_that_forgets_at_once_is_the_discrete_one(found: list[tuple[float, float]]):
    assert stops(smooth_gate(jaccard=0.6, upr=0.3, decay=1), found) == stops(exhaustion_gate(), found)


def test_a_smooth_gate_needs_the_averages_to_turn():
    dry = [(0.0, 1.0)] + [(1.0, 0.0)] * 8
    assert stops(exhaustion_gate(), dry).index(True) == 2
    assert stops(smooth_gate(), dry).index(True) == 4  # novelty 1, .5, .25, .125: stagnant from the fourth round on


@pytest.mark.slow
@given(
    st.lists(st.tuples(st.sampled_from(["", "a", "a b", "b c"]), st.sets(st.integers(0, 9), max_size=2)), max_size=6)
)
def test_a_search_that_brings_more_new_than_old_is_never_stopped(found: list[tuple[str, set[int]]]):
    rounds: list[SearchRound] = []
    for n, (query, old) in enumerate(found):
        ids = (f"{n} new one", f"{n} new two", *map(str, sorted(old)))
        observation = Observation(text="\n".join(ids), sources=ids)
        rounds.append(round_of(Action(text=query), observation, rounds))
    assert not any(stops(exhaustion_gate(jaccard=0, patience=1), [(r.jaccard, r.upr) for r in rounds]))


def test_a_round_tells_how_much_of_the_belief_is_new():
    def belief(*facts: str, questions: tuple[str, ...] = ()) -> Belief:
        return Belief(form="structured", facts=tuple(BelievedFact(text=fact) for fact in facts), questions=questions)

    rounds: list[SearchRound] = []
    held = [belief("a"), belief("a", "b"), belief("a", "b"), belief("b", "c", "d", questions=("e",)), belief()]
    for one in held:
        rounds.append(round_of(Action(text="q"), Observation(text="p"), rounds, one))
    assert [r.change for r in rounds] == [1.0, 0.5, 0.0, 0.75, 0.0]
    assert round_of(Action(text="q"), Observation(text="p"), rounds, Belief()).change is None


@pytest.mark.parametrize("make", [exhaustion_gate, smooth_gate])
def test_a_gate_may_ask_that_the_belief_stands_still_too(make: Any):
    def stops_with(changes: list[float | None], **thresholds: float) -> list[bool]:
        rounds = [SearchRound(action="a", chunks=(), jaccard=1, upr=0, change=change) for change in changes]
        gate = make(patience=1, upr=1.0, **thresholds)
        return [judged(gate, rounds[: n + 1], Stagnation()).stop for n in range(1, len(rounds))]

    assert stops_with([0.0, 0.5, 0.1, None], change=0.1) == [False, True, True]
    assert stops_with([0.0, 0.5, 0.1, None]) == [True, True, True]
    with pytest.raises(UnknownName, match="change=2"):
        make(change=2)


@pytest.mark.parametrize("patience", first_fast([1, 2, 4]))
@pytest.mark.parametrize("graph", [pbai, react])
def test_a_looping_agent_is_stopped_and_answers(graph: Any, patience: int):
    scripted_model = ScriptedModel(tool=same_search, answer=ANSWER)
    world = LibraryBenchmark(same_passages)
    state = run_graph(graph.build(memory="native", gate=exhaustion_gate(patience=patience)), scripted_model, world)
    assert len(state["rounds"]) == 1 + patience  # the first round repeats nothing
    assert graph.ending(state) == "exhausted"
    assert state["stagnation"].reason.startswith(f"{patience} rounds in a row")
    assert (world.worlds[0].answer, state["action"].args["forced"]) == ("Ada", "gate")


def test_an_agent_that_alternates_between_two_queries_loops_too():
    scripted_model = ScriptedModel(
        tool=lambda prompt, times: search_move(("Lake Osk", "Ada mapped")[times % 2]), answer=ANSWER
    )
    state = run_graph(pbai.build(memory="native"), scripted_model, LibraryBenchmark(same_passages))
    assert len(state["rounds"]) == 4


def test_a_refused_search_is_nothing_new():
    state = run_graph(
        pbai.build(memory="native"), ScriptedModel(tool=same_search, answer=ANSWER), LibraryBenchmark(lambda query: ())
    )
    assert [r.upr for r in state["rounds"]] == [0.0, 0.0, 0.0]


def test_the_grid_has_sixteen_labelled_settings_that_a_command_line_takes():
    grid = gate_grid()
    assert len(grid) == len(set(map(str, grid.values()))) == 16
    assert sum(label.startswith("f_") for label in grid) == 7
    assert str(grid["f_j0.6_u0.3_p2"]) == "exhaustion_gate:jaccard=0.6,upr=0.3,patience=2"
    assert {"s_j0.6_u0.1_p2", "s_j0.6_u0.15_p2", "f_j0.6_u0.3_p3"} <= set(grid)
    for spec in grid.values():
        slot, parsed = parse_swap(f"gate={spec}")
        assert (slot, spec_of(build_operator(parsed, OPERATORS))) == ("gate", spec)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: exhaustion_gate(jaccard=1.5),
        lambda: exhaustion_gate(patience=0),
        lambda: smooth_gate(decay=0),
        lambda: judged_gate(stance="bold"),
        lambda: resampling(exhaustion_gate(), times=-1),
    ],
)
def test_settings_out_of_range_are_refused(wrong: Any):
    with pytest.raises(UnknownName, match=r"gate|resampling"):
        wrong()


@pytest.mark.parametrize(
    ("verdict", "stop", "streak"), [("PRODUCTIVE", False, 0), ("QUERY_STALE", False, 3), ("EXHAUSTED", True, 3)]
)
def test_a_judged_gate_stops_at_exhausted_alone(verdict: str, stop: bool, streak: int):
    scripted_model = ScriptedModel(verdict={"reason": "why", "verdict": verdict})
    rounds = [SearchRound(action=f"query{n}", chunks=(), glimpse=f"glimpse{n}", jaccard=0, upr=1) for n in range(5)]
    result = judged(judged_gate(window=2), rounds, Stagnation(streak=2), scripted_model)
    assert (result.stop, result.streak, result.reason) == (stop, streak, "why")
    [prompt] = scripted_model.prompts("verdict")
    assert [f"query{n} -> glimpse{n}" in prompt for n in range(5)] == [False, False, False, True, True]
    assert GOAL in prompt


def test_a_shadow_gate_keeps_round_and_answer_and_the_run_goes_on():
    scripted_model = ScriptedModel(tool=same_search, answer=lambda prompt, times: {"answer": f"answer {times}"})
    state = run_graph(
        pbai.build(memory="native", gate=shadow(exhaustion_gate())), scripted_model, LibraryBenchmark(same_passages)
    )
    stopped = run_graph(
        pbai.build(memory="native"), ScriptedModel(tool=same_search, answer=ANSWER), LibraryBenchmark(same_passages)
    )
    seen = state["stagnation"]
    assert (seen.at, seen.answer, seen.stop) == (len(stopped["rounds"]), "answer 0", False)
    assert len(state["rounds"]) == 10
    assert state["action"].args == {"answer": "answer 1", "forced": "rounds"}


def test_the_advice_of_a_gate_that_is_only_watched_reaches_nobody():
    scripted_model = ScriptedModel(
        tool=new_search, unresolved={"unresolved": ["who?"], "answerable": False}, answer=ANSWER
    )
    run_graph(pbai.build(memory="native", gate=shadow(gap_gate())), scripted_model, LibraryBenchmark(rounds=3))
    assert len(scripted_model.prompts("unresolved")) == 3
    assert not any("who?" in prompt for prompt in scripted_model.prompts("tool"))


def test_resampling_leaves_the_advice_of_its_gate():
    gaps = ScriptedModel(unresolved={"unresolved": ["who?"], "answerable": False})
    rounds = [SearchRound(action="a", chunks=(), jaccard=0, upr=1)]
    assert "who?" in judged(resampling(gap_gate()), rounds, Stagnation(advice="old"), gaps).advice


def test_a_gap_gate_stops_when_nothing_is_left_and_names_the_gap_until_then():
    gaps = [{"unresolved": ["who?"], "answerable": True}, {"unresolved": [], "answerable": False}]
    scripted_model = ScriptedModel(
        tool=new_search,
        unresolved=lambda prompt, times: [*gaps, {"unresolved": [], "answerable": True}][times],
        answer=ANSWER,
    )
    state = run_graph(pbai.build(memory="native", gate=gap_gate()), scripted_model)
    assert len(state["rounds"]) == 3
    assert pbai.ending(state) == "exhausted"
    assert ["who?" in prompt for prompt in scripted_model.prompts("tool")] == [False, True, False]


def believing(**fields: Any) -> Any:
    view = {"task": LibraryBenchmark().task("only"), "rounds": [], "stagnation": Stagnation(), "turns": ()}
    return {**view, "belief": Belief(**fields), "evidence": Evidence(), "certified": CertifiedState()}


def is_satisfied(scripted_model: Any = None, **fields: Any) -> bool:
    world = LibraryBenchmark()
    runtime = Runtime(context=Context(benchmark=world, chat=ScriptedChat(responder=scripted_model or ScriptedModel())))
    return bool(asyncio.run(satisfied_gate()(believing(**fields), runtime))["stagnation"].stop)  # type: ignore[arg-type]


def test_a_structured_belief_satisfies_the_question_once_nothing_is_open():
    facts = (BelievedFact(text="Ada was there"),)
    assert not is_satisfied(form="structured", questions=("who?",))
    assert not is_satisfied(form="structured", facts=facts, questions=("who?",))
    assert not is_satisfied(form="structured")
    assert is_satisfied(form="structured", facts=facts)


@pytest.mark.parametrize("settled", [True, False])
def test_of_other_memories_a_model_says_whether_they_satisfy_the_question(settled: bool):
    scripted_model = ScriptedModel(satisfied={"reasoning": "so", "satisfied": settled})
    assert is_satisfied(scripted_model, form="freeform", notes=("Ada was there",)) == settled
    assert "Ada was there" in scripted_model.prompts("satisfied")[0]


def test_a_belief_that_begins_with_the_question_ends_the_search_when_it_is_answered():
    goal = LibraryBenchmark().task("only").goal
    known = {"facts": [{"fact": "Ada was there", "source": "it"}], "questions": []}
    resolved = [[], [goal]]
    scripted_model = ScriptedModel(
        tool=new_search, resolved=lambda prompt, times: {**known, "resolved": resolved[min(times, 1)]}, answer=ANSWER
    )
    state = run_graph(pbai.build(memory=structured(start="question"), gate=satisfied_gate()), scripted_model)
    assert len(state["rounds"]) == 2
    assert state["belief"].questions == ()
    assert pbai.ending(state) == "exhausted"
    with pytest.raises(UnknownName, match="start='nothing'"):
        structured(start="nothing")


def test_of_two_gates_either_stops():
    gaps = {"unresolved": ["who?"], "answerable": False}
    both = either(gap_gate(), exhaustion_gate())
    scripted_model = ScriptedModel(tool=same_search, unresolved=gaps, answer=ANSWER)
    state = run_graph(pbai.build(memory="native", gate=both), scripted_model, LibraryBenchmark(same_passages))
    assert len(state["rounds"]) == 3
    assert "who?" in state["stagnation"].advice
    resolved = ScriptedModel(tool=new_search, unresolved={"unresolved": [], "answerable": True}, answer=ANSWER)
    assert len(run_graph(pbai.build(memory="native", gate=both), resolved)["rounds"]) == 1


def test_of_two_gates_that_disagree_the_one_that_stops_gives_the_reason():
    async def going_on(state: Any, runtime: Any) -> dict[str, Any]:
        return {"stagnation": Stagnation(streak=1, reason="all is well", advice="go on")}

    async def stopping(state: Any, runtime: Any) -> dict[str, Any]:
        return {"stagnation": Stagnation(streak=3, stop=True, reason="dry")}

    rounds = [SearchRound(action="a", chunks=(), jaccard=0, upr=1)]
    expected = Stagnation(streak=3, stop=True, reason="dry", advice="go on")
    assert judged(either(going_on, stopping), rounds) == judged(either(stopping, going_on), rounds) == expected


@pytest.mark.parametrize("times", [0, 1, 2])
def test_resampling_gives_so_many_new_directions_before_it_stops(times: int):
    scripted_model = ScriptedModel(
        tool=same_search, hypotheses=lambda p, n: {"hypotheses": [f"direction {n}"]}, answer=ANSWER
    )
    gate = either(gap_gate(), resampling(exhaustion_gate(), times=times))
    gaps = ScriptedModel(**scripted_model.answers, unresolved={"unresolved": [], "answerable": False})
    for model, operator in ((scripted_model, resampling(exhaustion_gate(), times=times)), (gaps, gate)):
        state = run_graph(pbai.build(memory="native", gate=operator), model, LibraryBenchmark(same_passages))
        assert len(state["rounds"]) == 3 + 2 * times
        assert state["stagnation"].resampled == times == len(model.prompts("hypotheses"))
        directions = [prompt.count("direction 0") for prompt in model.prompts("tool")]
        assert directions == [0, 0, 0] + ([1, 1] if times else []) + ([0, 0] if times == 2 else [])


def test_resampling_stops_where_the_model_has_no_hypothesis():
    scripted_model = ScriptedModel(tool=same_search, hypotheses={"hypotheses": []}, answer=ANSWER)
    state = run_graph(
        pbai.build(memory="native", gate=resampling(exhaustion_gate())), scripted_model, LibraryBenchmark(same_passages)
    )
    assert len(state["rounds"]) == 3


def test_a_gate_ends_sdp_where_its_actions_repeat():
    script = Script(plan=4, verdicts=[0] * 20, limits=Limits(attempts=9, replans=2, steps=60))

    async def realize(state: Any, runtime: Any) -> dict[str, Any]:
        return {"action": Action(text="the same thing again")}

    async def still(state: Any, runtime: Any) -> dict[str, Any]:
        update = await act(state, runtime)
        observation = update["observation"].model_copy(update={"text": "nothing moves"})
        return {**update, "observation": observation}

    graph = sdp.build(realize=realize, act=still, gate=exhaustion_gate(patience=2))
    state = graph.invoke(script_input(script), context=Context(benchmark=script))
    assert len(state["history"]) == 3
    assert sdp.ending(state) == "exhausted"
    assert (
        len(
            sdp.build(realize=realize, act=still).invoke(script_input(script), context=Context(benchmark=script))[
                "history"
            ]
        )
        > 3
    )


def test_a_gate_forces_an_answer_from_sdp_in_a_world_that_takes_one():
    world = LibraryBenchmark(same_passages, attempts=9)
    scripted_model = ScriptedModel(
        conditions={"conditions": ["the river is known"]}, action={"action": "search[Osk]"}, answer=ANSWER
    )
    state = run_graph(sdp.build(gate=exhaustion_gate()), scripted_model, world)
    assert (sdp.ending(state), world.worlds[0].answer) == ("exhausted", "Ada")
    assert not state["certificates"]


def test_a_gate_ends_an_episode_of_step_and_the_run_with_it():
    graph = step.build(gate=exhaustion_gate())
    scripted_model = ScriptedModel()  # the least instance: always the first action offered, which comes round again
    limits = Limits(steps=30, trials=2, repeats=0, substeps=30)
    context = Context(benchmark=BlocksWorld(), chat=ScriptedChat(responder=scripted_model), limits=limits)
    state = graph.invoke({"task": {"benchmark": "blocksworld", "id": "4-0"}}, context=context)
    assert state["stagnation"].stop
    [trial] = state["trials"]
    assert (trial.steps < 30, trial.ending) == (True, "exhausted")
    assert step.ending(state) == "exhausted"


def test_a_world_that_ends_in_the_round_in_which_a_gate_stops_gives_the_ending():
    for solved, expected in ((True, "goal"), (False, "world_ended")):
        observation = Observation(text="over", done=True, solved=solved)
        assert search_ending({"observation": observation, "stagnation": Stagnation(stop=True)}) == expected
    assert search_ending({"observation": Observation(text="on"), "stagnation": Stagnation(stop=True)}) == "exhausted"


def test_what_a_gate_advises_and_a_memory_holds_reaches_sdps_realize():
    scripted_model = ScriptedModel(
        conditions={"conditions": ["the river is known"]},
        action={"action": "search[Osk]"},
        hypotheses={"hypotheses": ["up the river"]},
        facts={"facts": [{"fact": "Osk is a lake", "source": "Osk"}], "resolved": [], "questions": []},
        answer=ANSWER,
    )
    graph = sdp.build(gate=resampling(exhaustion_gate(), times=1), memory="structured")
    run_graph(graph, scripted_model, LibraryBenchmark(same_passages, attempts=9))
    prompts = scripted_model.prompts("action")
    assert "To keep in mind" not in prompts[0]
    assert ["Osk is a lake" in prompt for prompt in prompts] == [False, True, True, True, True]
    assert ["up the river" in prompt for prompt in prompts] == [False, False, False, True, True]


def test_ircot_is_stopped_by_its_sentences():
    scripted_model = ScriptedModel(sentence={"sentence": "The river is not known yet."}, answer=ANSWER)
    state = run_graph(ircot.build(gate=exhaustion_gate()), scripted_model, LibraryBenchmark(same_passages))
    assert len(state["rounds"]) == 4  # the question first, then the sentence three times


def test_the_task_is_the_last_of_the_open_questions_and_survives_a_reorganisation():
    goal = LibraryBenchmark().task("only").goal
    many = {"facts": [{"fact": f"fact {n}", "source": "it"} for n in range(5)], "questions": ["when?", "where?"]}
    scripted_model = ScriptedModel(
        tool=new_search,
        resolved=lambda prompt, times: (
            {**many, "facts": [{"fact": f"{times} {n}", "source": ""} for n in range(5)]} | {"resolved": []}
        ),
        facts={"facts": [{"fact": "all of it", "source": "it"}], "questions": ["when?"]},
        answer=ANSWER,
    )
    state = run_graph(pbai.build(), scripted_model, LibraryBenchmark(rounds=3))
    assert state["belief"].reorganised
    assert state["belief"].questions[-1] == goal
    assert state["belief"].questions[0] == "when?"
