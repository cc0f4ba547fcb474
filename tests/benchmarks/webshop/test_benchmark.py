"""WebShop's demonstrations: they buy what is wanted, from wherever a visitor is."""

import random

import pytest
from helpers.files.real_data import data_folder

from certigraph.benchmarks.webshop.benchmark import WebShop
from certigraph.state.endings import Fault
from certigraph.state.records import Action


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


@pytest.mark.slow
def test_products_of_webshop_are_bought_along_the_demonstration():
    shop = WebShop(data_folder("webshop"))
    assert [bought(shop, task, []) for task in shop.tasks()[::40]] == [1.0] * 7
