"""Showing an answer while the model writes it: in LangGraph's stream mode "messages", token by token.

A model answers an agent with calls of tools. Whoever watches wants the text of the answer and the model's thoughts, and
not the JSON in which they come; so both are taken out of the calls as they arrive. A model streams only if somebody
watches.
"""

from collections.abc import Callable
from contextvars import copy_context
from typing import Any, NamedTuple
from uuid import uuid4

from langchain_core.callbacks import BaseCallbackHandler, BaseCallbackManager
from langchain_core.messages import AIMessageChunk
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
    """Shows the thought of a reply as reasoning, and the answer that one of its calls hands in as a message.

    Args:
        thought: the argument of every tool, and the key of a reply in JSON, that hold the thought.
        answer: the argument that holds the answer; None if no answer is shown.
        watchers: the callbacks of the node, among them LangGraph's own that streams messages.
    """

    run_inline = True  # in the order in which the tokens arrive

    def __init__(self, thought: str, answer: ArgumentOf | None, watchers: BaseCallbackManager) -> None:
        self._thought, (self._tool, self._argument) = thought, answer or ("", "")
        self.callbacks = watchers.copy()
        """Callbacks of the request: those of the node, and this one."""
        self.callbacks.add_handler(self)
        self._context = copy_context()  # LangGraph's configuration of the node, which callbacks do not run in
        self._next_length = 0
        self._begin()

    @property
    def message_id(self) -> str:
        """Id of the message as which the answer was shown; empty if none was."""
        return self._answer.message_id if self._answer.shown else ""

    def on_chat_model_start(self, *args: Any, **kwargs: Any) -> None:
        """Forget an earlier reply, which could not be used."""
        self._begin()

    def on_llm_new_token(self, token: Any, *, chunk: Any = None, **kwargs: Any) -> None:
        """Show what has arrived of thought and answer, but for the last word.

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
        self._answer, self._reasoning = _Shown(self._push, "text"), _Shown(self._push, "reasoning")

    def _show(self, *, complete: bool) -> None:
        thought, answer = self._read()
        self._reasoning.show(thought, complete=complete or bool(answer))
        self._answer.show(answer, complete=complete)

    def _read(self) -> tuple[str, str]:
        """Return the thought and the answer as far as they have arrived."""
        if self._calls:
            calls = [(call["name"], _parse(call["args"])) for call in self._calls.values()]
            thought: Any = self._text
        else:
            reply = _parse(self._text)
            given = [call for call in _as_list(reply.get("calls")) if isinstance(call, dict)]
            calls = [(str(call.get("name")), _as_dict(call.get("args"))) for call in given]
            thought = reply.get(self._thought)
        thought = thought or next((args[self._thought] for _, args in calls if args.get(self._thought)), "")
        final = all(name == self._tool for name, _ in calls)  # an answer that comes with other calls is not handed in
        answer = next((args.get(self._argument) for name, args in calls if name == self._tool and final), "")
        return _as_text(thought), _as_text(answer)

    def _push(self, chunk: AIMessageChunk) -> None:
        self._context.copy().run(push_message, chunk, state_key=None)


def watch_reply(thought: str, answer: ArgumentOf | None) -> ReplyStream | None:
    """Return the stream of a reply; None if nobody watches the graph. The arguments are those of `ReplyStream`."""
    try:
        callbacks = get_config().get("callbacks")
    except RuntimeError:  # called outside of a graph
        return None
    if not isinstance(callbacks, BaseCallbackManager) or not callbacks.handlers:
        return None
    return ReplyStream(thought, answer, callbacks)


class _Shown:
    """A text that is shown piece by piece, each time as a chunk of the same message."""

    def __init__(self, push: Callable[[AIMessageChunk], None], kind: str) -> None:
        self._push, self._kind = push, kind
        self.message_id, self.shown = f"{kind}-{uuid4().hex}", ""

    def show(self, text: str, *, complete: bool) -> None:
        """Show what is new. The last word is held back until the text is complete, since it may be part of a secret."""
        masked = redact(text)
        ready = masked if complete else masked[: max(masked.rfind(" "), masked.rfind("\n")) + 1]
        if len(ready) > len(self.shown) and ready.startswith(self.shown):
            piece, self.shown = ready[len(self.shown) :], ready
            content: Any = piece if self._kind == "text" else [{"type": self._kind, self._kind: piece, "index": 0}]
            self._push(AIMessageChunk(content=content, id=self.message_id))


def _parse(text: str) -> dict[str, Any]:
    try:
        return _as_dict(parse_partial_json(text)) if text.lstrip().startswith("{") else {}
    except (ValueError, RecursionError):
        return {}


def _as_dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _as_text(value: Any) -> str:
    return value if isinstance(value, str) else ""


__all__ = ["ArgumentOf", "ReplyStream", "watch_reply"]
