"""TravelPlanner's scripted expert and simulated planner."""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from math import ceil
from random import Random
from typing import TYPE_CHECKING, Any, NamedTuple

from pydantic import Field

from certigraph.adapters.files import remembered
from certigraph.adapters.models.experts import least
from certigraph.adapters.models.schemas import Schema
from certigraph.adapters.models.scripted import TEXT, current_situation
from certigraph.adapters.protocols import Responder
from certigraph.adapters.travelplanner import tools
from certigraph.adapters.travelplanner.options import FORBIDS, NOTHING, Draft, Leg, Trip, plan_of
from certigraph.adapters.travelplanner.planning import Chooser, choices, taken
from certigraph.adapters.travelplanner.plans import MEALS, booked_kind
from certigraph.adapters.travelplanner.queries import Query
from certigraph.adapters.travelplanner.tools import PLAN_ASKED
from certigraph.adapters.travelplanner.written_plans import (
    ASK_OUTLINE,
    ASK_PLAN,
    ASK_TURN,
    ATTRACTIONS,
    DELIVER,
    RESTAURANTS,
    STAYS,
    one_line,
)
from certigraph.state.records import Record, Step

if TYPE_CHECKING:
    from certigraph.adapters.travelplanner.benchmark import TravelPlanner


# The itinerary that the expert has in mind: of everything the cheapest that leaves an affordable way to the end.


class Gold(NamedTuple):
    """A query, the trip along its reference, and what to book on each day."""

    query: Query
    trip: Trip
    draft: Draft

    def entry(self, day: int, name: str) -> str:
        """What a day has under one of the plan's keys; "-" where nothing."""
        return self.draft.booked.get(f"{day}:{name}", NOTHING)


def gold_of(benchmark: "TravelPlanner", query: Query) -> Gold:
    """The itinerary of a query: it passes officially where any along the reference's route does.

    Where none is affordable it takes the cheapest while the money lasts, so that there is something to deliver.
    """
    trip = benchmark.trip(query)
    chooser = Chooser(benchmark.catalog(query, trip.cities), query.budget, lookahead=benchmark.feasible(query))
    draft = Draft()
    for target in plan_of(query, trip):
        for choice in choices(chooser.catalog, target):
            if offered := chooser.offer(choice, draft, target).options:
                draft = taken(draft, choice, offered[0])
    return Gold(query, trip, draft)


# A gold itinerary as errands: the sub-tasks that TDP's expert makes of a query, and the calls that each takes.

MOST_RESULT = 300


class ToolUse(NamedTuple):
    """A tool and its text."""

    tool: str
    text: str


class Errand(NamedTuple):
    """A sub-task: `title` opens its specification, by which it is known again."""

    id: str
    needs: tuple[str, ...]
    title: str
    details: str
    calls: tuple[ToolUse, ...]

    @property
    def spec(self) -> str:
        """The specification."""
        return f"{self.title}: {self.details}"

    @property
    def result(self) -> str:
        """What those who need it have to know."""
        return "; ".join(call.text for call in self.calls if call.tool == tools.WRITE)[:MOST_RESULT]


def errands(gold: Gold) -> list[Errand]:
    """The errands of a query, in an order in which all can be done: cities where they are open, four, and the plan."""
    cities = [_choice_of_cities(gold)] if len(gold.trip.cities) > 1 else []
    needs = tuple(errand.id for errand in cities)
    four = [
        Errand("transport", needs, "Find the transport of every leg", _legs(gold), tuple(_transport(gold))),
        _per_city(gold, "stay", needs, "Find places to stay", tools.STAYS, ("accommodation",)),
        _per_city(gold, "meals", needs, "Find restaurants for all meals", tools.RESTAURANTS, MEALS),
        _per_city(gold, "sights", needs, "Find attractions", tools.ATTRACTIONS, ("attraction",)),
    ]
    asked = gold.query.query
    all_of_them = tuple(errand.id for errand in (*cities, *four))
    return [*cities, *four, Errand("plan", all_of_them, "Make the plan", asked, (ToolUse(tools.MAKE_PLAN, asked),))]


