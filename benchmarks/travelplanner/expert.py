"""Scripted models for TravelPlanner: an expert with a correct itinerary, and a simulated planner with known errors.

The expert answers the operators' requests in the tool world. The simulated planner writes complete plans as text.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from math import ceil
from typing import Any, NamedTuple

from pydantic import Field

from certigraph.adapters.files import memoize_by_identity
from certigraph.adapters.models.experts import minimal_answer
from certigraph.adapters.models.schemas import Schema
from certigraph.adapters.models.scripts import TEXT_SCHEMA, current_situation, random_for
from certigraph.adapters.protocols import Responder
from certigraph.benchmarks.travelplanner import tools
from certigraph.benchmarks.travelplanner.options import (
    NOTHING,
    REFUSED_KINDS,
    ItineraryDraft,
    Trip,
    TripLeg,
    escape_line_breaks,
    predicates_of,
)
from certigraph.benchmarks.travelplanner.planning import OptionChooser, book_option, choices_of
from certigraph.benchmarks.travelplanner.plans import MEALS, booked_kind_of
from certigraph.benchmarks.travelplanner.queries import TravelQuery
from certigraph.benchmarks.travelplanner.trips import TravelTrips
from certigraph.benchmarks.travelplanner.written_plans import (
    ATTRACTIONS,
    DELIVER,
    RESTAURANTS,
    STAYS,
)
from certigraph.state.records import Record, Step

# Gold itinerary: always the cheapest option after which the rest of the trip is affordable.


class GoldItinerary(NamedTuple):
    """Correct itinerary of a query: the trip through the cities of its reference information, and all bookings."""

    query: TravelQuery
    trip: Trip
    draft: ItineraryDraft

    def entry(self, day: int, name: str) -> str:
        """Return the entry of a day under a key of the plan format, such as "lunch"; "-" if there is none."""
        return self.draft.booked.get(f"{day}:{name}", NOTHING)


def build_gold_itinerary(benchmark: TravelTrips, query: TravelQuery) -> GoldItinerary:
    """Build the gold itinerary of a query, on the route of its reference information.

    It passes the official scorer if any itinerary on this route does. If none is affordable, it has the cheapest
    options while the budget lasts, so that a plan can be delivered.
    """
    trip = benchmark.trip(query)
    chooser = OptionChooser(benchmark.catalog(query, trip.cities), query.budget, lookahead=benchmark.is_feasible(query))
    draft = ItineraryDraft()
    for target in predicates_of(query, trip):
        for choice in choices_of(chooser.catalog, target):
            if offered := chooser.offer(choice, draft, target).options:
                draft = book_option(draft, choice, offered[0])
    return GoldItinerary(query, trip, draft)


# Sub-tasks of a gold itinerary: how the TDP expert decomposes a query, and the tool calls of each sub-task.

MAX_RESULT_CHARS = 300


class ToolUse(NamedTuple):
    """Tool name and its text argument."""

    tool: str
    text: str


class GoldSubtask(NamedTuple):
    """Sub-task of a gold itinerary, with its tool calls. Its text begins with `title`, by which it is recognised."""

    id: str
    needs: tuple[str, ...]
    title: str
    details: str
    calls: tuple[ToolUse, ...]

    @property
    def spec(self) -> str:
        """Text of the sub-task: title and details."""
        return f"{self.title}: {self.details}"

    @property
    def result(self) -> str:
        """Result that dependent sub-tasks receive: what this one wrote to the notebook."""
        return "; ".join(call.text for call in self.calls if call.tool == tools.WRITE)[:MAX_RESULT_CHARS]


def gold_subtasks(gold: GoldItinerary) -> list[GoldSubtask]:
    """Return the sub-tasks of a query in an executable order.

    They are: the choice of cities (if there are several), transport, stay, meals and sights, and the plan.
    """
    choice = [_city_choice_subtask(gold)] if len(gold.trip.cities) > 1 else []
    needs = tuple(errand.id for errand in choice)
    searches = [
        GoldSubtask(
            "transport", needs, "Find the transport of every leg", _describe_legs(gold), tuple(_transport_calls(gold))
        ),
        _city_subtask(gold, "stay", needs, "Find places to stay", tools.STAYS, ("accommodation",)),
        _city_subtask(gold, "meals", needs, "Find restaurants for all meals", tools.RESTAURANTS, MEALS),
        _city_subtask(gold, "sights", needs, "Find attractions", tools.ATTRACTIONS, ("attraction",)),
    ]
    request = gold.query.query
    all_ids = tuple(errand.id for errand in (*choice, *searches))
    return [
        *choice,
        *searches,
        GoldSubtask("plan", all_ids, "Make the plan", request, (ToolUse(tools.MAKE_PLAN, request),)),
    ]


def remaining_calls(calls: Sequence[ToolUse], history: Sequence[Step]) -> Sequence[ToolUse]:
    """Return the calls that the history does not contain yet, matched in order; other calls in it are ignored."""
    count = 0
    for step in history:
        count += count < len(calls) and calls[count] == (step.action.kind, step.action.args.get("query"))
    return calls[count:]


def _city_choice_subtask(gold: GoldItinerary) -> GoldSubtask:
    cities, dest = gold.trip.cities, gold.query.dest
    note = ToolUse(tools.WRITE, f"Cities to visit, in this order: {', '.join(cities)}.")
    calls = (ToolUse(tools.CITIES, dest), note)
    return GoldSubtask("cities", (), "Choose the cities to visit", f"{len(cities)} of {dest}, in their order", calls)


def _describe_legs(gold: GoldItinerary) -> str:
    trip, where = gold.trip, _describe_cities(gold)
    days = ", ".join(trip.dates[day - 1] for day in trip.travel_days)
    wish = gold.query.local_constraint.transportation
    return f"from {trip.origin} to {where} and back, on {days}, for {_describe_party(gold)}" + (
        f", {wish}" if wish else ""
    )


def _transport_calls(gold: GoldItinerary) -> Iterator[ToolUse]:
    # One note for all legs instead of one for each saves steps: parallel sub-tasks share a task's limit of steps.
    entries = {leg: gold.entry(leg.day, "transportation") for leg in gold.trip.legs}
    for leg, entry in entries.items():
        yield from _search_calls(gold, leg, entry)
    yield ToolUse(tools.WRITE, "\n".join(f"day {leg.day}: {entry}" for leg, entry in entries.items()))


def _search_calls(gold: GoldItinerary, leg: TripLeg, entry: str) -> Iterator[ToolUse]:
    kind, refused = booked_kind_of(entry), REFUSED_KINDS.get(gold.query.local_constraint.transportation or "")
    if refused != "flight":
        yield ToolUse(tools.FLIGHTS, f"{leg.origin}, {leg.destination}, {leg.date}")
    if kind in tools.MODES:
        yield ToolUse(tools.DISTANCE, f"{leg.origin}, {leg.destination}, {kind}")


def _city_subtask(
    gold: GoldItinerary, id_: str, needs: tuple[str, ...], title: str, tool: str, entries: tuple[str, ...]
) -> GoldSubtask:
    """Create the sub-task that looks up each city with `tool` and notes the bookings of the gold itinerary there."""
    calls = (
        call
        for city in gold.trip.cities
        for call in (ToolUse(tool, city), ToolUse(tools.WRITE, _booking_note(gold, city, entries)))
    )
    return GoldSubtask(id_, needs, title, f"in {_describe_cities(gold)}, for {_describe_party(gold)}", tuple(calls))


def _booking_note(gold: GoldItinerary, city: str, entries: tuple[str, ...]) -> str:
    days = [day for day in range(1, gold.trip.days + 1) if gold.trip.city_on(day) == city]
    lines = [f"day {day} {name}: {escape_line_breaks(gold.entry(day, name))}" for day in days for name in entries]
    return "\n".join([f"In {city}:", *(line for line in lines if not line.endswith(f": {NOTHING}"))])


def _describe_cities(gold: GoldItinerary) -> str:
    cities = gold.trip.cities
    return cities[0] if len(cities) == 1 else f"the {len(cities)} cities of {gold.query.dest} that were chosen"


def _describe_party(gold: GoldItinerary) -> str:
    people = gold.query.people_number
    return "one person" if people == 1 else f"{people} people"


# The scripted model `scripted:expert` in the tool world: it makes the calls of a query's gold itinerary.
#
# It determines the progress of a run from the calls that the world recorded, so it can continue from any state of any
# graph. A sub-task is recognised by its specification; an agent with the complete query gets all sub-tasks. Its plan
# contains what is in the notes that the plan is written from, and "-" for the rest. Everything else comes from the gold
# itinerary: its score checks worlds, notes and schedules, not whether prompts are complete.

MAX_SPEC_CHARS = 300
"""Maximum number of characters of a sub-task's text or of a plan's step."""

UNNOTED_KEYS = ("days", "current_city")
"""Keys of a plan's day that are always filled in, because no note contains their values."""


