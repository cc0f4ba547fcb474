"""Tests of `adapters.retrieval.bm25`."""

from collections import Counter
from pathlib import Path

import pytest
from helpers.files.real_data import data_folder

from certigraph.adapters.retrieval.bm25 import (
    STOPWORDS,
    PassageHit,
    PassagePool,
    find_title_keys,
    rank_titles_first,
    terms,
    title_keys,
    words,
)
from certigraph.adapters.retrieval.index import BODY, build_index, open_corpus
from certigraph.adapters.retrieval.sources import read_passages
from certigraph.state.endings import Fault
from certigraph.state.search import Passage

# One analysis for every engine: what it makes of awkward text, and that an index holds exactly its terms.

AWKWARD = [
    ("The Alû is a demon", ["alu", "demon"]),
    ("Škoda's CO₂, in Łódź", ["skoda", "co2", "lodz"]),
    ("Cafe\u0301 and café", ["cafe", "cafe"]),
    ("\u0130stanbul, Stra\u00dfe, \u00c6gir", ["istanbul", "strasse", "aegir"]),
    ("snake_case e-mail 3.14 U.S.", ["snake", "case", "e", "mail", "3", "14", "u"]),
    ("don't; Tom's; we'll", ["don", "tom"]),
    ("東京 Москва", ["東京", "москва"]),
    ("a\u00a0b\tc\n\n\u200bd?!", ["b", "c"]),
    ("who was the", []),
    ("... — ؟ 🙂", []),
    ("", []),
]


@pytest.mark.parametrize(("text", "expected"), AWKWARD)
def test_terms_of_awkward_text(text: str, expected: list[str]):
    assert terms(text) == expected


def test_stopwords_are_written_as_the_analysis_spells_them():
    assert [word for word in STOPWORDS if words(word) != [word]] == []


def frequencies(passages: list[Passage]) -> Counter[str]:
    return Counter(term for passage in passages for term in set(terms(f"{passage.title} {passage.text}")))


def check(passages: list[Passage], folder: Path) -> None:
    build_index(passages, folder)
    searcher = open_corpus(folder)._searcher
    expected = frequencies(passages)
    assert {term: searcher.doc_freq(BODY, term) for term in expected} == expected
    held = searcher.terms_with_prefix(BODY, "", limit=10 * len(expected))
    assert {term for term, _ in held} == set(expected)


def test_an_index_holds_exactly_the_terms_of_awkward_text(tmp_path: Path):
    check([Passage(id=str(n), title="", text=text or "x") for n, (text, _) in enumerate(AWKWARD)], tmp_path / "index")


@pytest.mark.slow
def test_an_index_holds_exactly_the_terms_of_real_text(tmp_path: Path):
    check(list(read_passages(data_folder("hotpotqa") / "train_distractor.jsonl.gz")), tmp_path / "index")


# BM25 over the passages that come with a question.

ALIEN = Passage(id="1", title="Alien (film)", text="A crew meets a creature in space.")
SPACE = Passage(id="2", title="", text="Space films about a crew in space and their space ships.")
RIVER = Passage(id="3", title="Loire", text="A river of France.")
EMPTY = Passage(id="4", title="", text="")
OTHERS = [Passage(id=f"o{n}", title="", text=f"Something else, number {n}.") for n in range(6)]
FILMS = [ALIEN, SPACE, RIVER, EMPTY, *OTHERS]


def found(pool: PassagePool, query: str, k: int = 10) -> list[str]:
    return [hit.passage.id for hit in pool.search(query, k)]


def test_a_pool_of_one_passage_finds_it():
    assert found(PassagePool([ALIEN]), "a creature") == ["1"]


def test_equal_passages_stay_in_order():
    same = [Passage(id=id, title="", text="equal text") for id in "zyxabc"]
    assert found(PassagePool([*same, *FILMS]), "equal") == list("zyxabc")


@pytest.mark.parametrize("passages", [[], [EMPTY], [Passage(id="5", title="The", text="who?")]])
def test_a_pool_with_nothing_to_search_is_refused(passages: list[Passage]):
    with pytest.raises(Fault, match=r"without a searchable term|no passages to search"):
        PassagePool(passages)


def test_ids_given_twice_are_refused():
    with pytest.raises(Fault, match="'1'"):
        PassagePool([ALIEN, RIVER, ALIEN])


# Which titles a question names, and how their passages and a ranking become one list.


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
    assert find_title_keys(question, titles.__contains__) == named


def hits(*scored: tuple[str, float]) -> list[PassageHit]:
    return [PassageHit(Passage(id=id, title="", text=id), score) for id, score in scored]


def ids(found: list[PassageHit]) -> list[str]:
    return [hit.passage.id for hit in found]


def test_three_named_passages_at_most_come_first_and_once():
    named, ranked = hits(*[(id, 1.0) for id in "abcd"]), hits(("x", 9.0), ("d", 5.0), ("b", 1.0), ("y", 0.5))
    assert ids(rank_titles_first(named, ranked, 10)) == ["a", "b", "c", "x", "d", "y"]
    assert ids(rank_titles_first(named, ranked, 2)) == ["a", "b"]


@pytest.mark.parametrize("shift", [0.0, -20.0])
def test_scores_never_rise_along_the_list(shift: float):
    named, ranked = hits(("a", 3.0 + shift), ("b", 1.0 + shift)), hits(("x", 9.0 + shift), ("a", 3.0 + shift))
    scores = [hit.score for hit in rank_titles_first(named, ranked, 10)]
    assert scores == sorted(scores, reverse=True)


def test_without_named_passages_the_ranking_stays_as_it_is():
    ranked = hits(("x", 9.0), ("y", 1.0))
    assert rank_titles_first([], ranked, 10) == ranked
    assert rank_titles_first(ranked, [], 10) == ranked
