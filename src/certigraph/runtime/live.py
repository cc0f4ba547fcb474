"""Live view of a run: on a terminal a frame that is redrawn, in a file or pipe plain lines."""

import math
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Self

from rich.console import Console, RenderableType
from rich.live import Live

from certigraph.adapters.models.chat_models import describe_models
from certigraph.adapters.models.prompts import one_line
from certigraph.runtime.approvals import question_lines
from certigraph.runtime.history import (
    EpisodeHistory,
    EpisodeSummary,
    NodeProgress,
    NumberedTurn,
    PlanCertificate,
    PlanReplan,
    RefusedAction,
    RunHistory,
    format_plan,
)
from certigraph.runtime.result import error_rates_of
from certigraph.runtime.terminal import DENIED, clean_line, draw_frame, format_roles
from certigraph.runtime.texts import (
    add_passed_count,
    clip_text,
    format_count,
    format_empty_calls,
    format_empty_share,
    format_finding,
    format_left_out,
    format_points,
    format_scores,
    passed_label,
)
from certigraph.state.endings import GOAL, WORLD_ENDED
from certigraph.state.records import Action, Finding
from certigraph.state.search import Branch
from certigraph.state.step import Lesson
from certigraph.state.tools import calls_of, reasons_refused
from certigraph.state.trajectory import Event, Footer, Header, Question, Resumed, TrajectoryLine, find_cut_prompts

# Plain lines of a task graph.


def task_lines(run: RunHistory, event: Event) -> Iterator[str]:
    """Yield the plain lines for an event of a run with a task graph. `run` must have taken the event already."""
    update: dict[str, Any] = {**(event.update or {})}
    if event.scope:
        worked = run.tasks.nodes.get(event.subtask)
        if worked is not None and "|" not in event.scope:
            yield from _inner_lines(run, worked, event, update)
        return
    if event.node == "decompose" and run.tasks.nodes:
        yield f"task graph: {format_count(len(run.tasks.nodes), 'sub-task')}: {', '.join(run.tasks.nodes)}"
    for outcome in update.get("outcomes", ()):
        worked = run.tasks.nodes[outcome["node"]]
        cost = f"{format_count(worked.steps, 'step')}, {format_count(worked.calls, 'call')}"
        yield f"{worked.name}: {worked.status}, {cost}: {outcome['result']}"
    for revision in run.tasks.revisions[-1:]:
        if event.node == "revise" and revision.number == update.get("revisions"):
            yield f"revision {revision.number}: {revision.line}"


def _inner_lines(run: RunHistory, worked: NodeProgress, event: Event, update: dict[str, Any]) -> Iterator[str]:
    if event.node == "reset" and worked.status == "working":
        yield f"{worked.name}: begun: {worked.node.task}"
    if event.node == "replan" and update.get("outline"):
        yield f"{worked.name}: step {worked.steps}: replanned: {format_plan(tuple(update['outline']))}"
    if update.get("certificates"):
        plan = worked.inside.plan
        last = plan.certificates[-1].certificate
        progress = passed_label(last.forced) if last.forced else f"{run.certified} {plan.in_force}/{plan.total}"
        yield f"{worked.name}: step {worked.steps}: {progress}: {last.targets[-1].text}"


# Plain lines of a run, for files and pipes.

MAX_FINDING_CHARACTERS = 60
"""Maximum number of characters of a finding, and of the text that disputes it."""


def plain_lines(run: RunHistory, line: TrajectoryLine) -> Iterator[str]:
    """Yield the plain lines for a trajectory line, often none. `run` must have taken that line already."""
    if isinstance(line, Header):
        yield from _header_lines(line)
    elif isinstance(line, Footer):
        goal = [predicate["text"] for predicate in run.plan.plan[-1:]] or [
            worked.node.task for name, worked in run.tasks.nodes.items() if name == run.tasks.goal
        ]
        if run.denied and goal:
            yield f"{DENIED}: {goal[0]}"
        if run.empty.total:
            share = format_empty_share(run.empty, int(run.spent["calls"]))
            yield f"calls without information: {share}: {format_empty_calls(run.empty)}"
        yield _ending_line(run, line)
    elif isinstance(line, Question):
        yield from question_lines([line])
    elif isinstance(line, Resumed):
        yield f"resumed with what is above: {_format_progress(run)}"
    elif isinstance(line, Event):
        yield from _cut_lines(run, line)
        yield from _unmade_lines(run, line)
        yield from _event_lines(run, line, line.update or {})


