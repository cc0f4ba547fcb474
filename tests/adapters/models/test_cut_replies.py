"""Replies that were cut: with the client libraries of providers against endpoints that speak their wire forms."""

import json
from typing import Any

import pytest
from helpers.servers.provider_endpoint import (
    MARKED,
    PROVIDERS,
    SILENT,
    WHOLE,
    Reply,
    chat_model,
    provider_endpoint,
)

import certigraph
from certigraph.adapters.protocols import Budget
from certigraph.state.endings import Fault

ARGUMENTS = json.dumps({"thought": "t", "order": 17, "amount": 49.9})
TEXT = json.dumps({"thought": "t", "calls": [{"name": "refund", "args": {"order": 17, "amount": 49.9}}]})
FINISH = Reply(tool="finish", arguments=json.dumps({"thought": "t", "answer": "done"}))
CUT_ARGUMENTS, CUT_TEXT = ARGUMENTS[: ARGUMENTS.index("49") + 1], TEXT[: TEXT.index("49") + 1]

REPLIES = {
    "call": Reply(tool="refund", arguments=ARGUMENTS),
    "text": Reply(text=TEXT),
    "call, cut in its arguments": Reply(tool="refund", arguments=CUT_ARGUMENTS, end=MARKED),
    "text, cut": Reply(text=CUT_TEXT, end=MARKED),
    "call, cut after it": Reply(tool="refund", arguments=ARGUMENTS, end=MARKED),
    "text, cut after it": Reply(text=TEXT, end=MARKED),
    "call, ended in its arguments": Reply(tool="refund", arguments=CUT_ARGUMENTS, end=SILENT),
    "text, ended": Reply(text=CUT_TEXT, end=SILENT),
    "call, ended after it": Reply(tool="refund", arguments=ARGUMENTS, end=SILENT),
}


class Office:
    """A office whose agent refunds an order by a provider's model. The first replies are the given one."""

    def __init__(self, provider: str, reply: Reply, *, streamed: bool, times: int = 100) -> None:
        self.paid: list[float] = []
        self.ending = ""

        def answer(request: str, number: int) -> Reply:
            if "refunded 49.9" in request:
                return FINISH
            return reply if number < times else REPLIES["call"]

        def refund(order: int, amount: float) -> str:
            """Refund an order."""
            self.paid.append(amount)
            return f"refunded {amount}"

        with provider_endpoint(answer) as server:
            model = chat_model(provider, server.url)
            agent = certigraph.agent(
                "react", model=model, tools=[refund], commitments=None, check=None, audit=None, budget=Budget(calls=9)
            )
            given: Any = {"messages": [("user", "Refund 49.9 euros for order 17.")]}
            try:
                if streamed:
                    modes: Any = ["messages", "values"]
                    states = [part for mode, part in agent.stream(given, stream_mode=modes) if mode == "values"]
                    self.ending = states[-1]["ending"]
                else:
                    self.ending = agent.invoke(given)["ending"]
            except Fault as fault:
                self.ending = f"error:{fault.boundary}"
            self.requests = len(server.bodies)


def is_whole(provider: str, case: str) -> bool:
    """Whether a reply of the table is complete. vLLM marks a call that was cut as complete."""
    return REPLIES[case].end == WHOLE or (provider == "vllm" and case == "call, cut after it")


@pytest.mark.slow
@pytest.mark.parametrize("streamed", [False, True], ids=["plain", "streamed"])
@pytest.mark.parametrize("case", REPLIES)
@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_whole_reply_is_carried_out_once_and_a_cut_one_never(provider: str, case: str, streamed: bool) -> None:
    office = Office(provider, REPLIES[case], streamed=streamed)
    expected = ([49.9], "finished") if is_whole(provider, case) else ([], "error:model")
    assert (office.paid, office.ending) == expected


@pytest.mark.slow
@pytest.mark.parametrize("streamed", [False, True], ids=["plain", "streamed"])
@pytest.mark.parametrize("end", [MARKED, SILENT])
@pytest.mark.parametrize("provider", PROVIDERS)
def test_the_request_for_a_cut_reply_is_made_again(provider: str, end: str, streamed: bool) -> None:
    cut = Reply(text=CUT_TEXT, end=end)
    office = Office(provider, cut, streamed=streamed, times=1)
    assert (office.paid, office.ending, office.requests) == ([49.9], "finished", 3)
