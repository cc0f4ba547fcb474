"""HotpotQA: question files, official scores, an interactive world, and the benchmark."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence, Set
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from pydantic import BaseModel, Field

from certigraph.adapters.files import JsonRow, read_json, read_rows, validate_row, warn_of_partial_answers
from certigraph.adapters.protocols import Limits
from certigraph.adapters.retrieval.answers import (
    NO_OVERLAP,
    Overlap,
    ScoredQuestion,
    add_f1,
    exact_match,
    normalise_answer,
    set_overlap,
)
from certigraph.adapters.retrieval.answers import token_overlap as any_overlap
from certigraph.adapters.retrieval.bm25 import PassageHit, Retriever, words
from certigraph.adapters.retrieval.sources import passage_of_text
from certigraph.benchmarks.qa.benchmark import (
    CORPUS,
    CORPUS_PAPER,
    PAPER,
    Claim,
    Judge,
    QuestionBenchmark,
    ScoreParts,
    SearchOutcome,
    SearchTool,
    SearchWorld,
    find_supporting_sentences,
    split_sentences,
)
from certigraph.benchmarks.qa.questions import (
    GoldHop,
    IdentifiedRow,
    MultiHopQuestion,
    distinct_passages,
    find_question_file,
    validate_rows,
)
from certigraph.state.endings import Fault, UnknownName
from certigraph.state.records import Action, Observation, Task
from certigraph.state.run import FINISH, SEARCH
from certigraph.state.search import Passage, create_refusal, to_observation

# Questions in HotpotQA's official layout (facts/qa_scoring.md, section 1.1).

FILE_NAMES = {
    "dev": ("dev_distractor", "hotpot_dev_distractor_v1", "hotpot_dev_fullwiki_v1"),
    "train": ("train_distractor", "hotpot_train_v1.1"),
}
"""Names of the question files by split, without suffix; the publishers' own names come last."""

SAMPLE = Path(__file__).with_name("sample")
"""Folder with twenty invented questions per split, half of them comparisons, which are used if there are no data."""

SupportingFact = tuple[str, int]
"""A supporting sentence: the title of its paragraph, and its index in the paragraph, from 0."""


class HotpotQuestion(MultiHopQuestion):
    """A question of HotpotQA; `kind` is its type, "bridge" or "comparison"."""

    facts: frozenset[SupportingFact]
    """The gold supporting sentences."""
    sentences: dict[str, tuple[str, ...]]
    """Sentences of the question's paragraphs, by title."""


class _Official(IdentifiedRow):
    id: str = Field(alias="_id")
    question: str = Field(min_length=1)
    answer: str
    type: str = "untyped"
    supporting_facts: tuple[SupportingFact, ...] = ()
    context: tuple[tuple[str, list[str]], ...] = ()


def read_questions(folder: Path, split: str) -> dict[str, HotpotQuestion]:
    """Read the questions of a split by id, in the order of the file.

    Raises:
        Fault: ("data") the file is missing, a row is malformed, or two rows have the same id. The message names file
            and line.
    """
    return parse_questions(read_rows(find_question_file("hotpotqa", folder, FILE_NAMES[split])))


def parse_questions(rows: Iterable[JsonRow]) -> dict[str, HotpotQuestion]:
    """Convert rows in HotpotQA's official layout to questions by id.

    Raises:
        Fault: as `read_questions`.
    """
    parsed_rows = validate_rows(_Official, rows)
    return {official.id: _question(official) for _, official in parsed_rows}


def _question(official: _Official) -> HotpotQuestion:
    sentences = {title: tuple(texts) for title, texts in official.context}
    return HotpotQuestion(
        id=official.id,
        text=" ".join(official.question.split()),
        answers=(official.answer,),
        kind=official.type,
        passages=tuple(distinct_passages((title, "".join(texts)) for title, texts in official.context).values()),
        hops=_hops(official, sentences),
        facts=frozenset(official.supporting_facts),
        sentences=sentences,
    )


def _hops(official: _Official, sentences: dict[str, tuple[str, ...]]) -> tuple[GoldHop, ...]:
    """Return the gold hops of a question, one per supporting paragraph.

    The paragraph that contains the answer comes last. The answer of an earlier hop is the title of the next paragraph.
    """
    titles = list(dict.fromkeys(title for title, _ in official.supporting_facts))
    findings = {title: _finding(official, title, sentences.get(title, ())) for title in titles}
    titles.sort(key=lambda title: official.answer.casefold() in findings[title].casefold())
    entities = [*titles[1:], official.answer]
    return tuple(
        GoldHop(
            question=f"What does {title} say that bears on the question?",
            answer=entity,
            passage=passage_of_text(title, "".join(sentences.get(title, ()))),
            finding=findings[title],
        )
        for title, entity in zip(titles, entities, strict=False)
    )


