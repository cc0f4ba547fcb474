"""Rules that decide conditions by TextWorld's last reply and by the view, which is the room and the inventory.

TextWorld describes rooms in sentences of many templates, with remarks that say nothing. Lists of things are complete:
the inventory, what is on the floor, and what is in or on what the view names. What the sentences leave open stays
undecided, and so does everything once the game is over.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import Literal, NamedTuple

from certigraph.adapters.joined_conditions import decide_all, split_joined
from certigraph.adapters.protocols import Decision
from certigraph.state.records import Observation

WORDINGS = """\
The agent is in the ROOM. The inventory contains the THING. The inventory is empty. The THING is in/on the HOLDER. The
THING is on the floor. The HOLDER is open. The HOLDER is closed. The HOLDER is locked. The THING is shown. The FOOD is
sliced (diced, chopped, fried, roasted, grilled). Call rooms and things by their whole names in the world. Such
sentences can be joined by "and"."""
"""Wordings of conditions that are decided either way, for prompts."""

# Names: those that TextWorld's generators give. Only such a name is certain not to mean anything that is shown.

_ROOM_NAMES = (
    "attic|backyard|bar|basement|bathroom|bedchamber|bedroom|canteen|cellar|chamber|closet|cookery|cookhouse|corridor|"
    "cubicle|cupboard|dish-pit|driveway|garage|garden|kitchen|kitchenette|launderette|laundromat|laundry place|"
    "livingroom|lounge|office|pantry|parlor|playroom|recreation zone|restroom|salon|sauna|scullery|shed|shower|"
    "spare room|steam room|street|studio|study|supermarket|vault|washroom|workshop"
)
ROOMS = frozenset(_ROOM_NAMES.split("|"))
"""Names of rooms."""

_HOLDER_NAMES = (
    "armchair|basket|bbq|bed|bed stand|bench|board|bookshelf|bowl|box|bureau|cabinet|case|chair|chest|coffer|couch|"
    "counter|crate|desk|display|drawer|dresser|freezer|fridge|kitchen island|locker|mantelpiece|mantle|oven|pan|"
    "patio chair|patio table|pedestal|plate|platter|portmanteau|rack|recliner|refrigerator|safe|saucepan|shelf|"
    "showcase|slab|sofa|stand|stove|suitcase|table|toilet|toolbox|trunk|workbench"
)
HOLDERS = frozenset(_HOLDER_NAMES.split("|"))
"""Names of what things can be in or on; in some games words that match `ADJECTIVE` precede them."""

_DOOR_NAMES = (
    "barn door|commercial glass door|door|fiberglass door|front door|frosted-glass door|gate|gateway|hatch|"
    "passageway|patio door|plain door|portal|screen door|sliding door|sliding patio door|wooden door"
)
DOORS = frozenset(_DOOR_NAMES.split("|"))
"""Names of doors; in some games words that match `ADJECTIVE` precede them."""

_THING_NAMES = (
    "advent calendar|apple|backup calendar|banana|binder|black pepper|blackberry|blanket|blender|block of cheese|"
    "blueberry|book|boysenberry|broccoli|broom|bug|burger|butterfly|cabbage|candy bar|cane|cantaloupe|carrot|cashew|"
    "cat calendar|cauliflower|cd|chicken breast|chicken leg|chicken wing|chocolate bar|cilantro|cloak|coconut|"
    "coffee cup|coin|comic strip calendar|controller|cookbook|cookie|cranberry|cucumber|cushion|desktop computer|disk|"
    "durian|dvd|egg|elderberry|flour|fly larva|folder|fondue|fork|frisbee|garlic clove|glass|glove|gojiberry|golf ball|"
    "golf club|golf tee|gooseberry|grape|green apple|green bell pepper|green hot pepper|gummy bear|hat|honeydew|"
    "huckleberry|insect|iron|kettle|key|keyboard|keycard|kiwi|knife|ladle|lamp|lampshade|laptop|latchkey|legume|"
    "lettuce|licorice strip|lightbulb|lingonberry|loaf of bread|loganberry|manuscript|mat|meal|melon|milk|monitor|mop|"
    "mouse|mug|napkin|nest of bats|nest of beetles|nest of bugs|nest of bunnies|nest of caterpillars|nest of earwigs|"
    "nest of grubs|nest of insects|nest of kittens|nest of puppies|nest of shrimp|nest of spiders|nest of ticks|"
    "nest of toads|novel|olive oil|onion|orange bell pepper|pair of headphones|pair of pants|paper towel|parsley|"
    "passkey|peanut|peanut oil|pear|pen|pencil|pillow|pizza|plant|poem|pork chop|potato|printer|purple potato|"
    "quote of the day calendar|raspberry|red apple|red bell pepper|red hot pepper|red onion|red potato|red tuna|salad|"
    "salt|sandwich|scarf|shadfly|shirt|shoe|soap dispenser|sock|sponge|spoon|spork|staple|stapler|stick of butter|"
    "strawberry|sugar|synthesizer|tablet|teacup|teapot|teaspoon|telephone|textbook|tomato|top hat|towel|tv|vacuum|"
    "vegetable oil|water|watermelon|whisk|white onion|white tuna|worm|yellow apple|yellow bell pepper|yellow onion|"
    "yellow potato"
)
THINGS = frozenset(_THING_NAMES.split("|"))
"""Names of things that can be taken; in some games words that match `ADJECTIVE` precede that of a key."""

ADJECTIVE = re.compile(
    r"(?:type [a-z0-9]|(?:microsoft|american|canadian|henderson's|textworld)(?: style| limited edition)?|rectangular|"
    r"cuboid|spherical|formless|non-euclidean|(?:vanilla|lavender|cake|fudge|fresh laundry|soap) scented|red|blue|"
    r"chartreuse|purple|violet|orange|yellow|green|brown|teal|cyan) "
)
"""Pattern of what tells a key, and what it opens, from others."""

CUT, COOKED = frozenset(("sliced", "diced", "chopped")), frozenset(("fried", "roasted", "grilled"))
PREPARED = rf"(?:{'|'.join(sorted(CUT | COOKED))}|burned|raw)"
"""Pattern of the words for what was done to food, which precede its name in lists."""

_ARTICLE = re.compile(r"(?:the|an?|some) ")
_CLAUSE_WORDS = """
    not no nor never neither either or if unless until than then but and is are was were be been being has have had do
    does did will would can could may might must should that which who whom whose what when where while whether it its
    them they their this these those there here all any both each every everything anything nothing something someone
    only also still already yet again more most less least other another agent player you i we with without for from to
    by as at before after because during except else two three four five
    """
_NO_NAME_WORDS = frozenset(_CLAUSE_WORDS.split())
"""Words that no name has: what contains one says more than a name."""

_WORD = re.compile(r"[a-z0-9][a-z0-9'-]*")
MAX_NAME_WORDS = 8
"""Maximum number of words of a name, with those for what was done to it."""


class ThingName(NamedTuple):
    """Name of a thing or place, without its article, and the words before it for what was done to it."""

    name: str
    prepared: frozenset[str] = frozenset()

    def may_mean(self, others: Iterable[str]) -> bool:
        """Return whether one of several other names may be meant: a longer or a shorter name, a key for a keycard."""
        return any(_is_similar(self.name, other) for other in others)


def _is_similar(name: str, other: str) -> bool:
    words, others = name.split(), other.split()
    related = words[-1] != others[-1] and (words[-1] in others[-1] or others[-1] in words[-1])
    return related or {*words} <= {*others} or {*others} <= {*words}


def parse_name(text: str) -> ThingName | None:
    """Parse a name such as `the sliced red apple`; None if the text is no name but a clause or a list."""
    plain = _ARTICLE.sub("", text, count=1) if _ARTICLE.match(text) else text
    words = plain.split()
    if not 0 < len(words) <= MAX_NAME_WORDS or {*words} & _NO_NAME_WORDS or not all(map(_WORD.fullmatch, words)):
        return None
    return _split_prepared(plain)


def _split_prepared(plain: str) -> ThingName:
    match = re.fullmatch(rf"((?:{PREPARED} )*)(.+)", plain)
    assert match is not None
    return ThingName(match[2], frozenset(match[1].split()))


def is_worlds_name(name: str, names: frozenset[str]) -> bool:
    """Return whether a name is one of TextWorld's `names`, or one of them after an adjective of keys and locks."""
    return name in names or ADJECTIVE.sub("", name, count=1) in names


