"""What TravelPlanner's world and validator check: that entries exist, and that a booking keeps every constraint."""

from collections.abc import Iterator, Mapping

from certigraph.adapters.travelplanner.catalog import Catalog
from certigraph.adapters.travelplanner.choosing import choices
from certigraph.adapters.travelplanner.data.sandbox import Sandbox
from certigraph.adapters.travelplanner.draft import NOTHING, Draft, Slot
from certigraph.adapters.travelplanner.official.costs import (
    known_transport,
    match_accommodation,
    match_attraction,
    match_restaurant,
)
from certigraph.adapters.travelplanner.official.parsing import from_to, item
from certigraph.adapters.travelplanner.official.plans import MEALS
from certigraph.adapters.travelplanner.options import FORBIDS, stay_violation
from certigraph.adapters.travelplanner.trip import BUDGET, Trip
from certigraph.state.records import RESTORE, Observation, Predicate


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
