"""A trip on one route: its legs by date, and the plan of predicates it takes (SDP appendix A.2)."""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from certigraph.adapters.travelplanner.data.legs import legs, visited_cities
from certigraph.adapters.travelplanner.data.queries import Query
from certigraph.adapters.travelplanner.official.plans import MEALS
from certigraph.state.records import Arguments, Predicate

TRANSPORT, STAY, MEAL_DAY, SIGHT_DAY, BUDGET, RENDER = "transport", "stay", "meals", "attraction", "budget", "render"
OUTBOUND, BETWEEN, RETURN = "outbound", "inter_city", "return"


class Leg(NamedTuple):
    """One journey of the trip on a day counted from 1."""

    day: int
    origin: str
    destination: str
    date: str


class Trip(NamedTuple):
    """A closed route from home through the visited cities, with the days on which one travels."""

    home: str
    cities: tuple[str, ...]
    dates: tuple[str, ...]
    travel_days: tuple[int, ...]
    """Counted from 1; one more than there are cities."""

    @property
    def days(self) -> int:
        """Number of days."""
        return len(self.dates)

    @property
    def legs(self) -> tuple[Leg, ...]:
        """All journeys, in order."""
        stops = pairwise([self.home, *self.cities, self.home])
        return tuple(Leg(d, a, b, self.dates[d - 1]) for d, (a, b) in zip(self.travel_days, stops, strict=True))

    def leg_on(self, day: int) -> Leg | None:
        """The journey of a day, if it is a travel day."""
        return next((leg for leg in self.legs if leg.day == day), None)

    def city_on(self, day: int) -> str:
        """Where the day's meals and attractions are: the city of arrival, on the last day the last city."""
        arrived = sum(travel_day <= day for travel_day in self.travel_days)
        return self.cities[min(arrived, len(self.cities)) - 1]

    def nights_in(self, city: str) -> list[int]:
        """The days on which one sleeps in a city."""
        return [day for day in range(1, self.days) if self.city_on(day) == city]

    def meal_slots(self) -> Iterator[tuple[int, str]]:
        """Every meal of the trip as (day, meal), in order."""
        return ((day, meal) for day in range(1, self.days + 1) for meal in MEALS)


def trip_of(query: Query, route: Sequence[str] | None = None) -> Trip:
    """The trip of a query through its cities, on the days and, unless another is given, in the order of its legs."""
    days = tuple(query.date.index(leg.date) + 1 for leg in legs(query))
    return Trip(query.org, tuple(route or visited_cities(query)), query.date, days)


def plan_of(query: Query, trip: Trip) -> list[Predicate]:
    """The chain of predicates: 2d + 2c + 3 for d days and c cities, what costs most decided first."""
    return [
        *_transports(trip),
        *(_predicate(trip, STAY, _text(STAY, city=city), city=city) for city in trip.cities),
        *(_daily(trip, MEAL_DAY, day) for day in range(1, trip.days + 1)),
        *(_daily(trip, SIGHT_DAY, day) for day in range(1, trip.days + 1)),
        _predicate(trip, BUDGET, _text(BUDGET, budget=query.budget)),
        _predicate(trip, RENDER, _text(RENDER, days=trip.days)),
    ]


def _transports(trip: Trip) -> Iterator[Predicate]:
    for leg in trip.legs:
        which = OUTBOUND if leg.day == 1 else RETURN if leg.destination == trip.home else BETWEEN
        yield _predicate(trip, TRANSPORT, _text(TRANSPORT, **leg._asdict()), day=leg.day, which=which)


def _daily(trip: Trip, kind: str, day: int) -> Predicate:
    return _predicate(trip, kind, _text(kind, day=day, city=trip.city_on(day)), day=day)


def _predicate(trip: Trip, kind: str, text: str, **args: int | str) -> Predicate:
    route: Arguments = {"route": list(trip.cities)}
    return Predicate(text=text, kind=kind, args={**route, **args})


def _text(kind: str, **values: object) -> str:
    return TEXTS[kind].format(**values)


TEXTS = {
    TRANSPORT: "transport from {origin} to {destination} on day {day} ({date}) is booked",
    STAY: "a place to stay in {city} is booked for every night there",
    MEAL_DAY: "the meals of day {day} in {city} are chosen",
    SIGHT_DAY: "an attraction for day {day} in {city} is chosen",
    BUDGET: "the whole trip costs at most ${budget} and serves every requested cuisine",
    RENDER: "the itinerary of all {days} days is written in the official format",
}
