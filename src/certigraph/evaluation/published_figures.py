"""Published figures: tables of papers as data, from the JSON file that a benchmark declares (`Benchmark.published`).

The shipped files have figures and facts only, as the papers print them. Left out are cells that the text of a paper
does not show with certainty (all tables of CGDP; StateFactory, table 2), and rows that repeat another table. No table
that is here has intervals.
"""

from collections.abc import Iterator
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Annotated, Self

from pydantic import BeforeValidator, Field, TypeAdapter, model_validator

from certigraph.adapters.benchmarks import find_benchmark, shipped_benchmarks, split_name
from certigraph.adapters.files import read_bytes
from certigraph.state.endings import UnknownName
from certigraph.state.records import Record

# The layout of a file: tables as a paper prints them, one row for each method, one column for each metric.


class PublishedColumn(Record):
    """Column of a table. In a file, a column over all tasks of its table is its metric alone."""

    metric: str
    """Name of the metric in the output of `certigraph eval`."""
    label: str = ""
    """The paper's name for the tasks that the column is about; empty: all tasks of the table."""
    task_ids: tuple[str, ...] = ()
    """Our ids of these tasks."""


class PublishedRow(Record):
    """Row of a table: the figures of one method with one model."""

    method: str
    """Name of the method in the paper."""
    graph: str = ""
    """Our graph of this method; empty: not implemented here."""
    swaps: dict[str, str] = Field(default_factory=dict)
    """Operators of the graph that make it the paper's variant, by slot, as `--swap` takes them."""
    model: str
    """Language model; empty: the paper does not say which."""
    variant: str = ""
    """What else distinguishes the row, such as the training data of a reward model."""
    values: tuple[Decimal | None, ...]
    """Figures with the decimals that the paper prints, in the order of the columns; None: not legible."""


class PublishedTable(Record):
    """Table of a paper about one benchmark; a table of the paper about several benchmarks is split."""

    table: str
    """Number of the table in the paper, as in `table 2`."""
    benchmarks: tuple[str, ...] = Field(min_length=1)
    """Our benchmark with the configuration of the paper, then other configurations on which it is shown, marked."""
    protocol: str
    """Tasks, limits and scorer of the paper in one plain line."""
    tasks: int = Field(ge=1)
    """Number of tasks in the paper."""
    ids: str
    """Regular expression of our ids of these tasks; empty: the paper does not say which tasks they are."""
    differs: tuple[str, ...] = ()
    """What is always different in runs of ours from the protocol, in a few words each."""
    percent: bool = True
    """Whether values are percentages, 0 to 100, and not fractions, 0 to 1."""
    columns: tuple[
        Annotated[PublishedColumn, BeforeValidator(lambda c: {"metric": c} if isinstance(c, str) else c)], ...
    ]
    rows: tuple[PublishedRow, ...]

    @model_validator(mode="after")
    def _check_values(self) -> Self:
        for row in self.rows:
            if len(row.values) != len(self.columns):
                raise ValueError(f"{self.table}, {row.method}: {len(row.values)} values, {len(self.columns)} columns")
            if wrong := [value for value in row.values if value is not None and not 0 <= value <= self.full_score]:
                raise ValueError(f"{self.table}, {row.method}: {wrong[0]} is not in 0 to {self.full_score}")
        return self

    @property
    def full_score(self) -> int:
        """The largest possible value, 100 or 1."""
        return 100 if self.percent else 1


class PublishedPaper(Record):
    """A paper with its tables about one benchmark. A file is a list of papers."""

    paper: str
    """Short name of the paper, as in `SDP`."""
    title: str
    tables: tuple[PublishedTable, ...]


PAPERS: TypeAdapter[tuple[PublishedPaper, ...]] = TypeAdapter(tuple[PublishedPaper, ...])


@cache
def read_papers(file: Path) -> tuple[PublishedPaper, ...]:
    """Read the file of a benchmark, on the first call only.

    Raises:
        pydantic.ValidationError: the file does not have the layout.
    """
    return PAPERS.validate_json(read_bytes(file))


