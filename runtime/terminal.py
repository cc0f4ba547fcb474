"""The terminal picture of a running agent."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from certigraph.adapters.models.chat_models import describe_model
from certigraph.runtime.episodes import Episodes, Rating, Refused, Taken, in_line
from certigraph.runtime.history import EXTENDED, standing, tally
from certigraph.runtime.html import clipped, compact, counted, in_a_line, passed_by, with_passed
from certigraph.runtime.result import is_denied, is_solved, verdict_on
from certigraph.runtime.task_graph import NodeStatus, TaskGraph, Worked
from certigraph.state.records import GOAL, Certificate, Invalidation
from certigraph.state.run import predicates_in_force
from certigraph.state.step import Status
from certigraph.state.trajectory import Event, Footer, Header, Line, Resumed, assembled

# What a watcher of a run wants to know, folded from trajectory lines as they come, at a few microseconds each.

USAGE = ("calls", "input_tokens", "output_tokens", "cached_tokens", "usd")


class Watched:
    """The run so far, the plain values of its lines."""

    def __init__(self) -> None:
        self.header: Header | None = None
        self.footer: Footer | None = None
        self.spent = dict.fromkeys(USAGE, 0.0)
        self._lines: list[Line] = []
        self._begin()

    def take(self, line: Line) -> None:
        """Fold one line. After a resume, what ran ahead of the checkpoint is undone; what it cost stays."""
        self._lines.append(line)
        if isinstance(line, Header):
            self.header = line
            self._begin()
        elif isinstance(line, Footer):
            self.footer = line
            # who began to watch at a resume was not shown what was superseded before
            self.spent = {name: max(spent, getattr(line.usage, name)) for name, spent in self.spent.items()}
        elif isinstance(line, Resumed):
            self._rewind()
        elif isinstance(line, Event):
            self._charge(line)
            self._apply(line)

    @property
    def target(self) -> str:
        """The text of the predicate at the head; empty where there is none."""
        return self.plan[self.head] if self.head < len(self.plan) else ""

    @property
    def steps(self) -> int:
        """World steps, those of earlier episodes and of all nodes of a task graph included."""
        return self.tasks.steps if self.tasks.drawn else self.episodes.steps

    def limit(self, name: str) -> int | None:
        """A limit that the run's header names."""
        limits = self.header.context.get("limits") if self.header else None
        recorded = limits.get(name) if isinstance(limits, dict) else None
        return recorded if isinstance(recorded, int) else None

    @property
    def tokens(self) -> int:
        """Input and output tokens together."""
        return int(self.spent["input_tokens"] + self.spent["output_tokens"])

    @property
    def whole(self) -> int:
        """Predicates that stand certified or were let pass, and those still to come."""
        return self.standing + self.passed + max(len(self.plan) - self.head, 0)

    def _begin(self) -> None:
        graph = self.header.graph if self.header else ""
        self.episodes, self.tasks, self.rating = Episodes(graph), TaskGraph(graph), Rating()
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
        kept = assembled(self._lines)
        self._begin()
        for event in kept.events:
            self._apply(event)
        for event in kept.superseded:
            self.tasks.charge(event)
        # calls that a kill left without an event are known only now
        self.spent = {name: max(spent, getattr(kept.usage, name)) for name, spent in self.spent.items()}
        self.footer = None

    def _charge(self, event: Event) -> None:
        for name in USAGE:
            self.spent[name] += getattr(event.usage, name)

    def _apply(self, event: Event) -> None:
        self.tasks.take(event)
        if event.scope:  # of a graph inside a node, whose plan and certificates are not the run's
            return
        self.episodes.take(event)
        self.rating.take(event)
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
        for lost in update.get("invalidations", ()):
            self.invalidations.append(Invalidation.model_validate(lost))
            self.undone.add(self.certificates[lost["certificate"]].position + lost["target"])
            self.standing -= 1
        if event.node == "replan":
            self.extended = self.before == EXTENDED
            self.tried, self.replans = 0, self.replans + ("plan" in update and not self.extended)
        if event.update is not None:
            self.before = event.node

    def _certify(self, certificate: Certificate) -> None:
        self.tried, self.reason = 0, ""
        self.certificates.append(certificate)
        self.certified |= dict.fromkeys(_positions(certificate), certificate)
        if certificate.restores is not None:
            self._return()
        elif certificate.forced:
            self.passed += certificate.depth
        else:
            self.standing += certificate.depth

    def _return(self) -> None:
        kept = standing(self.certificates)
        in_force = predicates_in_force(self.certificates, self.invalidations)
        self.standing, self.passed = len(in_force), tally(self.certificates).passed
        gone = {
            position
            for index, certificate in enumerate(self.certificates)
            if certificate.restores is None and not (certificate.forced and index in kept)
            for position in _positions(certificate)
        }
        self.undone = gone - {self.certificates[place.certificate].position + place.target for place in in_force}


