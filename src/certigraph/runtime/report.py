"""HTML report of a run: one self-contained page that loads nothing and runs no script.

The page is the template `run.html`. What it shows is collected here and in `report_plan` (predicates and attempts),
`report_charts`, `report_episodes` (episodes and predicted rewards), `report_tasks` (TDP's task graph) and
`report_prompts`.
"""

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple
from urllib.parse import quote

from pydantic import JsonValue

from certigraph.adapters.models.chat_models import describe_model
from certigraph.adapters.models.scripts import ERROR_LABELS, IMPOSSIBLE_PREFIX
from certigraph.adapters.trajectories import read_trajectory
from certigraph.graphs.assembly import swapped_specs
from certigraph.graphs.operator_names import benchmark_operators
from certigraph.runtime.approvals import answer_lines, format_question
from certigraph.runtime.episodes import EpisodeHistory, EpisodeSummary, RatingHistory
from certigraph.runtime.files import (
    PROMPTS_FILE,
    REPORT_FILE,
    check_no_links,
    find_manifest,
    translate_trajectory_errors,
)
from certigraph.runtime.history import NodeProgress, RunHistory, TaskGraph, is_unchecked, read_history
from certigraph.runtime.pages import Total, render_page
from certigraph.runtime.registry import header_swaps
from certigraph.runtime.report_charts import LineChart, progress_chart, reward_chart, score_chart
from certigraph.runtime.report_episodes import episode_totals, reward_totals
from certigraph.runtime.report_plan import PlanTable, format_denial, plan_table
from certigraph.runtime.report_prompts import KeptPrompts
from certigraph.runtime.report_tasks import (
    DENIED_LOOK,
    NODE_LOOKS,
    WIDTH,
    GraphLayout,
    Timeline,
    edges_of,
    format_progress,
    inner_run_of,
    layout_graph,
    task_costs,
    task_totals,
    timeline,
)
from certigraph.runtime.result import (
    Result,
    error_rates_of,
    has_simulated_validator,
    is_goal_denied,
    is_solved,
    is_unscored,
    verdict_scores_of,
)
from certigraph.runtime.texts import (
    CERTIFIED_LABEL,
    PASSED_LABEL,
    format_compact,
    format_count,
    format_cut_prompts,
    format_duration,
    format_score,
    format_usd,
    shorten_text,
    split_answer,
)
from certigraph.state.endings import EXHAUSTED, FINISHED, GAVE_UP, GOAL, WORLD_ENDED
from certigraph.state.records import Scores, Usage
from certigraph.state.rewards import TRUE_REWARDS
from certigraph.state.trajectory import CutPrompt, Event, Footer, Header, Trajectory, total_usage

# The contents of a run, which depend on what its graph does.


class NodeSection(NamedTuple):
    """Section of a sub-task: its progress, that on one line, and the run of the graph that worked on it, if any."""

    worked: NodeProgress
    progress: str
    inside: "RunContents | None"


class TaskContents(NamedTuple):
    """Task graph of a run, with the layout of its drawing, the timeline, a section a sub-task, and costs."""

    graph: TaskGraph
    layout: GraphLayout
    edges: Sequence[tuple[str, str]]
    timeline: Timeline
    sections: Sequence[NodeSection]
    costs: Sequence[tuple[int, Usage]]
    denied: str
    """That the scorer denies the goal, which one sub-task settles; else empty."""
    looks: Mapping[str, tuple[str, str]] = NODE_LOOKS
    width: int = WIDTH

    def denial_of(self, worked: NodeProgress) -> str:
        """Return `denied` if the sub-task is the one that settles the task, else an empty text."""
        return self.denied if self.denied and worked.node.id == self.graph.goal else ""

    def look_of(self, worked: NodeProgress) -> tuple[str, str]:
        """Return the CSS class and the mark of a sub-task."""
        return DENIED_LOOK if self.denial_of(worked) else self.looks[worked.status]