class ItineraryProgress:
    """Progress of a run on the gold itinerary: sub-tasks, those assigned to the agent, and the remaining tool calls."""

    def __init__(self, gold: GoldItinerary, state: Mapping[str, Any]) -> None:
        self.gold, self._state = gold, state
        self._subtasks = gold_subtasks(gold)

    @property
    def subtasks(self) -> Sequence[GoldSubtask]:
        """Sub-tasks of the complete query."""
        return self._subtasks

    @cached_property
    def assigned(self) -> Sequence[GoldSubtask]:
        """Sub-tasks assigned to the agent: the one that the agent's task names, or all."""
        named = [errand for errand in self._subtasks if self._state["task"].goal.startswith(errand.title)]
        return named or self._subtasks

    @property
    def calls(self) -> list[ToolUse]:
        """Tool calls of the assigned sub-tasks."""
        return [call for errand in self.assigned for call in errand.calls]

    @property
    def remaining(self) -> Sequence[ToolUse]:
        """Calls that are not made yet; none after a delivery."""
        history = self._state.get("history", ())
        delivered = any(step.action.kind == DELIVER for step in history)
        return () if delivered else remaining_calls(self.calls, history)


AnswerBuilder = Callable[[ItineraryProgress], Any]


def create_expert(benchmark: TravelTrips) -> Responder:
    """Create the scripted expert of the tool world.

    Outside a graph node, and for an answer schema that it does not know, it answers with the schema's smallest
    instance.
    """
    golds = memoize_by_identity(lambda query: build_gold_itinerary(benchmark, query))

    def respond(prompt: str, form: Schema) -> Any:
        situation = current_situation()
        notes = situation.view.get("notes") if situation and form == TEXT_SCHEMA else None
        answer = _find_answer(form) if notes is None else _answer_plan(notes)
        if situation is None or answer is None:
            return minimal_answer(form)
        gold = golds(benchmark.query(situation.state["task"]))
        return answer(ItineraryProgress(gold, situation.state))

    return respond


