"""Base classes of the benchmarks that ask multi-hop questions, and of their world."""

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence, Set
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

from pydantic import JsonValue

from certigraph.adapters.processes import require
from certigraph.adapters.protocols import PAPER_LIMITS, Operator, Responder
from certigraph.adapters.qa.expert import Expert
from certigraph.adapters.qa.operators import operators
from certigraph.adapters.qa.questions import Question, QuestionBank, Retrievers
from certigraph.adapters.qa.scoring import F1, Scored, rates
from certigraph.adapters.retrieval.bm25 import Retriever, terms
from certigraph.state.records import Action, Fault, Observation, Scores, Task, UnknownName
from certigraph.state.run import ANSWER, CLAIM, FINISH, RETRIEVED, SEARCH, parsed
from certigraph.state.search import Hop, Passage, chain_of, line, refused, told
from certigraph.state.trajectory import Footer

# What an episode of a search world came to.


class Claim(NamedTuple):
    """A finding of a sub-question, and the passage that bears it out, where one could be told."""

    finding: str
    passage: Passage | None


class Outcome(NamedTuple):
    """What an episode came to, for a benchmark to score."""

    answer: str | None
    """Handed in, else the last one noted."""
    forced: bool
    claims: tuple[Claim, ...]
    """Those that the answer stands on: certified ones, in the order of its chain."""
    found: tuple[Passage, ...]
    """What searches brought up; once a claim was filed also what was at hand from the start, for it was read."""


def claims_of(
    chain: Sequence[Hop], at_hand: Sequence[Passage], filed: Mapping[tuple[str, str], Passage | None]
) -> tuple[Claim, ...]:
    """The claims of a certified chain, each with the passage that was verified, else the one that it was filed with."""
    known = {passage.id: passage for passage in at_hand}
    return tuple(Claim(hop.finding, known.get(hop.passage) or filed.get((hop.question, hop.finding))) for hop in chain)


Judge = Callable[[Outcome], Scores]
"""Scores an outcome, by the gold that it knows."""


def course(outcome: Outcome, wanted: Set[str], found: Set[str]) -> dict[str, float | None]:
    """How an episode went: the share of the gold paragraphs that it found (None without any), whether it answered.

    Both sets hold the paragraphs by what the benchmark knows them by.
    """
    return {
        "evidence_found": len(wanted & found) / len(wanted) if wanted else None,
        "answered": float(bool(outcome.answer)),
        "forced": float(outcome.forced),
    }


# Which passage a claim means, and which other one might bear it out (SDP appendix A.5).

SHORTEST = 4
"""Letters from which a word of a finding counts."""

_WORD = re.compile(r"[^\W_]+")
_SENTENCE = re.compile(r"(?<=[.!?])\s+(?=[^a-z\s])")


def keywords(text: str) -> set[str]:
    """The content words of a text: at least four letters, no stopword."""
    return {word for word in terms(text) if len(word) >= SHORTEST}


def support(finding: str, text: str) -> int:
    """How many of a finding's content words a text has."""
    return len(keywords(finding) & set(terms(text)))


def titled(title: str, finding: str, passages: Sequence[Passage]) -> Passage | None:
    """The passage of a cited title: the same title, else one that holds it or is held by it, upper case aside.

    Several passages may have one title: the one that has most of the finding is meant, the first of equals.
    """
    wanted = title.strip().casefold()
    exact = [passage for passage in passages if passage.title.strip().casefold() == wanted]
    within = [passage for passage in passages if wanted and _within(wanted, passage.title.strip().casefold())]
    return max(exact or within, key=lambda passage: support(finding, passage.text), default=None)


def best_supported(finding: str, passages: Sequence[Passage]) -> Passage | None:
    """The passage with most of a finding's content words, the first of equals; None where none has any."""
    best = max(passages, key=lambda passage: support(finding, passage.text), default=None)
    return best if best and support(finding, best.text) else None


def supporting_sentence(finding: str, sentences: Sequence[str]) -> int:
    """The place, from 0, of the sentence with most of a finding's terms; the first of equals."""
    said = set(terms(finding))
    return max(range(len(sentences)), key=lambda place: len(said & set(terms(sentences[place]))), default=0)


def supporting_sentences(finding: str, sentences: Sequence[str]) -> list[int]:
    """The places, from 0, of the sentences that a finding quotes; where it quotes none, the one with most of its terms.

    Case, punctuation and white space aside. A longer sentence is looked for before a shorter one, and words that one
    sentence accounts for stand for no other: a fragment within a quoted sentence is not quoted by itself.
    """
    said = _words(finding)
    quoted = []
    for place in sorted(range(len(sentences)), key=lambda place: -len(_words(sentences[place]))):
        words = _words(sentences[place])
        if words.strip() and words in said:
            said = said.replace(words, " | ", 1)
            quoted.append(place)
    return sorted(quoted) or ([supporting_sentence(finding, sentences)] if sentences else [])


def sentences_of(text: str) -> list[str]:
    """A text cut after full stops, exclamation and question marks; for texts that come without their sentences."""
    return _SENTENCE.split(text.strip())


def _words(text: str) -> str:
    """The words of a text in lower case, one blank around each."""
    return f" {' '.join(_WORD.findall(text.casefold()))} "


def _within(wanted: str, title: str) -> bool:
    return bool(title) and (wanted in title or title in wanted)


# The world of search agents: it finds passages, files claims, notes answers, and ends when one is handed in.

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
        self._claims = claims_of(chain_of(action.args), self._at_hand(), self._filed)

    def _depth(self, action: Action) -> int:
        asked = _number(action.args.get("k"))
        return min(max(int(asked), 1), MOST_HITS) if asked is not None else self._k


