"""Text metrics: hand-worked figures, and what they say where a library is missing."""

import sys

import numpy
import pytest

from certigraph.adapters.qa.scoring import MEASURES, measured, meteor, rouge1, similarities
from certigraph.state.records import Fault


class Letters:
    """Vectors of how often a, b and c occur, of length one."""

    name = "letters"

    def encode(self, texts):
        counts = numpy.array([[text.count(letter) for letter in "abc"] for text in texts], dtype=numpy.float32)
        return counts / numpy.linalg.norm(counts, axis=1, keepdims=True)

    encode_once = encode


def test_rouge1_counts_stemmed_unigrams():
    # cat(s), sat: two of three words on each side
    assert rouge1("the cat sat", "cats sat on") == pytest.approx(2 / 3)
    assert rouge1("", "cats") == 0.0


def test_meteor_weighs_recall_and_punishes_fragments():
    # one match of one chunk: P 1/2, R 1; F = P R / (0.9 P + 0.1 R); penalty 0.5 * (1/1)^3
    assert meteor("blue Paris", "paris") == pytest.approx(0.5 * (0.5 / (0.9 * 0.5 + 0.1)))
    # three matches in one chunk
    assert meteor("a b c", "a b c") == pytest.approx(1 - 0.5 / 27)


def test_meteor_matches_stems_and_no_synonyms():
    assert meteor("runs", "running") == pytest.approx(0.5)
    assert meteor("automobile", "car") == 0.0


def test_an_answer_counts_with_its_best_reference():
    found = measured("the Spurs", ["Tottenham Hotspur", "Spurs"])
    assert set(found) == set(MEASURES)
    assert (found["em"], found["f1"]) == (1.0, 1.0)
    assert measured("x", [], ["f1"]) == {"f1": 0.0}


def test_similarity_is_the_cosine_of_each_pair():
    assert similarities(["a", "ab"], ["b", "aabb"], Letters()) == pytest.approx([0.0, 1.0])


def test_a_missing_library_is_named_with_its_command(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "nltk.translate.meteor_score", None)
    with pytest.raises(Fault, match=r"nltk.*pip install 'certigraph\[eval\]'"):
        meteor("a", "b")


def test_without_an_encoder_there_is_no_similarity(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("certigraph.adapters.qa.scoring.encoder", lambda: None)
    assert similarities(["a"], ["b"]) is None
