"""Tests of `adapters.models.scripts`."""

from collections import Counter
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from certigraph.adapters.models.chat_models import chat_model, check_model_name, is_scripted, model_label
from certigraph.adapters.models.schemas import Schema, minimal_instance, schema_of
from certigraph.adapters.models.scripts import (
    INVALID_ACTION,
    REPEATED_SUFFIX,
    ErrorRates,
    Situation,
    cite_state,
    collect_citations,
    current_situation,
    inject_errors,
    is_impossible,
    parse_error_rates,
    random_responder,
    simulated_name,
    simulated_responder,
    use_about,
    use_situation,
    use_view,
)
from certigraph.adapters.models.usage import Call, Meter, metering
from certigraph.adapters.protocols import Budget, Context, Responder
from certigraph.benchmarks.blocksworld.benchmark import BlocksWorld
from certigraph.benchmarks.research.plans import Adequacy, Decomposition, Found, ResearchTools
from certigraph.nodes.actions import NextAction
from certigraph.nodes.conditions import Conditions
from certigraph.nodes.goal_checks import GoalCheck
from certigraph.nodes.plans import Plan
from certigraph.nodes.react import Thought
from certigraph.nodes.step import Completion, Next, Ruling
from certigraph.nodes.verdicts import Holds
from certigraph.runtime.run import run
from certigraph.state.endings import UnknownName
from certigraph.state.records import Task

# The random policy: every option alike, the same draws in every process, and a graph runs with it.

OPTIONS = ["a", "b", "c", "d"]
CHOICE: Schema = {
    "type": "object",
    "properties": {"thought": {"type": "string", "minLength": 1}, "choice": {"type": "string", "enum": OPTIONS}},
    "required": ["thought", "choice"],
}
MANY = 2_000


def requested(scripted_model: Responder, form: Schema, count: int) -> list[Any]:
    """Answers to the first `count` calls of a node, whose prompts are all the same."""
    meter, answers = Meter("node", Budget()), []
    with metering(meter):
        for _ in range(count):
            answers.append(scripted_model("the same", form))
            meter.charge(Call(role="", model="", schema_name=""))
    return answers


def test_every_option_is_as_likely_and_the_rest_is_least():
    answers = requested(random_responder(), CHOICE, MANY)
    assert {answer["thought"] for answer in answers} == {"x"}
    counts = Counter(answer["choice"] for answer in answers)
    deviation = (MANY * 0.25 * 0.75) ** 0.5
    assert all(abs(counts[option] - MANY / 4) < 4 * deviation for option in OPTIONS), counts
    assert random_responder()("free", schema_of(NextAction)) == random_responder(1)("other", schema_of(NextAction))


def test_a_question_is_drawn_again_in_each_trial_superstep_and_task():
    def choices(trial: int, superstep: int, task: str) -> list[str]:
        state = {"task": Task(benchmark="b", id=task, goal="g")}
        with use_situation(Situation("decide", superstep, state)):
            return [answer["choice"] for answer in requested(random_responder(trial), CHOICE, 30)]

    drawn = [choices(0, 0, "t"), choices(1, 0, "t"), choices(0, 1, "t"), choices(0, 0, "u")]
    assert choices(0, 0, "t") == drawn[0]
    assert len(set(map(tuple, drawn))) == 4


@pytest.mark.slow
def test_it_names_one_condition_for_without_any_sdp_would_give_up_at_once(tmp_path: Path):
    assert random_responder()("plan", schema_of(Conditions))["conditions"] == ["x"]
    assert random_responder()("plan", schema_of(Next)) == minimal_instance(schema_of(Next)), "other lists stay empty"
    result = run("sdp", BlocksWorld(), "4-0", context=Context(model="scripted:random"), out=tmp_path)
    assert len({step.action.text for step in result.state["history"]}) > 2, result.ending
    assert result.scores and result.scores.value < 1.0


# The simulated agent: its names, its rates, what it leaves as it is, and that nothing but its draws decides.

MANY_SIMULATED = 4_000
NEVER = ErrorRates(propose=0, act=0, accept=0, reject=0)
CHOICE_SIMULATED: Schema = {"type": "object", "properties": {"choice": {"type": "string", "enum": OPTIONS}}}


def drawn(answer: dict[str, Any], schema: Schema, **given: Any) -> list[dict[str, Any]]:
    errors = NEVER.model_copy(update={k: given.pop(k) for k in list(given) if k in ErrorRates.model_fields})
    return [inject_errors(answer, schema, errors, Random(f"{n}"), **given) for n in range(MANY_SIMULATED)]


