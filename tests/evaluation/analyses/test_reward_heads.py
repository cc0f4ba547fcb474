"""Tests of `evaluation.analyses.reward_heads`."""

from random import Random

import numpy as np
import pytest

from certigraph.adapters.protocols import Context
from certigraph.adapters.rewardprediction.dataset import RewardRow, RewardTrajectory, TrajectoryPair, TrueReward
from certigraph.adapters.rewards import format_steps, load_tuned
from certigraph.evaluation.analyses.reward_heads import (
    MAX_PAIRS_PER_TASK,
    PrefixSample,
    TuningRecipe,
    ranked_pairs,
    train_lora,
)
from certigraph.graphs import reward_head
from certigraph.nodes.rewards import supervised
from certigraph.state.endings import Fault
from certigraph.state.records import Task
from certigraph.state.rewards import DOMAIN, RECORDINGS, RecordedStep


def pair(number=0, length=4):
    """The lamp is lit bit by bit in the positive recording and never in the negative one."""
    draw = Random(number)

    def recording(positive):
        rows = []
        for n in range(1, length + 1):
            shaped = n / length if positive else 0.0
            seen = f"The lamp is {'lit' if positive else 'dark'} {n if positive else draw.randint(10, 99)}."
            rows.append(RewardRow(action="press", observation=seen, reward=TrueReward(raw=shaped, shaped=shaped)))
        return RewardTrajectory(goal_description="light the lamp", trajectory=tuple(rows))

    return TrajectoryPair(domain="lamps", task=str(number), positive=recording(True), negatives=(recording(False),))


def test_better_prefixes_stand_first_and_equal_ones_are_not_ranked():
    sample = PrefixSample("lamps/0", "lamps", None, (0.5, 1.0, 0.0, 0.0))
    assert sorted(ranked_pairs(sample, 0)) == [(0, 2), (0, 3), (1, 0), (1, 2), (1, 3)]
    long = PrefixSample("lamps/0", "lamps", None, tuple(n / 40 for n in range(40)))
    assert len(set(ranked_pairs(long, 0))) == MAX_PAIRS_PER_TASK and ranked_pairs(long, 0) == ranked_pairs(
        long, 0
    ) != ranked_pairs(long, 1)
    assert ranked_pairs(PrefixSample("x", "lamps", None, (0.0, 0.0)), 0) == []


def test_a_prefix_is_flattened_with_its_goal():
    text = format_steps("light it", [RecordedStep(action="press", observation="lit")])
    assert text == "<GOAL> light it </GOAL> --- <ACTION> press </ACTION> <STATE> lit </STATE>"


@pytest.mark.slow
class TestTraining:
    def samples(self, tasks=20):
        draw = np.random.default_rng(0)
        made = []
        for number in range(tasks):
            rewards = np.concatenate([np.linspace(0.1, 1, 10), np.zeros(10)])
            noise = draw.normal(size=(20, 12))
            noise[:, 0] = rewards * 3 + draw.normal(size=20) * 0.1
            made.append(PrefixSample(f"lamps/{number}", "lamps", noise.astype(np.float16), tuple(rewards)))
        return made

    def test_heads_rank_tasks_that_they_did_not_see_and_are_the_same_again(self):
        from certigraph.evaluation.analyses.reward_heads import mean_epic_distance, measure_transfer, train_heads

        found = self.samples()
        heads = train_heads(found, "letters", folds=4, progress=lambda line: None)
        assert mean_epic_distance(found, heads) < 0.35 and heads.card.domains == ("lamps",)
        again = train_heads(found, "letters", folds=4, progress=lambda line: None)
        np.testing.assert_array_equal(heads.heads[0].hidden, again.heads[0].hidden)
        assert measure_transfer(found, "letters", folds=4).distances == ((mean_epic_distance(found, heads),),)

    def test_a_head_is_not_trained_on_the_tasks_of_its_fold(self, monkeypatch):
        from certigraph.adapters.rewards import fold_of
        from certigraph.evaluation.analyses import reward_heads

        seen = []
        real = reward_heads.train_head
        monkeypatch.setattr(
            reward_heads, "train_head", lambda samples, seed: seen.append(samples) or real(samples, seed)
        )
        reward_heads.train_heads(self.samples(), "letters", folds=3, progress=lambda line: None)
        for fold, samples in enumerate(seen):
            assert samples and all(fold_of(one.task, 3) != fold for one in samples)

    @pytest.mark.parametrize("samples", [[], [PrefixSample("a", "lamps", np.ones((2, 3), np.float16), (0.0, 0.0))] * 3])
    def test_what_ranks_nothing_trains_nothing(self, samples):
        from certigraph.evaluation.analyses.reward_heads import train_head

        with pytest.raises(Fault, match="not enough for a reward head"):
            train_head(samples, 0)


@pytest.mark.slow
def test_the_lora_recipe_tunes_a_tiny_model_on_the_cpu_and_its_folder_rates(tmp_path):
    pytest.importorskip("peft")
    import torch
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
    torch.manual_seed(0)
    Qwen2ForSequenceClassification(config).save_pretrained(tmp_path)
    messages = []
    recipe = TuningRecipe(rate=2e-2, epochs=8, tokens=64)
    folder = train_lora(
        [pair(n) for n in range(3)], tmp_path / "out", base=str(tmp_path), recipe=recipe, progress=messages.append
    )
    losses = [float(line.rpartition(" ")[2]) for line in messages]
    assert len(losses) == 8 and losses[-1] < losses[0]
    steps = [[{"action": "press", "observation": f"The lamp is {seen}."}] for seen in ("lit 4", "dark 7")]
    task = Task(benchmark="rewardprediction", id="m", goal="light the lamp", constants={RECORDINGS: steps, DOMAIN: "l"})
    graph = reward_head.build(rate=supervised(head=str(folder)))
    lit, dark = (one.reward for one in graph.invoke({"task": task}, context=Context())["rewards"])
    assert 0 < dark < lit < 1


@pytest.mark.slow
def test_a_folder_that_holds_no_tuned_model_is_a_fault_with_the_command(tmp_path):
    pytest.importorskip("peft")
    (tmp_path / "adapter_config.json").write_text("{}")
    with pytest.raises(Fault, match="certigraph rewards tune"):
        load_tuned(tmp_path)


@pytest.mark.slow
def test_a_base_model_that_is_not_here_is_a_fault_with_the_command(tmp_path):
    pytest.importorskip("peft")
    with pytest.raises(Fault, match="hf download"):
        train_lora([pair()], tmp_path, base=str(tmp_path / "nowhere"))
