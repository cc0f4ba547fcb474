"""Records of the work that stands in the messages of somebody else's agent, in the form that operators read.

A graph of LangChain's has a conversation and nothing else: a request, messages with calls of tools, and what tools
answered. Everything here is a function of that conversation, so that it needs no state of its own, survives a resume,
and is the same in a middleware and in a node of any graph.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage
from langchain_core.messages import ToolCall as CalledTool

from certigraph.adapters.models.prompts import quote
from certigraph.adapters.tools.contents import bound_text, format_content, text_of_message
from certigraph.adapters.tools.outputs import MADE_KEY
from certigraph.adapters.tools.world import Tools
from certigraph.nodes.requests import CERTIFIED_KEY, SOURCES_KEY, bound_heard, compose_task, heard_in, requests_in
from certigraph.state.call_checks import CallCheck
from certigraph.state.provenance import Provenance, SourcedText
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

TOOL_KEY = "certigraph_tool"
"""Key in the `response_metadata` of a message that answers a call: True if the tool itself gave the answer."""

COMMIT_TOOL = "commit_to_conditions"
"""Name of the tool by which an agent commits to what its work has to bring about. Its calls are no work."""

NOT_DONE, STALE = "not_done", "stale"
"""What such a note is about: an answer that was sent back, and a search that finds nothing new."""

ANSWER_NOW, GO_ON = "answer_now", "go_on"
"""What such a note is about too: the end of a search that finds nothing new, and a person's word that it goes on."""

BELIEF = "belief"
"""What such a note is about too: facts that stand for older tool calls and their answers."""


PERSON_SOURCE = "hitl_interrupt_decision"
"""Value of `lc_source` in a message with which HumanInTheLoopMiddleware answers a call in place of the tool."""


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


def mark_answer(answer: ToolMessage) -> ToolMessage:
    """Return an answer that says that the tool itself gave it, and neither a person nor other code in its place."""
    return answer.model_copy(update={"response_metadata": {**answer.response_metadata, TOOL_KEY: True}})


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


def answered_calls(
    rounds: Sequence[ToolRound],
    lasts: Callable[[str], bool],
    shows: Callable[[str], bool] = lambda tool: True,
    *,
    marked: bool = False,
) -> list[AnsweredCall]:
    """Return the records of the calls that were answered, in order.

    Args:
        rounds: the rounds of a turn.
        lasts: says whether the effect of a tool lasts, by its name.
        shows: says whether answers of a tool show what is so, by its name.
        marked: whether only answers that are marked (`mark_answer`) come from a tool.
    """
    return [call for _, call in keyed_calls(rounds, lasts, shows, marked=marked)]


def keyed_calls(
    rounds: Sequence[ToolRound],
    lasts: Callable[[str], bool],
    shows: Callable[[str], bool] = lambda tool: True,
    *,
    marked: bool = False,
) -> list[tuple[str, AnsweredCall]]:
    """Return the records of calls as `answered_calls` does, each with what identifies it in the conversation."""
    return [
        (
            key_of_chosen(one, call),
            AnsweredCall(
                tool=call["name"],
                args=call["args"],
                answer=bound_text(format_content(answer.content)),
                failed=answer.status == "error",
                made=is_made(answer) and (not marked or answer.response_metadata.get(TOOL_KEY) is True),
                lasting=lasts(call["name"]),
                quotable=shows(call["name"]),
                action=number,
            ),
        )
        for number, one in enumerate(rounds, 1)
        for call, answer in zip(one.calls, one.answers, strict=True)
        if answer
    ]


def key_of_chosen(one: ToolRound, call: CalledTool) -> str:
    """Return what identifies a call in a conversation."""
    return f"{one.message.id}|{call['id']}"


def is_made(answer: ToolMessage) -> bool:
    """Return whether an answer is that of a tool, and not a person's, or the reason for which the call was not made."""
    by_person = answer.additional_kwargs.get("lc_source") == PERSON_SOURCE
    return answer.response_metadata.get(MADE_KEY) is not False and not by_person


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


