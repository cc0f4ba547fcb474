"""Generated questions whose answers are lists of 10 to 40 items, spread over several pages of several sites."""

from collections.abc import Callable, Sequence
from functools import cache
from typing import NamedTuple

from certigraph.adapters.assistantbench.pages import (
    UNREADABLE,
    CaseBuilder,
    GeneratedCase,
    PageTable,
    host_of,
    join_names,
    to_slug,
)
from certigraph.state.records import FoundItem
from certigraph.state.search import COLLECT, COMPUTE, EXTRACT, FILTER

# Workshops of a guild with enough looms that receive visitors on Saturdays. Members, looms and visiting hours are on
# separate sites, each of which spreads them over several pages.

SIZES = (10, 18, 28, 40)
"""Number of items in the answer to each question, by seed from 1."""

MEMBERS_PER_PAGE, YEARBOOK_ROWS, CALENDAR_ROWS = 12, 12, 25
"""Maximum number of workshops on a page of the guild, of its yearbook, and of the calendar of visits."""

WORKSHOP_KINDS = ("Mill", "Weavers", "Loom House", "Cloth Works", "Textiles")


class Workshop(NamedTuple):
    """A member of the guild: its town, its number of looms, its hours on Saturdays if any, and if it was closed."""

    name: str
    town: str
    looms: int
    hours: str
    closed: bool = False


class ListPage(NamedTuple):
    """One page of a list: its URL, and the workshops on it."""

    url: str
    workshops: Sequence[Workshop]


Cell = Callable[[Workshop], str]


def generate_guild(builder: CaseBuilder, id_: str, size: int) -> GeneratedCase:
    """Generate a question of the family `guild`: Which members have enough looms and receive visitors on Saturdays?

    Args:
        builder: the builder of the question.
        id_: id of the question.
        size: number of items in the answer.
    """
    region, least = builder.names.word(), builder.random.randrange(8, 14)
    guild, members = f"Guild of Weavers of {region}", _generate_workshops(builder, size, least)
    enough = [one for one in members if one.looms >= least]
    answer = [one for one in enough if one.hours and not one.closed]

    directory = _add_list(builder, f"{guild}", f"{guild}: members", "Town", members, _town, MEMBERS_PER_PAGE)
    yearbook = _add_list(
        builder, f"{region} yearbook of crafts", f"Looms of the {guild}", "Looms", members, _looms, YEARBOOK_ROWS
    )
    visited = [one for one in members if one.hours]
    calendar = _add_list(
        builder, f"Visit {region}", f"Visits on Saturdays, {guild}", "Saturdays", visited, _hours, CALENDAR_ROWS
    )
    closures = _add_closures(builder, guild, [one for one in members if one.closed])
    _add_misleading_pages(builder, guild, region, members)

    asks = [f"{guild} members page {number}" for number in range(1, 4)]
    text = f"The members of the {guild} are {join_names([_text(one, _town) for one in members])}."
    builder.add_step(
        COLLECT, f"List the members of the {guild}.", asks, _urls(directory), text, items=_items(directory, _town)
    )
    asks = [f"looms of the {guild} page {number}" for number in range(1, 4)]
    text = f"Their looms are {join_names([_text(one, _looms) for one in members])}."
    builder.add_step(
        EXTRACT, "How many looms does each of them have?", asks, _urls(yearbook), text, items=_items(yearbook, _looms)
    )
    text = f"At least {least} looms have {join_names([_text(one, _looms) for one in enough])}."
    goal = f"Which of them have at least {least} looms?"
    builder.add_step(FILTER, goal, [], [], text, items=_items(yearbook, _looms, enough))
    asks = [f"visits on Saturdays {guild} page 1", f"visits on Saturdays {guild} page 2", f"{guild} closed for good"]
    text = f"Of these, {join_names([_text(one, _hours) for one in answer])} still receive visitors on Saturdays."
    goal = "Which of these still exist and receive visitors on Saturdays, and when?"
    builder.add_step(FILTER, goal, asks, [*_urls(calendar), closures], text, items=_items(calendar, _hours, answer))
    ordered = sorted(answer, key=lambda one: (-one.looms, one.name))
    text = f"By the number of looms they are {join_names([_text(one, _looms) for one in ordered])}."
    builder.add_step(
        COMPUTE, "Order those that are left by their looms.", [], [], text, items=_items(yearbook, _looms, ordered)
    )
    question = (
        f"Which members of the {guild} have at least {least} looms and still receive visitors on Saturdays? "
        "List all of them, those with the most looms first."
    )
    return builder.build(id_, question, [one.name for one in ordered])


def _town(one: Workshop) -> str:
    return one.town


