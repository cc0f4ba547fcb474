"""The typed rows of TravelPlanner's sandbox, and what its database must answer."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol


class Flight(NamedTuple):
    number: str
    price: float
    departs: str
    arrives: str
    duration: str
    date: str
    origin: str
    destination: str
    miles: float


class Restaurant(NamedTuple):
    name: str
    city: str
    cuisines: str
    """Comma-separated, as in the table: "Mexican, Mediterranean, Desserts"."""
    cost: int
    rating: float


class Accommodation(NamedTuple):
    name: str
    city: str
    room_type: str
    price: float
    minimum_nights: float
    rating: float
    house_rules: str
    """Joined by " & ": "No pets & No smoking"."""
    maximum_occupancy: int


class Attraction(NamedTuple):
    name: str
    city: str


class Distance(NamedTuple):
    """First row of a directed pair; empty strings where the table has none."""

    duration: str
    distance: str


class Sandbox(Protocol):
    """Rows come in file order: where several match, the official scorer takes the first."""

    def restaurants(self, city: str) -> Sequence[Restaurant]: ...

    def accommodations(self, city: str) -> Sequence[Accommodation]: ...

    def attractions(self, city: str) -> Sequence[Attraction]: ...

    def flights(self, origin: str, destination: str, date: str | None = None) -> Sequence[Flight]:
        """Flights of a leg, on one ISO date or on any."""
        ...

    def flight(self, number: str) -> Flight | None:
        """The first flight with that number."""
        ...

    def distance(self, origin: str, destination: str) -> Distance | None: ...

    def state_of(self, city: str) -> str | None:
        """The US state of a city of citySet_with_states.txt; None for a city outside it."""
        ...

    def cities(self) -> Sequence[str]: ...
