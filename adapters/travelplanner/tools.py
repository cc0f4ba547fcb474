"""TravelPlanner's tools (TDP, appendix A): their call format, the look-ups, and the operators that use them."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Literal, NamedTuple

from langgraph.runtime import Runtime
from pydantic import BaseModel, Field

from certigraph.adapters.models.calls import ask, ask_text
from certigraph.adapters.models.prompts import (
    WORLD_TAG,
    Prompt,
    build_prompt,
    bullet_list,
    clip,
    format_turns,
    quote,
    unquote_line,
)
from certigraph.adapters.protocols import Context, Operator
from certigraph.adapters.travelplanner.options import Option, TripLeg, escape_line_breaks, list_transports
from certigraph.adapters.travelplanner.queries import ListedLeg
from certigraph.adapters.travelplanner.sandbox import Sandbox, find_sources
from certigraph.adapters.travelplanner.written_plans import (
    DELIVER,
    MAX_PLAN_CHARS,
    RULES,
    format_accommodation,
    format_restaurant,
    format_transport,
)
from certigraph.state.records import Action, Observation
from certigraph.state.run import DecideView, parse_action

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

MAX_SUGGESTIONS = 5
"""Maximum number of similar names that are suggested for an unknown one."""


class RefusedError(ValueError):
    """An action is not a valid tool call, or its arguments are unknown; the message shows the correct format."""


class TravelToolCall(NamedTuple):
    """Parsed tool call: the name of the tool and its arguments."""

    tool: str
    values: tuple[str, ...]


def parse_call(action: Action) -> TravelToolCall:
    """Parse an action as a tool call, given by its `kind` or in its text as `Tool[A, B]`; case of the tool is ignored.

    Raises:
        RefusedError: the action names no tool, or has the wrong number of arguments.
    """
    parsed_action = parse_action(action)
    tool = _find_tool(parsed_action.kind) if parsed_action else None
    if parsed_action is None or tool is None:
        known = ", ".join(map(format_call, FORMS))
        raise RefusedError(f"{action.text[:100]!r} is no action here; write one of {known}, or {DELIVER}[PLAN].")
    text = str(parsed_action.args.get("query") or "").strip()
    values = (text,) if tool == WRITE else tuple(value.strip(" \"'") for value in text.split(","))
    if len(values) != len(FORMS[tool]) or not all(values):
        count = len([value for value in values if value])
        dated = f", the date as {DATE}" if tool == FLIGHTS else ""
        raise RefusedError(f"{tool} takes {len(FORMS[tool])} and was given {count}: write {format_call(tool)}{dated}.")
    return TravelToolCall(tool, values)


def format_call(tool: str) -> str:
    """Format the call of a tool: `FlightSearch[City, City, Date]`."""
    return f"{tool}[{', '.join(FORMS[tool])}]"


def parse_date(text: str) -> str:
    """Parse an ISO date.

    Raises:
        RefusedError: the text is not a date.
    """
    try:
        return date.fromisoformat(text).isoformat()
    except ValueError as error:
        raise RefusedError(f"{text[:60]!r} is no date; write it as {DATE}.") from error


def parse_mode(text: str) -> str:
    """Parse one of `MODES`.

    Raises:
        RefusedError: the text is not a mode.
    """
    if text.lower() not in MODES:
        raise RefusedError(f"{text[:60]!r} is no mode; write one of {', '.join(MODES)}.")
    return text.lower()


def find_similar(text: str, names: Iterable[str]) -> list[str]:
    """Return the names most similar to a text, the closest first; case is ignored."""
    by_case = {name.lower(): name for name in names}
    return [by_case[match] for match in get_close_matches(text.lower(), by_case, n=MAX_SUGGESTIONS)]


def _find_tool(kind: str) -> str | None:
    return next((tool for tool in FORMS if tool.lower() == kind.lower()), None)


# Cities and states that the tools know; unknown names are rejected with similar ones.


class KnownPlaces:
    """Cities of the database by name and by state, case-insensitive. Some names are both a city and a state."""

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
        raise _unknown_name_error(text, "city", list(self._cities.values()))

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
        raise _unknown_name_error(text, "state", list(self._of_state))

    def cities_of(self, state: str) -> Sequence[str]:
        """Return the cities of a state, in the data's order."""
        return self._of_state.get(state, ())


