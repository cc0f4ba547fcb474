"""Records of the work that stands in the messages of somebody else's agent, in the form that operators read.

A graph of LangChain's has a conversation and nothing else: a request, messages with calls of tools, and what tools
answered. Everything here is a function of that conversation, so that it needs no state of its own, survives a resume,
and is the same in a middleware and in a node of any graph.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage
from langchain_core.messages import ToolCall as CalledTool

from certigraph.adapters.models.prompts import quote
from certigraph.adapters.tools.contents import bound_text, format_content, text_of_message
from certigraph.adapters.tools.outputs import MADE_KEY
from certigraph.nodes.requests import compose_task, requests_in
from certigraph.state.records import Action, Step, Task
from certigraph.state.run import AnsweredCall
from certigraph.state.tools import BEGAN, REQUEST_ID, TOOLS_NAME, ToolCall, create_tool_action

NOTE_KEY = "certigraph"
"""Key in `additional_kwargs` of a message that certigraph wrote to an agent; the value says what it is about."""

DENIED_KEY = "certigraph_denied"
"""Key in the `response_metadata` of a message that answers a call: True if a check refused the call."""

MADE_CALL_KEY = "certigraph_call"
"""Key in the `response_metadata` of a message that answers a call: name and arguments of the call as it was made, if
they are not those that the agent chose."""

COMMIT_TOOL = "commit_to_conditions"
"""Name of the tool by which an agent commits to what its work has to bring about. Its calls are no work."""

NOT_DONE, STALE = "not_done", "stale"
"""What such a note is about: an answer that was sent back, and a search that finds nothing new."""

ANSWER_NOW, GO_ON = "answer_now", "go_on"
"""What such a note is about too: the end of a search that finds nothing new, and a person's word that it goes on."""

BELIEF = "belief"
"""What such a note is about too: facts that stand for older tool calls and their answers."""


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
    def key(self) -> str:
        """What identifies it in the conversation: the id of its message."""
        return self.message.id or str(self.calls[0]["id"])

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
    rounds = list[ToolRound]()
    for message, answers in _split_responses(messages):
        chosen = [call for call in message.tool_calls if call["name"] not in others]
        answered = tuple(answers.get(str(call["id"])) for call in chosen)
        calls = tuple(_as_made(call, answer) for call, answer in zip(chosen, answered, strict=True))
        if calls:
            rounds.append(ToolRound(message, calls, answered))
    return rounds


def note_made(answer: ToolMessage, call: CalledTool) -> ToolMessage:
    """Return an answer that says which call it answers, for a call that a person changed after it was chosen."""
    made = {MADE_CALL_KEY: {"name": call["name"], "args": call["args"]}}
    return answer.model_copy(update={"response_metadata": {**answer.response_metadata, **made}})


def _as_made(call: CalledTool, answer: ToolMessage | None) -> CalledTool:
    made = answer.response_metadata.get(MADE_CALL_KEY) if answer else None
    return {**call, "name": made["name"], "args": made["args"]} if made else call


def find_open(messages: Sequence[AnyMessage]) -> list[CalledTool]:
    """Return the calls of the latest response of the turn that were not answered."""
    rounds = rounds_in(messages[find_turn(messages) :])
    return rounds[-1].open if rounds else []


def _split_responses(messages: Sequence[AnyMessage]) -> list[tuple[AIMessage, dict[str, ToolMessage]]]:
    """Return each response with the answers before the next one, by the ids of calls, which some models reuse."""
    found = list[tuple[AIMessage, dict[str, ToolMessage]]]()
    for one in messages:
        if isinstance(one, AIMessage):
            found.append((one, {}))
        elif isinstance(one, ToolMessage) and found:
            found[-1][1][one.tool_call_id] = one
    return found


def current_round(messages: Sequence[AnyMessage]) -> ToolRound | None:
    """Return the response with calls that a conversation has come to; None if something else came after it.

    What answers a call stands after the response. The ids of other responses do not count, since some models give the
    same ids in each. None as well if the ids of the response do not tell its calls apart.
    """
    place = next((place for place in reversed(range(len(messages))) if isinstance(messages[place], AIMessage)), None)
    rounds = [] if place is None or requests_in(messages[place:]) else rounds_in(messages[place:])
    ids = [call["id"] for one in rounds for call in one.calls]
    return rounds[0] if rounds and None not in ids and len({*ids}) == len(ids) else None


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


