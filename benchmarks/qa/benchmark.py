"""Base classes of the benchmarks that ask multi-hop questions, and of their worlds.

`SearchWorld` is the environment in which an agent answers one question. `QuestionBenchmark` is the base class of
HotpotQA, MuSiQue and other benchmarks that search passages.
"""

import re
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence, Set
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

from pydantic import JsonValue

from certigraph.adapters.benchmarks import check_configuration
from certigraph.adapters.extras import check_packages
from certigraph.adapters.protocols import Benchmark, Environment, Operator, Responder
from certigraph.adapters.retrieval.answers import F1, ScoredQuestion, answer_figures
from certigraph.adapters.retrieval.bm25 import Retriever, terms
from certigraph.adapters.retrieval.reranker import DEFAULT_CANDIDATES, Reranked, load_reranker
from certigraph.benchmarks.qa.expert import GoldExpert
from certigraph.benchmarks.qa.operators import create_operators
from certigraph.benchmarks.qa.questions import MultiHopQuestion, QuestionBank, Retrievers
from certigraph.state.endings import Fault
from certigraph.state.records import Action, Observation, Scores, Task
from certigraph.state.run import ANSWER, CLAIM, FINISH, RETRIEVED, SEARCH, parse_action
from certigraph.state.search import HopFinding, Passage, chain_of, create_refusal, to_line, to_observation
from certigraph.state.trajectory import Footer

# Result of an episode in a search world.


class Claim(NamedTuple):
    """A finding for a sub-question, and the passage that supports it; None if no passage could be identified."""

    finding: str
    passage: Passage | None


class SearchOutcome(NamedTuple):
    """Result of an episode, which a benchmark scores."""

    answer: str | None
    """The submitted answer, else the answer noted last."""
    forced: bool
    """Whether something other than the agent decided to submit the answer."""
    claims: tuple[Claim, ...]
    """The certified claims from which the answer follows, in order."""
    retrieved: tuple[Passage, ...]
    """Passages that searches returned. After the first claim, the passages given with the question count too."""


def claims_of(
    chain: Sequence[HopFinding], at_hand: Sequence[Passage], filed: Mapping[tuple[str, str], Passage | None]
) -> tuple[Claim, ...]:
    """Return the claims of a certified chain of hops, each with the passage that supports it.

    It is the passage with which a validator verified the claim, else the passage from which the agent took it.

    Args:
        chain: the certified hops.
        at_hand: passages that the agent could see.
        filed: passage from which each claim was taken, by sub-question and finding.
    """
    by_id = {passage.id: passage for passage in at_hand}
    return tuple(Claim(hop.finding, by_id.get(hop.passage) or filed.get((hop.question, hop.finding))) for hop in chain)


Judge = Callable[[SearchOutcome], Scores]
"""Function that scores the outcome of an episode by the gold answer."""


def episode_figures(outcome: SearchOutcome, wanted: Set[str], found: Set[str]) -> dict[str, float | None]:
    """Return metrics of an episode: whether it has an answer, and the share of the gold paragraphs that it found.

    Args:
        outcome: result of the episode.
        wanted: keys of the gold paragraphs (`QuestionBenchmark.key`). If there are none, the share is None.
        found: keys of the paragraphs that searches returned.
    """
    return {
        "evidence_found": len(wanted & found) / len(wanted) if wanted else None,
        "answered": float(bool(outcome.answer)),
        "forced": float(outcome.forced),
    }


# Finding the passage that a claim cites, and another passage that may support the claim (SDP appendix A.5).

MIN_KEYWORD_LENGTH = 4
"""Minimum number of characters of a content word."""

_WORD = re.compile(r"[^\W_]+")
_SENTENCE = re.compile(r"(?<=[.!?])\s+(?=[^a-z\s])")


def keywords(text: str) -> set[str]:
    """Return the content words of a text: words of at least four characters that are not stopwords."""
    return {word for word in terms(text) if len(word) >= MIN_KEYWORD_LENGTH}


def count_support(finding: str, text: str) -> int:
    """Return how many of a finding's content words a text contains."""
    return len(keywords(finding) & set(terms(text)))


def find_by_title(title: str, finding: str, passages: Sequence[Passage]) -> Passage | None:
    """Return the passage with a cited title, or None.

    Case is ignored. If no title is equal, titles that contain the cited one or are contained in it match. Of several
    matches, the passage with most of the finding's content words is returned, the first among equals.
    """
    wanted = title.strip().casefold()
    exact = [passage for passage in passages if passage.title.strip().casefold() == wanted]
    within = [passage for passage in passages if wanted and _is_similar_title(wanted, passage.title.strip().casefold())]
    return max(exact or within, key=lambda passage: count_support(finding, passage.text), default=None)


def find_best_support(finding: str, passages: Sequence[Passage]) -> Passage | None:
    """Return the passage with most of a finding's content words, the first among equals; None if no passage has one."""
    best = max(passages, key=lambda passage: count_support(finding, passage.text), default=None)
    return best if best and count_support(finding, best.text) else None


