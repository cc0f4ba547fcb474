"""Generated questions about people, films, gyms and weather, with the web sites that answer them."""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from certigraph.adapters.assistantbench.pages import CaseBuilder, GeneratedCase, PageTable, host_of, join_names, to_slug
from certigraph.state.search import COLLECT, COMPUTE, EXTRACT, FILTER

# Members who joined the board of a company in the year of its IPO. The facts are in the company's history, on the page
# of its board, and in a public register.

TRADES = ("Instruments", "Foundry", "Optics", "Shipyard", "Textiles")

SEATS = ("Chair", "Deputy chair", "Audit committee", "Nominations", "Member", "Member")


def generate_board(builder: CaseBuilder, id_: str) -> GeneratedCase:
    """Generate a question of the family `board`: Which members of a company's board joined in the year of its IPO?"""
    random, names = builder.random, builder.names
    company, town = f"{names.word()} {random.choice(TRADES)}", names.word()
    year = random.randrange(2006, 2019)
    others = [year - 4, year - 1, year + 1, year + random.randrange(2, 5)]
    years_by_member = {names.person(): when for when in random.sample([year, year, *others], len(SEATS))}

    history = _add_history(builder, company, town, year)
    news = _add_news(builder, company, year)
    board_page = _add_board(builder, company, years_by_member)
    register = _add_register(builder, company, town, years_by_member)
    _add_namesake(builder, company, year)

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
    text = f"On the board of {company} sit {join_names([*years_by_member])}."
    builder.add_step(
        COLLECT, f"Who sits on the board of {company}?", [f"{company} members of the board"], [board_page], text
    )
    asks = [f"{company} board biographies appointed", f"register of companies {company} {town}"]
    every = join_names([f"{name} in {when}" for name, when in years_by_member.items()])
    builder.add_step(
        EXTRACT, "When did each member join the board?", asks, [register], f"They joined the board: {every}."
    )
    members = [name for name, when in years_by_member.items() if when == year]
    text = f"In {year}, the year of the first trade, {join_names(members)} joined the board."
    goal = "Which of them joined in the year in which it went public?"
    builder.add_step(FILTER, goal, [asks_year[0], asks[1]], [history, register], text)
    question = f"Which members of the board of {company} in {town} joined it in the same year as the company's IPO?"
    return builder.build(id_, question, members)


def _add_history(builder: CaseBuilder, company: str, town: str, year: int) -> str:
    text = f"{company} was founded in a shed in {town} in {year - 31} and has made what others could not ever since."
    flotation = f"After a delay, our shares were first traded on the stock exchange on 4 June {year}."
    title, site = f"History of {company}: from a shed to the stock exchange", host_of(company)
    builder.add_page(site, "/", f"{company}: welcome", text, "Visitors are welcome on the first Friday of each month.")
    jobs = (
        f"We look for turners, fitters and a cook for our works in {town}. Write to us what you like to do, and when."
    )
    builder.add_page(site, "/jobs", f"Work at {company}", jobs, "We answer every letter within a week.")
    return builder.add_page(site, "/history", title, text, flotation, "Since then the works have been enlarged twice.")


def _add_news(builder: CaseBuilder, company: str, year: int) -> str:
    text = f"{year - 2}, 12 November. {company} is to go public in {year - 1}, people close to the board said today."
    more = "The company did not want to comment. Analysts call the plan bold; banks are said to be interested."
    site, title = host_of(f"{builder.names.word()} courier"), f"{company} to go public (news of {year - 2})"
    return builder.add_misleading(site, f"/{year - 2}/{to_slug(company)}", title, text, more, wrong=f"{year - 1}")


def _add_board(builder: CaseBuilder, company: str, joined: Mapping[str, int]) -> str:
    text = f"The board of {company} meets six times a year. It appoints the managers and looks over their shoulders."
    seats = PageTable(head=("Name", "Seat"), rows=tuple(zip(joined, SEATS, strict=True)))
    return builder.add_page(host_of(company), "/board", f"{company}: members of the board", text, seats)


