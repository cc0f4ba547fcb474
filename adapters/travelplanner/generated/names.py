"""Invented names. Within a city no name contains another, because plans are matched to rows by containment.

Every name is one word from each list of a family, in order. No entry of a list begins with another entry of that
list, so two names of a family that differ in any word cannot contain one another.
"""

from collections.abc import Sequence
from math import prod
from random import Random

# fmt: off
_STEMS = (
    "Adden", "Barro", "Brell", "Calder", "Corvi", "Dolle", "Dunna", "Eldra", "Esker", "Fallo", "Ferni", "Garro",
    "Gelli", "Hadra", "Hollo", "Istra", "Jarro", "Kelmo", "Lanna", "Lorri", "Madda", "Merro", "Norra", "Ostra",
    "Pella", "Quarri", "Raven", "Selmo", "Tarro", "Ulder", "Verro", "Wenna",
)
_TOWNS = (
    "bury", "combe", "dale", "fell", "ford", "gate", "ham", "holt", "lea", "mere", "mond", "ness", "port", "stead",
    "wick", "worth", "cross", "moor",
)
_STATES = ("land", "mark", "shire", "via", "reach")
_OWNERS = tuple(f"{stem}{ending}'s" for stem in _STEMS for ending in ("by", "man", "sen"))
_SIGNS = (
    "Copper Kettle", "Blue Ladle", "Red Skillet", "Tin Spoon", "Old Oven", "Salt Cellar", "Green Apron", "Long Table",
    "Clay Pot",
)
_TABLES = (
    "Diner", "Grill & Bar", "Kitchen, Harbor Side", "Cafe", "House (Upstairs)", "Eatery", "Bistro, No. 3", "Canteen",
    "Tavern",
)
_MOODS = ("Sunny", "Quiet", "Bright", "Cozy", "Roomy", "Charming", "Modern", "Rustic", "Airy", "Lovely")
_HOMES = (
    "studio", "loft", "2-bedroom flat", "garden room", "townhouse", "guest suite", "cabin", "duplex, top floor",
    "attic (w/ view)",
)
_SPOTS = (
    "near the pier", "by the old mill", "off Main Street", "at the market!", "over the bakery", "in the hills",
    "on the canal",
)
_SIGHTS = (
    "Museum", "Botanical Garden", "Lighthouse", "Sculpture Park", "Old Fort", "Planetarium", "Aquarium, North Pier",
    "Mill (1874)",
)
# fmt: on

TOWNS = (_STEMS, _TOWNS)
STATES = (_STEMS, _STATES)
RESTAURANTS = (_OWNERS, _SIGNS, _TABLES)
ACCOMMODATIONS = (_MOODS, _HOMES, _SPOTS)
ATTRACTIONS = (_STEMS, _SIGHTS)


def draw_names(random: Random, family: Sequence[Sequence[str]], count: int, joiner: str = " ") -> list[str]:
    """Different names of a family.

    Raises:
        ValueError: the family has fewer names.
    """
    available = prod(map(len, family))
    if count > available:
        raise ValueError(f"{count} names wanted, but there are {available}; ask for a smaller world")
    return [_name(number, family, joiner) for number in random.sample(range(available), count)]


def _name(number: int, family: Sequence[Sequence[str]], joiner: str) -> str:
    words = []
    for choices in family:
        number, place = divmod(number, len(choices))
        words.append(choices[place])
    return joiner.join(words)
