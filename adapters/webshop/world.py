"""A live visit to the shop: searching, clicking, buying."""

from certigraph.adapters.webshop.browsing import clickable, clicked, parsed, searched
from certigraph.adapters.webshop.goals import Goal
from certigraph.adapters.webshop.pages import Line, Page, lines
from certigraph.adapters.webshop.reward import Judged, judged
from certigraph.adapters.webshop.shop import Shop
from certigraph.adapters.webshop.wording import proposals
from certigraph.state.records import Action, Observation, Scores

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
