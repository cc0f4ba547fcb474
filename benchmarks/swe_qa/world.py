"""The world of a code repository: its files, their passages, and the tools find, grep, symbols and read."""

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

from certigraph.adapters.retrieval.bm25 import PassagePool
from certigraph.benchmarks.qa.benchmark import Judge, SearchTool, SearchWorld
from certigraph.state.endings import Fault, UnknownName
from certigraph.state.records import Action, Observation
from certigraph.state.run import FINISH, SEARCH
from certigraph.state.search import Passage, create_refusal

# A repository on disk, which is only read: its text files and their lines. Nothing outside its root is read.

MAX_FILE_BYTES = 500_000
"""Maximum bytes of a file; larger files are data or generated code, and are left out."""

MAX_FILES = 20_000
"""Maximum number of text files."""

MAX_LINE_LENGTH = 300
"""Maximum characters of a line in a passage: generated code has lines of megabytes."""

SNIFF_BYTES = 8_192
"""Number of first bytes in which a NUL identifies a binary file."""


class LineRange(NamedTuple):
    """Lines of a file from `first` to `last`, counted from 1, both included."""

    path: str
    first: int
    last: int

    def __str__(self) -> str:
        """Return `path:12` or `path:12-40`, which is also the id of the passage with these lines."""
        return f"{self.path}:{self.first}" + (f"-{self.last}" if self.last > self.first else "")


class Repository:
    """Text files under a root folder. Their paths are relative to the root, with `/` as separator.

    Hidden files and folders, links, binary files and files above 500 kB are left out.
    """

    def __init__(self, root: Path) -> None:
        """Use a folder as the root.

        Raises:
            Fault: ("data") there is no such folder.
        """
        if not root.is_dir():
            raise Fault("data", f"{root}: no such folder: give the root of a checked-out repository")
        self.root = root.resolve()

    @cached_property
    def paths(self) -> tuple[str, ...]:
        """Sorted paths of all files.

        Raises:
            Fault: ("data") there is no file, or there are more than 20,000.
        """
        paths = sorted(self._files())
        if not paths:
            raise Fault("data", f"{self.root} holds no text file: give the root of a checked-out repository")
        if len(paths) > MAX_FILES:
            raise Fault(
                "data", f"{self.root} holds {len(paths):,} text files, more than {MAX_FILES:,}: give a part of it"
            )
        return tuple(paths)

    @cached_property
    def _known(self) -> frozenset[str]:
        return frozenset(self.paths)

    def path_of(self, written: str) -> str | None:
        """Return the file that a written path refers to; None for a missing file or a path outside the root."""
        parts = PurePosixPath(written.strip().replace("\\", "/")).parts
        path = "/".join(part for part in parts if part != ".")
        return path if path in self._known else None

    def lines(self, path: str) -> list[str]:
        """Return the lines of one of `paths`; invalid UTF-8 is replaced.

        Raises:
            Fault: ("environment") the file changed since it was listed.
        """
        file = self.root / path
        if path not in self._known or not _is_inside(file, self.root):
            raise Fault("environment", f"{path!r} is not, or no longer, a file of {self.root}: start a new run")
        # not by splitlines, which also splits at form feeds: editors and syntax trees only count newlines
        with file.open(encoding="utf-8", errors="replace") as opened:
            return opened.read(MAX_FILE_BYTES).removesuffix("\n").split("\n")  # the file may have grown meanwhile

    def passage(self, where: LineRange) -> Passage:
        """Return the lines `where` as a passage, with their location as id and title."""
        return create_passage(where, self.lines(where.path)[where.first - 1 : where.last])

    def _files(self) -> Iterator[str]:
        for folder, inner, names in os.walk(self.root):
            inner[:] = [name for name in inner if not name.startswith(".")]
            for name in names:
                file = Path(folder, name)
                if not name.startswith(".") and _is_text_file(file):
                    yield file.relative_to(self.root).as_posix()