def _said(action: Action, name: str) -> str:
    return str(action.args.get(name) or "")


def _number(value: JsonValue) -> float | None:
    return float(value) if isinstance(value, int | float) else None


# The base of the benchmarks that ask multi-hop questions: tasks, worlds, retrievers, scores and figures.

Q = TypeVar("Q", bound=Question)

CORPUS = "corpus"

Parts = dict[str, float | None]


class QuestionBenchmark(ABC, Generic[Q]):
    """Questions whose paragraphs are at hand, or have to be retrieved from a corpus on disk.

    Args:
        folder: of the question files; None for generated questions.
        config: one of `configurations`, or none.
    """

    answers = True
    plain: ClassVar[str]
    """The name without a configuration."""
    briefing: str
    configurations: tuple[str, ...]
    retrieving: tuple[str, ...] = (CORPUS,)
    """The configurations whose passages have to be found."""
    tools: tuple[str, ...] = (SEARCH, FINISH)
    longest_answer = 100
    """Characters; no answer of HotpotQA or MuSiQue here has more than 70."""

    def __init__(self, folder: Path | None = None, config: str = "") -> None:
        if config and config not in self.configurations:
            known = ", ".join(self.configurations)
            raise UnknownName(f"{self.plain} has no configuration {config!r}; known: {known}")
        self.folder, self.config = folder, config
        self.name = f"{self.plain}:{config}" if config else self.plain
        self.limits = PAPER_LIMITS[self.plain]
        self.retrieves = config in self.retrieving
        self.bank = QuestionBank(self.plain, self.read)
        self._retrievers = Retrievers(self.bank, source=str(folder or self.plain))
        self._expert = Expert(self)

    def ready(self) -> None:
        """Make sure, before any run begins, that a corpus can be searched. Raises Fault("data") without tantivy."""
        if self.retrieves:
            require("a corpus on disk needs", ["tantivy"], "retrieval")

    def tasks(self, split: str = "") -> Sequence[Task]:
        """The tasks of a split, dev or train. Raises UnknownName and Fault as QuestionBank does."""
        return [self._task(question) for question in self.bank.split(split)]

    def task(self, task_id: str) -> Task:
        """One task, of any split. Raises UnknownName whose message lists some valid ids."""
        return self._task(self.bank.question(task_id))

    def open(self, task: Task) -> SearchWorld:
        """The world of a question. Raises Fault ("data") where its paragraphs should be at hand and it has none."""
        question = self.gold(task)
        if not (self.retrieves or question.passages):
            fault = f"question {task.id} comes without paragraphs: retrieve them, with {self.plain}:{CORPUS}"
            raise Fault("data", fault)
        return SearchWorld(
            lambda alpha: self.retriever(task, alpha),
            lambda outcome: self.judged(question, outcome),
            k=self.limits.passages,
            given=() if self.retrieves else question.passages,
        )

    def operators(self) -> Mapping[str, Operator]:
        """SDP's own for multi-hop questions (appendices A.5 and A.6)."""
        return self._operators

    def expert(self) -> Responder | None:
        """Knows the gold answers and paragraphs."""
        return self._expert

    def figures(self, runs: Sequence[tuple[str, Footer]]) -> dict[str, float]:
        """The official figures as fractions (see `figures.rates`); a run without scores counts 0."""
        return rates([self._scored(id_, footer.scores.parts if footer.scores else {}) for id_, footer in runs])

    def rates(self, scores: Sequence[Scored]) -> dict[str, float]:
        """The same of what `score_file` gave."""
        return rates(scores)

    def library(self, task: Task) -> Retriever:
        """Where the passages of a task are read by id."""
        return self.retriever(task, None)

    def retriever(self, task: Task, alpha: float | None) -> Retriever:
        """BM25, mixed with vectors where `alpha` is below 1 (see `Retrievers`)."""
        return self._retrievers.corpus(alpha) if self.retrieves else self._retrievers.pool(task.id, alpha)

    def score_answer(self, task: Task, answer: str) -> Scores:
        """The scores of an answer alone."""
        parts = self.answer_parts(self.gold(task), answer)
        return Scores(value=parts[F1], parts={**parts}, answer=answer)

    def gold(self, task: Task) -> Q:
        """The question behind a task with all that its file knows, for experts, scores and studies."""
        return self.bank.question(task.id)

    def judged(self, question: Q, outcome: Outcome) -> Scores:
        """The scores of an episode: of its answer, of the support that its claims stand on, and how it went."""
        parts = self.parts(question, outcome)
        wanted = {self.key(hop.passage) for hop in question.hops}
        parts |= course(outcome, wanted, {self.key(passage) for passage in outcome.found})
        return Scores(value=parts[F1] or 0.0, parts=parts, answer=outcome.answer)

    def key(self, passage: Passage) -> str:
        """What a paragraph is known by in whatever corpus it is found."""
        return f"{passage.title}\n{passage.text}"

    @abstractmethod
    def read(self, split: str) -> Mapping[str, Q]:
        """The questions of a split by id."""

    @abstractmethod
    def answer_parts(self, question: Q, answer: str) -> dict[str, float]:
        """The official scores of an answer."""

    @abstractmethod
    def parts(self, question: Q, outcome: Outcome) -> Parts:
        """The official scores of an answer and of the support predicted with it; None where none was."""

    @cached_property
    def _operators(self) -> Mapping[str, Operator]:
        return operators(self)

    def _task(self, question: Q) -> Task:
        return Task(benchmark=self.name, id=question.id, goal=question.text)

    def _scored(self, task_id: str, parts: Mapping[str, Any]) -> Scored:
        return Scored(self.bank.question(task_id).kind, parts)
