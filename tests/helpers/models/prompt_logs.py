"""Prompts that a model was sent, and where a text stands in them outside the delimiters of data."""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage
from langchain_core.outputs import ChatGeneration, ChatResult

from certigraph.adapters.models.schemas import Schema, minimal_instance
from certigraph.adapters.models.scripts import ScriptedChat, current_situation
from certigraph.state.tools import calls_of
from helpers.models.filled_forms import fill_form

AGENT_METHODS = ("sdp", "tdp", "step", "react", "plan_and_act", "pbai")

_QUOTED = re.compile(r"<world>.*?</world>", re.DOTALL)


def find_undelimited(prompt: Any, marker: str) -> list[str]:
    """Return the surroundings of each place outside `<world>` and `</world>` at which a marker stands in a prompt.

    Args:
        prompt: a text, or messages, schemas and tools, all of whose texts and keys are searched.
        marker: the text that must not stand there, in any case.
    """
    if isinstance(prompt, Mapping):
        return [place for pair in prompt.items() for part in pair for place in find_undelimited(part, marker)]
    if isinstance(prompt, list | tuple):
        return [place for part in prompt for place in find_undelimited(part, marker)]
    if not isinstance(prompt, str):
        return find_undelimited(prompt.content, marker) if hasattr(prompt, "content") else []
    outside = _QUOTED.sub("<world></world>", prompt)
    found = re.finditer(re.escape(marker), outside, re.IGNORECASE)
    return [outside[max(0, one.start() - 200) : one.end() + 80] for one in found]


def count_markers(prompt: Any, marker: str) -> int:
    """Count the places of a marker in a prompt, also between delimiters."""
    return json.dumps(prompt, default=lambda message: message.content, ensure_ascii=False).count(marker)


class PromptLog:
    """Answers for the model of an agent by any method, makes the calls of a script, and keeps what it is sent.

    Args:
        script: calls, as name and arguments, that are made one after another before the answer is handed in.
        lessons: what it writes down as a lesson.
        mistakes: calls that do not fit their schema; two of them come before each call that fits.
        repeats: what it writes in every text that is not a plan or an answer of its own, as if copied from the world.
    """

    def __init__(
        self,
        script: Sequence[tuple[str, dict[str, Any]]],
        lessons: str = "a lesson",
        mistakes: Sequence[tuple[str, dict[str, Any]]] = (),
        repeats: str = "",
    ) -> None:
        self._repeats = repeats
        self._script, self._lessons, self._mistakes = list(script), lessons, list(mistakes)
        self._tries = 0
        self.requests: list[tuple[str, Any]] = []
        """Node and content of each request: the prompt with the schema of the answer, or messages and tools."""

    @property
    def chat(self) -> ScriptedChat:
        """The model."""
        return ScriptedChat(responder=self.answer)

    @property
    def native_chat(self) -> BaseChatModel:
        """The model, called through the interface for tools."""
        return _NativeChat(log=self)

    def undelimited(self, marker: str) -> list[tuple[str, str]]:
        """Return node and surroundings of each place at which a marker stands outside delimiters."""
        return [(node, place) for node, request in self.requests for place in find_undelimited(request, marker)]

    def shows(self, marker: str) -> bool:
        """Return whether a marker stands in any request, between delimiters or not."""
        return any(count_markers(request, marker) for _, request in self.requests)

    def answer(self, prompt: str, schema: Schema) -> Any:
        """Return the answer to a request."""
        self._note([prompt, schema])
        fields = schema.get("properties", {})
        if "calls" in fields:
            offered = [option["properties"]["name"]["const"] for option in fields["calls"]["items"]["anyOf"]]
            name, args = self._next_call(offered)
            return {"thought": self._repeats or "by the script", "calls": [{"name": name, "args": args}]}
        return self._fill(schema, fields)

    def _fill(self, schema: Schema, fields: Mapping[str, Any]) -> Any:
        done, tools = not self._left(), list(dict.fromkeys(name for name, _ in self._script))
        own = {"supplied_by": tools, "worked_out": True}
        given = {
            "tools": tools,
            "arguments": [{"tool": name, "argument": one, **own} for name, args in self._script for one in args],
            "conditions": ["All is read."],
            "nodes": [{"id": "a", "task": "read", "needs": []}, {"id": "b", "task": "answer", "needs": ["a"]}],
            "steps": ["read", "answer"],
            "status": "completed" if done else "needs_more_steps",
            "guidance": "go on",
            "holds": int(done),
            **{"by_calls": [1], "evidence": "", "absence": ""},  # code looks for what a verdict names
            "reachable": True,
            **{"problems": [], "missing": ""},  # nothing is wrong with a call, or with the answer
            "subtask": "read and answer",
            "insights": [1] if "rationale" in fields else [self._lessons],
            "subtasks": [self._lessons],
        }
        usual = fill_form(schema, self._repeats) if self._repeats else minimal_instance(schema)
        return {**usual, **{name: value for name, value in given.items() if name in fields}}

    def _left(self) -> list[tuple[str, dict[str, Any]]]:
        situation = current_situation()
        history = situation.state.get("history", ()) if situation else ()
        made = sum(not call.refused for step in history for call in calls_of(step.action))
        return self._script[made:]

    def _next_call(self, offered: Sequence[str]) -> tuple[str, dict[str, Any]]:
        left = self._left()
        self._tries += 1
        if self._mistakes and self._tries % 3 and self._mistakes[0][0] in offered:
            return self._mistakes.pop(0)
        if left and left[0][0] in offered:
            return left[0]
        return ("finish", {"answer": "done"}) if "finish" in offered else ("target_holds", {})

    def _note(self, request: Any) -> None:
        situation = current_situation()
        self.requests.append((situation.node if situation else "", request))

    def answer_natively(self, messages: Sequence[Any], options: Mapping[str, Any]) -> AIMessage:
        """Return the answer to a request with tools, or with an answer schema."""
        tools = options.get("tools") or []
        self._note([list(messages), tools, options.get("response_format")])
        if tools:
            name, args = self._next_call([tool["function"]["name"] for tool in tools])
            call = {"name": name, "args": {"thought": "by the script", **args}, "id": str(len(self.requests))}
            return AIMessage("", tool_calls=[{**call, "type": "tool_call"}])
        schema = options["response_format"]["json_schema"]["schema"]
        return AIMessage(json.dumps(self._fill(schema, schema.get("properties", {}))))


class _NativeChat(BaseChatModel):
    log: Any

    @property
    def _llm_type(self) -> str:
        return "prepared"

    def bind_tools(self, tools: Any, **kwargs: Any) -> Any:
        return self.bind(tools=list(tools), **kwargs)

    def _generate(self, messages: Any, stop: Any = None, run_manager: Any = None, **kwargs: Any) -> ChatResult:
        return ChatResult(generations=[ChatGeneration(message=self.log.answer_natively(messages, kwargs))])
