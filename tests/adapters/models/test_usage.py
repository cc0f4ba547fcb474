"""Tests of `adapters.models.usage`."""

import json
from itertools import count
from typing import Any

import pytest
from langchain_core.language_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.messages.ai import UsageMetadata
from langchain_core.outputs import ChatGeneration, ChatResult
from pydantic import Field

from certigraph import LimitReached, agent
from certigraph.adapters.models.prices import FREE_PRICE, Price, cached_tokens
from certigraph.adapters.models.usage import NO_USAGE, Call, Meter, usage_of
from certigraph.adapters.protocols import Budget, Limits


@pytest.mark.parametrize(
    ("price", "cached", "unpriced"), [(None, False, True), (None, True, False), (FREE_PRICE, False, False)]
)
def test_a_call_whose_price_is_unknown_is_recorded_as_such(price: Price | None, cached: bool, unpriced: bool) -> None:
    meter, call = Meter("propose", Budget()), Call(role="planner", model="m", schema_name="text")
    with meter.open_call(call, price) as opened:
        opened.settle(call.model_copy(update={"cached": cached}))
    assert [record.unpriced for record in meter.records] == [unpriced]
    assert ("unpriced" in meter.records[0].as_json()) is unpriced


# What an endpoint says that it counted: believed where it can be, counted here where it cannot.

PROMPT, TEXT = [HumanMessage("Which of the two hotels is it to be?")], "The second one."
CACHED = {"input_token_details": {"cache_read": 2}}
WRITTEN_CACHE = {"input_token_details": {"cache_creation": -2}}


def make_usage(read: Any, wrote: Any = 1, **more: Any) -> UsageMetadata:
    return UsageMetadata(input_tokens=read, output_tokens=wrote, total_tokens=0, **more)


@pytest.mark.parametrize("usage", [make_usage(5), make_usage(2, **CACHED)])
def test_what_can_be_is_believed(usage: UsageMetadata) -> None:
    assert usage_of(usage, PROMPT, TEXT) == usage


@pytest.mark.parametrize(
    "usage",
    [
        None,
        make_usage(-5),
        make_usage(5, -1),
        make_usage(float("nan")),
        make_usage(10**400),
        make_usage("5"),
        make_usage(True),
        make_usage(1, **CACHED),
        NO_USAGE,
        make_usage(0, 5),
        make_usage(5, 0),
        make_usage(5, **WRITTEN_CACHE),
    ],
)
def test_what_cannot_be_is_counted_here(usage: UsageMetadata | None) -> None:
    counted = usage_of(usage, PROMPT, TEXT)
    assert 5 < counted["input_tokens"] < 50 and 2 < counted["output_tokens"] < 20
    assert cached_tokens(counted) == 0


def test_a_count_far_below_what_the_texts_have_is_not_believed() -> None:
    long = [HumanMessage("a word or two " * 1_000)]
    for usage in (make_usage(1, 100), make_usage(4_000, 1)):
        counted = usage_of(usage, long, "and another " * 1_000)
        assert counted["input_tokens"] > 2_000 and counted["output_tokens"] > 2_000
    assert usage_of(make_usage(100, 100), long, "and another " * 1_000) == make_usage(100, 100)  # another tokenizer
    assert usage_of(make_usage(3_000, 0), long, "") == make_usage(3_000, 0)  # nothing was written


def test_a_model_that_reports_no_tokens_ends_at_the_budget_of_tokens() -> None:
    def look(what: str) -> str:
        """Look at something."""
        return f"seen {what}"

    options: Any = {"effects": {"look": "repeatable"}, "commitments": None, "on_limit": "raise"}
    options |= {"limits": Limits(steps=400)}
    graph = agent("react", model=FakeUsage(), tools=[look], budget=Budget(tokens=5_000, calls=400), **options)
    with pytest.raises(LimitReached, match="tokens"):
        graph.invoke({"goal": "Look at everything."}, {"recursion_limit": 10_000})


class FakeUsage(GenericFakeChatModel):
    """Looks at one thing after another, and says that it took no tokens."""

    messages: Any = ()
    numbers: Any = Field(default_factory=count)

    def _generate(self, messages: Any, stop: Any = None, run_manager: Any = None, **kwargs: Any) -> ChatResult:
        reply = {"thought": "", "calls": [{"name": "look", "args": {"what": str(next(self.numbers))}}]}
        message = AIMessage(json.dumps(reply), usage_metadata=NO_USAGE)
        return ChatResult(generations=[ChatGeneration(message=message)])
