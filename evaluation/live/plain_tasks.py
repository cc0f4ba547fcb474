"""A watched task graph in plain lines: how it was drawn and revised, and how its nodes began, went on and ended."""

from collections.abc import Iterator
from typing import Any

from certigraph.evaluation.live.fold import Watched
from certigraph.evaluation.report.html import counted
from certigraph.evaluation.report.supervision import in_line
from certigraph.evaluation.report.words import passed_by
from certigraph.evaluation.report.worked import Worked
from certigraph.state.trajectory import Event


def task_lines(run: Watched, event: Event) -> Iterator[str]:
    """What an event is worth saying about the run that has just taken it."""
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
            yield f"revision {revision.number}: {revision.words}"


def _inner(worked: Worked, event: Event, update: dict[str, Any]) -> Iterator[str]:
    if event.node == "reset" and worked.status == "working":
        yield f"{worked.name}: begun: {worked.node.task}"
    if event.node == "replan" and update.get("outline"):
        yield f"{worked.name}: step {worked.steps}: replanned: {in_line(tuple(update['outline']))}"
    if update.get("certificates"):
        last = worked.certificates[-1]
        told = passed_by(last.forced) if last.forced else f"certified {worked.certified}/{worked.whole}"
        yield f"{worked.name}: step {worked.steps}: {told}: {last.targets[-1].text}"
