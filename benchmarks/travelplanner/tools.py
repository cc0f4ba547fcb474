"""TravelPlanner's tools (TDP, appendix A): their call format, the look-ups, and the operators that use them."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

from langgraph.runtime import Runtime
from pydantic import BaseModel, Field

from certigraph.adapters.benchmarks import context_of, limits_of
from certigraph.adapters.episodes import rehearse
from certigraph.adapters.models.calls import ask, ask_text, profile_of
from certigraph.adapters.models.delimiters import WORLD_TAG
from certigraph.adapters.models.profiles import ModelProfile
from certigraph.adapters.models.prompts import (
    Prompt,
    build_prompt,
    bullet_list,
    format_history,
    paragraphs,
    quote,
    quote_history,
    unquote_line,
)
from certigraph.adapters.models.schemas import Reasoning
from certigraph.adapters.protocols import Context, Operator
from certigraph.benchmarks.travelplanner.options import Option, TripLeg, escape_line_breaks, list_transports
from certigraph.benchmarks.travelplanner.queries import ListedLeg
from certigraph.benchmarks.travelplanner.sandbox import Sandbox, find_sources
from certigraph.benchmarks.travelplanner.trips import TravelTrips
from certigraph.benchmarks.travelplanner.written_plans import (
    DELIVER,
    RULES,
    format_accommodation,
    format_restaurant,
    format_transport,
)
from certigraph.state.records import Action, Observation
from certigraph.state.run import DecideView, Turn, parse_action

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

RECORDS = "tool records"
"""Text of the action by which `MakePlan` gets every call of a look-up tool with its answer; agents cannot take it."""

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
        raise RefusedError(f"{action.text[:100]!r} is not an action here; write one of {known}, or {DELIVER}[PLAN].")
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
        raise RefusedError(f"{text[:60]!r} is not a date; write it as {DATE}.") from error


def parse_mode(text: str) -> str:
    """Parse one of `MODES`.

    Raises:
        RefusedError: the text is not a mode.
    """
    if text.lower() not in MODES:
        raise RefusedError(f"{text[:60]!r} is not a mode; write one of {', '.join(MODES)}.")
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
    return Observation(text="\n".join([f"{head}:", *lines]), data={"rows": len(lines)})


def _unknown_observation(text: str) -> Observation:
    # Missing rows do not mean "no": a subset has few flights, and the distances do not cover all pairs of cities.
    return Observation(text=text, data={"rows": 0, "known": False})


# Decide and Execute with the tools. `MakePlan` is done by a model, not by the world.


class TravelPlannerMove(BaseModel):
    """The model's answer: a thought, a tool, and what the tool is given."""

    thought: Reasoning
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
    text: Annotated[str, Field(min_length=1)]


def create_tool_operators(benchmark: TravelTrips) -> Mapping[str, Operator]:
    """Return the operators `decide` (agent with a task) and `execute` (agent with a sub-task), which work alike.

    They ask the model for a thought and a tool call. For `MakePlan` they ask again, for the plan, and deliver it.
    """

    async def decide(state: DecideView, runtime: Runtime[Context]) -> dict[str, Any]:
        profile = await profile_of("executor", runtime)
        prompt = _call_prompt(state, profile, runtime)
        move = await ask(prompt, TravelPlannerMove, role="executor", runtime=runtime)
        thought, text = unquote_line(move.thought), WORLD_TAG.sub(" ", move.text).strip()
        if move.tool == MAKE_PLAN:
            return {"thought": thought, "action": await _make_plan(state, text, benchmark, runtime)}
        return {"thought": thought, "action": create_tool_action(move.tool, text)}

    return {"decide": decide, "execute": decide}


def create_tool_action(tool: str, text: str) -> Action:
    """Create the action of a tool call; `args["query"]` has the text of the call."""
    return Action(text=f"{tool}[{unquote_line(text)}]", kind=tool, args={"query": text})


async def _make_plan(state: DecideView, request: str, benchmark: TravelTrips, runtime: Runtime[Context]) -> Action:
    profile, notes = await profile_of("planner", runtime), state["evidence"].view
    turns = await _load_records(state, runtime) or state["turns"]
    prompt = _plan_prompt(state, turns, benchmark.query(state["task"]).query, request, profile)
    plan = await ask_text(prompt, role="planner", runtime=runtime, about={"notes": notes})
    return Action(text=f"{DELIVER} {plan}", kind=DELIVER, args={"plan": plan})


async def _load_records(state: DecideView, runtime: Runtime[Context]) -> list[Turn]:
    """Return every call of a look-up tool with its answer, those of earlier sub-tasks included.

    They are read from a copy of the world, because the agent of a sub-task sees its own calls only. Without such a copy
    the result is empty.
    """
    context = context_of(runtime)
    if context.rehearse is None or context.environment is not None:
        return []
    rehearsal = await rehearse([RECORDS], state["task"], runtime)
    records = rehearsal.observation.data.get(RECORDS)
    if not isinstance(records, dict):
        return []
    return [Turn(action=call, observation=str(answer)) for call, answer in records.items()]


