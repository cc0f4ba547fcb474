"""Tuning of a language model that predicts rewards, on machines with a GPU (`certigraph rewards tune`).

A language model with one output, its reward, is tuned by LoRA to rank prefixes of trajectories (StateFactory, appendix
C.2 and Table 6): rank 16, alpha 32, all linear layers, AdamW, cosine schedule, 8,192 tokens, BF16, gradient
checkpointing. The paper does not give the learning rate; 1e-4 is usual for LoRA.
"""

import json
from collections.abc import Iterator, Sequence
from importlib import import_module
from pathlib import Path
from random import Random
from statistics import fmean
from typing import Any, NamedTuple

from certigraph.adapters.rewards import check_tuning_packages, format_steps
from certigraph.benchmarks.rewardprediction.dataset import TrajectoryPair
from certigraph.evaluation.progress_display import show_progress
from certigraph.state.defaults import DEFAULT_BASE_MODEL
from certigraph.state.endings import Fault
from certigraph.studies.reward_heads import (
    PrefixSample,
    minimise,
    ranked_pairs,
    ranking_loss,
    unrewarded_steps,
)

TUNING_FILE = "tuning.json"
"""File in the folder of a tuned model with its base model, recipe, number of ranked texts, and losses by epoch."""

MAX_TOKENS_AT_ONCE = 32_768
"""Maximum number of tokens, padding included, that go through the model at once.

A model of 1.5B parameters needs 12 GiB of GPU memory for them. A batch with more is divided and its gradients added.
"""


class TuningRecipe(NamedTuple):
    """Hyperparameters for tuning a language model by LoRA: `rate` is the learning rate, `tokens` the maximum length."""

    rank: int = 16
    alpha: int = 32
    rate: float = 1e-4
    epochs: int = 3
    batch: int = 16
    tokens: int = 8_192
    seed: int = 0


PAPER_RECIPE = TuningRecipe()


class RankedTexts(NamedTuple):
    """Two prefixes of trajectories of a task as texts, of which one has the higher reward."""

    better: str
    worse: str
    tokens: int
    """Length of the longer text after truncation."""


def train_lora(
    pairs: Sequence[TrajectoryPair], out: Path, *, base: str = DEFAULT_BASE_MODEL, recipe: TuningRecipe = PAPER_RECIPE
) -> Path:
    """Tune a language model by LoRA to rank prefixes of the same task, and write it to the folder `out`.

    The folder gets the LoRA adapters, the scalar output layer, the tokenizer and TUNING_FILE, after each epoch. There
    are no folds: the model is trained on all pairs, so that rewards which it predicts for these pairs do not measure
    its quality.

    Raises:
        Fault: a library is missing, no two prefixes have different rewards, or the base model is not on this machine.
    """
    check_tuning_packages()
    model, tokenizer = _load_adapted_model(base, recipe)
    ranked = [texts for pair in pairs for texts in _rank_texts(pair, tokenizer, recipe.seed)]
    if not ranked:
        raise Fault("data", "no two steps of these pairs have different rewards: give positive trajectories")
    updates = recipe.epochs * -(-len(ranked) // recipe.batch)
    report: dict[str, Any] = {"base": base, **recipe._asdict(), "ranked": len(ranked), "losses": []}

    def losses() -> Iterator[Iterator[Any]]:
        for epoch in range(recipe.epochs):
            Random(f"{recipe.seed}:{epoch}").shuffle(ranked)
            found: list[float] = []
            for start in range(0, len(ranked), recipe.batch):
                yield _partial_losses(model, tokenizer, ranked[start : start + recipe.batch], found)
                shown.report("updates", shown.done + 1, f"epoch {epoch + 1}, loss {fmean(found):.3f}")
            report["losses"].append(round(fmean(found), 4))
            model.save_pretrained(out)
            tokenizer.save_pretrained(out)
            (out / TUNING_FILE).write_text(json.dumps(report, indent=1) + "\n")

    with show_progress("tuning", updates) as shown:
        minimise(losses(), [one for one in model.parameters() if one.requires_grad], updates, lr=recipe.rate)
    return out


def _rank_texts(pair: TrajectoryPair, tokenizer: Any, seed: int) -> list[RankedTexts]:
    rewards = tuple(row.reward.shaped for one in pair.recordings for row in one.trajectory)
    texts = [
        format_steps(one.goal_description, steps[: n + 1])
        for one, steps in zip(pair.recordings, map(unrewarded_steps, pair.recordings), strict=True)
        for n in range(len(steps))
    ]
    sizes = [len(tokens) for tokens in tokenizer(texts, truncation=True)["input_ids"]]
    sample = PrefixSample(pair.id, pair.domain, None, rewards)
    return [RankedTexts(texts[a], texts[b], max(sizes[a], sizes[b])) for a, b in ranked_pairs(sample, seed)]


def _load_adapted_model(base: str, recipe: TuningRecipe) -> tuple[Any, Any]:
    torch, transformers, peft = map(import_module, ("torch", "transformers", "peft"))
    gpu = torch.cuda.is_available()
    torch.manual_seed(recipe.seed)
    try:
        tokenizer = transformers.AutoTokenizer.from_pretrained(
            base, truncation_side="left", padding_side="right", local_files_only=True
        )
        model = transformers.AutoModelForSequenceClassification.from_pretrained(
            base, num_labels=1, local_files_only=True, dtype=torch.bfloat16 if gpu else torch.float32
        )
    except OSError as error:
        raise Fault(
            "model", f"the base model {base} is not on this machine ({error!r:.120}): hf download {base}"
        ) from error
    tokenizer.pad_token = tokenizer.pad_token or tokenizer.eos_token
    tokenizer.model_max_length = recipe.tokens
    model.config.pad_token_id = tokenizer.pad_token_id
    config = peft.LoraConfig(r=recipe.rank, lora_alpha=recipe.alpha, target_modules="all-linear", task_type="SEQ_CLS")
    model.gradient_checkpointing_enable()
    model.enable_input_require_grads()
    adapted = peft.get_peft_model(model, config).to("cuda" if gpu else "cpu").train()
    for parameter in adapted.parameters():
        if parameter.requires_grad:  # BF16 has no digits for updates this small: peft leaves the output layer in it
            parameter.data = parameter.data.float()
    return adapted, tokenizer


def _partial_losses(model: Any, tokenizer: Any, batch: Sequence[RankedTexts], found: list[float]) -> Iterator[Any]:
    """Compute the parts of a batch's mean loss, and append the loss to `found`."""
    torch, parts = import_module("torch"), []
    for one in _divide_batch(batch):
        texts = [*(pair.better for pair in one), *(pair.worse for pair in one)]
        # a text that is too long is cut at its start
        inputs = tokenizer(texts, truncation=True, padding=True, return_tensors="pt").to(model.device)
        with torch.autocast(model.device.type, torch.bfloat16, enabled=model.device.type == "cuda"):
            scores = model(**inputs).logits[:, 0].float()
        part = ranking_loss(*scores.split(len(one))) * (len(one) / len(batch))
        parts.append(part.item())
        yield part
    found.append(sum(parts))


def _divide_batch(batch: Sequence[RankedTexts]) -> list[list[RankedTexts]]:
    """Divide a batch by length so that the texts of no part exceed MAX_TOKENS_AT_ONCE, except a part of one pair."""
    parts: list[list[RankedTexts]] = []
    for texts in sorted(batch, key=lambda texts: texts.tokens):
        if parts and 2 * (len(parts[-1]) + 1) * texts.tokens <= MAX_TOKENS_AT_ONCE:
            parts[-1].append(texts)
        else:
            parts.append([texts])
    return parts
