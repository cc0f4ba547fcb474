"""Certified: lasting calls are checked before they are made, and the answer is judged before the turn ends."""

from typing import Any

from helpers.models.scripted_agents import LOOK_UPS, ScriptedAgent, calls, desk
from langchain.agents import create_agent
from langchain_core.messages import HumanMessage, ToolMessage
from langgraph.checkpoint.memory import InMemorySaver

import certigraph
from certigraph.middleware.certified import Certified

ASK = {"messages": [("user", "Refund order 17 and close its ticket after a mail.")]}


class Validator:
    """A scripted validator: `problems` by tool for checks, `missing` texts for answers, one after another."""

    answers_checks = True

    def __init__(self, problems: Any = None, missing: Any = (), holds: Any = (), left: str = "") -> None:
        self.problems, self.missing, self.holds, self.left = problems or {}, iter(missing), holds, left
        self.prompts: list[str] = []

    def __call__(self, prompt: Any, schema: Any) -> Any:
        self.prompts.append(prompt)
        fields = schema["properties"]
        if "missing" in fields:
            found = {"reason": "seen", "by_calls": [1], "missing": next(self.missing, "")}
            return {**found, "holds": list(self.holds)} if "holds" in fields else found
        wrong = [
            {"call": 1, "rule": "", "fact": "", **problem}
            for name, problem in self.problems.items()
            if f"{name}(" in prompt.rpartition("Calls that are about to be made")[2]
        ]
        self.problems = {}
        return {"reason": "seen", "problems": wrong, **({"left": self.left} if "left" in fields else {})}

    @property
    def chat(self) -> certigraph.ScriptedChat:
        return certigraph.ScriptedChat(responder=self)


def agent_of(replies: list[Any], validator: Validator, done: list[str], **given: Any):
    middleware = Certified(model=validator.chat, effects=LOOK_UPS, **given)
    return create_agent(
        ScriptedAgent(replies=replies), desk(done), middleware=[middleware], checkpointer=InMemorySaver()
    )


CONFIG = {"configurable": {"thread_id": "1"}}

WORK = [
    calls(("look_up", {"order": 17})),
    calls(("refund", {"order": 17, "amount": 64.0})),
    "Order 17 was refunded.",
]


def test_a_right_turn_is_checked_and_certified():
    done, validator = list[str](), Validator()
    state = agent_of(WORK, validator, done).invoke(ASK, CONFIG)
    assert done == ["refund 17 64.0"]
    assert [(one["tool"], one["outcome"]) for one in state["checked"]] == [("refund", "allowed")]
    assert state["ending"] == "goal"
    assert [one["decided_by"] for one in state["certificates"]] == ["model"]
    assert state["messages"][-1].response_metadata["ending"] == "goal"
    assert len(validator.prompts) == 2


def test_a_wrong_call_is_refused_before_it_takes_effect():
    done = list[str]()
    validator = Validator({"refund": {"outcome": "forbidden", "next": "Refund 64.00."}})
    replies = [
        calls(("refund", {"order": 17, "amount": 79.0})),
        calls(("refund", {"order": 17, "amount": 64.0}), first="d"),
        "Done.",
    ]
    state = agent_of(replies, validator, done).invoke(ASK, CONFIG)
    assert done == ["refund 17 64.0"]
    refused = next(one for one in state["messages"] if isinstance(one, ToolMessage))
    assert refused.status == "error" and "Refund 64.00." in refused.content
    assert [one["outcome"] for one in state["checked"]] == ["forbidden", "allowed"]


def test_a_premature_answer_is_sent_back_and_completed():
    done, validator = list[str](), Validator(missing=["Close the ticket of order 17."])
    replies = [*WORK, calls(("close", {"order": 17}), first="d"), "All is done."]
    state = agent_of(replies, validator, done).invoke(ASK, CONFIG)
    assert done == ["refund 17 64.0", "close 17"]
    assert any(
        "Close the ticket of order 17." in one.content for one in state["messages"] if isinstance(one, HumanMessage)
    )
    assert (state["ending"], state["messages"][-1].text) == ("goal", "All is done.")
