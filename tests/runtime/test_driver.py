"""Tests of `runtime.driver`."""

import asyncio
import gc
import json
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from helpers.cases import first_fast
from helpers.web.search_stub import Stub, StubAnswer, search_stub
from helpers.web.small_web import RIGHT, TEXT, SmallResearch, SmallWeb
from helpers.web.web_stub import Site, body, flood, redirect, web
from helpers.worlds.study_world import Riddles
from helpers.worlds.task_graphs import Jobs, SlowModel
from langgraph.runtime import Runtime

from certigraph.adapters import episodes
from certigraph.adapters.episodes import EPISODES, live_episode
from certigraph.adapters.protocols import Budget, Context
from certigraph.adapters.web.pages import Fetcher
from certigraph.adapters.web.sources import Web, WebCache, create_providers
from certigraph.benchmarks.blocksworld.benchmark import BlocksWorld, BlocksWorldEnvironment
from certigraph.runtime.checkpoints import SqliteCheckpointSaver
from certigraph.runtime.driver import keep_worlds_open
from certigraph.runtime.graph_sources import AnyGraph
from certigraph.runtime.registry import build_graph
from certigraph.runtime.result import Result
from certigraph.runtime.run import arun, resume, run
from certigraph.state.channels import MAX_INDEXED_LOGS
from certigraph.state.endings import Fault
from certigraph.state.records import Task
from certigraph.state.trajectory import Event, TrajectoryLine

# Worlds of runs: hundreds of parallel runs keep their own worlds open, and all are closed when their run ends.


class Counting(BlocksWorld):
    """BlocksWorld that counts the worlds it opens and closes; a model is called between two steps."""

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


@pytest.mark.slow
def test_runs_at_once_open_one_world_each_however_few_are_left_open_for_others(tmp_path: Path, monkeypatch):
    monkeypatch.setattr(episodes, "MAX_EPISODES", 1)
    benchmark = Counting()

    async def together() -> None:
        await asyncio.gather(*(arun("react", benchmark, f"3-{n}", out=tmp_path) for n in range(3)))

    asyncio.run(together())
    assert (benchmark.opened, benchmark.closed) == (3, 3)


@pytest.mark.long
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
        async with keep_worlds_open():
            live_episode("fails:a", benchmark.task("3-0"), [], Runtime(context=Context(benchmark=benchmark)))
            raise RuntimeError("on the way")

    with pytest.raises(RuntimeError, match="on the way"):
        asyncio.run(failing())
    assert (benchmark.opened, benchmark.closed) == (1, 1)
    assert "fails:a" not in EPISODES


# A trajectory and checkpoints that hold different work: refused with a message, and never scored.

WORLDS: dict[str, dict[str, Any]] = {
    "sdp": {"benchmark": "blocksworld", "task": "4-0"},
    "step": {"benchmark": "blocksworld", "task": "4-0"},
    "hypotheses": {"benchmark": Riddles(), "task": "looped"},
    "tdp": {"benchmark": Jobs(), "task": "deep"},
}


def stopped_run(graph: str, calls: int, out: Path) -> Result:
    chat = {"chat": SlowModel(lambda _: 0.0)} if graph == "tdp" else {}
    context = Context(budget=Budget(calls=calls), **chat)
    result = run(graph, **WORLDS[graph], context=context, out=out)
    assert result.ending == "limit:calls"
    return result


def resumed_run(graph: str, folder: Path) -> Result:
    given = {"chat": SlowModel(lambda _: 0.0)} if graph == "tdp" else {}
    world = WORLDS[graph]["benchmark"]
    live = {} if isinstance(world, str) else {"benchmark": world}
    return resume(folder, budget=Budget(), **live, **given)


def drop_last_lines(folder: Path, count: int) -> list[dict[str, Any]]:
    """Cut off the end of a trajectory and return the removed events."""
    path = folder / "trajectory.jsonl"
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(lines[:-count]))
    gone = map(json.loads, lines[-count:])
    return [line for line in gone if line["type"] == "event" and line["update"] is not None]


@pytest.mark.parametrize("count", [4, 5])
@pytest.mark.parametrize("graph", first_fast(["sdp", "tdp", "step", "hypotheses"], 2))
def test_a_trajectory_that_lost_its_last_lines_is_refused_and_they_are_named(graph: str, count: int, tmp_path: Path):
    folder = stopped_run(graph, 6 if graph == "tdp" else 4, tmp_path).folder
    gone = drop_last_lines(folder, count)
    before = (folder / "trajectory.jsonl").read_bytes()
    assert gone
    with pytest.raises(Fault, match=f"the trajectory of run {folder.name} lacks lines") as fault:
        resumed_run(graph, folder)
    assert all(f"of {line['node']}" in str(fault.value) for line in gone)
    assert "certigraph delete" in str(fault.value)
    assert (folder / "trajectory.jsonl").read_bytes() == before


@pytest.mark.slow
@pytest.mark.parametrize("graph", ["sdp", "tdp"])
def test_a_trajectory_that_lost_its_footer_alone_goes_on(graph: str, tmp_path: Path):
    whole = run(graph, **WORLDS[graph], context=Context(), out=tmp_path / "whole") if graph == "sdp" else None
    folder = stopped_run(graph, 4, tmp_path / "cut").folder
    assert drop_last_lines(folder, 1) == []
    result = resumed_run(graph, folder)
    assert result.ending == "goal"
    assert whole is None or result.certificates == whole.certificates