# Wordings. A condition that says more than one of them, or something else, stays undecided.

ConditionKind = Literal["be", "have", "empty", "known", "placed", "state", "prepared", "read", "shown"]

_THING, _PLACE = "(?P<thing>.+?)", "(?P<place>.+?)"
_WORDINGS: tuple[tuple[ConditionKind, str], ...] = (
    ("be", rf"the (?:agent|player) is (?:in|at) {_PLACE}"),
    ("empty", r"the (?:(?:agent|player)'s )?inventory is empty|the (?:agent|player) (?:is carrying|carries) nothing"),
    ("have", rf"the (?:(?:agent|player)'s )?inventory contains {_THING}"),
    ("have", rf"the (?:agent|player) (?:has|carries|holds|is carrying|is holding) {_THING}"),
    ("have", rf"{_THING} (?:is|are) in the (?:(?:agent|player)'s )?inventory"),
    ("known", rf"the locations? of {_THING} (?:is|are) known"),
    ("known", rf"{_THING} (?:has|have) been found"),
    ("shown", rf"{_THING} (?:is|are) (?:shown|visible|in sight|in view)"),
    ("placed", rf"{_THING} (?:is|are) (?:placed )?(?:in/on|in or on|in|on|inside|on top of) {_PLACE}"),
    ("state", rf"{_THING} is (?P<state>open|opened|closed|shut|locked|unlocked)"),
    (
        "prepared",
        rf"{_THING} (?:is|are|has been|have been) (?P<state>{'|'.join(sorted(CUT | COOKED))}|cut|cooked|burned)",
    ),
    ("read", r"the cookbook has been read|the recipe is known"),
)
_PATTERNS = tuple((kind, re.compile(wording)) for kind, wording in _WORDINGS)
_AND = re.compile(r",? and (?:of )?|, ")

