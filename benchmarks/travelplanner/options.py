"""Trips, their plans of predicates, the options of each predicate, and drafts of itineraries (SDP, appendix A.2)."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from itertools import pairwise
from math import ceil, inf
from typing import NamedTuple

from certigraph.benchmarks.travelplanner.plans import (
    MEALS,
    SEATS,
    TransportKind,
    booked_kind_of,
    distance_cost,
    match_accommodation,
    match_attraction,
    match_restaurant,
    parse_place,
    total_cost,
)
from certigraph.benchmarks.travelplanner.queries import LocalConstraint, TravelQuery, legs_of, visited_cities_of
from certigraph.benchmarks.travelplanner.sandbox import Accommodation, Flight, Sandbox
from certigraph.benchmarks.travelplanner.scoring import ALLOWED_ROOMS, served_cuisines
from certigraph.state.records import Action, Arguments, Predicate

# Trips on one route, and the predicates that a trip takes.

TRANSPORT, STAY, MEAL_DAY, SIGHT_DAY, BUDGET, RENDER = "transport", "stay", "meals", "attraction", "budget", "render"
OUTBOUND, BETWEEN, RETURN = "outbound", "inter_city", "return"


class TripLeg(NamedTuple):
    """Journey of a trip on one day; days count from 1."""

    day: int
    origin: str
    destination: str
    date: str


class Trip(NamedTuple):
    """Round trip from the origin through the visited cities, with the days of travel."""

    origin: str
    cities: tuple[str, ...]
    dates: tuple[str, ...]
    travel_days: tuple[int, ...]
    """Days of travel, counted from 1; there is one more of them than of cities."""

    @property
    def days(self) -> int:
        """Number of days."""
        return len(self.dates)

    @property
    def legs(self) -> tuple[TripLeg, ...]:
        """Journeys, in order."""
        stops = pairwise([self.origin, *self.cities, self.origin])
        return tuple(TripLeg(d, a, b, self.dates[d - 1]) for d, (a, b) in zip(self.travel_days, stops, strict=True))

    def leg_on(self, day: int) -> TripLeg | None:
        """Return the journey of a day; None if it is not a travel day."""
        return next((leg for leg in self.legs if leg.day == day), None)

    def city_on(self, day: int) -> str:
        """Return the city of a day's meals and attractions.

        On a travel day this is the city of arrival; on the last day it is the last city visited.
        """
        arrived = sum(travel_day <= day for travel_day in self.travel_days)
        return self.cities[min(arrived, len(self.cities)) - 1]

    def nights_in(self, city: str) -> list[int]:
        """Return the days whose night is spent in a city."""
        return [day for day in range(1, self.days) if self.city_on(day) == city]

    def meal_slots(self) -> Iterator[tuple[int, str]]:
        """Yield every meal of the trip as (day, meal), in order."""
        return ((day, meal) for day in range(1, self.days + 1) for meal in MEALS)


def trip_of(query: TravelQuery, route: Sequence[str] | None = None) -> Trip:
    """Build the trip of a query on the travel days of its reference information.

    The cities are visited in the order of `route` or, without one, in that of the reference information.
    """
    days = tuple(query.date.index(leg.date) + 1 for leg in legs_of(query))
    return Trip(query.org, tuple(route or visited_cities_of(query)), query.date, days)


def predicates_of(query: TravelQuery, trip: Trip) -> list[Predicate]:
    """Build the plan of a trip: 2d + 2c + 3 predicates for d days and c cities, the most expensive decisions first."""
    return [
        *_transport_predicates(trip),
        *(_create_predicate(trip, STAY, _predicate_text(STAY, city=city), city=city) for city in trip.cities),
        *(_day_predicate(trip, MEAL_DAY, day) for day in range(1, trip.days + 1)),
        *(_day_predicate(trip, SIGHT_DAY, day) for day in range(1, trip.days + 1)),
        _create_predicate(trip, BUDGET, _predicate_text(BUDGET, budget=query.budget)),
        _create_predicate(trip, RENDER, _predicate_text(RENDER, days=trip.days)),
    ]


def _transport_predicates(trip: Trip) -> Iterator[Predicate]:
    for leg in trip.legs:
        direction = OUTBOUND if leg.day == 1 else RETURN if leg.destination == trip.origin else BETWEEN
        yield _create_predicate(
            trip, TRANSPORT, _predicate_text(TRANSPORT, **leg._asdict()), day=leg.day, which=direction
        )


def _day_predicate(trip: Trip, kind: str, day: int) -> Predicate:
    return _create_predicate(trip, kind, _predicate_text(kind, day=day, city=trip.city_on(day)), day=day)


def _create_predicate(trip: Trip, kind: str, text: str, **args: int | str) -> Predicate:
    route: Arguments = {"route": list(trip.cities)}
    return Predicate(text=text, kind=kind, args={**route, **args})


def _predicate_text(kind: str, **values: object) -> str:
    return PREDICATE_TEXTS[kind].format(**values)


PREDICATE_TEXTS = {
    TRANSPORT: "transport from {origin} to {destination} on day {day} ({date}) is booked",
    STAY: "a place to stay in {city} is booked for every night there",
    MEAL_DAY: "the meals of day {day} in {city} are chosen",
    SIGHT_DAY: "an attraction for day {day} in {city} is chosen",
    BUDGET: "the whole trip costs at most ${budget} and serves every requested cuisine",
    RENDER: "the itinerary of all {days} days is written in the official format",
}


# Options of a predicate: candidates pass five filters and come cheapest first, or with a diagnosis (A.2).

# Value of the constraint "transportation" -> the kind of transport that it excludes.
REFUSED_KINDS: dict[str, TransportKind] = {"no flight": "flight", "no self-driving": "self-driving"}


class Option(NamedTuple):
    """Candidate for a plan entry: its text, a label to choose it by, and its cost in dollars for all people.

    The label says what a choice may depend on: the cost, the rules of a place to stay. The cuisines of a restaurant are
    not part of it, because they matter only while a requested one is missing.
    """

    text: str
    label: str
    cost: float
    kind: TransportKind | None = None
    place: Accommodation | None = None
    cuisines: str = ""


class OptionFilter(NamedTuple):
    """Named condition on options; if no option meets it, the diagnosis in `OptionOffer` names it."""

    name: str
    keeps: Callable[[Option], bool]


class OptionOffer(NamedTuple):
    """Options that passed all filters, cheapest first, and a diagnosis if there are none."""

    options: list[Option]
    diagnosis: str = ""
    blocked_by: str = ""
    """Name of the filter that no option passed."""


def filter_options(candidates: Sequence[Option], filters: Sequence[OptionFilter], label: str) -> OptionOffer:
    """Apply filters in order; the diagnosis names the first filter that no option passes."""
    remaining = sorted(candidates, key=lambda option: option.cost)
    if not remaining:
        return OptionOffer([], f"{label}: the data holds none (sandbox)", "sandbox")
    for name, keeps in filters:
        passing = [option for option in remaining if keeps(option)]
        if not passing:
            cheapest = f", the cheapest at ${remaining[0].cost:g}"
            return OptionOffer(
                [], f"{label}: none of {len(remaining)} options passes the filter {name!r}{cheapest}", name
            )
        remaining = passing
    return OptionOffer(remaining)


def list_transports(leg: TripLeg, people: int, sandbox: Sandbox) -> list[Option]:
    """List the flights of a leg on its day, and cars if the road takes less than a day."""
    flights = [_flight_option(row, people) for row in sandbox.flights(leg.origin, leg.destination, leg.date)]
    return [*flights, *_car_options(leg, people, sandbox)]


def list_stays(city: str, people: int, nights: int, sandbox: Sandbox) -> list[Option]:
    """List places to stay, each priced for all nights by the row that the scorer will match to its name."""
    options = {}
    for row in sandbox.accommodations(city):
        text = f"{row.name}, {city}"
        if matches := match_accommodation(*parse_place(text), sandbox):
            place = matches[0]
            cost = place.price * ceil(people / place.maximum_occupancy) * nights
            options[text] = Option(text, _stay_label(row.name, place, cost), cost, place=place)
    return list(options.values())


def list_restaurants(city: str, people: int, sandbox: Sandbox) -> list[Option]:
    """List restaurants, each with the cost and cuisines of the row that the scorer will match to its name."""
    options = {}
    for row in sandbox.restaurants(city):
        text = f"{row.name}, {city}"
        if matches := match_restaurant(*parse_place(text), sandbox):
            cost = matches[0].cost * people
            label = f"{escape_line_breaks(row.name)} (${cost:g})"
            options[text] = Option(text, label, cost, cuisines=matches[0].cuisines)
    return list(options.values())


def list_attractions(city: str, sandbox: Sandbox) -> list[Option]:
    """List attractions, which are free. The official scorer reads only those that end with a semicolon."""
    texts = {f"{row.name}, {city}": row.name for row in sandbox.attractions(city)}
    matched = {
        text: name for text, name in texts.items() if ";" not in text and match_attraction(*parse_place(text), sandbox)
    }
    return [Option(f"{text};", escape_line_breaks(name), 0.0) for text, name in matched.items()]


def transport_filter(constraint: LocalConstraint) -> OptionFilter:
    """Create the filter that excludes the kind of transport that the traveller refuses."""
    refused = REFUSED_KINDS.get(constraint.transportation or "")
    return OptionFilter("local constraints", lambda option: option.kind != refused)


def stay_filter(constraint: LocalConstraint, nights: int) -> OptionFilter:
    """Create the filter for the requested room type and house rule, and for a minimum stay that `nights` meets."""

    def keeps(option: Option) -> bool:
        place = option.place
        return place is not None and not find_stay_violation(place, constraint, nights)

    return OptionFilter("local constraints", keeps)


def find_stay_violation(place: Accommodation, constraint: LocalConstraint, nights: int) -> str:
    """Describe the constraint that a place to stay violates; empty if there is none."""
    if constraint.house_rule and f"No {constraint.house_rule}" in place.house_rules:
        return f"{place.name} has the rule No {constraint.house_rule}"
    if constraint.room_type and place.room_type not in ALLOWED_ROOMS[constraint.room_type]:
        return f"{place.name} is a {place.room_type}, requested is {constraint.room_type}"
    if place.minimum_nights > nights:
        return f"{place.name} asks for {place.minimum_nights:g} nights, the trip has {nights}"
    return ""


def mode_filter(kinds: set[TransportKind]) -> OptionFilter:
    """Create the filter that excludes mixed transport.

    By the official rules, self-driving conflicts with flights and taxis on the same trip.
    """
    return OptionFilter("transport mode", lambda option: option.kind is not None and is_compatible(option.kind, kinds))


def is_compatible(kind: TransportKind, kinds: set[TransportKind]) -> bool:
    """Return whether a kind of transport may be combined with those already booked."""
    return all((kind == "self-driving") == (other == "self-driving") for other in kinds)


def uniqueness_filter(texts: Sequence[str]) -> OptionFilter:
    """Create the filter that excludes the entries `texts`, which the trip already contains."""
    used = set(texts)
    return OptionFilter("uniqueness", lambda option: option.text not in used)


def exclusion_filter(kinds: Sequence[object]) -> OptionFilter:
    """Create the filter that excludes the kinds of transport that a replanned predicate avoids."""
    return OptionFilter("replanning", lambda option: option.kind not in kinds)


def prefer_cuisines(options: list[Option], cuisines: Sequence[str]) -> list[Option]:
    """Return the options that serve one of the cuisines, or all options if none does."""
    serving = [option for option in options if any(cuisine in option.cuisines for cuisine in cuisines)]
    return serving or options


def _flight_option(row: Flight, people: int) -> Option:
    text = (
        f"Flight Number: {row.number}, from {row.origin} to {row.destination}, "
        f"Departure Time: {row.departs}, Arrival Time: {row.arrives}"
    )
    cost = row.price * people
    return Option(text, f"Flight {row.number} {row.departs}-{row.arrives} (${cost:g})", cost, "flight")


def _car_options(leg: TripLeg, people: int, sandbox: Sandbox) -> Iterator[Option]:
    road = sandbox.distance(leg.origin, leg.destination)
    kinds: dict[TransportKind, str] = {"self-driving": "Self-driving", "taxi": "Taxi"}
    for kind, word in kinds.items():
        if road and (price := distance_cost(kind, road)) is not None:
            cost = price * ceil(people / SEATS[kind])
            details = f"duration: {road.duration}, distance: {road.distance}, cost: {price}"
            text = f"{word}, from {leg.origin} to {leg.destination}, {details}"
            yield Option(text, f"{word} {road.duration} (${cost:g})", cost, kind)


def _stay_label(name: str, place: Accommodation, cost: float) -> str:
    """Return the label of a place to stay: its cost, and what constraints of a request are about."""
    stay = f"at least {place.minimum_nights:g} nights; {place.maximum_occupancy} people a room"
    return f"{escape_line_breaks(name)} (${cost:g}; {place.room_type}; {stay}; {place.house_rules})"


def escape_line_breaks(name: str) -> str:
    r"""Write line breaks of a name as the two characters `\n`, as the official tables do."""
    return name.replace("\n", "\\n")


# Candidates of a trip, looked up once.


class TripCatalog:
    """All options of one trip for a number of people, before filtering; the results of all methods are cached."""

    def __init__(self, people: int, constraint: LocalConstraint, trip: Trip, sandbox: Sandbox) -> None:
        self.people, self.constraint, self.trip, self.sandbox = people, constraint, trip, sandbox
        self.transports = cache(self._transports)
        self.stays = cache(self._stays)
        self.restaurants = cache(self._restaurants)
        self.lowest_stay = cache(self._lowest_stay)

    def missing_cuisines(self, draft: "ItineraryDraft") -> list[str]:
        """Return the requested cuisines that a draft does not serve yet, by the official rules."""
        if not self.constraint.cuisine:
            return []
        days = draft.plan(self.trip)
        served = [text for day in days for text in served_cuisines(day, self.trip.origin, self.sandbox)]
        return [cuisine for cuisine in self.constraint.cuisine if not any(cuisine in text for text in served)]

    def _transports(self, leg: TripLeg) -> list[Option]:
        return list_transports(leg, self.people, self.sandbox)

    def _stays(self, city: str) -> list[Option]:
        return list_stays(city, self.people, len(self.trip.nights_in(city)), self.sandbox)

    def _restaurants(self, city: str) -> list[Option]:
        candidates = list_restaurants(city, self.people, self.sandbox)
        return sorted(candidates, key=lambda option: option.cost)

    def _lowest_stay(self, city: str) -> float:
        allowed = stay_filter(self.constraint, len(self.trip.nights_in(city)))
        return min((option.cost for option in self.stays(city) if allowed.keeps(option)), default=inf)


# Drafts: the itinerary as decided so far, folded from certified actions.

NOTHING = "-"
# Keys of a day in the official plan format, in its order.
ENTRIES = ("transportation", "breakfast", "attraction", "lunch", "dinner", "accommodation")


class PlanSlot(NamedTuple):
    """Place for one entry of one day in the official plan format, such as lunch on day 3."""

    day: int
    entry: str

    def __str__(self) -> str:
        """Return the slot as actions name it: `3:lunch`."""
        return f"{self.day}:{self.entry}"


class ItineraryDraft(NamedTuple):
    """Draft of an itinerary: the official plan entries booked so far, by slot (`3:lunch`).

    An entry is "-" where nothing is booked on purpose.
    """

    booked: Mapping[str, str] = {}

    def texts(self, *entries: str) -> list[str]:
        """Return the texts of all slots of the given entries, except "-"."""
        return [t for slot, t in self.booked.items() if slot.partition(":")[2] in entries and t != NOTHING]

    def kinds(self) -> set[TransportKind]:
        """Return the kinds of transport booked."""
        return {kind for text in self.texts("transportation") if (kind := booked_kind_of(text))}

    def plan(self, trip: Trip) -> list[dict[str, object]]:
        """Convert to the official plan format, a dict for each day."""
        return [self._day(trip, day) for day in range(1, trip.days + 1)]

    def cost(self, trip: Trip, people: int, sandbox: Sandbox) -> float:
        """Return the cost so far in dollars, computed as by the official scorer."""
        return total_cost(people, self.plan(trip), sandbox)

    def _day(self, trip: Trip, day: int) -> dict[str, object]:
        leg = trip.leg_on(day)
        city = f"from {leg.origin} to {leg.destination}" if leg else trip.city_on(day)
        entries = {entry: self.booked.get(str(PlanSlot(day, entry)), NOTHING) for entry in ENTRIES}
        return {"days": day, "current_city": city, **entries}


def draft_of(actions: Sequence[Action]) -> ItineraryDraft:
    """Build the draft that results from accepted actions; later bookings of a slot replace earlier ones."""
    booked: dict[str, str] = {}
    for action in actions:
        booked.update(_bookings_of(action))
    return ItineraryDraft(booked)


def _bookings_of(action: Action) -> dict[str, str]:
    book = action.args.get("book", {})
    return {slot: str(text) for slot, text in book.items()} if isinstance(book, dict) else {}
