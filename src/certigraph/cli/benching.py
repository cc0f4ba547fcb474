"""Measuring certigraph's own machinery."""

import datetime
from pathlib import Path
from typing import Annotated

import typer

from certigraph.cli.options import AsJson
from certigraph.evaluation.extras import TABLES, equipped


def bench_command(
    supersteps: Annotated[int, typer.Option(min=50, help="Supersteps of each loop.")] = 1_000,
    episodes: Annotated[int, typer.Option(min=0, help="Episodes of an evaluation, one and 16 at once; 0: none.")] = 100,
    big: Annotated[bool, typer.Option(help="Also a store of 300 cities and 3.8 million flights.")] = False,
    retrieval: Annotated[
        int, typer.Option(min=0, metavar="N", help="Instead, search N generated abstracts: 84000, 5200000.")
    ] = 0,
    rewards: Annotated[
        int, typer.Option(min=0, metavar="N", help="Instead, rate the trajectories of N tasks: 200.")
    ] = 0,
    ray: Annotated[
        int, typer.Option(min=0, metavar="N", help="Instead, N episodes by one and by two Ray workers: 64.")
    ] = 0,
    soak: Annotated[
        int, typer.Option(min=0, metavar="N", help="Instead, N episodes of mixed graphs, 200 at once: 10000.")
    ] = 0,
    out: Annotated[Path | None, typer.Option(help="Folder for the figures of a soak.")] = None,
    as_json: AsJson = False,
) -> None:
    """Measure certigraph's own machinery beside a bare LangGraph loop and a plain Python loop."""
    if not (rewards or soak):
        equipped("these measurements", "numpy", *TABLES)
    if retrieval:
        _retrieval(retrieval, as_json)
    elif rewards:
        from certigraph.evaluation.bench.rewards import bench_rewards, print_rewards

        print_rewards(bench_rewards(rewards), as_json=as_json)
    elif ray:
        from certigraph.evaluation.bench.ray import bench_ray, print_ray

        print_ray(bench_ray(ray), as_json=as_json)
    elif soak:
        _soak(soak, out, as_json)
    else:
        from certigraph.evaluation.bench.bench import bench, print_bench

        print_bench(bench(supersteps, big=big, episodes=episodes), as_json=as_json)


def _retrieval(abstracts: int, as_json: bool) -> None:
    from certigraph.evaluation.bench.retrieval import bench_retrieval, print_retrieval

    said = (lambda line: None) if as_json else typer.echo
    print_retrieval(bench_retrieval(abstracts, big=abstracts >= 500_000, said=said), as_json=as_json)


def _soak(episodes: int, out: Path | None, as_json: bool) -> None:
    from certigraph.evaluation.bench.soak import AT_ONCE, DELAY, print_soak, soak
    from certigraph.evaluation.bench.soak_records import Plan

    folder = out or Path(f"soak-{datetime.datetime.now():%Y%m%d-%H%M%S}")
    said = (lambda line: None) if as_json else typer.echo
    print_soak(soak(Plan(episodes, AT_ONCE, DELAY), folder, said=said), as_json=as_json)
