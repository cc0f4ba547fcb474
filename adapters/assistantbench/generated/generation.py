"""The whole invented web: every family of questions at every seed, and all pages by their URL."""

from collections.abc import Callable, Mapping, Sequence
from functools import cache

from certigraph.adapters.assistantbench.generated.board import board
from certigraph.adapters.assistantbench.generated.films import films
from certigraph.adapters.assistantbench.generated.gyms import gyms
from certigraph.adapters.assistantbench.generated.making import Made, Making, death_of
from certigraph.adapters.assistantbench.generated.museum import museum
from certigraph.adapters.assistantbench.generated.pages import WebPage
from certigraph.adapters.assistantbench.generated.parcels import parcels
from certigraph.adapters.assistantbench.generated.weather import weather
from certigraph.state.endings import Fault

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
