"""Names in actions: what a written action may mean, and whether the world shows its things under those names.

The world accepts more names than it lists: "pick up seed jar" where it lists "pick up seed plant on seed jar", and
"focus on unknown substance B" where it lists "focus on unknown substance".
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from certigraph.adapters.matching import is_focus, tokens
from certigraph.benchmarks.scienceworld.prompts import SYNONYMS
from certigraph.benchmarks.scienceworld.world import normalise_text

_BETWEEN = {
    **dict.fromkeys(("dunk", "move", "pour"), re.compile(r" (?:into|onto|to) | (?:in|on) (?!.* (?:into|onto|to) )")),
    "connect": re.compile(r" (?:to|with) "),
    "use": re.compile(r" (?:on|with) "),
}
"""Verb that takes two things -> pattern of the word between them. With other verbs, such words belong to a name."""

_SYMMETRIC = "connect"
"""Verb that takes two things, of which either may be named first."""

_QUALIFIER = re.compile(r" (?:\(|(?:at|containing|from|in|of|on|titled|with) ).*")
"""Pattern of what follows the name of a thing and says which one is meant."""

_PLACED = re.compile(r"(.+) (?:in|on) (.+)")
"""Pattern of a name that says where a thing is."""

_TITLED = re.compile(r"\b(?:(?:a|the) )?recipe titled ")
"""Pattern of the words before the title of a recipe, which is its name."""

_PARTICLES = re.compile(r"^(?:(?:up|on|to|in|at|down|the|an?)(?: |$))+")
"""Pattern of the words between a verb and the name of a thing."""

_CONTAINING = re.compile(
    r"(?:(?P<inside>.+) (?:in|on) )?(?P<holder>.+?) containing (?P<contents>.+?)(?: (?:in|on) .+)?"
)
"""Pattern of a name that says what a thing holds."""

_HOLDER = re.compile(r"\b(an? ([\w' -]+?)) \(containing ([^()]+)\)", re.IGNORECASE)
"""Pattern of a thing in a view, with its name and the things that it holds."""

_DESCRIPTION = re.compile(r"\bA (?!door )([\w' -]+)")
"""Pattern of a thing that a view describes, with a capital letter, instead of naming it: "A blank paper"."""

_CLOSED = re.compile(r"\bthe ([\w' -]+) door is closed", re.IGNORECASE)
"""Pattern of a closed container in a view."""


def find_action(written: str, actions: Sequence[str], view: str) -> str | None:
    """Return the action that a written one means without doubt; None if there is doubt."""
    described = _name_described(view, actions)
    named = written if is_focus(written) else _replace_names(written, described)
    if translate(named) == normalise_text(named) and is_in_view(named, view, described):
        return named
    meanings = find_meanings(named, actions)
    if normalise_text(named) in map(normalise_text, meanings):
        return named
    if is_focus(named):
        return None
    if same := [action for action in meanings if _name_parts(action) == _name_parts(named)]:
        return same[0]
    if len(meanings) == 1 and is_same_but_longer(named, meanings[0], view):
        return meanings[0]
    by_contents = _find_by_contents(named, select_visible(actions, view), _read_holders(view, described))
    return by_contents[0] if len(by_contents) == 1 else None


def find_meanings(written: str, actions: Sequence[str]) -> list[str]:
    """Return the actions that a written one may mean.

    They have the same verb and as many things, and of the two names of each thing one has all words of the other, as
    "dove egg" and "dove".
    """
    text = translate(written)
    if exact := [action for action in actions if normalise_text(action) == text]:
        return exact
    verb, *named = _name_things(text)
    listed = {action: _name_things(normalise_text(action)) for action in actions}
    for names in (named, named[::-1]) if verb == _SYMMETRIC else (named,):
        if found := [action for action, others in listed.items() if _may_mean_things(verb, names, *others)]:
            return found
    return []


def select_likely(written: str, options: Sequence[str]) -> list[str]:
    """Return the distinct options of the world that a written action may mean, by what the briefing says.

    Of things of one name that which is carried is meant, and to pick up one that is not.
    """
    distinct, picks_up = list(dict.fromkeys(options)), translate(written).startswith("pick up ")
    return [one for one in distinct if _is_carried(one) is not picks_up] or distinct


def _is_carried(option: str) -> bool:
    """Return whether the first thing of an option of the world is carried: "seed (in jar, in inventory, in agent)"."""
    return "in inventory" in option.partition("(")[2].partition(")")[0]


def select_visible(actions: Sequence[str], view: str) -> list[str]:
    """Return the actions without those on things that the view shows to be out of sight, which the world lists too.

    Such a thing is in a container that is closed, or holds what nothing in the view holds.
    """
    closed = tuple(normalise_text(name) for name in _CLOSED.findall(view))
    holders = _read_holders(view, _name_described(view, actions))
    return [
        action for action in actions if all(_is_visible(name, closed, holders) for name in _name_things(action)[1:])
    ]


def translate(written: str) -> str:
    """Return an action with the world's verb for a synonym, and a recipe's title for "recipe titled ..."."""
    text = _TITLED.sub("", normalise_text(written))
    synonym = max((word for word in SYNONYMS if f"{text} ".startswith(f"{word} ")), key=len, default="")
    return f"{SYNONYMS[synonym]}{text[len(synonym) :]}" if synonym else text


def _name_things(action: str) -> list[str]:
    """Return the verb of an action and the names of the one or two things that it is done with."""
    verb, _, rest = normalise_text(action).partition(" ")
    things = _BETWEEN[verb].split(rest, maxsplit=1) if verb in _BETWEEN else [rest]
    return [verb, *(name for thing in things if (name := _PARTICLES.sub("", thing)))]


def _name_parts(action: str) -> tuple[str, list[str]]:
    """Return the verb of an action, and its things with the name of a part in one form: "anode in battery" has two.

    Two things that the verb joins are in one order, because it does not matter which is named first.
    """
    verb, *names = _name_things(translate(action))
    parts = [_PLACED.sub(r"\2 \1", name) for name in names]
    return verb, sorted(parts) if verb == _SYMMETRIC else parts


def is_same_but_longer(written: str, action: str, view: str) -> bool:
    """Return whether an action only adds to the names in a written one.

    It may add where a thing is or what it holds, as "pot (in kitchen)". It may add words in front, as "metal pot", if
    the view shows this thing and no other one of the written name.
    """
    pairs = list(zip(_name_things(translate(written)), _name_things(action), strict=True))
    adds, shown = all(tokens(one) <= tokens(other) for one, other in pairs), normalise_text(view)
    return adds and all(_is_only_one(_without_qualifier(one), _without_qualifier(other), shown) for one, other in pairs)


def _is_only_one(name: str, longer: str, view: str) -> bool:
    counts = [len(re.findall(rf"\b{re.escape(one)}\b", view)) for one in (name, longer)]
    return name == longer or (longer.endswith(f" {name}") and 0 < counts[0] == counts[1])


def _without_qualifier(thing: str) -> str:
    return _QUALIFIER.sub("", thing)


def carry_over_names(action: str, written: str, meant: str) -> str:
    """Return an action with the names that a correction gave to things: those of `meant` for those of `written`.

    Where a thing is and what it holds is not part of its name, because that may change, and a name that says so is not
    replaced. Nothing is learnt from a connection, since every wire has a "terminal 1". A focus, which cannot be undone,
    stays as it is.
    """
    before, after = (_name_things(text)[1:] for text in (translate(written), meant))
    if is_focus(action) or len(before) != len(after) or _name_things(meant)[0] in ("connect", "disconnect"):
        return action
    pairs = ((one, _without_qualifier(other)) for one, other in zip(before, after, strict=True) if _is_plain(one))
    names = {one: other for one, other in pairs if tokens(one) <= tokens(other) or tokens(other) <= tokens(one)}
    verb, _, rest = translate(action).partition(" ")
    between = _BETWEEN[verb].search(rest) if verb in _BETWEEN else None
    parts = [rest[: between.start()], between[0], rest[between.end() :]] if between else [rest]
    renamed = "".join(_rename(part, names) for part in parts)
    return action if renamed == rest else f"{verb} {renamed}"


def _is_plain(thing: str) -> bool:
    return _without_qualifier(thing) == thing


def _rename(part: str, names: Mapping[str, str]) -> str:
    thing = _PARTICLES.sub("", part)
    return f"{part.removesuffix(thing)}{names.get(thing, thing)}"


def _may_mean_things(verb: str, named: Sequence[str], other_verb: str, *others: str) -> bool:
    if verb != other_verb or len(named) != len(others):
        return False
    return all(map(_may_be_same, named, others))


def _may_be_same(written: str, listed: str) -> bool:
    """Return whether a listed name may be a written one, because one of them has all words of the other.

    What a written name says of a thing, as in "orange seed in flower pot", is not the thing.
    """
    words, others = tokens(written), tokens(listed)
    noun = _without_qualifier(written).rpartition(" ")[2]
    return bool(others) and (words <= others or (others <= words and noun in others))


def is_in_view(action: str, view: str, described: Mapping[str, str] = {}) -> bool:
    """Return whether the world shows all things of an action under the names that the action gives them.

    A name may say what a thing holds or where it is, unless the action is a focus: "wood cup containing red paint". In
    a focus the words that describe a thing count as its name, unless its name is known to be another one: if it is, the
    world refuses the focus.

    Args:
        action: the action.
        view: what the world shows.
        described: names of things by the words that describe them in the view.
    """
    whole, known = is_focus(action), {*described.values()}
    lines = (line if whole else _DESCRIPTION.sub("", line) for line in view.splitlines())
    shown, things = "\n".join(map(normalise_text, lines)), _name_things(action)[1:]
    if whole and any(described.get(thing, thing) != thing for thing in things):
        return False
    return all(thing in known or _is_shown(thing, shown, whole=whole) for thing in things)


def _is_shown(thing: str, view: str, *, whole: bool) -> bool:
    patterns = [rf"(?:^\s*|\b(?:an?|the|called|containing) |[,:] ){re.escape(thing)}(?= \(|[.,)]|$)"]
    if not whole and (placed := _PLACED.fullmatch(thing)) and (part := _part_of(view, placed[2])):
        return _is_shown(placed[1], part, whole=False)
    holder, _, content = map(re.escape, thing.partition(" containing "))
    if whole:  # a focus cannot be undone: one thing, and the name has to be the world's
        stage, _, kind = map(re.escape, thing.partition(" "))  # "seedling pea plant": "pea plant in the seedling stage"
        patterns += [rf"\b{kind} in the {stage} stage\b"] if kind else []
        return any(re.search(pattern, view, re.MULTILINE) for pattern in patterns) or _is_only_content(thing, view)
    if content:
        patterns.append(rf"\b{holder} \(containing (?:an? substance called )?{content}\)")
    elif parts := _PLACED.fullmatch(thing):
        content, holder = map(re.escape, parts.groups())
        patterns.append(rf"\b{holder} \(containing [^()]*\b{content}\b|\b[io]n the {holder} is: .*\b{content}\b")
    return any(re.search(pattern, view, re.MULTILINE) for pattern in patterns)


def _is_only_content(thing: str, view: str) -> bool:
    """Return whether the view shows a single kind of thing that the name can mean, in the one place that it names."""
    content, _, place = thing.partition(" in ")
    holders = [holder for holder in _read_holders(view, {}) if holder.name == place]
    fitting = {name for holder in holders for name in holder.contents if tokens(content) <= tokens(name)}
    return len(holders) == 1 and fitting == {content}


def _part_of(view: str, place: str) -> str:
    """Return the part of a normalised view that lists what is in the inventory or in the agent's room; else nothing."""
    room, _, inventory = view.partition("in your inventory, you see:")
    named = re.search(r"this (?:room|outside location) is called the ([a-z ]+)\.", room)
    return inventory if place == "inventory" else room if named and named[1] == place else ""


