"""TravelPlanner's official scorer: eight commonsense and five hard constraints, with the official code's quirks.

`score_plan` scores one plan, `aggregate_scores` computes the six official rates, `score_file` scores a file of plans.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import groupby
from pathlib import Path
from typing import Literal

from certigraph.adapters.files import warn_of_partial_answers
from certigraph.benchmarks.travelplanner.plans import (
    MEALS,
    PlanDay,
    WrittenPlan,
    attractions_of,
    booked_kind_of,
    cities_of,
    conflict_kind_of,
    current_city_of,
    entry_of,
    find_missing_key,
    is_known_transport,
    match_accommodation,
    match_attraction,
    match_restaurant,
    meals_of,
    parse_place,
    read_plans,
    total_cost,
)
from certigraph.benchmarks.travelplanner.queries import RoomType, TravelQuery
from certigraph.benchmarks.travelplanner.sandbox import Accommodation, Sandbox
from certigraph.state.endings import Fault
from certigraph.state.records import Record

# Checks and judgements.

Check = Callable[[TravelQuery, WrittenPlan, Sandbox], Iterator[str]]
"""Function that yields the violations of a constraint by a plan, which is already cut to the query's number of days."""


class ConstraintJudgement(Record):
    """Result of a constraint; `passed` is None if it was not requested or not evaluated."""

    passed: bool | None = None
    message: str = ""


def judge_constraint(check: Check, query: TravelQuery, plan: WrittenPlan, sandbox: Sandbox) -> ConstraintJudgement:
    """Judge a plan by one constraint; the message is the first violation."""
    violation = next(check(query, plan, sandbox), None)
    return ConstraintJudgement(passed=violation is None, message=violation or "")


# Complete Information, which consists of several smaller constraints.

KEYS = ("transportation", *MEALS, "attraction", "accommodation")
# Placeholder for unneeded days, which the official scorer does not count.
NO_DAY = "You don't need to fill in the information for this or later days."


def check_complete_information(query: TravelQuery, plan: WrittenPlan, sandbox: Sandbox) -> Iterator[str]:
    """Check that all days are planned with the entries that they need, and at least half of all entries are filled."""
    yield from _check_days(query, plan)
    yield from _check_cities(query, plan)
    for number, day in enumerate(plan, start=1):
        yield from (f"day {number}: {problem}" for problem in _find_missing_entries(day, is_last=number == query.days))
    filled = sum(bool(value) and value != "-" for day in plan for value in day.values())
    if filled < 0.5 * len(KEYS) * query.days:
        yield f"{filled} entries are filled, less than half of {len(KEYS) * query.days}"


def _check_days(query: TravelQuery, plan: WrittenPlan) -> Iterator[str]:
    planned = sum(bool(day) and day.get("current_city") != NO_DAY for day in plan)
    if planned != query.days:
        yield f"{planned} days instead of {query.days}"


def _check_cities(query: TravelQuery, plan: WrittenPlan) -> Iterator[str]:
    stops = [cities_of(day) for day in plan]
    if stops and stops[0] and len(stops[0]) == 2 and stops[0][0] != query.org:
        yield f"day 1 starts in {stops[0][0]}, not in {query.org}"
    visited = {city for cities in stops for city in cities or ()} - {query.org}
    if None in stops or len(visited) != query.visiting_city_number:
        yield f"{len(visited)} cities visited instead of {query.visiting_city_number}"


def _find_missing_entries(day: PlanDay, is_last: bool) -> Iterator[str]:
    city = current_city_of(day)
    yield from (f"no entry {key}" for key in KEYS if key not in day)
    if ("from " in city or "to " in city) and _is_blank(day, "transportation"):
        yield "no transportation"
    if "from " not in city and " to " not in city and _is_blank(day, "attraction"):
        yield "no attraction"
    if not is_last and _is_blank(day, "accommodation"):
        yield "no accommodation"
    if "from " not in city and any(_is_blank(day, meal) for meal in MEALS):
        yield "a meal is missing"


