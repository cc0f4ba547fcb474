"""Speed of StateFactory's rewards: milliseconds to route the reward of one step, and trajectories rated per second.

python scripts/rewards_speed.py --tasks 200    # needs the extra `embeddings`
"""

import argparse
import json
from statistics import quantiles
from time import perf_counter

from speed import time_call

from certigraph.adapters.benchmarks import load_benchmark
from certigraph.adapters.encoders import load_encoder
from certigraph.adapters.rewards import route_reward
from certigraph.graphs import statefactory
from certigraph.state.records import Task
from certigraph.state.rewards import Entity, FactoredState, recorded_steps

OBJECTS, ATTRIBUTES, GOAL_OBJECTS = 20, 5, 5
"""Size of the step whose reward is computed: objects of the world, attributes of each object, objects of the goal."""

LAPS = 200
"""How often the reward of one step is computed with cached vectors."""


def measure_routing() -> dict[str, float]:
    """Measure milliseconds for the reward of one step: with cached vectors (p50, p95), and when no text is cached.

    Semantic routing compares the objects of the state with those of the goal.

    Raises:
        Fault: no encoder is installed.
    """
    encode = load_encoder().encode
    encode(["the weights are loaded before the clock runs"])
    goal, state = _build_state(GOAL_OBJECTS, "wanted"), _build_state(OBJECTS, "object")
    cold, *warm = [time_call(lambda: route_reward(goal, state, encode)) for _ in range(LAPS + 1)]
    cuts = quantiles(warm, n=100, method="inclusive")
    return {"routing_p50": cuts[49], "routing_p95": cuts[94], "routing_cold": cold}


def measure_rating(tasks: int) -> dict[str, float]:
    """Measure the trajectories per second that StateFactory rates on the first tasks of `rewardprediction`.

    `cold` is without cached vectors, `warm` with them.
    """
    chosen = list(load_benchmark("rewardprediction").tasks())[:tasks]
    recordings = [[step.recording for step in recorded_steps(task)] for task in chosen]
    trajectories = sum(len(set(steps)) for steps in recordings)
    cold, warm = (trajectories / _time_graph(chosen) for _ in range(2))
    return {"trajectories": trajectories, "steps": sum(map(len, recordings)), "cold": cold, "warm": warm}


def _build_state(count: int, name: str) -> FactoredState:
    return FactoredState(entities=tuple(_build_entity(f"{name} {number}", number) for number in range(count)))


def _build_entity(identity: str, number: int) -> Entity:
    values = {f"quality {k}": f"value {number * k} of {identity}" for k in range(ATTRIBUTES)}
    return Entity(identity=identity, attributes=values)


def _time_graph(tasks: list[Task]) -> float:
    graph, start = statefactory.build(), perf_counter()
    for task in tasks:
        graph.invoke({"task": task})
    return perf_counter() - start


def main() -> None:
    """Measure, and print a line for each figure or one JSON object."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", type=int, default=200, help="number of tasks whose trajectories are rated")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args()
    figures = measure_routing() | measure_rating(options.tasks)
    if options.json:
        print(json.dumps(figures))
        return
    size = f"{OBJECTS} objects x {ATTRIBUTES} attributes against {GOAL_OBJECTS}"
    print(f"routing {size}, ms: {figures['routing_p50']:.2f} (p95 {figures['routing_p95']:.2f},", end=" ")
    print(f"first {figures['routing_cold']:.0f})")
    rated = f"{figures['trajectories']:,} trajectories, {figures['steps']:,} steps"
    print(f"{rated}: {figures['warm']:.0f} a second, {figures['cold']:.1f} without cached vectors")


if __name__ == "__main__":
    main()
