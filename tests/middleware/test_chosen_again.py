"""An agent that chooses a call again whose outcome a person could not say, or did not want to."""

from typing import Any

import pytest
from helpers.models.scripted_agents import ScriptedAgent, calls
from langchain.agents import create_agent
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from certigraph.middleware import EffectsOnce

CONFIG = {"configurable": {"thread_id": "1"}}
PAY = ("pay", {"amount": 64.0})


class Killed(BaseException):
    """The end of a process."""


def interrupted(paid: list[float]) -> Any:
    """An agent whose first payment was cut off after the money had left, and that pays again if it may."""

    def pay(amount: float) -> str:
        """Pay an amount."""
        paid.append(amount)
        if len(paid) == 1:
            raise Killed
        return f"paid {amount}"

    model = ScriptedAgent(replies=[calls(PAY), calls(PAY, first="d"), "It was paid."])
    agent = create_agent(model, [pay], middleware=[EffectsOnce()], checkpointer=InMemorySaver())
    with pytest.raises(Killed):
        agent.invoke({"messages": [("user", "Pay 64.")]}, CONFIG)
    return agent


def decide(agent: Any, kind: str, **given: Any) -> Any:
    return agent.invoke(Command(resume={"decisions": [{"type": kind, **given}]}), CONFIG)


def test_a_lost_answer_is_asked_about_when_the_call_is_chosen_again():
    paid = list[float]()
    agent = interrupted(paid)
    assert "__interrupt__" in agent.invoke(None, CONFIG)
    state = decide(agent, "happened")
    assert "__interrupt__" in state and len(paid) == 1
    state = decide(agent, "happened")
    assert (len(paid), state["messages"][-1].text) == (1, "It was paid.")


def test_a_person_may_let_it_be_paid_again():
    paid = list[float]()
    agent = interrupted(paid)
    agent.invoke(None, CONFIG)
    decide(agent, "happened")
    decide(agent, "repeat")
    assert len(paid) == 2


def test_a_known_answer_is_not_asked_about():
    paid = list[float]()
    agent = interrupted(paid)
    agent.invoke(None, CONFIG)
    state = decide(agent, "happened", result="paid 64.0")
    assert "__interrupt__" not in state and len(paid) == 2  # the agent knew, and paid once more


def test_what_a_person_stopped_at_is_asked_about_when_the_call_is_chosen_again():
    paid = list[float]()
    agent = interrupted(paid)
    agent.invoke(None, CONFIG)
    state = decide(agent, "stop")
    assert "__interrupt__" in state and len(paid) == 1
    decide(agent, "happened", result="paid 64.0")
    assert len(paid) == 2
