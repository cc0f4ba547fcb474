"""TravelPlanner's database: typed rows, reading the official tables, and an indexed SQLite store."""

import csv
import gzip
import hashlib
import math
import re
import sqlite3
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from operator import itemgetter
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple, Protocol, TypeVar, get_type_hints

from certigraph.adapters.files import cache_folder, replace_file
from certigraph.benchmarks.travelplanner.queries import read_text_lines
from certigraph.state.endings import Fault

# Typed rows, and the protocol of the database.


class Flight(NamedTuple):
    """Flight on one date; the price is in dollars per person."""

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
    """Restaurant of a city; the cost is in dollars per person and meal."""

    name: str
    city: str
    cuisines: str
    """Cuisines separated by commas, as in the table: "Mexican, Mediterranean, Desserts"."""
    cost: int
    rating: float


class Accommodation(NamedTuple):
    """Place to stay in a city; the price is in dollars per night for up to `maximum_occupancy` people."""

    name: str
    city: str
    room_type: str
    price: float
    minimum_nights: float
    rating: float
    house_rules: str
    """Rules joined by " & ": "No pets & No smoking"."""
    maximum_occupancy: int


class Attraction(NamedTuple):
    """Attraction of a city; it is free."""

    name: str
    city: str


class Distance(NamedTuple):
    """Duration and distance from one city to another; empty strings where the table has no values."""

    duration: str
    distance: str


class Sandbox(Protocol):
    """Protocol of the database. Rows come in file order: if several match, the official scorer takes the first."""

    def restaurants(self, city: str) -> Sequence[Restaurant]: ...

    def accommodations(self, city: str) -> Sequence[Accommodation]: ...

    def attractions(self, city: str) -> Sequence[Attraction]: ...

    def flights(self, origin: str, destination: str, date: str | None = None) -> Sequence[Flight]:
        """Return the flights of a leg, on one ISO date or on any."""
        ...

    def flight(self, number: str) -> Flight | None:
        """Return the first flight with that number; None if there is none."""
        ...

    def distance(self, origin: str, destination: str) -> Distance | None: ...

    def state_of(self, city: str) -> str | None:
        """Return the US state of a city of citySet_with_states.txt; None for a city outside it."""
        ...

    def cities(self) -> Sequence[str]: ...


# Reading the official tables, in the official folders or a flat one, plain or gzipped, as typed rows in file order.

TableRow = TypeVar("TableRow")
_KILOMETRES = re.compile(r"\d[\d,]*(\.\d+)? km")


class Road(NamedTuple):
    """Row of the distance matrix; duration and distance are both empty if no road is known."""

    origin: str
    destination: str
    duration: str
    distance: str


class Town(NamedTuple):
    """Row of the list of cities: a city and its US state."""

    city: str
    state: str


class TravelTables(NamedTuple):
    """Rows of all tables of the database, in file order. Iterators are accepted: every table is read once."""

    restaurants: Iterable[Restaurant]
    accommodations: Iterable[Accommodation]
    attractions: Iterable[Attraction]
    flights: Iterable[Flight]
    distances: Iterable[Road]
    cities: Iterable[Town]


class TableSources(NamedTuple):
    """Files of a database folder, in the order of `TravelTables`."""

    restaurants: Path
    accommodations: Path
    attractions: Path
    flights: Path
    distances: Path
    cities: Path


def find_sources(folder: Path) -> TableSources:
    """Find the files of a database folder, directly in it or in the official subfolders.

    Raises:
        Fault: a table is missing; the message names the path where it is expected.
    """
    return TableSources(
        restaurants=_find_table(folder, "restaurants", "clean_restaurant_2022.csv"),
        accommodations=_find_table(folder, "accommodations", "clean_accommodations_2022.csv"),
        attractions=_find_table(folder, "attractions", "attractions.csv"),
        flights=_find_table(folder, "flights", "clean_Flights_2022.csv", "clean_Flights_2022*.csv"),
        distances=_find_table(folder, "googleDistanceMatrix", "distance.csv"),
        cities=_find_table(folder, "background", "citySet_with_states.txt"),
    )


def read_tables(sources: TableSources) -> TravelTables:
    """Read typed rows lazily, while they are iterated over.

    As in the official loader, a row with an empty cell is dropped, except from the distances.

    Raises:
        Fault: a row is malformed; the message names file and line. It is raised during iteration.
    """
    return TravelTables(
        restaurants=_read_rows(
            sources.restaurants, "Name/City/Cuisines/Average Cost/Aggregate Rating", _parse_restaurant
        ),
        accommodations=_read_rows(
            sources.accommodations,
            "NAME/city/room type/price/minimum nights/review rate number/house_rules/maximum occupancy",
            _parse_accommodation,
        ),
        attractions=_read_rows(sources.attractions, "Name/City", Attraction._make),
        flights=_read_rows(
            sources.flights,
            "Flight Number/Price/DepTime/ArrTime/ActualElapsedTime/FlightDate/OriginCityName/DestCityName/Distance",
            _parse_flight,
        ),
        distances=_read_rows(sources.distances, "origin/destination/duration/distance", _parse_road, keep_gaps=True),
        cities=_read_towns(sources.cities),
    )


