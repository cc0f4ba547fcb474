"""A gold itinerary as errands: the sub-tasks that TDP's expert makes of a query, and the calls that each takes."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from certigraph.adapters.travelplanner.draft import NOTHING
from certigraph.adapters.travelplanner.official.parsing import booked_kind
from certigraph.adapters.travelplanner.official.plans import MEALS
from certigraph.adapters.travelplanner.oneshot.reference import one_line
from certigraph.adapters.travelplanner.options import FORBIDS
from certigraph.adapters.travelplanner.tools import forms
from certigraph.adapters.travelplanner.tools.gold import Gold
from certigraph.adapters.travelplanner.trip import Leg
from certigraph.state.records import Step

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
        return "; ".join(call.text for call in self.calls if call.tool == forms.WRITE)[:MOST_RESULT]


def errands(gold: Gold) -> list[Errand]:
    """The errands of a query, in an order in which all can be done: cities where they are open, four, and the plan."""
    cities = [_choice_of_cities(gold)] if len(gold.trip.cities) > 1 else []
    needs = tuple(errand.id for errand in cities)
    four = [
        Errand("transport", needs, "Find the transport of every leg", _legs(gold), tuple(_transport(gold))),
        _per_city(gold, "stay", needs, "Find places to stay", forms.STAYS, ("accommodation",)),
        _per_city(gold, "meals", needs, "Find restaurants for all meals", forms.RESTAURANTS, MEALS),
        _per_city(gold, "sights", needs, "Find attractions", forms.ATTRACTIONS, ("attraction",)),
    ]
    asked = gold.query.query
    all_of_them = tuple(errand.id for errand in (*cities, *four))
    return [*cities, *four, Errand("plan", all_of_them, "Make the plan", asked, (ToolUse(forms.MAKE_PLAN, asked),))]


def left(calls: Sequence[ToolUse], history: Sequence[Step]) -> Sequence[ToolUse]:
    """The calls that are still to be made: those not found in the history in their order, whatever else is in it."""
    done = 0
    for step in history:
        done += done < len(calls) and calls[done] == (step.action.kind, step.action.args.get("query"))
    return calls[done:]


def _choice_of_cities(gold: Gold) -> Errand:
    cities, dest = gold.trip.cities, gold.query.dest
    note = ToolUse(forms.WRITE, f"Cities to visit, in this order: {', '.join(cities)}.")
    calls = (ToolUse(forms.CITIES, dest), note)
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
    yield ToolUse(forms.WRITE, "\n".join(f"day {leg.day}: {entry}" for leg, entry in entries.items()))


def _searches(gold: Gold, leg: Leg, entry: str) -> Iterator[ToolUse]:
    kind, refused = booked_kind(entry), FORBIDS.get(gold.query.local_constraint.transportation or "")
    if refused != "flight":
        yield ToolUse(forms.FLIGHTS, f"{leg.origin}, {leg.destination}, {leg.date}")
    if kind in forms.MODES:
        yield ToolUse(forms.DISTANCE, f"{leg.origin}, {leg.destination}, {kind}")


def _per_city(gold: Gold, id_: str, needs: tuple[str, ...], title: str, tool: str, entries: tuple[str, ...]) -> Errand:
    """Look a city up, note what is taken there, and on to the next."""
    calls = (
        call
        for city in gold.trip.cities
        for call in (ToolUse(tool, city), ToolUse(forms.WRITE, _taken(gold, city, entries)))
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
