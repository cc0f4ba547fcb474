"""ScienceWorld's simulators: a limit, a queue, worlds that lose theirs and replay, idle ones that are closed."""

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from certigraph.adapters.episodes import new_scope
from certigraph.adapters.models.chat_models import chat_model
from certigraph.adapters.processes import run_in_waiting_thread
from certigraph.adapters.protocols import Context
from certigraph.benchmarks.scienceworld import pool as pools
from certigraph.benchmarks.scienceworld.benchmark import ScienceWorldBenchmark
from certigraph.benchmarks.scienceworld.pool import SimulatorPool, simulator_limit
from certigraph.benchmarks.scienceworld.splits import SPLITS
from certigraph.benchmarks.scienceworld.world import ScienceWorld
from certigraph.graphs import mcts, react
from certigraph.runtime.run import arun
from certigraph.state.endings import Fault
from certigraph.state.records import Action, Task

KITCHEN = "This room is called the kitchen. In it, you see: \n\tan orange"
SETTING = SPLITS["variation-0"].setting("boil", 0)


class Simulator:
    """Counts its steps; at the tenth the task is done."""

    running = most = 0
    lock = threading.Lock()

    def __init__(self, seconds: float = 0.0) -> None:
        with self.lock:
            Simulator.running += 1
            Simulator.most = max(Simulator.most, Simulator.running)
        time.sleep(seconds)
        self.alive, self.steps, self.in_call = True, 0, threading.Lock()

    def load(self, task: str, variation: int, simplification: str) -> str:
        self.steps = 0
        return KITCHEN

    def step(self, text: str) -> str:
        assert self.in_call.acquire(blocking=False), "two threads use one simulator"
        self.steps += 1
        time.sleep(0.001)
        self.in_call.release()
        return f"Step {self.steps}: {text}"

    def score(self) -> int:
        return 10 * self.steps

    def moves(self) -> int:
        return self.steps

    def look(self) -> str:
        return KITCHEN

    def inventory(self) -> str:
        return ""

    def valid_actions(self) -> list[str]:
        return ["wait", "look around"]

    def description(self) -> str:
        return "Your task is to wait."

    def close(self) -> None:
        if self.alive:
            self.alive = False
            with self.lock:
                Simulator.running -= 1


@pytest.fixture(autouse=True)
def counted() -> Iterator[None]:
    Simulator.running = Simulator.most = 0
    yield
    assert becomes(lambda: Simulator.running == 0), "a simulator was left behind"


def becomes(true: Callable[[], bool], within: float = 5.0) -> bool:
    deadline = time.monotonic() + within
    while not true() and time.monotonic() < deadline:
        time.sleep(0.01)
    return true()


@pytest.fixture
def pool() -> SimulatorPool:
    return SimulatorPool(Simulator, max_free=1, limit=2, linger=0.05, idle=30.0, patience=0.6)


def opened(pool: SimulatorPool) -> ScienceWorld:
    world = ScienceWorld(SETTING, pool)
    world.reset()
    return world


def step(world: ScienceWorld, text: str = "wait") -> str:
    return world.step(Action(text=text)).text


def test_never_more_than_the_limit_run_and_everybody_has_a_turn(pool: SimulatorPool):
    def episode(_: int) -> float:
        world = opened(pool)
        while not world.step(Action(text="wait")).done:
            world.view()
        world.close()
        return world.score().value

    with ThreadPoolExecutor(12) as threads:
        assert list(threads.map(episode, range(24))) == [1.0] * 24
    assert Simulator.most == 2


@pytest.mark.slow
def test_a_world_that_is_not_used_lends_its_simulator_and_continues_where_it_was(pool: SimulatorPool):
    first = opened(pool)
    seen = [step(first), step(first), first.view()]
    rest = [opened(pool) for _ in range(3)]
    for world in rest:
        assert step(world) == "Step 1: wait"
    assert step(first) == "Step 3: wait"
    assert first.view().partition("Score")[0] == seen[-1].partition("Score")[0]
    assert first.tally.calls == 3
    for world in (first, *rest):
        world.close()
    assert Simulator.most == 2


def test_a_run_that_needs_a_second_one_takes_its_own_at_once():
    pool = SimulatorPool(Simulator, max_free=1, limit=1, linger=0.05, patience=60.0)
    scope = new_scope()
    began = time.monotonic()
    with scope.active():
        live = opened(pool)
        step(live)
        copy = opened(pool)
        assert step(copy) == "Step 1: wait"
        assert step(live) == "Step 2: wait"
        assert step(copy) == "Step 2: wait"
    assert time.monotonic() - began < 2
    live.close()
    copy.close()
    assert Simulator.most == 1


@pytest.mark.slow
def test_a_replay_that_differs_is_a_fault(pool: SimulatorPool):
    world = opened(pool)
    step(world)
    world._inputs = [("wait", "something else")]
    rest = [opened(pool) for _ in range(2)]
    with pytest.raises(Fault, match="step 1 was replayed"):
        step(world)
    for each in (world, *rest):
        each.close()


@pytest.mark.slow
def test_a_world_in_the_middle_of_a_call_keeps_its_simulator_and_the_wait_ends_with_what_to_set():
    pool = SimulatorPool(Simulator, max_free=0, limit=1, patience=0.0, wait=0.3)
    world = opened(pool)
    with world._lock:
        with (
            ThreadPoolExecutor(1) as thread,
            pytest.raises(Fault, match=r"CERTIGRAPH_SIMULATORS=2.*--max-samples") as fault,
        ):
            thread.submit(opened, pool).result()
        assert fault.value.ending == "error:environment"
    world.close()
    opened(pool).close()


