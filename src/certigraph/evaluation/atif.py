"""Conversion of runs to ATIF v1.7 documents, the trajectory format of Harbor (Harbor's RFC 0001).

`to_atif` converts a run to one JSON document. A subtask that was solved by a graph of its own, as in TDP, is a document
inside it.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

from certigraph.adapters.files import replace_text
from certigraph.evaluation.rounds import (
    EventsByGraph,
    GraphEvents,
    RunRound,
    clean_trajectory,
    run_metadata,
    split_by_graph,
    split_rounds,
    start_time,
    task_text,
)
from certigraph.nodes.specs import Spec
from certigraph.runtime.files import translate_trajectory_errors
from certigraph.runtime.registry import model_name
from certigraph.state.endings import INTERRUPTED
from certigraph.state.records import Usage
from certigraph.state.trajectory import Event, Header, Trajectory, total_usage

# The steps of a document: one for every round of a run.

DocumentIds = Mapping[str, str]
"""ATIF document id of each subtask, by subtask id."""


def steps_of(events: Iterable[Event], names: DocumentIds = MappingProxyType({})) -> Iterator[dict[str, Any]]:
    """Convert the events of a graph to ATIF steps, still without numbers.

    The step that records the outcome of a subtask refers to the subtask's document by its id in `names`.
    """
    for number, part in enumerate(split_rounds(events), 1):
        if part.resets:
            shown = {"observation": {"results": [{"content": part.observation.text}]}} if part.observation else {}
            yield {"source": "system", "message": part.text, **shown, "extra": _extra_fields(part)}
        elif not part.shows_nothing:
            step = _agent_step(part, f"call-{number}")
            if refs := [{"trajectory_id": names[node]} for node in part.solved if node in names]:
                step["observation"] = {"results": [{"subagent_trajectory_ref": refs}]}
            yield step


def drop_missing(facts: dict[str, Any]) -> dict[str, Any]:
    """Remove the entries of a dictionary that are None, so that an unknown price is left out and not written as 0."""
    return {name: fact for name, fact in facts.items() if fact is not None}


def _agent_step(part: RunRound, call: str) -> dict[str, Any]:
    usage, used, observation, extra = part.usage, part.tool_call, part.observation, _extra_fields(part)
    step: dict[str, Any] = {"source": "agent", "message": part.text, "llm_call_count": usage.calls}
    if used:
        function, arguments = used
        step["tool_calls"] = [{"tool_call_id": call, "function_name": function, "arguments": arguments}]
    if used and observation:
        world = {name: getattr(observation, name) for name in ("accepted", "reward", "done", "solved")}
        step["observation"] = {"results": [{"source_call_id": call, "content": observation.text, "extra": world}]}
    if usage.calls:
        by_node = {event.node: event.usage.as_json() for event in part.events if event.usage.calls}
        step["metrics"] = drop_missing({**_token_fields(usage), "extra": by_node})
    if part.thought and usage.calls:
        step["reasoning_content"] = part.thought
    elif part.thought:
        extra["thought"] = part.thought  # ATIF allows no reasoning in a step without a model call
    return {**step, "extra": extra}


def _extra_fields(part: RunRound) -> dict[str, Any]:
    first, attempt, certificate = part.events[0], part.attempt, part.certificate
    earned = certificate if certificate and not certificate.forced else None
    facts = {
        "nodes": [event.node for event in part.events],
        "episode": part.episode,
        "t": first.t,
        "target": part.target if part.action else None,
        "predicate": attempt and attempt.target.as_json(),
        "verdict": attempt and attempt.verdict.model_dump(mode="json"),
        "certificate": earned and {**earned.as_json(), "depth": earned.depth},
        "passed": certificate and certificate.forced and certificate.as_json(),
        "plan": part.update.get("plan") or part.update.get("outline"),
        **{name: part.update.get(name) for name in ("approval", "subtask", "dag", "outcomes", "progress")},
        "failed": part.failed or None,
    }
    return {name: fact for name, fact in facts.items() if fact}


def _token_fields(usage: Usage, prefix: str = "") -> dict[str, Any]:
    return {
        f"{prefix}prompt_tokens": usage.input_tokens,
        f"{prefix}completion_tokens": usage.output_tokens,
        f"{prefix}cached_tokens": usage.cached_tokens,
        f"{prefix}cost_usd": usage.usd or None,
    }


# Documents of subtasks, inside the document of their run (`subagent_trajectories`).

ATIF_VERSION = "ATIF-v1.7"

SUBTASK_GRAPH = "subtask"
"""Name of the graph that solves a subtask, if the header names no other."""


def subtask_document_ids(header: Header, parts: Iterable[GraphEvents]) -> dict[str, str]:
    """Return the ATIF document id of each subtask, by subtask id; `parts` are the subtasks' events."""
    return {part.subtask: f"{header.run_id}/{part.scope}" for part in parts}


