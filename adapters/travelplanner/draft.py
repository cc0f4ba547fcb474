"""The itinerary as decided so far: plan entries by slot, folded from certified actions."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from certigraph.adapters.travelplanner.data.sandbox import Sandbox
from certigraph.adapters.travelplanner.official.costs import match_restaurant, total_cost
from certigraph.adapters.travelplanner.official.parsing import Kind, booked_kind, item
from certigraph.adapters.travelplanner.official.plans import MEALS
from certigraph.adapters.travelplanner.trip import Trip
from certigraph.state.records import Action

NOTHING = "-"
ENTRIES = ("transportation", "breakfast", "attraction", "lunch", "dinner", "accommodation")


class Slot(NamedTuple):
    """One entry of one day of the official plan format."""

    day: int
    entry: str

    def __str__(self) -> str:
        """The form in which actions name a slot: `3:lunch`."""
        return f"{self.day}:{self.entry}"


class Draft(NamedTuple):
    """Plan entries by slot (`3:lunch`), as the official format writes them; "-" where deliberately nothing."""

    booked: Mapping[str, str] = {}

    def texts(self, *entries: str) -> list[str]:
        """The texts of all slots of the given entries, nothing left out but "-"."""
        return [t for slot, t in self.booked.items() if slot.partition(":")[2] in entries and t != NOTHING]

    def kinds(self) -> set[Kind]:
        """Kinds of transport booked."""
        return {kind for text in self.texts("transportation") if (kind := booked_kind(text))}

    def cuisines_owed(self, wanted: Sequence[str], sandbox: Sandbox) -> list[str]:
        """Requested cuisines that no chosen restaurant serves yet."""
        served = [rows[0].cuisines for t in self.texts(*MEALS) if (rows := match_restaurant(*item(t), sandbox))]
        return [cuisine for cuisine in wanted if not any(cuisine in cuisines for cuisines in served)]

    def plan(self, trip: Trip) -> list[dict[str, object]]:
        """The official plan format, one dict a day."""
        return [self._day(trip, day) for day in range(1, trip.days + 1)]

    def cost(self, trip: Trip, people: int, sandbox: Sandbox) -> float:
        """Dollars so far, by the official scorer's own arithmetic."""
        return total_cost(people, self.plan(trip), sandbox)

    def _day(self, trip: Trip, day: int) -> dict[str, object]:
        leg = trip.leg_on(day)
        city = f"from {leg.origin} to {leg.destination}" if leg else trip.city_on(day)
        entries = {entry: self.booked.get(str(Slot(day, entry)), NOTHING) for entry in ENTRIES}
        return {"days": day, "current_city": city, **entries}


def draft_of(actions: Sequence[Action]) -> Draft:
    """What a sequence of accepted actions booked; later bookings of a slot replace earlier ones."""
    booked: dict[str, str] = {}
    for action in actions:
        booked.update(_bookings(action))
    return Draft(booked)


def _bookings(action: Action) -> dict[str, str]:
    book = action.args.get("book", {})
    return {slot: str(text) for slot, text in book.items()} if isinstance(book, dict) else {}
