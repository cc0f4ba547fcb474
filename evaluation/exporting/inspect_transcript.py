"""What a run of ours said and did, as inspect_ai's messages and events."""

from collections.abc import Iterator
from datetime import datetime, timedelta

from inspect_ai.event import InfoEvent
from inspect_ai.model import ChatMessage, ChatMessageAssistant, ChatMessageTool, ChatMessageUser
from inspect_ai.tool import ToolCall

from certigraph.evaluation.exporting.rounds import Round, rounds
from certigraph.evaluation.exporting.told import asked, silent, told, tool_arguments, tool_name
from certigraph.state.trajectory import Trajectory

SHOWN = (
    "plan",
    "outline",
    "subtask",
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
    """The run as a conversation: the task, what the agent planned and did, what the world answered."""
    name = run.header.run_id
    yield ChatMessageUser(id=f"{name}-task", content=asked(run.header.task))
    for number, part in enumerate(rounds(run.events), 1):
        if part.resets and part.observation:
            yield ChatMessageUser(id=f"{name}-{number}", content=part.observation.text)
        elif not silent(part):
            yield from _said(part, f"{name}-{number}")


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
                "superstep": event.superstep,
                "usage": event.usage.as_json(),
                "failed": event.update is None,
            },
        )
