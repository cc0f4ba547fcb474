"""Choosing options with look-ahead, and checking bookings.

`OptionChooser` offers the options of a predicate. `Lookahead` computes the lowest cost of completing a draft, so that
options after which the rest of the trip is not affordable are not offered. `find_violations` does the checks of the
operator Validate.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import ceil, inf
from typing import NamedTuple

from certigraph.benchmarks.travelplanner import options
from certigraph.benchmarks.travelplanner.options import (
    BUDGET,
    NOTHING,
    REFUSED_KINDS,
    RENDER,
    ItineraryDraft,
    Option,
    OptionFilter,
    OptionOffer,
    PlanSlot,
    Trip,
    TripCatalog,
    TripLeg,
    filter_options,
    find_stay_violation,
    transport_filter,
    trip_of,
)
from certigraph.benchmarks.travelplanner.plans import (
    MEALS,
    TransportKind,
    booked_kind_of,
    flight_number_of,
    is_known_transport,
    match_accommodation,
    match_attraction,
    match_restaurant,
    parse_endpoints,
    parse_place,
)
from certigraph.benchmarks.travelplanner.queries import TravelQuery
from certigraph.benchmarks.travelplanner.sandbox import Sandbox
from certigraph.state.records import RESTORE, Observation, Predicate

# Menus: the cheapest selections of different restaurants that serve given cuisines.

Menu = dict[int, float]
"""Lowest cost by set of cuisines served; a set is a bit mask with a bit for each requested cuisine."""


class Dish(NamedTuple):
    """Restaurant reduced to its cost and the requested cuisines that it serves, as a bit mask."""

    cost: float
    serves: int


def find_cheapest_menu(dishes: Sequence[Dish], minimum: int, maximum: int) -> Menu:
    """Find, for each set of cuisines, the cheapest selection of `minimum` to `maximum` different dishes that serves it.

    The result is exact: the selections are found by dynamic programming, as in the knapsack problem.
    """
    menus: list[Menu] = [{0: 0.0}] + [{} for _ in range(maximum)]
    for dish in dishes:
        for count in range(maximum, 0, -1):
            for served, cost in menus[count - 1].items():
                _keep_cheaper(menus[count], served | dish.serves, cost + dish.cost)
    return _merge_menus(menus[minimum:])


def combine_menus(first: Menu, second: Menu) -> Menu:
    """Combine two menus into the cheapest pairs that consist of one selection from each."""
    return _merge_menus({a | b: x + y} for a, x in first.items() for b, y in second.items())


def _merge_menus(menus: Iterable[Menu]) -> Menu:
    best: Menu = {}
    for menu in menus:
        for served, cost in menu.items():
            _keep_cheaper(best, served, cost)
    return best


def _keep_cheaper(menu: Menu, served: int, cost: float) -> None:
    if cost < menu.get(served, inf):
        menu[served] = cost


# Look-ahead (not in the SDP paper): the lowest cost of everything undecided, with all missing cuisines served.
#
# The bound is exact because transport, stays and meals do not depend on one another, so each is minimised separately.
# So an option is offered exactly if the rest of the trip is affordable after it.


class OpenMeals(NamedTuple):
    """Number of meals in one city that are not booked yet: how many the plan must have, and how many it may have."""

    minimum: int
    maximum: int


class Lookahead:
    """Computes the lowest cost of completing a draft of one trip.

    With `every_meal`, the meals of travel days are required too, although the official rules let a plan omit them.
    """

    def __init__(self, catalog: TripCatalog, *, every_meal: bool) -> None:
        self._catalog = catalog
        self._every_meal = every_meal
        self._menus: dict[tuple[object, ...], Menu] = {}

    def lowest_cost(self, draft: ItineraryDraft) -> float:
        """Return the lowest cost in dollars of completing the draft; infinite if it cannot be completed."""
        return self.transport_cost(draft) + self.stay_cost(draft) + self.meal_cost(draft)

    def transport_cost(self, draft: ItineraryDraft) -> float:
        """Return the lowest cost of the legs that are not booked: all by own car, or all by flights and taxis.

        Only modes that fit the booked legs are considered.
        """
        trip, kinds = self._catalog.trip, draft.kinds()
        legs = [leg for leg in trip.legs if str(PlanSlot(leg.day, "transportation")) not in draft.booked]
        modes: tuple[set[TransportKind], ...] = ({"self-driving"}, {"flight", "taxi"})
        fitting = [mode for mode in modes if all(kind in mode for kind in kinds)]
        return min((sum(self._lowest_leg(leg, mode) for leg in legs) for mode in fitting), default=inf)

    def stay_cost(self, draft: ItineraryDraft) -> float:
        """Return the lowest cost of stays in the cities in which no place to stay is booked."""
        trip = self._catalog.trip
        nights = {city: str(PlanSlot(trip.nights_in(city)[0], "accommodation")) for city in trip.cities}
        return sum(self._catalog.lowest_stay(city) for city in trip.cities if nights[city] not in draft.booked)

    def meal_cost(self, draft: ItineraryDraft) -> float:
        """Return the lowest cost of the meals not booked yet, in different restaurants, with all cuisines served."""
        catalog = self._catalog
        missing = tuple(catalog.missing_cuisines(draft))
        used = frozenset(draft.texts(*MEALS))
        menu: Menu = {0: 0.0}
        for city, slots in self._open_meals(draft).items():
            menu = combine_menus(menu, self._menu(city, slots, used, missing))
        return menu.get(2 ** len(missing) - 1, inf)

    def _lowest_leg(self, leg: TripLeg, mode: set[TransportKind]) -> float:
        allowed = transport_filter(self._catalog.constraint)
        options = (o for o in self._catalog.transports(leg) if o.kind in mode and allowed.keeps(o))
        return min((option.cost for option in options), default=inf)

    def _open_meals(self, draft: ItineraryDraft) -> Mapping[str, OpenMeals]:
        trip, meals = self._catalog.trip, dict[str, OpenMeals]()
        for day, meal in trip.meal_slots():
            if str(PlanSlot(day, meal)) not in draft.booked:
                needed = self._every_meal or trip.leg_on(day) is None
                minimum, maximum = meals.get(trip.city_on(day), OpenMeals(0, 0))
                meals[trip.city_on(day)] = OpenMeals(minimum + needed, maximum + 1)
        return meals

    def _menu(self, city: str, slots: OpenMeals, used: frozenset[str], missing: tuple[str, ...]) -> Menu:
        dishes = select_dishes(
            [o for o in self._catalog.restaurants(city) if o.text not in used], missing, slots.maximum
        )
        key = (tuple(dishes), missing, slots)
        if key not in self._menus:
            self._menus[key] = find_cheapest_menu(dishes, slots.minimum, slots.maximum)
        return self._menus[key]


def cheapest_cost(catalog: TripCatalog, *, every_meal: bool) -> int | None:
    """Return the smallest budget in full dollars that pays for a trip; None if no trip is possible."""
    cost = Lookahead(catalog, every_meal=every_meal).lowest_cost(ItineraryDraft())
    return ceil(cost) if cost < inf else None


def select_dishes(restaurants: Sequence[Option], cuisines: Sequence[str], count: int) -> list[Dish]:
    """Keep the first `count` (cheapest) restaurants for each set of served cuisines: cheapest menus need no others."""
    counts: dict[int, int] = {}
    dishes = []
    for option in restaurants:
        serves = sum(1 << bit for bit, cuisine in enumerate(cuisines) if cuisine in option.cuisines)
        counts[serves] = counts.get(serves, 0) + 1
        if counts[serves] <= count:
            dishes.append(Dish(option.cost, serves))
    return dishes


# Catalogs of a benchmark's queries, each built once.


class CatalogCache:
    """Cache of the `TripCatalog` of each query and route, over one database."""

    def __init__(self, sandbox: Sandbox) -> None:
        self._sandbox = sandbox
        # Keyed by id() because a query is not hashable; the query is stored too, so that its id is not reused.
        self._catalogs: dict[tuple[int, tuple[str, ...]], tuple[TravelQuery, TripCatalog]] = {}

    def of(self, query: TravelQuery, route: tuple[str, ...]) -> TripCatalog:
        """Return the catalog of a query's trip on a route."""
        key = (id(query), route)
        if key not in self._catalogs:
            catalog = TripCatalog(query.people_number, query.local_constraint, trip_of(query, route), self._sandbox)
            self._catalogs[key] = (query, catalog)
        return self._catalogs[key][1]

    def is_feasible(self, query: TravelQuery) -> bool:
        """Return whether a plan on the route of the reference information can meet all constraints and the budget."""
        cost = cheapest_cost(self.of(query, trip_of(query).cities), every_meal=False)
        return cost is not None and cost <= query.budget


