"""The live shop: search, pages and clicks."""

import re
from collections.abc import Sequence
from functools import cached_property, lru_cache
from typing import Literal, NamedTuple

from pydantic import Field

from certigraph.adapters.retrieval.bm25 import STOPWORDS, Pool, words
from certigraph.adapters.webshop.products import Catalogue, Goal, Judged, Product, judged
from certigraph.state.records import Action, Fault, Observation, Record, Scores
from certigraph.state.search import Passage

# What an instruction says: wanted words, options, a bound of the price; and the searches that it suggests.

_BOUND = re.compile(r",? and price lower than \$?(\d+(?:\.\d+)?) dollars\.?", re.IGNORECASE)
_OPTION = re.compile(r"(?:, and | with )((?!with\b)[a-z]+(?: (?!with\b)[a-z]+){0,2}): ")
_ASKING = "find want need looking look show buy get order place searching interested like love help"

IDLE = STOPWORDS.union(_ASKING.split())


class Wanted(NamedTuple):
    """An instruction taken apart."""

    words: tuple[str, ...]
    """What the thing is and what it is like: words in order, without those that only ask for it."""
    options: dict[str, str]
    upper: float | None
    """Dollars."""


def wanted(instruction: str) -> Wanted:
    """The parts of an instruction; written ones have options among their words."""
    bound = _BOUND.search(instruction)
    text = _BOUND.sub("", instruction)
    marks = list(_OPTION.finditer(text))
    ends = [*(mark.start() for mark in marks), len(text)][1:]
    options = {mark[1]: text[mark.end() : end].strip() for mark, end in zip(marks, ends, strict=True)}
    rest = words(text[: marks[0].start()] if marks else text)
    kept = tuple(word for word in dict.fromkeys(rest) if word not in IDLE)
    return Wanted(kept, options, float(bound[1]) if bound else None)


def proposals(instruction: str) -> list[str]:
    """Keywords to search by, the best first: with the options, without them, and what comes last of the words."""
    asked = wanted(instruction)
    every = [*asked.words, *(word for value in asked.options.values() for word in words(value))]
    tries = (every, asked.words, asked.words[-4:], asked.words[:4])
    return list(dict.fromkeys(" ".join(dict.fromkeys(one)) for one in tries if one)) or [instruction]


def shared(instruction: str, text: str) -> str:
    """The wanted words of an instruction that a text has too, in the instruction's order; plurals count alike."""
    present = set(singular(text).split())
    return " ".join(word for word in wanted(instruction).words if singular(word) in present)


def singular(text: str) -> str:
    """The words of a text, plurals as singulars: "Two boxes of berries" is "two box of berry"."""
    return " ".join(map(_singular, words(text)))


def _singular(word: str) -> str:
    if len(word) < 4 or not word.endswith("s") or word.endswith(("ss", "us", "is")):
        return word
    if word.endswith("ies"):
        return f"{word[:-3]}y"
    return word[: -2 if word.endswith(("shes", "ches", "xes", "sses")) else -1]


# The shop: its products, and the search over them.

MOST_RESULTS, PER_PAGE = 50, 10


class Shop:
    """Products by asin, found by BM25 over title, description, first feature and options.

    WebShop searches by Lucene (pyserini); this is rank-bm25 over words without stopwords, of which no more than the
    plural is stemmed, so that results come in a somewhat different order.
    """

    def __init__(self, catalogue: Catalogue) -> None:
        self.products = catalogue.products
        self._found = lru_cache(maxsize=4096)(self._searched)

    def product(self, asin: str) -> Product:
        """The product. Raises Fault("data") where the shop has none of that number."""
        if asin not in self.products:
            raise Fault("data", f"no product {asin!r} among {len(self.products)}; take tasks from WebShop().tasks()")
        return self.products[asin]

    def search(self, keywords: str) -> tuple[str, ...]:
        """The asins of at most fifty products that share a word with the keywords, the best first."""
        return self._found(" ".join(keywords.lower().split()))

    def _searched(self, keywords: str) -> tuple[str, ...]:
        return tuple(hit.passage.id for hit in self._pool.search(singular(keywords), MOST_RESULTS))

    @cached_property
    def _pool(self) -> Pool:
        return Pool([_passage(product) for product in self.products.values()], boost_titles=False)


def _passage(product: Product) -> Passage:
    options = [f"{name}: {', '.join(values)}" for name, values in product.options.items()]
    text = " ".join([product.description, *product.features[:1], *options])
    return Passage(id=product.asin, title=singular(product.title), text=singular(text))


# The pages of the shop as data: what they show line by line, and which of the lines can be clicked.

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


# What clicking and searching lead to, page by page.

_ACTION = re.compile(r"\s*(search|click)\s*\[(.*)\]\s*", re.IGNORECASE | re.DOTALL)


def parsed(action: str) -> tuple[str, str] | None:
    """`search` or `click`, and what is in the brackets; None where the text is no such action."""
    found = _ACTION.fullmatch(action)
    return (found[1].lower(), found[2].strip()) if found and found[2].strip() else None


def clickable(shown: Sequence[Line]) -> list[str]:
    """The buttons of a page, each once; the search button alone takes keywords, and is none."""
    return list(dict.fromkeys(line.text for line in shown if line.mark != "text" and line.text != SEARCH))


