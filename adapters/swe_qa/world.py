"""The world of a code repository: files, symbols and tools."""

import ast
import os
import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from functools import cached_property
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from certigraph.adapters.qa.benchmark import Judge, SearchWorld, Tool
from certigraph.adapters.retrieval.bm25 import Pool
from certigraph.state.records import Action, Fault, Observation, UnknownName
from certigraph.state.run import FINISH, SEARCH
from certigraph.state.search import Passage, refused

# A repository on disk, read and never written: its text files, and lines of them. Nothing outside its root is read.

LARGEST = 500_000
"""Bytes; larger files are data or generated, and left out."""

MOST_FILES = 20_000

WIDEST = 300
"""Characters of a line in a passage: generated code has lines of megabytes."""

SNIFFED = 8_192
"""Bytes in which a NUL tells a binary file."""


class Lines(NamedTuple):
    """Lines of a file: `first` to `last`, counted from 1, both included."""

    path: str
    first: int
    last: int

    def __str__(self) -> str:
        """As `path:12` or `path:12-40`, which is the id of the passage that they are."""
        return f"{self.path}:{self.first}" + (f"-{self.last}" if self.last > self.first else "")


class Repository:
    """The text files below a root, by their paths relative to it, `/` between the parts.

    Hidden files and folders, links, binary files and those above 500 kB are no part of it.
    """

    def __init__(self, root: Path) -> None:
        """Take a root. Raises Fault where it is no folder."""
        if not root.is_dir():
            raise Fault("data", f"{root}: no such folder: give the root of a checked-out repository")
        self.root = root.resolve()

    @cached_property
    def paths(self) -> tuple[str, ...]:
        """The files, sorted. Raises Fault where there is none, or more than 20,000."""
        found = sorted(self._files())
        if not found:
            raise Fault("data", f"{self.root} holds no text file: give the root of a checked-out repository")
        if len(found) > MOST_FILES:
            raise Fault(
                "data", f"{self.root} holds {len(found):,} text files, more than {MOST_FILES:,}: give a part of it"
            )
        return tuple(found)

    @cached_property
    def _known(self) -> frozenset[str]:
        return frozenset(self.paths)

    def path_of(self, written: str) -> str | None:
        """The file that a written path means; None where there is none, as with every path that leaves the root."""
        parts = PurePosixPath(written.strip().replace("\\", "/")).parts
        path = "/".join(part for part in parts if part != ".")
        return path if path in self._known else None

    def lines(self, path: str) -> list[str]:
        """The lines of one of `paths`, what is no UTF-8 replaced. Raises Fault where it changed since it was listed."""
        file = self.root / path
        if path not in self._known or not _inside(file, self.root):
            raise Fault("environment", f"{path!r} is no file of {self.root}, or one no longer: start a new run")
        # not by splitlines, which also cuts at form feeds: editors and syntax trees count line ends alone
        with file.open(encoding="utf-8", errors="replace") as opened:
            return opened.read(LARGEST).removesuffix("\n").split("\n")  # it may have grown since

    def passage(self, where: Lines) -> Passage:
        """Lines as a passage, whose id and title say where they stand."""
        return passage_of(where, self.lines(where.path)[where.first - 1 : where.last])

    def _files(self) -> Iterator[str]:
        for folder, inner, names in os.walk(self.root):
            inner[:] = [name for name in inner if not name.startswith(".")]
            for name in names:
                file = Path(folder, name)
                if not name.startswith(".") and _readable(file):
                    yield file.relative_to(self.root).as_posix()


def passage_of(where: Lines, lines: Sequence[str]) -> Passage:
    """Lines as a passage; of long ones the beginning."""
    return Passage(id=str(where), title=str(where), text="\n".join(text[:WIDEST] for text in lines))


def _inside(file: Path, root: Path) -> bool:
    """Whether a file is where its path says, and not where a link leads."""
    return file.is_file() and file.resolve() == file and file.is_relative_to(root)


