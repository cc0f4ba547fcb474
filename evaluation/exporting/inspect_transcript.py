"""What a run of ours said and did, as inspect_ai's messages and events."""

from collections.abc import Iterator
from datetime import datetime, timedelta

from inspect_ai.event import InfoEvent
from inspect_ai.model import ChatMessage, ChatMessageAssistant, ChatMessageTool, ChatMessageUser
from inspect_ai.tool import ToolCall

from certigraph.evaluation.exporting.rounds import Round, rounds
from certigraph.evaluation.exporting.scopes import Part, Parts, parts_of, solved_in
from certigraph.evaluation.exporting.told import asked, silent, told, tool_arguments, tool_name
from certigraph.state.trajectory import Trajectory

SHOWN = (
    "plan",
    "outline",
    "subtask",
    "dag",
    "outcomes",
    "progress",
    "action",
    "approval",
    "observation",
    "verdict",
    "certificates",
    "trials",
    "lessons",
)
"""Channels of an update that its event holds."""


def messages_of(run: Trajectory) -> Iterator[ChatMessage]:
    """The run as a conversation: the task, what the agent planned and did, what the world answered.

    Sub-tasks that were worked on at the same time follow each other, each before its outcome.
    """
    name = run.header.run_id
    yield ChatMessageUser(id=f"{name}-task", content=asked(run.header.task))
    parts = parts_of(run.events)
    yield from _conversation(Part("", "", parts.own), name, parts)


def _conversation(graph: Part, name: str, parts: Parts) -> Iterator[ChatMessage]:
    inner = {part.subtask: part for part in parts.within(graph.scope)}
    for number, part in enumerate(rounds(graph.events), 1):
        for subtask in solved_in(part):
            if found := inner.pop(subtask, None):
                yield from _conversation(found, f"{name}-{subtask}", parts)
        yield from _messages(part, f"{name}-{number}")
    for unfinished in inner.values():
        yield from _conversation(unfinished, f"{name}-{unfinished.subtask}", parts)


def _messages(part: Round, name: str) -> Iterator[ChatMessage]:
    if part.resets and part.observation:
        goal = part.update.get("task", {}).get("goal") if part.events[0].scope else None
        yield ChatMessageUser(id=name, content="\n".join(filter(None, [goal, part.observation.text])))
    elif not silent(part):
        yield from _said(part, name)


def _said(part: Round, name: str) -> Iterator[ChatMessage]:
    action, answer = part.action, part.observation
    if action is None:
        yield ChatMessageAssistant(id=name, content=told(part))
        return
    call = ToolCall(id=f"call-{name}", function=tool_name(action), arguments=dict(tool_arguments(action)))
    yield ChatMessageAssistant(id=name, content=part.thought, tool_calls=[call])
    if answer:
        yield ChatMessageTool(id=f"{name}-a", content=answer.text, tool_call_id=call.id, function=call.function)


def events_of(run: Trajectory, began: datetime) -> Iterator[InfoEvent]:
    """An event for every node execution, with the verdict, certificate or plan that it gave.

    Their clock runs inside nodes alone, for a trajectory does not say when a resumed run went on.
    """
    worked = 0.0
    for number, event in enumerate(run.events, 1):
        worked += event.usage.seconds
        update = event.update or {}
        shown = {key: update[key] for key in SHOWN if update.get(key)}
        yield InfoEvent(
            uuid=f"{run.header.run_id}-{number}",
            timestamp=began + timedelta(seconds=worked),
            working_start=worked,
            source=f"certigraph.{event.node}",
            data={
                **shown,
                **({"subtask": event.subtask} if event.scope else {}),
                "superstep": event.superstep,
                "usage": event.usage.as_json(),
                "failed": event.update is None,
            },
        )
