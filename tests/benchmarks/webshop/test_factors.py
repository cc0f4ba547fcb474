"""WebShop's pages and instructions as factored states, in both text modes and in published wordings."""

import pytest

from certigraph.benchmarks.webshop.benchmark import WebShop
from certigraph.benchmarks.webshop.factors import (
    CHOICE,
    FACTOR_FEATURES,
    ITEM,
    LIST,
    OFFERS,
    PURCHASE,
    WebShopFactors,
    page_kind,
    parse_item,
)
from certigraph.state.records import Action
from certigraph.state.rewards import FactoredState, to_mapping

READ = WebShopFactors()
NOTHING = FactoredState()
SEP = " [SEP] "
GOAL = "Find me leak proof water bottles with color: teal, and size: large, and price lower than 30.00 dollars"
FREE = "i want a large teal bottle"

CHOICES = ["color", "teal", "red", "size", "small", "large"]
SOLD = [
    "Tin Bottle, leak proof",
    "Price: $9.5 to $12.0",
    "Rating: N.A.",
    "Description",
    "Features",
    "Reviews",
    "Buy Now",
]
ITEM_PAGE = SEP.join(["Instruction:", GOAL, "Back to Search", "< Prev", *CHOICES, *SOLD])
MARKED = """\
[button] Back to Search [button_]
[button] < Prev [button_]
color
[clicked button] teal [clicked button_]
[button] red [button_]
Tin Bottle
Price: $9.5
[button] Buy Now [button_]"""
BOUGHT = "You have successfully purchased the product."


def read(*steps, goal=GOAL):
    """State and goal state after (action, observation) pairs."""
    state = wish = NOTHING
    for action, observation in steps:
        state = READ.extract(state, goal, action, observation)
        wish = READ.interpret(goal, state, wish)
    return to_mapping(state), to_mapping(wish)


def test_kinds_of_pages():
    assert page_kind(ITEM_PAGE) == page_kind(MARKED) == "item"
    assert page_kind("[button] Back to Search [button_] … Page 2 (Total results: 50) …") == "results"
    assert page_kind("[button] Search [button_]") == "search"
    assert page_kind(BOUGHT) == page_kind("Thank you for shopping with us!") == "bought"
    assert page_kind("Instruction: [SEP] x [SEP] Back to Search [SEP] < Prev [SEP] It is red.") == "details"
    assert page_kind("It rains.") == ""


def test_an_items_page_is_read_in_both_modes():
    plain, marked = parse_item(ITEM_PAGE), parse_item(MARKED)
    assert plain.options == {"color": ["teal", "red"], "size": ["small", "large"]} and not plain.marked
    assert (plain.title, plain.price) == ("Tin Bottle, leak proof", 9.5)
    assert marked.options == {"color": ["teal", "red"]} and marked.chosen == {"teal"} and marked.title == "Tin Bottle"


def test_the_goal_is_a_fitting_item_chosen_options_and_a_purchase():
    _, wish = read(("", "[button] Search [button_]"))
    assert wish[ITEM] == {FACTOR_FEATURES: "leak proof water bottles", OFFERS: "color: teal; size: large"}
    assert wish["color option"] == {CHOICE: "teal"} and wish["size option"] == {CHOICE: "large"}
    assert wish[PURCHASE] == {**wish[ITEM], "status": "bought"}


def test_unmarked_choices_are_known_by_what_was_clicked():
    looked = ("click[B1]", ITEM_PAGE)
    assert read(looked)[0]["color option"] == {}
    assert read(looked, ("click[Teal]", ITEM_PAGE))[0]["color option"] == {CHOICE: "teal"}
    both = read(looked, ("click[teal]", ITEM_PAGE), ("click[large]", ITEM_PAGE))[0]
    assert both["color option"] == {CHOICE: "teal"} and both["size option"] == {CHOICE: "large"}
    assert read(looked, ("click[teal]", ITEM_PAGE), ("click[red]", ITEM_PAGE))[0]["color option"] == {}


def test_what_further_pages_tell_is_kept_until_the_item_is_left():
    details = SEP.join(["Instruction:", GOAL, "Back to Search", "< Prev", "Holds tea."])
    state, _ = read(("click[B1]", ITEM_PAGE), ("click[Description]", details), ("click[< Prev]", ITEM_PAGE))
    assert state[ITEM][FACTOR_FEATURES] == "leak proof bottles", "the instruction on the page tells nothing"
    wet = details.replace("tea", "water")
    state, _ = read(("click[B1]", ITEM_PAGE), ("click[Features]", wet), ("click[< Prev]", ITEM_PAGE))
    assert state[ITEM][FACTOR_FEATURES] == "leak proof water bottles"
    listed = SEP.join(["Page 1 (Total results: 2)", "B1", "Water Jug", "$3.0", "B2", "Proof Coins", "$4.0"])
    assert read(("click[B1]", ITEM_PAGE), ("click[< Prev]", listed))[0] == {LIST: {FACTOR_FEATURES: "water"}}


def test_the_purchase_is_of_the_item_that_was_looked_at():
    state, _ = read(("click[B1]", ITEM_PAGE), ("click[buy now]", BOUGHT))
    assert state[PURCHASE] == {**state[ITEM], "status": "bought"}
    assert read(("click[buy now]", BOUGHT))[0] == {}


def test_free_words_ask_for_options_once_an_item_offers_them():
    _, before = read(("", "[button] Search [button_]"), goal=FREE)
    assert set(before) == {ITEM, PURCHASE}
    page = ITEM_PAGE.replace(GOAL, FREE)
    state, wish = read(("", "[button] Search [button_]"), ("click[B1]", page), ("click[teal]", page), goal=FREE)
    assert wish["color option"] == state["color option"] == {CHOICE: "teal"}
    assert wish["size option"] == {CHOICE: "large"} and state["size option"] == {}


@pytest.mark.parametrize("config", ["", "plain"])
def test_a_demonstration_fulfils_what_the_goal_asks_of_options_and_purchase(config):
    shop = WebShop(None, config)
    for task in shop.tasks()[::5]:
        world, state, wish = shop.open(task), NOTHING, NOTHING
        for action in shop.demonstration(task):
            text = world.step(Action(text=action)).text
            state = READ.extract(state, task.goal, action, text)
            wish = READ.interpret(task.goal, state, wish)
        had, wanted = to_mapping(state), to_mapping(wish)
        choices = [name for name in wanted if name.endswith("option")]
        assert {name: had[name] for name in choices} == {name: wanted[name] for name in choices}
        assert len(choices) == len(world.goal.options) and had[PURCHASE]["status"] == "bought"
