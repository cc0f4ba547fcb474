"""Requests: the task in the messages that an agent gets, and whose words stand in them.

What a person wrote is the task. What agents and tools wrote is data, in whatever turn and in whatever graph, and keeps
its origin. Another agent may hand on a task, but not the person's permission for the values in it.
"""

from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256
from typing import Any

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage, convert_to_messages
from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import var_child_runnable_config
from langgraph.types import Overwrite
from pydantic import ValidationError

from certigraph.adapters.models.attachments import find_attachments
from certigraph.adapters.models.prompts import leave_out_quotations, paragraphs, quote
from certigraph.adapters.tools.contents import text_of_message
from certigraph.adapters.tools.positions import NAMESPACE_KEY, TASK_KEY
from certigraph.adapters.tools.world import CONDITION
from certigraph.state.commitments import source_answers
from certigraph.state.endings import Fault
from certigraph.state.provenance import Provenance, SourcedText
from certigraph.state.records import Arguments, Task
from certigraph.state.tools import REQUEST_ID, TOOL_MESSAGES, TOOLS_NAME, calls_of

INPUT_FORM = 'the input needs {"messages": [("user", "...")]} or {"goal": "..."}'

AROUND_KEY = "__certigraph_around"
"""Key in `configurable`: what the graph around an agent knows, as `Provenance`; absent for an outermost graph."""

READ_KEY = "__pregel_read"
"""Key under which LangGraph keeps the function by which a node reads the state of its graph."""

SOURCES_KEY = "certigraph_sources"
"""Key in the `response_metadata` of an agent's answer: the tools from whose answers it was written."""

MAX_HEARD = 40_000
"""Characters of earlier answers whose origin is kept; the oldest are left out, after which it is unknown."""

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
    return Provenance(handed_on=True, words=_join_words(written), heard=tuple(_heard_in(messages)))


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


def _heard_in(messages: Sequence[AnyMessage]) -> Iterable[SourcedText]:
    """Yield the texts in a conversation that are not requests, with their origins."""
    requests = set(map(id, requests_in(messages)))
    for one in messages:
        text = text_of_message(one)
        if not text or id(one) in requests:
            continue
        if isinstance(one, ToolMessage):
            yield SourcedText(text=text, tools=(one.name,) if one.name else ())
            continue
        sources = one.response_metadata.get(SOURCES_KEY)
        if sources != []:  # else its agent had read nothing
            yield SourcedText(text=text, tools=tuple(map(str, sources or ())), is_answer=False)


def receive_request(
    state: Mapping[str, Any], config: RunnableConfig, constants: Arguments, *, keeps_origins: bool
) -> dict[str, Any]:
    """Make a task of the input of an agent: of the goal, else of the latest request in the messages.

    Args:
        state: the state of the agent.
        config: configuration of the node.
        constants: constants of the task.
        keeps_origins: whether the origin of what others wrote is kept, for commitments to arguments.

    Raises:
        Fault: ("data") the input has neither, or that request was answered before.
    """
    messages: list[AnyMessage] = list(state.get("messages") or ())
    before = provenance_of(state)
    update: dict[str, Any] = {"goal": "", "commitment": None, "draft": None}
    if state.get(TOOL_MESSAGES):
        update[TOOL_MESSAGES] = Overwrite([])
    if goal := str(state.get("goal") or "").strip():
        update["messages"] = [HumanMessage(goal)]
        messages.append(HumanMessage(goal))
    text, latest = compose_task(messages)
    around: Provenance = config.get("configurable", {}).get(AROUND_KEY) or Provenance()
    request = requests_in(messages)[-1]
    answered = sha256(f"{request.id} {latest}".encode()).hexdigest()[:32] if request.id else ""
    if answered and answered == before.answered and request is not messages[-1]:
        raise Fault("data", f"the latest request was answered before, and {INPUT_FORM}")
    heard = list[SourcedText]()
    if keeps_origins:
        heard = [*before.heard, *source_answers(state.get("answers", ())), *_heard_in(messages), *around.heard]
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
    heard = [*origin.heard, *_heard_in(list(state.get("messages", ())))]
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


def compose_task(messages: Sequence[AnyMessage]) -> tuple[str, str]:
    """Return the text of a task, and the latest request in it.

    Other requests of the conversation stand before it. What agents and tools wrote is quoted.

    Raises:
        Fault: ("data") no message is a request.
    """
    requests = requests_in(messages)
    latest = text_of_message(requests[-1]).strip() if requests else ""
    if requests and not latest and find_attachments(requests[-1:]):
        latest = ATTACHED
    if not latest:
        raise Fault("data", INPUT_FORM)
    known, last = set(map(id, requests)), next(n for n, one in enumerate(messages) if one is requests[-1])
    before, since = (_format_messages(part, known) for part in (messages[:last], messages[last + 1 :]))
    task = f"{CONVERSATION.format(before=before)}\n{latest}" if before else latest
    part = _find_handed_part(messages[last + 1 :])
    return paragraphs(
        task, SINCE.format(since=since) if since else "", HANDED_PART.format(part=quote(part)) if part else ""
    ), latest


def _format_messages(messages: Iterable[AnyMessage], requests: set[int]) -> str:
    """Format messages, by their ids those of people as they are, and all others quoted."""
    lines = []
    for one in messages:
        text = text_of_message(one)
        if text and not _is_handoff(one):
            named = f"{one.name}: {text}" if one.name else text
            lines.append(f"{one.type}: {text if id(one) in requests else quote(named)}")
    return "\n".join(lines)


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
    "INPUT_FORM",
    "SOURCES_KEY",
    "compose_task",
    "heard_before",
    "note_sources",
    "read_messages",
    "read_surroundings",
    "receive_request",
    "requests_in",
    "words_of",
]