def left(calls: Sequence[ToolUse], history: Sequence[Step]) -> Sequence[ToolUse]:
    """The calls that are still to be made: those not found in the history in their order, whatever else is in it."""
    done = 0
    for step in history:
        done += done < len(calls) and calls[done] == (step.action.kind, step.action.args.get("query"))
    return calls[done:]


def _choice_of_cities(gold: Gold) -> Errand:
    cities, dest = gold.trip.cities, gold.query.dest
    note = ToolUse(tools.WRITE, f"Cities to visit, in this order: {', '.join(cities)}.")
    calls = (ToolUse(tools.CITIES, dest), note)
    return Errand("cities", (), "Choose the cities to visit", f"{len(cities)} of {dest}, in their order", calls)


def _legs(gold: Gold) -> str:
    trip, where = gold.trip, _where(gold)
    days = ", ".join(trip.dates[day - 1] for day in trip.travel_days)
    wish = gold.query.local_constraint.transportation
    return f"from {trip.home} to {where} and back, on {days}, for {_party(gold)}" + (f", {wish}" if wish else "")


def _transport(gold: Gold) -> Iterator[ToolUse]:
    """Every leg is looked up before one note on all of them: side by side with others it gets few of a task's steps."""
    entries = {leg: gold.entry(leg.day, "transportation") for leg in gold.trip.legs}
    for leg, entry in entries.items():
        yield from _searches(gold, leg, entry)
    yield ToolUse(tools.WRITE, "\n".join(f"day {leg.day}: {entry}" for leg, entry in entries.items()))


def _searches(gold: Gold, leg: Leg, entry: str) -> Iterator[ToolUse]:
    kind, refused = booked_kind(entry), FORBIDS.get(gold.query.local_constraint.transportation or "")
    if refused != "flight":
        yield ToolUse(tools.FLIGHTS, f"{leg.origin}, {leg.destination}, {leg.date}")
    if kind in tools.MODES:
        yield ToolUse(tools.DISTANCE, f"{leg.origin}, {leg.destination}, {kind}")


def _per_city(gold: Gold, id_: str, needs: tuple[str, ...], title: str, tool: str, entries: tuple[str, ...]) -> Errand:
    """Look a city up, note what is taken there, and on to the next."""
    calls = (
        call
        for city in gold.trip.cities
        for call in (ToolUse(tool, city), ToolUse(tools.WRITE, _taken(gold, city, entries)))
    )
    return Errand(id_, needs, title, f"in {_where(gold)}, for {_party(gold)}", tuple(calls))


def _taken(gold: Gold, city: str, entries: tuple[str, ...]) -> str:
    days = [day for day in range(1, gold.trip.days + 1) if gold.trip.city_on(day) == city]
    lines = [f"day {day} {name}: {one_line(gold.entry(day, name))}" for day in days for name in entries]
    return "\n".join([f"In {city}:", *(line for line in lines if not line.endswith(f": {NOTHING}"))])


def _where(gold: Gold) -> str:
    cities = gold.trip.cities
    return cities[0] if len(cities) == 1 else f"the {len(cities)} cities of {gold.query.dest} that were chosen"


def _party(gold: Gold) -> str:
    people = gold.query.people_number
    return "one person" if people == 1 else f"{people} people"


# The mind behind `scripted:expert` in the tool world: it runs the errands of a query's gold itinerary.
#
# Where a run stands it reads off the calls that its world has on record, so that it goes on from wherever a graph has
# brought it. The errand is known by the specification it is given; an agent that is given the whole query runs them
# all. Its plan has what its prompt's notebook has, and "-" for the rest. Everything else it knows from the gold
# itinerary whatever its prompts show, so its score says that worlds, notes and schedules work, not that prompts tell
# enough.

MOST_SPEC = 300
"""Characters of a specification or a step."""

GIVEN = ("days", "current_city")
"""What of a day stands in no note of its own."""


