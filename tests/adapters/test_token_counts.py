"""What an endpoint says that it billed: believed where it can be, counted here where it cannot."""

from typing import Any

import pytest
from langchain_core.messages import HumanMessage
from langchain_core.messages.ai import UsageMetadata

from certigraph.adapters.models.usage import NO_USAGE, cached_tokens, usage_of

ASKED, TEXT = [HumanMessage("Which of the two hotels is it to be?")], "The second one."
CACHED = {"input_token_details": {"cache_read": 2}}


def told(read: Any, wrote: Any = 1, **more: Any) -> UsageMetadata:
    return UsageMetadata(input_tokens=read, output_tokens=wrote, total_tokens=0, **more)


@pytest.mark.parametrize("usage", [told(5), told(2, **CACHED), NO_USAGE])
def test_what_can_be_is_believed(usage: UsageMetadata) -> None:
    assert usage_of(usage, ASKED, TEXT) == usage


@pytest.mark.parametrize(
    "usage",
    [None, told(-5), told(5, -1), told(float("nan")), told(10**400), told("5"), told(True), told(1, **CACHED)],
)
def test_what_cannot_be_is_counted_here(usage: UsageMetadata | None) -> None:
    counted = usage_of(usage, ASKED, TEXT)
    assert 5 < counted["input_tokens"] < 50 and 2 < counted["output_tokens"] < 20
    assert cached_tokens(counted) == 0