def _is_blank(day: PlanDay, key: str) -> bool:
    # Unlike in `entry_of`, null is not blank here: the official check only compares with these two texts.
    return day.get(key) in ("", "-")


# Reasonable City Route.


def check_city_route(query: TravelQuery, plan: WrittenPlan, sandbox: Sandbox) -> Iterator[str]:
    """Check for a round trip through known cities of the destination, each visited once and for more than a day."""
    days = [cities_of(day) for day in plan]
    stops = [city for cities in days for city in cities or ("",)]
    if days[0] and len(days[0]) == 2 and days[0][0] != query.org:
        yield f"day 1 starts in {stops[0]}, not in {query.org}"
    if stops[0] != stops[-1]:
        yield f"starts in {stops[0]}, ends in {stops[-1]}"
    if len(stops) < 3:
        yield f"visits nothing but {', '.join(stops)}"
    yield from _find_broken_stays(stops)
    yield from _find_wrong_places(stops, query, sandbox)


def _find_broken_stays(stops: Sequence[str]) -> Iterator[str]:
    start, visited, last = 0, set(), len(stops) - 1
    for city, group in groupby(stops):
        if city in visited and start not in (0, last):
            yield f"{city} is visited twice"
        length = len(list(group))
        if length == 1 and 0 < start < last:
            yield f"{city} is only passed through"
        start += length
        visited.add(city)


def _find_wrong_places(stops: Sequence[str], query: TravelQuery, sandbox: Sandbox) -> Iterator[str]:
    for index, city in enumerate(stops):
        state = sandbox.state_of(city)
        if state is None:
            yield f"{city or 'a place that cannot be read'} is not a known city"
        elif 0 < index < len(stops) - 1 and query.days > 3 and state != query.dest:
            yield f"{city} is in {state}, not in {query.dest}"


# The other commonsense constraints.

CONFLICTS = ({"self-driving", "flight"}, {"taxi", "self-driving"})


def check_diverse_restaurants(query: TravelQuery, plan: WrittenPlan, sandbox: Sandbox) -> Iterator[str]:
    """Check that no two meals of the plan have the same text."""
    yield from _find_repeats(text for day in plan for text in meals_of(day))


def check_diverse_attractions(query: TravelQuery, plan: WrittenPlan, sandbox: Sandbox) -> Iterator[str]:
    """Check that no two attractions of the plan have the same text."""
    yield from _find_repeats(text for day in plan for text in attractions_of(day))


def check_minimum_nights(query: TravelQuery, plan: WrittenPlan, sandbox: Sandbox) -> Iterator[str]:
    """Check that every stay has the place's minimum number of nights; a name with several matches is not judged."""
    yield from (
        f"day {number}: no entry accommodation" for number, day in _number_days(plan) if "accommodation" not in day
    )
    for text, group in groupby(entry_of(day, "accommodation") for day in plan):
        nights, rows = len(list(group)), match_accommodation(*parse_place(text), sandbox)
        if len(rows) == 1 and nights < rows[0].minimum_nights:
            yield f"{text}: {nights} of at least {rows[0].minimum_nights:g} nights"


def check_conflicting_transportation(query: TravelQuery, plan: WrittenPlan, sandbox: Sandbox) -> Iterator[str]:
    """Check that day 1 has transportation, and that self-driving is not mixed with flights or taxis."""
    if not entry_of(plan[0], "transportation"):
        yield "day 1: no transportation"
    kinds = {conflict_kind_of(entry_of(day, "transportation")) for day in plan}
    yield from (f"both {' and '.join(sorted(pair))}" for pair in CONFLICTS if pair <= kinds)


