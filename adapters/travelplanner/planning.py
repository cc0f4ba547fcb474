"""Choice of options with look-ahead, and checks of bookings."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import ceil, inf
from typing import NamedTuple

from certigraph.adapters.travelplanner import options
from certigraph.adapters.travelplanner.options import (
    BUDGET,
    FORBIDS,
    NOTHING,
    Catalog,
    Draft,
    Filter,
    Leg,
    Offer,
    Option,
    Slot,
    Trip,
    allowed_transport,
    offer,
    stay_violation,
    trip_of,
)
from certigraph.adapters.travelplanner.plans import (
    MEALS,
    Kind,
    from_to,
    item,
    known_transport,
    match_accommodation,
    match_attraction,
    match_restaurant,
)
from certigraph.adapters.travelplanner.queries import Query
from certigraph.adapters.travelplanner.sandbox import Sandbox
from certigraph.state.records import RESTORE, Observation, Predicate

# The cheapest ways to eat a number of different meals so that given cuisines are served.

Menu = dict[int, float]
"""Least cost by the set of cuisines served, one bit for each requested one."""


class Dish(NamedTuple):
    """A restaurant as far as the choice goes: what it costs and which requested cuisines it serves, as bits."""

    cost: float
    serves: int


def menu_of(dishes: Sequence[Dish], least: int, most: int) -> Menu:
    """Between `least` and `most` different dishes: an exact knapsack over counts and cuisines."""
    menus: list[Menu] = [{0: 0.0}] + [{} for _ in range(most)]
    for dish in dishes:
        for count in range(most, 0, -1):
            for served, cost in menus[count - 1].items():
                _keep(menus[count], served | dish.serves, cost + dish.cost)
    return _cheapest(menus[least:])


def both(one: Menu, other: Menu) -> Menu:
    """Two menus eaten one after the other."""
    return _cheapest({a | b: x + y} for a, x in one.items() for b, y in other.items())


def _cheapest(menus: Iterable[Menu]) -> Menu:
    best: Menu = {}
    for menu in menus:
        for served, cost in menu.items():
            _keep(best, served, cost)
    return best


def _keep(menu: Menu, served: int, cost: float) -> None:
    if cost < menu.get(served, inf):
        menu[served] = cost


# Look-ahead, beyond the paper: the least that everything still undecided must cost, cuisines still owed included.
#
# The bound is exact: transport, stays and meals do not depend on one another, and each is minimised on its own. An
# option that leaves no affordable way to the end is therefore never shown, and one that leaves a way is never hidden.


class Slots(NamedTuple):
    """Meals still open in one city: those the plan must have, and all of them."""

    least: int
    most: int


class Lookahead:
    """The least cost of completing a draft of one trip.

    `every_meal` also demands the meals of travel days, which the official rules let a plan leave out.
    """

    def __init__(self, catalog: Catalog, *, every_meal: bool) -> None:
        self._catalog = catalog
        self._every_meal = every_meal
        self._menus: dict[tuple[object, ...], Menu] = {}

    def least(self, draft: Draft) -> float:
        """Dollars that completing the draft costs at least; infinite when it cannot be completed."""
        return self.transport(draft) + self.stays(draft) + self.meals(draft)

    def transport(self, draft: Draft) -> float:
        """For the legs not booked yet, in the one or the other mode that fits those booked."""
        trip, kinds = self._catalog.trip, draft.kinds()
        legs = [leg for leg in trip.legs if str(Slot(leg.day, "transportation")) not in draft.booked]
        modes: tuple[set[Kind], ...] = ({"self-driving"}, {"flight", "taxi"})
        fitting = [mode for mode in modes if all(kind in mode for kind in kinds)]
        return min((sum(self._least_leg(leg, mode) for leg in legs) for mode in fitting), default=inf)

    def stays(self, draft: Draft) -> float:
        """For the cities without a place to stay yet."""
        trip = self._catalog.trip
        nights = {city: str(Slot(trip.nights_in(city)[0], "accommodation")) for city in trip.cities}
        return sum(self._catalog.least_stay(city) for city in trip.cities if nights[city] not in draft.booked)

    def meals(self, draft: Draft) -> float:
        """For the meals not chosen yet, all restaurants different and every requested cuisine served."""
        catalog = self._catalog
        owed = tuple(draft.cuisines_owed(catalog.wanted.cuisine or (), catalog.sandbox))
        used = frozenset(draft.texts(*MEALS))
        menu: Menu = {0: 0.0}
        for city, slots in self._open_meals(draft).items():
            menu = both(menu, self._menu(city, slots, used, owed))
        return menu.get(2 ** len(owed) - 1, inf)

    def _least_leg(self, leg: Leg, mode: set[Kind]) -> float:
        allowed = allowed_transport(self._catalog.wanted)
        options = (o for o in self._catalog.transports(leg) if o.kind in mode and allowed.keeps(o))
        return min((option.cost for option in options), default=inf)

    def _open_meals(self, draft: Draft) -> Mapping[str, Slots]:
        trip, found = self._catalog.trip, dict[str, Slots]()
        for day, meal in trip.meal_slots():
            if str(Slot(day, meal)) not in draft.booked:
                needed = self._every_meal or trip.leg_on(day) is None
                least, most = found.get(trip.city_on(day), Slots(0, 0))
                found[trip.city_on(day)] = Slots(least + needed, most + 1)
        return found

    def _menu(self, city: str, slots: Slots, used: frozenset[str], owed: tuple[str, ...]) -> Menu:
        dishes = pool([o for o in self._catalog.restaurants(city) if o.text not in used], owed, slots.most)
        key = (tuple(dishes), owed, slots)
        if key not in self._menus:
            self._menus[key] = menu_of(dishes, slots.least, slots.most)
        return self._menus[key]


def cheapest_cost(catalog: Catalog, *, every_meal: bool) -> int | None:
    """The smallest budget in whole dollars that pays for a trip; None when there is no such trip."""
    cost = Lookahead(catalog, every_meal=every_meal).least(Draft())
    return ceil(cost) if cost < inf else None


def pool(restaurants: Sequence[Option], cuisines: Sequence[str], most: int) -> list[Dish]:
    """The cheapest `most` restaurants for each set of served cuisines; the others can always be replaced by them."""
    taken: dict[int, int] = {}
    dishes = []
    for option in restaurants:
        serves = sum(1 << bit for bit, cuisine in enumerate(cuisines) if cuisine in option.cuisines)
        taken[serves] = taken.get(serves, 0) + 1
        if taken[serves] <= most:
            dishes.append(Dish(option.cost, serves))
    return dishes


# The catalogs of a benchmark's queries, each made once.


class Catalogs:
    """What trips can choose from, over one database."""

    def __init__(self, sandbox: Sandbox) -> None:
        self._sandbox = sandbox
        # By identity, for a query holds dicts; it is kept beside its catalog, so that no other takes its identity.
        self._made: dict[tuple[int, tuple[str, ...]], tuple[Query, Catalog]] = {}

    def of(self, query: Query, route: tuple[str, ...]) -> Catalog:
        """The catalog of a query's trip on a route."""
        key = (id(query), route)
        if key not in self._made:
            catalog = Catalog(query.people_number, query.local_constraint, trip_of(query, route), self._sandbox)
            self._made[key] = (query, catalog)
        return self._made[key][1]

    def feasible(self, query: Query) -> bool:
        """Whether some plan along the reference's route keeps every constraint within the budget."""
        least = cheapest_cost(self.of(query, trip_of(query).cities), every_meal=False)
        return least is not None and least <= query.budget


