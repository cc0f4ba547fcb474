"""Generated TravelPlanner data in the official layout: names, tables, reference information and feasible queries.

`generate_world` writes a folder that the benchmark reads like the official data. The same seed gives the same bytes.
"""

import csv
import json
import math
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from itertools import groupby, permutations
from math import prod
from operator import attrgetter
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

from certigraph.adapters.files import cache_folder
from certigraph.benchmarks.travelplanner.options import Trip, TripCatalog, TripLeg
from certigraph.benchmarks.travelplanner.planning import cheapest_cost
from certigraph.benchmarks.travelplanner.plans import TransportKind, distance_cost
from certigraph.benchmarks.travelplanner.queries import SPLIT, LocalConstraint
from certigraph.benchmarks.travelplanner.sandbox import (
    Accommodation,
    Attraction,
    Flight,
    Restaurant,
    Road,
    Sandbox,
    SandboxStore,
    Town,
    TravelTables,
    fill_database,
)

# Names. Plans are matched to rows by containment, so within a city no name may contain another.
#
# Every name is one word from each list of a family, in order. No entry of a list is a prefix of another entry of that
# list, so two names of a family that differ in any word cannot contain one another.

# fmt: off
_STEMS = (
    "Adden", "Barro", "Brell", "Calder", "Corvi", "Dolle", "Dunna", "Eldra", "Esker", "Fallo", "Ferni", "Garro",
    "Gelli", "Hadra", "Hollo", "Istra", "Jarro", "Kelmo", "Lanna", "Lorri", "Madda", "Merro", "Norra", "Ostra",
    "Pella", "Quarri", "Raven", "Selmo", "Tarro", "Ulder", "Verro", "Wenna",
)
_TOWNS = (
    "bury", "combe", "dale", "fell", "ford", "gate", "ham", "holt", "lea", "mere", "mond", "ness", "port", "stead",
    "wick", "worth", "cross", "moor",
)
_STATES = ("land", "mark", "shire", "via", "reach")
_OWNERS = tuple(f"{stem}{ending}'s" for stem in _STEMS for ending in ("by", "man", "sen"))
_SIGNS = (
    "Copper Kettle", "Blue Ladle", "Red Skillet", "Tin Spoon", "Old Oven", "Salt Cellar", "Green Apron", "Long Table",
    "Clay Pot",
)
_TABLES = (
    "Diner", "Grill & Bar", "Kitchen, Harbor Side", "Cafe", "House (Upstairs)", "Eatery", "Bistro, No. 3", "Canteen",
    "Tavern",
)
_ADJECTIVES = ("Sunny", "Quiet", "Bright", "Cozy", "Roomy", "Charming", "Modern", "Rustic", "Airy", "Lovely")
_LODGINGS = (
    "studio", "loft", "2-bedroom flat", "garden room", "townhouse", "guest suite", "cabin", "duplex, top floor",
    "attic (w/ view)",
)
_LOCATIONS = (
    "near the pier", "by the old mill", "off Main Street", "at the market!", "over the bakery", "in the hills",
    "on the canal",
)
_SIGHTS = (
    "Museum", "Botanical Garden", "Lighthouse", "Sculpture Park", "Old Fort", "Planetarium", "Aquarium, North Pier",
    "Mill (1874)",
)
# fmt: on

TOWNS = (_STEMS, _TOWNS)
STATES = (_STEMS, _STATES)
RESTAURANTS = (_OWNERS, _SIGNS, _TABLES)
ACCOMMODATIONS = (_ADJECTIVES, _LODGINGS, _LOCATIONS)
ATTRACTIONS = (_STEMS, _SIGHTS)


def draw_names(random: Random, family: Sequence[Sequence[str]], count: int, joiner: str = " ") -> list[str]:
    """Draw different names at random, each made of one word from each list of a family.

    Raises:
        ValueError: the family has fewer than `count` names.
    """
    available = prod(map(len, family))
    if count > available:
        raise ValueError(f"{count} names wanted, but there are {available}; ask for a smaller world")
    return [_nth_name(number, family, joiner) for number in random.sample(range(available), count)]


