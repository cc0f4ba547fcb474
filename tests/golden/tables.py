"""What commands print and write: tables, pages and exports of small scripted runs, as text."""

import csv
import io
import json
import re
import shlex
from collections.abc import Callable, Iterator, Sequence
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from functools import partial
from html.parser import HTMLParser
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
    dropped: tuple[str, ...] = ()
    """Columns of CSV files that are left out."""


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
            parts += sorted(f"# {_named(path, folder)}\n{written(path, where, table.dropped)}" for path in found)
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


def written(path: Path, where: dict[str, str], dropped: Sequence[str] = ()) -> str:
    """A file as text that has no times in it."""
    readers: dict[str, Callable[[], Iterator[str]]] = {
        ".csv": lambda: csv_lines(path.read_text(encoding="utf-8"), where, dropped),
        ".json": lambda: iter([line(untimed(json.loads(path.read_text(encoding="utf-8")), where))]),
        ".jsonl": lambda: (line(untimed(json.loads(row), where)) for row in path.read_text("utf-8").splitlines()),
        ".html": lambda: page_lines(path.read_text(encoding="utf-8"), where),
        ".parquet": lambda: parquet_lines(path, where),
        ".eval": lambda: log_lines(path, where),
    }
    return "".join(f"{one}\n" for one in readers[path.suffix]())


def csv_lines(text: str, where: dict[str, str], dropped: Sequence[str] = ()) -> Iterator[str]:
    """The rows of a CSV file without the columns of times; numbers to nine digits."""
    rows = list(csv.reader(io.StringIO(text)))
    kept = [place for place, name in enumerate(rows[0]) if not _timed(name) and name not in dropped]
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


def parquet_lines(path: Path, where: dict[str, str]) -> Iterator[str]:
    """The columns of a Parquet file with their types, and its rows."""
    import pyarrow.parquet

    found = pyarrow.parquet.read_table(path)
    yield line({field.name: str(field.type) for field in found.schema})
    for row in found.to_pylist():
        yield line(untimed(json.loads(json.dumps(row, default=str)), where))


def log_lines(path: Path, where: dict[str, str]) -> Iterator[str]:
    """What inspect_ai reads in a log: status, scores, and each sample's messages and score."""
    from inspect_ai.log import read_eval_log

    log = read_eval_log(str(path))
    yield line({"status": log.status, "task": log.eval.task, "dataset": log.eval.dataset.name})
    for sample in log.samples or ():
        scores = {name: score.value for name, score in (sample.scores or {}).items()}
        lines = [f"{one.role}: {one.text}" for one in sample.messages]
        about = {"id": sample.id, "epoch": sample.epoch, "input": sample.input, "scores": scores, "messages": lines}
        yield line(untimed(json.loads(json.dumps(about, default=str)), where))


class _Visible(HTMLParser):
    """The visible text of a page: a line for each row of a table and for each other piece of text.

    Drawings, whose numbers are pixels, are left out, and so are columns and rows of times.
    """

    HIDDEN = ("script", "style", "svg")

    def __init__(self) -> None:
        super().__init__()
        self.hidden, self.pieces = 0, list[str]()
        self.row: list[str] | None = None
        self.timed, self.first = set[int](), True

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.hidden += tag in self.HIDDEN
        match tag:
            case "table":
                self.timed, self.first = set(), True
            case "tr":
                self.row = []
            case "td" | "th" if self.row is not None:
                self.row.append("")

    def handle_endtag(self, tag: str) -> None:
        self.hidden -= tag in self.HIDDEN
        if tag == "tr" and self.row is not None:
            if self.first:
                self.timed = {place for place, cell in enumerate(self.row) if cell in UNTIMED}
            if self.first or not UNTIMED & {*self.row}:
                self.pieces.append(" | ".join(one for place, one in enumerate(self.row) if place not in self.timed))
            self.row, self.first = None, False

    def handle_data(self, data: str) -> None:
        if self.hidden or not data.strip():
            return
        if self.row:
            self.row[-1] = f"{self.row[-1]} {data.strip()}".strip()
        else:
            self.pieces.append(data)


def page_lines(text: str, where: dict[str, str]) -> Iterator[str]:
    """The visible text of a page."""
    page = _Visible()
    page.feed(text)
    yield from (str(compact(worded(piece, where))) for piece in page.pieces)


def _graphs() -> tuple[str, ...]:
    listed = json.loads((Path(__file__).parents[2] / "langgraph.json").read_text(encoding="utf-8"))["graphs"]
    return tuple(f"graph {name}" for name in listed)


SIMULATED = "--model simulated:seed=0"

SWEEP = """\
model: simulated:seed=0
benchmarks: [{name: blocksworld, limit: 2}]
graphs: [sdp, react]
operators: [{}, {validate: always_pass}]
budget: {steps: 30}
"""

