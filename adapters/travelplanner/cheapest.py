"""The exact cheapest cost of a trip on a fixed route, under the official rules.

Transport, places to stay and meals do not depend on one another, so the cheapest trip is the sum of three minima.
Only meals need a search: all restaurants differ, and together they must serve every requested cuisine.
"""

import datetime
import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple, TypeVar

from certigraph.adapters.travelplanner.sandbox import Accommodation, Distance, Restaurant, Sandbox

Menu = dict[int, float]
"""Cheapest cost per set of served cuisines, a bit for each requested one."""

Option = TypeVar("Option", Restaurant, Accommodation)

_ROOM_TYPES = {"entire room": "Entire home/apt", "private room": "Private room", "shared room": "Shared room"}


class Leg(NamedTuple):
    """A journey between two cities on an ISO date."""

    origin: str
    destination: str
    date: str


class Stay(NamedTuple):
    """A visited city."""

    city: str
    nights: int


class Trip(NamedTuple):
    """A closed route, for its last leg ends where the first begins."""

    legs: tuple[Leg, ...]
    people: int

    @property
    def stays(self) -> list[Stay]:
        """The visited cities, in order, with the nights between arriving and leaving."""
        dates = [datetime.date.fromisoformat(leg.date) for leg in self.legs]
        nights = [(after - before).days for before, after in pairwise(dates)]
        return [Stay(leg.destination, count) for leg, count in zip(self.legs, nights, strict=False)]


class Constraints(NamedTuple):
    """The requested local constraints, in the benchmark's words; None or empty where nothing is requested."""

    house_rule: str | None = None
    cuisines: tuple[str, ...] = ()
    room_type: str | None = None
    transportation: str | None = None

    @classmethod
    def of(cls, local_constraint: Mapping[str, Any]) -> "Constraints":
        """From a query's `local_constraint`."""
        return cls(
            local_constraint["house rule"],
            tuple(local_constraint["cuisine"] or ()),
            local_constraint["room type"],
            local_constraint["transportation"],
        )


def cheapest_cost(
    trip: Trip, constraints: Constraints, sandbox: Sandbox, *, travel_day_meals: bool = True
) -> int | None:
    """The smallest budget in whole dollars that pays for the trip; None when no such trip exists.

    Every day has three meals, on a travel day in the city of arrival and on the last day in the last city. Without
    `travel_day_meals`, meals on travel days may be left out, which the official rules allow.
    """
    cost = (
        _transport(trip, constraints, sandbox)
        + sum(_lodging(stay, trip.people, constraints, sandbox) for stay in trip.stays)
        + _meals(trip, constraints.cuisines, sandbox, travel_day_meals=travel_day_meals)
    )
    return math.ceil(cost) if cost < math.inf else None


def _transport(trip: Trip, constraints: Constraints, sandbox: Sandbox) -> float:
    """A trip is either self-driven throughout or mixes flights and taxis."""
    driven = mixed = 0.0
    for leg in trip.legs:
        length = kilometres(sandbox.distance(leg.origin, leg.destination))
        flights = () if constraints.transportation == "no flight" else sandbox.flights(*leg)
        flight = min((flight.price for flight in flights), default=math.inf) * trip.people
        if length is None:
            driven, mixed = math.inf, mixed + flight
        else:
            driven += int(length * 0.05) * math.ceil(trip.people / 5)
            mixed += min(flight, int(length) * math.ceil(trip.people / 4))
    return mixed if constraints.transportation == "no self-driving" else min(driven, mixed)


def kilometres(road: Distance | None) -> float | None:
    """Length of a usable road, None without one; a road that takes a day or longer is not usable."""
    if road is None or not road.duration or not road.distance or "day" in road.duration:
        return None
    return float(road.distance.removesuffix(" km").replace(",", ""))


def _lodging(stay: Stay, people: int, constraints: Constraints, sandbox: Sandbox) -> float:
    return min(
        (
            place.price * math.ceil(people / place.maximum_occupancy) * stay.nights
            for place in _as_scored(sandbox.accommodations(stay.city))
            if place.minimum_nights <= stay.nights and _suits(place, constraints)
        ),
        default=math.inf,
    )


def _suits(place: Accommodation, constraints: Constraints) -> bool:
    if constraints.house_rule and f"No {constraints.house_rule}" in place.house_rules:
        return False
    if constraints.room_type == "not shared room":
        return place.room_type != "Shared room"
    return constraints.room_type is None or place.room_type == _ROOM_TYPES[constraints.room_type]


def _as_scored(rows: Sequence[Option]) -> list[Option]:
    """One row for each name a plan may write: the first row whose name contains it, for that is what gets scored.

    A name with a line break cannot be written in a plan.
    """
    names = dict.fromkeys(row.name for row in rows if "\n" not in row.name)
    return [next(row for row in rows if name in row.name) for name in names]


def _meals(trip: Trip, cuisines: Sequence[str], sandbox: Sandbox, *, travel_day_meals: bool) -> float:
    total: Menu = {0: 0.0}
    stays = trip.stays
    for stay in stays:
        days = stay.nights + (stay is stays[-1])
        least = 3 * (days if travel_day_meals else stay.nights - 1)
        total = _both(total, _menu(_as_scored(sandbox.restaurants(stay.city)), cuisines, least, most=3 * days))
    return total.get(2 ** len(cuisines) - 1, math.inf) * trip.people


def _menu(restaurants: Sequence[Restaurant], cuisines: Sequence[str], least: int, most: int) -> Menu:
    """Between `least` and `most` different restaurants of one city."""
    menus: list[Menu] = [{0: 0.0}] + [{} for _ in range(most)]
    for restaurant in restaurants:
        serves = sum(1 << bit for bit, cuisine in enumerate(cuisines) if cuisine in restaurant.cuisines)
        for fewer, more in reversed(list(pairwise(menus))):
            for mask, cost in fewer.items():
                more[mask | serves] = min(cost + restaurant.cost, more.get(mask | serves, math.inf))
    best: Menu = {}
    for menu in menus[least:]:
        for mask, cost in menu.items():
            best[mask] = min(cost, best.get(mask, math.inf))
    return best


def _both(one: Menu, other: Menu) -> Menu:
    best: Menu = {}
    for mask, cost in one.items():
        for more, added in other.items():
            best[mask | more] = min(cost + added, best.get(mask | more, math.inf))
    return best