def subtask_document(header: Header, part: GraphEvents, parts: EventsByGraph) -> dict[str, Any]:
    """Build the ATIF document of a subtask: its goal as the first step, then the steps of the graph that solved it."""
    names = subtask_document_ids(header, parts.within(part.scope))
    tasks = [event.update["task"] for event in part.events if event.update and "task" in event.update]
    goal = str(tasks[0].get("goal", part.subtask)) if tasks and isinstance(tasks[0], dict) else part.subtask
    usage = total_usage(event.usage for event in part.events)
    solver = header.all_operators.get("solve")
    graph = str(Spec.model_validate(solver).args.get("graph", SUBTASK_GRAPH)) if solver else SUBTASK_GRAPH
    steps = [{"source": "user", "message": goal}, *steps_of(part.events, names)]
    # the id is unique over all subtasks of all runs
    document = _document(header, f"{header.run_id}/{part.scope}", graph, steps, usage, {})
    return {**document, "extra": {"subtask": part.subtask}}


# The document of a run.


def to_atif(trajectory: Trajectory) -> dict[str, Any]:
    """Convert a run, finished or not, to an ATIF document.

    Every action is an agent step. The step's `extra` has the target, the verdict and the certificate (`passed` in place
    of a certificate if a policy accepted the target without one), and the observation is the result of the tool call.
    Planning and learning are separate steps. A step without a model call has `llm_call_count` 0. A subtask that was
    solved by a graph of its own is a separate document; the final metrics of the run include its cost. Times
    (`extra.t`) are seconds since the start, or the latest resume, of the run.

    Raises:
        Fault: the start time in the header is not a valid ISO date, or the trajectory cannot be interpreted.
    """
    with translate_trajectory_errors(trajectory.header.run_id):
        return _run_document(clean_trajectory(trajectory))


def _run_document(run: Trajectory) -> dict[str, Any]:
    header, ending, parts = run.header, run.ending, split_by_graph(run.events)
    task, start = header.task, start_time(header).isoformat()
    first = {"source": "user", "message": task_text(task), "timestamp": start}
    steps = [first, *steps_of(parts.own, subtask_document_ids(header, parts.within()))]
    redone = total_usage((event.usage for event in run.superseded), "superseded").as_json() if run.superseded else {}
    scores = run.footer.scores if run.footer else None
    inner = [subtask_document(header, part, parts) for part in parts.inner]
    sections = {"subagent_trajectories": inner or None, "notes": _format_notes(run)}
    return drop_missing(
        {
            **_document(header, header.run_id, header.graph, steps, run.usage, sections, superseded=redone),
            "extra": {
                "benchmark": task.benchmark,
                "task_id": task.id,
                "condition": task.condition,
                "ending": ending,
                "message": run.footer.message if run.footer else "",
                "scores": scores and scores.model_dump(mode="json"),
                "trial": header.trial,
            },
        }
    )


def _document(
    header: Header,
    name: str,
    graph: str,
    steps: Sequence[dict[str, Any]],
    usage: Usage,
    sections: Mapping[str, Any],
    **more: Any,
) -> dict[str, Any]:
    totals = {**_token_fields(usage, "total_"), "total_steps": len(steps)}
    return {
        "schema_version": ATIF_VERSION,
        "session_id": header.run_id,
        "trajectory_id": name,
        "agent": {
            "name": f"certigraph.{graph}",
            "version": header.versions.get("certigraph", "unknown"),
            "model_name": model_name(str(header.context.get("model", "unknown"))),
            "extra": run_metadata(header),
        },
        "steps": [{"step_id": number, **step} for number, step in enumerate(steps, 1)],
        **sections,
        "final_metrics": drop_missing({**totals, "extra": {"calls": usage.calls, "seconds": usage.seconds, **more}}),
    }


def write_atif(trajectory: Trajectory, path: Path) -> None:
    """Write the ATIF document of a run as JSON."""
    replace_text(path, json.dumps(to_atif(trajectory), ensure_ascii=False, indent=1))


def _format_notes(run: Trajectory) -> str | None:
    notes = ["The run has no ending yet: it was interrupted or is still running."] if run.ending == INTERRUPTED else []
    if run.superseded:
        notes.append(
            "It was resumed: the final metrics include work that was paid for and repeated, which no step shows."
        )
    return " ".join(notes) or None
