"""The world of search agents: it finds passages, files claims, notes answers, and ends when one is handed in."""

from collections.abc import Callable, Mapping, Sequence

from pydantic import JsonValue

from certigraph.adapters.retrieval.analyzer import terms
from certigraph.adapters.retrieval.protocol import Retriever
from certigraph.adapters.searching.claims import best_supported, titled
from certigraph.adapters.searching.outcomes import Claim, Judge, Outcome, claims_of
from certigraph.adapters.searching.telling import line, refused, told
from certigraph.state.chains import carried
from certigraph.state.passages import Passage
from certigraph.state.records import Action, Observation, Scores
from certigraph.state.searching import ANSWER, CLAIM, FINISH, RETRIEVED, SEARCH, parsed

MOST_HITS = 100
"""Passages that one search may ask for."""

Tool = Callable[[Action], Observation]


class SearchWorld:
    """One question. Nothing tells the agent whether an answer is right: no reward, and never `solved`."""

    concurrent = True

    def __init__(
        self, retriever: Callable[[float | None], Retriever], judge: Judge, *, k: int, given: Sequence[Passage] = ()
    ) -> None:
        """A world over a retriever.

        Args:
            retriever: for a weight of BM25 against vectors; None: the benchmark's own mixture.
            judge: scores an outcome.
            k: passages of a search that does not say how many.
            given: passages at hand from the start.
        """
        self._retriever, self._judge, self._k, self._given = retriever, judge, k, tuple(given)
        self._clear()

    def reset(self) -> Observation:
        """Nothing is searched, claimed or answered yet."""
        self._clear()
        return Observation(text=f"{len(self._given) or 'No'} passages are at hand.")

    def step(self, action: Action) -> Observation:
        """Use a tool; what is none, or finds nothing, is refused with the reason.

        The answer's `data` repeats `tool` and arguments, for a validator sees nothing else of the action.
        """
        meant, tools = parsed(action), self._tools()
        if meant is None or meant.kind not in tools:
            known = ", ".join(f"{name}[...]" for name in tools if name not in (CLAIM, ANSWER))
            return refused(f"{action.text[:100]!r} is no action here; write one of {known}")
        observation = tools[meant.kind](meant)
        return observation.model_copy(update={"data": {"tool": meant.kind, **meant.args, **observation.data}})

    def view(self) -> str:
        """The titles of the passages at hand, one a line."""
        return "\n".join(line(passage.title) for passage in self._at_hand())

    def sources(self) -> tuple[str, ...]:
        """The ids of the passages at hand, in order."""
        return tuple(passage.id for passage in self._at_hand())

    def admissible(self) -> None:
        """Any words can be searched for."""

    def score(self) -> Scores:
        """The benchmark's verdict on what the episode came to so far."""
        return self._judge(self.outcome())

    def outcome(self) -> Outcome:
        """What the episode came to so far."""
        found = self._at_hand() if self._filed else [*self._found.values()]
        return Outcome(self._answer, self._forced, self._claims, tuple(found))

    def close(self) -> None:
        """Retrievers are shared between episodes."""

    def _tools(self) -> Mapping[str, Tool]:
        return {SEARCH: self._search, CLAIM: self._claim, ANSWER: self._note, FINISH: self._finish}

    def _clear(self) -> None:
        self._found: dict[str, Passage] = {}
        self._filed: dict[tuple[str, str], Passage | None] = {}
        """The passage that a claim is taken from, by sub-question and finding."""
        self._claims: tuple[Claim, ...] = ()
        self._answer: str | None = None
        self._forced = False

    def _at_hand(self) -> list[Passage]:
        return list({passage.id: passage for passage in (*self._given, *self._found.values())}.values())

    def _search(self, action: Action) -> Observation:
        query = _said(action, "query")
        if not terms(query):
            return refused(f"There is nothing to look for in {query[:100]!r}: name what you look for.")
        retriever = self._retriever(_number(action.args.get("alpha")))
        passages = [hit.passage for hit in retriever.search(query, self._depth(action))]
        if not passages:
            return refused(f"No passage has a word of {query[:100]!r}: search in other words.")
        return self._shown(passages, retriever.name)

    def _shown(self, passages: Sequence[Passage], retriever: str) -> Observation:
        self._found |= {passage.id: passage for passage in passages if passage.id not in self._found}
        return told(passages, retriever=retriever)

    def _claim(self, action: Action) -> Observation:
        finding, cited = _said(action, "finding"), _said(action, "title")
        at_hand = self._at_hand()
        if not at_hand:
            return refused("No passage is at hand that could bear out a claim: search first.")
        resolved = titled(cited, f"{finding} {_said(action, 'entity')}", at_hand)
        other = best_supported(finding, [passage for passage in at_hand if passage != resolved])
        self._filed[_said(action, "subquestion"), finding] = resolved or other
        bearing = [passage for passage in (resolved, other) if passage]
        none = "" if bearing else f"No passage at hand is titled {cited[:100]!r} or has a word of the finding."
        return told(bearing, none, resolved=resolved is not None, cited=cited)

    def _note(self, action: Action) -> Observation:
        self._take(action)
        return Observation(text=f"Noted: {self._answer}")

    def _finish(self, action: Action) -> Observation:
        self._take(action)
        return Observation(text=f"Handed in: {self._answer}", done=True)

    def _take(self, action: Action) -> None:
        """An answer, and what it stands on: claims, and passages that were found in other worlds."""
        self._answer, self._forced = _said(action, "answer"), "forced" in action.args
        elsewhere = action.args.get(RETRIEVED)
        for id_ in elsewhere if isinstance(elsewhere, list) else ():
            self._found.setdefault(str(id_), self._retriever(None).passage(str(id_)))
        self._claims = claims_of(carried(action.args), self._at_hand(), self._filed)

    def _depth(self, action: Action) -> int:
        asked = _number(action.args.get("k"))
        return min(max(int(asked), 1), MOST_HITS) if asked is not None else self._k


def _said(action: Action, name: str) -> str:
    return str(action.args.get(name) or "")


def _number(value: JsonValue) -> float | None:
    return float(value) if isinstance(value, int | float) else None
