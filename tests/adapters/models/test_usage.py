"""Tests of `adapters.models.usage`."""

from typing import Any

import pytest
from langchain_core.messages import HumanMessage
from langchain_core.messages.ai import UsageMetadata

from certigraph.adapters.models.prices import FREE_PRICE, Price, cached_tokens
from certigraph.adapters.models.usage import NO_USAGE, Call, Meter, usage_of
from certigraph.adapters.protocols import Budget


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


@pytest.mark.parametrize("usage", [make_usage(5), make_usage(2, **CACHED), NO_USAGE])
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
        make_usage(5, **WRITTEN_CACHE),
    ],
)
def test_what_cannot_be_is_counted_here(usage: UsageMetadata | None) -> None:
    counted = usage_of(usage, PROMPT, TEXT)
    assert 5 < counted["input_tokens"] < 50 and 2 < counted["output_tokens"] < 20
    assert cached_tokens(counted) == 0
