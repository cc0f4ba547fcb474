"""All goldens: the file of each, how its text is made, and what making it takes."""

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from golden.api import record_api
from golden.matrix import MORE, RUNS
from golden.results import SLOW, results
from golden.runs import Run, record_run
from golden.scorers import SCORERS
from golden.tables import TABLES, record_table

ROUNDING = 2e-6
"""Tolerance of numbers in what may use sentence vectors."""

FOLDER = Path(__file__).parent


@dataclass(frozen=True)
class Golden:
    """A recorded text.

    `data` is the folder below CERTIGRAPH_DATA that it reads, if any; `slow` marks encoders, JVMs and minutes; `graph`
    names the graph whose run it is, if it is a run.
    """

    name: str
    make: Callable[[], str]
    slow: bool = False
    data: str = ""
    graph: str = ""

    @property
    def path(self) -> Path:
        """File of the golden."""
        return FOLDER / self.name

    @property
    def tolerance(self) -> float:
        """How far numbers may be off.

        Sentence vectors are computed in single precision, and their last digits depend on which texts are encoded
        together, and so on what the process did before.
        """
        return ROUNDING if self.slow else 0.0

    def difference(self) -> str:
        """What today's text has otherwise, a few lines; empty if nothing."""
        if not self.path.is_file():
            return f"{self.name} is not recorded: python tests/golden/record.py --only {self.name}"
        return difference(self.name, self.path.read_text(encoding="utf-8"), self.make(), self.tolerance)


def difference(name: str, golden: str, found: str, tolerance: float = 0.0, most: int = 6) -> str:
    """The first lines in which two texts differ, with the JSON paths of what differs in a line of JSON."""
    old, new = golden.splitlines(), found.splitlines()
    changed = [f"{name}: {len(old)} lines recorded, {len(new)} now"] if len(old) != len(new) else []
    for number, (one, other) in enumerate(zip(old, new, strict=False), 1):
        if one != other and not close(one, other, tolerance):
            changed += [f"{name}:{number} {change}" for change in changes(one, other)]
        if len(changed) > most:
            return "\n".join([*changed[:most], f"{name}: and more"])
    return "\n".join(changed)


NUMBER = re.compile(r"(?<![\w.])-?\d+(?:\.\d+)?(?:e-?\d+)?(?![\w.])")


def close(one: str, other: str, tolerance: float) -> bool:
    """Whether two lines differ in numbers alone, and in none by more than the tolerance."""
    if not tolerance or NUMBER.sub("", one) != NUMBER.sub("", other):
        return False
    pairs = zip(NUMBER.findall(one), NUMBER.findall(other), strict=True)
    # equal texts are compared first: the digits of a hash may read as a number without a finite value
    return all(a == b or abs(float(a) - float(b)) <= tolerance for a, b in pairs)


def changes(one: str, other: str) -> list[str]:
    """What differs between two lines: by JSON path where both are JSON."""
    try:
        return list(_changes(json.loads(one), json.loads(other), ""))
    except ValueError:
        return [f"{one[:160]!r} is now {other[:160]!r}"]


def _changes(one: object, other: object, path: str) -> list[str]:
    match one, other:
        case dict(), dict():
            keys = sorted({*one, *other})
            return [change for key in keys for change in _changes(one.get(key), other.get(key), f"{path}.{key}")]
        case list(), list() if len(one) == len(other):
            pairs = enumerate(zip(one, other, strict=True))
            return [change for place, (a, b) in pairs for change in _changes(a, b, f"{path}[{place}]")]
        case _ if one == other:
            return []
    return [f"{path or 'line'}: {json.dumps(one)[:160]} is now {json.dumps(other)[:160]}"]


def goldens() -> list[Golden]:
    """Every golden, by name."""
    found = [*_runs(), *_tables(), *_scorers(), *_results(), Golden("api.txt", record_api)]
    return sorted(found, key=lambda golden: golden.name)


def _runs() -> list[Golden]:
    def golden(run: Run, model: str) -> Golden:
        data = run.world.partition(":")[0] if run.data else ""
        return Golden(
            f"trajectories/{run.name}-{model}.jsonl",
            partial(record_run, run, model),
            run.slow,
            data,
            run.graph,
        )

    return [golden(run, model) for run in (*RUNS, *MORE) for model in run.models]


def _tables() -> list[Golden]:
    return [Golden(f"tables/{one.name}.txt", partial(record_table, one), one.slow, one.data) for one in TABLES]


def _scorers() -> list[Golden]:
    return [Golden(f"scorers/{data}.jsonl", make, data=data) for data, make in SCORERS.items()]


def _results() -> list[Golden]:
    return [Golden(f"results/{name}.txt", make, slow=name in SLOW) for name, make in results().items()]
