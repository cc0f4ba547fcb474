"""A shop: its tools note what they did, and scripted models work at it."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import BaseTool, tool
from pydantic import Field, PrivateAttr

import certigraph

LOOK_UPS = {"look_up": "repeatable"}


def shop_tools(done: list[str]) -> list[BaseTool]:
    """The tools of a shop that appends to `done` what takes effect."""

    @tool
    def look_up(order: int) -> str:
        """Look up an order."""
        return f"order {order}: paid 64.00 euros, not refunded"

    @tool
    def refund(order: int, amount: float) -> str:
        """Refund an amount of an order."""
        done.append(f"refund {order} {amount}")
        return f"refunded {amount} euros of order {order}"

    @tool
    def mail(order: int) -> str:
        """Write to the customer of an order."""
        done.append(f"mail {order}")
        return f"mail about order {order} was sent"

    @tool
    def close(order: int) -> str:
        """Close the ticket of an order."""
        done.append(f"close {order}")
        return f"ticket of order {order} is closed"

    return [look_up, refund, mail, close]


Reply = AIMessage | str | Callable[[Sequence[BaseMessage]], AIMessage]


class ScriptedAgent(BaseChatModel):
    """Answers with the replies of a script, one after another; `requests` keeps the messages of each request."""

    replies: list[Any]
    requests: list[list[BaseMessage]] = Field(default_factory=list)
    bound: list[list[str]] = Field(default_factory=list)
    _left: Iterator[Any] = PrivateAttr()

    def model_post_init(self, context: Any) -> None:
        self._left = iter(self.replies)

    @property
    def _llm_type(self) -> str:
        return "scripted agent"

    def bind_tools(self, tools: Sequence[Any], **kwargs: Any) -> "ScriptedAgent":  # type: ignore[override]
        self.bound.append([getattr(one, "name", str(one)) for one in tools])
        return self

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        self.requests.append(messages)
        reply = next(self._left)
        if callable(reply):
            reply = reply(messages)
        message = AIMessage(reply) if isinstance(reply, str) else reply
        return ChatResult(generations=[ChatGeneration(message=message)])


def calls(*chosen: tuple[str, dict[str, Any]], text: str = "", first: str = "c") -> AIMessage:
    """A response that calls tools; ids are `c1`, `c2`, ..."""
    return AIMessage(
        text,
        tool_calls=[
            {"name": name, "args": args, "id": f"{first}{number}", "type": "tool_call"}
            for number, (name, args) in enumerate(chosen, 1)
        ],
    )


class Validator:
    """A scripted validator: `problems` by tool for checks, `missing` texts for answers, one after another."""

    answers_checks = True

    def __init__(
        self, problems: Any = None, missing: Any = (), holds: Any = (), left: str = "", by_calls: Any = (1,)
    ) -> None:
        self.problems, self.missing, self.holds, self.left = problems or {}, iter(missing), holds, left
        self.by_calls = by_calls
        self.prompts: list[str] = []

    def __call__(self, prompt: Any, schema: Any) -> Any:
        self.prompts.append(prompt)
        fields = schema["properties"]
        if "missing" in fields:
            found = {"reason": "seen", "by_calls": list(self.by_calls), "missing": next(self.missing, "")}
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
