"""Which options a predicate offers, given the draft: A.2's five filters, and the look-ahead where it is on."""

from collections.abc import Iterator
from typing import NamedTuple

from certigraph.adapters.travelplanner import options
from certigraph.adapters.travelplanner.catalog import Catalog
from certigraph.adapters.travelplanner.draft import NOTHING, Draft, Slot
from certigraph.adapters.travelplanner.lookahead import Lookahead
from certigraph.adapters.travelplanner.official.plans import MEALS
from certigraph.adapters.travelplanner.options import Filter, Offer, Option, offer
from certigraph.state.records import Predicate

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
