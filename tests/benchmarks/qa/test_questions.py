"""The questions that stand in where no data is given."""

from itertools import pairwise

import pytest

from certigraph.adapters.benchmarks import load_benchmark
from certigraph.benchmarks.hotpotqa.benchmark import HotpotQA
from certigraph.benchmarks.musique.benchmark import MuSiQue
from certigraph.benchmarks.qa.questions import MultiHopQuestion

BENCHMARKS = (HotpotQA, MuSiQue)


def questions(kind: type[HotpotQA] | type[MuSiQue], split: str) -> list[MultiHopQuestion]:
    made = kind()
    return [made.gold(task) for task in made.tasks(split)]


@pytest.mark.parametrize("kind", BENCHMARKS)
@pytest.mark.parametrize("split", ["dev", "train"])
def test_twenty_questions_a_split_that_no_other_repeats(kind: type[HotpotQA] | type[MuSiQue], split: str):
    drawn = questions(kind, split)
    assert len({question.text for question in drawn}) == len(drawn) == 20
    assert {len(q.passages) for q in drawn} == {10 if kind is HotpotQA else 20}


@pytest.mark.parametrize("kind", BENCHMARKS)
def test_every_step_is_found_by_its_paragraph_and_leads_to_the_next(kind: type[HotpotQA] | type[MuSiQue]):
    for question in questions(kind, "dev"):
        assert all(hop.passage in question.passages for hop in question.hops)
        if question.kind == "comparison":
            continue
        assert all(hop.answer in hop.finding for hop in question.hops)
        assert all(hop.answer == after.passage.title for hop, after in pairwise(question.hops))
        assert question.hops[-1].answer == question.answers[0]


def test_musique_has_two_to_four_hops_and_aliases():
    drawn = questions(MuSiQue, "dev")
    assert {question.kind for question in drawn} == {"2hop", "3hop", "4hop"}
    assert any(len(question.answers) > 1 for question in drawn)


def test_hotpotqa_compares_and_asks_for_yes_and_no():
    answers = [question.answers[0] for question in questions(HotpotQA, "dev") if question.kind == "comparison"]
    assert {"yes", "no"} < set(answers)


def test_comparisons_are_answered_right():
    for question in questions(HotpotQA, "dev"):
        if question.kind == "comparison":
            one, other = (hop.finding.rstrip(".").split()[-1] for hop in question.hops)
            if "founded" in question.text:
                first = min(question.hops, key=lambda hop: hop.finding.rstrip(".").split()[-1])
                assert question.answers[0] == first.passage.title
            else:
                assert question.answers[0] == ("yes" if one == other else "no")


def test_they_are_what_a_name_without_data_stands_for(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("CERTIGRAPH_DATA", raising=False)
    assert load_benchmark("hotpotqa").tasks()[0].id == "dev-bridge-0"
    assert load_benchmark("musique:hops").tasks("train")[0].benchmark == "musique:hops"