class Standing:
    """Where a run stands: its errands, all of them or the one it was given, and what is left of them."""

    def __init__(self, gold: Gold, state: Mapping[str, Any]) -> None:
        self.gold, self._state = gold, state
        self._all = errands(gold)

    @property
    def all(self) -> Sequence[Errand]:
        """The errands of the whole query."""
        return self._all

    @cached_property
    def own(self) -> Sequence[Errand]:
        """The errands at hand."""
        named = [errand for errand in self._all if self._state["task"].goal.startswith(errand.title)]
        return named or self._all

    @property
    def calls(self) -> list[ToolUse]:
        """Everything that the errands at hand take."""
        return [call for errand in self.own for call in errand.calls]

    @property
    def left(self) -> Sequence[ToolUse]:
        """What is still to be done of it."""
        history = self._state.get("history", ())
        delivered = any(step.action.kind == DELIVER for step in history)
        return () if delivered else left(self.calls, history)


Answer = Callable[[Standing], Any]


def expert_for(benchmark: "TravelPlanner") -> Responder:
    """The mind; outside a node, and to questions of other kinds, its answers are the least."""
    golds = remembered(lambda query: gold_of(benchmark, query))

    def respond(prompt: str, form: Schema) -> Any:
        situation = current_situation()
        answer = _plan_from(prompt) if form == TEXT and PLAN_ASKED in prompt else _answer_to(form)
        if situation is None or answer is None:
            return least(form)
        gold = golds(benchmark.query(situation.state["task"]))
        return answer(Standing(gold, situation.state))

    return respond


def _answer_to(form: Schema) -> Answer | None:
    return next((make for name, make in _ANSWERS.items() if name in form.get("properties", ())), None)


def _nodes(at: Standing) -> Any:
    return {"nodes": [{"id": e.id, "task": e.spec[:MOST_SPEC], "needs": [*e.needs]} for e in at.all]}


def _steps(at: Standing) -> Any:
    """An agent of the whole query plans by errands, that of one errand by its calls."""
    whole = len(at.own) > 1
    steps = [e.spec for e in at.own] if whole else [f"{use.tool}: {use.text}" for use in at.left or at.calls]
    return {"steps": [step[:MOST_SPEC] for step in steps]}


def _progress(at: Standing) -> Any:
    ahead = len(at.left)
    return {
        "reason": f"{ahead} calls are left",
        "status": "needs_more_steps" if ahead else "completed",
        "off_plan": False,
        "guidance": at.left[0].tool if ahead else "",
        "result": "" if ahead else at.own[-1].result,
    }


def _changes(at: Standing) -> Any:
    return {"reason": "the outcomes are as they were expected", "change": [], "add": [], "remove": []}


def _move(at: Standing) -> Any:
    call = (at.left or at.calls)[0]
    return {"thought": f"{len(at.left)} calls are left", "tool": call.tool, "text": call.text}


def _plan_from(prompt: str) -> Answer:
    """The gold plan as far as the notes in the prompt have it: a note that was lost is missed in the plan."""

    def noted(key: str, entry: Any) -> Any:
        return entry if key in GIVEN or one_line(entry) in prompt else NOTHING

    def plan(at: Standing) -> Any:
        days = [{key: noted(key, entry) for key, entry in day.items()} for day in at.gold.draft.plan(at.gold.trip)]
        return json.dumps(days, ensure_ascii=False)

    return plan


_ANSWERS: Mapping[str, Answer] = {
    "nodes": _nodes,
    "steps": _steps,
    "status": _progress,
    "change": _changes,
    "tool": _move,
}


# A simulated planner that writes plans as text and spoils a known share of them: it checks figures, and is no model.
#
# It sees the prompt alone, reads the reference information in it, and takes the cheapest of everything, three meals a
# day. What the request asks for besides is left aside: its plans are well formed and nearly all affordable, seldom
# right.

HEAD = re.compile(r"Day (?P<day>\d+) \(\S+\) (?:from (?P<origin>.+) to (?P<to>.+)|in (?P<city>.+))")
ENTRY = re.compile(r"(?P<text>.+) \| \$(?P<price>[\d.]+) a \w+(?: of (?P<seats>\d+)| for (?P<beds>\d+))?")
PEOPLE = re.compile(r"People: (\d+)")

ADVICE = "Write plain JSON, and take cheaper options."
FIRST_TURN = "(nothing)"


