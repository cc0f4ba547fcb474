"""Conditions of a plan in known wordings, and the rules that decide them by what the world answers and shows.

A rule decides by names. What the world shows under a name that the condition's name certainly covers is meant. What it
shows under another name is not meant if both are full names of the world. A name that may cover it, such as "pot" for a
metal pot, decides nothing, and the condition is left to a model. Decisions come with the words of the world that decide
them.
"""

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Literal, NamedTuple

from certigraph.adapters.joined_conditions import decide_all
from certigraph.adapters.matching import tokens
from certigraph.adapters.protocols import Decision
from certigraph.state.records import Observation

__all__ = [
    "MAX_CONDITION_CHARS", "ROOMS", "ConditionKind", "Decision", "QualifiedName", "WordedCondition", "all_of", "any_of",
    "decide_condition", "is_vague", "may_mean", "normalise_name", "parse_condition", "read_name", "singulars_of",
]  # fmt: skip

ROOMS = (
    "art studio", "bathroom", "bedroom", "foundry", "greenhouse", "hallway", "kitchen", "living room", "outside",
    "workshop",
)  # fmt: skip
"""All rooms of the house."""

# Wordings, which the prompt of Propose recommends. Plans do not depend on them: other wordings are left to the model.

ConditionKind = Literal[
    "all", "be", "broken", "closed", "cooler", "focus", "found", "have", "made", "measured", "off", "on", "open",
    "placed", "warmer",
]  # fmt: skip

_THING, _PLACE = (rf"(?:the |an? |some )?(?P<{group}>.+?)" for group in ("thing", "place"))
_WORDINGS: tuple[tuple[ConditionKind, str], ...] = (
    ("be", r"the agent is (?:in|at) (?:the )?(?P<place>.+?)"),
    ("be", r"the agent is (?P<place>outside)"),
    ("found", rf"the locations? of {_THING} (?:is|are) known"),
    ("found", rf"{_THING} (?:is|are) (?:in (?:sight|view)|shown|visible)"),
    ("found", rf"{_THING} (?:is|are|has been|have been) found"),
    ("focus", rf"{_THING} (?:is|are) in focus"),
    ("have", rf"(?:the |your )?inventory (?:contains|has|holds) {_THING}"),
    ("have", rf"the agent (?:carries|has|holds|is carrying|is holding) {_THING}"),
    ("have", rf"{_THING} (?:is|are) in (?:the |your |the agent's )?inventory"),
    ("made", rf"{_THING} (?:has|have) been made"),
    ("on", rf"{_THING} (?:is|are) (?:turned on|switched on|activated|on)"),
    ("off", rf"{_THING} (?:is|are) (?:turned off|switched off|deactivated|off)"),
    ("open", rf"{_THING} (?:is|are) open"),
    ("closed", rf"{_THING} (?:is|are) closed"),
    ("broken", rf"{_THING} (?:is|are) broken"),
    ("placed", rf"{_THING} (?:is|are) (?:in|on|inside) {_PLACE}"),
    ("placed", rf"{_PLACE} (?:contains?|holds?) {_THING}"),
    ("measured", rf"the temperature of {_THING} (?:has been|is|was) measured"),
    ("warmer", rf"the measured temperature of {_THING} is above (?P<place>-?\d+(?:\.\d+)?)(?: degrees(?: celsius)?)?"),
    ("cooler", rf"the measured temperature of {_THING} is below (?P<place>-?\d+(?:\.\d+)?)(?: degrees(?: celsius)?)?"),
)
_PATTERNS = tuple((kind, re.compile(wording, re.IGNORECASE)) for kind, wording in _WORDINGS)

MAX_CONDITION_CHARS = 1_000
"""Maximum number of characters of a condition to parse; the patterns take quadratic time in a text's length."""

GENERIC_WORDS = tokens("thing object substance item living non-living animal plant")
"""Words that name a kind, not a particular thing; the names in the world do not show what belongs to a kind."""

_CLAUSE = re.compile(
    r"\b(?:is|are|was|were|has|have|contains?|not|no|n?either|n?or|if|when|after|before|until|unless|but|because|both)\b",
    re.IGNORECASE,
)
"""Words that no name has: what they stand in is more than a name."""


class WordedCondition(NamedTuple):
    """Condition in one of the known wordings."""

    kind: ConditionKind
    thing: str
    place: str
    parts: tuple["WordedCondition", ...] = ()
    """Conditions about one thing each that it joins by "and"; none if it says more than what the wordings say."""


