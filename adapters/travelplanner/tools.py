"""TravelPlanner's tools (TDP appendix A)."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Literal, NamedTuple

from langgraph.runtime import Runtime
from pydantic import BaseModel, Field

from certigraph.adapters.models.calls import (
    TAG,
    Prompt,
    ask,
    ask_text,
    bullet_list,
    clipped,
    prompt,
    quoted,
    shown,
    unquoted,
)
from certigraph.adapters.protocols import Context, Operator
from certigraph.adapters.travelplanner.options import Leg, Option, transports
from certigraph.adapters.travelplanner.queries import ListedLeg
from certigraph.adapters.travelplanner.sandbox import Sandbox, find_sources
from certigraph.adapters.travelplanner.written_plans import (
    DELIVER,
    MOST_PLAN,
    RULES,
    one_line,
    restaurant_line,
    stay_line,
    way_line,
)
from certigraph.state.records import Action, Observation
from certigraph.state.run import DecideView, parsed

# The tools' names and forms, and how an action is read as the call of one (TDP appendix A).

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


def travel_mode(text: str) -> str:
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


# The cities and states that the tools know; others are refused with the names that may have been meant.


class Places:
    """The benchmark's set of cities, by name and by state, in any case. Eight names are a city's and a state's."""

    def __init__(self, sandbox: Sandbox) -> None:
        self._cities = {city.lower(): city for city in sandbox.cities()}
        self._of_state: dict[str, list[str]] = defaultdict(list)
        for city in sandbox.cities():
            self._of_state[sandbox.state_of(city) or ""].append(city)
        self._states = {state.lower(): state for state in self._of_state}

    def city(self, text: str) -> str:
        """A city as the data write it.

        Raises:
            RefusedError: there is none of that name.
        """
        if found := self._cities.get(text.lower()):
            return found
        if state := self._states.get(text.lower()):
            raise RefusedError(f"{state} is a state; {CITIES}[{state}] names its cities.")
        raise _unknown(text, "city", list(self._cities.values()))

    def state(self, text: str) -> str:
        """A state as the data write it. Raises RefusedError as `city` does."""
        if found := self._states.get(text.lower()):
            return found
        if city := self._cities.get(text.lower()):
            states = (state for state, cities in self._of_state.items() if city in cities)
            raise RefusedError(f"{city} is a city of {next(states)}; name a state.")
        raise _unknown(text, "state", list(self._of_state))

    def cities_of(self, state: str) -> Sequence[str]:
        """The cities of a state, in the data's order."""
        return self._of_state.get(state, ())


def _unknown(text: str, what: str, names: Sequence[str]) -> RefusedError:
    found = ", ".join(near(text, names))
    meant = f"near it are {found}" if found else f"{len(names)} are known, for example {', '.join(names[:3])}"
    return RefusedError(f"No {what} is named {text[:60]!r}; {meant}.")


# Whether a leg has flights: what is known, what is known to be none, and what a cut table leaves open.

MOST_KNOWN = 20
"""Dates or cities that are named beside a leg that is not in the data."""


class KnownFlights:
    """Which legs a flight table tells about.

    A whole table tells about all. A cut one tells about the legs that the queries' reference information lists, with or
    without flights, and about those that it has rows of; of others it must not be said that they have no flight.

    What it names beside such a leg, without which nobody would come upon the few that it holds, gives away cities of
    the queries' reference information: with a cut table figures do not compare with those of the whole one.
    """

    def __init__(self, sandbox: Sandbox, listed: Iterable[ListedLeg], *, whole: bool) -> None:
        self._sandbox, self._whole = sandbox, whole
        self._listed = sorted(set(listed))
        self._legs = {leg[:3] for leg in self._listed}

    def tells(self, origin: str, destination: str, date: str) -> bool:
        """Whether a leg that the table has no row of is known to have no flight."""
        return self._whole or (origin, destination, date) in self._legs

    def missing(self, origin: str, destination: str, date: str) -> str:
        """What to say of a leg that the table does not tell about: that it is not in the data, and what is."""
        there, way = f"Not in the data: flights from {origin} to {destination} on {date}.", f"{origin} to {destination}"
        if dates := self._dates(origin, destination):
            return f"{there} Known of {way}: {_some(dates)}."
        from_there = [f"{leg.destination} ({_word(leg)})" for leg in self._listed if leg[::2] == (origin, date)]
        found = _some(list(dict.fromkeys(from_there))) or "nothing"
        return f"{there} Known from {origin} on that day: {found}."

    def _dates(self, origin: str, destination: str) -> list[str]:
        flown = {row.date: "flights" for row in self._sandbox.flights(origin, destination)}
        legs = [leg for leg in self._listed if leg[:2] == (origin, destination)]
        known = {**{leg.date: _word(leg) for leg in legs}, **flown}
        return [f"{date} ({known[date]})" for date in sorted(known)]


def _word(leg: ListedLeg) -> str:
    return "flights" if leg.has_flights else "none"


