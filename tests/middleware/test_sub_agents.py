"""Sub-agents of deepagents: each has middleware and records of its own."""

from typing import Any

import pytest
from deepagents import create_deep_agent
from helpers.models.scripted_agents import LOOK_UPS, ScriptedAgent, Validator, calls, shop_tools
from langgraph.checkpoint.memory import InMemorySaver

from certigraph.middleware import Certified, EffectsOnce, OrderedCalls, ProgressGate, stack

ASK = {"messages": [("user", "Refund orders 17 and 18.")]}
CONFIG = {"configurable": {"thread_id": "1"}}


def ours(validator: Validator) -> list[Any]:
    return stack(
        OrderedCalls(),
        ProgressGate(),
        EffectsOnce(),
        Certified(model=validator.chat),
        effects={**LOOK_UPS, "task": "repeatable"},
    )


def clerk(order: int, done: list[str], validator: Validator) -> dict[str, Any]:
    replies = [calls(("refund", {"order": order, "amount": 64.0})), f"Order {order} was refunded."]
    return {
        "name": f"clerk{order}",
        "description": "refunds orders",
        "system_prompt": "You refund orders.",
        "model": ScriptedAgent(replies=replies),
        "tools": shop_tools(done),
        "middleware": ours(validator),
    }


@pytest.mark.parametrize("count", [1, 2])
def test_sub_agents_are_certified_by_themselves(count: int):
    done, inner, outer = list[str](), Validator(), Validator()
    orders = (17, 18)[:count]
    tasks = [("task", {"description": f"Refund order {order}.", "subagent_type": f"clerk{order}"}) for order in orders]
    agent = create_deep_agent(
        model=ScriptedAgent(replies=[calls(*tasks), "All orders were refunded."]),
        tools=shop_tools(done),
        subagents=[clerk(order, done, inner) for order in orders],
        middleware=ours(outer),
        checkpointer=InMemorySaver(),
    )
    state = agent.invoke(ASK, CONFIG)
    assert sorted(done) == [f"refund {order} 64.0" for order in orders]
    assert len(inner.prompts) == 2 * count  # a check and a verdict each
    assert state["checked"] == []  # the sub-agents' calls are theirs
    assert (state["ending"], state["certificates"]) == ("finished", [])  # what sub-agents say shows nothing
    assert "All orders were refunded." in outer.prompts[-1]
