"""Calls of tools as they were made, where a person or middleware may change them after a model chose them."""

from collections import Counter
from collections.abc import Iterable
from typing import Any
from uuid import UUID

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.messages import ToolCall as CalledTool
from langchain_core.messages import ToolMessage
from pydantic_core import to_jsonable_python

from certigraph.nodes.conversations import MADE_CALL_KEY, note_made


class MadeCalls(BaseCallbackHandler):
    """Callback that notes how an agent's tools are called, by the ids of the calls.

    Tools that run inside a tool do not count, whether the tool calls them itself or by an agent of its own.
    """

    run_inline = True

    def __init__(self) -> None:
        self.calls: dict[str, CalledTool] = {}
        self._inside: set[UUID | None] = set()

    def on_tool_start(
        self,
        serialized: dict[str, Any],
        input_str: str,
        *,
        run_id: UUID,
        parent_run_id: UUID | None = None,
        inputs: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        """Note a call with the arguments that the tool gets, without those that `ToolNode` injects."""
        id_ = kwargs.get("tool_call_id")
        if id_ is not None and inputs is not None and parent_run_id not in self._inside:
            args = to_jsonable_python(inputs, fallback=repr)
            self.calls[id_] = CalledTool(name=serialized["name"], args=args, id=id_)
        self._inside.add(run_id)

    def on_chain_start(
        self,
        serialized: dict[str, Any],
        inputs: Any,
        *,
        run_id: UUID,
        parent_run_id: UUID | None = None,
        **kwargs: Any,
    ) -> None:
        """Note what runs inside a tool."""
        if parent_run_id in self._inside:
            self._inside.add(run_id)

    def note(self, answer: ToolMessage, chosen: CalledTool | None) -> ToolMessage:
        """Return an answer that says which call it answers, if that is not the one that the model chose.

        Args:
            answer: the answer.
            chosen: the call that the model chose; None if it is not known.
        """
        made = self.calls.get(answer.tool_call_id)
        if made is None or chosen is None or MADE_CALL_KEY in answer.response_metadata:
            return answer
        is_same = (made["name"], made["args"]) == (chosen["name"], chosen["args"])
        return answer if is_same else note_made(answer, made)


def find_unique(chosen: Iterable[CalledTool]) -> dict[str | None, CalledTool]:
    """Return calls by their ids, without those whose id another call has too: some models reuse ids."""
    calls = list(chosen)
    times = Counter(one["id"] for one in calls)
    return {one["id"]: one for one in calls if times[one["id"]] == 1}


__all__ = ["MadeCalls", "find_unique"]
