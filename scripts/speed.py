"""Speed of certigraph's own machinery: supersteps, checkpoints, TravelPlanner's database, and complete evaluations.

    python scripts/speed.py --supersteps 1000 --repeats 5 --episodes 100    # two minutes
    python scripts/speed.py --episodes 0 --big --json                       # also a store of 3.8 million flights

SDP's graph, a bare LangGraph loop and a plain Python loop climb the same ladder without a model. Their laps alternate,
so that a change of the machine's speed affects all of them.
"""

import argparse
import asyncio
import json
import random
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from functools import partial
from itertools import permutations
from pathlib import Path
from statistics import median, quantiles
from tempfile import TemporaryDirectory
from time import perf_counter, process_time
from typing import Any, Literal, NamedTuple, TypedDict, cast

import pandas as pd
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.runtime import Runtime
from langgraph.types import Checkpointer
from langgraph.utils.runnable import RunnableCallable

from certigraph.adapters.episodes import close_episode
from certigraph.adapters.protocols import Benchmark, Context, Environment, Limits, Operator
from certigraph.benchmarks.travelplanner import options as trip_options
from certigraph.benchmarks.travelplanner.generator import DATES, draw_world
from certigraph.benchmarks.travelplanner.options import TripLeg
from certigraph.benchmarks.travelplanner.sandbox import SandboxStore, load_store, write_store
from certigraph.evaluation.evaluate import evaluate
from certigraph.graphs import sdp
from certigraph.state.endings import GOAL, Fault
from certigraph.state.records import Action, Observation, Predicate, Scores, Task, Verdict
from certigraph.state.sdp import ProposeView, RealizeView, ValidateView
from certigraph.state.trajectory import serializer

# The world: a ladder with one predicate per rung. It takes almost no time, so that the loop's overhead is measured.


def climb_action(rung: int) -> str:
    """Return the text of the action that climbs to a rung from the rung below."""
    return f"climb to rung {rung}"


def height_after(height: int, text: str) -> int:
    """Return the height after an action, given its text. Only the action for the next rung has an effect."""
    return height + 1 if text == climb_action(height + 1) else height


def describe_height(height: int) -> str:
    """Return the text of the observation at a height."""
    return f"You stand on rung {height}."


class LadderWorld(Environment):
    """One episode of climbing a ladder. `seconds` is the wall-clock time spent inside `reset` and `step`."""

    concurrent, instant = False, True

    def __init__(self, rungs: int) -> None:
        self.rungs, self.height, self.seconds = rungs, 0, 0.0

    def reset(self) -> Observation:
        """Go back to the ground and return the first observation."""
        with self._timed():
            self.height = 0
            return Observation(text=self.view())

    def step(self, action: Action) -> Observation:
        """Execute an action, which climbs at most one rung, and return the observation."""
        with self._timed():
            self.height = height_after(self.height, action.text)
            return Observation(text=self.view(), done=self.height == self.rungs)

    def view(self) -> str:
        """Return the observation at the current height."""
        return describe_height(self.height)

    def admissible(self) -> None:
        """Return None: the world lists no actions."""

    def score(self) -> Scores:
        """Return the share of the rungs that was reached."""
        return Scores(value=self.height / self.rungs)

    def close(self) -> None:
        """Do nothing: the world holds no resources."""

    @contextmanager
    def _timed(self) -> Iterator[None]:
        start = perf_counter()
        yield
        self.seconds += perf_counter() - start


class Ladder(Benchmark):
    """Benchmark with one task: a ladder of `rungs` rungs, climbed without a model."""

    name = "ladder"

    def __init__(self, rungs: int) -> None:
        self.rungs, self.limits = rungs, Limits(steps=rungs)

    def tasks(self, split: str = "") -> Sequence[Task]:
        """Return the only task; its id is the number of rungs."""
        return [Task(benchmark=self.name, id=str(self.rungs), goal=describe_height(self.rungs))]

    def open(self, task: Task) -> LadderWorld:
        """Open an episode on the ground."""
        return LadderWorld(self.rungs)

    def operators(self) -> Mapping[str, Operator]:
        """Return the operators Propose, Realize and Validate; Replan is never needed."""
        return {"propose": _propose, "realize": _realize, "validate": _validate}

    def expert(self) -> None:
        """Return None: no model is used."""


