"""What the command `figures` says."""

from rich.console import Console
from rich.table import Table

from certigraph.evaluation.figures.figures import Drawn
from certigraph.evaluation.figures.planner import Change


def print_drawn(drawn: Drawn, *, kept: bool) -> None:
    """The table of the Planner's worth, accidental wins, runs left out, and the files."""
    console = Console(highlight=False, soft_wrap=True)
    if drawn.changes:
        console.print(_table(drawn.changes))
    treated = "kept" if kept else "left out; --with-accidental keeps them"
    console.print(f"{drawn.episodes} episodes, {len(drawn.accidents)} of them won by accident ({treated})")
    for folder in drawn.left_out:
        console.print(f"left out, unfinished or ended by an error: {folder}", style="dim", markup=False)
    for file in drawn.files:
        console.print(str(file), markup=False)


def _table(changes: tuple[Change, ...]) -> Table:
    table = Table("tasks", "n", "score", "planner=none", "change", "solved %", "planner=none", "change", box=None)
    several = len({change.model for change in changes}) > 1
    for c in changes:
        figures = (c.score, c.score_without, c.score_change, c.success, c.success_without, c.success_change)
        shown = (f"{value:+.1f}" if place in (2, 5) else f"{value:.1f}" for place, value in enumerate(figures))
        table.add_row(f"{c.group}, {c.model}" if several else c.group, str(c.tasks), *shown)
    return table