def _event_lines(run: RunHistory, event: Event, update: Mapping[str, Any]) -> Iterator[str]:
    if run.rating.rated:
        for rated in run.rating.rated[-1:] if "rewards" in update else ():
            place = f"recording {rated.step.recording + 1}, step {len(run.rating.rated)} of {len(run.rating.steps)}"
            yield f"{place}: reward {rated.reward:.2f}: {rated.step.action or '(looked)'}"
    elif run.tasks.drawn:
        yield from task_lines(run, event)
    else:
        new = run.plan.certificates[-len(update["certificates"]) :] if update.get("certificates") else []
        for number, moment in enumerate(new, 1):
            later = sum(moment.certificate.depth for moment in new[number:] if not moment.forced)
            yield from _certificate_lines(run, moment, run.plan.in_force - later)
        for invalidation in update.get("invalidations", ()):
            yield f"step {run.steps}: undone: {invalidation['predicate']['text']}"
        for audit in update.get("audits", ()):
            decision = "confirmed" if audit["confirmed"] else f"denied: {audit.get('reason', '')}"
            yield f"step {run.steps}: audit of the goal: {decision}"
        if event.node == "replan" and not run.episodes.acting:
            yield _replan_line(run, update)
        if run.episodes.acting and run.episodes.all:
            yield from _episode_lines(run.episodes, event)


def _header_lines(header: Header) -> Iterator[str]:
    roles = header.context.get("roles")
    models = describe_models(str(header.context.get("model")), roles if isinstance(roles, dict) else {})
    yield f"{header.graph} on {header.task.benchmark} {header.task.id}, {models}"
    if rates := error_rates_of(header):
        yield rates
    yield f"task: {header.task.goal}"


def _cut_lines(run: RunHistory, event: Event) -> Iterator[str]:
    # only the first one: from there on most prompts are cut, and the end of the run has their number
    cuts = find_cut_prompts([event])
    if cuts and len(run.cut_prompts) == len(cuts):
        yield f"step {run.steps}: the prompt of {event.node} leaves out {format_left_out(cuts[0])}"


def _unmade_lines(run: RunHistory, event: Event) -> Iterator[str]:
    """Yield a line for each call that was not made: it was refused, or a person answered in place of the tool."""
    update: dict[str, Any] = {**(event.update or {})}
    for step in update.get("history", ()) if event.node == "act" else ():
        action = Action.model_validate(step["action"])
        yield from (f"step {run.steps}: not made: {action.text}: {reason}" for reason in reasons_refused(action))
        answered = (call for call in calls_of(action) if call.response)
        yield from (f"step {run.steps}: a person answered {call}: {one_line(call.response)}" for call in answered)


def _certificate_lines(run: RunHistory, issued: PlanCertificate, in_force: int) -> Iterator[str]:
    """Yield a line for each target of a certificate, with which `in_force` conditions of the plan are certified.

    The line is that of the step after which the certificate was issued, and says since which step its targets held.
    """
    certificate = issued.certificate
    at, (*passed, last) = f"step {max(certificate.step, issued.found)}", certificate.targets
    later = issued.found > certificate.step and not issued.forced
    since = f", held since step {certificate.step}" if later else ""
    if certificate.restores is not None:
        yield f"{at}: returned to certified state {certificate.restores}: {last.text}"
        return
    cascade = f" (cascade {certificate.depth})" if certificate.depth > 1 else ""
    score = f", score {format_points(run.episodes.now.reported)}" if run.episodes.graded else ""
    number = certificate.position + certificate.depth
    place = f" (condition {number})" if number != in_force else ""
    certified = f"{run.certified} {in_force}/{run.plan.total}{place}"
    progress = (passed_label(certificate.forced) if certificate.forced else certified) + since
    yield from (f"{at}: {progress}{cascade}: {target.text}" for target in passed)
    yield f"{at}: {progress}{cascade}{score}: {last.text}"
    if certificate.finding:
        yield f"{at}: found: {_format_short_finding(certificate.finding)}"