@lru_cache(maxsize=1_024)
def parse_condition(text: str) -> WordedCondition | None:
    """Parse the condition that a text states; None if the wording is unknown.

    If sentences of several wordings are joined, its kind is "all".
    """
    if len(text) > MAX_CONDITION_CHARS:
        return None
    stated = " ".join(text.split()).removesuffix(".")
    whole = _parse_wording(stated)
    if whole and not _CLAUSE.search(f"{whole.thing} {whole.place}"):
        return whole._replace(parts=tuple(whole._replace(thing=thing) for thing in _list_things(whole.thing)))
    clauses = [_parse_wording(clause) for clause in re.split(r",? and ", stated)]
    parts = tuple(part for part in clauses if part and not _CLAUSE.search(f"{part.thing} {part.place}"))
    if len(clauses) == 1 or len(parts) < len(clauses):
        return whole
    return WordedCondition("all", " and ".join(part.thing for part in parts if part.thing), "", parts)


def _parse_wording(text: str) -> WordedCondition | None:
    for kind, pattern in _PATTERNS:
        if match := pattern.fullmatch(text):
            named = match.groupdict()
            return WordedCondition(kind, named.get("thing") or "", named.get("place") or "")
    return None


def _list_things(text: str) -> list[str]:
    """Return the things that a text names, one or several: "the red paint and of the jug".

    What follows "containing" or stands in brackets belongs to one name.
    """
    if re.search(r"\bcontaining\b|\(", text, re.IGNORECASE):
        return [text]
    return [re.sub(r"^of ", "", thing, flags=re.IGNORECASE) for thing in re.split(r",? and |, ", text)]


def may_mean(wanted: str, name: str) -> bool:
    """Return whether a thing in the world may be the wanted one: they share a word, or the wanted one is vague."""
    return is_vague(wanted) or bool((tokens(wanted) - GENERIC_WORDS) & tokens(name))


def is_vague(thing: str) -> bool:
    """Return whether a description names only a kind, which the world's replies cannot confirm."""
    return tokens(thing) <= GENERIC_WORDS


# Names. The world has a limited number of them, so that two full names that differ are known to name different things.

_COLOUR = r"(?:black|blue|brown|green|orange|purple|red|violet|white|yellow)"
_ANIMAL = (
    r"(?:ant|beaver|bee|blue jay|brown bear|butterfly|chameleon|chipmunk|common toad|crocodile|dove|dragonfly|elephant|"
    r"frog|giant tortoise|hedgehog|moth|mouse|parrot|rabbit|turtle|wolf)"
)
_PLANT = r"(?:apple|apricot|avocado|banana|cherry|lemon|orange|pea|peach|pear|unknown [b-e])"

_SINGLE = re.compile(
    rf"aluminum foil|axe|bathtub|battery|bed|bee hive|blast furnace|brick|closet|couch|counter|cupboard|"
    rf"electric (?:buzzer|motor)|fire pit|fountain|freezer|fridge|glass jar|iron block|large cupboard|lighter|mattress|"
    rf"metal fork|oven|paint (?:closet|cupboard)|paper (?:clip|cup)|plastic (?:cup|fork)|seed jar|shovel|solar panel|"
    rf"steel block|stove|switch|thermometer|toilet|ultra low temperature freezer|wood block|"
    rf"(?:gas|nuclear|wind) generator|{_COLOUR} (?:box|light bulb|wire)|(?:self watering )?flower pot \d|"
    rf"inclined plane (?:[a-z]|with .+ surface)"
)
"""Pattern of the names of which the house has one thing at most."""

_SEVERAL = re.compile(
    rf"acetic acid|almond|apple|(?:apple|orange) juice|apricot|ash|avocado|banana|bowl|bread|caesium|cashew|cherry|"
    rf"(?:ceramic|glass|tin|wood) cup|chair|chocolate|desk|drawer|flour|flower|gallium|garlic|grapefruit|ice|ice cream|"
    rf"jug|lead|lemon|marshmallow|mercury|metal pot|mixed nuts|orange|peach|peanut|pear|potato|rust|sink|smores|"
    rf"soap|soil|sodium|sodium (?:acetate|bicarbonate|chloride)|steam|stopwatch|sugar|table|tin|"
    rf"unknown substance [a-z]|water|(?:salt|soapy|sugar) water|wood|"
    rf"{_COLOUR}(?:-{_COLOUR})? paint|{_ANIMAL}(?: egg| pupa)?|caterpillar|tadpole|"
    rf"{_PLANT} (?:plant|seed|tree)"
)
"""Pattern of the names that several things in the house may have."""