def _add_register(builder: CaseBuilder, company: str, town: str, joined: Mapping[str, int]) -> str:
    """Add the pages with the years in which the members of the board were appointed.

    The members' biographies cannot be read; a public register lists the years.
    """
    investors = host_of(f"{company} investors")
    builder.add_unreadable(
        investors, "/biographies", f"{company}: board biographies", "When and why our members were appointed."
    )
    text = f"Entries of {company}, seat in {town}, in the public register. Changes are entered within ten days."
    rows = tuple((name, str(when)) for name, when in builder.random.sample([*joined.items()], len(joined)))
    table, wrong = PageTable(head=("Member of the board", "Appointed"), rows=rows), rows[0][0]
    site, title = host_of(f"{town} register"), f"Register of companies: {company}, {town}"
    return builder.add_misleading(site, f"/{to_slug(company)}", title, text, table, wrong=wrong)


def _add_namesake(builder: CaseBuilder, company: str, year: int) -> None:
    """Add pages about a company of the same name in another town."""
    town = builder.names.word()
    text = f"Entries of {company}, seat in {town}, in the public register. It is no relation of any other company."
    rows = tuple((builder.names.person(), str(year)) for _ in range(3))
    table = PageTable(head=("Member of the board", "Appointed"), rows=rows)
    builder.add_page(
        host_of(f"{town} register"), f"/{to_slug(company)}", f"Register of companies: {company}, {town}", text, table
    )
    text = f"{company} of {town} sells tea and biscuits by mail. Shares have been traded since {year + 2}."
    builder.add_page(host_of(f"{company} {town}"), "/", f"{company}, {town}: tea by mail", text, "Order before noon.")


# The highest rated film of an actor that is short enough and on a streaming service. Each fact is on a separate site.

THINGS = ("Lantern", "Orchard", "Compass", "Winter", "Mirror", "Garden")


class GeneratedFilm(NamedTuple):
    """A film: its year, its length in minutes, its rating out of 10, and whether the streaming service has it."""

    title: str
    year: int
    minutes: int
    rating: float
    there: bool


Cell = Callable[[GeneratedFilm], str]


def generate_films(builder: CaseBuilder, id_: str) -> GeneratedCase:
    """Generate a question of the family `films`: the highest rated short film of an actor on a streaming service."""
    names = builder.names
    actor, service, critics = names.person(), f"{names.word()} Play", f"{names.word()} Scores"
    limit = builder.random.choice((110, 120, 130))
    all_ = _generate_films(builder, limit)
    removed = all_[1]

    listing = _add_listing(builder, "filmbook", f"Films with {actor}", "Year", all_, lambda film: f"{film.year}")
    about = f"How long films of {actor} are"
    lengths = _add_listing(builder, "lengths", about, "Minutes", all_, lambda film: f"{film.minutes}")
    rated = _add_ratings(builder, critics, actor, all_)
    where = _add_guide(builder, service, actor, all_)
    blog = _add_film_blog(builder, service, removed)
    _add_film_pages(builder, actor, all_)

    queries = [f"films with {actor} filmbook"]
    all_titles = join_names([f"{film.title} ({film.year})" for film in all_])
    builder.add_step(
        COLLECT, f"List the films with {actor}.", queries, [listing], f"The films with {actor} are {all_titles}."
    )
    short = [film for film in all_ if film.minutes < limit]
    text = join_names([f"{film.title} ({film.minutes} min)" for film in short])
    queries, goal = [f"how long films of {actor} are in minutes"], f"Which of them are shorter than {limit} minutes?"
    builder.add_step(FILTER, goal, queries, [lengths], f"Shorter than {limit} minutes are {text}.")
    offered = [film for film in short if film.there]
    builder.add_step(
        FILTER,
        f"Which of the shorter ones are on {service}?",
        [f"{service} catalogue {actor}", f"where to watch films of {actor}", f"{removed.title} on {service} news"],
        [where],
        f"Of the shorter ones, {service} has {join_names([film.title for film in offered])}; "
        f"{removed.title} is not on it.",
        against=[blog],
        dispute=f"A blog of January 2018 has {removed.title} on {service}.",
    )
    text = join_names([f"{film.rating} for {film.title}" for film in offered])
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