# Things that the view describes instead of naming them, and things that are named by what they hold.


def _name_described(view: str, actions: Sequence[str]) -> dict[str, str]:
    """Return the names under which the world lists the things that its view describes: "blank paper" -> "paper"."""
    described = [normalise_text(words) for words in _DESCRIPTION.findall(view)]
    listed = {name for action in actions for name in _name_things(action)[1:]} if described else set[str]()
    return {words: name for words in described if (name := next((n for n in _ends_of(words) if n in listed), ""))}


def _ends_of(words: str) -> Iterator[str]:
    parts = words.split()
    return (" ".join(parts[start:]) for start in range(len(parts)))


def _replace_names(written: str, names: Mapping[str, str]) -> str:
    for words, name in names.items():
        quoted = name.replace("\\", r"\\")
        written = re.sub(rf"\b{re.escape(words)}\b", quoted, written, flags=re.IGNORECASE)
    return written


class _Holder(NamedTuple):
    """Thing that the view shows with what it holds."""

    name: str
    contents: tuple[str, ...]

    def is_called(self, thing: str, *, whole: bool) -> bool:
        """Return whether a name is this thing's by what it holds; all contents have to be named if `whole` is true."""
        named = _CONTAINING.fullmatch(thing)
        return bool(named and not named["inside"]) and self.is_named_in(thing, whole=whole)

    def is_named_in(self, thing: str, *, whole: bool) -> bool:
        """Return whether a name is this thing's, or says of another thing that it is in or on this one."""
        named = _CONTAINING.fullmatch(thing)
        if not named or not tokens(named["holder"]) <= tokens(self.name):
            return False
        contents = re.split(r", | and ", named["contents"])
        held = all(any(tokens(one) <= tokens(other) for other in self.contents) for one in contents)
        return held and (len(contents) == len(self.contents) or not whole)


