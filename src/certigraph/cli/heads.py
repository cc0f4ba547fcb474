"""Supervised reward models: train them on RewardPrediction's pairs, and see how they transfer between domains."""

from pathlib import Path
from typing import Annotated

import typer

from certigraph.adapters.embeddings import NAME
from certigraph.adapters.reward_lora import BASE
from certigraph.cli.rewarding import rewards_app
from certigraph.evaluation.extras import TABLES, equipped

__all__ = ["rewards_app"]

Pairs = Annotated[str | None, typer.Argument(metavar="[DATA]", help="The pairs; else CERTIGRAPH_DATA's or generated.")]
Domains = Annotated[list[str] | None, typer.Option(metavar="BENCHMARK", help="Again for more; else all.")]
Encoder = Annotated[str, typer.Option(help="Whose sentence vectors are the features.")]
Folds = Annotated[int, typer.Option(min=1, help="A task is rated by the head that has not seen it; 1: one for all.")]
Limit = Annotated[int, typer.Option(min=0, help="Pairs of each domain, the first ones; 0: all.")]
Seed = Annotated[int, typer.Option(help="Of weights and orders.")]


@rewards_app.command("train")
def train_command(
    data: Pairs = None,
    out: Annotated[Path, typer.Option(help="The file of the heads.")] = Path("head.npz"),
    domain: Domains = None,
    encoder: Encoder = NAME,
    folds: Folds = 5,
    limit: Limit = 0,
    seed: Seed = 0,
) -> None:
    """Train heads to rank steps, on frozen features and a CPU: `reward_head --swap rate=supervised:head=FILE` rates."""
    equipped("reward heads", *TABLES)
    from certigraph.evaluation.rewardheads.command import train_command as train

    domains, most = domain or (), limit or None
    train(data, out, domains=domains, encoder=encoder, folds=folds, limit=most, seed=seed, told=typer.echo)


@rewards_app.command("tune")
def tune_command(
    data: Pairs = None,
    out: Annotated[Path, typer.Option(help="The tuned model's folder.")] = Path("tuned"),
    base: Annotated[str, typer.Option(metavar="MODEL", help="A language model that is here already.")] = BASE,
    domain: Domains = None,
    limit: Limit = 0,
    seed: Seed = 0,
) -> None:
    """Tune a language model by LoRA, on a GPU: `reward_head --swap rate=supervised:head=DIR` rates other domains."""
    from certigraph.evaluation.rewardheads.command import tune_command as tune

    tune(data, out, base=base, domains=domain or (), limit=limit or None, seed=seed, told=typer.echo)


@rewards_app.command("transfer")
def transfer_command(
    data: Pairs = None,
    domain: Domains = None,
    encoder: Encoder = NAME,
    folds: Folds = 5,
    limit: Limit = 0,
    seed: Seed = 0,
    out: Annotated[Path, typer.Option(help="The matrix; in a measurement's folder its page has it.")] = Path("rewards"),
) -> None:
    """Train on each domain and on all of them, and measure each on each: what supervision is worth elsewhere."""
    equipped("reward heads", *TABLES)
    from certigraph.evaluation.rewardheads.command import print_transfer
    from certigraph.evaluation.rewardheads.command import transfer_command as transfer
    from certigraph.evaluation.rewards.reporting import write_transfer

    done = transfer(
        data, domains=domain or (), encoder=encoder, folds=folds, limit=limit or None, seed=seed, told=typer.echo
    )
    print_transfer(done)
    write_transfer(done, out)