def _find_table(folder: Path, subfolder: str, name: str, pattern: str = "") -> Path:
    for place in (folder, folder / subfolder):
        files = sorted([*place.glob(pattern or name), *place.glob(f"{pattern or name}.gz")])
        if files:
            return files[0]
    raise Fault(
        "data",
        f"no {name} in {folder}: put the official table at {folder / subfolder / name}, or make a world with "
        f"certigraph.benchmarks.travelplanner.generator.generate_world({str(folder.parent)!r})",
    )


def _read_rows(
    path: Path, columns: str, make: Callable[[tuple[str, ...]], TableRow], *, keep_gaps: bool = False
) -> Iterator[TableRow]:
    line = 1
    try:
        reader = csv.reader(read_text_lines(path), strict=True)
        header = next(reader, [])
        pick = itemgetter(*_column_indices(header, columns.split("/")))
        line = reader.line_num + 1
        for cells in reader:
            if _is_complete(header, cells, keep_gaps=keep_gaps):
                yield make(pick(cells))
            line = reader.line_num + 1
    except (ValueError, csv.Error, gzip.BadGzipFile, zlib.error, EOFError) as error:
        raise Fault("data", f"{path}:{line}: {error}") from error


def _column_indices(header: list[str], columns: list[str]) -> list[int]:
    missing = [column for column in columns if column not in header]
    if missing:
        raise ValueError(f"the header {header} lacks the columns {missing}")
    return [header.index(column) for column in columns]


def _is_complete(header: list[str], cells: list[str], *, keep_gaps: bool) -> bool:
    """Return whether to keep a row; blank ones and those with gaps are dropped. The index column may be empty."""
    if not cells:
        return False
    if len(cells) != len(header):
        raise ValueError(f"{len(cells)} cells, but the header names {len(header)}")
    return keep_gaps or "" not in cells or all(cell for name, cell in zip(header, cells, strict=True) if name)


def _parse_number(cell: str) -> float:
    value = float(cell)
    if not math.isfinite(value) or value < 0:
        raise ValueError(f"{cell!r} is not a number of at least 0")
    return value


def _parse_restaurant(cells: tuple[str, ...]) -> Restaurant:
    name, city, cuisines, cost, rating = cells
    return Restaurant(name, city, cuisines, _parse_integer(cost, minimum=0), _parse_number(rating))


def _parse_accommodation(cells: tuple[str, ...]) -> Accommodation:
    name, city, room_type, price, nights, rating, rules, occupancy = cells
    return Accommodation(
        name,
        city,
        room_type,
        _parse_number(price),
        _parse_number(nights),
        _parse_number(rating),
        rules,
        _parse_integer(occupancy, minimum=1),
    )


def _parse_flight(cells: tuple[str, ...]) -> Flight:
    number, price, departs, arrives, duration, date, origin, destination, miles = cells
    return Flight(
        number, _parse_number(price), departs, arrives, duration, date, origin, destination, _parse_number(miles)
    )


def _parse_road(cells: tuple[str, ...]) -> Road:
    road = Road(*cells)
    if road.distance and not _KILOMETRES.fullmatch(road.distance):
        raise ValueError(f'the distance {road.distance!r} does not read like "1,372 km"')
    return road


def _parse_integer(cell: str, *, minimum: int) -> int:
    value = int(cell)
    if value < minimum:
        raise ValueError(f"{cell!r} is not a whole number of at least {minimum}")
    return value


def _read_towns(path: Path) -> Iterator[Town]:
    for line, text in enumerate((raw.rstrip("\r\n") for raw in read_text_lines(path)), start=1):
        city, tab, state = text.partition("\t")
        if not (city and tab and state):
            raise Fault("data", f"{path}:{line}: {text!r} is not a city, a tab and a state")
        yield Town(city, state)


# Store: the official tables in one indexed SQLite file, built once and then opened in milliseconds.

StoredRow = TypeVar("StoredRow", bound=tuple[Any, ...])

_VERSION = 1
_ROW_TYPES = TravelTables(Restaurant, Accommodation, Attraction, Flight, Road, Town)  # type: ignore[arg-type]
_SQL_TYPES = {str: "TEXT", int: "INTEGER", float: "REAL"}
_INDEXES = (
    "restaurants(city)",
    "accommodations(city)",
    "attractions(city)",
    "flights(origin, destination, date)",
    "flights(number)",
    "distances(origin, destination)",
)