ANSWERS = '{"answer": {"dev-comparison-0": "yes", "dev-bridge-0": "Mera County", "dev-bridge-1": "nowhere"}}'

GYMS = "Which gyms within 500 metres of Baravonith Park in Merequist have fitness classes before 7am?"

COMPARE = f"compare sdp react plan_and_solve --on blocksworld --limit 3 --trials 2 {SIMULATED} --out cmp"
STEPS = f"compare step bare=step --swap bare:planner=none --on blocksworld --limit 2 {SIMULATED} --out cmp"
QUESTIONS = f"compare tdp plan_and_act --on hotpotqa:interactive --limit 3 {SIMULATED} --out cmp"

TABLES = (
    Table("graph", _graphs()),
    Table("run", ("run sdp blocksworld --task 4-0", "run tdp hotpotqa:interactive", "run step blocksworld --json",
                  "run react webshop", "run sdp travelplanner", "run sdp blocksworld --swap validate=always_pass "
                  f"--task 6-2 {SIMULATED} --json")),
    Table("ask", (f"ask '{GYMS}' --search generated --model scripted:expert --json",)),
    Table("report", tuple(f"run {arguments} --no-keep-prompts" for arguments in (  # prompts may be worded anyhow
        "sdp blocksworld --task 6-2 --model simulated:seed=0 --out sdp", "tdp hotpotqa:interactive --out tdp",
        "step blocksworld --out step", "reflexion blocksworld --out reflexion", "sdp web --task museum/1 --out web",
        "pbai swe_qa --out pbai", "monotonic rewardprediction --out rewards")),
          ("*/*/report.html",)),
    Table("eval", (f"eval sdp blocksworld --limit 3 --trials 2 {SIMULATED}",
                   f"eval sdp travelplanner --limit 2 --also-config paper {SIMULATED} --json"), slow=True),
    Table("compare", (COMPARE,), ("cmp/*.csv", "cmp/table.json", "cmp/*.html"), slow=True),
    Table("compare-costs", (QUESTIONS,), ("cmp/*.csv",), slow=True),
    Table("ablate", (f"ablate sdp blocksworld --limit 4 --trials 2 {SIMULATED} --out abl",),
          ("abl/*.csv", "abl/table.json", "abl/*.html"), slow=True),
    Table("anatomy", (COMPARE, "anatomy cmp --out anatomy"), ("anatomy/*.csv", "anatomy/*.html"), slow=True),
    Table("figures", (STEPS, "figures cmp --out figures"), ("figures/*.csv",), slow=True),
    Table("export", ("run sdp blocksworld --task 4-0 --model simulated:seed=0 --out runs/1",
                     "run tdp hotpotqa:interactive --out runs/2", "run pbai swe_qa --out runs/3",
                     "export runs --to parquet --out parquet", "export runs --to atif --out atif",
                     "export runs --to inspect --out inspect"),
          ("parquet/*.parquet", "atif/*.json", "inspect/*.eval"), slow=True),
    Table("judge", ("run react hotpotqa:interactive --out runs", "run tdp hotpotqa:interactive --out runs",
                    "judge runs --rubric strings --json --out strings.jsonl",
                    "judge runs --rubric tdp --json --out tdp.jsonl",
                    "judge runs --rubric cgdp --json --out cgdp.jsonl"),
          ("*.jsonl",), slow=True),
    Table("sweep", ("sweep sweep.yaml --dry-run", "sweep sweep.yaml --out sweep"),
          ("sweep/*.csv", "sweep/*.html"), slow=True, given=(("sweep.yaml", SWEEP),)),
    Table("study-tdp", ("study tdp --longest 24 --out study",), ("study/*.csv", "study/*.html"), slow=True),
    Table("study-cgdp", (f"study cgdp --on hotpotqa --harness react --harness ircot --memory native "
                         f"--memory structured --beside sdp --limit 2 {SIMULATED} --out study",),
          ("study/*.csv", "study/*.html"), slow=True),
    Table("rewards", ("rewards build pairs --domain blocksworld --pairs 8 --json",
                      "rewards measure pairs --out measured --predictor statefactory --predictor monotonic"),
          # trained heads differ by the kind of processor; so do sentence vectors in their last digits, which move the
          # bounds of a BCa bootstrap over eight pairs by more than goldens may be off
          ("pairs/counts.json", "measured/*.csv"), slow=True, dropped=("difference_low", "difference_high")),
    Table("score-hotpotqa", ("score hotpotqa --answers answers.json --json",), given=(("answers.json", ANSWERS),)),
)  # fmt: skip


def tables() -> list[tuple[Table, Callable[[], str]]]:
    """Each table and how its text is made."""
    return [(table, partial(record_table, table)) for table in TABLES]
