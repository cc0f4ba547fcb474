"""Frame that a terminal shows while an agent runs, drawn from a `RunHistory`.

`draw_frame` builds the frame. The functions with names that end in `_part` draw what differs between kinds of runs.
"""

from collections.abc import Callable, Iterator, Sequence

from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from certigraph.adapters.models.chat_models import describe_model
from certigraph.adapters.models.prompts import format_action
from certigraph.runtime.history import (
    NodeProgress,
    NodeStatus,
    NumberedTurn,
    PredicateRow,
    RefusedAction,
    RunHistory,
    format_plan,
)
from certigraph.runtime.result import error_rates_of
from certigraph.runtime.texts import (
    add_passed_count,
    clip_text,
    format_compact,
    format_count,
    format_duration,
    format_finding,
    format_points,
    format_score,
    passed_label,
)
from certigraph.state.endings import GOAL
from certigraph.state.records import Certificate
from certigraph.state.step import SubtaskStatus

# Text of models and worlds, whose control characters must not reach the terminal.

MAX_LINE_CHARACTERS = 300
"""Maximum number of characters of a line, unless the caller of `clean_line` gives another one."""


def clean_line(text: str, most: int = MAX_LINE_CHARACTERS) -> str:
    """Turn a text into one line of at most `most` printable characters."""
    return " ".join("".join(c if c.isprintable() else " " for c in clip_text(text, most)).split())


def clean_lines(text: str) -> str:
    """Replace the control characters of a text, except line ends, by spaces."""
    return "\n".join("".join(c if c.isprintable() else " " for c in line) for line in text.split("\n"))


# Rewards of a reward predictor.

BAR_WIDTH = 20
"""Width of the bar for a reward of 1, in characters."""


def reward_part(run: RunHistory, height: int) -> Table:
    """Draw the latest steps with their predicted rewards, in exactly `height` rows to keep the frame's height."""
    table = Table.grid(padding=(0, 1), expand=True)
    table.add_column(width=4, justify="right")
    table.add_column(width=BAR_WIDTH, no_wrap=True)
    table.add_column(ratio=1, no_wrap=True, overflow="ellipsis")
    latest = run.rating.rated[-height:]
    for rated in latest:
        bar = Text("━" * round(BAR_WIDTH * rated.reward), style="green")
        table.add_row(Text(f"{rated.reward:.2f}"), bar, Text(clean_line(rated.step.action) or "(looked)"))
    for _ in range(height - len(latest)):
        table.add_row(Text(), Text(), Text())
    return table


def reward_lines(run: RunHistory) -> Iterator[str]:
    """Yield the plain line for the latest step whose reward was predicted."""
    done, rated = len(run.rating.rated), run.rating.rated[-1]
    position = f"recording {rated.step.recording + 1}, step {done} of {len(run.rating.steps)}"
    yield f"{position}: reward {rated.reward:.2f}: {rated.step.action or '(looked)'}"


# The plan: certified predicates, the target, and predicates still to come.


DENIED = "denied by the scorer"
"""Says that the score contradicts a goal that was certified."""


def plan_part(run: RunHistory, height: int) -> Table:
    """Draw about `height` predicates of the plan around the target, the predicate to certify next.

    Under the target stands the reason why the latest attempt was rejected.
    """
    table = Table.grid(padding=(0, 1), expand=True)
    plan, rows = run.plan, run.rows
    table.add_column(width=1)
    table.add_column(justify="right", style="dim", min_width=len(str(len(plan.plan))))
    table.add_column(ratio=1, no_wrap=True, overflow="ellipsis")
    table.add_column(justify="right", style="dim", no_wrap=True)
    first, last = visible_range(len(plan.plan), plan.head, height)
    for row in rows[first:last]:
        table.add_row(*_plan_row(run, row))
        if row.position == plan.head and plan.rejection:
            table.add_row("", "", Text(clean_line(plan.rejection), style="red"), "")
    if not plan.plan:
        table.add_row("", "", Text("no plan yet", style="dim"), "")
    if not plan.rejection:
        table.add_row("", "", "", "")  # an empty row for the reason, so that the frame keeps its height
    table.add_row("", "", Text(format_hidden(first, len(plan.plan) - last), style="dim"), "")
    return table