def route_of(target: Predicate) -> tuple[str, ...]:
    """The route that a predicate is for."""
    route = target.args["route"]
    return tuple(map(str, route)) if isinstance(route, list) else ()


# Which options a predicate offers, given the draft: A.2's five filters, and the look-ahead where it is on.

SKIP = Option(NOTHING, "no meal", 0.0)
AFFORDABILITY = "affordability"

# What a replanned predicate may ask for in its arguments.
CHEAPEST = "cheapest"
"""Nothing but the cheapest option."""
OWED = "owed"
"""Cuisines that are still owed, where any option serves one."""
WITHOUT = "without"
"""No meal at all."""
AVOID = "avoid"
"""Not these kinds of transport."""


class Choice(NamedTuple):
    """One decision within a predicate: the slots that its answer fills."""

    what: str
    slots: tuple[Slot, ...]


def choices(catalog: Catalog, target: Predicate) -> list[Choice]:
    """The decisions that a predicate asks for, in order; meals are three, decided one after the other."""
    trip, day, city = catalog.trip, target.args.get("day"), target.args.get("city")
    match target.kind, day, city:
        case "transport", int(), _:
            return [Choice(f"transport on day {day}", (Slot(day, "transportation"),))]
        case "stay", _, str():
            nights = tuple(Slot(night, "accommodation") for night in trip.nights_in(city))
            return [Choice(f"a place to stay in {city}", nights)]
        case "meals", int(), _:
            return [Choice(f"{meal} on day {day} in {trip.city_on(day)}", (Slot(day, meal),)) for meal in MEALS]
        case "attraction", int(), _:
            return [Choice(f"an attraction for day {day} in {trip.city_on(day)}", (Slot(day, "attraction"),))]
    return []