def check_within_current_city(query: TravelQuery, plan: WrittenPlan, sandbox: Sandbox) -> Iterator[str]:
    """Check that the entries of a day are in its city.

    As in the official code, on a day in one city the texts are only searched for single characters of its name.
    """
    for number, day in _number_days(plan):
        cities = cities_of(day)
        if cities is None:
            yield f"day {number}: {current_city_of(day)} cannot be read"
            continue
        places = cities if len(cities) == 2 else tuple(cities[0])
        yield from (
            f"day {number}: {text} elsewhere than in {current_city_of(day)}" for text in _find_elsewhere(day, places)
        )


def check_within_sandbox(query: TravelQuery, plan: WrittenPlan, sandbox: Sandbox) -> Iterator[str]:
    """Check that all entries exist in the database. As in the official code, a flight's date is not checked."""
    for number, day in _number_days(plan):
        yield from (f"day {number}: {text} is unknown" for text in _find_unknown(day, sandbox))


COMMONSENSE: Mapping[str, Check] = {
    "Reasonable City Route": check_city_route,
    "Diverse Restaurants": check_diverse_restaurants,
    "Diverse Attractions": check_diverse_attractions,
    "Minimum Nights Stay": check_minimum_nights,
    "Non-conflicting Transportation": check_conflicting_transportation,
    "Within Current City": check_within_current_city,
    "Within Sandbox": check_within_sandbox,
    "Complete Information": check_complete_information,
}


def _number_days(plan: WrittenPlan) -> Iterator[tuple[int, PlanDay]]:
    return enumerate(plan, start=1)


def _find_repeats(texts: Iterator[str]) -> Iterator[str]:
    seen = set()
    for text in texts:
        if text in seen:
            yield f"{text} is repeated"
        seen.add(text)


def _find_elsewhere(day: PlanDay, places: Sequence[str]) -> Iterator[str]:
    transport, place = entry_of(day, "transportation"), entry_of(day, "accommodation")
    if transport and not all(city in transport for city in places):
        yield transport
    yield from (text for text in [*meals_of(day), *attractions_of(day)] if not any(city in text for city in places))
    if place and not (places and places[-1] in place):
        yield place


def _find_unknown(day: PlanDay, sandbox: Sandbox) -> Iterator[str]:
    transport, place = entry_of(day, "transportation"), entry_of(day, "accommodation")
    if booked_kind_of(transport) and not is_known_transport(transport, current_city_of(day), sandbox):
        yield transport
    yield from (text for text in meals_of(day) if not match_restaurant(*parse_place(text), sandbox))
    yield from (text for text in attractions_of(day) if not match_attraction(*parse_place(text), sandbox))
    if place and not match_accommodation(*parse_place(place), sandbox):
        yield place


# The five hard constraints, which the traveller requests. They are judged only on complete plans from the database.

ALLOWED_ROOMS: Mapping[RoomType, tuple[str, ...]] = {
    "shared room": ("Shared room",),
    "private room": ("Private room",),
    "entire room": ("Entire home/apt",),
    "not shared room": ("Private room", "Entire home/apt"),
}
# Words that the official scorer searches for; their case matters.
TRANSPORT_WORDS = {"no flight": "Flight", "no self-driving": "Self-driving"}


def requested_constraints(query: TravelQuery) -> set[str]:
    """Return the names of the hard constraints that the query sets; the budget is always one."""
    constraint = query.local_constraint
    optional = {
        "Cuisine": constraint.cuisine,
        "Room Rule": constraint.house_rule,
        "Transportation": constraint.transportation,
        "Room Type": constraint.room_type,
    }
    return {"Budget"} | {name for name, value in optional.items() if value}


def check_cuisine(query: TravelQuery, plan: WrittenPlan, sandbox: Sandbox) -> Iterator[str]:
    """Check that every requested cuisine is served by some restaurant of the plan."""
    served = [cuisines for day in plan for cuisines in served_cuisines(day, query.org, sandbox)]
    for wanted in query.local_constraint.cuisine or ():
        if not any(wanted in cuisines for cuisines in served):
            yield f"no restaurant serves {wanted}"


