"""Generated questions about prices with the web sites that answer them, and the list of all generated questions."""

import json
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import NamedTuple

from certigraph.adapters.assistantbench.fact_questions import (
    generate_board,
    generate_films,
    generate_gyms,
    generate_weather,
)
from certigraph.adapters.assistantbench.pages import (
    CaseBuilder,
    EngineReach,
    GeneratedCase,
    GeneratedPage,
    PageTable,
    host_of,
    join_names,
    to_slug,
    unreadable_treatment,
)
from certigraph.state.endings import Fault
from certigraph.state.search import COMPUTE, EXTRACT

# What annual passes save a family at a museum. The prices are on several pages; an outdated list and a museum of the
# same name mislead.

ADULTS = 2
"""Number of adults in a family."""

THEMES = ("Toy Museum", "Railway Museum", "Museum of Glass", "Harbour Museum")


class Prices(NamedTuple):
    """Prices for one adult and one child in USD."""

    adult: int
    child: int

    def family(self, children: int) -> int:
        """Return the price for a family with so many children."""
        return ADULTS * self.adult + children * self.child

    def table(self, what: str) -> PageTable:
        """Return the table of these prices that a page shows, with the heading `what`."""
        rows = (("Adults", f"{self.adult} USD"), ("Children up to 15", f"{self.child} USD"))
        return PageTable(head=("Visitors", what), rows=rows)

    def __str__(self) -> str:
        return f"{self.adult} USD for an adult and {self.child} USD for a child"


def generate_museum(builder: CaseBuilder, id_: str) -> GeneratedCase:
    """Generate a question of the family `museum`: How much do annual passes save a family in a number of visits?"""
    random, town = builder.random, builder.names.word()
    name = f"{builder.names.word()} {random.choice(THEMES)}"
    visits, children = random.randrange(4, 8), random.randrange(2, 4)
    day = Prices(random.randrange(14, 23), random.randrange(6, 11))
    year = Prices(2 * day.adult + random.randrange(1, 9), 2 * day.child + random.randrange(1, 5))

    prices_page = _add_day_prices(builder, name, town, day)
    archive = _add_archive(builder, name, day)
    passes_page = _add_passes(builder, name, town, year)
    _add_museum_pages(builder, name, town, day)

    day_queries, year_queries = (
        [f"{name} {town} ticket prices"],
        [f"{name} annual pass price", f"{town} pass {name} portal"],
    )
    builder.add_step(
        EXTRACT,
        f"What do day tickets of the {name} in {town} cost?",
        [*day_queries, f"{name} price list of 2017"],
        [prices_page],
        f"A day ticket costs {day}.",
        against=[archive],
        dispute=f"The price list of 2017 has {_prices_of_2017(day)}.",
    )
    goal = f"What do annual passes of the {name} in {town} cost?"
    builder.add_step(EXTRACT, goal, year_queries, [passes_page], f"An annual pass costs {year}.")
    paid, saved = visits * day.family(children), visits * day.family(children) - year.family(children)
    costs = f"{visits} visits cost the family {paid} USD by day ticket and {year.family(children)} USD by pass"
    builder.add_step(
        COMPUTE,
        f"What do passes save {ADULTS} adults and {children} children in {visits} visits?",
        [*day_queries, *year_queries],
        [prices_page, passes_page],
        f"{costs}: passes save {saved} USD.",
    )
    question = (
        f"How much will I save by getting annual passes for my family ({ADULTS} adults, {children} children of 8) for "
        f"the {name} in {town}, compared to buying daily tickets, if we visit {visits} times in a year?"
    )
    return builder.build(id_, question, [str(saved)])


def _prices_of_2017(day: Prices) -> Prices:
    return Prices(day.adult - 3, day.child - 2)


def _add_day_prices(builder: CaseBuilder, name: str, town: str, day: Prices) -> str:
    text = f"Day tickets of the {name} in {town} are sold at the desk and online. They are valid until we close."
    title, more = f"Ticket prices of the {name}", "Prices are in force until further notice; groups please call."
    builder.add_page(host_of(name), "/tickets", title, text, day.table("Day ticket"), more, reach=EngineReach.NONE)
    return builder.add_moved(host_of(name), "/prices", "/tickets", title, f"Ticket prices of the {name} in {town}.")


