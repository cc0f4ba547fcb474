"""How the scripted expert divides a question into sub-tasks, which wait for which, and how it knows its own again."""

from typing import Any

import pytest

from certigraph.adapters.models.scripts import Situation, use_situation
from certigraph.adapters.retrieval.sources import passage_of_text
from certigraph.benchmarks.musique.benchmark import MuSiQue
from certigraph.benchmarks.qa.expert import (
    ANSWER_SPECIFICATION,
    HopRange,
    current_position,
    find_needed_parts,
    format_specification,
    hops_of_goal,
    split_hops,
)
from certigraph.benchmarks.qa.questions import GoldHop, MultiHopQuestion
from certigraph.state.records import Observation


def hop(question: str, answer: str, title: str, text: str = "It says so.") -> GoldHop:
    return GoldHop(question=question, answer=answer, passage=passage_of_text(title, text), finding=text)


def question_of(*hops: GoldHop) -> MultiHopQuestion:
    return MultiHopQuestion(id="q", text="Which?", answers=("Gold",), kind="x", passages=(), hops=hops)


def waiting(question: MultiHopQuestion, most: int = 8) -> list[list[str]]:
    divided = split_hops(question, most)
    return [[need.id for need in find_needed_parts(question, part, divided[:n])] for n, part in enumerate(divided)]


def test_a_hop_needs_those_whose_answers_it_asks_about():
    hops = [hop("Who wrote A?", "Ada", "A"), hop("Where is B?", "Tor", "B"), hop("Did #1 live in #2?", "yes", "C")]
    assert waiting(question_of(*hops)) == [[], [], ["hop-1", "hop-2"]]


def test_a_hop_needs_the_one_that_answers_with_its_page_but_for_comparisons():
    hops = (hop("What does A say?", "Ida Brandt", "A"), hop("What does Ida Brandt say?", "Tor", "Ida Brandt"))
    assert waiting(question_of(*hops)) == [[], ["hop-1"]]
    assert waiting(question_of(*hops).model_copy(update={"kind": "comparison"})) == [[], []]
    assert waiting(question_of(hops[0], hop("What does Ida Lund say?", "Tor", "Ida Lund"))) == [[], []]


def test_the_tenth_hop_is_not_the_first():
    hops = [hop(f"Who is {n}?", str(n), f"T{n}x") for n in range(10)] + [hop("Where is #10?", "x", "Z")]
    assert waiting(question_of(*hops), 11)[-1] == ["hop-10"]


@pytest.mark.parametrize(
    ("most", "ids"),
    [
        (5, ["hop-1", "hop-2", "hop-3", "hop-4", "hop-5"]),
        (3, ["hops-1-2", "hops-3-4", "hop-5"]),
        (1, ["hops-1-5"]),
        (0, []),
    ],
)
def test_hops_share_a_part_where_there_are_more_than_nodes(most: int, ids: list[str]):
    question = question_of(*(hop(f"Who is {n}?", str(n), f"T{n}") for n in range(5)))
    assert [part.id for part in split_hops(question, most)] == ids


def test_a_question_without_gold_steps_has_no_parts():
    assert split_hops(question_of(), 7) == []


def test_a_part_never_waits_for_itself():
    hops = [hop("Who wrote A?", "Ada", "A"), hop("Where lives #1?", "Tor", "B"), hop("What is in #2?", "C", "C")]
    assert waiting(question_of(*hops), 2) == [[], ["hops-1-2"]]


def test_a_specification_tells_no_answer_and_is_found_again():
    question = question_of(hop("Who wrote A?", "Ada", "A"), hop("Where lives #1?", "Tor", "B"))
    text = format_specification(question, HopRange(2, 2))
    assert text == "Hop 2: Where lives (the answer of hop 1)?"
    assert hops_of_goal(question, text) == question.hops[1:]
    assert hops_of_goal(question, format_specification(question, HopRange(1, 2))) == question.hops
    assert hops_of_goal(question, f"{ANSWER_SPECIFICATION}\nIt settles the whole task: Which?") == ()
    assert hops_of_goal(question, question.text) is None


def stands(goal: str, **state: Any) -> Any:
    made = MuSiQue()
    task = made.task("3hop__dev_1").model_copy(update={"goal": goal})
    shown = {"task": task, "history": [], "turns": [], "observation": Observation(text=""), **state}
    with use_situation(Situation("execute", 1, shown)):
        return current_position(made)


def test_in_a_sub_task_its_hop_alone_is_missing_and_its_answer_is_the_answer():
    question = MuSiQue().gold(MuSiQue().task("3hop__dev_1"))
    first, second, third = question.hops
    assert stands(question.text).unseen == [first, second, third]
    own = stands(format_specification(question, HopRange(2, 2)))
    assert (own.unseen, own.answer, own.hops) == ([second], second.answer, (second,))
    last = stands(ANSWER_SPECIFICATION)
    assert (last.unseen, last.answer, last.hops) == ([], question.answers[0], question.hops)
