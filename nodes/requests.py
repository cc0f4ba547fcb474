"""Requests: the task in the messages that an agent gets, and whose words stand in them.

What a person wrote is the task. What agents and tools wrote is data, in whatever turn and in whatever graph, and keeps
its origin. Another agent may hand on a task, but not the person's permission for the values in it.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from hashlib import sha256
from itertools import groupby
from typing import Any, NamedTuple

from langchain_core.messages import (
    AIMessage,
    AnyMessage,
    HumanMessage,
    RemoveMessage,
    ToolMessage,
    convert_to_messages,
)
from langchain_core.messages import ToolCall as CalledTool
from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import var_child_runnable_config
from langgraph.graph.message import REMOVE_ALL_MESSAGES
from pydantic import ValidationError

from certigraph.adapters.models.attachments import find_attachments
from certigraph.adapters.models.profiles import estimate_tokens
from certigraph.adapters.models.prompts import (
    MAX_QUOTE,
    bullet_list,
    clip,
    first_fitting,
    leave_out_quotations,
    one_line,
    paragraphs,
    quote,
)
from certigraph.adapters.tools.contents import text_of_message
from certigraph.adapters.tools.outputs import MADE_KEY
from certigraph.adapters.tools.positions import NAMESPACE_KEY, TASK_KEY
from certigraph.adapters.tools.world import CONDITION
from certigraph.nodes.messages import CUT_OFF, EndedCalls, close_calls
from certigraph.state.commitments import source_answers, texts_in
from certigraph.state.endings import Fault
from certigraph.state.provenance import Provenance, SourcedText
from certigraph.state.records import Arguments, Predicate, Task
from certigraph.state.tools import REQUEST_ID, TOOLS_NAME, calls_of, format_call, next_message_id

INPUT_FORM = 'the input needs {"messages": [("user", "...")]} or {"goal": "..."}'

AROUND_KEY = "__certigraph_around"
"""Key in `configurable`: what the graph around an agent knows, as `Provenance`; absent for an outermost graph."""

READ_KEY = "__pregel_read"
"""Key under which LangGraph keeps the function by which a node reads the state of its graph."""

SOURCES_KEY = "certigraph_sources"
"""Key in the `response_metadata` of an agent's answer: the tools from whose answers it was written."""

MAX_HEARD = 40_000
"""Characters of earlier answers whose origin is kept; the oldest are left out, after which it is unknown."""

CERTIFIED_KEY, OPEN_KEY = "certified", "open"
"""Keys in the `response_metadata` of an agent's answer: texts of certified conditions, and of those that are open."""

THE_GOAL = "the goal"
"""Stands there for the goal of a turn, whose text is long."""

CONVERSATION_TOKENS = 8_000
"""Maximum tokens of what people wrote before that is shown whole, and likewise of all else in a conversation."""

SHORT_SHARE = 2
"""Entries of which one line is left take at most one part in so many of that."""

MAX_LINE = 200
"""Maximum characters of a call, of its outcome, or of a message in such a line."""

MAX_CERTIFIED = 50
"""Maximum number of conditions certified in earlier turns that are listed, the latest."""

LEFT_OUT = SourcedText(text="(left out)", is_answer=False)
"""Stands for texts that are too long to be kept: a stranger's, of which nothing is known."""


def read_surroundings(config: RunnableConfig | None) -> Provenance | None:
    """Return what the graph knows in whose node an agent is called; None if no graph is around it.

    The person's words are known where the graph around is the outermost one and has `messages`, or is an agent of
    certigraph. A message with a name is not the person's there.
    """
    ambient = (var_child_runnable_config.get() or {}).get("configurable") or {}
    place = {**ambient, **((config or {}).get("configurable") or {})}
    if TASK_KEY not in place:
        return None
    read, is_outermost = place.get(READ_KEY), "|" not in str(place.get(NAMESPACE_KEY, ""))
    messages, provenance, answers = (_read_channel(read, name) for name in ("messages", "provenance", "answers"))
    messages = _to_messages(messages)
    if origin := _to_provenance(provenance):
        words = origin.words if origin.handed_on else _join_words(requests_in(messages))
        return Provenance(handed_on=True, words=words, heard=(*origin.heard, *source_answers(answers or ())))
    if not messages or not is_outermost:
        return Provenance(handed_on=True)
    written = [one for one in requests_in(messages) if not one.name]
    return Provenance(handed_on=True, words=_join_words(written), heard=tuple(heard_in(messages)))


