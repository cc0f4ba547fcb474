"""Sub-tasks as ATIF documents of their own, inside that of their run (`subagent_trajectories`)."""

from collections.abc import Iterable
from typing import Any

from certigraph.evaluation.exporting.atif_steps import known, numbered, steps_of
from certigraph.evaluation.exporting.scopes import Part, Parts
from certigraph.nodes.specs import Spec
from certigraph.state.trajectory import Header, total

VERSION = "ATIF-v1.7"

SUBTASK_GRAPH = "subtask"
"""The graph that solves a node where the header names no other."""


def subtask_names(header: Header, parts: Iterable[Part]) -> dict[str, str]:
    """The ids of the documents of one graph's sub-tasks, by the sub-tasks' own."""
    return {part.subtask: _name(header, part) for part in parts}


def subtask_document(header: Header, agent: dict[str, Any], part: Part, parts: Parts) -> dict[str, Any]:
    """The document of a sub-task: its specification, then its steps."""
    names = subtask_names(header, parts.within(part.scope))
    steps = [{"source": "user", "message": _specification(part)}, *steps_of(part.events, names)]
    usage = total(event.usage for event in part.events)
    return {
        "schema_version": VERSION,
        "session_id": header.run_id,
        "trajectory_id": _name(header, part),
        "agent": {**agent, "name": f"certigraph.{_solver(header)}"},
        "steps": numbered(steps),
        "final_metrics": known(
            {
                "total_prompt_tokens": usage.input_tokens,
                "total_completion_tokens": usage.output_tokens,
                "total_cached_tokens": usage.cached_tokens,
                "total_cost_usd": usage.usd or None,
                "total_steps": len(steps),
                "extra": {"calls": usage.calls, "seconds": usage.seconds},
            }
        ),
        "extra": {"subtask": part.subtask},
    }


def _name(header: Header, part: Part) -> str:
    """No two sub-tasks of two runs have the same."""
    return f"{header.run_id}/{part.scope}"


def _specification(part: Part) -> str:
    tasks = [event.update["task"] for event in part.events if event.update and "task" in event.update]
    return str(tasks[0].get("goal", part.subtask)) if tasks and isinstance(tasks[0], dict) else part.subtask


def _solver(header: Header) -> str:
    spec = header.operators.get("solve")
    return str(Spec.model_validate(spec).args.get("graph", SUBTASK_GRAPH)) if spec else SUBTASK_GRAPH
