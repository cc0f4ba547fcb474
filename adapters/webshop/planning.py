"""How a goal is bought: from any page, the searches and clicks to its product, its options, the purchase."""

from certigraph.adapters.webshop.goals import Goal
from certigraph.adapters.webshop.pages import BACK, BUY, NEXT, PREVIOUS, Page
from certigraph.adapters.webshop.shop import PER_PAGE, Shop
from certigraph.adapters.webshop.wording import proposals
from certigraph.state.endings import Fault


def plan(page: Page, goal: Goal, shop: Shop) -> list[str]:
    """The actions that are left to buy exactly what the goal was made from.

    Raises:
        Fault: ("data") another product, or with other options, is bought already, or no search tried brings it up.
    """
    if page.kind == "bought":
        if page.asin == goal.asin and _missing(page, goal, shop) == []:
            return []
        raise Fault("data", f"{page.asin} is bought already, and {goal.asin} is wanted: begin anew")
    if page.asin != goal.asin:
        return _found(page, goal, shop) + _bought(Page(asin=goal.asin), goal, shop)
    return [f"click[{PREVIOUS}]"] * (page.kind == "details") + _bought(page, goal, shop)


def _bought(page: Page, goal: Goal, shop: Shop) -> list[str]:
    return [f"click[{value}]" for value in [*_missing(page, goal, shop), BUY]]


def _missing(page: Page, goal: Goal, shop: Shop) -> list[str]:
    chosen = list(page.options.values())
    return [value for value in goal.options if value not in chosen]


def _found(page: Page, goal: Goal, shop: Shop) -> list[str]:
    """The way to the product's page: on through the results where they have it, else by a new search."""
    if page.kind == "results" and goal.asin in (found := shop.search(page.keywords)):
        pages = found.index(goal.asin) // PER_PAGE + 1 - page.number
        turn = NEXT if pages > 0 else PREVIOUS
        return [f"click[{turn}]"] * abs(pages) + [f"click[{goal.asin}]"]
    keywords = _keywords(goal, shop)
    first = [] if page.kind == "search" else [f"click[{BACK}]"]
    return [*first, f"search[{keywords}]", *_found(Page(kind="results", keywords=keywords), goal, shop)]


def _keywords(goal: Goal, shop: Shop) -> str:
    """Of the keywords that the instruction suggests, those which bring the product up earliest."""
    tried = {keywords: shop.search(keywords) for keywords in proposals(goal.instruction)}
    places = {keywords: found.index(goal.asin) for keywords, found in tried.items() if goal.asin in found}
    if not places:
        raise Fault(
            "data", f"no search for {goal.asin} has it among its results ({', '.join(tried)}); take another task"
        )
    return min(places, key=lambda keywords: places[keywords])
