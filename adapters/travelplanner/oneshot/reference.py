"""The reference information of a query as compact lines, so that a whole trip fits into a small model's context.

It tells what the sole-planning mode gives (section 2 of the benchmark's paper): the days with their cities and every
leg's transport, and each city's restaurants, attractions and places to stay with their prices. Prices are a person's,
a car's or a night's, and no constraint of the request is applied: adding up and filtering is left to the planner.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeVar

from certigraph.adapters.travelplanner.data.queries import Query
from certigraph.adapters.travelplanner.data.sandbox import Accommodation, Restaurant, Sandbox
from certigraph.adapters.travelplanner.official.costs import SEATS
from certigraph.adapters.travelplanner.options import Option, transports
from certigraph.adapters.travelplanner.trip import Leg, Trip

T = TypeVar("T")
RESTAURANTS, ATTRACTIONS, STAYS = "Restaurants", "Attractions", "Accommodations"

UNITS: Mapping[str | None, str] = {
    "flight": "a person",
    **{kind: f"a car of {seats}" for kind, seats in SEATS.items()},
}


def reference_text(query: Query, trip: Trip, sandbox: Sandbox, most: int) -> str:
    """The reference information of a query, at most `most` lines a list.

    Lists are in the data's order. Of a longer one the cheapest entries are kept, so that whatever budget can be met
    from the whole list still can.
    """
    heading = f"People: {query.people_number}. Budget for all of them and all days: ${query.budget}."
    sections = [*_days(trip, sandbox, most), *(part for city in trip.cities for part in _city(city, sandbox, most))]
    return "\n".join([heading, *sections])


def cheapest(rows: Sequence[T], price: Callable[[T], float], most: int) -> list[T]:
    """The `most` cheapest rows, in the order given."""
    kept = sorted(range(len(rows)), key=lambda number: price(rows[number]))[:most]
    return [rows[number] for number in sorted(kept)]


def _days(trip: Trip, sandbox: Sandbox, most: int) -> Iterator[str]:
    for day, date in enumerate(trip.dates, 1):
        if leg := trip.leg_on(day):
            head = f"Day {day} ({date}) from {leg.origin} to {leg.destination}"
            yield _section(head, map(way_line, _ways(leg, sandbox, most)))
        else:
            yield _section(f"Day {day} ({date}) in {trip.city_on(day)}", ())


def _ways(leg: Leg, sandbox: Sandbox, most: int) -> list[Option]:
    return cheapest(transports(leg, 1, sandbox), lambda way: way.cost, most)


def _city(city: str, sandbox: Sandbox, most: int) -> Iterator[str]:
    eating = cheapest(sandbox.restaurants(city), lambda row: row.cost, most)
    staying = cheapest(sandbox.accommodations(city), lambda row: row.price, most)
    yield _section(f"{RESTAURANTS} in {city}", map(restaurant_line, eating))
    yield _section(f"{STAYS} in {city}", map(stay_line, staying))
    yield _section(f"{ATTRACTIONS} in {city}", (one_line(row.name) for row in sandbox.attractions(city)[:most]))


def _section(head: str, lines: Iterator[str] | Sequence[str]) -> str:
    return "\n".join([f"{head}:", *(f"- {line}" for line in lines)])


def way_line(way: Option) -> str:
    """A flight or a car with its price."""
    return f"{way.text} | ${way.cost:g} {UNITS[way.kind]}"


def restaurant_line(row: Restaurant) -> str:
    """A restaurant with its price and cuisines."""
    return f"{one_line(row.name)} | ${row.cost:g} a person | {row.cuisines}"


def stay_line(row: Accommodation) -> str:
    """A place to stay with its price and whom it takes, for how long."""
    most, least = f"{row.maximum_occupancy} people", f"at least {row.minimum_nights:g} nights"
    return f"{one_line(row.name)} | ${row.price:g} a night for {most} | {least} | {row.room_type} | {row.house_rules}"


def one_line(name: str) -> str:
    """A name whose line breaks show as the two characters that the official tables write for one."""
    return name.replace("\n", "\\n")
