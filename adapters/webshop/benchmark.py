"""WebShop as a benchmark: splits and gold plans."""

from collections.abc import Mapping, Sequence
from functools import cached_property
from math import sqrt
from pathlib import Path
from random import Random
from statistics import fmean, stdev

from pydantic import ValidationError

from certigraph.adapters.files import unknown_task
from certigraph.adapters.models.experts import demonstrated
from certigraph.adapters.processes import require
from certigraph.adapters.protocols import PAPER_LIMITS, Operator, Responder
from certigraph.adapters.webshop.products import (
    PRODUCTS,
    SHUFFLE,
    Catalogue,
    Goal,
    generated_catalogue,
    goals,
    read_catalogue,
    written_goals,
)
from certigraph.adapters.webshop.world import BACK, BUY, NEXT, PER_PAGE, PREVIOUS, Page, Shop, WebShopWorld, proposals
from certigraph.state.records import Action, Fault, Task, UnknownName
from certigraph.state.trajectory import Footer

# Which goals make a split.

USUAL, WRITTEN = "instructions", "written"

PLACES = {"test": (0, 500), "dev": (500, 1500), "train": (1500, None)}
"""In the shuffled list of templated goals, as WebShop's own is cut (recalled; its order is another)."""


def selected(goals: Mapping[str, Goal], written: Mapping[str, Goal], split: str) -> dict[str, Goal]:
    """The goals of a split by id. Raises UnknownName for one that is not there or is empty, naming the others."""
    splits = {USUAL: _firsts(goals), WRITTEN: dict(written)}
    splits |= {name: dict(list(goals.items())[start:end]) for name, (start, end) in PLACES.items()}
    if not splits.get(split):
        known = ", ".join(name for name, members in splits.items() if members)
        raise UnknownName(f"no split {split!r}; known are {known}")
    return splits[split]


def _firsts(goals: Mapping[str, Goal]) -> dict[str, Goal]:
    """The first goal of each product. Shuffled anew: products of many goals would else come first."""
    first = {goal.asin: id_ for id_, goal in reversed(list(goals.items()))}
    ids = sorted(first.values())
    Random(SHUFFLE).shuffle(ids)
    return {id_: goals[id_] for id_ in ids}


# How a goal is bought: from any page, the searches and clicks to its product, its options, the purchase.


def plan(page: Page, goal: Goal, shop: Shop) -> list[str]:
    """The actions that are left to buy exactly what the goal was made from.

    Raises:
        Fault: ("data") another product, or with other options, is bought already, or no search tried brings it up.
    """
    if page.kind == "bought":
        if page.asin == goal.asin and _missing(page, goal, shop) == []:
            return []
        raise Fault("data", f"{page.asin} is bought already, and {goal.asin} is wanted: begin anew")
    if page.asin != goal.asin:
        return _found(page, goal, shop) + _bought(Page(asin=goal.asin), goal, shop)
    return [f"click[{PREVIOUS}]"] * (page.kind == "details") + _bought(page, goal, shop)


def _bought(page: Page, goal: Goal, shop: Shop) -> list[str]:
    return [f"click[{value}]" for value in [*_missing(page, goal, shop), BUY]]


def _missing(page: Page, goal: Goal, shop: Shop) -> list[str]:
    chosen = list(page.options.values())
    return [value for value in goal.options if value not in chosen]


def _found(page: Page, goal: Goal, shop: Shop) -> list[str]:
    """The way to the product's page: on through the results where they have it, else by a new search."""
    if page.kind == "results" and goal.asin in (found := shop.search(page.keywords)):
        pages = found.index(goal.asin) // PER_PAGE + 1 - page.number
        turn = NEXT if pages > 0 else PREVIOUS
        return [f"click[{turn}]"] * abs(pages) + [f"click[{goal.asin}]"]
    keywords = _keywords(goal, shop)
    first = [] if page.kind == "search" else [f"click[{BACK}]"]
    return [*first, f"search[{keywords}]", *_found(Page(kind="results", keywords=keywords), goal, shop)]


def _keywords(goal: Goal, shop: Shop) -> str:
    """Of the keywords that the instruction suggests, those which bring the product up earliest."""
    tried = {keywords: shop.search(keywords) for keywords in proposals(goal.instruction)}
    places = {keywords: found.index(goal.asin) for keywords, found in tried.items() if goal.asin in found}
    if not places:
        raise Fault(
            "data", f"no search for {goal.asin} has it among its results ({', '.join(tried)}); take another task"
        )
    return min(places, key=lambda keywords: places[keywords])


# WebShop as a benchmark: WebShop's small setting of 1,000 products where its data is, else an invented shop.

PLAIN, ATTRIBUTES = "plain", "attributes"


