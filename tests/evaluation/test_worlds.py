"""The worlds of runs: hundreds at once leave each other's open, and all are closed when their run is over."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from langgraph.runtime import Runtime

from certigraph.adapters import episodes
from certigraph.adapters.blocksworld.benchmark import BlocksWorld, BlocksWorldEnvironment
from certigraph.adapters.episodes import EPISODES, live_episode
from certigraph.adapters.protocols import Context
from certigraph.runtime.driver import own_worlds
from certigraph.runtime.registry import build_graph
from certigraph.runtime.run import arun, run
from certigraph.state.records import Task


class Counting(BlocksWorld):
    """BlocksWorld that counts the worlds it opens and those that are closed; a model is asked between two steps."""

    def __init__(self) -> None:
        super().__init__()
        self.opened = self.closed = 0

    def open(self, task: Task) -> BlocksWorldEnvironment:
        self.opened += 1
        world = super().open(task)
        world.close = self._close  # type: ignore[method-assign]
        return world

    def _close(self) -> None:
        self.closed += 1


def test_runs_at_once_open_one_world_each_however_few_are_left_open_for_others(tmp_path: Path, monkeypatch):
    monkeypatch.setattr(episodes, "MOST_EPISODES", 1)
    benchmark = Counting()

    async def together() -> None:
        await asyncio.gather(*(arun("react", benchmark, f"3-{n}", out=tmp_path) for n in range(3)))

    asyncio.run(together())
    assert (benchmark.opened, benchmark.closed) == (3, 3)


@pytest.mark.slow
def test_threads_may_share_graphs_and_benchmark(tmp_path: Path):
    benchmark, graphs = Counting(), [build_graph(name) for name in ("sdp", "react", "tdp", "step", "clin")]
    with ThreadPoolExecutor(50) as pool:
        runs = pool.map(lambda n: run(graphs[n % 5], benchmark, f"3-{n}", out=tmp_path), range(100))
        assert [result.ending for result in runs] == ["goal"] * 100
    assert benchmark.opened == benchmark.closed


def test_worlds_are_closed_also_where_their_run_fails():
    benchmark = Counting()

    async def failing() -> None:
        async with own_worlds():
            live_episode("fails:a", benchmark.task("3-0"), [], Runtime(context=Context(benchmark=benchmark)))
            raise RuntimeError("on the way")

    with pytest.raises(RuntimeError, match="on the way"):
        asyncio.run(failing())
    assert (benchmark.opened, benchmark.closed) == (1, 1)
    assert "fails:a" not in EPISODES
