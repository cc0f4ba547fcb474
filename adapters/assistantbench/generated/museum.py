"""What annual passes save a family at a museum: several pages of prices, an outdated list, a namesake."""

from typing import NamedTuple

from certigraph.adapters.assistantbench.generated.making import Made, Making, host
from certigraph.adapters.assistantbench.generated.names import slug
from certigraph.adapters.assistantbench.generated.pages import Reach, Table
from certigraph.state.researching import COMPUTE, EXTRACT

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
