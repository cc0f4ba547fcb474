"""TravelPlanner's queries: reading them from files, the legs of their trips, and their splits and task ids."""

import ast
import csv
import gzip
import re
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import IO, Any, Literal, NamedTuple, cast

from pydantic import ConfigDict, Field, JsonValue, field_validator, model_validator

from certigraph.adapters.files import (
    JsonRow,
    missing_data_fault,
    read_rows,
    skip_byte_order_mark,
    unknown_task_error,
    validate_row,
)
from certigraph.adapters.json_lines import read_bounded_lines
from certigraph.state.endings import Fault, UnknownName
from certigraph.state.records import Arguments, Record

# Text files, plain or gzipped.


def read_text_lines(path: Path) -> Iterator[str]:
    """Read the lines of a UTF-8 file, each with its newline; the file is gzipped if its name ends in `.gz`.

    Raises:
        Fault: there is no such file, or a line is longer than 16 MiB.
        ValueError, OSError, EOFError, zlib.error: the file is not UTF-8, or is corrupted.
    """
    try:
        with cast(IO[bytes], gzip.open(path)) if path.suffix == ".gz" else path.open("rb") as file:
            for line in read_bounded_lines(skip_byte_order_mark(file), str(path)):
                yield line.decode("utf-8")
    except FileNotFoundError as error:
        raise Fault("data", f"{path}: no such file: correct the path") from error


# Queries: a traveller's request, and the reference information to plan with.

SPLIT_SUFFIXES = (".jsonl.gz", ".jsonl", ".csv")
LITERAL_COLUMNS = ("date", "local_constraint", "reference_information", "annotated_plan")
MAX_CELL_CHARS = 10_000_000
"""Maximum number of characters of a CSV cell; reference information exceeds the default of the csv module."""

HouseRule = Literal["smoking", "parties", "children under 10", "visitors", "pets"]
RoomType = Literal["entire room", "private room", "not shared room", "shared room"]
Transportation = Literal["no flight", "no self-driving"]


class _Aliased(Record):
    model_config = ConfigDict(populate_by_name=True)


class LocalConstraint(_Aliased):
    """Requested constraints besides the budget; None where nothing is requested."""

    house_rule: HouseRule | None = Field(default=None, alias="house rule")
    cuisine: tuple[str, ...] | None = None
    room_type: RoomType | None = Field(default=None, alias="room type")
    transportation: Transportation | None = None


class ReferenceEntry(_Aliased):
    """Item of a query's reference information: a table as text, or a sentence about a leg of the trip."""

    description: str = Field(alias="Description")
    content: str = Field(alias="Content")


class TravelQuery(_Aliased):
    """Travel request. `dest` is a city for 3 days and a state for 5 and 7; `budget` is in dollars for all people."""

    idx: int
    """Position in the official list, from 1."""
    org: str
    dest: str
    days: int = Field(ge=1)
    visiting_city_number: int = Field(ge=1)
    date: tuple[str, ...]
    """ISO date of each day."""
    people_number: int = Field(ge=1)
    local_constraint: LocalConstraint
    budget: int
    query: str
    level: Literal["easy", "medium", "hard"]
    reference: tuple[ReferenceEntry, ...] = Field(alias="reference_information")
    annotated_plan: tuple[dict[str, JsonValue], ...] = ()
    """Plan written by a person, for train queries only; padded with empty days."""

    @field_validator("annotated_plan", mode="before")
    @classmethod
    def _days_only(cls, plan: Any) -> Any:
        # The public train file pairs the plan with a copy of its query: [query, [day, ...]].
        paired = isinstance(plan, list) and len(plan) == 2 and isinstance(plan[1], list)
        return plan[1] if paired else plan

    @model_validator(mode="after")
    def _one_date_a_day(self) -> "TravelQuery":
        if len(self.date) != self.days:
            raise ValueError(f"{len(self.date)} dates for {self.days} days; there must be one date a day")
        return self


def find_split_file(folder: Path, split: str) -> Path:
    """Return the file of a split ("validation", "train") in the folder `travelplanner/`.

    Raises:
        Fault: the folder has no file with one of the known names.
    """
    for suffix in SPLIT_SUFFIXES:
        if (path := folder / f"{split}{suffix}").is_file():
            return path
    names = ", ".join(f"{split}{suffix}" for suffix in SPLIT_SUFFIXES)
    raise missing_data_fault("travelplanner", folder, f"one of {names}, next to database/")


def read_queries(path: Path) -> list[TravelQuery]:
    """Read all queries of a JSONL file (`.gz` or not) or of the public dataset's CSV, in file order.

    Raises:
        Fault: the file is missing or a row is malformed; the message names file and line.
    """
    is_csv = path.name.removesuffix(".gz").endswith(".csv")
    return [validate_row(TravelQuery, row) for row in (_csv_rows(path) if is_csv else read_rows(path))]