def _add_archive(builder: CaseBuilder, name: str, day: Prices) -> str:
    text = "This is a list of 1 March 2017, kept for the record. It is out of date and no longer in force."
    table = _prices_of_2017(day).table("Day ticket in 2017")
    return builder.add_page(host_of(name), "/archive/prices-2017", f"{name}: price list of 2017", text, table)


def _add_passes(builder: CaseBuilder, name: str, town: str, year: Prices) -> str:
    """Add the pages about annual passes.

    The site of the society that sells the passes cannot be read; the town's portal lists their prices.
    """
    friends = host_of(f"friends of {name}")
    builder.add_unreadable(
        friends, "/annual-pass", f"Annual pass of the {name}: price", "An annual pass for you and your family."
    )
    text = f"The {name} is open to friends of {town} for twelve months with a personal pass. It is sold at the desk."
    title, table = f"{town} portal: pass for the {name}", year.table("Annual pass")
    return builder.add_page(host_of(f"{town} portal"), f"/passes/{to_slug(name)}", title, text, table)


def _add_museum_pages(builder: CaseBuilder, name: str, town: str, day: Prices) -> None:
    """Add pages without the facts, and a museum of the same name in another town."""
    other = builder.names.word()
    namesake, higher_prices = host_of(f"{name} {other}"), Prices(day.adult + 5, day.child + 4)
    text = f"The {name} in {other} must not be confused with houses of the same name in other towns. Cash only."
    builder.add_page(namesake, "/prices", f"Tickets for the {name} in {other}", text, higher_prices.table("Day ticket"))
    builder.add_page(
        namesake, "/", f"{name}, {other}", text, "It shows what people of the region made over three centuries."
    )
    text = f"The {name} stands by the old market of {town}. It is closed on Mondays and on public holidays in winter."
    builder.add_page(
        host_of(name), "/", f"{name}: welcome", text, "Lifts lead to all floors. The cafe has cake on Sundays."
    )
    builder.add_page(
        host_of(name), "/visit", f"How to get to the {name}", text, "Trams 3 and 8 stop in front of the house."
    )
    builder.add_page(
        host_of(f"{town} portal"), "/", f"What to do in {town}", f"Walks, markets and music in {town}.", text
    )


# What a parcel costs with three carriers: one has rates by weight, one by zone and weight, and the rates of the third
# are only on another site.

WEIGHT_BANDS = (2, 5, 10)
"""Maximum kilograms for each rate."""

ZONES = 3

SORTS = ("Post", "Parcel", "Express")


class ParcelRoute(NamedTuple):
    """Start and destination of the parcel, and its weight in kilograms."""

    start: str
    end: str
    weight: int

    @property
    def band(self) -> int:
        """Index in WEIGHT_BANDS of the band that the parcel's weight belongs to."""
        return next(index for index, most in enumerate(WEIGHT_BANDS) if self.weight <= most)


