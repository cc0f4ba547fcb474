"""The steps of an ATIF document: one for every round of a run."""

from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any

from certigraph.evaluation.exporting.rounds import Round, rounds
from certigraph.evaluation.exporting.scopes import solved_in
from certigraph.evaluation.exporting.told import silent, told, tool_arguments, tool_name
from certigraph.state.records import Certificate, Usage
from certigraph.state.trajectory import Event

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
