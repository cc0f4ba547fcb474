"""Reading TravelPlanner's tables: official tree or flat folder, plain or gzipped, as typed rows in file order."""

import csv
import gzip
import math
import re
import zlib
from collections.abc import Callable, Iterable, Iterator
from operator import itemgetter
from pathlib import Path
from typing import NamedTuple, TypeVar

from certigraph.adapters.travelplanner.data.files import read_text_lines
from certigraph.adapters.travelplanner.data.sandbox import Accommodation, Attraction, Flight, Restaurant
from certigraph.state.endings import Fault

Row = TypeVar("Row")
_KILOMETRES = re.compile(r"\d[\d,]*(\.\d+)? km")


class Road(NamedTuple):
    """One row of the distance matrix; duration and distance are both empty where no road is known."""

    origin: str
    destination: str
    duration: str
    distance: str


class Town(NamedTuple):
    """One row of the set of cities."""

    city: str
    state: str


class Tables(NamedTuple):
    """All rows of a world, each table in file order. Iterators do: every table is read once."""

    restaurants: Iterable[Restaurant]
    accommodations: Iterable[Accommodation]
    attractions: Iterable[Attraction]
    flights: Iterable[Flight]
    distances: Iterable[Road]
    cities: Iterable[Town]


class Sources(NamedTuple):
    """The files of a database folder, in the order of `Tables`."""

    restaurants: Path
    accommodations: Path
    attractions: Path
    flights: Path
    distances: Path
    cities: Path


def find_sources(folder: Path) -> Sources:
    """The files of a database folder, in its own or in the official subfolders.

    Raises:
        Fault: a table is missing; names the path where it is expected.
    """
    return Sources(
        restaurants=_find(folder, "restaurants", "clean_restaurant_2022.csv"),
        accommodations=_find(folder, "accommodations", "clean_accommodations_2022.csv"),
        attractions=_find(folder, "attractions", "attractions.csv"),
        flights=_find(folder, "flights", "clean_Flights_2022.csv", "clean_Flights_2022*.csv"),
        distances=_find(folder, "googleDistanceMatrix", "distance.csv"),
        cities=_find(folder, "background", "citySet_with_states.txt"),
    )


def read_tables(sources: Sources) -> Tables:
    """Typed rows, read while they are iterated over.

    As the official loader does, a row with an empty cell is dropped, except from the distances.

    Raises:
        Fault: a row is malformed; names file and line. Raised during iteration.
    """
    return Tables(
        restaurants=_rows(sources.restaurants, "Name/City/Cuisines/Average Cost/Aggregate Rating", _restaurant),
        accommodations=_rows(
            sources.accommodations,
            "NAME/city/room type/price/minimum nights/review rate number/house_rules/maximum occupancy",
            _accommodation,
        ),
        attractions=_rows(sources.attractions, "Name/City", Attraction._make),
        flights=_rows(
            sources.flights,
            "Flight Number/Price/DepTime/ArrTime/ActualElapsedTime/FlightDate/OriginCityName/DestCityName/Distance",
            _flight,
        ),
        distances=_rows(sources.distances, "origin/destination/duration/distance", _road, keep_gaps=True),
        cities=_towns(sources.cities),
    )


def _find(folder: Path, subfolder: str, name: str, pattern: str = "") -> Path:
    for place in (folder, folder / subfolder):
        found = sorted([*place.glob(pattern or name), *place.glob(f"{pattern or name}.gz")])
        if found:
            return found[0]
    raise Fault(
        "data",
        f"no {name} in {folder}: put the official table at {folder / subfolder / name}, or make a world with "
        f"certigraph.adapters.travelplanner.generated.generator.generate_world({str(folder.parent)!r})",
    )


def _rows(
    path: Path, columns: str, make: Callable[[tuple[str, ...]], Row], *, keep_gaps: bool = False
) -> Iterator[Row]:
    line = 1
    try:
        reader = csv.reader(read_text_lines(path), strict=True)
        header = next(reader, [])
        pick = itemgetter(*_places(header, columns.split("/")))
        line = reader.line_num + 1
        for cells in reader:
            if _complete(header, cells, keep_gaps=keep_gaps):
                yield make(pick(cells))
            line = reader.line_num + 1
    except (ValueError, csv.Error, gzip.BadGzipFile, zlib.error, EOFError) as error:
        raise Fault("data", f"{path}:{line}: {error}") from error


def _places(header: list[str], columns: list[str]) -> list[int]:
    missing = [column for column in columns if column not in header]
    if missing:
        raise ValueError(f"the header {header} lacks the columns {missing}")
    return [header.index(column) for column in columns]


def _complete(header: list[str], cells: list[str], *, keep_gaps: bool) -> bool:
    """False for a blank line or a row to drop; the unnamed index column may be empty."""
    if not cells:
        return False
    if len(cells) != len(header):
        raise ValueError(f"{len(cells)} cells, but the header names {len(header)}")
    return keep_gaps or "" not in cells or all(cell for name, cell in zip(header, cells, strict=True) if name)


def _number(cell: str) -> float:
    value = float(cell)
    if not math.isfinite(value) or value < 0:
        raise ValueError(f"{cell!r} is not a number of at least 0")
    return value


def _restaurant(cells: tuple[str, ...]) -> Restaurant:
    name, city, cuisines, cost, rating = cells
    return Restaurant(name, city, cuisines, _whole(cost, least=0), _number(rating))


def _accommodation(cells: tuple[str, ...]) -> Accommodation:
    name, city, room_type, price, nights, rating, rules, occupancy = cells
    return Accommodation(
        name, city, room_type, _number(price), _number(nights), _number(rating), rules, _whole(occupancy, least=1)
    )


def _flight(cells: tuple[str, ...]) -> Flight:
    number, price, departs, arrives, duration, date, origin, destination, miles = cells
    return Flight(number, _number(price), departs, arrives, duration, date, origin, destination, _number(miles))


def _road(cells: tuple[str, ...]) -> Road:
    road = Road(*cells)
    if road.distance and not _KILOMETRES.fullmatch(road.distance):
        raise ValueError(f'the distance {road.distance!r} does not read like "1,372 km"')
    return road


def _whole(cell: str, *, least: int) -> int:
    value = int(cell)
    if value < least:
        raise ValueError(f"{cell!r} is not a whole number of at least {least}")
    return value


def _towns(path: Path) -> Iterator[Town]:
    for line, text in enumerate((one.rstrip("\r\n") for one in read_text_lines(path)), start=1):
        city, tab, state = text.partition("\t")
        if not (city and tab and state):
            raise Fault("data", f"{path}:{line}: {text!r} is not a city, a tab and a state")
        yield Town(city, state)
