"""Validate of SDP's multi-hop operators: words that settle it, two stages of paragraphs, MuSiQue's answer checks."""

import pytest
from multihop_double import HARBOUR, PARK, PASSAGES, TOLMIN, Mind, Quiz, answered
from real_data import data_folder

from certigraph.adapters.qa.benchmark import SearchWorld
from certigraph.adapters.qa.operators import no_answer, no_finding, no_short_answer
from certigraph.adapters.qa.planning import chain_answer, closing, hop_claim, hop_predicate
from certigraph.state.records import Action, Observation
from certigraph.state.run import finish, search
from certigraph.state.sdp import validate_view
from certigraph.state.search import Hop

HOP = hop_predicate(1, "Who wrote Glass Harbour?")
CHAIN = [
    Hop("Who wrote Glass Harbour?", "Ida Brandt wrote it.", "Ida Brandt"),
    Hop("Where was Ida Brandt born?", "She was born in Tolmin.", "Tolmin"),
    Hop("In which country is Tolmin?", "Tolmin is in Slovenia.", "Slovenia"),
]


def claimed(finding="Ida Brandt wrote the novel.", title="Glass Harbour (novel)", entity="Ida Brandt"):
    return hop_claim(1, Hop("Who wrote Glass Harbour?", finding, entity), title)


def verdict(action: Action | Observation, mind=None, *, tail=None, quiz=None):
    """On what the real world answers to an action."""
    quiz = quiz or Quiz(strict=True)
    world: SearchWorld = quiz.open(quiz.task(""))
    seen = world.step(action) if isinstance(action, Action) else action
    return answered(
        "validate", {"task": quiz.task(""), "tail": tail or [HOP, *closing()], "observation": seen}, mind, quiz
    )


def answer_verdict(text, mind=None, *, chain=CHAIN, tail=None, quiz=None):
    return verdict(chain_answer(text, chain), mind, tail=tail or closing(), quiz=quiz)


def shown(mind):
    """The titles of the paragraphs that were put to the verifier."""
    return [next(p for p in PASSAGES if f"{p.title}: {p.text}" in prompt) for prompt in mind.prompts["supported"]]


def test_a_finding_that_its_paragraph_supports_is_certified_with_that_title():
    mind = Mind(supported=[True])
    said = verdict(claimed(), mind)
    assert (said.depth, said.evidence) == (1, HARBOUR.id)
    assert shown(mind) == [HARBOUR]
    [prompt] = mind.prompts["supported"]
    assert "Who wrote Glass Harbour?" in prompt and "Ida Brandt wrote the novel." in prompt


def test_a_rejected_paragraph_is_followed_by_the_best_other_one_which_corrects_the_title():
    mind = Mind(supported=[False, True])
    said = verdict(claimed(title="Harbour Park"), mind)
    assert shown(mind) == [PARK, HARBOUR]
    assert (said.depth, said.evidence) == (1, HARBOUR.id)
    assert "not in 'Harbour Park'" in said.reason


def test_a_title_that_is_nobody_s_goes_to_the_best_paragraph_at_once():
    mind = Mind(supported=[True])
    said = verdict(claimed(title="Encyclopedia"), mind)
    assert shown(mind) == [HARBOUR] and said.evidence == HARBOUR.id and "Encyclopedia" in said.reason


def test_two_rejections_are_one_failed_try_with_both_reasons():
    mind = Mind(supported=[{"supported": False, "reason": "about a park"}, {"supported": False, "reason": "no writer"}])
    said = verdict(claimed(title="Harbour Park"), mind)
    assert said.depth == 0 and not said.looked
    assert said.reason == "Harbour Park: about a park; Glass Harbour (novel): no writer"


@pytest.mark.parametrize(
    "finding",
    [
        "",
        "The paragraph does not provide the author.",
        "The author isn't named; it is not mentioned.",
        "There is no information about it.",
        "It cannot be determined.",
        "Unknown",
        "N/A",
        "not specified",
    ],
)
def test_a_finding_of_nothing_is_rejected_before_any_model_is_asked(finding):
    said = verdict(claimed(finding))
    assert said.depth == 0 and said.reason and not said.looked


@pytest.mark.parametrize(
    "finding", ["Unable to find a place in the world, he walks to the North Pole.", "Not the author but Ida was named."]
)
def test_a_finding_with_a_not_in_it_is_put_to_the_verifier(finding):
    assert verdict(claimed(finding), Mind(supported=[True])).depth == 1


def test_a_garbage_entity_is_rejected_too():
    assert verdict(claimed(entity="unknown")).depth == 0


