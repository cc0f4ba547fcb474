"""TravelPlanner's plans: the official format, how the official scorer reads it, and what a plan costs."""

import re
from collections.abc import Mapping, Sequence
from math import ceil
from pathlib import Path
from typing import Literal, NamedTuple

from pydantic import ConfigDict, JsonValue

from certigraph.adapters.files import read_rows, validate_row
from certigraph.benchmarks.travelplanner.sandbox import Accommodation, Attraction, Distance, Restaurant, Sandbox
from certigraph.state.endings import Fault
from certigraph.state.records import Record

# Plans as the benchmark stores them: a list of days, each a mapping to texts that may be malformed.

PlanDay = Mapping[str, object]
WrittenPlan = Sequence[PlanDay]

MEALS = ("breakfast", "lunch", "dinner")


class PlanRow(Record):
    """Line of a plan file; a missing plan is null or an empty list."""

    model_config = ConfigDict(extra="ignore")

    idx: int
    plan: tuple[dict[str, JsonValue], ...] | None


def entry_of(day: PlanDay, key: str) -> str:
    """Return the text of a day's entry; the empty string if it is missing, empty or "-"."""
    value = day.get(key)
    return "" if not value or value == "-" else str(value)


def meals_of(day: PlanDay) -> list[str]:
    """Return the texts of a day's meals, in the order of the day."""
    return [text for meal in MEALS if (text := entry_of(day, meal))]


def current_city_of(day: PlanDay) -> str:
    """Return the day's city or "from A to B"; "-" is kept, because the official code takes it as the name of a city."""
    return str(day.get("current_city") or "")


def find_missing_key(plan: WrittenPlan) -> str:
    """Return the first missing key on which the official evaluation fails with a KeyError; empty if none is missing.

    The evaluation needs "current_city" of every day and "transportation" of the first; all other keys may be missing.
    """
    for number, day in enumerate(plan, 1):
        for key in ("current_city", *(["transportation"] if number == 1 else [])):
            if key not in day:
                return f"day {number} has no {key}"
    return ""


def read_plans(path: Path) -> dict[int, WrittenPlan | None]:
    """Read the plans of a JSONL file (`.gz` or not) by query idx; fields besides `idx` and `plan` are ignored.

    Raises:
        Fault: the file is missing, a row is malformed or an idx occurs twice; the message names file and line.
    """
    plans: dict[int, WrittenPlan | None] = {}
    for line in read_rows(path):
        row = validate_row(PlanRow, line)
        if row.idx in plans:
            raise Fault("data", f"{line.where}: idx {row.idx} occurs twice: keep one plan per query")
        plans[row.idx] = row.plan
    return plans


# How the official scorer reads the texts of a plan, quirks included.

FROM_TO = re.compile(r"from\s+(?P<origin>.+?)\s+to\s+(?P<destination>[^,]+)")
FLIGHT_NUMBER = "Flight Number: "

TransportKind = Literal["flight", "self-driving", "taxi"]


class PlaceEntry(NamedTuple):
    """Restaurant, accommodation or attraction as a plan writes it: "name, city"."""

    name: str
    city: str


class Endpoints(NamedTuple):
    """Origin and destination of a journey, without parentheses."""

    origin: str
    destination: str


UNREADABLE_PLACE = PlaceEntry("-", "-")


def strip_parenthesis(text: str) -> str:
    """Return the text before its first "(...)", untrimmed: "Moab(Utah)" -> "Moab"."""
    head, _, rest = text.partition("(")
    return head if ")" in rest else text


def parse_endpoints(text: str) -> Endpoints | None:
    """Parse the first "from A to B" of a text, without parentheses; B ends at a comma."""
    match = FROM_TO.search(text)
    return Endpoints(*(strip_parenthesis(city) for city in match.groups())) if match else None


def parse_place(text: str) -> PlaceEntry:
    """Split "name, city" at the last comma; `UNREADABLE_PLACE` if there is no comma or nothing after it."""
    name, _, city = text.rpartition(",")
    if not city or len(city) == len(text):
        return UNREADABLE_PLACE
    last_line = name.rpartition("\n")[2]
    return PlaceEntry(last_line.strip(), strip_parenthesis(city.strip()).strip())


def attractions_of(day: PlanDay) -> list[str]:
    """Return the attractions that end with ";". As in the official scorer, text after the last ";" is ignored."""
    return entry_of(day, "attraction").split(";")[:-1]


def cities_of(day: PlanDay) -> tuple[str, ...] | None:
    """Return (A, B) for a day "from A to B", else the one city; None if the day has "from" but cannot be parsed."""
    text = current_city_of(day)
    return parse_endpoints(text) if "from" in text else (strip_parenthesis(text),)


def endpoints_of(text: str, city: str) -> Endpoints | None:
    """Return the origin and destination of a transportation, from its own text or else from the day's current city."""
    return parse_endpoints(text) or parse_endpoints(city)


