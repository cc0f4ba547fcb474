"""HTML report of a run: one self-contained page that loads nothing and runs no script.

The parts of the page are built in `report_plan` (predicates and attempts), `report_episodes` (turns, scores, rewards)
and `report_tasks` (TDP's task graph).
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from string import Template
from typing import Any, NamedTuple

from certigraph.runtime.approvals import format_question
from certigraph.runtime.episodes import EpisodeHistory, EpisodeSummary, RatingHistory
from certigraph.runtime.files import check_no_links, translate_trajectory_errors
from certigraph.runtime.history import TaskGraph, read_history
from certigraph.runtime.html import (
    PAGE_STYLE,
    PAGE_TEMPLATE,
    Markup,
    answer_block,
    cut_prompts_list,
    join_markup,
    node_table,
    score_chips,
    tag,
    totals_row,
)
from certigraph.runtime.registry import swaps_of
from certigraph.runtime.report_episodes import (
    episode_column,
    episode_figures,
    episode_inside,
    reward_column,
    reward_drawing,
    reward_figures,
    score_drawing,
)
from certigraph.runtime.report_plan import PlanTable, plan_column, plan_figures, plan_table, progress_drawing
from certigraph.runtime.report_tasks import (
    graph_drawing,
    inner_run_of,
    task_column,
    task_cost_table,
    task_figures,
    timeline,
)
from certigraph.runtime.result import is_goal_denied, is_solved, is_user_question, verdict_scores_of
from certigraph.runtime.texts import PASSED_LABEL, shorten_text
from certigraph.state.records import EXHAUSTED, GAVE_UP, GOAL, WORLD_ENDED
from certigraph.state.rewards import TRUE_REWARDS
from certigraph.state.trajectory import Footer, Header, Question, Trajectory

# Style sheets.

EPISODE_STYLE = """\
.ink0 { --mark: #3d7fb5; } .ink1 { --mark: #d5662a; } .ink2 { --mark: #1d9a74; }
.ink3 { --mark: #c274a0; } .ink4 { --mark: #ad8a14; } .ink5 { --mark: #58aede; }
.score { fill: none; stroke: var(--mark); stroke-width: 2; stroke-linejoin: round; }
.episode + .episode { border-top: 1px solid var(--line); margin-top: 10px; padding-top: 10px; }
.episode > summary { display: flex; align-items: baseline; }
.episode > summary .when { margin-left: auto; }
.episode > summary::after, .subtask > summary::after { content: "+"; color: var(--faint); width: 1.4em;
  flex: none; text-align: right; }
.episode[open] > summary::after, .subtask[open] > summary::after { content: "\\2212"; }
.subtask { margin-top: 12px; }
.subtask > summary { position: relative; display: flex; gap: 10px; align-items: baseline; padding-left: 32px; }
.subtask > :not(summary) { margin-left: 32px; }
.subtask > .reason, .subtask > .how, .subtask > .part { font-size: 13.5px; }
.turn, .refused { margin-top: 6px; font-size: 13.5px; }
.turn > summary, .refused { display: grid; gap: 0 10px; }
.turn > summary { grid-template-columns: 1.6em 1fr auto; }
.turn.rated > summary { grid-template-columns: 2.6em 1fr auto; }
.score.true { stroke-width: 1.2; stroke-dasharray: 4 3; opacity: .6; }
.turn .answer { grid-column: 2 / -1; color: var(--faint); white-space: nowrap; overflow: hidden;
  text-overflow: ellipsis; }
.turn .round { grid-column: 2 / -1; color: var(--soft); font-size: 12.5px; }
.turn .round.gate { color: var(--bad); }
.turn[open] .answer { display: none; }
.turn.rejected .action { color: var(--bad); }
.turn > .part { margin-left: calc(1.6em + 10px); }
.refused { grid-template-columns: 1fr auto; margin-left: 1.6em; border-left: 2px solid var(--bad); padding-left: 10px; }
.refused .action { color: var(--soft); text-decoration: line-through; text-decoration-color: var(--faint); }
.refused .reason { grid-column: 1 / -1; }
.points { margin-right: 8px; border-radius: 99px; padding: 0 8px; font-size: 12px; font-weight: 600; }
.points:last-child { margin-right: 0; }
.points.good { color: var(--good); background: var(--good-soft); }
.points.bad { color: var(--bad); background: var(--bad-soft); }
.lesson { margin: 14px 0 4px; padding: 10px 16px 12px; border-radius: 10px; background: var(--page);
  font-size: 13.5px; }
.lesson .how { margin: 0; }
.lesson ul, .lesson ol { padding-left: 20px; }
h3 { font-size: 12px; font-weight: 400; color: var(--faint); }
.lesson > * + h3 { margin-top: 8px; }
"""
"""Style sheet for turns, subtasks, lessons and the drawing of scores."""

FINDING_STYLE = """\
:root { --force: #7a4b9d; --force-soft: #f0e8f6; }
@media (prefers-color-scheme: dark) { :root { --force: #c5a3e2; --force-soft: #30243b; } }
.forced { --mark: var(--force); --tint: var(--force-soft); }
.badge.forced { background: var(--force-soft); color: var(--force); }
.passed { margin: 4px 0 0 27px; font-size: 13.5px; color: var(--mark); }
.found { margin: 4px 0 0 27px; padding-left: 11px; border-left: 2px solid var(--mark, var(--line)); font-size: 13.5px; }
.found p { white-space: pre-wrap; }
.found .sources { color: var(--soft); font-size: 12.5px; }
.found .against { color: var(--bad); font-size: 12.5px; }
.found a { color: inherit; text-decoration-color: var(--faint); text-underline-offset: 2px; }
.try .found { margin-left: 13px; border-color: var(--line); }
.pass { fill: var(--force); }
.pass-key { display: inline-block; width: 8px; height: 8px; margin-right: 7px; border-radius: 8px;
  background: var(--force); }
"""
"""Style sheet for findings and for predicates that a policy let pass."""

TASK_STYLE = """\
.graph { max-height: 760px; overflow: auto; }
.graph svg { min-width: 640px; }
.sign { color: var(--mark, var(--faint)); margin-right: 7px; }
.gone { --mark: var(--faint); }
.task rect { fill: var(--tint, var(--card)); stroke: var(--mark, var(--faint)); stroke-width: 1.2; }
.task.target rect { stroke-width: 2.5; }
.task.goal rect { stroke-width: 3; }
.task.gone rect { stroke-dasharray: 4 4; fill: var(--card); }
.task.gone .box { opacity: .55; text-decoration: line-through; }
.task.revised .box { border-left: 4px solid var(--blue); }
.box { height: 100%; padding: 7px 11px; border-radius: 9px; overflow: hidden; font-size: 12.5px; line-height: 17px; }
.box p { display: flex; justify-content: space-between; gap: 8px; white-space: nowrap; }
.box b { color: var(--mark, var(--soft)); overflow: hidden; text-overflow: ellipsis; }
.box small { color: var(--soft); font-size: 11px; }
.box span { display: -webkit-box; -webkit-line-clamp: 2; -webkit-box-orient: vertical; overflow: hidden; }
.box.dense { padding: 4px 8px; font-size: 12px; }
.task.waiting .box span { color: var(--soft); }
.edge { fill: none; stroke: var(--mark, var(--faint)); stroke-width: 1.4; opacity: .6; }
.dense .edge { stroke-width: 1; opacity: .25; }
.edge.waiting, .edge.gone { stroke-dasharray: 4 4; }
.revised-key, .goal-key { display: inline-block; margin-right: 7px; width: 12px; height: 10px; border-radius: 3px; }
.revised-key { border-left: 4px solid var(--blue); border-radius: 0; width: 5px; }
.goal-key { border: 2.5px solid var(--faint); }
.timeline { min-width: 640px; }
.timeline .axis, .timeline .whole { stroke-width: 1; }
.timeline text { stroke: none; fill: var(--soft); }
.bar-line { fill: none; stroke: var(--mark, var(--faint)); }
.bar-line.lasting { opacity: .25; }
.tasks .subtask { margin-top: 10px; padding-top: 10px; border-top: 1px solid var(--line); }
.tasks .subtask:first-child { border: 0; padding-top: 0; margin-top: 0; }
.tasks .subtask > summary { flex-wrap: wrap; gap: 0 10px; }
.tasks .subtask > summary .id { font-weight: 600; }
.tasks .subtask > summary .condition { flex: 1 1 60%; font-weight: 400; }
.tasks .subtask > summary .subtask-result { flex: 1 1 100%; color: var(--soft); font-size: 13px; }
.tasks .subtask:not([open]) > summary .condition, .tasks .subtask:not([open]) > summary .id {
  display: -webkit-box; -webkit-line-clamp: 3; -webkit-box-orient: vertical; overflow: hidden; }
.tasks .tasks { margin: 10px 0 0 32px; }
.tasks .subtask.gone .condition { text-decoration: line-through; color: var(--soft); }
.tasks .subtask[open] > summary .subtask-result { display: none; }
.tasks .subtask > summary { position: relative; padding-right: 22px; }
.tasks .subtask > summary::after { position: absolute; right: 0; top: 0; }
.tasks .subtask > .how.back { margin-left: 32px; }
.tasks .legend { margin-top: 10px; margin-bottom: 8px; }
.tasks .waiting .mark { font-size: 0; }
.revision { color: var(--blue); font-size: 13.5px; margin-top: 8px; }
"""
"""Style sheet for a task graph: boxes and edges, the timeline, and the section of each sub-task."""


# Parts of a report that depend on the kind of run: plan, episodes, rewards or task graph.


class ReportParts(NamedTuple):
    """Parts of a report that differ between runs with a plan, with episodes, with rewards and with a task graph."""

    goal: tuple[str, str]
    """CSS class and text of the badge for the ending `goal`."""
    certifies: bool
    figures: list[Markup]
    column: Markup
    drawings: list[Markup]
    wide: tuple[Markup, ...] = ()
    """Sections of full width, above the column and the drawings."""
    answers: bool = True
    """Whether the report shows the run's answer."""
    forced: bool = False
    """Whether a policy let the goal predicate pass uncertified."""


def report_parts_of(trajectory: Trajectory) -> ReportParts:
    """Build the parts of a report that depend on the kind of run."""
    run = read_history(trajectory)
    if run.rating.steps:
        return _reward_parts(run.rating, trajectory.footer)
    if run.tasks.drawn:
        return _task_parts(run.tasks, trajectory)
    return _episode_parts(run.episodes) if run.episodes.acting else _plan_parts(plan_table(run), run.episodes)


def titled_section(title: str, inside: Markup) -> Markup:
    """Build a section of the page with its title."""
    return tag("section", tag("h2", title), inside)


def _plan_parts(story: PlanTable, episodes: EpisodeHistory) -> ReportParts:
    drawings = [titled_section("Progress", progress_drawing(story))]
    if episodes.graded:
        drawings.append(titled_section("Score by step", score_drawing(episodes)))
    goal = ("good", "goal certified")
    return ReportParts(
        goal, True, plan_figures(story), titled_section("Plan", plan_column(story)), drawings, forced=story.forced
    )


def _episode_parts(episodes: EpisodeHistory) -> ReportParts:
    drawings = (
        [titled_section("Score by step", score_drawing(episodes))] if episodes.scored or not episodes.steps else []
    )
    column = titled_section("Episodes", episode_column(episodes))
    return ReportParts(("good", "goal reached"), False, episode_figures(episodes), column, drawings)


def _reward_parts(rating: RatingHistory, footer: Footer | None) -> ReportParts:
    answer = footer.scores.answer if footer and footer.scores else None
    true: Any = answer.get(TRUE_REWARDS, ()) if isinstance(answer, dict) else ()
    drawings = [titled_section("Predicted reward by step", reward_drawing(rating, true))]
    column = titled_section("Recordings", reward_column(rating))
    return ReportParts(("idle", "rated"), False, reward_figures(rating), column, drawings, answers=False)


def _task_parts(tasks: TaskGraph, trajectory: Trajectory) -> ReportParts:
    wide = (titled_section("Task graph", graph_drawing(tasks)), titled_section("Timeline", timeline(tasks)))
    column = titled_section("Sub-tasks", task_column(tasks, trajectory, _inner_markup))
    drawings = [
        *_task_score_sections(tasks, trajectory),
        titled_section("Cost by sub-task", task_cost_table(tasks, trajectory)),
    ]
    # "completed" is the Supervisor's judgement; only the score decides whether the task is solved
    return ReportParts(("idle", "task graph completed"), False, task_figures(tasks), column, drawings, wide)


def _task_score_sections(tasks: TaskGraph, trajectory: Trajectory) -> list[Markup]:
    # All nodes as one episode, in the order in which they started, if the world reports a score.
    combined = EpisodeHistory()
    combined.all.append(EpisodeSummary(1))
    for worked in sorted((w for w in tasks.nodes.values() if w.spans), key=lambda worked: worked.spans[0]):
        inner = read_history(inner_run_of(worked, trajectory)).episodes
        combined.graded |= inner.graded
        combined.now.scores += [score for episode in inner.all for score in episode.scores]
    return [titled_section("Score by step", score_drawing(combined))] if combined.graded else []


def _inner_markup(trajectory: Trajectory) -> Markup:
    run = read_history(trajectory)
    if run.tasks.nodes:
        return task_column(run.tasks, trajectory, _inner_markup)
    if run.episodes.acting:
        return join_markup(*map(episode_inside, run.episodes.all))
    return plan_column(plan_table(run)) if trajectory.events else join_markup()


# The page.

MAX_GOAL_CHARACTERS = 4_000
"""Maximum number of characters of the task's goal."""

REPORT_STYLE = PAGE_STYLE + EPISODE_STYLE + TASK_STYLE + FINDING_STYLE

EndingBadges = Mapping[str, tuple[str, str]]
"""CSS class and text of the badge, by ending of the run."""

ENDING_BADGES: EndingBadges = {
    WORLD_ENDED: ("bad", "the world ended first"),
    GAVE_UP: ("bad", "gave up"),
    EXHAUSTED: ("bad", "exhausted"),
}
"""Badges of runs that ended without reaching the goal."""

FORCED_BADGES: EndingBadges = {**ENDING_BADGES, GAVE_UP: ("forced", f"goal {PASSED_LABEL}")}

ANSWER_BADGES: EndingBadges = {
    WORLD_ENDED: ("idle", "answered"),
    GAVE_UP: ("idle", "answered after giving up"),
    EXHAUSTED: ("idle", "answered where the gate stopped it"),
}
"""Badges of agents without predicates that gave an answer. Only the score decides whether it is correct."""


def write_report(trajectory: Trajectory, path: Path) -> Path:
    """Write the HTML report of a finished, interrupted or running run to `path`, and return `path`.

    Raises:
        Fault: ("data") the trajectory has contents that no run of its graph writes, or `path` is a link.
    """
    check_no_links(path)
    header = trajectory.header
    title = join_markup(f"{header.graph} · {header.task.benchmark} {header.task.id}")
    with translate_trajectory_errors(header.run_id):
        page = Template(PAGE_TEMPLATE).substitute(title=title, style=REPORT_STYLE, body=_report_body(trajectory))
    path.write_text(page, encoding="utf-8", errors="replace")  # texts of worlds may hold half of a surrogate pair
    return path


def _report_body(trajectory: Trajectory) -> Markup:
    footer, parts = trajectory.footer, report_parts_of(trajectory)
    scores = footer.scores if footer else None
    side = [*parts.drawings]
    if scores and scores.parts and not is_user_question(trajectory.header):
        side.append(titled_section("Score", score_chips(scores)))
    side.append(titled_section("Cost by operator", node_table([*trajectory.events, *trajectory.superseded])))
    if trajectory.cut_prompts:
        side.append(titled_section("Prompts", cut_prompts_list(trajectory)))
    answered = not parts.certifies and scores is not None and bool(scores.answer)
    uncertified = parts.certifies and not (footer and footer.ending == GOAL)
    title = "Answer, not certified" if uncertified else "Answer"
    shown = scores.answer if scores and parts.answers else None
    answer = [titled_section(title, answer_block(shown))] if shown is not None else []
    columns = tag("div", parts.column, tag("aside", *side), class_="columns")
    endings = ANSWER_BADGES if answered else FORCED_BADGES if parts.forced else ENDING_BADGES
    denied = is_goal_denied(trajectory.ending, is_solved(verdict_scores_of(trajectory.header, footer)))
    goal = ("bad", f"{parts.goal[1]}, denied by the scorer") if denied else parts.goal
    head = _report_header(trajectory.header, footer, {GOAL: goal, **endings}, trajectory.questions)
    return join_markup(head, totals_row(trajectory, *parts.figures), *answer, *parts.wide, columns)


def _report_header(
    header: Header, footer: Footer | None, endings: EndingBadges, questions: Sequence[Question]
) -> Markup:
    task, message = header.task, footer.message if footer else ""
    overline = tag("p", f"{header.graph} · {task.benchmark} {task.id}", class_="overline")
    heading = tag("h1", shorten_text(task.goal, MAX_GOAL_CHARACTERS) or f"{task.benchmark} {task.id}")
    badges = tag("p", *_badges(header, footer, endings, questions), class_="badges")
    messages = [message] if message else [format_question(question) for question in questions]
    paragraphs = [tag("p", message, class_="message") for message in messages]
    return tag("header", overline, heading, badges, *paragraphs, _fact_line(header))


def _badges(
    header: Header, footer: Footer | None, endings: EndingBadges, questions: Sequence[Question]
) -> list[Markup]:
    if footer is None:
        return [tag("span", "waits for an answer" if questions else "interrupted", class_="badge idle")]
    kind, words = endings.get(footer.ending, ("idle", f"stopped: {footer.ending}"))
    ending = tag("span", words, class_=f"badge {kind}")
    if is_user_question(header):
        return [ending]
    shown = ["score ", tag("b", f"{footer.scores.value:.3g}")] if footer.scores else ["not scored"]
    return [ending, tag("span", *shown, class_="badge plain")]


def _fact_line(header: Header) -> Markup:
    swapped = [f"{slot} = {spec}" for slot, spec in swaps_of(header.graph, header.operators).items()]
    roles = header.context.get("roles")
    models = [f"{role}: {model}" for role, model in roles.items()] if isinstance(roles, dict) else []
    facts = {
        "model": ", ".join([str(header.context.get("model", "not recorded")), *models]),
        "operators": ", ".join(swapped) or "the graph's own",
        "started": header.created.replace("T", " "),
        "run": header.run_id,
    }
    if reranker := header.versions.get("reranker"):
        facts["reranker"] = reranker
    shown = (tag("span", tag("b", name), f" {text}") for name, text in facts.items())
    return tag("p", *shown, class_="facts")