def read_messages(config: RunnableConfig) -> list[AnyMessage]:
    """Return the messages of the graph in whose node this is called; empty if it has none."""
    return _to_messages(_read_channel(config.get("configurable", {}).get(READ_KEY), "messages"))


def _to_messages(given: Any) -> list[AnyMessage]:
    try:
        return list(convert_to_messages(given or ()))  # type: ignore[arg-type]
    except (TypeError, ValueError, NotImplementedError):  # a channel of another kind
        return []


def _to_provenance(given: Any) -> Provenance | None:
    try:
        return Provenance.model_validate(given) if given else None
    except ValidationError:  # a channel of another kind
        return None


def _read_channel(read: Any, name: str) -> Any:
    try:
        return read(name) if read else None
    except (KeyError, TypeError):  # the graph has no such channel, or none by names
        return None


def requests_in(messages: Iterable[AnyMessage]) -> list[HumanMessage]:
    """Return the messages that say what to do: those of a person, or of an agent that hands on a task.

    Human messages with a name are those of other agents, as LangGraph's documentation writes them, unless all have one.
    Those that LangChain's middleware wrote, such as a summary of what was answered, are none.
    """
    written = [one for one in messages if isinstance(one, HumanMessage) and "lc_source" not in one.additional_kwargs]
    return [one for one in written if not one.name] or written


def _join_words(messages: Iterable[AnyMessage]) -> str:
    return "\n".join(map(text_of_message, messages))


def heard_in(messages: Sequence[AnyMessage]) -> Iterable[SourcedText]:
    """Yield the texts in a conversation that are not requests, with their origins."""
    requests, calls = set(map(id, requests_in(messages))), _calls_in(messages)
    for one in messages:
        text = text_of_message(one)
        if not text or id(one) in requests:
            continue
        if isinstance(one, ToolMessage):
            if one.response_metadata.get(MADE_KEY) is not False:  # else it is the reason, or a person's answer
                call = calls.get(one.tool_call_id)
                given = texts_in(call["args"]) if call else ()
                yield SourcedText(text=text, tools=(one.name,) if one.name else (), given=given)
            continue
        sources = one.response_metadata.get(SOURCES_KEY)
        if sources != []:  # else its agent had read nothing
            yield SourcedText(text=text, tools=tuple(map(str, sources or ())), is_answer=False)


def _calls_in(messages: Iterable[AnyMessage]) -> dict[str, CalledTool]:
    """Return the calls of tools in a conversation by their ids."""
    calls = (call for one in messages if isinstance(one, AIMessage) for call in one.tool_calls)
    return {call["id"]: call for call in calls if call["id"]}


