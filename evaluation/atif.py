"""Conversion of runs to ATIF v1.7 documents, Harbor's trajectory format (its RFC 0001).

`to_atif` converts a run to one JSON document; subtasks that ran in a graph of their own are documents inside it.
"""

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

# The steps of a document: one for every round of a run.

Names = Mapping[str, str]
"""Document ids of subtasks, by subtask id."""


def steps_of(events: Iterable[Event], names: Names = MappingProxyType({})) -> Iterator[dict[str, Any]]:
    """Convert events to steps without numbers; the step of a subtask's outcome refers to the subtask's document."""
    for number, part in enumerate(rounds(events), 1):
        if part.resets:
            yield _opening(part)
        elif not silent(part):
            yield {**_agent_step(part, f"call-{number}"), **_delegated(part, names)}


def numbered(steps: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Number the steps from 1."""
    return [{"step_id": number, **step} for number, step in enumerate(steps, 1)]


def known(facts: dict[str, Any]) -> dict[str, Any]:
    """Drop facts that are None, so that an unknown price is left out and not written as 0."""
    return {name: fact for name, fact in facts.items() if fact is not None}


def _opening(part: Round) -> dict[str, Any]:
    observation = part.observation
    shown = {"observation": {"results": [{"content": observation.text}]}} if observation else {}
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
        extra["thought"] = part.thought  # ATIF allows no reasoning in a step without a model call
    return {**step, "extra": extra}


def _delegated(part: Round, names: Names) -> dict[str, Any]:
    refs = [{"trajectory_id": names[node]} for node in solved_in(part) if node in names]
    return {"observation": {"results": [{"subagent_trajectory_ref": refs}]}} if refs else {}


def _call(part: Round, call: str) -> dict[str, Any]:
    action, observation = part.action, part.observation
    if action is None:
        return {}
    tool_call = {"tool_call_id": call, "function_name": tool_name(action), "arguments": tool_arguments(action)}
    if observation is None:
        return {"tool_calls": [tool_call]}
    extra = {
        "accepted": observation.accepted,
        "reward": observation.reward,
        "done": observation.done,
        "solved": observation.solved,
    }
    result = {"source_call_id": call, "content": observation.text, "extra": extra}
    return {"tool_calls": [tool_call], "observation": {"results": [result]}}


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


# Documents of subtasks, inside the document of their run (`subagent_trajectories`).

VERSION = "ATIF-v1.7"

SUBTASK_GRAPH = "subtask"
"""Default graph that solves a subtask where the header names no other."""


def subtask_names(header: Header, parts: Iterable[Part]) -> dict[str, str]:
    """Return the document ids of one graph's subtasks, by subtask id."""
    return {part.subtask: _name(header, part) for part in parts}


def subtask_document(header: Header, agent: dict[str, Any], part: Part, parts: Parts) -> dict[str, Any]:
    """Build the document of a subtask: its specification, then its steps."""
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
    # unique over all subtasks of all runs
    return f"{header.run_id}/{part.scope}"


def _specification(part: Part) -> str:
    tasks = [event.update["task"] for event in part.events if event.update and "task" in event.update]
    return str(tasks[0].get("goal", part.subtask)) if tasks and isinstance(tasks[0], dict) else part.subtask


def _solver(header: Header) -> str:
    spec = header.operators.get("solve")
    return str(Spec.model_validate(spec).args.get("graph", SUBTASK_GRAPH)) if spec else SUBTASK_GRAPH


# The document of a run.


def to_atif(trajectory: Trajectory) -> dict[str, Any]:
    """Convert a run, finished or not, to an ATIF document.

    Every action is an agent step: target, verdict and certificate are in its `extra` (`passed` in place of a
        certificate
    where a policy forced the target), and the world's answer is the result of its tool call. Planning and learning are
    separate steps. A step without a model call has `llm_call_count` 0. A subtask that a graph of its own solved is a
    separate document; the final metrics of the run include its cost. Times (`extra.t`) are seconds since the start, or
    the latest resume, of the run.

    Raises:
        Fault: the header holds no ISO date, or the trajectory cannot be interpreted.
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
    """Write the ATIF document of a run as JSON."""
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
    notes = ["The run has no ending yet: it was interrupted or is still running."] if run.ending == INTERRUPTED else []
    if run.superseded:
        notes.append(
            "It was resumed: the final metrics include work that was paid for and repeated, which no step shows."
        )
    return " ".join(notes) or None