def searched(page: Page, keywords: str) -> Page | None:
    """The first page of results; None where the page has no search box."""
    return Page(kind="results", keywords=keywords) if page.kind == "search" else None


def clicked(page: Page, button: str, shop: Shop) -> Page:
    """Where one of the page's own buttons leads, as the page has it."""
    if button == BACK:
        return Page()
    if button == PREVIOUS:
        return _previous(page)
    if button == NEXT:
        return page.model_copy(update={"number": page.number + 1})
    if button == BUY:
        return page.model_copy(update={"kind": "bought"})
    if page.kind == "results":
        return page.model_copy(update={"kind": "item", "asin": button})
    return _chosen(page, button, shop) or page.model_copy(update={"kind": "details", "details": button})


def _previous(page: Page) -> Page:
    if page.kind == "results":
        return page.model_copy(update={"number": page.number - 1})
    if page.kind == "details":
        return page.model_copy(update={"kind": "item", "details": ""})
    return Page(kind="results", keywords=page.keywords, number=page.number)


def _chosen(page: Page, value: str, shop: Shop) -> Page | None:
    """The page with an option of that value chosen, the first that has the value and not this choice yet."""
    names = [name for name, values in shop.product(page.asin).options.items() if value in values]
    if not names:
        return None
    name = next((name for name in names if page.options.get(name) != value), names[0])
    return page.model_copy(update={"options": {**page.options, name: value}})


# A live visit to the shop: searching, clicking, buying.

FORMS = "say search[KEYWORDS] on the search page, click[BUTTON] for a button of the page"


class WebShopWorld:
    """One episode. Buying ends it and gives the reward; every other reward is 0.

    Args:
        shop: what is sold.
        goal: what is wanted.
        marked: whether pages mark their buttons and say what is chosen, a string a line; else the strings are joined
            by " [SEP] " (WebShop's two text modes).
        attributes: whether items have a page of their attributes.
    """

    concurrent = False

    def __init__(self, shop: Shop, goal: Goal, *, marked: bool = True, attributes: bool = False) -> None:
        self.shop, self.goal = shop, goal
        self._marked, self._attributes = marked, attributes
        self.page = Page()

    def reset(self) -> Observation:
        """The search page."""
        self.page = Page()
        return Observation(text=self.view())

    def step(self, action: Action) -> Observation:
        """Search or click. What is no action of the page is refused with the reason, and changes nothing."""
        there = self._reached(action.text)
        if there is None:
            refusal = f"{action.text[:100]!r} is no action here; {FORMS}."
            return Observation(text=f"{refusal}\n{self.view()}", accepted=False, done=self.page.kind == "bought")
        chosen = there.kind == "item" and there.options != self.page.options and there.asin == self.page.asin
        told = f"You have clicked {_last(there, self.page)}.\n" if chosen and self._marked else ""
        self.page = there
        if there.kind != "bought":
            return Observation(text=told + self.view())
        reward = self._judged().reward
        return Observation(text=self.view(), reward=reward, done=True, solved=reward >= 1.0)

    def view(self) -> str:
        """The page."""
        return rendered(self._lines(), marked=self._marked)

    def admissible(self) -> list[str]:
        """Every button of the page; where there is a search box, searches for the instruction's words."""
        searches = proposals(self.goal.instruction) if self.page.kind == "search" else []
        return [f"search[{words}]" for words in searches] + [f"click[{text}]" for text in clickable(self._lines())]

    def score(self) -> Scores:
        """WebShop's reward in [0, 1], 0 before the purchase; part `success` is whether it is 1."""
        if self.page.kind != "bought":
            return Scores(value=0.0, parts={"success": 0.0})
        parts = self._judged()._asdict()
        reward = parts.pop("reward")
        return Scores(value=reward, parts={"success": float(reward >= 1.0), **parts}, answer=self.page.asin)

    def close(self) -> None:
        """Nothing to release."""

    def _reached(self, text: str) -> Page | None:
        kind, given = parsed(text) or ("", "")
        if kind == "search":
            return searched(self.page, given)
        buttons = {button.casefold(): button for button in clickable(self._lines())}
        button = buttons.get(given.casefold()) if kind == "click" else None
        return clicked(self.page, button, self.shop) if button else None

    def _judged(self) -> Judged:
        wanted, bought = self.shop.product(self.goal.asin), self.shop.product(self.page.asin)
        return judged(self.goal, wanted, bought, list(self.page.options.values()))

    def _lines(self) -> list[Line]:
        return lines(self.page, self.shop, self.goal.instruction, attributes=self._attributes)


def rendered(shown: list[Line], *, marked: bool) -> str:
    """The text of a page in one of the two modes."""
    if not marked:
        return " [SEP] ".join(line.text for line in shown)
    return "\n".join(_MARKS[line.mark].format(line.text) for line in shown)


def _last(there: Page, before: Page) -> str:
    return next(value for name, value in there.options.items() if before.options.get(name) != value)


_MARKS = {"text": "{}", "button": "[button] {} [button_]", "chosen": "[clicked button] {} [clicked button_]"}
