"""Conditions that are joined by "and", for the rules of benchmarks: their parts, and the decision on all of them."""

import re
from collections.abc import Callable, Sequence
from typing import TypeVar

from certigraph.adapters.protocols import Decision

Part = TypeVar("Part")


def split_joined(text: str, joint: re.Pattern[str], parse: Callable[[str], Sequence[Part]]) -> tuple[Part, ...]:
    """Parse a text into the conditions that it joins; empty if one of them is in no known wording.

    Args:
        text: the condition.
        joint: pattern of what stands between two conditions. It may stand inside of one as well: "the pen and the mug
            are on the table".
        parse: function that parses one sentence into its conditions; empty if its wording is unknown.
    """
    if whole := parse(text):
        return tuple(whole)
    for match in joint.finditer(text):
        first = parse(text[: match.start()])
        if first and (rest := split_joined(text[match.end() :], joint, parse)):
            return (*first, *rest)
    return ()


def decide_all(decisions: Sequence[Decision | None]) -> Decision | None:
    """Return the decision on conditions that are joined: denied if one is denied, else None if one is undecided."""
    if denied := next((one for one in decisions if one and not one.holds), None):
        return denied
    quotes = dict.fromkeys(one.quote for one in decisions if one)
    return Decision(True, "; ".join(quotes)) if decisions and None not in decisions else None
