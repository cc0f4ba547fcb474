"""Calls of tools as actions of an agent, and what the tools answered as evidence.

An action of kind `TOOL` holds one call or several calls that were chosen together. The records are plain JSON, so that
they stand in trajectories, checkpoints and the effects ledger as they are.
"""

import ast
import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple
from uuid import NAMESPACE_OID, uuid5

from pydantic import Field

from certigraph.state.endings import FINISHED, GOAL, WORLD_ENDED
from certigraph.state.records import Action, Record, Step, StoredArguments
from certigraph.state.run import ANSWER, ANSWER_ACTIONS, FINISH, Evidence

TOOLS_NAME = "tools"
"""Name of the user's own tools as a world, in trajectories and reports."""

REQUEST_ID = "request"
"""Id of the task that an agent makes of a request. Its answer has no score, because nobody knows the right one."""

TOOL = "tool"
"""Kind of an action that calls tools."""

CALLS = "calls"
"""Key in the `args` of such an action: its calls, in the order in which the model gave them."""

ANSWER_ARGUMENT = "answer"
"""Argument of `finish` that holds the answer as text; also the key in the `args` of the finishing action."""

ASKS_ARGUMENT = "asks"
"""Argument of `finish`: whether the answer asks the user something; also a key of the finishing action, if it does."""

BEGAN = "began"
"""Key in the constants of an agent's task: when the turn began, in words for a model."""

MESSAGE_KEY = "message"
"""Key in the `args` of a finishing action: id of the message as which the answer was streamed."""

MAX_EVIDENCE = 80_000
"""Characters of the evidence that keeps the answers of tools: some 20,000 tokens. The oldest answers are cut first."""

NOT_MADE = "(not made) "
"""Beginning of the entry of a call that was refused."""

RESPONDED = "(not made; a person answered in place of the tool) "
"""Beginning of the entry of a call that a person answered."""

MAX_ERROR = 300
"""Maximum number of characters of a tool's error in the record of its call; the observation has all of it."""

ENTRY_FORGERY = re.compile(r"^\[(?=call \d)", re.MULTILINE)
"""Beginning of a line in an answer that looks like the heading of another entry; such a line is indented."""

ENTRY_MARK = "\n\n["
"""Text with which every entry of the evidence but the first begins."""


class ToolCall(Record):
    """One call of a tool."""

    name: str
    args: StoredArguments = Field(default_factory=dict)
    refused: str = ""
    """Why the call is not made, such as the reason that a person gave; empty for a call that is made."""
    approved: bool = False
    """Whether a person approved the call, which then is made although a commitment excludes it."""
    edited: bool = False
    """Whether a person changed the call."""
    chosen: str = ""
    """The call as the agent chose it, where a person changed it."""
    denied: bool = False
    """Whether it is refused by a check, and the calls after it were checked with that knowledge."""
    response: str = ""
    """What a person answered in place of the tool, which is then not called; empty for any other call."""
    error: str = ""
    """The error that the tool raised, in at most MAX_ERROR characters; empty for a call that was answered."""
    broken: bool = False
    """Whether the error says that the tool's own code is wrong."""

    @property
    def is_made(self) -> bool:
        """Whether the tool is called: the call is not refused, and nobody answers in its place."""
        return not (self.refused or self.response)

    def __str__(self) -> str:
        """Format the call as Python would write it: `refund(order=17, reason="late")`."""
        return format_call(self.name, self.args)

    def digest(self) -> str:
        """Return 32 hex digits that identify the tool and its arguments."""
        content = json.dumps([self.name, self.args], sort_keys=True)
        return hashlib.sha256(content.encode()).hexdigest()[:32]


class ChainedCall(NamedTuple):
    """A call that was answered, as the rule of chains sees it."""

    call: ToolCall
    is_look_up: bool
    failed: bool
    is_made: bool = True
    """Whether the tool was called."""


