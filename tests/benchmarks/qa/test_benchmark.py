"""The world of search agents, its claims, and where question files are."""

from pathlib import Path

import pytest

from certigraph.adapters.retrieval.bm25 import PassagePool
from certigraph.benchmarks.qa.benchmark import (
    SearchOutcome,
    SearchWorld,
    find_best_support,
    find_by_title,
    find_supporting_sentence,
    find_supporting_sentences,
    split_sentences,
)
from certigraph.benchmarks.qa.questions import distinct_passages, find_question_file, substitute_answers
from certigraph.state.endings import Fault
from certigraph.state.records import Action, Scores
from certigraph.state.run import answer, claim, finish, search, use_tool
from certigraph.state.search import HopFinding, Passage, chain_argument

LEN = Passage(id="1", title="Len Worley", text="Len Worley played as a winger\nfor Tottenham.")
SPURS = Passage(id="2", title="Tottenham Hotspur F.C.", text="The club is commonly referred to as Spurs.")
WEMBLEY = Passage(id="3", title="Wembley Stadium", text="A football stadium in London.")
PASSAGES = (LEN, SPURS, WEMBLEY)


class Judged:
    """A judge that keeps the outcome it was shown."""

    def __init__(self) -> None:
        self.outcome: SearchOutcome | None = None

    def __call__(self, outcome: SearchOutcome) -> Scores:
        self.outcome = outcome
        return Scores(value=0.0)


def world(given: tuple[Passage, ...] = (), judge: Judged | None = None, k: int = 2) -> SearchWorld:
    made = SearchWorld(lambda alpha: PassagePool(PASSAGES), judge or Judged(), k=k, given=given)
    made.reset()
    return made


def outcome_of(made: SearchWorld, judge: Judged) -> SearchOutcome:
    made.score()
    assert judge.outcome
    return judge.outcome


def test_a_search_shows_a_passage_a_line_with_its_sources():
    made = world()
    seen = made.step(search("Len Worley Tottenham"))
    lines = seen.text.splitlines()
    assert seen.accepted
    assert len(lines) == len(seen.sources) == 2
    assert lines[0] == "Len Worley: Len Worley played as a winger for Tottenham."
    assert seen.sources[0] == "1"
    assert seen.data["retriever"] == "bm25+titles"
    assert made.sources() == seen.sources
    assert made.view().splitlines()[1] == "Len Worley"


def test_freely_written_actions_and_the_number_of_passages():
    made = world()
    assert made.step(Action(text="search[Tottenham]")).accepted
    assert len(made.step(search("Tottenham London football", k=1)).sources) == 1
    refused = made.step(Action(text="I would search"))
    assert not refused.accepted
    assert "search[...]" in refused.text
    assert not made.step(use_tool("lookup", "Spurs")).accepted  # a tool of other worlds


@pytest.mark.parametrize(
    ("query", "reason"), [("of the", "nothing to look for"), ("", "nothing to look for"), ("zebra", "in other words")]
)
def test_a_search_for_nothing_is_refused_with_the_reason(query: str, reason: str):
    made = world()
    seen = made.step(search(query))
    assert not seen.accepted
    assert reason in seen.text
    assert made.sources() == ()


def test_a_claim_brings_the_cited_passage_and_the_best_other_one():
    made = world(PASSAGES)
    seen = made.step(claim("who?", finding="The club is called Spurs", title="tottenham hotspur f.c.", entity="Spurs"))
    assert seen.sources == ("2",)  # no other has a word of the finding
    assert (seen.data["resolved"], seen.data["cited"]) == (True, "tottenham hotspur f.c.")
    seen = made.step(claim("who?", finding="Tottenham's winger", title="Hotspur", entity="Len"))
    assert seen.sources == ("2", "1")
    assert seen.text.splitlines()[1].startswith("Len Worley: ")


def test_a_claim_from_no_known_title_offers_the_passage_that_may_bear_it_out():
    made = world(PASSAGES)
    seen = made.step(claim("who?", finding="a winger for Tottenham", title="Club history", entity="Len"))
    assert seen.accepted
    assert (seen.data["resolved"], seen.sources) == (False, ("1",))
    nothing = made.step(claim("who?", finding="no such", title="Nowhere", entity=""))
    assert (nothing.accepted, nothing.sources) == (True, ())


def test_a_claim_with_nothing_at_hand_is_refused():
    made = world()
    assert not made.step(claim("who?", finding="x", title="Len Worley", entity="x")).accepted
    made.step(search("Len Worley"))
    assert made.step(claim("who?", finding="winger", title="Len Worley", entity="x")).accepted


def test_observations_carry_what_the_action_returned():
    """A validator sees nothing else of it."""
    seen = world(PASSAGES).step(claim("who?", finding="winger", title="Len Worley", entity="Len"))
    assert {"tool": "claim", "subquestion": "who?", "finding": "winger", "entity": "Len"}.items() <= seen.data.items()