class SimulatedPlanner(Record):
    """A responder for `ScriptedChat`. Draws are by prompt and seed: the same question gets the same answer."""

    malformed: float = Field(0.0, ge=0, le=1)
    """Share of delivered plans that break off in the middle."""
    expensive: float = Field(0.0, ge=0, le=1)
    """Share of delivered plans that take the dearest of everything; with `malformed` at most 1."""
    seed: int = 0

    def __call__(self, prompt: str, schema: Schema) -> Any:
        """The answer to one question; questions that ask for no text get the least instance of their schema."""
        if schema != TEXT:
            return least(schema)
        if ASK_TURN in prompt and FIRST_TURN in prompt:
            return f"Thought: First see what the cheapest costs.\nAction: cost\n{_text(prompt, dearest=False)}"
        if ASK_TURN in prompt:
            return f"Thought: That will do.\nAction: deliver\n{self._delivered(prompt)}"
        if ASK_PLAN in prompt:
            return self._delivered(prompt)
        return "Take the cheapest of everything." if ASK_OUTLINE in prompt else ADVICE

    def _delivered(self, prompt: str) -> str:
        drawn = Random(f"{self.seed}:{prompt}").random()
        if drawn < self.malformed:
            whole = _text(prompt, dearest=False)
            return whole[: len(whole) // 2]
        return _text(prompt, dearest=drawn < self.malformed + self.expensive)


class Priced(NamedTuple):
    """An entry of the reference information and what it costs everybody, a night's or a meal's worth."""

    text: str
    cost: float


class Offers:
    """The reference information of a prompt: its days, and priced entries by list, the first to be taken first."""

    def __init__(self, prompt: str, *, dearest: bool) -> None:
        found = PEOPLE.search(prompt)
        self._people = int(found[1]) if found else 1
        self._lists = {
            head: sorted(map(self._priced, lines), key=_cost, reverse=dearest) for head, lines in _lists(prompt)
        }
        self._used = set[str]()

    def days(self) -> Iterator[re.Match[str]]:
        """The headings of the days."""
        return (head for text in self._lists if (head := HEAD.fullmatch(text)))

    def first(self, head: str, city: str) -> str:
        """What comes first in a list, as a plan writes it."""
        return self._named(self._lists.get(head, []), city)

    def next(self, head: str, city: str) -> str:
        """The first of a list that no day has used yet."""
        taken = self._named(
            [offer for offer in self._lists.get(head, []) if f"{offer.text}, {city}" not in self._used], city
        )
        self._used.add(taken)
        return taken

    def _named(self, offers: list[Priced], city: str) -> str:
        return (f"{offers[0].text}, {city}" if city else offers[0].text) if offers else NOTHING

    def _priced(self, line: str) -> Priced:
        entry = ENTRY.match(line)
        if entry is None:
            return Priced(line, 0.0)
        shared = entry["seats"] or entry["beds"]
        name = entry["text"].replace("\\n", "\n")
        return Priced(name, float(entry["price"]) * ceil(self._people / int(shared or 1)))


def _text(prompt: str, *, dearest: bool) -> str:
    offers = Offers(prompt, dearest=dearest)
    heads = list(offers.days())
    return json.dumps([_day(offers, head, last=head is heads[-1]) for head in heads], ensure_ascii=False)


def _day(offers: Offers, head: re.Match[str], *, last: bool) -> dict[str, object]:
    travels = head["city"] is None
    city = head["city"] or (head["origin"] if last else head["to"])
    sight = offers.next(f"{ATTRACTIONS} in {city}", city)
    return {
        "days": int(head["day"]),
        "current_city": f"from {head['origin']} to {head['to']}" if travels else city,
        "transportation": offers.first(head[0], "") if travels else NOTHING,
        **{meal: offers.next(f"{RESTAURANTS} in {city}", city) for meal in MEALS},
        "attraction": NOTHING if sight == NOTHING else f"{sight};",
        "accommodation": NOTHING if last else offers.first(f"{STAYS} in {city}", city),
    }


def _lists(prompt: str) -> Iterator[tuple[str, list[str]]]:
    head, lines = "", list[str]()
    for line in prompt.splitlines():
        if line.startswith("- "):
            lines.append(line.removeprefix("- "))
        elif line.endswith(":"):
            if head:
                yield head, lines
            head, lines = line.removesuffix(":"), []
    yield head, lines


def _cost(offer: Priced) -> float:
    return offer.cost
