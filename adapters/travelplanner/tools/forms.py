"""The tools' names and forms, and how an action is read as the call of one (TDP appendix A)."""

from collections.abc import Iterable, Mapping
from datetime import date
from difflib import get_close_matches
from typing import NamedTuple

from certigraph.adapters.travelplanner.oneshot.written import DELIVER
from certigraph.state.records import Action
from certigraph.state.searching import parsed

FLIGHTS, DISTANCE = "FlightSearch", "GoogleDistanceMatrix"
STAYS, RESTAURANTS, ATTRACTIONS, CITIES = "AccommodationSearch", "RestaurantSearch", "AttractionSearch", "CitySearch"
WRITE, MAKE_PLAN = "NotebookWrite", "MakePlan"

FORMS: Mapping[str, tuple[str, ...]] = {
    FLIGHTS: ("City", "City", "Date"),
    DISTANCE: ("City", "City", "Mode"),
    STAYS: ("City",),
    RESTAURANTS: ("City",),
    ATTRACTIONS: ("City",),
    CITIES: ("State",),
    WRITE: ("Content",),
}
"""What the world answers, with the arguments of each. `MakePlan` is none of these: a model makes the plan."""

TOOLS = (*FORMS, MAKE_PLAN)

DATE = "2022-03-15"
"""How a date is written."""

MODES = ("self-driving", "taxi")

NEAR = 5
"""Names that are offered where none is as asked for."""


class RefusedError(ValueError):
    """An action that is no call of a tool, or one with arguments that name nothing; the message says the right form."""


class Call(NamedTuple):
    """A tool and what it is given."""

    tool: str
    values: tuple[str, ...]


def called(action: Action) -> Call:
    """The call that an action means, typed or written freely as `Tool[A, B]`; tools are known in any case.

    Raises:
        RefusedError: it names no tool, or gives one too many or too few arguments.
    """
    meant = parsed(action)
    tool = _named(meant.kind) if meant else None
    if meant is None or tool is None:
        known = ", ".join(map(form, FORMS))
        raise RefusedError(f"{action.text[:100]!r} is no action here; write one of {known}, or {DELIVER}[PLAN].")
    said = str(meant.args.get("query") or "").strip()
    values = (said,) if tool == WRITE else tuple(value.strip(" \"'") for value in said.split(","))
    if len(values) != len(FORMS[tool]) or not all(values):
        given = len([value for value in values if value])
        dated = f", the date as {DATE}" if tool == FLIGHTS else ""
        raise RefusedError(f"{tool} takes {len(FORMS[tool])} and was given {given}: write {form(tool)}{dated}.")
    return Call(tool, values)


def form(tool: str) -> str:
    """How a tool is called: `FlightSearch[City, City, Date]`."""
    return f"{tool}[{', '.join(FORMS[tool])}]"


def day(text: str) -> str:
    """An ISO date. Raises RefusedError where the text is none."""
    try:
        return date.fromisoformat(text).isoformat()
    except ValueError as error:
        raise RefusedError(f"{text[:60]!r} is no date; write it as {DATE}.") from error


def mode(text: str) -> str:
    """One of `MODES`. Raises RefusedError where the text is none."""
    if text.lower() not in MODES:
        raise RefusedError(f"{text[:60]!r} is no mode; write one of {', '.join(MODES)}.")
    return text.lower()


def near(text: str, names: Iterable[str]) -> list[str]:
    """The names that a text may have meant, the nearest first; in any case, for writers differ in that."""
    by_case = {name.lower(): name for name in names}
    return [by_case[found] for found in get_close_matches(text.lower(), by_case, n=NEAR)]


def _named(kind: str) -> str | None:
    return next((tool for tool in FORMS if tool.lower() == kind.lower()), None)
