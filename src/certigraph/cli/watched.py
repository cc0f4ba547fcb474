"""What is shown while a run goes on, and what is said before it."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path

from rich.console import Console

from certigraph.adapters.benchmarks import data_folder, load_benchmark
from certigraph.adapters.models.chat import describe_models, is_scripted
from certigraph.adapters.protocols import Limits
from certigraph.evaluation.recorder import Listener
from certigraph.state.endings import Interrupted
from certigraph.state.trajectory import Line


@contextmanager
def watching(out: Path, limits: Limits | None, *, silent: bool) -> Iterator[Listener]:
    """A listener that shows the run, unless nothing but JSON may be printed.

    Raises:
        Interrupted: by Ctrl-C; the message is the command that goes on with it.
    """
    from certigraph.evaluation.live.view import LiveView

    view = LiveView(steps=limits.steps if limits else None)
    runs: list[str] = []

    def listener(line: Line) -> None:
        if line.type == "header":
            runs.append(line.run_id)
        if not silent:
            view(line)

    try:
        with nullcontext() if silent else view:
            yield listener
    except KeyboardInterrupt:
        raise Interrupted(f"interrupted; go on with: certigraph resume {out / ''.join(runs)}") from None


def said_source(benchmark: str, data: str | None) -> None:
    """Say in one line where a benchmark's data comes from, or that it is generated."""
    name = benchmark.partition(":")[0]
    if data_folder(name, data) is None and not getattr(load_benchmark(benchmark, data), "simulated", False):
        told = f"{name}: generated world (no --data, and no {name}/ under CERTIGRAPH_DATA)"
        Console(stderr=True, highlight=False, soft_wrap=True).print(told, style="dim", markup=False)


def announce_models(model: str, roles: Sequence[str] | None) -> None:
    """Print in one line which models answer where a script is among them, before a long command begins."""
    named = {role: name for role, _, name in (text.partition("=") for text in roles or ())}
    if any(map(is_scripted, (model, *named.values()))):
        console = Console(stderr=True, highlight=False, soft_wrap=True, emoji=False)
        console.print(describe_models(model, named), style="dim", markup=False)