def route_of(target: Predicate) -> tuple[str, ...]:
    """Return the route (cities in order) that a predicate names."""
    route = target.args["route"]
    return tuple(map(str, route)) if isinstance(route, list) else ()


# Options of a predicate, given the draft: the five filters of SDP's appendix A.2, and the look-ahead if it is enabled.

SKIPPED_MEAL = Option(NOTHING, "no meal", 0.0)
AFFORDABILITY = "affordability"

# Arguments by which a replanned predicate restricts its options.
CHEAPEST = "cheapest"
"""Argument of a predicate: offer only the cheapest option."""
MISSING_CUISINES = "owed"
"""Argument of a predicate: offer only restaurants that serve a missing cuisine, if there are any."""
SKIP_MEALS = "without"
"""Argument of a predicate: book no meals."""
AVOID = "avoid"
"""Argument of a predicate: list of the kinds of transport to exclude."""


class SlotChoice(NamedTuple):
    """One choice that a predicate requires: its label, and the slots that the chosen option fills."""

    label: str
    slots: tuple[PlanSlot, ...]


def choices_of(catalog: TripCatalog, target: Predicate) -> list[SlotChoice]:
    """Return the choices that a predicate requires, in order; the three meals of a day are separate choices."""
    trip, day, city = catalog.trip, target.args.get("day"), target.args.get("city")
    match target.kind, day, city:
        case "transport", int(), _:
            return [SlotChoice(f"transport on day {day}", (PlanSlot(day, "transportation"),))]
        case "stay", _, str():
            nights = tuple(PlanSlot(night, "accommodation") for night in trip.nights_in(city))
            return [SlotChoice(f"a place to stay in {city}", nights)]
        case "meals", int(), _:
            return [SlotChoice(f"{meal} on day {day} in {trip.city_on(day)}", (PlanSlot(day, meal),)) for meal in MEALS]
        case "attraction", int(), _:
            return [SlotChoice(f"an attraction for day {day} in {trip.city_on(day)}", (PlanSlot(day, "attraction"),))]
    return []