def test_a_line_that_repeats_another_is_refused(tmp_path: Path):
    folder = stopped_run("sdp", 4, tmp_path).folder
    path = folder / "trajectory.jsonl"
    lines = [json.loads(line) for line in path.open()]
    for line in lines:
        del line["number"]  # as in schema 3
    path.write_text("".join(json.dumps(line) + "\n" for line in [*lines[:4], lines[3], *lines[4:]]))
    with pytest.raises(Fault, match=f"the checkpoints of run {folder.name} lack steps"):
        resumed_run("sdp", folder)


@pytest.mark.parametrize("behind", [2, 4])
def test_a_checkpoint_that_is_not_the_latest_is_never_scored(
    behind: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """The state of a run that its budget stopped is read from its checkpoints."""
    read, stale = SqliteCheckpointSaver.get_tuple, list[bool]()

    def read_stale(self: SqliteCheckpointSaver, config: Any) -> Any:
        found = read(self, config)
        for _ in range(behind if stale else 0):
            found = read(self, found.parent_config)
        return found

    def stop(line: TrajectoryLine) -> None:
        if isinstance(line, Event) and line.update is None:
            stale.append(True)

    monkeypatch.setattr(SqliteCheckpointSaver, "get_tuple", read_stale)
    result = run(
        "sdp:paper", "blocksworld", "4-0", context=Context(budget=Budget(calls=7)), out=tmp_path, listener=stop
    )
    assert stale
    assert result.scores is None
    assert result.ending == "error:data"
    assert "lack" in result.message


# Failing services and pages over HTTP: a service ends the run, which can be resumed; a page never does.

KEY = "sentinel-key-0123456789"
PAGE = f"<html><head><title>Hall</title></head><body><p>{TEXT}</p></body></html>"


class Served(SmallResearch):
    """One question, searched with Serper's API, with pages over HTTP."""

    def __init__(self, site: Site, folder: Path) -> None:
        super().__init__(SmallWeb({}), RIGHT)
        self._fetcher, self._folder = Fetcher(hosts={".example": site.place}), folder

    def web(self, task: Task) -> Web:
        return Web(create_providers(), self._fetcher, WebCache(self._folder / "cache"))


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> Iterator[Stub]:
    for name in ("CERTIGRAPH_SEARCH", "BRAVE_API_KEY", "SEARXNG_URL"):
        monkeypatch.delenv(name, raising=False)
    with search_stub(found("/hall")) as server:
        monkeypatch.setenv("SERPER_API_KEY", KEY)
        monkeypatch.setenv("SERPER_URL", server.url)
        yield server


def found(*paths: str) -> StubAnswer:
    return StubAnswer(
        {"organic": [{"title": "Hall", "link": f"http://a.example{path}", "snippet": "It."} for path in paths]}
    )


def researched(benchmark: Served, folder: Path) -> Result:
    return run("sdp", benchmark, out=folder / "runs")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (StubAnswer({"message": "Not enough credits"}, 400), "the quota of SERPER_API_KEY is spent: top it up at"),
        (StubAnswer(b'{"organic": ['), "answered with no JSON"),
        (StubAnswer({"credits": 1}), "answered with JSON of another form"),
        (StubAnswer({"message": "Unauthorized."}, 401, echoes=True), "the key is refused: check SERPER_API_KEY"),
    ],
    ids=["quota", "no JSON", "another form", "key"],
)
def test_a_service_that_fails_ends_the_run_until_it_is_resumed(
    service: Stub, bad: StubAnswer, message: str, tmp_path: Path
):
    service.answers = [bad]
    with web({"/hall": body(PAGE)}) as site:
        benchmark = Served(site, tmp_path)
        ended = researched(benchmark, tmp_path)
        assert ended.ending == "error:environment"
        assert message in ended.message
        assert "\n" not in ended.message
        assert KEY not in (ended.folder / "trajectory.jsonl").read_text()
        service.answers = [found("/hall")]
        again = resume(ended.folder, benchmark=benchmark)
        assert (again.ending, site.requests.count("a.example/hall")) == ("goal", 1)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("behaviour", "reason"),
    [
        (flood(50_000_000), "larger than 2 MB"),
        (redirect("http://169.254.169.254/latest/meta-data/"), "redirects to a private address"),
    ],
    ids=["50 MB", "private"],
)
def test_a_page_that_cannot_be_had_is_reported_and_the_run_goes_on(service: Stub, behaviour, reason, tmp_path: Path):
    service.answers = [found("/bad", "/hall")]
    with web({"/bad": behaviour, "/hall": body(PAGE)}) as site:
        result = researched(Served(site, tmp_path), tmp_path)
    assert not result.ending.startswith("error:")
    assert reason in (result.folder / "trajectory.jsonl").read_text()


# Runs leave no memory allocated in their process.

TASKS = ("3-0", "3-1", "3-2")

LEFT = 20
"""Maximum number of memory blocks left per run: pytest keeps a few log records. A trajectory record needs more."""


def blocks_after(graph: AnyGraph, out: Path, rounds: int) -> int:
    """Number of Python's memory blocks in use after some runs and a garbage collection."""
    for _ in range(rounds):
        for task in TASKS:
            run(graph, "blocksworld", task, out=out)
    gc.collect()
    return sys.getallocatedblocks()


@pytest.mark.slow
@pytest.mark.alone
@pytest.mark.parametrize("name", ["sdp", "step", "tdp", "reflexion"])
def test_a_run_leaves_nothing_in_memory(name: str, tmp_path: Path):
    graph = build_graph(name)
    before = blocks_after(graph, tmp_path, rounds=MAX_INDEXED_LOGS // len(TASKS) + 1)  # until all caches are full
    left = blocks_after(graph, tmp_path, rounds=6) - before
    assert left < LEFT * 6 * len(TASKS), f"{left} blocks of 18 runs"