def _csv_rows(path: Path) -> Iterator[JsonRow]:
    csv.field_size_limit(MAX_CELL_CHARS)
    with _read_errors_as_faults(path):
        reader = csv.DictReader(read_text_lines(path))
        for idx, cells in enumerate(reader, start=1):
            where = f"{path}:{reader.line_num}"
            row = {column: cell for column, cell in cells.items() if column and not column.startswith("Unnamed")}
            literals = {
                column: _parse_literal(row[column], column, where) for column in LITERAL_COLUMNS if column in row
            }
            yield JsonRow(where, {"idx": idx} | row | literals)


@contextmanager
def _read_errors_as_faults(path: Path) -> Iterator[None]:
    try:
        yield
    except (OSError, EOFError, UnicodeDecodeError, csv.Error, zlib.error) as error:
        raise Fault("data", f"{path} cannot be read ({error}): copy the complete public CSV there") from error


def _parse_literal(cell: str | None, column: str, where: str) -> object:
    try:
        return ast.literal_eval(cell or "")
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError) as error:
        message = f"{where}: {column}: not a Python literal, got {(cell or '')[:80]!r}: quote it as in the public CSV"
        raise Fault("data", message) from error


# Legs of a trip, read from the flights in the query's reference information.

FLIGHT = re.compile(r"Flight from (?P<origin>.+) to (?P<destination>.+) on (?P<date>\d{4}-\d\d-\d\d)")
NO_FLIGHT = "There is no flight"


class ListedLeg(NamedTuple):
    """Journey between two cities that the reference information lists, and whether it has flights."""

    origin: str
    destination: str
    date: str
    has_flights: bool


def legs_of(query: TravelQuery) -> tuple[ListedLeg, ...]:
    """Return the legs of the round trip from the city `org`, as the query's reference information lists them.

    Raises:
        Fault: the flights of the reference information do not chain from `org` back to `org`.
    """
    listed = tuple(leg for item in query.reference if (leg := _parse_leg(item)))
    stops = [query.org, *(leg.destination for leg in listed)]
    chained = all(leg.origin == stop for leg, stop in zip(listed, stops, strict=False))
    if not listed or not chained or stops[-1] != query.org:
        route = ", ".join(f"{leg.origin} to {leg.destination}" for leg in listed) or "no flight at all"
        raise Fault("data", f"query {query.idx}: {route} is not a round trip from {query.org}: correct its reference")
    return listed


def visited_cities_of(query: TravelQuery) -> tuple[str, ...]:
    """Return the cities between leaving `org` and returning to it, in order."""
    return tuple(before.destination for before, _ in pairwise(legs_of(query)))


def _parse_leg(item: ReferenceEntry) -> ListedLeg | None:
    match = FLIGHT.fullmatch(item.description)
    if match is None:
        return None
    return ListedLeg(match["origin"], match["destination"], match["date"], not item.content.startswith(NO_FLIGHT))


# Queries of a data folder by the ids of their tasks.

SPLIT = "validation"
SPLITS = (SPLIT, "train")

# The fields of a query that state the request; the others hold data or the solution.
REQUEST_FIELDS = {"org", "dest", "days", "people_number", "date", "local_constraint", "budget", "level"}


class QuerySplits:
    """Queries by task id, which is the `idx` of a query or `train/IDX` in the train split; read on first use."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._read = cache(self._queries)

    def ids(self, split: str = "") -> Sequence[str]:
        """Return the task ids of a split (default: validation).

        Raises:
            UnknownName: there is no such split.
        """
        if split and split not in SPLITS:
            raise UnknownName(f"travelplanner has no split {split!r}; known: {', '.join(SPLITS)}")
        return list(self._read(split or SPLIT))

    def queries(self, split: str = "") -> Sequence[TravelQuery]:
        """Return the queries of a split, in file order."""
        return list(self._read(split or SPLIT).values())

    def query(self, task_id: str) -> TravelQuery:
        """Return the query of a task.

        Raises:
            UnknownName: there is no such task; the message lists some ids.
        """
        queries = self._read(task_id.partition("/")[0] if "/" in task_id else SPLIT)
        if task_id not in queries:
            pattern = f"the rows of {SPLIT} from 1, here {len(queries)} of them, or train/ROW where train is there"
            raise unknown_task_error("travelplanner", task_id, pattern, queries)
        return queries[task_id]

    def legs(self) -> list[ListedLeg]:
        """Return the legs that the reference information of the queries lists, over all queries in the folder."""
        present = [
            split for split in SPLITS if any((self._folder / f"{split}{end}").is_file() for end in SPLIT_SUFFIXES)
        ]
        return [leg for split in present for query in self.queries(split) for leg in legs_of(query)]

    def _queries(self, split: str) -> Mapping[str, TravelQuery]:
        prefix = "" if split == SPLIT else f"{split}/"
        return {f"{prefix}{query.idx}": query for query in read_queries(find_split_file(self._folder, split))}


def constants_of(query: TravelQuery) -> Arguments:
    """Return the fields of a query that state the request, as the constants of its task (see `REQUEST_FIELDS`)."""
    return query.model_dump(mode="json", by_alias=True, include=REQUEST_FIELDS)