class OptionChooser:
    """Chooser that offers, for a choice, only options that keep all official constraints satisfied."""

    def __init__(self, catalog: TripCatalog, budget: int, *, lookahead: bool) -> None:
        self.catalog, self.budget = catalog, budget
        self._outlooks = [Lookahead(catalog, every_meal=True), Lookahead(catalog, every_meal=False)]
        self._lookahead = lookahead

    def offer(self, choice: SlotChoice, draft: ItineraryDraft, target: Predicate) -> OptionOffer:
        """Return the options for a choice, cheapest first.

        If the money does not suffice for a meal of a travel day, the only option is to leave out the meal.
        """
        if target.args.get(SKIP_MEALS):
            return OptionOffer([SKIPPED_MEAL])
        offered = self._offer(choice, draft, target)
        if target.args.get(MISSING_CUISINES):
            offered = offered._replace(options=options.prefer_cuisines(offered.options, self.missing_cuisines(draft)))
        return offered._replace(options=offered.options[:1]) if target.args.get(CHEAPEST) else offered

    def money_left(self, draft: ItineraryDraft) -> float:
        """Return the dollars of the budget that a draft leaves."""
        catalog = self.catalog
        return self.budget - draft.cost(catalog.trip, catalog.people, catalog.sandbox)

    def missing_cuisines(self, draft: ItineraryDraft) -> list[str]:
        """Return the requested cuisines that a draft does not serve yet."""
        return self.catalog.missing_cuisines(draft)

    def _offer(self, choice: SlotChoice, draft: ItineraryDraft, target: Predicate) -> OptionOffer:
        filters = [*self._filters(choice, draft, target)]
        candidates = self._candidates(choice)
        offered = OptionOffer([])
        for affordable in self._affordable(choice, draft):
            offered = filter_options(candidates, [*filters, affordable], choice.label)
            if offered.options:
                return offered
        return OptionOffer([SKIPPED_MEAL]) if self._may_skip(choice, draft) else offered

    def _candidates(self, choice: SlotChoice) -> list[Option]:
        catalog, slot = self.catalog, choice.slots[0]
        city = catalog.trip.city_on(slot.day)
        if slot.entry == "transportation":
            leg = catalog.trip.leg_on(slot.day)
            return catalog.transports(leg) if leg else []
        if slot.entry == "accommodation":
            return catalog.stays(city)
        return (
            options.list_attractions(city, catalog.sandbox) if slot.entry == "attraction" else catalog.restaurants(city)
        )

    def _filters(self, choice: SlotChoice, draft: ItineraryDraft, target: Predicate) -> Iterator[OptionFilter]:
        constraint, entry = self.catalog.constraint, choice.slots[0].entry
        if entry == "transportation":
            yield options.transport_filter(constraint)
            yield options.mode_filter(draft.kinds())
            avoided = target.args.get(AVOID)
            if isinstance(avoided, list):
                yield options.exclusion_filter(avoided)
        elif entry == "accommodation":
            yield options.stay_filter(constraint, len(choice.slots))
        else:
            yield options.uniqueness_filter(draft.texts("attraction") if entry == "attraction" else draft.texts(*MEALS))

    def _affordable(self, choice: SlotChoice, draft: ItineraryDraft) -> Iterator[OptionFilter]:
        money_left = self.money_left(draft)
        if not self._lookahead or choice.slots[0].entry == "attraction":
            yield OptionFilter(AFFORDABILITY, lambda option: option.cost <= money_left)
            return
        for outlook in self._outlooks:

            def keeps(option: Option, outlook: Lookahead = outlook) -> bool:
                return option.cost + outlook.lowest_cost(book_option(draft, choice, option)) <= money_left

            yield OptionFilter(f"{AFFORDABILITY} with what is still to come", keeps)

    def _may_skip(self, choice: SlotChoice, draft: ItineraryDraft) -> bool:
        slot = choice.slots[0]
        optional = self._lookahead and slot.entry in MEALS and self.catalog.trip.leg_on(slot.day) is not None
        return optional and self._outlooks[1].lowest_cost(book_option(draft, choice, SKIPPED_MEAL)) <= self.money_left(
            draft
        )


