"""A run as one self-contained HTML page: nothing is loaded, no script runs, and everything from outside is escaped."""

from pathlib import Path
from string import Template

from certigraph.evaluation.report.html import Markup, joined, tag
from certigraph.evaluation.report.page import PAGE, STYLE
from certigraph.evaluation.report.parts import answer_block, figures, node_table, score_chips
from certigraph.evaluation.report.plan import plan_column
from certigraph.evaluation.report.progress import progress_drawing
from certigraph.evaluation.report.story import read_story
from certigraph.nodes.specs import Spec
from certigraph.state.endings import EXHAUSTED, GAVE_UP, GOAL, WORLD_ENDED
from certigraph.state.trajectory import Footer, Header, Trajectory

ENDINGS = {
    GOAL: ("good", "goal certified"),
    WORLD_ENDED: ("bad", "the world ended first"),
    GAVE_UP: ("bad", "gave up"),
    EXHAUSTED: ("bad", "exhausted"),
}


def write_report(trajectory: Trajectory, path: Path) -> Path:
    """Write the page and return its path. Finished, interrupted and still running runs all have one."""
    header = trajectory.header
    title = joined(f"{header.graph} · {header.task.benchmark} {header.task.id}")
    page = Template(PAGE).substitute(title=title, style=STYLE, body=_body(trajectory))
    path.write_text(page, encoding="utf-8")
    return path


def _body(trajectory: Trajectory) -> Markup:
    story, footer = read_story(trajectory), trajectory.footer
    scores = footer.scores if footer else None
    side = [_section("Progress", progress_drawing(story))]
    if scores and scores.parts:
        side.append(_section("Score", score_chips(scores)))
    side.append(_section("Cost by node", node_table([*trajectory.events, *trajectory.superseded])))
    named = "Answer" if footer and footer.ending == GOAL else "Answer, not certified"
    answer = [_section(named, answer_block(scores.answer))] if scores and scores.answer is not None else []
    columns = tag("div", _section("Plan", plan_column(story)), tag("aside", *side), class_="columns")
    return joined(_head(trajectory.header, footer), figures(trajectory, story), *answer, columns)


def _head(header: Header, footer: Footer | None) -> Markup:
    task, message = header.task, footer.message if footer else ""
    overline = tag("p", f"{header.graph} · {task.benchmark} {task.id}", class_="overline")
    goal = tag("h1", task.goal or f"{task.benchmark} {task.id}")
    said = [tag("p", message, class_="message")] if message else []
    return tag("header", overline, goal, tag("p", *_badges(footer), class_="badges"), *said, _facts(header))


def _badges(footer: Footer | None) -> list[Markup]:
    if footer is None:
        return [tag("span", "interrupted", class_="badge idle")]
    kind, words = ENDINGS.get(footer.ending, ("idle", f"stopped: {footer.ending}"))
    ending = tag("span", words, class_=f"badge {kind}")
    if footer.scores is None:
        return [ending, tag("span", "not scored", class_="badge plain")]
    return [ending, tag("span", "score ", tag("b", f"{footer.scores.value:.3g}"), class_="badge plain")]


def _facts(header: Header) -> Markup:
    specs = {slot: Spec.model_validate(spec) for slot, spec in header.operators.items()}
    swapped = [f"{slot} = {spec}" for slot, spec in specs.items() if str(spec) != slot]
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