MAX_CONDITION_CHARS = 500
"""Maximum number of characters of a condition to parse; the patterns take quadratic time in a text's length."""

_NO_NAME = ThingName("")


class TextWorldCondition(NamedTuple):
    """One condition in one of the known wordings."""

    kind: ConditionKind
    thing: ThingName = _NO_NAME
    place: str = ""
    state: str = ""


@lru_cache(maxsize=1024)
def parse_conditions(text: str) -> tuple[TextWorldCondition, ...]:
    """Parse a condition into those that it joins by "and"; empty if its wording is unknown."""
    plain = " ".join(text.lower().split()).removesuffix(".")
    return split_joined(plain, _AND, _parse_sentence) if len(plain) <= MAX_CONDITION_CHARS else ()


def _parse_sentence(text: str) -> list[TextWorldCondition]:
    # Several things may share a wording: "the pen and the mug are on the table" is two conditions.
    for kind, pattern in _PATTERNS:
        match = pattern.fullmatch(text)
        if match is None:
            continue
        parts = match.groupdict()
        things = [parse_name(name) for name in _AND.split(parts["thing"])] if parts.get("thing") else [_NO_NAME]
        place = parse_name(parts["place"]) if parts.get("place") else _NO_NAME
        named = [thing for thing in things if thing is not None]
        if place is not None and not place.prepared and len(named) == len(things):
            return [TextWorldCondition(kind, thing, place.name, parts.get("state") or "") for thing in named]
    return []


# What the view shows.

INVENTORY, FLOOR = "inventory", "floor"


class ListedThings(NamedTuple):
    """Things that are listed together, with their place and the sentence that lists them."""

    place: str
    """Name of the place: what the things are in or on, INVENTORY or FLOOR."""
    things: Mapping[str, frozenset[str]]
    """Name of each thing -> what was done to it."""
    sentence: str

    @property
    def shows_inside(self) -> bool:
        """Whether the sentence tells what is in something, which is open then."""
        return self.sentence.startswith("The ") and not self.sentence.endswith("appears to be empty")


