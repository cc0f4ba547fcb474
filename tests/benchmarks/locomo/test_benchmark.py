"""LoCoMo: its layout and traps, its scores by category, unanswerable questions, and runs on its world."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from helpers.files.real_data import data_folder

from certigraph.benchmarks.locomo.benchmark import (
    LoCoMo,
    is_abstention,
    official_score,
    stemmed_f1,
    swap_questions,
    swap_speaker,
)
from certigraph.benchmarks.locomo.conversations import (
    DialogueQuestion,
    parse_turn_ids,
    read_conversations,
    sample_conversations,
)
from certigraph.runtime.run import run
from certigraph.state.endings import Fault
from certigraph.state.run import finish, search

PEOPLE = ("Ann", "Bob")


@pytest.fixture(autouse=True)
def no_encoder(monkeypatch: pytest.MonkeyPatch):
    """BM25 alone: torch takes seconds to load."""
    monkeypatch.setattr("certigraph.adapters.retrieval.dense.find_encoder", lambda: None)


def sample(*questions: dict[str, Any]) -> dict[str, Any]:
    """A conversation of two sessions, with dates of a third that does not exist."""
    return {
        "sample_id": "conv-1",
        "conversation": {
            "speaker_a": "Ann",
            "speaker_b": "Bob",
            "session_3_date_time": "9 May",
            "session_2_date_time": "8 May",
            "session_2": [{"speaker": "Bob", "dia_id": "D2:1", "text": "Look!", "blip_caption": "a photo of a kite"}],
            "session_1_date_time": "7 May",
            "session_1": [
                {"speaker": "Ann", "dia_id": "D1:1", "text": "I sold my boat."},
                {"speaker": "Bob", "dia_id": "D1:2", "text": "To whom?"},
            ],
        },
        "qa": list(questions),
    }


def question_row(question: str = "What did Ann sell?", category: int = 4, evidence: Any = ("D1:1",), **answer: Any):
    return {"question": question, "category": category, "evidence": list(evidence), **answer}


def written(folder: Path, *questions: dict[str, Any]) -> LoCoMo:
    (folder / "locomo10.json.gz").write_bytes(gzip.compress(json.dumps([sample(*questions)]).encode()))
    return LoCoMo(folder)


def gold(answer: str, category: int) -> DialogueQuestion:
    return DialogueQuestion(text="?", answer=answer, evidence=(), category=category)


def test_turns_come_in_the_order_of_sessions_and_dates_without_a_session_are_left_out(tmp_path: Path):
    written(tmp_path)
    talk = read_conversations(tmp_path / "locomo10.json.gz")["conv-1"]
    assert [passage.id for passage in talk.passages()] == ["conv-1/D1:1", "conv-1/D1:2", "conv-1/D2:1"]
    assert talk.passages()[2].title == "Bob, 8 May (D2:1)"
    assert talk.passages()[2].text == "Look! [shares an image: a photo of a kite]"


def test_integers_become_texts_and_adversarial_answers_are_never_gold(tmp_path: Path):
    trap = question_row(category=5, adversarial_answer="a boat", answer="No")
    world = written(tmp_path, question_row(answer=3), trap)
    assert world.gold(world.task("conv-1/0")).answers == ("3",)
    assert world.gold(world.task("conv-1/1")).answers == ("UNANSWERABLE",)


@pytest.mark.parametrize(
    ("evidence", "turns"),
    [
        (["D8:6; D9:17"], ("D8:6", "D9:17")),
        (["D9:1 D4:4 D9:1"], ("D9:1", "D4:4")),
        (["D1:18", "D", "D1:20"], ("D1:18", "D1:20")),
        ([], ()),
    ],
)
def test_malformed_evidence_is_taken_apart(evidence: list[str], turns: tuple[str, ...]):
    assert parse_turn_ids(evidence) == turns


def test_evidence_that_no_turn_has_is_left_out(tmp_path: Path):
    world = written(tmp_path, question_row(answer="a boat", evidence=["D1:1", "D7:7"]))
    assert [hop.passage.id for hop in world.gold(world.task("conv-1/0")).hops] == ["conv-1/D1:1"]


def test_another_layout_is_named_with_its_file(tmp_path: Path):
    (tmp_path / "locomo10.json").write_text('[{"sample_id": "x"}]', encoding="utf-8")
    with pytest.raises(Fault, match=r"locomo10\.json holds no conversations"):
        LoCoMo(tmp_path).tasks()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("answer", "reference", "category", "score"),
    [
        ("The 7 May, 2023.", "7 May 2023", 2, 1.0),  # punctuation, commas, articles
        ("she sold boats and cars", "a boat", 4, 2 * 1 / (4 + 1)),  # "and" goes, boats is boat
        ("no", "Likely no; she likes it", 3, 2 / 3),  # what stands before ";"
        ("kites, red boats", "boats, kites", 1, (2 / 3 + 1) / 2),  # best part for each gold part
        ("kites", "boats, kites", 1, 0.5),
        ("", "boats", 1, 0.0),
        ("Not mentioned in the talk", "", 5, 1.0),
        ("UNANSWERABLE", "", 5, 0.0),  # ours, not the official list
    ],
)
def test_official_scores_by_category(answer: str, reference: str, category: int, score: float):
    assert official_score(answer, gold(reference, category)) == pytest.approx(score)


@pytest.mark.slow
def test_normalisation_deletes_punctuation_before_it_looks_for_words():
    assert stemmed_f1("rock-and-roll", "rockandroll") == 1.0
    assert stemmed_f1("an and the", "a") == 0.0


@pytest.mark.parametrize(
    "answer", ["UNANSWERABLE", "That is not mentioned.", "I don\u2019t know", "No information available"]
)
def test_abstentions(answer: str):
    assert is_abstention(answer)
    assert not any(map(is_abstention, ["", "No", "a boat", "Bob mentioned a kite"]))


def test_an_abstention_is_right_where_nothing_is_known_and_wrong_elsewhere(tmp_path: Path):
    world = written(tmp_path, question_row(answer="a boat"), question_row(category=5))
    answerable, adversarial = world.tasks()
    assert world.score_answer(adversarial, "UNANSWERABLE").value == 1.0
    assert world.score_answer(adversarial, "a boat").value == 0.0
    assert world.score_answer(answerable, "UNANSWERABLE").value == 0.0
    assert world.score_answer(answerable, "UNANSWERABLE").parts["abstained"] == 1.0


@pytest.mark.parametrize(
    ("text", "swapped"),
    [
        ("What did Ann sell?", "What did Bob sell?"),
        ("Is it Bob's kite?", "Is it Ann's kite?"),
        ("What did Annika sell?", ""),
        ("Did Ann meet Bob?", ""),
    ],
)
def test_the_one_speaker_that_is_named_is_exchanged(text: str, swapped: str):
    assert swap_speaker(text, PEOPLE) == swapped


@pytest.mark.parametrize(
    "question",
    [
        question_row("What did Ann sell?", category=3, answer="a boat"),  # inferred
        question_row("What did Ann say of her boat?", answer="sold"),  # the pronoun tells
        question_row("Did Ann sell a boat?", answer="Yes"),
        question_row("How many boats did Ann sell?", answer="one"),  # Bob: none
        question_row("What did Ann fly?", answer="a kite", evidence=["D2:1"]),  # Bob's words
        question_row("What did Ann do?", answer="both", evidence=["D1:1", "D2:1"]),  # both speak
        question_row("What did Ann sell?", answer="a boat", evidence=[]),
    ],
)
def test_questions_whose_evidence_would_not_tell_are_not_swapped(tmp_path: Path, question: dict[str, Any]):
    assert written(tmp_path, question).tasks("swapped") == []


def test_a_question_that_the_other_gets_too_is_not_swapped(tmp_path: Path):
    twin = question_row("What did Bob sell?", answer="a kite", evidence=["D2:1"])
    assert written(tmp_path, question_row(answer="a boat"), twin).tasks("swapped") == []


def test_a_question_that_the_other_speaks_of_as_much_is_not_swapped(tmp_path: Path):
    talk = sample(
        question_row("What books does Ann read?", answer="novels"),
        question_row("Why did Ann sell boats?", answer="debts"),
    )
    talk["conversation"]["session_1"] += [{"speaker": "Bob", "dia_id": "D1:3", "text": "I read a book on beekeeping."}]
    (tmp_path / "locomo10.json").write_text(json.dumps([talk]), encoding="utf-8")
    assert [task.goal for task in LoCoMo(tmp_path).tasks("swapped")] == ["Why did Bob sell boats?"]


def test_swapped_questions_are_unanswerable_and_keep_the_place_of_the_original(tmp_path: Path):
    world = written(tmp_path, question_row("Who is Bob?", category=5), question_row(answer="a boat"))
    [task] = world.tasks("swapped")
    assert (task.id, task.goal) == ("conv-1/1-swapped", "What did Bob sell?")
    assert world.gold(task).answers == ("UNANSWERABLE",)
    assert [t.id for t in world.tasks("unanswerable")] == ["conv-1/0", "conv-1/1-swapped"]
    assert [t.id for t in world.tasks("answerable")] == ["conv-1/1"]


def test_draws_repeat_and_differ_by_seed():
    world = LoCoMo()
    some = [world.tasks(f"swapped-3-{seed}") for seed in (0, 0, 1)]
    assert len(some[0]) == 3
    assert some[0] == some[1] == world.tasks("swapped-3")
    assert some[0] != some[2]


def test_the_sample_has_every_category_and_some_to_swap():
    talk = sample_conversations()["made-0"]
    assert {question.category for question in talk.questions} == {1, 2, 3, 4, 5}
    assert swap_questions(talk)


def test_evidence_found_is_the_share_of_the_gold_turns():
    benchmark = LoCoMo()
    task = benchmark.task("made-0/10")  # needs two turns
    first, second = (hop.passage for hop in benchmark.gold(task).hops)
    world = benchmark.open(task)
    world.reset()
    world.step(search(first.text, k=1))
    world.step(finish("no idea"))
    assert first != second
    assert world.score().parts["evidence_found"] == 0.5


def test_the_expert_abstains(tmp_path: Path):
    result = run("react", LoCoMo(), "made-0/0-swapped", out=tmp_path)
    assert result.scores is not None, result.message
    assert (result.scores.value, result.scores.answer) == (1.0, "UNANSWERABLE")


@pytest.fixture(scope="module")
def real() -> LoCoMo:
    return LoCoMo(data_folder("locomo"))


@pytest.mark.slow
def test_the_shared_conversations_are_read_whole(real: LoCoMo):
    kinds = [real.gold(task).kind for task in real.tasks()]
    counts = {kind: kinds.count(kind) for kind in set(kinds)}
    assert counts == {"multi_hop": 189, "temporal": 239, "open_domain": 68, "single_hop": 585, "adversarial": 301}
    assert (len(real.tasks("answerable")), len(real.tasks("cgdp"))) == (1081, 886)


@pytest.mark.slow
def test_every_gold_answer_is_right_by_the_official_score(real: LoCoMo):
    scores = [real.score_answer(task, real.gold(task).answers[0]).value for task in real.tasks()]
    assert set(scores) == {1.0}


@pytest.mark.slow
def test_swapped_questions_of_the_shared_conversations(real: LoCoMo):
    tasks = real.tasks("swapped")
    assert len(tasks) == 146
    assert {real.gold(task).answers for task in tasks} == {("UNANSWERABLE",)}
