import pytest

from certigraph.adapters.retrieval import dense as hybrid
from certigraph.adapters.retrieval.bm25 import Hit, Pool
from certigraph.adapters.retrieval.dense import Hybrid, mixed
from certigraph.state.records import Fault, UnknownName
from certigraph.state.search import Passage

CORPUS = [Passage(id=name, title=name, text=f"text of {name}") for name in "abcdef"]
NAMED = {passage.id: passage for passage in CORPUS}


class Leg:
    """Returns the scores it was given, the best first."""

    name = "leg"

    def __init__(self, **scores):
        self.scores, self.asked = scores, []
        self.places = {name: place for place, name in enumerate(NAMED)}

    def search(self, query, k):
        self.asked.append(k)
        return [Hit(NAMED[name], score) for name, score in sorted(self.scores.items(), key=lambda s: -s[1])][:k]

    def passage(self, id):
        if id not in NAMED:
            raise UnknownName(id)
        return NAMED[id]


def found(retriever, k=9):
    return {hit.passage.id: hit.score for hit in retriever.search("anything", k)}


def lexical():
    return Leg(a=10.0, b=6.0, c=2.0)  # normalised: 1, 0.5, 0


def dense():
    return Leg(b=0.9, d=0.8, a=0.4, e=0.1)  # normalised: 1, 0.875, 0.375, 0


def test_scores_are_the_weighted_sum_of_what_each_leg_normalised():
    scores = found(Hybrid(lexical(), dense(), alpha=0.6))
    # a = .6 * 1 + .4 * .375; b = .6 * .5 + .4 * 1; d = .4 * .875, and nothing from BM25, which did not return it
    assert scores == pytest.approx({"a": 0.75, "b": 0.7, "d": 0.35, "c": 0.0, "e": 0.0})
    assert list(scores) == ["a", "b", "d", "c", "e"]


def test_at_the_ends_the_order_is_exactly_one_leg_s():
    assert list(found(Hybrid(lexical(), dense(), alpha=1))) == ["a", "b", "c"]
    assert list(found(Hybrid(lexical(), dense(), alpha=0))) == ["b", "d", "a", "e"]


def test_a_leg_without_weight_is_not_asked():
    first, second = lexical(), dense()
    Hybrid(first, second, alpha=1).search("anything", 3)
    assert (first.asked, second.asked) == ([100], [])


def test_equal_scores_stand_in_the_corpus_s_order():
    assert list(found(Hybrid(Leg(f=2.0, c=1.0), Leg(a=2.0, b=1.0), alpha=0.5))) == ["a", "f", "b", "c"]


def test_hits_that_do_not_differ_all_count_in_full():
    assert found(Hybrid(Leg(c=3.0), Leg(d=0.5, e=0.5), alpha=0.25)) == {"d": 0.75, "e": 0.75, "c": 0.25}


def test_the_pool_is_a_hundred_hits_and_more_only_where_more_are_asked_for():
    first, second = lexical(), dense()
    retriever = Hybrid(first, second, alpha=0.5)
    assert len(retriever.search("anything", 2)) == 2 and retriever.search("anything", 0) == []
    retriever.search("anything", 150)
    assert first.asked == second.asked == [100, 100, 150]


def test_nothing_found_is_nothing():
    assert Hybrid(Leg(), Leg(), alpha=0.5).search("who is it?", 5) == []


@pytest.mark.parametrize("alpha", [-0.1, 1.1, float("nan")])
def test_a_weight_that_is_no_share_is_refused(alpha):
    with pytest.raises(Fault, match=f"alpha={alpha:g}"):
        Hybrid(lexical(), dense(), alpha=alpha)
    with pytest.raises(Fault, match=f"alpha={alpha:g}"):
        mixed(lexical(), CORPUS, alpha)


def test_passages_are_had_by_id():
    retriever = Hybrid(lexical(), dense(), alpha=0.5)
    assert retriever.passage("c") == NAMED["c"]
    with pytest.raises(UnknownName):
        retriever.passage("z")


class Encoder:
    name = "constant"

    def encode(self, texts):
        import numpy as np

        return np.ones((len(texts), 384), dtype=np.float32)

    encode_once = encode


def test_mixed_tells_by_name_what_it_became(monkeypatch):
    pool = Pool(CORPUS, boost_titles=False)
    monkeypatch.setattr(hybrid, "encoder", Encoder)
    assert [mixed(pool, CORPUS, alpha).name for alpha in (0, 0.5, 0.9, 1)] == [
        "minilm",
        "hybrid 0.5",
        "hybrid 0.9",
        "bm25",
    ]
    monkeypatch.setattr(hybrid, "encoder", lambda: None)
    assert mixed(pool, CORPUS, 0.5) is pool


def test_vectors_of_a_corpus_are_counted_in_the_log_while_they_are_made(monkeypatch, tmp_path, caplog):
    passages = [Passage(id=str(n), title="", text=f"text {n}") for n in range(600)]
    monkeypatch.setattr(hybrid, "encoder", Encoder)
    for _ in range(2):  # the second time they are read
        mixed(Pool(passages), passages, 0.5, folder=tmp_path)
    (told,) = (record.getMessage() for record in caplog.records)
    assert told.startswith("vectors, made once and kept: 512 of 600 passages (without them: ")
