"""Questions that somebody asks: there is no gold, so that they are answered and not scored."""

import datetime
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path

from certigraph.adapters.assistantbench.generated.benchmark import GeneratedWeb
from certigraph.adapters.protocols import Responder
from certigraph.adapters.research.benchmark import ResearchBenchmark
from certigraph.adapters.research.questions import Question
from certigraph.adapters.web.addresses import allowed_hosts
from certigraph.adapters.web.cache import web_cache
from certigraph.adapters.web.choosing import providers
from certigraph.adapters.web.fetcher import Fetcher
from certigraph.adapters.web.local import LocalPages
from certigraph.adapters.web.web import Web
from certigraph.state.records import Task

FRESH = datetime.timedelta(days=1)
"""Age from which a page is fetched anew: a person asks what is true today."""

GENERATED = "generated"
"""In place of a search provider: the generated web, to try things out."""


class OwnQuestion(ResearchBenchmark):
    """Questions of one's own (`adapters.research.own.asked`).

    With a folder the web is that folder's pages and nothing else; else the web out there, or the generated one, as the
    task says.
    """

    plain = "ask"

    def read(self, split: str) -> Mapping[str, Question]:
        """None: what is asked is known when it is asked."""
        return {}

    def question(self, task_id: str) -> Question:
        """The question of a task, whose text the task itself has."""
        return Question(id=task_id, text="")

    def expert(self) -> Responder | None:
        """Who knows the generated web."""
        return self._generated.expert()

    def web(self, task: Task) -> Web:
        """Where a question is researched; what was kept within a day before it was asked is not fetched again.

        Raises:
            Fault, UnknownName: as `providers`.
        """
        search = str(task.constants.get("search") or "")
        if self.folder is not None:
            return self._local
        if search == GENERATED:
            return self._generated.web(task)
        since = datetime.datetime.fromisoformat(str(task.constants["asked"])) - FRESH
        return Web(providers(search), Fetcher(allowed=allowed_hosts()), web_cache(since=since.timestamp()))

    @cached_property
    def _local(self) -> Web:
        pages = LocalPages(self.folder or Path())
        return Web([pages], pages, None)

    @cached_property
    def _generated(self) -> GeneratedWeb:
        return GeneratedWeb()
