"""What a long command says while it goes on: a bar in a terminal, else a line now and then, with a forecast."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from certigraph.evaluation.comparing.forecast import spoken

OFTEN = 20.0
"""Seconds between two lines where there is no terminal."""


class Teller:
    """Counts what is done; lines go where the bar does not, to standard error."""

    def __init__(self, name: str, total: int, console: Console, progress: Progress) -> None:
        self.name, self.total, self.console, self.progress = name, total, console, progress
        self.bar = progress.add_task(name, total=total)
        self.began = self.told = time.monotonic()
        self.first: int | None = None

    def __call__(self, done: int, more: str = "") -> None:
        """So many of all are done now; `more` is said beside it."""
        first = self.first = done - 1 if self.first is None else self.first  # what an earlier start did took no time
        self.progress.update(self.bar, completed=done)
        now = time.monotonic()
        if done < self.total and (self.console.is_terminal or now - self.told < OFTEN):
            return
        self.told = now
        pace = (now - self.began) / max(1, done - first)
        left = spoken(pace * (self.total - done)) if done < self.total else f"{now - self.began:.0f} s"
        self.console.print(" · ".join(filter(None, (f"{self.name}: {done} of {self.total}", more, left))), markup=False)


@contextmanager
def telling(name: str, total: int, *, silent: bool = False) -> Iterator[Teller]:
    """A teller of `total` things to do."""
    console = Console(stderr=True, highlight=False, soft_wrap=True, quiet=silent)
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, console=console, transient=True, disable=silent or not console.is_terminal) as progress:
        yield Teller(name, total, console, progress)
