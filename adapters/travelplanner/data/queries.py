"""TravelPlanner's queries: what a traveller asks for, and the reference information to plan with."""

import ast
import csv
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

from pydantic import ConfigDict, Field, JsonValue, field_validator, model_validator

from certigraph.adapters.hints import missing_data
from certigraph.adapters.rows import Row, checked, read_rows
from certigraph.adapters.travelplanner.data.files import read_text_lines
from certigraph.state.endings import Fault
from certigraph.state.records import Record

SPLIT_SUFFIXES = (".jsonl.gz", ".jsonl", ".csv")
LITERAL_COLUMNS = ("date", "local_constraint", "reference_information", "annotated_plan")
LARGEST_CELL = 10_000_000

HouseRule = Literal["smoking", "parties", "children under 10", "visitors", "pets"]
RoomType = Literal["entire room", "private room", "not shared room", "shared room"]
Transportation = Literal["no flight", "no self-driving"]


class _Aliased(Record):
    model_config = ConfigDict(populate_by_name=True)


class LocalConstraint(_Aliased):
    """What is requested besides the budget; None where nothing is."""

    house_rule: HouseRule | None = Field(None, alias="house rule")
    cuisine: tuple[str, ...] | None = None
    room_type: RoomType | None = Field(None, alias="room type")
    transportation: Transportation | None = None


class Reference(_Aliased):
    """One item of the reference information: a table as text, or a sentence about a leg."""

    description: str = Field(alias="Description")
    content: str = Field(alias="Content")


class Query(_Aliased):
    """One query. `dest` is a city for three days, a state for five and seven; `budget` is in dollars for all people."""

    idx: int
    """1-based position in the official list."""
    org: str
    dest: str
    days: int = Field(ge=1)
    visiting_city_number: int = Field(ge=1)
    date: tuple[str, ...]
    """One ISO date a day."""
    people_number: int = Field(ge=1)
    local_constraint: LocalConstraint
    budget: int
    query: str
    level: Literal["easy", "medium", "hard"]
    reference: tuple[Reference, ...] = Field(alias="reference_information")
    annotated_plan: tuple[dict[str, JsonValue], ...] = ()
    """The human plan of train queries, padded with empty days."""

    @field_validator("annotated_plan", mode="before")
    @classmethod
    def _days_only(cls, plan: Any) -> Any:
        # The public train file pairs the plan with a copy of its query: [query, [day, ...]].
        paired = isinstance(plan, list) and len(plan) == 2 and isinstance(plan[1], list)
        return plan[1] if paired else plan

    @model_validator(mode="after")
    def _one_date_a_day(self) -> "Query":
        if len(self.date) != self.days:
            raise ValueError(f"{len(self.date)} dates for {self.days} days; there must be one date a day")
        return self


def split_file(folder: Path, split: str) -> Path:
    """The file of a split ("validation", "train") in the folder `travelplanner/`.

    Raises:
        Fault: none of the known names is there.
    """
    for suffix in SPLIT_SUFFIXES:
        if (path := folder / f"{split}{suffix}").is_file():
            return path
    names = ", ".join(f"{split}{suffix}" for suffix in SPLIT_SUFFIXES)
    raise missing_data("travelplanner", folder, f"one of {names}, beside database/")


def read_queries(path: Path) -> list[Query]:
    """All queries of a file, JSONL (`.gz` or not) or the public dataset's CSV, in file order.

    Raises:
        Fault: the file is missing or a row is malformed; the message names file and line.
    """
    is_csv = path.name.removesuffix(".gz").endswith(".csv")
    return [checked(Query, row) for row in (_csv_rows(path) if is_csv else read_rows(path))]


def _csv_rows(path: Path) -> Iterator[Row]:
    csv.field_size_limit(LARGEST_CELL)
    with _as_published(path):
        reader = csv.DictReader(read_text_lines(path))
        for idx, cells in enumerate(reader, start=1):
            where = f"{path}:{reader.line_num}"
            row = {column: cell for column, cell in cells.items() if column and not column.startswith("Unnamed")}
            literals = {column: _literal(row[column], column, where) for column in LITERAL_COLUMNS if column in row}
            yield Row(where, {"idx": idx} | row | literals)


@contextmanager
def _as_published(path: Path) -> Iterator[None]:
    try:
        yield
    except (OSError, EOFError, UnicodeDecodeError, csv.Error, zlib.error) as error:
        raise Fault("data", f"{path} cannot be read ({error}): put the public CSV there whole") from error


def _literal(cell: str | None, column: str, where: str) -> object:
    try:
        return ast.literal_eval(cell or "")
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError) as error:
        message = f"{where}: {column}: not a Python literal, got {(cell or '')[:80]!r}: quote it as in the public CSV"
        raise Fault("data", message) from error