@pytest.mark.slow
def test_what_nobody_has_is_closed_soon_and_what_nobody_uses_later():
    pool = SimulatorPool(Simulator, max_free=4, limit=4, linger=0.1, idle=0.4)
    world = opened(pool)
    opened(pool).close()
    assert Simulator.running == 2
    assert becomes(lambda: Simulator.running == 1, within=0.35), "it lingers a moment for the next borrower"
    assert becomes(lambda: Simulator.running == 0), "a world that is not used loses it"
    assert step(world) == "Step 1: wait"
    world.close()


def test_a_start_that_fails_lets_the_next_begin():
    starts = iter([Fault("environment", "no Java"), Simulator])

    def start() -> Simulator:
        found: Any = next(starts)
        if isinstance(found, Fault):
            raise found
        return Simulator()

    pool = SimulatorPool(start, max_free=0, limit=1)
    with pytest.raises(Fault, match="no Java"):
        pool.borrow()
    pool.give_back(pool.borrow())


def test_whoever_is_cancelled_leaves_the_queue():
    pool = SimulatorPool(Simulator, max_free=0, limit=1, patience=60.0)
    lent = pool.borrow()

    async def cancelled() -> None:
        waiting = asyncio.create_task(run_in_waiting_thread(pool.borrow))
        await asyncio.sleep(0.05)
        waiting.cancel()
        await asyncio.wait([waiting])

    asyncio.run(cancelled())
    assert becomes(lambda: not pool._queue)
    pool.give_back(lent)


def test_the_limit_is_a_setting(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("CERTIGRAPH_SIMULATORS", "12")
    assert simulator_limit() == 12
    for given in ("0", "-1", "many", "1.5", "²"):
        monkeypatch.setenv("CERTIGRAPH_SIMULATORS", given)
        with pytest.raises(Fault, match="CERTIGRAPH_SIMULATORS"):
            simulator_limit()


def test_without_the_setting_half_of_the_memory_holds_them(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("CERTIGRAPH_SIMULATORS", raising=False)
    for gigabytes, limit in ((64, 8), (4, 4), (1, 1), (0.25, 1)):
        monkeypatch.setattr(pools, "_physical_memory", lambda gigabytes=gigabytes: int(gigabytes * 1024**3))
        assert simulator_limit() == limit


class Waiting(ScienceWorldBenchmark):
    """ScienceWorld over the counting simulators."""

    def __init__(self, pool: SimulatorPool) -> None:
        super().__init__()
        self.pool, self.opened = pool, 0

    def task(self, task_id: str) -> Task:
        return Task(benchmark="scienceworld", id=task_id, goal="Wait.", constants=SETTING.model_dump())

    def open(self, task: Task) -> ScienceWorld:
        self.opened += 1
        return ScienceWorld(SETTING, self.pool)

    def expert(self) -> None:
        """None: the first action is as good as any."""


@pytest.mark.slow
def test_graphs_at_once_share_the_simulators_and_leave_none(pool: SimulatorPool):
    benchmark = Waiting(pool)
    context = Context(benchmark=benchmark, model="scripted:first")
    ticks = []

    async def tick() -> None:
        while True:
            ticks.append(time.monotonic())
            await asyncio.sleep(0.01)

    async def together() -> list[Any]:
        ticking = asyncio.create_task(tick())
        runs = (react.graph.ainvoke({"task": benchmark.task(f"{n}")}, context=context) for n in range(16))
        found = await asyncio.gather(*runs)
        ticking.cancel()
        return found

    assert [len(state["history"]) for state in asyncio.run(together())] == [10] * 16
    assert Simulator.most == 2
    assert max(later - earlier for earlier, later in pairwise(ticks)) < 1, "the event loop was held up"


@pytest.mark.slow
def test_runs_at_once_are_scored_before_their_worlds_close(tmp_path: Path, pool: SimulatorPool):
    benchmark = Waiting(pool)
    context = Context(model="scripted:first")

    async def together() -> list[Any]:
        return await asyncio.gather(
            *(arun("react", benchmark, f"{n}", out=tmp_path, context=context) for n in range(8))
        )

    results = asyncio.run(together())
    assert [result.scores.value for result in results] == [1.0] * 8
    assert benchmark.opened == 8, "a world that was closed before it was scored would have been opened again"
    assert Simulator.most == 2


@pytest.mark.slow
def test_look_ahead_with_copies_works_with_one_simulator():
    benchmark = Waiting(SimulatorPool(Simulator, max_free=0, limit=1, patience=60.0))
    context = Context(benchmark=benchmark, model="scripted:first")
    state = mcts.graph.invoke({"task": benchmark.task("one")}, context=context)
    assert state["history"]
    assert Simulator.most == 1


def test_cancelled_graphs_leave_no_simulator():
    benchmark = Waiting(SimulatorPool(lambda: Simulator(0.05), max_free=1, limit=2, linger=0.05))
    context = Context(benchmark=benchmark, model="scripted:first")

    async def cancelled() -> None:
        runs = [
            asyncio.create_task(react.graph.ainvoke({"task": benchmark.task(f"{n}")}, context=context))
            for n in range(6)
        ]
        for run in runs:
            await asyncio.sleep(0.02)
            run.cancel()
        await asyncio.wait(runs)

    asyncio.run(cancelled())


def test_an_expert_that_waits_for_a_simulator_does_not_hold_up_the_event_loop():
    released = threading.Event()

    def respond(prompt: str, form: dict[str, Any]) -> str:
        return "answered" if released.wait(5) else "held up"

    respond.blocks = True  # type: ignore[attr-defined]

    async def get_answer() -> str:
        asyncio.get_running_loop().call_later(0.05, released.set)
        return str((await chat_model("scripted:expert", expert=respond).ainvoke("?")).content)

    assert asyncio.run(get_answer()) == "answered"
