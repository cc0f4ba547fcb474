"""HTML pages from Jinja2 templates: self-contained files that load nothing and run no script.

`render_page` is the only way to a page. What it is given is data; every text is escaped, unless it is a
`markupsafe.Markup`, which only drawings by matplotlib are.
"""

import re
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

from certigraph.adapters.models.prompts import format_action
from certigraph.runtime.texts import (
    clip_text,
    format_compact,
    format_count,
    format_duration,
    format_part,
    format_points,
    format_usd,
    shorten_text,
)

if TYPE_CHECKING:
    from jinja2 import Environment

OWN_PACKAGE = __name__.rpartition(".")[0]
"""Name of the package that has the templates which all pages share."""

CONTROL_CHARACTERS = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
"""Pattern of control characters and of characters that change the direction of text."""

LINK_PREFIXES = ("http://", "https://")
"""Beginnings of the URLs that are shown as links."""


class Total(NamedTuple):
    """Cell in the row of totals at the top of a page: its name, the value, and a note below it."""

    name: str
    value: str
    note: str


def render_page(template: str, packages: Sequence[str] = (), **values: Any) -> str:
    """Render an HTML page.

    Args:
        template: file name of the template.
        packages: names of Python packages in whose folders `templates` it is looked for, before `certigraph.runtime`'s.
        values: the variables of the template. A variable that a template uses and that is missing is an error.
    """
    return _environment((*packages, OWN_PACKAGE)).get_template(template).render(**values)


@cache
def _environment(packages: tuple[str, ...]) -> "Environment":
    from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=ChoiceLoader([PackageLoader(name) for name in packages]),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=replace_controls,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "action": format_action,
        "clip": clip_text,
        "compact": format_compact,
        "count": format_count,
        "duration": format_duration,
        "number": format,
        "part": format_part,
        "points": format_points,
        "shorten": shorten_text,
        "usd": format_usd,
    }
    environment.tests["web_address"] = is_web_address
    return environment


def replace_controls(value: Any) -> Any:
    """Replace control characters and those that change the direction of text by U+FFFD, in markup too.

    A value that is not a string is returned unchanged.
    """
    return type(value)(CONTROL_CHARACTERS.sub("\ufffd", value)) if isinstance(value, str) else value


def is_web_address(url: str) -> bool:
    """Whether a URL may become a link. Others are shown as text: a page may contain a URL that runs a script."""
    return url.lower().startswith(LINK_PREFIXES) and url.isprintable()
