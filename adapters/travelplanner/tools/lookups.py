"""The six tools that read: what they answer depends on nothing but their arguments, so they go in any order."""

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from certigraph.adapters.travelplanner.data.legs import ListedLeg
from certigraph.adapters.travelplanner.data.sandbox import Sandbox
from certigraph.adapters.travelplanner.data.tables import find_sources
from certigraph.adapters.travelplanner.oneshot.reference import one_line, restaurant_line, stay_line, way_line
from certigraph.adapters.travelplanner.options import Option, transports
from certigraph.adapters.travelplanner.tools import forms
from certigraph.adapters.travelplanner.tools.flights import KnownFlights
from certigraph.adapters.travelplanner.tools.forms import Call
from certigraph.adapters.travelplanner.tools.places import Places
from certigraph.adapters.travelplanner.trip import Leg
from certigraph.state.records import Observation

MOST = 40
"""Rows of one answer."""

WHOLE_TABLE = "clean_Flights_2022.csv"

CHEAPEST = ", cheapest first"


class Lookups:
    """Answers over one database, for any number of worlds at the same time."""

    def __init__(self, sandbox: Sandbox, known: KnownFlights) -> None:
        self._sandbox, self._known = sandbox, known
        self._places = Places(sandbox)
        self._tools: Mapping[str, Callable[..., Observation]] = {
            forms.FLIGHTS: self._flights,
            forms.DISTANCE: self._roads,
            forms.STAYS: self._stays,
            forms.RESTAURANTS: self._restaurants,
            forms.ATTRACTIONS: self._attractions,
            forms.CITIES: self._cities,
        }

    def answer(self, call: Call) -> Observation:
        """The answer to a call of one of the six. Raises RefusedError where an argument names nothing."""
        return self._tools[call.tool](*call.values)

    def _flights(self, first: str, second: str, when: str) -> Observation:
        origin, destination, date = self._places.city(first), self._places.city(second), forms.day(when)
        rows = [way for way in self._ways(origin, destination, date) if way.kind == "flight"]
        if not rows and not self._known.tells(origin, destination, date):
            return _not_known(self._known.missing(origin, destination, date))
        none = f"There is no flight from {origin} to {destination} on {date}."
        return _told(f"Flights from {origin} to {destination} on {date}{CHEAPEST}", map(way_line, rows), none)

    def _roads(self, first: str, second: str, how: str) -> Observation:
        origin, destination, mode = self._places.city(first), self._places.city(second), forms.mode(how)
        rows = [way for way in self._ways(origin, destination, "") if way.kind == mode]
        road = self._sandbox.distance(origin, destination)
        if not rows and not (road and "day" in road.duration):
            return _not_known(f"Not in the data: the road from {origin} to {destination}.")
        none = f"No {mode} goes from {origin} to {destination} within a day."
        return _told(f"{mode.capitalize()} from {origin} to {destination}", map(way_line, rows), none)

    def _stays(self, name: str) -> Observation:
        city = self._places.city(name)
        rows = sorted(self._sandbox.accommodations(city), key=lambda row: row.price)
        return _listing("Places to stay", city, map(stay_line, rows), order=CHEAPEST)

    def _restaurants(self, name: str) -> Observation:
        city = self._places.city(name)
        rows = sorted(self._sandbox.restaurants(city), key=lambda row: row.cost)
        return _listing("Restaurants", city, map(restaurant_line, rows), order=CHEAPEST)

    def _attractions(self, name: str) -> Observation:
        city = self._places.city(name)
        return _listing("Attractions", city, (one_line(row.name) for row in self._sandbox.attractions(city)))

    def _cities(self, name: str) -> Observation:
        state = self._places.state(name)
        return _listing("Cities", state, self._places.cities_of(state))

    def _ways(self, origin: str, destination: str, date: str) -> list[Option]:
        return sorted(transports(Leg(1, origin, destination, date), 1, self._sandbox), key=lambda way: way.cost)


def lookups_in(database: Path, sandbox: Sandbox, listed: Iterable[ListedLeg]) -> Lookups:
    """The tools over a database folder; its flight table is whole where it has the official name.

    Args:
        database: the folder.
        sandbox: what it holds.
        listed: the legs that the reference information of the queries tells about.
    """
    whole = find_sources(database).flights.name.removesuffix(".gz") == WHOLE_TABLE
    return Lookups(sandbox, KnownFlights(sandbox, listed, whole=whole))


def _listing(what: str, place: str, rows: Iterable[str], order: str = "") -> Observation:
    return _told(f"{what} in {place}{order}", rows, f"{what} in {place}: there are none.")


def _told(head: str, rows: Iterable[str], none: str) -> Observation:
    lines = [f"- {row}" for row in rows]
    if not lines:
        return Observation(text=none, data={"rows": 0})
    more = [f"({len(lines) - MOST} more are left out)"] if len(lines) > MOST else []
    return Observation(text="\n".join([f"{head}:", *lines[:MOST], *more]), data={"rows": len(lines)})


def _not_known(text: str) -> Observation:
    """What the data do not tell is no answer of no: a cut table has few flights, the distances a part of all pairs."""
    return Observation(text=text, data={"rows": 0, "known": False})
