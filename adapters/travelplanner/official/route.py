"""The constraint Reasonable City Route."""

from collections.abc import Iterator, Sequence
from itertools import groupby

from certigraph.adapters.travelplanner.data.queries import Query
from certigraph.adapters.travelplanner.data.sandbox import Sandbox
from certigraph.adapters.travelplanner.official.parsing import cities_of
from certigraph.adapters.travelplanner.official.plans import Plan


def reasonable_city_route(query: Query, plan: Plan, sandbox: Sandbox) -> Iterator[str]:
    """A closed circle through known cities of the destination, each visited once and for more than a day."""
    days = [cities_of(day) for day in plan]
    stops = [city for cities in days for city in cities or ("",)]
    if days[0] and len(days[0]) == 2 and days[0][0] != query.org:
        yield f"day 1 starts in {stops[0]}, not in {query.org}"
    if stops[0] != stops[-1]:
        yield f"starts in {stops[0]}, ends in {stops[-1]}"
    if len(stops) < 3:
        yield f"visits nothing but {', '.join(stops)}"
    yield from _broken_stays(stops)
    yield from _wrong_places(stops, query, sandbox)


def _broken_stays(stops: Sequence[str]) -> Iterator[str]:
    start, seen, last = 0, set(), len(stops) - 1
    for city, group in groupby(stops):
        if city in seen and start not in (0, last):
            yield f"{city} is visited twice"
        length = len(list(group))
        if length == 1 and 0 < start < last:
            yield f"{city} is only passed through"
        start += length
        seen.add(city)


def _wrong_places(stops: Sequence[str], query: Query, sandbox: Sandbox) -> Iterator[str]:
    for index, city in enumerate(stops):
        state = sandbox.state_of(city)
        if state is None:
            yield f"{city or 'a place that cannot be read'} is not a known city"
        elif 0 < index < len(stops) - 1 and query.days > 3 and state != query.dest:
            yield f"{city} is in {state}, not in {query.dest}"
