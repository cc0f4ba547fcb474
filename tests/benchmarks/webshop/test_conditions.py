"""Tests of the rules that decide WebShop's conditions: never wrongly, else not at all."""

from collections.abc import Iterator
from random import Random

import pytest
from helpers.worlds.decisions import held, sentences_of
from hypothesis import given
from hypothesis import strategies as st

from certigraph.benchmarks.webshop.benchmark import ATTRIBUTES, PLAIN, WebShop, plan_purchase
from certigraph.benchmarks.webshop.conditions import WORDINGS, decide_condition, read_page
from certigraph.benchmarks.webshop.products import Product, ShopCatalogue, ShopGoal
from certigraph.benchmarks.webshop.world import Shop, WebShopWorld
from certigraph.state.records import Action

CUP = Product(
    asin="B0000000A1",
    title="Tin Cup, Blue and Red",
    options={"color": ("red", "black and blue"), "size": ("s", "10 inch"), "length": ("10 inch", "20 inch")},
    prices=(8.0, 10.0),
)
PLATES = [Product(asin=f"B0000000{n:02}", title=f"Tin Plate {n}", prices=(1.0,)) for n in range(20, 35)]
CATALOGUE = ShopCatalogue({product.asin: product for product in (CUP, *PLATES)}, ())
GOAL = ShopGoal(asin=CUP.asin, instruction="Find a tin cup", attributes=("tin",), options=("red",), upper=20.0)


def view_after(*actions: str, marked: bool = True) -> str:
    world = WebShopWorld(Shop(CATALOGUE), GOAL, marked=marked)
    for action in actions:
        assert world.step(Action(text=action)).accepted
    return world.view()


def find_title(asin: str) -> str | None:
    product = CATALOGUE.products.get(asin)
    return product.title if product else None


def decided(condition: str, view: str) -> bool | None:
    return held(decide_condition(condition, view, find_title), view)


START, RESULTS = view_after(), view_after("search[tin cup]")
LATER_RESULTS = view_after("search[tin cup]", "click[Next >]")
ITEM = view_after("search[tin cup]", "click[B0000000A1]")
CHOSEN = view_after("search[tin cup]", "click[B0000000A1]", "click[red]", "click[20 inch]")
DETAILS = view_after("search[tin cup]", "click[B0000000A1]", "click[Features]")
BOUGHT = view_after("search[tin cup]", "click[B0000000A1]", "click[Buy Now]")

EXAMPLES = {
    "The search page is shown.": ("The search page is shown.", START, RESULTS),
    "Search results are shown.": ("Search results are shown.", RESULTS, ITEM),
    "Page 2 of the results is shown.": ("Page 2 of the results is shown.", LATER_RESULTS, RESULTS),
    "Product NUMBER is listed.": ("Product B0000000A1 is listed.", RESULTS, LATER_RESULTS),
    "A product page is shown.": ("A product page is shown.", ITEM, RESULTS),
    "The page of product NUMBER is shown.": ("The page of product b0000000a1 is shown.", ITEM, RESULTS),
    "The option VALUE is chosen.": ("The option red is chosen.", CHOSEN, ITEM),
    "A product has been bought.": ("A product has been bought.", BOUGHT, ITEM),
}
"""Wording -> a condition in it, a page on which it holds, and one on which it does not."""


@pytest.mark.parametrize("wording", EXAMPLES)
def test_each_recommended_wording_is_decided_either_way(wording: str):
    condition, holds, fails = EXAMPLES[wording]
    assert wording in " ".join(WebShop().wordings.split())
    assert (decided(condition, holds), decided(condition, fails)) == (True, False)


def test_every_recommended_wording_has_an_example():
    assert sentences_of(WebShop().wordings) == [*EXAMPLES]
    assert "option" not in WebShop(config=PLAIN).wordings, "these pages do not mark what is chosen"
    assert WORDINGS.format(option="") == WebShop(config=PLAIN).wordings