def generate_parcels(builder: CaseBuilder, id_: str) -> GeneratedCase:
    """Generate a question of the family `parcels`: What does it cost to send a parcel with each of three carriers?"""
    random, names = builder.random, builder.names
    route = ParcelRoute(names.word(), names.word(), random.randrange(1, WEIGHT_BANDS[-1]))
    plain, zoned, shut = (f"{names.word()} {sort}" for sort in SORTS)
    rates = {carrier: _generate_rates(builder) for carrier in (plain, zoned, shut)}
    zone = random.randrange(1, ZONES + 1)
    costs = [_format_price(rates[carrier][route.band]) for carrier in (plain, zoned, shut)]

    by_weight = _add_rates_by_weight(builder, plain, route, rates[plain])
    blog, blog_price = _add_blog(builder, plain, route, rates[plain])
    zones, by_zone, costs[1] = _add_rates_by_zone(builder, zoned, route, rates[zoned], zone)
    comparison = _add_comparison(builder, shut, route, rates[shut])

    way = f"{route.start} to {route.end}"
    search_queries = [[f"{plain} parcel rates {way}", f"{plain} review {route.end}"]]
    search_queries += [
        [f"{zoned} zones {route.end}", f"{zoned} rates by zone and weight"],
        [f"{shut} parcel rates {way}"],
    ]
    sources = [[by_weight], [zones, by_zone], [comparison]]
    disputes = [f"A blog of June 2020 paid {blog_price} USD.", "", ""]
    texts = [f"{route.weight} kg from {way} cost {costs[0]} USD with {plain}."]
    texts.append(f"{route.end} is in zone {zone} of {zoned}, where {route.weight} kg cost {costs[1]} USD.")
    texts.append(f"{route.weight} kg from {way} cost {costs[2]} USD with {shut}.")
    for carrier, queries, pages, text, dispute in zip(
        (plain, zoned, shut), search_queries, sources, texts, disputes, strict=True
    ):
        goal = f"What does {carrier} ask for a parcel of {route.weight} kg from {way}?"
        builder.add_step(EXTRACT, goal, queries, pages, text, against=[blog] if dispute else [], dispute=dispute)
    prices = [f"{cost} USD with {carrier}" for carrier, cost in zip((plain, zoned, shut), costs, strict=True)]
    queries = [
        queries[-1] if carrier == zoned else queries[0] for carrier, queries in zip(rates, search_queries, strict=True)
    ]
    goal = "What does the parcel cost with each carrier?"
    builder.add_step(COMPUTE, goal, queries, [by_weight, by_zone, comparison], f"It costs {join_names(prices)}.")
    question = (
        f"How much does it cost to send a parcel of {route.weight} kg from {way} "
        f"with {join_names([plain, zoned, shut])}? "
        '(Format your answer as a list of jsons, one a carrier, with the keys "sender" and "price (usd)")'
    )
    pairs = zip((plain, zoned, shut), costs, strict=True)
    return builder.build(
        id_, question, [json.dumps({"sender": carrier, "price (usd)": cost}) for carrier, cost in pairs]
    )


def _generate_rates(builder: CaseBuilder) -> list[int]:
    """Return a carrier's rate for each weight band, in tenths of a dollar."""
    first = builder.random.randrange(60, 120)
    return [first + index * builder.random.randrange(30, 60) for index in range(len(WEIGHT_BANDS))]


def _format_price(tenths: int) -> str:
    return f"{tenths / 10:.2f}"


def _rates_table(rates: list[int]) -> PageTable:
    rows = tuple(
        (f"up to {most} kg", f"{_format_price(rate)} USD") for most, rate in zip(WEIGHT_BANDS, rates, strict=True)
    )
    return PageTable(head=("Weight", "Rate"), rows=rows)


def _add_rates_by_weight(builder: CaseBuilder, carrier: str, route: ParcelRoute, rates: list[int]) -> str:
    route_text, other_country = f"{route.start} to {route.end}", builder.names.word()
    text = f"{carrier} takes parcels from {route_text} every working day. The rate depends on the weight alone."
    overseas_text = (
        f"{carrier} takes parcels from {route.start} to {route.end} in {other_country}, overseas, twice a week."
    )
    title, site = f"{carrier}: parcel rates {route_text}", host_of(carrier)
    welcome = f"{carrier} has brought parcels home since 1987. Ask for a pick-up, or come to the counter by the bridge."
    builder.add_page(site, "/", f"{carrier}: welcome", welcome, "Open from Monday to Saturday, from eight to six.")
    overseas_rates = [rate + 140 for rate in rates]
    builder.add_page(
        site,
        "/overseas",
        f"{carrier}: {route.end} ({other_country}) overseas",
        overseas_text,
        _rates_table(overseas_rates),
    )
    return builder.add_misleading(
        site, "/rates", title, text, _rates_table(rates), wrong=_format_price(overseas_rates[route.band])
    )