def assert_share(found: int, rate: float, of: int = MANY_SIMULATED) -> None:
    """Within four standard deviations of a binomial's mean."""
    assert abs(found - of * rate) <= 4 * (of * rate * (1 - rate)) ** 0.5, f"{found} of {of} at rate {rate}"


def test_a_name_gives_the_rates_and_what_it_leaves_out_is_usual():
    assert parse_error_rates("simulated") == ErrorRates()
    assert parse_error_rates("simulated:act=0.3,seed=7") == ErrorRates(act=0.3, seed=7)
    assert parse_error_rates("simulated: reject=1 , accept=0") == ErrorRates(reject=1, accept=0)
    odd = ErrorRates(propose=1 / 3, act=1e-9, seed=12345678901234567890)
    assert parse_error_rates(simulated_name(odd)) == odd
    assert simulated_name(ErrorRates()) == "simulated:propose=0.1,split=0,act=0.2,accept=0.1,reject=0.1,seed=0"
    assert check_model_name("simulated:act=0") == "simulated:act=0"
    assert model_label(chat_model("simulated:seed=3")) == simulated_name(ErrorRates(seed=3)), (
        "every rate is in the records"
    )
    assert is_scripted("simulated") and is_scripted("simulated:act=0") and is_scripted("scripted:first")
    assert not is_scripted("openai:simulated") and not is_scripted("local")


def test_a_plan_cut_too_finely_names_conditions_twice():
    plans = [
        a["conditions"] for a in drawn({"conditions": ["one", "goal"]}, schema_of(Conditions), split=0.3, goal="goal")
    ]
    assert {tuple(plan) for plan in plans} == {("one", "goal"), ("one", f"one{REPEATED_SUFFIX}", "goal")}
    assert_share(sum(len(plan) == 3 for plan in plans), 0.3)


def test_steps_that_are_objects_are_spoiled_in_their_text_and_keep_their_kind():
    steps = [{"kind": "collect", "goal": "one"}, {"kind": "filter", "goal": "two"}]
    plans = [a["steps"] for a in drawn({"steps": steps}, schema_of(Decomposition), propose=0.3)]
    assert_share(sum(is_impossible(plan[1]["goal"]) for plan in plans), 0.3)
    assert all([step["kind"] for step in plan] == ["collect", "filter"] for plan in plans)
    (cut,) = {str(a["steps"]) for a in drawn({"steps": steps[:1]}, schema_of(Decomposition), split=1)}
    assert cut == str([steps[0], {"kind": "collect", "goal": f"one{REPEATED_SUFFIX}"}])


@pytest.mark.parametrize(
    ("form", "field"),
    [(Adequacy, "adequate"), (Completion, "completed"), (GoalCheck, "reached"), (Ruling, "forbidden")],
)
def test_yes_and_no_err_at_their_own_rates(form: type[BaseModel], field: str):
    yes, no = ({"reason": "r", field: answer} for answer in (True, False))
    assert_share(sum(not answer[field] for answer in drawn(yes, schema_of(form), reject=0.3)), 0.3)
    assert_share(sum(answer[field] for answer in drawn(no, schema_of(form), accept=0.2)), 0.2)


def test_what_is_looked_up_and_found_stays_right():
    found = {"finding": "f", "supported_by": [1], "contradicted_by": [2], "dispute": "d"}
    errors = ErrorRates(propose=1, act=1, accept=1, reject=1)
    for right, form in (({"queries": ["q"], "pages": [1]}, ResearchTools), (found, Found)):
        assert inject_errors(right, schema_of(form), errors, Random(1)) == right


@pytest.mark.parametrize(
    "rates",
    ["actt=0.1", "act=1.1", "act=-0.1", "act=high", "act=nan", "act=", "act", "", "act=0.1,act=0.2", "seed=0.5"],
)
def test_a_wrong_name_is_refused_with_the_right_form(rates: str):
    with pytest.raises(UnknownName, match=r"write simulated, or simulated:propose=0\.1,act=0\.2,.*rates from 0 to 1"):
        check_model_name(f"simulated:{rates}")


def test_proposals_are_exchanged_at_their_rate_for_impossible_ones_and_the_goal_never():
    answers = drawn({"conditions": ["one", "two", "goal"]}, schema_of(Conditions), propose=0.3, goal="goal")
    for place in (0, 1):
        assert_share(sum(is_impossible(answer["conditions"][place]) for answer in answers), 0.3)
    assert {answer["conditions"][2] for answer in answers} == {"goal"}
    assert all(len(set(answer["conditions"])) == 3 for answer in answers), "equal conditions would be merged"
    both = sum(is_impossible(a["conditions"][0]) and is_impossible(a["conditions"][1]) for a in answers)
    assert_share(both, 0.09)
    subtasks = drawn({"rationale": "r", "subtask": "s", "insights": [1]}, schema_of(Next), propose=0.3)
    assert_share(sum(is_impossible(answer["subtask"]) for answer in subtasks), 0.3)
    assert all((answer["rationale"], answer["insights"]) == ("r", [1]) for answer in subtasks)


