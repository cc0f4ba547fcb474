"""The task graph of a watched run: every node with its state and its cost, those at work with what they do now."""

from collections.abc import Iterator, Sequence

from rich.console import Group
from rich.table import Table
from rich.text import Text

from certigraph.evaluation.live.fold import Watched
from certigraph.evaluation.live.plan import hidden, window
from certigraph.evaluation.live.text import clean
from certigraph.evaluation.report.html import counted
from certigraph.evaluation.report.parts import compact
from certigraph.evaluation.report.words import with_passed
from certigraph.evaluation.report.worked import Status, Worked

MARKS: dict[Status, tuple[str, str]] = {
    "pending": ("·", "dim"),
    "working": ("▸", "yellow"),
    "completed": ("✓", "green"),
    "failed": ("✗", "red"),
    "removed": ("~", "dim"),
}

LONGEST_ID, LONGEST_NEEDS = 16, 28

Row = tuple[Text, Text, Text, Text]


def tasks_part(run: Watched, room: int) -> Group:
    """The nodes, level by level, in at most `room` rows, and the latest revision in the last one.

    Where there is room, every node has a second row for what it does or came to; else those at work have one, and the
    list is a window around them.
    """
    table = Table.grid(padding=(0, 1), expand=True)
    table.add_column(width=1)
    table.add_column(no_wrap=True, max_width=LONGEST_ID, overflow="ellipsis")
    table.add_column(ratio=1, no_wrap=True, overflow="ellipsis")
    table.add_column(justify="right", style="dim", no_wrap=True)
    nodes = [worked for level in run.tasks.levels() for worked in level]
    rows, told = _rows(nodes, room - 1)
    height = max(min(2 * len(nodes), room - 1), 1)
    empty = (Text(), Text(), Text("" if nodes else "no task graph yet", style="dim"), Text())
    for row in (*rows, *[empty] * (height - len(rows))):  # always as many, so that the frame stands still
        table.add_row(*row)
    revised = [f"revision {revision.number}: {revision.words}" for revision in run.tasks.revisions[-1:]]
    last = Text(clean("; ".join(filter(None, [told, *revised]))), style="cyan", no_wrap=True, overflow="ellipsis")
    return Group(table, last)


def _rows(nodes: Sequence[Worked], room: int) -> tuple[list[Row], str]:
    """The rows, and in words how many nodes they leave out."""
    if 2 * len(nodes) <= room:
        return [row for worked in nodes for row in (_node(worked), _now(worked))], ""
    busy = [worked for worked in nodes if worked.status == "working"]
    detailed = busy[: room // 3]
    first, last = window(len(nodes), _focus(nodes), room - len(detailed))
    rows: list[Row] = []
    for worked in nodes[first:last]:
        rows.append(_node(worked))
        if worked in detailed:
            rows.append(_now(worked))
    return rows, hidden(first, len(nodes) - last)


def _focus(nodes: Sequence[Worked]) -> int:
    """The first node at work, else the first that waits, else the last."""
    for status in ("working", "pending"):
        if found := [number for number, worked in enumerate(nodes) if worked.status == status]:
            return found[0]
    return len(nodes) - 1


def _node(worked: Worked) -> Row:
    mark, style = MARKS[worked.status]
    task = Text(clean(worked.node.task), style={"pending": "dim", "removed": "dim strike"}.get(worked.status, ""))
    name = Text(clean(worked.node.id), style="bold" if worked.status == "working" else style)
    return Text(mark, style=style), name, task, Text("  ").join(map(Text, _facts(worked)))


def _facts(worked: Worked) -> Iterator[str]:
    if worked.changed:
        yield worked.changed
    if worked.status == "pending" and worked.node.needs:
        yield clean(f"needs {', '.join(worked.node.needs)}", LONGEST_NEEDS)
    if worked.whole:
        yield with_passed(f"{worked.certified}/{worked.whole} certified", worked.passed)
    if worked.events:
        yield f"{counted(worked.steps, 'step')}, {counted(worked.calls, 'call')}, {compact(worked.tokens)} tokens"


def _now(worked: Worked) -> Row:
    """What a node does at the moment, or what became of it."""
    if worked.status == "working":
        told = Text(f"→ {clean(worked.action)}" if worked.action else "…", style="default")
    elif worked.outcome:
        told = Text(clean(worked.outcome.result), style="red" if worked.outcome.status == "failed" else "dim")
    else:
        told = Text()
    return Text(), Text(), told, Text()
