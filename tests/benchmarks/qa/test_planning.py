"""Propose and Replan of SDP's multi-hop operators: plans, placeholders, bounds, what a new tail keeps and varies."""

import pytest
from helpers.worlds.quiz_benchmark import QUESTION, SUBQUESTIONS, Quiz, ScriptedModel, call_operator

from certigraph.benchmarks.qa.planning import (
    clean_subquestions,
    closing_predicates,
    create_chain_answer,
    create_hop_claim,
    hop_predicate,
)
from certigraph.state.certified_states import CertifiedState
from certigraph.state.endings import Fault
from certigraph.state.records import Attempt, Verdict
from certigraph.state.run import search
from certigraph.state.search import HopFinding

FIRST = create_hop_claim(
    1, HopFinding("Who wrote Glass Harbour?", "Ida Brandt wrote it.", "Ida Brandt"), "Glass Harbour"
)
KNOWN = CertifiedState(predicates=(hop_predicate(1, "Who wrote Glass Harbour?"),), actions=(FIRST,), evidence=("p1",))


def planned(*subquestions, quiz=None):
    quiz = quiz or Quiz(strict=True)
    scripted_model = ScriptedModel(subquestions=[list(subquestions)])
    return call_operator(
        "propose", {"task": quiz.task(""), "certified": CertifiedState()}, scripted_model, quiz
    ), scripted_model


def tried(question, action=None, reason="no paragraph says so", position=1):
    action = action or create_hop_claim(2, HopFinding(question, "x", "x"), "T")
    verdict = Verdict(depth=0, reason=reason)
    target = hop_predicate(2, question) if question else closing_predicates()[0]
    return Attempt(position=position, target=target, action=action, digest="-", verdict=verdict)


def replanned(*subquestions, attempts, certified=KNOWN, quiz=None):
    quiz = quiz or Quiz(strict=True)
    scripted_model = ScriptedModel(subquestions=[list(subquestions)])
    view = {"task": quiz.task(""), "certified": certified, "head": 1, "attempts": attempts}
    return call_operator("replan", view, scripted_model, quiz), scripted_model


def questions(plan):
    return [predicate.args["question"] for predicate in plan if predicate.kind == "hop"]


def test_a_plan_is_the_hops_by_index_then_the_answer_and_the_goal():
    plan, scripted_model = planned(*SUBQUESTIONS)
    assert [p.kind for p in plan] == ["hop", "hop", "hop", "answer", "goal"]
    assert [p.args.get("index") for p in plan[:3]] == [1, 2, 3]
    assert questions(plan) == SUBQUESTIONS
    assert "2 to 4 sub-questions" in scripted_model.prompts["subquestions"][0]


def test_hotpotqa_has_two_hops_whatever_the_model_lists():
    plan, scripted_model = planned(*SUBQUESTIONS, quiz=Quiz())
    assert questions(plan) == SUBQUESTIONS[:2]
    assert "into 2 sub-questions" in scripted_model.prompts["subquestions"][0]


def test_no_decomposition_is_the_question_itself():
    assert questions(planned("", "  ")[0]) == [QUESTION]


@pytest.mark.parametrize(("id_", "hops"), [("2hop__574419_270105", 2), ("3hop1__1_2_3", 3), ("dev/4hop3__1_2_3_4", 4)])
def test_the_number_of_hops_is_read_off_the_id_only_where_that_is_requested(id_, hops):
    plan, scripted_model = planned("a", "b", "c", "d", quiz=Quiz(strict=True, hops=True, id_=id_))
    assert len(questions(plan)) == hops
    assert f"into {hops} sub-questions" in scripted_model.prompts["subquestions"][0]
    assert len(questions(planned("a", "b", "c", "d", quiz=Quiz(strict=True, id_=id_))[0])) == 4


def test_an_id_without_its_number_of_hops_is_a_fault_that_says_so():
    with pytest.raises(Fault, match="use plain musique"):
        planned("a", quiz=Quiz(strict=True, hops=True, id_="5ab48ec2"))


def test_repeated_sub_questions_are_dropped_and_placeholders_follow():
    assert clean_subquestions(["a?", "a?", "b of #2?", "c of #3?"], first=1, most=4) == ["a?", "b of #1?", "c of #2?"]
    assert clean_subquestions(["b of #1?", "", "c of #2?"], first=2, most=4) == ["b of #1?", "c of #2?"]


def test_a_number_before_a_sub_question_is_not_a_placeholder_where_it_is_its_own():
    assert clean_subquestions(["#1 Who?", "#1 >> capital", "3. Where?"], first=1, most=4) == [
        "Who?",
        "#1 >> capital",
        "Where?",
    ]


def test_a_new_tail_is_numbered_on_from_the_certified_hops_and_sees_why_the_old_one_failed():
    plan, scripted_model = replanned("Where is Brandt from?", "Country of #2?", attempts=[tried("Where was #1 born?")])
    assert [p.args.get("index") for p in plan] == [2, 3, None, None]
    [prompt] = scripted_model.prompts["subquestions"]
    assert "1. Who wrote Glass Harbour? Ida Brandt" in prompt
    assert "Where was #1 born? x: no paragraph says so" in prompt
    assert "at most 3" in prompt and "number 2." in " ".join(prompt.split())


def test_with_all_passages_at_hand_a_tail_that_begins_as_the_failed_one_is_varied_then_given_up():
    failed = tried("Where was #1 born?")
    again = replanned("where was Ida Brandt born", attempts=[failed])[0]  # the same with the bridge entity
    assert questions(again) == [QUESTION]
    assert replanned("Where was #1 born?", attempts=[failed, tried(QUESTION)])[0] == []


def test_where_passages_are_searched_for_the_same_hop_goes_on_with_the_queries_it_has_spent():
    attempts = [
        tried("", search("an earlier hop's"), position=0),
        *(tried("Where was #1 born?", search(q)) for q in ("q1", "q2")),
    ]
    plan, _ = replanned("Where was #1 born?", "And #2?", attempts=attempts, quiz=Quiz(retrieves=True, strict=True))
    assert plan[0].args["queries"] == ["q1", "q2"]
    assert "queries" not in plan[1].args


def test_an_answer_that_was_rejected_with_nothing_left_to_ask_is_requested_directly_once():
    rejected = tried("", create_chain_answer("Tolmin", []))
    assert questions(replanned(attempts=[rejected])[0]) == [QUESTION]
    assert replanned(attempts=[rejected, tried(QUESTION)])[0] == []