class StatedDoor(NamedTuple):
    """What a sentence says of something that can be opened."""

    state: str
    """open, closed or locked."""
    sentence: str
    is_door: bool
    """Whether it leads to a room; of a closed door the view does not say whether it is locked."""


class RoomView(NamedTuple):
    """What a view shows."""

    room: str
    header: str
    """First line of the view, with the room's name."""
    described: str
    """Sentences about what is in the room and where it leads, without those that greet the agent."""
    text: str
    """The whole view in lower case."""
    lists: tuple[ListedThings, ...]
    """Lists of things, that of the inventory first."""
    stated: Mapping[str, tuple[StatedDoor, ...]]
    """Name of what can be opened -> what the sentences say about it."""

    def find(self, name: str) -> ListedThings | None:
        """Return the list that contains a thing; names are unique in a game."""
        return next((listed for listed in self.lists if name in listed.things), None)


_VIEW = re.compile(r"(-= (.+?) =-)\n(.*)\n\n(You are carrying(?: nothing|: [^\n]+)\.?)", re.DOTALL)
_LISTS = (
    re.compile(r"\bThe (?P<place>[\w' -]+?) contains (?P<things>[^.!?]+)"),
    re.compile(r"\bThe (?P<place>[\w' -]+?) (?:is|appears to be) empty(?P<things>)"),
    re.compile(r"\bOn the (?P<place>[\w' -]+?) you (?:can )?(?:see|make out) (?P<things>[^.!?]+)"),
    re.compile(r"\bYou (?:can )?(?:see|make out) (?P<things>[^.!?]+?) on the (?P<place>[\w' -]+?)(?=[.,!?]|$)"),
    re.compile(r"^There is (?P<things>[^.!?]+) on the (?P<place>floor)\.$", re.MULTILINE),
)
_LISTED = re.compile(rf"(?:an?|the|some) ((?:{PREPARED} )*[\w' -]+)", re.IGNORECASE)
_SEPARATOR = re.compile(r",? and |, ")
_STATED = re.compile(
    r"\ban? (?P<state>closed|locked|opened|open) (?:[\w-]+ looking )?(?P<name>[\w' -]+?)"
    r"(?P<end>[,.!?]|$| is\b| here\b| nearby\b| close by\b| in the (?:room|corner)\b| right there\b| leading\b)",
    re.IGNORECASE | re.MULTILINE,
)
_REMARKS = re.compile(
    r"\bA [\w' -]+\.\.\. Is that really|\b(?:come to|came to) TextWorld to see\? an? [\w' -]+\?"
    r"|\bexcited to see an? [\w' -]+ in a room"
)
"""Remarks about what was named before, which do not name another thing."""


@lru_cache(maxsize=16)
def read_room(view: str) -> RoomView | None:
    """Parse a view; None if it has another layout, as once the game is over."""
    match = _VIEW.fullmatch(view.strip())
    if match is None:
        return None
    header, room, text, carried = match.groups()
    described = _REMARKS.sub("", text.partition("\n\n")[2])
    inventory = carried.removeprefix("You are carrying").lstrip(": ").removesuffix(".")
    lists = [_read_list(INVENTORY, "" if inventory == "nothing" else inventory, carried)]
    for pattern in _LISTS:
        lists += [
            _read_list(found["place"].lower(), found["things"], found[0]) for found in pattern.finditer(described)
        ]
    stated: dict[str, tuple[StatedDoor, ...]] = {}
    for found in _STATED.finditer(described):
        state = "open" if found["state"].lower() == "opened" else found["state"].lower()
        door = StatedDoor(state, found[0].removesuffix(found["end"]), found["end"] == " leading")
        stated[found["name"].lower()] = (*stated.get(found["name"].lower(), ()), door)
    return RoomView(room.lower(), header, described, view.lower(), tuple(lists), stated)


