"""The cheapest ways to eat a number of different meals so that given cuisines are served."""

from collections.abc import Iterable, Sequence
from math import inf
from typing import NamedTuple

Menu = dict[int, float]
"""Least cost by the set of cuisines served, one bit for each requested one."""


class Dish(NamedTuple):
    """A restaurant as far as the choice goes: what it costs and which requested cuisines it serves, as bits."""

    cost: float
    serves: int


def menu_of(dishes: Sequence[Dish], least: int, most: int) -> Menu:
    """Between `least` and `most` different dishes: an exact knapsack over counts and cuisines."""
    menus: list[Menu] = [{0: 0.0}] + [{} for _ in range(most)]
    for dish in dishes:
        for count in range(most, 0, -1):
            for served, cost in menus[count - 1].items():
                _keep(menus[count], served | dish.serves, cost + dish.cost)
    return _cheapest(menus[least:])


def both(one: Menu, other: Menu) -> Menu:
    """Two menus eaten one after the other."""
    return _cheapest({a | b: x + y} for a, x in one.items() for b, y in other.items())


def _cheapest(menus: Iterable[Menu]) -> Menu:
    best: Menu = {}
    for menu in menus:
        for served, cost in menu.items():
            _keep(best, served, cost)
    return best


def _keep(menu: Menu, served: int, cost: float) -> None:
    if cost < menu.get(served, inf):
        menu[served] = cost
