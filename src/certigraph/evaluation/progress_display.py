"""Progress of a long command on standard error: a bar in a terminal, and lines with the time that is left."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn

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
        """Advance to `done` and, if the output is no terminal, print a line now and then, and after the last item."""
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
