"""WebShop's reward for a purchase (Yao et al., section 3.1 and appendix A): how far it is what was wanted.

reward = type x (attributes matched + options matched + [price within the bound]) / (attributes + options + 1)

Two pieces are substitutes for WebShop's own: the finder of nouns (nouns.py), and the list of colours.
"""

from collections.abc import Sequence
from importlib import import_module
from typing import NamedTuple

from certigraph.adapters.webshop.goals import Goal
from certigraph.adapters.webshop.nouns import nouns
from certigraph.adapters.webshop.products import BELOW, Product
from certigraph.state.endings import Fault

ALIKE = 85
"""Token set ratios above which two phrases are the same."""

SIMILAR, DIFFERENT = 0.2, 0.1
"""Shares of a wanted title's nouns: above the first the type is right, below the second it is another."""

LEVELS = 2
"""Levels of category that two products of one type share."""

_COLOURS = """
aqua beige black blue bronze brown burgundy champagne charcoal copper coral cream cyan gold gray green grey indigo
ivory khaki lavender lilac magenta maroon mint mustard navy olive orange peach pink plum purple red rose ruby
salmon sand silver tan taupe teal turquoise violet white wine yellow
"""

COLOURS = tuple(_COLOURS.split())
"""Our own list; of two in one value the first in the alphabet counts."""


class Judged(NamedTuple):
    """The parts of a reward. Shares are in [0, 1]; `options` is None where none was wanted."""

    reward: float
    type: float
    attributes: float
    options: float | None
    price: float


def judged(goal: Goal, wanted: Product, bought: Product, chosen: Sequence[str]) -> Judged:
    """The reward for buying `bought` with the chosen option values where `wanted` is the goal's product."""
    attributes = sum(has_attribute(bought, attribute) for attribute in goal.attributes)
    colours = [normalised(value) for value in chosen]
    options = sum(any(alike(ours, normalised(value)) for ours in colours) for value in goal.options)
    price = goal.upper is None or bought.price <= goal.upper
    kind = type_reward(wanted, bought)
    parts = len(goal.attributes) + len(goal.options) + 1
    return Judged(
        reward=kind * (attributes + options + price) / parts,
        type=kind,
        attributes=attributes / len(goal.attributes),
        options=options / len(goal.options) if goal.options else None,
        price=float(price),
    )


def type_reward(wanted: Product, bought: Product) -> float:
    """1 for a product of the wanted type, 0.5 where nothing says so, 0.1 and 0 where titles share next to nothing."""
    share = title_share(wanted.title, bought.title)
    if share < DIFFERENT:
        return 0.1 if share else 0.0
    levels = set(_levels(wanted)) & set(_levels(bought))
    same = wanted.query == bought.query or len(levels) >= LEVELS or share > SIMILAR
    return 1.0 if same else 0.5


def title_share(wanted: str, bought: str) -> float:
    """Different nouns of the wanted title that the bought one has, by the number of its nouns; 0.2 if it has none."""
    ours = nouns(wanted)
    return len(set(ours) & set(nouns(bought))) / len(ours) if ours else SIMILAR


def has_attribute(product: Product, attribute: str) -> bool:
    """Whether one of its attributes is alike, or its title, features or description have the very words."""
    texts = (product.title, " ".join(product.features), product.description)
    return any(alike(own, attribute) for own in product.attributes) or any(attribute in t.lower() for t in texts)


def normalised(value: str) -> str:
    """An option's value; the first colour that it names where it names one."""
    return next((colour for colour in COLOURS if colour in value), value)


def alike(left: str, right: str) -> bool:
    """Whether two phrases have the same words, or nearly: a token set ratio above 85.

    Raises:
        Fault: ("data") rapidfuzz is not installed; the message has the command that brings it.
    """
    try:
        fuzz, utils = import_module("rapidfuzz.fuzz"), import_module("rapidfuzz.utils")
    except ModuleNotFoundError as error:
        fix = "pip install 'certigraph[webshop]'"
        raise Fault("data", f"WebShop's reward needs rapidfuzz, missing here: {fix}") from error
    return bool(round(fuzz.token_set_ratio(left, right, processor=utils.default_process)) > ALIKE)


def _levels(product: Product) -> list[str]:
    return [level.strip() for level in product.category.split(BELOW) if level.strip()]
