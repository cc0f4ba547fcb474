"""The command `certigraph bench`: measures the speed of certigraph itself.

It measures the overhead per superstep of a graph, checkpoint sizes, TravelPlanner's database, episodes per minute,
StateFactory's rewards, and workers on Ray.
"""

import json
import random
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from functools import partial
from itertools import permutations
from pathlib import Path
from statistics import median, quantiles
from tempfile import TemporaryDirectory
from time import perf_counter, process_time
from typing import Literal, NamedTuple

import typer
from rich.console import Console, Group
from rich.table import Table

from certigraph.adapters.benchmarks import load_benchmark
from certigraph.adapters.matching import load_encoder
from certigraph.adapters.rewards import route_reward
from certigraph.adapters.travelplanner import options
from certigraph.adapters.travelplanner.generator import DATES, generate_store
from certigraph.adapters.travelplanner.options import TripLeg
from certigraph.adapters.travelplanner.sandbox import SandboxStore, load_store
from certigraph.evaluation.bench_loops import SUPERSTEPS_PER_RUNG, Lap, LoopName, LoopSetting, time_lap, time_saved_lap
from certigraph.evaluation.evaluate import evaluate
from certigraph.evaluation.soak import slow_endpoint, use_endpoint
from certigraph.evaluation.workers import LOCAL_CLUSTER
from certigraph.graphs import statefactory
from certigraph.state.records import GOAL, Fault, Record, Task
from certigraph.state.rewards import Entity, FactoredState, recorded_steps

# Time per superstep of SDP's graph, a bare LangGraph loop and a plain Python loop, in alternating laps.

LOOP_SETTINGS = (
    LoopSetting("sdp", "ainvoke"),
    LoopSetting("bare", "ainvoke"),
    LoopSetting("sdp", "invoke"),
    LoopSetting("bare", "invoke"),
    LoopSetting("sdp", "ainvoke", saver=True),
    LoopSetting("bare", "ainvoke", saver=True),
    LoopSetting("python", "for"),
)


class SuperstepSpeed(Record):
    """Wall-clock milliseconds per superstep of one loop (a graph or a plain Python loop) with one kind of call."""

    loop: LoopName
    call: Literal["ainvoke", "invoke", "for"]
    saver: bool
    """Whether AsyncSqliteSaver saved checkpoints in a file, with durability "async"."""
    supersteps: int
    best: float
    median: float
    own: float
    """Median without the time that the world takes; there are no model calls."""
    ratio: float | None = None
    """Time of SDP's graph relative to the bare LangGraph loop with the same kind of call: median over repetitions."""


def measure_speeds(rungs: int, repetitions: int) -> list[SuperstepSpeed]:
    """Measure the time per superstep of each loop in LOOP_SETTINGS on a task of `rungs` predicates, a ladder.

    Raises:
        Fault: a loop did not reach the top of the ladder.
    """
    for setting in LOOP_SETTINGS:
        time_lap(setting, 1)  # warm-up: a first call includes imports and cold caches
    rounds = [{setting: time_lap(setting, rungs) for setting in LOOP_SETTINGS} for _ in range(repetitions)]
    return [_speed_of_setting(setting, rounds) for setting in LOOP_SETTINGS]


def _speed_of_setting(setting: LoopSetting, rounds: Sequence[Mapping[LoopSetting, Lap]]) -> SuperstepSpeed:
    laps = [laps[setting] for laps in rounds]
    return SuperstepSpeed(
        **setting._asdict(),
        supersteps=laps[0].supersteps,
        best=min(lap.each for lap in laps),
        median=median(lap.each for lap in laps),
        own=median(lap.own for lap in laps),
        ratio=_ratio_to_bare(setting, rounds) if setting.loop == "sdp" else None,
    )


def _ratio_to_bare(setting: LoopSetting, rounds: Sequence[Mapping[LoopSetting, Lap]]) -> float:
    bare = setting._replace(loop="bare")
    return median(laps[setting].each / laps[bare].each for laps in rounds)


# Episodes per minute of a complete evaluation, including Inspect, with a scripted model.

CONCURRENCY_LEVELS = (1, 16)
"""Numbers of concurrent runs that are measured."""

