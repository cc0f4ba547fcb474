"""One analysis for every engine: what it makes of awkward text, and that an index holds exactly its terms."""

from collections import Counter
from pathlib import Path

import pytest
from real_data import data_folder

from certigraph.adapters.retrieval.bm25 import STOPWORDS, terms, words
from certigraph.adapters.retrieval.index import BODY, build_index, open_corpus
from certigraph.adapters.retrieval.sources import read_passages
from certigraph.state.search import Passage

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


def test_an_index_holds_exactly_the_terms_of_real_text(tmp_path: Path):
    check(list(read_passages(data_folder("hotpotqa") / "train_distractor.jsonl.gz")), tmp_path / "index")
