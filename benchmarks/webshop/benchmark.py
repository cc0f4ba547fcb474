"""The WebShop benchmark: splits of goals, and action plans that buy the product of a goal."""

from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from random import Random

from pydantic import ValidationError

from certigraph.adapters.benchmarks import check_configuration, mean_score, standard_error
from certigraph.adapters.extras import check_packages
from certigraph.adapters.files import unknown_task_error
from certigraph.adapters.models.experts import demonstration_expert
from certigraph.adapters.protocols import Benchmark, Decision, Factors, Limits, Responder
from certigraph.benchmarks.webshop.conditions import OPTION_WORDING, WORDINGS, decide_condition
from certigraph.benchmarks.webshop.factors import WebShopFactors
from certigraph.benchmarks.webshop.products import (
    PRODUCTS,
    SHUFFLE_SEED,
    ShopCatalogue,
    ShopGoal,
    build_goals,
    build_written_goals,
    read_catalogue,
    sample_catalogue,
)
from certigraph.benchmarks.webshop.world import (
    BACK,
    BUY,
    NEXT,
    PER_PAGE,
    PREVIOUS,
    Shop,
    ShopPage,
    WebShopWorld,
    propose_keywords,
)
from certigraph.state.endings import Fault, UnknownName
from certigraph.state.records import Action, Observation, Task
from certigraph.state.trajectory import Footer

# Splits.

DEFAULT_SPLIT, WRITTEN = "instructions", "written"

SPLIT_RANGES = {"test": (0, 500), "dev": (500, 1500), "train": (1500, None)}
"""Ranges of the splits in the shuffled list of templated goals. As far as known, WebShop uses the same ranges, but its
order of goals is different."""


def select_split(goals: Mapping[str, ShopGoal], written: Mapping[str, ShopGoal], split: str) -> dict[str, ShopGoal]:
    """Return the goals of a split by id, chosen from the templated `goals` and the `written` ones.

    Raises:
        UnknownName: the split is unknown or empty; the message lists the others.
    """
    splits = {DEFAULT_SPLIT: _first_goals(goals), WRITTEN: dict(written)}
    splits |= {name: dict(list(goals.items())[start:end]) for name, (start, end) in SPLIT_RANGES.items()}
    if not splits.get(split):
        known = ", ".join(name for name, members in splits.items() if members)
        raise UnknownName(f"no split {split!r}; known are {known}")
    return splits[split]


def _first_goals(goals: Mapping[str, ShopGoal]) -> dict[str, ShopGoal]:
    # The first goal of each product, shuffled again: otherwise products with many goals would come first.
    first = {goal.asin: id_ for id_, goal in reversed(list(goals.items()))}
    ids = sorted(first.values())
    Random(SHUFFLE_SEED).shuffle(ids)
    return {id_: goals[id_] for id_ in ids}


# Plans: from any page, the searches and clicks to the product, its options, and the purchase.


def plan_purchase(page: ShopPage, goal: ShopGoal, shop: Shop) -> list[str]:
    """Return the actions that, from a page on, buy exactly the product of a goal with the options of the goal.

    Raises:
        Fault: ("data") another product or other options are bought already, or no search finds the product.
    """
    if page.kind == "bought":
        if page.asin == goal.asin and _missing_options(page, goal, shop) == []:
            return []
        raise Fault("data", f"{page.asin} is bought already, and {goal.asin} is wanted: start again")
    if page.asin != goal.asin:
        return _path_to_product(page, goal, shop) + _purchase_actions(ShopPage(asin=goal.asin), goal, shop)
    return [f"click[{PREVIOUS}]"] * (page.kind == "details") + _purchase_actions(page, goal, shop)


def _purchase_actions(page: ShopPage, goal: ShopGoal, shop: Shop) -> list[str]:
    return [f"click[{value}]" for value in [*_missing_options(page, goal, shop), BUY]]