def _nth_name(number: int, family: Sequence[Sequence[str]], joiner: str) -> str:
    words = []
    for choices in family:
        number, place = divmod(number, len(choices))
        words.append(choices[place])
    return joiner.join(words)


# Tables of a world: states are clusters of cities on a plane, connected by roads and flights.

CUISINES = ("American", "Chinese", "French", "Indian", "Italian", "Mediterranean", "Mexican")
HOUSE_RULES = ("smoking", "parties", "children under 10", "visitors", "pets")
DATES = tuple(f"2022-03-{day:02}" for day in range(1, 32))

_OTHER_DISHES = ("Tea", "BBQ", "Seafood", "Cafe", "Desserts", "Pizza", "Fast Food", "Bakery")
_ROOM_TYPES = ("Entire home/apt", "Private room", "Entire home/apt", "Private room", "Shared room")
_CITIES_PER_STATE = 4
_MINUTES_PER_DAY = 24 * 60
_CLOCK = [f"{minute // 60:02}:{minute % 60:02}" for minute in range(_MINUTES_PER_DAY)]


class AttractionRow(NamedTuple):
    """Complete row of the table of attractions; `Attraction` has two of its columns."""

    name: str
    latitude: float
    longitude: float
    address: str
    phone: str
    website: str
    city: str


class GeneratedWorld(NamedTuple):
    """Rows of all tables of a generated world. The flights may be an iterator."""

    towns: Sequence[Town]
    restaurants: Sequence[Restaurant]
    accommodations: Sequence[Accommodation]
    sights: Sequence[AttractionRow]
    roads: Sequence[Road]
    flights: Iterator[Flight] | Sequence[Flight]

    def tables(self) -> TravelTables:
        """Convert to the tables from which `write_store` writes a database."""
        attractions = (Attraction(sight.name, sight.city) for sight in self.sights)
        return TravelTables(self.restaurants, self.accommodations, attractions, self.flights, self.roads, self.towns)


def draw_world(seed: int, cities: int, flights: int) -> GeneratedWorld:
    """Draw the tables of a random world of at least 8 cities; flights are drawn while they are iterated over.

    Raises:
        ValueError: there are fewer than 8 cities, or too many for the available names.
    """
    if cities < 2 * _CITIES_PER_STATE:
        raise ValueError(f"{cities} cities make no two states of {_CITIES_PER_STATE}; ask for 8 or more: cities=8")
    random = Random(f"{seed} world")
    towns = _draw_towns(random, cities)
    plane = _draw_plane(random, towns)
    return GeneratedWorld(
        towns=towns,
        restaurants=[row for town in towns for row in _draw_restaurants(random, town.city)],
        accommodations=[row for town in towns for row in _draw_accommodations(random, town.city)],
        sights=[row for town in towns for row in _draw_sights(random, town)],
        roads=[_draw_road(random, *pair, plane) for pair in permutations(plane, 2)],
        flights=_draw_flights(Random(f"{seed} flights"), plane, flights),
    )


