"""Rules that extract factored states (objects with attributes) from WebShop's pages.

`WebShopFactors` is written by hand for WebShop's pages; in the StateFactory paper a language model extracts the states.
"""

import re
from collections.abc import Mapping
from typing import NamedTuple

from certigraph.benchmarks.webshop.world import (
    ATTRIBUTES,
    BACK,
    BOUGHT,
    BUY,
    DESCRIPTION,
    FEATURES,
    NEXT,
    PREVIOUS,
    REVIEWS,
    parse_action,
    parse_instruction,
    shared_words,
)
from certigraph.state.rewards import FactoredState, to_factored, to_mapping

# Parsing pages in both text modes of WebShop, which RewardPrediction's trajectories use too.

_MARKED = re.compile(r"\[(clicked )?button\]\s*(.{0,300}?)\s*\[(?:clicked )?button_\]", re.DOTALL)
_RESULTS_HEAD = re.compile(r"Page \d+ \(Total results: \d+\)")
_PRICE = re.compile(r"Price: \$(\d[\d,]*(?:\.\d+)?)")
_BOUGHT = (BOUGHT.lower(), "thank you for shopping")

FIXED_BUTTONS = frozenset((ATTRIBUTES, BACK, BUY, DESCRIPTION, FEATURES, NEXT, PREVIOUS, REVIEWS, "Search", "search"))
"""Buttons that are not values of options; on some pages "Search" is lower-case."""


OPTION_NAMES = frozenset(
    ("color", "fit type", "flavor", "flavor name", "item shape", "material", "number of items", "pattern name", "scent")
) | {"size", "style"}
"""Common names of options, for texts that do not mark buttons."""


class PageStrings(NamedTuple):
    """Visible strings of a page in order, which of them are buttons, and which buttons are marked as chosen."""

    texts: tuple[str, ...]
    buttons: frozenset[str]
    chosen: frozenset[str]


class ItemPage(NamedTuple):
    """Parsed page of a product."""

    title: str
    price: float | None
    """Lowest price in dollars."""
    options: dict[str, list[str]]
    """Values by option name. The name is empty if the text does not mark buttons and no common name precedes them."""
    chosen: frozenset[str]
    marked: bool
    """Whether the text shows which values are chosen."""


def page_kind(text: str) -> str:
    """Return the kind of a page: "bought", "results", "item", "search" or "details"; empty if the text is not one."""
    if any(words in text.lower() for words in _BOUGHT):
        return "bought"
    if _RESULTS_HEAD.search(text):
        return "results"
    if BUY in text:
        return "item"
    return "details" if PREVIOUS in text or BACK in text else "search" if "Search" in text else ""


def parse_item(text: str) -> ItemPage:
    """Parse a product's page."""
    page = split_page(text)
    options, title = _parse_options(page)
    match = _PRICE.search(text)
    price = float(match[1].replace(",", "")) if match else None
    return ItemPage(title, price, options, page.chosen, bool(page.buttons))


def split_page(text: str) -> PageStrings:
    """Split a page at its separators (line ends or [SEP]) and button marks."""
    marks = {mark[2]: bool(mark[1]) for mark in _MARKED.finditer(text)}
    plain = _MARKED.sub(lambda mark: f"\n{mark[2]}\n", text)
    texts = tuple(part.strip() for part in re.split(r"\[SEP\]|\n", plain) if part.strip())
    return PageStrings(texts, frozenset(marks), frozenset(name for name, chosen in marks.items() if chosen))


def _parse_options(shown: PageStrings) -> tuple[dict[str, list[str]], str]:
    # The options are between the page's head and its price; the last string before the price is the title.
    start = next((n for n, text in enumerate(shown.texts) if text == PREVIOUS), -1) + 1
    end = next((n for n, text in enumerate(shown.texts) if text.startswith("Price:")), len(shown.texts))
    between = shown.texts[start:end]
    options: dict[str, list[str]] = {}
    name = ""
    for text in between[:-1]:
        if text in OPTION_NAMES or (shown.buttons and text not in shown.buttons):
            name = text
        elif text not in FIXED_BUTTONS:
            options.setdefault(name, []).append(text)
    return options, between[-1] if between else ""


# The extractor: the best result, the item in view, the choices, and the purchase.
#
# The state keeps only what the goal mentions: which of the wanted words are present, which of the wanted values an item
# offers, and which of those are chosen. Everything comes from pages that were seen; asins are not used.

LIST, ITEM, PURCHASE = "search results", "item in view", "receipt"
"""Names of objects in a state. Their embeddings differ much, so that an item in view is not taken for a bought one."""