def _unknown_name_error(text: str, kind: str, names: Sequence[str]) -> RefusedError:
    similar = ", ".join(find_similar(text, names))
    hint = f"near it are {similar}" if similar else f"{len(names)} are known, for example {', '.join(names[:3])}"
    return RefusedError(f"No {kind} is named {text[:60]!r}; {hint}.")


# Flights of a leg: known to exist, known not to exist, or unknown because the table is a subset.

MAX_LISTED = 20
"""Maximum number of dates or cities that are listed for a leg that is not in the data."""


class KnownFlights:
    """Knows of which legs it is certain whether they have flights, as the flight table may be a subset of the official.

    The complete table covers all legs. A subset covers the legs of which it has rows, and those that the queries'
    reference information lists, with or without flights. Whether any other leg has flights is unknown.

    For an unknown leg, `describe_unknown` lists known dates or cities, because otherwise agents could not discover the
    legs in the data. This reveals cities of the queries' reference information, so rates with a subset are not
    comparable with those with the complete table.
    """

    def __init__(self, sandbox: Sandbox, listed: Iterable[ListedLeg], *, complete: bool) -> None:
        self._sandbox, self._complete = sandbox, complete
        self._listed = sorted(set(listed))
        self._legs = {leg[:3] for leg in self._listed}

    def covers(self, origin: str, destination: str, date: str) -> bool:
        """Return whether a leg without a row in the table is known to have no flight."""
        return self._complete or (origin, destination, date) in self._legs

    def describe_unknown(self, origin: str, destination: str, date: str) -> str:
        """Return the message for a leg that is not in the data; it lists the dates or cities that are."""
        route = f"{origin} to {destination}"
        head = f"Not in the data: flights from {route} on {date}."
        if dates := self._dates(origin, destination):
            return f"{head} Known of {route}: {_join_limited(dates)}."
        destinations = [
            f"{leg.destination} ({_format_availability(leg)})" for leg in self._listed if leg[::2] == (origin, date)
        ]
        known = _join_limited(list(dict.fromkeys(destinations))) or "nothing"
        return f"{head} Known from {origin} on that day: {known}."

    def _dates(self, origin: str, destination: str) -> list[str]:
        flown = {row.date: "flights" for row in self._sandbox.flights(origin, destination)}
        legs = [leg for leg in self._listed if leg[:2] == (origin, destination)]
        known = {**{leg.date: _format_availability(leg) for leg in legs}, **flown}
        return [f"{date} ({known[date]})" for date in sorted(known)]


def _format_availability(leg: ListedLeg) -> str:
    return "flights" if leg.has_flights else "none"


def _join_limited(items: Sequence[str]) -> str:
    more = f", and {len(items) - MAX_LISTED} more" if len(items) > MAX_LISTED else ""
    return ", ".join(items[:MAX_LISTED]) + more


# The six look-up tools. Their answers depend only on their arguments, so the order of calls does not matter.

MAX_ROWS = 40
"""Maximum number of rows of one answer."""

COMPLETE_TABLE = "clean_Flights_2022.csv"
"""Name of the official flight table, which is complete; subsets have other names."""

CHEAPEST = ", cheapest first"