def _read_list(place: str, things: str, sentence: str) -> ListedThings:
    listed = (_LISTED.fullmatch(part) for part in _SEPARATOR.split(things))
    names = (_split_prepared(match[1].lower()) for match in listed if match)
    return ListedThings(place, {named.name: named.prepared for named in names}, sentence)


def is_ambiguous(name: str, view: RoomView) -> bool:
    """Return whether the view may call another thing by a name: it has a longer name that ends with this one."""
    befores = {match[1] for match in re.finditer(rf"([\w'-]+) {re.escape(name)}\b", view.described, re.IGNORECASE)}
    return any(before == "A" or before.lower() not in _BEFORE_NAMES for before in befores)


_BEFORE_NAMES = frozenset(("a", "an", "the", "closed", "locked", "opened", "open", "empty", "looking", "this", "silly"))
"""Words that precede a whole name."""


# Rules.


def decide_condition(text: str, observation: Observation, view: str) -> Decision | None:
    """Decide a condition by the game's last reply and its view; None if they do not settle it.

    A condition that joins several holds if each of them holds, and does not hold if one of them does not.
    """
    shown = read_room(view)
    conditions = parse_conditions(text) if shown else ()
    decisions = [_RULES[one.kind](one, observation.text, shown) for one in conditions if shown]
    return decide_all(decisions)


def _decide_room(name: str, view: RoomView) -> Decision | None:
    # "silent office" and "office" are two rooms of a game, but a plan may mean the one by the other.
    if name.replace(" ", "") == view.room.replace(" ", ""):
        return Decision(True, view.header)
    is_other = name in ROOMS or name.replace(" ", "") in ROOMS
    return Decision(False, view.header) if is_other and not _is_similar(name, view.room) else None


def _decide_carried(thing: ThingName, inventory: ListedThings) -> Decision | None:
    if thing.name in inventory.things:
        return _decide_by_list(thing, inventory)
    denies = is_worlds_name(thing.name, THINGS) and not thing.may_mean(inventory.things)
    return Decision(False, inventory.sentence) if denies else None


def _decide_by_list(thing: ThingName, listed: ListedThings) -> Decision | None:
    # The thing is listed; whether it was prepared as the condition has it shows in the same list.
    holds = _compare_prepared(thing.prepared, listed.things[thing.name])
    return None if holds is None else Decision(holds, listed.sentence)


def _compare_prepared(wanted: Iterable[str], shown: frozenset[str]) -> bool | None:
    # Lists name each cut; of cooked food the kind of cooking until it is burned; raw only what must not be eaten raw.
    verdicts = [_shows_prepared(word, shown) for word in wanted]
    return False if False in verdicts else (None if None in verdicts else True)


def _shows_prepared(word: str, shown: frozenset[str]) -> bool | None:
    settled = {"cut": bool(CUT & shown), "burned": "burned" in shown} | {cut: cut in shown for cut in CUT}
    if word in settled:
        return settled[word]
    if word == "raw":
        return True if "raw" in shown else (False if shown & COOKED or "burned" in shown else None)
    holds = bool(COOKED & shown) if word == "cooked" else word in shown
    return None if "burned" in shown else holds


def _decide_placed(thing: ThingName, place: str, view: RoomView) -> Decision | None:
    wanted = FLOOR if place == "ground" else place
    is_holder = wanted == FLOOR or (is_worlds_name(wanted, HOLDERS) and wanted not in ROOMS)
    if is_ambiguous(wanted, view):
        return None
    if found := view.find(thing.name):
        if found.place == wanted:
            by_list = _decide_by_list(thing, found)
            return by_list if by_list and by_list.holds else None
        return Decision(False, found.sentence) if is_holder and not _is_similar(wanted, found.place) else None
    listed = next((listed for listed in view.lists if listed.place == wanted != FLOOR), None)
    denies = listed and is_worlds_name(thing.name, THINGS) and not thing.may_mean(listed.things)
    return Decision(False, listed.sentence) if listed and denies else None


