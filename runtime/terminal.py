"""Terminal frame of a running agent: `RunView` folds trajectory lines, `draw_frame` draws them."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from certigraph.adapters.models.chat_models import describe_model
from certigraph.runtime.episodes import EpisodeHistory, NumberedTurn, RatingHistory, RefusedAction, format_plan
from certigraph.runtime.history import EXTENDING_NODE, count_predicates, valid_certificates
from certigraph.runtime.html import (
    add_passed_count,
    clip_text,
    format_compact,
    format_count,
    format_finding,
    passed_label,
)
from certigraph.runtime.result import is_goal_denied, is_solved, verdict_scores_of
from certigraph.runtime.task_graph import NodeProgress, NodeStatus, TaskGraph
from certigraph.state.records import GOAL, Certificate, Invalidation
from certigraph.state.run import predicates_in_force
from certigraph.state.step import SubtaskStatus
from certigraph.state.trajectory import Event, Footer, Header, Resumed, TrajectoryLine, assemble_trajectory

# The state of the view.

USAGE_FIELDS = ("calls", "input_tokens", "output_tokens", "cached_tokens", "usd")
"""Fields of usage that are shown."""


class RunView:
    """State of a run so far, folded from trajectory lines as they arrive, in a few microseconds each."""

    def __init__(self) -> None:
        self.header: Header | None = None
        self.footer: Footer | None = None
        self.spent = dict.fromkeys(USAGE_FIELDS, 0.0)
        self._lines: list[TrajectoryLine] = []
        self._begin()

    def take(self, line: TrajectoryLine) -> None:
        """Fold one line. A resume takes back what was done after its checkpoint, except the cost."""
        self._lines.append(line)
        if isinstance(line, Header):
            self.header = line
            self._begin()
        elif isinstance(line, Footer):
            self.footer = line
            # a view that starts with a resume was not sent the events that were superseded before
            self.spent = {name: max(spent, getattr(line.usage, name)) for name, spent in self.spent.items()}
        elif isinstance(line, Resumed):
            self._rewind()
        elif isinstance(line, Event):
            self._add_usage(line)
            self._apply(line)

    @property
    def target(self) -> str:
        """The text of the predicate at the head of the plan; empty if there is none."""
        return self.plan[self.head] if self.head < len(self.plan) else ""

    @property
    def steps(self) -> int:
        """Number of world steps, including earlier episodes and all nodes of a task graph."""
        return self.tasks.steps if self.tasks.drawn else self.episodes.steps

    def limit(self, name: str) -> int | None:
        """Return a limit from the header of the run."""
        limits = self.header.context.get("limits") if self.header else None
        recorded = limits.get(name) if isinstance(limits, dict) else None
        return recorded if isinstance(recorded, int) else None

    @property
    def tokens(self) -> int:
        """Number of input and output tokens."""
        return int(self.spent["input_tokens"] + self.spent["output_tokens"])

    @property
    def total(self) -> int:
        """Number of predicates: certified, passed and still to come."""
        return self.standing + self.passed + max(len(self.plan) - self.head, 0)

    def _begin(self) -> None:
        graph = self.header.graph if self.header else ""
        self.episodes, self.tasks, self.rating = EpisodeHistory(graph), TaskGraph(graph), RatingHistory()
        self.plan: list[str] = []
        self.head = self.tried = self.replans = 0
        self.certificates: list[Certificate] = []
        self.invalidations: list[Invalidation] = []
        self.certified: dict[int, Certificate] = {}
        self.undone: set[int] = set()
        self.standing = self.passed = 0
        self.reason = self.before = ""
        self.extended = False
        self.cost: float | None = None

    def _rewind(self) -> None:
        trajectory = assemble_trajectory(self._lines)
        self._begin()
        for event in trajectory.events:
            self._apply(event)
        for event in trajectory.superseded:
            self.tasks.add_usage(event)
        # only the assembled trajectory counts calls that a killed process left without an event
        self.spent = {name: max(spent, getattr(trajectory.usage, name)) for name, spent in self.spent.items()}
        self.footer = None

    def _add_usage(self, event: Event) -> None:
        for name in USAGE_FIELDS:
            self.spent[name] += getattr(event.usage, name)

    def _apply(self, event: Event) -> None:
        self.tasks.fold(event)
        if event.scope:  # plan and certificates of a graph inside a node are not those of the run
            return
        self.episodes.fold(event)
        self.rating.fold(event)
        update: dict[str, Any] = {**(event.update or {})}
        if "plan" in update:
            self.plan = [predicate["text"] for predicate in update["plan"]]
        self.head = update.get("head", self.head)
        self.cost = update.get("observation", {}).get("data", {}).get("cost", self.cost)
        for attempt in update.get("attempts", ()):
            self.tried += 1
            self.reason = attempt["verdict"].get("reason", "") if not attempt["verdict"]["depth"] else ""
        for certificate in update.get("certificates", ()):
            self._certify(Certificate.model_validate(certificate))
        for invalidation in update.get("invalidations", ()):
            self.invalidations.append(Invalidation.model_validate(invalidation))
            self.undone.add(self.certificates[invalidation["certificate"]].position + invalidation["target"])
            self.standing -= 1
        if event.node == "replan":
            self.extended = self.before == EXTENDING_NODE
            self.tried, self.replans = 0, self.replans + ("plan" in update and not self.extended)
        if event.update is not None:
            self.before = event.node

    def _certify(self, certificate: Certificate) -> None:
        self.tried, self.reason = 0, ""
        self.certificates.append(certificate)
        self.certified |= dict.fromkeys(_positions_of(certificate), certificate)
        if certificate.restores is not None:
            self._return()
        elif certificate.forced:
            self.passed += certificate.depth
        else:
            self.standing += certificate.depth

    def _return(self) -> None:
        valid = valid_certificates(self.certificates)
        in_force = predicates_in_force(self.certificates, self.invalidations)
        self.standing, self.passed = len(in_force), count_predicates(self.certificates).passed
        removed = {
            position
            for index, certificate in enumerate(self.certificates)
            if certificate.restores is None and not (certificate.forced and index in valid)
            for position in _positions_of(certificate)
        }
        self.undone = removed - {
            self.certificates[predicate.certificate].position + predicate.target for predicate in in_force
        }


def _positions_of(certificate: Certificate) -> range:
    return range(certificate.position, certificate.position + certificate.depth)


# Text of models and worlds, whose control characters must not reach the terminal.

MAX_LINE_CHARACTERS = 300
"""Default maximum number of characters of a line."""


def clean_line(text: str, most: int = MAX_LINE_CHARACTERS) -> str:
    """Turn a text into one printable line of at most `most` characters."""
    return " ".join("".join(c if c.isprintable() else " " for c in clip_text(text, most)).split())


def clean_lines(text: str) -> str:
    """Replace the control characters of a text, except line ends, by spaces."""
    return "\n".join("".join(c if c.isprintable() else " " for c in line) for line in text.split("\n"))


# Rewards of a reward predictor.

BAR_WIDTH = 20
"""Width in cells of the bar for a reward of 1."""


def reward_part(run: RunView, height: int) -> Table:
    """Draw the latest rated steps in exactly `height` rows, so that the frame keeps its height."""
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


def reward_lines(run: RunView) -> Iterator[str]:
    """Yield the plain line for the latest rated step."""
    done, rated = len(run.rating.rated), run.rating.rated[-1]
    position = f"recording {rated.step.recording + 1}, step {done} of {len(run.rating.steps)}"
    yield f"{position}: reward {rated.reward:.2f}: {rated.step.action or '(looked)'}"


# The plan: certified predicates, the target, and predicates still to come.


def plan_part(run: RunView, height: int) -> Table:
    """Draw the plan around its head in `height` rows, with the reason why the last attempt was rejected."""
    table = Table.grid(padding=(0, 1), expand=True)
    table.add_column(width=1)
    table.add_column(justify="right", style="dim")
    table.add_column(ratio=1, no_wrap=True, overflow="ellipsis")
    table.add_column(justify="right", style="dim", no_wrap=True)
    first, last = visible_range(len(run.plan), run.head, height)
    for position in range(first, last):
        table.add_row(*_plan_row(run, position))
        if position == run.head and run.reason:
            table.add_row("", "", Text(clean_line(run.reason), style="red"), "")
    if not run.plan:
        table.add_row("", "", Text("no plan yet", style="dim"), "")
    if not run.reason:
        table.add_row("", "", "", "")  # an empty row for the reason, so that the frame keeps its height
    table.add_row("", "", Text(format_hidden(first, len(run.plan) - last), style="dim"), "")
    return table


def visible_range(length: int, head: int, height: int) -> tuple[int, int]:
    """Return first and last index of the `height` rows of a list that are shown, with its head in the upper third."""
    first = max(0, min(head - height // 3, length - height))
    return first, min(length, first + height)


def format_hidden(before: int, after: int) -> str:
    """Format how many rows are not shown above and below."""
    above = [f"{before} more above"] if before else []
    return ", ".join([*above, *([f"{after} more below"] if after else [])])


def _plan_row(run: RunView, position: int) -> tuple[Text, str, Text, str]:
    text, number = clean_line(run.plan[position]), str(position + 1)
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
    text_with_finding = Text.assemble(text, (_format_finding(certificate, position), "dim"))
    if certificate.forced:
        return Text("!", style="magenta"), number, text_with_finding, passed_label(clean_line(certificate.forced))
    return Text("✓", style="green"), number, text_with_finding, f"step {certificate.step}"


def _format_finding(certificate: Certificate, position: int) -> str:
    # Shown once in a cascade, with the predicate at its head.
    finding = certificate.finding if position == certificate.position else None
    return f" → {clean_line(format_finding(finding))}" if finding else ""


# The current episode: its subtask or plan, its latest turns, and scores of earlier episodes.

MAX_TURN_LINES = 12
"""Maximum number of lines of turns, also on a tall terminal."""

HEADING_LINES = 3
"""Number of lines above the turns: the episode, its subtask, an empty line."""

MAX_EARLIER_SCORES = 8
"""Maximum number of scores of earlier episodes."""

TURN_MARKS: dict[SubtaskStatus, tuple[str, str]] = {
    "open": ("▸", "yellow"),
    "completed": ("✓", "green"),
    "failed": ("✗", "red"),
}

TurnRow = tuple[Text, Text, Text]
"""Mark, text, and text at the right."""

EMPTY_ROW: TurnRow = (Text(), Text(), Text())


def episode_part(run: RunView, height: int) -> Table:
    """Draw the latest turns in a fixed number of rows, about `height`, so that the frame keeps its height."""
    table = Table.grid(padding=(0, 1), expand=True)
    table.add_column(width=1)
    table.add_column(ratio=1, no_wrap=True, overflow="ellipsis")
    table.add_column(justify="right", no_wrap=True)
    most = max(min(height - HEADING_LINES, MAX_TURN_LINES), 1)
    rows = _latest_rows(run, most)
    for row in (_episode_heading(run), _subtask_row(run), EMPTY_ROW, *rows, *[EMPTY_ROW] * (most - len(rows) + 1)):
        table.add_row(*row)
    return table


def _latest_rows(run: RunView, most: int) -> list[TurnRow]:
    # As many of the latest turns as fit completely; the last one is cut if it does not fit alone.
    rows: list[TurnRow] = []
    for entry in reversed(list(run.episodes.now.entries()) if run.episodes.all else []):
        lines = [*_entry_rows(entry), *_note_rows(run, entry)]
        if rows and len(rows) + len(lines) > most:
            break
        rows = [*lines, *rows]
    return rows[-most:]


def _episode_heading(run: RunView) -> TurnRow:
    if not run.episodes.all:
        return Text(), Text("no episode yet", style="dim"), Text()
    most = run.limit("trials") if run.episodes.learning else None
    number = f"{run.episodes.now.number} of {most}" if most else f"{run.episodes.now.number}"
    earlier = ", ".join(f"{episode.score:.3g}" for episode in run.episodes.all[:-1][-MAX_EARLIER_SCORES:])
    scores = Text(f"earlier scores {earlier}" if earlier else "", style="dim")
    return Text(), Text.assemble(("episode ", "dim"), number), scores


def _subtask_row(run: RunView) -> TurnRow:
    episode = run.episodes.now if run.episodes.all else None
    if episode is None:
        return EMPTY_ROW
    if episode.subtask is None:
        plan = episode.supervision.latest
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
    yield Text("→", style="dim"), Text(clean_line(turn.action), style=style), _points_text(entry)
    yield Text(), Text(clean_line(entry.answer), style="dim"), Text()


def _note_rows(run: RunView, entry: NumberedTurn | RefusedAction) -> Iterator[TurnRow]:
    """Yield rows for a turn: candidates, changes of the belief, the gate's verdict, the Supervisor's remarks."""
    if isinstance(entry, RefusedAction):
        return
    gathering, prospects = run.episodes.now.gathering, run.episodes.now.prospects
    for change in [*prospects.lines(entry.number), *gathering.changes(entry.number)]:
        yield Text(), Text(clean_line(change), style="cyan"), Text()
    if verdict := gathering.verdict(entry.number):
        yield Text(), Text(clean_line(verdict), style="yellow"), Text()
    for remark in run.episodes.now.supervision.remarks(entry.number):
        yield Text(), Text(clean_line(remark.text), style="red" if remark.warns else "cyan"), Text()


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
"""Sign, id, text, and text at the right."""


def tasks_part(run: RunView, height: int) -> Group:
    """Draw the nodes, level by level, in at most `height` rows, with the latest revision in the last row.

    If there are enough rows, every node has a second row for its action or result. Otherwise only working nodes have
    one, and the list is a window around them.
    """
    table = Table.grid(padding=(0, 1), expand=True)
    table.add_column(width=1)
    table.add_column(no_wrap=True, max_width=MAX_ID_CHARACTERS, overflow="ellipsis")
    table.add_column(ratio=1, no_wrap=True, overflow="ellipsis")
    table.add_column(justify="right", style="dim", no_wrap=True)
    nodes = [worked for level in run.tasks.levels() for worked in level]
    rows, omitted = _node_rows(nodes, height - 1)
    row_count = max(min(2 * len(nodes), height - 1), 1)
    empty = (Text(), Text(), Text("" if nodes else "no task graph yet", style="dim"), Text())
    for row in (*rows, *[empty] * (row_count - len(rows))):  # always as many rows, so that the frame keeps its height
        table.add_row(*row)
    revised = [f"revision {revision.number}: {revision.line}" for revision in run.tasks.revisions[-1:]]
    last = Text(
        clean_line("; ".join(filter(None, [omitted, *revised]))), style="cyan", no_wrap=True, overflow="ellipsis"
    )
    return Group(table, last)


def _node_rows(nodes: Sequence[NodeProgress], height: int) -> tuple[list[TaskRow], str]:
    """Build the rows, and the text about how many nodes they leave out."""
    if 2 * len(nodes) <= height:
        return [row for worked in nodes for row in (_node_row(worked), _activity_row(worked))], ""
    busy = [worked for worked in nodes if worked.status == "working"]
    detailed = busy[: height // 3]
    first, last = visible_range(len(nodes), _focus_index(nodes), height - len(detailed))
    rows: list[TaskRow] = []
    for worked in nodes[first:last]:
        rows.append(_node_row(worked))
        if worked in detailed:
            rows.append(_activity_row(worked))
    return rows, format_hidden(first, len(nodes) - last)


def _focus_index(nodes: Sequence[NodeProgress]) -> int:
    # The first working node, else the first pending one, else the last node.
    for status in ("working", "pending"):
        if indices := [number for number, worked in enumerate(nodes) if worked.status == status]:
            return indices[0]
    return len(nodes) - 1


def _node_row(worked: NodeProgress) -> TaskRow:
    mark, style = TASK_MARKS[worked.status]
    task = Text(clean_line(worked.node.task), style={"pending": "dim", "removed": "dim strike"}.get(worked.status, ""))
    name = Text(clean_line(worked.node.id), style="bold" if worked.status == "working" else style)
    return Text(mark, style=style), name, task, Text("  ").join(map(Text, _node_facts(worked)))


def _node_facts(worked: NodeProgress) -> Iterator[str]:
    if worked.changed:
        yield worked.changed
    if worked.status == "pending" and worked.node.needs:
        yield clean_line(f"needs {', '.join(worked.node.needs)}", MAX_NEEDS_CHARACTERS)
    if worked.total:
        yield add_passed_count(f"{worked.certified}/{worked.total} certified", worked.passed)
    if worked.events:
        steps, calls = format_count(worked.steps, "step"), format_count(worked.calls, "call")
        yield f"{steps}, {calls}, {format_compact(worked.tokens)} tokens"


def _activity_row(worked: NodeProgress) -> TaskRow:
    # The second row of a node: its latest action, or its result.
    if worked.status == "working":
        text = Text(f"→ {clean_line(worked.action)}" if worked.action else "…", style="default")
    elif worked.outcome:
        text = Text(clean_line(worked.outcome.result), style="red" if worked.outcome.status == "failed" else "dim")
    else:
        text = Text()
    return Text(), Text(), text, Text()


# The frame: goal, the part that fits the kind of run, and totals.

OTHER_LINES = 10
"""Number of lines of a frame besides the plan or turns."""


def draw_frame(run: RunView, *, height: int, steps: int | None, seconds: float) -> RenderableType:
    """Draw the frame.

    Args:
        run: the state of the run.
        height: lines of the terminal.
        steps: the limit of world steps; None if it is not known.
        seconds: seconds since the start of the run.
    """
    goal = Text(
        clean_line(run.header.task.goal) if run.header else "waiting for the run", overflow="ellipsis", no_wrap=True
    )
    inside = Group(
        goal, Text(), _select_part(run)(run, max(height - OTHER_LINES, 3)), _totals_text(run, steps, seconds)
    )
    return Panel(
        inside,
        title=_frame_title(run),
        title_align="left",
        subtitle=_ending_text(run),
        border_style="dim",
        padding=(1, 2),
    )


def _select_part(run: RunView) -> Callable[[RunView, int], RenderableType]:
    if run.rating.steps:
        return reward_part
    if run.tasks.drawn:
        return tasks_part
    return episode_part if run.episodes.acting else plan_part


def step_limit(run: RunView, limit: int | None) -> int | None:
    """Return the limit of world steps: the given one, else the one in the run's header."""
    return limit if limit is not None else run.limit("steps")


