"""The itinerary that the expert has in mind: of everything the cheapest that leaves an affordable way to the end."""

from typing import TYPE_CHECKING, NamedTuple

from certigraph.adapters.travelplanner.choosing import Chooser, choices, taken
from certigraph.adapters.travelplanner.data.queries import Query
from certigraph.adapters.travelplanner.draft import NOTHING, Draft
from certigraph.adapters.travelplanner.trip import Trip, plan_of

if TYPE_CHECKING:
    from certigraph.adapters.travelplanner.benchmark import TravelPlanner


class Gold(NamedTuple):
    """A query, the trip along its reference, and what to book on each day."""

    query: Query
    trip: Trip
    draft: Draft

    def entry(self, day: int, name: str) -> str:
        """What a day has under one of the plan's keys; "-" where nothing."""
        return self.draft.booked.get(f"{day}:{name}", NOTHING)


def gold_of(benchmark: "TravelPlanner", query: Query) -> Gold:
    """The itinerary of a query: it passes officially where any along the reference's route does.

    Where none is affordable it takes the cheapest while the money lasts, so that there is something to deliver.
    """
    trip = benchmark.trip(query)
    chooser = Chooser(benchmark.catalog(query, trip.cities), query.budget, lookahead=benchmark.feasible(query))
    draft = Draft()
    for target in plan_of(query, trip):
        for choice in choices(chooser.catalog, target):
            if offered := chooser.offer(choice, draft, target).options:
                draft = taken(draft, choice, offered[0])
    return Gold(query, trip, draft)
