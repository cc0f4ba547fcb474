"""Tests of `adapters.retrieval.dense`."""

import numpy as np
import pytest

from certigraph.adapters.retrieval import dense
from certigraph.adapters.retrieval import dense as hybrid
from certigraph.adapters.retrieval.bm25 import PassageHit, PassagePool
from certigraph.adapters.retrieval.dense import Dense, Hybrid, combine_retrievers, load_vectors
from certigraph.state.endings import Fault, UnknownName
from certigraph.state.search import Passage

AXES = ("boats", "bread", "stone")


class ByWords:
    """A vector's first numbers tell which of three words a text has; `read` lists what a corpus was encoded from."""

    name = "by-words"

    def __init__(self, breaks_at=None):
        self.read, self.cached, self.breaks_at = [], [], breaks_at

    def encode(self, texts):
        self.cached += texts
        return self._vectors(texts)

    def encode_once(self, texts):
        if len(self.read) == self.breaks_at:
            raise KeyboardInterrupt
        self.read += texts
        return self._vectors(texts)

    def _vectors(self, texts):
        rows = np.zeros((len(texts), 384), dtype=np.float32)
        for row, text in zip(rows, texts, strict=True):
            row[: len(AXES)] = [text.count(word) for word in AXES]
        return rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1)


def passages(*texts):
    return [Passage(id=f"p{place}", title="", text=text) for place, text in enumerate(texts)]


CORPUS = passages("bread", "boats boats bread", "stone", "boats", "boats")


def found(retriever, query, k=9):
    return [hit.passage.id for hit in retriever.search(query, k)]


def test_passages_come_by_cosine_and_equal_ones_in_the_corpus_s_order():
    retriever = Dense(CORPUS, ByWords())
    assert found(retriever, "boats") == ["p3", "p4", "p1", "p0", "p2"]
    assert found(retriever, "boats", 2) == ["p3", "p4"] and found(retriever, "boats", 0) == []
    assert [hit.score for hit in retriever.search("boats", 3)] == pytest.approx([1, 1, 2 / 5**0.5])
    assert retriever.search("who is it?", 5) == []
    assert retriever.name == "minilm"
    alike = passages(*["boats", "boats bread"] * 100)
    assert found(Dense(alike, ByWords()), "boats", 200) == [p.id for p in (*alike[::2], *alike[1::2])]


def test_a_title_is_read_before_its_text_and_a_missing_one_is_not():
    encoder = ByWords()
    Dense([Passage(id="a", title="Boats", text="They float."), Passage(id="b", title="", text="Bread.")], encoder)
    assert encoder.cached == ["Boats. They float.", "Bread."]


@pytest.mark.parametrize(
    ("corpus", "message"), [([], "no passages"), ([CORPUS[0], *CORPUS], "two passages have the id 'p0'")]
)
def test_what_is_not_a_corpus_is_refused(corpus, message):
    with pytest.raises(Fault, match=message) as fault:
        Dense(corpus, ByWords())
    assert fault.value.ending == "error:data"


class TestVectorsOnDisk:
    def test_they_are_computed_once_and_rank_as_in_memory(self, tmp_path):
        first, second, result = ByWords(), ByWords(), []
        kept = Dense(CORPUS, first, folder=tmp_path, progress=lambda done, total: result.append((done, total)))
        again = Dense(CORPUS, second, folder=tmp_path)
        assert (
            found(kept, "bread boats") == found(again, "bread boats") == found(Dense(CORPUS, ByWords()), "bread boats")
        )
        assert len(first.read) == 5 and second.read == [] and result == [(5, 5)]
        assert [path.suffix for path in tmp_path.iterdir()] == [".npy"]

    def test_another_corpus_order_or_model_has_its_own(self, tmp_path):
        other = ByWords()
        other.name = "other"
        for texts, encoder in (
            (["a", "b"], ByWords()),
            (["b", "a"], ByWords()),
            (["ab"], ByWords()),
            (["a", "b"], other),
        ):
            load_vectors(texts, encoder, tmp_path)
        assert len(list(tmp_path.iterdir())) == 4

    def test_what_was_cut_off_goes_on_after_its_last_part(self, tmp_path, monkeypatch):
        monkeypatch.setattr(dense, "PART_TEXTS", 2)
        texts = [passage.text for passage in CORPUS]
        with pytest.raises(KeyboardInterrupt):
            load_vectors(texts, ByWords(breaks_at=4), tmp_path)
        assert not list(tmp_path.glob("*.npy")) and not list(tmp_path.glob("*.unfinished"))
        second, result = ByWords(), []
        rows = load_vectors(texts, second, tmp_path, lambda done, total: result.append(done))
        assert second.read == ["boats"] and result == [2, 4, 5]
        assert rows.tolist() == ByWords().encode(texts).tolist() and isinstance(rows, np.memmap)


