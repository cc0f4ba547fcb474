"""The measurement of retrieval: what it measures is right, however fast the machine."""

import pytest
from rich.console import Console

from certigraph.adapters.retrieval.bm25 import STOPWORDS, terms
from certigraph.evaluation import bench_retrieval as retrieval
from certigraph.evaluation.bench_retrieval import (
    BLOCK_SIZE,
    ENGINES,
    GeneratedAbstracts,
    RetrievalBench,
    bench_retrieval,
    retrieval_table,
    run_in_processes,
)
from certigraph.state.records import Fault

SIZE = 300


@pytest.mark.slow
def test_abstracts_are_the_same_each_time_and_a_block_alone_is_what_it_is_among_the_others():
    whole = GeneratedAbstracts(BLOCK_SIZE + 50)
    assert list(whole)[BLOCK_SIZE:] == list(whole.block(1)) == list(GeneratedAbstracts(BLOCK_SIZE + 50).block(1))
    assert next(iter(whole)) != next(iter(GeneratedAbstracts(BLOCK_SIZE + 50, seed=1)))


def test_abstracts_have_a_hundred_words_about_half_of_them_stopwords():
    made = list(GeneratedAbstracts(SIZE))
    words = [word for passage in made for word in passage.text.split()]
    assert 90 < len(words) / SIZE < 110
    assert 0.3 < sum(word in STOPWORDS for word in words) / len(words) < 0.6
    assert len({passage.id for passage in made}) == SIZE
    assert all(len(passage.title.split()) == 2 for passage in made)


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


@pytest.mark.slow
def test_every_engine_is_measured_and_finds_what_was_requested(monkeypatch: pytest.MonkeyPatch):
    lines: list[str] = []
    done = bench_retrieval(SIZE, queries=20, progress=lines.append)
    assert [row.engine for row in done.rows] + [line.split(" is not")[0] for line in done.left_out] == list(ENGINES)
    assert len(lines) == len(done.rows)
    assert all(row.searched.found == 1 for row in done.rows)
    assert all(0 < row.searched.bare[0] <= row.searched.bare[1] for row in done.rows)
    assert all(
        0 < row.memory.private < row.memory.proportional for row in done.rows if row.engine.startswith("tantivy")
    )
    assert RetrievalBench.model_validate(done.as_json()) == done
    console = Console(record=True, width=200)
    console.print(retrieval_table(done))
    assert f"{done.rows[0].searched.bare[1]:,.2f}" in console.export_text()


def test_engines_that_are_missing_or_not_for_large_corpora_are_reported(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(retrieval, "find_spec", lambda name: None if name == "bm25s" else name)
    ours = ["tantivy", "tantivy, two-stage"]
    assert retrieval._select_engines(big=False) == ([*ours, "rank-bm25"], ["bm25s is not installed: pip install bm25s"])
    chosen, left_out = retrieval._select_engines(big=True)
    assert chosen == ours
    assert ["bm25s" in left_out[0], "rank-bm25 was not measured" in left_out[1]] == [True, True]


def dying() -> tuple[int, None]:
    raise SystemExit(3)


@pytest.mark.slow
def test_a_process_that_dies_is_reported():
    with pytest.raises(Fault, match="dying"):
        run_in_processes(2, dying)