def _finding(official: _Official, title: str, sentences: Sequence[str]) -> str:
    """Return the supporting sentences of a paragraph as one text; its title if the question file lacks them."""
    indices = {index for name, index in official.supporting_facts if name == title and 0 <= index < len(sentences)}
    return " ".join(sentences[index].strip() for index in sorted(indices)) or title


# HotpotQA's official scores of an answer, of its supporting facts, and of both together (hotpot_evaluate_v1).

UNIT_ANSWERS = {"yes", "no", "noanswer"}
"""Answers that are compared as a whole: they share no token with a different answer."""

HotpotScores = dict[str, float]
"""Scores by name."""


def hotpot_overlap(answer: str, gold: str) -> Overlap:
    """Return precision, recall and F1 of tokens; all 0 if the answers differ and one is yes, no or noanswer."""
    first, second = normalise_answer(answer), normalise_answer(gold)
    return NO_OVERLAP if first != second and {first, second} & UNIT_ANSWERS else any_overlap(answer, gold)


def answer_scores(answer: str, gold: str) -> HotpotScores:
    """Return exact match, token F1, precision and recall of an answer."""
    return name_scores("", exact_match(answer, gold), hotpot_overlap(answer, gold))


def support_scores(predicted: Set[tuple[str, int]], gold: Set[tuple[str, int]]) -> HotpotScores:
    """Return exact match, F1, precision and recall of predicted supporting sentences (title, index)."""
    return name_scores("sp_", float(predicted == gold), set_overlap(predicted, gold))


def joint_scores(answer: Mapping[str, float], support: Mapping[str, float]) -> HotpotScores:
    """Return the joint scores of an answer and its supporting sentences.

    They are the products of both exact matches, both precisions and both recalls, and F1 of the last two products.
    """
    overlap = add_f1(
        answer["precision"] * support["sp_precision"],
        answer["recall"] * support["sp_recall"],
    )
    return name_scores("joint_", answer["em"] * support["sp_em"], overlap)


def name_scores(prefix: str, em: float, overlap: Overlap) -> HotpotScores:
    """Return exact match, F1, precision and recall by name, each name beginning with `prefix`."""
    values = {"em": em, "f1": overlap.f1, "precision": overlap.precision, "recall": overlap.recall}
    return {f"{prefix}{name}": value for name, value in values.items()}


# Scoring predictions of other programs, in HotpotQA's official layout.


class HotpotPredictions(BaseModel):
    """A file of predictions: `{"answer": {id: text}, "sp": {id: [[title, index], ...]}}`; `sp` may be left out."""

    answer: dict[str, str]
    sp: dict[str, list[SupportingFact]] = {}


def score_predictions(path: Path, questions: Sequence[HotpotQuestion]) -> list[ScoredQuestion]:
    """Score a file of predictions: return the scores of every question.

    A missing answer counts 0. Predictions for other questions are ignored, as in the official scorer.

    Raises:
        Fault: ("data") the file is malformed, or has no prediction for any of the questions.
    """
    predictions = validate_row(HotpotPredictions, JsonRow(str(path), read_json(path)))
    ids = {question.id for question in questions}
    if not ids & predictions.answer.keys():
        raise Fault("data", f"{path}: no answer to any of the {len(questions)} questions: name their --split")
    warn_of_partial_answers(path, predictions.answer, ids)
    return [ScoredQuestion(question.kind, _prediction_scores(question, predictions)) for question in questions]


def _prediction_scores(question: HotpotQuestion, predictions: HotpotPredictions) -> dict[str, float | None]:
    answer, support = predictions.answer.get(question.id), predictions.sp.get(question.id)
    return score_prediction(question, answer, None if support is None else frozenset(support))


def score_prediction(
    question: HotpotQuestion, answer: str | None, support: frozenset[SupportingFact] | None
) -> dict[str, float | None]:
    """Return all scores of a prediction by name.

    Args:
        question: the question.
        answer: the predicted answer; None counts 0.
        support: the predicted supporting sentences; None leaves out their scores and the joint scores.
    """
    answered = None if answer is None else answer_scores(answer, question.answers[0])
    supported = None if support is None else support_scores(support, question.facts)
    joint = joint_scores(answered, supported) if answered and supported else {}
    return {"em": 0.0, "f1": 0.0, **(answered or {}), **(supported or {}), **joint}


# The pages of the interactive setting (TDP appendix A), found by their titles.


class TitledPage(NamedTuple):
    """A page: the paragraph that a search shows, and its sentences, in which words are looked up."""

    passage: Passage
    sentences: tuple[str, ...]