def _draw_towns(random: Random, count: int) -> list[Town]:
    states = draw_names(random, STATES, count // _CITIES_PER_STATE, joiner="")
    cities = draw_names(random, TOWNS, count, joiner="")
    return [Town(city, states[number % len(states)]) for number, city in enumerate(cities)]


def _draw_plane(random: Random, towns: Sequence[Town]) -> dict[str, complex]:
    """Draw the position of each city in kilometres: within 200 of its state's centre along each axis."""
    centres = {town.state: complex(random.uniform(0, 3200), random.uniform(0, 1600)) for town in towns}
    return {
        town.city: centres[town.state] + complex(random.uniform(-200, 200), random.uniform(-200, 200)) for town in towns
    }


def _draw_restaurants(random: Random, city: str) -> Iterator[Restaurant]:
    """Draw at least 14 restaurants. The first ones serve one cuisine of `CUISINES` each: every city has all of them."""
    for number, name in enumerate(draw_names(random, RESTAURANTS, random.randint(14, 40))):
        first = CUISINES[number] if number < len(CUISINES) else random.choice(CUISINES)
        others = [dish for dish in random.sample(CUISINES + _OTHER_DISHES, random.randint(1, 4)) if dish != first]
        dishes = random.sample([first, *others], 1 + len(others))
        yield Restaurant(name, city, ", ".join(dishes), random.randint(10, 100), random.randint(20, 49) / 10)


def _draw_accommodations(random: Random, city: str) -> Iterator[Accommodation]:
    """Draw accommodations. The first four are two entire homes and two private rooms with four different house rules.

    So one of them satisfies any request.
    """
    rules = random.sample(HOUSE_RULES, 4)
    for number, name in enumerate(draw_names(random, ACCOMMODATIONS, random.randint(8, 20))):
        guaranteed = number < len(rules)
        refused = [rules[number]] if guaranteed else random.sample(HOUSE_RULES, random.randint(1, 3))
        yield Accommodation(
            name=name,
            city=city,
            room_type=_ROOM_TYPES[number] if guaranteed else random.choice(_ROOM_TYPES),
            price=float(random.randint(50, 1200)),
            minimum_nights=1.0 if guaranteed else float(random.choice((1, 1, 2, 2, 3, 5, 30))),
            rating=float(random.randint(1, 5)),
            house_rules=" & ".join(f"No {rule}" for rule in refused),
            maximum_occupancy=random.randint(1, 8),
        )


def _draw_sights(random: Random, town: Town) -> Iterator[AttractionRow]:
    for number, name in enumerate(draw_names(random, ATTRACTIONS, random.randint(4, 12)), start=1):
        yield AttractionRow(
            name=name,
            latitude=round(random.uniform(30, 48), 6),
            longitude=round(random.uniform(-120, -80), 6),
            address=f"{random.randint(1, 999)} Main St, {town.city}, {town.state}",
            phone=f"(555) 555-01{number:02}" if random.random() < 0.8 else "Unknown",
            website=f"https://sights.example/{number}" if random.random() < 0.8 else "Unknown",
            city=town.city,
        )


def _draw_road(random: Random, origin: str, destination: str, plane: dict[str, complex]) -> Road:
    kilometres = round(1.2 * abs(plane[origin] - plane[destination]) + random.uniform(1, 9), 1)
    minutes = round(kilometres / 95 * 60)
    if kilometres > 600 and random.random() < 0.1:
        return Road(origin, destination, "", "")
    distance = f"{round(kilometres):,} km" if kilometres >= 100 else f"{kilometres} km"
    return Road(origin, destination, _format_duration(minutes), distance)


def _format_duration(minutes: int) -> str:
    hours = minutes // 60
    if hours >= 24:
        return f"{hours // 24} day {hours % 24} hours"
    return f"{hours} hours {minutes % 60} mins" if hours else f"{minutes} mins"


def _draw_flights(random: Random, plane: dict[str, complex], count: int) -> Iterator[Flight]:
    """Draw flights on half of all legs, in the order of legs and dates."""
    pairs = list(permutations(plane, 2))
    legs = random.sample(pairs, len(pairs) // 2)
    slots = sorted(random.choices(range(len(legs) * len(DATES)), k=count))
    for number, slot in enumerate(slots, start=3_500_000):
        origin, destination = legs[slot // len(DATES)]
        kilometres = abs(plane[origin] - plane[destination])
        minutes = 35 + int(kilometres / 12)
        departs = int(random.random() * _MINUTES_PER_DAY)
        yield Flight(
            f"F{number}",
            float(int((30 + kilometres / 8) * (0.5 + 1.5 * random.random()))),
            _CLOCK[departs],
            _CLOCK[(departs + minutes) % _MINUTES_PER_DAY],
            f"{minutes // 60} hours {minutes % 60} minutes",
            DATES[slot % len(DATES)],
            origin,
            destination,
            float(int(kilometres * 0.6214)),
        )


# Reference information of a query: tables and sentences in the benchmark's schema.

ReferenceItem = dict[str, str]


def build_reference_information(
    trip: Trip, sandbox: Sandbox, sights: Mapping[str, Sequence[AttractionRow]]
) -> list[ReferenceItem]:
    """Build a trip's reference information: three tables for each city, then flights, self-driving and taxi by leg."""
    cities = [item for city in trip.cities for item in _city_items(city, sandbox, sights[city])]
    return cities + [item for leg in trip.legs for item in _leg_items(leg, sandbox)]


def _city_items(city: str, sandbox: Sandbox, sights: Sequence[AttractionRow]) -> list[ReferenceItem]:
    restaurants = (_restaurant_cells(row) for row in sandbox.restaurants(city))
    accommodations = (_accommodation_cells(row) for row in sandbox.accommodations(city))
    return [
        _create_item(
            f"Attractions in {city}", _format_table("Name Latitude Longitude Address Phone Website City", sights)
        ),
        _create_item(
            f"Restaurants in {city}", _format_table("Name Average Cost Cuisines Aggregate Rating City", restaurants)
        ),
        _create_item(
            f"Accommodations in {city}",
            _format_table(
                "NAME price room type house_rules minimum nights maximum occupancy review rate number city",
                accommodations,
            ),
        ),
    ]


def _restaurant_cells(row: Restaurant) -> tuple[object, ...]:
    return row.name, row.cost, row.cuisines, row.rating, row.city


def _accommodation_cells(row: Accommodation) -> tuple[object, ...]:
    limits = (row.minimum_nights, row.maximum_occupancy, row.rating)
    return row.name, row.price, row.room_type, row.house_rules, *limits, row.city


def _leg_items(leg: TripLeg, sandbox: Sandbox) -> list[ReferenceItem]:
    route = f"from {leg.origin} to {leg.destination}"
    flights = sandbox.flights(leg.origin, leg.destination, leg.date)
    return [
        _create_item(
            f"Flight {route} on {leg.date}", _format_flights(flights) or f"There is no flight {route} on {leg.date}."
        ),
        _create_item(f"Self-driving {route}", _format_road("self-driving", leg, sandbox)),
        _create_item(f"Taxi {route}", _format_road("taxi", leg, sandbox)),
    ]


def _format_flights(flights: Sequence[Flight]) -> str:
    columns = "Flight Number Price DepTime ArrTime ActualElapsedTime FlightDate OriginCityName DestCityName Distance"
    return _format_table(columns, (flight._replace(price=int(flight.price)) for flight in flights)) if flights else ""


def _format_road(kind: TransportKind, leg: TripLeg, sandbox: Sandbox) -> str:
    road = sandbox.distance(leg.origin, leg.destination)
    cost = distance_cost(kind, road)
    if road is None or cost is None:
        return "No valid information."
    route = f"from {leg.origin} to {leg.destination}"
    return f"{kind}, {route}, duration: {road.duration}, distance: {road.distance}, cost: {cost}"


def _format_table(header: str, rows: Iterable[Iterable[object]]) -> str:
    return "\n".join([header, *(" ".join(map(str, row)) for row in rows)])


def _create_item(description: str, content: str) -> ReferenceItem:
    return {"Description": description, "Content": content}


# Feasible queries in the benchmark's schema.

_WISH_COUNT = {"easy": 0, "medium": 1, "hard": 3}
_SLACKS = (1.1, 1.0, 1.3, 1.6)
"""Ratios of budget to lowest cost, used in rotation; 1.0 leaves no slack. The first task is that of examples."""


class _Journey(NamedTuple):
    dest: str
    catalog: TripCatalog
    cost: int
    """Lowest cost in dollars with three meals on every day; no route in the destination's state is cheaper."""


def draw_tasks(
    seed: int, sandbox: Sandbox, sights: Mapping[str, Sequence[AttractionRow]], count: int
) -> Iterator[dict[str, Any]]:
    """Draw queries, each as a line of validation.jsonl.

    Days (3, 5, 7), levels and ratios of budget to cost rotate, so that all combinations occur.
    """
    random = Random(f"{seed} tasks")
    for number in range(count):
        days = (3, 5, 7)[number % 3]
        level = tuple(_WISH_COUNT)[number // 3 % 3]
        wishes = _draw_wishes(random, _WISH_COUNT[level])
        journey = _draw_journey(random, sandbox, days, wishes)
        query = _build_query(number + 1, level, journey, _choose_budget(journey.cost, _SLACKS[number % 4]))
        query["reference_information"] = build_reference_information(journey.catalog.trip, sandbox, sights)
        yield query


def _draw_wishes(random: Random, count: int) -> LocalConstraint:
    choices = {
        "house rule": random.choice(HOUSE_RULES),
        "cuisine": random.sample(CUISINES, random.choice((2, 4))),
        "room type": random.choice(("entire room", "private room", "not shared room")),
        "transportation": random.choice(("no flight", "no self-driving")),
    }
    return LocalConstraint.model_validate(dict(random.sample(list(choices.items()), count)))


def _draw_journey(random: Random, sandbox: Sandbox, days: int, wishes: LocalConstraint) -> _Journey:
    """Return the first feasible journey, on its cheapest route, trying origins and destinations in random order."""
    people = random.randint(1, 8)
    first = random.randrange(len(DATES) - days + 1)
    dates, travel_days = DATES[first : first + days], tuple(range(1, days + 1, 2))
    for origin, dest, routes in _destinations(random, sandbox, days // 2):
        trips = (Trip(origin, route, dates, travel_days) for route in routes)
        catalogs = (TripCatalog(people, wishes, trip, sandbox) for trip in trips)
        costs = ((cheapest_cost(catalog, every_meal=True), catalog) for catalog in catalogs)
        feasible = [_Journey(dest, catalog, cost) for cost, catalog in costs if cost is not None]
        if feasible:
            return min(feasible, key=attrgetter("cost"))
    raise ValueError(f"no trip of {days} days with {wishes} is feasible in this world; make a larger one: cities=24")


def _destinations(random: Random, sandbox: Sandbox, visits: int) -> Iterator[tuple[str, str, list[tuple[str, ...]]]]:
    """Yield origin, destination and all routes: to one city, or to several of a state other than the origin's."""
    cities = sandbox.cities()
    states = sorted({str(sandbox.state_of(city)) for city in cities})
    for origin in random.sample(cities, len(cities)):
        origin_state = sandbox.state_of(origin)
        if visits == 1:
            for city in random.sample(cities, len(cities)):
                if city != origin:
                    yield origin, city, [(city,)]
        else:
            for state in random.sample(states, len(states)):
                if state != origin_state:
                    within = [city for city in cities if sandbox.state_of(city) == state]
                    yield origin, state, list(permutations(within, visits))


def _choose_budget(cost: int, slack: float) -> int:
    return cost if slack == 1.0 else math.ceil(cost * slack / 100) * 100


def _build_query(idx: int, level: str, journey: _Journey, budget: int) -> dict[str, Any]:
    catalog, trip = journey.catalog, journey.catalog.trip
    wishes = catalog.constraint.model_dump(mode="json", by_alias=True)
    return {
        "idx": idx,
        "org": trip.origin,
        "dest": journey.dest,
        "days": trip.days,
        "visiting_city_number": len(trip.cities),
        "date": trip.dates,
        "people_number": catalog.people,
        "local_constraint": wishes,
        "budget": budget,
        "query": _write_request(journey, wishes, budget),
        "level": level,
    }


def _write_request(journey: _Journey, wishes: dict[str, Any], budget: int) -> str:
    dest, people, trip = journey.dest, journey.catalog.people, journey.catalog.trip
    who = "one traveller" if people == 1 else f"{people} travellers"
    where = dest if len(trip.cities) == 1 else f"{len(trip.cities)} cities of {dest}"
    first, last = (f"March {int(date[-2:])}" for date in (trip.dates[0], trip.dates[-1]))
    sentences = [
        f"Plan a {trip.days}-day trip for {who} that leaves {trip.origin} on {first}, 2022, visits {where} and is back "
        f"on {last}.",
        f"The whole trip may cost ${budget:,}.",
        *(_SENTENCES[wish].format(_join_wishes(value)) for wish, value in wishes.items() if value),
    ]
    return " ".join(sentences)


def _join_wishes(value: str | list[str]) -> str:
    return value.removeprefix("no ") if isinstance(value, str) else f"{', '.join(value[:-1])} and {value[-1]}"


_SENTENCES = {
    "house rule": "Wherever the group sleeps, the house has to allow {}.",
    "cuisine": "Each of these kitchens should be tried at least once: {}.",
    "room type": "The kind of room wanted is: {}.",
    "transportation": "One way to travel is ruled out: {}.",
}


# Writing a world to disk.

_FLIGHTS_PER_PAIR = 30


def generate_world(folder: Path, seed: int = 0, cities: int = 24, tasks: int = 36) -> None:
    """Write generated data: `database/` (tables in the official layout) and `validation.jsonl` (queries).

    The budget of every fourth query is the exact lowest cost of its reference route with three meals on every day;
    other budgets are higher. Equal arguments give equal bytes.

    Raises:
        ValueError: there are fewer than 8 cities, or too many for the available names.
    """
    world = draw_world(seed, cities, flights=_FLIGHTS_PER_PAIR * cities * (cities - 1))
    world = world._replace(flights=list(world.flights))
    _write_database(folder / "database", world)
    _write_tasks(folder, _draw_tasks(seed, world, tasks))


def _draw_tasks(seed: int, world: GeneratedWorld, count: int) -> list[dict[str, Any]]:
    sights = {city: list(rows) for city, rows in groupby(world.sights, attrgetter("city"))}
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        fill_database(connection, world.tables())
        return list(draw_tasks(seed, SandboxStore(connection), sights, count))


def _write_tasks(folder: Path, queries: Sequence[dict[str, Any]]) -> None:
    lines = (json.dumps(query) + "\n" for query in queries)
    (folder / "validation.jsonl").write_text("".join(lines), encoding="utf-8")


def _write_database(folder: Path, world: GeneratedWorld) -> None:
    _write_csv(
        folder / "restaurants" / "clean_restaurant_2022.csv",
        "/Name/City/Cuisines/Average Cost/Aggregate Rating",
        ((number, *row) for number, row in enumerate(world.restaurants)),
    )
    _write_csv(
        folder / "accommodations" / "clean_accommodations_2022.csv",
        "/NAME/city/room type/price/minimum nights/review rate number/house_rules/maximum occupancy",
        ((number, *row) for number, row in enumerate(world.accommodations)),
    )
    _write_csv(
        folder / "attractions" / "attractions.csv",
        "Name/Latitude/Longitude/Address/Phone/Website/City",
        world.sights,
    )
    _write_csv(
        folder / "flights" / "clean_Flights_2022.csv",
        "Flight Number/Price/DepTime/ArrTime/ActualElapsedTime/FlightDate/OriginCityName/DestCityName/Distance",
        (row._replace(price=int(row.price)) for row in world.flights),
    )
    _write_csv(
        folder / "googleDistanceMatrix" / "distance.csv",
        "origin/destination/cost/duration/distance",
        ((row.origin, row.destination, "", row.duration, row.distance) for row in world.roads),
    )
    towns = folder / "background" / "citySet_with_states.txt"
    towns.parent.mkdir(parents=True, exist_ok=True)
    towns.write_text("\n".join("\t".join(town) for town in world.towns), encoding="utf-8")


def _write_csv(path: Path, columns: str, rows: Iterable[Iterable[object]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(columns.split("/"))
        writer.writerows(rows)


def load_generated_folder() -> Path:
    """Return the cached folder with a small set of generated data, which is written on first use."""
    folder = cache_folder() / "travelplanner-generated-1"  # the number changes with what `generate_world` writes
    if not (folder / f"{SPLIT}.jsonl").is_file():
        generate_world(folder, seed=0)
    return folder
