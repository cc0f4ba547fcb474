"""Generated web sites for questions about prices."""

import json
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import NamedTuple

from certigraph.adapters.assistantbench.fact_questions import board, films, gyms, weather
from certigraph.adapters.assistantbench.pages import Made, Making, Reach, Table, WebPage, death_of, host, listed, slug
from certigraph.state.records import Fault
from certigraph.state.search import COMPUTE, EXTRACT

# What annual passes save a family at a museum: several pages of prices, an outdated list, a namesake.

ADULTS = 2

THEMES = ("Toy Museum", "Railway Museum", "Museum of Glass", "Harbour Museum")


class Prices(NamedTuple):
    """Of one adult and one child, USD."""

    adult: int
    child: int

    def family(self, children: int) -> int:
        """Of all."""
        return ADULTS * self.adult + children * self.child

    def table(self, what: str) -> Table:
        """As a page shows them."""
        rows = (("Adults", f"{self.adult} USD"), ("Children up to 15", f"{self.child} USD"))
        return Table(head=("Visitors", what), rows=rows)

    def __str__(self) -> str:
        return f"{self.adult} USD for an adult and {self.child} USD for a child"


def museum(making: Making, id_: str) -> Made:
    """How much do annual passes save a family in so many visits?"""
    random, town = making.random, making.names.word()
    name = f"{making.names.word()} {random.choice(THEMES)}"
    visits, children = random.randrange(4, 8), random.randrange(2, 4)
    day = Prices(random.randrange(14, 23), random.randrange(6, 11))
    year = Prices(2 * day.adult + random.randrange(1, 9), 2 * day.child + random.randrange(1, 5))

    prices = _day(making, name, town, day)
    old = _archive(making, name, day)
    passes = _passes(making, name, town, year)
    _around(making, name, town, day)

    asks_day, asks_year = [f"{name} {town} ticket prices"], [f"{name} annual pass price", f"{town} pass {name} portal"]
    making.step(
        EXTRACT,
        f"What do day tickets of the {name} in {town} cost?",
        [*asks_day, f"{name} price list of 2017"],
        [prices],
        f"A day ticket costs {day}.",
        against=[old],
        dispute=f"The price list of 2017 has {_older(day)}.",
    )
    goal = f"What do annual passes of the {name} in {town} cost?"
    making.step(EXTRACT, goal, asks_year, [passes], f"An annual pass costs {year}.")
    paid, saved = visits * day.family(children), visits * day.family(children) - year.family(children)
    told = f"{visits} visits cost the family {paid} USD by day ticket and {year.family(children)} USD by pass"
    making.step(
        COMPUTE,
        f"What do passes save {ADULTS} adults and {children} children in {visits} visits?",
        [*asks_day, *asks_year],
        [prices, passes],
        f"{told}: passes save {saved} USD.",
    )
    asked = (
        f"How much will I save by getting annual passes for my family ({ADULTS} adults, {children} children of 8) for "
        f"the {name} in {town}, compared to buying daily tickets, if we visit {visits} times in a year?"
    )
    return making.asked(id_, asked, [str(saved)])


def _older(day: Prices) -> Prices:
    return Prices(day.adult - 3, day.child - 2)


def _day(making: Making, name: str, town: str, day: Prices) -> str:
    told = f"Day tickets of the {name} in {town} are sold at the desk and online. They are valid until we close."
    title, more = f"Ticket prices of the {name}", "Prices are in force until further notice; groups please call."
    making.page(host(name), "/tickets", title, told, day.table("Day ticket"), more, reach=Reach.NONE)
    return making.moved(host(name), "/prices", "/tickets", title, f"Ticket prices of the {name} in {town}.")


def _archive(making: Making, name: str, day: Prices) -> str:
    told = "This is a list of 1 March 2017, kept for the record. It is out of date and no longer in force."
    table = _older(day).table("Day ticket in 2017")
    return making.page(host(name), "/archive/prices-2017", f"{name}: price list of 2017", told, table)


def _passes(making: Making, name: str, town: str, year: Prices) -> str:
    """The society that sells the passes cannot be reached; the town's portal lists them."""
    friends = host(f"friends of {name}")
    making.dead(friends, "/annual-pass", f"Annual pass of the {name}: price", "An annual pass for you and your family.")
    told = f"The {name} is open to friends of {town} for twelve months with a personal pass. It is sold at the desk."
    title, table = f"{town} portal: pass for the {name}", year.table("Annual pass")
    return making.page(host(f"{town} portal"), f"/passes/{slug(name)}", title, told, table)


def _around(making: Making, name: str, town: str, day: Prices) -> None:
    """Pages beside the point, and a museum of the same name in another town."""
    other = making.names.word()
    twin, dearer = host(f"{name} {other}"), Prices(day.adult + 5, day.child + 4)
    told = f"The {name} in {other} must not be confused with houses of the same name in other towns. Cash only."
    making.page(twin, "/prices", f"Tickets for the {name} in {other}", told, dearer.table("Day ticket"))
    making.page(twin, "/", f"{name}, {other}", told, "It shows what people of the region made over three centuries.")
    told = f"The {name} stands by the old market of {town}. It is closed on Mondays and on public holidays in winter."
    making.page(host(name), "/", f"{name}: welcome", told, "Lifts lead to all floors. The cafe has cake on Sundays.")
    making.page(host(name), "/visit", f"How to get to the {name}", told, "Trams 3 and 8 stop in front of the house.")
    making.page(host(f"{town} portal"), "/", f"What to do in {town}", f"Walks, markets and music in {town}.", told)


# What a parcel costs with three carriers: a rate by weight, a rate by zone and weight, and one told elsewhere only.

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


# The whole invented web: every family of questions at every seed, and all pages by their URL.

FAMILIES: Mapping[str, Callable[[Making, str], Made]] = {
    "gyms": gyms,
    "museum": museum,
    "parcels": parcels,
    "films": films,
    "weather": weather,
    "board": board,
}

SEEDS = (1, 2, 3, 4)


def made(family: str, seed: int) -> Made:
    """The question of a family at a seed, `gyms/1`, and its pages; the same every time."""
    id_ = f"{family}/{seed}"
    return FAMILIES[family](Making(id_, death_of([*FAMILIES].index(family), seed)), id_)


@cache
def everything() -> Sequence[Made]:
    """All questions, seed by seed, so that the first of them are one of each family."""
    return tuple(made(family, seed) for seed in SEEDS for family in FAMILIES)


def all_pages(questions: Sequence[Made]) -> Mapping[str, WebPage]:
    """Their pages by URL. Raises Fault ("data") where two questions have made the same one."""
    pages: dict[str, WebPage] = {}
    for page in (page for one in questions for page in one.pages):
        if pages.setdefault(page.url, page) is not page:
            raise Fault("data", f"two generated pages have the URL {page.url}: give one of the sites another name")
    return pages