_DESCRIBED = re.compile(
    rf"(?:adult|baby|hatchling|juvenile|reproducing|seedling|gaseous|liquid|solid) (.+)|"
    rf"(?:{_COLOUR}|ovate|round|spherical|square|small|medium|large|wilting|wrinkly) "
    rf"((?:.+ )?(?:apple|apricot|flower|jam|onion|pillow)|.+ seed)"
)
"""Pattern of a name that begins with a word which only describes the thing of the remaining name: "red apple"."""

_YOUNG = ("egg", "pupa")
"""Nouns of what becomes the animal that its name begins with: "dove egg"."""
_GROWN = re.compile("(?:adult|juvenile|reproducing|seedling) ")
_STAGED = re.compile(r"(.+) in (\w+) stage(?: with .+)?")
"""Pattern of a plant's name: "pea plant in adult stage with tall height"."""
_NUMBERED = re.compile(r"(flower pot) \d+|(inclined plane) with .+ surface")
"""Pattern of a name that ends with what tells things of one kind from each other."""
_TITLED = re.compile(r"((?:book|drawing|painting|paper|picture|recipe)\b.*?) (?:of|titled) .+")

_ARTICLES = re.compile(
    r"(^|\b(?:and|containing|in|inside|of|on|to|with) )(?:the |an? |some )?(?:substance called )?(?=\w)"
)
_QUALIFIED = re.compile(
    r"(?P<name>.+?(?: in \w+ stage(?: with .+)?)?)"
    r"(?: containing (?P<contents>.+?))?(?: (?:in|inside|on) (?P<place>.+))?"
)
"""Pattern of a name and of what says which thing of this name is meant: what it holds, and where it is."""

_KIN = {
    "butterfly": ("moth",), "caterpillar": ("butterfly", "moth"), "frog": ("toad",), "tadpole": ("frog", "toad"),
    "ice": ("water",), "steam": ("water",), "purple": ("violet",), "violet": ("purple",),
}  # fmt: skip
"""Word in a shown name -> words by which the thing may be called as well."""


def all_of(facts: Iterable[bool | None]) -> bool | None:
    """Return whether all facts are true; None if that depends on facts that are not known, which are None."""
    found = {*facts}
    return False if False in found else None if None in found else True


def any_of(facts: Iterable[bool | None]) -> bool | None:
    """Return whether any fact is true; None if that depends on facts that are not known, which are None."""
    found = {*facts}
    return True if True in found else None if None in found else False


class QualifiedName(NamedTuple):
    """Name, and what says which thing of this name is meant: what it holds, and where it is."""

    name: str
    contents: tuple[str, ...]
    place: str


def normalise_name(name: str) -> str:
    """Return a name in lower case, without articles, brackets and "substance called"."""
    return _ARTICLES.sub(r"\1", " ".join(name.lower().replace("(", "").replace(")", "").split()))


def singulars_of(name: str) -> Iterator[str]:
    """Yield a normalised name, and what it may be in the singular: "pea seeds", "pea seed"."""
    yield name
    for ending, singular in (("ies", "y"), ("es", ""), ("s", "")):
        if name.endswith(ending) and not name.endswith("ss"):
            yield f"{name.removesuffix(ending)}{singular}"


@lru_cache(maxsize=1_024)
def read_name(text: str) -> QualifiedName:
    """Split a normalised name at what says which thing is meant: "cup containing red paint in large cupboard"."""
    if not (match := _QUALIFIED.fullmatch(text)):
        return QualifiedName(text, (), "")
    contents = re.split(r", | and ", match["contents"]) if match["contents"] else ()
    return QualifiedName(match["name"], tuple(contents), match["place"] or "")


@lru_cache(maxsize=4_096)
def _names_of(shown: str) -> tuple[str, ...]:
    """Return all names that a thing certainly has, given the one under which the world shows it."""
    names = [shown]
    if staged := _STAGED.fullmatch(shown):
        names += [f"{staged[1]} in {staged[2]} stage", f"{staged[2]} {staged[1]}"]
    elif titled := _TITLED.fullmatch(shown):
        names.append(titled[1])
    elif numbered := _NUMBERED.fullmatch(shown):
        names.append(numbered[1] or numbered[2])
    while described := _DESCRIBED.fullmatch(names[-1]):
        names.append(described[1] or described[2])
    return tuple(names)