@pytest.mark.slow
def test_the_real_encoder_finds_what_is_meant_and_agrees_with_itself(tmp_path):
    from certigraph.adapters.encoders import find_encoder

    corpus = passages("A feline rested on a rug.", "Stock markets fell sharply.", "The ship left the harbour.")
    texts = [passage.text for passage in corpus]
    assert np.abs(find_encoder().encode_once(texts) - find_encoder().encode(texts)).max() < 1e-5
    retriever = Dense(corpus, find_encoder(), folder=tmp_path)
    assert found(retriever, "a cat on a mat", 1) == ["p0"] and found(retriever, "shares lost value", 1) == ["p1"]


CORPUS_HYBRID = [Passage(id=name, title=name, text=f"text of {name}") for name in "abcdef"]
NAMED = {passage.id: passage for passage in CORPUS_HYBRID}


class Leg:
    """Returns the scores it was given, the best first."""

    name = "leg"

    def __init__(self, **scores):
        self.scores, self.requests = scores, []
        self.positions = {name: place for place, name in enumerate(NAMED)}

    def search(self, query, k):
        self.requests.append(k)
        return [PassageHit(NAMED[name], score) for name, score in sorted(self.scores.items(), key=lambda s: -s[1])][:k]

    def passage(self, id):
        if id not in NAMED:
            raise UnknownName(id)
        return NAMED[id]


def found_hybrid(retriever, k=9):
    return {hit.passage.id: hit.score for hit in retriever.search("anything", k)}


def lexical():
    return Leg(a=10.0, b=6.0, c=2.0)  # normalised: 1, 0.5, 0


def dense_hybrid():
    return Leg(b=0.9, d=0.8, a=0.4, e=0.1)  # normalised: 1, 0.875, 0.375, 0


def test_scores_are_the_weighted_sum_of_what_each_leg_normalised():
    scores = found_hybrid(Hybrid(lexical(), dense_hybrid(), alpha=0.6))
    # a = .6 * 1 + .4 * .375; b = .6 * .5 + .4 * 1; d = .4 * .875, and nothing from BM25, which did not return it
    assert scores == pytest.approx({"a": 0.75, "b": 0.7, "d": 0.35, "c": 0.0, "e": 0.0})
    assert list(scores) == ["a", "b", "d", "c", "e"]


def test_a_leg_without_weight_is_not_queried():
    first, second = lexical(), dense_hybrid()
    Hybrid(first, second, alpha=1).search("anything", 3)
    assert (first.requests, second.requests) == ([100], [])


def test_equal_scores_stand_in_the_corpus_s_order():
    assert list(found_hybrid(Hybrid(Leg(f=2.0, c=1.0), Leg(a=2.0, b=1.0), alpha=0.5))) == ["a", "f", "b", "c"]


def test_hits_that_do_not_differ_all_count_in_full():
    assert found_hybrid(Hybrid(Leg(c=3.0), Leg(d=0.5, e=0.5), alpha=0.25)) == {"d": 0.75, "e": 0.75, "c": 0.25}


def test_the_pool_is_a_hundred_hits_and_more_only_where_more_are_requested():
    first, second = lexical(), dense_hybrid()
    retriever = Hybrid(first, second, alpha=0.5)
    assert len(retriever.search("anything", 2)) == 2 and retriever.search("anything", 0) == []
    retriever.search("anything", 150)
    assert first.requests == second.requests == [100, 100, 150]


@pytest.mark.parametrize("alpha", [-0.1, 1.1, float("nan")])
def test_a_weight_that_is_not_a_share_is_refused(alpha):
    with pytest.raises(Fault, match=f"alpha={alpha:g}"):
        Hybrid(lexical(), dense_hybrid(), alpha=alpha)
    with pytest.raises(Fault, match=f"alpha={alpha:g}"):
        combine_retrievers(lexical(), CORPUS_HYBRID, alpha)


class Encoder:
    name = "constant"

    def encode(self, texts):
        import numpy as np

        return np.ones((len(texts), 384), dtype=np.float32)

    encode_once = encode


def test_mixed_tells_by_name_what_it_became(monkeypatch):
    pool = PassagePool(CORPUS_HYBRID, boost_titles=False)
    monkeypatch.setattr(hybrid, "find_encoder", Encoder)
    assert [combine_retrievers(pool, CORPUS_HYBRID, alpha).name for alpha in (0, 0.5, 0.9, 1)] == [
        "minilm",
        "hybrid 0.5",
        "hybrid 0.9",
        "bm25",
    ]
    monkeypatch.setattr(hybrid, "find_encoder", lambda: None)
    assert combine_retrievers(pool, CORPUS_HYBRID, 0.5) is pool
