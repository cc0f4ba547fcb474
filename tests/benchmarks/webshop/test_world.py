"""Tests of `benchmarks.webshop.world`."""

import pytest

from certigraph.benchmarks.webshop.benchmark import WebShop
from certigraph.benchmarks.webshop.products import Product, ShopCatalogue, ShopGoal
from certigraph.benchmarks.webshop.world import Shop, WebShopWorld
from certigraph.state.records import Action, Scores, Usage
from certigraph.state.trajectory import Footer

# WebShop's shop: pages in both text modes, clicks, search, options, goals, the invented catalogue.

CUP = Product(
    asin="A1",
    title="Tin Cup",
    description="For camps.",
    features=("Light.", "Holds tea."),
    attributes=("leak proof",),
    options={"color": ("red", "blue"), "size": ("s", "l")},
    prices=(8.0, 10.0),
    query="cups",
)
REST = [Product(asin=f"B{n:02}", title=f"Tin Plate {n}", prices=(float(n + 1),)) for n in range(60)]
SHOP = Shop(ShopCatalogue({product.asin: product for product in (CUP, *REST)}, ()))
GOAL = ShopGoal(
    asin="A1", instruction="Find me a tin cup", attributes=("leak proof",), options=("red", "l"), upper=20.0
)


def walk(*actions, **modes):
    world = WebShopWorld(SHOP, GOAL, **modes)
    seen = [world.reset(), *(world.step(Action(text=action)) for action in actions)]
    return world, seen


def test_unmarked_pages_join_their_strings():
    _, seen = walk("search[tin cup]", "click[A1]", "click[Features]", marked=False)
    assert seen[0].text == "WebShop [SEP] Instruction: [SEP] Find me a tin cup [SEP] Search"
    head = "Instruction: [SEP] Find me a tin cup [SEP] Back to Search [SEP] "
    assert seen[1].text.startswith(
        f"{head}Page 1 (Total results: 50) [SEP] Next > [SEP] A1 [SEP] Tin Cup [SEP] $8.0 to"
    )
    options = "< Prev [SEP] color [SEP] red [SEP] blue [SEP] size [SEP] s [SEP] l [SEP] "
    sold = "Tin Cup [SEP] Price: $8.0 to $10.0 [SEP] Rating: N.A. [SEP] Description [SEP] Features [SEP] Reviews"
    assert seen[2].text == f"{head}{options}{sold} [SEP] Buy Now"
    assert seen[3].text == f"{head}< Prev [SEP] Light. [SEP] Holds tea."


def test_marked_pages_say_what_is_a_button_and_what_is_chosen():
    _, seen = walk("search[tin cup]", "click[a1]", "click[RED]", "click[blue]")
    assert "[button] red [button_]\n[button] blue [button_]\nsize\n" in seen[2].text
    assert seen[3].text.startswith("You have clicked red.\n")
    assert "[clicked button] red [clicked button_]" in seen[3].text
    assert "[button] red [button_]" in seen[4].text, "of one option the later choice counts"


def test_results_come_ten_a_page_and_at_most_fifty():
    world, seen = walk("search[tin]", *["click[Next >]"] * 5)
    assert [len([a for a in seen_.text.splitlines() if a.startswith("[button] B")]) > 8 for seen_ in seen[1:6]]
    assert world.page.number == 5 and not seen[6].accepted, "the last page has no next one"
    assert "click[Next >]" not in world.admissible()
    assert world.step(Action(text="click[< Prev]")).accepted and world.page.number == 4


def test_leaving_an_item_forgets_its_choices_and_returns_to_the_page_of_results():
    world, _ = walk("search[plate]", "click[Next >]", "click[< Prev]", "click[Next >]")
    item = world.admissible()[-1]
    world.step(Action(text=item))
    world.step(Action(text="click[Description]"))
    world.step(Action(text="click[< Prev]"))
    assert world.page.kind == "item"
    world.step(Action(text="click[< Prev]"))
    assert (world.page.kind, world.page.number, world.page.options) == ("results", 2, {})


@pytest.mark.parametrize("action", ["search[ ]", "click[A1]", "click[Buy Now]", "click[Search]", "look", "buy[A1]"])
def test_what_the_page_does_not_offer_is_refused_and_changes_nothing(action):
    world, _ = walk()
    before = world.view()
    answer = world.step(Action(text=action))
    assert not answer.accepted and world.view() == before and action in answer.text


def test_one_searches_on_the_search_page_only():
    world, seen = walk("search[tin]", "search[cup]")
    assert not seen[2].accepted and world.page.keywords == "tin"
    world.step(Action(text="click[Back to Search]"))
    assert world.step(Action(text="search[nothing has this]")).accepted
    assert "Total results: 0" in world.view()


def test_buying_ends_the_episode_with_the_reward():
    world, seen = walk("search[tin cup]", "click[A1]", "click[red]", "click[l]", "click[Buy Now]")
    assert [one.reward for one in seen] == [0, 0, 0, 0, 0, 1]
    assert seen[-1].done and seen[-1].solved and world.score().parts["success"] == 1
    assert world.admissible() == [] and not world.step(Action(text="click[Buy Now]")).accepted
    world.reset()
    assert world.score().value == 0


def test_attributes_are_shown_where_requested():
    _, seen = walk("search[tin cup]", "click[A1]", "click[Attributes]", attributes=True)
    assert seen[3].text.endswith("leak proof")
    assert "Attributes" not in walk("search[tin cup]", "click[A1]")[1][2].text


# WebShop under graphs: the scripted expert buys what is wanted, a random visitor seldom does.


def test_figures_are_means_over_runs_and_count_those_that_bought_nothing():
    def footer(reward: float, bought: str | None) -> Footer:
        return Footer(ending="goal", usage=Usage(node="all"), scores=Scores(value=reward, answer=bought))

    figures = WebShop().figures([("a", footer(1.0, "A")), ("b", footer(0.5, "B")), ("c", footer(0.0, None))])
    assert figures["n"] == 3 and figures["score"] == 0.5
    assert figures["success"] == pytest.approx(1 / 3) and figures["bought"] == pytest.approx(2 / 3)
    assert figures["score_stderr"] == pytest.approx(0.5 / 3**0.5)
