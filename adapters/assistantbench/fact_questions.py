"""Generated questions about people, films, gyms and weather, with the web sites that answer them."""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from certigraph.adapters.assistantbench.pages import Made, Making, Table, host, listed, slug
from certigraph.state.search import COLLECT, COMPUTE, EXTRACT, FILTER

# Board members who joined in the year of their company's IPO: the company's history, its board, and a public register.

TRADES = ("Instruments", "Foundry", "Optics", "Shipyard", "Textiles")

SEATS = ("Chair", "Deputy chair", "Audit committee", "Nominations", "Member", "Member")


def board(builder: Making, id_: str) -> Made:
    """Generate the question: Which members of a company's board joined it in the year of its IPO?"""
    random, names = builder.random, builder.names
    company, town = f"{names.word()} {random.choice(TRADES)}", names.word()
    year = random.randrange(2006, 2019)
    others = [year - 4, year - 1, year + 1, year + random.randrange(2, 5)]
    years_by_member = {names.person(): when for when in random.sample([year, year, *others], len(SEATS))}

    history = _history(builder, company, town, year)
    news = _news(builder, company, year)
    board_page = _board(builder, company, years_by_member)
    register = _register(builder, company, town, years_by_member)
    _namesake(builder, company, year)

    asks_year = [f"{company} history stock exchange", f"{company} to go public news {year - 2}"]
    builder.add_step(
        EXTRACT,
        f"In which year did {company} of {town} go public?",
        asks_year,
        [history],
        f"Shares of {company} were first traded in {year}.",
        against=[news],
        dispute=f"A newspaper of {year - 2} expected it for {year - 1}.",
    )
    text = f"On the board of {company} sit {listed([*years_by_member])}."
    builder.add_step(
        COLLECT, f"Who sits on the board of {company}?", [f"{company} members of the board"], [board_page], text
    )
    asks = [f"{company} board biographies appointed", f"register of companies {company} {town}"]
    every = listed([f"{name} in {when}" for name, when in years_by_member.items()])
    builder.add_step(
        EXTRACT, "When did each member join the board?", asks, [register], f"They joined the board: {every}."
    )
    members = [name for name, when in years_by_member.items() if when == year]
    text = f"In {year}, the year of the first trade, {listed(members)} joined the board."
    goal = "Which of them joined in the year in which it went public?"
    builder.add_step(FILTER, goal, [asks_year[0], asks[1]], [history, register], text)
    question = f"Which members of the board of {company} in {town} joined it in the same year as the company's IPO?"
    return builder.build(id_, question, members)


def _history(builder: Making, company: str, town: str, year: int) -> str:
    text = f"{company} was founded in a shed in {town} in {year - 31} and has made what others could not ever since."
    flotation = f"After a delay, our shares were first traded on the stock exchange on 4 June {year}."
    title, site = f"History of {company}: from a shed to the stock exchange", host(company)
    builder.add_page(site, "/", f"{company}: welcome", text, "Visitors are welcome on the first Friday of each month.")
    jobs = (
        f"We look for turners, fitters and a cook for our works in {town}. Write to us what you like to do, and when."
    )
    builder.add_page(site, "/jobs", f"Work at {company}", jobs, "We answer every letter within a week.")
    return builder.add_page(site, "/history", title, text, flotation, "Since then the works have been enlarged twice.")


def _news(builder: Making, company: str, year: int) -> str:
    text = f"{year - 2}, 12 November. {company} is to go public in {year - 1}, people close to the board said today."
    more = "The company did not want to comment. Analysts call the plan bold; banks are said to be interested."
    site, title = host(f"{builder.names.word()} courier"), f"{company} to go public (news of {year - 2})"
    return builder.add_misleading(site, f"/{year - 2}/{slug(company)}", title, text, more, wrong=f"{year - 1}")