def test_a_search_is_no_try_unless_it_follows_another_in_vain():
    quiz = Quiz(retrieves=True)
    first, again = (verdict(search("glass", k=2, **args), quiz=quiz) for args in ({}, {"again": True}))
    assert (first.depth, first.looked) == (0, True)
    assert (again.depth, again.looked) == (0, False)
    refused = verdict(search("of the", again=True), quiz=quiz)
    assert not refused.looked and "of the" in refused.reason


def test_a_claim_that_the_world_refuses_fails_with_the_world_s_reason():
    said = verdict(claimed(), quiz=Quiz(retrieves=True))
    assert said.depth == 0 and "search first" in said.reason


def test_an_answer_certifies_the_goal_where_that_comes_next():
    mind = Mind(consistent=[True])
    assert answer_verdict("Slovenia", mind).depth == 2
    assert answer_verdict("Slovenia", mind, tail=closing()[:1]).depth == 1
    assert "In which country is Tolmin? Slovenia. Tolmin is in Slovenia." in mind.prompts["consistent"][0]


def test_the_goal_holds_once_an_answer_is_handed_in():
    goal = closing()[1:]
    assert verdict(finish("Slovenia"), tail=goal).depth == 1
    assert verdict(chain_answer("Slovenia", []), tail=goal).depth == 0


@pytest.mark.parametrize("text", ["Unknown.", "not available", "It cannot be determined", "none", "N/A", "The answer"])
def test_garbage_is_no_answer_in_any_form(text):
    for strict in (True, False):
        assert answer_verdict(text, quiz=Quiz(strict=strict)).depth == 0


def test_hotpotqa_s_answers_are_asked_of_no_model():
    assert answer_verdict("Glass Harbour", quiz=Quiz()).depth == 2


def test_an_answer_that_does_not_follow_from_the_chain_is_rejected_with_the_reason():
    said = answer_verdict("Italy", Mind(consistent=[{"consistent": False, "reason": "Tolmin is in Slovenia"}]))
    assert (said.depth, said.reason) == (0, "Tolmin is in Slovenia")


@pytest.mark.parametrize(
    ("question", "answer", "reason"),
    [
        ("Who wrote Glass Harbour?", "the Glass Harbour", "in the question"),
        ("Where was its author born?", "Ida Brandt", "on the way"),
        ("Who wrote it?", " ".join(["word"] * 16), "16 words"),
        ("When was it written?", "Tolmin Castle", "a time"),
        ("In what year was it written?", "by Brandt", "a time"),
        ("How many people live there?", "very few", "a number"),
        ("Is it a novel?", "Slovenian", "yes or no"),
    ],
)
def test_musique_s_answer_checks(question, answer, reason):
    assert reason in no_short_answer(question, answer, CHAIN)


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("Who wrote Glass Harbour?", "Ida"),
        ("In which country was its author born?", "Slovenia"),
        ("When was it written?", "the middle of the summer"),
        ("When was it written?", "9 May 1931"),
        ("How many people live there?", "three thousand"),
        ("Is it a novel?", "Yes."),
        ("Is it a novel or a poem?", "verse"),
        ("Who lived there when the war began?", "Queen Ana"),
        ("What is left?", " ".join(["word"] * 15)),
    ],
)
def test_answers_of_the_right_sort_pass(question, answer):
    assert no_short_answer(question, answer, CHAIN) == ""


def test_the_last_entity_may_equal_an_earlier_one():
    assert no_short_answer("Where does it end?", "Tolmin", [*CHAIN, Hop("q", "f", "Tolmin")]) == ""


def test_validate_makes_the_same_of_a_state_whose_hidden_parts_are_poisoned():
    quiz = Quiz(strict=True)
    seen = quiz.open(quiz.task("")).step(claimed())
    hidden = ("certificates", "attempts", "evidence", "history", "action", "belief", "replans")
    state = {"task": quiz.task(""), "plan": [TOLMIN, HOP, *closing()], "head": 1, "observation": seen}
    poisoned = validate_view({**state, **{name: object() for name in hidden}})
    assert answered("validate", poisoned, Mind(supported=[True])).depth == 1


def test_none_of_musique_s_own_answers_is_rejected_by_its_words():
    from certigraph.adapters.musique.benchmark import MuSiQue

    benchmark = MuSiQue(data_folder("musique"))
    for task in (*benchmark.tasks("dev"), *benchmark.tasks("train")):
        question = benchmark.gold(task)
        chain = [Hop(hop.question, hop.finding, hop.answer) for hop in question.hops]
        answer = question.answers[0]
        assert (no_answer(answer) or no_short_answer(question.text, answer, chain), task.id) == ("", task.id)
        assert [no_finding(hop.answer) for hop in question.hops] == [""] * len(chain)
