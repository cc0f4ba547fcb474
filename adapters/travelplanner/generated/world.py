"""Drawing the tables of a TravelPlanner world: states as clusters of cities on a plane, roads and flights between."""

from collections.abc import Iterator, Sequence
from itertools import permutations
from random import Random
from typing import NamedTuple

from certigraph.adapters.travelplanner.data.sandbox import Accommodation, Attraction, Flight, Restaurant
from certigraph.adapters.travelplanner.data.tables import Road, Tables, Town
from certigraph.adapters.travelplanner.generated import names

CUISINES = ("American", "Chinese", "French", "Indian", "Italian", "Mediterranean", "Mexican")
HOUSE_RULES = ("smoking", "parties", "children under 10", "visitors", "pets")
DATES = tuple(f"2022-03-{day:02}" for day in range(1, 32))

_OTHER_DISHES = ("Tea", "BBQ", "Seafood", "Cafe", "Desserts", "Pizza", "Fast Food", "Bakery")
_ROOM_TYPES = ("Entire home/apt", "Private room", "Entire home/apt", "Private room", "Shared room")
_CITIES_PER_STATE = 4
_MINUTES_PER_DAY = 24 * 60
_CLOCK = [f"{minute // 60:02}:{minute % 60:02}" for minute in range(_MINUTES_PER_DAY)]


class Sight(NamedTuple):
    """A full row of the table of attractions."""

    name: str
    latitude: float
    longitude: float
    address: str
    phone: str
    website: str
    city: str


class World(NamedTuple):
    """All rows of a generated world. The flights may be an iterator."""

    towns: Sequence[Town]
    restaurants: Sequence[Restaurant]
    accommodations: Sequence[Accommodation]
    sights: Sequence[Sight]
    roads: Sequence[Road]
    flights: Iterator[Flight] | Sequence[Flight]

    def tables(self) -> Tables:
        """The rows as a store takes them."""
        attractions = (Attraction(sight.name, sight.city) for sight in self.sights)
        return Tables(self.restaurants, self.accommodations, attractions, self.flights, self.roads, self.towns)


def draw_world(seed: int, cities: int, flights: int) -> World:
    """A world of at least 8 cities; its flights are drawn while they are iterated over."""
    if cities < 2 * _CITIES_PER_STATE:
        raise ValueError(f"{cities} cities make no two states of {_CITIES_PER_STATE}; ask for 8 or more: cities=8")
    random = Random(f"{seed} world")
    towns = _draw_towns(random, cities)
    plane = _draw_plane(random, towns)
    return World(
        towns=towns,
        restaurants=[row for town in towns for row in _draw_restaurants(random, town.city)],
        accommodations=[row for town in towns for row in _draw_accommodations(random, town.city)],
        sights=[row for town in towns for row in _draw_sights(random, town)],
        roads=[_draw_road(random, *pair, plane) for pair in permutations(plane, 2)],
        flights=_draw_flights(Random(f"{seed} flights"), plane, flights),
    )


def _draw_towns(random: Random, count: int) -> list[Town]:
    states = names.draw_names(random, names.STATES, count // _CITIES_PER_STATE, joiner="")
    cities = names.draw_names(random, names.TOWNS, count, joiner="")
    return [Town(city, states[number % len(states)]) for number, city in enumerate(cities)]


def _draw_plane(random: Random, towns: Sequence[Town]) -> dict[str, complex]:
    """Where each city lies, in kilometres: within 200 of its state's centre along each axis."""
    centres = {town.state: complex(random.uniform(0, 3200), random.uniform(0, 1600)) for town in towns}
    return {
        town.city: centres[town.state] + complex(random.uniform(-200, 200), random.uniform(-200, 200)) for town in towns
    }


def _draw_restaurants(random: Random, city: str) -> Iterator[Restaurant]:
    """At least 14, the first of which serve one requested cuisine each, so that every cuisine can be had."""
    for number, name in enumerate(names.draw_names(random, names.RESTAURANTS, random.randint(14, 40))):
        first = CUISINES[number] if number < len(CUISINES) else random.choice(CUISINES)
        others = [dish for dish in random.sample(CUISINES + _OTHER_DISHES, random.randint(1, 4)) if dish != first]
        dishes = random.sample([first, *others], 1 + len(others))
        yield Restaurant(name, city, ", ".join(dishes), random.randint(10, 100), random.randint(20, 49) / 10)


def _draw_accommodations(random: Random, city: str) -> Iterator[Accommodation]:
    """The first four, two of each requested room type with one rule each, suit any wish between them."""
    rules = random.sample(HOUSE_RULES, 4)
    for number, name in enumerate(names.draw_names(random, names.ACCOMMODATIONS, random.randint(8, 20))):
        certain = number < len(rules)
        refused = [rules[number]] if certain else random.sample(HOUSE_RULES, random.randint(1, 3))
        yield Accommodation(
            name=name,
            city=city,
            room_type=_ROOM_TYPES[number] if certain else random.choice(_ROOM_TYPES),
            price=float(random.randint(50, 1200)),
            minimum_nights=1.0 if certain else float(random.choice((1, 1, 2, 2, 3, 5, 30))),
            rating=float(random.randint(1, 5)),
            house_rules=" & ".join(f"No {rule}" for rule in refused),
            maximum_occupancy=random.randint(1, 8),
        )


def _draw_sights(random: Random, town: Town) -> Iterator[Sight]:
    for number, name in enumerate(names.draw_names(random, names.ATTRACTIONS, random.randint(4, 12)), start=1):
        yield Sight(
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
    return Road(origin, destination, _duration(minutes), distance)


def _duration(minutes: int) -> str:
    hours = minutes // 60
    if hours >= 24:
        return f"{hours // 24} day {hours % 24} hours"
    return f"{hours} hours {minutes % 60} mins" if hours else f"{minutes} mins"


def _draw_flights(random: Random, plane: dict[str, complex], count: int) -> Iterator[Flight]:
    """Flights on every second leg, in the order of legs and dates; each of their days has some or none."""
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