def test_a_wrong_choice_is_any_other_option_alike_and_a_wrong_text_a_slip():
    chosen = [answer["choice"] for answer in drawn({"choice": "b"}, CHOICE_SIMULATED, act=0.6)]
    for option in ("a", "c", "d"):
        assert_share(chosen.count(option), 0.2)
    written = [answer["action"] for answer in drawn({"action": "go"}, schema_of(NextAction), act=0.6)]
    assert_share(written.count(INVALID_ACTION), 0.6)
    assert set(written) == {"go", INVALID_ACTION}
    only: Schema = {"properties": {"choice": {"enum": ["b"]}}}
    assert drawn({"choice": "b"}, only, act=1)[0] == {"choice": "b"}


def test_an_impossible_target_gets_any_option_and_only_slips_whatever_the_rate():
    lost = drawn({"conditions": ["x"]}, schema_of(Conditions), propose=1)[0]["conditions"][0]
    chosen = [answer["choice"] for answer in drawn({"choice": "b"}, CHOICE_SIMULATED, target=lost)]
    for option in OPTIONS:
        assert_share(chosen.count(option), 0.25)
    assert {a["action"] for a in drawn({"action": "go"}, schema_of(NextAction), target=lost)} == {INVALID_ACTION}


@pytest.mark.parametrize("held", [0, 1, 3])
def test_verdicts_are_rejected_whole_and_extended_one_condition_at_a_time(held: int):
    counts = [a["holds"] for a in drawn({"reason": "r", "holds": held}, schema_of(Holds), accept=0.4, reject=0.3)]
    kept = 0.7 if held else 1.0
    assert_share(counts.count(held), kept * 0.6)
    assert_share(counts.count(held + 1), kept * 0.4 * 0.6)
    assert_share(counts.count(held + 2), kept * 0.4**2 * 0.6)
    if held:
        assert_share(counts.count(0), 0.3)
    assert max(counts) <= 10
    full = drawn({"reason": "r", "holds": 0}, schema_of(Holds), accept=1)
    assert {answer["holds"] for answer in full} == {10}, "no more than the form allows"


def draw_answers(
    *,
    seed: int = 0,
    trial: int = 0,
    node: str = "realize",
    step: int = 1,
    task: str = "t",
    goal: str = "",
    before: int = 0,
    inside: int | None = None,
    about: str = "",
    prompt: str = "?",
) -> str:
    """Forty choices, as text, of an agent that errs half the time.

    `inside` is the superstep of the node whose inner graph the agent is in, if it is in one.
    """
    scripted_model = simulated_responder(ErrorRates(act=0.5, seed=seed), lambda prompt, schema: {"choice": "b"}, trial)
    meter, choices = Meter(node, Budget()), ""
    for _ in range(before):
        meter.charge(Call(role="", model="", schema_name=""))
    state = {"task": Task(benchmark="x", id=task, goal=goal)}
    outer = nullcontext() if inside is None else use_situation(Situation("solve", inside, {}))
    with (
        metering(meter),
        outer,
        use_situation(Situation(node, step, state)),
        use_about({"text": about} if about else {}),
    ):
        for n in range(40):
            choices += scripted_model(f"{prompt}{n}", CHOICE_SIMULATED)["choice"]
            meter.charge(Call(role="", model="", schema_name=""))
    return choices


def test_a_request_is_drawn_again_by_each_of_what_distinguishes_it_and_by_nothing_else():
    asks: list[dict[str, Any]] = [
        {},
        {"seed": 1},
        {"trial": 1},
        {"step": 2},
        {"task": "u"},
        {"goal": "a sub-task of t"},
        {"node": "act"},
        {"inside": 1},
        {"inside": 2},
        {"about": "one of several at once"},
        {"before": 1},
    ]
    assert len({draw_answers(**given) for given in asks}) == len(asks)
    assert draw_answers() == draw_answers(prompt="!")
    assert draw_answers(before=1)[:39] == draw_answers()[1:]


def test_what_an_operator_reads_and_adds_is_in_its_situation_and_leaves_it_again():
    with use_situation(Situation("validate", 1, {"plan": ["a", "b"]})):
        with use_view({"tail": ["b"]}), use_about({"finding": "f"}):
            inside = current_situation()
        outside = current_situation()
    assert inside and (inside.view, inside.state) == ({"tail": ["b"], "finding": "f"}, {"plan": ["a", "b"]})
    assert outside and outside.view == {}
    with use_view({"tail": []}), use_about({"finding": "f"}):
        assert current_situation() is None


