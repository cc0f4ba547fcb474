"""AssistantBench as a benchmark: questions that take a person minutes on the open web."""

from collections.abc import Mapping, Sequence
from functools import cache, cached_property
from pathlib import Path

from certigraph.adapters.assistantbench.generated.benchmark import GeneratedWeb
from certigraph.adapters.assistantbench.predictions import score_submission
from certigraph.adapters.assistantbench.questions import SPLITS, Split, read_split
from certigraph.adapters.assistantbench.recorded import recorded_web
from certigraph.adapters.protocols import Responder
from certigraph.adapters.research.benchmark import ResearchBenchmark
from certigraph.adapters.research.figures import Scored, rates
from certigraph.adapters.research.questions import Question
from certigraph.adapters.web.addresses import allowed_hosts
from certigraph.adapters.web.cache import web_cache
from certigraph.adapters.web.choosing import providers
from certigraph.adapters.web.fetcher import Fetcher
from certigraph.adapters.web.web import Web
from certigraph.state.endings import Fault
from certigraph.state.records import Task

RECORDED = "recorded"

DEV = SPLITS[0]


class AssistantBench(ResearchBenchmark):
    """Questions of a person, to be researched on the web as it is now; without a folder, invented ones on their web.

    Configurations: none; `recorded`, the few pages that recorded agents saw are the web, which needs no network (see
    the module `recorded` before you quote a score).
    """

    plain = "assistantbench"
    configurations = (RECORDED,)
    splits = SPLITS

    def __init__(self, folder: Path | None = None, config: str = "") -> None:
        super().__init__(folder, config)
        self._split = cache(self._read_split)

    def read(self, split: str) -> Mapping[str, Question]:
        """The questions of a split that have a text. Raises Fault as `read_split` does."""
        return self._split(split).asked

    def textless(self, split: str = "") -> Sequence[str]:
        """Ids of the questions whose text is not there: no run can be about them, yet published figures are."""
        return tuple(self._split(split or DEV).textless)

    def ids(self, split: str = "") -> Sequence[str]:
        """Ids of all tasks of a split, those without a text last: what a submission has a row for."""
        return tuple(self._split(split or DEV).all)

    def web(self, task: Task) -> Web:
        """The web out there, the recorded or the invented one; what was read once is kept (`web_cache`).

        Raises:
            UnknownName, Fault: as `providers` and `recorded_web`.
        """
        if self.config == RECORDED:
            return self._recorded
        if self.folder is None:
            return self._generated.web(task)
        return Web(providers(), Fetcher(allowed=allowed_hosts()), web_cache())

    def ready(self) -> None:
        """Make sure, before any run begins, that there is a web to ask. Raises UnknownName and Fault as `web` does."""
        if self.folder is not None and self.config != RECORDED:
            providers()

    def expert(self) -> Responder | None:
        """Who knows the invented web; nobody knows the others."""
        return None if self.folder else self._generated.expert()

    def score_file(self, path: Path, split: str = "") -> list[Scored]:
        """The official scores of a submission, over all tasks of a split; `rates` adds them up.

        Raises:
            UnknownName: there is no such split.
            Fault: as `score_submission`.
        """
        self.questions(split)
        return score_submission(path, list(self._split(split or DEV).all.values()))

    def rates(self, scores: Sequence[Scored]) -> dict[str, float]:
        """The official figures of what `score_file` gave."""
        return rates(scores)

    def _read_split(self, split: str) -> Split:
        if self.folder is None and split == DEV and self.config != RECORDED:
            return Split(dict(self._generated.questions()), {})
        return read_split(self._files, split)

    @property
    def _files(self) -> Path:
        if self.folder is None:
            message = "without data there is the split dev alone, and no recorded web: name the folder that holds"
            raise Fault("data", f"{message} {self.plain}/ with --data DIR or CERTIGRAPH_DATA")
        return self.folder

    @cached_property
    def _recorded(self) -> Web:
        pages = recorded_web(self._files)
        return Web([pages], pages, None)

    @cached_property
    def _generated(self) -> GeneratedWeb:
        return GeneratedWeb()