class SandboxStore:
    """`Sandbox` backed by an SQLite database. Any number of threads may read from one store."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._lock = Lock()
        self._of_city: dict[tuple[type, str], Sequence[Any]] = {}
        self._states = dict(self._rows(Town, "SELECT city, state FROM cities ORDER BY rowid"))
        self._cities = tuple(self._states)

    def restaurants(self, city: str) -> Sequence[Restaurant]:
        """Return the restaurants of a city, in file order."""
        return self._city_rows(Restaurant, "restaurants", city)

    def accommodations(self, city: str) -> Sequence[Accommodation]:
        """Return the places to stay in a city, in file order."""
        return self._city_rows(Accommodation, "accommodations", city)

    def attractions(self, city: str) -> Sequence[Attraction]:
        """Return the attractions of a city, in file order."""
        return self._city_rows(Attraction, "attractions", city)

    def flights(self, origin: str, destination: str, date: str | None = None) -> Sequence[Flight]:
        """Return the flights of a leg, on one ISO date or on any, in file order."""
        leg = "SELECT * FROM flights WHERE origin = ? AND destination = ?"
        if date is None:
            return self._rows(Flight, f"{leg} ORDER BY rowid", origin, destination)
        return self._rows(Flight, f"{leg} AND date = ? ORDER BY rowid", origin, destination, date)

    def flight(self, number: str) -> Flight | None:
        """Return the first flight with that number; None if there is none."""
        rows = self._rows(Flight, "SELECT * FROM flights WHERE number = ? ORDER BY rowid LIMIT 1", number)
        return rows[0] if rows else None

    def distance(self, origin: str, destination: str) -> Distance | None:
        """Return duration and distance from one city to another, by the first row for them; None if there is no row."""
        rows = self._rows(
            Distance,
            "SELECT duration, distance FROM distances WHERE origin = ? AND destination = ? ORDER BY rowid LIMIT 1",
            origin,
            destination,
        )
        return rows[0] if rows else None

    def state_of(self, city: str) -> str | None:
        """Return the US state of a city; None for a city that is not in `cities`."""
        return self._states.get(city)

    def cities(self) -> Sequence[str]:
        """Return all known cities, in file order."""
        return self._cities

    def close(self) -> None:
        """Close the database file."""
        self._connection.close()

    def _city_rows(self, row_type: type[StoredRow], table: str, city: str) -> Sequence[StoredRow]:
        key = (row_type, city)
        if key not in self._of_city:
            self._of_city[key] = self._rows(row_type, f"SELECT * FROM {table} WHERE city = ? ORDER BY rowid", city)
        return self._of_city[key]

    def _rows(self, row_type: type[StoredRow], query: str, *values: str) -> Sequence[StoredRow]:
        # One connection under one lock: queries take well under a millisecond, so threads rarely wait.
        with self._lock:
            rows = self._connection.execute(query, values).fetchall()
        return tuple(map(row_type._make, rows))  # type: ignore[attr-defined]


def open_store(folder: Path, cache: Path | None = None) -> SandboxStore:
    """Open the database of a folder with the official tables (flat or in the official subfolders, plain or gzipped).

    The first call builds an SQLite file in `cache` (default: the folder `certigraph` in the user's cache folder). It is
    built again if a table's path, size or modification time changes.

    Raises:
        Fault: a table is missing or has a malformed row; the message names path and line.
    """
    sources = find_sources(folder.resolve())
    path = (cache or cache_folder()) / f"travelplanner-{_compute_fingerprint(sources)}.sqlite"
    if not path.exists():
        write_store(path, read_tables(sources))
    return load_store(path)


def load_store(path: Path) -> SandboxStore:
    """Open the store in an SQLite file that `write_store` wrote."""
    uri = f"{path.resolve().as_uri()}?mode=ro&immutable=1"
    return SandboxStore(sqlite3.connect(uri, uri=True, check_same_thread=False))


def write_store(path: Path, tables: TravelTables) -> None:
    """Write tables to an SQLite file, atomically: no partial file appears at `path`."""
    with replace_file(path) as unfinished, closing(sqlite3.connect(unfinished, isolation_level=None)) as connection:
        fill_database(connection, tables)


def fill_database(connection: sqlite3.Connection, tables: TravelTables) -> None:
    """Create the schema in an empty database and load the tables in one transaction."""
    connection.execute("PRAGMA journal_mode = OFF")
    connection.execute("BEGIN")
    for table, row_type, rows in zip(TravelTables._fields, _ROW_TYPES, tables, strict=True):
        columns = get_type_hints(row_type)
        connection.execute(f"CREATE TABLE {table} ({', '.join(f'{c} {_SQL_TYPES[t]}' for c, t in columns.items())})")
        connection.executemany(f"INSERT INTO {table} VALUES ({', '.join('?' * len(columns))})", rows)
    for number, columns_of in enumerate(_INDEXES):
        connection.execute(f"CREATE INDEX index_{number} ON {columns_of}")
    connection.execute("COMMIT")


def _compute_fingerprint(sources: TableSources) -> str:
    stamps = [(str(path), path.stat().st_size, path.stat().st_mtime_ns) for path in sources]
    return hashlib.sha256(repr((_VERSION, stamps)).encode()).hexdigest()[:16]
