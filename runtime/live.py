"""Live view of a run: a frame that is redrawn on a terminal, plain lines in a file or pipe."""

import threading
import time
from collections.abc import Iterator
from typing import Any, Self

from rich.console import Console, RenderableType
from rich.live import Live

from certigraph.adapters.models.chat_models import describe_models
from certigraph.runtime.episodes import Episode, Refused, Taken, in_line
from certigraph.runtime.html import clipped, counted, in_a_line, passed_by, with_passed
from certigraph.runtime.result import is_denied, is_solved, verdict_on
from certigraph.runtime.task_graph import Worked
from certigraph.runtime.terminal import Watched, clean, frame, reward_lines
from certigraph.state.records import Certificate, Finding
from certigraph.state.step import Lesson
from certigraph.state.trajectory import Event, Footer, Header, Line

# Plain lines of a task graph.


def task_lines(run: Watched, event: Event) -> Iterator[str]:
    """Yield the lines for an event of a task graph, after `run` has folded it."""
    update: dict[str, Any] = {**(event.update or {})}
    if event.scope:
        worked = run.tasks.nodes.get(event.subtask)
        if worked is not None and "|" not in event.scope:
            yield from _inner(worked, event, update)
        return
    if event.node == "decompose" and run.tasks.nodes:
        yield f"task graph: {counted(len(run.tasks.nodes), 'sub-task')}: {', '.join(run.tasks.nodes)}"
    for outcome in update.get("outcomes", ()):
        worked = run.tasks.nodes[outcome["node"]]
        cost = f"{counted(worked.steps, 'step')}, {counted(worked.calls, 'call')}"
        yield f"{worked.name}: {worked.status}, {cost}: {outcome['result']}"
    for revision in run.tasks.revisions[-1:]:
        if event.node == "revise" and revision.number == update.get("revisions"):
            yield f"revision {revision.number}: {revision.line}"


def _inner(worked: Worked, event: Event, update: dict[str, Any]) -> Iterator[str]:
    if event.node == "reset" and worked.status == "working":
        yield f"{worked.name}: begun: {worked.node.task}"
    if event.node == "replan" and update.get("outline"):
        yield f"{worked.name}: step {worked.steps}: replanned: {in_line(tuple(update['outline']))}"
    if update.get("certificates"):
        last = worked.certificates[-1]
        progress = passed_by(last.forced) if last.forced else f"certified {worked.certified}/{worked.total}"
        yield f"{worked.name}: step {worked.steps}: {progress}: {last.targets[-1].text}"


# Plain lines of a run, for files and pipes.

LONGEST_FINDING = 60
"""Maximum number of characters of a finding and of its dispute."""


def plain_lines(run: Watched, line: Line) -> Iterator[str]:
    """Yield the lines for a line of the trajectory, often none, after `run` has folded it."""
    if isinstance(line, Header):
        yield from _opening(line)
    elif isinstance(line, Footer):
        yield _ending(run, line)
    elif isinstance(line, Event) and run.rating.rated:
        yield from reward_lines(run) if "rewards" in (line.update or {}) else ()
    elif isinstance(line, Event) and run.tasks.drawn:
        yield from task_lines(run, line)
    elif isinstance(line, Event):
        update = line.update or {}
        if update.get("certificates"):
            yield from _certified(run, run.certificates[-1])
        yield from _checked(run, line)
        if line.node == "replan" and not run.episodes.acting:
            yield _replanned(run, "plan" in update)
        if run.episodes.acting and run.episodes.all:
            yield from _episode_lines(run.episodes.now, line)


def _opening(header: Header) -> Iterator[str]:
    roles = header.context.get("roles")
    models = describe_models(str(header.context.get("model")), roles if isinstance(roles, dict) else {})
    yield f"{header.graph} on {header.task.benchmark} {header.task.id}, {models}"
    yield f"task: {header.task.goal}"


def _checked(run: Watched, event: Event) -> Iterator[str]:
    update: dict[str, Any] = {**(event.update or {})}
    for invalidation in update.get("invalidations", ()):
        yield f"step {run.steps}: undone: {invalidation['predicate']['text']}"
    for audit in update.get("audits", ()):
        decision = "confirmed" if audit["confirmed"] else f"denied: {audit.get('reason', '')}"
        yield f"step {run.steps}: audit of the goal: {decision}"


def _certified(run: Watched, certificate: Certificate) -> Iterator[str]:
    at, text = f"step {certificate.step}", certificate.targets[-1].text
    if certificate.restores is not None:
        yield f"{at}: returned to certified state {certificate.restores}: {text}"
        return
    cascade = f" (cascade {certificate.depth})" if certificate.depth > 1 else ""
    score = f", score {run.episodes.now.reported:.3g}" if run.episodes.graded else ""
    progress = passed_by(certificate.forced) if certificate.forced else f"certified {run.standing}/{run.total}"
    yield f"{at}: {progress}{cascade}{score}: {text}"
    if certificate.finding:
        yield f"{at}: found: {_brief(certificate.finding)}"


def _brief(finding: Finding) -> str:
    # The text is cut so that the sources fit on the line.
    cut = {"text": clipped(finding.text, LONGEST_FINDING), "dispute": clipped(finding.dispute, LONGEST_FINDING)}
    return in_a_line(finding.model_copy(update=cut))


