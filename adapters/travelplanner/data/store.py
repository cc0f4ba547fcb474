"""TravelPlanner's database: the official tables in one indexed SQLite file, built once, opened in milliseconds."""

import hashlib
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from threading import Lock
from typing import Any, TypeVar, get_type_hints

from certigraph.adapters.caching import cache_folder, whole_file
from certigraph.adapters.travelplanner.data.sandbox import Accommodation, Attraction, Distance, Flight, Restaurant
from certigraph.adapters.travelplanner.data.tables import Road, Sources, Tables, Town, find_sources, read_tables

StoredRow = TypeVar("StoredRow", bound=tuple[Any, ...])

_VERSION = 1
_ROW_TYPES = Tables(Restaurant, Accommodation, Attraction, Flight, Road, Town)  # type: ignore[arg-type]
_SQL_TYPES = {str: "TEXT", int: "INTEGER", float: "REAL"}
_INDEXES = (
    "restaurants(city)",
    "accommodations(city)",
    "attractions(city)",
    "flights(origin, destination, date)",
    "flights(number)",
    "distances(origin, destination)",
)


class Store:
    """A `Sandbox` on SQLite. Any number of threads may read from one store."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._lock = Lock()
        self._of_city: dict[tuple[type, str], Sequence[Any]] = {}
        self._states = dict(self._rows(Town, "SELECT city, state FROM cities ORDER BY rowid"))
        self._cities = tuple(self._states)

    def restaurants(self, city: str) -> Sequence[Restaurant]:
        """Restaurants of a city, in file order."""
        return self._city_rows(Restaurant, "restaurants", city)

    def accommodations(self, city: str) -> Sequence[Accommodation]:
        """Places to stay in a city, in file order."""
        return self._city_rows(Accommodation, "accommodations", city)

    def attractions(self, city: str) -> Sequence[Attraction]:
        """Attractions of a city, in file order."""
        return self._city_rows(Attraction, "attractions", city)

    def flights(self, origin: str, destination: str, date: str | None = None) -> Sequence[Flight]:
        """Flights of a leg, on one ISO date or on any, in file order."""
        leg = "SELECT * FROM flights WHERE origin = ? AND destination = ?"
        if date is None:
            return self._rows(Flight, f"{leg} ORDER BY rowid", origin, destination)
        return self._rows(Flight, f"{leg} AND date = ? ORDER BY rowid", origin, destination, date)

    def flight(self, number: str) -> Flight | None:
        """The first flight with that number."""
        rows = self._rows(Flight, "SELECT * FROM flights WHERE number = ? ORDER BY rowid LIMIT 1", number)
        return rows[0] if rows else None

    def distance(self, origin: str, destination: str) -> Distance | None:
        """The first row of a directed pair."""
        rows = self._rows(
            Distance,
            "SELECT duration, distance FROM distances WHERE origin = ? AND destination = ? ORDER BY rowid LIMIT 1",
            origin,
            destination,
        )
        return rows[0] if rows else None

    def state_of(self, city: str) -> str | None:
        """The state of a city; None outside the set of cities."""
        return self._states.get(city)

    def cities(self) -> Sequence[str]:
        """The set of cities, in file order."""
        return self._cities

    def close(self) -> None:
        """Release the file."""
        self._connection.close()

    def _city_rows(self, row_type: type[StoredRow], table: str, city: str) -> Sequence[StoredRow]:
        key = (row_type, city)
        if key not in self._of_city:
            self._of_city[key] = self._rows(row_type, f"SELECT * FROM {table} WHERE city = ? ORDER BY rowid", city)
        return self._of_city[key]

    def _rows(self, row_type: type[StoredRow], query: str, *values: str) -> Sequence[StoredRow]:
        # One connection under one lock: queries take well under a millisecond, so readers hardly ever wait.
        with self._lock:
            found = self._connection.execute(query, values).fetchall()
        return tuple(map(row_type._make, found))  # type: ignore[attr-defined]


def open_store(folder: Path, cache: Path | None = None) -> Store:
    """The store of a folder with the official tables (flat or in the official subfolders, plain or gzipped).

    The first opening builds an SQLite file in `cache` (default: certigraph in the user's cache folder); it is
    built again when a table's path, size or modification time changes.

    Raises:
        Fault: a table is missing or has a malformed row; names the path and the line.
    """
    sources = find_sources(folder.resolve())
    path = (cache or cache_folder()) / f"travelplanner-{_fingerprint(sources)}.sqlite"
    if not path.exists():
        write_store(path, read_tables(sources))
    return load_store(path)


def load_store(path: Path) -> Store:
    """The store in an SQLite file that `write_store` made."""
    uri = f"{path.resolve().as_uri()}?mode=ro&immutable=1"
    return Store(sqlite3.connect(uri, uri=True, check_same_thread=False))


def write_store(path: Path, tables: Tables) -> None:
    """Write tables to an SQLite file; it appears at `path` complete or not at all."""
    with whole_file(path) as unfinished, closing(sqlite3.connect(unfinished, isolation_level=None)) as connection:
        fill(connection, tables)


def fill(connection: sqlite3.Connection, tables: Tables) -> None:
    """Create the schema in an empty database and load the tables in one transaction."""
    connection.execute("PRAGMA journal_mode = OFF")
    connection.execute("BEGIN")
    for table, row_type, rows in zip(Tables._fields, _ROW_TYPES, tables, strict=True):
        columns = get_type_hints(row_type)
        connection.execute(f"CREATE TABLE {table} ({', '.join(f'{c} {_SQL_TYPES[t]}' for c, t in columns.items())})")
        connection.executemany(f"INSERT INTO {table} VALUES ({', '.join('?' * len(columns))})", rows)
    for number, columns_of in enumerate(_INDEXES):
        connection.execute(f"CREATE INDEX index_{number} ON {columns_of}")
    connection.execute("COMMIT")


def _fingerprint(sources: Sources) -> str:
    stamps = [(str(path), path.stat().st_size, path.stat().st_mtime_ns) for path in sources]
    return hashlib.sha256(repr((_VERSION, stamps)).encode()).hexdigest()[:16]