def test_a_simulated_agent_cites_the_worlds_state_for_right_answers_only():
    def expert(prompt: str, schema: Schema) -> dict[str, Any]:
        cite_state("the lamp is on")
        return {"reason": "seen", "holds": 1}

    def cited(**rates: float) -> list[str]:
        errors = ErrorRates(**{**dict.fromkeys(("propose", "act", "accept", "reject"), 0), **rates})
        with collect_citations() as shown:
            simulated_responder(errors, expert)("", schema_of(Holds))
        return shown

    assert cited() == ["the lamp is on"]
    assert cited(accept=1) == cited(reject=1) == []
    cite_state("outside of a block nothing collects it")


def test_a_false_accept_says_that_it_is_a_seeded_error():
    def answered(held: int, **rates: float) -> dict[str, Any]:
        errors = ErrorRates(**{**dict.fromkeys(("propose", "act", "accept", "reject"), 0), **rates})
        answer = simulated_responder(errors, lambda prompt, schema: {"reason": "seen", "holds": held})
        return answer("", schema_of(Holds))

    assert answered(1) == {"reason": "seen", "holds": 1}
    assert answered(1, reject=1) == {"reason": "seen", "holds": 0}
    wrong = answered(1, accept=1)
    assert wrong["holds"] > 1
    assert wrong["reason"] != "seen" and "seeded error" in wrong["reason"]
    text = simulated_responder(ErrorRates(), lambda prompt, schema: "it holds: the goal is reached, with a reason")
    assert text("", {"type": "string"}) == "it holds: the goal is reached, with a reason"


rates = st.floats(0, 1)
texts = st.text(min_size=1, max_size=80)
ANSWERS: dict[type[BaseModel], Callable[[], st.SearchStrategy[dict[str, Any]]]] = {
    Conditions: lambda: st.fixed_dictionaries({"conditions": st.lists(texts, max_size=40)}),
    Decomposition: lambda: st.fixed_dictionaries(
        {"steps": st.lists(st.fixed_dictionaries({"kind": st.just("filter"), "goal": texts}), max_size=5)}
    ),
    Plan: lambda: st.fixed_dictionaries({"steps": st.lists(texts, min_size=1, max_size=12)}),
    Next: lambda: st.fixed_dictionaries(
        {"rationale": texts, "subtask": texts, "insights": st.lists(st.integers(), max_size=6)}
    ),
    NextAction: lambda: st.fixed_dictionaries({"action": texts}),
    Thought: lambda: st.fixed_dictionaries({"thought": texts, "action": texts}),
    Holds: lambda: st.fixed_dictionaries({"reason": texts, "holds": st.integers(0, 10)}),
    Completion: lambda: st.fixed_dictionaries({"reason": texts, "completed": st.booleans()}),
    Ruling: lambda: st.fixed_dictionaries({"reason": texts, "forbidden": st.booleans()}),
}


@pytest.mark.slow
@pytest.mark.parametrize("form", ANSWERS)
@given(
    data=st.data(),
    errors=st.builds(ErrorRates, propose=rates, split=rates, act=rates, accept=rates, reject=rates),
    seed=st.integers(),
)
def test_a_spoiled_answer_fits_its_form_and_without_errors_it_is_the_right_one(
    form: type[BaseModel], data: Any, errors: ErrorRates, seed: int
):
    answer = data.draw(ANSWERS[form]())
    form.model_validate(inject_errors(answer, schema_of(form), errors, Random(seed)))
    assert inject_errors(answer, schema_of(form), NEVER, Random(seed)) == answer
    assert inject_errors("prose", {"type": "string"}, errors, Random(seed)) == "prose"


UNDONE: Schema = {
    "type": "object",
    "properties": {"undone": {"type": "array", "items": {"type": "integer", "minimum": 1, "maximum": 5}}},
}


@pytest.mark.slow
def test_a_revalidation_overlooks_what_was_undone_at_the_rate_of_acceptance_and_names_one_that_holds_at_the_other():
    overlooked = drawn({"undone": [2, 4]}, UNDONE, accept=0.3)
    assert_share(sum(2 not in answer["undone"] for answer in overlooked), 0.3)
    assert all(set(answer["undone"]) <= {2, 4} for answer in overlooked)
    named = drawn({"undone": [2]}, UNDONE, reject=0.3)
    assert_share(sum(len(answer["undone"]) == 2 for answer in named), 0.3)
    assert {number for answer in named for number in answer["undone"]} == {1, 2, 3, 4, 5}
