"""A shop with three cases, and agents in it that one script plays: plain ones, certigraph's, and LangChain's.

The script makes the same slips in every agent. It works off order 17 as it should, refunds a wrong amount of order 18
until it reads what is right, and says of order 19 that it is refunded before it is.
"""

import re
from collections.abc import Callable, Sequence
from typing import Any

from langchain.agents import create_agent
from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langgraph.graph.state import CompiledStateGraph

import certigraph
from certigraph.middleware import Certified, EffectsOnce, OrderedCalls, ProgressGate, stack
from helpers.models.scripted_agents import LOOK_UPS, shop_tools

DONE: list[str] = []
TOOLS = shop_tools(DONE)


def choose(seen: str) -> tuple[str, dict[str, Any]]:
    """The next call by what stands in a prompt; `finish` hands in the answer."""
    [order, *_] = map(int, re.findall(r"Refund order (\d+)", seen))
    answer = "finish", {"answer": f"Order {order} is refunded."}
    if "paid 64.00" not in seen:
        return "look_up", {"order": order}
    if re.search(r"refunded [67]", seen):
        return answer
    if order == 18 and "Refund 64 euros" not in seen:
        return "refund", {"order": order, "amount": 79.0}
    if order == 19 and "was not refunded yet" not in seen:
        return answer
    return "refund", {"order": order, "amount": 64.0}


def respond(prompt: str, schema: dict[str, Any]) -> dict[str, Any]:
    """The script of certigraph's agents, and the validator of all."""
    fields = schema["properties"]
    shown = "".join(re.findall(r"refunded 64.0 euros of order \d+", prompt)[:1])
    if "problems" in fields:
        rule = {"rule": "No more is refunded than was paid.", "fact": "paid 64.00 euros", "next": "Refund 64 euros."}
        too_much = "amount=79.0" in prompt.rpartition("about to be made")[2]
        return {"reason": "", "problems": [{"call": 1, "outcome": "forbidden", **rule}] if too_much else []}
    if "missing" in fields:
        return {"reason": "", "evidence": shown, "missing": "" if shown else "It was not refunded yet."}
    if "holds" in fields:
        reason = "It is refunded." if shown else "It was not refunded yet."
        return {"reason": reason, "evidence": shown, "reachable": True, "holds": 2 if shown else 0}
    name, args = choose(prompt)
    order = re.findall(r"Refund order (\d+)", prompt)[0]
    plan = {"reasoning": "", "tools": ["look_up", "refund"], "conditions": [f"Order {order} is refunded."]}
    return {**plan, "thought": "", "calls": [{"name": name, "args": args}]}


class ShopAgent(BaseChatModel):
    """A script as a model of LangChain's: a function of all that the messages say, which returns the next call."""

    choose: Callable[[str], tuple[str, dict[str, Any]]] = choose

    @property
    def _llm_type(self) -> str:
        return "scripted agent"

    def bind_tools(self, tools: Sequence[Any], **kwargs: Any) -> "ShopAgent":  # type: ignore[override]
        return self

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        name, args = self.choose("\n".join(str(message.text) for message in messages))
        call = {"name": name, "args": args, "id": f"c{len(messages)}", "type": "tool_call"}
        message = AIMessage(args["answer"]) if name == "finish" else AIMessage("", tool_calls=[call])
        return ChatResult(generations=[ChatGeneration(message=message)])


def bare() -> CompiledStateGraph:
    """LangChain's agent as it is."""
    return create_agent(ShopAgent(), TOOLS)


def checked() -> CompiledStateGraph:
    """The same agent with middleware."""
    validator = certigraph.ScriptedChat(responder=respond)
    middleware = stack(OrderedCalls(), ProgressGate(), EffectsOnce(), Certified(model=validator), effects=LOOK_UPS)
    return create_agent(ShopAgent(), TOOLS, middleware=middleware)


def is_refunded(episode: certigraph.Episode) -> bool:
    """Whether the order of the case was refunded as it should be, and nothing else was done."""
    made = [*DONE]
    return made == [f"refund {episode.case.id} 64.0"]


def cases() -> certigraph.Tools:
    """The shop with its cases."""
    return certigraph.Tools(
        TOOLS,
        [certigraph.Case(id=order, goal=f"Refund order {order}.") for order in ("17", "18", "19")],
        effects=LOOK_UPS,
        reset=lambda case: DONE.clear(),
        check=is_refunded,
        expert=respond,
    )