async def _propose(state: ProposeView, runtime: Runtime[Context]) -> dict[str, Any]:
    rungs = range(1, int(state["task"].id) + 1)
    return {"plan": [Predicate(text=describe_height(rung), args={"rung": rung}) for rung in rungs]}


async def _realize(state: RealizeView, runtime: Runtime[Context]) -> dict[str, Any]:
    return {"action": Action(text=climb_action(int(str(state["target"].args["rung"]))))}


async def _validate(state: ValidateView, runtime: Runtime[Context]) -> dict[str, Any]:
    return {"verdict": Verdict(depth=int(state["observation"].text == state["tail"][0].text))}


# The reference loops: the same climb as a bare LangGraph loop and as a plain Python loop.


class ClimbState(TypedDict):
    """Minimal state of the bare LangGraph loop; every field is a channel that holds its last value."""

    rungs: int
    head: int
    height: int
    action: str
    observation: str
    held: bool


def _act(state: ClimbState) -> dict[str, Any]:
    height = height_after(state["height"], state["action"])
    return {"height": height, "observation": describe_height(height)}


CLIMB_NODES: Mapping[str, Callable[[ClimbState], dict[str, Any]]] = {
    "realize": lambda state: {"action": climb_action(state["head"] + 1)},
    "act": _act,
    "validate": lambda state: {"held": state["observation"] == describe_height(state["head"] + 1)},
    "certify": lambda state: {"head": state["head"] + 1},
}
SUPERSTEPS_PER_RUNG = len(CLIMB_NODES)
"""Number of supersteps per rung, the same in every loop."""


def initial_state(rungs: int) -> ClimbState:
    """Return the state of the bare loop before the first step."""
    return ClimbState(rungs=rungs, head=0, height=0, action="", observation=describe_height(0), held=False)


def build_bare_graph(checkpointer: Checkpointer = None) -> CompiledStateGraph[Any, Any, Any, Any]:
    """Build the bare LangGraph loop: four small nodes, which also exist as coroutines, and two conditional edges."""
    builder = StateGraph(ClimbState)
    for name, node in CLIMB_NODES.items():

        async def awaited(state: ClimbState, node: Any = node) -> dict[str, Any]:
            return node(state)

        builder.add_node(name, RunnableCallable(node, awaited, name=name, trace=False))
    builder.add_edge(START, "realize")
    builder.add_edge("realize", "act")
    builder.add_edge("act", "validate")
    builder.add_conditional_edges("validate", lambda state: "certify" if state["held"] else "realize")
    builder.add_conditional_edges("certify", lambda state: END if state["head"] == state["rungs"] else "realize")
    return builder.compile(checkpointer=checkpointer, name="bare")


def run_plain_loop(rungs: int) -> ClimbState:
    """Run the nodes of the bare loop in a Python loop, without a graph."""
    state = initial_state(rungs)
    while state["head"] < rungs:
        for node in CLIMB_NODES.values():
            state = cast(ClimbState, {**state, **node(state)})
    return state


# One timed lap of a loop.


class Loop(NamedTuple):
    """A loop, how it is called, and whether AsyncSqliteSaver saves its checkpoints, with durability "async"."""

    loop: Literal["sdp", "bare", "python"]
    call: Literal["ainvoke", "invoke", "for"]
    saver: bool = False


LOOPS = (
    *(Loop("sdp", "ainvoke"), Loop("bare", "ainvoke"), Loop("sdp", "invoke"), Loop("bare", "invoke")),
    *(Loop("sdp", "ainvoke", saver=True), Loop("bare", "ainvoke", saver=True), Loop("python", "for")),
)


class Lap(NamedTuple):
    """One climb: number of supersteps, milliseconds per superstep, and the same without the time of the world."""

    supersteps: int
    each: float
    own: float


def time_lap(loop: Loop, rungs: int, file: Path | None = None) -> Lap:
    """Time one climb of a ladder; `file` keeps the checkpoints of a loop with a saver.

    Raises:
        Fault: the climb ended below the top.
    """
    if loop.saver:
        with TemporaryDirectory() as folder:
            return asyncio.run(_time_saved(loop, rungs, file or Path(folder) / "checkpoints.sqlite"))
    if loop.loop == "python":
        start = perf_counter()
        run_plain_loop(rungs)
        each = 1_000 * (perf_counter() - start) / (SUPERSTEPS_PER_RUNG * rungs)
        return Lap(SUPERSTEPS_PER_RUNG * rungs, each, each)
    climb = _Climb(loop, rungs)
    if loop.call == "ainvoke":
        return asyncio.run(climb.time_awaited())
    start = perf_counter()
    return climb.finish(start, climb.graph.invoke(climb.input, climb.config, context=climb.context))