class Lookups:
    """The six look-up tools over one database; any number of worlds may share them."""

    def __init__(self, sandbox: Sandbox, known: KnownFlights) -> None:
        self._sandbox, self._known = sandbox, known
        self._places = KnownPlaces(sandbox)
        self._tools: Mapping[str, Callable[..., Observation]] = {
            FLIGHTS: self._flights,
            DISTANCE: self._roads,
            STAYS: self._stays,
            RESTAURANTS: self._restaurants,
            ATTRACTIONS: self._attractions,
            CITIES: self._cities,
        }

    def answer(self, call: TravelToolCall) -> Observation:
        """Answer a call of one of the six look-up tools.

        Raises:
            RefusedError: an argument is unknown.
        """
        return self._tools[call.tool](*call.values)

    def _flights(self, first: str, second: str, when: str) -> Observation:
        origin, destination, date = self._places.city(first), self._places.city(second), parse_date(when)
        rows = [way for way in self._ways(origin, destination, date) if way.kind == "flight"]
        if not rows and not self._known.covers(origin, destination, date):
            return _unknown_observation(self._known.describe_unknown(origin, destination, date))
        none = f"There is no flight from {origin} to {destination} on {date}."
        return _list_rows(
            f"Flights from {origin} to {destination} on {date}{CHEAPEST}", map(format_transport, rows), none
        )

    def _roads(self, first: str, second: str, how: str) -> Observation:
        origin, destination, mode = self._places.city(first), self._places.city(second), parse_mode(how)
        rows = [way for way in self._ways(origin, destination, "") if way.kind == mode]
        road = self._sandbox.distance(origin, destination)
        if not rows and not (road and "day" in road.duration):
            return _unknown_observation(f"Not in the data: the road from {origin} to {destination}.")
        none = f"No {mode} goes from {origin} to {destination} within a day."
        return _list_rows(f"{mode.capitalize()} from {origin} to {destination}", map(format_transport, rows), none)

    def _stays(self, name: str) -> Observation:
        city = self._places.city(name)
        rows = sorted(self._sandbox.accommodations(city), key=lambda row: row.price)
        return _list_place("Places to stay", city, map(format_accommodation, rows), order=CHEAPEST)

    def _restaurants(self, name: str) -> Observation:
        city = self._places.city(name)
        rows = sorted(self._sandbox.restaurants(city), key=lambda row: row.cost)
        return _list_place("Restaurants", city, map(format_restaurant, rows), order=CHEAPEST)

    def _attractions(self, name: str) -> Observation:
        city = self._places.city(name)
        return _list_place(
            "Attractions", city, (escape_line_breaks(row.name) for row in self._sandbox.attractions(city))
        )

    def _cities(self, name: str) -> Observation:
        state = self._places.state(name)
        return _list_place("Cities", state, self._places.cities_of(state))

    def _ways(self, origin: str, destination: str, date: str) -> list[Option]:
        return sorted(
            list_transports(TripLeg(1, origin, destination, date), 1, self._sandbox), key=lambda way: way.cost
        )


def create_lookups(database: Path, sandbox: Sandbox, listed: Iterable[ListedLeg]) -> Lookups:
    """Create the look-up tools for a database folder; a flight table with the official name counts as complete.

    Args:
        database: Database folder.
        sandbox: Data of this folder.
        listed: Legs that the reference information of the queries lists.
    """
    complete = find_sources(database).flights.name.removesuffix(".gz") == COMPLETE_TABLE
    return Lookups(sandbox, KnownFlights(sandbox, listed, complete=complete))


def _list_place(label: str, place: str, rows: Iterable[str], order: str = "") -> Observation:
    return _list_rows(f"{label} in {place}{order}", rows, f"{label} in {place}: there are none.")


def _list_rows(head: str, rows: Iterable[str], none: str) -> Observation:
    lines = [f"- {row}" for row in rows]
    if not lines:
        return Observation(text=none, data={"rows": 0})
    more = [f"({len(lines) - MAX_ROWS} more are left out)"] if len(lines) > MAX_ROWS else []
    return Observation(text="\n".join([f"{head}:", *lines[:MAX_ROWS], *more]), data={"rows": len(lines)})


def _unknown_observation(text: str) -> Observation:
    # Missing rows do not mean "no": a subset has few flights, and the distances do not cover all pairs of cities.
    return Observation(text=text, data={"rows": 0, "known": False})


# Decide and Execute with the tools. `MakePlan` is done by a model, not by the world.

MAX_TASK_CHARS, MAX_ADVICE_CHARS, MAX_EARLIER_CHARS, MAX_ANSWER_CHARS, MAX_VIEW_CHARS = (
    1_500,
    1_300,
    1_200,
    4_300,
    2_500,
)
"""Maximum number of characters of each part of a prompt, together under 12,000; the latest answer gets the most."""

