"""Look-ahead, beyond the paper: the least that everything still undecided must cost, cuisines still owed included.

The bound is exact: transport, stays and meals do not depend on one another, and each is minimised on its own. An
option that leaves no affordable way to the end is therefore never shown, and one that leaves a way is never hidden.
"""

from collections.abc import Mapping, Sequence
from math import ceil, inf
from typing import NamedTuple

from certigraph.adapters.travelplanner.catalog import Catalog
from certigraph.adapters.travelplanner.draft import Draft, Slot
from certigraph.adapters.travelplanner.menus import Dish, Menu, both, menu_of
from certigraph.adapters.travelplanner.official.parsing import Kind
from certigraph.adapters.travelplanner.official.plans import MEALS
from certigraph.adapters.travelplanner.options import Option, allowed_transport
from certigraph.adapters.travelplanner.trip import Leg


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