def create_passage(where: LineRange, lines: Sequence[str]) -> Passage:
    """Create a passage from lines, with their location as id and title; long lines are cut."""
    return Passage(id=str(where), title=str(where), text="\n".join(text[:MAX_LINE_LENGTH] for text in lines))


def _is_inside(file: Path, root: Path) -> bool:
    """Return whether a file is located at its path, and not reached by a link."""
    return file.is_file() and file.resolve() == file and file.is_relative_to(root)


def _is_text_file(file: Path) -> bool:
    try:
        if file.is_symlink() or not file.is_file() or file.stat().st_size > MAX_FILE_BYTES:
            return False
        with file.open("rb") as opened:
            return b"\0" not in opened.read(SNIFF_BYTES)
    except OSError:
        return False  # no permission, or deleted since it was listed


# A repository as passages to search: parts of files with forty lines.

CHUNK_LINES = 40
"""Number of lines per passage, about 400 tokens of code."""

MAX_CHUNKS = 30_000
"""Maximum number of passages; with so many, BM25 takes 0.1 s per query and 300 MB of memory."""


class RepositoryRetriever:
    """BM25 search over all files, split into parts of 40 lines; a part's path and line numbers are searched too."""

    name = "bm25"

    def __init__(self, repository: Repository) -> None:
        """Read and index every file.

        Raises:
            Fault: ("data") there is no file, or there are more than 30,000 parts.
        """
        passages = list(_chunks(repository))
        if len(passages) > MAX_CHUNKS:
            problem = (
                f"{repository.root} makes {len(passages):,} pieces of {CHUNK_LINES} lines, more than {MAX_CHUNKS:,}"
            )
            raise Fault("data", f"{problem}: give a part of it")
        self._repository = repository
        self._pool = PassagePool(passages, boost_titles=False)
        self.search = self._pool.search

    def passage(self, id: str) -> Passage:
        """Return the passage with an id such as `path:3-40`; any range of lines is valid, not only those of the parts.

        Raises:
            UnknownName: there is no such file, or the id has another format.
        """
        path, _, span = id.rpartition(":")
        first, _, last = span.partition("-")
        last = last or first
        if self._repository.path_of(path) != path or not (_is_line_number(first) and _is_line_number(last)):
            raise UnknownName(f"no passage {id!r} in {self._repository.root}; ids are PATH:FIRST-LAST or PATH:LINE")
        return self._repository.passage(LineRange(path, int(first), int(last)))


def _is_line_number(text: str) -> bool:
    return text.isdecimal() and len(text) < 10 and int(text) > 0  # Python reads no number of thousands of digits


def _chunks(repository: Repository) -> Iterator[Passage]:
    for path in repository.paths:
        lines = repository.lines(path)
        for start in range(0, len(lines), CHUNK_LINES):
            chunk = lines[start : start + CHUNK_LINES]
            if any(map(str.strip, chunk)):
                yield create_passage(LineRange(path, start + 1, start + len(chunk)), chunk)


# Tools of an agent besides search: paths, occurrences, definitions, lines of a file.
#
# Every tool returns at most `MAX_MATCHES` results, or a reason why there are none. A query is not a regular expression,
# because matching one could take too long.

MAX_MATCHES = 40
"""Maximum number of results of one tool call."""

MAX_READ_LINES = 80
"""Maximum number of lines in the range that `resolve_lines` returns."""

_SPAN = re.compile(r"(?P<path>.*?)(?::(?P<first>\d{1,9})(?:-(?P<last>\d{1,9}))?)?")


def find_paths(repository: Repository, pattern: str) -> list[str]:
    """Return the paths that match a pattern with `*` and `?`.

    A pattern matches the complete path or its last part; without wildcards, the paths that contain the text are
    returned.
    """
    wanted = pattern.strip().lower()
    has_wildcards = any(character in wanted for character in "*?")
    if not has_wildcards:
        return list(islice((path for path in repository.paths if wanted in path.lower()), MAX_MATCHES))
    names = ((path, path.lower()) for path in repository.paths)
    matches = (p for p, low in names if fnmatchcase(low, wanted) or fnmatchcase(low.rpartition("/")[2], wanted))
    return list(islice(matches, MAX_MATCHES))