def visible_range(length: int, head: int, height: int) -> tuple[int, int]:
    """Return first and last index of the part of a list that is shown; the last one is exclusive.

    Args:
        length: length of the list.
        head: index of the row that has to be in the upper third.
        height: number of rows to show.
    """
    first = max(0, min(head - height // 3, length - height))
    return first, min(length, first + height)


def format_hidden(before: int, after: int) -> str:
    """Format how many rows are not shown above and below those that are."""
    above = [f"{before} more above"] if before else []
    return ", ".join([*above, *([f"{after} more below"] if after else [])])


def _plan_row(run: RunHistory, row: PredicateRow) -> tuple[Text, str, Text, str]:
    plan, position = run.plan, row.position
    text, number = clean_line(row.predicate.text), str(position + 1)
    certificate = row.certificate if position < plan.head else None
    if certificate is None:
        if position != plan.head:
            return Text("·", style="dim"), number, Text(text, style="dim"), ""
        tried = f"{plan.tried} tried" if plan.tried else ""
        failed = run.ending not in ("", GOAL) and not run.solved
        return Text("✗", style="red") if failed else Text("▸", style="yellow"), number, Text(text, style="bold"), tried
    if certificate.restores is not None:
        return Text("↩", style="blue"), number, Text(text, style="blue"), f"back to state {certificate.restores}"
    if row.status == "undone":
        return Text("↶", style="yellow"), number, Text(text, style="dim strike"), "taken back"
    text_with_finding = Text.assemble(text, (_format_finding(certificate, position), "dim"))
    if certificate.forced:
        return Text("!", style="magenta"), number, text_with_finding, passed_label(clean_line(certificate.forced))
    denied = run.denied and position == len(plan.plan) - 1
    mark = Text("✕", style="red") if denied else Text("✓", style="green")
    return mark, number, text_with_finding, DENIED if denied else f"step {certificate.step}"


def _format_finding(certificate: Certificate, position: int) -> str:
    # Shown once in a cascade, with the predicate at its head.
    finding = certificate.finding if position == certificate.position else None
    return f" → {clean_line(format_finding(finding))}" if finding else ""


# The current episode: its subtask or plan, its latest turns, and scores of earlier episodes.

MAX_TURN_LINES = 12
"""Maximum number of lines with turns, even on a tall terminal."""

HEADING_LINES = 3
"""Number of lines above the turns: the episode, the subtask, an empty line."""

MAX_EARLIER_SCORES = 8
"""Maximum number of scores of earlier episodes that are shown."""

TURN_MARKS: dict[SubtaskStatus, tuple[str, str]] = {
    "open": ("▸", "yellow"),
    "completed": ("✓", "green"),
    "reported": ("✓", "green"),
    "failed": ("✗", "red"),
}

TurnRow = tuple[Text, Text, Text]
"""A row of the turns: mark, text, and text at the right."""

EMPTY_ROW: TurnRow = (Text(), Text(), Text())


def episode_part(run: RunHistory, height: int) -> Table:
    """Draw the latest turns of the current episode, in a fixed number of rows so that the frame keeps its height."""
    table = Table.grid(padding=(0, 1), expand=True)
    table.add_column(width=1)
    table.add_column(ratio=1, no_wrap=True, overflow="ellipsis")
    table.add_column(justify="right", no_wrap=True)
    most = max(min(height - HEADING_LINES, MAX_TURN_LINES), 1)
    rows = _latest_rows(run, most)
    for row in (_episode_heading(run), _subtask_row(run), EMPTY_ROW, *rows, *[EMPTY_ROW] * (most - len(rows) + 1)):
        table.add_row(*row)
    return table


def _latest_rows(run: RunHistory, most: int) -> list[TurnRow]:
    # As many of the latest turns as fit completely; the last one is cut if it does not fit alone.
    rows: list[TurnRow] = []
    for entry in reversed(list(run.episodes.now.entries()) if run.episodes.all else []):
        lines = list(_entry_rows(entry))
        if rows and len(rows) + len(lines) > most:
            break
        rows = [*lines, *rows]
    return rows[-most:]


def _episode_heading(run: RunHistory) -> TurnRow:
    if not run.episodes.all:
        return Text(), Text("no episode yet", style="dim"), Text()
    most = run.limit("trials") if run.episodes.learning else None
    number = f"{run.episodes.now.number} of {most}" if most else f"{run.episodes.now.number}"
    earlier = ", ".join(f"{episode.score:.3g}" for episode in run.episodes.all[:-1][-MAX_EARLIER_SCORES:])
    scores = Text(f"earlier scores {earlier}" if earlier else "", style="dim")
    return Text(), Text.assemble(("episode ", "dim"), number), scores


def _subtask_row(run: RunHistory) -> TurnRow:
    episode = run.episodes.now if run.episodes.all else None
    if episode is None:
        return EMPTY_ROW
    if episode.subtask is None:
        plan = episode.plan
        return (
            (Text("▸", style="yellow"), Text(clean_line(format_plan(plan)), style="bold"), Text())
            if plan
            else EMPTY_ROW
        )
    mark, style = TURN_MARKS[episode.subtask.status]
    count = f"{episode.count('completed')} completed, {episode.count('failed')} failed"
    return Text(mark, style=style), Text(clean_line(episode.subtask.text), style="bold"), Text(count, style="dim")


def _entry_rows(entry: NumberedTurn | RefusedAction) -> Iterator[TurnRow]:
    if isinstance(entry, RefusedAction):
        yield Text("✗", style="red"), Text(clean_line(entry.action), style="strike"), Text("refused", style="red")
        yield Text(), Text(clean_line(entry.reason), style="red"), Text()
        return
    turn = entry.turn
    if turn.thought:
        yield Text(), Text(clean_line(turn.thought), style="dim italic"), Text()
    style = "default" if turn.accepted else "red"
    yield Text("→", style="dim"), Text(clean_line(format_action(turn)), style=style), _points_text(entry)
    yield Text(), Text(clean_line(entry.answer), style="dim"), Text()
    if entry.prospect:
        yield Text(), Text(clean_line(entry.prospect.line), style="cyan"), Text()
    for note in entry.notes:
        yield Text(), Text(clean_line(note.text), style="red" if note.warns else "cyan"), Text()


def _points_text(entry: NumberedTurn) -> Text:
    return Text(f"{entry.points:+.3g}" if entry.scored else "", style="bold green" if entry.points > 0 else "bold red")


# The task graph: every node with its status and cost, working nodes with their latest action.

TASK_MARKS: dict[NodeStatus, tuple[str, str]] = {
    "pending": ("·", "dim"),
    "working": ("▸", "yellow"),
    "completed": ("✓", "green"),
    "failed": ("✗", "red"),
    "removed": ("~", "dim"),
}

MAX_ID_CHARACTERS, MAX_NEEDS_CHARACTERS = 16, 28

TaskRow = tuple[Text, Text, Text, Text]
"""A row of the sub-tasks: mark, id, text, and text at the right."""


def tasks_part(run: RunHistory, height: int) -> Group:
    """Draw the sub-tasks of a task graph, level by level, in at most `height` rows; the last shows the latest revision.

    If there are enough rows, every sub-task has a second row for its latest action or its result. Otherwise only
    sub-tasks in progress have one, and the list shows the part around them.
    """
    table = Table.grid(padding=(0, 1), expand=True)
    table.add_column(width=1)
    table.add_column(no_wrap=True, max_width=MAX_ID_CHARACTERS, overflow="ellipsis")
    table.add_column(ratio=1, no_wrap=True, overflow="ellipsis")
    table.add_column(justify="right", style="dim", no_wrap=True)
    nodes = [worked for level in run.tasks.levels() for worked in level]
    rows, omitted = _node_rows(nodes, height - 1, run.certified, run.tasks.goal if run.denied else "")
    row_count = max(min(2 * len(nodes), height - 1), 1)
    empty = (Text(), Text(), Text("" if nodes else "no task graph yet", style="dim"), Text())
    for row in (*rows, *[empty] * (row_count - len(rows))):  # always as many rows, so that the frame keeps its height
        table.add_row(*row)
    revised = [f"revision {revision.number}: {revision.line}" for revision in run.tasks.revisions[-1:]]
    last = Text(
        clean_line("; ".join(filter(None, [omitted, *revised]))), style="cyan", no_wrap=True, overflow="ellipsis"
    )
    return Group(table, last)


def _node_rows(nodes: Sequence[NodeProgress], height: int, label: str, denied: str) -> tuple[list[TaskRow], str]:
    """Return rows for the sub-tasks in at most `height` lines, and a text that says how many are left out."""
    if 2 * len(nodes) <= height:
        return [row for worked in nodes for row in (_node_row(worked, label, denied), _activity_row(worked))], ""
    busy = [worked for worked in nodes if worked.status == "working"]
    detailed = busy[: height // 3]
    first, last = visible_range(len(nodes), _focus_index(nodes), height - len(detailed))
    rows: list[TaskRow] = []
    for worked in nodes[first:last]:
        rows.append(_node_row(worked, label, denied))
        if worked in detailed:
            rows.append(_activity_row(worked))
    return rows, format_hidden(first, len(nodes) - last)


def _focus_index(nodes: Sequence[NodeProgress]) -> int:
    # The first working node, else the first pending one, else the last node.
    for status in ("working", "pending"):
        if indices := [number for number, worked in enumerate(nodes) if worked.status == status]:
            return indices[0]
    return len(nodes) - 1


def _node_row(worked: NodeProgress, label: str, denied: str) -> TaskRow:
    is_denied = worked.node.id == denied
    mark, style = ("✕", "red") if is_denied else TASK_MARKS[worked.status]
    task = Text(clean_line(worked.node.task), style={"pending": "dim", "removed": "dim strike"}.get(worked.status, ""))
    name = Text(clean_line(worked.node.id), style="bold" if worked.status == "working" else style)
    facts = [DENIED] if is_denied else _node_facts(worked, label)
    return Text(mark, style=style), name, task, Text("  ").join(map(Text, facts))


def _node_facts(worked: NodeProgress, label: str) -> Iterator[str]:
    if worked.changed:
        yield worked.changed
    if worked.status == "pending" and worked.node.needs:
        yield clean_line(f"needs {', '.join(worked.node.needs)}", MAX_NEEDS_CHARACTERS)
    if worked.inside.plan.total:
        yield add_passed_count(
            f"{worked.inside.plan.in_force}/{worked.inside.plan.total} {label}", worked.inside.plan.passed
        )
    if worked.spans:
        steps, calls = format_count(worked.steps, "step"), format_count(worked.calls, "call")
        yield f"{steps}, {calls}, {format_compact(worked.tokens)} tokens"


def _activity_row(worked: NodeProgress) -> TaskRow:
    # The second row of a node: its latest action, or its result.
    action = worked.inside.episodes.action
    if worked.status == "working":
        text = Text(f"→ {clean_line(action)}" if action else "…", style="default")
    elif worked.outcome:
        text = Text(clean_line(worked.outcome.result), style="red" if worked.outcome.status == "failed" else "dim")
    else:
        text = Text()
    return Text(), Text(), text, Text()


# The frame: goal, the part that fits the kind of run, and totals.

OTHER_LINES = 10
"""Number of lines of a frame in addition to the plan, turns or sub-tasks."""

RATES_WIDTH = 66
"""Minimum number of characters of a line with error rates of simulated agents, in a frame of 80 columns."""


def draw_frame(run: RunHistory, *, height: int, steps: int | None, seconds: float) -> RenderableType:
    """Draw the frame of a run.

    Args:
        run: the history of the run so far.
        height: number of lines of the terminal.
        steps: the limit of world steps; None: the limit in the run's header.
        seconds: seconds spent in nodes so far, in earlier processes too.
    """
    goal = Text(
        clean_line(run.header.task.goal) if run.header else "waiting for the run", overflow="ellipsis", no_wrap=True
    )
    rates = error_rates_of(run.header) if run.header else ""
    part = _select_part(run)(run, max(height - OTHER_LINES - -(-len(rates) // RATES_WIDTH), 3))
    top = [goal, Text(clean_line(rates), style="dim")] if rates else [goal]
    inside = Group(*top, Text(), part, _totals_text(run, steps, seconds))
    return Panel(
        inside,
        title=_frame_title(run),
        title_align="left",
        subtitle=_ending_text(run),
        border_style="dim",
        padding=(1, 2),
    )


def _select_part(run: RunHistory) -> Callable[[RunHistory, int], RenderableType]:
    if run.rating.steps:
        return reward_part
    if run.tasks.drawn:
        return tasks_part
    return episode_part if run.episodes.acting else plan_part


def step_limit(run: RunHistory, limit: int | None) -> int | None:
    """Return the limit of world steps: `limit` if it is given, else the one in the run's header, or None."""
    return limit if limit is not None else run.limit("steps")


def budget_of(run: RunHistory) -> float | None:
    """Return the amount of money that the task allows, taken from its constants; None if it names none."""
    amount = run.header.task.constants.get("budget") if run.header else None
    return float(amount) if isinstance(amount, int | float) else None


def _frame_title(run: RunHistory) -> Text:
    if run.header is None:
        return Text("certigraph")
    task = run.header.task
    name = Text(f"{run.header.graph} · {clean_line(task.benchmark)} {clean_line(task.id)}", style="bold")
    return name.append(
        f" · {clean_line(describe_model(str(run.header.context.get('model', ''))))}", style="not bold dim"
    )


def _ending_text(run: RunHistory) -> Text | None:
    if run.footer is None:
        return Text("waits for an answer", style="bold yellow") if run.questions else None
    style = "bold yellow" if run.denied else "bold green" if run.solved or run.footer.ending == GOAL else "bold red"
    ending = Text(f"{run.footer.ending}{f', {DENIED}' if run.denied else ''}", style=style)
    return ending.append(f" · score {format_score(run.scores.value)}" if run.scores else "", style="default")


def _totals_text(run: RunHistory, steps: int | None, seconds: float) -> Text:
    money, cached = budget_of(run), run.spent["cached_tokens"]
    shown = {
        **_progress_texts(run, steps),
        "calls": f"{run.spent['calls']:.0f}",
        "tokens": format_compact(run.tokens) + (f" ({format_compact(cached)} cached)" if cached else ""),
    }
    if run.cut_prompts:
        shown["cut prompts"] = f"{len(run.cut_prompts)}"
    if run.spent["usd"]:
        shown["cost"] = f"${run.spent['usd']:.4f}"
    if run.cost is not None and money is not None:
        shown["trip costs"] = f"${run.cost:,.0f} of ${money:,.0f}"
    shown["time"] = format_duration(seconds) if run.footer else f"{int(seconds) // 60}:{int(seconds) % 60:02}"
    parts = (Text.assemble((f"{name} ", "dim"), value) for name, value in shown.items())
    return Text("   ").join(parts)


def _progress_texts(run: RunHistory, steps: int | None) -> dict[str, str]:
    if run.rating.steps:
        return {"rated": _format_fraction(len(run.rating.rated), len(run.rating.steps))}
    if run.tasks.drawn:
        return _task_progress(run, steps)
    return _episode_progress(run, steps) if run.episodes.acting else _plan_progress(run, steps)


def _task_progress(run: RunHistory, steps: int | None) -> dict[str, str]:
    tasks = run.tasks
    failed = {"failed": f"{tasks.count('failed')}"} if tasks.count("failed") else {}
    graded = {"score": format_points(run.episodes.now.reported)} if run.episodes.graded else {}
    return {
        "sub-tasks": f"{tasks.count('completed')}/{tasks.live}",
        **failed,
        **graded,
        "steps": _format_fraction(run.steps, step_limit(run, steps)),
    }


def _plan_progress(run: RunHistory, steps: int | None) -> dict[str, str]:
    graded = {"score": format_points(run.episodes.now.reported)} if run.episodes.graded else {}
    passed = {"uncertified": f"{run.plan.passed}"} if run.plan.passed else {}
    return {
        run.certified: f"{run.plan.in_force}/{run.plan.total}",
        **passed,
        **graded,
        "steps": _format_fraction(run.steps, step_limit(run, steps)),
        "replans": f"{run.plan.replans}" + (f" ({run.plan.gave_up:,} gave up)" if run.plan.gave_up else ""),
    }


def _episode_progress(run: RunHistory, steps: int | None) -> dict[str, str]:
    episodes = run.episodes  # the limit of steps holds for each episode
    steps_taken = len(episodes.all[-1].scores) if episodes.all else 0
    score = episodes.all[-1].reported if episodes.all else 0.0
    return {"score": format_points(score), "steps": _format_fraction(steps_taken, step_limit(run, steps))}


def _format_fraction(count: int, limit: int | None) -> str:
    return f"{count}/{limit}" if limit else f"{count}"