def budget_of(run: RunView) -> float | None:
    """Return the amount of money in the task's constants, if there is one."""
    amount = run.header.task.constants.get("budget") if run.header else None
    return float(amount) if isinstance(amount, int | float) else None


def _frame_title(run: RunView) -> Text:
    if run.header is None:
        return Text("certigraph")
    task = run.header.task
    name = Text(f"{run.header.graph} · {clean_line(task.benchmark)} {clean_line(task.id)}", style="bold")
    return name.append(
        f" · {clean_line(describe_model(str(run.header.context.get('model', ''))))}", style="not bold dim"
    )


def _ending_text(run: RunView) -> Text | None:
    if run.footer is None:
        return None
    scores = verdict_scores_of(run.header, run.footer)
    denied = is_goal_denied(run.footer.ending, is_solved(scores))
    style = "bold yellow" if denied else "bold green" if run.footer.ending == GOAL else "bold red"
    ending = Text(f"{run.footer.ending}{', denied by the scorer' if denied else ''}", style=style)
    return ending.append(f" · score {scores.value:.3g}" if scores else "", style="default")


def _totals_text(run: RunView, steps: int | None, seconds: float) -> Text:
    money, cached = budget_of(run), run.spent["cached_tokens"]
    shown = {
        **_progress_texts(run, steps),
        "calls": f"{run.spent['calls']:.0f}",
        "tokens": format_compact(run.tokens) + (f" ({format_compact(cached)} cached)" if cached else ""),
    }
    if run.spent["usd"]:
        shown["cost"] = f"${run.spent['usd']:.4f}"
    if run.cost is not None and money is not None:
        shown["spent"] = f"${run.cost:,.0f} of ${money:,.0f}"
    shown["time"] = f"{int(seconds) // 60}:{int(seconds) % 60:02}"
    parts = (Text.assemble((f"{name} ", "dim"), value) for name, value in shown.items())
    return Text("   ").join(parts)