def _generate_films(builder: CaseBuilder, limit: int) -> list[GeneratedFilm]:
    """Generate films, the highest rated first; the answer to the question is the fourth.

    Of those rated higher, one is too long, one is not on the streaming service, and one is both.
    """
    random, things = builder.random, builder.random.sample(THINGS, len(THINGS))
    titles = [f"The {thing} of {builder.names.word()}" for thing in things]
    years = random.sample(range(2003, 2019), len(titles))
    ratings = [tenths / 10 for tenths in sorted(random.sample(range(52, 93), len(titles)), reverse=True)]
    minutes = [limit - random.randrange(3, 30) for _ in titles]
    minutes[0], minutes[2] = limit + random.randrange(1, 9), limit + random.randrange(10, 40)
    available = (True, False, False, True, True, True)
    return [GeneratedFilm(*fields) for fields in zip(titles, years, minutes, ratings, available, strict=True)]


def _film_table(builder: CaseBuilder, head: str, all_: Sequence[GeneratedFilm], cell: Cell) -> PageTable:
    rows = tuple((film.title, cell(film)) for film in builder.random.sample(all_, len(all_)))
    return PageTable(head=("Film", head), rows=rows)


def _add_listing(
    builder: CaseBuilder, site: str, title: str, head: str, all_: Sequence[GeneratedFilm], cell: Cell
) -> str:
    site = f"{builder.names.word()} {site}"
    text = f"{title}: collected by our readers from programmes and posters, and checked by two editors every spring."
    return builder.add_page(
        host_of(site), f"/{to_slug(title)}", f"{title} ({site})", text, _film_table(builder, head, all_, cell)
    )


def _add_ratings(builder: CaseBuilder, critics: str, actor: str, all_: Sequence[GeneratedFilm]) -> str:
    text = f"Ratings of the films with {actor}, out of 10, as the critics of {critics} gave them. Updated this week."
    table = _film_table(builder, "Rating", all_, lambda film: f"{film.rating}")
    title, wrong = f"{critics}: ratings of {actor}", all_[0].title
    return builder.add_misleading(host_of(critics), f"/{to_slug(actor)}", title, text, table, wrong=wrong)


def _add_guide(builder: CaseBuilder, service: str, actor: str, all_: Sequence[GeneratedFilm]) -> str:
    """Add the pages that tell which films the streaming service has.

    The service's own catalogue cannot be read; a guide to several services has the same facts.
    """
    builder.add_unreadable(
        host_of(service), f"/catalogue/{to_slug(actor)}", f"{service} catalogue: {actor}", f"{actor} on {service}."
    )
    text = f"Where to watch the films of {actor}, as of this month. We look the catalogues up every night."
    table = _film_table(builder, f"On {service}", all_, lambda film: "yes" if film.there else "no")
    site = host_of(f"{builder.names.word()} whereto")
    return builder.add_page(site, f"/{to_slug(actor)}", f"Where to watch films of {actor}", text, table)


def _add_film_blog(builder: CaseBuilder, service: str, film: GeneratedFilm) -> str:
    text = f"News of 9 January 2018: {film.title} is on {service} from tonight. It will stay for some months at least."
    more = "Popcorn is ready in this house. I will write about the next film when the snow has melted."
    site = host_of(f"{builder.names.word()} sofa")
    return builder.add_page(site, "/2018/january", f"{film.title} on {service} (January 2018)", text, more)


def _add_film_pages(builder: CaseBuilder, actor: str, all_: Sequence[GeneratedFilm]) -> None:
    """Add a page about each film, and one about an actor of the same name from the time of silent films."""
    site = host_of(f"{builder.names.word()} cinema")
    for film in all_:
        text = f"{film.title} came out in {film.year}. A stranger comes to a small town and nothing is as it was."
        builder.add_page(
            site, f"/{to_slug(film.title)}", film.title, text, "Our cinema showed it for a week in autumn."
        )
    text = f"{actor}, who shares the name with a later actor, was on stage and in silent pictures from 1912 to 1926."
    silent = PageTable(head=("Picture", "Minutes"), rows=(("The Miller's Daughter", "24"), ("A Day at Sea", "31")))
    builder.add_page(site, f"/silent/{to_slug(actor)}", f"{actor} (1890-1951), silent pictures", text, silent)