@lru_cache(maxsize=1_024)
def _full_name(name: str) -> str:
    """Return the full name of a thing of the world that a name is, in the singular; empty if it is none."""
    forms = ((one, other) for one in singulars_of(name) for other in _names_of(one))
    return next((one for one, other in forms if _SINGLE.fullmatch(other) or _SEVERAL.fullmatch(other)), "")


def _is_single(name: str) -> bool:
    return any(_SINGLE.fullmatch(one) for one in _names_of(_full_name(name)))


@lru_cache(maxsize=16_384)
def _covers(wanted: str, shown: str) -> bool | None:
    """Return whether a name in a condition covers a thing that the world shows under another; None if it may.

    A full name, such as "cup", may be short for a longer one with the same noun, an animal's may be that of its egg,
    and a seed may have become a plant, whose stage is not named. Else two full names are of two things, such as a fruit
    and the tree that it grows on, or a flower and a flower pot.
    """
    names, sought = _names_of(shown), _full_name(wanted)
    if any(one in names for one in singulars_of(wanted)):
        return True
    if not sought:
        return None
    full = names[2] if _STAGED.fullmatch(shown) else names[1] if _TITLED.fullmatch(shown) else shown
    words, others = ({*re.split("[ -]", name)} for name in (sought, full))
    nouns = [re.sub(r" (?:[a-z]|\d+)$", "", name).rpartition(" ")[2] for name in (sought, full)]
    grows = [noun in ("plant", "seed", "tree") for noun in nouns]
    if words <= others.union(*(_KIN.get(word, ()) for word in others)):
        is_compound = words <= others and nouns[0] != nouns[1] and nouns[1] not in _YOUNG
        return False if is_compound or grows[0] != grows[1] else None
    if nouns[0] == nouns[1]:
        return None if others <= words else False
    return None if words & others and all(grows) and not _GROWN.match(sought) else False


# What the world shows.


class _Shown(NamedTuple):
    """Thing that the world shows."""

    name: str
    line: str
    """Line that shows it."""
    holder: int | None = None
    """Number of the thing that holds it directly."""
    is_carried: bool = False
    power: str = ""
    """on, off, or empty if it is not shown."""
    lid: str = ""
    """open, closed, or empty if it is not shown."""
    is_certain: bool = True
    """Whether it is certain that the holder holds it."""


class _View(NamedTuple):
    """What the world shows of a room and of what the agent carries."""

    room: str
    """Name of the room; empty if it is not shown."""
    heading: str
    """Line that names the room."""
    things: tuple[_Shown, ...]
    inventory: str
    """Text of the inventory; empty if it is not shown."""


_HEADING = re.compile(r"This (?:room|outside location) is called the ([a-z ]+)\..*", re.IGNORECASE)
_LIST = re.compile(r"In it, you see:|Here you see:|You also see:")
_INVENTORY = "In your inventory, you see:"
_STATUS = "Rooms seen: "
"""Beginning of what follows the inventory."""

_PARTS = re.compile(
    r"(?P<list> ?\(containing |\.? ?(?:In|Inside|On) the [^:.]+? (?:is|you see): ?|, with: ?)"
    r"|, which is (?:turned )?(?P<power>on\b|off\b|(?:de)?activated\.?)"
    r"|\.? ?The [^:.]+? is (?P<door>open|closed)\. ?| \(that is (?P<way>open|closed)\)"
    r"|, currently reading a temperature of -?\d+ degrees celsius|, which is (?:open|closed|flushing)"
    r"| at the (?:bottom|top) of the plane| approximately \d+% down the plane| The time reads \d+ ticks\."
    r"|\.? ?its [a-z]+(?: \d)? is connected to: [^.]*\.?| The artist is listed as .*|(?P<end>[).])|[, ]+"
    r"|(?P<name>(?:(?! at the (?:bottom|top) of| approximately \d|its [a-z]+(?: \d)? is connected"
    r"| \((?:containing|that is) )(?:[^,.:()]|\([^()]*\)))+)"
)
"""Parts of a line: a thing, its state, the beginning of the list of what it holds, the end of such a list."""

