"""The plan of a watched run: what is certified, the target, and what is still to come."""

from rich.table import Table
from rich.text import Text

from certigraph.evaluation.live.fold import Watched
from certigraph.evaluation.live.text import clean
from certigraph.evaluation.report.words import in_a_line, passed_by
from certigraph.state.endings import GOAL
from certigraph.state.records import Certificate


def plan_part(run: Watched, room: int) -> Table:
    """The plan around its head in `room` rows, and why the last attempt was rejected."""
    table = Table.grid(padding=(0, 1), expand=True)
    table.add_column(width=1)
    table.add_column(justify="right", style="dim")
    table.add_column(ratio=1, no_wrap=True, overflow="ellipsis")
    table.add_column(justify="right", style="dim", no_wrap=True)
    first, last = window(len(run.plan), run.head, room)
    for position in range(first, last):
        table.add_row(*_row(run, position))
        if position == run.head and run.reason:
            table.add_row("", "", Text(clean(run.reason), style="red"), "")
    if not run.plan:
        table.add_row("", "", Text("no plan yet", style="dim"), "")
    if not run.reason:
        table.add_row("", "", "", "")  # the place of the reason, so that the frame keeps its height
    table.add_row("", "", Text(hidden(first, len(run.plan) - last), style="dim"), "")
    return table


def window(length: int, head: int, room: int) -> tuple[int, int]:
    """The part of a list of that length that is shown in so many rows: its head in the upper third."""
    first = max(0, min(head - room // 3, length - room))
    return first, min(length, first + room)


def hidden(before: int, after: int) -> str:
    """How much is not shown on either side."""
    above = [f"{before} more above"] if before else []
    return ", ".join([*above, *([f"{after} more below"] if after else [])])


def _row(run: Watched, position: int) -> tuple[Text, str, Text, str]:
    text, number = clean(run.plan[position]), str(position + 1)
    certificate = run.certified.get(position) if position < run.head else None
    if certificate is None:
        if position != run.head:
            return Text("·", style="dim"), number, Text(text, style="dim"), ""
        tried = f"{run.tried} tried" if run.tried else ""
        failed = run.footer is not None and run.footer.ending != GOAL
        return Text("✗", style="red") if failed else Text("▸", style="yellow"), number, Text(text, style="bold"), tried
    if certificate.restores is not None:
        return Text("↩", style="blue"), number, Text(text, style="blue"), f"back to state {certificate.restores}"
    if position in run.undone:
        return Text("↶", style="yellow"), number, Text(text, style="dim strike"), "taken back"
    found = Text.assemble(text, (_found(certificate, position), "dim"))
    if certificate.forced:
        return Text("!", style="magenta"), number, found, passed_by(clean(certificate.forced))
    return Text("✓", style="green"), number, found, f"step {certificate.step}"


def _found(certificate: Certificate, position: int) -> str:
    """The finding behind its predicate, once in a cascade."""
    shown = certificate.finding if position == certificate.position else None
    return f" → {clean(in_a_line(shown))}" if shown else ""
