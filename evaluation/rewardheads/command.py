"""`certigraph rewards train`, `tune` and `transfer`: supervised reward models from RewardPrediction's recordings."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import cast

from rich.console import Console
from rich.table import Table

from certigraph.adapters.benchmarks import load_benchmark
from certigraph.adapters.embeddings import NAME, needed_encoder
from certigraph.adapters.reward_heads import Card, save_heads
from certigraph.adapters.reward_lora import BASE
from certigraph.adapters.rewardprediction.benchmark import RewardPrediction
from certigraph.adapters.rewardprediction.rows import Pair
from certigraph.evaluation.rewardheads.lora import PAPER, train_lora
from certigraph.evaluation.rewardheads.samples import samples
from certigraph.evaluation.rewardheads.training import FOLDS, train_heads
from certigraph.evaluation.rewardheads.transfer import Transfer, transfer
from certigraph.state.endings import UnknownName

Told = Callable[[str], None]


def train_command(
    data: str | None,
    out: Path,
    *,
    domains: Sequence[str] = (),
    encoder: str = NAME,
    folds: int = FOLDS,
    limit: int | None = None,
    seed: int = 0,
    told: Told = print,
) -> Card:
    """Train one head a fold on the pairs of some domains and write them to `out`.

    Args:
        data: the folder of the pairs; None: CERTIGRAPH_DATA, else the generated ones.
        out: the file, an npz.
        domains: those to train on; none: all.
        encoder: whose sentence vectors are the features.
        folds: tasks are rated by the head of their fold, which did not see them; 1: one head that saw all.
        limit: pairs of each domain, at most.
        seed: of the draws.
        told: called with each line of progress.

    Raises:
        UnknownName: no such domain.
        Fault: too few pairs, no such encoder, no data.
    """
    source = needed_encoder(encoder)
    found = samples(chosen(data, domains, limit), source, told)
    heads = train_heads(found, encoder, folds=folds, seed=seed, told=told)
    save_heads(out, heads)
    return heads.card


def transfer_command(
    data: str | None,
    *,
    domains: Sequence[str] = (),
    encoder: str = NAME,
    folds: int = FOLDS,
    limit: int | None = None,
    seed: int = 0,
    told: Told = print,
) -> Transfer:
    """Train on each domain and on all, and rate each domain by each. Arguments and errors as above."""
    found = samples(chosen(data, domains, limit), needed_encoder(encoder), told)
    return transfer(found, encoder, folds=folds, seed=seed, told=told)


def tune_command(
    data: str | None,
    out: Path,
    *,
    base: str = BASE,
    domains: Sequence[str] = (),
    limit: int | None = None,
    seed: int = 0,
    told: Told = print,
) -> Path:
    """Tune a language model on the pairs of some domains by the paper's recipe, and write it to the folder `out`.

    Args and errors as above, and:
        base: the model, by its name on the Hugging Face hub or its folder; never downloaded unasked.
    """
    return train_lora(chosen(data, domains, limit), out, base=base, recipe=PAPER._replace(seed=seed), told=told)


def chosen(data: str | None, domains: Sequence[str], limit: int | None) -> list[Pair]:
    """The pairs of some domains, the first `limit` of each. Raises UnknownName for a domain that is not there."""
    pairs = list(cast(RewardPrediction, load_benchmark("rewardprediction", data)).pairs.values())
    known = sorted({pair.domain for pair in pairs})
    if unknown := [domain for domain in domains if domain not in known]:
        raise UnknownName(f"no domain {unknown[0]!r}; there are {', '.join(known)}")
    return [pair for domain in domains or known for pair in [p for p in pairs if p.domain == domain][:limit]]


def print_transfer(done: Transfer) -> None:
    """The matrix: a row for what was trained on, a column for what was rated, and the mean over columns."""
    table = Table("trained on", *done.domains, "overall", title="mean EPIC distance, pooled per task", box=None)
    for name, row in zip(done.trained, done.distances, strict=True):
        table.add_row(name, *(f"{distance:.3f}" for distance in row), f"{done.overall(name):.3f}")
    Console(highlight=False).print(table)
