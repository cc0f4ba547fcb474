"""Goals: what is wanted with which options at what price, one for each combination of a product's options."""

from collections.abc import Iterator
from itertools import product as combinations
from random import Random

from pydantic import Field

from certigraph.adapters.webshop.products import Catalogue, Product, Wish
from certigraph.state.records import Record

SHUFFLE = 233
"""WebShop's seed for the order of goals. Its draws of prices and ours differ, so the order is ours too."""

HIGHEST = 990
"""The largest upper bound of a price, in dollars; dearer products have none."""

NEARBY = 4
"""Multiples of ten dollars above a price out of which its bound is drawn."""


class Goal(Record):
    """What is to be bought, and what the purchase is judged by."""

    asin: str
    instruction: str = Field(min_length=1)
    attributes: tuple[str, ...] = Field(min_length=1)
    options: tuple[str, ...] = ()
    """The wanted values, each of another option."""
    upper: float | None = None
    """The price in dollars that it may cost; None: any."""


def goals(catalogue: Catalogue) -> dict[str, Goal]:
    """All templated goals by id, `ASIN-n` for combination n of the product's options, in shuffled order."""
    made = [
        pair
        for wish in catalogue.wishes
        if wish.options is None
        for pair in _combined(wish, catalogue.products[wish.asin])
    ]
    Random(SHUFFLE).shuffle(made)
    return dict(made)


def written_goals(catalogue: Catalogue) -> dict[str, Goal]:
    """The goals in crowd workers' own words by id, `ASIN-written`."""
    return {
        f"{wish.asin}-written": _goal(wish, catalogue.products[wish.asin], wish.options, "")
        for wish in catalogue.wishes
        if wish.options is not None
    }


def price_bound(product: Product) -> float | None:
    """The larger of two of the next multiples of ten dollars above the price; None above 980 dollars."""
    price = product.price
    above = [float(bound) for bound in range(10, HIGHEST + 1, 10) if bound > price][:NEARBY]
    return max(Random(f"bound:{product.asin}").sample(above, 2)) if len(above) > 1 else None


def _combined(wish: Wish, product: Product) -> Iterator[tuple[str, Goal]]:
    names = sorted(product.options)
    for number, values in enumerate(combinations(*(product.options[name] for name in names))):
        told = ", and ".join(f"{name}: {value}" for name, value in zip(names, values, strict=True))
        yield f"{product.asin}-{number}", _goal(wish, product, values, f" with {told}" if told else "")


def _goal(wish: Wish, product: Product, values: tuple[str, ...], told: str) -> Goal:
    upper = price_bound(product)
    bound = "" if upper is None else f", and price lower than {upper:.2f} dollars"
    text = f"{wish.text}{told}{bound}"
    return Goal(asin=product.asin, instruction=text, attributes=wish.attributes, options=values, upper=upper)
