"""What clicking and searching lead to, page by page."""

import re
from collections.abc import Sequence

from certigraph.adapters.webshop.pages import BACK, BUY, NEXT, PREVIOUS, SEARCH, Line, Page
from certigraph.adapters.webshop.shop import Shop

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