# The prompts: everything that the tools returned, as far as the model's window allows.


def _call_prompt(state: DecideView, profile: ModelProfile, runtime: Runtime[Context]) -> Prompt:
    before = paragraphs(QUESTION, f"Assignment: {state['assignment']}")
    notes, known = state["evidence"].view, _format_known(state)
    after = paragraphs(
        f"To keep in mind:\n{known}" if known else "",
        f"{NOTEBOOK_HEADING}\n{quote(notes, len(notes))}",
        f"Calls used: {state['steps']} of at most {limits_of(state['task'], runtime).steps}.",
        QUESTION_CLOSING,
    )
    rest = build_prompt(runtime, before + after, role=TRAVEL_AGENT)
    history = format_history(state["turns"], rest.system + rest.user, profile)
    calls = f"Calls so far and their answers, the latest last:\n{quote_history(history)}"
    return build_prompt(runtime, paragraphs(before, calls, after), role=TRAVEL_AGENT, cut=history.cut)


def _plan_prompt(state: DecideView, turns: Sequence[Turn], query: str, request: str, profile: ModelProfile) -> Prompt:
    known, notes = _format_known(state), state["evidence"].view
    wording = [text for text in dict.fromkeys([state["assignment"], request]) if text != query]
    question = ASK_PLAN.format(
        query=query,
        wording="What the planning agent adds to it:\n" + "\n".join(wording) + "\n\n" if wording else "",
        known=known and f"Known from before and to keep in mind:\n{known}\n\n",
    )
    history = format_history(turns, RULES + notes + question, profile)
    reference = f"The notebook:\n{notes}\n\nThe calls of the tools and their answers:\n{history.text}"
    return Prompt(RULES.format(reference=quote(reference, len(reference))), question, history.cut)


def _format_known(state: DecideView) -> str:
    lines = [*state["advice"], *state["belief"].text.splitlines()]
    return bullet_list(lines) if lines else ""


TRAVEL_AGENT = """\
You plan a trip by calling tools, one call at a time, until what the assignment asks for is known or handed in. Rely on
what the tools answered and not on what you know about places, prices or flights: a plan that names anything that the
tools did not list is worthless, and so is one that costs more than the budget or ignores a wish of the request."""

NOTEBOOK_HEADING = """\
The notebook, with what was noted for this assignment and before it began. What other parts of the trip keep meanwhile
is added later:"""

QUESTION_CLOSING = "Which call comes next?"

QUESTION = """\
Think first: what does the assignment still need, what of it do the answers and the notebook show already, and which
call adds the most? Then make that one call. Look up nothing twice, and write down what the plan needs from an answer:
whole lines, copied exactly, of the candidates that suit the request (its people, dates, budget, cuisines, room type,
house rules and means of transport), with more than one candidate where the choice is still open. An error in a call is
named in its answer: correct that call instead of repeating it.
"""

ASK_PLAN = """\
Request of the traveller:
{query}

{wording}{known}\
Work it out first, in plain words: the city of every day and the days of travel; the transport of every leg; a place to
stay in every city that has the room type and the house rules asked for and a minimum stay that the trip reaches, times
the rooms that all people need; three meals a day in the day's city, none twice, which between them serve every cuisine
asked for; an attraction for every day. Then add up the cost for all people, compare it with the budget, and exchange
what is too dear. What the reference information does not list does not exist; where it lacks something, write "-"
instead of inventing it. At the end write the whole plan: one JSON array, and no other JSON before it.
"""


BRIEFING = """\
The trip is planned with tools. Each call is a tool and its text:
FlightSearch: "CITY, CITY, 2022-03-15": the flights of a leg on a day, with times and the price for one person.
GoogleDistanceMatrix: "CITY, CITY, MODE": distance, duration and the price of one car; the mode is self-driving or taxi.
AccommodationSearch: "CITY": places to stay, each with its price a night, people a room, minimum nights, type and rules.
RestaurantSearch: "CITY": restaurants, each with its price a person and its cuisines.
AttractionSearch: "CITY": attractions.
CitySearch: "STATE": the cities of a state.
NotebookWrite: what to keep. The notebook outlasts the work on one part of the trip: for the plan, copy whole lines with
names, cities, days and prices.
MakePlan: the request in your words, with what was decided. The whole plan is written from that, the notebook and the
answers of the tools, and handed in, which ends the task. Call it once, when the transport of every leg, a place to stay
in every city, restaurants for all meals, none twice, and an attraction for every day are noted."""
