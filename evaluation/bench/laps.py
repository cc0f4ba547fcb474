"""One timed climb of the ladder: SDP's graph, the bare LangGraph loop or the plain Python loop."""

import asyncio
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any, Literal, NamedTuple

from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.types import Checkpointer

from certigraph.adapters.context import Context
from certigraph.adapters.episodes import close_episode
from certigraph.evaluation.bench.loops import NODES, bare_graph, ground, plain_loop
from certigraph.evaluation.bench.world import Ladder, LadderWorld
from certigraph.graphs import sdp
from certigraph.state.endings import Fault
from certigraph.state.serializing import serializer

Loop = Literal["sdp", "bare", "python"]
PER_RUNG = len(NODES)
"""Supersteps that one rung takes, in every loop."""


class Setting(NamedTuple):
    """A loop, the way it is called, and whether AsyncSqliteSaver keeps its checkpoints in a file."""

    loop: Loop
    call: Literal["ainvoke", "invoke", "for"]
    saver: bool = False


class Lap(NamedTuple):
    """One climb in wall-clock seconds, and those of them that the world took."""

    supersteps: int
    seconds: float
    world: float = 0.0

    @property
    def each(self) -> float:
        """Milliseconds per superstep."""
        return 1_000 * self.seconds / self.supersteps

    @property
    def own(self) -> float:
        """Milliseconds per superstep without the world."""
        return 1_000 * (self.seconds - self.world) / self.supersteps


def lap(setting: Setting, rungs: int) -> Lap:
    """Climb once.

    Raises:
        Fault: the climb ended below the top.
    """
    if setting.loop == "python":
        return _plain_lap(rungs)
    if setting.call == "invoke":
        return _blocking_lap(_Climb(setting.loop, rungs))
    if not setting.saver:
        return asyncio.run(_awaited_lap(_Climb(setting.loop, rungs)))
    with TemporaryDirectory() as folder:
        return saved_lap(setting.loop, rungs, Path(folder) / "checkpoints.sqlite")


def saved_lap(loop: Loop, rungs: int, path: Path) -> Lap:
    """Climb once with checkpoints in the SQLite file at `path`."""

    async def climb() -> Lap:
        async with AsyncSqliteSaver.from_conn_string(str(path)) as saver:
            saver.serde = serializer()
            await saver.setup()
            return await _awaited_lap(_Climb(loop, rungs, saver))

    return asyncio.run(climb())


class _Climb:
    """A compiled graph with all that a call of it takes."""

    def __init__(self, loop: Loop, rungs: int, saver: Checkpointer = None) -> None:
        ladder, self.world = Ladder(rungs), LadderWorld(rungs)
        self.rungs = rungs
        self.graph: Any = sdp.build(saver) if loop == "sdp" else bare_graph(saver)
        self.given: Any = {"task": ladder.tasks()[0]} if loop == "sdp" else ground(rungs)
        self.context = Context(benchmark=ladder, environment=self.world) if loop == "sdp" else None
        self.supersteps = PER_RUNG * rungs + (2 if loop == "sdp" else 0)  # SDP also resets and proposes
        self.options: Any = {"durability": "async"} if saver else {}
        self.config: Any = {"configurable": {"thread_id": "bench"}, "recursion_limit": self.supersteps + 1}

    def finished(self, seconds: float, state: dict[str, Any]) -> Lap:
        close_episode(state.get("episode", ""))
        if state["head"] < self.rungs:
            raise Fault("operator", f"{self.graph.name} ended at rung {state['head']} of {self.rungs}; see its state")
        return Lap(self.supersteps, seconds, self.world.seconds)


def _plain_lap(rungs: int) -> Lap:
    began = perf_counter()
    plain_loop(rungs)
    return Lap(PER_RUNG * rungs, perf_counter() - began)


def _blocking_lap(climb: _Climb) -> Lap:
    began = perf_counter()
    state = climb.graph.invoke(climb.given, climb.config, context=climb.context)
    return climb.finished(perf_counter() - began, state)


async def _awaited_lap(climb: _Climb) -> Lap:
    began = perf_counter()
    state = await climb.graph.ainvoke(climb.given, climb.config, context=climb.context, **climb.options)
    return climb.finished(perf_counter() - began, state)
