"""Actions of several calls that did not end: what had happened is known, whoever cuts them off."""

from typing import Any

import pytest
from langchain_core.messages import ToolMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command, interrupt

from certigraph import ScriptedChat, agent, serializer
from certigraph.adapters.models.schemas import Schema, minimal_instance

THREAD: Any = {"configurable": {"thread_id": "1"}}
BOTH = [("transfer", {"amount": 5}), ("notify", {"text": "x"})]


class Killed(BaseException):
    """The process is gone."""


class Office:
    """An agent that transfers money and then notifies somebody, in one action; `notify` does not end.

    Args:
        method: the agent's method.
        notify: what happens in the second tool.
    """

    def __init__(self, method: Any, notify: Any) -> None:
        self.made: list[int] = []
        self.prompts: list[str] = []
        self.actions = 0

        def transfer(amount: int) -> str:
            """Transfer money."""
            self.made.append(amount)
            return f"transferred {amount}"

        saver = InMemorySaver(serde=serializer())
        options: dict[str, Any] = {"audit": None} if method == "react" else {}
        self.graph = agent(
            method, model=ScriptedChat(responder=self._respond), tools=[transfer, notify], checkpointer=saver,
            commitments=None, check=None, **options,
        )  # fmt: skip

    def _respond(self, prompt: str, schema: Schema) -> Any:
        reply = minimal_instance(schema)
        self.prompts.append(prompt)
        if "calls" not in schema.get("properties", {}):
            return {**reply, "conditions": ["Five are transferred."]} if "conditions" in reply else reply
        self.actions += 1
        calls = BOTH if self.actions == 1 else [("finish", {"answer": "ok", "asks": False})]
        return {**reply, "calls": [{"name": name, "args": args} for name, args in calls]}

    def say(self, text: str) -> Any:
        return self.graph.invoke({"messages": [("user", text)]}, THREAD)


def asking(text: str) -> str:
    """Notify somebody, with leave."""
    return f"notified {interrupt('may I?')}"


def dying(text: str) -> str:
    """Notify somebody."""
    raise Killed


asking.__name__ = dying.__name__ = "notify"


def answers_in(state: Any) -> list[tuple[str, str]]:
    return [(one.status, one.text) for one in state["messages"] if isinstance(one, ToolMessage)]


@pytest.mark.parametrize("method", ["react", "sdp", "step", "plan_and_act"])
def test_a_new_message_knows_what_the_action_that_it_cuts_off_had_done(method: Any) -> None:
    office = Office(method, asking)
    office.say("Transfer 5 and notify.")
    office.prompts.clear()
    ended = office.say("No notification. See that the 5 are transferred.")
    assert (office.made, answers_in(ended)[0]) == ([5], ("success", "transferred 5"))
    assert answers_in(ended)[1][0] == "error"
    assert "transferred 5" in office.prompts[0]
    known = office.graph.get_state(THREAD).values["answers"]
    assert [(one.tool, one.answer, one.made) for one in known if one.tool == "transfer"] == [
        ("transfer", "transferred 5", True)
    ]


def test_calls_that_had_ended_before_a_person_stopped_the_work_are_effects() -> None:
    office = Office("react", dying)
    with pytest.raises(Killed):
        office.say("Transfer 5 and notify.")
    office.graph.invoke(None, THREAD)
    ended = office.graph.invoke(Command(resume={"decisions": [{"type": "stop"}]}), THREAD)
    assert ([one["tool"] for one in ended["effects"]], office.made) == (["transfer"], [5])
    assert [status for status, _ in answers_in(ended)] == ["success", "error"]