def _readable(file: Path) -> bool:
    try:
        if file.is_symlink() or not file.is_file() or file.stat().st_size > LARGEST:
            return False
        with file.open("rb") as opened:
            return b"\0" not in opened.read(SNIFFED)
    except OSError:
        return False  # not ours to read, or gone since it was listed


# A repository as passages to search: pieces of files of forty lines.

CHUNK = 40
"""Lines of a passage: about 400 tokens of code."""

MOST_CHUNKS = 30_000
"""BM25 in memory takes 0.1 s a query over so many, and 300 MB."""


class RepositoryLibrary:
    """BM25 over the pieces of every file; a piece's title is its path and lines, which are searched too."""

    name = "bm25"

    def __init__(self, repository: Repository) -> None:
        """Read every file. Raises Fault where there is none, or more than 30,000 pieces."""
        passages = list(_pieces(repository))
        if len(passages) > MOST_CHUNKS:
            told = f"{repository.root} makes {len(passages):,} pieces of {CHUNK} lines, more than {MOST_CHUNKS:,}"
            raise Fault("data", f"{told}: give a part of it")
        self._repository = repository
        self._pool = Pool(passages, boost_titles=False)
        self.search = self._pool.search

    def passage(self, id: str) -> Passage:
        """The lines that an id names, `path:3-40`, a piece's or any other. Raises UnknownName where there are none."""
        path, _, span = id.rpartition(":")
        first, _, last = span.partition("-")
        last = last or first
        if self._repository.path_of(path) != path or not (_is_line(first) and _is_line(last)):
            raise UnknownName(f"no passage {id!r} in {self._repository.root}; ids are PATH:FIRST-LAST or PATH:LINE")
        return self._repository.passage(Lines(path, int(first), int(last)))


def _is_line(text: str) -> bool:
    return text.isdecimal() and len(text) < 10  # Python refuses to read numbers of thousands of digits


def _pieces(repository: Repository) -> Iterator[Passage]:
    for path in repository.paths:
        lines = repository.lines(path)
        for start in range(0, len(lines), CHUNK):
            piece = lines[start : start + CHUNK]
            if any(map(str.strip, piece)):
                yield passage_of(Lines(path, start + 1, start + len(piece)), piece)


# What an agent may look up in a repository besides searching it: paths, occurrences, definitions, lines of a file.
#
# Every look returns places, at most `MOST` of them, or a reason why there are none. There are no regular expressions
# in a query, so that none can take for ever.

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


# Where a repository defines what: Python by its syntax tree, other languages by the words that begin a definition.

DEFINITION = re.compile(
    r"\s*(?:(?:export|default|public|private|protected|static|abstract|async|pub|final)\s+)*"
    r"(?:class|def|func|function|fn|struct|interface|trait|enum|type|module)\s+(?P<name>\w+)"
)
"""Of languages that say so; C's functions, for one, are not found."""

_HOLDERS = (ast.stmt, ast.excepthandler, ast.match_case)


class Symbol(NamedTuple):
    """A definition: its name with the classes and functions around it, and the lines that it takes."""

    name: str
    lines: Lines


def symbols(repository: Repository, name: str) -> list[Symbol]:
    """Definitions of that name, or whose qualified name ends so (`Session.send`); else those whose name contains it."""
    wanted = name.strip().removesuffix("()")
    last = wanted.rpartition(".")[2]
    if not last:
        return []
    near = [s for path in repository.paths for s in _defined(path, repository.lines(path), last)]
    exact = [s for s in near if s.name == wanted or s.name.endswith(f".{wanted}")]
    return list(islice(exact or (s for s in near if wanted.lower() in s.name.lower()), MOST))


def _defined(path: str, lines: list[str], last: str) -> Iterator[Symbol]:
    """The definitions of a file, if it can have one whose name contains `last`."""
    text = "\n".join(lines)
    if last.lower() not in text.lower():
        return
    tree = _parsed(text) if path.endswith((".py", ".pyi")) else None
    yield from _in_tree(tree, path) if tree else _in_lines(path, lines)


def _parsed(text: str) -> ast.Module | None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about another's code
        try:
            return ast.parse(text)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return None  # another version's Python, or a template


