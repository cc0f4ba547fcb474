"""The runs of a soak: many at once on one event loop, each with a line in a file when it ended."""

import asyncio
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from certigraph.adapters.benchmarks import load_benchmark
from certigraph.adapters.context import Context
from certigraph.adapters.models.meter import Call
from certigraph.adapters.protocols import Benchmark
from certigraph.evaluation.bench.soak_held import memory
from certigraph.evaluation.bench.soak_records import Plan, Row
from certigraph.evaluation.keeping import drop_checkpoints
from certigraph.evaluation.result import Result
from certigraph.evaluation.run import arun
from certigraph.evaluation.settings import AnyGraph, build_graph

GRAPHS = ("sdp", "react", "tdp", "step", "plan_and_act", "plan_and_solve", "cot", "reflexion", "clin")
"""The mixture: the methods that need no encoder, whose weights would hide what a leak adds."""

MODEL = "openai:expert"
BLOCKS = 3

TOLD = 20
"""How often progress is told."""


class Soaking:
    """Episodes under way. `begun` counts them; those that ended have their lines in `rows`."""

    def __init__(self, plan: Plan, folder: Path, rows: IO[str], said: Callable[[str], None]) -> None:
        self.plan, self.begun, self.ended = plan, 0, 0
        self._folder, self._rows, self._said = folder, rows, said
        self._graphs: Mapping[str, AnyGraph] = {name: build_graph(name) for name in GRAPHS}
        self._benchmark: Benchmark = load_benchmark("blocksworld")

    async def all(self) -> None:
        """Run every episode, as many at once as planned."""
        numbers = iter(range(self.plan.episodes))
        async with asyncio.TaskGroup() as group:
            for place in range(self.plan.at_once):
                group.create_task(self._one_by_one(place, numbers))

    async def _one_by_one(self, place: int, numbers: Iterator[int]) -> None:
        # begun one after another: all at once is what no server sees, and would be the slowest calls of the soak
        await asyncio.sleep(place * self.plan.delay / self.plan.at_once)
        for number in numbers:
            self.begun += 1
            self._note(await self._episode(number))

    def _note(self, row: Row) -> None:
        self._rows.write(row.model_dump_json() + "\n")
        self._rows.flush()
        self.ended += 1
        if self.ended % max(self.plan.episodes // TOLD, 1) == 0:
            self._said(
                f"{self.ended:,} of {self.plan.episodes:,} episodes, {row.memory:.0f} MB, {row.cpu:.0f} s of CPU"
            )

    async def _episode(self, number: int) -> Row:
        name, began = GRAPHS[number % len(GRAPHS)], time.perf_counter()
        told: dict[str, Any]
        try:
            result = await self._run(self._graphs[name], f"{BLOCKS}-{number}")
            told = {"run": result.folder.name, "ending": result.ending, "calls": latencies(result)}
        except Exception as error:  # noqa: BLE001 - it is counted as lost, and the others go on
            told = {"run": "", "ending": f"raised {type(error).__name__}: {error}", "calls": ()}
        seconds = time.perf_counter() - began
        return Row(number=number, graph=name, seconds=seconds, cpu=time.process_time(), memory=memory(), **told)

    async def _run(self, graph: AnyGraph, task: str) -> Result:
        context = Context(model=MODEL)
        chosen = self._benchmark.task(task)
        result = await arun(graph, self._benchmark, chosen, context=context, out=self._folder, on_error="ignore")
        await drop_checkpoints(result.folder, result.ending, context)
        return result


def latencies(result: Result) -> tuple[float, ...]:
    """Seconds that each model call of a run took."""
    return tuple(Call.model_validate(call).seconds for event in result.trajectory.events for call in event.calls)


@contextmanager
def endpoint(url: str) -> Iterator[None]:
    """Have `openai:` models asked at a URL, without a key of anybody's, for the length of a block."""
    before = dict(os.environ)
    os.environ.update(CERTIGRAPH_BASE_URL=url, OPENAI_API_KEY="none")
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)
