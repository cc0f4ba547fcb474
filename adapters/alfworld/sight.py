"""What an agent sees where it stands, in the world's own words, without a command being spent on it."""

import re
from collections.abc import Iterable

Fact = tuple[str, ...]
"""A predicate's name and the names of what it is about: ("inreceptacle", "apple 2", "fridge 1")."""


def sight(facts: frozenset[Fact]) -> str:
    """The receptacles that the agent faces, what is to be seen in them, and what it carries."""
    here = {place for name, *args in facts if name == "atlocation" for place in args[1:]}
    faced = [fact[1] for fact in facts if fact[0] == "receptacleatlocation" and fact[2] in here]
    carried = [fact[2] for fact in facts if fact[0] == "holds"]
    told = f"You are carrying: {_listed(carried)}." if carried else "You are not carrying anything."
    return "\n".join([*(_receptacle(name, facts) for name in sorted(faced, key=_natural)), told])


def _receptacle(name: str, facts: frozenset[Fact]) -> str:
    inside = _listed(fact[1] for fact in facts if fact[0] == "inreceptacle" and fact[2] == name)
    if ("openable", name) not in facts:
        return f"On the {name}, you see {inside}."
    return f"The {name} is open. In it, you see {inside}." if ("opened", name) in facts else f"The {name} is closed."


def _listed(names: Iterable[str]) -> str:
    *first, last = [f"a {name}" for name in sorted(names, key=_natural)] or ["nothing"]
    return f"{', '.join(first)}, and {last}" if first else last


def _natural(name: str) -> tuple[str, int]:
    """Cabinet 10 comes after cabinet 9."""
    number = re.search(r"\d+$", name)
    return re.sub(r"\d+$", "", name), int(number[0]) if number else 0
