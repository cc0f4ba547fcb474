"""A provider's name -> the provider. What is asked is named, or follows from which keys are set."""

import os
from collections.abc import Callable

from certigraph.adapters.web.asked import Asked
from certigraph.adapters.web.brave import BRAVE, Brave
from certigraph.adapters.web.local import LocalPages
from certigraph.adapters.web.protocol import SearchProvider
from certigraph.adapters.web.searxng import SEARXNG, SearXNG
from certigraph.adapters.web.serper import SERPER, Serper
from certigraph.state.endings import Fault, UnknownName

VARIABLE = "CERTIGRAPH_SEARCH"
FORMS = "serper, brave, searxng, openai:gpt-4o-search-preview, local:FOLDER, or several with commas between them"

PLAIN: dict[str, Callable[[], SearchProvider]] = {"serper": Serper, "brave": Brave, "searxng": SearXNG}
"""By name, in the order in which they are taken where none is named."""

WITH_PART: dict[str, Callable[[str], SearchProvider]] = {"openai": Asked, "local": LocalPages}
"""By what stands before the colon; made from what stands behind it."""

SETTINGS = {"serper": SERPER.key, "brave": BRAVE.key, "searxng": SEARXNG.variable}
"""The variable that makes each of the plain ones usable."""

NONE = (
    f"no search provider: export {SERPER.key}=... ({SERPER.key_page}), {BRAVE.key}=... ({BRAVE.key_page}) or "
    f"{SEARXNG.variable}=http://localhost:8080 (https://docs.searxng.org), or search a folder of pages: "
    f"{VARIABLE}=local:FOLDER"
)


def providers(names: str = "") -> list[SearchProvider]:
    """The providers of some names; the first is searched, the second is another source of evidence.

    Args:
        names: of FORMS. Empty: those in CERTIGRAPH_SEARCH, else serper, brave and searxng as far as their
            variables are set.

    Raises:
        UnknownName: a name has none of the forms.
        Fault: ("environment") there is none, or one lacks its key, address or folder; the message says what to set.
    """
    named = _listed(names) or _listed(os.environ.get(VARIABLE, ""))
    chosen = named or [name for name, variable in SETTINGS.items() if os.environ.get(variable)]
    if not chosen:
        raise Fault("environment", NONE)
    return [_provider(name) for name in dict.fromkeys(chosen)]


def _listed(names: str) -> list[str]:
    return [name.strip() for name in names.split(",") if name.strip()]


def _provider(name: str) -> SearchProvider:
    kind, _, part = name.partition(":")
    if name in PLAIN:
        return PLAIN[name]()
    if kind in WITH_PART and part:
        return WITH_PART[kind](part)
    raise UnknownName(f"no search provider is called {name!r}; the forms are {FORMS}")
