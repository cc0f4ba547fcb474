"""The benchmarks by name. Adding one is a folder beside this file and a line here."""

import os
from collections.abc import Callable
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from typing import ParamSpec, TypeVar

from langgraph.runtime import Runtime

from certigraph.adapters.files import expanded
from certigraph.adapters.processes import off_loop, off_loop_waiting
from certigraph.adapters.protocols import Benchmark, Context, EffectiveLimits
from certigraph.state.records import Fault, Task, UnknownName

P = ParamSpec("P")
T = TypeVar("T")

BENCHMARKS = {
    "alfworld": "certigraph.adapters.alfworld.benchmark:ALFWorld",
    "ask": "certigraph.adapters.assistantbench.web:OwnQuestion",
    "assistantbench": "certigraph.adapters.assistantbench.benchmark:AssistantBench",
    "blocksworld": "certigraph.adapters.blocksworld.benchmark:BlocksWorld",
    "hotpotqa": "certigraph.adapters.hotpotqa.benchmark:HotpotQA",
    "locomo": "certigraph.adapters.locomo.benchmark:LoCoMo",
    "musique": "certigraph.adapters.musique.benchmark:MuSiQue",
    "rewardprediction": "certigraph.adapters.rewardprediction.benchmark:RewardPrediction",
    "scienceworld": "certigraph.adapters.scienceworld.benchmark:ScienceWorldBenchmark",
    "swe_qa": "certigraph.adapters.swe_qa.benchmark:SweQA",
    "textworld": "certigraph.adapters.textworld.benchmark:TextWorldBenchmark",
    "travelplanner": "certigraph.adapters.travelplanner.benchmark:TravelPlanner",
    "web": "certigraph.adapters.assistantbench.web:GeneratedWeb",
    "webshop": "certigraph.adapters.webshop.benchmark:WebShop",
}


def load_benchmark(name: str, data: str | None = None) -> Benchmark:
    """The benchmark of that name over its data folder; made once per folder.

    A configuration of the benchmark may follow the name: `travelplanner:paper`.

    Raises:
        UnknownName: the name is unknown; the message lists the known ones.
    """
    plain, _, config = name.partition(":")
    if plain not in BENCHMARKS:
        raise UnknownName(f"unknown benchmark {name!r}; known: {', '.join(sorted(BENCHMARKS))}")
    return _load(plain, config, data_folder(plain, data))


def usable(benchmark: Benchmark) -> None:
    """Make sure, before any run begins, that a benchmark which needs keys or servers (`ready()`) has them.

    Raises:
        Fault, UnknownName: it has not; the message says what to set.
    """
    if check := getattr(benchmark, "ready", None):
        check()


def data_folder(name: str, data: str | None = None) -> Path | None:
    """Where a benchmark's files are: `data`, else CERTIGRAPH_DATA; None means its generated world.

    Either may name the benchmark's own folder or the folder that holds one folder per benchmark.
    """
    given = data or os.environ.get("CERTIGRAPH_DATA")
    if not given:
        return None
    root = expanded(given)
    if not root.is_dir():
        raise Fault("data", f"{root}: no such folder: correct --data DIR or CERTIGRAPH_DATA")
    if (root / name).is_dir():
        return root / name
    return root if data or root.name == name else None


def benchmark_of(task: Task, runtime: Runtime[Context]) -> Benchmark:
    """The benchmark a task belongs to: the live one of the context, else the named one."""
    context = context_of(runtime)
    live: Benchmark | None = context.benchmark
    return live or load_benchmark(task.benchmark, context.data)


async def in_world(call: Callable[P, T], task: Task, runtime: Runtime[Context], *args: P.args, **kwargs: P.kwargs) -> T:
    """Have a task's world do something: in a worker thread, or here where a benchmark says `instant = True`.

    That is for worlds which answer in microseconds, less than the way to a thread and back. Worlds that may have to
    wait for others to end (`queues = True`) get threads of their own.
    """
    if context_of(runtime).environment is None:
        benchmark = benchmark_of(task, runtime)
        if getattr(benchmark, "instant", False):
            return call(*args, **kwargs)
        if getattr(benchmark, "queues", False):
            return await off_loop_waiting(call, *args, **kwargs)
    return await off_loop(call, *args, **kwargs)


def limits_of(task: Task, runtime: Runtime[Context]) -> EffectiveLimits:
    """The limits in force: the context's, else the benchmark's own."""
    return (context_of(runtime).limits or benchmark_of(task, runtime).limits).effective()


def context_of(runtime: Runtime[Context] | None) -> Context:
    """The run's context; the defaults where a caller gave none, as the development server does."""
    return (runtime.context if runtime else None) or _DEFAULTS


_DEFAULTS = Context()


@lru_cache(maxsize=16)
def _load(name: str, config: str, folder: Path | None) -> Benchmark:
    module, attribute = BENCHMARKS[name].split(":")
    benchmark: Benchmark = getattr(import_module(module), attribute)(folder, config)
    return benchmark
