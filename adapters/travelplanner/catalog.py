"""What a trip can choose from, looked up once: options that meet the traveller's local constraints, cheapest first."""

from functools import cache
from math import inf

from certigraph.adapters.travelplanner import options
from certigraph.adapters.travelplanner.data.queries import LocalConstraint
from certigraph.adapters.travelplanner.data.sandbox import Sandbox
from certigraph.adapters.travelplanner.options import Option
from certigraph.adapters.travelplanner.trip import Leg, Trip


class Catalog:
    """The candidates for a party on one trip; every method is memoised."""

    def __init__(self, people: int, wanted: LocalConstraint, trip: Trip, sandbox: Sandbox) -> None:
        self.people, self.wanted, self.trip, self.sandbox = people, wanted, trip, sandbox
        self.transports = cache(self._transports)
        self.stays = cache(self._stays)
        self.restaurants = cache(self._restaurants)
        self.least_stay = cache(self._least_stay)

    def _transports(self, leg: Leg) -> list[Option]:
        return options.transports(leg, self.people, self.sandbox)

    def _stays(self, city: str) -> list[Option]:
        return options.stays(city, self.people, len(self.trip.nights_in(city)), self.sandbox)

    def _restaurants(self, city: str) -> list[Option]:
        found = options.restaurants(city, self.people, self.sandbox)
        return sorted(found, key=lambda option: option.cost)

    def _least_stay(self, city: str) -> float:
        allowed = options.allowed_stay(self.wanted, len(self.trip.nights_in(city)))
        return min((option.cost for option in self.stays(city) if allowed.keeps(option)), default=inf)
