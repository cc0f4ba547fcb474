"""Events of agents: small dicts that `stream_mode="custom"` yields while an agent works.

They are derived from what nodes return, so that operators, own ones included, need not write any. Each has a `type`:

- `planned`: what is left to do: `conditions` (SDP), `steps` (Plan-and-Act, sub-tasks of TDP) or `subtasks` (TDP, STEP)
- `question`: the `question` for which the run stops: whether calls are approved, or whether a call that was cut off
  took effect
- `checked`: a call that was not made, by the check before it: its `name` and `args`, the `outcome`, the `rule` and the
  `fact` that decide, what to do `next`, and who `decided_by` that
- `decided`: the `decisions` on calls that waited for approval
- `acted`: the `calls` that were made, the beginning of the `answer`, and whether one of them `failed`
- `certified`: `conditions` that now hold, whether the last of them is the `goal`, who `decided_by` that, and
  what a model's verdict `rests_on`
- `stuck`: the `condition` or sub-task that cannot be reached as planned, and the `reason`
- `not_done`: an answer that was shown already is not the last one: the `message_id` under which it was streamed, and
  the `reason`
- `answered`: the final answer as `text`, and the `ending`

In TDP's sub-tasks they have the key `subtask` too, the id of the sub-task.
"""

from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar
from typing import Any

from langgraph.errors import GraphInterrupt
from langgraph.runtime import Runtime

from certigraph.adapters.benchmarks import limits_of
from certigraph.adapters.models.prompts import clip, one_line
from certigraph.adapters.processes import Setting
from certigraph.adapters.protocols import Context
from certigraph.adapters.tools.world import Tools
from certigraph.state.call_checks import CallCheck
from certigraph.state.records import Observation, Verdict
from certigraph.state.tdp import Dag
from certigraph.state.tools import ToolCall, calls_of

Event = dict[str, Any]

MAX_SHOWN_ANSWER = 300
"""Maximum characters of a tool's answer in an event."""


_OUTER_WRITER: ContextVar[Callable[[Any], None] | None] = ContextVar("certigraph_event_writer", default=None)


def collect_nested_events(runtime: Runtime[Context]) -> Setting[Callable[[Any], None]]:
    """Write the events of a graph that runs inside a node to the stream of the node's own graph."""
    return Setting(_OUTER_WRITER, _OUTER_WRITER.get() or runtime.stream_writer)


def write_events(
    node: str, subtask: str, state: Mapping[str, Any], update: Mapping[str, Any], runtime: Runtime[Context]
) -> None:
    """Write the events of a node of an agent to the graph's custom stream.

    Args:
        node: name of the node.
        subtask: id of the TDP sub-task that the graph works on, or the empty string.
        state: the state before the node ran.
        update: what the node returns.
        runtime: the node's runtime.
    """
    if _is_agent(runtime):
        for event in _find_events(node, state, update, runtime):
            _write(event, subtask, runtime)


def write_question(subtask: str, stopped: GraphInterrupt, runtime: Runtime[Context]) -> None:
    """Write an event for each question of an interrupt; arguments as for `write_events`."""
    if _is_agent(runtime) and stopped.args:
        for question in stopped.args[0]:
            _write({"type": "question", "question": question.value}, subtask, runtime)


def _write(event: Event, subtask: str, runtime: Runtime[Context]) -> None:
    if subtask:
        (_OUTER_WRITER.get() or runtime.stream_writer)({**event, "subtask": subtask})
    else:
        runtime.stream_writer(event)


def write_answer(text: str, ending: str, reason: str, runtime: Runtime[Context]) -> None:
    """Write the event that ends a turn of an agent."""
    runtime.stream_writer({"type": "answered", "text": text, "ending": ending, "ending_reason": reason})


def write_not_done(message_id: str, reason: str, runtime: Runtime[Context]) -> None:
    """Write the event that withdraws an answer which was streamed and then sent back.

    Args:
        message_id: id of the message as which it was streamed.
        reason: what is missing.
        runtime: the node's runtime.
    """
    if _is_agent(runtime):
        runtime.stream_writer({"type": "not_done", "message_id": message_id, "reason": reason})


def _is_agent(runtime: Runtime[Context]) -> bool:
    return runtime.context is not None and isinstance(runtime.context.benchmark, Tools)


