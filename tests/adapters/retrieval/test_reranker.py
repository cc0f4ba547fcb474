"""Tests of `adapters.retrieval.reranker`."""

import subprocess
import sys

import numpy as np
import pytest
from helpers.models.cross_encoders import WordCounter, counting_words, looking_like_one, tiny_random_one
from hypothesis import given
from hypothesis import strategies as st

from certigraph.adapters.retrieval import reranker
from certigraph.adapters.retrieval.bm25 import PassageHit, PassagePool
from certigraph.adapters.retrieval.reranker import (
    CrossEncoder,
    Reranked,
    find_reranker,
    load_reranker,
)
from certigraph.state.endings import Fault
from certigraph.state.search import Passage


@pytest.fixture(autouse=True)
def _searched_afresh():
    reranker._cached_reranker.cache_clear()
    yield
    reranker._cached_reranker.cache_clear()


class Ranking:
    """A retriever that returns its passages in one order, whatever the query; `depths` lists what was asked for."""

    name = "ranking"

    def __init__(self, texts, scores=None):
        passages = [Passage(id=f"p{place}", title="T", text=text) for place, text in enumerate(texts)]
        scores = scores or range(len(passages), 0, -1)
        self.hits = [PassageHit(passage, float(score)) for passage, score in zip(passages, scores, strict=True)]
        self.depths = []

    def search(self, query, k):
        self.depths.append(k)
        return self.hits[:k]

    def passage(self, id):
        return next(hit.passage for hit in self.hits if hit.passage.id == id)


class ByLength:
    """A scorer by rule: longer texts are better. `read` lists the texts."""

    name = "by-length"

    def __init__(self):
        self.read = []

    def score(self, query, texts):
        self.read += texts
        return [float(len(text)) for text in texts]


def ids(hits):
    return [hit.passage.id for hit in hits]


TEXTS = st.lists(st.text("ab", min_size=1, max_size=4), max_size=12)
DEPTHS = st.integers(min_value=1, max_value=15)


class TestProperties:
    @pytest.mark.slow
    @given(TEXTS, DEPTHS, DEPTHS)
    def test_the_first_ones_are_permuted_and_the_others_stay(self, texts, candidates, k):
        base = Ranking(texts)
        ranked = Reranked(base, ByLength(), candidates=candidates).search("q", max(k, candidates))
        before = ids(base.hits[: max(k, candidates)])
        assert sorted(ids(ranked)[:candidates]) == sorted(before[:candidates])
        assert ids(ranked)[candidates:] == before[candidates:]

    @pytest.mark.slow
    @given(TEXTS, DEPTHS)
    def test_better_ones_come_first_and_equal_ones_keep_their_order(self, texts, candidates):
        base = Ranking(texts)
        first = Reranked(base, ByLength(), candidates=candidates).search("q", 15)[:candidates]
        wanted = sorted(base.hits[:candidates], key=lambda hit: (-len(hit.passage.text), base.hits.index(hit)))
        assert ids(first) == ids(wanted)

    @given(TEXTS, DEPTHS, DEPTHS)
    def test_fewer_results_are_the_beginning_of_more(self, texts, candidates, k):
        retriever = Reranked(Ranking(texts), ByLength(), candidates=candidates)
        assert ids(retriever.search("q", k)) == ids(retriever.search("q", 15))[:k]


def test_nothing_found_is_nothing_and_no_model_is_read():
    scorer = ByLength()
    assert Reranked(Ranking([]), scorer).search("anything", 5) == []
    pool = PassagePool([Passage(id="a", title="", text="boats")])
    for query in ("", "who is it?", "zebra"):
        assert Reranked(pool, scorer).search(query, 5) == []
    assert Reranked(pool, scorer).search("boats", 0) == [] and scorer.read == []


def test_fifty_candidates_are_read_also_where_fewer_results_are_wanted():
    base, scorer = Ranking(["a"] * 200), ByLength()
    assert len(Reranked(base, scorer).search("q", 3)) == 3
    assert (base.depths, len(scorer.read)) == ([50], 50)
    assert scorer.read[0] == "T. a"
    Reranked(base, scorer).search("q", 120)
    assert base.depths == [50, 120] and len(scorer.read) == 100