class Chooser:
    """Offers options for a choice so that whatever is taken keeps every official constraint."""

    def __init__(self, catalog: Catalog, budget: int, *, lookahead: bool) -> None:
        self.catalog, self.budget = catalog, budget
        self._outlooks = [Lookahead(catalog, every_meal=True), Lookahead(catalog, every_meal=False)]
        self._lookahead = lookahead

    def offer(self, choice: Choice, draft: Draft, target: Predicate) -> Offer:
        """The options for a choice, cheapest first. Meals of travel days may be skipped when money is short."""
        if target.args.get(WITHOUT):
            return Offer([SKIP])
        offered = self._offer(choice, draft, target)
        if target.args.get(OWED):
            offered = offered._replace(options=options.serving_first(offered.options, self.owed(draft)))
        return offered._replace(options=offered.options[:1]) if target.args.get(CHEAPEST) else offered

    def money_left(self, draft: Draft) -> float:
        """Dollars of the budget that a draft leaves."""
        catalog = self.catalog
        return self.budget - draft.cost(catalog.trip, catalog.people, catalog.sandbox)

    def owed(self, draft: Draft) -> list[str]:
        """Requested cuisines that a draft does not serve yet."""
        return draft.cuisines_owed(self.catalog.wanted.cuisine or (), self.catalog.sandbox)

    def _offer(self, choice: Choice, draft: Draft, target: Predicate) -> Offer:
        filters = [*self._filters(choice, draft, target)]
        candidates = self._candidates(choice)
        offered = Offer([])
        for affordable in self._affordable(choice, draft):
            offered = offer(candidates, [*filters, affordable], choice.what)
            if offered.options:
                return offered
        return Offer([SKIP]) if self._may_skip(choice, draft) else offered

    def _candidates(self, choice: Choice) -> list[Option]:
        catalog, slot = self.catalog, choice.slots[0]
        city = catalog.trip.city_on(slot.day)
        if slot.entry == "transportation":
            leg = catalog.trip.leg_on(slot.day)
            return catalog.transports(leg) if leg else []
        if slot.entry == "accommodation":
            return catalog.stays(city)
        return options.sights(city, catalog.sandbox) if slot.entry == "attraction" else catalog.restaurants(city)

    def _filters(self, choice: Choice, draft: Draft, target: Predicate) -> Iterator[Filter]:
        wanted, entry = self.catalog.wanted, choice.slots[0].entry
        if entry == "transportation":
            yield options.allowed_transport(wanted)
            yield options.consistent_with(draft.kinds())
            avoided = target.args.get(AVOID)
            if isinstance(avoided, list):
                yield options.none_of(avoided)
        elif entry == "accommodation":
            yield options.allowed_stay(wanted, len(choice.slots))
        else:
            yield options.unused(draft.texts("attraction") if entry == "attraction" else draft.texts(*MEALS))

    def _affordable(self, choice: Choice, draft: Draft) -> Iterator[Filter]:
        left = self.money_left(draft)
        if not self._lookahead or choice.slots[0].entry == "attraction":
            yield Filter(AFFORDABILITY, lambda option: option.cost <= left)
            return
        for outlook in self._outlooks:

            def keeps(option: Option, outlook: Lookahead = outlook) -> bool:
                return option.cost + outlook.least(taken(draft, choice, option)) <= left

            yield Filter(f"{AFFORDABILITY} with what is still to come", keeps)

    def _may_skip(self, choice: Choice, draft: Draft) -> bool:
        slot = choice.slots[0]
        optional = self._lookahead and slot.entry in MEALS and self.catalog.trip.leg_on(slot.day) is not None
        return optional and self._outlooks[1].least(taken(draft, choice, SKIP)) <= self.money_left(draft)


def taken(draft: Draft, choice: Choice, option: Option) -> Draft:
    """The draft after an option was taken."""
    return Draft({**draft.booked, **{str(slot): option.text for slot in choice.slots}})


# What TravelPlanner's world and validator check: that entries exist, and that a booking keeps every constraint.


