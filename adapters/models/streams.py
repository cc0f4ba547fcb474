"""Showing an answer while the model writes it: in LangGraph's stream mode "messages", token by token.

A model answers an agent with calls of tools. Whoever watches wants the text of the answer and not the JSON in which it
comes; so it is taken out of the call as it arrives. A model streams only if somebody watches.
"""

from contextvars import copy_context
from typing import Any, NamedTuple

from langchain_core.callbacks import BaseCallbackHandler, BaseCallbackManager
from langchain_core.messages import AIMessage, AIMessageChunk
from langchain_core.outputs import ChatGenerationChunk, LLMResult
from langchain_core.utils.json import parse_partial_json
from langgraph.config import get_config
from langgraph.graph.message import push_message

from certigraph.adapters.models.schemas import MAX_CALL_CHARS
from certigraph.adapters.redaction import redact


class ArgumentOf(NamedTuple):
    """An argument of a tool."""

    tool: str
    argument: str


class ReplyStream(BaseCallbackHandler):
    """Shows the answer that a call of a reply hands in, as a message.

    Args:
        answer: the argument that holds the answer.
        message_id: id of the message, which is the one that the state will have.
        watchers: the callbacks of the node, among them LangGraph's own that streams messages.
    """

    run_inline = True  # in the order in which the tokens arrive

    def __init__(self, answer: ArgumentOf, message_id: str, watchers: BaseCallbackManager) -> None:
        self._tool, self._argument = answer
        self._message_id = message_id
        self.callbacks = watchers.copy()
        """Callbacks of the request: those of the node, and this one."""
        self.callbacks.add_handler(self)
        self._context = copy_context()  # LangGraph's configuration of the node, which callbacks do not run in
        self._next_length, self._replaces = 0, False
        self._begin()

    @property
    def message_id(self) -> str:
        """Id of the message as which the answer was shown; empty if none was."""
        return self._message_id if self._shown or self._replaces else ""

    def on_chat_model_start(self, *args: Any, **kwargs: Any) -> None:
        """Forget an earlier reply, which could not be used. What was shown of it is replaced by a whole message."""
        self._replaces = self._replaces or bool(self._shown)
        self._begin()

    def on_llm_new_token(self, token: Any, *, chunk: Any = None, **kwargs: Any) -> None:
        """Show what has arrived of the answer, but for the last word.

        A long text is read again only when it has grown by a twentieth: reading it takes time that grows with it.
        """
        message = chunk.message if isinstance(chunk, ChatGenerationChunk) else None
        if isinstance(message, AIMessageChunk):
            self._text += message.text
            for part in message.tool_call_chunks:
                call = self._calls.setdefault(part.get("index"), {"name": "", "args": ""})
                call["name"] += part.get("name") or ""
                call["args"] += part.get("args") or ""
            length = len(self._text) + sum(len(call["args"]) for call in self._calls.values())
            if self._next_length <= length <= MAX_CALL_CHARS:
                self._next_length = length + length // 20
                self._show(complete=False)

    def on_llm_end(self, response: LLMResult, **kwargs: Any) -> None:
        """Show the rest."""
        if self._calls or self._text:
            self._show(complete=True)

    def _begin(self) -> None:
        self._text, self._calls = "", dict[Any, dict[str, str]]()
        self._next_length = 0
        self._shown = ""

    def _show(self, *, complete: bool) -> None:
        """Show what is new. The last word is held back until the text is complete: it may be part of a secret."""
        masked = redact(self._read())
        if self._replaces:
            if complete and masked:
                self._push(AIMessage(masked, id=self._message_id))
            return
        ready = masked if complete else masked[: max(masked.rfind(" "), masked.rfind("\n")) + 1]
        if len(ready) > len(self._shown) and ready.startswith(self._shown):
            piece, self._shown = ready[len(self._shown) :], ready
            self._push(AIMessageChunk(content=piece, id=self._message_id))

    def _read(self) -> str:
        """Return the answer as far as it has arrived."""
        if self._calls:
            calls = [(call["name"], _parse(call["args"])) for call in self._calls.values()]
        else:
            given = [call for call in _as_list(_parse(self._text).get("calls")) if isinstance(call, dict)]
            calls = [(str(call.get("name")), _as_dict(call.get("args"))) for call in given]
        final = all(name == self._tool for name, _ in calls)  # an answer that comes with other calls is not handed in
        answer = next((args.get(self._argument) for name, args in calls if name == self._tool and final), "")
        return answer if isinstance(answer, str) else ""

    def _push(self, chunk: AIMessage) -> None:
        self._context.copy().run(push_message, chunk, state_key=None)


def watch_reply(answer: ArgumentOf, message_id: str) -> ReplyStream | None:
    """Return the stream of a reply; None if nobody watches the graph. The arguments are those of `ReplyStream`."""
    try:
        callbacks = get_config().get("callbacks")
    except RuntimeError:  # called outside of a graph
        return None
    if not isinstance(callbacks, BaseCallbackManager) or not callbacks.handlers:
        return None
    return ReplyStream(answer, message_id, callbacks)


def _parse(text: str) -> dict[str, Any]:
    try:
        return _as_dict(parse_partial_json(text)) if text.lstrip().startswith("{") else {}
    except (ValueError, RecursionError):
        return {}


def _as_dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


__all__ = ["ArgumentOf", "ReplyStream", "watch_reply"]
