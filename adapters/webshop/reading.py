"""Reading the shop's pages: both text modes of WebShop, whose pages RewardPrediction's trajectories have too."""

import re
from typing import NamedTuple

from certigraph.adapters.webshop.pages import (
    ATTRIBUTES,
    BACK,
    BOUGHT,
    BUY,
    DESCRIPTION,
    FEATURES,
    NEXT,
    PREVIOUS,
    REVIEWS,
)

_MARKED = re.compile(r"\[(clicked )?button\]\s*(.{0,300}?)\s*\[(?:clicked )?button_\]", re.DOTALL)
_LIST = re.compile(r"Page \d+ \(Total results: \d+\)")
_PRICE = re.compile(r"Price: \$(\d[\d,]*(?:\.\d+)?)")
_BOUGHT = (BOUGHT.lower(), "thank you for shopping")

FIXED = frozenset((ATTRIBUTES, BACK, BUY, DESCRIPTION, FEATURES, NEXT, PREVIOUS, REVIEWS, "Search", "search"))
"""Buttons that are no option's value; on some pages the last one is lower-cased."""


NAMES = frozenset(
    ("color", "fit type", "flavor", "flavor name", "item shape", "material", "number of items", "pattern name", "scent")
) | {"size", "style"}
"""Usual names of options, for texts that do not mark buttons."""


class Strings(NamedTuple):
    """The visible strings of a page in order; which are buttons, and which of those are marked as chosen."""

    texts: tuple[str, ...]
    buttons: frozenset[str]
    chosen: frozenset[str]


class Item(NamedTuple):
    """A product's page."""

    title: str
    price: float | None
    """The lowest, in dollars."""
    options: dict[str, list[str]]
    """Values by the option's name; under the empty name where an unmarked text has no usual name before them."""
    chosen: frozenset[str]
    marked: bool
    """Whether the text says which values are chosen."""


def kind_of(text: str) -> str:
    """`bought`, `results`, `item`, `search` or `details`; empty where the text is no page of the shop."""
    if any(words in text.lower() for words in _BOUGHT):
        return "bought"
    if _LIST.search(text):
        return "results"
    if BUY in text:
        return "item"
    return "details" if PREVIOUS in text or BACK in text else "search" if "Search" in text else ""


def item(text: str) -> Item:
    """What a product's page tells."""
    shown = strings(text)
    options, title = _options(shown)
    found = _PRICE.search(text)
    price = float(found[1].replace(",", "")) if found else None
    return Item(title, price, options, shown.chosen, bool(shown.buttons))


def strings(text: str) -> Strings:
    """A page taken apart at its separators: line ends or [SEP], and the marks of buttons."""
    marks = {mark[2]: bool(mark[1]) for mark in _MARKED.finditer(text)}
    plain = _MARKED.sub(lambda mark: f"\n{mark[2]}\n", text)
    texts = tuple(part.strip() for part in re.split(r"\[SEP\]|\n", plain) if part.strip())
    return Strings(texts, frozenset(marks), frozenset(name for name, chosen in marks.items() if chosen))


def _options(shown: Strings) -> tuple[dict[str, list[str]], str]:
    """The options between the page's head and its price, and the title, which is the last string before that."""
    start = next((n for n, text in enumerate(shown.texts) if text == PREVIOUS), -1) + 1
    end = next((n for n, text in enumerate(shown.texts) if text.startswith("Price:")), len(shown.texts))
    between = shown.texts[start:end]
    options: dict[str, list[str]] = {}
    name = ""
    for text in between[:-1]:
        if text in NAMES or (shown.buttons and text not in shown.buttons):
            name = text
        elif text not in FIXED:
            options.setdefault(name, []).append(text)
    return options, between[-1] if between else ""