def flight_number_of(text: str) -> str:
    """Return the flight number of a transportation; empty if it has none."""
    pieces = text.split(FLIGHT_NUMBER)
    return pieces[1].split(",")[0] if len(pieces) > 1 else ""


def conflict_kind_of(text: str) -> TransportKind | None:
    """Return the kind of a transportation as the official check for conflicting kinds reads it."""
    kinds: tuple[TransportKind, ...] = ("taxi", "self-driving", "flight")
    return next((kind for kind in kinds if kind in text.lower()), None)


def booked_kind_of(text: str) -> TransportKind | None:
    """Return the kind of a transportation for look-up and costs.

    The official code tests the kinds in another order than for `conflict_kind_of`, so the two can differ for a text
    that names several kinds.
    """
    if "flight number" in text.lower():
        return "flight"
    kinds: tuple[TransportKind, ...] = ("self-driving", "taxi")
    return next((kind for kind in kinds if kind in text.lower()), None)


def distance_cost(kind: TransportKind, distance: Distance | None) -> int | None:
    """Return the dollars for one car over a distance; None if the distance is unknown or takes a day or more."""
    if not distance or not distance.distance or not distance.duration or "day" in distance.duration:
        return None
    kilometres = float(distance.distance.replace("km", "").replace(",", ""))
    return int(kilometres * 0.05) if kind == "self-driving" else int(kilometres)


# Costs in dollars, item by item, as the official scorer counts them. Attractions are free.

# Travellers per car.
SEATS = {"self-driving": 5, "taxi": 4}


def match_restaurant(name: str, city: str, sandbox: Sandbox) -> Sequence[Restaurant]:
    """Return the city's restaurants whose name contains `name`, in file order; the first one is charged."""
    return [row for row in sandbox.restaurants(city) if name in row.name]


def match_accommodation(name: str, city: str, sandbox: Sandbox) -> Sequence[Accommodation]:
    """Return the city's accommodations whose name contains `name`, in file order; the first one is charged."""
    return [row for row in sandbox.accommodations(city) if name in row.name]


def match_attraction(name: str, city: str, sandbox: Sandbox) -> Sequence[Attraction]:
    """Return the city's attractions whose name contains `name`, in file order."""
    return [row for row in sandbox.attractions(city) if name in row.name]


def is_known_transport(text: str, city: str, sandbox: Sandbox) -> bool:
    """Return whether the flight exists (on any date, as in the official code) or a car takes less than a day."""
    kind, endpoints = booked_kind_of(text), endpoints_of(text, city)
    if kind is None or endpoints is None:
        return False
    if kind == "flight":
        return flight_number_of(text) in {flight.number for flight in sandbox.flights(*endpoints)}
    return distance_cost(kind, sandbox.distance(*endpoints)) is not None


def meal_cost(text: str, people: int, sandbox: Sandbox) -> float:
    """Return the dollars for one meal of all people; 0 if the restaurant is unknown."""
    rows = match_restaurant(*parse_place(text), sandbox)
    return rows[0].cost * people if rows else 0


def accommodation_cost(text: str, people: int, sandbox: Sandbox) -> float:
    """Return the dollars for one night of all people, rooms rounded up; 0 if the accommodation is unknown."""
    rows = match_accommodation(*parse_place(text), sandbox)
    return rows[0].price * ceil(people / rows[0].maximum_occupancy) if rows else 0


def transport_cost(text: str, city: str, people: int, sandbox: Sandbox) -> float:
    """Return the dollars for a transportation of all people, cars rounded up; 0 if it is unknown.

    Args:
        text: The day's transportation.
        city: The day's "current_city", read if the transportation itself has no "from A to B".
        people: Number of travellers.
        sandbox: Database of prices and distances.
    """
    kind, endpoints = booked_kind_of(text), endpoints_of(text, city)
    if kind is None or endpoints is None:
        return 0
    if kind == "flight":
        flight = sandbox.flight(flight_number_of(text))
        return flight.price * people if flight else 0
    return (distance_cost(kind, sandbox.distance(*endpoints)) or 0) * ceil(people / SEATS[kind])


def day_cost(day: PlanDay, people: int, sandbox: Sandbox) -> float:
    """Return the dollars for one day of a plan; an accommodation is charged on every day that lists it."""
    transport = transport_cost(entry_of(day, "transportation"), current_city_of(day), people, sandbox)
    food = sum(meal_cost(meal, people, sandbox) for meal in meals_of(day))
    return transport + food + accommodation_cost(entry_of(day, "accommodation"), people, sandbox)


def total_cost(people: int, plan: WrittenPlan, sandbox: Sandbox) -> float:
    """Return the dollars for all days of `plan`, which the caller has cut to the number of days of the query."""
    return sum(day_cost(day, people, sandbox) for day in plan)