class RunContents(NamedTuple):
    """Main part of a report: its kind, and the data that the kind's template shows."""

    kind: Literal["plan", "episodes", "rewards", "tasks"]
    data: PlanTable | EpisodeHistory | RatingHistory | TaskContents


def task_contents(run: RunHistory, trajectory: Trajectory) -> TaskContents:
    """Collect what a report shows of a task graph."""
    tasks = run.tasks
    layout = layout_graph(tasks)
    nodes = [worked for level in tasks.levels() for worked in level]
    sections = [
        NodeSection(worked, format_progress(worked, run.certified), _inner_contents(inner_run_of(worked, trajectory)))
        for worked in nodes
    ]
    costs, denied = task_costs(tasks, trajectory), format_denial(run)
    return TaskContents(tasks, layout, list(edges_of(layout)), timeline(tasks), sections, costs, denied)


def _inner_contents(trajectory: Trajectory) -> RunContents | None:
    run = read_history(trajectory)
    if run.tasks.nodes:
        return RunContents("tasks", task_contents(run, trajectory))
    if run.episodes.acting:
        return RunContents("episodes", run.episodes)
    return RunContents("plan", plan_table(run)) if trajectory.events else None


def _all_nodes_as_episode(tasks: TaskGraph, trajectory: Trajectory) -> EpisodeHistory:
    # In the order in which the nodes were started.
    combined = EpisodeHistory()
    combined.all.append(EpisodeSummary(1))
    for worked in sorted((w for w in tasks.nodes.values() if w.spans), key=lambda worked: worked.spans[0]):
        inner = read_history(inner_run_of(worked, trajectory)).episodes
        combined.graded |= inner.graded
        combined.now.scores += [score for episode in inner.all for score in episode.scores]
    return combined


# Parts of a report that depend on the kind of run.

Badge = tuple[str, str]
"""CSS class and text of the badge of an ending."""


class ReportParts(NamedTuple):
    """Parts of a report that differ between runs with a plan, with episodes, with rewards and with a task graph."""

    contents: RunContents
    goal: Badge
    """Badge of the ending `goal`."""
    totals: list[Total]
    charts: list[LineChart]
    certifies: bool = False
    answers: bool = True
    """Whether the report shows the run's answer."""
    forced: bool = False
    """Whether a policy let the goal predicate pass uncertified."""


def report_parts_of(trajectory: Trajectory) -> ReportParts:
    """Collect the parts of a report that depend on the kind of run."""
    run = read_history(trajectory)
    if run.rating.steps:
        return _reward_parts(run.rating, trajectory.footer)
    if run.tasks.drawn:
        contents = RunContents("tasks", task_contents(run, trajectory))
        scores = _all_nodes_as_episode(run.tasks, trajectory)
        charts = [score_chart(scores)] if scores.graded else []
        return ReportParts(contents, ("idle", "task graph completed"), task_totals(run.tasks), charts)
    episodes = run.episodes
    if episodes.acting:
        charts = [score_chart(episodes)] if episodes.scored or not episodes.steps else []
        contents = RunContents("episodes", episodes)
        return ReportParts(contents, ("good", "goal reached"), episode_totals(episodes), charts)
    table = plan_table(run)
    charts = [progress_chart(table), *([score_chart(episodes)] if episodes.graded else [])]
    audited = run.header is not None and "audit" in run.header.all_operators
    goal = ("good", f"goal {CERTIFIED_LABEL if audited else run.certified}")
    return ReportParts(RunContents("plan", table), goal, table.totals(), charts, certifies=True, forced=table.forced)


def _reward_parts(rating: RatingHistory, footer: Footer | None) -> ReportParts:
    answer = footer.scores.answer if footer and footer.scores else None
    true: Any = answer.get(TRUE_REWARDS, ()) if isinstance(answer, dict) else ()
    charts = [reward_chart(rating, true)]
    return ReportParts(RunContents("rewards", rating), ("idle", "rated"), reward_totals(rating), charts, answers=False)


