"""WebShop's shop: pages in both text modes, clicks, search, options, goals, the invented catalogue."""

import random

import pytest
from real_data import data_folder

from certigraph.adapters.webshop.benchmark import WebShop
from certigraph.adapters.webshop.goals import Goal, goals, price_bound
from certigraph.adapters.webshop.products import Catalogue, Product, Wish
from certigraph.adapters.webshop.shop import Shop
from certigraph.adapters.webshop.wording import proposals, singular, wanted
from certigraph.adapters.webshop.world import WebShopWorld
from certigraph.state.endings import Fault, UnknownName
from certigraph.state.records import Action, Task

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
SHOP = Shop(Catalogue({product.asin: product for product in (CUP, *REST)}, ()))
GOAL = Goal(asin="A1", instruction="Find me a tin cup", attributes=("leak proof",), options=("red", "l"), upper=20.0)


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


def test_attributes_are_shown_where_asked_for():
    _, seen = walk("search[tin cup]", "click[A1]", "click[Attributes]", attributes=True)
    assert seen[3].text.endswith("leak proof")
    assert "Attributes" not in walk("search[tin cup]", "click[A1]")[1][2].text


def test_every_combination_of_options_makes_a_goal():
    wish = Wish(asin="A1", text="Find me leak proof cups", attributes=("leak proof",))
    made = goals(Catalogue({"A1": CUP}, (wish,)))
    assert set(made) == {f"A1-{n}" for n in range(4)}
    bound = price_bound(CUP)
    assert made["A1-1"].options == ("red", "l")
    assert made["A1-1"].instruction == (
        f"Find me leak proof cups with color: red, and size: l, and price lower than {bound:.2f} dollars"
    )


@pytest.mark.parametrize(
    ("price", "bounds"), [(7.0, {20, 30, 40}), (10.0, {30, 40, 50}), (975.0, {990}), (980.0, {None})]
)
def test_bounds_are_the_larger_of_two_of_the_next_four_multiples_of_ten(price, bounds):
    drawn = {price_bound(Product(asin=f"P{n}", title="", prices=(price,))) for n in range(60)}
    assert drawn == bounds


def test_a_price_range_is_paid_by_one_price_inside_it():
    assert 8.0 < CUP.price < 10.0 and CUP.price == CUP.model_copy().price
    assert CUP.price_text == "$8.0 to $10.0" and REST[0].price == 1.0


def test_an_instruction_is_taken_apart():
    asked = wanted(
        "Find me easy carry containers with rose gold with flavor name: a, b, and size: 8.5"
        ", and price lower than 20.00 dollars"
    )
    assert asked.words == ("easy", "carry", "containers", "rose", "gold")
    assert asked.options == {"flavor name": "a, b", "size": "8.5"} and asked.upper == 20.0
    assert wanted("i want red shoes").options == {} and wanted("i want red shoes").upper is None
    assert proposals("Find me cups with color: red")[:2] == ["cups red", "cups"]
    assert singular("Two boxes of berries, glass lenses") == "two box of berry glass lense"


def test_the_invented_shop_can_be_bought_from():
    shop = WebShop()
    tasks = shop.tasks()
    assert len(tasks) == 40 and tasks == WebShop().tasks() and shop.task(tasks[3].id) == tasks[3]
    for task in tasks:
        assert bought(shop, task, []) == 1.0


def test_demonstrations_go_on_from_wherever_a_visitor_is():
    shop, chance = WebShop(), random.Random(5)
    for task in shop.tasks()[:20]:
        world, before = shop.open(task), []
        world.reset()
        for _ in range(chance.randint(0, 8)):
            before.append(chance.choice([a for a in world.admissible() if a != "click[Buy Now]"]))
            world.step(Action(text=before[-1]))
        assert bought(shop, task, before) == 1.0


def test_demonstrations_lead_back_from_a_further_page_of_the_item():
    shop = WebShop()
    task = shop.tasks()[5]
    way = shop.demonstration(task)
    opened = next(place for place, action in enumerate(way) if action.startswith("click[G")) + 1
    before = [*way[:opened], "click[Reviews]"]
    assert shop.demonstration(task, before) == ["click[< Prev]", *way[opened:]]
    assert bought(shop, task, before) == 1.0


def test_nothing_leads_on_once_something_else_is_bought():
    shop = WebShop()
    task, other = shop.tasks()[0], shop.tasks()[30]
    with pytest.raises(Fault, match="bought already"):
        shop.demonstration(task, shop.demonstration(other))


def test_a_random_visitor_does_nothing_that_is_refused():
    shop, chance = WebShop(), random.Random(1)
    for task in shop.tasks()[:10]:
        world = shop.open(task)
        world.reset()
        for _ in range(25):
            actions = world.admissible()
            if not actions:
                break
            assert world.step(Action(text=chance.choice(actions))).accepted


def test_unknown_names_are_told_with_the_known_ones():
    with pytest.raises(UnknownName, match="instructions, test"):
        WebShop().tasks("nightly")
    with pytest.raises(UnknownName, match="need --data DIR"):
        WebShop().task("B00-0")
    with pytest.raises(UnknownName, match="attributes, plain"):
        WebShop(config="loud")
    with pytest.raises(Fault, match="make it with"):
        WebShop().open(Task(benchmark="webshop", id="x", constants={"asin": "A1"}))


@pytest.mark.slow
def test_webshops_files():
    shop = WebShop(data_folder("webshop"))
    assert len(shop.tasks()) == 275 and len(shop.tasks("written")) == 11 and len(shop.tasks("test")) == 500
    assert sum(len(shop.tasks(split)) for split in ("test", "dev", "train")) == 3964
    reached = [task for task in shop.tasks()[::40] if bought(shop, task, []) == 1.0]
    assert len(reached) == 7


def bought(shop, task, before):
    """The reward for following the demonstration after some actions."""
    try:
        actions = [*before, *shop.demonstration(task, before)]
    except Fault:
        return 0.0
    world = shop.open(task)
    world.reset()
    for action in actions:
        world.step(Action(text=action))
    return world.score().value
