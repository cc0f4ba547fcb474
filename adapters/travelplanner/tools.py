"""TravelPlanner's tools (TDP appendix A): their call format, the look-ups, and the operators that use them."""

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

# Tool names and formats, and parsing an action as a tool call.

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
"""Tools that the world answers, with their arguments. `MakePlan` is not one of them: a model makes the plan."""

TOOLS = (*FORMS, MAKE_PLAN)

DATE = "2022-03-15"
"""Example of the date format."""

MODES = ("self-driving", "taxi")
"""Modes of `GoogleDistanceMatrix`."""

NEAR = 5
"""Maximum number of similar names that are suggested for an unknown one."""


class RefusedError(ValueError):
    """An action is not a valid tool call, or its arguments are unknown; the message shows the correct form."""


class Call(NamedTuple):
    """Tool name and arguments."""

    tool: str
    values: tuple[str, ...]


def called(action: Action) -> Call:
    """Parse an action as a tool call, typed or written as `Tool[A, B]`; tool names are case-insensitive.

    Raises:
        RefusedError: the action names no tool, or has the wrong number of arguments.
    """
    parsed_action = parsed(action)
    tool = _named(parsed_action.kind) if parsed_action else None
    if parsed_action is None or tool is None:
        known = ", ".join(map(form, FORMS))
        raise RefusedError(f"{action.text[:100]!r} is no action here; write one of {known}, or {DELIVER}[PLAN].")
    text = str(parsed_action.args.get("query") or "").strip()
    values = (text,) if tool == WRITE else tuple(value.strip(" \"'") for value in text.split(","))
    if len(values) != len(FORMS[tool]) or not all(values):
        count = len([value for value in values if value])
        dated = f", the date as {DATE}" if tool == FLIGHTS else ""
        raise RefusedError(f"{tool} takes {len(FORMS[tool])} and was given {count}: write {form(tool)}{dated}.")
    return Call(tool, values)


def form(tool: str) -> str:
    """Format the call of a tool: `FlightSearch[City, City, Date]`."""
    return f"{tool}[{', '.join(FORMS[tool])}]"


def day(text: str) -> str:
    """Parse an ISO date.

    Raises:
        RefusedError: the text is not a date.
    """
    try:
        return date.fromisoformat(text).isoformat()
    except ValueError as error:
        raise RefusedError(f"{text[:60]!r} is no date; write it as {DATE}.") from error


def travel_mode(text: str) -> str:
    """Parse one of `MODES`.

    Raises:
        RefusedError: the text is not a mode.
    """
    if text.lower() not in MODES:
        raise RefusedError(f"{text[:60]!r} is no mode; write one of {', '.join(MODES)}.")
    return text.lower()


def near(text: str, names: Iterable[str]) -> list[str]:
    """Return the names most similar to a text, the closest first; case is ignored."""
    by_case = {name.lower(): name for name in names}
    return [by_case[match] for match in get_close_matches(text.lower(), by_case, n=NEAR)]


def _named(kind: str) -> str | None:
    return next((tool for tool in FORMS if tool.lower() == kind.lower()), None)


# Cities and states that the tools know; unknown names are rejected with similar ones.


class Places:
    """Cities of the benchmark by name and by state, case-insensitive. Eight names are both a city and a state."""

    def __init__(self, sandbox: Sandbox) -> None:
        self._cities = {city.lower(): city for city in sandbox.cities()}
        self._of_state: dict[str, list[str]] = defaultdict(list)
        for city in sandbox.cities():
            self._of_state[sandbox.state_of(city) or ""].append(city)
        self._states = {state.lower(): state for state in self._of_state}

    def city(self, text: str) -> str:
        """Return a city as the data writes it.

        Raises:
            RefusedError: there is no city of that name.
        """
        if city := self._cities.get(text.lower()):
            return city
        if state := self._states.get(text.lower()):
            raise RefusedError(f"{state} is a state; {CITIES}[{state}] names its cities.")
        raise _unknown(text, "city", list(self._cities.values()))

    def state(self, text: str) -> str:
        """Return a state as the data writes it.

        Raises:
            RefusedError: there is no state of that name.
        """
        if match := self._states.get(text.lower()):
            return match
        if city := self._cities.get(text.lower()):
            states = (state for state, cities in self._of_state.items() if city in cities)
            raise RefusedError(f"{city} is a city of {next(states)}; name a state.")
        raise _unknown(text, "state", list(self._of_state))

    def cities_of(self, state: str) -> Sequence[str]:
        """Return the cities of a state, in the data's order."""
        return self._of_state.get(state, ())