@pytest.mark.parametrize(
    ("condition", "view", "holds"),
    [
        ("The page of product B000000020 is open.", ITEM, False),
        ('The page of the product "Tin Cup, blue and red" is shown', ITEM, True),
        ("The product page of product B0000000A1 is open.", RESULTS, False),
        ("B0000000A1 is listed in the search results.", RESULTS, True),
        ("Red is chosen.", CHOSEN, True),
        ("The color red is selected", CHOSEN, True),
        ('The option "black and blue" is chosen.', CHOSEN, False),
        ("Black and blue is chosen", CHOSEN, False),
        ("Red and 20 inch are chosen.", CHOSEN, True),
        ("Red and s are chosen.", CHOSEN, False),
        ("Red is chosen and 20 inch is chosen.", CHOSEN, True),
        ("The length 10 inch is chosen", CHOSEN, False),
        ("The page of product B0000000A1 is shown and the option red is chosen.", CHOSEN, True),
        ("Search results are shown, and product B0000000A1 is listed.", RESULTS, True),
        ("Search results are shown, and red is chosen.", CHOSEN, False),
        ("Product B0000000A1 has been bought.", ITEM, False),
    ],
)
def test_products_options_and_conjunctions(condition: str, view: str, holds: bool):
    assert decided(condition, view) is holds


@pytest.mark.parametrize(
    ("condition", "view"),
    [
        ("Product B0000000A1 is listed.", ITEM),
        ("The page of product B0000000A1 is shown.", DETAILS),
        ("The page of product B999999999 is shown.", ITEM),
        ("A product page is shown.", DETAILS),
        ("The product page is shown.", ITEM),
        ("The page of the cheapest product is shown.", ITEM),
        ("The option red is chosen.", DETAILS),
        ("The option red is chosen.", RESULTS),
        ("The option green is chosen.", CHOSEN),
        ("The option Features is chosen.", CHOSEN),
        ("The cheapest product is chosen.", CHOSEN),
        ("Search results for tin cup are shown.", RESULTS),
        ("Product B0000000A1 has been bought.", BOUGHT),
        ("The search page is shown.", BOUGHT),
        ("The option red is chosen.", BOUGHT),
        ("The search page is shown.", ""),
        ("A product has been bought.", ""),
        ("Search results are not shown.", START),
        ("Search results are shown or the search page is shown.", START),
        ("It is not true that search results are shown.", RESULTS),
        ("Red is not chosen.", ITEM),
        ("Red or green is chosen.", CHOSEN),
        ("Search results are shown and red or green is chosen.", ITEM),
    ],
)
def test_what_is_on_another_page_or_in_other_words_stays_undecided(condition: str, view: str):
    assert decided(condition, view) is None


@given(st.text(max_size=200), st.text(max_size=200))
def test_any_text_is_decided_or_left_open(condition: str, view: str):
    assert decided(condition, CHOSEN) is None
    assert read_page(view) is None


# Every decision on the way to a purchase, compared with the page as the world has it.


def truths(world: WebShopWorld, draw: Random) -> Iterator[tuple[str, bool]]:
    page, products = world.page, world.shop.products
    found = world.shop.search(page.keywords) if page.kind == "results" else ()
    listed = found[10 * (page.number - 1) : 10 * page.number]
    yield "The search page is shown.", page.kind == "search"
    yield "Search results are shown.", page.kind == "results"
    yield "A product page is shown.", page.kind == "item"
    yield "A product has been bought.", page.kind == "bought"
    for number in (1, 2, 3):
        yield f"Page {number} of the results is shown.", (page.kind, page.number) == ("results", number)
    for asin in {*listed, *draw.sample(sorted(products), 3), page.asin or world.goal.asin}:
        yield f"Product {asin} is listed.", asin in listed
        yield f"The page of product {asin} is shown.", (page.kind, page.asin) == ("item", asin)
        yield f"Product {asin} has been bought.", (page.kind, page.asin) == ("bought", asin)
    for name, values in products[page.asin].options.items() if page.asin else ():
        for value in values:
            yield f"The {name} {value} is chosen.", page.options.get(name) == value


@pytest.mark.parametrize("config", ["", PLAIN, ATTRIBUTES])
def test_no_decision_contradicts_the_shop(config: str):
    benchmark, draw = WebShop(config=config), Random(config)
    for task in benchmark.tasks()[:5]:
        world = benchmark.open(task)
        seen = world.reset()
        while not seen.done:
            for condition, holds in truths(world, draw):
                decision = benchmark.decide(condition, seen, world.view())
                assert decision is None or (decision.holds is holds and decision.quote in world.view()), condition
            strays = [action for action in world.admissible() if "Buy Now" not in action]
            next_one = plan_purchase(world.page, world.goal, world.shop)[0]
            seen = world.step(Action(text=draw.choice([next_one, next_one, draw.choice(strays)])))
        assert benchmark.decide("A product has been bought.", seen, world.view()) is not None
