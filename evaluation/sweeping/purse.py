"""What all runs of a sweep spend together, and when that is enough."""

import time
from collections.abc import Iterable
from pathlib import Path

from certigraph.adapters.context import Budget
from certigraph.evaluation.budgets import must_be_priced
from certigraph.evaluation.comparing.cells import Cell, recorded
from certigraph.evaluation.sweeping.asked import Most
from certigraph.state.records import Record
from certigraph.state.trajectory import Trajectory

HOUR = 3_600


class Spending(Record):
    """What runs spent, finished or not, work that was done twice included."""

    usd: float = 0.0
    tokens: int = 0
    calls: int = 0


def total(several: Iterable[Spending]) -> Spending:
    """The sum."""
    runs = list(several)
    return Spending(**{name: sum(getattr(run, name) for run in runs) for name in Spending.model_fields})


class Purse:
    """Counts what the runs spend as they end. Overspent by at most what the runs under way may spend."""

    def __init__(self, most: Most, cells: Iterable[Cell]) -> None:
        """`cells`: those of the whole sweep; what they spent before is counted."""
        self.most, self.began = most, time.monotonic()
        self.by_run: dict[Path, Spending] = {}
        for cell in cells:
            if trajectory := recorded(cell):
                self.note(cell, trajectory)

    def note(self, cell: Cell, trajectory: Trajectory) -> None:
        """Count a run, in place of what was known of it."""
        used = trajectory.usage
        tokens = used.input_tokens + used.output_tokens
        self.by_run[cell.folder] = Spending(usd=used.usd, tokens=tokens, calls=used.calls)

    def spent(self) -> Spending:
        """What all runs spent."""
        return total(self.by_run.values())

    def empty(self) -> str:
        """What is spent, in words; nothing while there is room."""
        spent, most = self.spent(), self.most
        hours = (time.monotonic() - self.began) / HOUR
        if most.usd and spent.usd >= most.usd:
            return f"{spent.usd:.4g} of {most.usd:g} usd are spent"
        if most.tokens and spent.tokens >= most.tokens:
            return f"{spent.tokens:,} of {most.tokens:,} tokens are spent"
        if most.calls and spent.calls >= most.calls:
            return f"{spent.calls:,} of {most.calls:,} calls are made"
        return f"{most.hours:g} hours are over" if most.hours and hours >= most.hours else ""


def must_have_prices(most: Most, models: Iterable[str]) -> None:
    """Refuse a limit in dollars where a model's price is unknown: it would never be reached. Raises Fault."""
    if most.usd is not None:
        must_be_priced(models, Budget(usd=most.usd))
