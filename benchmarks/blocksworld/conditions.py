"""Rules that decide conditions in BlocksWorld, whose view describes the complete state."""

import re
from collections import Counter
from functools import lru_cache

from certigraph.adapters.protocols import Decision
from certigraph.benchmarks.blocksworld.domain import (
    COLOURS,
    BlockFact,
    BlocksState,
    decide_condition,
    format_fact,
    occupied_slots,
    parse_condition,
    parse_observed,
    sort_facts,
)

WORDINGS = """\
The red block is on top of the blue block. The red block is on the table. The red block is clear. The hand is empty. The
hand is currently holding the red block. Such sentences can be joined by "and"."""
"""Wordings of conditions that are decided either way, for prompts."""

_BLOCK = rf"(?:{'|'.join(COLOURS.values())}) block|block (?:[a-z]\d*|\d+)"
_VARIANTS = (
    (re.compile(rf"\b(?:(?:the|an?) )?({_BLOCK})\b"), r"the \1"),
    (re.compile(rf"\bis on (?=the (?:{_BLOCK})\b)"), "is on top of "),
    (re.compile(r"\bthe hand (?:is holding|holds) "), "the hand is currently holding "),
)
"""Other wordings of facts, and the domain's own."""


def decide_in_view(text: str, view: str) -> Decision | None:
    """Decide a condition by a view; None if the view is not complete, or the condition claims more than facts.

    What does not hold is quoted by a fact that excludes it: another block that is on top, or another place.
    """
    state, words = parse_observed(view), _normalise_wording(text)
    holds = decide_condition(words, state) if _is_complete(state) else None
    facts = parse_condition(words) if holds is not None else None
    if not facts:
        return None
    if holds:
        return Decision(True, "; ".join(map(format_fact, sort_facts(facts))))
    missing = (_find_excluding(fact, state) for fact in sort_facts(facts - state))
    excluding = next(filter(None, missing), None)
    return Decision(False, format_fact(excluding)) if excluding else None


@lru_cache(maxsize=1024)
def _normalise_wording(text: str) -> str:
    plain = " ".join(text.lower().split())
    for variant, wording in _VARIANTS:
        plain = variant.sub(wording, plain)
    return plain


@lru_cache(maxsize=64)
def _is_complete(state: BlocksState) -> bool:
    # A view that was cut lacks facts, and their absence would deny what holds.
    slots = Counter(occupied_slots(state))
    blocks = {block for fact in state for block in fact.args}
    everything = {("hand",), *((slot, block) for slot in ("place", "cover") for block in blocks)}
    return bool(blocks) and set(slots) == everything and set(slots.values()) == {1}


def _find_excluding(fact: BlockFact, state: BlocksState) -> BlockFact | None:
    # None for a block that the state does not have.
    slots = {*occupied_slots([fact])}
    return next((other for other in sort_facts(state) if slots & {*occupied_slots([other])}), None)
