"""Registry of benchmarks by name, and what operators need to know of the benchmark of a task.

Certigraph's own benchmarks are in the table `certigraph.benchmarks.BENCHMARKS`. A benchmark outside certigraph is named
as `module:attribute`, or by an entry point of the group `certigraph.benchmarks`.
"""

import inspect
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import cache, lru_cache
from importlib import import_module
from math import sqrt
from pathlib import Path
from statistics import fmean, stdev
from typing import Any, NamedTuple, ParamSpec, TypeVar

from langchain_core.runnables import Runnable
from langgraph.runtime import Runtime

from certigraph.adapters.files import expand_path
from certigraph.adapters.imports import (
    BENCHMARK_GROUP,
    import_installed,
    import_named,
    installed,
    unknown_name,
    warn_if_hidden,
)
from certigraph.adapters.processes import run_in_thread, run_in_waiting_thread
from certigraph.adapters.protocols import (
    Benchmark,
    Context,
    EffectiveLimits,
    Limits,
    complete_benchmark,
    complete_environment,
)
from certigraph.state.endings import Fault, UnknownName
from certigraph.state.records import Task

P = ParamSpec("P")
T = TypeVar("T")


@cache
def shipped_benchmarks() -> Mapping[str, str]:
    """Return the classes of certigraph's own benchmarks by name, each as `module:attribute`.

    The package of that name stands above this one, so that its table is read when it is first needed.
    """
    table: Mapping[str, str] = import_module(BENCHMARK_GROUP).BENCHMARKS
    return table


def default_benchmark() -> str:
    """Return the name of the benchmark that is used where none is named."""
    name: str = import_module(BENCHMARK_GROUP).DEFAULT_BENCHMARK
    return name


def load_benchmark(name: str, data: str | None = None, *, import_own: bool = True) -> Benchmark:
    """Return the benchmark of a name. It is created once for each data folder.

    A configuration of the benchmark may follow the name: `travelplanner:paper`, `mypackage.worlds:Shop:large`.

    Args:
        name: the name of a shipped benchmark or of an entry point, or `module:attribute` for a class, a factory or an
            instance. A class or factory is called with those of the arguments `data` (folder or None) and `config`
            that it has as parameters.
        data: the data folder, as in `data_folder`.
        import_own: whether the code of a user's own benchmark may be imported. False for a name that was read from a
            file which may be somebody else's: then only those that this process has already loaded are found.

    Raises:
        UnknownName: the name is unknown, or a user's own benchmark cannot be imported or built.
    """
    base, _ = split_name(name)
    if base in shipped_benchmarks():
        warn_if_hidden(base, BENCHMARK_GROUP, "benchmark")
    return _find_benchmark(name, data, import_own=import_own)


def _find_benchmark(name: str, data: str | None, *, import_own: bool = True) -> Benchmark:
    base, config = split_name(name)
    if base in shipped_benchmarks():
        return _load_shipped(shipped_benchmarks()[base], config, data_folder(base, data))
    folder = data_folder(base, data)
    loaded = _OWN.get(_OwnKey(name, folder))
    if loaded is None:
        if not import_own:
            message = f"{name} is a benchmark outside certigraph, whose code is not imported because an input or a file"
            trust = f"call certigraph.load_benchmark({name!r}) before, or list its module in {IMPORTS_VARIABLE}"
            raise UnknownName(f"{message} names it: if you trust it, {trust}")
        loaded = _OWN.setdefault(_OwnKey(name, folder), _build_own(name, folder))
    return loaded


def find_benchmark(name: str) -> Benchmark | None:
    """Return the benchmark of a name for what it declares, without its data and configuration.

    Nothing of a user's is imported: None if no benchmark of this name is shipped or was loaded in this process.
    """
    base, _ = split_name(name)
    if base in shipped_benchmarks():
        return _load_shipped(shipped_benchmarks()[base], "", None)
    return next((loaded for key, loaded in _OWN.items() if key.name == name), None)


def usual_limits(name: str) -> Limits | None:
    """Return the default limits of a benchmark in its configuration; None if `find_benchmark` does not find it."""
    declared, (_, config) = find_benchmark(name), split_name(name)
    return declared.configured_limits.get(config, declared.limits) if declared else None


def benchmarks_with(flag: str) -> str:
    """List the shipped benchmarks of which a flag of `Benchmark` is true, for messages."""
    return ", ".join(name for name in shipped_benchmarks() if getattr(find_benchmark(name), flag))


def split_name(name: str) -> tuple[str, str]:
    """Split the name of a benchmark into the name without its configuration, and the configuration or ""."""
    base, _, rest = name.partition(":")
    if not rest or base in shipped_benchmarks() or _is_installed(base, rest):
        return base, rest
    attribute, _, config = rest.partition(":")
    return f"{base}:{attribute}", config