_FULL_STOP = ("bed", "chair", "couch", "counter", "desk", "mattress", "table", "toilet")
"""Things that are shown with a full stop of their own, which ends no list: "a chair."."""


@lru_cache(maxsize=16)
def _read_view(text: str) -> _View:
    """Read the description of a room, and of what the agent carries if that follows."""
    things: list[_Shown] = []
    carried: list[str] = []
    unended: list[int] = []
    heading = _HEADING.match(text)
    for line in (" ".join(line.split()) for line in text.splitlines()):
        if line.startswith(_STATUS):
            break
        if carried or line == _INVENTORY:
            carried.append(line)
        if line != _INVENTORY and not _LIST.fullmatch(line) and not _HEADING.fullmatch(line):
            unended = _read_line(line, things, unended, is_carried=bool(carried))
    room = heading[1].lower() if heading else ""
    return _View(room, heading[0] if heading else "", tuple(things), " ".join(carried))


def _read_line(line: str, things: list[_Shown], unended: list[int], *, is_carried: bool) -> list[int]:
    """Read the things that a line shows; returns the numbers of those whose contents the next lines may show.

    What stands on a table that is carried is shown on lines of its own, which look like those of other carried things.
    """
    holders, stopped = [*unended], -1
    for part in _PARTS.finditer(re.sub(r" \((?:on fire|that looks unwell)\)", "", line)):
        last = len(things) - 1
        name = normalise_name(part["name"] or "")
        if name and name != "nothing":
            holder, lid = (holders[-1] if holders else None), "open" if name.startswith("door to ") else ""
            is_certain = len(holders) > len(unended) or not holders
            things.append(_Shown(name, line, holder, is_carried, lid=lid, is_certain=is_certain))
        elif last < 0:
            continue
        elif part["list"]:
            holders.append(last)
        elif part["power"]:
            things[last] = things[last]._replace(power="off" if part["power"].startswith(("off", "de")) else "on")
        elif part["door"] or part["way"]:
            things[last] = things[last]._replace(lid=part["door"] or part["way"])
        elif part["end"] == "." and stopped < last and things[last].name in _FULL_STOP:
            stopped = last
        elif part["end"] and len(holders) > len(unended):
            holders.pop()
    return holders if line.endswith(":") else unended


# Which of the things that are shown a name in a condition means.


def _is_meant(wanted: str, number: int, view: _View) -> bool | None:
    """Return whether a name in a condition means a thing that is shown; None if it may."""
    name, contents, place = read_name(wanted)
    facts = [_covers(name, view.things[number].name)]
    if contents:
        held = [other for other, one in enumerate(view.things) if one.holder == number]
        facts += [None if _hides(number, view) else _is_among(content, held, view) for content in contents]
    if place:
        facts.append(_is_in(number, place, view))
    return all_of(facts)


def _is_among(wanted: str, numbers: Iterable[int], view: _View) -> bool | None:
    """Return whether a name in a condition means one of some things; None if it may."""
    is_meant = any_of(_is_meant(wanted, number, view) for number in numbers)
    name, contents, _ = read_name(wanted)
    return is_meant if is_meant or all(map(_full_name, (name, *contents))) else None


def _is_in(number: int, place: str, view: _View) -> bool | None:
    """Return whether a thing that is shown is in a place, directly or inside of something; None if it may be."""
    if place == "inventory":
        return view.things[number].is_carried
    if place in ROOMS:
        return place == view.room if view.room else None
    is_inside = _is_among(place, _holders_of(number, view), view)
    return None if is_inside and not _is_among(place, _holders_of(number, view, certain=True), view) else is_inside


def _holders_of(number: int, view: _View, *, certain: bool = False) -> list[int]:
    """Return the things that hold a thing, from the inside out; on request only those that certainly do."""
    holders: list[int] = []
    while (holder := view.things[number].holder) is not None and (view.things[number].is_certain or not certain):
        holders.append(holder)
        number = holder
    return holders


def _hides(number: int, view: _View) -> bool:
    """Return whether the world does not show what is in a thing: it is closed, or a drawer.

    The simulator lets one put anything into a seed and does not show it, but seeds count as empty here.
    """
    return view.things[number].lid == "closed" or view.things[number].name.endswith("drawer")


# Rules.


