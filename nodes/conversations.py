"""Records of the work that stands in the messages of somebody else's agent, in the form that operators read.

A graph of LangChain's has a conversation and nothing else: a request, messages with calls of tools, and what tools
answered. Everything here is a function of that conversation, so that it needs no state of its own, survives a resume,
and is the same in a middleware and in a node of any graph.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage
from langchain_core.messages import ToolCall as CalledTool

from certigraph.adapters.tools.contents import bound_text, format_content, text_of_message
from certigraph.adapters.tools.outputs import MADE_KEY
from certigraph.nodes.requests import SOURCES_KEY, bound_heard, compose_task, heard_in, requests_in
from certigraph.state.provenance import Provenance, SourcedText
from certigraph.state.records import Action, Step, Task
from certigraph.state.run import AnsweredCall
from certigraph.state.tools import BEGAN, REQUEST_ID, TOOLS_NAME, ToolCall, create_tool_action

NOTE_KEY = "certigraph"
"""Key in `additional_kwargs` of a message that certigraph wrote to an agent; the value says what it is about."""

NOT_DONE, STALE = "not_done", "stale"
"""What such a note is about: an answer that was sent back, and a search that finds nothing new."""


def write_note(about: str, text: str) -> HumanMessage:
    """Return a message to an agent that is not a request: `requests_in` leaves it out, as it does LangChain's own."""
    return HumanMessage(text, additional_kwargs={"lc_source": NOTE_KEY, NOTE_KEY: about})


def is_note(message: AnyMessage, about: str) -> bool:
    """Return whether a message is a note of certigraph's about something."""
    return message.additional_kwargs.get(NOTE_KEY) == about


def find_turn(messages: Sequence[AnyMessage]) -> int:
    """Return the place of the latest request, with which the turn begins; 0 if there is none."""
    requests = requests_in(messages)
    return next((place for place, one in enumerate(messages) if requests and one is requests[-1]), 0)


class ToolRound(NamedTuple):
    """A response of a model that calls tools, with the answers."""

    message: AIMessage
    calls: tuple[CalledTool, ...]
    answers: tuple[ToolMessage | None, ...]
    """What answered each call; None while it is open."""

    @property
    def action(self) -> Action:
        """The calls as an action."""
        return create_tool_action([to_call(one) for one in self.calls])

    @property
    def open(self) -> list[CalledTool]:
        """The calls that were not answered."""
        return [call for call, answer in zip(self.calls, self.answers, strict=True) if answer is None]


def to_call(call: CalledTool) -> ToolCall:
    """Return a call of LangChain's as certigraph's record."""
    return ToolCall(name=call["name"], args=call["args"])


def rounds_in(messages: Sequence[AnyMessage], others: frozenset[str] = frozenset()) -> list[ToolRound]:
    """Return the responses with calls in a conversation, in order.

    Args:
        messages: the conversation, or a part of it.
        others: names of calls that are no tools, such as the form of a structured answer.
    """
    answers = {one.tool_call_id: one for one in messages if isinstance(one, ToolMessage)}
    rounds = []
    for one in messages:
        calls = tuple(call for call in getattr(one, "tool_calls", ()) if call["name"] not in others)
        if isinstance(one, AIMessage) and calls:
            rounds.append(ToolRound(one, calls, tuple(answers.get(str(call["id"])) for call in calls)))
    return rounds


def answered_calls(rounds: Sequence[ToolRound], lasts: Callable[[str], bool]) -> list[AnsweredCall]:
    """Return the records of the calls that were answered, in order.

    Args:
        rounds: the rounds of a turn.
        lasts: says whether the effect of a tool lasts, by its name.
    """
    return [
        AnsweredCall(
            tool=call["name"],
            args=call["args"],
            answer=bound_text(format_content(answer.content)),
            failed=answer.status == "error",
            made=is_made(answer),
            lasting=lasts(call["name"]),
            action=number,
        )
        for number, one in enumerate(rounds, 1)
        for call, answer in zip(one.calls, one.answers, strict=True)
        if answer
    ]