def find_blocking(is_look_up: bool, before: Iterable[ChainedCall]) -> ToolCall | None:
    """Return the call that failed and because of which a call after it is not made; None for a call that is made.

    This is the rule of chains: after a lasting call that failed nothing is made; after any other call that failed, or
    that was not made, no lasting call is made, and look-ups go on.

    Args:
        is_look_up: whether the call at hand changes nothing.
        before: the calls of the chain before it, in order.
    """
    for one in before:
        if one.failed and (not is_look_up or (one.is_made and not one.is_look_up)):
            return one.call
    return None


def format_call(name: str, args: Mapping[str, Any]) -> str:
    """Format a call as Python would write it: `refund(order=17, reason="late")`."""
    keys = (key if key.isidentifier() else json.dumps(key, ensure_ascii=False) for key in args)
    values = (json.dumps(value, ensure_ascii=False) for value in args.values())
    return f"{name}({', '.join(f'{key}={value}' for key, value in zip(keys, values, strict=True))})"


def parse_calls(text: str) -> list[ToolCall]:
    """Parse calls that are written as actions show them, `refund(order=17); close(order=17)`; empty for other texts."""
    try:
        return [_parse_call(text, statement) for statement in ast.parse(text).body]
    except (SyntaxError, ValueError, TypeError, RecursionError, MemoryError):
        return []


def _parse_call(text: str, statement: ast.stmt) -> ToolCall:
    match statement:
        case ast.Expr(ast.Call(ast.Name(name), [], keywords)) if all(one.arg for one in keywords):
            return ToolCall(name=name, args={f"{one.arg}": _parse_value(text, one.value) for one in keywords})
    raise ValueError(f"{text!r:.100} is not a call")


def _parse_value(text: str, value: ast.expr) -> Any:
    # `true` and `null` are JSON's, quotation marks may be Python's
    with suppress(ValueError):
        return json.loads(ast.get_source_segment(text, value) or "")
    return ast.literal_eval(value)


def create_tool_action(calls: Sequence[ToolCall]) -> Action:
    """Create the action that makes the calls."""
    dumped = [call.as_json() for call in calls]
    return Action(text="; ".join(map(str, calls)), kind=TOOL, args={CALLS: dumped})


def calls_of(action: Action) -> tuple[ToolCall, ...]:
    """Return the calls of an action: one that calls tools, or an answer with the calls of an executor before it."""
    stored = action.args.get(CALLS) if action.kind in (TOOL, ANSWER) else None
    return tuple(map(ToolCall.model_validate, stored)) if isinstance(stored, list) else ()


def reasons_refused(action: Action) -> list[str]:
    """Return why calls of the action are not made, each reason once; empty if all are made."""
    return list(dict.fromkeys(call.refused for call in calls_of(action) if call.refused))


def describe_failure(history: Sequence[Step]) -> str:
    """Describe why the latest calls of tools failed: the error of one of them, and how often that tool failed.

    Empty if they were answered.
    """
    last = next((calls for step in reversed(history) if (calls := calls_of(step.action))), ())
    failed = next((call for call in last if call.error), None)
    if failed is None or failed.broken:
        return ""
    count = sum(call.name == failed.name and bool(call.error) for step in history for call in calls_of(step.action))
    return f"{failed.name} failed{f' {count} times' if count > 1 else ''}: {failed.error}"


def is_answered_directly(action: Action, history: Sequence[Step]) -> bool:
    """Return whether a tool called by an action has ended the work with its answer (`return_direct`)."""
    return action.kind != FINISH and bool(history) and history[-1].action.kind == FINISH


def name_ending(ending: str, history: Sequence[Step], *, judged: bool = False) -> str:
    """Return the ending of a run with tools: `finished` where the agent handed in an answer that nobody judged.

    Args:
        ending: the ending as the method names it.
        history: the steps of the episode.
        judged: whether somebody judged the work, so that `goal` stays.
    """
    action = next((step.action for step in reversed(history) if step.action.kind in ANSWER_ACTIONS), None)
    unjudged = ending == WORLD_ENDED or (ending == GOAL and not judged)
    return FINISHED if action and action.kind == FINISH and unjudged else ending