async def _time_saved(loop: Loop, rungs: int, file: Path) -> Lap:
    async with AsyncSqliteSaver.from_conn_string(str(file)) as saver:
        saver.serde = serializer()
        await saver.setup()
        return await _Climb(loop, rungs, saver).time_awaited()


class _Climb:
    """A compiled graph, ready to climb, with the arguments for calling it."""

    def __init__(self, loop: Loop, rungs: int, saver: Checkpointer = None) -> None:
        certified, ladder, self.world = loop.loop == "sdp", Ladder(rungs), LadderWorld(rungs)
        self.rungs, self.options = rungs, {"durability": "async"} if saver else {}
        self.graph: Any = sdp.build(saver) if certified else build_bare_graph(saver)
        self.input: Any = {"task": ladder.tasks()[0]} if certified else initial_state(rungs)
        self.context = Context(benchmark=ladder, environment=self.world) if certified else None
        self.supersteps = SUPERSTEPS_PER_RUNG * rungs + 2 * certified  # SDP also resets and proposes
        most = self.supersteps + 2  # `result` too
        self.config: Any = {"configurable": {"thread_id": "speed"}, "recursion_limit": most}

    async def time_awaited(self) -> Lap:
        start = perf_counter()
        state = await self.graph.ainvoke(self.input, self.config, context=self.context, **self.options)
        return self.finish(start, state)

    def finish(self, start: float, state: dict[str, Any]) -> Lap:
        seconds = perf_counter() - start
        close_episode(state.get("episode", ""))
        if state["head"] < self.rungs:
            raise Fault("operator", f"{self.graph.name} ended at rung {state['head']} of {self.rungs}; see its state")
        each, world = (1_000 * amount / self.supersteps for amount in (seconds, self.world.seconds))
        return Lap(self.supersteps, each, each - world)


def measure_loops(rungs: int, repeats: int) -> list[dict[str, Any]]:
    """Measure wall-clock milliseconds per superstep of each of LOOPS.

    `own` is the median without the time of the world, and `ratio` the time of SDP's graph relative to the bare loop
    with the same call: the median over the repetitions.

    Raises:
        Fault: a loop did not reach the top of the ladder.
    """
    for loop in LOOPS:
        time_lap(loop, 1)  # a first call includes imports and cold caches
    rounds = [{loop: time_lap(loop, rungs) for loop in LOOPS} for _ in range(repeats)]
    rows = []
    for loop in LOOPS:
        laps, bare = [laps[loop] for laps in rounds], loop._replace(loop="bare")
        times = {"best": min(lap.each for lap in laps), "median": median(lap.each for lap in laps)}
        ratio = median(laps[loop].each / laps[bare].each for laps in rounds) if loop.loop == "sdp" else None
        own = median(lap.own for lap in laps)
        rows.append({**loop._asdict(), "supersteps": laps[0].supersteps, **times, "own": own, "ratio": ratio})
    return rows


def measure_checkpoints(rungs: int) -> dict[str, int]:
    """Run SDP once with checkpoints in SQLite, and measure the bytes of data (`payload`) and of the file."""
    with TemporaryDirectory() as folder:
        file = Path(folder) / "checkpoints.sqlite"
        supersteps = time_lap(Loop("sdp", "ainvoke", saver=True), rungs, file).supersteps
        sums = ("sum(length(checkpoint) + length(metadata)) FROM checkpoints", "sum(length(value)) FROM writes")
        with closing(sqlite3.connect(file)) as connection:
            payload = sum(connection.execute(f"SELECT {columns}").fetchone()[0] for columns in sums)
        return {"supersteps": supersteps, "payload": payload, "file": file.stat().st_size}


# Latency of TravelPlanner's database, the store; one option query returns all candidates for one predicate.

OPENINGS, LEGS, PEOPLE, NIGHTS = 50, 300, 2, 3
"""How often a store is opened, number of trip legs that are queried, and group size and nights of a query."""

USUAL_SIZE, BIG_SIZE = (24, 16_560), (300, 3_800_000)
"""Numbers of cities and flights of a generated store."""


