"""What LangGraph's `ToolNode` returns for a call: the message that answers it, and commands for the graph."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from langchain_core.messages import ToolMessage
from langgraph.types import Command

from certigraph.adapters.redaction import redact_message
from certigraph.adapters.tools.contents import bound_text, format_content, has_more_than_text
from certigraph.adapters.tools.effects import ToolAnswer
from certigraph.state.tools import ToolCall

MADE_KEY = "certigraph_made"
"""Key in the `response_metadata` of a message that answers a call: False if the tool was not called."""

HANDED_OVER = "(The tool ran, and handed the work over to another part of the application.)"


def read_outputs(returned: Any, id: str) -> ToolAnswer:
    """Read what the node returned for the call with an id."""
    outputs: list[Any] = []
    for part in returned if isinstance(returned, list) else [returned]:
        outputs += part.get("messages", ()) if isinstance(part, Mapping) else [part]
    messages = [message for output in outputs for message in _messages_in(output)]
    answer = next((one for one in messages if isinstance(one, ToolMessage) and one.tool_call_id == id), None)
    if answer is None:  # commands for a graph around the agent's may leave it out
        return ToolAnswer(text=HANDED_OVER, outputs=tuple(outputs))
    text = redact_message(bound_text(format_content(answer.content)))
    has_more = outputs != [answer] or answer.artifact is not None or has_more_than_text(answer.content)
    return ToolAnswer(text=text, failed=answer.status == "error", outputs=tuple(outputs) if has_more else ())


def read_commands(answers: Iterable[ToolAnswer], keys: Collection[str]) -> list[Command[Any]]:
    """Return what answers do to the graph besides answering: changes of the state, hand-offs.

    Args:
        answers: the answers.
        keys: keys of the state that tools may change. Others are the agent's own, and stay as they are.
    """
    commands = list[Command[Any]]()
    for output in (one for answer in answers for one in answer.outputs):
        messages = _messages_in(output)
        if isinstance(output, Command) and output.graph is None:
            given = output.update if isinstance(output.update, Mapping) else dict(output.update or ())
            update = {key: value for key, value in given.items() if key in keys}
            others = [one for one in messages if not isinstance(one, ToolMessage)]
            commands.append(replace(output, update={**update, **({"messages": others} if others else {})}))
        elif isinstance(output, Command):
            commands.append(output)
    return commands


def to_message(call: ToolCall, answer: ToolAnswer, id: str) -> ToolMessage:
    """Return the message that answers a call, with the artifact, images and files that the tool returned.

    Args:
        call: the call.
        answer: what was answered.
        id: id of the call.
    """
    returned = [message for output in answer.outputs for message in _messages_in(output)]
    own = next((one for one in returned if isinstance(one, ToolMessage)), None) or ToolMessage("", tool_call_id=id)
    return own.model_copy(
        update={
            "content": own.content if has_more_than_text(own.content) else answer.text,
            "name": call.name,
            "tool_call_id": id,
            "id": f"{id}:answer",
            "status": "error" if answer.failed or call.refused else "success",
            "response_metadata": {} if call.is_made else {MADE_KEY: False},
        }
    )


def _messages_in(output: Any) -> Sequence[Any]:
    if not isinstance(output, Command):
        return [output]
    messages = output.update.get("messages", ()) if isinstance(output.update, Mapping) else ()
    return messages if isinstance(messages, list | tuple) else [messages]