# How the run ended.

ENDING_BADGES: Mapping[str, Badge] = {
    WORLD_ENDED: ("bad", "the world ended first"),
    GAVE_UP: ("bad", "gave up"),
    EXHAUSTED: ("bad", "exhausted"),
}
"""Badges of runs that ended without reaching the goal."""

FORCED_BADGES: Mapping[str, Badge] = {**ENDING_BADGES, GAVE_UP: ("forced", f"goal {PASSED_LABEL}")}

ANSWER_BADGES: Mapping[str, Badge] = {
    WORLD_ENDED: ("idle", "answered"),
    FINISHED: ("idle", "answered, not certified"),
    GAVE_UP: ("idle", "answered after giving up"),
    EXHAUSTED: ("idle", "answered where the gate stopped it"),
}
"""Badges of agents without predicates that gave an answer. Only the score decides whether it is correct."""


def ending_badge(trajectory: Trajectory, parts: ReportParts) -> Badge:
    """Return the badge of a run's ending; it is green if the score says that the task is solved, whatever ended it."""
    footer = trajectory.footer
    if footer is None:
        return "idle", "waits for an answer" if trajectory.questions else "interrupted"
    solved = is_solved(verdict_scores_of(trajectory.header, footer))
    if footer.ending == GOAL:
        look, text = parts.goal
        if is_goal_denied(GOAL, solved):
            return "bad", f"{text}, denied by the scorer"
    else:
        answered = not parts.certifies and footer.scores is not None and bool(footer.scores.answer)
        badges = ANSWER_BADGES if answered else FORCED_BADGES if parts.forced else ENDING_BADGES
        look, text = badges.get(footer.ending, ("idle", f"stopped: {footer.ending}"))
        if solved and look == "forced":
            text = f"solved; {text}"
        elif solved and look == "bad":
            text = "solved, not certified" if parts.certifies else "solved"
    return ("good" if solved else look), text


# The answer.


class Answer(NamedTuple):
    """Answer of a run: a table with a list of entries in each cell, or a text."""

    text: str = ""
    columns: Sequence[str] = ()
    rows: Sequence[Sequence[Sequence[str]]] = ()


def lay_out_answer(answer: JsonValue) -> Answer:
    """Lay out an answer: a list of dicts (an itinerary) as a table, text as text, anything else as JSON."""
    rows = [row for row in answer if isinstance(row, dict)] if isinstance(answer, list) else []
    if rows and isinstance(answer, list) and len(rows) == len(answer):
        columns = list(dict.fromkeys(key for row in rows for key in row))
        return Answer("", columns, [[_cell_entries(row.get(column)) for column in columns] for row in rows])
    if isinstance(answer, str):
        return Answer("\n".join(split_answer(answer)))
    return Answer(json.dumps(answer, indent=2, ensure_ascii=False))


def _cell_entries(value: JsonValue) -> list[str]:
    if value in (None, "", "-"):
        return []
    if isinstance(value, str):
        return [entry for part in value.split(";") if (entry := part.strip())]
    return [json.dumps(value, ensure_ascii=False)]


# The page.

UNCHECKED_NOTE = "Nothing was certified: the validator always_pass accepted each predicate without a check."
"""Message of a run whose validator looks at nothing."""

PART_OF = "part of"
"""Name of the fact that names the comparison, ablation or sweep of a run."""

MAX_GOAL_CHARACTERS = 4_000
"""Maximum number of characters of the task's goal."""


