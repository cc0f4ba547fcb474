"""The world of research: searches, pages, an answer. What it fetches is what a search brought up, and nothing else."""

from collections.abc import Callable, Mapping, Sequence

from certigraph.adapters.prompting import numbered
from certigraph.adapters.research.gathering import Gathered, gather
from certigraph.adapters.research.memory import Memory
from certigraph.adapters.searching.telling import line, refused
from certigraph.adapters.web.web import Web
from certigraph.state.records import Action, Observation, Scores
from certigraph.state.researching import OPEN, RESEARCH, carried, texts
from certigraph.state.searching import ANSWER, FINISH, SEARCH, parsed

Judge = Callable[[str | None, bool], Scores]
"""Scores an answer, None where there is none; the flag says that it is certified by nobody."""

Tool = Callable[[Action], Observation]


class ResearchWorld:
    """One question. Nothing tells the agent whether an answer is right: no reward, and never `solved`.

    A step repeated in a new episode after the same steps answers the same, as long as the web is kept (`WebCache`).
    Not concurrent: what is left alone, and what counts as new, depends on what was done before.
    """

    concurrent = False

    def __init__(self, web: Web, question: str, judge: Judge, *, k: int) -> None:
        """A world over a web. `k`: results of a search."""
        self._web, self._question, self._judge, self._k = web, question, judge, k
        self._clear()

    def reset(self) -> Observation:
        """Nothing is searched, read or answered yet."""
        self._clear()
        return Observation(text="Nothing has been looked up yet.")

    def step(self, action: Action) -> Observation:
        """Use a tool; what is none, or names a page that is not known, is refused with the reason.

        The answer's `data` repeats `tool` and arguments, for a validator sees nothing else of the action.
        """
        meant, tools = parsed(action), self._tools()
        if meant is None or meant.kind not in tools:
            known = ", ".join(f"{name}[...]" for name in (SEARCH, OPEN, FINISH))
            return refused(f"{action.text[:100]!r} is no action here; write one of {known}")
        observation = tools[meant.kind](meant)
        return observation.model_copy(update={"data": {"tool": meant.kind, **meant.args, **observation.data}})

    def view(self) -> str:
        """The known results, numbered as `sources` has them."""
        return numbered(self._memory.listed())

    def sources(self) -> tuple[str, ...]:
        """The URLs of the known results."""
        return tuple(self._memory.known())

    def admissible(self) -> None:
        """Any words can be searched for."""

    def score(self) -> Scores:
        """The benchmark's verdict on the answer handed in, else the last one noted."""
        return self._judge(self._answer, self._forced)

    def close(self) -> None:
        """The web is shared between episodes."""

    def _tools(self) -> Mapping[str, Tool]:
        return {
            SEARCH: self._search,
            OPEN: self._open,
            RESEARCH: self._research,
            ANSWER: self._note,
            FINISH: self._finish,
        }

    def _clear(self) -> None:
        self._memory = Memory(self._question)
        self._answer: str | None = None
        self._forced = False

    def _search(self, action: Action) -> Observation:
        if not (query := said(action, "query").strip()):
            return refused("There is nothing to look for: name what you look for.")
        return _told(self._gathered([query], [], query, elsewhere=False, lines=True))

    def _open(self, action: Action) -> Observation:
        url = said(action, "query").strip()
        if url not in self._memory.hits:
            return refused(f"{url[:200]!r} is not known: only pages that a search brought up can be opened.")
        if reason := self._memory.reason(url):
            return refused(f"{url} cannot be read: {reason}.")
        return _told(self._gathered([], [url], self._question, elsewhere=False, lines=True))

    def _research(self, action: Action) -> Observation:
        queries, urls = texts(action.args.get("queries")), texts(action.args.get("urls"))
        elsewhere = action.args.get("elsewhere") is True
        return _told(self._gathered(queries, urls, said(action, "goal"), elsewhere=elsewhere, lines=False))

    def _gathered(
        self, queries: Sequence[str], urls: Sequence[str], goal: str, *, elsewhere: bool, lines: bool
    ) -> Gathered:
        return gather(self._web, self._memory, queries, urls, goal, k=self._k, elsewhere=elsewhere, lines=lines)

    def _note(self, action: Action) -> Observation:
        self._take(action)
        return Observation(text=f"Noted: {line(self._answer or '')}")

    def _finish(self, action: Action) -> Observation:
        self._take(action)
        return Observation(text=f"Handed in: {line(self._answer or '')}", done=True)

    def _take(self, action: Action) -> None:
        self._answer = said(action, "answer")
        self._forced = "forced" in action.args or any(known.forced for known in carried(action.args))


def said(action: Action, name: str) -> str:
    """A text among an action's arguments; empty where there is none."""
    return str(action.args.get(name) or "")


def _told(gathered: Gathered) -> Observation:
    return Observation(text=gathered.text, sources=gathered.sources, data=gathered.data)