def decide_condition(text: str, observation: Observation, view: str = "") -> Decision | None:
    """Decide a condition by the world's reply to the last action and by its view; None if a model has to judge.

    Args:
        text: the condition.
        observation: the reply to the last action.
        view: what the world shows after it, as the environment's method `view` returns it; empty if it is not known.
    """
    condition = parse_condition(text)
    if condition is None or not condition.parts:
        return None
    shown = _read_view(view)
    return decide_all([_decide(part, observation, shown) for part in condition.parts])


def _decide(condition: WordedCondition, observation: Observation, view: _View) -> Decision | None:
    decision: Decision | None = None
    thing, place = normalise_name(condition.thing), normalise_name(condition.place)
    match condition.kind:
        case "be":
            decision = _decide_room(place, observation, view)
        case "found":
            decision = _decide_sight(thing, observation, view)
        case "focus":
            decision = _decide_focus(thing, observation)
        case "have":
            decision = _check_move(_decide_carried(thing, view), thing, "inventory", observation, view)
        case "placed":
            decision = _check_move(_decide_place(thing, place, view), thing, place, observation, view)
        case "measured" | "warmer" | "cooler":
            decision = _decide_measured(thing, condition.kind, condition.place, observation)
        case "broken" | "closed" | "off" | "on" | "open":
            decision = _decide_state(thing, condition.kind, observation, view)
    return decision


def _check_move(
    decision: Decision | None, thing: str, place: str, observation: Observation, view: _View
) -> Decision | None:
    """Return the view's decision on where a thing is, or the reply's if there is no view; None if they differ.

    They may differ, because the view is one moment newer.
    """
    moved = re.search(r"You move the (.+) to the (.+?)\.$", observation.text.strip())
    if moved is None or [*map(normalise_name, moved.groups())] != [thing, place] or (decision and decision.holds):
        return decision
    return None if view.room else Decision(True, moved[0])


def _decide_room(place: str, observation: Observation, view: _View) -> Decision | None:
    room = str(observation.data.get("room", "")) or view.room
    if place not in ROOMS or room not in ROOMS:
        return None
    return Decision(place == room, f"the agent is in the {room}")


def _decide_focus(thing: str, observation: Observation) -> Decision | None:
    # The world's own record has a room, and a focus as soon as anything was in focus.
    reply = re.fullmatch(r"You focus on the (.+)\.", observation.text.strip())
    focus = reply[1] if reply else str(observation.data.get("focus", ""))
    name, *qualifiers = read_name(thing)
    if focus and thing == normalise_name(str(observation.data.get("focused_as", ""))):
        return Decision(True, reply[0] if reply else f"the {focus} is in focus")
    if not focus:
        is_known = "room" in observation.data and not observation.done and _full_name(name)
        return Decision(False, "nothing is in focus") if is_known else None
    is_meant = _covers(name, normalise_name(focus))
    if is_meant is None or (is_meant and any(qualifiers)):
        return None
    return Decision(is_meant, reply[0] if reply else f"the {focus} is in focus")


def _decide_measured(thing: str, kind: ConditionKind, limit: str, observation: Observation) -> Decision | None:
    # The world's own record has a room, and the latest measurement of each thing by the name that it was given.
    measured = observation.data.get("measured", {})
    if "room" not in observation.data or not isinstance(measured, dict):
        return None
    known = {normalise_name(name): degrees for name, degrees in measured.items() if isinstance(degrees, int | float)}
    meant = [thing] if thing in known else [name for name in known if _covers(thing, name)]
    if len(meant) != 1:
        may_be_known = any(tokens(thing) & tokens(name) for name in known)
        is_clear = _full_name(read_name(thing).name) and not may_be_known
        return Decision(False, f"no measured temperature of the {thing}") if is_clear else None
    degrees = known[meant[0]]
    quote = f"the thermometer measures a temperature of {degrees:g} degrees celsius"
    above = degrees - float(limit or 0)
    return Decision(kind == "measured" or (above > 0 if kind == "warmer" else above < 0), quote)


def _decide_sight(thing: str, observation: Observation, view: _View) -> Decision | None:
    is_described = bool(_HEADING.match(observation.text))
    texts = [observation.text if is_described else "", str(observation.data.get("look", ""))]
    descriptions = [view, *(_read_view(text) for text in texts if text)]
    for seen in descriptions:
        for number, one in enumerate(seen.things):
            if _is_meant(thing, number, seen):
                return Decision(True, one.line)
    is_mentioned = not is_described and tokens(thing) & tokens(observation.text)
    if not view.room or is_mentioned:
        return None
    is_seen = any_of(_is_among(thing, range(len(seen.things)), seen) for seen in descriptions)
    return Decision(False, view.heading) if is_seen is False else None


