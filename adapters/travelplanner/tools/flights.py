"""Whether a leg has flights: what is known, what is known to be none, and what a cut table leaves open."""

from collections.abc import Iterable, Sequence

from certigraph.adapters.travelplanner.data.legs import ListedLeg
from certigraph.adapters.travelplanner.data.sandbox import Sandbox

MOST_KNOWN = 20
"""Dates or cities that are named beside a leg that is not in the data."""


class KnownFlights:
    """Which legs a flight table tells about.

    A whole table tells about all. A cut one tells about the legs that the queries' reference information lists, with or
    without flights, and about those that it has rows of; of others it must not be said that they have no flight.

    What it names beside such a leg, without which nobody would come upon the few that it holds, gives away cities of
    the queries' reference information: with a cut table figures do not compare with those of the whole one.
    """

    def __init__(self, sandbox: Sandbox, listed: Iterable[ListedLeg], *, whole: bool) -> None:
        self._sandbox, self._whole = sandbox, whole
        self._listed = sorted(set(listed))
        self._legs = {leg[:3] for leg in self._listed}

    def tells(self, origin: str, destination: str, date: str) -> bool:
        """Whether a leg that the table has no row of is known to have no flight."""
        return self._whole or (origin, destination, date) in self._legs

    def missing(self, origin: str, destination: str, date: str) -> str:
        """What to say of a leg that the table does not tell about: that it is not in the data, and what is."""
        there, way = f"Not in the data: flights from {origin} to {destination} on {date}.", f"{origin} to {destination}"
        if dates := self._dates(origin, destination):
            return f"{there} Known of {way}: {_some(dates)}."
        from_there = [f"{leg.destination} ({_word(leg)})" for leg in self._listed if leg[::2] == (origin, date)]
        found = _some(list(dict.fromkeys(from_there))) or "nothing"
        return f"{there} Known from {origin} on that day: {found}."

    def _dates(self, origin: str, destination: str) -> list[str]:
        flown = {row.date: "flights" for row in self._sandbox.flights(origin, destination)}
        legs = [leg for leg in self._listed if leg[:2] == (origin, destination)]
        known = {**{leg.date: _word(leg) for leg in legs}, **flown}
        return [f"{date} ({known[date]})" for date in sorted(known)]


def _word(leg: ListedLeg) -> str:
    return "flights" if leg.has_flights else "none"


def _some(found: Sequence[str]) -> str:
    more = f", and {len(found) - MOST_KNOWN} more" if len(found) > MOST_KNOWN else ""
    return ", ".join(found[:MOST_KNOWN]) + more
