"""BM25 on disk: rank-bm25's passages on real questions, the corpus's order, threads, and folders it refuses."""

import gzip
import json
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import pytest
from real_data import data_folder

from certigraph.adapters.retrieval.bm25 import Pool, Retriever
from certigraph.adapters.retrieval.index import (
    MANIFEST,
    Corpus,
    build_index,
    open_corpus,
    read_manifest,
    write_manifest,
)
from certigraph.adapters.retrieval.sources import paragraph, read_passages
from certigraph.state.records import Fault, UnknownName
from certigraph.state.search import Passage

ALIEN = Passage(id="1", title="Alien (film)", text="A crew meets a creature in space.")
SPACE = Passage(id="2", title="", text="Space films about a crew in space and their space ships.")
RIVER = Passage(id="3", title="Loire", text="A river of France.")
FILMS = [ALIEN, SPACE, RIVER]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    build_index(FILMS, tmp_path / "films", source="films.jsonl")
    return tmp_path / "films"


def found(retriever: Retriever, query: str, k: int = 10) -> list[str]:
    return [hit.passage.id for hit in retriever.search(query, k)]


def test_passages_come_back_as_they_were_the_best_first(folder: Path):
    hits = open_corpus(folder, boost_titles=False).search("the crew of a space ship", 10)
    assert [hit.passage for hit in hits] == [SPACE, ALIEN]
    assert hits[0].score > hits[1].score > 0


def test_a_passage_whose_title_is_named_comes_first(folder: Path):
    query = "In space, space films, does the crew of Alien meet?"
    assert found(open_corpus(folder, boost_titles=False), query)[0] == "2"
    assert found(open_corpus(folder), query) == ["1", "2"]


@pytest.mark.parametrize("query", ["", "who is the", "?!", "zebra"])
def test_a_query_without_a_term_of_the_corpus_finds_nothing(folder: Path, query: str):
    assert found(open_corpus(folder), query) == []


@pytest.mark.parametrize("k", [0, -1])
def test_no_passages_are_found_where_none_are_asked_for(folder: Path, k: int):
    assert found(open_corpus(folder), "space", k) == []


def test_a_passage_is_had_by_its_id_and_an_unknown_one_names_the_corpus(folder: Path):
    assert open_corpus(folder).passage("3") == RIVER
    with pytest.raises(UnknownName, match=r"'9'.*films\.jsonl"):
        open_corpus(folder).passage("9")


def test_equal_passages_stay_in_the_order_of_the_corpus_over_many_commits(tmp_path: Path):
    equal = [Passage(id=f"e{n}", title="", text="equal text") for n in range(60)]
    build_index(equal, tmp_path / "equal", batch=7)
    corpus = open_corpus(tmp_path / "equal")
    assert [found(corpus, "equal", k) for k in (1, 10, 60)] == [[f"e{n}" for n in range(k)] for k in (1, 10, 60)]


def test_many_threads_search_one_corpus(folder: Path):
    corpus = open_corpus(folder)
    with ThreadPoolExecutor(8) as threads:
        assert list(threads.map(lambda _: found(corpus, "space crew"), range(64))) == [["2", "1"]] * 64


class Real(NamedTuple):
    questions: list[tuple[str, set[str]]]
    """Each with the ids of its evidence."""
    passages: list[Passage]
    plain: Corpus
    two_stage: Corpus


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, str], Real]:
    def opened(benchmark: str, name: str) -> Real:
        path, folder = data_folder(benchmark) / name, tmp_path_factory.mktemp(benchmark) / "index"
        passages = list(read_passages(path))
        build_index(passages, folder)
        questions = list(map(evidence, gzip.decompress(path.read_bytes()).splitlines()))
        return Real(questions, passages, open_corpus(folder, boost_titles=False), open_corpus(folder))

    return opened


def evidence(line: bytes) -> tuple[str, set[str]]:
    row = json.loads(line)
    if "context" in row:
        titles = {title for title, _ in row["supporting_facts"]}
        gold = [(title, "".join(sentences)) for title, sentences in row["context"] if title in titles]
    else:
        gold = [(one["title"], one["paragraph_text"]) for one in row["paragraphs"] if one["is_supporting"]]
    return row["question"], {paragraph(title, text).id for title, text in gold}


def recall(retriever: Retriever, questions: list[tuple[str, set[str]]], k: int) -> float:
    return sum(len(gold & set(found(retriever, asked, k))) / len(gold) for asked, gold in questions) / len(questions)


def test_the_first_ten_are_rank_bm25s_on_real_questions(real):
    train = real("hotpotqa", "train_distractor.jsonl.gz")
    pool = Pool(train.passages, boost_titles=False)
    pairs = [(set(found(pool, asked)), set(found(train.plain, asked))) for asked, _ in train.questions[:40]]
    assert sum(len(ours & theirs) / 10 for ours, theirs in pairs) / len(pairs) > 0.85  # k1 and idf differ


@pytest.mark.parametrize(
    ("benchmark", "name", "gain"),
    [("hotpotqa", "train_distractor.jsonl.gz", 0.07), ("musique", "musique_ans_train.jsonl.gz", 0.02)],
)
def test_titles_bring_evidence_into_the_first_two_and_lose_none_in_ten(real, benchmark: str, name: str, gain: float):
    train = real(benchmark, name)
    plain, two_stage = ([recall(one, train.questions, k) for k in (2, 10)] for one in (train.plain, train.two_stage))
    assert two_stage[0] - plain[0] >= gain
    assert two_stage[1] >= plain[1] > 0.55


def damaged(folder: Path) -> None:
    (folder / "meta.json").unlink()


def of_another_analyzer(folder: Path) -> None:
    write_manifest(folder, read_manifest(folder).model_copy(update={"analyzer": "german-1"}))


def of_another_layout(folder: Path) -> None:
    write_manifest(folder, read_manifest(folder).model_copy(update={"layout": 0}))


def without_manifest(folder: Path) -> None:
    (folder / MANIFEST).unlink()


def with_a_strange_manifest(folder: Path) -> None:
    (folder / MANIFEST).write_text('{"passages": "many"}')


@pytest.mark.parametrize(
    ("harm", "said"),
    [
        (damaged, r"damaged.*certigraph index films\.jsonl --out"),
        (of_another_analyzer, r"german-1.*english-1.*certigraph index films\.jsonl --out"),
        (of_another_layout, r"layout 0.*layout 1.*certigraph index films\.jsonl --out"),
        (without_manifest, "no index: certigraph index CORPUS --out"),
        (with_a_strange_manifest, "not a manifest.*certigraph index CORPUS --out"),
    ],
)
def test_a_folder_that_cannot_be_searched_says_the_command(folder: Path, harm: Callable[[Path], None], said: str):
    harm(folder)
    with pytest.raises(Fault, match=said):
        open_corpus(folder)


def test_a_folder_that_is_not_there_says_the_command(tmp_path: Path):
    with pytest.raises(Fault, match=r"no index .*none: certigraph index CORPUS --out .*none"):
        open_corpus(tmp_path / "none")


def test_without_tantivy_the_extra_is_named(folder: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "tantivy", None)
    with pytest.raises(Fault, match=r"pip install 'certigraph\[retrieval\]'"):
        open_corpus(folder)
