"""The questions that stand in where no data is given."""

from itertools import pairwise

import pytest

from certigraph.adapters.benchmarks import load_benchmark
from certigraph.adapters.hotpotqa.benchmark import HotpotQA
from certigraph.adapters.musique.benchmark import MuSiQue
from certigraph.adapters.qa.questions import (
    CHAINS,
    MultiHopQuestion,
    generate_chains,
    generate_comparisons,
    generate_encyclopedia,
)

BENCHMARKS = (HotpotQA, MuSiQue)


def questions(kind: type[HotpotQA] | type[MuSiQue], split: str) -> list[MultiHopQuestion]:
    made = kind()
    return [made.gold(task) for task in made.tasks(split)]


@pytest.mark.parametrize("kind", BENCHMARKS)
@pytest.mark.parametrize("split", ["dev", "train"])
def test_twenty_questions_a_split_that_no_other_repeats(kind: type[HotpotQA] | type[MuSiQue], split: str):
    drawn = questions(kind, split)
    assert len({question.text for question in drawn}) == len(drawn) == 20
    assert [q.text for q in drawn] == [q.text for q in questions(kind, split)]
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
    world = generate_encyclopedia("s")
    for made in generate_comparisons("s", 20, 10):
        one, other = (step.entry.title for step in made.steps)
        facts = {title: world[title].facts for title in (one, other)}
        if "founded" in made.question:
            assert made.answer == min((one, other), key=lambda title: int(facts[title]["founded"]))
        else:
            assert made.answer == ("yes" if facts[one]["birthplace"] == facts[other]["birthplace"] else "no")


@pytest.mark.parametrize("seed", range(30))
def test_any_seed_makes_questions_of_every_form(seed: int):
    lengths = [hops for hops in CHAINS for _ in range(6)]
    made = [*generate_chains(seed, lengths, 20), *generate_comparisons(seed, 10, 10)]
    assert len({one.question for one in made}) == len(lengths) + 10
    assert all(
        step.answer in step.entry.sentences[step.entry.sentence_index(step.relation)] for m in made for step in m.steps
    )


def test_they_are_what_a_name_without_data_stands_for(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("CERTIGRAPH_DATA", raising=False)
    assert load_benchmark("hotpotqa").tasks()[0].id == "dev-bridge-0"
    assert load_benchmark("musique:hops").tasks("train")[0].benchmark == "musique:hops"