# Gyms near a park with early classes. Distances are in a guide, timetables on the gyms' sites, one only in a portal.

SORTS = ("Gym", "Fitness", "Pilates Studio", "Boxing Club", "Strength Hall")

CLASSES = ("Circuit training", "Yoga flow", "Spinning", "Core and stretch")


class GeneratedGym(NamedTuple):
    """A gym, its distance from the park in metres, and the time of its first class (`first`, such as "06:15")."""

    name: str
    metres: int
    first: str

    @property
    def site(self) -> str:
        """Host of the gym's web site."""
        return host_of(self.name)


def generate_gyms(builder: CaseBuilder, id_: str) -> GeneratedCase:
    """Generate a question of the family `gyms`: Which gyms near a park have classes before 7 am?"""
    random, names = builder.random, builder.names
    town, elsewhere, park = names.word(), names.word(), f"{names.word()} Park"
    limit = random.choice((300, 400, 500))
    open_, unreadable, late, far, farther = _generate_gyms(builder, limit)
    near = [open_, unreadable, late]

    guide = _add_guide_to_gyms(builder, town, park, [open_, unreadable, late, far, farther])
    times = _add_timetable(builder, open_, town)
    _add_front_page(builder, open_, town)
    portal = _add_portal(builder, unreadable, town)
    disputed = _add_timetable(builder, late, town, wrong=far.name)
    blog = _add_gym_blog(builder, late, town)
    _add_timetable(builder, far, town)
    _add_front_page(builder, farther, town)
    _add_timetable(builder, late._replace(name=f"{late.name} {elsewhere}", first="05:45"), elsewhere)

    guide_queries = [f"gyms near {park} {town} distance in metres"]
    all_gyms = ", ".join(f"{gym.name} ({gym.metres} m)" for gym in (open_, unreadable, late, far, farther))
    builder.add_step(
        COLLECT, f"List the gyms near {park} in {town}.", guide_queries, [guide], f"Gyms near {park} are {all_gyms}."
    )
    within = f"Within {limit} m of {park} are {join_names([gym.name for gym in near])}."
    builder.add_step(FILTER, f"Which of these gyms are within {limit} m of {park}?", guide_queries, [guide], within)
    queries = [
        f"{open_.name} {town} timetable",
        f"{unreadable.name} {town} class times",
        f"{late.name} {town} timetable",
    ]
    builder.add_step(
        EXTRACT,
        f"When does the first class start at {join_names([gym.name for gym in near])}?",
        queries,
        [times, portal, disputed],
        f"The first class starts at {join_names([f'{gym.first} at {gym.name}' for gym in near])}.",
        against=[blog],
        dispute=f"A blog of May 2019 has classes at {late.name} start at 06:00.",
    )
    early = [gym for gym in near if gym.first < "07:00"]
    text = f"Of these, only {join_names([gym.name for gym in early])} have classes before 07:00."
    builder.add_step(COMPUTE, "Which of them have classes before 7 am?", queries[:2], [times, portal], text)
    question = f"Which gyms within {limit} metres of {park} in {town} have fitness classes before 7am?"
    return builder.build(id_, question, [gym.name for gym in early])


def _generate_gyms(builder: CaseBuilder, limit: int) -> list[GeneratedGym]:
    """Generate five gyms: two near ones with early classes, a near one with late classes, and two that are too far.

    One of the last two has early classes.
    """
    random, names = builder.random, builder.names
    metres = [*sorted(random.sample(range(60, limit - 10, 10), 3)), limit + random.randrange(20, 90), limit * 3]
    hours = [random.choice(early) for early in [("06:00", "06:15", "06:30", "06:45")] * 2]
    hours += [random.choice(("07:30", "08:00", "09:15")), "06:00", "10:00"]
    drawn = zip(random.sample(SORTS, 5), metres, hours, strict=True)
    return [GeneratedGym(f"{names.word()} {sort}", away, first) for sort, away, first in drawn]


