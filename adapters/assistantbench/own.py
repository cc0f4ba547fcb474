"""Questions that somebody asks: there is no gold, so that they are answered and not scored."""

import datetime
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path

from certigraph.adapters.assistantbench.generated.benchmark import GeneratedWeb
from certigraph.adapters.assistantbench.generated.expert import Expert
from certigraph.adapters.protocols import Responder
from certigraph.adapters.research.benchmark import ResearchBenchmark
from certigraph.adapters.research.own import GENERATED, asked
from certigraph.adapters.research.questions import Question
from certigraph.adapters.web.addresses import allowed_hosts
from certigraph.adapters.web.cache import web_cache
from certigraph.adapters.web.choosing import providers
from certigraph.adapters.web.fetcher import Fetcher
from certigraph.adapters.web.local import LocalPages
from certigraph.adapters.web.protocol import PageSource, SearchProvider
from certigraph.adapters.web.web import Web
from certigraph.state.endings import Fault, UnknownName
from certigraph.state.records import Task

FRESH = datetime.timedelta(days=1)
"""Age from which a page is fetched anew: a person asks what is true today."""

NONE = 'questions of your own have no list: certigraph ask "QUESTION"'


class OwnQuestion(ResearchBenchmark):
    """Questions of one's own (`adapters.research.own.asked`).

    With a folder the web is that folder's pages and nothing else; else the web out there, or the generated one, as the
    task says.

    Args:
        folder: of pages.
        config: none is known.
        search: an engine of one's own, in place of those that the task names.
        pages: a reader of pages of one's own. What one's own answer is not kept.
    """

    plain = "ask"
    simulated = True
    """Nothing is generated in place of data: there are no tasks."""

    def __init__(
        self,
        folder: Path | None = None,
        config: str = "",
        *,
        search: SearchProvider | None = None,
        pages: PageSource | None = None,
    ) -> None:
        super().__init__(folder, config)
        self._search, self._pages = search, pages

    def read(self, split: str) -> Mapping[str, Question]:
        """None: what is asked is known when it is asked."""
        return {}

    def tasks(self, split: str = "") -> Sequence[Task]:
        """Raises UnknownName: there are none but what is asked."""
        raise UnknownName(NONE)

    def task(self, task_id: str) -> Task:
        """Raises UnknownName as `tasks` does."""
        raise UnknownName(NONE)

    def question(self, task_id: str) -> Question:
        """The question of a task, whose text the task itself has."""
        return Question(id=task_id, text="")

    def expert(self) -> Responder | None:
        """Who knows the generated web, and of the questions that are asked those that are asked there."""
        return self._expert

    def knows(self, task: Task) -> bool:
        """Whether the expert knows a question: one of the generated web's, asked there."""
        return task.constants.get("search") == GENERATED and task.id in self._generated.known

    def web(self, task: Task) -> Web:
        """Where a question is researched; what was kept within a day before it was asked is not fetched again.

        Raises:
            Fault, UnknownName: as `providers`.
        """
        named = str(task.constants.get("search") or "")
        if self.folder is not None:
            return self._local
        if named == GENERATED:
            return GeneratedWeb().web(task)
        since = datetime.datetime.fromisoformat(str(task.constants["asked"])) - FRESH
        cache = None if self._search or self._pages else web_cache(since=since.timestamp())
        found = [self._search] if self._search else providers(named)
        return Web(found, self._pages or Fetcher(allowed=allowed_hosts()), cache)

    @cached_property
    def _local(self) -> Web:
        pages = LocalPages(self.folder or Path())
        return Web([pages], pages, None)

    @cached_property
    def _generated(self) -> "_Generated":
        return _Generated()

    @cached_property
    def _expert(self) -> Responder:
        return Expert(self._generated)


class _Generated:
    """The questions of the generated web, by the ids that they have when somebody asks them."""

    def __init__(self) -> None:
        self.known = {asked(question.text).id: question for question in GeneratedWeb().questions().values()}

    def question(self, task_id: str) -> Question:
        """The question. Raises Fault ("model") where it is not one of them."""
        if task_id not in self.known:
            raise Fault("model", "scripted:expert knows the questions of `web` alone: name another model with --model")
        return self.known[task_id]
