"""Base classes of the benchmarks that ask multi-hop questions, and of their world.

`SearchWorld` is the world of one question, `QuestionBenchmark` the base class of the benchmarks HotpotQA, MuSiQue and
others that search passages.
"""

import re
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence, Set
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

from pydantic import JsonValue

from certigraph.adapters.processes import check_packages
from certigraph.adapters.protocols import PAPER_LIMITS, Benchmark, Environment, Operator, Responder
from certigraph.adapters.qa.expert import GoldExpert
from certigraph.adapters.qa.operators import create_operators
from certigraph.adapters.qa.questions import MultiHopQuestion, QuestionBank, Retrievers
from certigraph.adapters.qa.scoring import F1, ScoredQuestion, answer_figures
from certigraph.adapters.retrieval.bm25 import Retriever, terms
from certigraph.state.records import Action, Fault, Observation, Scores, Task, UnknownName
from certigraph.state.run import ANSWER, CLAIM, FINISH, RETRIEVED, SEARCH, parse_action
from certigraph.state.search import HopFinding, Passage, chain_of, create_refusal, to_line, to_observation
from certigraph.state.trajectory import Footer

# Result of an episode of a search world.


class Claim(NamedTuple):
    """A finding for a sub-question, and the passage that supports it, if one could be identified."""

    finding: str
    passage: Passage | None


class SearchOutcome(NamedTuple):
    """Result of an episode, for a benchmark to score."""

    answer: str | None
    """The submitted answer, else the one noted last."""
    forced: bool
    claims: tuple[Claim, ...]
    """The certified claims behind the answer, in the order of its chain."""
    retrieved: tuple[Passage, ...]
    """Passages that searches returned; after the first claim also the given ones, which were read for it."""


def claims_of(
    chain: Sequence[HopFinding], at_hand: Sequence[Passage], filed: Mapping[tuple[str, str], Passage | None]
) -> tuple[Claim, ...]:
    """Return the claims of a certified chain, each with the passage verified for it, else the one it was claimed from.

    Args:
        chain: the certified hops.
        at_hand: passages that the agent could see.
        filed: passage that each claim was taken from, by sub-question and finding.
    """
    by_id = {passage.id: passage for passage in at_hand}
    return tuple(Claim(hop.finding, by_id.get(hop.passage) or filed.get((hop.question, hop.finding))) for hop in chain)


Judge = Callable[[SearchOutcome], Scores]
"""Function that scores an outcome by the gold it knows."""


def episode_figures(outcome: SearchOutcome, wanted: Set[str], found: Set[str]) -> dict[str, float | None]:
    """Return how an episode went: whether it answered, and the share of the gold paragraphs that it found.

    Both sets hold the keys of paragraphs (`QuestionBenchmark.key`). The share is None if there are no gold paragraphs.
    """
    return {
        "evidence_found": len(wanted & found) / len(wanted) if wanted else None,
        "answered": float(bool(outcome.answer)),
        "forced": float(outcome.forced),
    }


# Finding the passage that a claim cites, and another one that may support it (SDP appendix A.5).

MIN_KEYWORD_LENGTH = 4
"""Minimum number of letters of a content word."""

_WORD = re.compile(r"[^\W_]+")
_SENTENCE = re.compile(r"(?<=[.!?])\s+(?=[^a-z\s])")


def keywords(text: str) -> set[str]:
    """Return the content words of a text: words of at least four letters that are no stopwords."""
    return {word for word in terms(text) if len(word) >= MIN_KEYWORD_LENGTH}


def count_support(finding: str, text: str) -> int:
    """Return how many of a finding's content words a text contains."""
    return len(keywords(finding) & set(terms(text)))


def find_by_title(title: str, finding: str, passages: Sequence[Passage]) -> Passage | None:
    """Return the passage with a cited title, or None.

    Upper and lower case count the same. Without an exact match, titles that contain the cited one or are contained in
    it match. Of several matches the one with most of the finding is returned, the first among equals.
    """
    wanted = title.strip().casefold()
    exact = [passage for passage in passages if passage.title.strip().casefold() == wanted]
    within = [passage for passage in passages if wanted and _is_similar_title(wanted, passage.title.strip().casefold())]
    return max(exact or within, key=lambda passage: count_support(finding, passage.text), default=None)


def find_best_support(finding: str, passages: Sequence[Passage]) -> Passage | None:
    """Return the passage with most of a finding's content words, the first among equals; None if none has any."""
    best = max(passages, key=lambda passage: count_support(finding, passage.text), default=None)
    return best if best and count_support(finding, best.text) else None


