"""WebShop's pages as factored states: the best of a list, the item that is looked at, the choices, the purchase.

Of all of them the state keeps what the goal asks about: which of the wanted words they have, which of the wanted values
an item offers and which of those are chosen. All is read off the pages that were seen; a product's number says nothing.
"""

from collections.abc import Mapping

from certigraph.adapters.webshop.browsing import parsed
from certigraph.adapters.webshop.reading import Item, item, kind_of, strings
from certigraph.adapters.webshop.wording import shared, wanted
from certigraph.state.factored import FactoredState, as_mapping, factored

LIST, ITEM, PURCHASE = "search results", "item in view", "receipt"
"""Identities that embed far from one another: an item that is looked at is none that is bought."""

FEATURES, OFFERS, CHOICE = "features", "offers", "choice"

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
            return factored({LIST: _telling({FEATURES: _best(text, goal)})})
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
        wished = _telling({FEATURES: " ".join(asked.words), OFFERS: _telling_offers(offers)})
        choices = {_option(name): {CHOICE: value} for name, value in offers.items()}
        return factored({ITEM: wished, **choices, PURCHASE: {**wished, **PAID}})


def _viewed(known: Entities, goal: str, action: str, seen: Item) -> Entities:
    """An item's page: what it has of what is wanted, and which wanted values are chosen."""
    offers = _offered(goal, seen)
    here = known.get(ITEM, {})
    words = " ".join([here.get(FEATURES, ""), seen.title])
    item = _telling({FEATURES: shared(goal, words), OFFERS: _telling_offers(offers)})
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
    return _telling({**item, FEATURES: shared(goal, f"{item.get(FEATURES, '')} {text}")})


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
