"""The nodes of a task graph, a folded section each: what it was to do, how it was done, and what it cost."""

from collections.abc import Callable

from certigraph.evaluation.report.graph_drawing import LOOKS
from certigraph.evaluation.report.html import Markup, counted, shortened, tag
from certigraph.evaluation.report.parts import clock, compact, cost_table, figure
from certigraph.evaluation.report.task_graph import TaskGraph
from certigraph.evaluation.report.worked import Worked
from certigraph.state.records import Usage
from certigraph.state.trajectory import Event, Footer, Trajectory, total

LONGEST_TOLD, LONGEST_PART = 200, 4_000
"""Characters of a result in the folded section and in the unfolded one."""

SUBTASK_GRAPH = "subtask"

Inside = Callable[[Trajectory], Markup]
"""Shows a run: here that of the graph inside a node."""


def task_figures(tasks: TaskGraph) -> list[Markup]:
    """How far the graph came."""
    replans = sum(worked.replans for worked in tasks.nodes.values())
    failed = tasks.count("failed")
    return [
        figure("sub-tasks", f"{tasks.count('completed')}/{tasks.live}", f"completed, {failed} failed"),
        figure("world steps", f"{tasks.steps:,}", "of all sub-tasks"),
        figure("revisions", f"{len(tasks.revisions)}", counted(replans, "replan")),
    ]


def task_column(tasks: TaskGraph, trajectory: Trajectory, inside: Inside) -> Markup:
    """A section for every node, level by level."""
    nodes = [worked for level in tasks.levels() for worked in level]
    sections = (_section(worked, tasks, inside(inner_run(worked, trajectory))) for worked in nodes)
    return tag("div", *sections, class_="tasks")


def inner_run(worked: Worked, trajectory: Trajectory) -> Trajectory:
    """What ran inside a node, as a run of its own."""
    solver = trajectory.header.operators.get("solve")
    arguments = solver.get("args", {}) if isinstance(solver, dict) else {}
    graph = arguments.get("graph", SUBTASK_GRAPH) if isinstance(arguments, dict) else SUBTASK_GRAPH
    ending = worked.outcome.ending if worked.outcome else ""
    header = trajectory.header.model_copy(update={"graph": graph})
    footer = Footer(ending=ending, usage=Usage(node="all")) if ending else None
    events = [_unscoped(event) for event in worked.events]
    return Trajectory.model_construct(header=header, events=events, superseded=[], footer=footer)


def task_cost(tasks: TaskGraph, trajectory: Trajectory) -> Markup:
    """World steps, calls, tokens and seconds of every node; first what its graph's own operators cost."""
    own = [event.usage for event in [*trajectory.events, *trajectory.superseded] if not event.scope]
    rows = [(0, total(own, "task graph"))]
    for worked in tasks.nodes.values():
        usage = Usage(node=worked.name, calls=worked.calls, input_tokens=worked.tokens, seconds=worked.seconds)
        rows.append((worked.steps, usage))
    return cost_table(("sub-task", "steps"), rows)


def _unscoped(event: Event) -> Event:
    """As the inner graph's own run would have it; `subtask` is of the innermost scope."""
    deeper = event.scope.partition("|")[2]
    return event.model_copy(update={"scope": deeper, "subtask": event.subtask if deeper else ""})


def _section(worked: Worked, tasks: TaskGraph, inside: Markup) -> Markup:
    look, sign = LOOKS[worked.status]
    told = shortened(" ".join(worked.outcome.result.split()), LONGEST_TOLD) if worked.outcome else ""
    head = tag(
        "summary",
        tag("span", sign, class_="mark", title=worked.status),
        tag("span", worked.name, class_="id"),
        tag("span", shortened(worked.node.task, LONGEST_PART), class_="condition"),
        tag("span", _took(worked), class_="when"),
        *([tag("span", told, class_="told")] if told else []),
    )
    return tag("details", head, *_asked(worked, tasks), inside, *_outcome(worked), class_=f"subtask {look}")


def _took(worked: Worked) -> str:
    stands = [worked.changed] if worked.removed else [*filter(None, [worked.changed]), worked.status]
    if not worked.events:
        return " · ".join(stands)
    certified = [f"{worked.certified}/{worked.whole} certified"] if worked.whole else []
    counts = [counted(worked.steps, "step"), counted(worked.calls, "call"), f"{compact(worked.tokens)} tokens"]
    return " · ".join([*stands, *certified, *counts, clock(worked.seconds)])


def _asked(worked: Worked, tasks: TaskGraph) -> list[Markup]:
    """What it was before revisions, and what it was told by those that it needs."""
    former = [
        _part(f"until revision {number}", f"{node.task} (needs {', '.join(node.needs) or 'nothing'})")
        for number, node in worked.former
    ]
    fate = [f"added by revision {worked.added}"] if worked.added else []
    fate += [f"removed by revision {worked.removed}"] if worked.removed else []
    needs = [_part("needs", "\n".join(_needed(need, tasks) for need in worked.node.needs))]
    return [*(tag("p", words, class_="how back") for words in fate), *former, *(needs if worked.node.needs else [])]


def _needed(need: str, tasks: TaskGraph) -> str:
    outcome = tasks.nodes[need].outcome if need in tasks.nodes else None
    return f"{need}: {shortened(outcome.result, LONGEST_TOLD)}" if outcome else need


def _outcome(worked: Worked) -> list[Markup]:
    outcome = worked.outcome
    if outcome is None:
        return []
    named = {"completed": "result", "failed": "failed because", "pending": "set aside because"}
    return [_part(named[outcome.status], shortened(outcome.result, LONGEST_PART))]


def _part(name: str, text: str) -> Markup:
    return tag("p", tag("b", name), text, class_="part")
