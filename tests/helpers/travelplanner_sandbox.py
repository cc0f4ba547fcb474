"""A sandbox of plain lists, written apart from the product's own reader so that scores are checked against two."""

import csv
import gzip
import os
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple, TypeVar

import pytest

from certigraph.adapters.travelplanner.sandbox import Accommodation, Attraction, Distance, Flight, Restaurant

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