class TitleRetriever:
    """A Retriever whose query is a title. It returns the page with that title, else pages with similar titles."""

    name = "titles"

    def __init__(self, pages: Iterable[tuple[str, tuple[str, ...]]]) -> None:
        """Index pages, each a title and its sentences. Of pages whose titles differ only in case, the first is used."""
        self._pages: dict[str, TitledPage] = {}
        self._by_title: dict[str, TitledPage] = {}
        self._by_word: dict[str, list[TitledPage]] = defaultdict(list)
        for title, sentences in pages:
            if title.strip() and _title_key(title) not in self._by_title:
                self._add(TitledPage(passage_of_text(title, "".join(sentences)), sentences))

    def titled(self, title: str) -> TitledPage | None:
        """Return the page with a title, ignoring case, or None."""
        return self._by_title.get(_title_key(title))

    def similar(self, title: str, most: int) -> list[PassageHit]:
        """Return at most `most` pages whose titles share words with a title, sorted by Jaccard similarity."""
        wanted = set(words(title))
        shared = Counter(page.passage.id for word in wanted for page in self._by_word.get(word, ()))
        hits = [PassageHit(self.passage(id_), n / len(wanted | self._words(id_))) for id_, n in shared.items()]
        return sorted(hits, key=lambda hit: (-hit.score, hit.passage.title))[:most]

    def search(self, query: str, k: int) -> list[PassageHit]:
        """Return the page whose title is the query, else at most `k` pages with similar titles."""
        page = self.titled(query)
        return [PassageHit(page.passage, 1.0)][:k] if page else self.similar(query, k)

    def passage(self, id: str) -> Passage:
        """Return the passage with an id.

        Raises:
            UnknownName: no page has it.
        """
        return self.page(id).passage

    def page(self, id_: str) -> TitledPage:
        """Return the page whose passage has an id.

        Raises:
            UnknownName: there is no such page.
        """
        if id_ not in self._pages:
            raise UnknownName(f"no page {id_!r} among {len(self._pages):,}; search for one by its title")
        return self._pages[id_]

    def _add(self, page: TitledPage) -> None:
        self._pages[page.passage.id] = self._by_title[_title_key(page.passage.title)] = page
        for word in set(words(page.passage.title)):
            self._by_word[word].append(page)

    def _words(self, id_: str) -> set[str]:
        return set(words(self._pages[id_].passage.title))


def _title_key(title: str) -> str:
    return " ".join(title.split()).casefold()


# The interactive world: open a page by its title, look a word up on it, finish (TDP appendix A).

LOOKUP = "lookup"
"""Name of the action that looks a word up on the current page."""

MAX_SIMILAR_TITLES = 5
"""Maximum number of similar titles that are offered if no page has the requested title."""


class InteractiveWorld(SearchWorld):
    """Environment in which an agent opens pages by title and looks words up on the page that it opened last."""

    def __init__(self, pages: TitleRetriever, judge: Judge) -> None:
        self._pages = pages
        super().__init__(lambda alpha: pages, judge, k=1)

    def _clear(self) -> None:
        super()._clear()
        self._current: TitledPage | None = None
        self._looked: tuple[str, int] = ("", 0)
        """The word that was looked up last on the current page, and how many sentences with it were shown."""

    def _tools(self) -> Mapping[str, SearchTool]:
        return {**super()._tools(), LOOKUP: self._lookup}

    def _search(self, action: Action) -> Observation:
        """Open the page with a title. If there is none, offer similar titles and change nothing."""
        title = str(action.args.get("query") or "")
        page = self._pages.titled(title)
        if page is None:
            titles = "; ".join(hit.passage.title for hit in self._pages.similar(title, MAX_SIMILAR_TITLES))
            offer = f"Similar titles: {titles}." if titles else "No title has a word of it."
            return create_refusal(f"No page is titled {title[:100]!r}. {offer}")
        self._current, self._looked = page, ("", 0)
        return self._show([page.passage], self._pages.name)

    def _lookup(self, action: Action) -> Observation:
        """Show the next sentence of the current page that contains a word."""
        word = str(action.args.get("query") or "").strip().casefold()
        if self._current is None or not word:
            return create_refusal("Nothing can be looked up: search for a page first, then look a word up on it.")
        matches = [sentence for sentence in self._current.sentences if word in sentence.casefold()]
        shown = self._looked[1] if self._looked[0] == word else 0
        if shown >= len(matches):
            count = f"no more than {len(matches)} sentences" if matches else "no sentence"
            return create_refusal(f"{count.capitalize()} of {self._current.passage.title!r} with {word!r}.")
        self._looked = (word, shown + 1)
        position = f"{shown + 1} of {len(matches)} with {word!r}"
        passage = self._current.passage.model_copy(update={"text": f"({position}) {matches[shown].strip()}"})
        return to_observation([passage], position=shown + 1, matches=len(matches))


# The benchmark: the distractor setting, retrieval from a corpus, and the interactive world.

INTERACTIVE = "interactive"
"""Name of the configuration in which the agent opens pages by title (`InteractiveWorld`)."""