def _missing_options(page: ShopPage, goal: ShopGoal, shop: Shop) -> list[str]:
    chosen = list(page.options.values())
    return [value for value in goal.values if value not in chosen]


def _path_to_product(page: ShopPage, goal: ShopGoal, shop: Shop) -> list[str]:
    # Path to the product's page: through the current results if they contain it, else by a new search.
    if page.kind == "results" and goal.asin in (results := shop.search(page.keywords)):
        pages = results.index(goal.asin) // PER_PAGE + 1 - page.number
        button = NEXT if pages > 0 else PREVIOUS
        return [f"click[{button}]"] * abs(pages) + [f"click[{goal.asin}]"]
    keywords = _choose_keywords(goal, shop)
    first = [] if page.kind == "search" else [f"click[{BACK}]"]
    return [*first, f"search[{keywords}]", *_path_to_product(ShopPage(kind="results", keywords=keywords), goal, shop)]


def _choose_keywords(goal: ShopGoal, shop: Shop) -> str:
    # Of the keywords proposed for the instruction, those that rank the product highest.
    searches = {keywords: shop.search(keywords) for keywords in propose_keywords(goal.instruction)}
    ranks = {keywords: results.index(goal.asin) for keywords, results in searches.items() if goal.asin in results}
    if not ranks:
        raise Fault("data", f"no search finds {goal.asin} (tried {', '.join(searches)}); take another task")
    return min(ranks, key=lambda keywords: ranks[keywords])


# The benchmark: WebShop's small setting of 1,000 products if its data is given, else a generated shop.

PLAIN, ATTRIBUTES = "plain", "attributes"