def find_supporting_sentence(finding: str, sentences: Sequence[str]) -> int:
    """Return the index of the sentence with most of a finding's terms, the first among equals."""
    wanted = set(terms(finding))
    return max(range(len(sentences)), key=lambda index: len(wanted & set(terms(sentences[index]))), default=0)


def find_supporting_sentences(finding: str, sentences: Sequence[str]) -> list[int]:
    """Return the indices of the sentences that a finding quotes.

    If the finding quotes none, the result is the sentence with most of its terms. Case, punctuation and white space are
    ignored. Longer sentences are matched first, and matched words are used up, so that a part of a quoted sentence does
    not count as a quotation of another sentence.
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
    """Split a text into sentences, after full stops, exclamation marks and question marks."""
    return _SENTENCE.split(text.strip())


def _spaced_words(text: str) -> str:
    """Return the words of a text in lower case, separated and surrounded by single spaces."""
    return f" {' '.join(_WORD.findall(text.casefold()))} "


def _is_similar_title(wanted: str, title: str) -> bool:
    return bool(title) and (wanted in title or title in wanted)


# The world of search agents: it searches passages, records claims and answers, and ends when an answer is submitted.

MAX_HITS = 100
"""Maximum number of passages per search."""

SearchTool = Callable[[Action], Observation]
"""Function that carries out one kind of action and returns the observation."""


class SearchWorld(Environment):
    """Environment in which an agent searches passages and answers one question.

    The agent never learns whether an answer is right: there is no reward, and `solved` stays False.
    """

    concurrent = True

    def __init__(
        self, retriever: Callable[[float | None], Retriever], judge: Judge, *, k: int, given: Sequence[Passage] = ()
    ) -> None:
        """Create a world whose passages a retriever finds.

        Args:
            retriever: function that returns the retriever for a weight of BM25 against sentence vectors; the weight
                None means the benchmark's default.
            judge: function that scores the outcome of an episode.
            k: default number of passages per search.
            given: passages that come with the question and are visible from the start.
        """
        self._retriever, self._judge, self._k, self._given = retriever, judge, k, tuple(given)
        self._clear()

    def reset(self) -> Observation:
        """Start an episode in which nothing has been searched, claimed or answered."""
        self._clear()
        return Observation(text=f"{len(self._given) or 'No'} passages are at hand.")

    def step(self, action: Action) -> Observation:
        """Carry out an action, which names a tool and its arguments.

        An unknown tool, or a search without results, is refused with the reason. The observation's `data` repeats the
        tool and its arguments, because a validator sees nothing else of the action.
        """
        parsed_action, tools = parse_action(action), self._tools()
        if parsed_action is None or parsed_action.kind not in tools:
            known = ", ".join(f"{name}[...]" for name in tools if name not in (CLAIM, ANSWER))
            return create_refusal(f"{action.text[:100]!r} is not an action here; write one of {known}")
        observation = tools[parsed_action.kind](parsed_action)
        return observation.model_copy(
            update={"data": {"tool": parsed_action.kind, **parsed_action.args, **observation.data}}
        )

    def view(self) -> str:
        """Return the titles of the visible passages, one per line, under a line that says what they are."""
        titles = [to_line(passage.title) for passage in self._visible()]
        return "\n".join(["Titles of the passages at hand:", *titles]) if titles else "No passage is at hand yet."

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
        """The passage from which a claim was taken, by sub-question and finding."""
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
        if model := _text_argument(action, "rerank"):
            candidates = _to_number(action.args.get("candidates"))
            reranker = load_reranker(model)
            retriever = Reranked(retriever, reranker, candidates=int(candidates or DEFAULT_CANDIDATES))
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
        """Store the answer of an action, its claims, and the passages that the worlds of sub-tasks retrieved for it."""
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


# Base class of the benchmarks that ask multi-hop questions: tasks, worlds, retrievers, scores and metrics.

Q = TypeVar("Q", bound=MultiHopQuestion)

CORPUS = "corpus"
"""Name of the configuration in which passages are retrieved from a corpus on disk."""

PAPER, CORPUS_PAPER = "paper", "corpus-paper"
"""Names of the configurations in which a model does not check answers, as in the SDP paper (appendix A.5)."""

ScoreParts = dict[str, float | None]
"""Parts of a question's score by name, such as "em"; None if a part does not apply."""


