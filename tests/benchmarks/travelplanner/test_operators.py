"""TravelPlanner's operators and world: every option leads on, every diagnosis is right, going back really goes back."""

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from itertools import groupby, permutations, product
from math import ceil
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from helpers.files.real_data import data_folder
from helpers.worlds.travelplanner_sandbox import (
    DEAR_CUISINES,
    TableSandbox,
    TinyTravelPlanner,
    flight,
    lodging,
    query,
    restaurant,
    road,
    sandbox,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from certigraph.adapters.models.scripts import ScriptedChat
from certigraph.adapters.protocols import Context
from certigraph.benchmarks.travelplanner.benchmark import TravelPlanner
from certigraph.benchmarks.travelplanner.generator import generate_world
from certigraph.benchmarks.travelplanner.options import (
    NOTHING,
    ItineraryDraft,
    Option,
    PlanSlot,
    Trip,
    TripCatalog,
    draft_of,
    predicates_of,
    trip_of,
)
from certigraph.benchmarks.travelplanner.planning import Lookahead, OptionChooser, book_option, choices_of
from certigraph.benchmarks.travelplanner.plans import MEALS, match_accommodation, match_restaurant
from certigraph.benchmarks.travelplanner.queries import LocalConstraint, TravelQuery
from certigraph.benchmarks.travelplanner.sandbox import Accommodation, Attraction, Sandbox
from certigraph.benchmarks.travelplanner.scoring import score_plan
from certigraph.graphs import sdp
from certigraph.runtime.result import Result
from certigraph.runtime.run import run
from certigraph.state.certified_states import certified_state
from certigraph.state.records import Action, Observation, Predicate, Task

Pick = Callable[[list[Option]], Option]
TASKS = 36


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A generated world, with its SQLite file next to it."""
    made = tmp_path_factory.mktemp("travelplanner")
    generate_world(made, seed=11, cities=16, tasks=TASKS)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(made / "cache"))
        yield made


@pytest.fixture(scope="module")
def generated(folder: Path) -> TravelPlanner:
    return TravelPlanner(folder)


@pytest.fixture(scope="module")
def official() -> TravelPlanner:
    return TravelPlanner(data_folder("travelplanner"))


def catalog_of(benchmark: TravelPlanner, task: Task) -> TripCatalog:
    request = benchmark.query(task)
    return benchmark.catalog(request, benchmark.trip(request).cities)


def plan(benchmark: TravelPlanner, task: Task) -> list[Predicate]:
    request = benchmark.query(task)
    return predicates_of(request, benchmark.trip(request))


def dearest(prompt: str, schema: dict[str, Any]) -> dict[str, str]:
    return {"choice": schema["properties"]["choice"]["enum"][-1]}


# --- the plan of predicates


@pytest.mark.slow
@pytest.mark.parametrize(("cities", "length"), [(1, 11), (2, 17), (3, 23)])
def test_a_plan_has_as_many_predicates_as_the_paper_counts_and_what_costs_comes_first(
    generated: TravelPlanner, cities: int, length: int
) -> None:
    tasks = [task for task in generated.tasks() if generated.query(task).visiting_city_number == cities]
    for task in tasks:
        predicates = plan(generated, task)
        assert len(predicates) == length
        assert len({p.text for p in predicates}) == length
        kinds = [str(p.args.get("which", p.kind)) for p in predicates]
        between = ["inter_city"] if cities > 1 else []
        order = ["outbound", *between, "return", "stay", "meals", "attraction", "budget", "render"]
        assert [kind for kind, _ in groupby(kinds)] == order
    assert tasks


# --- every option shown leaves a way to the end


class Taken(NamedTuple):
    """A draft on a walk and the dollars of the options taken so far."""

    draft: ItineraryDraft
    spent: float


def walk(benchmark: TravelPlanner, task: Task, pick: Pick) -> Iterator[Taken]:
    draft, spent = ItineraryDraft(), 0.0
    for target in plan(benchmark, task):
        chooser = benchmark.chooser(task, target)
        for choice in choices_of(chooser.catalog, target):
            offered = chooser.offer(choice, draft, target)
            assert offered.options, offered.diagnosis
            option = pick(offered.options)
            draft, spent = book_option(draft, choice, option), spent + option.cost
            yield Taken(draft, spent)


def check_walk(benchmark: TravelPlanner, task: Task, pick: Pick) -> None:
    """A walk ends in a plan that passes, and on the way the options add up to what the official scorer counts."""
    request, trip = benchmark.query(task), benchmark.trip(benchmark.query(task))
    for draft, spent in walk(benchmark, task, pick):
        score = score_plan(request, draft.plan(trip), benchmark.sandbox)
        assert score.cost == pytest.approx(spent)
    assert score.passed, [*score.commonsense.items(), *score.hard.items()]


PICKS = st.one_of(st.just(lambda options: options[-1]), st.randoms(use_true_random=False).map(lambda r: r.choice))


@pytest.mark.long
@settings(deadline=None, max_examples=60)
@given(data=st.data())
@pytest.mark.slow
def test_any_walk_through_the_options_of_a_generated_task_passes(generated: TravelPlanner, data: st.DataObject) -> None:
    check_walk(generated, data.draw(st.sampled_from(generated.tasks())), data.draw(PICKS))


@pytest.mark.slow
def test_a_task_without_a_dollar_to_spare_passes_however_dear_the_choices(generated: TravelPlanner) -> None:
    for task in generated.tasks()[1::4]:
        catalog = catalog_of(generated, task)
        chooser = OptionChooser(catalog, generated.query(task).budget, lookahead=True)
        assert chooser.money_left(ItineraryDraft()) == Lookahead(catalog, every_meal=True).lowest_cost(ItineraryDraft())
        check_walk(generated, task, lambda options: options[-1])


@settings(deadline=None, max_examples=20)
@given(data=st.data())
@pytest.mark.slow
def test_any_walk_through_the_options_of_an_official_task_passes(official: TravelPlanner, data: st.DataObject) -> None:
    check_walk(official, data.draw(st.sampled_from(official.tasks())), data.draw(PICKS))


# --- and no way to the end is hidden: on tiny worlds the offers are those of trying everything

CUISINES = ("French", "Indian", "Tea")
PRICES = st.sampled_from((0, 5, 10, 20, 40))


@st.composite
def tiny_worlds(draw: st.DrawFn) -> tuple[TravelQuery, TableSandbox]:
    """Three days in A. Everything has few candidates; names contain one another now and then."""
    names = draw(st.lists(st.sampled_from(("x", "y", "xy", "z", "yz")), min_size=3, max_size=4, unique=True))
    dishes = st.lists(st.sampled_from(CUISINES), min_size=1, max_size=2).map(", ".join)
    rooms = st.sampled_from(("Entire home/apt", "Private room"))
    legs = [("O", "A", "2022-03-01"), ("A", "O", "2022-03-03")]
    drawn = draw(st.lists(st.tuples(st.sampled_from(legs), PRICES), max_size=3))
    tables = sandbox(
        restaurants=[restaurant(name, "A", draw(PRICES), draw(dishes)) for name in names],
        accommodations=[
            lodging(f"Bed {n}", "A", draw(PRICES), room_type=draw(rooms), maximum_occupancy=1 + n) for n in range(2)
        ],
        attractions=[Attraction(f"Sight {n}", "A") for n in range(3)],
        distances=[road(a, b, draw(st.sampled_from((20, 400)))) for a, b, _ in legs if draw(st.booleans())],
        flights=[flight(f"F{n}", *leg, price) for n, (leg, price) in enumerate(drawn)],
    )
    request = query(
        people=draw(st.integers(1, 2)),
        cuisine=draw(st.sampled_from((None, ("French",), ("French", "Indian")))),
        room_type=draw(st.sampled_from((None, None, "entire room"))),
        transportation=draw(st.sampled_from((None, None, "no flight", "no self-driving"))),
    )
    return request, tables


def all_plans(request: TravelQuery, tables: TableSandbox) -> Iterator[dict[str, str]]:
    """Every way to fill the slots, good or bad, but for sights, which are free and differ in nothing."""
    legs = [ways(tables, *leg) for leg in (("O", "A", request.date[0]), ("A", "O", request.date[2]))]
    beds = [f"{row.name}, A" for row in tables.accommodations("A")]
    for out, back, bed in product(*legs, beds):
        for eaten in all_meals([f"{row.name}, A" for row in tables.restaurants("A")]):
            yield {
                "1:transportation": out,
                "3:transportation": back,
                "1:accommodation": bed,
                "2:accommodation": bed,
                **{f"{day}:attraction": f"Sight {day - 1}, A;" for day in (1, 2, 3)},
                **eaten,
            }


def ways(tables: TableSandbox, origin: str, destination: str, date: str) -> list[str]:
    way = f"from {origin} to {destination}"
    rows = tables.flights(origin, destination, date)
    flights = [f"Flight Number: {r.number}, {way}, Departure Time: 08:00, Arrival Time: 10:00" for r in rows]
    found = tables.distance(origin, destination)
    km = found and int(found.distance.split()[0])
    costs = {"Self-driving": int(km * 0.05), "Taxi": km} if found else {}
    return flights + [f"{k}, {way}, duration: 2 hours, distance: {km} km, cost: {c}" for k, c in costs.items()]


def all_meals(texts: Sequence[str]) -> Iterator[dict[str, str]]:
    slots = [f"{day}:{meal}" for day in (1, 2, 3) for meal in MEALS]
    stay, travel = slots[3:6], slots[:3] + slots[6:]
    for eaten in permutations(texts, 3):
        left = [text for text in texts if text not in eaten]
        skipping: dict[str, str] = {**dict.fromkeys(travel, NOTHING), **dict(zip(stay, eaten, strict=True))}
        yield skipping
        yield from ({**skipping, slot: text} for text in left for slot in travel)


class Way(NamedTuple):
    booked: Mapping[str, str]
    cost: float


def good_ways(request: TravelQuery, tables: TableSandbox) -> list[Way]:
    """The plans that the official scorer passes, whatever they cost."""
    rich, trip = request.model_copy(update={"budget": 10**9}), trip_of(request)
    plans = [(booked, ItineraryDraft(booked).plan(trip)) for booked in all_plans(request, tables)]
    scores = [(booked, score_plan(rich, days, tables)) for booked, days in plans]
    return [Way(booked, score.cost or 0) for booked, score in scores if score.passed]


@pytest.mark.long
@settings(deadline=None, max_examples=40)
@given(tiny_worlds(), st.data())
@pytest.mark.slow
def test_the_offers_are_those_of_trying_everything(
    world: tuple[TravelQuery, TableSandbox], data: st.DataObject
) -> None:
    request, tables = world
    ways_left = good_ways(request, tables)
    costs = sorted({way.cost for way in ways_left})
    budget = int(data.draw(st.sampled_from(costs[:3] + costs[-1:]))) if costs else 1000
    ways_left = [way for way in ways_left if way.cost <= budget]
    benchmark = TinyTravelPlanner(request.model_copy(update={"budget": budget}), tables)
    task, draft = benchmark.task(), ItineraryDraft()
    for target in plan(benchmark, task):
        chooser = benchmark.chooser(task, target)
        for choice in choices_of(chooser.catalog, target):
            slot = str(choice.slots[0])
            options = chooser.offer(choice, draft, target).options
            if choice.slots[0].entry == "attraction":
                option = next(o for o in options if o.text == ways_left[0].booked[slot])
            else:
                assert {o.text for o in options} == expected(ways_left, slot)
                if not options:
                    return
                option = data.draw(st.sampled_from(options))
            draft = book_option(draft, choice, option)
            ways_left = [way for way in ways_left if way.booked[slot] == option.text]


def expected(ways_left: Sequence[Way], slot: str) -> set[str]:
    """With at most four restaurants some meals of travel days are always left out: what can be eaten comes first."""
    texts = {way.booked[slot] for way in ways_left}
    return texts - {NOTHING} or texts


# --- diagnoses


EMPTY: list[Any] = []
OUTBOUND, RETURN, STAY, MEAL, SIGHT = (0, 1, 2, 4, 7)
"""Predicates of a plan of three days; MEAL is that of day 2."""

DIAGNOSES = [
    (STAY, "sandbox", sandbox(accommodations=EMPTY), query(), {}),
    (OUTBOUND, "sandbox", sandbox(distances=EMPTY), query(), {}),
    (MEAL, "sandbox", sandbox(restaurants=EMPTY), query(), {}),
    (STAY, "local constraints", sandbox(), query(room_type="entire room"), {}),
    (STAY, "local constraints", sandbox(), query(house_rule="pets"), {}),
    (STAY, "local constraints", sandbox(accommodations=[lodging("Inn", "A", 1, minimum_nights=3.0)]), query(), {}),
    (
        OUTBOUND,
        "local constraints",
        sandbox(distances=EMPTY, flights=[flight("F1", "O", "A", "2022-03-01", 9)]),
        query(transportation="no flight"),
        {},
    ),
    (
        RETURN,
        "transport mode",
        sandbox(distances=[road("O", "A", 40)], flights=[flight("F1", "A", "O", "2022-03-03", 9)]),
        query(),
        {"1:transportation": "Self-driving, from O to A, duration: 2 hours, distance: 40 km, cost: 2"},
    ),
    (MEAL, "uniqueness", sandbox(restaurants=[restaurant("Diner", "A", 1)]), query(), {"1:lunch": "Diner, A"}),
    (SIGHT, "uniqueness", sandbox(attractions=[Attraction("Sight", "A")]), query(), {"1:attraction": "Sight, A;"}),
    (MEAL, "affordability", sandbox(restaurants=[restaurant("Diner", "A", 40)]), query(budget=39), {}),
    (STAY, "affordability", sandbox(accommodations=[lodging("Inn", "A", 20)]), query(budget=39), {}),
    (OUTBOUND, "affordability", sandbox(), query(budget=1), {}),
]


@pytest.mark.parametrize(("number", "name", "tables", "trip_query", "booked"), DIAGNOSES)
def test_the_diagnosis_names_the_filter_that_let_nothing_through(
    number: int, name: str, tables: TableSandbox, trip_query: TravelQuery, booked: dict[str, str]
) -> None:
    benchmark = TinyTravelPlanner(trip_query, tables, "paper")
    target = plan(benchmark, benchmark.task())[number]
    chooser = benchmark.chooser(benchmark.task(), target)
    choice = choices_of(chooser.catalog, target)[0]
    offered = chooser.offer(choice, ItineraryDraft(booked), target)
    assert not offered.options
    assert offered.blocked_by == name
    assert name in offered.diagnosis
    assert choice.label in offered.diagnosis


def test_the_look_ahead_says_that_money_is_short_for_what_is_to_come() -> None:
    inn = sandbox(accommodations=[lodging("Inn", "A", 30)])
    offers = {}
    for budget in (63, 64):
        benchmark = TinyTravelPlanner(query(budget=budget), inn)
        target = plan(benchmark, benchmark.task())[OUTBOUND]
        chooser = benchmark.chooser(benchmark.task(), target)
        offers[budget] = chooser.offer(choices_of(chooser.catalog, target)[0], ItineraryDraft(), target)
    assert offers[63].blocked_by == "affordability with what is still to come"
    assert [option.kind for option in offers[64].options] == ["self-driving"]


# --- the paper's own configuration


@pytest.mark.slow
@settings(deadline=None, max_examples=40)
@given(data=st.data())
def test_the_papers_options_are_those_of_its_five_filters(folder: Path, data: st.DataObject) -> None:
    benchmark = paper(folder)
    task = data.draw(st.sampled_from(benchmark.tasks()))
    request, trip, draft, pick = (
        benchmark.query(task),
        benchmark.trip(benchmark.query(task)),
        ItineraryDraft(),
        data.draw(PICKS),
    )
    for target in plan(benchmark, task):
        chooser = benchmark.chooser(task, target)
        for choice in choices_of(chooser.catalog, target):
            spent = score_plan(request, draft.plan(trip), benchmark.sandbox).cost or 0
            candidates = five_filters(request, trip, choice.slots, draft, benchmark.sandbox)
            found = [(o.text, o.cost) for o in chooser.offer(choice, draft, target).options]
            assert sorted(found) == sorted((text, cost) for text, cost in candidates if spent + cost <= request.budget)
            assert found == sorted(found, key=lambda option: option[1])
            if not found:
                return
            draft = book_option(draft, choice, pick(chooser.offer(choice, draft, target).options))


@cache
def paper(folder: Path) -> TravelPlanner:
    return TravelPlanner(folder, "paper")


def five_filters(
    request: TravelQuery, trip: Trip, slots: Sequence[PlanSlot], draft: ItineraryDraft, tables: Sandbox
) -> list[tuple[str, float]]:
    """Appendix A.2 without affordability: (plan entry, dollars for everybody)."""
    (day, entry), people, city = slots[0], request.people_number, trip.city_on(slots[0].day)
    used = set(draft.booked.values())
    if entry == "transportation":
        return transports(request, trip, day, draft, tables)
    if entry == "accommodation":
        rows = [match_accommodation(row.name, city, tables)[0] for row in tables.accommodations(city)]
        nights = len(slots)
        return [
            (f"{row.name}, {city}", row.price * ceil(people / row.maximum_occupancy) * nights)
            for row in rows
            if row.minimum_nights <= nights and suits(row, request.local_constraint)
        ]
    if entry == "attraction":
        return [(text, 0) for row in tables.attractions(city) if (text := f"{row.name}, {city};") not in used]
    rows = [match_restaurant(row.name, city, tables)[0] for row in tables.restaurants(city)]
    return [(text, row.cost * people) for row in rows if (text := f"{row.name}, {city}") not in used]


def suits(row: Accommodation, wanted: LocalConstraint) -> bool:
    kinds = {"entire room": "Entire home/apt", "private room": "Private room", None: row.room_type}
    right = row.room_type == kinds.get(wanted.room_type, row.room_type)
    shared = wanted.room_type == "not shared room" and row.room_type == "Shared room"
    return right and not shared and f"No {wanted.house_rule}" not in row.house_rules


def transports(
    request: TravelQuery, trip: Trip, day: int, draft: ItineraryDraft, tables: Sandbox
) -> list[tuple[str, float]]:
    leg = next(leg for leg in trip.legs if leg.day == day)
    ends, way = (leg.origin, leg.destination), f"from {leg.origin} to {leg.destination}"
    wanted, people = request.local_constraint.transportation, request.people_number
    booked = draft.texts("transportation")
    driven, mixed = any("Self-driving" in text for text in booked), any("Self-driving" not in text for text in booked)
    found = []
    if wanted != "no flight" and not driven:
        for row in tables.flights(*ends, leg.date):
            times = f"Departure Time: {row.departs}, Arrival Time: {row.arrives}"
            found.append((f"Flight Number: {row.number}, {way}, {times}", row.price * people))
    far = tables.distance(*ends)
    if far and far.distance and "day" not in far.duration:
        km = float(far.distance.replace(",", "").split()[0])
        details = f"{way}, duration: {far.duration}, distance: {far.distance}, cost:"
        if wanted != "no self-driving" and not mixed:
            found.append((f"Self-driving, {details} {int(km * 0.05)}", int(km * 0.05) * ceil(people / 5)))
        if not driven:
            found.append((f"Taxi, {details} {int(km)}", int(km) * ceil(people / 4)))
    return found


# --- runs


def solved(result: Result) -> bool:
    return result.ending == "goal" and result.scores is not None and result.scores.value == 1


@pytest.mark.long
@pytest.mark.slow
def test_every_generated_task_is_solved_through_the_graph(generated: TravelPlanner, tmp_path: Path) -> None:
    context = Context(model="scripted:expert", benchmark=generated)
    graph = sdp.build()
    for task in generated.tasks():
        state = graph.invoke({"task": task}, context=context)
        assert sdp.ending(state) == "goal"
        assert len(state["certificates"]) == len(plan(generated, task))
        request, draft = generated.query(task), draft_of(certified_state(state["certificates"]).actions)
        assert score_plan(request, draft.plan(generated.trip(request)), generated.sandbox).passed
    for task in generated.tasks()[::12]:
        assert solved(run("sdp", generated, task, context=Context(model="scripted:expert"), out=tmp_path))


CUISINE_MISSED = (query(cuisine=("French", "Indian")), DEAR_CUISINES)
NO_WAY_BACK = (
    query(),
    sandbox(
        distances=[road("O", "A", 40)],
        flights=[flight("F1", "O", "A", "2022-03-01", 90), flight("F2", "A", "O", "2022-03-03", 90)],
    ),
)
MEALS_TOO_DEAR = (query(budget=80), sandbox(restaurants=[restaurant(f"Diner {n}", "A", 10) for n in range(9)]))
"""Nine meals for 90 dollars and 4 for the car; six are needed at most."""
BED_TOO_DEAR = (
    query(budget=110),
    sandbox(
        restaurants=[restaurant(f"Diner {n}", "A", 5) for n in range(9)],
        accommodations=[lodging("Inn", "A", 10), lodging("Palace", "A", 45)],
    ),
)
"""Two taxis for 40 dollars each leave too little for nine meals, and so does the palace."""


@pytest.mark.slow
def test_the_papers_replan_tries_the_same_tail_again_until_it_gives_up(tmp_path: Path) -> None:
    benchmark = TinyTravelPlanner(*CUISINE_MISSED, "paper")
    result = run("sdp", benchmark, "1", context=Context(model="scripted:first"), out=tmp_path)
    assert result.ending == "gave_up"
    predicates = plan(benchmark, benchmark.task())
    assert result.state["plan"] == predicates
    assert [c.targets for c in result.certificates] == [(p,) for p in predicates[:9]]
    tries = [a for a in result.state["attempts"] if a.target.kind == "budget"]
    limits = benchmark.limits
    assert len(tries) == limits.attempts * (limits.replans + 1)
    assert {a.verdict.reason for a in tries} == {"cuisines not served: ['French', 'Indian']"}


DEAD_ENDS = [  # how many decisions each return keeps
    pytest.param(*NO_WAY_BACK, None, [0], id="no road back"),
    pytest.param(*CUISINE_MISSED, None, [5], id="cuisines missed"),
    pytest.param(*MEALS_TOO_DEAR, None, [], id="meals too dear"),
    pytest.param(*BED_TOO_DEAR, dearest, [0, 2], id="bed too dear"),
]


@pytest.mark.slow
@pytest.mark.parametrize(("trip_query", "tables", "scripted_model", "returns"), DEAD_ENDS)
def test_a_run_returns_from_a_dead_end_to_a_certified_state(
    trip_query: TravelQuery, tables: TableSandbox, scripted_model: Any, returns: list[int], tmp_path: Path
) -> None:
    context = Context(chat=ScriptedChat(responder=scripted_model))
    stuck = run("sdp", TinyTravelPlanner(trip_query, tables, "paper"), "1", context=context, out=tmp_path)
    assert not solved(stuck)
    benchmark = TinyTravelPlanner(trip_query, tables, "rollback")
    result = run("sdp", benchmark, "1", context=context, out=tmp_path)
    assert solved(result)
    restored = [result.states[c.restores] for c in result.certificates if c.restores is not None]
    assert [len(state.actions) for state in restored] == returns
    check_certified_drafts(benchmark, result)


def check_certified_drafts(benchmark: TravelPlanner, result: Result) -> None:
    """After each certified step the world's draft is what the certified state adds up to, returns included."""
    world = benchmark.open(result.trajectory.header.task)
    world.reset()
    certified = {c.step: (c, after) for c, after in zip(result.certificates, result.states[1:], strict=True)}
    for number, step in enumerate(result.state["history"], 1):
        seen = world.step(step.action)
        if number in certified:
            certificate, after = certified[number]
            route = certificate.targets[0].args["route"]
            trip = trip_of(benchmark.query(result.trajectory.header.task), route)
            draft = draft_of(after.actions)
            assert world.score().answer == (draft.plan(trip) if draft.booked else None)
            assert seen.data.get("cost", world.score().parts["cost"]) == world.score().parts["cost"]
            if certificate.restores is not None:
                assert after == result.states[certificate.restores]


@pytest.mark.slow
def test_with_rollback_a_careless_model_solves_generated_tasks(folder: Path, tmp_path: Path) -> None:
    benchmark = TravelPlanner(folder, "rollback")
    outcomes = []
    for task in benchmark.tasks()[::6]:
        context = Context(model="simulated:act=0.7,seed=1")
        result = run("sdp", benchmark, task, context=context, out=tmp_path)
        check_certified_drafts(benchmark, result)
        outcomes.append((any(c.restores is not None for c in result.certificates), solved(result)))
    assert (True, True) in outcomes
    assert (False, False) not in outcomes


@pytest.mark.slow
def test_another_order_of_the_cities_is_tried_where_a_leg_has_no_transport(tmp_path: Path) -> None:
    roads = [road(*pair, 40) for pair in ("OA", "OB", "BA", "AO")]
    request, tables = query("AB"), sandbox("AB", distances=roads)
    context = Context(model="scripted:first")
    assert (
        run("sdp", TinyTravelPlanner(request, tables, "rollback"), "1", context=context, out=tmp_path).ending
        == "gave_up"
    )
    benchmark = TinyTravelPlanner(request, tables, "reorder")
    result = run("sdp", benchmark, "1", context=context, out=tmp_path)
    assert solved(result)
    assert [c.restores for c in result.certificates if c.restores is not None] == [0]
    check_certified_drafts(benchmark, result)
    assert isinstance(result.scores.answer, list)
    assert [day["current_city"] for day in result.scores.answer][::2] == ["from O to B", "from B to A", "from A to O"]


def test_a_run_gives_up_where_no_order_of_the_cities_works(tmp_path: Path) -> None:
    benchmark = TinyTravelPlanner(query("AB"), sandbox("AB", distances=[road("O", "A", 40), road("O", "B", 40)]))
    result = run("sdp", benchmark, "1", context=Context(model="scripted:first"), out=tmp_path)
    assert result.ending == "gave_up"
    assert result.certificates == []
    assert {tuple(a.target.args["route"]) for a in result.state["attempts"]} == {("A", "B"), ("B", "A")}


# --- the world and the validator

CAR = "Self-driving, from {} to {}, duration: 2 hours, distance: 40 km, cost: 2"
UNKNOWN = [
    {"1:transportation": "Flight Number: F9, from O to A, Departure Time: 08:00, Arrival Time: 10:00"},
    {"1:transportation": "Flight Number: F2, from O to A, Departure Time: 08:00, Arrival Time: 10:00"},
    {"1:transportation": CAR.format("O", "Z")},
    {"1:transportation": "Balloon, from O to A"},
    {"1:accommodation": "Inn, O"},
    {"1:accommodation": "Inn, A", "2:accommodation": "Ritz, A"},
    {"1:lunch": "Ritz, A"},
    {"1:lunch": "Diner 1"},
    {"2:attraction": "Sight 99, A;"},
    {},
]


@pytest.mark.parametrize("book", UNKNOWN)
def test_the_world_refuses_what_is_not_in_the_sandbox(book: dict[str, str]) -> None:
    benchmark = TinyTravelPlanner(query(), sandbox(flights=[flight("F2", "A", "O", "2022-03-03", 9)]))
    world = benchmark.open(benchmark.task())
    world.reset()
    world.step(Action(text="", kind="book", args={"book": {"1:dinner": "Diner 1, A"}}))
    before = world.score()
    seen = world.step(Action(text="?", kind="book", args={"book": book}))
    assert not seen.accepted
    assert world.score() == before
    assert not world.step(Action(text="sing")).accepted


def both(text: str) -> dict[str, str]:
    return {f"{night}:accommodation": text for night in (1, 2)}


def meals(day: int, *texts: str) -> dict[str, str]:
    return {f"{day}:{meal}": f"{text}, A" if text != NOTHING else text for meal, text in zip(MEALS, texts, strict=True)}


BEDS = sandbox(
    accommodations=[
        lodging("Inn", "A", 10),
        lodging("Hall", "A", 10, room_type="Shared room"),
        lodging("Zoo", "A", 10, house_rules="No smoking & No pets"),
        lodging("Villa", "A", 10, minimum_nights=3.0),
        lodging("Palace", "A", 600),
    ],
    flights=[
        flight("F1", "O", "A", "2022-03-01", 9),
        flight("F2", "A", "O", "2022-03-03", 9),
        flight("F3", "O", "A", "2022-03-02", 9),
    ],
)
FLY = "Flight Number: {}, from {} to {}, Departure Time: 08:00, Arrival Time: 10:00"
BUDGET = 9
VIOLATIONS = [
    (STAY, query(room_type="not shared room"), both("Hall, A"), {}, "Hall is a Shared room, requested is not shared"),
    (STAY, query(house_rule="pets"), both("Zoo, A"), {}, "Zoo has the rule No pets"),
    (STAY, query(), both("Villa, A"), {}, "Villa asks for 3 nights, the trip has 2"),
    (STAY, query(), both("Palace, A"), {}, "the draft costs $1200, the budget is $1000"),
    (STAY, query(), {"1:accommodation": "Inn, A"}, {}, "not booked: 2:accommodation"),
    (STAY, query(), both(NOTHING) | {"1:dinner": "Diner 1, A"}, {}, "- does not serve as accommodation of day 1"),
    (OUTBOUND, query(transportation="no flight"), {"1:transportation": FLY.format("F1", "O", "A")}, {}, "is refused"),
    (OUTBOUND, query(), {"1:transportation": FLY.format("F2", "A", "O")}, {}, "does not serve as transportation"),
    (OUTBOUND, query(), {"1:transportation": FLY.format("F3", "O", "A")}, {}, "does not serve as transportation"),
    (RETURN, query(), {"3:transportation": FLY.format("F2", "A", "O")}, {"1:transportation": CAR.format("O", "A")}, ""),
    (MEAL, query(), meals(2, "Diner 1", "Diner 2", "Diner 1"), {}, "chosen twice: ['Diner 1, A']"),
    (MEAL, query(), meals(2, "Diner 1", NOTHING, "Diner 2"), {}, "- does not serve as lunch of day 2"),
    (MEAL, query(), meals(2, "Diner 1", "Diner 2", "Diner 3"), {"1:lunch": "Diner 3, A"}, "chosen twice"),
]


@pytest.mark.parametrize(("number", "trip_query", "book", "before", "reason"), VIOLATIONS)
def test_the_validator_rejects_an_accepted_booking_that_breaks_a_rule_and_says_which(
    number: int, trip_query: TravelQuery, book: dict[str, str], before: dict[str, str], reason: str
) -> None:
    verdict = validated(TinyTravelPlanner(trip_query, BEDS), number, [before, book] if before else [book])
    assert verdict.depth == 0
    assert reason in verdict.reason


def test_the_validator_certifies_a_booking_that_keeps_the_rules() -> None:
    request = query(room_type="private room", house_rule="smoking", transportation="no self-driving")
    verdicts = [
        validated(TinyTravelPlanner(request, BEDS), OUTBOUND, [{"1:transportation": FLY.format("F1", "O", "A")}]),
        validated(TinyTravelPlanner(request, BEDS), STAY, [both("Inn, A")]),
        validated(TinyTravelPlanner(request, BEDS), MEAL, [meals(2, "Diner 1", "Diner 2", "Diner 3")]),
        validated(TinyTravelPlanner(request, BEDS), 3, [meals(1, NOTHING, NOTHING, "Diner 2")]),
    ]
    assert [(verdict.depth, verdict.reason) for verdict in verdicts] == [(1, "")] * 4


def test_the_budget_is_certified_only_for_a_complete_draft_that_serves_every_cuisine() -> None:
    benchmark = TinyTravelPlanner(*CUISINE_MISSED)
    *_, done = walk(benchmark, benchmark.task(), lambda options: options[0])
    whole = dict(done.draft.booked)
    assert validated(benchmark, BUDGET, [whole]).depth == 1
    gap = {slot: text for slot, text in whole.items() if slot != "2:attraction"}
    assert validated(benchmark, BUDGET, [gap]).reason == "still open: ['2:attraction']"
    spare = next(row for row in benchmark.sandbox.restaurants("A") if f"{row.name}, A" not in whole.values())
    hungry = whole | {"2:lunch": NOTHING}
    assert validated(benchmark, BUDGET, [hungry]).reason == "still open: ['2:lunch']"
    tea = {slot: f"{spare.name}, A" if text == "Tandoor, A" else text for slot, text in whole.items()}
    assert validated(benchmark, BUDGET, [tea]).reason == "cuisines not served: ['Indian']"


def test_a_cuisine_counts_as_served_only_where_the_official_scorer_counts_it() -> None:
    """Officially a meal in the origin ends the day: the cuisines of its later meals are not read."""
    request, tables = CUISINE_MISSED
    benchmark = TinyTravelPlanner(
        request, sandbox(restaurants=[*tables.restaurants("A"), restaurant("Corner", "O", 1)])
    )
    *_, done = walk(benchmark, benchmark.task(), lambda options: options[0])
    plain = (
        dict(done.draft.booked) | meals(1, "Diner 0", "Diner 1", "Diner 2") | meals(3, "Diner 3", "Diner 4", "Diner 5")
    )
    served = plain | meals(2, "Diner 6", "Gavroche", "Tandoor")
    assert validated(benchmark, BUDGET, [served]).depth == 1
    skipped = validated(benchmark, BUDGET, [served | {"2:breakfast": "Corner, O"}])
    assert skipped.reason == "cuisines not served: ['French', 'Indian']"


def test_only_adding_up_and_writing_certify_what_they_are_for() -> None:
    benchmark = TinyTravelPlanner(query(), BEDS)
    *_, done = walk(benchmark, benchmark.task(), lambda options: options[0])
    whole, task = dict(done.draft.booked), benchmark.task()
    world = benchmark.open(task)
    world.reset()
    *_, budget, render = plan(benchmark, task)
    written_early = world.step(Action(text="write", kind="render"))
    booked = world.step(Action(text="book all", kind="book", args={"book": whole}))
    added = world.step(Action(text="add up", kind="budget"))
    written = world.step(Action(text="write", kind="render"))
    seen = (written_early, booked, added, written)
    reasons = [[bool(benchmark.violations(task, target, one)) for one in seen] for target in (budget, render)]
    assert reasons == [[True, True, False, False], [True, True, True, False]]


def validated(benchmark: TravelPlanner, number: int, bookings: Sequence[dict[str, str]]) -> Any:
    """What Validate says of a predicate after the world accepted some bookings."""
    task = benchmark.task()
    world, target = benchmark.open(task), plan(benchmark, task)[number]
    world.reset()
    seen = Observation(text="")
    for book in bookings:
        seen = world.step(Action(text="by hand", kind="book", args={"book": book}))
        assert seen.accepted
    if target.kind == "budget":
        seen = world.step(Action(text="add up", kind="budget"))
    state = {"task": task, "tail": [target], "observation": seen}
    return asyncio.run(benchmark.operators()["validate"](state, None))["verdict"]