def _is_installed(name: str, rest: str) -> bool:
    # `shop:Shop` names a module's attribute even where that very object is the entry point `shop`.
    entry = installed(BENCHMARK_GROUP).get(name)
    return entry is not None and (entry.module, entry.attr) != (name, rest.partition(":")[0])


def is_own(name: str) -> bool:
    """Return whether a name is not that of a shipped benchmark. Nothing is imported, so it may not exist at all."""
    return split_name(name)[0] not in shipped_benchmarks()


def is_object_name(name: str) -> bool:
    """Return whether a name can only be that of a benchmark object (`name_object`), which no other process finds."""
    base, _ = split_name(name)
    return is_own(base) and ":" not in base and base not in installed(BENCHMARK_GROUP)


def own_name(benchmark: Benchmark) -> str:
    """Return the name by which a user's own benchmark was loaded; empty for a shipped one and for any other object."""
    return next((key.name for key, loaded in _OWN.items() if loaded is benchmark), "")


def name_object(benchmark: Benchmark, data: str | None = None) -> str:
    """Return the name of a benchmark object. `load_benchmark` finds the object by it, in this process only.

    Raises:
        UnknownName: the object has the name of a shipped benchmark.
    """
    live = complete_benchmark(benchmark)
    if name := own_name(live):
        return name
    if not is_own(live.name):
        raise UnknownName(f"the benchmark object is named {live.name!r}, as a shipped one: give the name instead")
    _OWN[_OwnKey(live.name, data_folder(live.name, data))] = live
    return live.name


def name_task(task: Task, benchmark: Benchmark) -> Task:
    """Return the task with a benchmark name by which a user's own benchmark can be loaded again in any process.

    A task of any other benchmark is returned unchanged.
    """
    name = own_name(benchmark)
    return task.model_copy(update={"benchmark": name}) if name else task


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
    with suppress(OSError):  # a name may be too long or odd for a file system
        if (root / name).is_dir():
            return root / name
    return root if data or root.name == name else None


def benchmark_of(task: Task, runtime: Runtime[Context]) -> Benchmark:
    """Return the benchmark of a task: the one in the context, an object or a name, else the one that the task names.

    If its tasks have different tools, it is the part of the benchmark to which the task belongs.
    """
    context = context_of(runtime)
    given = context.benchmark
    name = given if isinstance(given, str) else task.benchmark
    found = live_benchmark(context) or _find_benchmark(name, context.data, import_own=may_import(name))
    return complete_benchmark(found.for_task(task))


def live_benchmark(context: Context) -> Benchmark | None:
    """Return the context's benchmark if it is an object, with defaults for members that it lacks, else None."""
    given = context.benchmark
    return None if given is None or isinstance(given, str) else complete_benchmark(given)


IMPORTS_VARIABLE = "CERTIGRAPH_IMPORTS"
"""Environment variable with the modules, separated by commas, that may be imported because a task's JSON names them."""


def may_import(name: str) -> bool:
    """Return whether the module of a benchmark or an operator that a graph's input names may be imported.

    The input may come from a client of a server. Entry points are installed by whoever runs the process, which is
    consent enough; other modules must be listed.
    """
    module = split_name(name)[0].partition(":")[0]
    listed = filter(None, map(str.strip, os.environ.get(IMPORTS_VARIABLE, "").split(",")))
    return module in installed(BENCHMARK_GROUP) or any(f"{module}.".startswith(f"{one}.") for one in listed)


async def call_world(
    call: Callable[P, T], task: Task, runtime: Runtime[Context], *args: P.args, **kwargs: P.kwargs
) -> T:
    """Call a function of a task's world, in a worker thread unless the benchmark, or a live world, is `instant`.

    Instant worlds answer in microseconds, less than a switch to a thread takes. Worlds with `queues = True` may wait
    for other runs to end; they get a thread pool of their own, so that they block no other work.
    """
    context, benchmark = context_of(runtime), benchmark_of(task, runtime)
    if is_instant(context, benchmark):
        return call(*args, **kwargs)
    if benchmark.queues and context.environment is None:
        return await run_in_waiting_thread(call, *args, **kwargs)
    return await run_in_thread(call, *args, **kwargs)


def is_instant(context: Context, benchmark: Benchmark) -> bool:
    """Return whether the world of a run answers in microseconds, so that no thread is needed."""
    live = context.environment
    return benchmark.instant if live is None else complete_environment(live).instant


def limits_of(task: Task, runtime: Runtime[Context]) -> EffectiveLimits:
    """Return the limits in force: the context's, else the benchmark's own."""
    return (context_of(runtime).limits or benchmark_of(task, runtime).limits).effective()


