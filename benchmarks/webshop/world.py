"""The WebShop environment: parsing instructions, search, pages, and the actions on them."""

import re
from collections.abc import Sequence
from functools import cached_property, lru_cache
from typing import Literal, NamedTuple

from pydantic import Field

from certigraph.adapters.protocols import Environment
from certigraph.adapters.retrieval.bm25 import STOPWORDS, PassagePool, words
from certigraph.benchmarks.webshop.products import Product, PurchaseReward, ShopCatalogue, ShopGoal, compute_reward
from certigraph.state.endings import Fault
from certigraph.state.records import Action, Observation, Record, Scores
from certigraph.state.search import Passage

# Instructions: wanted words, options, price bound, and proposed searches.

_BOUND = re.compile(r",? and price lower than \$?(\d+(?:\.\d+)?) dollars\.?", re.IGNORECASE)
_OPTION = re.compile(r"(?:, and | with )((?!with\b)[a-z]+(?: (?!with\b)[a-z]+){0,2}): ")
_ASKING = "find want need looking look show buy get order place searching interested like love help"

# Words that do not describe a product.
IGNORED_WORDS = STOPWORDS.union(_ASKING.split())


class ParsedInstruction(NamedTuple):
    """Parts of an instruction: words that describe the product, wanted options, and the price bound."""

    words: tuple[str, ...]
    """Words that describe the product, in order, without stopwords and words of a request such as "find"."""
    options: dict[str, str]
    upper: float | None
    """Price bound in dollars."""


def parse_instruction(instruction: str) -> ParsedInstruction:
    """Parse an instruction. In one written by a crowd worker, wanted options are among `words`."""
    bound = _BOUND.search(instruction)
    text = _BOUND.sub("", instruction)
    marks = list(_OPTION.finditer(text))
    ends = [*(mark.start() for mark in marks), len(text)][1:]
    options = {mark[1]: text[mark.end() : end].strip() for mark, end in zip(marks, ends, strict=True)}
    rest = words(text[: marks[0].start()] if marks else text)
    described = tuple(word for word in dict.fromkeys(rest) if word not in IGNORED_WORDS)
    return ParsedInstruction(described, options, float(bound[1]) if bound else None)


def propose_keywords(instruction: str) -> list[str]:
    """Propose search keywords for an instruction, the best first.

    They are all its words with the option values, all words without them, the last four words, and the first four.
    """
    parts = parse_instruction(instruction)
    all_words = [*parts.words, *(word for value in parts.options.values() for word in words(value))]
    tries = (all_words, parts.words, parts.words[-4:], parts.words[:4])
    return list(dict.fromkeys(" ".join(dict.fromkeys(keywords)) for keywords in tries if keywords)) or [instruction]


def shared_words(instruction: str, text: str) -> str:
    """Return the describing words of an instruction that a text contains, in the instruction's order.

    A singular matches its plural.
    """
    present = set(to_singular(text).split())
    return " ".join(word for word in parse_instruction(instruction).words if to_singular(word) in present)


def to_singular(text: str) -> str:
    """Convert plurals of a text to singulars: "Two boxes of berries" -> "two box of berry"."""
    return " ".join(map(_to_singular, words(text)))


def _to_singular(word: str) -> str:
    if len(word) < 4 or not word.endswith("s") or word.endswith(("ss", "us", "is")):
        return word
    if word.endswith("ies"):
        return f"{word[:-3]}y"
    return word[: -2 if word.endswith(("shes", "ches", "xes", "sses")) else -1]


# Products and search.

MAX_RESULTS, PER_PAGE = 50, 10
"""Maximum number of search results, and results per page."""


class Shop:
    """Products by asin (Amazon's product id), and a BM25 search over title, description, first feature and options.

    WebShop searches by Lucene (pyserini); this is rank-bm25 over words without stopwords, with only plurals stemmed, so
    the order of results differs somewhat.
    """

    def __init__(self, catalogue: ShopCatalogue) -> None:
        self.products = catalogue.products
        self._cached_search = lru_cache(maxsize=4096)(self._search)

    def product(self, asin: str) -> Product:
        """Return a product.

        Raises:
            Fault: ("data") the shop has no product with this asin.
        """
        if asin not in self.products:
            raise Fault("data", f"no product {asin!r} among {len(self.products)}; use tasks of WebShop().tasks()")
        return self.products[asin]

    def search(self, keywords: str) -> tuple[str, ...]:
        """Return the asins of at most fifty products that share a word with the keywords, the best first."""
        return self._cached_search(" ".join(keywords.lower().split()))

    def _search(self, keywords: str) -> tuple[str, ...]:
        return tuple(hit.passage.id for hit in self._pool.search(to_singular(keywords), MAX_RESULTS))

    @cached_property
    def _pool(self) -> PassagePool:
        return PassagePool([_passage_of(product) for product in self.products.values()], boost_titles=False)


def _passage_of(product: Product) -> Passage:
    options = [f"{name}: {', '.join(values)}" for name, values in product.options.items()]
    text = " ".join([product.description, *product.features[:1], *options])
    return Passage(id=product.asin, title=to_singular(product.title), text=to_singular(text))