def _positions(certificate: Certificate) -> range:
    return range(certificate.position, certificate.position + certificate.depth)


# Text of models and worlds on a terminal.

LONGEST = 300


def clean(text: str, most: int = LONGEST) -> str:
    """One printable line: control characters in what a model or a world wrote must not steer the terminal."""
    return " ".join("".join(c if c.isprintable() else " " for c in clipped(text, most)).split())


def harmless(text: str) -> str:
    """A text of several lines, each printable."""
    return "\n".join("".join(c if c.isprintable() else " " for c in line) for line in text.split("\n"))


# A watched reward predictor: its latest steps with their rewards, as a picture and as plain lines.

BAR = 20
"""Cells of a bar of reward 1."""


def reward_part(run: Watched, room: int) -> Table:
    """The latest rated steps in `room` rows; always as many, so that the frame stands still."""
    table = Table.grid(padding=(0, 1), expand=True)
    table.add_column(width=4, justify="right")
    table.add_column(width=BAR, no_wrap=True)
    table.add_column(ratio=1, no_wrap=True, overflow="ellipsis")
    latest = run.rating.rated[-room:]
    for rated in latest:
        bar = Text("━" * round(BAR * rated.reward), style="green")
        table.add_row(Text(f"{rated.reward:.2f}"), bar, Text(clean(rated.step.action) or "(looked)"))
    for _ in range(room - len(latest)):
        table.add_row(Text(), Text(), Text())
    return table


def reward_lines(run: Watched) -> Iterator[str]:
    """The step that was just rated."""
    done, rated = len(run.rating.rated), run.rating.rated[-1]
    here = f"recording {rated.step.recording + 1}, step {done} of {len(run.rating.steps)}"
    yield f"{here}: reward {rated.reward:.2f}: {rated.step.action or '(looked)'}"


# The plan of a watched run: what is certified, the target, and what is still to come.


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


# The current episode of a watched run: its subtask or plan, its latest turns, and the scores before it.

MOST_LINES = 12
"""Lines of turns: a calm picture on a tall terminal too."""

HEADINGS = 3
"""Lines above the turns: the episode, its subtask, an empty one."""

EARLIER = 8
"""Latest scores that are shown of the episodes before."""

TURN_MARKS: dict[Status, tuple[str, str]] = {
    "open": ("▸", "yellow"),
    "completed": ("✓", "green"),
    "failed": ("✗", "red"),
}

TurnRow = tuple[Text, Text, Text]
EMPTY: TurnRow = (Text(), Text(), Text())


def episode_part(run: Watched, room: int) -> Table:
    """The latest turns in about `room` rows; always as many, so that the frame stands still."""
    table = Table.grid(padding=(0, 1), expand=True)
    table.add_column(width=1)
    table.add_column(ratio=1, no_wrap=True, overflow="ellipsis")
    table.add_column(justify="right", no_wrap=True)
    most = max(min(room - HEADINGS, MOST_LINES), 1)
    rows = _latest(run, most)
    for row in (_heading(run), _subtask(run), EMPTY, *rows, *[EMPTY] * (most - len(rows) + 1)):
        table.add_row(*row)
    return table


def _latest(run: Watched, most: int) -> list[TurnRow]:
    """As many of the latest turns as fit whole."""
    rows: list[TurnRow] = []
    for entry in reversed(list(run.episodes.now.entries()) if run.episodes.all else []):
        lines = [*_lines(entry), *_gathered(run, entry)]
        if rows and len(rows) + len(lines) > most:
            break
        rows = [*lines, *rows]
    return rows[-most:]