def _find_events(
    node: str, state: Mapping[str, Any], update: Mapping[str, Any], runtime: Runtime[Context]
) -> Iterator[Event]:
    yield from _find_plans(state, update)
    if node == "approve":
        yield from _find_decisions(state, update)
    if node == "check":
        yield from (_show_check(one) for one in update.get("checks", ()) if one.is_denied)
    if node == "act":
        yield from _find_calls(state, update)
    for one in update.get("certificates", ()) if node == "certify" else ():
        if not one.forced:
            conditions, goal = [target.text for target in one.targets], one.targets[-1].kind == "goal"
            grounds = {"decided_by": one.decided_by, "rests_on": [*one.rests_on]}
            yield {"type": "certified", "conditions": conditions, "goal": goal, **grounds}
    yield from _find_obstacles(node, state, update, runtime)


def _find_plans(state: Mapping[str, Any], update: Mapping[str, Any]) -> Iterator[Event]:
    if plan := update.get("plan"):
        yield {"type": "planned", "conditions": [condition.text for condition in plan[state.get("head", 0) :]]}
    if (outline := update.get("outline")) and [*outline] != [*state.get("outline", ())]:
        yield {"type": "planned", "steps": list(outline)}
    if isinstance(dag := update.get("dag"), Dag) and {*dag.pending} - {*_pending(state)}:
        yield {"type": "planned", "subtasks": [node.task for node in dag.pending]}
    if (subtask := update.get("subtask")) and subtask.status == "open" and subtask != state.get("subtask"):
        yield {"type": "planned", "subtasks": [subtask.text]}


def _pending(state: Mapping[str, Any]) -> tuple[Any, ...]:
    return state["dag"].pending if state.get("dag") else ()


def _show_check(one: CallCheck) -> Event:
    texts = {"rule": one.rule, "fact": one.fact, "next": one.next}
    shown = {key: clip(one_line(text), MAX_SHOWN_ANSWER) for key, text in texts.items() if text}
    return {
        **{"type": "checked", "name": one.tool, "args": one.args, "outcome": one.outcome},
        **{**shown, "decided_by": one.decided_by},
    }


def _find_decisions(state: Mapping[str, Any], update: Mapping[str, Any]) -> Iterator[Event]:
    before, after = calls_of(state["action"]), calls_of(update["action"])
    if before != after:
        pairs = zip(before, after, strict=False)
        decided = [
            {"approved": call.approved, **_show_call(call, "reason")} for earlier, call in pairs if earlier != call
        ]
        yield {"type": "decided", "decisions": decided}


def _find_calls(state: Mapping[str, Any], update: Mapping[str, Any]) -> Iterator[Event]:
    steps, observation = update.get("history"), update.get("observation")
    made = [calls_of(step.action) for step in steps] if isinstance(steps, list | tuple) else []
    calls = next(filter(None, made), ())
    if calls and isinstance(observation, Observation):
        yield {
            "type": "acted",
            "calls": [_show_call(call, "refused") for call in calls],
            "answer": clip(one_line(observation.text), MAX_SHOWN_ANSWER),
            "failed": observation.failed or not observation.accepted,
        }


def _show_call(call: ToolCall, refusal: str) -> Event:
    """Return a call as events show it; a reason for which it is not made stands under the key `refusal`."""
    texts = {refusal: call.refused, "response": call.response}
    return {"name": call.name, "args": call.args, **{key: text for key, text in texts.items() if text}}


def _find_obstacles(
    node: str, state: Mapping[str, Any], update: Mapping[str, Any], runtime: Runtime[Context]
) -> Iterator[Event]:
    verdict, progress = update.get("verdict"), update.get("progress")
    if node == "validate" and isinstance(verdict, Verdict) and not (verdict.depth or verdict.pending):
        tries_left = update.get("tried", 0) < limits_of(state["task"], runtime).attempts
        if verdict.unreachable or verdict.exhausted or not tries_left:
            yield {"type": "stuck", "condition": state["plan"][state["head"]].text, "reason": verdict.reason}
    if node == "supervise" and progress and (progress.off_plan or progress.status == "failed"):
        yield {"type": "stuck", "condition": state["task"].condition, "reason": progress.reason}
    subtask = update.get("subtask")
    if subtask and subtask.status == "failed":
        yield {"type": "stuck", "condition": subtask.text, "reason": subtask.reason}