def is_denied(answer: ToolMessage) -> bool:
    """Return whether an answer is the reason of a check, which has checked the calls after it with that knowledge."""
    return answer.response_metadata.get(DENIED_KEY) is True


def refuse(call: CalledTool, reason: str, *, denied: bool = False) -> ToolMessage:
    """Return the answer to a call that is not made.

    Args:
        call: the call.
        reason: why it is not made.
        denied: whether a check refuses it that knows the calls after it, which then may be made all the same.
    """
    return ToolMessage(
        reason,
        name=call["name"],
        tool_call_id=str(call["id"]),
        status="error",
        response_metadata={MADE_KEY: False, **({DENIED_KEY: True} if denied else {})},
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


def task_of(
    messages: Sequence[AnyMessage], lasts: Callable[[str], bool], constants: Mapping[str, str], request: str = ""
) -> Task:
    """Return the task of a turn: the latest request, and before it the conversation as data.

    Args:
        messages: the conversation.
        lasts: says whether the effect of a tool lasts, by its name.
        constants: constants of the task, such as when the turn `BEGAN`.
        request: the request, for a conversation of which a summary has taken its place.

    Raises:
        Fault: ("data") no message is a request.
    """
    if request and not requests_in(messages):
        summary = "\n".join(text_of_message(one) for one in messages if isinstance(one, HumanMessage))
        text, latest = f"{request}\n\n{SUMMARY}\n{quote(summary)}", request
    else:
        text, latest = compose_task(messages[: find_turn(messages) + 1], lasts)
    return Task(benchmark=TOOLS_NAME, id=REQUEST_ID, goal=text, condition=latest, constants=dict(constants))


SUMMARY = "What happened before the calls that are listed, as a model has summed it up:"


def state_of(
    messages: Sequence[AnyMessage],
    lasts: Callable[[str], bool],
    *,
    others: frozenset[str] = frozenset(),
    began: str = "",
    request: str = "",
    whole: bool = False,
    **records: Any,
) -> dict[str, Any]:
    """Return the state that operators of agents with tools read, for the turn that a conversation has come to.

    The open calls of its last response are the `action`, and what was answered before are `history` and `answers`.

    Args:
        messages: the conversation.
        lasts: says whether the effect of a tool lasts, by its name.
        others: names of calls that are no tools.
        began: when the turn began, in words for a model.
        request: the request, for a conversation of which a summary has taken its place.
        whole: whether the calls of earlier turns count as those of this one.
        **records: what the conversation does not hold, such as `checks`.
    """
    rounds = rounds_in(messages if whole else messages[find_turn(messages) :], others)
    open_ = rounds.pop().open if rounds and rounds[-1].open else []
    action = {"action": create_tool_action(list(map(to_call, open_)))} if open_ else {}
    return {
        "messages": list(messages),
        "task": task_of(
            _leave_out_calls(messages) if whole else messages, lasts, {BEGAN: began} if began else {}, request
        ),
        "history": steps_of(rounds),
        "answers": answered_calls(rounds, lasts),
        **action,
        **records,
    }


def _leave_out_calls(messages: Sequence[AnyMessage]) -> list[AnyMessage]:
    """Return a conversation without calls and their answers."""
    written = [one for one in messages if not isinstance(one, ToolMessage)]
    return [
        one.model_copy(update={"tool_calls": []}) if isinstance(one, AIMessage) and one.tool_calls else one
        for one in written
    ]


__all__ = [
    "DENIED_KEY",
    "NOTE_KEY",
    "NOT_DONE",
    "STALE",
    "ToolRound",
    "answered_calls",
    "current_round",
    "find_open",
    "find_turn",
    "is_denied",
    "is_made",
    "is_note",
    "note_made",
    "refuse",
    "rounds_in",
    "state_of",
    "steps_of",
    "task_of",
    "to_call",
    "write_note",
]