class RunReport(NamedTuple):
    """Everything that the template `run.html` shows."""

    goal: str
    badge: Badge
    score: str
    """The score as text, or "not scored"; empty for a question or request of a user."""
    messages: Sequence[str]
    facts: Mapping[str, str]
    links: Mapping[str, str]
    """Relative addresses to which facts link, by the name of the fact."""
    totals: Sequence[Total]
    answer: Answer | None
    answer_title: str
    answered: Sequence[tuple[str, str]]
    """The questions to a person, and the answers that were given."""
    contents: RunContents
    charts: Sequence[LineChart]
    score_parts: Mapping[str, float | None]
    costs: Sequence[tuple[int, Usage]]
    """Number of executions and usage of each node of the graph."""
    cut_prompts: Sequence[CutPrompt]
    cut_summary: str
    prompts: KeptPrompts
    simulated: bool
    """Whether a simulated agent is the validator."""


def write_report(
    run: Trajectory | Result | Path | str, path: Path | str | None = None, *, whole: Path | None = None
) -> Path:
    """Write the HTML report of a finished, interrupted or running run, and return its path.

    In the folder of a run that keeps its prompts, the report shows them. The report of a run that is a part of a
    comparison links to its page: to `whole`, by default to the page that exists in a folder around the run's.

    Args:
        run: the result of a run, its trajectory, or its folder.
        path: path of the report; by default `report.html` in the folder of the run.
        whole: page of the comparison that the run is a part of.

    Raises:
        TypeError: `run` is of another type, or is a trajectory without a path for the report.
        Fault: ("data") the trajectory has contents that no run of its graph writes, the file of prompts is damaged, or
            one of the paths is a link.
    """
    trajectory, path = _source_of_report(run, path)
    prompts = path.parent / PROMPTS_FILE
    check_no_links(path, prompts)
    header = trajectory.header
    title = f"{header.graph} · {header.task.benchmark} {header.task.id}"
    with translate_trajectory_errors(header.run_id):
        report = report_of(trajectory, KeptPrompts(prompts), _link_to_whole(header, path, whole))
        page = render_page("run.html", title=title, report=report)
    path.write_text(page, encoding="utf-8", errors="replace")  # texts of worlds may hold half of a surrogate pair
    return path


def _source_of_report(run: Trajectory | Result | Path | str, path: Path | str | None) -> tuple[Trajectory, Path]:
    if isinstance(run, Trajectory):
        if path is None:
            raise TypeError("a trajectory has no folder: name the report, write_report(trajectory, 'report.html')")
        return run, Path(path)
    if isinstance(run, str | Path):
        return read_trajectory(Path(run)), Path(path or Path(run) / REPORT_FILE)
    if isinstance(run, Result):
        return run.trajectory, Path(path or run.folder / REPORT_FILE)
    raise TypeError(f"{run!r:.100} is no run: give the result of a run, its trajectory, or its folder")


def _link_to_whole(header: Header, path: Path, whole: Path | None) -> str:
    """Return the relative address of the page of the comparison that a run is a part of; empty if there is none."""
    folder = path.resolve().parent
    found = find_manifest(folder) if header.context.get("group") and not whole else None
    page = found[0] / found[1].page if found else whole
    if page is None or not (whole or page.is_file()):
        return ""
    return quote(Path(os.path.relpath(page.resolve(), folder)).as_posix())


def report_of(trajectory: Trajectory, prompts: KeptPrompts, link: str = "") -> RunReport:
    """Collect everything that the report of a run shows; `link` is the address of the page of its comparison."""
    header, footer, parts = trajectory.header, trajectory.footer, report_parts_of(trajectory)
    scores, own = footer.scores if footer else None, is_unscored(header)
    message = footer.message if footer else ""
    answer = scores.answer if scores and parts.answers else None
    uncertified = parts.certifies and not (footer and footer.ending == GOAL)
    return RunReport(
        goal=shorten_text(header.task.goal, MAX_GOAL_CHARACTERS) or f"{header.task.benchmark} {header.task.id}",
        badge=ending_badge(trajectory, parts),
        score="" if footer is None or own else _format_score(scores),
        messages=[
            *([UNCHECKED_NOTE] if is_unchecked(header) else []),
            *([message] if message else map(format_question, trajectory.questions)),
        ],
        facts={**_run_facts(header), **_resume_facts(trajectory)},
        links={PART_OF: link} if link else {},
        totals=[*parts.totals, *cost_totals(trajectory)],
        answer=None if answer is None else lay_out_answer(answer),
        answer_title="Answer, not certified" if uncertified else "Answer",
        answered=answer_lines(trajectory.answered, trajectory.questions),
        contents=parts.contents,
        charts=parts.charts,
        score_parts=scores.parts if scores and not own else {},
        costs=_node_costs([*trajectory.events, *trajectory.superseded]),
        cut_prompts=trajectory.cut_prompts,
        cut_summary=format_cut_prompts(trajectory.cut_prompts, trajectory.usage.calls),
        prompts=prompts,
        simulated=has_simulated_validator(header),
    )


