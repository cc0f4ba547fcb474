"""The eight commonsense constraints, judged as the official scorer does, quirks included."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby

from certigraph.adapters.travelplanner.data.queries import Query
from certigraph.adapters.travelplanner.data.sandbox import Sandbox
from certigraph.adapters.travelplanner.official.checks import Check
from certigraph.adapters.travelplanner.official.complete import complete_information
from certigraph.adapters.travelplanner.official.costs import (
    known_transport,
    match_accommodation,
    match_attraction,
    match_restaurant,
)
from certigraph.adapters.travelplanner.official.parsing import (
    attractions,
    booked_kind,
    cities_of,
    conflict_kind,
    item,
)
from certigraph.adapters.travelplanner.official.plans import Day, Plan, current_city, entry, meals
from certigraph.adapters.travelplanner.official.route import reasonable_city_route

CONFLICTS = ({"self-driving", "flight"}, {"taxi", "self-driving"})


def diverse_restaurants(query: Query, plan: Plan, sandbox: Sandbox) -> Iterator[str]:
    """No meal is written twice in the same words."""
    yield from _repeats(text for day in plan for text in meals(day))


def diverse_attractions(query: Query, plan: Plan, sandbox: Sandbox) -> Iterator[str]:
    """No attraction is written twice in the same words."""
    yield from _repeats(text for day in plan for text in attractions(day))


def minimum_nights_stay(query: Query, plan: Plan, sandbox: Sandbox) -> Iterator[str]:
    """Every stay is as long as the place demands; a name that matches several places is not judged."""
    yield from (
        f"day {number}: no entry accommodation" for number, day in _numbered(plan) if "accommodation" not in day
    )
    for text, group in groupby(entry(day, "accommodation") for day in plan):
        nights, rows = len(list(group)), match_accommodation(*item(text), sandbox)
        if len(rows) == 1 and nights < rows[0].minimum_nights:
            yield f"{text}: {nights} of at least {rows[0].minimum_nights:g} nights"


def non_conflicting_transportation(query: Query, plan: Plan, sandbox: Sandbox) -> Iterator[str]:
    """The first day travels, and no self-driving is mixed with flights or taxis."""
    if not entry(plan[0], "transportation"):
        yield "day 1: no transportation"
    kinds = {conflict_kind(entry(day, "transportation")) for day in plan}
    yield from (f"both {' and '.join(sorted(pair))}" for pair in CONFLICTS if pair <= kinds)


def within_current_city(query: Query, plan: Plan, sandbox: Sandbox) -> Iterator[str]:
    """Everything of a day is in its city. On a plain day officially the city's characters are compared, one by one."""
    for number, day in _numbered(plan):
        cities = cities_of(day)
        if cities is None:
            yield f"day {number}: {current_city(day)} cannot be read"
            continue
        places = cities if len(cities) == 2 else tuple(cities[0])
        yield from (f"day {number}: {what} elsewhere than in {current_city(day)}" for what in _elsewhere(day, places))


def within_sandbox(query: Query, plan: Plan, sandbox: Sandbox) -> Iterator[str]:
    """Everything in the plan exists in the database. Flights are looked up without their date."""
    for number, day in _numbered(plan):
        yield from (f"day {number}: {text} is unknown" for text in _unknown(day, sandbox))


COMMONSENSE: Mapping[str, Check] = {
    "Reasonable City Route": reasonable_city_route,
    "Diverse Restaurants": diverse_restaurants,
    "Diverse Attractions": diverse_attractions,
    "Minimum Nights Stay": minimum_nights_stay,
    "Non-conflicting Transportation": non_conflicting_transportation,
    "Within Current City": within_current_city,
    "Within Sandbox": within_sandbox,
    "Complete Information": complete_information,
}


def _numbered(plan: Plan) -> Iterator[tuple[int, Day]]:
    return enumerate(plan, start=1)


def _repeats(texts: Iterator[str]) -> Iterator[str]:
    seen = set()
    for text in texts:
        if text in seen:
            yield f"{text} is repeated"
        seen.add(text)


def _elsewhere(day: Day, places: Sequence[str]) -> Iterator[str]:
    transport, place = entry(day, "transportation"), entry(day, "accommodation")
    if transport and not all(city in transport for city in places):
        yield transport
    yield from (text for text in [*meals(day), *attractions(day)] if not any(city in text for city in places))
    if place and not (places and places[-1] in place):
        yield place


def _unknown(day: Day, sandbox: Sandbox) -> Iterator[str]:
    transport, place = entry(day, "transportation"), entry(day, "accommodation")
    if booked_kind(transport) and not known_transport(transport, current_city(day), sandbox):
        yield transport
    yield from (text for text in meals(day) if not match_restaurant(*item(text), sandbox))
    yield from (text for text in attractions(day) if not match_attraction(*item(text), sandbox))
    if place and not match_accommodation(*item(place), sandbox):
        yield place
