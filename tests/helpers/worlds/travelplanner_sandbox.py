"""A sandbox of plain lists, written apart from the product's own reader so that scores are checked against two."""

import csv
import gzip
import os
from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import permutations
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import pytest

from certigraph.benchmarks.travelplanner.benchmark import TravelPlanner
from certigraph.benchmarks.travelplanner.queries import LocalConstraint, TravelQuery
from certigraph.benchmarks.travelplanner.sandbox import Accommodation, Attraction, Distance, Flight, Restaurant
from certigraph.state.records import Task

DATA = Path(os.environ.get("CERTIGRAPH_DATA", "no-data")) / "travelplanner"
needs_data = pytest.mark.skipif(not DATA.is_dir(), reason=f"set CERTIGRAPH_DATA: there is no folder {DATA}")

Row = TypeVar("Row", bound=NamedTuple)


class TableSandbox:
    def __init__(
        self,
        *,
        restaurants: Iterable[Restaurant] = (),
        accommodations: Iterable[Accommodation] = (),
        attractions: Iterable[Attraction] = (),
        flights: Iterable[Flight] = (),
        distances: Iterable[tuple[str, str, Distance]] = (),
        states: dict[str, str] | None = None,
    ) -> None:
        self._restaurants = _by_city(restaurants)
        self._accommodations = _by_city(accommodations)
        self._attractions = _by_city(attractions)
        self._flights = list(flights)
        self._distances: dict[tuple[str, str], Distance] = {}
        for origin, destination, distance in distances:
            self._distances.setdefault((origin, destination), distance)
        self._states = states or {}

    def restaurants(self, city: str) -> Sequence[Restaurant]:
        return self._restaurants.get(city, [])

    def accommodations(self, city: str) -> Sequence[Accommodation]:
        return self._accommodations.get(city, [])

    def attractions(self, city: str) -> Sequence[Attraction]:
        return self._attractions.get(city, [])

    def flights(self, origin: str, destination: str, date: str | None = None) -> Sequence[Flight]:
        leg = [row for row in self._flights if (row.origin, row.destination) == (origin, destination)]
        return [row for row in leg if date in (None, row.date)]

    def flight(self, number: str) -> Flight | None:
        return next((row for row in self._flights if row.number == number), None)

    def distance(self, origin: str, destination: str) -> Distance | None:
        return self._distances.get((origin, destination))

    def state_of(self, city: str) -> str | None:
        return self._states.get(city)

    def cities(self) -> Sequence[str]:
        return list(self._states)


def read_sandbox(folder: Path) -> TableSandbox:
    return TableSandbox(
        restaurants=[
            Restaurant(r["Name"], r["City"], r["Cuisines"], int(r["Average Cost"]), float(r["Aggregate Rating"]))
            for r in _complete_rows(folder / "clean_restaurant_2022.csv.gz")
        ],
        accommodations=[_accommodation(r) for r in _complete_rows(folder / "clean_accommodations_2022.csv.gz")],
        attractions=[Attraction(r["Name"], r["City"]) for r in _complete_rows(folder / "attractions.csv.gz")],
        flights=[_flight(r) for r in _complete_rows(folder / "clean_Flights_2022.subset.csv.gz")],
        distances=[
            (r["origin"], r["destination"], Distance(r["duration"], r["distance"]))
            for r in _rows(folder / "distance.csv.gz")
        ],
        states=dict(line.split("\t") for line in (folder / "citySet_with_states.txt").read_text().splitlines()),
    )


def _accommodation(row: dict[str, str]) -> Accommodation:
    return Accommodation(
        name=row["NAME"],
        city=row["city"],
        room_type=row["room type"],
        price=float(row["price"]),
        minimum_nights=float(row["minimum nights"]),
        rating=float(row["review rate number"]),
        house_rules=row["house_rules"],
        maximum_occupancy=int(row["maximum occupancy"]),
    )