def _unknown(text: str, kind: str, names: Sequence[str]) -> RefusedError:
    similar = ", ".join(near(text, names))
    hint = f"near it are {similar}" if similar else f"{len(names)} are known, for example {', '.join(names[:3])}"
    return RefusedError(f"No {kind} is named {text[:60]!r}; {hint}.")


# Flights of a leg: known to exist, known not to exist, or unknown because the table is a subset.

MOST_KNOWN = 20
"""Maximum number of dates or cities that are listed for a leg that is not in the data."""


class KnownFlights:
    """Legs whose flights are known from a flight table.

    A complete table covers all legs. A subset covers the legs that the queries' reference information lists, with or
    without flights, and those that it has rows of; whether any other leg has flights is unknown.

    For an unknown leg it lists known dates or cities, because otherwise agents could not discover the legs in the data.
    This reveals cities of the queries' reference information, so rates from a subset are not comparable with those from
    the complete table.
    """

    def __init__(self, sandbox: Sandbox, listed: Iterable[ListedLeg], *, complete: bool) -> None:
        self._sandbox, self._complete = sandbox, complete
        self._listed = sorted(set(listed))
        self._legs = {leg[:3] for leg in self._listed}

    def covers(self, origin: str, destination: str, date: str) -> bool:
        """Tell whether a leg without a row in the table is known to have no flight."""
        return self._complete or (origin, destination, date) in self._legs

    def describe_unknown(self, origin: str, destination: str, date: str) -> str:
        """Return the message for an unknown leg: it is not in the data, and what is known instead."""
        route = f"{origin} to {destination}"
        head = f"Not in the data: flights from {route} on {date}."
        if dates := self._dates(origin, destination):
            return f"{head} Known of {route}: {_some(dates)}."
        destinations = [f"{leg.destination} ({_word(leg)})" for leg in self._listed if leg[::2] == (origin, date)]
        known = _some(list(dict.fromkeys(destinations))) or "nothing"
        return f"{head} Known from {origin} on that day: {known}."

    def _dates(self, origin: str, destination: str) -> list[str]:
        flown = {row.date: "flights" for row in self._sandbox.flights(origin, destination)}
        legs = [leg for leg in self._listed if leg[:2] == (origin, destination)]
        known = {**{leg.date: _word(leg) for leg in legs}, **flown}
        return [f"{date} ({known[date]})" for date in sorted(known)]


def _word(leg: ListedLeg) -> str:
    return "flights" if leg.has_flights else "none"


def _some(items: Sequence[str]) -> str:
    more = f", and {len(items) - MOST_KNOWN} more" if len(items) > MOST_KNOWN else ""
    return ", ".join(items[:MOST_KNOWN]) + more


# The six look-up tools. Their answers depend only on their arguments, so the order of calls does not matter.

MOST = 40
"""Maximum number of rows of one answer."""

WHOLE_TABLE = "clean_Flights_2022.csv"
"""Name of the official flight table, which is complete; subsets have other names."""

CHEAPEST = ", cheapest first"