def _replanned(run: Watched, has_plan: bool) -> str:
    if not has_plan:
        return f"step {run.steps}: replanning gave up: {run.target}"
    done = "extended the plan" if run.extended else "replanned"
    return f"step {run.steps}: {done}, {len(run.plan) - run.head} predicates from here: {run.target}"


def _episode_lines(episode: Episode, event: Event) -> Iterator[str]:
    update: dict[str, Any] = {**(event.update or {})}
    at, latest = f"step {len(episode.scores)}", episode.latest
    if update.get("outline"):
        yield f"{at}: plan: {'; '.join(update['outline'])}"
    if update.get("turns") and isinstance(latest, Taken):
        yield from (f"{at}: {latest.turn.action}: {text}" for text in episode.prospects.lines(latest.number))
    if update.get("turns") and isinstance(latest, Taken) and latest.scored:
        yield f"{at}: score {episode.reported:.3g} ({latest.points:+.3g}): {latest.turn.action}"
    if not update.get("approval", {}).get("approved", True) and isinstance(latest, Refused):
        yield f"{at}: refused {latest.action}: {latest.reason}"
    if update.get("subtasks") and (subtask := episode.subtask):
        reason = f" ({subtask.reason})" if subtask.status == "failed" else ""
        yield f"{at}: subtask {subtask.status}{reason}: {subtask.text}"
    if update.get("trials") and (trial := episode.trial):
        yield f"episode {trial.number}: {trial.ending}, score {episode.score:.3g}, {counted(trial.steps, 'step')}"
    if "stagnation" in update and (verdict := episode.gathering.verdict(len(episode.scores))):
        yield f"{at}: {verdict}"
    for branch in update.get("branches", ()):
        yield f"search {branch['number']}: {branch['answer'] or 'no answer'}: {branch['hypothesis']}"
    if update.get("lessons") and episode.lesson and (taught := _taught(episode.lesson)):
        yield f"episode {episode.number} taught: {taught}"


def _taught(lesson: Lesson) -> str:
    counts = {"insight": lesson.insights, "rule": lesson.rules, "subtask": lesson.strategy}
    return lesson.reflection or ", ".join(counted(len(items), what) for what, items in counts.items() if items)


def _ending(run: Watched, footer: Footer) -> str:
    scores = verdict_on(run.header, footer)
    score = f", score {scores.value:.3g}" if scores else ""
    cost = f"{counted(run.steps, 'step')}, {run.spent['calls']:.0f} calls, {run.tokens:,} tokens"
    denied = " (denied by the scorer)" if is_denied(footer.ending, is_solved(scores)) else ""
    return f"ended {footer.ending}{denied}{score}, {_reached(run)}, {cost}"


def _reached(run: Watched) -> str:
    episodes, tasks = run.episodes, run.tasks
    if run.rating.steps:
        return f"{len(run.rating.rated)}/{len(run.rating.steps)} recorded steps rated"
    if tasks.drawn:
        return f"{tasks.count('completed')}/{tasks.live} sub-tasks completed, {tasks.count('failed')} failed"
    if not episodes.acting:
        return with_passed(f"{run.standing}/{run.total} certified", run.passed)
    completed, failed = episodes.count("completed"), episodes.count("failed")
    subtasks = f", {counted(completed, 'subtask')} completed, {failed} failed" if completed or failed else ""
    return counted(len(episodes.all), "episode") + subtasks


# The listener.

FRAMES_PER_SECOND = 8
LONGEST_LINE = 160
"""Maximum number of characters of a plain line."""
LONGEST_TASK = 2_000
"""Maximum number of characters of the line with the task."""


class LiveView:
    """Live view of a run, passed to `run` as its listener: `with LiveView() as view: run(..., listener=view)`.

    Args:
        console: where to show the run; by default standard output.
        steps: the limit of world steps, shown next to the number of steps.
    """

    def __init__(self, console: Console | None = None, steps: int | None = None) -> None:
        self.run = Watched()
        self._console = console or Console()
        self._steps = steps
        self._began = time.monotonic()
        self._ended: float | None = None
        self._lock = threading.Lock()
        self._live = self._picture() if self._console.is_terminal else None

    def __enter__(self) -> Self:
        self._began = time.monotonic()
        if self._live:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live:
            self._live.stop()

    def __call__(self, line: Line) -> None:
        """Fold one trajectory line; the frame on a terminal is redrawn at its own rate."""
        with self._lock:
            self.run.take(line)
            self._ended = time.monotonic() if isinstance(line, Footer) else None
        if self._live is None:
            longest = LONGEST_TASK if isinstance(line, Header) else LONGEST_LINE
            for text in plain_lines(self.run, line):
                self._console.print(clean(text, longest), markup=False, emoji=False, highlight=False, soft_wrap=True)

    def _picture(self) -> Live:
        return Live(
            console=self._console,
            get_renderable=self._frame,
            refresh_per_second=FRAMES_PER_SECOND,
            redirect_stdout=False,
            redirect_stderr=False,
        )

    def _frame(self) -> RenderableType:
        seconds = (self._ended or time.monotonic()) - self._began
        with self._lock:
            return frame(self.run, height=self._console.height, steps=self._steps, seconds=seconds)