# Pages as data: their lines, and which of them are buttons.

BACK, PREVIOUS, NEXT, BUY = "Back to Search", "< Prev", "Next >", "Buy Now"
DESCRIPTION, FEATURES, REVIEWS, ATTRIBUTES = "Description", "Features", "Reviews", "Attributes"
SEARCH = "Search"

BOUGHT = "You have successfully purchased the product."

Mark = Literal["text", "button", "chosen"]


class ShopPage(Record):
    """Page that the agent is on, and the chosen options."""

    kind: Literal["search", "results", "item", "details", "bought"] = "search"
    keywords: str = ""
    number: int = Field(default=1, ge=1)
    """Number of the page of results, from 1."""
    asin: str = ""
    options: dict[str, str] = Field(default_factory=dict)
    """Chosen value by option; options without a choice are missing."""
    details: str = ""
    """Name of the details page that is shown, such as "Features"; empty on other pages."""


class PageLine(NamedTuple):
    """Visible string of a page, and whether it is plain text, a button, or the button of a chosen value."""

    text: str
    mark: Mark = "text"


def lines_of(page: ShopPage, shop: Shop, instruction: str, *, attributes: bool) -> list[PageLine]:
    """Return the lines of a page; if `attributes` is True, items have a button to a page of their attributes.

    Raises:
        Fault: ("data") the page's product is not in the shop.
    """
    if page.kind == "bought":
        return [PageLine(BOUGHT)]
    head = [PageLine("Instruction:"), PageLine(instruction)]
    if page.kind == "search":
        return [PageLine("WebShop"), *head, PageLine(SEARCH, "button")]
    body = {"results": _results_lines, "item": _item_lines, "details": _details_lines}[page.kind](page, shop)
    buttons = [ATTRIBUTES, BUY] if attributes else [BUY]
    tail = [PageLine(text, "button") for text in buttons] if page.kind == "item" else []
    return [*head, PageLine(BACK, "button"), *body, *tail]


def _results_lines(page: ShopPage, shop: Shop) -> list[PageLine]:
    asins = shop.search(page.keywords)
    start = (page.number - 1) * PER_PAGE
    shown = [shop.product(asin) for asin in asins[start : start + PER_PAGE]]
    listed = [
        line
        for product in shown
        for line in (PageLine(product.asin, "button"), PageLine(product.title), PageLine(product.price_text))
    ]
    previous = [PageLine(PREVIOUS, "button")] if page.number > 1 else []
    following = [PageLine(NEXT, "button")] if start + PER_PAGE < len(asins) else []
    return [PageLine(f"Page {page.number} (Total results: {len(asins)})"), *previous, *following, *listed]


def _item_lines(page: ShopPage, shop: Shop) -> list[PageLine]:
    product = shop.product(page.asin)
    options: list[PageLine] = []
    for name, values in product.options.items():
        marks: list[Mark] = ["chosen" if page.options.get(name) == value else "button" for value in values]
        options += [PageLine(name), *map(PageLine, values, marks)]
    facts = [PageLine(product.title), PageLine(f"Price: {product.price_text}"), PageLine("Rating: N.A.")]
    buttons = [PageLine(name, "button") for name in (DESCRIPTION, FEATURES, REVIEWS)]
    return [PageLine(PREVIOUS, "button"), *options, *facts, *buttons]


def _details_lines(page: ShopPage, shop: Shop) -> list[PageLine]:
    product = shop.product(page.asin)
    texts = {DESCRIPTION: (product.description,), FEATURES: product.features, ATTRIBUTES: product.attributes}
    return [
        PageLine(PREVIOUS, "button"),
        *(PageLine(text.strip()) for text in texts.get(page.details, ()) if text.strip()),
    ]


# Actions: the pages that searches and clicks lead to.

_ACTION = re.compile(r"\s*(search|click)\s*\[(.*)\]\s*", re.IGNORECASE | re.DOTALL)


def parse_action(action: str) -> tuple[str, str] | None:
    """Parse an action into `search` or `click` and the text in brackets; None if the text is not such an action."""
    match = _ACTION.fullmatch(action)
    return (match[1].lower(), match[2].strip()) if match and match[2].strip() else None


def buttons_of(shown: Sequence[PageLine]) -> list[str]:
    """Return the distinct buttons of a page; the search button is excluded because it takes keywords."""
    return list(dict.fromkeys(line.text for line in shown if line.mark != "text" and line.text != SEARCH))


def follow_search(page: ShopPage, keywords: str) -> ShopPage | None:
    """Return the first page of results; None if the current page has no search box."""
    return ShopPage(kind="results", keywords=keywords) if page.kind == "search" else None