def _format_short_finding(finding: Finding) -> str:
    # The text is cut so that the sources fit on the line.
    cut = {
        "text": clip_text(finding.whole, MAX_FINDING_CHARACTERS),
        "items": (),
        "dispute": clip_text(finding.dispute, MAX_FINDING_CHARACTERS),
    }
    return format_finding(finding.model_copy(update=cut))


def _replan_line(run: RunHistory, update: Mapping[str, Any]) -> str:
    latest = run.plan.moments[-1]
    if "plan" not in update:
        outcome = "gave up" if isinstance(latest, PlanReplan) and latest.gave_up else "did not finish"
        reason = f": {update['gave_up']}" if update.get("gave_up") else ""
        return f"step {run.steps}: replanning {outcome}: {run.plan.target}{reason}"
    done = "extended the plan" if isinstance(latest, PlanReplan) and latest.extends else "replanned"
    rest = len(run.plan.plan) - run.plan.head
    return f"step {run.steps}: {done}, {rest} predicates from here: {run.plan.target}"


def _episode_lines(episodes: EpisodeHistory, event: Event) -> Iterator[str]:
    episode = episodes.now
    update: dict[str, Any] = {**(event.update or {})}
    at, latest = f"step {len(episode.scores)}", episode.latest
    if update.get("outline"):
        yield f"{at}: plan: {'; '.join(update['outline'])}"
    if update.get("turns") and isinstance(latest, NumberedTurn):
        if latest.prospect:
            yield f"{at}: {latest.turn.action}: {latest.prospect.line}"
        if latest.scored:
            yield f"{at}: score {format_points(episode.reported)} ({latest.points:+.3g}): {latest.turn.action}"
    if not update.get("approval", {}).get("approved", True) and isinstance(latest, RefusedAction):
        yield f"{at}: refused {latest.action}: {latest.reason}"
    if update.get("subtasks") and (subtask := episode.subtask):
        reason = f" ({subtask.reason})" if subtask.status == "failed" else ""
        yield f"{at}: subtask {subtask.status}{reason}: {subtask.text}"
    if update.get("trials") and (trial := episode.trial):
        score = f"score {format_points(episode.score)}, " if episodes.scored else ""
        yield f"episode {trial.number}: {trial.ending}, {score}{format_count(trial.steps, 'step')}"
    if "stagnation" in update and episode.verdict:
        yield f"{at}: {episode.verdict}"
    yield from _search_lines(episode, update)
    if update.get("lessons") and episode.lesson and (taught := _format_lesson(episode.lesson)):
        yield f"episode {episode.number} taught: {taught}"


def _search_lines(episode: EpisodeSummary, update: Mapping[str, Any]) -> Iterator[str]:
    if update.get("branches") and len(episode.branches) == episode.searches:  # all at once, in order
        for branch in episode.branches:
            actions = format_count(branch.rounds, "action")
            yield f"search {branch.number}: {branch.answer or 'no answer'}: {branch.hypothesis} ({actions})"
    if "action" in update and episode.choice:
        yield episode.choice


def _format_lesson(lesson: Lesson) -> str:
    counts = {"insight": lesson.insights, "rule": lesson.rules, "subtask": lesson.strategy}
    return lesson.reflection or ", ".join(format_count(len(items), what) for what, items in counts.items() if items)