class TurnView(NamedTuple):
    """What a conversation does not say of the turn that it has come to."""

    others: frozenset[str] = frozenset()
    """Names of calls that are no tools, such as the form of a structured answer."""
    began: str = ""
    """When it began, in words for a model."""
    request: str = ""
    """The request, for a conversation of which a summary has taken its place."""
    start: str = ""
    """Id of the last message that was there when it began. Answers up to that message are words of whoever gave it."""
    marked: bool = False
    """Whether only answers that are marked come from a tool."""
    kept: tuple[AnsweredCall, ...] = ()
    """Calls that the messages no longer have, and those of earlier turns whose effect lasts."""
    checks: tuple[CallCheck, ...] = ()
    """What was found about calls before."""
    whole: bool = False
    """Whether the calls of earlier turns count as those of this one."""


def rounds_of_turn(messages: Sequence[AnyMessage], turn: TurnView) -> list[ToolRound]:
    """Return the responses with calls of a turn, in order."""
    return rounds_in(messages if turn.whole else messages[_find_start(messages, turn) + 1 :], turn.others)


def _find_start(messages: Sequence[AnyMessage], turn: TurnView) -> int:
    """Return the place of the last message that a turn began with; it may stand after the request."""
    request = find_turn(messages)
    ids = [one.id for one in messages[request:]]
    return request + (ids.index(turn.start) if turn.start in ids else 0)


def task_of(messages: Sequence[AnyMessage], lasts: Callable[[str], bool], turn: TurnView) -> Task:
    """Return the task of a turn: the latest request, and the conversation around it as data.

    Args:
        messages: the conversation.
        lasts: says whether the effect of a tool lasts, by its name.
        turn: what else is known of the turn.

    Raises:
        Fault: ("data") no message is a request.
    """
    before = [_without_claims(one) for one in messages[: _find_start(messages, turn) + 1]]
    if turn.request and not requests_in(before):
        summary = "\n".join(text_of_message(one) for one in before if isinstance(one, HumanMessage))
        text, latest = f"{turn.request}\n\n{SUMMARY}\n{quote(summary)}", turn.request
    else:
        text, latest = compose_task(_leave_out_calls(before) if turn.whole else before, lasts)
    constants = {BEGAN: turn.began} if turn.began else {}
    return Task(benchmark=TOOLS_NAME, id=REQUEST_ID, goal=text, condition=latest, constants=constants)


def _without_claims(message: AnyMessage) -> AnyMessage:
    """Return a message without what its metadata say was certified, which whoever gave it may have written."""
    if CERTIFIED_KEY not in message.response_metadata:
        return message
    kept = {key: value for key, value in message.response_metadata.items() if key != CERTIFIED_KEY}
    return message.model_copy(update={"response_metadata": kept})


SUMMARY = "What happened before the calls that are listed, as a model has summed it up:"


def state_of(messages: Sequence[AnyMessage], tools: Tools, turn: TurnView) -> dict[str, Any]:
    """Return the state that operators of agents with tools read, for the turn that a conversation has come to.

    The open calls of its last response are the `action`, and what was answered before are `history` and `answers`.

    Args:
        messages: the conversation.
        tools: the agent's tools.
        turn: what else is known of the turn.
    """
    rounds = rounds_of_turn(messages, turn)
    # of a conversation that has ended, what was answered counts, and what was not is left
    open_ = rounds.pop().open if rounds and rounds[-1].open and not turn.whole else []
    action = {"action": create_tool_action(list(map(to_call, open_)))} if open_ else {}
    return {
        "messages": list(messages),
        "task": task_of(messages, tools.lasts, turn),
        "history": steps_of(rounds),
        "answers": [*turn.kept, *answered_calls(rounds, tools.lasts, tools.shows, marked=turn.marked)],
        "checks": list(turn.checks),
        **action,
    }


def _leave_out_calls(messages: Sequence[AnyMessage]) -> list[AnyMessage]:
    """Return a conversation without calls and their answers."""
    written = [one for one in messages if not isinstance(one, ToolMessage)]
    return [
        one.model_copy(update={"tool_calls": []}) if isinstance(one, AIMessage) and one.tool_calls else one
        for one in written
    ]


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
    "DENIED_KEY",
    "NOTE_KEY",
    "NOT_DONE",
    "STALE",
    "ToolRound",
    "TurnView",
    "answered_calls",
    "current_round",
    "find_open",
    "find_turn",
    "is_denied",
    "is_made",
    "is_note",
    "key_of_chosen",
    "keyed_calls",
    "mark_answer",
    "note_made",
    "provenance_in",
    "refuse",
    "rounds_in",
    "rounds_of_turn",
    "state_of",
    "steps_of",
    "task_of",
    "to_call",
    "write_note",
]