class WebShop(Benchmark):
    """Benchmark of tasks such as `B08X2PKKB2-0`: a product and the number of a combination of its options.

    Splits: `instructions` (the default) has the first goal of each of 275 instructions; `test`, `dev` and `train` are
    ranges of all 3,964 goals; `written` has eleven instructions written by crowd workers.

    Scores differ slightly from WebShop's. The rules are the same, but two parts are substitutes: the search is another
    BM25 (see `Shop`), and a word list instead of spaCy's tagger finds the nouns by which types of products are compared
    (`products.nouns_in`). Prices from ranges and price bounds are drawn with other random numbers.

    By these rules, 417 of the 3,964 templated goals (4 of the 275 in `instructions`) give less than reward 1 for
    exactly what they ask for (see `products.wanted_texts`).

    Args:
        data: Folder with WebShop's files, read on first use; None for a generated shop.
        config: How pages are shown. "": a line per string, with buttons marked; "plain": strings joined by " [SEP] ";
            "attributes": as "", and products have a page of attributes, which WebShop's text pages lack.
    """

    configurations = (ATTRIBUTES, PLAIN)
    limits = Limits(replans=2, steps=20)
    signals_goal = True

    def __init__(self, data: Path | None = None, config: str = "") -> None:
        check_configuration("webshop", config, self.configurations)
        self.data, self._config = data, config
        self.name = f"webshop:{config}" if config else "webshop"
        self.briefing = BRIEFING
        self.wordings = WORDINGS.format(option="" if config == PLAIN else OPTION_WORDING)

    def factors(self) -> Factors:
        """Return the symbolic extractor of this world."""
        return WebShopFactors()

    def tasks(self, split: str = "") -> list[Task]:
        """Return the tasks of a split.

        Raises:
            UnknownName: the split is unknown; the message lists the known ones.
            Fault: ("data") the data folder contains no readable files.
        """
        return [
            self._task(id_, goal)
            for id_, goal in select_split(self._goals, self._written, split or DEFAULT_SPLIT).items()
        ]

    def task(self, task_id: str) -> Task:
        """Return one task.

        Raises:
            UnknownName: there is no such task; the message lists some ids.
            Fault: see `tasks`.
        """
        goal = self._goals.get(task_id) or self._written.get(task_id)
        if goal is None:
            more = "" if self.data else f"WebShop's need --data DIR, with {PRODUCTS} under DIR/webshop/"
            raise unknown_task_error("webshop", task_id, "PRODUCT-NUMBER", self._goals, more)
        return self._task(task_id, goal)

    def ready(self) -> None:
        """Check before the first run that scores can be computed.

        Raises:
            Fault: ("data") rapidfuzz is not installed.
        """
        check_packages("WebShop's reward needs", ["rapidfuzz"], "webshop")

    def open(self, task: Task) -> WebShopWorld:
        """Create the environment of a task: the shop, and the goal from `task.constants`.

        Raises:
            Fault: ("data") the task's constants are not a valid `ShopGoal`.
        """
        marked, attributes = self._config != PLAIN, self._config == ATTRIBUTES
        return WebShopWorld(self._shop, self._goal(task), marked=marked, attributes=attributes)

    def demonstration(self, task: Task, before: Sequence[str] = ()) -> list[str]:
        """Return the searches and clicks that buy the product, from the start or after the actions `before`.

        Raises:
            Fault: ("data") something else is bought already, or no search with words of the instruction finds the
                product.
        """
        world = self.open(task)
        for action in before:
            world.step(Action(text=action))
        return plan_purchase(world.page, world.goal, self._shop)

    def expert(self) -> Responder:
        """Return the scripted model `scripted:expert`: it follows the actions of `demonstration`."""
        return demonstration_expert(self.demonstration)

    def decide(self, condition: str, observation: Observation, view: str) -> Decision | None:
        """Decide a condition by the page that is shown; None if it does not settle it."""
        return decide_condition(condition, view, self._find_title)

    def figures(self, runs: Sequence[tuple[str, Footer]]) -> dict[str, float]:
        """Return mean reward and success rate (reward 1) with standard errors, and the rate of runs with a purchase."""
        rewards = [footer.scores.value if footer.scores else 0.0 for _, footer in runs]
        bought = [footer.scores is not None and footer.scores.answer is not None for _, footer in runs]
        solved = [float(reward >= 1.0) for reward in rewards]
        figures = {"n": float(len(runs)), "bought": mean_score(bought)}
        for name, values in (("score", rewards), ("success", solved)):
            figures |= {name: mean_score(values), f"{name}_stderr": standard_error(values)}
        return figures

    def _task(self, task_id: str, goal: ShopGoal) -> Task:
        return Task(benchmark=self.name, id=task_id, goal=goal.instruction, constants=goal.as_json())

    def _find_title(self, asin: str) -> str | None:
        product = self._catalogue.products.get(asin)
        return product.title if product else None

    def _goal(self, task: Task) -> ShopGoal:
        try:
            return ShopGoal.model_validate(task.constants)
        except ValidationError as error:
            raise Fault("data", f"task {task.id}: {error}; make it with WebShop().tasks()") from error

    @cached_property
    def _catalogue(self) -> ShopCatalogue:
        return read_catalogue(self.data) if self.data else sample_catalogue()

    @cached_property
    def _shop(self) -> Shop:
        return Shop(self._catalogue)

    @cached_property
    def _goals(self) -> dict[str, ShopGoal]:
        return build_goals(self._catalogue)

    @cached_property
    def _written(self) -> dict[str, ShopGoal]:
        return build_written_goals(self._catalogue)


BRIEFING = """\
The world is a web shop, and every task there is done by buying one product. search[KEYWORDS] on the search page lists
products, ten a page. click[BUTTON] presses a button of the page, which has [button] before its name, or [clicked
button] once it is chosen: a product's number opens the product, the value of an option chooses it, Description,
Features and Reviews tell more. Next > leads to the next page of results, < Prev to the page before: from details to
their product, whose chosen options stay, and from a product to the results, where they are lost. Back to Search starts
over. click[Buy Now] buys the product as chosen and ends the task. What is bought is judged by its kind, what it is
like, each option and its price: choose every option that was asked for first."""
"""Text about the world at the start of agents' prompts. It does not reveal how types of products are compared."""