def check_room_rule(query: TravelQuery, plan: WrittenPlan, sandbox: Sandbox) -> Iterator[str]:
    """Check that no booked accommodation forbids what the traveller needs."""
    rule = query.local_constraint.house_rule
    for place in _booked_accommodations(plan, sandbox):
        if rule and f"No {rule}" in place.house_rules:
            yield f"{place.name}, {place.city}: {place.house_rules}; requested are {rule}"


def check_room_type(query: TravelQuery, plan: WrittenPlan, sandbox: Sandbox) -> Iterator[str]:
    """Check that every booked accommodation has the requested room type."""
    wanted = query.local_constraint.room_type
    for place in _booked_accommodations(plan, sandbox):
        if wanted and place.room_type not in ALLOWED_ROOMS[wanted]:
            yield f"{place.name}, {place.city}: {place.room_type}; requested is {wanted}"


def check_transportation(query: TravelQuery, plan: WrittenPlan, sandbox: Sandbox) -> Iterator[str]:
    """Check that the kind of transport that the traveller refuses is not used.

    As in the official code, case matters: lower-case "self-driving" passes.
    """
    refused = query.local_constraint.transportation
    for text in (entry_of(day, "transportation") for day in plan):
        if refused and TRANSPORT_WORDS[refused] in text:
            yield f"{text}: requested is {refused}"


def check_budget(query: TravelQuery, plan: WrittenPlan, sandbox: Sandbox) -> Iterator[str]:
    """Check that the plan costs at most the budget."""
    cost = total_cost(query.people_number, plan, sandbox)
    if cost > query.budget:
        yield f"costs {cost:g}; the budget is {query.budget}"


HARD: Mapping[str, Check] = {
    "Cuisine": check_cuisine,
    "Room Rule": check_room_rule,
    "Transportation": check_transportation,
    "Room Type": check_room_type,
    "Budget": check_budget,
}


def served_cuisines(day: PlanDay, org: str, sandbox: Sandbox) -> Iterator[str]:
    """Yield the cuisines of a day's restaurants, as the official check of the requested cuisines reads them."""
    for text in meals_of(day):
        place = parse_place(text)
        if place.city == org:
            return  # officially a meal in the origin city ends the day; later meals are ignored
        yield from (row.cuisines for row in match_restaurant(*place, sandbox)[:1])


def _booked_accommodations(plan: WrittenPlan, sandbox: Sandbox) -> Iterator[Accommodation]:
    for day in plan:
        yield from match_accommodation(*parse_place(entry_of(day, "accommodation")), sandbox)[:1]


# Scores of one plan and of many. Only a plan's first `query.days` days are read.

# Without these, the hard constraints are not evaluated.
REQUIRED_FOR_HARD = ("Within Sandbox", "Complete Information")


class PlanScore(Record):
    """Judgement of every constraint by its official name, and the plan's cost in dollars."""

    idx: int
    level: Literal["easy", "medium", "hard"]
    delivered: bool
    commonsense: dict[str, ConstraintJudgement]
    hard: dict[str, ConstraintJudgement]
    requested: int
    """Number of hard constraints that the query sets, the budget included."""
    cost: float | None = None
    malformed: str = ""
    """Reason why the official evaluation fails with an error on the plan; then nothing is evaluated."""

    @cached_property
    def commonsense_held(self) -> int:
        """Number of the eight commonsense constraints that hold."""
        return _count_passed(self.commonsense)

    @cached_property
    def hard_held(self) -> int:
        """Number of hard constraints that hold."""
        return _count_passed(self.hard)

    @cached_property
    def commonsense_passed(self) -> bool:
        """Whether all eight commonsense constraints hold."""
        return all(judgement.passed for judgement in self.commonsense.values())

    @cached_property
    def hard_passed(self) -> bool:
        """Whether the hard constraints were evaluated and none is violated."""
        evaluated = [judgement.passed for judgement in self.hard.values() if judgement.passed is not None]
        return bool(evaluated) and all(evaluated)

    @property
    def passed(self) -> bool:
        """Final pass: all commonsense and all hard constraints hold."""
        return self.commonsense_passed and self.hard_passed


