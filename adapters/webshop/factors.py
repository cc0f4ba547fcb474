"""WebShop's pages as factored states."""

import re
from collections.abc import Mapping
from typing import NamedTuple

from certigraph.adapters.webshop.world import (
    ATTRIBUTES,
    BACK,
    BOUGHT,
    BUY,
    DESCRIPTION,
    FEATURES,
    NEXT,
    PREVIOUS,
    REVIEWS,
    parsed,
    shared,
    wanted,
)
from certigraph.state.rewards import FactoredState, as_mapping, factored

# Reading the shop's pages: both text modes of WebShop, whose pages RewardPrediction's trajectories have too.

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


# WebShop's pages as factored states: the best of a list, the item that is looked at, the choices, the purchase.
#
# Of all of them the state keeps what the goal asks about: which of the wanted words they have, which of the wanted
# values an item offers and which of those are chosen. All is read off the pages that were seen; a product's number
# says nothing.

LIST, ITEM, PURCHASE = "search results", "item in view", "receipt"
"""Identities that embed far from one another: an item that is looked at is none that is bought."""

FACTOR_FEATURES, OFFERS, CHOICE = "features", "offers", "choice"

PAID = {"status": "bought"}

Entities = dict[str, dict[str, str]]


class WebShopFactors:
    """A visit to the shop. Chosen values are read off marks, and off actions where pages have none.

    Written by hand for WebShop's pages; the paper has a language model extract. Its milestones are what every purchase
    goes through: a list that has the wanted words, an item that has them, each choice, the receipt.
    """

    def extract(self, state: FactoredState, goal: str, action: str, observation: str) -> FactoredState:
        """The state after a step; what was seen of an item is kept while its pages are open, and once it is bought."""
        known, kind, text = as_mapping(state), kind_of(observation), observation.replace(goal, "")
        if kind == "search":
            return factored({})
        if kind == "results":
            return factored({LIST: _telling({FACTOR_FEATURES: _best(text, goal)})})
        if kind == "item":
            return factored(_viewed(known, goal, action, item(text)))
        if kind == "details" and ITEM in known:
            return factored({**known, ITEM: _learnt(known[ITEM], goal, text)})
        if kind == "bought" and ITEM in known:
            return factored({**known, PURCHASE: {**known[ITEM], **PAID}})
        return state

    def interpret(self, goal: str, state: FactoredState, before: FactoredState) -> FactoredState:
        """What fits is looked at, chosen as asked for, and bought.

        Options that free words ask for are known once an item offers values that they name.
        """
        asked = wanted(goal)
        seen = state.get(ITEM)
        offers = asked.options or _told(seen.attributes.get(OFFERS, "") if seen else "")
        if before.entities and not (seen and offers):
            return before
        wished = _telling({FACTOR_FEATURES: " ".join(asked.words), OFFERS: _telling_offers(offers)})
        choices = {_option(name): {CHOICE: value} for name, value in offers.items()}
        return factored({ITEM: wished, **choices, PURCHASE: {**wished, **PAID}})


def _viewed(known: Entities, goal: str, action: str, seen: Item) -> Entities:
    """An item's page: what it has of what is wanted, and which wanted values are chosen."""
    offers = _offered(goal, seen)
    here = known.get(ITEM, {})
    words = " ".join([here.get(FACTOR_FEATURES, ""), seen.title])
    item = _telling({FACTOR_FEATURES: shared(goal, words), OFFERS: _telling_offers(offers)})
    choices = {
        _option(name): _telling({CHOICE: _choice(known.get(_option(name), {}), value, action, seen, name)})
        for name, value in offers.items()
    }
    return {ITEM: item, **choices}


def _choice(before: Mapping[str, str], value: str, action: str, seen: Item, name: str) -> str:
    """The wanted value where it is chosen, else nothing."""
    if seen.marked:
        return value if value in seen.chosen else ""
    _, clicked = parsed(action) or ("", "")
    if clicked.lower() in (each.lower() for each in seen.options[name]):
        return value if clicked.lower() == value.lower() else ""
    return before.get(CHOICE, "")


def _offered(goal: str, seen: Item) -> dict[str, str]:
    """The wanted values that an item has, by the option's name; for free words the longest that they have all of."""
    asked = wanted(goal)
    if asked.options:
        return {name: value for name, value in asked.options.items() if value in seen.options.get(name, ())}
    named = {
        name: [value for value in values if shared(value, goal) == " ".join(wanted(value).words)]
        for name, values in seen.options.items()
    }
    return {name: max(values, key=len) for name, values in named.items() if values}


def _learnt(item: Mapping[str, str], goal: str, text: str) -> dict[str, str]:
    return _telling({**item, FACTOR_FEATURES: shared(goal, f"{item.get(FACTOR_FEATURES, '')} {text}")})


def _best(text: str, goal: str) -> str:
    """What the listed product that has most of the wanted words has of them."""
    return max((shared(goal, line) for line in strings(text).texts), key=len, default="")


def _telling(attributes: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in attributes.items() if value}


def _telling_offers(offers: Mapping[str, str]) -> str:
    return "; ".join(f"{name}: {value}" for name, value in offers.items())


def _told(offers: str) -> dict[str, str]:
    return dict(offer.split(": ", 1) for offer in offers.split("; ") if ": " in offer)


def _option(name: str) -> str:
    return f"{name} option".lstrip()
