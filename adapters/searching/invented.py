"""An invented encyclopedia: people, towns, companies and books, and how they hang together. Same seed, same pages."""

from collections.abc import Callable
from random import Random
from typing import NamedTuple

PER_KIND = 14
"""Entries of each kind."""

FIRST = ("Ada", "Bruno", "Celia", "Dorian", "Edda", "Florin", "Greta", "Hanno", "Ilka", "Jorin", "Kerstin", "Ludo")
STARTS = ("Bar", "Cor", "Del", "Fen", "Gal", "Hol", "Kel", "Lam", "Mer", "Nor", "Pel", "Ros", "Sel", "Tav", "Ulm")
MIDDLES = ("a", "e", "i", "o", "u", "ari", "eno", "ila", "omi", "une")
TOWN_ENDS = ("burg", "ford", "wick", "haven", "stead", "mouth")
PERSON_ENDS = ("sen", "ler", "rich", "nov", "dal", "mann")
RIVER_ENDS = ("se", "ne", "ba", "ra", "der", "lt")
COMPANY_TRADES = ("Instruments", "Foundry", "Textiles", "Publishing", "Optics", "Shipyard")
BOOK_THINGS = ("Lantern", "Orchard", "Harbour", "Compass", "Winter", "Mirror", "Bridge", "Garden")


class Entry(NamedTuple):
    """A page: its first sentence says what it is, each further one states a fact. All facts by relation, as text."""

    title: str
    kind: str
    sentences: tuple[str, ...]
    facts: dict[str, str]

    def place(self, relation: str) -> int:
        """Which sentence states a fact, from 0."""
        return 1 + list(self.facts).index(relation)


TELLING = {
    "birthplace": "{title} was born in {value}.",
    "employer": "For many years {title} worked for {value}.",
    "river": "{title} lies on the river {value}.",
    "county": "The town belongs to {value}.",
    "founder": "It was founded by {value}.",
    "seat": "It has its head office in {value}.",
    "founded": "{title} was founded in {value}.",
    "author": "{title} was written by {value}.",
    "publisher": "It was first published by {value}.",
}
OPENING = {
    "person": "{title} is remembered as an engineer and traveller.",
    "town": "{title} is a market town.",
    "company": "{title} is a company.",
    "book": "{title} is a novel.",
}


def encyclopedia(seed: int | str) -> dict[str, Entry]:
    """Every entry by its title, which no two share."""
    random = Random(f"{seed} encyclopedia")
    names = _Names(random)
    people = [names.new(lambda: f"{random.choice(FIRST)} {names.word(PERSON_ENDS)}") for _ in range(PER_KIND)]
    towns = [names.new(lambda: names.word(TOWN_ENDS)) for _ in range(PER_KIND)]
    companies = [names.new(lambda: f"{names.word(('',))} {random.choice(COMPANY_TRADES)}") for _ in range(PER_KIND)]
    books = [names.new(lambda: f"The {random.choice(BOOK_THINGS)} of {names.word(('',))}") for _ in range(PER_KIND)]
    rivers = [names.new(lambda: names.word(RIVER_ENDS)) for _ in towns]
    years = random.sample(range(1790, 1990), 2 * PER_KIND)
    # Half of the towns only, so that some people come from the same one.
    homes, heads = random.choices(towns[::2], k=PER_KIND), random.sample(towns, PER_KIND)
    founders, authors = random.sample(people, PER_KIND), random.sample(people, PER_KIND)
    entries = [
        *(_entry(t, "person", birthplace=homes[n], employer=random.choice(companies)) for n, t in enumerate(people)),
        *(_entry(t, "town", river=rivers[n], county=f"{names.word(('',))} County") for n, t in enumerate(towns)),
        *(
            _entry(t, "company", founder=founders[n], seat=heads[n], founded=str(years[n]))
            for n, t in enumerate(companies)
        ),
        *(_entry(t, "book", author=authors[n], publisher=random.choice(companies)) for n, t in enumerate(books)),
    ]
    return {entry.title: entry for entry in entries}


def _entry(title: str, kind: str, **facts: str) -> Entry:
    told = (TELLING[relation].format(title=title, value=value) for relation, value in facts.items())
    return Entry(title, kind, (OPENING[kind].format(title=title), *told), facts)


class _Names:
    """Words that nobody used before."""

    def __init__(self, random: Random) -> None:
        self._random, self._used = random, set[str]()

    def word(self, ends: tuple[str, ...]) -> str:
        return f"{self._random.choice(STARTS)}{self._random.choice(MIDDLES)}{self._random.choice(ends)}"

    def new(self, make: Callable[[], str]) -> str:
        name = make()
        while name in self._used:
            name = make()
        self._used.add(name)
        return name