def _add_rates_by_zone(
    builder: CaseBuilder, carrier: str, route: ParcelRoute, rates: list[int], zone: int
) -> tuple[str, str, str]:
    site, towns = host_of(carrier), [builder.names.word() for _ in range(ZONES)]
    towns[zone - 1] = route.end
    named = PageTable(
        head=("Town", "Zone"), rows=tuple((town, f"zone {number}") for number, town in enumerate(towns, 1))
    )
    text = f"{carrier} sorts all towns that it serves from {route.start} into zones, by how far away they are."
    zones = builder.add_page(site, "/zones", f"{carrier}: zones", text, named, "Islands are served on demand only.")
    by_zone = [[rate + 25 * number for number in range(ZONES)] for rate in rates]
    rows = [(f"up to {most} kg", *map(_format_price, row)) for most, row in zip(WEIGHT_BANDS, by_zone, strict=True)]
    head = ("Weight", *(f"Zone {number} (USD)" for number in range(1, ZONES + 1)))
    text = f"What {carrier} asks for a parcel depends on its weight and on the zone that it is sent to."
    page = builder.add_page(
        site, "/rates", f"{carrier}: rates by zone and weight", text, PageTable(head=head, rows=tuple(rows))
    )
    return zones, page, _format_price(by_zone[route.band][zone - 1])


def _add_comparison(builder: CaseBuilder, carrier: str, route: ParcelRoute, rates: list[int]) -> str:
    """Add the pages of the carrier whose own page cannot be read.

    Its rates are on a comparison site that only the second search engine finds.
    """
    way, site = f"{route.start} to {route.end}", host_of(f"{builder.names.word()} parcel check")
    builder.add_unreadable(
        host_of(carrier), "/rates", f"{carrier}: parcel rates {way}", f"Rates of {carrier} for parcels."
    )
    text = f"We asked {carrier} at the counter this week what it takes for parcels from {way}, insurance included."
    title = f"{carrier} parcel rates {way}, compared"
    return builder.add_page(site, f"/{to_slug(carrier)}", title, text, _rates_table(rates), reach=EngineReach.SECOND)


def _add_blog(builder: CaseBuilder, carrier: str, route: ParcelRoute, rates: list[int]) -> tuple[str, str]:
    claimed = _format_price(rates[route.band] - 20)
    text = f"Posted in June 2020. I sent {route.weight} kg from {route.start} to {route.end} and paid {claimed} USD."
    more = f"My review of {carrier}: friendly at the counter, and it took three days. They may charge more by now."
    site = host_of(f"{builder.names.word()} on the road")
    return builder.add_page(site, f"/2020/{to_slug(carrier)}", f"Review of {carrier} (2020)", text, more), claimed


# The complete generated web: every family of questions at every seed, and all pages by URL.

FAMILIES: Mapping[str, Callable[[CaseBuilder, str], GeneratedCase]] = {
    "gyms": generate_gyms,
    "museum": generate_museum,
    "parcels": generate_parcels,
    "films": generate_films,
    "weather": generate_weather,
    "board": generate_board,
}
"""Families of questions: functions that generate a question and its pages, by the family's name."""

SEEDS = (1, 2, 3, 4)
"""Seeds of the questions of each family; `FAMILY/SEED` is the id of a question."""


def generate_case(family: str, seed: int) -> GeneratedCase:
    """Generate the question of a family with a seed, such as `gyms/1`, and its pages; they are the same every time."""
    id_ = f"{family}/{seed}"
    return FAMILIES[family](CaseBuilder(id_, unreadable_treatment([*FAMILIES].index(family), seed)), id_)


@cache
def generate_all() -> Sequence[GeneratedCase]:
    """Return all generated questions, seed by seed, so that the first six are one of each family."""
    return tuple(generate_case(family, seed) for seed in SEEDS for family in FAMILIES)


def all_pages(questions: Sequence[GeneratedCase]) -> Mapping[str, GeneratedPage]:
    """Return the pages of all these questions by URL.

    Raises:
        Fault: ("data") two questions have different pages with the same URL.
    """
    pages: dict[str, GeneratedPage] = {}
    for page in (page for case in questions for page in case.pages):
        if pages.setdefault(page.url, page) is not page:
            raise Fault("data", f"two generated pages have the URL {page.url}: give one of the sites another name")
    return pages
