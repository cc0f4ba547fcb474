from random import Random

import numpy as np
import pytest

from certigraph.adapters.rewardprediction.rows import Pair, Recording, Reward, Row
from certigraph.evaluation.rewardheads.lora import Recipe, flattened, train_lora
from certigraph.evaluation.rewardheads.samples import PER_TASK, Sample, ranked
from certigraph.evaluation.rewardheads.triplets import Triplet, triplet_accuracy, triplets
from certigraph.state.endings import Fault


def pair(number=0, length=4):
    """The lamp is lit bit by bit in the positive recording and never in the negative one."""
    draw = Random(number)

    def recording(positive):
        rows = []
        for n in range(1, length + 1):
            shaped = n / length if positive else 0.0
            seen = f"The lamp is {'lit' if positive else 'dark'} {n if positive else draw.randint(10, 99)}."
            rows.append(Row(action="press", observation=seen, reward=Reward(raw=shaped, shaped=shaped)))
        return Recording(goal_description="light the lamp", trajectory=tuple(rows))

    return Pair(domain="lamps", task=str(number), positive=recording(True), negatives=(recording(False),))


def test_better_prefixes_stand_first_and_equal_ones_are_not_ranked():
    sample = Sample("lamps/0", "lamps", None, (0.5, 1.0, 0.0, 0.0))
    assert sorted(ranked(sample, 0)) == [(0, 2), (0, 3), (1, 0), (1, 2), (1, 3)]
    long = Sample("lamps/0", "lamps", None, tuple(n / 40 for n in range(40)))
    assert len(set(ranked(long, 0))) == PER_TASK and ranked(long, 0) == ranked(long, 0) != ranked(long, 1)
    assert ranked(Sample("x", "lamps", None, (0.0, 0.0)), 0) == []


def test_a_prefix_is_flattened_with_its_goal():
    text = flattened("light it", [Row(action="press", observation="lit", reward=Reward())])
    assert text == "<GOAL> light it </GOAL> --- <ACTION> press </ACTION> <STATE> lit </STATE>"


class TestTriplets:
    @pytest.fixture
    def blocks(self):
        rows = tuple(
            Row(action="act", observation=text, reward=Reward())
            for text in ("the red block is on the table.", "the red block is on top of the blue block.")
        )
        told = Recording(goal_description="the red block is on top of the blue block", trajectory=rows)
        return Pair(domain="blocksworld", task="0", positive=told, negatives=(told,))

    def test_the_negative_is_another_value_of_the_same_attribute_where_there_was_one(self, monkeypatch, blocks):
        from certigraph.evaluation.rewardheads import triplets as module
        from certigraph.state.factored import factored

        class Reading:
            def extract(self, state, goal, action, observation):
                return factored({"red block": {"location": observation}, "door": {"state": "shut"}})

        monkeypatch.setattr(module, "needed_factors", lambda task: Reading())
        found = {one.anchor: one for one in triplets([blocks])}
        first, second = (f"red block: location {row.observation}" for row in blocks.positive.trajectory)
        assert found[first].contradiction == second and found[second].contradiction == first
        assert found["door: state shut"].contradiction in (first, second)
        assert all(one.paraphrase != one.anchor for one in found.values()) and len(found) == 3

    def test_accuracy_is_the_share_whose_paraphrase_is_nearer(self):
        class Encoder:
            def encode_once(self, texts):
                return np.array([{"a": (1, 0), "near": (0.8, 0.6), "far": (0, 1)}[t] for t in texts], dtype=np.float32)

        right, wrong = Triplet("a", "near", "far"), Triplet("a", "far", "near")
        assert triplet_accuracy(Encoder(), [right, right, right, wrong]) == 0.75
        assert triplet_accuracy(Encoder(), [Triplet("a", "near", "near")]) == 0.0  # a tie is no success
        assert triplet_accuracy(Encoder(), []) == 0.0

    def test_an_unknown_domain_is_a_fault(self):
        with pytest.raises(Fault, match="no symbolic extractor reads lamps"):
            triplets([pair()])