def _progress_texts(run: RunView, steps: int | None) -> dict[str, str]:
    if run.rating.steps:
        return {"rated": _format_fraction(len(run.rating.rated), len(run.rating.steps))}
    if run.tasks.drawn:
        return _task_progress(run, steps)
    return _episode_progress(run, steps) if run.episodes.acting else _plan_progress(run, steps)


def _task_progress(run: RunView, steps: int | None) -> dict[str, str]:
    tasks = run.tasks
    failed = {"failed": f"{tasks.count('failed')}"} if tasks.count("failed") else {}
    graded = {"score": f"{run.episodes.now.reported:.3g}"} if run.episodes.graded else {}
    return {
        "sub-tasks": f"{tasks.count('completed')}/{tasks.live}",
        **failed,
        **graded,
        "steps": _format_fraction(run.steps, step_limit(run, steps)),
    }


def _plan_progress(run: RunView, steps: int | None) -> dict[str, str]:
    graded = {"score": f"{run.episodes.now.reported:g}"} if run.episodes.graded else {}
    passed = {"uncertified": f"{run.passed}"} if run.passed else {}
    return {
        "certified": f"{run.standing}/{run.total}",
        **passed,
        **graded,
        "steps": _format_fraction(run.steps, step_limit(run, steps)),
        "replans": f"{run.replans}",
    }


def _episode_progress(run: RunView, steps: int | None) -> dict[str, str]:
    episodes = run.episodes  # the limit of steps holds for each episode
    steps_taken = len(episodes.all[-1].scores) if episodes.all else 0
    score = episodes.all[-1].reported if episodes.all else 0.0
    return {"score": f"{score:.3g}", "steps": _format_fraction(steps_taken, step_limit(run, steps))}


def _format_fraction(count: int, limit: int | None) -> str:
    return f"{count}/{limit}" if limit else f"{count}"
