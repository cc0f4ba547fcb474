"""Going on with a run that stopped."""

from pathlib import Path
from typing import Any

from langchain_core.language_models import BaseChatModel

from certigraph.adapters.benchmarks import load_benchmark
from certigraph.adapters.context import Budget, Context
from certigraph.adapters.protocols import Benchmark, Limits
from certigraph.evaluation.drive import drive
from certigraph.evaluation.recorder import Listener, Recorder
from certigraph.evaluation.result import OnError, Result, check_on_error, report_failure
from certigraph.evaluation.run import blocking
from certigraph.evaluation.settings import LIVE, load_local, rebuilt_graph
from certigraph.state.endings import Fault, resumable
from certigraph.state.reading import read_trajectory
from certigraph.state.trajectory import Header


def resume(
    folder: Path | str,
    *,
    budget: Budget | None = None,
    limits: Limits | None = None,
    benchmark: Benchmark | None = None,
    chat: BaseChatModel | None = None,
    listener: Listener | None = None,
    on_error: OnError = "warn",
) -> Result:
    """Go on with a run that was killed, interrupted or stopped by its budget, from its last checkpoint.

    Args:
        folder: the run's folder.
        budget: a larger budget; the run's own otherwise.
        limits: larger limits; the run's own otherwise.
        benchmark: the live benchmark, for a run that was started with one.
        chat: the live chat model, for a run that was started with one.
        listener: called with every trajectory line, those of the first part included.
        on_error: what happens when the ending is `error:<boundary>`: "warn", "raise" or "ignore", as in `run`.

    Raises:
        Fault: the folder holds no run, or its run has reached an ending of its own.
        RunFailed: the run failed and `on_error` is "raise".
    """
    check_on_error(on_error)
    changes: dict[str, Any] = {"budget": budget, "limits": limits, "benchmark": benchmark, "chat": chat}
    result = blocking(aresume(folder, **changes, listener=listener, on_error="ignore"))
    return report_failure(result, on_error)


async def aresume(
    folder: Path | str,
    *,
    budget: Budget | None = None,
    limits: Limits | None = None,
    benchmark: Benchmark | None = None,
    chat: BaseChatModel | None = None,
    listener: Listener | None = None,
    on_error: OnError = "warn",
) -> Result:
    """The same as `resume`, to await."""
    check_on_error(on_error)
    folder = Path(folder)
    trajectory = read_trajectory(folder / "trajectory.jsonl")
    header, footer = trajectory.header, trajectory.footer
    if footer and not resumable(footer.ending):
        raise Fault("data", f"run {header.run_id} has ended: {footer.ending}; start a new one with `certigraph run`")
    context = _with_mind(load_local(folder), header, chat)
    live = benchmark or load_benchmark(header.task.benchmark, context.data)
    changes = {"budget": budget or context.budget, "limits": limits or context.limits, "benchmark": live}
    context = context.model_copy(update=changes)
    compiled = rebuilt_graph(header.graph, header.operators)
    with Recorder(folder / "trajectory.jsonl", listener) as recorder:
        if listener:
            listener(header)
            for event in trajectory.events:
                listener(event)
        await drive(compiled, {"task": header.task}, context, folder, recorder, resuming=True)
    return report_failure(Result(folder, recorder.trajectory), on_error)


def _with_mind(context: Context, header: Header, chat: BaseChatModel | None) -> Context:
    model = str(header.context.get("model"))
    if model.startswith(LIVE) and chat is None:
        raise Fault("data", f"run {header.run_id} asked the live model {model}: resume it with resume(..., chat=...)")
    return context.model_copy(update={"chat": chat})
