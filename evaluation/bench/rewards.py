"""`certigraph bench --rewards`: what routing a step costs, and how many trajectories StateFactory rates a second."""

import json
from collections.abc import Callable
from statistics import median
from time import perf_counter

import typer
from rich.console import Console
from rich.table import Table

from certigraph.adapters.benchmarks import load_benchmark
from certigraph.adapters.embeddings import needed_encoder
from certigraph.adapters.routing import routed
from certigraph.graphs import statefactory
from certigraph.state.factored import Entity, FactoredState
from certigraph.state.records import Record, Task
from certigraph.state.rewarding import recorded

OBJECTS, ATTRIBUTES, WANTED = 20, 5, 5
"""The step that is routed: objects of the world, attributes of each, goal objects."""

LAPS = 200


class RewardSpeed(Record):
    """Milliseconds of routing one step with all vectors at hand; trajectories a second, first and second time."""

    routing_p50: float
    routing_p95: float
    routing_cold: float
    """Every text new to the encoder, whose weights are loaded."""
    trajectories: int
    steps: int
    cold: float
    warm: float


def bench_rewards(tasks: int) -> RewardSpeed:
    """Measure routing, and StateFactory's graph over the first pairs of `rewardprediction`, in this one process.

    Raises:
        Fault: no encoder is installed.
    """
    encode = needed_encoder().encode
    encode(["the weights are loaded before the clock runs"])
    goal, state = _states(WANTED, "wanted"), _states(OBJECTS, "object")
    first = _milliseconds(lambda: routed(goal, state, encode))
    laps = sorted(_milliseconds(lambda: routed(goal, state, encode)) for _ in range(LAPS))
    chosen = list(load_benchmark("rewardprediction").tasks())[:tasks]
    counts = [[step.recording for step in recorded(task)] for task in chosen]
    trajectories = sum(len(set(count)) for count in counts)
    cold, warm = (trajectories / _seconds(chosen) for _ in range(2))
    return RewardSpeed(
        routing_p50=median(laps),
        routing_p95=laps[int(0.95 * LAPS)],
        routing_cold=first,
        trajectories=trajectories,
        steps=sum(map(len, counts)),
        cold=cold,
        warm=warm,
    )


def print_rewards(done: RewardSpeed, *, as_json: bool) -> None:
    """One JSON object, or a table."""
    if as_json:
        typer.echo(json.dumps(done.as_json()))
        return
    table = Table("what", "warm", "cold", box=None)
    told = f"routing, {OBJECTS} objects x {ATTRIBUTES} attributes against {WANTED}: ms"
    table.add_row(told, f"{done.routing_p50:.2f} (p95 {done.routing_p95:.2f})", f"{done.routing_cold:.0f}")
    many = f"trajectories/s, {done.trajectories:,} of {done.steps:,} steps, one process"
    table.add_row(many, f"{done.warm:.0f}", f"{done.cold:.1f}")
    Console().print(table)


def _states(count: int, name: str) -> FactoredState:
    return FactoredState(entities=tuple(_entity(f"{name} {n}", n) for n in range(count)))


def _entity(identity: str, number: int) -> Entity:
    values = {f"quality {k}": f"value {number * k} of {identity}" for k in range(ATTRIBUTES)}
    return Entity(identity=identity, attributes=values)


def _seconds(tasks: list[Task]) -> float:
    graph, began = statefactory.build(), perf_counter()
    for task in tasks:
        graph.invoke({"task": task})
    return perf_counter() - began


def _milliseconds(call: Callable[[], object]) -> float:
    began = perf_counter()
    call()
    return 1_000 * (perf_counter() - began)
