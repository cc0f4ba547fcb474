"""The tool by which an agent commits to what its work has to bring about."""

from collections.abc import Sequence
from typing import Annotated

from langchain_core.messages import AnyMessage, ToolMessage
from langchain_core.tools import BaseTool, tool
from pydantic import Field

from certigraph.nodes.conversations import COMMIT_TOOL, find_open

MAX_CONDITIONS = 20
"""Maximum number of conditions of a turn; further ones are left out."""


def create_commit_tool() -> BaseTool:
    """Create the tool. Its calls are answered where they are read (`read_commitments`), and so before any other."""

    @tool(COMMIT_TOOL)
    def commit_to_conditions(
        conditions: Annotated[list[str], Field(description="statements that tools' answers can show, one fact each")],
    ) -> str:
        """Commit to what has to be true when the work is done, before you change anything.

        Each condition is certified by itself. Call it again where you learn that more has to come true.
        """
        return ANSWER

    return commit_to_conditions


def read_commitments(messages: Sequence[AnyMessage], known: Sequence[str]) -> tuple[list[str], list[ToolMessage]]:
    """Return the conditions with those to which open calls commit, and the answers to these calls.

    What was committed to once stays: an agent cannot take back what it finds hard to bring about.

    Args:
        messages: the conversation.
        known: the conditions before.
    """
    calls = [call for call in find_open(messages) if call["name"] == COMMIT_TOOL]
    given = [call["args"].get("conditions") for call in calls]
    texts = [str(text).strip() for listed in given for text in (listed if isinstance(listed, list) else [listed])]
    conditions = list(dict.fromkeys([*known, *filter(None, texts)]))[:MAX_CONDITIONS]
    answers = [ToolMessage(ANSWER, name=COMMIT_TOOL, tool_call_id=str(call["id"])) for call in calls]
    return conditions, answers


ANSWER = "Noted. Each of them is certified once answers of tools show it."

__all__ = ["create_commit_tool", "read_commitments"]