def _board(builder: Making, company: str, joined: Mapping[str, int]) -> str:
    text = f"The board of {company} meets six times a year. It appoints the managers and looks over their shoulders."
    seats = Table(head=("Name", "Seat"), rows=tuple(zip(joined, SEATS, strict=True)))
    return builder.add_page(host(company), "/board", f"{company}: members of the board", text, seats)


def _register(builder: Making, company: str, town: str, joined: Mapping[str, int]) -> str:
    """The biographies of the members cannot be read; the public register has the years of appointment."""
    investors = host(f"{company} investors")
    builder.add_unreadable(
        investors, "/biographies", f"{company}: board biographies", "When and why our members were appointed."
    )
    text = f"Entries of {company}, seat in {town}, in the public register. Changes are entered within ten days."
    rows = tuple((name, str(when)) for name, when in builder.random.sample([*joined.items()], len(joined)))
    table, wrong = Table(head=("Member of the board", "Appointed"), rows=rows), rows[0][0]
    site, title = host(f"{town} register"), f"Register of companies: {company}, {town}"
    return builder.add_misleading(site, f"/{slug(company)}", title, text, table, wrong=wrong)


def _namesake(builder: Making, company: str, year: int) -> None:
    """Add a company of the same name in another town."""
    town = builder.names.word()
    text = f"Entries of {company}, seat in {town}, in the public register. It is no relation of any other company."
    rows = tuple((builder.names.person(), str(year)) for _ in range(3))
    table = Table(head=("Member of the board", "Appointed"), rows=rows)
    builder.add_page(
        host(f"{town} register"), f"/{slug(company)}", f"Register of companies: {company}, {town}", text, table
    )
    text = f"{company} of {town} sells tea and biscuits by mail. Shares have been traded since {year + 2}."
    builder.add_page(host(f"{company} {town}"), "/", f"{company}, {town}: tea by mail", text, "Order before noon.")


# The highest rated film of an actor that is short enough and on a service: each fact is on a separate site.

THINGS = ("Lantern", "Orchard", "Compass", "Winter", "Mirror", "Garden")


class Film(NamedTuple):
    """A film: its year, its length in minutes, its rating out of 10, and whether the service has it."""

    title: str
    year: int
    minutes: int
    rating: float
    there: bool


Cell = Callable[[Film], str]


def films(builder: Making, id_: str) -> Made:
    """Generate the question: Which film of an actor under so many minutes on a service is rated highest?"""
    names = builder.names
    actor, service, critics = names.person(), f"{names.word()} Play", f"{names.word()} Scores"
    limit = builder.random.choice((110, 120, 130))
    all_ = _films(builder, limit)
    removed = all_[1]

    listing = _listing(builder, "filmbook", f"Films with {actor}", "Year", all_, lambda film: f"{film.year}")
    about = f"How long films of {actor} are"
    lengths = _listing(builder, "lengths", about, "Minutes", all_, lambda film: f"{film.minutes}")
    rated = _ratings(builder, critics, actor, all_)
    where = _where(builder, service, actor, all_)
    blog = _film_blog(builder, service, removed)
    _around(builder, actor, all_)

    queries = [f"films with {actor} filmbook"]
    all_titles = listed([f"{film.title} ({film.year})" for film in all_])
    builder.add_step(
        COLLECT, f"List the films with {actor}.", queries, [listing], f"The films with {actor} are {all_titles}."
    )
    short = [film for film in all_ if film.minutes < limit]
    text = listed([f"{film.title} ({film.minutes} min)" for film in short])
    queries, goal = [f"how long films of {actor} are in minutes"], f"Which of them are shorter than {limit} minutes?"
    builder.add_step(FILTER, goal, queries, [lengths], f"Shorter than {limit} minutes are {text}.")
    offered = [film for film in short if film.there]
    builder.add_step(
        FILTER,
        f"Which of the shorter ones are on {service}?",
        [f"{service} catalogue {actor}", f"where to watch films of {actor}", f"{removed.title} on {service} news"],
        [where],
        f"Of the shorter ones, {service} has {listed([film.title for film in offered])}; {removed.title} is not on it.",
        against=[blog],
        dispute=f"A blog of January 2018 has {removed.title} on {service}.",
    )
    text = listed([f"{film.rating} for {film.title}" for film in offered])
    queries, goal = [f"{critics} ratings {actor}"], f"How does {critics} rate those that are left?"
    builder.add_step(EXTRACT, goal, queries, [rated], f"{critics} has {text}.")
    best = max(offered, key=lambda film: film.rating)
    text = f"With {best.rating} of 10, {best.title} is the highest rated of those that are left."
    builder.add_step(COMPUTE, "Which of these is rated highest?", queries, [rated], text)
    question = (
        f"What is the highest rated (according to {critics}) film with {actor} that is less than {limit} minutes "
        f"and is available on {service}?"
    )
    return builder.build(id_, question, [best.title])


