"""The constraint Complete Information, a row of smaller ones."""

from collections.abc import Iterator

from certigraph.adapters.travelplanner.data.queries import Query
from certigraph.adapters.travelplanner.data.sandbox import Sandbox
from certigraph.adapters.travelplanner.official.parsing import cities_of
from certigraph.adapters.travelplanner.official.plans import MEALS, Day, Plan, current_city

KEYS = ("transportation", *MEALS, "attraction", "accommodation")
NO_DAY = "You don't need to fill in the information for this or later days."


def complete_information(query: Query, plan: Plan, sandbox: Sandbox) -> Iterator[str]:
    """Every day is there, with all that its kind of day needs, and at least half of all entries are filled."""
    yield from _days(query, plan)
    yield from _cities(query, plan)
    for number, day in enumerate(plan, start=1):
        yield from (f"day {number}: {what}" for what in _missing(day, is_last=number == query.days))
    filled = sum(bool(value) and value != "-" for day in plan for value in day.values())
    if filled < 0.5 * len(KEYS) * query.days:
        yield f"{filled} entries are filled, less than half of {len(KEYS) * query.days}"


def _days(query: Query, plan: Plan) -> Iterator[str]:
    given = sum(bool(day) and day.get("current_city") != NO_DAY for day in plan)
    if given != query.days:
        yield f"{given} days instead of {query.days}"


def _cities(query: Query, plan: Plan) -> Iterator[str]:
    stops = [cities_of(day) for day in plan]
    if stops and stops[0] and len(stops[0]) == 2 and stops[0][0] != query.org:
        yield f"day 1 starts in {stops[0][0]}, not in {query.org}"
    visited = {city for cities in stops for city in cities or ()} - {query.org}
    if None in stops or len(visited) != query.visiting_city_number:
        yield f"{len(visited)} cities visited instead of {query.visiting_city_number}"


def _missing(day: Day, is_last: bool) -> Iterator[str]:
    city = current_city(day)
    yield from (f"no entry {key}" for key in KEYS if key not in day)
    if ("from " in city or "to " in city) and _blank(day, "transportation"):
        yield "no transportation"
    if "from " not in city and " to " not in city and _blank(day, "attraction"):
        yield "no attraction"
    if not is_last and _blank(day, "accommodation"):
        yield "no accommodation"
    if "from " not in city and any(_blank(day, meal) for meal in MEALS):
        yield "a meal is missing"


def _blank(day: Day, key: str) -> bool:
    # Unlike elsewhere a null is no blank here: officially only these two texts are.
    return day.get(key) in ("", "-")
