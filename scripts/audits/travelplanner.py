"""Audit of TravelPlanner's validator, which is code alone (SDP, appendix A.2), against the official scorer.

The paths are the gold itinerary of each validation query, booked predicate by predicate, and copies of it with one
wrong action: an entry of another city, a restaurant that is taken or dear, a place to stay that breaks a rule, a flight
of another day, an action that the world denies, and steps in the wrong order. After every action the validator judges
each predicate of the plan. What it certifies is compared with the world's draft: the entries that the predicate speaks
of must be in the database, on the right day and in the right city, and pass the official checks.
"""

import asyncio
import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any

from audits import Audit
from certigraph.adapters.benchmarks import data_folder
from certigraph.benchmarks.travelplanner import scoring
from certigraph.benchmarks.travelplanner.benchmark import TravelPlanner
from certigraph.benchmarks.travelplanner.options import (
    BUDGET,
    NOTHING,
    RENDER,
    ItineraryDraft,
    Trip,
    predicates_of,
)
from certigraph.benchmarks.travelplanner.planning import book_option, choices_of
from certigraph.benchmarks.travelplanner.plans import MEALS, parse_endpoints, parse_place
from certigraph.benchmarks.travelplanner.queries import TravelQuery
from certigraph.benchmarks.travelplanner.sandbox import Sandbox
from certigraph.benchmarks.travelplanner.world import TravelWorld
from certigraph.state.records import Action, Observation, Predicate, Task

KINDS = ("wrong city", "wrong restaurant", "wrong stay", "wrong day", "wrong order", "denied action")

Days = list[dict[str, Any]]


@cache
def load_world() -> TravelPlanner:
    """Return the benchmark over the official data."""
    return TravelPlanner(data_folder("travelplanner"))


def list_tasks() -> list[str]:
    """Return the ids of the validation queries."""
    return [task.id for task in load_world().tasks()]


def audit_task(task_id: str, perturbed: int) -> list[Audit]:
    """Audit the gold path of a query and perturbed copies of it."""
    benchmark = load_world()
    task = benchmark.task(task_id)
    gold = gold_actions(benchmark, task)
    audits = [_walk(f"{task_id} gold", gold, benchmark, task)]
    for number in range(perturbed):
        kind = KINDS[number % len(KINDS)]
        path = perturb(gold, kind, random.Random(f"{task_id} {number}"), benchmark, task)
        audits.append(_walk(f"{task_id} {kind}", path, benchmark, task))
    return audits


def gold_actions(benchmark: TravelPlanner, task: Task) -> list[Action]:
    """Return one action for each predicate of a query's plan: the cheapest options after which the rest is affordable.

    A query without an affordable itinerary gets the cheapest options.
    """
    query = benchmark.query(task)
    trip, draft, actions = benchmark.trip(query), ItineraryDraft(), list[Action]()
    for target in predicates_of(query, trip):
        chooser, book = benchmark.chooser(task, target), dict[str, Any]()
        for choice in choices_of(chooser.catalog, target):
            if offered := chooser.offer(choice, draft, target).options:
                draft = book_option(draft, choice, offered[0])
                book |= {str(slot): offered[0].text for slot in choice.slots}
        kind = target.kind if target.kind in (BUDGET, RENDER) else "book"
        actions.append(Action(text=target.text, kind=kind, args={"route": [*trip.cities], "book": book}))
    return actions


# Paths with one wrong action, which either replaces the right one or comes before it.


def perturb(
    gold: Sequence[Action], kind: str, draw: random.Random, benchmark: TravelPlanner, task: Task
) -> list[Action]:
    """Return a copy of a path with one wrong action in it."""
    at = draw.randrange(len(gold))
    if kind not in ("wrong order", "denied action"):
        entries = {"wrong restaurant": MEALS, "wrong stay": ("accommodation",), "wrong day": ("transportation",)}
        places = (*MEALS, "accommodation", "attraction")
        at = draw.choice([n for n, action in enumerate(gold) if _slots_of(action, entries.get(kind, places))] or [at])
    wrong = _wrong_action(gold, at, kind, draw, benchmark, task)
    return [*gold[:at], wrong, *gold[at + draw.randrange(2) :]]


def _slots_of(action: Action, entries: Sequence[str]) -> list[str]:
    return [slot for slot in _book_of(action) if slot.partition(":")[2] in entries]


def _book_of(action: Action) -> dict[str, str]:
    book = action.args.get("book")
    return {slot: str(text) for slot, text in book.items()} if isinstance(book, dict) else {}