def find_lines(repository: Repository, text: str) -> list[LineRange]:
    """Return the lines that contain a literal text; case is ignored if the text is in lower case."""
    return list(islice(_occurrences(repository, text), MAX_MATCHES))


def resolve_lines(repository: Repository, location: str) -> LineRange | str:
    """Return the lines that `path`, `path:10` or `path:10-60` refers to, at most eighty.

    If there are no such lines, the result is a message that gives the reason.
    """
    match = _SPAN.fullmatch(location.strip())
    path = repository.path_of(match["path"]) if match else None
    if match is None or path is None:
        return f"{location[:200]!r} is not a text file of this repository: find its path first."
    count = len(repository.lines(path))
    first = max(int(match["first"] or 1), 1)
    last = min(int(match["last"] or first + MAX_READ_LINES - 1), first + MAX_READ_LINES - 1, count)
    if first > last:
        return f"{path} has {count} lines; {location[:200]!r} is none of them."
    return LineRange(path, first, last)


def _occurrences(repository: Repository, text: str) -> Iterator[LineRange]:
    ignore_case = text == text.lower()
    for path in repository.paths:
        for number, line in enumerate(repository.lines(path), 1):
            if text in (line.lower() if ignore_case else line):
                yield LineRange(path, number, number)


# Definitions: of Python by its syntax tree, of other languages by the words that begin a definition.

DEFINITION_PATTERN = re.compile(
    r"\s*(?:(?:export|default|public|private|protected|static|abstract|async|pub|final)\s+)*"
    r"(?:class|def|func|function|fn|struct|interface|trait|enum|type|module)\s+(?P<name>\w+)"
)
"""Pattern of the beginning of a definition, in languages with a keyword for it. C functions, for example, have none."""

_HOLDERS = (ast.stmt, ast.excepthandler, ast.match_case)


class SymbolDefinition(NamedTuple):
    """A definition: its name, qualified by the classes and functions around it, and its lines."""

    name: str
    lines: LineRange


def find_symbols(repository: Repository, name: str) -> list[SymbolDefinition]:
    """Return the definitions whose qualified name is `name` or ends with it, as `Session.send` ends with `send`.

    If there are none, the definitions whose name contains `name` are returned.
    """
    wanted = name.strip().removesuffix("()")
    last = wanted.rpartition(".")[2]
    if not last:
        return []
    candidates = [s for path in repository.paths for s in _definitions(path, repository.lines(path), last)]
    exact = [s for s in candidates if s.name == wanted or s.name.endswith(f".{wanted}")]
    return list(islice(exact or (s for s in candidates if wanted.lower() in s.name.lower()), MAX_MATCHES))


def _definitions(path: str, lines: list[str], last: str) -> Iterator[SymbolDefinition]:
    """Yield all definitions of a file; none if the file does not contain the text `last`."""
    text = "\n".join(lines)
    if last.lower() not in text.lower():
        return
    tree = _parse_python(text) if path.endswith((".py", ".pyi")) else None
    yield from _definitions_in_tree(tree, path) if tree else _definitions_in_lines(path, lines)


def _parse_python(text: str) -> ast.Module | None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # warnings about the repository's code do not concern the user
        try:
            return ast.parse(text)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return None  # Python of another version, or a template


def _definitions_in_tree(tree: ast.Module, path: str) -> Iterator[SymbolDefinition]:
    # Only statements contain definitions. The loop avoids recursion, because each elif nests one level deeper.
    waiting: list[tuple[ast.AST, str]] = [(tree, "")]
    while waiting:
        node, around = waiting.pop()
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            around = f"{around}.{node.name}" if around else node.name
            yield SymbolDefinition(around, LineRange(path, node.lineno, node.end_lineno or node.lineno))
        inner = [child for child in ast.iter_child_nodes(node) if isinstance(child, _HOLDERS)]
        waiting += [(child, around) for child in reversed(inner)]


