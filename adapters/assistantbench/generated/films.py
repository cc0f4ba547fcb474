"""The highest rated film of an actor that is short enough and on a service: each fact on a site of its own."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from certigraph.adapters.assistantbench.generated.making import Made, Making, host
from certigraph.adapters.assistantbench.generated.names import listed, slug
from certigraph.adapters.assistantbench.generated.pages import Table
from certigraph.state.researching import COLLECT, COMPUTE, EXTRACT, FILTER

THINGS = ("Lantern", "Orchard", "Compass", "Winter", "Mirror", "Garden")


class Film(NamedTuple):
    """A film: when it came out, its length in minutes, its rating out of 10, and whether the service has it."""

    title: str
    year: int
    minutes: int
    rating: float
    there: bool


Cell = Callable[[Film], str]


def films(making: Making, id_: str) -> Made:
    """Which film of an actor under so many minutes on a service is rated highest?"""
    names = making.names
    actor, service, critics = names.person(), f"{names.word()} Play", f"{names.word()} Scores"
    limit = making.random.choice((110, 120, 130))
    all_ = _films(making, limit)
    gone = all_[1]

    listing = _listing(making, "filmbook", f"Films with {actor}", "Year", all_, lambda film: f"{film.year}")
    about = f"How long films of {actor} are"
    lengths = _listing(making, "lengths", about, "Minutes", all_, lambda film: f"{film.minutes}")
    rated = _ratings(making, critics, actor, all_)
    where = _where(making, service, actor, all_)
    blog = _blog(making, service, gone)
    _around(making, actor, all_)

    queries = [f"films with {actor} filmbook"]
    every = listed([f"{film.title} ({film.year})" for film in all_])
    making.step(COLLECT, f"List the films with {actor}.", queries, [listing], f"The films with {actor} are {every}.")
    short = [film for film in all_ if film.minutes < limit]
    told = listed([f"{film.title} ({film.minutes} min)" for film in short])
    queries, goal = [f"how long films of {actor} are in minutes"], f"Which of them are shorter than {limit} minutes?"
    making.step(FILTER, goal, queries, [lengths], f"Shorter than {limit} minutes are {told}.")
    there = [film for film in short if film.there]
    making.step(
        FILTER,
        f"Which of the shorter ones are on {service}?",
        [f"{service} catalogue {actor}", f"where to watch films of {actor}", f"{gone.title} on {service} news"],
        [where],
        f"Of the shorter ones, {service} has {listed([film.title for film in there])}; {gone.title} is not on it.",
        against=[blog],
        dispute=f"A blog of January 2018 has {gone.title} on {service}.",
    )
    told = listed([f"{film.rating} for {film.title}" for film in there])
    queries, goal = [f"{critics} ratings {actor}"], f"How does {critics} rate those that are left?"
    making.step(EXTRACT, goal, queries, [rated], f"{critics} has {told}.")
    best = max(there, key=lambda film: film.rating)
    text = f"With {best.rating} of 10, {best.title} is the highest rated of those that are left."
    making.step(COMPUTE, "Which of these is rated highest?", queries, [rated], text)
    asked = (
        f"What is the highest rated (according to {critics}) film with {actor} that is less than {limit} minutes "
        f"and is available on {service}?"
    )
    return making.asked(id_, asked, [best.title])


def _films(making: Making, limit: int) -> list[Film]:
    """Of those better than the answer one is too long, one is not on the service, one is neither."""
    random, things = making.random, making.random.sample(THINGS, len(THINGS))
    titles = [f"The {thing} of {making.names.word()}" for thing in things]
    years = random.sample(range(2003, 2019), len(titles))
    ratings = [tenths / 10 for tenths in sorted(random.sample(range(52, 93), len(titles)), reverse=True)]
    minutes = [limit - random.randrange(3, 30) for _ in titles]
    minutes[0], minutes[2] = limit + random.randrange(1, 9), limit + random.randrange(10, 40)
    there = (True, False, False, True, True, True)
    return [Film(*fields) for fields in zip(titles, years, minutes, ratings, there, strict=True)]


def _table(making: Making, head: str, all_: Sequence[Film], cell: Cell) -> Table:
    rows = tuple((film.title, cell(film)) for film in making.random.sample(all_, len(all_)))
    return Table(head=("Film", head), rows=rows)


def _listing(making: Making, site: str, title: str, head: str, all_: Sequence[Film], cell: Cell) -> str:
    site = f"{making.names.word()} {site}"
    told = f"{title}: collected by our readers from programmes and posters, and checked by two editors every spring."
    return making.page(host(site), f"/{slug(title)}", f"{title} ({site})", told, _table(making, head, all_, cell))


def _ratings(making: Making, critics: str, actor: str, all_: Sequence[Film]) -> str:
    told = f"Ratings of the films with {actor}, out of 10, as the critics of {critics} gave them. Updated this week."
    table = _table(making, "Rating", all_, lambda film: f"{film.rating}")
    title, wrong = f"{critics}: ratings of {actor}", all_[0].title
    return making.ordering(host(critics), f"/{slug(actor)}", title, told, table, wrong=wrong)


def _where(making: Making, service: str, actor: str, all_: Sequence[Film]) -> str:
    """The service's own catalogue cannot be read; a guide that tells what is on has it."""
    making.dead(host(service), f"/catalogue/{slug(actor)}", f"{service} catalogue: {actor}", f"{actor} on {service}.")
    told = f"Where to watch the films of {actor}, as of this month. We look the catalogues up every night."
    table = _table(making, f"On {service}", all_, lambda film: "yes" if film.there else "no")
    site = host(f"{making.names.word()} whereto")
    return making.page(site, f"/{slug(actor)}", f"Where to watch films of {actor}", told, table)


def _blog(making: Making, service: str, film: Film) -> str:
    told = f"News of 9 January 2018: {film.title} is on {service} from tonight. It will stay for some months at least."
    more = "Popcorn is ready in this house. I will write about the next film when the snow has melted."
    site = host(f"{making.names.word()} sofa")
    return making.page(site, "/2018/january", f"{film.title} on {service} (January 2018)", told, more)


def _around(making: Making, actor: str, all_: Sequence[Film]) -> None:
    """A page for each film, and an actor of the same name of silent days."""
    site = host(f"{making.names.word()} cinema")
    for film in all_:
        told = f"{film.title} came out in {film.year}. A stranger comes to a small town and nothing is as it was."
        making.page(site, f"/{slug(film.title)}", film.title, told, "Our cinema showed it for a week in autumn.")
    told = f"{actor}, who shares the name with a later actor, was on stage and in silent pictures from 1912 to 1926."
    silent = Table(head=("Picture", "Minutes"), rows=(("The Miller's Daughter", "24"), ("A Day at Sea", "31")))
    making.page(site, f"/silent/{slug(actor)}", f"{actor} (1890-1951), silent pictures", told, silent)
