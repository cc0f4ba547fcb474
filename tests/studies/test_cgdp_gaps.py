"""The gaps G1 to G7 by hand-worked runs, and the phrases that say that nothing is known."""

from collections.abc import Sequence

import pytest
from helpers.sample_runs.recorded_runs import event, header

from certigraph.state.records import Observation, Scores, Task, Usage
from certigraph.state.run import Belief, BelievedFact, Turn, finish, round_of, search
from certigraph.state.trajectory import Footer, Trajectory
from certigraph.studies import cgdp_gaps as rules
from certigraph.studies.cgdp_gaps import GAPS, is_no_evidence
from certigraph.studies.cgdp_runs import StudyArm, StudyRun

QUESTION = "Who is the mother of the screenwriter of WarGames?"
PASSAGES = {
    "w": "WarGames: WarGames was written by Lawrence Lasker.",
    "l": "Lawrence Lasker (writer): Lasker is the son of actress Jane Greer.",
    "x": "Chess: Chess is a game of kings.",
}
SUPPORT = {"w": "WarGames", "l": "Lawrence Lasker (writer)"}

SearchRounds = Sequence[tuple[str, str]]
"""Queries with the letters of the passages that they bring up."""


def run(
    rounds: SearchRounds,
    answer: str = "Ann Lee",
    *,
    score: float = 0.0,
    belief: Belief | None = None,
    forced: str = "",
    answerable: bool = True,
    cut: str = "",
    support: dict[str, str] = SUPPORT,
) -> StudyRun:
    """A finished run of so many rounds, and the answer that was handed in after them."""
    kept, turns = [], []
    for query, letters in rounds:
        found = Observation(text="\n".join(PASSAGES[letter] for letter in letters), sources=tuple(letters))
        kept.append(round_of(search(query), found, kept))
        turns.append(Turn(action=f"search[{query}]", observation=found.text, sources=found.sources))
    ended = finish(answer, **({"forced": forced} if forced else {}))
    turns.append(Turn(action=ended.text, observation=f"Handed in: {answer}"))
    state = {"turns": turns, "rounds": kept, "belief": belief or Belief(), "action": ended}
    task = Task(benchmark="riddles", id="q", goal=QUESTION)
    calls = [{"role": "executor", "cut": [cut] if cut else []}]
    footer = Footer(ending="world_ended", scores=Scores(value=score, answer=answer), usage=Usage(node="all"))
    events = [event("decide", superstep=1, calls=calls)]
    trajectory = Trajectory(header=header("ircot", task=task), events=events, footer=footer)
    arm, known = StudyArm("ircot", "native"), (support, answerable)
    return StudyRun(arm, 0, trajectory, state, *known, lambda text: 0.0)


FOUR = [("WarGames screenwriter", "w"), ("Lawrence Lasker", "l"), ("chess kings", "x"), ("chess game", "x")]
WIPED = Belief(form="lobotomized", window=1)


# --- G1: evidence not persisted


def test_evidence_that_is_still_shown_is_not_lost():
    assert rules.has_lost_evidence(run(FOUR)) is False


def test_evidence_that_was_wiped_is_lost_when_the_answer_is_wrong():
    assert rules.has_lost_evidence(run(FOUR, belief=WIPED)) is True
    assert rules.has_lost_evidence(run(FOUR, belief=WIPED, score=0.5)) is False


def test_the_turn_of_the_answer_is_not_what_the_agent_saw():
    assert rules.has_lost_evidence(run(FOUR[:1], belief=WIPED)) is False


def test_a_belief_that_names_both_passages_keeps_them_a_suffix_in_brackets_aside():
    notes = ("Jane Greer is the mother of Lawrence Lasker", "who wrote wargames")
    assert rules.has_lost_evidence(run(FOUR, belief=Belief(form="freeform", window=1, notes=notes))) is False
    facts = (BelievedFact(text="written by Lasker", source="WarGames"),)
    assert rules.has_lost_evidence(run(FOUR, belief=Belief(form="structured", window=1, facts=facts))) is True


def test_evidence_that_came_late_was_never_early():
    late = [("chess", "x"), ("chess game", "x"), ("Lawrence Lasker", "l"), ("chess", "x")]
    assert rules.has_lost_evidence(run(late, belief=WIPED)) is False


