"""RewardPrediction: build its pairs, and measure how well rewards are predicted on them."""

from pathlib import Path
from typing import Annotated

import typer

from certigraph.cli.options import AsJson, Budgets, Cache, Data, Model, Roles
from certigraph.evaluation.extras import TABLES, equipped

Named = list[str] | None

rewards_app = typer.Typer(help="RewardPrediction: trajectories with rewards, built and predicted.")


@rewards_app.command("build")
def build_command(
    out: Annotated[Path, typer.Argument(metavar="OUT", help="The data's folder; one begun there goes on.")],
    domain: Annotated[Named, typer.Option(metavar="BENCHMARK", help="Again for more; else the five published.")] = None,
    pairs: Annotated[int, typer.Option(min=0, help="Pairs of each domain; 0: as many as published.")] = 0,
    split: Annotated[Named, typer.Option(help="Tasks to draw from; again for more; else as the paper did.")] = None,
    seed: Annotated[int, typer.Option(help="Decides the tasks that are drawn and the random steps.")] = 0,
    data: Data = None,
    at_once: Annotated[int, typer.Option("--at-once", min=1, help="Processes.")] = 1,
    as_json: AsJson = False,
) -> None:
    """Build pairs of trajectories with rewards: OUT/BENCHMARK.jsonl, and OUT/counts.json says what became of them."""
    from certigraph.evaluation.rewards.building import build_all
    from certigraph.evaluation.rewards.dataset import Asked, chosen_domains

    asked = [Asked(name, seed, pairs, tuple(split or ()), data) for name in chosen_domains(domain or ())]
    raise typer.Exit(build_all(asked, out, at_once=at_once, as_json=as_json))


@rewards_app.command("measure")
def measure_command(
    data: Annotated[Path, typer.Argument(metavar="DATA", help="As `rewards build` or the paper's authors lay it out.")],
    predictor: Annotated[
        Named, typer.Option(help="GRAPH, GRAPH:SLOT=OPERATOR+..., NAME=...; again for more; the first is the base.")
    ] = None,
    encoder: Annotated[Named, typer.Option(help="StateFactory by this sentence encoder too; again for more.")] = None,
    domain: Annotated[Named, typer.Option(metavar="BENCHMARK", help="Only its pairs; again for more.")] = None,
    limit: Annotated[int, typer.Option(min=0, help="Pairs of each domain, the first ones; 0: all.")] = 0,
    model: Model = "scripted:expert",
    role: Roles = None,
    budget: Budgets = None,
    cache: Cache = None,
    out: Annotated[Path, typer.Option(help="The measurement's folder; one begun there goes on.")] = Path("rewards"),
    at_once: Annotated[int, typer.Option("--at-once", min=1, help="Processes.")] = 1,
    as_json: AsJson = False,
) -> None:
    """Predict the rewards of recorded trajectories, and say how far they are from the true ones (EPIC distance)."""
    equipped("measurements", *TABLES)
    from certigraph.cli.watched import announce_models
    from certigraph.evaluation.budgets import context_from
    from certigraph.evaluation.rewards.measuring import measure
    from certigraph.evaluation.rewards.predictors import predictors

    announce_models(model, role)
    methods = predictors(predictor or (), encoder or ())
    context = context_from(model, role, str(data), budget, "rewardprediction", cache)
    raise typer.Exit(
        measure(methods, context, out, domains=domain or (), limit=limit, at_once=at_once, as_json=as_json)
    )
