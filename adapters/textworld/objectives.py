"""What TextWorld's objectives ask for: each instruction of their prose as a wish; cooking's come from the cookbook."""

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

PLACED = r"(?: (?:in|within|inside) the [\w -]+)?"
"""In which room; no part of a name."""

ENSURED = r"(?:ensure|assure|sure|so|doublecheck|see|check) (?:that )?the"

COMPASS = r"(?P<thing>north|south|east|west)"

PATTERNS: tuple[tuple[str, str], ...] = (
    ("unlock", rf"insert the (?P<other>.+?) into the (?P<thing>.+?){PLACED}'s lock to unlock it"),
    ("unlock", rf"unlock the (?P<thing>.+?){PLACED}(?: (?:with|using) the (?P<other>.+))?"),
    ("unlock", rf"{ENSURED} (?P<thing>.+?){PLACED} is unlocked(?: with the (?P<other>.+))?"),
    ("lock", rf"\block the (?P<thing>.+?){PLACED}(?: with the (?P<other>.+))?"),
    ("lock", rf"{ENSURED} (?P<thing>.+?){PLACED} is locked(?: with the (?P<other>.+))?"),
    ("open", rf"open the (?P<thing>.+?){PLACED}"),
    ("open", rf"{ENSURED} (?P<thing>.+?){PLACED} is (?:opened|open|wide open|ajar)"),
    ("close", rf"close the (?P<thing>.+?){PLACED}"),
    ("close", rf"{ENSURED} (?P<thing>.+?){PLACED} is (?:closed|shut)"),
    ("drop", r"(?:place|drop|ditch|throw|toss|deposit|put) the (?P<thing>.+?) on the (?:floor|ground).*"),
    ("put", rf"(?:put|place|sit|rest) the (?P<thing>.+?) on the (?P<other>.+?){PLACED}"),
    ("insert", rf"(?:insert|put|place|deposit) the (?P<thing>.+?) (?:into|inside|in) the (?P<other>.+?){PLACED}"),
    (
        "take",
        r"(?:take|retrieve|recover|pick[ -]up|lift) the (?P<thing>.+?)"
        rf"(?: (?:from|in|that's in) the (?P<other>.+?){PLACED})?",
    ),
    ("eat", r"eat the (?P<thing>.+?)"),
    ("go", rf"(?:go|head|venture|travel|move|trip)(?: to the)? {COMPASS}"),
    ("go", rf"through the {COMPASS} .+"),
)

WISHES = [(kind, re.compile(rf"(?:.*\b)?{pattern}")) for kind, pattern in PATTERNS]

PIECES = re.compile(r"[.!?,]\s+|[.!?,]$|\s+and (?=(?:place|put|insert|drop|eat|take|open|unlock|close|lock|use)\b)")

SUBORDINATE = ("after ", "having ", "once ", "if ", "with ", "that ")

IT = re.compile(r"(?<!to )\b(put|place|insert|drop|eat|take|open|unlock|close|lock) it\b")

LONGEST = 300
"""Characters of an instruction; TextWorld's have a hundred, and looking through one takes time with their cube."""

INSTRUCTION = re.compile(r"(?P<how>slice|dice|chop|fry|roast|grill) the (?P<thing>.+)")


class Wish(NamedTuple):
    """One thing that the objective asks for: what to do, with what, and with which other thing."""

    kind: str
    thing: str
    other: str = ""


@lru_cache(maxsize=1_024)
def wishes_in(objective: str) -> tuple[Wish, ...]:
    """The wishes of a quest in their order; `it` stands for the thing before. Empty for what says none."""
    found: list[Wish] = []
    for piece in PIECES.split(" ".join(objective.split())):
        wish = _wish(piece.strip().lower().rstrip("."), found[-1].thing if found else "")
        if wish and (wish.kind == "go" or wish not in found):
            found.append(wish)
    return tuple(found)


def asks_to_cook(objective: str) -> bool:
    """Whether the wishes are in a cookbook."""
    return "cookbook" in objective.lower()


def recipe_wishes(recipe: str) -> tuple[Wish, ...]:
    """What a recipe asks for: every ingredient, each thing done to it, the meal.

    Args:
        recipe: as the cookbook has it: "Ingredients:", then a line each, "Directions:", then a line each.
    """
    listed, _, directions = recipe.partition("Directions:")
    ingredients = [line.strip().lower() for line in listed.partition("Ingredients:")[2].splitlines() if line.strip()]
    done = [Wish(m["how"], m["thing"].strip().lower()) for m in INSTRUCTION.finditer(directions)]
    return tuple(_dish(ingredients, done))


def _dish(ingredients: list[str], done: list[Wish]) -> Iterator[Wish]:
    yield Wish("read", "cookbook")
    for thing in ingredients:
        yield Wish("take", thing)
        yield from (wish for wish in done if wish.thing == thing)
    yield from (Wish("prepare", "meal"), Wish("eat", "meal"))


def _wish(piece: str, before: str) -> Wish | None:
    if piece.startswith(SUBORDINATE) or len(piece) > LONGEST:
        return None
    text = IT.sub(rf"\1 the {before}", piece) if before else piece
    for kind, pattern in WISHES:
        if match := pattern.fullmatch(text):
            parts = match.groupdict()
            return Wish(kind, parts["thing"], parts.get("other") or "")
    return None
