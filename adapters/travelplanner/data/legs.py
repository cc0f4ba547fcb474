"""The legs of a trip, read from the flights of a query's reference information."""

import re
from itertools import pairwise
from typing import NamedTuple

from certigraph.adapters.travelplanner.data.queries import Query, Reference
from certigraph.state.endings import Fault

FLIGHT = re.compile(r"Flight from (?P<origin>.+) to (?P<destination>.+) on (?P<date>\d{4}-\d\d-\d\d)")
NO_FLIGHT = "There is no flight"


class ListedLeg(NamedTuple):
    """One journey between two cities. Whether flights exist is known for the listed legs only."""

    origin: str
    destination: str
    date: str
    has_flights: bool


def legs(query: Query) -> tuple[ListedLeg, ...]:
    """The legs in the order given, a closed circle from `org`.

    Raises:
        Fault: the flights of the reference information do not chain from `org` back to `org`.
    """
    trip = tuple(leg for item in query.reference if (leg := _leg(item)))
    stops = [query.org, *(leg.destination for leg in trip)]
    chained = all(leg.origin == stop for leg, stop in zip(trip, stops, strict=False))
    if not trip or not chained or stops[-1] != query.org:
        route = ", ".join(f"{leg.origin} to {leg.destination}" for leg in trip) or "no flight at all"
        raise Fault("data", f"query {query.idx}: {route} is no round trip from {query.org}: correct its reference")
    return trip


def visited_cities(query: Query) -> tuple[str, ...]:
    """The cities between leaving `org` and coming back, in order."""
    return tuple(before.destination for before, _ in pairwise(legs(query)))


def _leg(item: Reference) -> ListedLeg | None:
    match = FLIGHT.fullmatch(item.description)
    if match is None:
        return None
    return ListedLeg(match["origin"], match["destination"], match["date"], not item.content.startswith(NO_FLIGHT))
