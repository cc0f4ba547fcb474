"""What a parcel costs with three carriers: a rate by weight, a rate by zone and weight, and one told elsewhere only."""

import json
from typing import NamedTuple

from certigraph.adapters.assistantbench.generated.making import Made, Making, host
from certigraph.adapters.assistantbench.generated.names import listed, slug
from certigraph.adapters.assistantbench.generated.pages import Reach, Table
from certigraph.state.researching import COMPUTE, EXTRACT

BANDS = (2, 5, 10)
"""Kilograms up to which a rate holds."""

ZONES = 3

SORTS = ("Post", "Parcel", "Express")


class Route(NamedTuple):
    """Where the parcel goes, and what it weighs: kilograms, less than a band's."""

    start: str
    end: str
    weight: int

    @property
    def band(self) -> int:
        """The place of its band."""
        return next(place for place, most in enumerate(BANDS) if self.weight <= most)


def parcels(making: Making, id_: str) -> Made:
    """What does it cost to send a parcel with each of three carriers?"""
    random, names = making.random, making.names
    route = Route(names.word(), names.word(), random.randrange(1, BANDS[-1]))
    plain, zoned, shut = (f"{names.word()} {sort}" for sort in SORTS)
    rates = {carrier: _rates(making) for carrier in (plain, zoned, shut)}
    zone = random.randrange(1, ZONES + 1)
    costs = [_price(rates[carrier][route.band]) for carrier in (plain, zoned, shut)]

    plainly = _by_weight(making, plain, route, rates[plain])
    blog, claimed = _blog(making, plain, route, rates[plain])
    zones, by_zone, costs[1] = _by_zone(making, zoned, route, rates[zoned], zone)
    told = _compared(making, shut, route, rates[shut])

    way = f"{route.start} to {route.end}"
    asks = [[f"{plain} parcel rates {way}", f"{plain} review {route.end}"]]
    asks += [[f"{zoned} zones {route.end}", f"{zoned} rates by zone and weight"], [f"{shut} parcel rates {way}"]]
    sources = [[plainly], [zones, by_zone], [told]]
    disputes = [f"A blog of June 2020 paid {claimed} USD.", "", ""]
    texts = [f"{route.weight} kg from {way} cost {costs[0]} USD with {plain}."]
    texts.append(f"{route.end} is in zone {zone} of {zoned}, where {route.weight} kg cost {costs[1]} USD.")
    texts.append(f"{route.weight} kg from {way} cost {costs[2]} USD with {shut}.")
    for carrier, queries, pages, text, dispute in zip(
        (plain, zoned, shut), asks, sources, texts, disputes, strict=True
    ):
        goal = f"What does {carrier} ask for a parcel of {route.weight} kg from {way}?"
        making.step(EXTRACT, goal, queries, pages, text, against=[blog] if dispute else [], dispute=dispute)
    prices = [f"{cost} USD with {carrier}" for carrier, cost in zip((plain, zoned, shut), costs, strict=True)]
    queries = [queries[-1] if carrier == zoned else queries[0] for carrier, queries in zip(rates, asks, strict=True)]
    goal = "What does the parcel cost with each carrier?"
    making.step(COMPUTE, goal, queries, [plainly, by_zone, told], f"It costs {listed(prices)}.")
    asked = (
        f"How much does it cost to send a parcel of {route.weight} kg from {way} with {listed([plain, zoned, shut])}? "
        '(Format your answer as a list of jsons, one a carrier, with the keys "sender" and "price (usd)")'
    )
    pairs = zip((plain, zoned, shut), costs, strict=True)
    return making.asked(id_, asked, [json.dumps({"sender": carrier, "price (usd)": cost}) for carrier, cost in pairs])


def _rates(making: Making) -> list[int]:
    """Of each band, in tenths of a dollar."""
    first = making.random.randrange(60, 120)
    return [first + place * making.random.randrange(30, 60) for place in range(len(BANDS))]


def _price(tenths: int) -> str:
    return f"{tenths / 10:.2f}"


def _table(rates: list[int]) -> Table:
    rows = tuple((f"up to {most} kg", f"{_price(rate)} USD") for most, rate in zip(BANDS, rates, strict=True))
    return Table(head=("Weight", "Rate"), rows=rows)


def _by_weight(making: Making, carrier: str, route: Route, rates: list[int]) -> str:
    way, other = f"{route.start} to {route.end}", making.names.word()
    told = f"{carrier} takes parcels from {way} every working day. The rate depends on the weight alone."
    astray = f"{carrier} takes parcels from {route.start} to {route.end} in {other}, overseas, twice a week."
    title, site = f"{carrier}: parcel rates {way}", host(carrier)
    welcome = f"{carrier} has brought parcels home since 1987. Ask for a pick-up, or come to the counter by the bridge."
    making.page(site, "/", f"{carrier}: welcome", welcome, "Open from Monday to Saturday, from eight to six.")
    dear = [rate + 140 for rate in rates]
    making.page(site, "/overseas", f"{carrier}: {route.end} ({other}) overseas", astray, _table(dear))
    return making.ordering(site, "/rates", title, told, _table(rates), wrong=_price(dear[route.band]))


def _by_zone(making: Making, carrier: str, route: Route, rates: list[int], zone: int) -> tuple[str, str, str]:
    site, towns = host(carrier), [making.names.word() for _ in range(ZONES)]
    towns[zone - 1] = route.end
    named = Table(head=("Town", "Zone"), rows=tuple((town, f"zone {place}") for place, town in enumerate(towns, 1)))
    told = f"{carrier} sorts all towns that it serves from {route.start} into zones, by how far away they are."
    zones = making.page(site, "/zones", f"{carrier}: zones", told, named, "Islands are served on demand only.")
    by_zone = [[rate + 25 * place for place in range(ZONES)] for rate in rates]
    rows = [(f"up to {most} kg", *map(_price, row)) for most, row in zip(BANDS, by_zone, strict=True)]
    head = ("Weight", *(f"Zone {place} (USD)" for place in range(1, ZONES + 1)))
    told = f"What {carrier} asks for a parcel depends on its weight and on the zone that it is sent to."
    page = making.page(site, "/rates", f"{carrier}: rates by zone and weight", told, Table(head=head, rows=tuple(rows)))
    return zones, page, _price(by_zone[route.band][zone - 1])


def _compared(making: Making, carrier: str, route: Route, rates: list[int]) -> str:
    """The carrier's own page is out of reach; a comparison that only the second engine knows has its rates."""
    way, site = f"{route.start} to {route.end}", host(f"{making.names.word()} parcel check")
    making.dead(host(carrier), "/rates", f"{carrier}: parcel rates {way}", f"Rates of {carrier} for parcels.")
    told = f"We asked {carrier} at the counter this week what it takes for parcels from {way}, insurance included."
    title = f"{carrier} parcel rates {way}, compared"
    return making.page(site, f"/{slug(carrier)}", title, told, _table(rates), reach=Reach.SECOND)


def _blog(making: Making, carrier: str, route: Route, rates: list[int]) -> tuple[str, str]:
    claimed = _price(rates[route.band] - 20)
    told = f"Posted in June 2020. I sent {route.weight} kg from {route.start} to {route.end} and paid {claimed} USD."
    more = f"My review of {carrier}: friendly at the counter, and it took three days. They may charge more by now."
    site = host(f"{making.names.word()} on the road")
    return making.page(site, f"/2020/{slug(carrier)}", f"Review of {carrier} (2020)", told, more), claimed
