"""ATIF v1.7, Harbor's trajectory format (its RFC 0001): a run as one JSON document."""

import json
from pathlib import Path
from typing import Any

from certigraph.evaluation.exporting.atif_steps import known, numbered, steps_of
from certigraph.evaluation.exporting.atif_subtasks import VERSION, subtask_document, subtask_names
from certigraph.evaluation.exporting.clean import circumstances, cleaned, started
from certigraph.evaluation.exporting.scopes import parts_of
from certigraph.evaluation.exporting.told import asked
from certigraph.evaluation.settings import model_name
from certigraph.evaluation.sound import legible
from certigraph.state.endings import INTERRUPTED
from certigraph.state.records import Task
from certigraph.state.trajectory import Header, Trajectory, total


def to_atif(trajectory: Trajectory) -> dict[str, Any]:
    """The ATIF document of a run, finished or not.

    One agent step for every action with what was said about it: target, verdict and certificate are in its `extra`
    (`passed` in the place of a certificate where a policy forced the target), the world's answer is the result of its
    tool call. Planning and learning are steps of their own. A step in which no model was asked has `llm_call_count` 0.
    A sub-task that a graph of its own worked on is a document of its own, whose cost the final metrics of the run's
    include. Times are seconds since the run, or its latest resume, began (`extra.t`).

    Raises:
        Fault: the header's date is none, or the trajectory is of no such run.
    """
    with legible(trajectory.header.run_id):
        return _document(cleaned(trajectory))


def _document(run: Trajectory) -> dict[str, Any]:
    header, ending, parts = run.header, run.ending, parts_of(run.events)
    steps = [_task_step(header), *steps_of(parts.own, subtask_names(header, parts.within()))]
    inner = [subtask_document(header, _agent(header), part, parts) for part in parts.inner]
    return known(
        {
            "schema_version": VERSION,
            "session_id": header.run_id,
            "trajectory_id": header.run_id,
            "agent": _agent(header),
            "steps": numbered(steps),
            "subagent_trajectories": inner or None,
            "notes": _notes(run),
            "final_metrics": _final(run, len(steps)),
            "extra": {
                **_task(header.task),
                "ending": ending,
                "message": run.footer.message if run.footer else "",
                "scores": run.footer.scores.model_dump(mode="json") if run.footer and run.footer.scores else None,
                "trial": header.context.get("trial", 0),
            },
        }
    )


def write_atif(trajectory: Trajectory, path: Path) -> None:
    """Write the document as JSON."""
    path.write_text(json.dumps(to_atif(trajectory), ensure_ascii=False, indent=1), encoding="utf-8")


def _agent(header: Header) -> dict[str, Any]:
    return {
        "name": f"certigraph.{header.graph}",
        "version": header.versions.get("certigraph", "unknown"),
        "model_name": model_name(str(header.context.get("model", "unknown"))),
        "extra": circumstances(header),
    }


def _task(task: Task) -> dict[str, Any]:
    return {"benchmark": task.benchmark, "task_id": task.id, "condition": task.condition}


def _task_step(header: Header) -> dict[str, Any]:
    return {"source": "user", "message": asked(header.task), "timestamp": started(header).isoformat()}


def _final(run: Trajectory, steps: int) -> dict[str, Any]:
    usage = run.usage
    return known(
        {
            "total_prompt_tokens": usage.input_tokens,
            "total_completion_tokens": usage.output_tokens,
            "total_cached_tokens": usage.cached_tokens,
            "total_cost_usd": usage.usd or None,
            "total_steps": steps,
            "extra": {"calls": usage.calls, "seconds": usage.seconds, "superseded": _lost(run)},
        }
    )


def _lost(run: Trajectory) -> dict[str, Any]:
    return total((event.usage for event in run.superseded), "superseded").as_json() if run.superseded else {}


def _notes(run: Trajectory) -> str | None:
    told = ["The run has no ending yet: it was interrupted or is still running."] if run.ending == INTERRUPTED else []
    if run.superseded:
        told.append(
            "It was resumed: the final metrics include work that was paid for and repeated, which no step shows."
        )
    return " ".join(told) or None