class QuestionBenchmark(Benchmark, Generic[Q]):
    """Base class of benchmarks of questions whose paragraphs are given, or have to be retrieved from a corpus on disk.

    Args:
        data: folder of the question files; None for generated questions.
        config: one of `configurations`; empty for the plain benchmark.
    """

    answers = True
    reranks = True
    plain: ClassVar[str]
    """Name of the benchmark without a configuration."""
    briefing: str
    material: str
    """What the passages are, and what an answer looks like: `briefing` without the actions."""
    configurations: tuple[str, ...]
    retrieval_configurations: tuple[str, ...] = (CORPUS,)
    """Configurations whose passages have to be retrieved."""
    tools: tuple[str, ...] = (SEARCH, FINISH)
    longest_answer = 100
    """Maximum characters of an answer; no gold answer of HotpotQA or MuSiQue in our files has more than 70."""

    def __init__(self, data: Path | None = None, config: str = "") -> None:
        check_configuration(self.plain, config, self.configurations)
        self.folder, self.config = data, config
        self.name = f"{self.plain}:{config}" if config else self.plain
        self.limits = self.configured_limits.get(config, self.limits)
        self.retrieves = config in self.retrieval_configurations
        self.bank = QuestionBank(self.plain, self.read)
        self._retrievers = Retrievers(self.bank, source=str(data or self.plain))
        self._expert = GoldExpert(self)

    def ready(self) -> None:
        """Check, before any run starts, that a corpus can be searched if the configuration needs one.

        Raises:
            Fault: ("data") tantivy is not installed.
        """
        if self.retrieves:
            check_packages("a corpus on disk needs", ["tantivy"], "retrieval")

    def tasks(self, split: str = "") -> Sequence[Task]:
        """Return the tasks of a split: dev (the default) or train.

        Raises:
            UnknownName, Fault: as `QuestionBank.split` raises.
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
            Fault: ("data") the configuration needs the question's own paragraphs, and the question has none.
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
        """Return the operators for multi-hop questions by slot (SDP appendices A.5 and A.6)."""
        return self._operators

    def expert(self) -> Responder | None:
        """Return the scripted expert, which knows the gold answers and paragraphs."""
        return self._expert

    def figures(self, runs: Sequence[tuple[str, Footer]]) -> dict[str, float]:
        """Return the benchmark's metrics over many runs, as fractions (see `answer_figures`).

        A run without scores counts 0.

        Args:
            runs: for each run, the id of its task and the footer of its trajectory, which has the scores.
        """
        return answer_figures([self._scored(id_, footer.scores.parts if footer.scores else {}) for id_, footer in runs])

    def rates(self, scores: Sequence[ScoredQuestion]) -> dict[str, float]:
        """Return the same metrics for the scores of a file of predictions (`score_file`)."""
        return answer_figures(scores)

    def library(self, task: Task) -> Retriever:
        """Return the retriever from which the passages of a task can be got by id."""
        return self.retriever(task, None)

    def retriever(self, task: Task, alpha: float | None) -> Retriever:
        """Return the retriever of a task: BM25, combined with sentence vectors if `alpha` is below 1 (`Retrievers`)."""
        return self._retrievers.corpus(alpha) if self.retrieves else self._retrievers.pool(task.id, alpha)

    def score_answer(self, task: Task, answer: str) -> Scores:
        """Score an answer alone, without claims that support it."""
        parts = self.answer_parts(self.gold(task), answer)
        return Scores(value=parts[F1], parts={**parts}, answer=answer)

    def gold(self, task: Task) -> Q:
        """Return the question of a task with its gold answer and gold paragraphs, for the expert and for scoring."""
        return self.bank.question(task.id)

    def score_outcome(self, question: Q, outcome: SearchOutcome) -> Scores:
        """Score an episode: its answer, the paragraphs behind its claims, and the metrics of `episode_figures`."""
        parts = self.parts(question, outcome)
        wanted = {self.key(hop.passage) for hop in question.hops}
        parts |= episode_figures(outcome, wanted, {self.key(passage) for passage in outcome.retrieved})
        return Scores(value=parts[F1] or 0.0, parts=parts, answer=outcome.answer)

    def key(self, passage: Passage) -> str:
        """Return the key of a paragraph, which is the same in every corpus that contains the paragraph."""
        return f"{passage.title}\n{passage.text}"

    @abstractmethod
    def read(self, split: str) -> Mapping[str, Q]:
        """Read the questions of a split, by id."""

    @abstractmethod
    def answer_parts(self, question: Q, answer: str) -> dict[str, float]:
        """Return the official scores of an answer by name."""

    @abstractmethod
    def parts(self, question: Q, outcome: SearchOutcome) -> ScoreParts:
        """Return the official scores of an episode: of its answer and of the supporting paragraphs behind its claims.

        Scores of the support are None or missing if the episode has no claims.
        """

    @cached_property
    def _operators(self) -> Mapping[str, Operator]:
        return create_operators(self, checks_answers=self.config not in (PAPER, CORPUS_PAPER))

    def _task(self, question: Q) -> Task:
        return Task(benchmark=self.name, id=question.id, goal=question.text)

    def _scored(self, task_id: str, parts: Mapping[str, Any]) -> ScoredQuestion:
        return ScoredQuestion(self.bank.question(task_id).kind, parts)
