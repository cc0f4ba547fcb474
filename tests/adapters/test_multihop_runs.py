"""SDP over multi-hop questions from end to end: chains, retrieval, escalation, replans, forced answers."""

import pytest
from multihop_double import BRANDT, FINDINGS, HARBOUR, NOT_FOUND, QUESTION, SUBQUESTIONS, Mind, Quiz, acted, found, ran

from certigraph.adapters.protocols import Limits
from certigraph.graphs import sdp
from certigraph.nodes.sdp import always_pass, capped
from certigraph.state.records import GAVE_UP, GOAL, Verdict
from certigraph.state.run import FINISH, SEARCH


def mind(**answers):
    """One that decomposes right and whose verifier agrees, unless told otherwise."""
    usual = {
        "subquestions": [SUBQUESTIONS],
        "found": FINDINGS,
        "query": ["Glass Harbour author", "Ida Brandt birthplace", "Tolmin country"],
        "supported": [True],
        "answer": ["Slovenia"],
        "consistent": [True],
    }
    return Mind(**{**usual, **answers})


def searches(state):
    return [step.action.args for step in state["history"] if step.action.kind == SEARCH]


def test_with_all_paragraphs_at_hand_each_hop_takes_one_claim_and_the_answer_certifies_the_goal_too():
    state = ran(Quiz(strict=True), mind())
    assert sdp.ending(state) == GOAL
    assert [c.depth for c in state["certificates"]] == [1, 1, 1, 2]
    assert acted(state)[1] == "claim[Tolmin: She was born in Tolmin. (Ida Brandt)]"
    assert acted(state)[-1] == "answer[Slovenia]"


def test_where_passages_are_searched_for_each_hop_searches_first_and_the_search_is_no_try():
    state = ran(Quiz(retrieves=True, strict=True), mind())
    assert sdp.ending(state) == GOAL
    assert [step.action.kind for step in state["history"]] == ["search", "claim"] * 3 + ["answer"]
    assert [a.verdict.looked for a in state["attempts"]] == [True, False] * 3 + [False]


def test_a_goal_that_was_not_certified_with_the_answer_is_handed_in():
    state = ran(Quiz(strict=True), mind(), validate=capped(depth=1))
    assert sdp.ending(state) == GOAL
    assert acted(state)[-2:] == ["answer[Slovenia]", "finish[Slovenia]"]
    assert "forced" not in state["action"].args


def test_a_hop_that_finds_nothing_never_repeats_a_query_escalates_and_is_forced_to_an_answer_at_last():
    never = mind(found=[NOT_FOUND], query=["q one", "q two", "q three", "q one"], guess=["Homer"])
    state = ran(Quiz(retrieves=True, strict=True), never)
    queries = [args["query"] for args in searches(state)]
    assert len(set(map(str.casefold, queries))) == len(queries)
    assert queries == ["q one", "q two", "q three", SUBQUESTIONS[0], "Glass Harbour", "Homer"]
    assert sdp.ending(state) == GAVE_UP
    assert state["action"].kind == FINISH and state["action"].args["forced"] == "method"


def test_searches_in_a_row_are_tries_so_that_a_hop_ends_after_its_budget():
    state = ran(
        Quiz(retrieves=True, limits=Limits(attempts=3, replans=0, steps=50, passages=2)), mind(found=[NOT_FOUND])
    )
    assert [a.verdict.looked for a in state["attempts"]] == [True, False, False, False]
    assert [bool(args.get("again")) for args in searches(state)] == [False, True, True, True]


def test_the_third_try_of_a_claim_that_is_rejected_leads_to_a_replan_that_keeps_the_certified_hops():
    verdicts = [True, False, False, False, False, False, False, True]
    new = ["Where was Ida Brandt from?", "In which country is #2?"]
    brain = mind(
        subquestions=[SUBQUESTIONS, new], supported=verdicts, found=[FINDINGS[0], *[FINDINGS[1]] * 4, FINDINGS[2]]
    )
    state = ran(Quiz(strict=True), brain)
    assert sdp.ending(state) == GOAL
    assert [p.args.get("question") for p in state["plan"]] == [SUBQUESTIONS[0], *new, None, None]
    assert [p.args.get("index") for p in state["plan"]][:3] == [1, 2, 3]
    assert "Tolmin" in brain.prompts["found"][-1].rpartition("Sub-question:")[2]


def test_a_new_tail_that_is_the_old_one_is_replaced_by_the_question_itself_and_then_given_up():
    state = ran(Quiz(strict=True), mind(found=[NOT_FOUND]))
    tried = list(dict.fromkeys(a.target.args["question"] for a in state["attempts"]))
    assert tried == [SUBQUESTIONS[0], QUESTION]
    assert sdp.ending(state) == GAVE_UP and state["action"].args["forced"] == "method"
    assert len(state["attempts"]) == 6


def test_without_a_validator_the_run_still_ends_whatever_it_certified():
    state = ran(Quiz(retrieves=True, strict=True), mind(), validate=always_pass)
    assert sdp.ending(state) == GOAL


def test_steps_that_are_used_up_force_an_answer_that_shows_what_is_certified():
    brain = mind(supported=[True, False])
    state = ran(Quiz(limits=Limits(attempts=9, replans=0, steps=4)), brain)
    assert state["action"].args["forced"] == "steps"
    assert "Ida Brandt wrote it." in brain.prompts["answer"][-1]
    assert "She was born in Tolmin." not in brain.prompts["answer"][-1]


@pytest.mark.parametrize("retrieves", [False, True])
def test_a_run_asks_few_questions_per_hop(retrieves):
    brain = mind()
    ran(Quiz(retrieves=retrieves, strict=True), brain)
    assert {kind: brain.asked(kind) for kind in ("subquestions", "found", "supported", "answer", "consistent")} == {
        "subquestions": 1,
        "found": 3,
        "supported": 3,
        "answer": 1,
        "consistent": 1,
    }
    assert brain.asked("query") == (3 if retrieves else 0)


def test_a_corrected_title_is_the_evidence_of_the_attempt():
    wrong = found("Ida Brandt", "The novel was written by Ida Brandt.", "Harbour Park")
    state = ran(Quiz(), mind(found=[wrong, *FINDINGS[1:]], supported=[False, True]))
    verdict: Verdict = state["attempts"][0].verdict
    assert verdict.depth == 1 and verdict.evidence == HARBOUR.id
    assert "'Harbour Park'" in verdict.reason


def test_scores_see_the_certified_paragraph_and_no_claim_that_was_rejected():
    wrong = found("Ida Brandt", "The novel was written by Ida Brandt.", "Harbour Park")
    brain = mind(found=[wrong, *FINDINGS[1:]], supported=[False, True, True, False])
    quiz = Quiz(strict=True, limits=Limits(attempts=9, replans=0, steps=4))
    state = ran(quiz, brain)
    assert state["action"].args["forced"] == "steps"
    assert [passage for *_, passage in state["action"].args["chain"]] == ["p1", "p2"]
    world = quiz.open(quiz.task(""))
    for step in state["history"]:  # as a replay after a crash has it
        world.step(step.action)
    assert [claim.passage for claim in world.outcome().claims] == [HARBOUR, BRANDT]
