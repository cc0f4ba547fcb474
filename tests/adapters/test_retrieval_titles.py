"""Which titles a question names, and how their passages and a ranking become one list."""

import pytest

from certigraph.adapters.retrieval.bm25 import Hit, named_keys, title_keys, titles_first
from certigraph.state.search import Passage


@pytest.mark.parametrize(
    ("title", "keys"),
    [
        ("Alien (film)", ("alien film", "alien")),
        ("Alû", ("alu",)),
        ("Who's Who (1999) (album)", ("who s who 1999 album", "who s who 1999")),
        ("(film)", ("film",)),
        ("!!!", ()),
        ("", ()),
    ],
)
def test_a_title_is_found_whole_and_without_its_suffix(title: str, keys: tuple[str, ...]):
    assert title_keys(title) == keys


@pytest.mark.parametrize(
    ("question", "titles", "named"),
    [
        ("Who directed the film Alien?", {"alien", "film"}, ["alien"]),
        ("Alien was directed by whom?", {"alien"}, []),  # its capital says nothing
        ("It scared many. Alien did.", {"alien"}, []),
        ("who played in the wire", {"the wire", "wire"}, ["the wire"]),
        (
            "Was New York City larger than York?",
            {"new york", "york", "new york city", "city"},
            ["new york city", "york"],
        ),
        ("Did Alu\u0302 meet Łódź?", {"alu", "lodz"}, ["alu", "lodz"]),
        ("Did a b c d e f g h i j k end?", {"a b c d e f g h i j", "b c d e f g h i j k"}, ["a b c d e f g h i j"]),
        ("Did a b c d e f g h i j k end?", {"a b c d e f g h i j k"}, []),
        ("", {""}, []),
    ],
)
def test_titles_that_a_question_names(question: str, titles: set[str], named: list[str]):
    assert named_keys(question, titles.__contains__) == named


def hits(*scored: tuple[str, float]) -> list[Hit]:
    return [Hit(Passage(id=id, title="", text=id), score) for id, score in scored]


def ids(found: list[Hit]) -> list[str]:
    return [hit.passage.id for hit in found]


def test_three_named_passages_at_most_come_first_and_once():
    named, ranked = hits(*[(id, 1.0) for id in "abcd"]), hits(("x", 9.0), ("d", 5.0), ("b", 1.0), ("y", 0.5))
    assert ids(titles_first(named, ranked, 10)) == ["a", "b", "c", "x", "d", "y"]
    assert ids(titles_first(named, ranked, 2)) == ["a", "b"]


@pytest.mark.parametrize("shift", [0.0, -20.0])
def test_scores_never_rise_along_the_list(shift: float):
    named, ranked = hits(("a", 3.0 + shift), ("b", 1.0 + shift)), hits(("x", 9.0 + shift), ("a", 3.0 + shift))
    scores = [hit.score for hit in titles_first(named, ranked, 10)]
    assert scores == sorted(scores, reverse=True)


def test_without_named_passages_the_ranking_stays_as_it_is():
    ranked = hits(("x", 9.0), ("y", 1.0))
    assert titles_first([], ranked, 10) == ranked
    assert titles_first(ranked, [], 10) == ranked