_CHANGED = re.compile(r"You (?P<verb>open|close|unlock|lock) (?:the )?(?P<name>[\w' -]+?)(?:, revealing [^.]+)?\.")
_STATE_AFTER = {"open": "open", "close": "closed", "unlock": "closed", "lock": "locked"}


def _decide_state(name: str, wanted: str, reply: str, view: RoomView) -> Decision | None:
    stated = _read_state(name, reply, view)
    if stated is None:
        return None
    if wanted in ("open", "opened"):
        return Decision(stated.state == "open", stated.sentence)
    if wanted in ("closed", "shut"):
        return Decision(stated.state != "open", stated.sentence)
    if stated.is_door and stated.state == "closed":
        return None
    return Decision((stated.state == "locked") == (wanted == "locked"), stated.sentence)


def _read_state(name: str, reply: str, view: RoomView) -> StatedDoor | None:
    changed = _CHANGED.match(reply)
    if changed and changed["name"].lower() == name:
        return StatedDoor(_STATE_AFTER[changed["verb"]], changed[0], is_door=False)
    if is_ambiguous(name, view):
        return None
    stated = view.stated.get(name, ())
    if not stated:
        inside = (listed for listed in view.lists if listed.place == name and listed.shows_inside)
        return next((StatedDoor("open", listed.sentence, is_door=False) for listed in inside), None)
    alone = len(stated) == 1 and not _find_mention(name, view)
    return stated[0] if alone else None


def _find_mention(name: str, view: RoomView) -> str:
    # Words that name something without saying whether it is open.
    mention = re.search(rf"\ban? (?:[\w-]+ looking )?(?i:{re.escape(name)})(?=[,.!?]|$)", view.described, re.MULTILINE)
    return mention[0] if mention else ""


def _decide_prepared(name: str, state: str, view: RoomView) -> Decision | None:
    found = view.find(name)
    holds = _compare_prepared([state], found.things[name]) if found else None
    return Decision(holds, found.sentence) if found and holds is not None else None


def _decide_shown(thing: ThingName, view: RoomView, *, remembered: bool) -> Decision | None:
    # What was seen before may be known although it is out of sight.
    found = view.find(thing.name)
    decision = _decide_by_list(thing, found) if found else _decide_mentioned(thing.name, view)
    return None if decision and remembered and not decision.holds else decision


def _decide_mentioned(name: str, view: RoomView) -> Decision | None:
    # What is in no list: doors, of which it is always stated whether they are open, and what things can be in or on.
    if is_worlds_name(name, HOLDERS | DOORS) and not is_ambiguous(name, view):
        stated = view.stated.get(name, ())
        unstated = _find_mention(name, view) if is_worlds_name(name, HOLDERS) else ""
        if mention := stated[0].sentence if stated else unstated:
            return Decision(True, mention)
    known = is_worlds_name(name, THINGS | HOLDERS | DOORS)
    return Decision(False, view.header) if known and name.rsplit(maxsplit=1)[-1] not in view.text else None


def _decide_read(reply: str) -> Decision | None:
    _, heading, recipe = reply.partition("Ingredients:")
    return Decision(True, heading + recipe) if "Directions:" in recipe else None


_RULES: Mapping[ConditionKind, Callable[[TextWorldCondition, str, RoomView], Decision | None]] = {
    "be": lambda condition, reply, view: _decide_room(condition.place, view),
    "empty": lambda condition, reply, view: Decision(not view.lists[0].things, view.lists[0].sentence),
    "have": lambda condition, reply, view: _decide_carried(condition.thing, view.lists[0]),
    "known": lambda condition, reply, view: _decide_shown(condition.thing, view, remembered=True),
    "placed": lambda condition, reply, view: _decide_placed(condition.thing, condition.place, view),
    "prepared": lambda condition, reply, view: _decide_prepared(condition.thing.name, condition.state, view),
    "read": lambda condition, reply, view: _decide_read(reply),
    "shown": lambda condition, reply, view: _decide_shown(condition.thing, view, remembered=False),
    "state": lambda condition, reply, view: _decide_state(condition.thing.name, condition.state, reply, view),
}