def _add_guide_to_gyms(builder: CaseBuilder, town: str, park: str, listed_gyms: list[GeneratedGym]) -> str:
    rows = tuple((gym.name, f"{gym.metres} m") for gym in builder.random.sample(listed_gyms, len(listed_gyms)))
    text = f"Who runs in {park} in the morning may want to train indoors on rainy days. These gyms are close by."
    distances = PageTable(head=("Gym", f"Distance from {park}"), rows=rows)
    site, secret = (
        host_of(f"{town} guide"),
        f"What members say about gyms in {town}, for members only. Do not pass it on.",
    )
    builder.add_page(
        site, "/private/members", f"Members on gyms in {town}", secret, "Our robots.txt keeps readers out."
    )
    return builder.add_page(site, f"/gyms-near-{to_slug(park)}", f"Gyms near {park}, {town}", text, distances)


def _add_front_page(builder: CaseBuilder, gym: GeneratedGym, town: str) -> None:
    text = f"Welcome to {gym.name} in {town}. We have weights, showers and friendly trainers; come in for a free trial."
    builder.add_page(
        gym.site, "/", f"{gym.name}: welcome", text, "Members may bring a friend on Sundays at no extra cost."
    )


def _hours_table(gym: GeneratedGym) -> PageTable:
    hours = (gym.first, "12:00", "17:30", "19:00")
    return PageTable(head=("Class", "Starts"), rows=tuple(zip(CLASSES, hours, strict=True)))


def _add_timetable(builder: CaseBuilder, gym: GeneratedGym, town: str, wrong: str = "") -> str:
    title, text = f"Timetable of {gym.name}", f"These classes are held at {gym.name}, {town}, from Monday to Friday."
    if wrong:
        return builder.add_misleading(gym.site, "/timetable", title, text, _hours_table(gym), wrong=wrong)
    return builder.add_page(gym.site, "/timetable", title, text, _hours_table(gym), "Please arrive five minutes early.")


def _add_portal(builder: CaseBuilder, gym: GeneratedGym, town: str) -> str:
    """Add the pages of a gym whose own timetable cannot be read; a booking portal has its class times."""
    builder.add_unreadable(gym.site, "/timetable", f"{gym.name}: class times", f"Class times of {gym.name}, {town}.")
    text = (
        f"All that can be booked at {gym.name} through this portal, as the gym told us this month. Prices on request."
    )
    site = host_of(f"{town} bookings")
    return builder.add_page(
        site, f"/{to_slug(gym.name)}", f"Book {gym.name} in {town}: classes", text, _hours_table(gym)
    )


def _add_gym_blog(builder: CaseBuilder, gym: GeneratedGym, town: str) -> str:
    text = (
        f"Posted on 3 May 2019. At {gym.name} in {town} the first class starts at 06:00, so I am always at work early."
    )
    more = (
        "I wrote this down for friends who look for a place to train before breakfast. Things may have changed since."
    )
    site = host_of(f"{builder.names.word()} mornings")
    return builder.add_page(site, f"/2019/{to_slug(gym.name)}", f"Early at {gym.name} (2019)", text, more)


# The probability of a rainy day in the first days of a month, from four years of measurements on two sites.

YEARS, DAYS = (2020, 2021, 2022, 2023), 5

MONTHS = ("March", "April", "June", "September", "October", "November")

MIN_RAIN = 0.5
"""Minimum millimetres of rain on a rainy day."""

AMOUNTS = (0.0, 0.0, 0.2, 0.4, 0.5, 0.9, 1.6, 3.1, 7.4)

CLAIMED_RAIN = 12
"""Millimetres of rain per day that a misleading travel diary claims."""

Rain = Mapping[int, Sequence[float]]