BLOCK_COUNTS = range(3, 7)
"""Numbers of blocks in the BlocksWorld tasks."""


class Throughput(Record):
    """Wall-clock seconds and processor seconds (`cpu`) of one evaluation of SDP on generated BlocksWorld tasks."""

    at_once: int
    episodes: int
    seconds: float
    cpu: float

    @property
    def each(self) -> float:
        """Wall-clock milliseconds per episode."""
        return 1_000 * self.seconds / self.episodes

    @property
    def cpu_each(self) -> float:
        """Milliseconds of processor time per episode."""
        return 1_000 * self.cpu / self.episodes


def measure_throughputs(episodes: int) -> list[Throughput]:
    """Evaluate SDP on `episodes` BlocksWorld tasks, once with one run at a time and once with sixteen.

    Raises:
        Fault: a run did not reach its goal, or the package `inspect_ai` is missing.
    """
    _measure_throughput(1, 1)  # warm-up: loads Inspect and fills caches
    return [_measure_throughput(episodes, at_once) for at_once in CONCURRENCY_LEVELS]


def _measure_throughput(episodes: int, at_once: int) -> Throughput:
    ids = [f"{BLOCK_COUNTS[number % len(BLOCK_COUNTS)]}-{number}" for number in range(episodes)]
    with TemporaryDirectory() as out:
        start, cpu = perf_counter(), process_time()
        done = evaluate("sdp", "blocksworld", ids=ids, out=out, max_samples=at_once, quiet=True)
        seconds, cpu = perf_counter() - start, process_time() - cpu
    if done.endings != {GOAL: episodes}:
        raise Fault("operator", f"not all of {episodes} runs reached the goal: {done.endings}; see `certigraph run`")
    return Throughput(at_once=at_once, episodes=episodes, seconds=seconds, cpu=cpu)


# Latency of TravelPlanner's database, the store; one option query returns all candidates for one predicate.

OPENINGS, LEGS, PEOPLE, NIGHTS = 50, 300, 2, 3
"""How often a store is opened, number of trip legs that are queried, and group size and nights of a query."""


class StoreSize(NamedTuple):
    """Size of a generated store (TravelPlanner's database)."""

    cities: int
    flights: int


USUAL_SIZE, BIG_SIZE = StoreSize(24, 16_560), StoreSize(300, 3_800_000)


class StoreLatency(Record):
    """Latency of one operation on a store with `flights` flights, in milliseconds: median and 95th percentile."""

    operation: str
    flights: int
    samples: int
    p50: float
    p95: float


def measure_store(size: StoreSize) -> list[StoreLatency]:
    """Generate a store, and measure how long it takes to open it and to query transport, stays and places.

    No city and no pair of cities is queried twice, so that caches do not help.
    """
    with TemporaryDirectory() as folder:
        path = Path(folder) / "store.sqlite"
        generate_store(path, cities=size.cities, flights=size.flights)
        openings = [_time_call(lambda: load_store(path).close()) for _ in range(OPENINGS)]
        with closing(load_store(path)) as store:
            queries = [_time_call(query) for query in _option_queries(store)]
    return [_latency_of("open", size, openings), _latency_of("option query", size, queries)]


def _option_queries(store: SandboxStore) -> Iterator[Callable[[], object]]:
    dice, cities = random.Random(0), store.cities()
    for origin, destination in dice.sample(list(permutations(cities, 2)), LEGS):
        yield partial(options.list_transports, TripLeg(1, origin, destination, dice.choice(DATES)), PEOPLE, store)
    for city in cities:
        yield partial(options.list_stays, city, PEOPLE, NIGHTS, store)
        yield partial(options.list_restaurants, city, PEOPLE, store)
        yield partial(options.list_attractions, city, store)


def _time_call(call: Callable[[], object]) -> float:
    start = perf_counter()
    call()
    return 1_000 * (perf_counter() - start)


def _latency_of(operation: str, size: StoreSize, samples: list[float]) -> StoreLatency:
    cuts = quantiles(samples, n=100, method="inclusive")
    return StoreLatency(operation=operation, flights=size.flights, samples=len(samples), p50=cuts[49], p95=cuts[94])