def receive_request(
    state: Mapping[str, Any],
    config: RunnableConfig,
    constants: Arguments,
    *,
    keeps_origins: bool,
    lasts: Callable[[str], bool] = lambda tool: True,
    ended: EndedCalls | None = None,
) -> dict[str, Any]:
    """Make a task of the input of an agent: of the goal, else of the latest request in the messages.

    Args:
        state: the state of the agent.
        config: configuration of the node.
        constants: constants of the task.
        keeps_origins: whether the origin of what others wrote is kept, for commitments to arguments.
        lasts: says whether the effect of a tool lasts, by its name.
        ended: calls of the last action of the turn before that had ended when it was cut off.

    Raises:
        Fault: ("data") the input has neither, or that request was answered before.
    """
    messages: list[AnyMessage] = list(state.get("messages") or ())
    before = provenance_of(state)
    update: dict[str, Any] = {"goal": "", "commitment": None, "draft": None}
    if unanswered := _close_earlier(state, messages, ended):
        update["messages"] = [RemoveMessage(REMOVE_ALL_MESSAGES), *unanswered]
        messages = unanswered
    if goal := str(state.get("goal") or "").strip():
        update["messages"] = [*update.get("messages", ()), HumanMessage(goal)]
        messages = [*messages, HumanMessage(goal)]
    text, latest = compose_task(messages, lasts)
    around: Provenance = config.get("configurable", {}).get(AROUND_KEY) or Provenance()
    request = requests_in(messages)[-1]
    answered = sha256(f"{request.id} {latest}".encode()).hexdigest()[:32] if request.id else ""
    if answered and answered == before.answered and request is not messages[-1]:
        raise Fault("data", f"the latest request was answered before, and {INPUT_FORM}")
    heard = list[SourcedText]()
    if keeps_origins:
        heard = [*before.heard, *source_answers(state.get("answers", ())), *heard_in(messages), *around.heard]
    if keeps_origins and around.handed_on:
        requests = map(text_of_message, requests_in(messages))
        heard += [SourcedText(text=text) for text in requests if text not in around.words]
    origin = around.model_copy(update={"answered": answered, "heard": bound_heard(heard)})
    return {
        **update,
        "provenance": origin,
        "task": Task(
            benchmark=TOOLS_NAME,
            id=REQUEST_ID,
            goal=text,
            condition=CONDITION.format(goal=latest),
            constants=constants,
        ),
    }


def _close_earlier(
    state: Mapping[str, Any], messages: Sequence[AnyMessage], ended: EndedCalls | None
) -> list[AnyMessage]:
    """Return the messages with an answer to each call that a turn before this one left open; empty if none is."""
    if not state.get("episode"):
        return []
    id = next_message_id(state)
    if not (closed := close_calls(messages, id, CUT_OFF, ended)):
        return []
    place = next(number for number, one in enumerate(messages, 1) if one.id == id)
    return [*messages[:place], *closed, *messages[place:]]


def provenance_of(state: Mapping[str, Any]) -> Provenance:
    """Return the origin of what an agent knows; without an agent around the method, nothing is handed on or heard."""
    return Provenance.model_validate(state.get("provenance") or {})


def words_of(state: Mapping[str, Any]) -> str:
    """Return what the person wrote: the source of values that need no permission."""
    origin = provenance_of(state)
    return origin.words if origin.handed_on else leave_out_quotations(state["task"].goal)


def heard_before(state: Mapping[str, Any]) -> tuple[SourcedText, ...]:
    """Return what others wrote before the turn, as far as its origin was kept."""
    return provenance_of(state).heard


def note_sources(state: Mapping[str, Any]) -> dict[str, list[str]]:
    """Return the metadata of an agent's answer that name the tools from whose answers it was written.

    Empty if it was also written from a text whose origin is unknown.
    """
    origin = provenance_of(state)
    heard = [*origin.heard, *heard_in(list(state.get("messages", ())))]
    if origin.handed_on or not all(one.tools for one in heard):
        return {}
    called = {call.name for step in state["history"] for call in calls_of(step.action) if call.is_made}
    return {SOURCES_KEY: sorted(called.union(*(one.tools for one in heard)))}


def bound_heard(heard: Sequence[SourcedText]) -> tuple[SourcedText, ...]:
    """Return the latest of the texts, each once, as many as have `MAX_HEARD` characters together.

    `LEFT_OUT` stands for the others, so that it stays known that something was heard.
    """
    kept, left, texts = list[SourcedText](), MAX_HEARD, list(dict.fromkeys(one for one in heard if one.text))
    for one in reversed(texts):
        if len(one.text) <= left and one != LEFT_OUT:
            kept.append(one)
            left -= len(one.text)
    return (*([LEFT_OUT] if len(kept) < len(texts) else ()), *reversed(kept))