def find_supporting_sentence(finding: str, sentences: Sequence[str]) -> int:
    """Return the index of the sentence with most of a finding's terms, the first among equals."""
    wanted = set(terms(finding))
    return max(range(len(sentences)), key=lambda index: len(wanted & set(terms(sentences[index]))), default=0)


def find_supporting_sentences(finding: str, sentences: Sequence[str]) -> list[int]:
    """Return the indices of the sentences that a finding quotes.

    If it quotes none, the result is the sentence with most of its terms. Case, punctuation and white space are ignored.
    Longer sentences are matched first, and matched words are used up: a fragment within a quoted sentence does not
    count as a quotation of another.
    """
    text = _spaced_words(finding)
    quoted = []
    for index in sorted(range(len(sentences)), key=lambda index: -len(_spaced_words(sentences[index]))):
        sentence = _spaced_words(sentences[index])
        if sentence.strip() and sentence in text:
            text = text.replace(sentence, " | ", 1)
            quoted.append(index)
    return sorted(quoted) or ([find_supporting_sentence(finding, sentences)] if sentences else [])


def split_sentences(text: str) -> list[str]:
    """Split a text after full stops, exclamation and question marks, for texts that come without their sentences."""
    return _SENTENCE.split(text.strip())


def _spaced_words(text: str) -> str:
    """Return the words of a text in lower case, with one blank around each."""
    return f" {' '.join(_WORD.findall(text.casefold()))} "


def _is_similar_title(wanted: str, title: str) -> bool:
    return bool(title) and (wanted in title or title in wanted)


# The world of search agents: it searches passages, records claims, notes answers, and ends when one is submitted.

MAX_HITS = 100
"""Maximum number of passages per search."""

SearchTool = Callable[[Action], Observation]
"""Function that carries out one kind of action."""