def _some(found: Sequence[str]) -> str:
    more = f", and {len(found) - MOST_KNOWN} more" if len(found) > MOST_KNOWN else ""
    return ", ".join(found[:MOST_KNOWN]) + more


# The six tools that read: what they answer depends on nothing but their arguments, so they go in any order.

MOST = 40
"""Rows of one answer."""

WHOLE_TABLE = "clean_Flights_2022.csv"

CHEAPEST = ", cheapest first"


class Lookups:
    """Answers over one database, for any number of worlds at the same time."""

    def __init__(self, sandbox: Sandbox, known: KnownFlights) -> None:
        self._sandbox, self._known = sandbox, known
        self._places = Places(sandbox)
        self._tools: Mapping[str, Callable[..., Observation]] = {
            FLIGHTS: self._flights,
            DISTANCE: self._roads,
            STAYS: self._stays,
            RESTAURANTS: self._restaurants,
            ATTRACTIONS: self._attractions,
            CITIES: self._cities,
        }

    def answer(self, call: Call) -> Observation:
        """The answer to a call of one of the six. Raises RefusedError where an argument names nothing."""
        return self._tools[call.tool](*call.values)

    def _flights(self, first: str, second: str, when: str) -> Observation:
        origin, destination, date = self._places.city(first), self._places.city(second), day(when)
        rows = [way for way in self._ways(origin, destination, date) if way.kind == "flight"]
        if not rows and not self._known.tells(origin, destination, date):
            return _not_known(self._known.missing(origin, destination, date))
        none = f"There is no flight from {origin} to {destination} on {date}."
        return _told(f"Flights from {origin} to {destination} on {date}{CHEAPEST}", map(way_line, rows), none)

    def _roads(self, first: str, second: str, how: str) -> Observation:
        origin, destination, mode = self._places.city(first), self._places.city(second), travel_mode(how)
        rows = [way for way in self._ways(origin, destination, "") if way.kind == mode]
        road = self._sandbox.distance(origin, destination)
        if not rows and not (road and "day" in road.duration):
            return _not_known(f"Not in the data: the road from {origin} to {destination}.")
        none = f"No {mode} goes from {origin} to {destination} within a day."
        return _told(f"{mode.capitalize()} from {origin} to {destination}", map(way_line, rows), none)

    def _stays(self, name: str) -> Observation:
        city = self._places.city(name)
        rows = sorted(self._sandbox.accommodations(city), key=lambda row: row.price)
        return _listing("Places to stay", city, map(stay_line, rows), order=CHEAPEST)

    def _restaurants(self, name: str) -> Observation:
        city = self._places.city(name)
        rows = sorted(self._sandbox.restaurants(city), key=lambda row: row.cost)
        return _listing("Restaurants", city, map(restaurant_line, rows), order=CHEAPEST)

    def _attractions(self, name: str) -> Observation:
        city = self._places.city(name)
        return _listing("Attractions", city, (one_line(row.name) for row in self._sandbox.attractions(city)))

    def _cities(self, name: str) -> Observation:
        state = self._places.state(name)
        return _listing("Cities", state, self._places.cities_of(state))

    def _ways(self, origin: str, destination: str, date: str) -> list[Option]:
        return sorted(transports(Leg(1, origin, destination, date), 1, self._sandbox), key=lambda way: way.cost)


def lookups_in(database: Path, sandbox: Sandbox, listed: Iterable[ListedLeg]) -> Lookups:
    """The tools over a database folder; its flight table is whole where it has the official name.

    Args:
        database: the folder.
        sandbox: what it holds.
        listed: the legs that the reference information of the queries tells about.
    """
    whole = find_sources(database).flights.name.removesuffix(".gz") == WHOLE_TABLE
    return Lookups(sandbox, KnownFlights(sandbox, listed, whole=whole))


def _listing(what: str, place: str, rows: Iterable[str], order: str = "") -> Observation:
    return _told(f"{what} in {place}{order}", rows, f"{what} in {place}: there are none.")


def _told(head: str, rows: Iterable[str], none: str) -> Observation:
    lines = [f"- {row}" for row in rows]
    if not lines:
        return Observation(text=none, data={"rows": 0})
    more = [f"({len(lines) - MOST} more are left out)"] if len(lines) > MOST else []
    return Observation(text="\n".join([f"{head}:", *lines[:MOST], *more]), data={"rows": len(lines)})


def _not_known(text: str) -> Observation:
    """What the data do not tell is no answer of no: a cut table has few flights, the distances a part of all pairs."""
    return Observation(text=text, data={"rows": 0, "known": False})


# Decide and Execute with TravelPlanner's tools, and MakePlan, which is a model's work and no tool of the world.

MOST_TASK, MOST_ADVICE, MOST_EARLIER, MOST_ANSWER, MOST_VIEW = 1_500, 1_300, 1_200, 4_300, 2_500
"""Characters of the parts of a prompt: one stays under 12,000, and the latest answer is read whole where it can be."""

