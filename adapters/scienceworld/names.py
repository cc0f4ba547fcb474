"""Names in actions: what a written action may mean, and whether the world shows its things under those names.

The world accepts more names than it lists: "pick up seed jar" where it lists "pick up seed plant on seed jar", and
"focus on unknown substance B" where it lists "focus on unknown substance".
"""

import re
from collections.abc import Mapping, Sequence

from certigraph.adapters.matching import is_focus, tokens
from certigraph.adapters.scienceworld.prompts import SYNONYMS
from certigraph.adapters.scienceworld.world import normalise_text

_BETWEEN = {
    **dict.fromkeys(("dunk", "move", "pour"), re.compile(r" (?:into|onto|to) | (?:in|on) (?!.* (?:into|onto|to) )")),
    "connect": re.compile(r" (?:to|with) "),
    "use": re.compile(r" (?:on|with) "),
}
"""Verb that takes two things -> pattern of the word between them. With other verbs, such words belong to a name."""

_QUALIFIER = re.compile(r" (?:\(|(?:at|containing|from|in|of|on|titled|with) ).*")
"""Pattern of what follows the name of a thing and says which one is meant."""

_PLACED = re.compile(r"(.+) (?:in|on) (.+)")
"""Pattern of a name that says where a thing is."""

_TITLED = re.compile(r"\b(?:(?:a|the) )?recipe titled ")
"""Pattern of the words before the title of a recipe, which is its name."""

_PARTICLES = re.compile(r"^(?:(?:up|on|to|in|at|down|the|an?)(?: |$))+")
"""Pattern of the words between a verb and the name of a thing."""


def find_action(written: str, actions: Sequence[str], view: str) -> str | None:
    """Return the action that a written one means without doubt; None if there is doubt."""
    if translate(written) == normalise_text(written) and is_in_view(written, view):
        return written
    meanings = find_meanings(written, actions)
    if normalise_text(written) in map(normalise_text, meanings):
        return written
    is_clear = len(meanings) == 1 and not is_focus(written) and is_same_but_qualified(written, meanings[0])
    return meanings[0] if is_clear else None


def find_meanings(written: str, actions: Sequence[str]) -> list[str]:
    """Return the actions that a written one may mean.

    They have the same verb and as many things, and of the two names of each thing one has all words of the other, as
    "dove egg" and "dove".
    """
    text = translate(written)
    if exact := [action for action in actions if normalise_text(action) == text]:
        return exact
    verb, *named = _name_things(text)
    return [action for action in actions if _may_mean_things(verb, named, *_name_things(normalise_text(action)))]


def translate(written: str, synonyms: Mapping[str, str] = SYNONYMS) -> str:
    """Return an action with the world's verb for a synonym, and a recipe's title for "recipe titled ..."."""
    text = _TITLED.sub("", normalise_text(written))
    synonym = max((word for word in synonyms if f"{text} ".startswith(f"{word} ")), key=len, default="")
    return f"{synonyms[synonym]}{text[len(synonym) :]}" if synonym else text


def _name_things(action: str) -> list[str]:
    """Return the verb of an action and the names of the one or two things that it is done with."""
    verb, _, rest = normalise_text(action).partition(" ")
    things = _BETWEEN[verb].split(rest, maxsplit=1) if verb in _BETWEEN else [rest]
    return [verb, *(name for thing in things if (name := _PARTICLES.sub("", thing)))]


def is_same_but_qualified(written: str, action: str) -> bool:
    """Return whether an action only adds to a written one where a thing is or what it holds, as "pot (in kitchen)"."""
    pairs = list(zip(_name_things(translate(written)), _name_things(action), strict=True))
    adds = all(tokens(one) <= tokens(other) for one, other in pairs)
    return adds and all(_QUALIFIER.sub("", one) == _QUALIFIER.sub("", other) for one, other in pairs)


def _may_mean_things(verb: str, named: Sequence[str], other_verb: str, *others: str) -> bool:
    if verb != other_verb or len(named) != len(others):
        return False
    pairs = [(tokens(one), tokens(other)) for one, other in zip(named, others, strict=True)]
    return all(one and other and (one <= other or other <= one) for one, other in pairs)


def is_in_view(action: str, view: str) -> bool:
    """Return whether the world shows all things of an action under the names that the action gives them.

    A name may say what a thing holds or where it is, unless the action is a focus: "wood cup containing red paint".
    """
    shown = "\n".join(map(normalise_text, view.splitlines()))
    return all(_is_shown(thing, shown, whole=is_focus(action)) for thing in _name_things(action)[1:])


def _is_shown(thing: str, view: str, *, whole: bool) -> bool:
    patterns = [rf"(?:^\s*|\b(?:an?|the|called|containing) |[,:] ){re.escape(thing)}(?= \(|[.,)]|$)"]
    holder, _, content = map(re.escape, thing.partition(" containing "))
    if whole:
        pass  # a focus cannot be undone: the name has to be the world's
    elif content:
        patterns.append(rf"\b{holder} \(containing (?:an? substance called )?{content}\)")
    elif parts := _PLACED.fullmatch(thing):
        content, holder = map(re.escape, parts.groups())
        patterns.append(rf"\b{holder} \(containing [^()]*\b{content}\b|\b[io]n the {holder} is: .*\b{content}\b")
    return any(re.search(pattern, view, re.MULTILINE) for pattern in patterns)