def _wrong_action(
    gold: Sequence[Action], at: int, kind: str, draw: random.Random, benchmark: TravelPlanner, task: Task
) -> Action:
    right = gold[at]
    if kind == "wrong order":
        other = draw.choice([action for action in gold if action is not right])
        return draw.choice([other, Action(text="add up", kind=BUDGET), Action(text="write", kind=RENDER)])
    if kind == "denied action":
        unknown = {slot: "Nowhere Inn, Nowhere" for slot in _book_of(right)}
        books: list[dict[str, Any]] = [{}, unknown, {"1:transportation": "Balloon, from here to there"}]
        denied = [right.model_copy(update={"args": {**right.args, "book": book}, "kind": "book"}) for book in books]
        return draw.choice([*denied, Action(text="sing a song")])
    book = _book_of(right)
    changed = _wrong_entries(book, gold, kind, draw, benchmark, benchmark.query(task))
    return right.model_copy(update={"args": {**right.args, "book": book | changed}})


def _wrong_entries(
    book: Mapping[str, str],
    gold: Sequence[Action],
    kind: str,
    draw: random.Random,
    benchmark: TravelPlanner,
    query: TravelQuery,
) -> dict[str, str]:
    """Return wrong entries for slots of a booking. Most exist in the database, but elsewhere or on another day."""
    sandbox, slots = benchmark.sandbox, list(book)
    here = parse_place(book[slots[-1]].removesuffix(";")).city
    if kind == "wrong day":
        return dict.fromkeys(slots[:1], draw.choice(_other_transports(book[slots[0]], benchmark, query)))
    if kind == "wrong stay":
        return dict.fromkeys(slots, f"{draw.choice(sandbox.accommodations(here)).name}, {here}")
    if kind == "wrong restaurant":
        taken = [text for action in gold for text in _book_of(action).values() if text.endswith(f", {here}")]
        dear = [f"{row.name}, {here}" for row in sorted(sandbox.restaurants(here), key=lambda row: -row.cost)[:3]]
        return {draw.choice(slots): draw.choice([*taken, *dear, NOTHING])}
    other = draw.choice([query.org, draw.choice(sandbox.cities())])
    rows: Mapping[str, Sequence[Any]] = {
        "accommodation": sandbox.accommodations(other),
        "attraction": sandbox.attractions(other),
    }
    slot = draw.choice(slots)
    entry = slot.partition(":")[2]
    found = rows.get(entry, sandbox.restaurants(other))
    name = draw.choice(found).name if found else "Nothing"
    return {slot: f"{name}, {other}{';' * (entry == 'attraction')}"}


def _other_transports(text: str, benchmark: TravelPlanner, query: TravelQuery) -> list[str]:
    """Return flights of the same leg on other days, cars, and the way back; the text itself if there are none."""
    ends = parse_endpoints(text)
    if ends is None:
        return [text]
    found = [text.replace(f"from {ends.origin} to {ends.destination}", f"from {ends.destination} to {ends.origin}")]
    for row in benchmark.sandbox.flights(*ends):
        way = f"from {row.origin} to {row.destination}"
        found.append(f"Flight Number: {row.number}, {way}, Departure Time: {row.departs}, Arrival Time: {row.arrives}")
    found += [f"{kind}, from {ends.origin} to {ends.destination}" for kind in ("Self-driving", "Taxi")]
    return found


# Walking a path, and the truth about a predicate.


def _walk(path: str, actions: Sequence[Action], benchmark: TravelPlanner, task: Task) -> Audit:
    return asyncio.run(_judge_path(path, actions, benchmark, task))


async def _judge_path(path: str, actions: Sequence[Action], benchmark: TravelPlanner, task: Task) -> Audit:
    query, world = benchmark.query(task), benchmark.open(task)
    trip, counts, false = benchmark.trip(query), Counter[str](), list[str]()
    observation, written = world.reset(), False
    for action in actions:
        if observation.done:
            break
        observation = world.step(action)
        written = written or (observation.accepted and action.kind == RENDER)
        truth = DraftTruth(query, trip, world, benchmark.sandbox, written=written)
        for target in predicates_of(query, trip):
            verdict = await _judge(benchmark, task, target, observation)
            counts["decided" if verdict.decided_by == "code" else "undecided"] += 1
            counts["certified"] += bool(verdict.depth)
            if verdict.depth and (reason := truth.find_falsehood(target)):
                counts["false"] += 1
                false.append(f"{action.text!r} {action.args.get('book')}: {target.text}, but {reason}")
    return Audit(path, counts, tuple(false))


