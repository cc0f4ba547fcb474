"""Rules that decide conditions by the page that WebShop shows: its kind, its products, and the chosen options.

A page of a product shows the product's title and not its number, which only the results list. What another page would
show stays undecided.
"""

import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Literal, NamedTuple

from certigraph.adapters.joined_conditions import decide_all, split_joined
from certigraph.adapters.protocols import Decision
from certigraph.benchmarks.webshop.world import BACK, BOUGHT, BUY, PREVIOUS, SEARCH

WORDINGS = """\
The search page is shown. Search results are shown. Page 2 of the results is shown. Product NUMBER is listed. A product
page is shown. The page of product NUMBER is shown. {option}A product has been bought. Such sentences can be joined by
"and"."""
"""Wordings of conditions that are decided either way, for prompts. `option` is about options, where pages mark them."""

OPTION_WORDING = "The option VALUE is chosen. "

# Wordings. A condition that says more than one of them, or something else, stays undecided.

ConditionKind = Literal["search", "results", "number", "listed", "item", "product", "chosen", "bought", "purchased"]

_SHOWN = r"(?:shown|open|opened|displayed)"
_NUMBER = r"(?=[a-z0-9]*\d)[a-z0-9]"
_PRODUCT = rf"(?:the )?(?:product (?P<product>{_NUMBER}+|[\"“][^\"“”]+[\"”])|(?P<number_alone>{_NUMBER}{{10}}))"
_WORDINGS: tuple[tuple[ConditionKind, str], ...] = (
    ("search", rf"the search page is {_SHOWN}"),
    ("results", r"(?:the )?search results are (?:shown|listed|displayed)"),
    ("results", rf"a page of (?:search )?results is {_SHOWN}"),
    ("number", rf"page (?P<number>\d+) of the (?:search )?results is {_SHOWN}"),
    ("listed", rf"{_PRODUCT} is (?:listed|shown)(?: (?:in|among) the (?:search )?results)?"),
    ("item", rf"(?:a product page|the page of a product) is {_SHOWN}"),
    ("product", rf"the (?:product )?page (?:of|for) {_PRODUCT} is {_SHOWN}"),
    ("chosen", r"(?P<value>.+?) (?:is|are) (?:chosen|selected)"),
    ("bought", r"a product (?:has been|is) (?:bought|purchased)"),
    ("purchased", rf"{_PRODUCT} (?:has been|is) (?:bought|purchased)"),
)
_PATTERNS = tuple((kind, re.compile(wording, re.IGNORECASE)) for kind, wording in _WORDINGS)
_AND = re.compile(r",? and |, ", re.IGNORECASE)
_LOGIC = re.compile(r"\b(?:or|not|no|nor|neither|either|if|unless|until|is|are|has|have|will)\b", re.IGNORECASE)
"""Words after which a text is more than the value of an option."""

MAX_CONDITION_CHARS = 1_000
"""Maximum number of characters of a condition to parse; the patterns take quadratic time in a text's length."""


class ShopCondition(NamedTuple):
    """One condition in one of the known wordings."""

    kind: ConditionKind
    text: str = ""
    """Number or title of a product, number of a page, or value of an option."""


@lru_cache(maxsize=1024)
def parse_conditions(text: str) -> tuple[ShopCondition, ...]:
    """Parse a condition into those that it joins by "and"; empty if its wording is unknown."""
    plain = " ".join(text.split()).removesuffix(".")
    return split_joined(plain, _AND, _parse_sentence) if len(plain) <= MAX_CONDITION_CHARS else ()


def _parse_sentence(text: str) -> list[ShopCondition]:
    for kind, pattern in _PATTERNS:
        match = pattern.fullmatch(text)
        if match and not (kind == "chosen" and _LOGIC.search(match["value"])):
            return [ShopCondition(kind, "".join(match.groupdict(default="").values()).strip('"“”'))]
    return []


# What a page shows, in both text modes.


class ShownOption(NamedTuple):
    """Value of an option as a page shows it."""

    name: str
    value: str
    chosen: bool
    line: str


class ShownPage(NamedTuple):
    """What a page shows."""

    kind: Literal["search", "results", "item", "details", "bought"]
    line: str
    """Line of the page that tells its kind; on the page of a product its title."""
    number: int = 0
    """Number of the page of results."""
    products: Mapping[str, str] = {}
    """Number of each listed product, in lower case -> its line."""
    options: tuple[ShownOption, ...] | None = ()
    """Values of the product's options; None if the page does not mark which are chosen."""


_BUTTON = re.compile(r"\[(clicked )?button\] (.*) \[(?:clicked )?button_\]")
_RESULTS = re.compile(r"Page (\d+) \(Total results: \d+\)")
_SEPARATOR = " [SEP] "
_RATING = "Rating: N.A."


