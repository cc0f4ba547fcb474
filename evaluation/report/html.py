"""Writing HTML by function calls: what is not marked as markup is text and gets escaped."""

import html
import re
from collections.abc import Iterable

STEERING = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


class Markup(str):
    """A string that is HTML already. Every other string is escaped where it meets a tag."""

    __slots__ = ()


def tag(name: str, *inside: str, **attributes: object) -> Markup:
    """One element. `class_` and the like lose their trailing underscore, inner ones become hyphens."""
    shown = "".join(f' {_name(key)}="{escaped(str(value))}"' for key, value in attributes.items())
    return Markup(f"<{name}{shown}>{joined(*inside)}</{name}>")


def table(heads: Iterable[str], lines: Iterable[Iterable[str]], *below: str, looks: str = "comparison") -> Markup:
    """A table that scrolls sideways where the page is narrow, and what stands below it."""
    head = tag("thead", tag("tr", *(tag("th", name) for name in heads)))
    body = tag("tbody", *(tag("tr", *(tag("td", text) for text in line)) for line in lines))
    return tag("div", tag("table", head, body, class_=looks), *below, class_="wide")


def joined(*inside: str) -> Markup:
    """Several pieces one after the other."""
    return Markup("".join(map(escaped, inside)))


def escaped(text: str) -> Markup:
    """Markup as it is, anything else made harmless, also inside a quoted attribute.

    Characters that turn the direction of what follows, or steer a terminal, are shown as one that stands for itself.
    """
    return text if isinstance(text, Markup) else Markup(html.escape(STEERING.sub("\ufffd", text)))


def shortened(text: str, most: int) -> str:
    """At most that many characters, and how many were left out."""
    return text if len(text) <= most else f"{text[:most]}… ({len(text) - most:,} more characters)"


def clipped(text: str, most: int) -> str:
    """At most that many characters, for a label."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


def counted(count: int, what: str) -> str:
    """A count with its noun: 1 replan, 2,000 replans."""
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def _name(key: str) -> str:
    return key.rstrip("_").replace("_", "-")
