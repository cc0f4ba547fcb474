"""Frame that a terminal shows while an agent runs, drawn from a `RunHistory`.

`draw_frame` builds the frame. The functions with names that end in `_part` draw what differs between kinds of runs.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

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
    format_empty_calls,
    format_finding,
    format_points,
    format_scores,
    passed_label,
)
from certigraph.state.endings import FINISHED, GOAL
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


# The parts of a frame that differ between kinds of runs.

Row = Sequence[Text | str]
"""A row of a part: mark, label if the part has labels, text, and text at the right."""


def draw_rows(rows: Iterable[Row], **label: Any) -> Table:
    """Draw the rows of a part; `label` has the options of the column of labels, if there is one."""
    table = Table.grid(padding=(0, 1), expand=True)
    table.add_column(width=1)
    if label:
        table.add_column(**label)
    table.add_column(ratio=1, no_wrap=True, overflow="ellipsis")
    table.add_column(justify="right", style="dim" if label else "", no_wrap=True)
    for row in rows:
        table.add_row(*row)
    return table


def pad_rows(rows: Sequence[Row], count: int, columns: int) -> list[Row]:
    """Add empty rows up to a number of rows, so that the frame keeps its height."""
    return [*rows, *[("",) * columns] * (count - len(rows))]


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
    return ", ".join(f"{count} more {where}" for count, where in ((before, "above"), (after, "below")) if count)


BAR_WIDTH = 20
"""Width of the bar for a reward of 1, in characters."""


def reward_part(run: RunHistory, height: int) -> Table:
    """Draw the latest recorded steps with their predicted rewards."""
    rows = [
        (
            "",
            Text.assemble(f"{rated.reward:.2f} ", ("━" * round(BAR_WIDTH * rated.reward), "green")),
            Text(clean_line(rated.step.action) or "(looked)"),
            "",
        )
        for rated in run.rating.rated[-height:]
    ]
    return draw_rows(pad_rows(rows, height, 4), width=BAR_WIDTH + 5, no_wrap=True)


# The plan: certified predicates, the target, and predicates still to come.

DENIED = "denied by the scorer"
"""Says that the score contradicts a goal that was certified."""


def plan_part(run: RunHistory, height: int) -> Table:
    """Draw about `height` predicates of the plan around the target, the predicate to certify next.

    Under the target stands the reason why the latest attempt was rejected.
    """
    plan, rows = run.plan, list[Row]()
    first, last = visible_range(len(plan.plan), plan.head, height)
    for row in run.rows[first:last]:
        rows.append(_plan_row(run, row))
        if row.position == plan.head and plan.rejection:
            in_vain = bool(plan.attempts) and plan.attempts[-1].failed
            rows.append(("", "", Text(clean_line(plan.rejection), style="red" if in_vain else "yellow"), ""))
    if not plan.plan:
        rows.append(("", "", Text("no plan yet", style="dim"), ""))
    if not plan.rejection:
        rows.append(("", "", "", ""))  # the place of the reason, so that the frame keeps its height
    rows.append(("", "", Text(format_hidden(first, len(plan.plan) - last), style="dim"), ""))
    return draw_rows(rows, justify="right", style="dim", min_width=len(str(len(plan.plan))))


def _plan_row(run: RunHistory, row: PredicateRow) -> Row:
    plan, position = run.plan, row.position
    text, number = clean_line(row.predicate.text), str(position + 1)
    certificate = row.certificate if position < plan.head else None
    if certificate is None:
        if position != plan.head:
            return Text("·", style="dim"), number, Text(text, style="dim"), ""
        judged = sum(attempt.counted for attempt in plan.attempts[len(plan.attempts) - plan.tried :])
        tried = f"{judged} tried" if judged else ""
        failed = run.ending not in ("", GOAL) and not run.solved
        return Text("✗", style="red") if failed else Text("▸", style="yellow"), number, Text(text, style="bold"), tried
    if certificate.restores is not None:
        return Text("↩", style="blue"), number, Text(text, style="blue"), f"back to state {certificate.restores}"
    if row.status == "undone":
        return Text("↶", style="yellow"), number, Text(text, style="dim strike"), "taken back"
    # a finding is shown once in a cascade, with the predicate at its head
    finding = certificate.finding if position == certificate.position else None
    found = f" → {clean_line(format_finding(finding))}" if finding else ""
    text_with_finding = Text.assemble(text, (found, "dim"))
    if certificate.forced:
        return Text("!", style="magenta"), number, text_with_finding, passed_label(clean_line(certificate.forced))
    denied = run.denied and position == len(plan.plan) - 1
    mark = Text("✕", style="red") if denied else Text("✓", style="green")
    return mark, number, text_with_finding, DENIED if denied else f"step {certificate.step}"


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


def episode_part(run: RunHistory, height: int) -> Table:
    """Draw the latest turns of the current episode, in a fixed number of rows so that the frame keeps its height."""
    most, rows = max(min(height - HEADING_LINES, MAX_TURN_LINES), 1), list[Row]()
    # as many of the latest turns as fit completely; the last one is cut if it does not fit alone
    for entry in reversed(list(run.episodes.now.entries())):
        lines = list(_entry_rows(entry))
        if rows and len(rows) + len(lines) > most:
            break
        rows = [*lines, *rows]
    return draw_rows([*_heading_rows(run), ("", "", ""), *pad_rows(rows[-most:], most + 1, 3)])


def _heading_rows(run: RunHistory) -> list[Row]:
    if not run.episodes.all:
        return [("", Text("no episode yet", style="dim"), ""), ("", "", "")]
    episode, most = run.episodes.now, run.limit("trials") if run.episodes.learning else None
    number = f"{episode.number} of {most}" if most else f"{episode.number}"
    earlier = ", ".join(f"{one.score:.3g}" for one in run.episodes.all[:-1][-MAX_EARLIER_SCORES:])
    heading = "", Text.assemble(("episode ", "dim"), number), Text(earlier and f"earlier scores {earlier}", style="dim")
    if episode.subtask:
        is_reached = episode.subtask.status == "open" and (episode.reached or run.ending == GOAL)
        mark, style = TURN_MARKS["completed" if is_reached else episode.subtask.status]
        text, count = episode.subtask.text, f"{episode.count('completed')} completed, {episode.count('failed')} failed"
    else:
        (mark, style), text, count = TURN_MARKS["open"], format_plan(episode.plan), ""
    shown = Text(mark if text else "", style=style), Text(clean_line(text), style="bold"), Text(count, style="dim")
    return [heading, shown]


def _entry_rows(entry: NumberedTurn | RefusedAction) -> Iterator[Row]:
    if isinstance(entry, RefusedAction):
        yield Text("✗", style="red"), Text(clean_line(entry.action), style="strike"), Text("refused", style="red")
        yield "", Text(clean_line(entry.reason), style="red"), ""
        return
    turn, style = entry.turn, "bold green" if entry.points > 0 else "bold red"
    if turn.thought:
        yield "", Text(clean_line(turn.thought), style="dim italic"), ""
    action = Text(clean_line(format_action(turn)), style="default" if turn.accepted else "red")
    yield Text("→", style="dim"), action, Text(f"{entry.points:+.3g}" if entry.scored else "", style=style)
    yield "", Text(clean_line(entry.answer), style="dim"), ""
    if entry.prospect:
        yield "", Text(clean_line(entry.prospect.line), style="cyan"), ""
    for note in entry.notes:
        yield "", Text(clean_line(note.text), style="red" if note.warns else "cyan"), ""


# The task graph: every node with its status and cost, working nodes with their latest action.

TASK_MARKS: dict[NodeStatus, tuple[str, str]] = {
    "pending": ("·", "dim"),
    "working": ("▸", "yellow"),
    "completed": ("✓", "green"),
    "failed": ("✗", "red"),
    "removed": ("~", "dim"),
}

MAX_ID_CHARACTERS, MAX_NEEDS_CHARACTERS = 16, 28


def tasks_part(run: RunHistory, height: int) -> Group:
    """Draw the sub-tasks of a task graph, level by level, in at most `height` rows; the last shows the latest revision.

    If there are enough rows, every sub-task has a second row for its latest action or its result. Otherwise only
    sub-tasks in progress have one, and the list shows the part around the first of them.
    """
    nodes, rows, first_row = [worked for level in run.tasks.levels() for worked in level], list[Row](), dict[str, int]()
    count = max(min(2 * len(nodes), height - 1), 1)
    for worked in nodes:
        first_row.setdefault(worked.status, len(rows))
        rows.append(_node_row(run, worked))
        if worked.status == "working" or 2 * len(nodes) <= height - 1:
            rows.append(_activity_row(worked))
    focus = first_row.get("working", first_row.get("pending", len(rows) - 1))
    first, last = visible_range(len(rows), focus, count)
    if not nodes:
        rows.append(("", "", Text("no task graph yet", style="dim"), ""))
    table = draw_rows(
        pad_rows(rows[first : last or 1], count, 4), no_wrap=True, max_width=MAX_ID_CHARACTERS, overflow="ellipsis"
    )
    revised = [f"revision {revision.number}: {revision.line}" for revision in run.tasks.revisions[-1:]]
    below = "; ".join(filter(None, [format_hidden(first, len(rows) - last) if nodes else "", *revised]))
    return Group(table, Text(clean_line(below), style="cyan", no_wrap=True, overflow="ellipsis"))


def _node_row(run: RunHistory, worked: NodeProgress) -> Row:
    is_denied, plan, facts = run.denied and worked.node.id == run.tasks.goal, worked.inside.plan, list[str]()
    mark, style = ("✕", "red") if is_denied else TASK_MARKS[worked.status]
    task = Text(clean_line(worked.node.task), style={"pending": "dim", "removed": "dim strike"}.get(worked.status, ""))
    name = Text(clean_line(worked.node.id), style="bold" if worked.status == "working" else style)
    if worked.changed:
        facts.append(worked.changed)
    if worked.status == "pending" and worked.node.needs:
        facts.append(clean_line(f"needs {', '.join(worked.node.needs)}", MAX_NEEDS_CHARACTERS))
    if plan.total:
        facts.append(add_passed_count(f"{plan.in_force}/{plan.total} {run.certified}", plan.passed))
    if worked.spans:
        steps, calls = format_count(worked.steps, "step"), format_count(worked.calls, "call")
        facts.append(f"{steps}, {calls}, {format_compact(worked.tokens)} tokens")
    return Text(mark, style=style), name, task, Text(DENIED if is_denied else "  ".join(facts))


def _activity_row(worked: NodeProgress) -> Row:
    # The second row of a node: its latest action, or its result.
    action, outcome, text = worked.inside.episodes.action, worked.outcome, Text()
    if worked.status == "working":
        text = Text(f"→ {clean_line(action)}" if action else "…", style="default")
    elif outcome:
        text = Text(clean_line(outcome.result), style="red" if outcome.status == "failed" else "dim")
    return "", "", text, ""


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
    goal, title, rates = "waiting for the run", Text("certigraph"), ""
    if run.header:
        task, model = run.header.task, describe_model(str(run.header.context.get("model", "")))
        goal, rates = clean_line(task.goal), error_rates_of(run.header)
        title = Text(f"{run.header.graph} · {clean_line(task.benchmark)} {clean_line(task.id)}", style="bold")
        title.append(f" · {clean_line(model)}", style="not bold dim")
    if run.rating.steps:
        part: Callable[[RunHistory, int], RenderableType] = reward_part
    elif run.tasks.drawn:
        part = tasks_part
    else:
        part = episode_part if run.episodes.acting else plan_part
    top = [Text(goal, overflow="ellipsis", no_wrap=True), *([Text(clean_line(rates), style="dim")] if rates else [])]
    drawn = part(run, max(height - OTHER_LINES - -(-len(rates) // RATES_WIDTH), 3))
    totals = (Text.assemble((f"{name} ", "dim"), text) for name, text in _totals(run, steps, seconds).items() if text)
    return Panel(
        Group(*top, Text(), drawn, Text("   ").join(totals)),
        title=title,
        title_align="left",
        subtitle=_ending_text(run),
        border_style="dim",
        padding=(1, 2),
    )


def _ending_text(run: RunHistory) -> Text | None:
    if run.footer is None:
        return Text("waits for an answer", style="bold yellow") if run.questions else None
    style = "bold yellow" if run.denied else "bold green" if run.solved or run.ending == GOAL else "bold red"
    if run.ending == FINISHED and not run.denied:
        style = "bold"  # an answer that nobody judged
    ending = Text(f"{run.ending}{f', {DENIED}' if run.denied else ''}", style=style)
    ending.append(f" · {format_scores(run.scores)}" if run.scores else "", style="default")
    return ending.append(f" · {clean_line(run.loss)}" if run.loss else "", style="bold red")


def _totals(run: RunHistory, limit: int | None, seconds: float) -> dict[str, str]:
    spent, cached, usd, empty = run.spent, run.spent["cached_tokens"], run.spent["usd"], format_empty_calls(run.empty)
    money = run.header.task.constants.get("budget") if run.header else None
    has_budget = run.cost is not None and isinstance(money, int | float)
    return {
        **_progress(run, limit if limit is not None else run.limit("steps")),
        "calls": f"{spent['calls']:.0f}" + (f" ({format_roles(run)})" if run.footer and len(run.roles) > 1 else ""),
        "without information": f"{run.empty.total or ''}" + (f" ({empty})" if run.footer and empty else ""),
        "tokens": format_compact(run.tokens) + (f" ({format_compact(cached)} cached)" if cached else ""),
        "cut prompts": f"{len(run.cut_prompts) or ''}",
        "cost": f"${usd:.4f}" if usd else "",
        "trip costs": f"${run.cost:,.0f} of ${money:,.0f}" if has_budget else "",
        "time": format_duration(seconds) if run.footer else f"{int(seconds) // 60}:{int(seconds) % 60:02}",
    }


def format_roles(run: RunHistory) -> str:
    """Format the number of model calls of each role on one line."""
    return ", ".join(f"{clean_line(role)} {cost.calls:,}" for role, cost in run.roles.items())


def _progress(run: RunHistory, limit: int | None) -> dict[str, str]:
    plan, tasks, episodes = run.plan, run.tasks, run.episodes
    score, steps, most = "", run.steps, f"/{limit}" if limit else ""
    if run.rating.steps:
        return {"rated": f"{len(run.rating.rated)}/{len(run.rating.steps)}"}
    if episodes.graded or (episodes.acting and not tasks.drawn):
        score = format_points(episodes.now.reported)
    if tasks.drawn:
        done = {"sub-tasks": f"{tasks.count('completed')}/{tasks.live}", "failed": f"{tasks.count('failed') or ''}"}
        return {**done, "score": score, "steps": f"{steps}{most}"}
    if episodes.acting:  # the limit of steps holds for each episode
        return {"score": score, "steps": f"{len(episodes.now.scores)}{most}"}
    certified = {run.certified: f"{plan.in_force}/{plan.total}", "uncertified": f"{plan.passed or ''}"}
    replans = f"{plan.replans}" + (f" ({plan.gave_up:,} gave up)" if plan.gave_up else "")
    return {**certified, "score": score, "steps": f"{steps}{most}", "replans": replans}
