"""Progress of a long command on standard error: a bar in a terminal, and lines with the time that is left.

`show_progress` shows any work, and `show_runs` the runs of an evaluation, comparison, ablation, sweep or study.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn

from certigraph.adapters.models.chat_models import describe_models, is_scripted
from certigraph.runtime.result import BenchmarkRow, is_goal_denied, is_solved
from certigraph.runtime.terminal import DENIED
from certigraph.runtime.texts import format_count, format_duration, format_parts, shorten_text
from certigraph.state.endings import INTERRUPTED

MAX_SILENT_SECONDS = 10.0
"""Maximum number of seconds between two printed lines."""


class ProgressDisplay:
    """Progress of `total` items, of which `done` are finished."""

    def __init__(self, console: Console, bar: Progress, task: TaskID, total: int | None) -> None:
        self.console, self.total, self.done = console, total, 0
        self._bar, self._task = bar, task
        self._started = self._printed = time.monotonic()
        self._earlier: int | None = None

    def advance(self, done: int, name: str | None = None) -> None:
        """Show that `done` items are finished, and the name of the current item if it is given."""
        if self._earlier is None:
            self._earlier = done - 1  # items that an earlier call finished took no time now
        self.done = done
        self._bar.update(self._task, completed=done, total=self.total, description=name)

    def report(self, name: str, done: int, more: str = "") -> None:
        """Advance to `done` and if the output is not a terminal, print a line now and then and after the last item."""
        self.advance(done)
        last = done == self.total
        if last or (self.is_silent and not self.console.is_terminal):
            left = f"{time.monotonic() - self._started:.0f} s" if last else self.time_left
            self.print(" · ".join(filter(None, (f"{name}: {done} of {self.total}", more, left))))

    def print(self, line: str) -> None:
        """Print a line above the bar."""
        self._printed = time.monotonic()
        self.console.print(line, markup=False)

    @property
    def is_silent(self) -> bool:
        """Whether no line was printed for MAX_SILENT_SECONDS."""
        return time.monotonic() - self._printed > MAX_SILENT_SECONDS

    @property
    def time_left(self) -> str:
        """The time that is left if the remaining items take as long as those that are finished."""
        pace = (time.monotonic() - self._started) / max(1, self.done - (self._earlier or 0))
        return format_time_left(pace * ((self.total or self.done) - self.done))


@contextmanager
def show_progress(name: str, total: int | None, *, silent: bool = False) -> Iterator[ProgressDisplay]:
    """Show the progress of `total` items (None: unknown) inside a block, unless `silent` is set; yield the display."""
    console = Console(stderr=True, highlight=False, soft_wrap=True, quiet=silent)
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, console=console, transient=True, disable=silent or not console.is_terminal) as bar:
        console.show_cursor()  # a process that is killed could not show it again
        yield ProgressDisplay(console, bar, bar.add_task(name, total=total), total)


def format_time_left(seconds: float) -> str:
    """Format the time that is left: "about 1 h 40 min left"."""
    hours, minutes = divmod(round(seconds / 60), 60)
    if hours:
        return f"about {hours} h {minutes:02} min left"
    return f"about {minutes} min left" if minutes else "less than a minute left"


# Runs: the amount of work, the outcome of each run, and the time that is left.

MAX_MESSAGE_CHARACTERS = 200
"""Maximum number of characters of a failed run's message."""

LONG_RUN_SECONDS = 0.5
"""Duration in seconds from which the outcome of a run is always printed; of shorter runs only some are."""

RunListener = Callable[[str, BenchmarkRow], None]
"""Function that is called with the name and the summary of every run that ended."""


@contextmanager
def show_runs(name: str, total: int, notices: Sequence[str], *, silent: bool) -> Iterator[RunListener]:
    """Print `notices`, and yield a listener that shows how many of `total` runs have ended, and the outcome of each."""
    with show_progress(name, total, silent=silent) as display:
        for notice in filter(None, notices):
            display.print(notice)

        def listener(label: str, row: BenchmarkRow) -> None:
            display.advance(display.done + 1, label)
            left, failed = total - display.done, row.ending.startswith(("error:", INTERRUPTED))
            # long runs, failed runs and the last one; of short ones, which may be thousands, one now and then
            if row.seconds >= LONG_RUN_SECONDS or display.is_silent or failed or not left:
                ahead = f"{left} to go, {display.time_left}" if left else "no run to go"
                display.print(f"{_format_outcome(label, row, failed=failed)} · {ahead}")

        yield listener


def format_work(
    name: str, model: str, roles: Mapping[str, Any], sizes: Mapping[str, int], waiting: int, calls: int
) -> str:
    """Format the amount of work on one line.

    Args:
        name: what is run, such as the benchmark.
        model: the model of the runs.
        roles: other models for some roles.
        sizes: numbers of methods, tasks and trials by their names in the singular.
        waiting: number of runs that have not ended.
        calls: maximum number of model calls of a run.
    """
    runs, factors = 1, []
    for kind, number in sizes.items():
        runs *= number
        factors += [format_count(number, kind)] if kind != "trial" or number > 1 else []
    line = f"{name}; {describe_models(model, roles)}; {format_count(runs, 'run')} ({' x '.join(factors)})"
    line += f": {runs - waiting} done"
    if is_scripted(model):
        return line
    return f"{line}, at most {format_count(calls, 'call')} each, at most {format_count(waiting * calls, 'call')} to go"


def run_label(method: str, task: str, trial: int) -> str:
    """Name a run for the progress: `sdp 4-0 trial 1`."""
    return f"{method} {task}" + (f" trial {trial}" if trial else "")


def _format_outcome(label: str, row: BenchmarkRow, *, failed: bool) -> str:
    usage = row.footer.usage
    tokens = f"{usage.input_tokens:,} + {usage.output_tokens:,} tokens"
    shown = format_parts(row.footer.scores.shown) if row.footer.scores else ""
    figures = f"{shown or f'score {100 * row.value:.4g} of 100'}, {format_count(usage.calls, 'call')}, {tokens}"
    denied = f" ({DENIED})" if is_goal_denied(row.ending, is_solved(row.footer.scores)) else ""
    line = f"{label}: {row.ending}{denied}, {figures}, {format_duration(row.seconds)}"
    if not failed:
        return line
    message = " ".join((row.footer.message or "it waits for an answer").split())
    return f"{line}; tried again next time: {shorten_text(message, MAX_MESSAGE_CHARACTERS)}"
