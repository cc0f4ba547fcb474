"""The six tools that read: what they answer depends on nothing but their arguments, so they go in any order."""

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from certigraph.adapters.travelplanner.data.legs import ListedLeg
from certigraph.adapters.travelplanner.data.sandbox import Accommodation, Restaurant, Sandbox
from certigraph.adapters.travelplanner.data.tables import find_sources
from certigraph.adapters.travelplanner.oneshot.reference import UNITS
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
            return Observation(text=self._known.missing(origin, destination, date), data={"rows": 0, "known": False})
        none = f"There is no flight from {origin} to {destination} on {date}."
        return _told(f"Flights from {origin} to {destination} on {date}{CHEAPEST}", map(_way, rows), none)

    def _roads(self, first: str, second: str, how: str) -> Observation:
        origin, destination, mode = self._places.city(first), self._places.city(second), forms.mode(how)
        rows = [way for way in self._ways(origin, destination, "") if way.kind == mode]
        none = f"No {mode} goes from {origin} to {destination} within a day."
        return _told(f"{mode.capitalize()} from {origin} to {destination}", map(_way, rows), none)

    def _stays(self, name: str) -> Observation:
        city = self._places.city(name)
        rows = sorted(self._sandbox.accommodations(city), key=lambda row: row.price)
        return _listing("Places to stay", city, map(_stay, rows), order=CHEAPEST)

    def _restaurants(self, name: str) -> Observation:
        city = self._places.city(name)
        rows = sorted(self._sandbox.restaurants(city), key=lambda row: row.cost)
        return _listing("Restaurants", city, map(_restaurant, rows), order=CHEAPEST)

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


def one_line(name: str) -> str:
    """A name whose line breaks show as the two characters that the official tables write for one."""
    return name.replace("\n", "\\n")


def _listing(what: str, place: str, rows: Iterable[str], order: str = "") -> Observation:
    return _told(f"{what} in {place}{order}", rows, f"{what} in {place}: there are none.")


def _told(head: str, rows: Iterable[str], none: str) -> Observation:
    lines = [f"- {row}" for row in rows]
    if not lines:
        return Observation(text=none, data={"rows": 0})
    more = [f"({len(lines) - MOST} more are left out)"] if len(lines) > MOST else []
    return Observation(text="\n".join([f"{head}:", *lines[:MOST], *more]), data={"rows": len(lines)})


def _way(way: Option) -> str:
    return f"{way.text} | ${way.cost:g} {UNITS[way.kind]}"


def _stay(row: Accommodation) -> str:
    sleeps, least = f"for {row.maximum_occupancy}", f"minimum nights {row.minimum_nights:g}"
    return f"{one_line(row.name)} | ${row.price:g} a night {sleeps} | {least} | {row.room_type} | {row.house_rules}"


def _restaurant(row: Restaurant) -> str:
    return f"{one_line(row.name)} | ${row.cost:g} a person | {row.cuisines}"
