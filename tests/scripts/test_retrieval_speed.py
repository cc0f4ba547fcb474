"""The measurement of retrieval: what it measures is right, however fast the machine."""

import pytest
import retrieval_speed
from retrieval_speed import BIG, BLOCK_SIZE, ENGINES, GeneratedAbstracts, measure_engines, run_in_processes

from certigraph.adapters.retrieval.bm25 import STOPWORDS, terms
from certigraph.state.endings import Fault

SIZE = 300


@pytest.mark.slow
def test_abstracts_are_the_same_each_time_and_a_block_alone_is_what_it_is_among_the_others():
    whole = GeneratedAbstracts(BLOCK_SIZE + 50)
    assert list(whole)[BLOCK_SIZE:] == list(whole.block(1)) == list(GeneratedAbstracts(BLOCK_SIZE + 50).block(1))
    assert next(iter(whole)) != next(iter(GeneratedAbstracts(BLOCK_SIZE + 50, seed=1)))


def test_abstracts_have_a_hundred_words_about_half_of_them_stopwords():
    passages = list(GeneratedAbstracts(SIZE))
    words = [word for passage in passages for word in passage.text.split()]
    assert 90 < len(words) / SIZE < 110
    assert 0.3 < sum(word in STOPWORDS for word in words) / len(words) < 0.6
    assert len({passage.id for passage in passages}) == SIZE


def test_queries_are_ten_words_of_a_passage_and_laden_with_nothing_but_stopwords():
    passages = {passage.id: passage for passage in GeneratedAbstracts(SIZE)}
    queries = GeneratedAbstracts(SIZE).queries(20)
    assert len({query.id for query in queries}) == 20
    for query in queries:
        source = passages[query.id]
        assert set(terms(query.bare)) <= set(terms(f"{source.title} {source.text}"))
        assert len(query.bare.split()) == len(terms(query.bare)) == 10
        assert terms(query.laden) == terms(query.bare)
        assert len(query.laden.split()) == 18


@pytest.mark.long
@pytest.mark.slow
def test_every_engine_is_measured_and_finds_what_was_requested():
    done = measure_engines(SIZE, queries=20)
    rows = done["rows"]
    assert [row["engine"] for row in rows] + [line.split(" is not")[0] for line in done["left_out"]] == list(ENGINES)
    assert all(row["searched"]["found"] == 1 for row in rows)
    assert all(0 < row["searched"]["bare"][0] <= row["searched"]["bare"][1] for row in rows)
    assert [row["built"]["disk"] > 0 for row in rows if row["built"]] == [True] * (len(rows) - 2)
    shared = [row["memory"] for row in rows if row["engine"].startswith("tantivy")]
    assert all(0 < memory["private"] < memory["proportional"] for memory in shared)


def test_engines_that_are_missing_or_not_for_large_corpora_are_reported(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(retrieval_speed, "find_spec", lambda name: None if name == "bm25s" else name)
    monkeypatch.setattr(retrieval_speed, "_measure_engine", lambda name, *arguments: name)
    monkeypatch.setattr(GeneratedAbstracts, "__init__", lambda self, size: None)
    monkeypatch.setattr(GeneratedAbstracts, "queries", lambda self, number: [])
    usual, large = measure_engines(SIZE), measure_engines(BIG)
    ours, missing = ["tantivy", "tantivy, two-stage"], "bm25s is not installed: pip install bm25s"
    assert (usual["rows"], usual["left_out"]) == ([*ours, "tantivy alone", "rank-bm25"], [missing])
    assert (large["rows"], large["left_out"][:1]) == (ours, [missing])
    assert "rank-bm25 was not measured" in large["left_out"][1]


def dying() -> tuple[int, None]:
    raise SystemExit(3)


@pytest.mark.slow
def test_a_process_that_dies_is_reported():
    with pytest.raises(Fault, match="dying"):
        run_in_processes(2, dying)