@pytest.mark.slow
class TestTraining:
    def samples(self, tasks=20):
        draw = np.random.default_rng(0)
        made = []
        for number in range(tasks):
            rewards = np.concatenate([np.linspace(0.1, 1, 10), np.zeros(10)])
            noise = draw.normal(size=(20, 12))
            noise[:, 0] = rewards * 3 + draw.normal(size=20) * 0.1
            made.append(Sample(f"lamps/{number}", "lamps", noise.astype(np.float16), tuple(rewards)))
        return made

    def test_heads_rank_tasks_that_they_did_not_see_and_are_the_same_again(self):
        from certigraph.evaluation.rewardheads.training import train_heads
        from certigraph.evaluation.rewardheads.transfer import distance, transfer

        found = self.samples()
        heads = train_heads(found, "letters", folds=4, told=lambda line: None)
        assert distance(found, heads) < 0.35 and heads.card.domains == ("lamps",)
        again = train_heads(found, "letters", folds=4, told=lambda line: None)
        np.testing.assert_array_equal(heads.heads[0].hidden, again.heads[0].hidden)
        assert transfer(found, "letters", folds=4).distances == ((distance(found, heads),),)

    def test_a_head_is_not_trained_on_the_tasks_of_its_fold(self, monkeypatch):
        from certigraph.adapters.reward_heads import fold_of
        from certigraph.evaluation.rewardheads import training

        seen = []
        real = training.train_head
        monkeypatch.setattr(training, "train_head", lambda samples, seed: seen.append(samples) or real(samples, seed))
        training.train_heads(self.samples(), "letters", folds=3, told=lambda line: None)
        for fold, samples in enumerate(seen):
            assert samples and all(fold_of(one.task, 3) != fold for one in samples)

    @pytest.mark.parametrize("samples", [[], [Sample("a", "lamps", np.ones((2, 3), np.float16), (0.0, 0.0))] * 3])
    def test_what_ranks_nothing_trains_nothing(self, samples):
        from certigraph.evaluation.rewardheads.training import train_head

        with pytest.raises(Fault, match="train no reward head"):
            train_head(samples, 0)


@pytest.mark.slow
def test_the_lora_recipe_tunes_a_tiny_model_on_the_cpu(tmp_path):
    pytest.importorskip("peft")
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForSequenceClassification

    words = {
        word: n for n, word in enumerate(["[UNK]", "[PAD]", *"abc", "lit", "dark", "lamp", "press", *"0123456789"])
    }
    plain = Tokenizer(models.WordLevel(words, unk_token="[UNK]"))
    plain.pre_tokenizer = pre_tokenizers.Whitespace()
    PreTrainedTokenizerFast(tokenizer_object=plain, unk_token="[UNK]", pad_token="[PAD]").save_pretrained(tmp_path)
    config = Qwen2Config(
        vocab_size=len(words),
        hidden_size=16,
        intermediate_size=32,
        num_hidden_layers=1,
        num_attention_heads=2,
        num_key_value_heads=1,
        num_labels=1,
        pad_token_id=1,
    )
    Qwen2ForSequenceClassification(config).save_pretrained(tmp_path)
    said = []
    recipe = Recipe(rate=1e-2, epochs=3, tokens=64)
    folder = train_lora(
        [pair(n) for n in range(3)], tmp_path / "out", base=str(tmp_path), recipe=recipe, told=said.append
    )
    losses = [float(line.rpartition(" ")[2]) for line in said]
    assert len(losses) == 3 and losses[-1] < losses[0]
    assert (folder / "adapter_model.safetensors").is_file()


@pytest.mark.slow
def test_a_base_model_that_is_not_here_is_a_fault_with_the_command(tmp_path):
    pytest.importorskip("peft")
    with pytest.raises(Fault, match="hf download"):
        train_lora([pair()], tmp_path, base=str(tmp_path / "nowhere"))
