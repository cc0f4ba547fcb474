"""Tests of `studies.reward_tuning` with a tiny model: on the GPU if there is one, else on the CPU."""

import json
from pathlib import Path
from random import Random

import pytest

from certigraph.adapters.protocols import Context
from certigraph.adapters.rewards import format_steps, load_tuned
from certigraph.benchmarks.rewardprediction.dataset import RewardRow, RewardTrajectory, TrajectoryPair, TrueReward
from certigraph.graphs import reward_head
from certigraph.nodes.rewards import supervised
from certigraph.state.endings import Fault
from certigraph.state.records import Task
from certigraph.state.rewards import DOMAIN, RECORDINGS, RecordedStep
from certigraph.studies import reward_tuning
from certigraph.studies.reward_tuning import TuningRecipe, train_lora


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


def test_a_prefix_is_flattened_with_its_goal():
    text = format_steps("light it", [RecordedStep(action="press", observation="lit")])
    assert text == "<GOAL> light it </GOAL> --- <ACTION> press </ACTION> <STATE> lit </STATE>"


@pytest.fixture
def base(tmp_path: Path) -> str:
    """The folder of a model of one layer, and of a tokenizer with the words of the recordings."""
    pytest.importorskip("peft")
    import torch
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForSequenceClassification

    words = ["[UNK]", "[PAD]", *"abc", "lit", "dark", "lamp", "press", *"0123456789"]
    plain = Tokenizer(models.WordLevel({word: n for n, word in enumerate(words)}, unk_token="[UNK]"))
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
    return str(tmp_path)


def losses_of(folder: Path) -> list[float]:
    return json.loads((folder / "tuning.json").read_text())["losses"]


@pytest.mark.slow
def test_the_lora_recipe_tunes_a_tiny_model_and_its_folder_rates(base: str, tmp_path: Path):
    recipe = TuningRecipe(rate=2e-2, epochs=8, tokens=64)
    folder = train_lora([pair(n) for n in range(3)], tmp_path / "out", base=base, recipe=recipe)
    losses = losses_of(folder)
    assert len(losses) == 8 and losses[-1] < losses[0]
    steps = [[{"action": "press", "observation": f"The lamp is {seen}."}] for seen in ("lit 4", "dark 7")]
    task = Task(benchmark="rewardprediction", id="m", goal="light the lamp", constants={RECORDINGS: steps, DOMAIN: "l"})
    graph = reward_head.build(rate=supervised(head=str(folder)))
    lit, dark = (one.reward for one in graph.invoke({"task": task}, context=Context())["rewards"])
    assert 0 < dark < lit < 1


@pytest.mark.slow
def test_a_batch_that_is_divided_gives_the_same_updates(base: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    recipe = TuningRecipe(rate=2e-2, epochs=3, tokens=64)
    whole = train_lora([pair()], tmp_path / "whole", base=base, recipe=recipe)
    monkeypatch.setattr(reward_tuning, "MAX_TOKENS_AT_ONCE", 100)
    parts = train_lora([pair()], tmp_path / "parts", base=base, recipe=recipe)
    assert losses_of(parts) == pytest.approx(losses_of(whole), rel=0.02)


@pytest.mark.slow
def test_small_updates_are_not_rounded_away(base: str):
    model, _ = reward_tuning._load_adapted_model(base, TuningRecipe())
    assert {f"{one.dtype}" for one in model.parameters() if one.requires_grad} == {"torch.float32"}


@pytest.mark.slow
def test_an_interrupted_tuning_leaves_the_model_of_its_last_epoch(
    base: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    real, epochs = reward_tuning.Random, []

    def interrupted(seed: object) -> Random:
        if str(seed) == "0:2":
            raise KeyboardInterrupt
        epochs.append(seed)
        return real(seed)

    monkeypatch.setattr(reward_tuning, "Random", interrupted)
    with pytest.raises(KeyboardInterrupt):
        train_lora([pair()], tmp_path / "out", base=base, recipe=TuningRecipe(tokens=64))
    assert len(losses_of(tmp_path / "out")) == len(epochs) == 2
    assert 0 < load_tuned(tmp_path / "out").reward("lamp", [RecordedStep(action="press", observation="lit")]) < 1


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