async def _judge(benchmark: TravelPlanner, task: Task, target: Predicate, observation: Observation) -> Any:
    state = {"task": task, "tail": [target], "observation": observation}
    validate: Callable[..., Any] = benchmark.operators()["validate"]
    return (await validate(state, None))["verdict"]


class DraftTruth:
    """What holds in the world's draft, by the official checks and the database."""

    def __init__(self, query: TravelQuery, trip: Trip, world: TravelWorld, sandbox: Sandbox, *, written: bool) -> None:
        answer = world.score().answer
        self._query, self._trip, self._sandbox, self._written = query, trip, sandbox, written
        self._days: Days = [dict(day) for day in answer] if isinstance(answer, list) else []

    def find_falsehood(self, target: Predicate) -> str:
        """Return why a predicate does not hold; empty if it does."""
        if not self._days:
            return "nothing is booked"
        return next(self._falsehoods(target), "")

    def _falsehoods(self, target: Predicate) -> Iterator[str]:
        day, city = target.args.get("day"), target.args.get("city")
        match target.kind, day, city:
            case "transport", int(), _:
                yield from self._transport(day)
            case "stay", _, str():
                yield from self._entries(city, [(night, "accommodation") for night in self._trip.nights_in(city)])
                yield from self._stay(city)
            case "meals", int(), _:
                yield from self._entries(self._trip.city_on(day), [(day, meal) for meal in MEALS])
                yield from scoring.check_diverse_restaurants(self._query, self._days, self._sandbox)
            case "attraction", int(), _:
                yield from self._entries(self._trip.city_on(day), [(day, "attraction")])
                yield from scoring.check_diverse_attractions(self._query, self._days, self._sandbox)
            case _:
                yield from self._whole(target.kind)
        yield from scoring.check_budget(self._query, self._days, self._sandbox)

    def _transport(self, day: int) -> Iterator[str]:
        leg, text = self._trip.leg_on(day), str(self._days[day - 1]["transportation"])
        if leg is None or parse_endpoints(text) != (leg.origin, leg.destination):
            yield f"{text!r} is not the transport of the leg"
        elif "Flight Number" in text:
            listed = {row.number for row in self._sandbox.flights(leg.origin, leg.destination, leg.date)}
            if text.split("Flight Number: ")[1].split(",", maxsplit=1)[0] not in listed:
                yield f"{text!r} does not fly on {leg.date}"
        only = self._keep([(day, "transportation")])
        ways = [{"transportation": str(d["transportation"])} for d in self._days if d["transportation"] != NOTHING]
        yield from scoring.check_within_sandbox(self._query, only, self._sandbox)
        yield from scoring.check_transportation(self._query, only, self._sandbox)
        if ways:
            yield from scoring.check_conflicting_transportation(self._query, ways, self._sandbox)

    def _entries(self, city: str, slots: Sequence[tuple[int, str]]) -> Iterator[str]:
        for day, entry in slots:
            text = str(self._days[day - 1][entry]).removesuffix(";")
            optional = self._trip.leg_on(day) is not None and entry != "accommodation"
            if text == NOTHING and not optional:
                yield f"day {day} has no {entry}"
            elif text != NOTHING and parse_place(text).city != city:
                yield f"{text!r} is not in {city}"
        yield from scoring.check_within_sandbox(self._query, self._keep(slots), self._sandbox)

    def _stay(self, city: str) -> Iterator[str]:
        only = self._keep([(night, "accommodation") for night in self._trip.nights_in(city)])
        checks = (scoring.check_minimum_nights, scoring.check_room_rule, scoring.check_room_type)
        for check in checks:
            yield from check(self._query, only, self._sandbox)

    def _whole(self, kind: str) -> Iterator[str]:
        yield from scoring.check_complete_information(self._query, self._days, self._sandbox)
        yield from scoring.check_cuisine(self._query, self._days, self._sandbox)
        if kind == RENDER and not self._written:
            yield "the itinerary was not written"

    def _keep(self, slots: Sequence[tuple[int, str]]) -> Days:
        """Return the days with nothing but some entries."""
        blank = {key: NOTHING for key in scoring.KEYS}
        days = [{**day, **blank} for day in self._days]
        for day, entry in slots:
            days[day - 1][entry] = self._days[day - 1][entry]
        return days