class SearchWorld(Environment):
    """World of one question.

    The agent never learns whether an answer is right: there is no reward, and `solved` stays False.
    """

    concurrent = True

    def __init__(
        self, retriever: Callable[[float | None], Retriever], judge: Judge, *, k: int, given: Sequence[Passage] = ()
    ) -> None:
        """Create a world over a retriever.

        Args:
            retriever: returns the retriever for a weight of BM25 against vectors; None means the benchmark's own
                mixture.
            judge: scores an outcome.
            k: default number of passages per search.
            given: passages that are visible from the start.
        """
        self._retriever, self._judge, self._k, self._given = retriever, judge, k, tuple(given)
        self._clear()

    def reset(self) -> Observation:
        """Start an episode in which nothing has been searched, claimed or answered."""
        self._clear()
        return Observation(text=f"{len(self._given) or 'No'} passages are at hand.")

    def step(self, action: Action) -> Observation:
        """Use a tool; refuse an unknown one, or a search without results, with the reason.

        The observation's `data` repeats the tool and its arguments, because a validator sees nothing else of the
        action.
        """
        parsed_action, tools = parse_action(action), self._tools()
        if parsed_action is None or parsed_action.kind not in tools:
            known = ", ".join(f"{name}[...]" for name in tools if name not in (CLAIM, ANSWER))
            return create_refusal(f"{action.text[:100]!r} is no action here; write one of {known}")
        observation = tools[parsed_action.kind](parsed_action)
        return observation.model_copy(
            update={"data": {"tool": parsed_action.kind, **parsed_action.args, **observation.data}}
        )

    def view(self) -> str:
        """Return the titles of the visible passages, one per line."""
        return "\n".join(to_line(passage.title) for passage in self._visible())

    def sources(self) -> tuple[str, ...]:
        """Return the ids of the visible passages, in order."""
        return tuple(passage.id for passage in self._visible())

    def admissible(self) -> None:
        """Return None: any words can be searched for."""

    def score(self) -> Scores:
        """Return the benchmark's score of the episode so far."""
        return self._judge(self.outcome())

    def outcome(self) -> SearchOutcome:
        """Return the result of the episode so far."""
        passages = self._visible() if self._claimed else [*self._retrieved.values()]
        return SearchOutcome(self._answer, self._forced, self._claims, tuple(passages))

    def close(self) -> None:
        """Do nothing: retrievers are shared between episodes."""

    def _tools(self) -> Mapping[str, SearchTool]:
        return {SEARCH: self._search, CLAIM: self._claim, ANSWER: self._note, FINISH: self._finish}

    def _clear(self) -> None:
        self._retrieved: dict[str, Passage] = {}
        self._claimed: dict[tuple[str, str], Passage | None] = {}
        """The passage that a claim is taken from, by sub-question and finding."""
        self._claims: tuple[Claim, ...] = ()
        self._answer: str | None = None
        self._forced = False

    def _visible(self) -> list[Passage]:
        return list({passage.id: passage for passage in (*self._given, *self._retrieved.values())}.values())

    def _search(self, action: Action) -> Observation:
        query = _text_argument(action, "query")
        if not terms(query):
            return create_refusal(f"There is nothing to look for in {query[:100]!r}: name what you look for.")
        retriever = self._retriever(_to_number(action.args.get("alpha")))
        passages = [hit.passage for hit in retriever.search(query, self._depth(action))]
        if not passages:
            return create_refusal(f"No passage has a word of {query[:100]!r}: search in other words.")
        return self._show(passages, retriever.name)

    def _show(self, passages: Sequence[Passage], retriever: str) -> Observation:
        self._retrieved |= {passage.id: passage for passage in passages if passage.id not in self._retrieved}
        return to_observation(passages, retriever=retriever)

    def _claim(self, action: Action) -> Observation:
        finding, cited = _text_argument(action, "finding"), _text_argument(action, "title")
        visible = self._visible()
        if not visible:
            return create_refusal("No passage is at hand that could bear out a claim: search first.")
        resolved = find_by_title(cited, f"{finding} {_text_argument(action, 'entity')}", visible)
        alternative = find_best_support(finding, [passage for passage in visible if passage != resolved])
        self._claimed[_text_argument(action, "subquestion"), finding] = resolved or alternative
        supporting = [passage for passage in (resolved, alternative) if passage]
        none = "" if supporting else f"No passage at hand is titled {cited[:100]!r} or has a word of the finding."
        return to_observation(supporting, none, resolved=resolved is not None, cited=cited)

    def _note(self, action: Action) -> Observation:
        self._take_answer(action)
        return Observation(text=f"Noted: {self._answer}")

    def _finish(self, action: Action) -> Observation:
        self._take_answer(action)
        return Observation(text=f"Handed in: {self._answer}", done=True)

    def _take_answer(self, action: Action) -> None:
        """Take over an answer with its claims and the passages that were retrieved for it in other worlds."""
        self._answer, self._forced = _text_argument(action, "answer"), "forced" in action.args
        elsewhere = action.args.get(RETRIEVED)
        for id_ in elsewhere if isinstance(elsewhere, list) else ():
            self._retrieved.setdefault(str(id_), self._retriever(None).passage(str(id_)))
        self._claims = claims_of(chain_of(action.args), self._visible(), self._claimed)

    def _depth(self, action: Action) -> int:
        wanted = _to_number(action.args.get("k"))
        return min(max(int(wanted), 1), MAX_HITS) if wanted is not None else self._k


def _text_argument(action: Action, name: str) -> str:
    return str(action.args.get(name) or "")


def _to_number(value: JsonValue) -> float | None:
    return float(value) if isinstance(value, int | float) else None


# Base class of the benchmarks that ask multi-hop questions: tasks, worlds, retrievers, scores and figures.

Q = TypeVar("Q", bound=MultiHopQuestion)

CORPUS = "corpus"
"""Configuration in which passages are retrieved from a corpus on disk."""

ScoreParts = dict[str, float | None]
"""Parts of a score by name; None if a part does not apply."""


