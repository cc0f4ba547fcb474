"""Plans as the benchmark stores them: a list of days, each a mapping of texts that may be malformed."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from pydantic import ConfigDict, JsonValue

from certigraph.adapters.rows import checked, read_rows
from certigraph.state.endings import Fault
from certigraph.state.records import Record

Day = Mapping[str, object]
Plan = Sequence[Day]

MEALS = ("breakfast", "lunch", "dinner")


class PlanRow(Record):
    """One line of a plan file; no plan is null or an empty list."""

    model_config = ConfigDict(extra="ignore")

    idx: int
    plan: tuple[dict[str, JsonValue], ...] | None


def entry(day: Day, key: str) -> str:
    """The text of a day's entry; the empty string if it is missing, empty or "-"."""
    value = day.get(key)
    return "" if not value or value == "-" else str(value)


def meals(day: Day) -> list[str]:
    """The meals written, in the order of the day."""
    return [text for meal in MEALS if (text := entry(day, meal))]


def current_city(day: Day) -> str:
    """The day's city or "from A to B"; a "-" is kept, because it counts as the name of a city."""
    return str(day.get("current_city") or "")


def missing_key(plan: Plan) -> str:
    """The first key without which the official evaluation ends with a KeyError; empty where none is missing.

    It reads `current_city` of every day and `transportation` of the first; without any other key it has a verdict.
    """
    for number, day in enumerate(plan, 1):
        for key in ("current_city", *(["transportation"] if number == 1 else [])):
            if key not in day:
                return f"day {number} has no {key}"
    return ""


def read_plans(path: Path) -> dict[int, Plan | None]:
    """The plans of a JSONL file (`.gz` or not) by query idx; fields besides `idx` and `plan` are ignored.

    Raises:
        Fault: the file is missing, a row is malformed or an idx occurs twice; the message names file and line.
    """
    plans: dict[int, Plan | None] = {}
    for line in read_rows(path):
        row = checked(PlanRow, line)
        if row.idx in plans:
            raise Fault("data", f"{line.where}: idx {row.idx} occurs twice: keep one plan a query")
        plans[row.idx] = row.plan
    return plans