def compose_task(messages: Sequence[AnyMessage], lasts: Callable[[str], bool] = lambda tool: True) -> tuple[str, str]:
    """Return the text of a task, and the latest request in it.

    The conversation stands before it, as far as it fits: what agents and tools wrote is quoted, and of what is old one
    line a call or message is left. A call whose effect lasts is never left out.

    Args:
        messages: the conversation.
        lasts: says whether the effect of a tool lasts, by its name.

    Raises:
        Fault: ("data") no message is a request.
    """
    requests = requests_in(messages)
    latest = text_of_message(requests[-1]).strip() if requests else ""
    if requests and not latest and find_attachments(requests[-1:]):
        latest = ATTACHED
    if not latest:
        raise Fault("data", INPUT_FORM)
    last = next(n for n, one in enumerate(messages) if one is requests[-1])
    before, since = (format_conversation(part, requests, lasts) for part in (messages[:last], messages[last + 1 :]))
    certified = [text for one in messages[:last] for text in _certified_in(one) if text != THE_GOAL]
    if certified:
        known = bullet_list(dict.fromkeys(certified[-MAX_CERTIFIED:]))
        before = f"{before}\n{CERTIFIED.format(conditions=quote(known))}"
    task = f"{CONVERSATION.format(before=before)}\n{latest}" if before else latest
    part = _find_handed_part(messages[last + 1 :])
    return paragraphs(
        task, SINCE.format(since=since) if since else "", HANDED_PART.format(part=quote(part)) if part else ""
    ), latest


def name_target(target: Predicate) -> str:
    """Return how the metadata of an answer name what was certified, or is open."""
    return THE_GOAL if target.kind == "goal" else target.text


def _certified_in(message: AnyMessage) -> list[str]:
    """Return the conditions that an agent's answer says were certified."""
    found = message.response_metadata.get(CERTIFIED_KEY) if isinstance(message, AIMessage) else ()
    return list(map(str, found)) if isinstance(found, list | tuple) else []


class _Entry(NamedTuple):
    """An entry of a conversation."""

    label: str
    """Who speaks, or what was done: written by code alone, so that it stands outside of quotations."""
    text: str
    is_request: bool = False
    lasts: bool = False
    """Whether it is a call whose effect lasts, which is never left out."""
    is_call: bool = False

    @property
    def short(self) -> str:
        """The entry in one line."""
        if not self.is_call:
            return clip(one_line(self.text), MAX_LINE)
        call, _, answer = self.text.partition("\n")
        return f"{clip(call, MAX_LINE)} -> {clip(one_line(answer), MAX_LINE)}"

    def shortened(self) -> "_Entry":
        """Return the entry with one line as its text."""
        return self._replace(text=self.short)


