"""The chance of a rainy day in the first days of a month, from four years of measurements on two sites."""

from collections.abc import Mapping, Sequence

from certigraph.adapters.assistantbench.generated.making import Made, Making, host
from certigraph.adapters.assistantbench.generated.names import listed, slug
from certigraph.adapters.assistantbench.generated.pages import Table
from certigraph.state.researching import COMPUTE, EXTRACT

YEARS, DAYS = (2020, 2021, 2022, 2023), 5

MONTHS = ("March", "April", "June", "September", "October", "November")

RAINY = 0.5
"""Millimetres from which a day counts as rainy."""

AMOUNTS = (0.0, 0.0, 0.2, 0.4, 0.5, 0.9, 1.6, 3.1, 7.4)

CLAIMED = 12
"""Millimetres a day that a diary remembers."""

Rain = Mapping[int, Sequence[float]]


def weather(making: Making, id_: str) -> Made:
    """How likely is a rainy day in the first days of a month, in percent?"""
    random, town, other = making.random, making.names.word(), making.names.word()
    month, rain = random.choice(MONTHS), _measured(making)
    station = host(f"{town} weather station")
    pages = [_table_page(making, station, f"Rain in {town}, {month} {year}", month, rain[year]) for year in YEARS[:-1]]
    pages.append(_almanac(making, town, month, rain[YEARS[-1]]))
    diary = _diary(making, town, month)
    away = host(f"{other} county weather")
    for year, amounts in _measured(making).items():
        _table_page(making, away, f"Rain in {town} ({other} county), {month} {year}", month, amounts)
    about = f"{town} has a station since 1951. It stands on the meadow behind the school and is read at seven."
    making.page(station, "/", f"Weather station of {town}", about, "Records are open to all; pick a year and a month.")

    asks = [f"rain in {town} {month} {year}" for year in YEARS[:-1]]
    asks.append(f"{town} rain {month} {YEARS[-1]} almanac")
    goal = f"How much rain fell in {town} on each of the first {DAYS} days of {month} in"
    making.step(
        EXTRACT,
        f"{goal} 2020 and 2021?",
        [*asks[:2], f"diary of a rainy week in {town} {month} 2021"],
        pages[:2],
        _told(month, rain, YEARS[:2]),
        against=[diary],
        dispute=f"A travel diary has {CLAIMED} mm on each of the {DAYS} days in 2021.",
    )
    queries = [asks[2], f"official rain record {town} {month} 2023", asks[3]]
    making.step(EXTRACT, f"{goal} 2022 and 2023?", queries, pages[2:], _told(month, rain, YEARS[2:]))
    rainy = sum(amount >= RAINY for amounts in rain.values() for amount in amounts)
    days = len(YEARS) * DAYS
    text = f"{rainy} of {days} days had at least {RAINY} mm: {100 * rainy // days} percent."
    making.step(COMPUTE, f"What share of these {days} days was rainy?", asks[:3], pages[::-1], text)
    asked = (
        f"Based on the years 2020-2023, how likely am I to hit a rainy day (at least {RAINY}mm of precipitation) if I "
        f"travel to {town} during the first {DAYS} days of {month}? (provide the answer in percentage)"
    )
    return making.asked(id_, asked, [f"{100 * rainy // days}"])


def _measured(making: Making) -> Rain:
    return {year: [making.random.choice(AMOUNTS) for _ in range(DAYS)] for year in YEARS}


def _told(month: str, rain: Rain, years: Sequence[int]) -> str:
    return " ".join(f"{month} {year} began with {listed([f'{mm} mm' for mm in rain[year]])}." for year in years)


def _table_page(making: Making, site: str, title: str, month: str, amounts: Sequence[float]) -> str:
    rows = tuple((f"{day} {month}", f"{mm} mm") for day, mm in enumerate(amounts, 1))
    told = "Measured with a standard gauge at seven in the morning, for the day before. Days without rain have 0.0 mm."
    return making.page(site, f"/{slug(title)}", title, told, Table(head=("Day", "Rain"), rows=rows))


def _almanac(making: Making, town: str, month: str, amounts: Sequence[float]) -> str:
    """The office that keeps the last year's record cannot be reached; an almanac has it."""
    office, year = host(f"{town} weather office"), YEARS[-1]
    seen = f"From {year} on the office keeps the official rain record of {town}."
    making.dead(office, f"/{year}/{slug(month)}", f"Official rain record of {town}, {month} {year}", seen)
    site = host(f"{making.names.word()} almanac")
    return _table_page(making, site, f"Almanac: {town} rain, {month} {year}", month, amounts)


def _diary(making: Making, town: str, month: str) -> str:
    wrong = f"On each of the first {DAYS} days of {month} 2021 {CLAIMED} mm of rain fell in {town}. We played cards."
    told = "Written down from memory on the train home. Next year we will go somewhere dry."
    site = host(f"{making.names.word()} travels")
    title = f"Diary of a rainy week in {town} ({month} 2021)"
    return making.ordering(site, f"/{slug(town)}", title, wrong, told, wrong="100")
