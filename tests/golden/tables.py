"""What commands print and the data that they write, of small scripted runs, as text."""

import csv
import io
import json
import re
import shlex
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from golden.normalise import CHANGING, TIME, compact, line, plain
from golden.runs import places, workplace

from certigraph.cli import main

UNTIMED = CHANGING | {"run", "time", "seconds a run", "s", "took", "digest", "mean_seconds"}
"""Columns of CSV files and keys of JSON files that are left out: CHANGING, other times, and names of runs."""

DURATION = re.compile(r"(?<![\w.])[\d.,]+ ?(?:ms|s|min|h|seconds?|minutes?|trajectories/s cold|warm)\b")


@dataclass(frozen=True)
class Table:
    """Commands that are run one after the other in one folder, and the files that are kept of it, as shell patterns."""

    name: str
    commands: tuple[str, ...]
    files: tuple[str, ...] = ()
    data: str = ""
    slow: bool = False
    given: tuple[tuple[str, str], ...] = ()
    """Files that are written before: name and text."""


def record_table(table: Table) -> str:
    """Run the commands and give what they print and write."""
    with workplace(bool(table.data)) as folder:
        for name, text in table.given:
            (folder / name).write_text(text, encoding="utf-8")
        where = places(folder)
        parts = [f"$ certigraph {command}\n{shown(called(command), where)}" for command in table.commands]
        for pattern in table.files:
            found = sorted(folder.glob(pattern))
            assert found, f"{table.name}: no file is {pattern}"
            parts += sorted(f"# {_named(path, folder)}\n{written(path, where)}" for path in found)
    return "\n".join(parts)


def _named(path: Path, folder: Path) -> str:
    return plain(str(path.relative_to(folder)))


def called(command: str) -> str:
    """What a command of the command line prints, its exit status first."""
    out, status = io.StringIO(), 0
    with redirect_stdout(out), redirect_stderr(io.StringIO()):
        try:
            main(shlex.split(command))
        except SystemExit as stop:
            status = stop.code if isinstance(stop.code, int) else int(bool(stop.code))
    return f"exit status {status}\n{out.getvalue()}"


def shown(text: str, where: dict[str, str]) -> str:
    """Printed text: JSON by key, else lines without the spaces that align columns, which depend on times."""
    rows = []
    for row in text.splitlines():
        try:
            value = json.loads(row)
        except ValueError:
            value = None
        rows.append(line(untimed(value, where)) if isinstance(value, dict) else worded(row, where))
    return "\n".join(row for row in rows if row) + "\n"


def worded(text: str, where: dict[str, str]) -> str:
    """A text on one line without times, durations, and what `plain` takes out."""
    return DURATION.sub("DURATION", TIME.sub("TIME", " ".join(plain(text, where).split())))


def untimed(value: Any, where: dict[str, str]) -> Any:
    """A JSON value without times, `compact` otherwise."""
    match value:
        case dict():
            return {plain(key, where): untimed(one, where) for key, one in value.items() if key not in UNTIMED}
        case list():
            return [untimed(one, where) for one in value]
        case str():
            return compact(TIME.sub("TIME", value), where)
    return compact(value, where)


def written(path: Path, where: dict[str, str]) -> str:
    """A file as text that has no times in it."""
    readers: dict[str, Callable[[], Iterator[str]]] = {
        ".csv": lambda: csv_lines(path.read_text(encoding="utf-8"), where),
        ".json": lambda: iter([line(untimed(json.loads(path.read_text(encoding="utf-8")), where))]),
        ".jsonl": lambda: (line(untimed(json.loads(row), where)) for row in path.read_text("utf-8").splitlines()),
    }
    return "".join(f"{one}\n" for one in readers[path.suffix]())


def csv_lines(text: str, where: dict[str, str]) -> Iterator[str]:
    """The rows of a CSV file without the columns of times; numbers to nine digits."""
    rows = list(csv.reader(io.StringIO(text)))
    kept = [place for place, name in enumerate(rows[0]) if not _timed(name)]
    for row in rows:
        if row is rows[0] or not UNTIMED & {*row}:
            yield ",".join(_cell(row[place], where) for place in kept)


def _timed(name: str) -> bool:
    return name in UNTIMED or name.endswith("_seconds") or name.startswith("seconds_")


def _cell(text: str, where: dict[str, str]) -> str:
    try:
        return f"{float(text):.9g}"
    except ValueError:
        return str(compact(worded(text, where)))


def _graphs() -> tuple[str, ...]:
    listed = json.loads((Path(__file__).parents[2] / "langgraph.json").read_text(encoding="utf-8"))["graphs"]
    return tuple(f"graph {name}" for name in listed)


SIMULATED = "--model simulated:seed=0"

ANSWERS = '{"answer": {"dev-comparison-0": "yes", "dev-bridge-0": "Mera County", "dev-bridge-1": "nowhere"}}'

GYMS = "Which gyms within 500 metres of Baravonith Park in Merequist have fitness classes before 7am?"

STEPS = f"compare step bare=step --swap bare:planner=none --on blocksworld --limit 2 {SIMULATED} --out cmp"
QUESTIONS = f"compare tdp plan_and_act --on hotpotqa:interactive --limit 3 {SIMULATED} --out cmp"

TABLES = (
    Table("graph", _graphs()),
    Table("ask", (f"ask '{GYMS}' --search generated --model scripted:expert --json",)),
    Table("eval", (f"eval sdp blocksworld --limit 3 --trials 2 {SIMULATED}",
                   f"eval sdp travelplanner --limit 2 --also-config paper {SIMULATED} --json"), slow=True),
    Table("compare-costs", (QUESTIONS,), ("cmp/*.csv",), slow=True),
    Table("figures", (STEPS, "figures cmp --out figures"), ("figures/*.csv",), slow=True),
    Table("judge", ("run react hotpotqa:interactive --out runs", "run tdp hotpotqa:interactive --out runs",
                    "judge runs --rubric strings --json --out strings.jsonl",
                    "judge runs --rubric tdp --json --out tdp.jsonl",
                    "judge runs --rubric cgdp --json --out cgdp.jsonl"),
          ("*.jsonl",), slow=True),
    Table("study-tdp", ("study tdp --longest 24 --out study",), ("study/*.csv",), slow=True),
    Table("score-hotpotqa", ("score hotpotqa --answers answers.json --json",), given=(("answers.json", ANSWERS),)),
)  # fmt: skip


def tables() -> list[tuple[Table, Callable[[], str]]]:
    """Each table and how its text is made."""
    return [(table, partial(record_table, table)) for table in TABLES]