@lru_cache(maxsize=16)
def read_page(view: str) -> ShownPage | None:
    """Parse a page; None if it is none of the shop's."""
    marked = _SEPARATOR not in view.partition("\n")[0]
    lines = view.split("\n") if marked else view.split(_SEPARATOR)
    strings = [_strip_button(line) for line in lines]
    if view == BOUGHT:
        return ShownPage("bought", view)
    if strings[:2] == ["WebShop", "Instruction:"] and strings[-1] == SEARCH:
        return ShownPage("search", lines[-1])
    if len(lines) > 3 and strings[0] == "Instruction:" and strings[2] == BACK:
        return _read_body(lines[3:], strings[3:], marked=marked)
    return None


def _read_body(lines: list[str], strings: list[str], *, marked: bool) -> ShownPage | None:
    # The lines after the instruction and the button to the search page.
    if results := _RESULTS.fullmatch(lines[0]):
        return ShownPage("results", lines[0], int(results[1]), _list_products(lines[1:], strings[1:]))
    if strings[0] != PREVIOUS:
        return None
    if strings[-1] != BUY or _RATING not in lines:
        return ShownPage("details", lines[0])
    title = lines.index(_RATING) - 2
    return ShownPage("item", lines[title], options=_list_options(lines[1:title]) if marked else None)


def _strip_button(line: str) -> str:
    match = _BUTTON.fullmatch(line)
    return match[2] if match else line


def _list_products(lines: list[str], strings: list[str]) -> dict[str, str]:
    # A number, a title and a price for each product, after the buttons to other pages.
    buttons = sum(string in (PREVIOUS, "Next >") for string in strings[:2])
    return {strings[at].lower(): lines[at] for at in range(buttons, len(lines), 3)}


def _list_options(lines: list[str]) -> tuple[ShownOption, ...]:
    options, name = [], ""
    for line in lines:
        match = _BUTTON.fullmatch(line)
        if match is None:
            name = line
        else:
            options.append(ShownOption(name, match[2], match[1] is not None, line))
    return tuple(options)


# Rules.

TitleFinder = Callable[[str], str | None]
"""Function from a product's number to its title; None for a number that the shop does not have."""


def decide_condition(text: str, view: str, find_title: TitleFinder) -> Decision | None:
    """Decide a condition by the page that is shown; None if it does not settle it.

    A condition that joins several holds if each of them holds, and does not hold if one of them does not.

    Args:
        text: the condition.
        view: the page.
        find_title: function that finds the title of a product, by which its page is recognised.
    """
    page = read_page(view)
    conditions = parse_conditions(text) if page else ()
    decisions = [_decide_one(condition, page, find_title) for condition in conditions if page]
    return decide_all(decisions)


def _decide_one(condition: ShopCondition, page: ShownPage, find_title: TitleFinder) -> Decision | None:
    match condition.kind:
        case "bought" | "purchased":
            return _decide_bought(condition, page)
        case _ if page.kind == "bought":
            return None
        case "listed":
            return _decide_listed(condition.text, page)
        case "chosen":
            return _decide_chosen(condition.text, page)
        case "product":
            return _decide_product(condition.text, page, find_title)
        case _:
            return _decide_kind(condition, page)


def _decide_bought(condition: ShopCondition, page: ShownPage) -> Decision | None:
    if page.kind != "bought":
        return Decision(False, page.line)
    return Decision(True, page.line) if condition.kind == "bought" else None


def _decide_kind(condition: ShopCondition, page: ShownPage) -> Decision | None:
    if condition.kind == "number":
        return Decision(page.kind == "results" and page.number == int(condition.text), page.line)
    if condition.kind == "item" and page.kind == "details":
        return None
    return Decision(page.kind == condition.kind, page.line)


def _decide_listed(product: str, page: ShownPage) -> Decision | None:
    if page.kind != "results" or not product.isalnum():
        return None
    line = page.products.get(product.lower())
    return Decision(line is not None, line or page.line)


def _decide_product(product: str, page: ShownPage, find_title: TitleFinder) -> Decision | None:
    if page.kind != "item":
        return None if page.kind == "details" else Decision(False, page.line)
    title = find_title(product.upper()) if product.isalnum() else product
    return Decision(_normalise(title) == _normalise(page.line), page.line) if title else None


def _decide_chosen(text: str, page: ShownPage) -> Decision | None:
    # The whole text may be one value ("black and brass"), or values of several options.
    if page.kind != "item" or page.options is None:
        return None
    values = [text] if _find_options(text, page.options) else _AND.split(text)
    decisions = []
    for found in (_find_options(value, page.options) for value in values):
        if not found:
            return None
        chosen = [option for option in found if option.chosen]
        decisions.append(Decision(bool(chosen), (chosen or found)[0].line))
    return decide_all(decisions)


def _find_options(text: str, options: tuple[ShownOption, ...]) -> list[ShownOption]:
    # "grey", "the option grey", "color grey" and "the color: grey" are names of one value.
    words = re.sub(r"^the (?:option |value )?|^(?:option|value) |[\"“”]", "", text, flags=re.IGNORECASE)
    names = ((option, (option.value, f"{option.name} {option.value}")) for option in options)
    return [option for option, names_of_it in names if _normalise(words) in map(_normalise, names_of_it)]


def _normalise(text: str) -> str:
    return " ".join(text.casefold().replace(": ", " ").split())
