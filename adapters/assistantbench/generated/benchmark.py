"""The benchmark `web`: invented questions on an invented web, over real HTTP on loopback."""

import atexit
import hashlib
from collections.abc import Mapping, Sequence
from functools import cache, cached_property
from typing import ClassVar

from certigraph.adapters.assistantbench.generated.engines import engine_at
from certigraph.adapters.assistantbench.generated.expert import Expert
from certigraph.adapters.assistantbench.generated.generation import FAMILIES, all_pages, everything
from certigraph.adapters.assistantbench.generated.search import FIRST, SECOND
from certigraph.adapters.assistantbench.generated.server import Server
from certigraph.adapters.protocols import Responder
from certigraph.adapters.research.benchmark import ResearchBenchmark
from certigraph.adapters.research.questions import Question
from certigraph.adapters.web.cache import web_cache
from certigraph.adapters.web.fetcher import Fetcher
from certigraph.adapters.web.protocol import PageSource, SearchProvider
from certigraph.adapters.web.web import Web
from certigraph.state.records import Task

TIMEOUT = 3.0
"""Seconds that a page may take: all pages are close by, but for those that never come, and machines are busy."""

DEV, SMALL = "dev", "small"


class GeneratedWeb(ResearchBenchmark):
    """Six families of questions, four of each; `small` is the first of each."""

    plain: ClassVar[str] = "web"
    id_pattern: ClassVar[str] = "FAMILY/NUMBER, a number from 1 to 4"
    splits = (DEV, SMALL)
    simulated = True
    """It is always invented: no data folder has it."""

    def read(self, split: str) -> Mapping[str, Question]:
        """The questions by id."""
        made = everything()[: len(FAMILIES) if split == SMALL else None]
        return {one.question.id: one.question for one in made}

    def web(self, task: Task) -> Web:
        """One web for all, served by this process from the first time that it is asked for."""
        return Web(_engines(), _pages(), web_cache(f"generated-{_edition()}"))

    def expert(self) -> Responder:
        """Knows the way to each answer; one for all questions, for it remembers the pages."""
        return self._expert

    @cached_property
    def _expert(self) -> Expert:
        return Expert(self)


@cache
def server() -> Server:
    """The server of this process; it stops with it."""
    serving = Server(all_pages(everything()))
    atexit.register(serving.close)
    return serving


@cache
def _engines() -> Sequence[SearchProvider]:
    return [engine_at(f"web{path}", f"http://{server().address}{path}") for path in (FIRST, SECOND)]


@cache
def _pages() -> PageSource:
    return Fetcher(timeout=TIMEOUT, hosts={".example": server().address})


@cache
def _edition() -> str:
    """Tells apart what other versions of these pages left in the cache."""
    pages = "\n".join(page.model_dump_json() for page in server().pages.values())
    return hashlib.sha256(pages.encode()).hexdigest()[:8]