FACTOR_FEATURES, OFFERS, CHOICE = "features", "offers", "choice"

PAID = {"status": "bought"}

Entities = dict[str, dict[str, str]]


class WebShopFactors:
    """Extractor of factored states from pages.

    Chosen option values are read from the marks of buttons or, if pages have no marks, from the actions. The milestones
    are those of every purchase: results with the wanted words, an item with them, each choice, and the receipt.
    """

    def extract(self, state: FactoredState, goal: str, action: str, observation: str) -> FactoredState:
        """Return the state after a step. Facts about an item are kept on all its pages and after the purchase."""
        known, kind, text = to_mapping(state), page_kind(observation), observation.replace(goal, "")
        if kind == "search":
            return to_factored({})
        if kind == "results":
            return to_factored({LIST: _drop_empty({FACTOR_FEATURES: _best_result(text, goal)})})
        if kind == "item":
            return to_factored(_view_item(known, goal, action, parse_item(text)))
        if kind == "details" and ITEM in known:
            return to_factored({**known, ITEM: _add_features(known[ITEM], goal, text)})
        if kind == "bought" and ITEM in known:
            return to_factored({**known, PURCHASE: {**known[ITEM], **PAID}})
        return state

    def interpret(self, goal: str, state: FactoredState, before: FactoredState) -> FactoredState:
        """Return the goal state: a matching item is in view, the requested options are chosen, and it is bought.

        If the goal requests options in free text, they are known once an item offers values that the goal mentions.
        Until then `before` is returned unless it is empty.
        """
        request = parse_instruction(goal)
        item_entity = state.get(ITEM)
        offers = request.options or _parse_offers(item_entity.attributes.get(OFFERS, "") if item_entity else "")
        if before.entities and not (item_entity and offers):
            return before
        required = _drop_empty({FACTOR_FEATURES: " ".join(request.words), OFFERS: _format_offers(offers)})
        choices = {_option_identity(name): {CHOICE: value} for name, value in offers.items()}
        return to_factored({ITEM: required, **choices, PURCHASE: {**required, **PAID}})


def _view_item(known: Entities, goal: str, action: str, page: ItemPage) -> Entities:
    # State of an item's page: the wanted features it has, and the wanted values that are chosen.
    offers = _offered_values(goal, page)
    previous = known.get(ITEM, {})
    words = " ".join([previous.get(FACTOR_FEATURES, ""), page.title])
    item = _drop_empty({FACTOR_FEATURES: shared_words(goal, words), OFFERS: _format_offers(offers)})
    choices = {
        _option_identity(name): _drop_empty(
            {CHOICE: _find_choice(known.get(_option_identity(name), {}), value, action, page, name)}
        )
        for name, value in offers.items()
    }
    return {ITEM: item, **choices}


def _find_choice(before: Mapping[str, str], value: str, action: str, page: ItemPage, name: str) -> str:
    # The wanted value if it is chosen, else empty.
    if page.marked:
        return value if value in page.chosen else ""
    _, clicked = parse_action(action) or ("", "")
    if clicked.lower() in (option_value.lower() for option_value in page.options[name]):
        return value if clicked.lower() == value.lower() else ""
    return before.get(CHOICE, "")


def _offered_values(goal: str, page: ItemPage) -> dict[str, str]:
    # The wanted values that an item has, by option name; for free text, the longest one that it contains.
    request = parse_instruction(goal)
    if request.options:
        return {name: value for name, value in request.options.items() if value in page.options.get(name, ())}
    named = {
        name: [value for value in values if shared_words(value, goal) == " ".join(parse_instruction(value).words)]
        for name, values in page.options.items()
    }
    return {name: max(values, key=len) for name, values in named.items() if values}


def _add_features(item: Mapping[str, str], goal: str, text: str) -> dict[str, str]:
    return _drop_empty({**item, FACTOR_FEATURES: shared_words(goal, f"{item.get(FACTOR_FEATURES, '')} {text}")})


def _best_result(text: str, goal: str) -> str:
    # The wanted words of the result that has most of them.
    return max((shared_words(goal, line) for line in split_page(text).texts), key=len, default="")


def _drop_empty(attributes: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in attributes.items() if value}


def _format_offers(offers: Mapping[str, str]) -> str:
    return "; ".join(f"{name}: {value}" for name, value in offers.items())


def _parse_offers(offers: str) -> dict[str, str]:
    return dict(offer.split(": ", 1) for offer in offers.split("; ") if ": " in offer)


def _option_identity(name: str) -> str:
    return f"{name} option".lstrip()