def _in_tree(tree: ast.Module, path: str) -> Iterator[Symbol]:
    # statements alone: definitions stand in no expression; no recursion, for each elif nests one deeper
    waiting: list[tuple[ast.AST, str]] = [(tree, "")]
    while waiting:
        node, around = waiting.pop()
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            around = f"{around}.{node.name}" if around else node.name
            yield Symbol(around, Lines(path, node.lineno, node.end_lineno or node.lineno))
        inner = [child for child in ast.iter_child_nodes(node) if isinstance(child, _HOLDERS)]
        waiting += [(child, around) for child in reversed(inner)]


def _in_lines(path: str, lines: list[str]) -> Iterator[Symbol]:
    for number, line in enumerate(lines, 1):
        if match := DEFINITION.match(line[:WIDEST]):
            yield Symbol(match["name"], Lines(path, number, number))


# The world of a code repository: a search world with four more tools, all read-only.

FIND, GREP, SYMBOLS, READ = "find", "grep", "symbols", "read"

TOOLS = (SEARCH, FIND, GREP, SYMBOLS, READ, FINISH)


class RepositoryWorld(SearchWorld):
    """One question about a repository. Passages are lines of files; what a look brings up is at hand from then on."""

    def __init__(self, repository: Repository, library: RepositoryLibrary, judge: Judge, *, k: int) -> None:
        """A world over a repository and its pieces; `k` passages a search."""
        super().__init__(lambda alpha: library, judge, k=k)
        self._repository = repository

    def reset(self) -> Observation:
        """Nothing is looked up yet; how large the repository is, and what lies at its top."""
        super().reset()
        paths = self._repository.paths
        top = sorted({path.partition("/")[0] + ("/" if "/" in path else "") for path in paths})
        return Observation(text=f"{len(paths)} text files; at the top: {', '.join(top[:40])}")

    def _tools(self) -> Mapping[str, Tool]:
        mine = {FIND: self._find, GREP: self._grep, SYMBOLS: self._symbols, READ: self._read}
        return {**super()._tools(), **mine}

    def _find(self, action: Action) -> Observation:
        paths = find(self._repository, pattern := _asked(action))
        if not paths:
            return refused(f"No path matches {pattern[:100]!r}: give part of a path, or a pattern such as *.py")
        return Observation(text="\n".join(paths))

    def _grep(self, action: Action) -> Observation:
        text = _asked(action)
        found = grep(self._repository, text) if text else []
        if not found:
            return refused(f"No line contains {text[:100]!r}: the text is compared word for word, without patterns")
        return self._kept([(where, self._first(where)) for where in found])

    def _symbols(self, action: Action) -> Observation:
        found = symbols(self._repository, name := _asked(action))
        if not found:
            return refused(f"Nothing called {name[:100]!r} is defined here: give the name of a class or function")
        return self._kept([(symbol.lines, f"{symbol.name}: {self._first(symbol.lines)}") for symbol in found])

    def _read(self, action: Action) -> Observation:
        where = read(self._repository, _asked(action))
        if isinstance(where, str):
            return refused(where)
        lines = self._repository.passage(where).text.split("\n")
        return self._kept([(where, f"{number} {text}") for number, text in enumerate(lines, where.first)], named=False)

    def _first(self, where: Lines) -> str:
        return self._repository.passage(Lines(where.path, where.first, where.first)).text.strip()

    def _kept(self, places: Sequence[tuple[Lines, str]], *, named: bool = True) -> Observation:
        """A place a line, its id the line's source; several lines of one passage have the same."""
        passages = {str(where): self._repository.passage(where) for where, _ in places}
        self._found |= {id: passage for id, passage in passages.items() if id not in self._found}
        lines = (f"{where}: {text}" if named else text for where, text in places)
        text = "\n".join(" ".join(line.splitlines()) for line in lines)
        return Observation(text=text, sources=tuple(str(where) for where, _ in places))


def _asked(action: Action) -> str:
    return str(action.args.get("query") or "").strip()
