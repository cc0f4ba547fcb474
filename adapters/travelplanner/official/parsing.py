"""How the official scorer reads the texts of a plan, quirks included."""

import re
from typing import Literal, NamedTuple

from certigraph.adapters.travelplanner.data.sandbox import Distance
from certigraph.adapters.travelplanner.official.plans import Day, current_city, entry

FROM_TO = re.compile(r"from\s+(?P<origin>.+?)\s+to\s+(?P<destination>[^,]+)")
FLIGHT_NUMBER = "Flight Number: "

Kind = Literal["flight", "self-driving", "taxi"]


class Item(NamedTuple):
    """A restaurant, accommodation or attraction as a plan writes it: "name, city"."""

    name: str
    city: str


class Ends(NamedTuple):
    """From where to where, parentheses stripped."""

    origin: str
    destination: str


UNREADABLE = Item("-", "-")


def before_parenthesis(text: str) -> str:
    """The text before its first "(...)", untrimmed: "Moab(Utah)" -> "Moab"."""
    head, _, rest = text.partition("(")
    return head if ")" in rest else text


def from_to(text: str) -> Ends | None:
    """The cities of the first "from A to B", parentheses stripped; B ends at a comma."""
    match = FROM_TO.search(text)
    return Ends(*(before_parenthesis(city) for city in match.groups())) if match else None


def item(text: str) -> Item:
    """Splits "name, city" at the last comma; `UNREADABLE` if there is none or nothing after it."""
    name, _, city = text.rpartition(",")
    if not city or len(city) == len(text):
        return UNREADABLE
    last_line = name.rpartition("\n")[2]
    return Item(last_line.strip(), before_parenthesis(city.strip()).strip())


def attractions(day: Day) -> list[str]:
    """The attractions that end with ";". One without is never looked at, as officially."""
    return entry(day, "attraction").split(";")[:-1]


def cities_of(day: Day) -> tuple[str, ...] | None:
    """(A, B) on a day "from A to B", else the one city; None if the day has "from" but cannot be read."""
    text = current_city(day)
    return from_to(text) if "from" in text else (before_parenthesis(text),)


def ends_of(text: str, city: str) -> Ends | None:
    """Where a transportation goes, from its own text or else from the day's current city."""
    return from_to(text) or from_to(city)


def flight_number(text: str) -> str:
    """The flight number of a transportation; empty if it has none."""
    pieces = text.split(FLIGHT_NUMBER)
    return pieces[1].split(",")[0] if len(pieces) > 1 else ""


def conflict_kind(text: str) -> Kind | None:
    """The kind of a transportation where conflicts between kinds are judged."""
    kinds: tuple[Kind, ...] = ("taxi", "self-driving", "flight")
    return next((kind for kind in kinds if kind in text.lower()), None)


def booked_kind(text: str) -> Kind | None:
    """The kind of a transportation where it is looked up and paid: officially tested in another order."""
    if "flight number" in text.lower():
        return "flight"
    kinds: tuple[Kind, ...] = ("self-driving", "taxi")
    return next((kind for kind in kinds if kind in text.lower()), None)


def distance_cost(kind: Kind, distance: Distance | None) -> int | None:
    """Dollars for one car over a distance; None where no car goes: an unknown distance, or a day and more."""
    if not distance or not distance.distance or not distance.duration or "day" in distance.duration:
        return None
    kilometres = float(distance.distance.replace("km", "").replace(",", ""))
    return int(kilometres * 0.05) if kind == "self-driving" else int(kilometres)