class Lookups:
    """Look-up tools over one database; any number of worlds may share them."""

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
        """Answer a call of one of the six look-up tools.

        Raises:
            RefusedError: an argument is unknown.
        """
        return self._tools[call.tool](*call.values)

    def _flights(self, first: str, second: str, when: str) -> Observation:
        origin, destination, date = self._places.city(first), self._places.city(second), day(when)
        rows = [way for way in self._ways(origin, destination, date) if way.kind == "flight"]
        if not rows and not self._known.covers(origin, destination, date):
            return _not_known(self._known.describe_unknown(origin, destination, date))
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
    """Create the look-up tools of a database folder; a flight table with the official name counts as complete.

    Args:
        database: Database folder.
        sandbox: Data of this folder.
        listed: Legs that the reference information of the queries lists.
    """
    complete = find_sources(database).flights.name.removesuffix(".gz") == WHOLE_TABLE
    return Lookups(sandbox, KnownFlights(sandbox, listed, complete=complete))


def _listing(label: str, place: str, rows: Iterable[str], order: str = "") -> Observation:
    return _told(f"{label} in {place}{order}", rows, f"{label} in {place}: there are none.")


def _told(head: str, rows: Iterable[str], none: str) -> Observation:
    lines = [f"- {row}" for row in rows]
    if not lines:
        return Observation(text=none, data={"rows": 0})
    more = [f"({len(lines) - MOST} more are left out)"] if len(lines) > MOST else []
    return Observation(text="\n".join([f"{head}:", *lines[:MOST], *more]), data={"rows": len(lines)})


def _not_known(text: str) -> Observation:
    # Missing rows do not mean "no": a subset has few flights, and the distances do not cover all pairs of cities.
    return Observation(text=text, data={"rows": 0, "known": False})


# Decide and Execute with the tools. `MakePlan` is done by a model, not by the world.

MOST_TASK, MOST_ADVICE, MOST_EARLIER, MOST_ANSWER, MOST_VIEW = 1_500, 1_300, 1_200, 4_300, 2_500
"""Maximum number of characters of each part of a prompt, together under 12,000; the latest answer gets the most."""

MOST_REQUEST, MOST_NOTES = 2_500, 7_000
"""Maximum number of characters of the parts of the prompt for the plan."""

MOST_THOUGHT, MOST_WRITTEN = 160, 1_500
"""Maximum number of characters of a thought, and of the text of one call."""

MOST_SHOWN = 160
"""Maximum number of characters of a call that later turns show."""


class Move(BaseModel):
    """The model's answer: a thought, a tool, and what the tool is given."""

    # maxLength only constrains a grammar. Longer replies of other models are cut, because a repair costs another call.
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
    """Ask the model for a thought and a tool call; for `MakePlan`, ask again for the plan and deliver it."""
    move = await ask(prompt(runtime, _question(state)), Move, role="executor", runtime=runtime)
    text = clipped(TAG.sub(" ", move.text).strip(), MOST_WRITTEN)
    action = await _plan_made(state, text, runtime) if move.tool == MAKE_PLAN else tool_used(move.tool, text)
    return {"thought": clipped(unquoted(move.thought), MOST_THOUGHT), "action": action}


def tool_operators() -> Mapping[str, Operator]:
    """Return the operators by slot: an agent for a task and one for a sub-task act alike, each on its assignment."""
    return {"decide": decide, "execute": decide}


def tool_used(tool: str, text: str) -> Action:
    """Create the action of a tool call; its arguments hold the complete text, its label is shortened."""
    return Action(text=f"{tool}[{clipped(unquoted(text), MOST_SHOWN)}]", kind=tool, args={"query": text})


async def _plan_made(state: DecideView, request: str, runtime: Runtime[Context]) -> Action:
    # Of everything that was looked up, the prompt contains only the notebook.
    text = clipped(f"{state['assignment']}\n{request}", MOST_REQUEST)
    system = RULES.format(reference=quoted(state["evidence"].view, MOST_NOTES))
    plan = await ask_text(Prompt(system, ASK_PLAN.format(request=text)), role="planner", runtime=runtime)
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


def _advice(lines: Sequence[str]) -> str:
    # Every line gets an equal share of the characters, because the latest guidance comes last.
    limit = MOST_ADVICE // max(len(lines), 1)
    return clipped(bullet_list(clipped(text, max(limit, 40)) for text in lines), MOST_ADVICE)


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
