"""The world of a code repository: a search world with four more tools, all read-only."""

from collections.abc import Mapping, Sequence

from certigraph.adapters.searching.outcomes import Judge
from certigraph.adapters.searching.telling import refused
from certigraph.adapters.searching.world import SearchWorld, Tool
from certigraph.adapters.swe_qa.chunks import RepositoryLibrary
from certigraph.adapters.swe_qa.repository import Lines, Repository
from certigraph.adapters.swe_qa.symbols import symbols
from certigraph.adapters.swe_qa.tools import find, grep, read
from certigraph.state.records import Action, Observation
from certigraph.state.searching import FINISH, SEARCH

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
