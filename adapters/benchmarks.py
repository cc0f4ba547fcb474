"""Registry of benchmarks by name, and what operators need to know of the benchmark of a task.

To add a benchmark, write one folder in `adapters/` and add one line to `BENCHMARKS`.
"""

import os
from collections.abc import Callable, Sequence
from functools import lru_cache
from importlib import import_module
from math import sqrt
from pathlib import Path
from statistics import fmean, stdev
from typing import ParamSpec, TypeVar

from langgraph.runtime import Runtime

from certigraph.adapters.files import expand_path
from certigraph.adapters.processes import run_in_thread, run_in_waiting_thread
from certigraph.adapters.protocols import Benchmark, Context, EffectiveLimits, complete_benchmark
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
    """Load a benchmark over its data folder; it is created once per folder.

    A configuration of the benchmark may follow the name: `travelplanner:paper`.

    Args:
        name: a key of BENCHMARKS, with an optional `:CONFIGURATION`.
        data: the data folder, as in `data_folder`.

    Raises:
        UnknownName: the name is unknown; the message lists the known ones.
    """
    base_name, _, config = name.partition(":")
    if base_name not in BENCHMARKS:
        raise UnknownName(f"unknown benchmark {name!r}; known: {', '.join(sorted(BENCHMARKS))}")
    return _load_cached(base_name, config, data_folder(base_name, data))


def check_ready(benchmark: Benchmark) -> None:
    """Check, before a run starts, that a benchmark has the keys or servers that it needs (`benchmark.ready()`).

    Raises:
        Fault, UnknownName: something is missing; the message says what to set.
    """
    complete_benchmark(benchmark).ready()


def data_folder(name: str, data: str | None = None) -> Path | None:
    """Return the folder of a benchmark's files from `data`, else CERTIGRAPH_DATA; None selects its generated world.

    Both may name the benchmark's own folder or the folder that holds one folder per benchmark.

    Raises:
        Fault: the folder does not exist.
    """
    location = data or os.environ.get("CERTIGRAPH_DATA")
    if not location:
        return None
    root = expand_path(location)
    if not root.is_dir():
        raise Fault("data", f"{root}: no such folder: correct --data DIR or CERTIGRAPH_DATA")
    if (root / name).is_dir():
        return root / name
    return root if data or root.name == name else None


def benchmark_of(task: Task, runtime: Runtime[Context]) -> Benchmark:
    """Return the benchmark of a task: the live one of the context, else the one that the task names."""
    context = context_of(runtime)
    return live_benchmark(context) or load_benchmark(task.benchmark, context.data)


def live_benchmark(context: Context) -> Benchmark | None:
    """Return the live benchmark of a context with all its optional members; None if the context has none."""
    return None if context.benchmark is None else complete_benchmark(context.benchmark)


async def call_world(
    call: Callable[P, T], task: Task, runtime: Runtime[Context], *args: P.args, **kwargs: P.kwargs
) -> T:
    """Call a function of a task's world, in a worker thread unless the benchmark has `instant = True`.

    Instant worlds answer in microseconds, less than a switch to a thread takes. Worlds with `queues = True` may wait
    for other runs to end; they get a thread pool of their own, so that they block no other work.
    """
    if context_of(runtime).environment is None:
        benchmark = benchmark_of(task, runtime)
        if benchmark.instant:
            return call(*args, **kwargs)
        if benchmark.queues:
            return await run_in_waiting_thread(call, *args, **kwargs)
    return await run_in_thread(call, *args, **kwargs)


def limits_of(task: Task, runtime: Runtime[Context]) -> EffectiveLimits:
    """Return the limits in force: the context's, else the benchmark's own."""
    return (context_of(runtime).limits or benchmark_of(task, runtime).limits).effective()


def context_of(runtime: Runtime[Context] | None) -> Context:
    """Return the run's context, or the default one if the caller gave none, as the development server does."""
    return (runtime.context if runtime else None) or _DEFAULTS


_DEFAULTS = Context()


@lru_cache(maxsize=16)
def _load_cached(name: str, config: str, folder: Path | None) -> Benchmark:
    module, attribute = BENCHMARKS[name].split(":")
    benchmark: Benchmark = getattr(import_module(module), attribute)(folder, config)
    return benchmark


# Figures over runs, which every benchmark computes alike; `evaluation.statistics` adds the intervals.


def mean_score(values: Sequence[float]) -> float:
    """Compute the mean of the values of several runs; 0 without runs."""
    return fmean(values) if values else 0.0


def standard_error(values: Sequence[float]) -> float:
    """Compute the standard error of the mean of independent values; 0 for fewer than two."""
    return stdev(values) / sqrt(len(values)) if len(values) > 1 else 0.0