def format_conversation(
    messages: Sequence[AnyMessage], requests: Sequence[AnyMessage], lasts: Callable[[str], bool]
) -> str:
    """Format a conversation: what people wrote as it is, all else quoted, a call together with its answer.

    What people wrote is shown whole up to `CONVERSATION_TOKENS` tokens, the latest first, and so is all else. Of each
    older entry one line is left, and the oldest of these lines are left out, but for calls whose effect lasts.

    Args:
        messages: the messages.
        requests: those that people wrote.
        lasts: says whether the effect of a tool lasts, by its name.
    """
    entries = [*_entries_of(messages, set(map(id, requests)), lasts)]
    whole = {*_latest_numbers(entries, is_request=True), *_latest_numbers(entries, is_request=False)}
    old = [(number, one) for number, one in enumerate(entries) if number not in whole]
    lengths = [0 if one.lasts else estimate_tokens(one.short) for _, one in old]
    first = first_fitting(lengths, CONVERSATION_TOKENS // SHORT_SHARE)
    dropped = {number for number, one in old[:first] if not one.lasts}
    lines = [LEFT_OUT_NOTE] if dropped else []
    shown = [(number, one) for number, one in enumerate(entries) if number not in dropped]
    for key, group in groupby(shown, lambda one: one[0] if one[0] in whole or one[1].is_request else one[1].label):
        parts = [one if number in whole else one.shortened() for number, one in group]
        text = "\n".join(one.text for one in parts)
        quoted = text if parts[0].is_request else quote(text, MAX_QUOTE if key in whole else len(text))
        lines.append(f"{parts[0].label}: {quoted}")
    return "\n".join(lines)


def _latest_numbers(entries: Sequence[_Entry], *, is_request: bool) -> Sequence[int]:
    """Return the numbers of the latest entries of people, or of all others, that fit together."""
    numbers = [number for number, one in enumerate(entries) if one.is_request == is_request]
    lengths = [estimate_tokens(entries[number].text) for number in numbers]
    return numbers[first_fitting(lengths, CONVERSATION_TOKENS) :]


def _entries_of(messages: Sequence[AnyMessage], requests: set[int], lasts: Callable[[str], bool]) -> Iterator[_Entry]:
    calls = _calls_in(messages)
    for one in messages:
        text = text_of_message(one)
        if _is_handoff(one):
            continue
        if id(one) in requests and text:
            yield _Entry(one.type, text, is_request=True)
        elif isinstance(one, ToolMessage) and (call := calls.get(one.tool_call_id)):
            is_made, failed = one.response_metadata.get(MADE_KEY) is not False, one.status == "error"
            effect = is_made and lasts(call["name"])
            label = NOT_MADE if not is_made else EFFECT_FAILED if effect and failed else EFFECT if effect else CALLED
            shown = f"{one_line(format_call(call['name'], call['args']))}\n{text}"
            yield _Entry(label, shown, lasts=effect, is_call=True)
        elif text:
            yield _Entry(one.type, f"{one.name}: {text}" if one.name else text)


def _is_handoff(message: AnyMessage) -> bool:
    return any(key.startswith(("__handoff", "__is_handoff")) for key in message.response_metadata)


def _find_handed_part(messages: Sequence[AnyMessage]) -> str:
    """Return what a handoff at the end of the messages carries: the texts in the arguments of its call."""
    if not messages or not isinstance(messages[-1], ToolMessage):
        return ""
    handoff = messages[-1]
    calls = [call for one in messages if isinstance(one, AIMessage) for call in one.tool_calls]
    found = next((call for call in calls if call["id"] == handoff.tool_call_id), None)
    if found is None or not _is_handoff(handoff):
        return ""
    return "\n".join(value for value in found["args"].values() if isinstance(value, str))


CALLED = "called a tool"
EFFECT = "called a tool whose effect lasts"
EFFECT_FAILED = "called a tool whose effect lasts, and it failed"
NOT_MADE = "chose a call that was not made"
"""Labels of calls in a conversation."""

LEFT_OUT_NOTE = "(The beginning is left out, but for calls whose effect lasts.)"

CERTIFIED = """\
Conditions that were certified in earlier turns, each when it held:
{conditions}"""

ATTACHED = "(Nothing is written: see what is attached.)"

CONVERSATION = """\
The conversation so far:
{before}

What is to be done now:"""

SINCE = """\
What came since:
{since}"""

HANDED_PART = """\
Of this, you were handed:
{part}"""

__all__ = [
    "AROUND_KEY",
    "CERTIFIED_KEY",
    "INPUT_FORM",
    "OPEN_KEY",
    "SOURCES_KEY",
    "THE_GOAL",
    "bound_heard",
    "compose_task",
    "heard_before",
    "heard_in",
    "name_target",
    "note_sources",
    "read_messages",
    "read_surroundings",
    "receive_request",
    "requests_in",
    "words_of",
]
