"""All questions about repositories that a folder holds."""

from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path

from certigraph.adapters.hints import missing_data, unknown_task
from certigraph.adapters.searching.banks import QuestionBank
from certigraph.adapters.swe_qa.checkouts import found_checkout
from certigraph.adapters.swe_qa.generated import generated_questions
from certigraph.adapters.swe_qa.questions import Asked, Origin, read_origins, read_questions
from certigraph.state.endings import UnknownName

PRO = "swe_qa_pro"
"""The folder beside SWE-QA's whose questions are asked too, by the name of their file."""

PRESENT = "present"


class RepositoryBank(QuestionBank[Asked]):
    """SWE-QA's questions, SWE-QA-Pro's beside them, or one's own; without a folder those about a small made one."""

    def __init__(self, folder: Path | None, own: Mapping[str, Asked] | None = None) -> None:
        """Of a folder of JSON lines, read when first asked for, or of given questions by id."""
        super().__init__("swe_qa", lambda split: {asked.id: asked for asked in self.split(split)})
        self._folder, self._own = folder, own

    @cached_property
    def files(self) -> Mapping[str, Mapping[str, Asked]]:
        """The questions by file and id. Raises Fault ("data") where there is no file, or a malformed one."""
        if self._own is not None or self._folder is None:
            return {"": self._own if self._own is not None else generated_questions()}
        if not (found := _read(self._folder, read_origins(self._folder))):
            expected = "*.jsonl or *.jsonl.gz with a {question, answer} a line, a file for each repository"
            raise missing_data("swe_qa", self._folder, expected)
        return found

    @cached_property
    def with_pro(self) -> Mapping[str, Mapping[str, Asked]]:
        """The same, and SWE-QA-Pro's where they lie beside SWE-QA's. Raises Fault as `files` does."""
        beside = self._folder.parent / PRO if self._folder and self._own is None else None
        return {**self.files, **(_read(beside, {}) if beside and beside != self._folder else {})}

    def question(self, id_: str) -> Asked:
        """One question. Raises UnknownName with some valid ids."""
        found = next((questions[id_] for questions in self.with_pro.values() if id_ in questions), None)
        if found is None:
            known = (next(iter(questions)) for questions in self.with_pro.values())
            raise unknown_task("swe_qa", id_, "REPOSITORY/NUMBER", known)
        return found

    def split(self, name: str = "") -> Sequence[Asked]:
        """All questions but SWE-QA-Pro's; one file's by its name; `present`: those whose repository is checked out.

        Raises:
            UnknownName: no such file; lists them.
        """
        if not name:
            return _listed(self.files)
        if name == PRESENT:
            return [q for q in _listed(self.with_pro) if q.origin is None or found_checkout(q.origin)]
        if name not in self.with_pro:
            known = ", ".join((PRESENT, *filter(None, self.with_pro)))
            raise UnknownName(f"swe_qa has no split {name!r}; known: {known}")
        return list(self.with_pro[name].values())


def _listed(files: Mapping[str, Mapping[str, Asked]]) -> list[Asked]:
    return [asked for questions in files.values() for asked in questions.values()]


def _read(folder: Path, origins: Mapping[str, Origin]) -> dict[str, dict[str, Asked]]:
    paths = sorted(folder.glob("*.jsonl*"))
    return {path.name.partition(".jsonl")[0]: read_questions(path, origins) for path in paths}
