"""What may be chosen for a predicate: candidates through five filters, cheapest first, with a diagnosis (A.2)."""

from collections.abc import Callable, Iterator, Sequence
from math import ceil
from typing import NamedTuple

from certigraph.adapters.travelplanner.data.queries import LocalConstraint
from certigraph.adapters.travelplanner.data.sandbox import Accommodation, Flight, Sandbox
from certigraph.adapters.travelplanner.official.costs import (
    SEATS,
    match_accommodation,
    match_attraction,
    match_restaurant,
)
from certigraph.adapters.travelplanner.official.hard import ALLOWED_ROOMS
from certigraph.adapters.travelplanner.official.parsing import Kind, distance_cost, item
from certigraph.adapters.travelplanner.trip import Leg

FORBIDS: dict[str, Kind] = {"no flight": "flight", "no self-driving": "self-driving"}


class Option(NamedTuple):
    """One choice: the plan entry it becomes, what a reader sees, and its cost in dollars for everybody."""

    text: str
    label: str
    cost: float
    kind: Kind | None = None
    place: Accommodation | None = None
    cuisines: str = ""


class Filter(NamedTuple):
    """A named condition on options; the name is what a diagnosis reports."""

    name: str
    keeps: Callable[[Option], bool]


class Offer(NamedTuple):
    """The options left, cheapest first, and why there are none if there are none."""

    options: list[Option]
    diagnosis: str = ""
    blocked: str = ""
    """The name of the filter that let nothing through."""


def offer(candidates: Sequence[Option], filters: Sequence[Filter], what: str) -> Offer:
    """Apply filters in order; name the one that let nothing through."""
    left = sorted(candidates, key=lambda option: option.cost)
    if not left:
        return Offer([], f"{what}: the data holds none (sandbox)", "sandbox")
    for name, keeps in filters:
        kept = [option for option in left if keeps(option)]
        if not kept:
            cheapest = f", the cheapest at ${left[0].cost:g}"
            return Offer([], f"{what}: none of {len(left)} options passes the filter {name!r}{cheapest}", name)
        left = kept
    return Offer(left)


def transports(leg: Leg, people: int, sandbox: Sandbox) -> list[Option]:
    """Flights of the day, and a car where the road takes less than a day."""
    flights = [_flight(row, people) for row in sandbox.flights(leg.origin, leg.destination, leg.date)]
    return [*flights, *_cars(leg, people, sandbox)]


def stays(city: str, people: int, nights: int, sandbox: Sandbox) -> list[Option]:
    """Places to sleep, priced for the whole stay as the scorer prices the row it will match."""
    options = {}
    for row in sandbox.accommodations(city):
        text = f"{row.name}, {city}"
        if scored := match_accommodation(*item(text), sandbox):
            place = scored[0]
            cost = place.price * ceil(people / place.maximum_occupancy) * nights
            options[text] = Option(text, f"{_short(row.name)} (${cost:g}, {place.room_type})", cost, place=place)
    return list(options.values())


def restaurants(city: str, people: int, sandbox: Sandbox) -> list[Option]:
    """Restaurants, with the cuisines that the scorer will read."""
    options = {}
    for row in sandbox.restaurants(city):
        text = f"{row.name}, {city}"
        if scored := match_restaurant(*item(text), sandbox):
            cost = scored[0].cost * people
            options[text] = Option(text, f"{_short(row.name)} (${cost:g})", cost, cuisines=scored[0].cuisines)
    return list(options.values())


def sights(city: str, sandbox: Sandbox) -> list[Option]:
    """Attractions; they are free. The closing semicolon makes the official scorer look at them."""
    texts = {f"{row.name}, {city}": row.name for row in sandbox.attractions(city)}
    found = {text: name for text, name in texts.items() if ";" not in text and match_attraction(*item(text), sandbox)}
    return [Option(f"{text};", _short(name), 0.0) for text, name in found.items()]


def allowed_transport(wanted: LocalConstraint) -> Filter:
    """Not the kind of transport that the traveller refuses."""
    refused = FORBIDS.get(wanted.transportation or "")
    return Filter("local constraints", lambda option: option.kind != refused)


def allowed_stay(wanted: LocalConstraint, nights: int) -> Filter:
    """The requested room type and house rule, and a minimum stay that the trip meets."""

    def keeps(option: Option) -> bool:
        place = option.place
        return place is not None and not stay_violation(place, wanted, nights)

    return Filter("local constraints", keeps)


def stay_violation(place: Accommodation, wanted: LocalConstraint, nights: int) -> str:
    """What a place to stay violates; empty when nothing."""
    if wanted.house_rule and f"No {wanted.house_rule}" in place.house_rules:
        return f"{place.name} has the rule No {wanted.house_rule}"
    if wanted.room_type and place.room_type not in ALLOWED_ROOMS[wanted.room_type]:
        return f"{place.name} is a {place.room_type}, requested is {wanted.room_type}"
    if place.minimum_nights > nights:
        return f"{place.name} asks for {place.minimum_nights:g} nights, the trip has {nights}"
    return ""


def consistent_with(kinds: set[Kind]) -> Filter:
    """Self-driving goes with neither a flight nor a taxi on the same trip."""
    return Filter("transport mode", lambda option: option.kind is not None and compatible(option.kind, kinds))


def compatible(kind: Kind, kinds: set[Kind]) -> bool:
    """Whether a kind of transport may join those already booked."""
    return all((kind == "self-driving") == (other == "self-driving") for other in kinds)


def unused(texts: Sequence[str]) -> Filter:
    """Nothing twice on one trip."""
    used = set(texts)
    return Filter("uniqueness", lambda option: option.text not in used)


def none_of(kinds: Sequence[object]) -> Filter:
    """Not the kinds of transport that a replanned predicate asks to avoid."""
    return Filter("replanning", lambda option: option.kind not in kinds)


def serving_first(options: list[Option], cuisines: Sequence[str]) -> list[Option]:
    """Only what serves one of the cuisines, or everything where nothing does."""
    serving = [option for option in options if any(cuisine in option.cuisines for cuisine in cuisines)]
    return serving or options


def _flight(row: Flight, people: int) -> Option:
    text = (
        f"Flight Number: {row.number}, from {row.origin} to {row.destination}, "
        f"Departure Time: {row.departs}, Arrival Time: {row.arrives}"
    )
    cost = row.price * people
    return Option(text, f"Flight {row.number} {row.departs}-{row.arrives} (${cost:g})", cost, "flight")


def _cars(leg: Leg, people: int, sandbox: Sandbox) -> Iterator[Option]:
    road = sandbox.distance(leg.origin, leg.destination)
    kinds: dict[Kind, str] = {"self-driving": "Self-driving", "taxi": "Taxi"}
    for kind, word in kinds.items():
        if road and (each := distance_cost(kind, road)) is not None:
            cost = each * ceil(people / SEATS[kind])
            details = f"duration: {road.duration}, distance: {road.distance}, cost: {each}"
            text = f"{word}, from {leg.origin} to {leg.destination}, {details}"
            yield Option(text, f"{word} {road.duration} (${cost:g})", cost, kind)


def _short(name: str) -> str:
    return name if len(name) <= 60 else f"{name[:57]}..."