def _films(builder: Making, limit: int) -> list[Film]:
    """Of the films rated better than the answer one is too long, one is not on the service, and one is neither."""
    random, things = builder.random, builder.random.sample(THINGS, len(THINGS))
    titles = [f"The {thing} of {builder.names.word()}" for thing in things]
    years = random.sample(range(2003, 2019), len(titles))
    ratings = [tenths / 10 for tenths in sorted(random.sample(range(52, 93), len(titles)), reverse=True)]
    minutes = [limit - random.randrange(3, 30) for _ in titles]
    minutes[0], minutes[2] = limit + random.randrange(1, 9), limit + random.randrange(10, 40)
    available = (True, False, False, True, True, True)
    return [Film(*fields) for fields in zip(titles, years, minutes, ratings, available, strict=True)]


def _table(builder: Making, head: str, all_: Sequence[Film], cell: Cell) -> Table:
    rows = tuple((film.title, cell(film)) for film in builder.random.sample(all_, len(all_)))
    return Table(head=("Film", head), rows=rows)


def _listing(builder: Making, site: str, title: str, head: str, all_: Sequence[Film], cell: Cell) -> str:
    site = f"{builder.names.word()} {site}"
    text = f"{title}: collected by our readers from programmes and posters, and checked by two editors every spring."
    return builder.add_page(host(site), f"/{slug(title)}", f"{title} ({site})", text, _table(builder, head, all_, cell))


def _ratings(builder: Making, critics: str, actor: str, all_: Sequence[Film]) -> str:
    text = f"Ratings of the films with {actor}, out of 10, as the critics of {critics} gave them. Updated this week."
    table = _table(builder, "Rating", all_, lambda film: f"{film.rating}")
    title, wrong = f"{critics}: ratings of {actor}", all_[0].title
    return builder.add_misleading(host(critics), f"/{slug(actor)}", title, text, table, wrong=wrong)


def _where(builder: Making, service: str, actor: str, all_: Sequence[Film]) -> str:
    """The service's own catalogue cannot be read; a guide to several services has the same facts."""
    builder.add_unreadable(
        host(service), f"/catalogue/{slug(actor)}", f"{service} catalogue: {actor}", f"{actor} on {service}."
    )
    text = f"Where to watch the films of {actor}, as of this month. We look the catalogues up every night."
    table = _table(builder, f"On {service}", all_, lambda film: "yes" if film.there else "no")
    site = host(f"{builder.names.word()} whereto")
    return builder.add_page(site, f"/{slug(actor)}", f"Where to watch films of {actor}", text, table)


def _film_blog(builder: Making, service: str, film: Film) -> str:
    text = f"News of 9 January 2018: {film.title} is on {service} from tonight. It will stay for some months at least."
    more = "Popcorn is ready in this house. I will write about the next film when the snow has melted."
    site = host(f"{builder.names.word()} sofa")
    return builder.add_page(site, "/2018/january", f"{film.title} on {service} (January 2018)", text, more)


