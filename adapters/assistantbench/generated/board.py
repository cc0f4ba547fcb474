"""Board members who joined in the year of their company's flotation: its history, its board, and a public register."""

from collections.abc import Mapping

from certigraph.adapters.assistantbench.generated.making import Made, Making, host
from certigraph.adapters.assistantbench.generated.names import listed, slug
from certigraph.adapters.assistantbench.generated.pages import Table
from certigraph.state.researching import COLLECT, EXTRACT, FILTER

TRADES = ("Instruments", "Foundry", "Optics", "Shipyard", "Textiles")

SEATS = ("Chair", "Deputy chair", "Audit committee", "Nominations", "Member", "Member")


def board(making: Making, id_: str) -> Made:
    """Which members of a company's board joined it in the year of its IPO?"""
    random, names = making.random, making.names
    company, town = f"{names.word()} {random.choice(TRADES)}", names.word()
    year = random.randrange(2006, 2019)
    others = [year - 4, year - 1, year + 1, year + random.randrange(2, 5)]
    joined = {names.person(): when for when in random.sample([year, year, *others], len(SEATS))}

    history = _history(making, company, town, year)
    news = _news(making, company, year)
    sitting = _board(making, company, joined)
    register = _register(making, company, town, joined)
    _namesake(making, company, year)

    asks_year = [f"{company} history stock exchange", f"{company} to go public news {year - 2}"]
    making.step(
        EXTRACT,
        f"In which year did {company} of {town} go public?",
        asks_year,
        [history],
        f"Shares of {company} were first traded in {year}.",
        against=[news],
        dispute=f"A newspaper of {year - 2} expected it for {year - 1}.",
    )
    told = f"On the board of {company} sit {listed([*joined])}."
    making.step(COLLECT, f"Who sits on the board of {company}?", [f"{company} members of the board"], [sitting], told)
    asks = [f"{company} board biographies appointed", f"register of companies {company} {town}"]
    every = listed([f"{name} in {when}" for name, when in joined.items()])
    making.step(EXTRACT, "When did each member join the board?", asks, [register], f"They joined the board: {every}.")
    found = [name for name, when in joined.items() if when == year]
    text = f"In {year}, the year of the first trade, {listed(found)} joined the board."
    goal = "Which of them joined in the year in which it went public?"
    making.step(FILTER, goal, [asks_year[0], asks[1]], [history, register], text)
    asked = f"Which members of the board of {company} in {town} joined it in the same year as the company's IPO?"
    return making.asked(id_, asked, found)


def _history(making: Making, company: str, town: str, year: int) -> str:
    told = f"{company} was founded in a shed in {town} in {year - 31} and has made what others could not ever since."
    went = f"After a delay, our shares were first traded on the stock exchange on 4 June {year}."
    title, site = f"History of {company}: from a shed to the stock exchange", host(company)
    making.page(site, "/", f"{company}: welcome", told, "Visitors are welcome on the first Friday of each month.")
    jobs = (
        f"We look for turners, fitters and a cook for our works in {town}. Write to us what you like to do, and when."
    )
    making.page(site, "/jobs", f"Work at {company}", jobs, "We answer every letter within a week.")
    return making.page(site, "/history", title, told, went, "Since then the works have been enlarged twice.")


def _news(making: Making, company: str, year: int) -> str:
    told = f"{year - 2}, 12 November. {company} is to go public in {year - 1}, people close to the board said today."
    more = "The company did not want to comment. Analysts call the plan bold; banks are said to be interested."
    site, title = host(f"{making.names.word()} courier"), f"{company} to go public (news of {year - 2})"
    return making.ordering(site, f"/{year - 2}/{slug(company)}", title, told, more, wrong=f"{year - 1}")


def _board(making: Making, company: str, joined: Mapping[str, int]) -> str:
    told = f"The board of {company} meets six times a year. It appoints the managers and looks over their shoulders."
    sitting = Table(head=("Name", "Seat"), rows=tuple(zip(joined, SEATS, strict=True)))
    return making.page(host(company), "/board", f"{company}: members of the board", told, sitting)


def _register(making: Making, company: str, town: str, joined: Mapping[str, int]) -> str:
    """The biographies of the members cannot be read; the public register says when they were appointed."""
    investors = host(f"{company} investors")
    making.dead(investors, "/biographies", f"{company}: board biographies", "When and why our members were appointed.")
    told = f"Entries of {company}, seat in {town}, in the public register. Changes are entered within ten days."
    rows = tuple((name, str(when)) for name, when in making.random.sample([*joined.items()], len(joined)))
    table, wrong = Table(head=("Member of the board", "Appointed"), rows=rows), rows[0][0]
    site, title = host(f"{town} register"), f"Register of companies: {company}, {town}"
    return making.ordering(site, f"/{slug(company)}", title, told, table, wrong=wrong)


def _namesake(making: Making, company: str, year: int) -> None:
    """A company of the same name in another town."""
    town = making.names.word()
    told = f"Entries of {company}, seat in {town}, in the public register. It is no relation of any other company."
    rows = tuple((making.names.person(), str(year)) for _ in range(3))
    table = Table(head=("Member of the board", "Appointed"), rows=rows)
    making.page(host(f"{town} register"), f"/{slug(company)}", f"Register of companies: {company}, {town}", told, table)
    told = f"{company} of {town} sells tea and biscuits by mail. Shares have been traded since {year + 2}."
    making.page(host(f"{company} {town}"), "/", f"{company}, {town}: tea by mail", told, "Order before noon.")