# Single figures.


class PublishedFigure(Record):
    """One published figure, with the paper's protocol and model."""

    paper: str
    table: str
    method: str
    graph: str
    swaps: dict[str, str]
    model: str
    variant: str
    benchmarks: tuple[str, ...]
    protocol: str
    tasks: int
    ids: str
    differs: tuple[str, ...]
    metric: str
    label: str
    task_ids: tuple[str, ...]
    value: float
    """The figure as a fraction, 0 to 1, as all figures of `certigraph eval`."""
    percent: str
    """The figure in percent, with the decimals that the paper prints."""

    @property
    def source(self) -> str:
        """Paper, table and model, as in `SDP table 2, GPT-4o`."""
        return ", ".join(filter(None, (f"{self.paper} {self.table}", self.model or "model not stated", self.variant)))


def figures_on(benchmark: str) -> list[PublishedFigure]:
    """Return the published figures on a benchmark in all its configurations; none if it declares none."""
    declared = find_benchmark(benchmark)
    papers = read_papers(declared.published) if declared and declared.published else ()
    figures = []
    for paper, table in ((one, table) for one in papers for table in one.tables):
        about = table.model_dump(include={"table", "benchmarks", "protocol", "tasks", "ids", "differs"})
        for row in table.rows:
            shared = {"paper": paper.paper, **about, **row.model_dump(exclude={"values"})}
            for column, value in zip(table.columns, row.values, strict=True):
                if value is not None:
                    percent = value if table.percent else value.scaleb(2)
                    number = {"value": float(percent.scaleb(-2)), "percent": f"{percent:f}"}
                    figures.append(PublishedFigure.model_validate({**shared, **column.model_dump(), **number}))
    return figures


def published_figures() -> Iterator[PublishedFigure]:
    """Yield every published figure on the shipped benchmarks."""
    for name in shipped_benchmarks():
        yield from figures_on(name)


# The list that `certigraph published` prints.


def select_figures(benchmark: str = "") -> list[PublishedFigure]:
    """Return the published figures on a benchmark, or on all.

    Args:
        benchmark: the name of a benchmark, with a configuration or, for all its configurations, without.

    Raises:
        UnknownName: there is no published figure on it; the message lists the benchmarks that have some.
    """
    found = [
        figure
        for figure in published_figures()
        if not benchmark or any(benchmark in (name, split_name(name)[0]) for name in figure.benchmarks)
    ]
    if not found:
        known = ", ".join(sorted({figure.benchmarks[0] for figure in published_figures()}))
        raise UnknownName(f"no published figures on {benchmark!r}: they are on {known}")
    return found


def figure_lines(figures: list[PublishedFigure]) -> Iterator[str]:
    """Yield lines that list figures: a heading for each table, and below it a line for each of its rows."""
    previous: tuple[object, ...] = ()
    by_row: dict[tuple[str, ...], list[PublishedFigure]] = {}
    for figure in figures:
        key = (figure.paper, figure.table, *figure.benchmarks, figure.method, figure.model, figure.variant)
        by_row.setdefault((*key, str(figure.swaps)), []).append(figure)
    for row in by_row.values():
        first = row[0]
        heading = (first.paper, first.table, first.benchmarks)
        if heading != previous:
            yield f"{first.paper} {first.table}, {' or '.join(first.benchmarks)}: {first.protocol}"
            previous = heading
        values = (" ".join(filter(None, (figure.metric, figure.label, figure.percent))) for figure in row)
        swaps = " ".join(f"{slot}={operator}" for slot, operator in first.swaps.items())
        ours = " ".join(filter(None, (first.graph, swaps))) or "not implemented here"
        who = (f"{first.method} ({ours})", first.model or "model not stated", first.variant)
        yield f"  {', '.join(filter(None, who))}: {', '.join(values)}"