def describe_bugs(history: Sequence[Step]) -> list[str]:
    """Describe which tools' own code is wrong, by what their calls raised, each error once."""
    calls = [call for step in history for call in calls_of(step.action) if call.broken]
    return list(dict.fromkeys(f"{call.name} is broken: {call.error}" for call in calls))


def replace_calls(action: Action, calls: Sequence[ToolCall]) -> Action:
    """Return the action with other calls, and what else it holds unchanged; the same object if the calls are equal."""
    if [call.as_json() for call in calls] == action.args.get(CALLS):
        return action
    changed = create_tool_action(calls)
    return action.model_copy(update={"text": changed.text, "args": {**action.args, **changed.args}})


def number_calls(history: Sequence[Step], calls: Sequence[ToolCall]) -> list[int]:
    """Return for each call how many equal ones were made before it in this episode.

    Together with the call the number tells apart "the same call again" from "this very call, repeated by a resumed run
    or a fork".
    """
    numbers = []
    for index, call in enumerate(calls):
        made = sum(_count_equal(step.action, call) for step in history)
        numbers.append(made + sum(_is_equal(one, call) for one in calls[:index]))
    return numbers


def _is_equal(one: ToolCall, other: ToolCall) -> bool:
    return one.is_made and (one.name, one.args) == (other.name, other.args)


def _count_equal(action: Action, call: ToolCall) -> int:
    # compares the stored JSON, because every call of a long episode is compared with all before it
    stored: Any = action.args.get(CALLS, ()) if action.kind == TOOL else ()
    return sum(
        one["name"] == call.name and one.get("args", {}) == call.args and not (one.keys() & {"refused", "response"})
        for one in stored
    )


def key_of_call(place: str, call: ToolCall, number: int) -> str:
    """Return what identifies a call: where it is made, what it is, and how many equal ones were made there before."""
    return f"{place}|{call.digest()}|{number}"


def id_of_message(episode: str, position: int, returned: int = 0) -> str:
    """Return the id of the message as which an action stands in an agent's conversation, the same after a replay.

    Args:
        episode: key of the episode.
        position: number of steps in the episode before the action.
        returned: number of answers that were sent back before it.
    """
    return str(uuid5(NAMESPACE_OID, f"{episode}|{position}{f'.{returned}' if returned else ''}"))


def next_message_id(state: Mapping[str, Any]) -> str:
    """Return the id of the message as which the next action stands in the conversation of an agent in this state."""
    returned = sum(not audit.confirmed for audit in state.get("audits", ()))
    return id_of_message(state.get("episode", ""), len(state.get("history", ())), returned)


def id_of_call(message: str, index: int) -> str:
    """Return the id of a call in a message, by its index among the message's calls."""
    return str(uuid5(NAMESPACE_OID, f"{message}|{index}"))


def add_answers(evidence: Evidence, step: int, answers: Sequence[tuple[ToolCall, str]], *, first: int = 1) -> Evidence:
    """Add what tools answered to the evidence; each entry names its source, the call.

    Args:
        evidence: what the tools answered before.
        step: number of the action, from 1.
        answers: calls with their answers.
        first: number of the first of these calls among all of the episode, from 1.
    """
    entries = [
        f"[call {number} of action {step}: {call}]\n"
        f"{NOT_MADE if call.refused else RESPONDED if call.response else ''}{ENTRY_FORGERY.sub(' [', text.strip())}"
        for number, (call, text) in enumerate(answers, first)
    ]
    view = "\n\n".join(filter(None, (evidence.view, *entries)))
    sources = dict.fromkeys((*evidence.sources, *(f"action {step}: {call.name}" for call, _ in answers)))
    return Evidence(view=cut_oldest(view, MAX_EVIDENCE), sources=tuple(sources))


def cut_oldest(view: str, most: int) -> str:
    """Return the evidence without its oldest entries if it has more than `most` characters."""
    if len(view) <= most:
        return view
    note = "(older answers are left out)"
    start = view.find(ENTRY_MARK, len(view) - most)
    if start < 0:  # the latest answer alone is too long
        return f"{note}\n\n{view[len(view) - most :]}"
    return f"{note}{view[start:]}"