def cost_totals(trajectory: Trajectory) -> list[Total]:
    """Return the totals of what a run cost: model calls, tokens, money and time."""
    usage, repeated = trajectory.usage, sum(event.usage.calls for event in trajectory.superseded)
    executions = format_count(len(trajectory.events), "node execution")
    executions += f", {format_count(repeated, 'call')} made again after a resume" if repeated else ""
    tokens, cached = format_compact(usage.input_tokens + usage.output_tokens), format_compact(usage.cached_tokens)
    return [
        Total("model calls", f"{usage.calls:,}", executions),
        Total("tokens", tokens, f"{cached} cached"),
        Total("model cost", format_usd(usage.usd, trajectory.unpriced_calls), "US dollars"),
        Total("time", format_duration(usage.seconds), "spent in nodes, resumes included"),
    ]


def _format_score(scores: Scores | None) -> str:
    return format_score(scores.value) if scores else "not scored"


def _node_costs(events: Sequence[Event]) -> list[tuple[int, Usage]]:
    by_node: dict[str, list[Usage]] = {}
    for event in events:
        by_node.setdefault(event.node, []).append(event.usage)
    return [(len(usages), total_usage(usages, node)) for node, usages in by_node.items()]


def _resume_facts(trajectory: Trajectory) -> dict[str, str]:
    if not trajectory.resumes:
        return {}
    kept = {"events": trajectory.events[: trajectory.resumed_after], "footer": None}
    step = f"after step {read_history(trajectory.model_copy(update=kept)).steps}"
    times = f"once, {step}" if trajectory.resumes == 1 else f"{trajectory.resumes} times, the last time {step}"
    return {"resumed": times}


def _run_facts(header: Header) -> dict[str, str]:
    differing = {**swapped_specs(header.own_operators, {}), **header_swaps(header)}
    swapped = [f"{slot} = {spec}" for slot, spec in differing.items()]
    own = benchmark_operators(header.operators, header.task.benchmark)
    roles = header.context.get("roles")
    models = (
        [f"{role}: {describe_model(str(model))}" for role, model in roles.items()] if isinstance(roles, dict) else []
    )
    facts = {
        "model": "; ".join([describe_model(str(header.context.get("model", "not recorded"))), *models]),
        **({"method": header.method} if header.method else {}),
        "operators": ", ".join(swapped) or "defaults",
        **({"operators of the benchmark": ", ".join(own.values())} if own else {}),
        "started": header.created.replace("T", " "),
        "run": header.run_id,
    }
    if group := header.context.get("group"):
        facts = {PART_OF: str(group), **facts}
    if rates := error_rates_of(header):
        name, _, value = rates.partition(": ")
        facts[name] = value
        if has_simulated_validator(header):
            facts[name] += "; any single verdict may be such an error, whatever its reason says"
        if ERROR_LABELS["propose"] in value:
            facts[name] += f"; a wrong condition, which cannot be reached, reads “{IMPOSSIBLE_PREFIX}”"
    if reranker := header.versions.get("reranker"):
        facts["reranker"] = str(reranker)
    return facts
