"""The paper's supervised reward model, for those with a GPU: a language model with a scalar head, tuned by LoRA.

StateFactory, appendix C.2 and Table 6: rank 16, alpha 32, all linear layers, AdamW, cosine schedule, 8,192 tokens,
BF16, gradient checkpointing. The learning rate is missing from the text: ours is the usual one of LoRA.
"""

from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

from certigraph.adapters.reward_lora import BASE, equipped_for_tuning, flattened
from certigraph.adapters.rewardprediction.rows import Pair
from certigraph.evaluation.rewardheads.samples import Sample, ranked, steps_of
from certigraph.evaluation.rewardheads.training import ranking_loss
from certigraph.state.endings import Fault


class Recipe(NamedTuple):
    """How it is tuned."""

    rank: int = 16
    alpha: int = 32
    rate: float = 1e-4
    epochs: int = 3
    batch: int = 16
    tokens: int = 8_192
    seed: int = 0


PAPER = Recipe()


def train_lora(
    pairs: Sequence[Pair],
    out: Path,
    *,
    base: str = BASE,
    recipe: Recipe = PAPER,
    told: Callable[[str], None] = print,
) -> Path:
    """Tune adapters and head to rank prefixes of the same task, and write them with the tokenizer to the folder `out`.

    One model sees all pairs, where heads have folds: what it says of these pairs is no measure of it.

    Raises:
        Fault: a library is missing, the pairs rank nothing, or the base model is not here.
    """
    equipped_for_tuning()
    torch = import_module("torch")
    model, tokenizer = _adapted(base, recipe)
    orders = [order for pair in pairs for order in _ranked_texts(pair, recipe.seed)]
    if not orders:
        raise Fault("data", "no two steps of these pairs are of different worth; give positive trajectories")
    optimiser = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=recipe.rate)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, recipe.epochs * -(-len(orders) // recipe.batch))
    for epoch in range(recipe.epochs):
        Random(f"{recipe.seed}:{epoch}").shuffle(orders)
        for start in range(0, len(orders), recipe.batch):
            batch = orders[start : start + recipe.batch]
            scores = _scores(model, tokenizer, [text for side in zip(*batch, strict=True) for text in side])
            loss = ranking_loss(*scores.split(len(batch)))
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            schedule.step()
        told(f"epoch {epoch + 1} of {recipe.epochs}: loss {loss.item():.3f}")
    model.save_pretrained(out)
    tokenizer.save_pretrained(out)
    return out


def _ranked_texts(pair: Pair, seed: int) -> list[tuple[str, str]]:
    rewards = tuple(row.reward.shaped for one in pair.recordings for row in one.trajectory)
    texts = [
        flattened(one.goal_description, steps[: n + 1])
        for one, steps in zip(pair.recordings, map(steps_of, pair.recordings), strict=True)
        for n in range(len(steps))
    ]
    sample = Sample(pair.id, pair.domain, None, rewards)
    return [(texts[better], texts[worse]) for better, worse in ranked(sample, seed)]


def _adapted(base: str, recipe: Recipe) -> tuple[Any, Any]:
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
        raise Fault("model", f"no base model {base} is here ({error!r:.120}): hf download {base}") from error
    tokenizer.pad_token = tokenizer.pad_token or tokenizer.eos_token
    tokenizer.model_max_length = recipe.tokens
    model.config.pad_token_id = tokenizer.pad_token_id
    config = peft.LoraConfig(r=recipe.rank, lora_alpha=recipe.alpha, target_modules="all-linear", task_type="SEQ_CLS")
    model.gradient_checkpointing_enable()
    model.enable_input_require_grads()
    return peft.get_peft_model(model, config).to("cuda" if gpu else "cpu").train(), tokenizer


def _scores(model: Any, tokenizer: Any, texts: list[str]) -> Any:
    """One score a text; of a text that is too long its end is read."""
    given = tokenizer(texts, truncation=True, padding=True, return_tensors="pt")
    return model(**given.to(model.device)).logits[:, 0].float()
