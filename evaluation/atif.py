"""Runs as ATIF documents."""

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from certigraph.evaluation.rounds import (
    Part,
    Parts,
    Round,
    asked,
    circumstances,
    cleaned,
    parts_of,
    rounds,
    silent,
    solved_in,
    started,
    told,
    tool_arguments,
    tool_name,
)
from certigraph.nodes.slots import Spec
from certigraph.runtime.files import legible
from certigraph.runtime.registry import model_name
from certigraph.state.records import INTERRUPTED, Certificate, Task, Usage
from certigraph.state.trajectory import Event, Header, Trajectory, total

# The steps of an ATIF document: one for every round of a run.

Names = Mapping[str, str]
"""Ids of the documents of sub-tasks, by the sub-tasks' own."""


def steps_of(events: Iterable[Event], names: Names = MappingProxyType({})) -> Iterator[dict[str, Any]]:
    """The steps after the task's own, still without their numbers; an outcome refers to its sub-task's document."""
    for number, part in enumerate(rounds(events), 1):
        if part.resets:
            yield _opening(part)
        elif not silent(part):
            yield {**_agent_step(part, f"call-{number}"), **_delegated(part, names)}


def numbered(steps: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """The steps with their numbers, from 1."""
    return [{"step_id": number, **step} for number, step in enumerate(steps, 1)]


def known(facts: dict[str, Any]) -> dict[str, Any]:
    """The facts that are known; a price of which nothing is known is left out, and not told as 0."""
    return {name: fact for name, fact in facts.items() if fact is not None}


def _opening(part: Round) -> dict[str, Any]:
    seen = part.observation
    shown = {"observation": {"results": [{"content": seen.text}]}} if seen else {}
    return {"source": "system", "message": told(part), **shown, "extra": _extra(part)}


def _agent_step(part: Round, call: str) -> dict[str, Any]:
    usage = part.usage
    step = {"source": "agent", "message": told(part), "llm_call_count": usage.calls, **_call(part, call)}
    extra = _extra(part)
    if usage.calls:
        step |= {"metrics": _metrics(usage, part)}
    if part.thought and usage.calls:
        step["reasoning_content"] = part.thought
    elif part.thought:
        extra["thought"] = part.thought  # ATIF allows no reasoning where no model was asked
    return {**step, "extra": extra}


def _delegated(part: Round, names: Names) -> dict[str, Any]:
    refs = [{"trajectory_id": names[node]} for node in solved_in(part) if node in names]
    return {"observation": {"results": [{"subagent_trajectory_ref": refs}]}} if refs else {}


def _call(part: Round, call: str) -> dict[str, Any]:
    action, seen = part.action, part.observation
    if action is None:
        return {}
    made = {"tool_call_id": call, "function_name": tool_name(action), "arguments": tool_arguments(action)}
    if seen is None:
        return {"tool_calls": [made]}
    said = {"accepted": seen.accepted, "reward": seen.reward, "done": seen.done, "solved": seen.solved}
    result = {"source_call_id": call, "content": seen.text, "extra": said}
    return {"tool_calls": [made], "observation": {"results": [result]}}


def _extra(part: Round) -> dict[str, Any]:
    first, attempt, certificate = part.events[0], part.attempt, part.certificate
    facts = {
        "nodes": [event.node for event in part.events],
        "episode": part.episode,
        "t": first.t,
        "target": part.target if part.action else None,
        "predicate": attempt and attempt.target.as_json(),
        "verdict": attempt and attempt.verdict.model_dump(mode="json"),
        "certificate": certificate and not certificate.forced and _with_depth(certificate),
        "passed": certificate and certificate.forced and certificate.as_json(),
        "plan": part.update.get("plan") or part.update.get("outline"),
        "approval": part.update.get("approval"),
        "subtask": part.update.get("subtask"),
        "dag": part.update.get("dag"),
        "outcomes": part.update.get("outcomes"),
        "progress": part.update.get("progress"),
        "failed": part.failed or None,
    }
    return {name: fact for name, fact in facts.items() if fact}


def _with_depth(certificate: Certificate) -> dict[str, Any]:
    return {**certificate.as_json(), "depth": certificate.depth}


def _metrics(usage: Usage, part: Round) -> dict[str, Any]:
    return known(
        {
            "prompt_tokens": usage.input_tokens,
            "completion_tokens": usage.output_tokens,
            "cached_tokens": usage.cached_tokens,
            "cost_usd": usage.usd or None,
            "extra": {event.node: event.usage.as_json() for event in part.events if event.usage.calls},
        }
    )


# Sub-tasks as ATIF documents of their own, inside that of their run (`subagent_trajectories`).

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


# ATIF v1.7, Harbor's trajectory format (its RFC 0001): a run as one JSON document.


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
