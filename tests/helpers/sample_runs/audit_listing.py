"""The steps of StateFactory's audit, one a row, for reading by hand.

PYTHONPATH=src:tests:tests/graphs python -m helpers.sample_runs.audit_listing results/statefactory-audit [DOMAIN ...]

The column `read` is written by hand: `right`, or an objection. It is kept where a row is written again unchanged, and
empty where anything in the row differs.
"""

import csv
import sys
from collections.abc import Iterable
from pathlib import Path

from helpers.worlds.simulator_states import Episode, Facts

READ = "read"
COLUMNS = ("task", "step", "action", "text", "new", "gone", "goal", "solved", READ)

Row = dict[str, str]


def list_steps(episodes: Iterable[Episode]) -> list[Row]:
    """List the steps, each with what is new in the simulator's state and what is gone; `read` is empty."""
    rows = []
    for episode in episodes:
        before = set[str]()
        for number, step in enumerate(episode.steps):
            now = _lines(step.state)
            new, gone, goal = (_join(lines) for lines in (now - before, before - now, _lines(step.goal)))
            text = " ".join(step.text.split())
            values = (episode.task, str(number), step.action, text, new, gone, goal, str(step.solved), "")
            rows.append(dict(zip(COLUMNS, values, strict=True)))
            before = now
    return rows


def read_listing(path: Path) -> list[Row]:
    """Read a listing with what was written into it by hand."""
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def write_listing(path: Path, rows: Iterable[Row]) -> None:
    """Write a listing; rows that the file holds already keep their `read`."""
    kept = {_key(row): row.get(READ) or "" for row in read_listing(path)} if path.is_file() else {}
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows({**row, READ: kept.get(_key(row), "")} for row in rows)


def _key(row: Row) -> tuple[str, ...]:
    return tuple(row[column] for column in COLUMNS if column != READ)


def _lines(facts: Facts) -> set[str]:
    return {f"{name} / {key} = {value}" for name, has in facts.items() for key, value in has.items()}


def _join(lines: Iterable[str]) -> str:
    return "; ".join(sorted(lines))


if __name__ == "__main__":
    from test_statefactory_audit import DOMAINS

    for domain in sys.argv[2:] or DOMAINS:
        write_listing(Path(sys.argv[1], f"{domain}.csv"), list_steps(DOMAINS[domain]()))