def _find_answer(form: Schema) -> AnswerBuilder | None:
    return next((make for name, make in _ANSWERS.items() if name in form.get("properties", ())), None)


def _answer_nodes(progress: ItineraryProgress) -> Any:
    return {"nodes": [{"id": e.id, "task": e.spec[:MAX_SPEC_CHARS], "needs": [*e.needs]} for e in progress.subtasks]}


def _answer_steps(progress: ItineraryProgress) -> Any:
    """Answer a request for a plan: its steps are sub-tasks for the complete query, and tool calls for one sub-task."""
    is_complete_query = len(progress.assigned) > 1
    steps = (
        [e.spec for e in progress.assigned]
        if is_complete_query
        else [f"{use.tool}: {use.text}" for use in progress.remaining or progress.calls]
    )
    return {"steps": [step[:MAX_SPEC_CHARS] for step in steps]}


def _answer_progress(progress: ItineraryProgress) -> Any:
    ahead = len(progress.remaining)
    return {
        "reason": f"{ahead} calls are left",
        "status": "needs_more_steps" if ahead else "completed",
        "off_plan": False,
        "guidance": progress.remaining[0].tool if ahead else "",
        "result": "" if ahead else progress.assigned[-1].result,
    }


def _answer_changes(progress: ItineraryProgress) -> Any:
    return {"reason": "the outcomes are as they were expected", "change": [], "add": [], "remove": []}


def _answer_move(progress: ItineraryProgress) -> Any:
    call = (progress.remaining or progress.calls)[0]
    return {"thought": f"{len(progress.remaining)} calls are left", "tool": call.tool, "text": call.text}


def _answer_plan(notes: str) -> AnswerBuilder:
    """Return a function that answers with the gold plan, less the entries that the notes do not contain."""

    def noted(key: str, entry: Any) -> Any:
        return entry if key in UNNOTED_KEYS or escape_line_breaks(entry) in notes else NOTHING

    def plan(progress: ItineraryProgress) -> Any:
        days = [
            {key: noted(key, entry) for key, entry in day.items()}
            for day in progress.gold.draft.plan(progress.gold.trip)
        ]
        return json.dumps(days, ensure_ascii=False)

    return plan


_ANSWERS: Mapping[str, AnswerBuilder] = {
    "nodes": _answer_nodes,
    "steps": _answer_steps,
    "status": _answer_progress,
    "change": _answer_changes,
    "tool": _answer_move,
}


# Simulated planner: writes plans as text and makes a known share of them wrong, to check rates without a model.
#
# It parses the reference information of the request and takes the cheapest entries, with three meals a day. Requested
# constraints other than the budget are ignored: its plans are well-formed and nearly all affordable, but seldom
# correct.