def _heading(run: Watched) -> TurnRow:
    if not run.episodes.all:
        return Text(), Text("no episode yet", style="dim"), Text()
    most = run.limit("trials") if run.episodes.learning else None
    number = f"{run.episodes.now.number} of {most}" if most else f"{run.episodes.now.number}"
    earlier = ", ".join(f"{episode.score:.3g}" for episode in run.episodes.all[:-1][-EARLIER:])
    told = Text(f"earlier scores {earlier}" if earlier else "", style="dim")
    return Text(), Text.assemble(("episode ", "dim"), number), told


def _subtask(run: Watched) -> TurnRow:
    episode = run.episodes.now if run.episodes.all else None
    if episode is None:
        return EMPTY
    if episode.subtask is None:
        plan = episode.supervision.latest
        return (Text("▸", style="yellow"), Text(clean(in_line(plan)), style="bold"), Text()) if plan else EMPTY
    mark, style = TURN_MARKS[episode.subtask.status]
    count = f"{episode.count('completed')} completed, {episode.count('failed')} failed"
    return Text(mark, style=style), Text(clean(episode.subtask.text), style="bold"), Text(count, style="dim")


def _lines(entry: Taken | Refused) -> Iterator[TurnRow]:
    if isinstance(entry, Refused):
        yield Text("✗", style="red"), Text(clean(entry.action), style="strike"), Text("refused", style="red")
        yield Text(), Text(clean(entry.reason), style="red"), Text()
        return
    turn = entry.turn
    if turn.thought:
        yield Text(), Text(clean(turn.thought), style="dim italic"), Text()
    style = "default" if turn.accepted else "red"
    yield Text("→", style="dim"), Text(clean(turn.action), style=style), _points(entry)
    yield Text(), Text(clean(entry.answer), style="dim"), Text()


def _gathered(run: Watched, entry: Taken | Refused) -> Iterator[TurnRow]:
    """What was known ahead of a turn, and what memory, gate and Supervisor made of it."""
    if isinstance(entry, Refused):
        return
    gathering, prospects = run.episodes.now.gathering, run.episodes.now.prospects
    for change in [*prospects.lines(entry.number), *gathering.changes(entry.number)]:
        yield Text(), Text(clean(change), style="cyan"), Text()
    if verdict := gathering.verdict(entry.number):
        yield Text(), Text(clean(verdict), style="yellow"), Text()
    for remark in run.episodes.now.supervision.remarks(entry.number):
        yield Text(), Text(clean(remark.text), style="red" if remark.warns else "cyan"), Text()


def _points(entry: Taken) -> Text:
    return Text(f"{entry.points:+.3g}" if entry.scored else "", style="bold green" if entry.points > 0 else "bold red")


# The task graph of a watched run: every node with its state and its cost, those at work with what they do now.

TASK_MARKS: dict[NodeStatus, tuple[str, str]] = {
    "pending": ("·", "dim"),
    "working": ("▸", "yellow"),
    "completed": ("✓", "green"),
    "failed": ("✗", "red"),
    "removed": ("~", "dim"),
}

LONGEST_ID, LONGEST_NEEDS = 16, 28

TaskRow = tuple[Text, Text, Text, Text]


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