def test_scores_of_the_others_are_lowered_by_one_amount_where_they_would_be_higher():
    base = Ranking(["a", "aaa", "b", "b"], scores=[40, 30, 20, 10])
    assert [hit.score for hit in Reranked(base, ByLength(), candidates=2).search("q", 4)] == [6, 4, 4, -6]
    base = Ranking(["a", "aaa", "b", "b"], scores=[0.4, 0.3, 0.2, 0.1])
    assert [hit.score for hit in Reranked(base, ByLength(), candidates=2).search("q", 4)] == [6, 4, 0.2, 0.1]


@pytest.mark.parametrize("candidates", [0, -3])
def test_no_candidates_are_refused(candidates):
    with pytest.raises(Fault, match=f"candidates={candidates} is not a number"):
        Reranked(Ranking([]), ByLength(), candidates=candidates)


class TestCrossEncoder:
    @pytest.fixture
    def counted(self, monkeypatch, tmp_path):
        model = counting_words(monkeypatch)
        return load_reranker(looking_like_one(tmp_path / "tiny")), model

    def test_a_text_that_comes_twice_is_read_once_and_scored_equally(self, counted):
        encoder, model = counted
        assert encoder.score("boats", ["boats", "bread", "boats boats", "boats"]) == [1, 0, 2, 1]
        assert model.texts == ["boats", "bread", "boats boats"]

    def test_no_texts_load_no_model(self, monkeypatch, tmp_path):
        monkeypatch.setattr(reranker, "load_model", lambda *arguments: pytest.fail("loaded"))
        assert CrossEncoder(tmp_path, "any", "").score("boats", []) == []

    def test_the_model_is_loaded_by_the_first_text_and_once(self, monkeypatch, tmp_path):
        loads = []
        monkeypatch.setattr(reranker, "load_model", lambda *arguments: loads.append(arguments) or WordCounter())
        encoder = CrossEncoder(tmp_path, "any", "command")
        assert loads == []
        for _ in range(2):
            encoder.score("boats", ["bread"])
        assert loads == [(tmp_path, "any", "command", "CrossEncoder")]

    def test_digits_that_are_noise_do_not_decide(self, monkeypatch, tmp_path):
        monkeypatch.setattr(WordCounter, "predict", lambda self, pairs, **options: np.array([1.00001, 1.00002]))
        monkeypatch.setattr(reranker, "load_model", lambda *arguments: WordCounter())
        assert CrossEncoder(tmp_path, "any", "").score("q", ["a", "b"]) == [1.0, 1.0]

    @pytest.mark.parametrize("given", [np.zeros((2, 3)), np.zeros(3), np.array([0.0, np.nan]), np.array([0.0, np.inf])])
    def test_what_is_not_a_score_for_each_pair_is_a_fault(self, monkeypatch, tmp_path, given):
        monkeypatch.setattr(WordCounter, "predict", lambda self, pairs, **options: given)
        monkeypatch.setattr(reranker, "load_model", lambda *arguments: WordCounter())
        with pytest.raises(Fault, match=r"the reranker any gives .* name another, as in rerank=") as fault:
            CrossEncoder(tmp_path, "any", "").score("q", ["a", "b"])
        assert fault.value.ending == "error:model"

    def test_a_column_of_scores_will_do(self, monkeypatch, tmp_path):
        monkeypatch.setattr(WordCounter, "predict", lambda self, pairs, **options: np.array([[2.0], [1.0]]))
        monkeypatch.setattr(reranker, "load_model", lambda *arguments: WordCounter())
        assert CrossEncoder(tmp_path, "any", "").score("q", ["a", "b"]) == [2.0, 1.0]

    def test_its_label_changes_with_the_weights(self, tmp_path, monkeypatch):
        counting_words(monkeypatch)
        first, second = (
            load_reranker(looking_like_one(tmp_path / parent / "tiny", weights=weights)).label
            for parent, weights in (("one", b"1"), ("two", b"2"))
        )
        assert first.startswith("tiny (weights sha256 ") and first != second