def is_made(answer: ToolMessage) -> bool:
    """Return whether an answer is that of a tool, and not the reason for which the call was not made."""
    return answer.response_metadata.get(MADE_KEY) is not False


def refuse(call: CalledTool, reason: str) -> ToolMessage:
    """Return the answer to a call that is not made."""
    return ToolMessage(
        reason,
        name=call["name"],
        tool_call_id=str(call["id"]),
        status="error",
        response_metadata={MADE_KEY: False},
    )


def steps_of(rounds: Sequence[ToolRound]) -> list[Step]:
    """Return rounds as the steps of an episode, refused calls as such."""
    return [Step(action=_as_answered(one), digest="") for one in rounds]


def _as_answered(one: ToolRound) -> Action:
    calls = []
    for call, answer in zip(one.calls, one.answers, strict=True):
        refused = {"refused": str(answer.content)} if answer and not is_made(answer) else {}
        calls.append(to_call(call).model_copy(update=refused))
    return create_tool_action(calls)


def task_of(messages: Sequence[AnyMessage], lasts: Callable[[str], bool], constants: Mapping[str, str]) -> Task:
    """Return the task of a turn: the latest request, and before it the conversation as data.

    Args:
        messages: the conversation.
        lasts: says whether the effect of a tool lasts, by its name.
        constants: constants of the task, such as when the turn `BEGAN`.

    Raises:
        Fault: ("data") no message is a request.
    """
    text, latest = compose_task(messages[: find_turn(messages) + 1], lasts)
    return Task(benchmark=TOOLS_NAME, id=REQUEST_ID, goal=text, condition=latest, constants=dict(constants))


def state_of(
    messages: Sequence[AnyMessage],
    lasts: Callable[[str], bool],
    *,
    others: frozenset[str] = frozenset(),
    began: str = "",
    **records: Any,
) -> dict[str, Any]:
    """Return the state that operators of agents with tools read, for the turn that a conversation has come to.

    The open calls of its last response are the `action`, and what was answered before are `history` and `answers`.

    Args:
        messages: the conversation.
        lasts: says whether the effect of a tool lasts, by its name.
        others: names of calls that are no tools.
        began: when the turn began, in words for a model.
        **records: what the conversation does not hold, such as `checks`.
    """
    rounds = rounds_in(messages[find_turn(messages) :], others)
    open_ = rounds.pop() if rounds and rounds[-1].open else None
    action = {"action": open_.action} if open_ else {}
    return {
        "messages": list(messages),
        "task": task_of(messages, lasts, {BEGAN: began} if began else {}),
        "history": steps_of(rounds),
        "answers": answered_calls(rounds, lasts),
        **action,
        **records,
    }


def provenance_in(messages: Sequence[AnyMessage], *, handed_on: bool = False) -> Provenance:
    """Return the origin of what stands in a conversation, without what tools answered in its latest turn.

    Those answers are `answers` of the state. What the agent wrote with its own calls of this turn is left out, if
    `note_sources` marked it: it adds nothing to what the agent has read.

    Args:
        messages: the conversation.
        handed_on: whether another graph wrote the requests, so that no person's words are known.
    """
    latest = rounds_in(messages[find_turn(messages) :])
    known = {id(answer) for one in latest for answer in one.answers if answer}
    known |= {id(one.message) for one in latest if SOURCES_KEY in one.message.response_metadata}
    heard = [*heard_in([one for one in messages if id(one) not in known])]
    if handed_on:
        heard += [SourcedText(text=text_of_message(one)) for one in requests_in(messages)]
    return Provenance(handed_on=handed_on, heard=bound_heard(heard))


__all__ = [
    "NOTE_KEY",
    "NOT_DONE",
    "STALE",
    "ToolRound",
    "answered_calls",
    "find_turn",
    "is_made",
    "is_note",
    "provenance_in",
    "refuse",
    "rounds_in",
    "state_of",
    "steps_of",
    "task_of",
    "to_call",
    "write_note",
]