MAX_REQUEST_CHARS, MAX_NOTES_CHARS = 2_500, 7_000
"""Maximum number of characters of the parts of the prompt for the plan."""

MAX_THOUGHT_CHARS, MAX_WRITTEN_CHARS = 160, 1_500
"""Maximum number of characters of a thought, and of the text of one call."""

MAX_SHOWN_CHARS = 160
"""Maximum number of characters of a call that later turns show."""


class TravelPlannerMove(BaseModel):
    """The model's answer: a thought, a tool, and what the tool is given."""

    # maxLength only constrains a grammar. Longer replies of other models are cut, because a repair costs another call.
    thought: str = Field(json_schema_extra={"maxLength": MAX_THOUGHT_CHARS})
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
    text: str = Field(min_length=1, json_schema_extra={"maxLength": MAX_WRITTEN_CHARS})


async def decide(state: DecideView, runtime: Runtime[Context]) -> dict[str, Any]:
    """Ask the model for a thought and a tool call; for `MakePlan`, ask again for the plan and deliver it."""
    move = await ask(
        build_prompt(runtime, _format_question(state)), TravelPlannerMove, role="executor", runtime=runtime
    )
    text = clip(WORLD_TAG.sub(" ", move.text).strip(), MAX_WRITTEN_CHARS)
    action = await _make_plan(state, text, runtime) if move.tool == MAKE_PLAN else create_tool_action(move.tool, text)
    return {"thought": clip(unquote_line(move.thought), MAX_THOUGHT_CHARS), "action": action}


def create_tool_operators() -> Mapping[str, Operator]:
    """Return the operators `decide` (agent with a task) and `execute` (agent with a sub-task), which work alike."""
    return {"decide": decide, "execute": decide}


def create_tool_action(tool: str, text: str) -> Action:
    """Create the action of a tool call; `args["query"]` has the complete text of the call, the action's text is cut."""
    return Action(text=f"{tool}[{clip(unquote_line(text), MAX_SHOWN_CHARS)}]", kind=tool, args={"query": text})


async def _make_plan(state: DecideView, request: str, runtime: Runtime[Context]) -> Action:
    # Of everything that was looked up, the prompt contains only the notebook.
    text = clip(f"{state['assignment']}\n{request}", MAX_REQUEST_CHARS)
    notes = clip(state["evidence"].view, MAX_NOTES_CHARS)
    prompt = Prompt(RULES.format(reference=quote(notes, MAX_NOTES_CHARS)), ASK_PLAN.format(request=text))
    plan = await ask_text(prompt, role="planner", runtime=runtime, about={"notes": notes})
    return Action(text=clip(f"{DELIVER} {plan}", MAX_PLAN_CHARS), kind=DELIVER, args={"plan": plan})


def _format_question(state: DecideView) -> str:
    turns, belief = state["turns"], state["belief"].text.splitlines()
    earlier = format_turns(turns[:-1], characters=80, within=MAX_EARLIER_CHARS) if turns[1:] else "(none)"
    return QUESTION.format(
        assignment=clip(state["assignment"], MAX_TASK_CHARS),
        advice=_format_advice([*state["advice"], *belief]),
        earlier=quote(earlier, MAX_EARLIER_CHARS),
        latest=quote(format_turns(turns[-1:], characters=MAX_ANSWER_CHARS), MAX_ANSWER_CHARS),
        notes=quote(state["evidence"].view, MAX_VIEW_CHARS),
    )


def _format_advice(lines: Sequence[str]) -> str:
    # Every line gets an equal share of the characters, because the latest guidance comes last.
    limit = MAX_ADVICE_CHARS // max(len(lines), 1)
    return clip(bullet_list(clip(text, max(limit, 40)) for text in lines), MAX_ADVICE_CHARS)


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

ASK_PLAN = """\
Request: {request}

Write the whole plan now from what the notebook says, which is the reference information above: the JSON array and \
nothing else.
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