def unknown_entries(draft: Draft, sandbox: Sandbox) -> list[str]:
    """The entries that name nothing in the sandbox."""
    return [text for slot, text in draft.booked.items() if text != NOTHING and not _known(slot, text, sandbox)]


def violations(catalog: Catalog, budget: int, target: Predicate, seen: Observation) -> list[str]:
    """Why an accepted action does not make the target hold; empty when it does."""
    return list(_violations(catalog, budget, target, seen))


def repeats(draft: Draft) -> list[str]:
    """Restaurants and attractions that occur more than once."""
    texts = draft.texts(*MEALS) + draft.texts("attraction")
    return sorted({text for text in texts if texts.count(text) > 1})


def open_slots(trip: Trip, draft: Draft) -> list[str]:
    """The slots that a complete itinerary fills, "-" included, and this one does not."""
    slots = [Slot(leg.day, "transportation") for leg in trip.legs]
    slots += [Slot(day, "accommodation") for day in range(1, trip.days)]
    slots += [Slot(day, entry) for day in range(1, trip.days + 1) for entry in (*MEALS, "attraction")]
    return [str(slot) for slot in slots if str(slot) not in draft.booked]


def _known(slot: str, text: str, sandbox: Sandbox) -> bool:
    entry = slot.partition(":")[2]
    if entry == "transportation":
        return known_transport(text, "", sandbox)
    match = {"accommodation": match_accommodation, "attraction": match_attraction}.get(entry, match_restaurant)
    return bool(match(*item(text.removesuffix(";")), sandbox))


def _violations(catalog: Catalog, budget: int, target: Predicate, seen: Observation) -> Iterator[str]:
    if target.kind == RESTORE:
        if seen.data.get("cleared") != target.args["clear"]:
            yield "the draft was not cleared as planned"
        return
    booked = seen.data.get("booked", {})
    entries: Mapping[str, str] = {k: str(v) for k, v in booked.items()} if isinstance(booked, dict) else {}
    yield from _unfilled(catalog, target, entries)
    yield from _forbidden(catalog, Draft(entries))
    yield from _totals(budget, target, seen)


def _unfilled(catalog: Catalog, target: Predicate, entries: Mapping[str, str]) -> Iterator[str]:
    slots = [slot for choice in choices(catalog, target) for slot in choice.slots]
    if missing := [str(slot) for slot in slots if str(slot) not in entries]:
        yield f"not booked: {', '.join(missing)}"
    for slot in slots:
        text = entries.get(str(slot), "")
        if text and not _serves(catalog.trip, slot, text):
            yield f"{text} does not serve as {slot.entry} of day {slot.day}"


def _serves(trip: Trip, slot: Slot, text: str) -> bool:
    """Whether an entry is where the day is; only meals and attractions of travel days may be nothing."""
    leg = trip.leg_on(slot.day)
    if text == NOTHING:
        return leg is not None and slot.entry in (*MEALS, "attraction")
    if leg and slot.entry == "transportation":
        return from_to(text) == from_to(f"from {leg.origin} to {leg.destination}")
    return text.removesuffix(";").endswith(f", {trip.city_on(slot.day)}")


def _forbidden(catalog: Catalog, booked: Draft) -> Iterator[str]:
    wanted = catalog.wanted
    refused = FORBIDS.get(wanted.transportation or "")
    if refused in booked.kinds():
        yield f"{refused} is refused"
    for text in dict.fromkeys(booked.texts("accommodation")):
        place = match_accommodation(*item(text), catalog.sandbox)[0]
        nights = sum(text == other for other in booked.texts("accommodation"))
        if violation := stay_violation(place, wanted, nights):
            yield violation


def _totals(budget: int, target: Predicate, seen: Observation) -> Iterator[str]:
    data = seen.data
    cost, kinds = data.get("cost"), data.get("kinds")
    if isinstance(cost, (int, float)) and cost > budget:
        yield f"the draft costs ${cost:g}, the budget is ${budget}"
    if isinstance(kinds, list) and "self-driving" in kinds and len(kinds) > 1:
        yield f"self-driving does not go with {', '.join(str(k) for k in kinds if k != 'self-driving')}"
    if data.get("repeats"):
        yield f"chosen twice: {data['repeats']}"
    if target.kind == BUDGET and data.get("owed"):
        yield f"cuisines not served: {data['owed']}"
    if target.kind == BUDGET and data.get("open"):
        yield f"still open: {data['open']}"
