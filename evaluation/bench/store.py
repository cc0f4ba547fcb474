"""How fast TravelPlanner's database opens and answers: one option query is all the candidates of one predicate."""

import random
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from itertools import permutations
from pathlib import Path
from statistics import quantiles
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import NamedTuple

from certigraph.adapters.travelplanner import options
from certigraph.adapters.travelplanner.data.store import Store, load_store
from certigraph.adapters.travelplanner.generated.generator import generate_store
from certigraph.adapters.travelplanner.generated.world import DATES
from certigraph.adapters.travelplanner.trip import Leg
from certigraph.state.records import Record

OPENINGS, LEGS, PEOPLE, NIGHTS = 50, 300, 2, 3


class Size(NamedTuple):
    """How large a store is to be."""

    cities: int
    flights: int


USUAL, BIG = Size(24, 16_560), Size(300, 3_800_000)


class Latency(Record):
    """Milliseconds of one operation on a store of `flights` flights."""

    operation: str
    flights: int
    samples: int
    p50: float
    p95: float


def store_latencies(size: Size) -> list[Latency]:
    """Build a store of that size, open it again and again, and ask it for options, no city twice."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "store.sqlite"
        generate_store(path, cities=size.cities, flights=size.flights)
        openings = [_milliseconds(lambda: load_store(path).close()) for _ in range(OPENINGS)]
        with closing(load_store(path)) as store:
            queries = [_milliseconds(query) for query in _queries(store)]
    return [_latency("open", size, openings), _latency("option query", size, queries)]


def _queries(store: Store) -> Iterator[Callable[[], object]]:
    dice, cities = random.Random(0), store.cities()
    for origin, destination in dice.sample(list(permutations(cities, 2)), LEGS):
        yield partial(options.transports, Leg(1, origin, destination, dice.choice(DATES)), PEOPLE, store)
    for city in cities:
        yield partial(options.stays, city, PEOPLE, NIGHTS, store)
        yield partial(options.restaurants, city, PEOPLE, store)
        yield partial(options.sights, city, store)


def _milliseconds(call: Callable[[], object]) -> float:
    began = perf_counter()
    call()
    return 1_000 * (perf_counter() - began)


def _latency(operation: str, size: Size, samples: list[float]) -> Latency:
    cuts = quantiles(samples, n=100, method="inclusive")
    return Latency(operation=operation, flights=size.flights, samples=len(samples), p50=cuts[49], p95=cuts[94])
