"""What an agent may look up in a repository besides searching it: paths, occurrences, definitions, lines of a file.

Every look returns places, at most `MOST` of them, or a reason why there are none. There are no regular expressions in
a query, so that none can take for ever.
"""

import re
from collections.abc import Iterator
from fnmatch import fnmatchcase
from itertools import islice

from certigraph.adapters.swe_qa.repository import Lines, Repository

MOST = 40
"""Places that one look may show."""

MOST_READ = 80
"""Lines that one reading may show."""

_SPAN = re.compile(r"(?P<path>.*?)(?::(?P<first>\d{1,9})(?:-(?P<last>\d{1,9}))?)?")


def find(repository: Repository, pattern: str) -> list[str]:
    """Paths that match a pattern with `*` and `?`, as a whole or in their last part; without one, that contain it."""
    wanted = pattern.strip().lower()
    globbing = any(character in wanted for character in "*?")
    if not globbing:
        return list(islice((path for path in repository.paths if wanted in path.lower()), MOST))
    names = ((path, path.lower()) for path in repository.paths)
    fits = (p for p, low in names if fnmatchcase(low, wanted) or fnmatchcase(low.rpartition("/")[2], wanted))
    return list(islice(fits, MOST))


def grep(repository: Repository, text: str) -> list[Lines]:
    """Lines that contain a text word for word; upper and lower case are one where it is all lower case."""
    return list(islice(_occurrences(repository, text), MOST))


def read(repository: Repository, where: str) -> Lines | str:
    """The lines that `path`, `path:10` or `path:10-60` means, at most eighty; else the reason why there are none."""
    match = _SPAN.fullmatch(where.strip())
    path = repository.path_of(match["path"]) if match else None
    if match is None or path is None:
        return f"{where[:200]!r} is no text file of this repository: find its path first."
    count = len(repository.lines(path))
    first = max(int(match["first"] or 1), 1)
    last = min(int(match["last"] or first + MOST_READ - 1), first + MOST_READ - 1, count)
    if first > last:
        return f"{path} has {count} lines; {where[:200]!r} is none of them."
    return Lines(path, first, last)


def _occurrences(repository: Repository, text: str) -> Iterator[Lines]:
    folding = text == text.lower()
    for path in repository.paths:
        for number, line in enumerate(repository.lines(path), 1):
            if text in (line.lower() if folding else line):
                yield Lines(path, number, number)