def _around(builder: Making, actor: str, all_: Sequence[Film]) -> None:
    """Add a page for each film, and an actor of the same name from the time of silent films."""
    site = host(f"{builder.names.word()} cinema")
    for film in all_:
        text = f"{film.title} came out in {film.year}. A stranger comes to a small town and nothing is as it was."
        builder.add_page(site, f"/{slug(film.title)}", film.title, text, "Our cinema showed it for a week in autumn.")
    text = f"{actor}, who shares the name with a later actor, was on stage and in silent pictures from 1912 to 1926."
    silent = Table(head=("Picture", "Minutes"), rows=(("The Miller's Daughter", "24"), ("A Day at Sea", "31")))
    builder.add_page(site, f"/silent/{slug(actor)}", f"{actor} (1890-1951), silent pictures", text, silent)


# Gyms near a park with early classes: distances in a guide, timetables on the gyms' sites, one only in a portal.

SORTS = ("Gym", "Fitness", "Pilates Studio", "Boxing Club", "Strength Hall")

CLASSES = ("Circuit training", "Yoga flow", "Spinning", "Core and stretch")


class Gym(NamedTuple):
    """A gym, its distance from the park in metres, and the hour of its first class."""

    name: str
    metres: int
    first: str

    @property
    def site(self) -> str:
        """Host of its site."""
        return host(self.name)


def gyms(builder: Making, id_: str) -> Made:
    """Generate the question: Which gyms within some hundred metres of a park have classes before 7 am?"""
    random, names = builder.random, builder.names
    town, elsewhere, park = names.word(), names.word(), f"{names.word()} Park"
    limit = random.choice((300, 400, 500))
    open_, unreadable, late, far, farther = _gyms(builder, limit)
    near = [open_, unreadable, late]

    guide = _guide(builder, town, park, [open_, unreadable, late, far, farther])
    times = _timetable(builder, open_, town)
    _home(builder, open_, town)
    portal = _portal(builder, unreadable, town)
    disputed = _timetable(builder, late, town, wrong=far.name)
    blog = _gym_blog(builder, late, town)
    _timetable(builder, far, town)
    _home(builder, farther, town)
    _timetable(builder, late._replace(name=f"{late.name} {elsewhere}", first="05:45"), elsewhere)

    guide_queries = [f"gyms near {park} {town} distance in metres"]
    all_gyms = ", ".join(f"{gym.name} ({gym.metres} m)" for gym in (open_, unreadable, late, far, farther))
    builder.add_step(
        COLLECT, f"List the gyms near {park} in {town}.", guide_queries, [guide], f"Gyms near {park} are {all_gyms}."
    )
    within = f"Within {limit} m of {park} are {listed([gym.name for gym in near])}."
    builder.add_step(FILTER, f"Which of these gyms are within {limit} m of {park}?", guide_queries, [guide], within)
    queries = [
        f"{open_.name} {town} timetable",
        f"{unreadable.name} {town} class times",
        f"{late.name} {town} timetable",
    ]
    builder.add_step(
        EXTRACT,
        f"When does the first class start at {listed([gym.name for gym in near])}?",
        queries,
        [times, portal, disputed],
        f"The first class starts at {listed([f'{gym.first} at {gym.name}' for gym in near])}.",
        against=[blog],
        dispute=f"A blog of May 2019 has classes at {late.name} start at 06:00.",
    )
    early = [gym for gym in near if gym.first < "07:00"]
    text = f"Of these, only {listed([gym.name for gym in early])} have classes before 07:00."
    builder.add_step(COMPUTE, "Which of them have classes before 7 am?", queries[:2], [times, portal], text)
    question = f"Which gyms within {limit} metres of {park} in {town} have fitness classes before 7am?"
    return builder.build(id_, question, [gym.name for gym in early])


def _gyms(builder: Making, limit: int) -> list[Gym]:
    """Two near gyms that open early, a near one that opens late, and two that are too far, one of them early."""
    random, names = builder.random, builder.names
    metres = [*sorted(random.sample(range(60, limit - 10, 10), 3)), limit + random.randrange(20, 90), limit * 3]
    hours = [random.choice(early) for early in [("06:00", "06:15", "06:30", "06:45")] * 2]
    hours += [random.choice(("07:30", "08:00", "09:15")), "06:00", "10:00"]
    drawn = zip(random.sample(SORTS, 5), metres, hours, strict=True)
    return [Gym(f"{names.word()} {sort}", away, first) for sort, away, first in drawn]


