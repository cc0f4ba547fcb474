"""Where a repository defines what: Python by its syntax tree, other languages by the words that begin a definition."""

import ast
import re
import warnings
from collections.abc import Iterator
from itertools import islice
from typing import NamedTuple

from certigraph.adapters.swe_qa.repository import WIDEST, Lines, Repository
from certigraph.adapters.swe_qa.tools import MOST

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
