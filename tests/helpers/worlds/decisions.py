"""Decisions of a benchmark's rules, and the wordings of conditions that it recommends, for tests of both."""

from certigraph.adapters.protocols import Decision


def held(decision: Decision | None, *shown: str) -> bool | None:
    """Whether the condition was found to hold; the world has shown all the words that are quoted for it."""
    assert decision is None or all(any(quote in text for text in shown) for quote in decision.quote.split("; "))
    return decision.holds if decision else None


def sentences_of(wordings: str, until: str = " Such sentences") -> list[str]:
    """The recommended wordings, up to the words that follow them."""
    return " ".join(wordings.split()).partition(until)[0].replace(". ", ".\n").splitlines()