def _guide(builder: Making, town: str, park: str, listed_gyms: list[Gym]) -> str:
    rows = tuple((gym.name, f"{gym.metres} m") for gym in builder.random.sample(listed_gyms, len(listed_gyms)))
    text = f"Who runs in {park} in the morning may want to train indoors on rainy days. These gyms are close by."
    distances = Table(head=("Gym", f"Distance from {park}"), rows=rows)
    site, secret = host(f"{town} guide"), f"What members say about gyms in {town}, for members only. Do not pass it on."
    builder.add_page(
        site, "/private/members", f"Members on gyms in {town}", secret, "Our robots.txt keeps readers out."
    )
    return builder.add_page(site, f"/gyms-near-{slug(park)}", f"Gyms near {park}, {town}", text, distances)


def _home(builder: Making, gym: Gym, town: str) -> None:
    text = f"Welcome to {gym.name} in {town}. We have weights, showers and friendly trainers; come in for a free trial."
    builder.add_page(
        gym.site, "/", f"{gym.name}: welcome", text, "Members may bring a friend on Sundays at no extra cost."
    )


def _hours(gym: Gym) -> Table:
    hours = (gym.first, "12:00", "17:30", "19:00")
    return Table(head=("Class", "Starts"), rows=tuple(zip(CLASSES, hours, strict=True)))


def _timetable(builder: Making, gym: Gym, town: str, wrong: str = "") -> str:
    title, text = f"Timetable of {gym.name}", f"These classes are held at {gym.name}, {town}, from Monday to Friday."
    if wrong:
        return builder.add_misleading(gym.site, "/timetable", title, text, _hours(gym), wrong=wrong)
    return builder.add_page(gym.site, "/timetable", title, text, _hours(gym), "Please arrive five minutes early.")


def _portal(builder: Making, gym: Gym, town: str) -> str:
    """The gym's own timetable cannot be read; a booking portal has it."""
    builder.add_unreadable(gym.site, "/timetable", f"{gym.name}: class times", f"Class times of {gym.name}, {town}.")
    text = (
        f"All that can be booked at {gym.name} through this portal, as the gym told us this month. Prices on request."
    )
    site = host(f"{town} bookings")
    return builder.add_page(site, f"/{slug(gym.name)}", f"Book {gym.name} in {town}: classes", text, _hours(gym))


def _gym_blog(builder: Making, gym: Gym, town: str) -> str:
    text = (
        f"Posted on 3 May 2019. At {gym.name} in {town} the first class starts at 06:00, so I am always at work early."
    )
    more = (
        "I wrote this down for friends who look for a place to train before breakfast. Things may have changed since."
    )
    site = host(f"{builder.names.word()} mornings")
    return builder.add_page(site, f"/2019/{slug(gym.name)}", f"Early at {gym.name} (2019)", text, more)


# The chance of a rainy day in the first days of a month, from four years of measurements on two sites.

YEARS, DAYS = (2020, 2021, 2022, 2023), 5

MONTHS = ("March", "April", "June", "September", "October", "November")

RAINY = 0.5
"""Minimum millimetres of a rainy day."""

AMOUNTS = (0.0, 0.0, 0.2, 0.4, 0.5, 0.9, 1.6, 3.1, 7.4)

CLAIMED = 12
"""Millimetres per day that a diary claims."""

Rain = Mapping[int, Sequence[float]]