class WebShop:
    """Tasks `B08X2PKKB2-0`: a product, and which combination of its options.

    Splits: `instructions`, the usual one, the first goal of each of 275 instructions; `test`, `dev` and `train` of all
    3,964 goals; `written`, the eleven in crowd workers' own words.

    Scores are not WebShop's to the last digit. Its rules are followed, but three pieces are substitutes: the search is
    another BM25 (shop.py); a word list finds the nouns by which kinds of products are compared, in place of spaCy's
    tagger (nouns.py); the list of colours is our own (reward.py). Prices out of ranges and bounds are drawn anew.

    Args:
        data: The folder that holds WebShop's files, read when first needed; None for the invented shop.
        config: "" for pages that mark their buttons; "plain" for strings joined by " [SEP] "; "attributes" to show
            attributes too, of which WebShop's text pages have none.
    """

    configurations = (ATTRIBUTES, PLAIN)

    signals_goal = True

    def __init__(self, data: Path | None = None, config: str = "") -> None:
        if config not in ("", *self.configurations):
            raise UnknownName(f"webshop has no configuration {config!r}; known: {', '.join(self.configurations)}")
        self.data, self._config = data, config
        self.name = f"webshop:{config}" if config else "webshop"
        self.briefing = BRIEFING
        self.limits = PAPER_LIMITS["webshop"]

    def tasks(self, split: str = "") -> list[Task]:
        """The tasks of a split.

        Raises:
            UnknownName: for an unknown split, naming the known ones.
            Fault: ("data") when the data folder holds no readable files.
        """
        return [self._task(id_, goal) for id_, goal in selected(self._goals, self._written, split or USUAL).items()]

    def task(self, task_id: str) -> Task:
        """One task. Raises UnknownName whose message lists some valid ids, and Fault as `tasks` does."""
        goal = self._goals.get(task_id) or self._written.get(task_id)
        if goal is None:
            more = "" if self.data else f"WebShop's need --data DIR, with {PRODUCTS} under DIR/webshop/"
            raise unknown_task("webshop", task_id, "PRODUCT-NUMBER", self._goals, more)
        return self._task(task_id, goal)

    def ready(self) -> None:
        """Make sure, before any run begins, that scores can be computed. Raises Fault("data") without rapidfuzz."""
        require("WebShop's reward needs", ["rapidfuzz"], "webshop")

    def open(self, task: Task) -> WebShopWorld:
        """The shop with a task's goal. Raises Fault("data") where its constants are no goal."""
        marked, attributes = self._config != PLAIN, self._config == ATTRIBUTES
        return WebShopWorld(self._shop, self._goal(task), marked=marked, attributes=attributes)

    def demonstration(self, task: Task, before: Sequence[str] = ()) -> list[str]:
        """Search, turn pages, choose options, buy: from the start, or from where the actions `before` lead.

        Raises:
            Fault: ("data") something else is bought already, or no search of the instruction's words finds the product.
        """
        world = self.open(task)
        for action in before:
            world.step(Action(text=action))
        return plan(world.page, world.goal, self._shop)

    def operators(self) -> Mapping[str, Operator]:
        """None: the generic, prompted operators serve."""
        return {}

    def expert(self) -> Responder:
        """Follows the demonstrations."""
        return demonstrated(self.demonstration)

    def figures(self, runs: Sequence[tuple[str, Footer]]) -> dict[str, float]:
        """Mean reward and rate of success (reward 1) with their standard errors, and of runs that bought anything."""
        rewards = [footer.scores.value if footer.scores else 0.0 for _, footer in runs]
        bought = [footer.scores is not None and footer.scores.answer is not None for _, footer in runs]
        solved = [float(reward >= 1.0) for reward in rewards]
        told = {"n": float(len(runs)), "bought": fmean(bought)}
        for name, values in (("score", rewards), ("success", solved)):
            error = stdev(values) / sqrt(len(values)) if len(values) > 1 else 0.0
            told |= {name: fmean(values), f"{name}_stderr": error}
        return told

    def _task(self, task_id: str, goal: Goal) -> Task:
        return Task(benchmark=self.name, id=task_id, goal=goal.instruction, constants=goal.as_json())

    def _goal(self, task: Task) -> Goal:
        try:
            return Goal.model_validate(task.constants)
        except ValidationError as error:
            raise Fault("data", f"task {task.id}: {error}; make it with WebShop().tasks()") from error

    @cached_property
    def _catalogue(self) -> Catalogue:
        return read_catalogue(self.data) if self.data else generated_catalogue()

    @cached_property
    def _shop(self) -> Shop:
        return Shop(self._catalogue)

    @cached_property
    def _goals(self) -> dict[str, Goal]:
        return goals(self._catalogue)

    @cached_property
    def _written(self) -> dict[str, Goal]:
        return written_goals(self._catalogue)


BRIEFING = """\
The world is a web shop. search[KEYWORDS] on the search page lists products, ten a page. click[BUTTON] presses a button
of the page, which has [button] before its name: a product's number opens the product, the value of an option chooses
it, Back to Search, < Prev and Next > lead on, Description, Features and Reviews tell more. click[Buy Now] buys the
product as chosen and ends the task. What is bought is judged by its kind, what it is like, each option and its price:
choose every option that was asked for first."""
"""It says nothing of the finder of nouns: agents are not told by which words kinds are compared."""