def _rows(nodes: Sequence[Worked], room: int) -> tuple[list[TaskRow], str]:
    """The rows, and in words how many nodes they leave out."""
    if 2 * len(nodes) <= room:
        return [row for worked in nodes for row in (_node(worked), _now(worked))], ""
    busy = [worked for worked in nodes if worked.status == "working"]
    detailed = busy[: room // 3]
    first, last = window(len(nodes), _focus(nodes), room - len(detailed))
    rows: list[TaskRow] = []
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


def _node(worked: Worked) -> TaskRow:
    mark, style = TASK_MARKS[worked.status]
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


def _now(worked: Worked) -> TaskRow:
    """What a node does at the moment, or what became of it."""
    if worked.status == "working":
        told = Text(f"→ {clean(worked.action)}" if worked.action else "…", style="default")
    elif worked.outcome:
        told = Text(clean(worked.outcome.result), style="red" if worked.outcome.status == "failed" else "dim")
    else:
        told = Text()
    return Text(), Text(), told, Text()


# One picture of a watched run, fitted to the terminal: its plan or its latest turns, and what it has cost.

AROUND = 10
"""Lines of a frame that are neither plan nor turns."""


def frame(run: Watched, *, height: int, steps: int | None, seconds: float) -> RenderableType:
    """The frame for a terminal of that height; `steps` is the limit of world steps, None when it is not known."""
    goal = Text(clean(run.header.task.goal) if run.header else "waiting for the run", overflow="ellipsis", no_wrap=True)
    inside = Group(goal, Text(), _part(run)(run, max(height - AROUND, 3)), _figures(run, steps, seconds))
    return Panel(
        inside, title=_title(run), title_align="left", subtitle=_ending(run), border_style="dim", padding=(1, 2)
    )


def _part(run: Watched) -> Callable[[Watched, int], RenderableType]:
    if run.rating.steps:
        return reward_part
    if run.tasks.drawn:
        return tasks_part
    return episode_part if run.episodes.acting else plan_part


def step_limit(run: Watched, given: int | None) -> int | None:
    """The limit of world steps: as given, else as the run's own header has it."""
    return given if given is not None else run.limit("steps")


def budget(run: Watched) -> float | None:
    """The money that the task allows, where it names an amount."""
    amount = run.header.task.constants.get("budget") if run.header else None
    return float(amount) if isinstance(amount, int | float) else None


def _title(run: Watched) -> Text:
    if run.header is None:
        return Text("certigraph")
    task = run.header.task
    name = Text(f"{run.header.graph} · {clean(task.benchmark)} {clean(task.id)}", style="bold")
    return name.append(f" · {clean(describe_model(str(run.header.context.get('model', ''))))}", style="not bold dim")


def _ending(run: Watched) -> Text | None:
    if run.footer is None:
        return None
    scores = verdict_on(run.header, run.footer)
    denied = is_denied(run.footer.ending, is_solved(scores))
    style = "bold yellow" if denied else "bold green" if run.footer.ending == GOAL else "bold red"
    ending = Text(f"{run.footer.ending}{', denied by the scorer' if denied else ''}", style=style)
    return ending.append(f" · score {scores.value:.3g}" if scores else "", style="default")


def _figures(run: Watched, steps: int | None, seconds: float) -> Text:
    money, cached = budget(run), run.spent["cached_tokens"]
    shown = {
        **_reached(run, steps),
        "calls": f"{run.spent['calls']:.0f}",
        "tokens": compact(run.tokens) + (f" ({compact(cached)} cached)" if cached else ""),
    }
    if run.spent["usd"]:
        shown["cost"] = f"${run.spent['usd']:.4f}"
    if run.cost is not None and money is not None:
        shown["spent"] = f"${run.cost:,.0f} of ${money:,.0f}"
    shown["time"] = f"{int(seconds) // 60}:{int(seconds) % 60:02}"
    parts = (Text.assemble((f"{name} ", "dim"), value) for name, value in shown.items())
    return Text("   ").join(parts)


def _reached(run: Watched, steps: int | None) -> dict[str, str]:
    if run.rating.steps:
        return {"rated": _of(len(run.rating.rated), len(run.rating.steps))}
    if run.tasks.drawn:
        return _of_tasks(run, steps)
    return _of_episode(run, steps) if run.episodes.acting else _of_plan(run, steps)


def _of_tasks(run: Watched, steps: int | None) -> dict[str, str]:
    tasks = run.tasks
    failed = {"failed": f"{tasks.count('failed')}"} if tasks.count("failed") else {}
    graded = {"score": f"{run.episodes.now.reported:.3g}"} if run.episodes.graded else {}
    return {
        "sub-tasks": f"{tasks.count('completed')}/{tasks.live}",
        **failed,
        **graded,
        "steps": _of(run.steps, step_limit(run, steps)),
    }


def _of_plan(run: Watched, steps: int | None) -> dict[str, str]:
    graded = {"score": f"{run.episodes.now.reported:g}"} if run.episodes.graded else {}
    passed = {"uncertified": f"{run.passed}"} if run.passed else {}
    return {
        "certified": f"{run.standing}/{run.whole}",
        **passed,
        **graded,
        "steps": _of(run.steps, step_limit(run, steps)),
        "replans": f"{run.replans}",
    }


def _of_episode(run: Watched, steps: int | None) -> dict[str, str]:
    """A limit of steps is one of each episode."""
    episodes = run.episodes
    taken = len(episodes.all[-1].scores) if episodes.all else 0
    score = episodes.all[-1].reported if episodes.all else 0.0
    return {"score": f"{score:.3g}", "steps": _of(taken, step_limit(run, steps))}


def _of(count: int, limit: int | None) -> str:
    return f"{count}/{limit}" if limit else f"{count}"