class QuestionBenchmark(Benchmark, Generic[Q]):
    """A benchmark of questions whose paragraphs are given, or have to be retrieved from a corpus on disk.

    Args:
        folder: folder of the question files; None for generated questions.
        config: one of `configurations`; empty for the plain benchmark.
    """

    answers = True
    plain: ClassVar[str]
    """Name without a configuration."""
    briefing: str
    configurations: tuple[str, ...]
    retrieval_configurations: tuple[str, ...] = (CORPUS,)
    """Configurations whose passages have to be retrieved."""
    tools: tuple[str, ...] = (SEARCH, FINISH)
    longest_answer = 100
    """Maximum characters of an answer; no gold answer of HotpotQA or MuSiQue in our files has more than 70."""

    def __init__(self, folder: Path | None = None, config: str = "") -> None:
        if config and config not in self.configurations:
            known = ", ".join(self.configurations)
            raise UnknownName(f"{self.plain} has no configuration {config!r}; known: {known}")
        self.folder, self.config = folder, config
        self.name = f"{self.plain}:{config}" if config else self.plain
        self.limits = PAPER_LIMITS[self.plain]
        self.retrieves = config in self.retrieval_configurations
        self.bank = QuestionBank(self.plain, self.read)
        self._retrievers = Retrievers(self.bank, source=str(folder or self.plain))
        self._expert = GoldExpert(self)

    def ready(self) -> None:
        """Check before any run starts that a corpus can be searched.

        Raises:
            Fault: ("data") tantivy is not installed.
        """
        if self.retrieves:
            check_packages("a corpus on disk needs", ["tantivy"], "retrieval")

    def tasks(self, split: str = "") -> Sequence[Task]:
        """Return the tasks of a split, dev or train.

        Raises:
            UnknownName, Fault: as QuestionBank.
        """
        return [self._task(question) for question in self.bank.split(split)]

    def task(self, task_id: str) -> Task:
        """Return one task of any split.

        Raises:
            UnknownName: there is no such task; the message lists some valid ids.
        """
        return self._task(self.bank.question(task_id))

    def open(self, task: Task) -> SearchWorld:
        """Create the world of a question.

        Raises:
            Fault: ("data") its paragraphs should be given and it has none.
        """
        question = self.gold(task)
        if not (self.retrieves or question.passages):
            message = f"question {task.id} comes without paragraphs: retrieve them, with {self.plain}:{CORPUS}"
            raise Fault("data", message)
        return SearchWorld(
            lambda alpha: self.retriever(task, alpha),
            lambda outcome: self.score_outcome(question, outcome),
            k=self.limits.passages,
            given=() if self.retrieves else question.passages,
        )

    def operators(self) -> Mapping[str, Operator]:
        """Return SDP's operators for multi-hop questions (appendices A.5 and A.6)."""
        return self._operators

    def expert(self) -> Responder | None:
        """Return the scripted model that knows the gold answers and paragraphs."""
        return self._expert

    def figures(self, runs: Sequence[tuple[str, Footer]]) -> dict[str, float]:
        """Return the official figures as fractions (see `answer_figures`); a run without scores counts 0."""
        return answer_figures([self._scored(id_, footer.scores.parts if footer.scores else {}) for id_, footer in runs])

    def rates(self, scores: Sequence[ScoredQuestion]) -> dict[str, float]:
        """Return the same figures for the scores of a file of predictions (`score_file`)."""
        return answer_figures(scores)

    def library(self, task: Task) -> Retriever:
        """Return the retriever that gives the passages of a task by id."""
        return self.retriever(task, None)

    def retriever(self, task: Task, alpha: float | None) -> Retriever:
        """Return BM25, mixed with vectors if `alpha` is below 1 (see `Retrievers`)."""
        return self._retrievers.corpus(alpha) if self.retrieves else self._retrievers.pool(task.id, alpha)

    def score_answer(self, task: Task, answer: str) -> Scores:
        """Score an answer alone."""
        parts = self.answer_parts(self.gold(task), answer)
        return Scores(value=parts[F1], parts={**parts}, answer=answer)

    def gold(self, task: Task) -> Q:
        """Return the question of a task with everything its file contains, for experts, scores and studies."""
        return self.bank.question(task.id)

    def score_outcome(self, question: Q, outcome: SearchOutcome) -> Scores:
        """Score an episode: its answer, the support of its claims, and how it went."""
        parts = self.parts(question, outcome)
        wanted = {self.key(hop.passage) for hop in question.hops}
        parts |= episode_figures(outcome, wanted, {self.key(passage) for passage in outcome.retrieved})
        return Scores(value=parts[F1] or 0.0, parts=parts, answer=outcome.answer)

    def key(self, passage: Passage) -> str:
        """Return the key of a paragraph, which is the same in every corpus that contains it."""
        return f"{passage.title}\n{passage.text}"

    @abstractmethod
    def read(self, split: str) -> Mapping[str, Q]:
        """Read the questions of a split, by id."""

    @abstractmethod
    def answer_parts(self, question: Q, answer: str) -> dict[str, float]:
        """Return the official scores of an answer."""

    @abstractmethod
    def parts(self, question: Q, outcome: SearchOutcome) -> ScoreParts:
        """Return the official scores of an answer and of the support predicted with it; None where none was."""

    @cached_property
    def _operators(self) -> Mapping[str, Operator]:
        return create_operators(self)

    def _task(self, question: Q) -> Task:
        return Task(benchmark=self.name, id=question.id, goal=question.text)

    def _scored(self, task_id: str, parts: Mapping[str, Any]) -> ScoredQuestion:
        return ScoredQuestion(self.bank.question(task_id).kind, parts)