def score_plan(query: TravelQuery, plan: WrittenPlan | None, sandbox: Sandbox) -> PlanScore:
    """Score one plan. None or an empty plan counts as not delivered; neither it nor a malformed plan is evaluated."""
    days = (plan or ())[: query.days]
    if malformed := find_missing_key(days):
        return PlanScore(
            idx=query.idx,
            level=query.level,
            delivered=True,
            commonsense=dict.fromkeys(COMMONSENSE, ConstraintJudgement()),
            hard=dict.fromkeys(HARD, ConstraintJudgement()),
            requested=len(requested_constraints(query)),
            malformed=malformed,
        )
    commonsense = _judge_commonsense(query, days, sandbox)
    evaluable = all(commonsense[name].passed for name in REQUIRED_FOR_HARD)
    return PlanScore(
        idx=query.idx,
        level=query.level,
        delivered=bool(days),
        commonsense=commonsense,
        hard=_judge_hard(query, days, sandbox) if evaluable else dict.fromkeys(HARD, ConstraintJudgement()),
        requested=len(requested_constraints(query)),
        cost=total_cost(query.people_number, days, sandbox) if days else None,
    )


def aggregate_scores(scores: Sequence[PlanScore]) -> dict[str, float]:
    """Compute the benchmark's six rates of the given scores, as fractions, and the number `n` of scores.

    A query without a plan must be among the scores: `score_plan(query, None, sandbox)`. Without scores all rates are 0.
    """
    n = len(scores) or 1
    return {
        "n": len(scores),
        "delivery": sum(score.delivered for score in scores) / n,
        "commonsense_micro": sum(score.commonsense_held for score in scores) / (len(COMMONSENSE) * n),
        "commonsense_macro": sum(score.commonsense_passed for score in scores) / n,
        "hard_micro": sum(score.hard_held for score in scores) / (sum(score.requested for score in scores) or 1),
        "hard_macro": sum(score.hard_passed for score in scores) / n,
        "final_pass": sum(score.passed for score in scores) / n,
    }


def score_file(path: Path, queries: Sequence[TravelQuery], sandbox: Sandbox) -> list[PlanScore]:
    """Score a plan file (JSONL, `idx` and `plan`) against queries; a query without a plan counts as not delivered.

    Raises:
        Fault: the file cannot be read, or names a query that is not among the given ones.
    """
    plans = read_plans(path)
    if unknown := sorted(set(plans) - {query.idx for query in queries}):
        raise Fault("data", f"{path}: idx {unknown[:5]} are not among the {len(queries)} queries: name their --split")
    warn_of_partial_answers(path, plans, [query.idx for query in queries])
    return [score_plan(query, plans.get(query.idx), sandbox) for query in queries]


def _judge_commonsense(query: TravelQuery, plan: WrittenPlan, sandbox: Sandbox) -> dict[str, ConstraintJudgement]:
    if not plan:
        return dict.fromkeys(COMMONSENSE, ConstraintJudgement())
    return {name: judge_constraint(check, query, plan, sandbox) for name, check in COMMONSENSE.items()}


def _judge_hard(query: TravelQuery, plan: WrittenPlan, sandbox: Sandbox) -> dict[str, ConstraintJudgement]:
    requested_names = requested_constraints(query)
    return {
        name: judge_constraint(check, query, plan, sandbox) if name in requested_names else ConstraintJudgement()
        for name, check in HARD.items()
    }


def _count_passed(judgements: dict[str, ConstraintJudgement]) -> int:
    return sum(judgement.passed is True for judgement in judgements.values())