def measure_store(cities: int, flights: int) -> list[dict[str, Any]]:
    """Generate a store, and measure the milliseconds to open it and to query transport, stays and places.

    No city and no pair of cities is queried twice, so that caches do not help.
    """
    with TemporaryDirectory() as folder:
        file = Path(folder) / "store.sqlite"
        write_store(file, draw_world(0, cities, flights).tables())
        times = {"open": [time_call(lambda: load_store(file).close()) for _ in range(OPENINGS)]}
        with closing(load_store(file)) as store:
            times["option query"] = [time_call(query) for query in _option_queries(store)]
    return [
        {"operation": operation, "flights": flights, "samples": len(samples), "p50": cuts[49], "p95": cuts[94]}
        for operation, samples in times.items()
        for cuts in [quantiles(samples, n=100, method="inclusive")]
    ]


def _option_queries(store: SandboxStore) -> Iterator[Callable[[], object]]:
    dice, cities = random.Random(0), store.cities()
    for origin, destination in dice.sample(list(permutations(cities, 2)), LEGS):
        yield partial(trip_options.list_transports, TripLeg(1, origin, destination, dice.choice(DATES)), PEOPLE, store)
    for city in cities:
        yield partial(trip_options.list_stays, city, PEOPLE, NIGHTS, store)
        yield partial(trip_options.list_restaurants, city, PEOPLE, store)
        yield partial(trip_options.list_attractions, city, store)


def time_call(call: Callable[[], object]) -> float:
    """Return the wall-clock milliseconds of a call."""
    start = perf_counter()
    call()
    return 1_000 * (perf_counter() - start)


def measure_evaluation(episodes: int, at_once: int) -> dict[str, float]:
    """Evaluate SDP under inspect_ai on `episodes` scripted BlocksWorld tasks of three to six blocks.

    Raises:
        Fault: a run did not reach its goal, or the package `inspect_ai` is missing.
    """
    ids = [f"{3 + number % 4}-{number}" for number in range(episodes)]
    with TemporaryDirectory() as out:
        start, cpu = perf_counter(), process_time()
        done = evaluate("sdp", "blocksworld", ids=ids, out=out, max_samples=at_once, quiet=True)
        seconds, cpu = perf_counter() - start, process_time() - cpu
    if done.endings != {GOAL: episodes}:
        raise Fault("operator", f"not all of {episodes} runs reached the goal: {done.endings}; see `certigraph run`")
    return {"at_once": at_once, "episodes": episodes, "seconds": seconds, "cpu": cpu}


def measure_all(supersteps: int, repeats: int, *, big: bool = False, episodes: int = 0) -> dict[str, list[Any]]:
    """Measure everything; `supersteps` is rounded down to a multiple of four."""
    rungs = max(supersteps // SUPERSTEPS_PER_RUNG, 1)
    if episodes:
        measure_evaluation(1, 1)  # loads inspect_ai
    return {
        "speeds": measure_loops(rungs, repeats),
        "payloads": [measure_checkpoints(max(rungs // part, 1)) for part in (4, 2, 1)],
        "latencies": [row for size in (USUAL_SIZE, *[BIG_SIZE] * big) for row in measure_store(*size)],
        "throughputs": [measure_evaluation(episodes, at_once) for at_once in (1, 16) if episodes],
    }


def main() -> None:
    """Measure, and print the tables or one JSON object."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--supersteps", type=int, default=1_000, help="supersteps of each loop")
    parser.add_argument("--repeats", type=int, default=5, help="how often each loop is timed")
    parser.add_argument(
        "--episodes", type=int, default=100, help="episodes of an evaluation, one and 16 at once; 0: none"
    )
    parser.add_argument("--big", action="store_true", help="also measure a store of 300 cities and 3.8 million flights")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args()
    tables = measure_all(options.supersteps, options.repeats, big=options.big, episodes=options.episodes)
    if options.json:
        print(json.dumps(tables))
        return
    titles = ("Milliseconds per superstep", "Bytes of checkpoints", "Milliseconds of TravelPlanner's store", "Seconds")
    for title, rows in zip(titles, tables.values(), strict=True):
        if rows:
            print(f"{title}\n{pd.DataFrame(rows).to_string(index=False, na_rep='', float_format='{:.3g}'.format)}\n")


if __name__ == "__main__":
    main()