def follow_button(page: ShopPage, button: str, shop: Shop) -> ShopPage:
    """Return the page that a button of the current page leads to."""
    if button == BACK:
        return ShopPage()
    if button == PREVIOUS:
        return _previous_page(page)
    if button == NEXT:
        return page.model_copy(update={"number": page.number + 1})
    if button == BUY:
        return page.model_copy(update={"kind": "bought"})
    if page.kind == "results":
        return page.model_copy(update={"kind": "item", "asin": button})
    return _choose_value(page, button, shop) or page.model_copy(update={"kind": "details", "details": button})


def _previous_page(page: ShopPage) -> ShopPage:
    if page.kind == "results":
        return page.model_copy(update={"number": page.number - 1})
    if page.kind == "details":
        return page.model_copy(update={"kind": "item", "details": ""})
    return ShopPage(kind="results", keywords=page.keywords, number=page.number)


def _choose_value(page: ShopPage, value: str, shop: Shop) -> ShopPage | None:
    # Chooses a value in the first option that has it and is not set to it yet; None if no option has the value.
    names = [name for name, values in shop.product(page.asin).options.items() if value in values]
    if not names:
        return None
    name = next((name for name in names if page.options.get(name) != value), names[0])
    return page.model_copy(update={"options": {**page.options, name: value}})


# The environment.

ACTION_FORMS = "say search[KEYWORDS] on the search page, click[BUTTON] for a button of the page"


class WebShopWorld(Environment):
    """Environment of one goal. Buying a product ends the episode and gives its reward; all other rewards are 0.

    Args:
        shop: Shop with products and search.
        goal: Goal of the episode.
        marked: Whether pages mark buttons and chosen values, one string per line; otherwise the strings are joined by
            " [SEP] " (WebShop's two text modes).
        attributes: Whether items have a page of their attributes.
    """

    concurrent = False

    def __init__(self, shop: Shop, goal: ShopGoal, *, marked: bool = True, attributes: bool = False) -> None:
        self.shop, self.goal = shop, goal
        self._marked, self._attributes = marked, attributes
        self.page = ShopPage()

    def reset(self) -> Observation:
        """Start the episode on the search page."""
        self.page = ShopPage()
        return Observation(text=self.view())

    def step(self, action: Action) -> Observation:
        """Search or click a button. An action that the page does not offer is rejected and changes nothing."""
        page = self._next_page(action.text)
        if page is None:
            refusal = f"{action.text[:100]!r} is not an action here; {ACTION_FORMS}."
            return Observation(text=f"{refusal}\n{self.view()}", accepted=False, done=self.page.kind == "bought")
        chosen = page.kind == "item" and page.options != self.page.options and page.asin == self.page.asin
        confirmation = f"You have clicked {_clicked_value(page, self.page)}.\n" if chosen and self._marked else ""
        self.page = page
        if page.kind != "bought":
            return Observation(text=confirmation + self.view())
        reward = self._reward_parts().reward
        return Observation(text=self.view(), reward=reward, done=True, solved=reward >= 1.0)

    def view(self) -> str:
        """Format the current page."""
        return format_page(self._lines(), marked=self._marked)

    def admissible(self) -> list[str]:
        """List a click for every button of the page; on the search page also searches for the instruction's words."""
        searches = propose_keywords(self.goal.instruction) if self.page.kind == "search" else []
        return [f"search[{words}]" for words in searches] + [f"click[{text}]" for text in buttons_of(self._lines())]

    def score(self) -> Scores:
        """Return WebShop's reward in [0, 1], or 0 before the purchase; `parts["success"]` is 1.0 if the reward is 1."""
        if self.page.kind != "bought":
            return Scores(value=0.0, parts={"success": 0.0})
        parts = self._reward_parts()._asdict()
        reward = parts.pop("reward")
        return Scores(value=reward, parts={"success": float(reward >= 1.0), **parts}, answer=self.page.asin)

    def close(self) -> None:
        """Do nothing: no resource is held."""

    def _next_page(self, text: str) -> ShopPage | None:
        kind, argument = parse_action(text) or ("", "")
        if kind == "search":
            return follow_search(self.page, argument)
        buttons = {button.casefold(): button for button in buttons_of(self._lines())}
        button = buttons.get(argument.casefold()) if kind == "click" else None
        return follow_button(self.page, button, self.shop) if button else None

    def _reward_parts(self) -> PurchaseReward:
        goal_product, bought = self.shop.product(self.goal.asin), self.shop.product(self.page.asin)
        return compute_reward(self.goal, goal_product, bought, list(self.page.options.values()))

    def _lines(self) -> list[PageLine]:
        return lines_of(self.page, self.shop, self.goal.instruction, attributes=self._attributes)


def format_page(shown: list[PageLine], *, marked: bool) -> str:
    """Format a page: one string per line with buttons marked, or strings joined by " [SEP] " if `marked` is False."""
    if not marked:
        return " [SEP] ".join(line.text for line in shown)
    return "\n".join(_MARKS[line.mark].format(line.text) for line in shown)


def _clicked_value(page: ShopPage, before: ShopPage) -> str:
    return next(value for name, value in page.options.items() if before.options.get(name) != value)


_MARKS = {"text": "{}", "button": "[button] {} [button_]", "chosen": "[clicked button] {} [clicked button_]"}
