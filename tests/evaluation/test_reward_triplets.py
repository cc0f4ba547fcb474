import numpy as np
import pytest

from certigraph.adapters.rewardprediction.dataset import Pair, Recording, Reward, RewardRow
from certigraph.evaluation.analyses import rewards
from certigraph.evaluation.analyses.rewards import (
    EPIC,
    OVERALL,
    Line,
    Mean,
    Triplet,
    encoder_of,
    predictors,
    probed,
    told,
    triplet_accuracy,
    triplets,
)
from certigraph.state.records import Fault


@pytest.fixture
def blocks():
    rows = tuple(
        RewardRow(action="act", observation=text, reward=Reward())
        for text in ("the red block is on the table.", "the red block is on top of the blue block.")
    )
    told = Recording(goal_description="the red block is on top of the blue block", trajectory=rows)
    return Pair(domain="blocksworld", task="0", positive=told, negatives=(told,))


def test_the_negative_is_another_value_of_the_same_attribute_where_there_was_one(monkeypatch, blocks):
    from certigraph.evaluation.analyses import rewards
    from certigraph.state.rewards import factored

    class Reading:
        def extract(self, state, goal, action, observation):
            return factored({"red block": {"location": observation}, "door": {"state": "shut"}})

    monkeypatch.setattr(rewards, "needed_factors", lambda task: Reading())
    found = {one.anchor: one for one in triplets([blocks])}
    first, second = (f"red block: location {row.observation}" for row in blocks.positive.trajectory)
    assert found[first].contradiction == second and found[second].contradiction == first
    assert found["door: state shut"].contradiction in (first, second)
    assert all(one.paraphrase != one.anchor for one in found.values()) and len(found) == 3


def test_accuracy_is_the_share_whose_paraphrase_is_nearer():
    class Encoder:
        def encode_once(self, texts):
            return np.array([{"a": (1, 0), "near": (0.8, 0.6), "far": (0, 1)}[t] for t in texts], dtype=np.float32)

    right, wrong = Triplet("a", "near", "far"), Triplet("a", "far", "near")
    assert triplet_accuracy(Encoder(), [right, right, right, wrong]) == 0.75
    assert triplet_accuracy(Encoder(), [Triplet("a", "near", "near")]) == 0.0  # a tie is no success
    assert triplet_accuracy(Encoder(), []) == 0.0


def test_an_unknown_domain_is_a_fault(blocks):
    with pytest.raises(Fault, match="no symbolic extractor reads lamps"):
        triplets([blocks.model_copy(update={"domain": "lamps"})])


def test_encoders_that_are_named_are_probed_once_and_told_beside_their_distance(monkeypatch, tmp_path, blocks):
    asked = []

    class Encoder:
        def encode_once(self, texts):
            asked.append(len(texts))
            return np.ones((len(texts), 2), dtype=np.float32)

    monkeypatch.setattr(rewards, "needed_encoder", lambda name: Encoder())
    methods = predictors(["statefactory"], ["wide", "narrow"])
    assert [encoder_of(method) for method in methods] == [None, "wide", "narrow"]
    pairs = [blocks, blocks.model_copy(update={"domain": "unread"})]
    found = probed(methods, pairs, tmp_path / "encoders.jsonl")
    assert [(one.encoder, one.accuracy) for one in found] == [("wide", 0.0), ("narrow", 0.0)]
    assert probed(methods, pairs, tmp_path / "encoders.jsonl") == found and len(asked) == 6
    assert found[0].triplets == asked[0] == len(triplets([blocks])) > 0
    lines = [Line(name, where, 1, {EPIC: Mean(0.25)}) for name in ("statefactory", "wide") for where in ("x", OVERALL)]
    assert told(methods, lines, found) == [
        f"wide: EPIC 0.250, triplet accuracy 0.000 of {asked[0]}, whose paraphrases are made by rules."
    ]
    assert probed(methods[:1], pairs, tmp_path / "none.jsonl") == [] and not (tmp_path / "none.jsonl").exists()