def generate_weather(builder: CaseBuilder, id_: str) -> GeneratedCase:
    """Generate a question of the family `weather`: How likely is a rainy day in the first days of a month?"""
    random, town, other = builder.random, builder.names.word(), builder.names.word()
    month, rain = random.choice(MONTHS), _generate_rain(builder)
    station = host_of(f"{town} weather station")
    pages = [
        _add_rain_page(builder, station, f"Rain in {town}, {month} {year}", month, rain[year]) for year in YEARS[:-1]
    ]
    pages.append(_add_almanac(builder, town, month, rain[YEARS[-1]]))
    diary = _add_diary(builder, town, month)
    away = host_of(f"{other} county weather")
    for year, amounts in _generate_rain(builder).items():
        _add_rain_page(builder, away, f"Rain in {town} ({other} county), {month} {year}", month, amounts)
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
        _format_rain(month, rain, YEARS[:2]),
        against=[diary],
        dispute=f"A travel diary has {CLAIMED_RAIN} mm on each of the {DAYS} days in 2021.",
    )
    queries = [asks[2], f"official rain record {town} {month} 2023", asks[3]]
    builder.add_step(EXTRACT, f"{goal} 2022 and 2023?", queries, pages[2:], _format_rain(month, rain, YEARS[2:]))
    rainy = sum(amount >= MIN_RAIN for amounts in rain.values() for amount in amounts)
    days = len(YEARS) * DAYS
    text = f"{rainy} of {days} days had at least {MIN_RAIN} mm: {100 * rainy // days} percent."
    builder.add_step(COMPUTE, f"What share of these {days} days was rainy?", asks[:3], pages[::-1], text)
    question = (
        f"Based on the years 2020-2023, how likely am I to hit a rainy day (at least {MIN_RAIN}mm of precipitation) "
        f"if I travel to {town} during the first {DAYS} days of {month}? (provide the answer in percentage)"
    )
    return builder.build(id_, question, [f"{100 * rainy // days}"])


def _generate_rain(builder: CaseBuilder) -> Rain:
    return {year: [builder.random.choice(AMOUNTS) for _ in range(DAYS)] for year in YEARS}


def _format_rain(month: str, rain: Rain, years: Sequence[int]) -> str:
    return " ".join(f"{month} {year} began with {join_names([f'{mm} mm' for mm in rain[year]])}." for year in years)


def _add_rain_page(builder: CaseBuilder, site: str, title: str, month: str, amounts: Sequence[float]) -> str:
    rows = tuple((f"{day} {month}", f"{mm} mm") for day, mm in enumerate(amounts, 1))
    text = "Measured with a standard gauge at seven in the morning, for the day before. Days without rain have 0.0 mm."
    return builder.add_page(site, f"/{to_slug(title)}", title, text, PageTable(head=("Day", "Rain"), rows=rows))


def _add_almanac(builder: CaseBuilder, town: str, month: str, amounts: Sequence[float]) -> str:
    """Add the pages with the rain of the last year.

    The office that keeps the official record cannot be reached; an almanac has the measurements.
    """
    office, year = host_of(f"{town} weather office"), YEARS[-1]
    snippet = f"From {year} on the office keeps the official rain record of {town}."
    builder.add_unreadable(
        office, f"/{year}/{to_slug(month)}", f"Official rain record of {town}, {month} {year}", snippet
    )
    site = host_of(f"{builder.names.word()} almanac")
    return _add_rain_page(builder, site, f"Almanac: {town} rain, {month} {year}", month, amounts)


def _add_diary(builder: CaseBuilder, town: str, month: str) -> str:
    wrong = (
        f"On each of the first {DAYS} days of {month} 2021 {CLAIMED_RAIN} mm of rain fell in {town}. We played cards."
    )
    text = "Written down from memory on the train home. Next year we will go somewhere dry."
    site = host_of(f"{builder.names.word()} travels")
    title = f"Diary of a rainy week in {town} ({month} 2021)"
    return builder.add_misleading(site, f"/{to_slug(town)}", title, wrong, text, wrong="100")
