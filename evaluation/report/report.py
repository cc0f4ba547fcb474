"""A run as one self-contained HTML page: nothing is loaded, no script runs, and everything from outside is escaped."""

from collections.abc import Mapping
from pathlib import Path
from string import Template
from typing import NamedTuple

from certigraph.evaluation.report.episode_style import EPISODE_STYLE
from certigraph.evaluation.report.episodes import Episodes, read_episodes
from certigraph.evaluation.report.html import Markup, joined, tag
from certigraph.evaluation.report.page import PAGE, STYLE
from certigraph.evaluation.report.parts import answer_block, figures, node_table, score_chips
from certigraph.evaluation.report.plan import plan_column, plan_figures
from certigraph.evaluation.report.progress import progress_drawing
from certigraph.evaluation.report.scores import score_drawing
from certigraph.evaluation.report.story import Story, read_story
from certigraph.evaluation.report.turns import episode_column, episode_figures
from certigraph.evaluation.settings import swaps_of
from certigraph.state.endings import EXHAUSTED, GAVE_UP, GOAL, WORLD_ENDED
from certigraph.state.trajectory import Footer, Header, Trajectory

Endings = Mapping[str, tuple[str, str]]
"""Look and words of a badge by ending."""

ENDINGS: Endings = {
    WORLD_ENDED: ("bad", "the world ended first"),
    GAVE_UP: ("bad", "gave up"),
    EXHAUSTED: ("bad", "exhausted"),
}

ANSWERED: Endings = {
    WORLD_ENDED: ("idle", "answered"),
    GAVE_UP: ("idle", "answered after giving up"),
    EXHAUSTED: ("idle", "answered where the gate stopped it"),
}
"""Of agents that act without predicates in a world that takes an answer: whether it is right, the score says."""


def write_report(trajectory: Trajectory, path: Path) -> Path:
    """Write the page and return its path. Finished, interrupted and still running runs all have one."""
    header = trajectory.header
    title = joined(f"{header.graph} · {header.task.benchmark} {header.task.id}")
    page = Template(PAGE).substitute(title=title, style=STYLE + EPISODE_STYLE, body=_body(trajectory))
    path.write_text(page, encoding="utf-8")
    return path


def _body(trajectory: Trajectory) -> Markup:
    footer, episodes = trajectory.footer, read_episodes(trajectory)
    told = _of_episodes(episodes) if episodes.acting else _of_plan(read_story(trajectory), episodes)
    scores = footer.scores if footer else None
    side = [*told.drawings]
    if scores and scores.parts:
        side.append(_section("Score", score_chips(scores)))
    side.append(_section("Cost by node", node_table([*trajectory.events, *trajectory.superseded])))
    answered = episodes.acting and scores is not None and bool(scores.answer)
    uncertified = not episodes.acting and not (footer and footer.ending == GOAL)
    named = "Answer, not certified" if uncertified else "Answer"
    answer = [_section(named, answer_block(scores.answer))] if scores and scores.answer is not None else []
    columns = tag("div", told.column, tag("aside", *side), class_="columns")
    head = _head(trajectory.header, footer, {GOAL: ("good", told.goal), **(ANSWERED if answered else ENDINGS)})
    return joined(head, figures(trajectory, *told.figures), *answer, columns)


class _Told(NamedTuple):
    """What differs between a run with a plan and one without; `goal` says in words that it was reached."""

    goal: str
    figures: list[Markup]
    column: Markup
    drawings: list[Markup]


def _of_plan(story: Story, episodes: Episodes) -> _Told:
    drawings = [_section("Progress", progress_drawing(story))]
    if episodes.graded:
        drawings.append(_section("Score by step", score_drawing(episodes)))
    return _Told("goal certified", plan_figures(story), _section("Plan", plan_column(story)), drawings)


def _of_episodes(episodes: Episodes) -> _Told:
    drawings = [_section("Score by step", score_drawing(episodes))] if episodes.scored or not episodes.steps else []
    return _Told("goal reached", episode_figures(episodes), _section("Episodes", episode_column(episodes)), drawings)


def _head(header: Header, footer: Footer | None, endings: Endings) -> Markup:
    task, message = header.task, footer.message if footer else ""
    overline = tag("p", f"{header.graph} · {task.benchmark} {task.id}", class_="overline")
    asked = tag("h1", task.goal or f"{task.benchmark} {task.id}")
    said = [tag("p", message, class_="message")] if message else []
    return tag("header", overline, asked, tag("p", *_badges(footer, endings), class_="badges"), *said, _facts(header))


def _badges(footer: Footer | None, endings: Endings) -> list[Markup]:
    if footer is None:
        return [tag("span", "interrupted", class_="badge idle")]
    kind, words = endings.get(footer.ending, ("idle", f"stopped: {footer.ending}"))
    ending = tag("span", words, class_=f"badge {kind}")
    if footer.scores is None:
        return [ending, tag("span", "not scored", class_="badge plain")]
    return [ending, tag("span", "score ", tag("b", f"{footer.scores.value:.3g}"), class_="badge plain")]


def _facts(header: Header) -> Markup:
    swapped = [f"{slot} = {spec}" for slot, spec in swaps_of(header.graph, header.operators).items()]
    roles = header.context.get("roles")
    models = [f"{role}: {model}" for role, model in roles.items()] if isinstance(roles, dict) else []
    facts = {
        "model": ", ".join([str(header.context.get("model", "not recorded")), *models]),
        "operators": ", ".join(swapped) or "the graph's own",
        "started": header.created.replace("T", " "),
        "run": header.run_id,
    }
    shown = (tag("span", tag("b", name), f" {text}") for name, text in facts.items())
    return tag("p", *shown, class_="facts")


def _section(title: str, inside: Markup) -> Markup:
    return tag("section", tag("h2", title), inside)