def book_option(draft: ItineraryDraft, choice: SlotChoice, option: Option) -> ItineraryDraft:
    """Return the draft with an option booked in the slots of a choice."""
    return ItineraryDraft({**draft.booked, **{str(slot): option.text for slot in choice.slots}})


# Checks of the world and the validator: entries must exist, and a booking must satisfy every constraint.


def find_unknown_entries(draft: ItineraryDraft, sandbox: Sandbox) -> list[str]:
    """Return the entries of a draft that the database does not contain."""
    return [text for slot, text in draft.booked.items() if text != NOTHING and not _is_known(slot, text, sandbox)]


def find_violations(catalog: TripCatalog, budget: int, target: Predicate, observation: Observation) -> list[str]:
    """Return the reasons why an accepted action does not make the predicate `target` hold; empty if it does."""
    return list(_iterate_violations(catalog, budget, target, observation))


def find_repeats(draft: ItineraryDraft) -> list[str]:
    """Return the restaurants and attractions that occur more than once in a draft."""
    texts = draft.texts(*MEALS) + draft.texts("attraction")
    return sorted({text for text in texts if texts.count(text) > 1})


def find_open_slots(trip: Trip, draft: ItineraryDraft) -> list[str]:
    """Return the slots that a complete itinerary fills and this draft does not; "-" fills only what may be left out."""
    slots = [PlanSlot(leg.day, "transportation") for leg in trip.legs]
    slots += [PlanSlot(day, "accommodation") for day in range(1, trip.days)]
    slots += [PlanSlot(day, entry) for day in range(1, trip.days + 1) for entry in (*MEALS, "attraction")]
    return [str(slot) for slot in slots if not _is_filled(trip, slot, draft.booked.get(str(slot), ""))]


