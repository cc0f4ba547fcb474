"""Which options a predicate offers, given the draft: A.2's five filters, and the look-ahead where it is on."""

from collections.abc import Iterator
from typing import NamedTuple

from certigraph.adapters.travelplanner import options
from certigraph.adapters.travelplanner.catalog import Catalog
from certigraph.adapters.travelplanner.draft import NOTHING, Draft, Slot
from certigraph.adapters.travelplanner.lookahead import Lookahead
from certigraph.adapters.travelplanner.options import Filter, Offer, Option, offer
from certigraph.adapters.travelplanner.plans import MEALS
from certigraph.state.records import Predicate

SKIP = Option(NOTHING, "no meal", 0.0)


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

    def __init__(self, catalog: Catalog, *, lookahead: bool) -> None:
        self.catalog = catalog
        self._outlooks = [Lookahead(catalog, every_meal=True), Lookahead(catalog, every_meal=False)]
        self._lookahead = lookahead

    def offer(self, choice: Choice, draft: Draft, target: Predicate) -> Offer:
        """The options for a choice, cheapest first. Meals of travel days may be skipped when money is short."""
        filters = [*self._filters(choice, draft), *self._asked(choice, draft, target)]
        candidates = self._candidates(choice)
        offered = Offer([])
        for affordable in self._affordable(choice, draft):
            offered = offer(candidates, [*filters, affordable], choice.what)
            if offered.options:
                return offered
        return Offer([SKIP]) if self._may_skip(choice, draft) else offered

    def cost_of(self, target: Predicate, text: str) -> float:
        """Dollars of the option that reads so in a plan, for the first choice of a predicate."""
        candidates = self._candidates(choices(self.catalog, target)[0])
        return next((option.cost for option in candidates if option.text == text), 0.0)

    def _candidates(self, choice: Choice) -> list[Option]:
        catalog, slot = self.catalog, choice.slots[0]
        city = catalog.trip.city_on(slot.day)
        if slot.entry == "transportation":
            leg = catalog.trip.leg_on(slot.day)
            return catalog.transports(leg) if leg else []
        if slot.entry == "accommodation":
            return catalog.stays(city)
        return options.sights(city, catalog.sandbox) if slot.entry == "attraction" else catalog.restaurants(city)

    def _filters(self, choice: Choice, draft: Draft) -> Iterator[Filter]:
        wanted, entry = self.catalog.query.local_constraint, choice.slots[0].entry
        if entry == "transportation":
            yield options.allowed_transport(wanted)
            yield options.consistent_with(draft.kinds())
        elif entry == "accommodation":
            yield options.allowed_stay(wanted, len(choice.slots))
        else:
            yield options.unused(draft.texts("attraction") if entry == "attraction" else draft.texts(*MEALS))

    def _asked(self, choice: Choice, draft: Draft, target: Predicate) -> Iterator[Filter]:
        """What a replanned predicate asks for: to avoid what was taken before, or to serve what is owed."""
        avoided = target.args.get("avoid")
        if isinstance(avoided, list):
            yield options.not_among([str(text) for text in avoided])
        owed = draft.cuisines_owed(self.catalog.query.local_constraint.cuisine or (), self.catalog.sandbox)
        if target.args.get("owed") and owed:
            yield options.serving_one_of(owed)

    def _affordable(self, choice: Choice, draft: Draft) -> Iterator[Filter]:
        left = self._money_left(draft)
        if not self._lookahead or choice.slots[0].entry == "attraction":
            yield Filter("affordability", lambda option: option.cost <= left)
            return
        for outlook in self._outlooks:

            def keeps(option: Option, outlook: Lookahead = outlook) -> bool:
                return option.cost + outlook.least(taken(draft, choice, option)) <= left

            yield Filter("affordability with what is still to come", keeps)

    def _may_skip(self, choice: Choice, draft: Draft) -> bool:
        slot = choice.slots[0]
        optional = self._lookahead and slot.entry in MEALS and self.catalog.trip.leg_on(slot.day) is not None
        return optional and self._outlooks[1].least(taken(draft, choice, SKIP)) <= self._money_left(draft)

    def _money_left(self, draft: Draft) -> float:
        query = self.catalog.query
        return query.budget - draft.cost(self.catalog.trip, query.people_number, self.catalog.sandbox)


def taken(draft: Draft, choice: Choice, option: Option) -> Draft:
    """The draft after an option was taken."""
    return Draft({**draft.booked, **{str(slot): option.text for slot in choice.slots}})
