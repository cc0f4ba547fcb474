"""What a comparison says while it goes on: how much there is to do, each run's outcome, and the time that is left."""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from certigraph.adapters.models.chat import describe_models, is_scripted
from certigraph.evaluation.comparing.cells import Cell, finished
from certigraph.evaluation.comparing.compare import Told
from certigraph.evaluation.comparing.forecast import seconds_left, seconds_per_call, spoken
from certigraph.evaluation.comparing.plan import Plan
from certigraph.evaluation.comparing.rows import Row, row_of
from certigraph.evaluation.report.html import counted, shortened
from certigraph.evaluation.report.parts import clock
from certigraph.state.trajectory import Trajectory

MESSAGE = 200
"""Characters of a failed run's message; its trajectory has the rest."""


SOON = 0.5
"""Seconds; longer runs are all told."""

OFTEN = 10.0
"""Seconds after which some run is told anyway."""


@contextmanager
def watching(
    plan: Plan, waiting: Sequence[Cell], rows: Sequence[Row], *, at_once: int = 1, silent: bool = False
) -> Iterator[Told]:
    """A listener for the cells that are waiting, given the rows of those that are done."""
    console = Console(stderr=True, highlight=False, soft_wrap=True, quiet=silent)
    console.print(opening(plan, waiting, rows, at_once), markup=False)
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, console=console, transient=True, disable=silent or not console.is_terminal) as progress:
        yield _Watch(plan, waiting, rows, progress)


def opening(plan: Plan, waiting: Sequence[Cell], rows: Sequence[Row], at_once: int = 1) -> str:
    """Which models answer, and how many runs and calls there are, in one line."""
    cells = len(plan.methods) * len(plan.tasks) * plan.trials
    size = f"{counted(len(plan.methods), 'method')} x {counted(len(plan.tasks), 'task')}"
    size += f" x {plan.trials} trials" if plan.trials > 1 else ""
    told = f"{counted(cells, 'run')} ({size}): {cells - len(waiting)} done"
    if not is_scripted(plan.model):
        most = f"at most {counted(plan.budget.calls, 'call')} each"
        told = f"{told}, {most}, at most {counted(len(waiting) * plan.budget.calls, 'call')} to go"
    told = f"{describe_models(plan.model, plan.roles)}; {told}"
    pace = seconds_per_call(rows)
    return told + (f", {_left(plan, waiting, rows, pace and pace / at_once)}" if rows and waiting else "")


class _Watch:
    def __init__(self, plan: Plan, waiting: Sequence[Cell], rows: Sequence[Row], progress: Progress) -> None:
        self.plan, self.waiting, self.rows, self.progress = plan, list(waiting), list(rows), progress
        self.bar = progress.add_task(_called(waiting[0]) if waiting else "", total=len(waiting))
        self.began = self.told = time.monotonic()
        self.calls = 0

    def __call__(self, cell: Cell, trajectory: Trajectory) -> None:
        self.waiting.remove(cell)
        row = row_of(cell.method.name, cell.task, trajectory, cell.trial)
        self.calls += row.calls
        if finished(trajectory):
            self.rows.append(row)
        if self._worth_telling(row, trajectory):
            self.told = time.monotonic()
            self.progress.console.print(f"{outcome(row, trajectory)} · {self._left()}", markup=False)
        self.progress.update(self.bar, advance=1, description=_called(self.waiting[0]) if self.waiting else "")

    def _worth_telling(self, row: Row, trajectory: Trajectory) -> bool:
        """Long runs, failed ones, the last one; of the others, of which there may be thousands, one now and then."""
        late = time.monotonic() - self.told > OFTEN
        return row.seconds >= SOON or late or not finished(trajectory) or not self.waiting

    def _left(self) -> str:
        pace = (time.monotonic() - self.began) / self.calls if self.calls else None
        return _left(self.plan, self.waiting, self.rows, pace)


def outcome(row: Row, trajectory: Trajectory) -> str:
    """A run in one line; with its message where it is to be tried again."""
    tokens = f"{row.prompt_tokens:,} + {row.output_tokens:,} tokens"
    figures = f"score {row.score:.4g}, {counted(row.calls, 'call')}, {tokens}, {clock(row.seconds)}"
    number = f" trial {row.trial}" if row.trial else ""
    told = f"{row.method} {row.task}{number}: {row.ending}, {figures}"
    if finished(trajectory):
        return told
    message = trajectory.footer.message if trajectory.footer else "it waits for an answer"
    return f"{told}; tried again next time: {shortened(' '.join(message.split()), MESSAGE)}"


def _left(plan: Plan, waiting: Sequence[Cell], rows: Sequence[Row], pace: float | None) -> str:
    if not waiting:
        return "none left"
    seconds = seconds_left(rows, [cell.method.name for cell in waiting], plan.budget.calls, pace)
    return f"{len(waiting)} to go, {spoken(seconds)}" + (f" at {clock(pace)} a call" if pace is not None else "")


def _called(cell: Cell) -> str:
    return f"{cell.method.name} {cell.task}" + (f" trial {cell.trial}" if cell.trial else "")