def steps_before(runtime: Runtime[Context]) -> int:
    """Return the number of world steps that were taken before this run, if it is inside another run."""
    entered = context_of(runtime).entry
    return len(entered.steps) if entered else 0


def context_of(runtime: Runtime[Context] | None) -> Context:
    """Return the run's context, or the default one if the caller gave none, as the development server does."""
    return (runtime.context if runtime else None) or _DEFAULTS


_DEFAULTS = Context()


@lru_cache(maxsize=64)  # all benchmarks without data, and those of several data folders
def _load_shipped(target: str, config: str, folder: Path | None) -> Benchmark:
    module, attribute = target.split(":")
    benchmark: Benchmark = getattr(import_module(module), attribute)(data=folder, config=config)
    return complete_benchmark(benchmark)


# Metrics over runs, which every benchmark computes alike; `evaluation.statistics` adds the confidence intervals.


def check_configuration(benchmark: str, config: str, known: Sequence[str] = ()) -> None:
    """Check that a benchmark has a configuration. The empty name, which stands for the default, is always accepted.

    Raises:
        UnknownName: there is no such configuration; the message lists the known ones.
    """
    if config and config not in known:
        listed = f"known: {', '.join(filter(None, known))}" if known else f"it has none: use {benchmark}"
        raise UnknownName(f"{benchmark} has no configuration {config!r}; {listed}")


def mean_score(values: Sequence[float]) -> float:
    """Compute the mean of the values of several runs; 0 without runs."""
    return fmean(values) if values else 0.0


def standard_error(values: Sequence[float]) -> float:
    """Compute the standard error of the mean of independent values; 0 for fewer than two."""
    return stdev(values) / sqrt(len(values)) if len(values) > 1 else 0.0


# Benchmarks outside certigraph.

REQUIRED_MEMBERS = ("name", "tasks", "open")
"""Members of `Benchmark` that have no default."""

EXAMPLE = "mypackage.worlds:MyBenchmark"
"""Example of the name of a user's own benchmark, for error messages."""


class _OwnKey(NamedTuple):
    name: str
    folder: Path | None


_OWN: dict[_OwnKey, Benchmark] = {}


def _build_own(name: str, folder: Path | None) -> Benchmark:
    """Import a user's own benchmark and build it, unless it is an instance."""
    base, config = split_name(name)
    if ":" in base:
        _check_not_standard(name, base)
        target = import_named(base, "benchmark")
    elif entry := installed(BENCHMARK_GROUP).get(base):
        target = import_installed(entry, "benchmark")
    else:
        known = [*shipped_benchmarks(), *installed(BENCHMARK_GROUP)]
        raise unknown_name(name, "benchmark", known, EXAMPLE)
    is_instance = not isinstance(target, type) and any(hasattr(target, member) for member in REQUIRED_MEMBERS[1:])
    benchmark: Any = target if is_instance else _call_factory(name, target, folder, config)
    if missing := [member for member in REQUIRED_MEMBERS if not hasattr(benchmark, member)]:
        message = f"benchmark {name!r} ({type(benchmark).__name__}) has no {', '.join(missing)}"
        raise UnknownName(f"{message}: name a class, a factory or an instance that has what certigraph.Benchmark lists")
    built = complete_benchmark(benchmark)
    check_configuration(base, config, () if is_instance else built.configurations)
    return built


def _call_factory(name: str, target: Any, folder: Path | None, config: str) -> Any:
    if not callable(target):
        if isinstance(target, Runnable):
            fix = f"run it by its own name, without another graph: certigraph run {name} --task ..."
            raise UnknownName(f"{name!r} is a graph, not a benchmark: {fix}")
        fix = f"name a class or an object that has what certigraph.Benchmark lists, such as {EXAMPLE}"
        raise UnknownName(f"{name!r} is of type {type(target).__name__}, not a benchmark: {fix}")
    try:
        parameters = inspect.signature(target).parameters
        return target(**{key: value for key, value in {"data": folder, "config": config}.items() if key in parameters})
    except (Fault, UnknownName):
        raise
    except Exception as error:
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        fix = "give it no parameters without a default but `data` and `config`"
        raise UnknownName(f"benchmark {name!r} cannot be built ({reason}): {fix}") from error


def _check_not_standard(name: str, base: str) -> None:
    # A task's JSON may come from a client of a server; no function of Python's own library is called for it.
    if base.partition(":")[0].partition(".")[0] in sys.stdlib_module_names:
        raise UnknownName(f"{name!r} is in Python's own library: name a benchmark of your own, such as {EXAMPLE}")