def weather(builder: Making, id_: str) -> Made:
    """Generate the question: How likely is a rainy day in the first days of a month, in percent?"""
    random, town, other = builder.random, builder.names.word(), builder.names.word()
    month, rain = random.choice(MONTHS), _measured(builder)
    station = host(f"{town} weather station")
    pages = [_table_page(builder, station, f"Rain in {town}, {month} {year}", month, rain[year]) for year in YEARS[:-1]]
    pages.append(_almanac(builder, town, month, rain[YEARS[-1]]))
    diary = _diary(builder, town, month)
    away = host(f"{other} county weather")
    for year, amounts in _measured(builder).items():
        _table_page(builder, away, f"Rain in {town} ({other} county), {month} {year}", month, amounts)
    about = f"{town} has a station since 1951. It stands on the meadow behind the school and is read at seven."
    builder.add_page(
        station, "/", f"Weather station of {town}", about, "Records are open to all; pick a year and a month."
    )

    asks = [f"rain in {town} {month} {year}" for year in YEARS[:-1]]
    asks.append(f"{town} rain {month} {YEARS[-1]} almanac")
    goal = f"How much rain fell in {town} on each of the first {DAYS} days of {month} in"
    builder.add_step(
        EXTRACT,
        f"{goal} 2020 and 2021?",
        [*asks[:2], f"diary of a rainy week in {town} {month} 2021"],
        pages[:2],
        _told(month, rain, YEARS[:2]),
        against=[diary],
        dispute=f"A travel diary has {CLAIMED} mm on each of the {DAYS} days in 2021.",
    )
    queries = [asks[2], f"official rain record {town} {month} 2023", asks[3]]
    builder.add_step(EXTRACT, f"{goal} 2022 and 2023?", queries, pages[2:], _told(month, rain, YEARS[2:]))
    rainy = sum(amount >= RAINY for amounts in rain.values() for amount in amounts)
    days = len(YEARS) * DAYS
    text = f"{rainy} of {days} days had at least {RAINY} mm: {100 * rainy // days} percent."
    builder.add_step(COMPUTE, f"What share of these {days} days was rainy?", asks[:3], pages[::-1], text)
    question = (
        f"Based on the years 2020-2023, how likely am I to hit a rainy day (at least {RAINY}mm of precipitation) if I "
        f"travel to {town} during the first {DAYS} days of {month}? (provide the answer in percentage)"
    )
    return builder.build(id_, question, [f"{100 * rainy // days}"])


def _measured(builder: Making) -> Rain:
    return {year: [builder.random.choice(AMOUNTS) for _ in range(DAYS)] for year in YEARS}


def _told(month: str, rain: Rain, years: Sequence[int]) -> str:
    return " ".join(f"{month} {year} began with {listed([f'{mm} mm' for mm in rain[year]])}." for year in years)


def _table_page(builder: Making, site: str, title: str, month: str, amounts: Sequence[float]) -> str:
    rows = tuple((f"{day} {month}", f"{mm} mm") for day, mm in enumerate(amounts, 1))
    text = "Measured with a standard gauge at seven in the morning, for the day before. Days without rain have 0.0 mm."
    return builder.add_page(site, f"/{slug(title)}", title, text, Table(head=("Day", "Rain"), rows=rows))


def _almanac(builder: Making, town: str, month: str, amounts: Sequence[float]) -> str:
    """The office that has the last year's record cannot be reached; an almanac has it."""
    office, year = host(f"{town} weather office"), YEARS[-1]
    snippet = f"From {year} on the office keeps the official rain record of {town}."
    builder.add_unreadable(office, f"/{year}/{slug(month)}", f"Official rain record of {town}, {month} {year}", snippet)
    site = host(f"{builder.names.word()} almanac")
    return _table_page(builder, site, f"Almanac: {town} rain, {month} {year}", month, amounts)


def _diary(builder: Making, town: str, month: str) -> str:
    wrong = f"On each of the first {DAYS} days of {month} 2021 {CLAIMED} mm of rain fell in {town}. We played cards."
    text = "Written down from memory on the train home. Next year we will go somewhere dry."
    site = host(f"{builder.names.word()} travels")
    title = f"Diary of a rainy week in {town} ({month} 2021)"
    return builder.add_misleading(site, f"/{slug(town)}", title, wrong, text, wrong="100")
