"""One picture of a watched run, fitted to the terminal: the plan around its head, and what it has cost."""

from collections.abc import Iterator

from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from certigraph.evaluation.live.fold import Watched
from certigraph.state.endings import GOAL

AROUND = 10
"""Lines of a frame that are not the plan."""

LONGEST = 300


def frame(run: Watched, *, height: int, steps: int | None, seconds: float) -> RenderableType:
    """The frame for a terminal of that height; `steps` is the limit of world steps, None when it is not known."""
    goal = Text(clean(run.header.task.goal) if run.header else "waiting for the run", overflow="ellipsis", no_wrap=True)
    inside = Group(goal, Text(), _plan(run, max(height - AROUND, 3)), _figures(run, steps, seconds))
    return Panel(
        inside, title=_title(run), title_align="left", subtitle=_ending(run), border_style="dim", padding=(1, 2)
    )


def clean(text: str, most: int = LONGEST) -> str:
    """One printable line: control characters in what a model or a world wrote must not steer the terminal."""
    cut = text if len(text) <= most else text[: most - 1] + "…"
    return " ".join("".join(c if c.isprintable() else " " for c in cut).split())


def step_limit(run: Watched, given: int | None) -> int | None:
    """The limit of world steps: as given, else as the run's own header has it."""
    limits = run.header.context.get("limits") if run.header else None
    recorded = limits.get("steps") if isinstance(limits, dict) else None
    return given if given is not None else recorded if isinstance(recorded, int) else None


def budget(run: Watched) -> float | None:
    """The money that the task allows, where it names an amount."""
    amount = run.header.task.constants.get("budget") if run.header else None
    return float(amount) if isinstance(amount, int | float) else None


def _title(run: Watched) -> Text:
    if run.header is None:
        return Text("certigraph")
    task = run.header.task
    name = Text(f"{run.header.graph} · {clean(task.benchmark)} {clean(task.id)}", style="bold")
    return name.append(f" · {clean(str(run.header.context.get('model', '')))}", style="not bold dim")


def _ending(run: Watched) -> Text | None:
    if run.footer is None:
        return None
    style = "bold green" if run.footer.ending == GOAL else "bold red"
    score = f" · score {run.footer.scores.value:.3g}" if run.footer.scores else ""
    return Text(run.footer.ending, style=style).append(score, style="default")


def _plan(run: Watched, room: int) -> Table:
    table = Table.grid(padding=(0, 1), expand=True)
    table.add_column(width=1)
    table.add_column(justify="right", style="dim")
    table.add_column(ratio=1, no_wrap=True, overflow="ellipsis")
    table.add_column(justify="right", style="dim", no_wrap=True)
    first, last = _window(len(run.plan), run.head, room)
    for position in range(first, last):
        table.add_row(*_row(run, position))
        if position == run.head and run.reason:
            table.add_row("", "", Text(clean(run.reason), style="red"), "")
    if not run.plan:
        table.add_row("", "", Text("no plan yet", style="dim"), "")
    if not run.reason:
        table.add_row("", "", "", "")  # the place of the reason, so that the frame keeps its height
    hidden = ", ".join(_hidden(first, len(run.plan) - last))
    table.add_row("", "", Text(hidden, style="dim"), "")
    return table


def _window(length: int, head: int, room: int) -> tuple[int, int]:
    first = max(0, min(head - room // 3, length - room))
    return first, min(length, first + room)


def _hidden(before: int, after: int) -> Iterator[str]:
    if before:
        yield f"{before} more above"
    if after:
        yield f"{after} more below"


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
    return Text("✓", style="green"), number, Text(text), f"step {certificate.step}"


def _figures(run: Watched, steps: int | None, seconds: float) -> Text:
    limit, money = step_limit(run, steps), budget(run)
    shown = {
        "certified": f"{run.standing}/{run.whole}",
        "steps": f"{run.steps}/{limit}" if limit else f"{run.steps}",
        "replans": f"{run.replans}",
        "calls": f"{run.spent['calls']:.0f}",
        "tokens": f"{run.tokens:,} ({run.spent['cached_tokens']:,.0f} cached)",
    }
    if run.spent["usd"]:
        shown["cost"] = f"${run.spent['usd']:.4f}"
    if run.cost is not None and money is not None:
        shown["spent"] = f"${run.cost:,.0f} of ${money:,.0f}"
    shown["time"] = f"{int(seconds) // 60}:{int(seconds) % 60:02}"
    parts = (Text.assemble((f"{name} ", "dim"), value) for name, value in shown.items())
    return Text("   ").join(parts)
