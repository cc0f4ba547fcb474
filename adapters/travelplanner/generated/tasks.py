"""Drawing feasible TravelPlanner queries, each with its exact cheapest cost, in the benchmark's own schema."""

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import permutations
from operator import attrgetter
from random import Random
from typing import Any, NamedTuple

from certigraph.adapters.travelplanner.catalog import Catalog
from certigraph.adapters.travelplanner.data.queries import LocalConstraint
from certigraph.adapters.travelplanner.data.sandbox import Sandbox
from certigraph.adapters.travelplanner.generated.reference import reference_information
from certigraph.adapters.travelplanner.generated.world import CUISINES, DATES, HOUSE_RULES, Sight
from certigraph.adapters.travelplanner.lookahead import cheapest_cost
from certigraph.adapters.travelplanner.trip import Trip

_WISH_COUNT = {"easy": 0, "medium": 1, "hard": 3}
_SLACKS = (1.0, 1.1, 1.3, 1.6)
"""Budget over cheapest cost, in turn; 1.0 leaves not a dollar."""


class GeneratedTask(NamedTuple):
    """A line of validation.jsonl, and the cheapest costs of its reference route."""

    query: dict[str, Any]
    every_day: int
    """With three meals on every day; no route in the destination's state is cheaper."""
    stay_days: int
    """With meals left out on travel days wherever that is cheaper."""


class _Journey(NamedTuple):
    dest: str
    catalog: Catalog
    cost: int


def draw_tasks(
    seed: int, sandbox: Sandbox, sights: Mapping[str, Sequence[Sight]], count: int
) -> Iterator[GeneratedTask]:
    """Queries that go round 3, 5 and 7 days, within these round the levels, and independently round the slacks."""
    random = Random(f"{seed} tasks")
    for number in range(count):
        days = (3, 5, 7)[number % 3]
        level = tuple(_WISH_COUNT)[number // 3 % 3]
        wishes = _draw_wishes(random, _WISH_COUNT[level])
        journey = _draw_journey(random, sandbox, days, wishes)
        query = _query(number + 1, level, journey, _budget(journey.cost, _SLACKS[number % 4]))
        query["reference_information"] = reference_information(journey.catalog.trip, sandbox, sights)
        without = cheapest_cost(journey.catalog, every_meal=False)
        assert without is not None, "a trip that is feasible with more meals is feasible with fewer"
        yield GeneratedTask(query, every_day=journey.cost, stay_days=without)


def _draw_wishes(random: Random, count: int) -> LocalConstraint:
    choices = {
        "house rule": random.choice(HOUSE_RULES),
        "cuisine": random.sample(CUISINES, random.choice((2, 4))),
        "room type": random.choice(("entire room", "private room", "not shared room")),
        "transportation": random.choice(("no flight", "no self-driving")),
    }
    return LocalConstraint.model_validate(dict(random.sample(list(choices.items()), count)))


def _draw_journey(random: Random, sandbox: Sandbox, days: int, wishes: LocalConstraint) -> _Journey:
    """The first feasible journey in a random order of origins and destinations, on its cheapest route."""
    people = random.randint(1, 8)
    first = random.randrange(len(DATES) - days + 1)
    dates, travel_days = DATES[first : first + days], tuple(range(1, days + 1, 2))
    for origin, dest, routes in _choices(random, sandbox, days // 2):
        trips = (Trip(origin, route, dates, travel_days) for route in routes)
        catalogs = (Catalog(people, wishes, trip, sandbox) for trip in trips)
        costs = ((cheapest_cost(catalog, every_meal=True), catalog) for catalog in catalogs)
        feasible = [_Journey(dest, catalog, cost) for cost, catalog in costs if cost is not None]
        if feasible:
            return min(feasible, key=attrgetter("cost"))
    raise ValueError(f"no trip of {days} days with {wishes} is feasible in this world; make a larger one: cities=24")


def _choices(random: Random, sandbox: Sandbox, visits: int) -> Iterator[tuple[str, str, list[tuple[str, ...]]]]:
    """Origin, destination and all routes through it: one city, or several of a state the origin is not in."""
    cities = sandbox.cities()
    states = sorted({str(sandbox.state_of(city)) for city in cities})
    for origin in random.sample(cities, len(cities)):
        home = sandbox.state_of(origin)
        if visits == 1:
            for city in random.sample(cities, len(cities)):
                if city != origin:
                    yield origin, city, [(city,)]
        else:
            for state in random.sample(states, len(states)):
                if state != home:
                    within = [city for city in cities if sandbox.state_of(city) == state]
                    yield origin, state, list(permutations(within, visits))


def _budget(cost: int, slack: float) -> int:
    return cost if slack == 1.0 else math.ceil(cost * slack / 100) * 100


def _query(idx: int, level: str, journey: _Journey, budget: int) -> dict[str, Any]:
    catalog, trip = journey.catalog, journey.catalog.trip
    wishes = catalog.wanted.model_dump(mode="json", by_alias=True)
    return {
        "idx": idx,
        "org": trip.home,
        "dest": journey.dest,
        "days": trip.days,
        "visiting_city_number": len(trip.cities),
        "date": trip.dates,
        "people_number": catalog.people,
        "local_constraint": wishes,
        "budget": budget,
        "query": _wording(journey, wishes, budget),
        "level": level,
    }


def _wording(journey: _Journey, wishes: dict[str, Any], budget: int) -> str:
    dest, people, trip = journey.dest, journey.catalog.people, journey.catalog.trip
    who = "one traveller" if people == 1 else f"{people} travellers"
    where = dest if len(trip.cities) == 1 else f"{len(trip.cities)} cities of {dest}"
    first, last = (f"March {int(date[-2:])}" for date in (trip.dates[0], trip.dates[-1]))
    sentences = [
        f"Plan a {trip.days}-day trip for {who} that leaves {trip.home} on {first}, 2022, visits {where} and is back "
        f"on {last}.",
        f"The whole trip may cost ${budget:,}.",
        *(_SENTENCES[wish].format(_spoken(value)) for wish, value in wishes.items() if value),
    ]
    return " ".join(sentences)


def _spoken(value: str | list[str]) -> str:
    return value.removeprefix("no ") if isinstance(value, str) else f"{', '.join(value[:-1])} and {value[-1]}"


_SENTENCES = {
    "house rule": "Wherever the group sleeps, the house has to allow {}.",
    "cuisine": "Each of these kitchens should be tried at least once: {}.",
    "room type": "The kind of room wanted is: {}.",
    "transportation": "One way to travel is ruled out: {}.",
}