def _read_holders(view: str, described: Mapping[str, str]) -> list[_Holder]:
    shown: list[tuple[str, str]] = []
    while found := _HOLDER.findall(view):  # the innermost ones, which then become contents without contents
        shown += [(name, contents) for _, name, contents in found]
        view = _HOLDER.sub(r"\1", view)
    return [_Holder(normalise_text(name), _name_contents(contents, described)) for name, contents in shown]


def _name_contents(contents: str, described: Mapping[str, str]) -> tuple[str, ...]:
    names = [re.sub(r"^(?:a substance called |an? )", "", one) for one in normalise_text(contents).split(", ")]
    return tuple(described.get(name, name) for name in names)


def _is_visible(name: str, closed: Sequence[str], holders: Sequence[_Holder]) -> bool:
    place = name.rpartition(" in ")[2] if " in " in name else ""
    if place and any(container.endswith(place) for container in closed):
        return False
    return not _CONTAINING.fullmatch(name) or any(holder.is_named_in(name, whole=True) for holder in holders)


def _find_by_contents(written: str, actions: Sequence[str], holders: Sequence[_Holder]) -> list[str]:
    """Return the actions whose things are the written ones, where one named by a content is shown just once."""
    verb, *things = _name_things(translate(written))
    meant = [[holder for holder in holders if holder.is_called(thing, whole=False)] for thing in things]
    if not any(meant) or any(len(shown) > 1 for shown in meant):
        return []

    def fits(action: str) -> bool:
        other_verb, *names = _name_things(action)
        pairs = zip(names, things, meant, strict=True) if len(names) == len(things) else ()
        same = [holder[0].is_called(name, whole=True) if holder else name == thing for name, thing, holder in pairs]
        return verb == other_verb and bool(same) and all(same)

    return [action for action in actions if fits(action)]
