"""The messages of an agent's work, as every client of LangGraph expects them: calls of tools, and what answered them.

An action with calls stands in the conversation as an AIMessage with `tool_calls`, and each answer as a ToolMessage.
Their ids follow from the place of the action in its episode, so that they are the same after a resume, a replay or a
fork.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from langchain_core.messages import AIMessage, AnyMessage, RemoveMessage, ToolMessage

from certigraph.adapters.tools.effects import ToolAnswer
from certigraph.adapters.tools.outputs import to_message
from certigraph.state.records import Action, Observation, Step
from certigraph.state.run import AnsweredCall
from certigraph.state.tools import ToolCall, calls_of, id_of_call, id_of_message, next_message_id

REASONING_KEY = "reasoning_content"
"""Key in `additional_kwargs` of a thought; LangChain's `content_blocks` shows it as reasoning."""


def message_of_calls(action: Action, id: str, name: str, thought: str = "") -> AIMessage:
    """Return the message of an action's calls.

    Args:
        action: the action.
        id: id of the message.
        name: name of the agent.
        thought: the thought with which they were chosen, if there is one.
    """
    return AIMessage(
        "",
        id=id,
        name=name or None,
        tool_calls=[
            {"name": call.name, "args": call.model_dump()["args"], "id": id_of_call(id, index), "type": "tool_call"}
            for index, call in enumerate(calls_of(action))
        ],
        additional_kwargs={REASONING_KEY: thought} if thought else {},
    )


def show_choice(
    state: Mapping[str, Any], action: Action, name: str, thought: str = ""
) -> list[AnyMessage | RemoveMessage]:
    """Return what a chosen action changes in the conversation; nothing if it stands there already.

    A call that a person changed replaces the one that was chosen. Calls that give way to something else are removed.

    Args:
        state: state of the agent before the action is taken.
        action: the action.
        name: name of the agent.
        thought: the thought with which it was chosen, if there is one.
    """
    id = next_message_id(state)
    known = find_open(state["messages"], id)
    if not calls_of(action):
        return [RemoveMessage(id)] if known else []
    shown = message_of_calls(action, id, name, thought)
    if known is None:
        return [shown]
    changed = known.model_copy(update={"tool_calls": shown.tool_calls})
    return [] if known.tool_calls == shown.tool_calls else [changed]


def find_open(messages: Sequence[AnyMessage], id: str) -> AIMessage | None:
    """Return the message of calls with an id; None if there is none."""
    found = next((one for one in reversed(messages) if one.id == id), None)
    return found if isinstance(found, AIMessage) and found.tool_calls else None


def answer_calls(state: Mapping[str, Any], answers: Sequence[tuple[ToolCall, ToolAnswer]]) -> list[ToolMessage]:
    """Return the messages that answer the calls of the action at hand; none if the conversation does not have them."""
    id = next_message_id(state)
    if find_open(state.get("messages", ()), id) is None:
        return []
    return [to_message(call, answer, id_of_call(id, index)) for index, (call, answer) in enumerate(answers)]


def answer_by_observation(state: Mapping[str, Any], action: Action, observation: Observation) -> list[ToolMessage]:
    """Return such messages for an action of which only the observation is known: an operator of the user's took it."""
    answer = ToolAnswer(text=observation.text, failed=observation.failed or not observation.accepted)
    return answer_calls(state, [(call, answer) for call in calls_of(action)])


EndedCalls = Mapping[int, tuple[ToolCall, ToolAnswer]]
"""Calls of an action that have ended, with their answers, by their indexes in the action."""


def close_calls(
    messages: Sequence[AnyMessage], id: str, reason: str, ended: EndedCalls | None = None
) -> list[ToolMessage]:
    """Return messages that say why the calls of a message were not answered; none if they were.

    Args:
        messages: the conversation.
        id: id of the message with the calls.
        reason: why.
        ended: those of the calls that have ended.
    """
    answered = {one.tool_call_id for one in messages if isinstance(one, ToolMessage)}
    message = find_open(messages, id)
    calls = list(enumerate(message.tool_calls)) if message else []
    unanswered, ended = ToolAnswer(text=reason, failed=True), ended or {}
    return [
        to_message(*ended.get(index, (ToolCall(name=call["name"]), unanswered)), str(call["id"]))
        for index, call in calls
        if call["id"] not in answered
    ]


def messages_of_steps(
    episode: str, steps: Sequence[Step], answers: Iterable[AnsweredCall], *, first: int, name: str
) -> list[AnyMessage]:
    """Return the messages of work that was done in an inner graph.

    Args:
        episode: key of the episode.
        steps: the steps.
        answers: what their calls were answered, in order; a call without one was cut off.
        first: number of steps in the episode before them.
        name: name of the agent.
    """
    left, messages = iter(answers), list[AnyMessage]()
    for position, step in enumerate(steps, first):
        if not (calls := calls_of(step.action)):
            continue
        message = message_of_calls(step.action, id_of_message(episode, position), name)
        messages.append(message)
        for call, shown in zip(calls, message.tool_calls, strict=True):
            found = next(left, None)
            answer = ToolAnswer(text=found.answer if found else CUT_OFF, failed=found is None or found.failed)
            messages.append(to_message(call, answer, str(shown["id"])))
    return messages


CUT_OFF = "The work ended before this call was answered."

__all__ = [
    "CUT_OFF",
    "answer_by_observation",
    "answer_calls",
    "close_calls",
    "find_open",
    "message_of_calls",
    "messages_of_steps",
    "show_choice",
]