def _ending_line(run: RunHistory, footer: Footer) -> str:
    scores = run.scores
    score = (f", {format_scores(scores)}" if scores else "") + (f" ({run.loss})" if run.loss else "")
    steps = "" if _parallel_searches(run) else f"{format_count(run.steps, 'step')}, "  # only the answer
    calls = f"{run.spent['calls']:.0f} calls" + (f" ({format_roles(run)})" if len(run.roles) > 1 else "")
    cost = f"{steps}{calls}, {run.tokens:,} tokens"
    denied = f" ({DENIED})" if run.denied else ""
    answered = " (answered)" if footer.ending == WORLD_ENDED and scores and scores.parts.get("answered") else ""
    return f"ended {footer.ending}{denied}{answered}{score}, {_format_progress(run)}, {cost}"


def _format_progress(run: RunHistory) -> str:
    episodes, tasks = run.episodes, run.tasks
    if run.rating.steps:
        return f"{len(run.rating.rated)}/{len(run.rating.steps)} recorded steps rated"
    if tasks.drawn:
        return f"{tasks.count('completed')}/{tasks.live} sub-tasks completed, {tasks.count('failed')} failed"
    if not episodes.acting:
        return add_passed_count(f"{run.plan.in_force}/{run.plan.total} {run.certified}", run.plan.passed)
    if branches := _parallel_searches(run):
        actions = format_count(sum(branch.rounds for branch in branches), "action")
        return f"{format_count(len(branches), 'search')} with {actions}"
    completed, failed, open_ = map(episodes.count, ("completed", "failed", "open"))
    subtasks = f", {format_count(completed, 'subtask')} completed, {failed} failed" if completed or failed else ""
    under_way = "ended by the goal" if run.ending == GOAL else "open"
    unfinished = f", {open_ if subtasks else format_count(open_, 'subtask')} {under_way}" if open_ else ""
    return format_count(len(episodes.all), "episode") + subtasks + unfinished


def _parallel_searches(run: RunHistory) -> Sequence[Branch]:
    return run.episodes.now.branches if run.episodes.all else ()


# The listener.

FRAMES_PER_SECOND = 8
MAX_LINE_CHARACTERS = 160
"""Maximum number of characters of a plain line."""
MAX_LONG_LINE_CHARACTERS = 2_000
"""Maximum number of characters of the line with the task's goal, of a question that waits for an answer, and of a run's
last lines."""


class LiveView:
    """Live view of a run, passed to `run` as its listener: `with LiveView() as view: run(..., listener=view)`.

    Args:
        console: where to show the run; by default standard output.
        steps: the limit of world steps, shown next to the number of steps taken.
    """

    def __init__(self, console: Console | None = None, steps: int | None = None) -> None:
        self.run = RunHistory()
        self._console = console or Console()
        self._steps = steps
        self._latest = time.monotonic()
        self._lock = threading.Lock()
        self._live = self._picture() if self._console.is_terminal else None

    def __enter__(self) -> Self:
        self._latest = time.monotonic()
        if self._live:
            self._live.start()
            self._console.show_cursor()  # a process that is killed could not show it again
        return self

    def __exit__(self, *_: object) -> None:
        if self._live:
            self._live.stop()

    def __call__(self, line: TrajectoryLine) -> None:
        """Update the view with one trajectory line. A frame on a terminal is redrawn at a fixed rate."""
        with self._lock:
            self.run.take(line)
            self._latest = math.inf if isinstance(line, Footer | Question) else time.monotonic()
        if self._live is None:
            longest = MAX_LINE_CHARACTERS
            if isinstance(line, Header | Question | Footer):
                longest = MAX_LONG_LINE_CHARACTERS
            for text in plain_lines(self.run, line):
                self._console.print(
                    clean_line(text, longest), markup=False, emoji=False, highlight=False, soft_wrap=True
                )

    def _picture(self) -> Live:
        return Live(
            console=self._console,
            get_renderable=self._frame,
            refresh_per_second=FRAMES_PER_SECOND,
            redirect_stdout=False,
            redirect_stderr=False,
        )

    def _frame(self) -> RenderableType:
        with self._lock:
            seconds = self.run.spent["seconds"] + max(0.0, time.monotonic() - self._latest)
            return draw_frame(self.run, height=self._console.height, steps=self._steps, seconds=seconds)
