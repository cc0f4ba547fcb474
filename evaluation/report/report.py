"""A run as one self-contained HTML page: nothing is loaded, no script runs, and everything from outside is escaped."""

from collections.abc import Mapping
from pathlib import Path
from string import Template

from certigraph.evaluation.naming import refuse_links
from certigraph.evaluation.report.episode_style import EPISODE_STYLE
from certigraph.evaluation.report.finding_style import FINDING_STYLE
from certigraph.evaluation.report.graded import is_denied, is_own, is_solved, verdict_on
from certigraph.evaluation.report.html import Markup, joined, shortened, tag
from certigraph.evaluation.report.page import PAGE, STYLE
from certigraph.evaluation.report.parts import answer_block, figures, node_table, score_chips
from certigraph.evaluation.report.task_style import TASK_STYLE
from certigraph.evaluation.report.told import section, told_of
from certigraph.evaluation.report.words import PASSED
from certigraph.evaluation.settings import swaps_of
from certigraph.evaluation.sound import legible
from certigraph.state.endings import EXHAUSTED, GAVE_UP, GOAL, WORLD_ENDED
from certigraph.state.trajectory import Footer, Header, Trajectory

LONGEST_GOAL = 4_000

LOOKS = STYLE + EPISODE_STYLE + TASK_STYLE + FINDING_STYLE

Endings = Mapping[str, tuple[str, str]]
"""Look and words of a badge by ending."""

ENDINGS: Endings = {
    WORLD_ENDED: ("bad", "the world ended first"),
    GAVE_UP: ("bad", "gave up"),
    EXHAUSTED: ("bad", "exhausted"),
}

FORCED: Endings = {**ENDINGS, GAVE_UP: ("forced", f"goal {PASSED}")}

ANSWERED: Endings = {
    WORLD_ENDED: ("idle", "answered"),
    GAVE_UP: ("idle", "answered after giving up"),
    EXHAUSTED: ("idle", "answered where the gate stopped it"),
}
"""Of agents that act without predicates in a world that takes an answer: whether it is right, the score says."""


def write_report(trajectory: Trajectory, path: Path) -> Path:
    """Write the page and return its path. Finished, interrupted and still running runs all have one.

    Raises:
        Fault: ("data") the trajectory is of no such run, or `path` is a link.
    """
    refuse_links(path)
    header = trajectory.header
    title = joined(f"{header.graph} · {header.task.benchmark} {header.task.id}")
    with legible(header.run_id):
        page = Template(PAGE).substitute(title=title, style=LOOKS, body=_body(trajectory))
    path.write_text(page, encoding="utf-8", errors="replace")  # half a surrogate pair in a text from outside
    return path


def _body(trajectory: Trajectory) -> Markup:
    footer, told = trajectory.footer, told_of(trajectory)
    scores = footer.scores if footer else None
    side = [*told.drawings]
    if scores and scores.parts and not is_own(trajectory.header):
        side.append(section("Score", score_chips(scores)))
    side.append(section("Cost by operator", node_table([*trajectory.events, *trajectory.superseded])))
    answered = not told.certifies and scores is not None and bool(scores.answer)
    uncertified = told.certifies and not (footer and footer.ending == GOAL)
    named = "Answer, not certified" if uncertified else "Answer"
    shown = scores.answer if scores and told.answers else None
    answer = [section(named, answer_block(shown))] if shown is not None else []
    columns = tag("div", told.column, tag("aside", *side), class_="columns")
    endings = ANSWERED if answered else FORCED if told.forced else ENDINGS
    denied = is_denied(trajectory.ending, is_solved(verdict_on(trajectory.header, footer)))
    goal = ("bad", f"{told.goal[1]}, denied by the scorer") if denied else told.goal
    head = _head(trajectory.header, footer, {GOAL: goal, **endings})
    return joined(head, figures(trajectory, *told.figures), *answer, *told.wide, columns)


def _head(header: Header, footer: Footer | None, endings: Endings) -> Markup:
    task, message = header.task, footer.message if footer else ""
    overline = tag("p", f"{header.graph} · {task.benchmark} {task.id}", class_="overline")
    asked = tag("h1", shortened(task.goal, LONGEST_GOAL) or f"{task.benchmark} {task.id}")
    badges = tag("p", *_badges(header, footer, endings), class_="badges")
    said = [tag("p", message, class_="message")] if message else []
    return tag("header", overline, asked, badges, *said, _facts(header))


def _badges(header: Header, footer: Footer | None, endings: Endings) -> list[Markup]:
    if footer is None:
        return [tag("span", "interrupted", class_="badge idle")]
    kind, words = endings.get(footer.ending, ("idle", f"stopped: {footer.ending}"))
    ending = tag("span", words, class_=f"badge {kind}")
    if is_own(header):
        return [ending]
    shown = ["score ", tag("b", f"{footer.scores.value:.3g}")] if footer.scores else ["not scored"]
    return [ending, tag("span", *shown, class_="badge plain")]


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
