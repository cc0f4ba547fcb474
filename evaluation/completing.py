"""A run carried to its ending, whatever became of it before: begun, gone on with, or found finished."""

from pathlib import Path

from certigraph.adapters.context import Context
from certigraph.adapters.protocols import Benchmark
from certigraph.evaluation.comparing.endings import last_footer
from certigraph.evaluation.finding import has_header
from certigraph.evaluation.keeping import drop_checkpoints
from certigraph.evaluation.recorder import Listener
from certigraph.evaluation.result import Result
from certigraph.evaluation.resume import aresume
from certigraph.evaluation.run import arun
from certigraph.evaluation.settings import AnyGraph, load_local

SPOILT = ("error:environment", "error:operator")
"""Endings after which a retry begins anew: the world, or what an operator made of it, cannot be trusted to go on."""


def begun(folder: Path) -> bool:
    """Whether a folder holds a run. One whose process died before the first line was whole holds nothing to go by."""
    path = folder / "trajectory.jsonl"
    return path.is_file() and has_header(path)


def spoilt(folder: Path) -> bool:
    """Whether a run that was begun ended so that another one has to be begun in its place."""
    footer = last_footer(folder / "trajectory.jsonl")
    return footer is not None and footer.ending in SPOILT


async def completed(
    folder: Path, graph: AnyGraph, live: Benchmark, task: str, context: Context, *, listener: Listener | None = None
) -> Result:
    """The run of a folder as it ended.

    One that was cut off goes on from its last checkpoint, and so does one whose model or data could not be had: what it
    certified stays. One with an ending of its own, a spent budget included, is taken as it is.

    Args:
        folder: the run's; its name is the run's, and it need not exist.
        graph: the compiled graph.
        live: the benchmark.
        task: the task's id.
        context: of a run that has to be begun.
        listener: called with every trajectory line.

    Raises:
        Fault: another process is writing the run, or it cannot be gone on with.
    """
    if not begun(folder):
        chosen = live.task(task)
        result = await arun(
            graph,
            live,
            chosen,
            context=context,
            out=folder.parent,
            name=folder.name,
            listener=listener,
            on_error="ignore",
        )
    elif _goes_on(folder):
        result = await aresume(folder, benchmark=live, chat=context.chat, listener=listener, on_error="ignore")
    else:
        result = Result(folder)
    await drop_checkpoints(folder, result.ending, load_local(folder))
    return result


def _goes_on(folder: Path) -> bool:
    footer = last_footer(folder / "trajectory.jsonl")
    return footer is None or footer.ending.startswith("error:")
