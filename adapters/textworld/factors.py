"""TextWorld's text as factored states: things, and what the objective asks for as states of them."""

from collections.abc import Sequence

from certigraph.adapters.textworld.objectives import Wish, asks_to_cook, recipe_wishes, wishes_in
from certigraph.adapters.textworld.observing import (
    CLOSED,
    DONE_TO,
    EATEN,
    FLOOR,
    HANDS,
    LOCKED,
    MEAL,
    MOVES,
    OPEN,
    RECIPE,
    UNLOCKED,
    Belief,
    observed,
    route,
)
from certigraph.state.factored import FactoredState, as_mapping, factored

UNKNOWN_DISH = (
    Wish("read", "cookbook"),
    Wish("take", "ingredient"),
    Wish("cook", "ingredient"),
    Wish("prepare", MEAL),
    Wish("eat", MEAL),
)
"""What any recipe will ask for, before it is read."""

STATUS = "status"
"""Attribute of what is asked for: whether it has come about."""


class TextWorldFactors:
    """Keeps what was read of each thing, for a text tells of few; and how far what is asked for has come about.

    Written by hand for TextWorld's grammar of sentences; the paper has a language model extract. The objective's own
    instructions, or the recipe's, are its milestones: each is a thing of the goal state with a status, and counts as
    come about also where something that is asked for after it has. A goal that asks for nothing it knows is empty.
    """

    def extract(self, state: FactoredState, goal: str, action: str, observation: str) -> FactoredState:
        """The things known, and what is asked for with its status."""
        before = {name: has for name, has in as_mapping(state).items() if STATUS not in has}
        known = observed(before, action, observation)
        wishes = _wishes(goal, known)
        reached = _reached(wishes, known)
        asked = {_name(wishes, n): {STATUS: _told(wish, n < reached)} for n, wish in enumerate(wishes)}
        return factored({**known, **asked})

    def interpret(self, goal: str, state: FactoredState, before: FactoredState) -> FactoredState:
        """What is asked for, come about; of a dish, what is known of its recipe."""
        wishes = _wishes(goal, as_mapping(state))
        return factored({_name(wishes, n): {STATUS: _told(wish, True)} for n, wish in enumerate(wishes)})


def _wishes(goal: str, known: Belief) -> tuple[Wish, ...]:
    if not asks_to_cook(goal):
        return wishes_in(goal)
    recipe = known.get(RECIPE, {}).get("text", "")
    return tuple(w for w in recipe_wishes(recipe) if _open(w, known)) if recipe else UNKNOWN_DISH


def _open(wish: Wish, known: Belief) -> bool:
    """Whether a recipe's direction asks for anything: what came cut needs no knife."""
    return wish.kind not in ("slice", "dice", "chop") or "cut" in known.get(wish.thing, {})


def _reached(wishes: Sequence[Wish], known: Belief) -> int:
    """How many wishes have come about: up to the last one that holds now."""
    return max((n for n, _ in enumerate(wishes, 1) if _holds(wishes[:n], known)), default=0)


def _holds(wishes: Sequence[Wish], known: Belief) -> bool:
    """Whether the last of these wishes holds."""
    wish = wishes[-1]
    has = known.get(wish.thing, {})
    match wish.kind:
        case "go":
            return route(known) == _destination(wishes) and _arrived(wishes, known)
        case "read":
            return RECIPE in known
        case "open" | "close":
            return has.get("openness") == {"open": OPEN, "close": CLOSED}[wish.kind]
        case "unlock" | "lock":
            return has.get("lock") == {"unlock": UNLOCKED, "lock": LOCKED}[wish.kind]
        case kind if kind in DONE_TO:
            return DONE_TO[kind] in has.values()
        case _:
            return has.get("location") == _place(wish)


def _arrived(wishes: Sequence[Wish], known: Belief) -> bool:
    """Whether being there says that one came this way: not where the way leads back, and its errands are not done."""
    passed = {_destination(wishes[:n]) for n in range(len(wishes))}
    errands = (wishes[:n] for n, wish in enumerate(wishes, 1) if wish.kind != "go")
    return _destination(wishes) not in passed or all(_holds(errand, known) for errand in errands)


def _destination(wishes: Sequence[Wish]) -> tuple[int, int]:
    steps = [MOVES[wish.thing] for wish in wishes if wish.kind == "go"]
    return sum(east for east, _ in steps), sum(north for _, north in steps)


def _place(wish: Wish) -> str:
    """Where a wish wants its thing."""
    places = {"take": HANDS, "prepare": HANDS, "drop": FLOOR, "eat": EATEN}
    return places.get(wish.kind) or f"{'on' if wish.kind == 'put' else 'in'} the {wish.other}"


def _name(wishes: Sequence[Wish], place: int) -> str:
    wish = wishes[place]
    nth = sum(other == wish for other in wishes[:place])
    return f"{wish.kind} {wish.thing}" + (f" ({nth + 1})" if nth else "")


def _told(wish: Wish, reached: bool) -> str:
    return f"{wish.thing}: {wish.kind} done" if reached else f"{wish.thing}: not yet"