# The complete benchmark. All loops climb the same ladder without a model; their laps alternate, so that a change of the
# machine's speed affects all of them.


class CheckpointPayload(Record):
    """Size of the checkpoints of one run of SDP: bytes of data (`payload`) and of the SQLite file (`file`)."""

    supersteps: int
    payload: int
    file: int

    @property
    def per_superstep(self) -> float:
        """Bytes of payload per superstep; it does not depend on the length of the run if the growth is linear."""
        return self.payload / self.supersteps


class BenchResult(Record):
    """Results of one run of the benchmark."""

    speeds: tuple[SuperstepSpeed, ...]
    payloads: tuple[CheckpointPayload, ...]
    latencies: tuple[StoreLatency, ...]
    throughputs: tuple[Throughput, ...] = ()


def run_bench(supersteps: int = 1_000, *, repetitions: int = 5, big: bool = False, episodes: int = 0) -> BenchResult:
    """Measure speed, checkpoint size, the TravelPlanner store and complete evaluations.

    Args:
        supersteps: supersteps of each loop, rounded down to a multiple of four.
        repetitions: how often each loop is timed.
        big: also measure a store of 300 cities and 3.8 million flights, which takes minutes to build.
        episodes: episodes of an evaluation under Inspect, one at a time and sixteen at once; 0: no evaluation.

    Raises:
        Fault: a loop did not reach the top of the ladder.
    """
    rungs = max(supersteps // SUPERSTEPS_PER_RUNG, 1)
    return BenchResult(
        speeds=tuple(measure_speeds(rungs, repetitions)),
        payloads=tuple(measure_payload(max(rungs // part, 1)) for part in (4, 2, 1)),
        latencies=tuple(
            latency for size in ([USUAL_SIZE, BIG_SIZE] if big else [USUAL_SIZE]) for latency in measure_store(size)
        ),
        throughputs=tuple(measure_throughputs(episodes)) if episodes else (),
    )


def measure_payload(rungs: int) -> CheckpointPayload:
    """Run SDP once on a ladder of `rungs` rungs with checkpoints in SQLite, and measure the size of the checkpoints."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "checkpoints.sqlite"
        supersteps = time_saved_lap("sdp", rungs, path).supersteps
        with closing(sqlite3.connect(path)) as connection:
            stored = sum(connection.execute(query).fetchone()[0] for query in _PAYLOAD_QUERIES)
        return CheckpointPayload(supersteps=supersteps, payload=stored, file=path.stat().st_size)


def print_bench(done: BenchResult, *, as_json: bool) -> None:
    """Print the results as one JSON object or as tables."""
    if as_json:
        typer.echo(json.dumps(done.as_json()))
    else:
        Console().print(bench_table(done))


def bench_table(done: BenchResult) -> Group:
    """Format the results of the benchmark as tables."""
    speeds = Table("loop", "call", "checkpoints", "supersteps", "best ms", "median ms", "own ms", "x bare", box=None)
    for s in done.speeds:
        times = [f"{ms:.2g}" if s.loop == "python" else f"{ms:.2f}" for ms in (s.best, s.median, s.own)]
        ratio = f"{s.ratio:.2f}" if s.ratio else ""
        speeds.add_row(s.loop, s.call, "sqlite" if s.saver else "none", f"{s.supersteps:,}", *times, ratio)
    payloads = Table("checkpoints of", "kB", "bytes each", "file kB", box=None)
    for p in done.payloads:
        kilobytes = (p.payload / 1_000, p.file / 1_000)
        payloads.add_row(f"{p.supersteps:,}", f"{kilobytes[0]:,.0f}", f"{p.per_superstep:,.0f}", f"{kilobytes[1]:,.0f}")
    stores = Table("TravelPlanner store", "flights", "p50 ms", "p95 ms", box=None)
    for x in done.latencies:
        stores.add_row(x.operation, f"{x.flights:,}", f"{x.p50:.3f}", f"{x.p95:.3f}")
    return Group("Milliseconds per superstep", speeds, "", payloads, "", stores, *_throughput_table(done))


def _throughput_table(done: BenchResult) -> Iterator[Table | str]:
    if not done.throughputs:
        return
    table = Table("episodes", "at once", "seconds", "ms each", "CPU ms each", box=None)
    for x in done.throughputs:
        table.add_row(f"{x.episodes:,}", str(x.at_once), f"{x.seconds:.1f}", f"{x.each:.1f}", f"{x.cpu_each:.1f}")
    yield from ("", table)


_PAYLOAD_QUERIES = (
    "SELECT sum(length(checkpoint) + length(metadata)) FROM checkpoints",
    "SELECT sum(length(value)) FROM writes",
)


# `certigraph bench --rewards`: time to compute the reward of a step by semantic routing (comparing the objects of the
# state with those of the goal), and number of trajectories that StateFactory rates per second.

OBJECTS, ATTRIBUTES, GOAL_OBJECTS = 20, 5, 5
"""Size of the step whose reward is computed: objects of the world, attributes of each object, objects of the goal."""

ROUTING_LAPS = 200
"""How often the reward of one step is computed for the timing."""


class RewardSpeed(Record):
    """Speed of StateFactory's rewards.

    `routing_p50` and `routing_p95` are milliseconds to compute the reward of one step with cached vectors. `cold` and
    `warm` are trajectories per second without and with cached vectors.
    """

    routing_p50: float
    routing_p95: float
    routing_cold: float
    """Milliseconds for one step when no text is cached; the encoder's weights are loaded before."""
    trajectories: int
    steps: int
    cold: float
    warm: float


def bench_rewards(tasks: int) -> RewardSpeed:
    """Measure the reward of one step, and StateFactory's graph on the first `tasks` tasks of `rewardprediction`.

    Raises:
        Fault: no encoder is installed.
    """
    encode = load_encoder().encode
    encode(["the weights are loaded before the clock runs"])
    goal, state = _build_state(GOAL_OBJECTS, "wanted"), _build_state(OBJECTS, "object")
    first = _time_call(lambda: route_reward(goal, state, encode))
    laps = sorted(_time_call(lambda: route_reward(goal, state, encode)) for _ in range(ROUTING_LAPS))
    chosen = list(load_benchmark("rewardprediction").tasks())[:tasks]
    counts = [[step.recording for step in recorded_steps(task)] for task in chosen]
    trajectories = sum(len(set(count)) for count in counts)
    cold, warm = (trajectories / _time_graph(chosen) for _ in range(2))
    return RewardSpeed(
        routing_p50=median(laps),
        routing_p95=laps[int(0.95 * ROUTING_LAPS)],
        routing_cold=first,
        trajectories=trajectories,
        steps=sum(map(len, counts)),
        cold=cold,
        warm=warm,
    )


def print_rewards(done: RewardSpeed, *, as_json: bool) -> None:
    """Print the results as one JSON object or as a table."""
    if as_json:
        typer.echo(json.dumps(done.as_json()))
        return
    table = Table("what", "warm", "cold", box=None)
    routing = f"routing, {OBJECTS} objects x {ATTRIBUTES} attributes against {GOAL_OBJECTS}: ms"
    table.add_row(routing, f"{done.routing_p50:.2f} (p95 {done.routing_p95:.2f})", f"{done.routing_cold:.0f}")
    rating = f"trajectories/s, {done.trajectories:,} of {done.steps:,} steps, one process"
    table.add_row(rating, f"{done.warm:.0f}", f"{done.cold:.1f}")
    Console().print(table)


def _build_state(count: int, name: str) -> FactoredState:
    return FactoredState(entities=tuple(_build_entity(f"{name} {n}", n) for n in range(count)))


def _build_entity(identity: str, number: int) -> Entity:
    values = {f"quality {k}": f"value {number * k} of {identity}" for k in range(ATTRIBUTES)}
    return Entity(identity=identity, attributes=values)


def _time_graph(tasks: list[Task]) -> float:
    graph, start = statefactory.build(), perf_counter()
    for task in tasks:
        graph.invoke({"task": task})
    return perf_counter() - start


# `certigraph bench --ray`: episodes per minute without Ray, and with one and two workers on this machine.

REPLY_DELAY = 0.2
"""Seconds that the simulated model endpoint takes for a reply."""

WORKER_COUNTS = (0, 1, 2)
"""Numbers of worker processes that are compared; 0: runs are executed in the process of the evaluation, without Ray."""

WARM_UP_RUNS = 16
"""Number of runs at the beginning that are not timed, while workers start and caches fill."""

RAY_BLOCKS = 4

Workload = Literal["waiting", "scripted"]
"""Kind of episodes: `waiting` for a model's replies most of the time, or `scripted`, which only uses the processor."""

WORKLOAD_MODELS: dict[Workload, str] = {"waiting": "openai:loopback", "scripted": "scripted:expert"}

RAY_CONCURRENCY: dict[Workload, int] = {"waiting": 4, "scripted": 2}
"""Number of concurrent runs on a worker, or in the process of the evaluation without Ray, by kind of episodes."""


class RayThroughput(Record):
    """Wall-clock seconds of one evaluation of SDP on generated BlocksWorld tasks, after the warm-up runs."""

    work: Workload
    workers: int
    episodes: int
    seconds: float

    @property
    def rate(self) -> float:
        """Episodes per minute."""
        return 60 * self.episodes / self.seconds


def bench_ray(episodes: int, *, laps: int = 3) -> list[RayThroughput]:
    """Measure SDP on `episodes` BlocksWorld tasks without Ray, and with one and two Ray workers.

    The settings alternate over the laps, so that a change of the machine's speed affects all of them.

    Raises:
        Fault: Ray is missing, or a run did not reach its goal.
    """
    with slow_endpoint(REPLY_DELAY) as url, use_endpoint(url):
        return [
            _evaluate_on_ray(work, count, episodes)
            for _ in range(laps)
            for work in WORKLOAD_MODELS
            for count in WORKER_COUNTS
        ]


def print_ray(done: Sequence[RayThroughput], *, as_json: bool) -> None:
    """Print the results as one JSON object or as a table."""
    if as_json:
        typer.echo(
            json.dumps(
                {
                    "laps": [lap.as_json() for lap in done],
                    "ratios": {w: worker_ratios(done, w) for w in WORKLOAD_MODELS},
                }
            )
        )
        return
    table = Table("episodes", "without Ray", "1 worker", "2 workers", "2 over 1, lap by lap", box=None)
    for work in WORKLOAD_MODELS:
        rates = (f"{median(_rates(done, work, count)):,.0f}" for count in WORKER_COUNTS)
        table.add_row(work, *rates, ", ".join(f"{ratio:.2f}" for ratio in worker_ratios(done, work)))
    Console().print("Episodes a minute, median of the laps", table)


def worker_ratios(done: Sequence[RayThroughput], work: Workload) -> list[float]:
    """Compute the rate (episodes per minute) of two workers relative to that of one worker, for each lap."""
    return [two / one for one, two in zip(_rates(done, work, 1), _rates(done, work, 2), strict=True)]


def _rates(done: Sequence[RayThroughput], work: Workload, workers: int) -> list[float]:
    return [lap.rate for lap in done if (lap.work, lap.workers) == (work, workers)]


def _evaluate_on_ray(work: Workload, workers: int, episodes: int) -> RayThroughput:
    ids = [f"{RAY_BLOCKS}-{number}" for number in range(WARM_UP_RUNS + episodes)]
    ray, at_once = LOCAL_CLUSTER if workers else None, RAY_CONCURRENCY[work] * max(workers, 1)
    with TemporaryDirectory() as out:
        done = evaluate(
            model=WORKLOAD_MODELS[work],
            ids=ids,
            out=out,
            ray=ray,
            workers=workers or None,
            max_samples=at_once,
            quiet=True,
        )
        ended = sorted(path.stat().st_mtime for path in Path(out).glob("*/trajectory.jsonl"))
    if done.endings != {GOAL: len(ids)}:
        raise Fault("operator", f"not all of {len(ids)} runs reached the goal: {done.endings}; see `certigraph run`")
    return RayThroughput(work=work, workers=workers, episodes=episodes, seconds=ended[-1] - ended[WARM_UP_RUNS - 1])