MOST_REQUEST, MOST_NOTES = 2_500, 7_000
"""The same of the prompt that asks for the plan."""

MOST_THOUGHT, MOST_WRITTEN = 160, 1_500
"""Characters of a thought, and of what one call may write to the notebook."""

MOST_SHOWN = 160
"""Characters of a call that later turns show."""


class Move(BaseModel):
    """The model's answer: a thought, a tool, and what the tool is given."""

    # The lengths bind a model under a grammar alone: of others what is too long is cut, for a refusal costs a call.
    thought: str = Field(json_schema_extra={"maxLength": MOST_THOUGHT})
    tool: Literal[
        "FlightSearch",
        "GoogleDistanceMatrix",
        "AccommodationSearch",
        "RestaurantSearch",
        "AttractionSearch",
        "CitySearch",
        "NotebookWrite",
        "MakePlan",
    ]
    text: str = Field(min_length=1, json_schema_extra={"maxLength": MOST_WRITTEN})


async def decide(state: DecideView, runtime: Runtime[Context]) -> dict[str, Any]:
    """Ask the model for a thought and a tool; where that is MakePlan, ask again, for the plan, and hand it in."""
    move = await ask(prompt(runtime, _question(state)), Move, role="executor", runtime=runtime)
    text = clipped(TAG.sub(" ", move.text).strip(), MOST_WRITTEN)
    action = await _plan_made(state, text, runtime) if move.tool == MAKE_PLAN else tool_used(move.tool, text)
    return {"thought": clipped(unquoted(move.thought), MOST_THOUGHT), "action": action}


def tool_operators() -> Mapping[str, Operator]:
    """The operators by slot: the agent of a whole task and that of a sub-task act alike, each on its assignment."""
    return {"decide": decide, "execute": decide}


def tool_used(tool: str, text: str) -> Action:
    """The call of a tool; a long note stands in its arguments, and its beginning in its text."""
    return Action(text=f"{tool}[{clipped(unquoted(text), MOST_SHOWN)}]", kind=tool, args={"query": text})


async def _plan_made(state: DecideView, request: str, runtime: Runtime[Context]) -> Action:
    """MakePlan: of all that was looked up, its prompt has what stands in the notebook and nothing else."""
    asked = clipped(f"{state['assignment']}\n{request}", MOST_REQUEST)
    system = RULES.format(reference=quoted(state["evidence"].view, MOST_NOTES))
    plan = await ask_text(Prompt(system, ASK_PLAN.format(request=asked)), role="planner", runtime=runtime)
    return Action(text=clipped(f"{DELIVER} {plan}", MOST_PLAN), kind=DELIVER, args={"plan": plan})


def _question(state: DecideView) -> str:
    turns, belief = state["turns"], state["belief"].text.splitlines()
    earlier = shown(turns[:-1], characters=80, within=MOST_EARLIER) if turns[1:] else "(none)"
    return QUESTION.format(
        assignment=clipped(state["assignment"], MOST_TASK),
        advice=_advice([*state["advice"], *belief]),
        earlier=quoted(earlier, MOST_EARLIER),
        latest=quoted(shown(turns[-1:], characters=MOST_ANSWER), MOST_ANSWER),
        notes=quoted(state["evidence"].view, MOST_VIEW),
    )


def _advice(told: Sequence[str]) -> str:
    """Each gets an equal part of the room, for the latest guidance comes last."""
    each = MOST_ADVICE // max(len(told), 1)
    return clipped(bullet_list(clipped(text, max(each, 40)) for text in told), MOST_ADVICE)


QUESTION = """\
Assignment: {assignment}

To keep in mind:
{advice}

Earlier calls:
{earlier}

The latest call and its answer:
{latest}

The notebook:
{notes}

Think in one short sentence, then call one tool. Write down what the plan needs before you look up something else, for
an answer is shown in full only once. Look up nothing twice.
"""

PLAN_ASKED = "Write the whole plan now from what the notebook says, which is the reference information above"

ASK_PLAN = f"""\
Request: {{request}}

{PLAN_ASKED}: the JSON array and nothing else.
"""

BRIEFING = """\
You plan a trip with tools. Each call is a tool and its text:
FlightSearch: "CITY, CITY, 2022-03-15", the flights of a leg on a day.
GoogleDistanceMatrix: "CITY, CITY, MODE", how far it is and what it costs; the mode is self-driving or taxi.
AccommodationSearch, RestaurantSearch, AttractionSearch: "CITY", what the city has.
CitySearch: "STATE", the cities of a state.
NotebookWrite: what to keep: for the plan, copy whole lines with names, cities, days and prices.
MakePlan: the request in your words. It has the plan written from the request and the notebook alone, hands it in, and
so ends the task; call it once, when the notebook has the transport of every leg, a place to stay in every city,
restaurants for all meals, none twice, and an attraction for every day."""