class TestNames:
    @pytest.mark.parametrize(
        "name", ["no-such-model", "owner/no-such-model", "", "a/b/c", "../secret", "not a name", "/nowhere"]
    )
    def test_an_unknown_model_is_a_fault_of_one_line_with_the_fix(self, name):
        with pytest.raises(Fault) as fault:
            load_reranker(name)
        message = str(fault.value)
        assert fault.value.ending == "error:model" and "\n" not in message
        assert repr(name) in message and "hf download" in message and "rerank=FOLDER" in message

    def test_without_the_library_there_is_none(self, monkeypatch, tmp_path):
        monkeypatch.setattr(reranker, "find_spec", lambda name: None)
        assert find_reranker(looking_like_one(tmp_path / "tiny")) is None

    def test_a_cached_model_is_found_by_its_name_once_it_is_whole(self, monkeypatch, tmp_path):
        pytest.importorskip("huggingface_hub")
        counting_words(monkeypatch)
        monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
        model = tmp_path / "models--cross-encoder--ms-marco-MiniLM-L6-v2"
        looking_like_one(model / "snapshots" / "abc")
        (model / "refs").mkdir()
        (model / "refs" / "main").write_text("abc")
        (model / "snapshots" / "abc" / "model.safetensors").rename(tmp_path / "later")
        assert find_reranker() is None
        reranker._cached_reranker.cache_clear()
        (tmp_path / "later").rename(model / "snapshots" / "abc" / "model.safetensors")
        found = find_reranker()
        assert found is not None and found.folder == model / "snapshots" / "abc"
        assert load_reranker("ms-marco-MiniLM-L6-v2") is found and found.name == "ms-marco-MiniLM-L6-v2"

    @pytest.mark.parametrize("architecture", ["BertModel", "LlamaForCausalLM", None])
    def test_a_model_of_another_kind_is_refused(self, monkeypatch, tmp_path, architecture):
        counting_words(monkeypatch)
        folder = looking_like_one(tmp_path / "other", architecture=architecture)
        with pytest.raises(Fault, match=f"is not a cross-encoder, its architecture is {architecture}: name one"):
            load_reranker(folder)

    def test_a_model_that_says_that_it_is_a_cross_encoder_is_one(self, monkeypatch, tmp_path):
        counting_words(monkeypatch)
        folder = looking_like_one(tmp_path / "own", architecture="Qwen3ForCausalLM")
        (tmp_path / "own" / "config_sentence_transformers.json").write_text('{"model_type": "CrossEncoder"}')
        assert load_reranker(folder).name == "own"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    pytest.importorskip("sentence_transformers")
    return tiny_random_one(tmp_path_factory.mktemp("models") / "tiny")


@pytest.mark.slow
class TestTinyRandomModel:
    """With a real cross-encoder of random weights, which ranks badly, but as a trained one is called."""

    TEXTS = ("boats sea", "bread", "stone stone bread .", "boats", "sea sea sea sea sea", "unknown words here")

    def test_it_ranks_by_its_own_logits_whatever_the_batch(self, folder):
        import torch
        from transformers import AutoModelForSequenceClassification, AutoTokenizer

        scores = load_reranker(folder).score("boats bread", self.TEXTS)
        model = AutoModelForSequenceClassification.from_pretrained(folder).eval()
        pairs = [AutoTokenizer.from_pretrained(folder)("boats bread", t, return_tensors="pt") for t in self.TEXTS]
        with torch.no_grad():
            logits = [float(model(**pair).logits) for pair in pairs]
        assert scores == pytest.approx(logits, abs=2e-4) and len(set(scores)) == len(scores)
        assert load_reranker(folder).score("boats bread", self.TEXTS[::-1]) == scores[::-1]

    def test_it_reorders_a_pool_and_leaves_the_rest(self, folder):
        pool = PassagePool([Passage(id=str(n), title="", text=text) for n, text in enumerate(self.TEXTS)])
        before = ids(pool.search("boats bread sea stone", 6))
        ranked = ids(Reranked(pool, load_reranker(folder), candidates=3).search("boats bread sea stone", 6))
        assert sorted(ranked[:3]) == sorted(before[:3]) and ranked[3:] == before[3:]

    def test_weights_that_are_none_are_a_fault_with_the_command(self, tmp_path):
        pytest.importorskip("sentence_transformers")
        folder = looking_like_one(tmp_path / "spoilt")
        with pytest.raises(Fault, match=r"cannot load spoilt from .* run pip install") as fault:
            load_reranker(folder).score("boats", ["bread"])
        assert fault.value.ending == "error:model"

    @pytest.mark.long
    def test_it_needs_no_network_and_prints_nothing(self, folder):
        code = (
            "import socket\n"
            "def refuse(*args, **options): raise AssertionError('network')\n"
            "socket.socket.connect = refuse\n"
            "from certigraph.adapters.retrieval.reranker import load_reranker\n"
            f"assert len(load_reranker({folder!r}).score('boats', ['bread', 'stone'])) == 2\n"
        )
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