TITLES = """\
search[TITLE] opens the page of that title, or offers similar titles; lookup[WORD] gives the next sentence of the open
page that has the word."""

WORDS = """\
search[WORDS] brings up several paragraphs at once, whole: first those whose title the words name, then the nearest."""


class HotpotQA(QuestionBenchmark[HotpotQuestion]):
    """The benchmark HotpotQA: questions over two paragraphs of Wikipedia.

    Without a configuration, the question's ten paragraphs are given (the distractor setting). With `corpus`, paragraphs
    are retrieved from an index on disk (see `Retrievers`). With `interactive`, the agent opens pages by title and looks
    words up on them; a page has only the paragraph that the question files contain of it. `paper` and `corpus-paper`
    leave out the check of answers by a model, which the SDP paper does not have for HotpotQA (appendix A.5).
    """

    plain = "hotpotqa"
    score_metrics = ("f1",)
    published = Path(__file__).with_name("published.json")
    limits = Limits(attempts=3, replans=2, steps=20, passages=10)
    """Attempts, replans and steps are those of SDP (appendix A.5)."""
    configured_limits: Mapping[str, Limits] = {
        INTERACTIVE: Limits(attempts=3, replans=2, steps=30, passages=10),
    }
    configurations = (CORPUS, INTERACTIVE, PAPER, CORPUS_PAPER)
    retrieval_configurations = (CORPUS, INTERACTIVE, CORPUS_PAPER)

    def __init__(self, data: Path | None = None, config: str = "") -> None:
        super().__init__(data, config)
        titles = self.config == INTERACTIVE
        self.reranks = not titles  # a page is opened by its title
        self.briefing, self.material = BRIEFING.format(search=TITLES if titles else WORDS), MATERIAL
        self.tools = (SEARCH, LOOKUP, FINISH) if titles else (SEARCH, FINISH)

    def open(self, task: Task) -> SearchWorld:
        """Create the world of a question.

        Raises:
            Fault: ("data") the configuration needs the question's own paragraphs, and the question has none.
        """
        if self.config != INTERACTIVE:
            return super().open(task)
        question = self.gold(task)
        return InteractiveWorld(self._pages, lambda outcome: self.score_outcome(question, outcome))

    def retriever(self, task: Task, alpha: float | None) -> Retriever:
        """Return the retriever of a task; in the interactive configuration, the one that finds pages by title."""
        return self._pages if self.config == INTERACTIVE else super().retriever(task, alpha)

    def score_file(self, path: Path, split: str = "") -> list[ScoredQuestion]:
        """Score a file of predictions in HotpotQA's official layout, for example of another program.

        `rates` computes metrics from the result.

        Raises:
            UnknownName, Fault: as `QuestionBank.split` and `score_predictions` raise.
        """
        return score_predictions(path, self.bank.split(split))

    def key(self, passage: Passage) -> str:
        """Return the title, by which HotpotQA identifies paragraphs. The text may differ between dumps of Wikipedia."""
        return passage.title

    def read(self, split: str) -> Mapping[str, HotpotQuestion]:
        """Read the questions of a split, by id.

        Raises:
            Fault: as `read_questions` raises.
        """
        return read_questions(self.folder or SAMPLE, split)

    def answer_parts(self, question: HotpotQuestion, answer: str) -> dict[str, float]:
        """Return exact match, token F1, precision and recall of an answer."""
        return answer_scores(answer, question.answers[0])

    def parts(self, question: HotpotQuestion, outcome: SearchOutcome) -> ScoreParts:
        """Return the official scores of an episode.

        The sentences that the findings of its claims quote count as the predicted supporting facts.
        """
        facts = frozenset(fact for claim in outcome.claims for fact in _facts(question, claim))
        return score_prediction(question, outcome.answer, facts if outcome.claims else None)

    @cached_property
    def _pages(self) -> TitleRetriever:
        return TitleRetriever(page for question in self.bank.all() for page in question.sentences.items())


def _facts(question: HotpotQuestion, claim: Claim) -> list[SupportingFact]:
    """Return the sentences of a claim's paragraph that support the claim (`find_supporting_sentences`)."""
    if claim.passage is None:
        return []
    sentences = question.sentences.get(claim.passage.title) or split_sentences(claim.passage.text)
    return [(claim.passage.title, index) for index in find_supporting_sentences(claim.finding, sentences)]


MATERIAL = """\
The passages are paragraphs of Wikipedia. The question takes what two of them say. An answer is as short as it can be: a
name, a date, a number, yes or no."""

BRIEFING = """\
The world holds paragraphs of Wikipedia. The question takes what two of them say.
{search}
finish[ANSWER] hands in the answer and ends the work on it. The answer to the question is as short as it can be: a name,
a date, a number, yes or no."""