DAY_HEADING = re.compile(r"Day (?P<day>\d+) \(\S+\) (?:from (?P<origin>.+) to (?P<to>.+)|in (?P<city>.+))")
PRICED_ENTRY = re.compile(r"(?P<text>.+) \| \$(?P<price>[\d.]+) a \w+(?: of (?P<seats>\d+)| for (?P<beds>\d+))?")
PEOPLE = re.compile(r"People: (\d+)")

ADVICE = "Write plain JSON, and take cheaper options."
OUTLINE = "Take the cheapest of everything."


class SimulatedPlanner(Record):
    """Responder for `ScriptedChat` that writes TravelPlanner plans as text, with known shares of wrong plans.

    Random numbers come from `random_for`: repeating or resuming a run gives the same plans.
    """

    malformed: float = Field(default=0.0, ge=0, le=1)
    """Share of delivered plans that are cut off in the middle."""
    expensive: float = Field(default=0.0, ge=0, le=1)
    """Share of delivered plans that take the most expensive entries; at most 1 together with `malformed`."""
    seed: int = 0

    def __call__(self, prompt: str, schema: Schema) -> Any:
        """Answer one request for a text; a request with an answer schema gets the schema's smallest instance."""
        situation = current_situation()
        if schema != TEXT_SCHEMA or situation is None:
            return minimal_answer(schema)
        reference = situation.view.get("reference")
        if reference is None:
            return OUTLINE if situation.node == "outline" else ADVICE
        if situation.view["single"]:
            return self._write_delivered_plan(reference)
        if not situation.view["turns"]:
            return f"Thought: First see what the cheapest costs.\nAction: cost\n{_write_plan(reference, dearest=False)}"
        return f"Thought: That will do.\nAction: deliver\n{self._write_delivered_plan(reference)}"

    def _write_delivered_plan(self, reference: str) -> str:
        drawn = random_for(self.seed, 0).random()
        if drawn < self.malformed:
            plan = _write_plan(reference, dearest=False)
            return plan[: len(plan) // 2]
        return _write_plan(reference, dearest=drawn < self.malformed + self.expensive)


class PricedEntry(NamedTuple):
    """Entry of the reference information and its cost for all people, for one night, meal or journey."""

    text: str
    cost: float


class ReferenceOffers:
    """Reference information parsed from a prompt: days, and lists of priced entries, cheapest or dearest first."""

    def __init__(self, reference: str, *, dearest: bool) -> None:
        match = PEOPLE.search(reference)
        self._people = int(match[1]) if match else 1
        self._lists = {
            head: sorted(map(self._parse_entry, lines), key=_cost_of, reverse=dearest)
            for head, lines in _read_lists(reference)
        }
        self._used = set[str]()

    def days(self) -> Iterator[re.Match[str]]:
        """Yield the headings of the days, as matches of `DAY_HEADING`."""
        return (head for text in self._lists if (head := DAY_HEADING.fullmatch(text)))

    def first(self, head: str, city: str) -> str:
        """Return the first entry of the list under the heading `head`, as a plan writes it; "-" if there is none."""
        return self._format_first(self._lists.get(head, []), city)

    def next(self, head: str, city: str) -> str:
        """Return the first entry of the list under the heading `head` that no day uses yet; "-" if there is none."""
        chosen = self._format_first(
            [offer for offer in self._lists.get(head, []) if f"{offer.text}, {city}" not in self._used], city
        )
        self._used.add(chosen)
        return chosen

    def _format_first(self, offers: list[PricedEntry], city: str) -> str:
        return (f"{offers[0].text}, {city}" if city else offers[0].text) if offers else NOTHING

    def _parse_entry(self, line: str) -> PricedEntry:
        entry = PRICED_ENTRY.match(line)
        if entry is None:
            return PricedEntry(line, 0.0)
        shared = entry["seats"] or entry["beds"]
        name = entry["text"].replace("\\n", "\n")
        return PricedEntry(name, float(entry["price"]) * ceil(self._people / int(shared or 1)))


def _write_plan(reference: str, *, dearest: bool) -> str:
    offers = ReferenceOffers(reference, dearest=dearest)
    heads = list(offers.days())
    return json.dumps([_write_day(offers, head, last=head is heads[-1]) for head in heads], ensure_ascii=False)


def _write_day(offers: ReferenceOffers, head: re.Match[str], *, last: bool) -> dict[str, object]:
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


def _read_lists(reference: str) -> Iterator[tuple[str, list[str]]]:
    head, lines = "", list[str]()
    for line in reference.splitlines():
        if line.startswith("- "):
            lines.append(line.removeprefix("- "))
        elif line.endswith(":"):
            if head:
                yield head, lines
            head, lines = line.removesuffix(":"), []
    yield head, lines


def _cost_of(offer: PricedEntry) -> float:
    return offer.cost