def _flight(row: dict[str, str]) -> Flight:
    return Flight(
        number=row["Flight Number"],
        price=float(row["Price"]),
        departs=row["DepTime"],
        arrives=row["ArrTime"],
        duration=row["ActualElapsedTime"],
        date=row["FlightDate"],
        origin=row["OriginCityName"],
        destination=row["DestCityName"],
        miles=float(row["Distance"]),
    )


def _rows(path: Path) -> list[dict[str, str]]:
    with gzip.open(path, "rt", encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def _complete_rows(path: Path) -> list[dict[str, str]]:
    return [row for row in _rows(path) if all(cell for column, cell in row.items() if column)]


def _by_city(rows: Iterable[Row]) -> dict[str, list[Row]]:
    table: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        table[row.city].append(row)
    return dict(table)


# --- tiny benchmarks of one task, made by hand

DAYS = {1: 3, 2: 5, 3: 7}
LODGING = dict(room_type="Private room", minimum_nights=1.0, rating=4.0, house_rules="No pets", maximum_occupancy=8)


def road(origin: str, destination: str, km: int) -> tuple[str, str, Distance]:
    return origin, destination, Distance("2 hours", f"{km} km")


def flight(number: str, origin: str, destination: str, date: str, price: float) -> Flight:
    return Flight(number, price, "08:00", "10:00", "2 hours", date, origin, destination, 1.0)


def restaurant(name: str, city: str, cost: int, cuisines: str = "Tea") -> Restaurant:
    return Restaurant(name, city, cuisines, cost, 4.0)


def lodging(name: str, city: str, price: float, **changes: Any) -> Accommodation:
    return Accommodation(name=name, city=city, price=price, **{**LODGING, **changes})


def sandbox(cities: str = "A", **tables: Any) -> TableSandbox:
    """Ten free restaurants, ten sights, a free bed in each city, and roads of 40 km (driven for $2) everywhere."""
    plain = {
        "restaurants": [restaurant(f"Diner {n}", city, 0) for city in cities for n in range(10)],
        "accommodations": [lodging("Inn", city, 0) for city in cities],
        "attractions": [Attraction(f"Sight {n}", city) for city in cities for n in range(10)],
        "distances": [road(*pair, 40) for pair in permutations(f"O{cities}", 2)],
        "states": dict.fromkeys(f"O{cities}", "Here"),
    }
    return TableSandbox(**{**plain, **tables})


def query(
    cities: str = "A", budget: int = 1000, people: int = 1, text: str = "Plan a trip.", **wanted: Any
) -> TravelQuery:
    days = DAYS[len(cities)]
    dates = [f"2022-03-0{day}" for day in range(1, days + 1)]
    stops = zip(f"O{cities}", f"{cities}O", dates[::2], strict=True)
    return TravelQuery(
        idx=1,
        org="O",
        dest="Here",
        days=days,
        visiting_city_number=len(cities),
        date=tuple(dates),
        people_number=people,
        local_constraint=LocalConstraint(**wanted),
        budget=budget,
        query=text,
        level="easy",
        reference=tuple({"description": f"Flight from {a} to {b} on {day}", "content": ""} for a, b, day in stops),
    )


DEAR_CUISINES = sandbox(
    restaurants=[
        *(restaurant(f"Diner {n}", "A", 1) for n in range(9)),
        restaurant("Gavroche", "A", 50, "French"),
        restaurant("Tandoor", "A", 60, "Tea, Indian"),
    ]
)
"""Only the two dearest restaurants serve French and Indian food."""


class TinyTravelPlanner(TravelPlanner):
    def __init__(self, request: TravelQuery, tables: TableSandbox, config: str = "") -> None:
        super().__init__(Path("made by hand"), config)
        self.request, self.sandbox = request, tables

    def task(self, task_id: str = "1") -> Task:
        return Task(benchmark=self.name, id=task_id, goal=self.request.query)

    def query(self, task: Task) -> TravelQuery:
        return self.request