def _definitions_in_lines(path: str, lines: list[str]) -> Iterator[SymbolDefinition]:
    for number, line in enumerate(lines, 1):
        if match := DEFINITION_PATTERN.match(line[:MAX_LINE_LENGTH]):
            yield SymbolDefinition(match["name"], LineRange(path, number, number))


# The world of a code repository: a search world with four additional tools, all read-only.

FIND, GREP, SYMBOLS, READ = "find", "grep", "symbols", "read"

TOOLS = (SEARCH, FIND, GREP, SYMBOLS, READ, FINISH)


class RepositoryWorld(SearchWorld):
    """World of one question about a repository.

    Passages are lines of files. Lines that a tool shows count as retrieved passages.
    """

    def __init__(self, repository: Repository, library: RepositoryRetriever, judge: Judge, *, k: int) -> None:
        """Create a world over a repository.

        Args:
            repository: Repository that the tools read.
            library: Index of the repository's passages, for the tool `search`.
            judge: Function that scores the outcome of an episode.
            k: Default number of passages per search.
        """
        super().__init__(lambda alpha: library, judge, k=k)
        self._repository = repository

    def reset(self) -> Observation:
        """Start an episode; the observation has the number of files and the names at the top level."""
        super().reset()
        paths = self._repository.paths
        top = sorted({path.partition("/")[0] + ("/" if "/" in path else "") for path in paths})
        return Observation(text=f"{len(paths)} text files; at the top: {', '.join(top[:40])}")

    def _tools(self) -> Mapping[str, SearchTool]:
        own_tools = {FIND: self._find, GREP: self._grep, SYMBOLS: self._symbols, READ: self._read}
        return {**super()._tools(), **own_tools}

    def _find(self, action: Action) -> Observation:
        paths = find_paths(self._repository, pattern := _query_of(action))
        if not paths:
            return create_refusal(f"No path matches {pattern[:100]!r}: give part of a path, or a pattern such as *.py")
        return Observation(text="\n".join(paths))

    def _grep(self, action: Action) -> Observation:
        text = _query_of(action)
        matches = find_lines(self._repository, text) if text else []
        if not matches:
            return create_refusal(
                f"No line contains {text[:100]!r}: the text is compared word for word, without patterns"
            )
        return self._show_lines([(where, self._first_line(where)) for where in matches])

    def _symbols(self, action: Action) -> Observation:
        matches = find_symbols(self._repository, name := _query_of(action))
        if not matches:
            return create_refusal(
                f"Nothing called {name[:100]!r} is defined here: give the name of a class or function"
            )
        return self._show_lines(
            [(symbol.lines, f"{symbol.name}: {self._first_line(symbol.lines)}") for symbol in matches]
        )

    def _read(self, action: Action) -> Observation:
        where = resolve_lines(self._repository, _query_of(action))
        if isinstance(where, str):
            return create_refusal(where)
        lines = self._repository.passage(where).text.split("\n")
        return self._show_lines(
            [(where, f"{number} {text}") for number, text in enumerate(lines, where.first)], named=False
        )

    def _first_line(self, where: LineRange) -> str:
        return self._repository.passage(LineRange(where.path, where.first, where.first)).text.strip()

    def _show_lines(self, results: Sequence[tuple[LineRange, str]], *, named: bool = True) -> Observation:
        """Return an observation with one line of text per result and the ids of the results' passages as sources."""
        passages = {str(lines): self._repository.passage(lines) for lines, _ in results}
        self._retrieved |= {id: passage for id, passage in passages.items() if id not in self._retrieved}
        texts = (f"{lines}: {text}" if named else text for lines, text in results)
        text = "\n".join(" ".join(line.splitlines()) for line in texts)
        return Observation(text=text, sources=tuple(str(lines) for lines, _ in results))


def _query_of(action: Action) -> str:
    return str(action.args.get("query") or "").strip()
