"""The whole text of an HTML tree with its lines, tables and lists: less refined than an article, and nothing missed."""

import re
from typing import Any

from certigraph.adapters.web.extra import package

OUTSIDE = ("head", "nav", "footer", "aside", "svg", "select", "button", "iframe")
"""Elements of no page's own text."""

LINES = (
    *("address", "article", "blockquote", "br", "caption", "dd", "div", "dl", "dt", "fieldset", "figcaption", "figure"),
    *("form", "header", "hr", "main", "ol", "p", "pre", "section", "summary", "table", "ul"),
)
STARTS = {"li": "- ", "tr": "| ", "h1": "# ", "h2": "## ", "h3": "### ", "h4": "#### "}
"""How a line of these begins in Markdown."""

CELLS = ("td", "th")
CELL_ENDS = " | "


def outline(tree: Any) -> str:
    """The text of an lxml tree as Markdown."""
    parts: list[str] = []
    inside = 0
    walk = package("lxml.etree").iterwalk(tree, ("start", "end"))
    for event, element in walk:
        # a cell is one piece of its row, whatever lines it has; one that holds a table only lays out the page
        cell = element.tag in CELLS and element.find(".//table") is None
        if event == "start":
            inside += cell
            parts += [" " if inside else _start(element.tag), _flat(element.text)]
            if element.tag in OUTSIDE:
                parts.pop()
                walk.skip_subtree()
        else:
            inside -= cell
            parts += [CELL_ENDS if cell else " " if inside else _end(element.tag), _flat(element.tail)]
    lines = (_flat(line).strip() for line in "".join(parts).split("\n"))
    return "\n".join(line for line in lines if line.strip("-#| "))


def rows(text: str) -> list[str]:
    """The rows of tables in an outline."""
    return [line for line in text.split("\n") if line.startswith(STARTS["tr"])]


def _start(tag: str) -> str:
    return f"\n{STARTS.get(tag, '')}" if tag in LINES or tag in STARTS else ""


def _end(tag: str) -> str:
    return "\n" if tag in LINES or tag in STARTS else ""


def _flat(text: str | None) -> str:
    return re.sub(r"\s+", " ", text or "")