def _looms(one: Workshop) -> str:
    return f"{one.looms} looms"


def _hours(one: Workshop) -> str:
    return one.hours


def _text(one: Workshop, cell: Cell) -> str:
    return f"{one.name} ({cell(one)})"


def _generate_workshops(builder: CaseBuilder, size: int, least: int) -> list[Workshop]:
    """Generate workshops, `size` of which belong to the answer; a few others fail one condition each."""
    random, towns = builder.random, [builder.names.word() for _ in range(5)]

    def generate(looms: int, *, visits: bool = True, closed: bool = False) -> Workshop:
        hours = f"{random.randrange(8, 12)}:00 to {random.randrange(13, 19)}:00" if visits else ""
        name = f"{builder.names.word()} {random.choice(WORKSHOP_KINDS)}"
        return Workshop(name, random.choice(towns), looms, hours, closed)

    def draw_looms() -> int:
        return least + random.randrange(20)

    members = [
        *(generate(draw_looms()) for _ in range(size)),
        *(generate(random.randrange(1, least)) for _ in range(max(2, size // 6))),
        *(generate(draw_looms(), visits=False) for _ in range(max(2, size // 8))),
        *(generate(draw_looms(), closed=True) for _ in range(2)),
    ]
    random.shuffle(members)
    return members


def _add_list(
    builder: CaseBuilder, site: str, title: str, head: str, all_: Sequence[Workshop], cell: Cell, most: int
) -> list[ListPage]:
    """Add the pages of a list with at most `most` workshops on a page."""
    parts = [all_[start : start + most] for start in range(0, len(all_), most)]
    pages = []
    for number, part in enumerate(parts, 1):
        table = PageTable(head=("Workshop", head), rows=tuple((one.name, cell(one)) for one in part))
        others = " and goes on on the other pages" if len(parts) > 1 else ""
        text = f"{title}, page {number} of {len(parts)}. The list is kept by the office{others}."
        path = f"/{to_slug(title)}/{number}"
        url = builder.add_page(host_of(site), path, f"{title} (page {number} of {len(parts)})", text, table)
        pages.append(ListPage(url, part))
    return pages


def _add_closures(builder: CaseBuilder, guild: str, closed: Sequence[Workshop]) -> str:
    text = f"Closed for good since the spring, the {guild} regrets: {join_names([one.name for one in closed])}."
    more = "Their looms went to the other members. Calendars and yearbooks that were printed before still list them."
    site, title = host_of(f"{builder.names.word()} gazette"), f"{guild}: workshops closed for good"
    return builder.add_misleading(site, "/closed", title, text, more, wrong=closed[0].name)


def _add_misleading_pages(builder: CaseBuilder, guild: str, region: str, members: Sequence[Workshop]) -> None:
    """Add an old list with other numbers, a guild of the same name elsewhere, and a search form that is unreadable."""
    builder.add_unreadable(
        host_of(f"{region} member search"), "/", f"{guild} members page 1: search form", f"Search the {guild}."
    )
    rows = tuple((one.name, f"{one.looms + 7} looms") for one in members[:10])
    text = f"A list of 1998, as it hung in the hall of the {guild}. Nothing on this sheet has been brought up to date."
    site = host_of(f"{builder.names.word()} archive")
    builder.add_page(site, "/1998", f"Looms in 1998: {guild}", text, PageTable(head=("Workshop", "Looms"), rows=rows))
    other = builder.names.word()
    text = f"The Guild of Weavers of {other} is another one, and has nothing to do with the one of {region}."
    rows = tuple((f"{builder.names.word()} Mill", other) for _ in range(6))
    title = f"Guild of Weavers of {other}: members"
    builder.add_page(host_of(f"{other} guild"), "/", title, text, PageTable(head=("Workshop", "Town"), rows=rows))


def _urls(pages: Sequence[ListPage]) -> list[str]:
    return [page.url for page in pages]


def _items(pages: Sequence[ListPage], cell: Cell, kept: Sequence[Workshop] | None = None) -> list[FoundItem]:
    """Return the items of a finding, in the order of the pages or of `kept`, each with its page and the words there."""
    urls = {one: page.url for page in pages for one in page.workshops}
    return [
        FoundItem(name=one.name, detail=cell(one), source=urls[one], quote=f"{one.name} | {cell(one)}")
        for one in (urls if kept is None else kept)
    ]


@cache
def generate_lists() -> Sequence[GeneratedCase]:
    """Return all generated questions that ask for lists, `guild/1` to `guild/4`."""
    return tuple(
        generate_guild(CaseBuilder(f"guild/{seed}", UNREADABLE[seed]), f"guild/{seed}", size)
        for seed, size in enumerate(SIZES, 1)
    )