def test_turns_that_did_not_fit_the_window_are_not_seen():
    long = [*FOUR[:2], *((f"chess {'kings ' * 30}{n}", "x") for n in range(6))]
    assert rules.has_lost_evidence(run(long)) is False
    assert rules.has_lost_evidence(run(long, cut="the oldest 3 of 8 turns")) is True


def test_of_more_paragraphs_than_ircot_reads_the_latest_are_seen(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(rules, "MAX_PARAGRAPHS", 2)
    assert rules.has_lost_evidence(run([("writer", "w"), ("son", "l"), ("chess", "x"), ("kings", "x")])) is True


# --- G2: goal displacement


def test_late_actions_about_something_else_are_displaced():
    assert rules.has_displaced_goal(run(FOUR)) is True
    assert rules.has_displaced_goal(run(FOUR, score=1.0)) is False


def test_words_of_gold_evidence_found_before_are_on_goal():
    followed = [*FOUR[:2], ("Jane Greer actress", "x"), ("mother Jane Greer", "x")]
    assert rules.has_displaced_goal(run(followed)) is False
    unfound = [("WarGames", "w"), ("chess", "x"), ("Jane Greer actress", "x"), ("actress Greer", "x")]
    assert rules.has_displaced_goal(run(unfound)) is True  # its passage was not found: the words come from elsewhere


def test_two_rounds_have_no_late_actions():
    assert rules.has_displaced_goal(run(FOUR[2:])) is False


# --- G3: parametric dominance


@pytest.mark.parametrize(
    ("answer", "shown"),
    [
        ("Jane Greer", False),
        ("Jane Fonda", False),  # half of its words were retrieved
        ("Ann Lee", True),
        ("the mother of the screenwriter", False),  # nothing of its own
        ("15 screenwriter", True),
        ("Unanswerable", False),
        ("", False),
    ],
)
def test_an_answer_whose_own_words_were_not_retrieved_is_parametric(answer: str, shown: bool):
    assert rules.is_parametric(run(FOUR, answer)) is shown


# --- G4: premature stop


def test_only_an_own_early_wrong_answer_is_premature():
    assert rules.is_premature(run(FOUR[:2])) is True
    assert rules.is_premature(run(FOUR[:2], score=0.6)) is False
    assert rules.is_premature(run(FOUR[:2], forced="gate")) is False
    assert rules.is_premature(run(FOUR[:3])) is False


# --- G5 and G6: retrieval stagnation


@pytest.mark.parametrize(
    ("queries", "shown"),
    [
        (["a b c", "a b c", "a b c"], True),
        (["a b c", "a b d", "a b c"], False),  # 2 of 4 words: 0.5 is not exceeded
        (["a b c d", "a b c e", "a b c d"], True),  # 3 of 5
        (["a b c", "a b c", "x y z", "x y z"], False),  # two pairs, not in a row
        (["a b c", "a b c"], False),
    ],
)
def test_two_similar_pairs_in_a_row_are_stagnation(queries: list[str], shown: bool):
    assert rules.is_stagnant(run([(query, "x") for query in queries])) is shown


# --- G7: evidence-action misalignment


def test_only_a_question_without_an_answer_can_be_misaligned():
    assert rules.is_misaligned(run(FOUR)) is None
    assert rules.is_misaligned(run(FOUR, "chess", answerable=False)) is True
    assert rules.is_misaligned(run(FOUR, "not mentioned", answerable=False, score=1.0)) is False


def test_without_gold_passages_two_gaps_cannot_be_determined():
    known = {name: shows(run(FOUR, support={})) for name, shows in GAPS.items()}
    assert {name for name, shown in known.items() if shown is None} == {"G1", "G2", "G7"}


@pytest.mark.parametrize(
    "text", ["No evidence of her mother.", "unknown", "N/A", "It is not mentioned", "UNANSWERABLE", "none."]
)
def test_texts_that_say_nothing(text: str):
    assert is_no_evidence(text)


@pytest.mark.parametrize("text", ["Who found no one?", "Who is the unknown soldier?", "Nonesuch", "found it"])
def test_texts_that_ask_or_tell(text: str):
    assert not is_no_evidence(text)
