"""The five hard constraints: what the traveller asked for. They are judged only on complete plans from the sandbox."""

from collections.abc import Iterator, Mapping

from certigraph.adapters.travelplanner.data.queries import Query, RoomType
from certigraph.adapters.travelplanner.data.sandbox import Accommodation, Sandbox
from certigraph.adapters.travelplanner.official.checks import Check
from certigraph.adapters.travelplanner.official.costs import match_accommodation, match_restaurant, total_cost
from certigraph.adapters.travelplanner.official.parsing import item
from certigraph.adapters.travelplanner.official.plans import Day, Plan, entry, meals

ALLOWED_ROOMS: Mapping[RoomType, tuple[str, ...]] = {
    "shared room": ("Shared room",),
    "private room": ("Private room",),
    "entire room": ("Entire home/apt",),
    "not shared room": ("Private room", "Entire home/apt"),
}
WORDS = {"no flight": "Flight", "no self-driving": "Self-driving"}


def requested(query: Query) -> set[str]:
    """The names of the constraints that the query sets; the budget always is one."""
    wanted = query.local_constraint
    optional = {
        "Cuisine": wanted.cuisine,
        "Room Rule": wanted.house_rule,
        "Transportation": wanted.transportation,
        "Room Type": wanted.room_type,
    }
    return {"Budget"} | {name for name, value in optional.items() if value}


def cuisine(query: Query, plan: Plan, sandbox: Sandbox) -> Iterator[str]:
    """Every requested cuisine is served by a restaurant of the plan."""
    served = [cuisines for day in plan for cuisines in _cuisines(day, query.org, sandbox)]
    for wanted in query.local_constraint.cuisine or ():
        if not any(wanted in cuisines for cuisines in served):
            yield f"no restaurant serves {wanted}"


def room_rule(query: Query, plan: Plan, sandbox: Sandbox) -> Iterator[str]:
    """No place booked forbids what the traveller needs."""
    rule = query.local_constraint.house_rule
    for place in _booked(plan, sandbox):
        if rule and f"No {rule}" in place.house_rules:
            yield f"{place.name}, {place.city}: {place.house_rules}; requested are {rule}"


def room_type(query: Query, plan: Plan, sandbox: Sandbox) -> Iterator[str]:
    """Every place booked has the requested room type."""
    wanted = query.local_constraint.room_type
    for place in _booked(plan, sandbox):
        if wanted and place.room_type not in ALLOWED_ROOMS[wanted]:
            yield f"{place.name}, {place.city}: {place.room_type}; requested is {wanted}"


def transportation(query: Query, plan: Plan, sandbox: Sandbox) -> Iterator[str]:
    """The refused kind is not used. Case counts, so a lower-case "self-driving" is not noticed, as officially."""
    refused = query.local_constraint.transportation
    for text in (entry(day, "transportation") for day in plan):
        if refused and WORDS[refused] in text:
            yield f"{text}: requested is {refused}"


def budget(query: Query, plan: Plan, sandbox: Sandbox) -> Iterator[str]:
    """The plan costs no more than the budget."""
    cost = total_cost(query.people_number, plan, sandbox)
    if cost > query.budget:
        yield f"costs {cost:g}; the budget is {query.budget}"


HARD: Mapping[str, Check] = {
    "Cuisine": cuisine,
    "Room Rule": room_rule,
    "Transportation": transportation,
    "Room Type": room_type,
    "Budget": budget,
}


def _cuisines(day: Day, org: str, sandbox: Sandbox) -> Iterator[str]:
    for text in meals(day):
        place = item(text)
        if place.city == org:
            return  # officially a meal at home ends the day, whatever is eaten later
        yield from (row.cuisines for row in match_restaurant(*place, sandbox)[:1])


def _booked(plan: Plan, sandbox: Sandbox) -> Iterator[Accommodation]:
    for day in plan:
        yield from match_accommodation(*item(entry(day, "accommodation")), sandbox)[:1]
