"""The places in a repository that a reference answer cites, as gold support."""

import re
from collections.abc import Iterator

from certigraph.adapters.searching.questions import Hop
from certigraph.adapters.searching.telling import line
from certigraph.adapters.swe_qa.chunks import CHUNK
from certigraph.adapters.swe_qa.questions import Asked
from certigraph.adapters.swe_qa.repository import Lines, Repository

CITED = re.compile(
    r"(?P<path>[\w./-]+\.\w+)`?(?:[\s:,(]*\blines?\b\s*(?P<first>\d{1,9})(?:\s*(?:-|to)\s*(?P<last>\d{1,9}))?)?",
    re.IGNORECASE,
)
"""A path with a suffix, and the lines where they are named, as in `flask/app.py: line 10-20`."""

MOST_FINDING = 200
"""Characters of the cited lines that stand for what they tell."""


def with_evidence(asked: Asked, repository: Repository) -> Asked:
    """The question with one hop for each file that its reference cites and the repository has.

    A path may be cited without its first folders (`flask/app.py` for `src/flask/app.py`) where one file alone ends so.
    """
    answer = asked.answers[0]
    places = {where.path: where for where in reversed(list(_cited(answer, repository)))}
    passages = [repository.passage(where) for where in reversed(places.values())]
    told = [(passage, line(passage.text)[:MOST_FINDING]) for passage in passages]
    hops = (Hop(question=asked.text, answer=answer, passage=p, finding=finding) for p, finding in told if finding)
    return asked.model_copy(update={"hops": tuple(hops)})


def _cited(answer: str, repository: Repository) -> Iterator[Lines]:
    for match in CITED.finditer(answer):
        if path := _path(match["path"], repository):
            first = int(match["first"] or 1)
            yield Lines(path, first, int(match["last"] or first + CHUNK - 1))


def _path(cited: str, repository: Repository) -> str | None:
    exact = repository.path_of(cited)
    ending = [path for path in repository.paths if path.endswith(f"/{cited}")] if exact is None else []
    return exact or (ending[0] if len(ending) == 1 else None)