def _decide_carried(thing: str, view: _View) -> Decision | None:
    carried = [number for number, one in enumerate(view.things) if one.is_carried]
    listed = [number for number in carried if _is_meant(thing, number, view)]
    if len(listed) >= _number_of(thing):
        return Decision(True, f"{_INVENTORY} {view.things[listed[0]].line}")
    hidden = [number for number in carried if _hides(number, view)]
    is_absent = view.inventory and not hidden and _is_among(thing, carried, view) is False
    return Decision(False, view.inventory) if is_absent else None


def _number_of(thing: str) -> int:
    """Return the least number of things that a name stands for: two, if it is the plural of a full name."""
    name = read_name(thing).name
    return 1 if _full_name(name) in ("", name) else 2


def _decide_place(thing: str, place: str, view: _View) -> Decision | None:
    """Decide whether a thing is in a place, directly or inside of something.

    If both are shown, those in the agent's room are meant. Else it is not, if what is shown has no equal in the house:
    a thing that is elsewhere, or a place that shows all that is in it, such as the agent's room.
    """
    everything = range(len(view.things))
    listed = [number for number in everything if _is_meant(thing, number, view)]
    inside = [_is_in(number, place, view) for number in listed]
    if True in inside:
        is_clear_place = _number_of(thing) == 1 or (inside.count(True) > 1 and all(inside))
        return Decision(True, view.things[listed[inside.index(True)]].line) if is_clear_place else None
    if listed and None not in inside and _is_single(read_name(thing).name):
        return Decision(False, view.things[listed[0]].line)
    is_here, is_single_place = bool(place) and place == view.room, _is_single(read_name(place).name)
    holders = {number for number in everything if _is_meant(place, number, view)}
    contents = {number for number in everything if is_here or not holders.isdisjoint(_holders_of(number, view))}
    if None in inside or not (holders or is_here) or not (listed or is_here or is_single_place):
        return None
    is_fixed = is_here or is_single_place or place == "sink"  # no other one is inside of what is closed
    if any(_hides(number, view) for number in (holders | contents if is_fixed else everything)):
        return None
    line = view.heading if is_here else view.things[min(holders)].line
    return Decision(False, line) if _is_among(thing, contents, view) is False else None


def _decide_state(thing: str, state: str, observation: Observation, view: _View) -> Decision | None:
    """Decide the state of a device or a container; None also where the reply and the view differ, as for moves."""
    facts = [_is_meant(thing, number, view) for number in range(len(view.things))]
    meant = [one for one, is_meant in zip(view.things, facts, strict=True) if is_meant]
    is_clear = len(meant) == 1 or (not meant and None not in facts)
    by_reply = _decide_state_by_reply(thing, state, observation) if is_clear else None
    states = {_state_of(one, state) for one in meant}
    if len(states) > 1 or not (shown := "".join(states)):
        return by_reply
    by_view = Decision(shown == state, meant[0].line)
    return None if by_reply and by_reply.holds != by_view.holds else by_view


def _decide_state_by_reply(thing: str, state: str, observation: Observation) -> Decision | None:
    reply = re.fullmatch(
        r"The (.+?) (?:is (?:now|already) (open|closed|activated|deactivated)|appears (broken), .+)\.",
        observation.text.strip(),
    )
    if not reply or normalise_name(reply[1]) != thing:
        return None
    word = {"activated": "on", "deactivated": "off"}.get(reply[2], reply[2] or reply[3])
    excluded = {"open": ("closed",), "closed": ("open",), "on": ("off", "broken"), "off": ("on", "broken")}
    if word != state and state not in excluded.get(word, ()):
        return None
    return Decision(word == state, reply[0])


def _state_of(thing: _Shown, kind: str) -> str:
    """Return whether a thing is on or off, open or closed, by the condition's kind; empty if it is not shown."""
    if kind in ("open", "closed"):
        return thing.lid
    cools = thing.name in ("fridge", "freezer", "ultra low temperature freezer")  # shown only if they are off
    return (thing.power or ("on" if cools else "")) if kind in ("on", "off") else ""