def _is_filled(trip: Trip, slot: PlanSlot, text: str) -> bool:
    return bool(text) and (text != NOTHING or _may_be_empty(trip, slot))


def _may_be_empty(trip: Trip, slot: PlanSlot) -> bool:
    """Return whether a slot may hold "-": meals and attractions of travel days only."""
    return trip.leg_on(slot.day) is not None and slot.entry in (*MEALS, "attraction")


def _is_known(slot: str, text: str, sandbox: Sandbox) -> bool:
    entry = slot.partition(":")[2]
    if entry == "transportation":
        return is_known_transport(text, "", sandbox)
    match = {"accommodation": match_accommodation, "attraction": match_attraction}.get(entry, match_restaurant)
    return bool(match(*parse_place(text.removesuffix(";")), sandbox))


def _iterate_violations(
    catalog: TripCatalog, budget: int, target: Predicate, observation: Observation
) -> Iterator[str]:
    if target.kind == RESTORE:
        if observation.data.get("cleared") != target.args["clear"]:
            yield "the draft was not cleared as planned"
        return
    booked = observation.data.get("booked", {})
    entries: Mapping[str, str] = {k: str(v) for k, v in booked.items()} if isinstance(booked, dict) else {}
    yield from _find_unfilled(catalog, target, entries)
    yield from _find_forbidden(catalog, ItineraryDraft(entries))
    yield from _check_totals(budget, target, observation)


def _find_unfilled(catalog: TripCatalog, target: Predicate, entries: Mapping[str, str]) -> Iterator[str]:
    slots = [slot for choice in choices_of(catalog, target) for slot in choice.slots]
    if missing := [str(slot) for slot in slots if str(slot) not in entries]:
        yield f"not booked: {', '.join(missing)}"
    for slot in slots:
        text = entries.get(str(slot), "")
        if text and not _fits_slot(catalog, slot, text):
            yield f"{text} does not serve as {slot.entry} of day {slot.day}"


def _fits_slot(catalog: TripCatalog, slot: PlanSlot, text: str) -> bool:
    """Return whether an entry is for the leg and the date, or the city, of its day."""
    trip = catalog.trip
    leg = trip.leg_on(slot.day)
    if text == NOTHING:
        return _may_be_empty(trip, slot)
    if leg and slot.entry == "transportation":
        flight = catalog.sandbox.flight(flight_number_of(text)) if booked_kind_of(text) == "flight" else None
        is_of_leg = parse_endpoints(text) == parse_endpoints(f"from {leg.origin} to {leg.destination}")
        # the official scorer does not check a flight's date, but the predicate names it
        return is_of_leg and (flight is None or flight.date == leg.date)
    return text.removesuffix(";").endswith(f", {trip.city_on(slot.day)}")


def _find_forbidden(catalog: TripCatalog, booked: ItineraryDraft) -> Iterator[str]:
    constraint = catalog.constraint
    refused = REFUSED_KINDS.get(constraint.transportation or "")
    if refused in booked.kinds():
        yield f"{refused} is refused"
    for text in dict.fromkeys(booked.texts("accommodation")):
        place = match_accommodation(*parse_place(text), catalog.sandbox)[0]
        nights = sum(text == other for other in booked.texts("accommodation"))
        if violation := find_stay_violation(place, constraint, nights):
            yield violation


def _check_totals(budget: int, target: Predicate, observation: Observation) -> Iterator[str]:
    data = observation.data
    cost, kinds, is_whole = data.get("cost"), data.get("kinds"), target.kind in (BUDGET, RENDER)
    if is_whole and "open" not in data:
        yield "the trip was not added up"
    if target.kind == RENDER and not data.get("written"):
        yield "the itinerary was not written"
    if isinstance(cost, (int, float)) and cost > budget:
        yield f"the draft costs ${cost:g}, the budget is ${budget}"
    if isinstance(kinds, list) and "self-driving" in kinds and len(kinds) > 1:
        yield f"self-driving does not go with {', '.join(str(k) for k in kinds if k != 'self-driving')}"
    if data.get("repeats"):
        yield f"chosen twice: {data['repeats']}"
    if is_whole and data.get("owed"):
        yield f"cuisines not served: {data['owed']}"
    if is_whole and data.get("open"):
        yield f"still open: {data['open']}"