def test_a_noted_answer_goes_on_and_a_handed_in_one_ends_untold():
    judge = Judged()
    made = world(judge=judge)
    assert outcome_of(made, judge).answer is None
    assert not made.step(answer("Arsenal")).done
    assert outcome_of(made, judge).answer == "Arsenal"
    ended = made.step(finish("Spurs", forced="steps"))
    assert (ended.done, ended.solved, ended.reward) == (True, False, 0.0)
    assert outcome_of(made, judge)[:2] == ("Spurs", True)


def test_the_outcome_has_the_claims_that_the_answer_stands_on_and_what_was_found():
    judge = Judged()
    made = world(PASSAGES, judge)
    made.step(search("Wembley Stadium", k=1))
    assert outcome_of(made, judge).retrieved == (WEMBLEY,)  # what was given is not read by who files no claim
    made.step(claim("who?", finding="winger", title="Wembley Stadium", entity="x"))
    assert outcome_of(made, judge).claims == ()  # filed, not certified
    made.step(claim("where?", finding="stadium", title="Wembley Stadium", entity="y"))
    chain = [HopFinding("who?", "winger", "x", LEN.id), HopFinding("where?", "stadium", "y")]
    made.step(finish("x", **chain_argument(chain)))
    outcome = outcome_of(made, judge)
    assert outcome.claims == (("winger", LEN), ("stadium", WEMBLEY))  # verified in another one; never verified
    assert set(outcome.retrieved) == set(PASSAGES)
    made.reset()
    assert outcome_of(made, judge) == (None, False, (), ())


def test_the_same_actions_are_answered_the_same():
    actions = [search("football"), claim("q", finding="stadium", title="Wembley", entity="e"), finish("x")]
    one, other = world(), world()
    assert [one.step(a).digest() for a in actions] == [other.step(a).digest() for a in actions]


def test_of_passages_with_one_title_the_one_with_the_finding_is_meant():
    twins = [Passage(id=str(n), title="Alien", text=text) for n, text in enumerate(["A genus of plants.", "A film."])]
    assert find_by_title("ALIEN", "genus of plants", twins) == twins[0]
    assert find_by_title("Alien", "", twins) == twins[0]
    assert find_by_title("", "genus", twins) is None


def test_a_title_is_found_within_another_both_ways_but_the_same_comes_first():
    films = [Passage(id=str(n), title=title, text="x") for n, title in enumerate(["Alien (film)", "Alien", "Up"])]
    assert find_by_title("alien", "", films) == films[1]
    assert find_by_title("Alien (film) 1979", "", films) == films[0]
    assert find_by_title("(film)", "", films) == films[0]


def test_support_counts_content_words_of_four_letters():
    assert find_best_support("the club is Spurs", PASSAGES) == SPURS
    assert find_best_support("it is a of", PASSAGES) is None


def test_the_supporting_sentence_overlaps_most_and_sentences_are_cut_where_they_end():
    text = "He was born in Bern. He died in St. gallen in 1950! Was he Swiss?"
    assert split_sentences(text) == ["He was born in Bern.", "He died in St. gallen in 1950!", "Was he Swiss?"]
    assert find_supporting_sentence("died 1950", split_sentences(text)) == 1
    assert find_supporting_sentence("died", []) == 0


def test_placeholders_past_nine_are_not_mistaken_for_the_first():
    assert substitute_answers("#1 and #10", list("abcdefghij")) == "a and j"


def test_paragraphs_may_lack_a_title_and_empty_ones_are_left_out():
    found = list(distinct_passages([("", "text"), ("A", "x"), ("A", "x"), (" ", "")]).values())
    assert [(p.title, p.text) for p in found] == [("", "text"), ("A", "x")]


def test_a_missing_question_file_says_what_it_may_be_called(tmp_path: Path):
    (tmp_path / "q.json").touch()
    assert find_question_file("mine", tmp_path, ["other", "q"]) == tmp_path / "q.json"
    with pytest.raises(Fault, match=r"searched .* for one of x\.jsonl\.gz .*--data DIR"):
        find_question_file("mine", tmp_path, ["x"])


def test_every_sentence_that_a_finding_quotes_supports_it_and_a_fragment_within_one_does_not():
    sentences = ["He died in 1950.", " Ann lived in Ulm, Jr.", " Jr.", "\u00a0It\u200arains."]
    assert find_supporting_sentences("Ann lived in Ulm, Jr. it  rains", sentences) == [1, 3]
    assert find_supporting_sentences("Ann lived in Ulm, Jr. Jr.", sentences) == [1, 2]
    assert find_supporting_sentences("the death in 1950", sentences) == [0]
    assert find_supporting_sentences("anything", []) == []
