"""The actions that can make a condition of a known wording true: the grounding of Realize beyond the paper."""

from collections.abc import Callable, Iterator, Sequence

from certigraph.adapters.embeddings import encoder
from certigraph.adapters.matching import shortlist
from certigraph.adapters.scienceworld.draft import ROOMS
from certigraph.adapters.scienceworld.wording import Condition, names, read, vague

GOING = ("teleport to ", "go to ")
MEANT = {"living thing": "animal or plant", "non-living thing": "tool or furniture"}
"""Kinds in words that names of things are near to."""

NOWHERE_A_GOAL = ("air", "agent", *ROOMS)
"""What can be focused on everywhere and is never what a task is about."""

SEEN_ROOMS = "Rooms seen: "
"""How the world's view begins the line of the rooms that were entered."""


def offers(
    target: str, actions: Sequence[str], view: str, *, focused: str = "", most: int = 20, few: int = 20
) -> list[str]:
    """At most `most` actions for a target, the most relevant first.

    An action of focus is offered only for a target that speaks of focus, on what the target names: a wrong one ends
    everything.

    Args:
        target: the condition.
        actions: what the world admits.
        view: what the world shows.
        focused: what the agent focused on last; "the living thing" means that from then on.
        most: actions offered at most.
        few: the same where meaning alone decides, as in which room to look for a thing.
    """
    condition = read(target)
    if condition is None:
        return shortlist([target], actions if _about_focus(target) else harmless(actions), most=most)
    if focused and condition.kind in ("have", "placed") and vague(condition.thing):
        condition = condition._replace(thing=focused)
    suited = list(_suited(condition, actions, view))
    if condition.kind == "be":
        return suited[:most]
    if condition.kind == "found" or (condition.kind == "focus" and vague(condition.thing)):
        return _likely(condition.thing, suited, few)
    related = [action for action in suited if names(condition.thing, action)]
    return shortlist([target], related or harmless(actions), most=most, encoder=encoder())


def harmless(actions: Sequence[str]) -> list[str]:
    """The actions that focus on nothing."""
    return [action for action in actions if not _about_focus(action)]


def _likely(thing: str, actions: Sequence[str], most: int) -> list[str]:
    """The actions whose room or thing is nearest in meaning; the world's first where no encoder is installed."""
    compared, meant = encoder(), MEANT.get(thing.lower(), thing)
    if compared is None or not actions:
        return list(actions[:most])
    vectors = compared.encode([meant, *(_object(action) for action in actions)])
    order = sorted(range(len(actions)), key=lambda n: -float(vectors[n + 1] @ vectors[0]))
    return [actions[n] for n in order[:most]]


def _object(action: str) -> str:
    return action.removeprefix("focus on ").removeprefix(GOING[0]).removeprefix(GOING[1])


def _suited(condition: Condition, actions: Sequence[str], view: str) -> Iterator[str]:
    match condition.kind:
        case "be":
            yield from _going(actions, lambda room: names(condition.place, room))
        case "found":
            seen = next((line for line in view.splitlines() if line.startswith(SEEN_ROOMS)), "")
            yield from _going(actions, lambda room: room not in seen)
        case "focus":
            yield from (a for a in actions if a.startswith("focus on ") and _object(a) not in NOWHERE_A_GOAL)
        case "have":
            yield from (action for action in actions if action.startswith("pick up "))
        case "placed":
            yield from (a for a in actions if a.startswith("move ") and names(condition.place, a.rpartition(" to ")[2]))


def _going(actions: Sequence[str], wanted: Callable[[str], bool]) -> list[str]:
    """Ways to the wanted rooms; by teleport alone where the world allows it."""
    ways = [action for action in actions for verb in GOING if action.startswith(verb) and wanted(action[len(verb) :])]
    return [way for way in ways if way.startswith(GOING[0])] or ways


def _about_focus(text: str) -> bool:
    return "focus" in text.lower()
