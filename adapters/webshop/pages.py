"""The pages of the shop as data: what they show line by line, and which of the lines can be clicked."""

from typing import Literal, NamedTuple

from pydantic import Field

from certigraph.adapters.webshop.shop import PER_PAGE, Shop
from certigraph.state.records import Record

BACK, PREVIOUS, NEXT, BUY = "Back to Search", "< Prev", "Next >", "Buy Now"
DESCRIPTION, FEATURES, REVIEWS, ATTRIBUTES = "Description", "Features", "Reviews", "Attributes"
SEARCH = "Search"

BOUGHT = "You have successfully purchased the product."

Mark = Literal["text", "button", "chosen"]


class Page(Record):
    """Where a visitor is, and what is chosen there."""

    kind: Literal["search", "results", "item", "details", "bought"] = "search"
    keywords: str = ""
    number: int = Field(1, ge=1)
    """Of the page of results, from 1."""
    asin: str = ""
    options: dict[str, str] = Field(default_factory=dict)
    """The chosen value of each option that has one."""
    details: str = ""
    """Which of a product's further pages."""


class Line(NamedTuple):
    """One visible string, and whether it is a button."""

    text: str
    mark: Mark = "text"


def lines(page: Page, shop: Shop, instruction: str, *, attributes: bool) -> list[Line]:
    """What a page shows; with `attributes`, items have a button to a page of their attributes.

    Raises:
        Fault: ("data") as `Shop.product`.
    """
    if page.kind == "bought":
        return [Line(BOUGHT)]
    head = [Line("Instruction:"), Line(instruction)]
    if page.kind == "search":
        return [Line("WebShop"), *head, Line(SEARCH, "button")]
    body = {"results": _results, "item": _item, "details": _details}[page.kind](page, shop)
    buttons = [ATTRIBUTES, BUY] if attributes else [BUY]
    tail = [Line(text, "button") for text in buttons] if page.kind == "item" else []
    return [*head, Line(BACK, "button"), *body, *tail]


def _results(page: Page, shop: Shop) -> list[Line]:
    found = shop.search(page.keywords)
    start = (page.number - 1) * PER_PAGE
    shown = [shop.product(asin) for asin in found[start : start + PER_PAGE]]
    listed = [
        line
        for product in shown
        for line in (Line(product.asin, "button"), Line(product.title), Line(product.price_text))
    ]
    previous = [Line(PREVIOUS, "button")] if page.number > 1 else []
    following = [Line(NEXT, "button")] if start + PER_PAGE < len(found) else []
    return [Line(f"Page {page.number} (Total results: {len(found)})"), *previous, *following, *listed]


def _item(page: Page, shop: Shop) -> list[Line]:
    product = shop.product(page.asin)
    options: list[Line] = []
    for name, values in product.options.items():
        marks: list[Mark] = ["chosen" if page.options.get(name) == value else "button" for value in values]
        options += [Line(name), *map(Line, values, marks)]
    told = [Line(product.title), Line(f"Price: {product.price_text}"), Line("Rating: N.A.")]
    further = [Line(name, "button") for name in (DESCRIPTION, FEATURES, REVIEWS)]
    return [Line(PREVIOUS, "button"), *options, *told, *further]


def _details(page: Page, shop: Shop) -> list[Line]:
    product = shop.product(page.asin)
    told = {DESCRIPTION: (product.description,), FEATURES: product.features, ATTRIBUTES: product.attributes}
    return [Line(PREVIOUS, "button"), *(Line(text.strip()) for text in told.get(page.details, ()) if text.strip())]
