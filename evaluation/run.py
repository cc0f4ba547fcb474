"""The driver's public face: run a graph on a task under a budget."""

import asyncio
import datetime
import uuid
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, TypeVar

from certigraph.adapters.benchmarks import load_benchmark
from certigraph.adapters.context import Context
from certigraph.adapters.faults.rates import Faults
from certigraph.adapters.loops import wait_for
from certigraph.adapters.models.chat import check_model
from certigraph.adapters.models.redact import redacted
from certigraph.adapters.protocols import Benchmark
from certigraph.evaluation.budgets import must_be_priced
from certigraph.evaluation.drive import drive
from certigraph.evaluation.keeping import checkpoints_ready, usual_checkpoints
from certigraph.evaluation.naming import TRAJECTORY, check_out, slug
from certigraph.evaluation.recorder import Listener, Recorder
from certigraph.evaluation.result import OnError, Result, check_on_error, report_failure
from certigraph.evaluation.settings import AnyGraph, build_graph, save_local, shareable, versions
from certigraph.graphs.assembly import operators_of
from certigraph.state.records import Task
from certigraph.state.trajectory import Header

T = TypeVar("T")


def run(
    graph: str | AnyGraph = "sdp",
    benchmark: str | Benchmark = "blocksworld",
    task: str | Task | None = None,
    *,
    context: Context | None = None,
    out: Path | str = "runs",
    listener: Listener | None = None,
    on_error: OnError = "warn",
) -> Result:
    """Run a graph on a task to its ending and keep the trajectory.

    Args:
        graph: a graph's name, or one that you built: `sdp.build(validate=always_pass)`.
        benchmark: a benchmark's name, or a live one.
        task: a task or its id; the benchmark's first one when not given.
        context: model, budget, limits and data; all have defaults.
        out: the folder in which the run gets a folder of its own.
        listener: called with every trajectory line as it is written.
        on_error: what happens when the ending is `error:<boundary>`: "warn" issues a `RunFailedWarning`, "raise"
            raises `RunFailed`, "ignore" does neither. `result.raise_for_error()` raises later.

    Returns:
        The result. Every ending is recorded; a spent budget (`limit:<kind>`) is no error.

    Raises:
        UnknownName: a graph, benchmark, task or model is unknown; no run is begun.
        RunFailed: the run failed and `on_error` is "raise".
    """
    check_on_error(on_error)
    blocking(checkpoints_ready())
    begun = arun(graph, benchmark, task, context=context, out=out, listener=listener, on_error="ignore")
    return report_failure(blocking(begun), on_error)


async def arun(
    graph: str | AnyGraph = "sdp",
    benchmark: str | Benchmark = "blocksworld",
    task: str | Task | None = None,
    *,
    context: Context | None = None,
    out: Path | str = "runs",
    name: str = "",
    listener: Listener | None = None,
    on_error: OnError = "warn",
) -> Result:
    """The same as `run`, to await; `name` is that of the run's folder, which is made up otherwise."""
    check_on_error(on_error)
    context = context or Context()
    live = load_benchmark(benchmark, context.data) if isinstance(benchmark, str) else benchmark
    known = {"benchmark": live, "limits": context.limits or live.limits}
    context = context.model_copy(update={**known, "checkpoints": context.checkpoints or usual_checkpoints()})
    chosen = redacted(task if isinstance(task, Task) else live.task(task) if task else live.tasks()[0])
    compiled = build_graph(graph) if isinstance(graph, str) else graph
    asked = (context.model, *context.roles.values()) if context.chat is None else ()
    for model in asked:
        check_model(model)
    must_be_priced(asked, context.budget)
    Faults.read(context.faults)
    check_out(out)
    folder = Path(out) / (name or run_name(compiled.name, chosen))
    folder.mkdir(parents=True, exist_ok=bool(name))
    save_local(folder, context)
    header = Header(
        run_id=folder.name,
        created=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        graph=compiled.name,
        operators=operators_of(compiled),
        task=chosen,
        context=shareable(context),
        versions=versions(),
    )
    with Recorder(folder / TRAJECTORY, listener) as recorder:
        recorder.write(header)
        await drive(compiled, {"task": chosen}, context, folder, recorder)
    return report_failure(Result(folder, recorder.trajectory), on_error)


def run_name(graph: str, task: Task) -> str:
    """A new name for the folder of a run; the time comes first."""
    about = slug(f"{graph}-{task.benchmark}-{task.id}", 60)
    return f"{datetime.datetime.now():%Y%m%d-%H%M%S}-{about}-{uuid.uuid4().hex[:4]}"


def blocking(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end on a loop of its own, wherever the caller is; Ctrl-C cancels it."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(coroutine)
    return wait_for(coroutine)  # inside a notebook
