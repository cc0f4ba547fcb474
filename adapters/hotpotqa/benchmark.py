"""HotpotQA as a benchmark: questions, official scores and the interactive setting."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import BaseModel, Field

from certigraph.adapters.files import Row, checked, read_json, read_rows
from certigraph.adapters.protocols import PAPER_LIMITS
from certigraph.adapters.qa.benchmark import (
    CORPUS,
    Claim,
    Judge,
    Outcome,
    Parts,
    QuestionBenchmark,
    SearchWorld,
    Tool,
    sentences_of,
    supporting_sentences,
)
from certigraph.adapters.qa.questions import (
    Hop,
    Invented,
    Question,
    chains,
    comparisons,
    distinct,
    question_file,
    unique,
)
from certigraph.adapters.qa.scoring import NONE, Overlap, Scored, exact_match, harmonic, normalised, set_overlap
from certigraph.adapters.qa.scoring import token_overlap as any_overlap
from certigraph.adapters.retrieval.bm25 import Hit, Retriever, words
from certigraph.adapters.retrieval.sources import paragraph
from certigraph.state.records import Action, Fault, Observation, Task, UnknownName
from certigraph.state.run import FINISH, SEARCH
from certigraph.state.search import Passage, refused, told

# HotpotQA's questions, in their official layout (facts/qa_scoring.md, section 1.1).

STEMS = {
    "dev": ("dev_distractor", "hotpot_dev_distractor_v1", "hotpot_dev_fullwiki_v1"),
    "train": ("train_distractor", "hotpot_train_v1.1"),
}
"""Names of the files by split, those of their publishers last."""

Fact = tuple[str, int]
"""A supporting sentence: the title of its paragraph, and its place there from 0."""


class HotpotQuestion(Question):
    """A question of HotpotQA; `kind` is bridge or comparison."""

    facts: frozenset[Fact]
    """The gold supporting sentences."""
    sentences: dict[str, tuple[str, ...]]
    """Its paragraphs by title, sentence by sentence."""


class _Official(BaseModel):
    id: str = Field(alias="_id")
    question: str = Field(min_length=1)
    answer: str
    type: str = "untyped"
    supporting_facts: list[Fact] = []
    context: list[tuple[str, list[str]]] = []


def read_questions(folder: Path, split: str) -> dict[str, HotpotQuestion]:
    """The questions of a split by id, in file order.

    Raises:
        Fault: the file is missing, a row is malformed, or an id is given twice; with file and line.
    """
    return parse_questions(read_rows(question_file("hotpotqa", folder, STEMS[split])))


def parse_questions(rows: Iterable[Row]) -> dict[str, HotpotQuestion]:
    """The questions of official rows by id. Raises Fault as `read_questions` does."""
    read = [(row, checked(_Official, row)) for row in rows]
    unique([(row, official.id) for row, official in read])
    return {official.id: _question(official) for _, official in read}


def _question(official: _Official) -> HotpotQuestion:
    sentences = {title: tuple(texts) for title, texts in official.context}
    return HotpotQuestion(
        id=official.id,
        text=" ".join(official.question.split()),
        answers=(official.answer,),
        kind=official.type,
        passages=tuple(distinct((title, "".join(texts)) for title, texts in official.context).values()),
        hops=_hops(official, sentences),
        facts=frozenset(official.supporting_facts),
        sentences=sentences,
    )


def _hops(official: _Official, sentences: dict[str, tuple[str, ...]]) -> tuple[Hop, ...]:
    """One a supporting paragraph; the one that says the answer comes last, and hands each before it its title."""
    titles = list(dict.fromkeys(title for title, _ in official.supporting_facts))
    findings = {title: _finding(official, title, sentences.get(title, ())) for title in titles}
    titles.sort(key=lambda title: official.answer.casefold() in findings[title].casefold())
    entities = [*titles[1:], official.answer]
    return tuple(
        Hop(
            question=f"What does {title} say that bears on the question?",
            answer=entity,
            passage=paragraph(title, "".join(sentences.get(title, ()))),
            finding=findings[title],
        )
        for title, entity in zip(titles, entities, strict=False)
    )


def _finding(official: _Official, title: str, sentences: Sequence[str]) -> str:
    """The supporting sentences in their order; the title where the file has none of them."""
    places = {place for named, place in official.supporting_facts if named == title and 0 <= place < len(sentences)}
    return " ".join(sentences[place].strip() for place in sorted(places)) or title


# Invented questions in HotpotQA's layout, for where no data is given: twenty a split, half of them comparisons.

BRIDGES, COMPARISONS, PAGES = 10, 10, 10


def generated_rows(split: str) -> Iterator[Row]:
    """The rows of a split; the same every time."""
    for number, made in enumerate(chains(split, [2] * BRIDGES, PAGES)):
        yield _row(f"{split}-bridge-{number}", "bridge", made)
    for number, made in enumerate(comparisons(split, COMPARISONS, PAGES)):
        yield _row(f"{split}-comparison-{number}", "comparison", made)


def _row(id_: str, kind: str, made: Invented) -> Row:
    value: dict[str, Any] = {
        "_id": id_,
        "question": made.question,
        "answer": made.answer,
        "type": kind,
        "level": "easy",
        "supporting_facts": [[step.entry.title, step.entry.sentence_index(step.relation)] for step in made.steps],
        "context": [[page.title, [page.sentences[0], *(f" {s}" for s in page.sentences[1:])]] for page in made.pages],
    }
    return Row(f"generated {id_}", value)


# HotpotQA's official scores: of an answer, of its supporting facts, of both together (hotpot_evaluate_v1).

WHOLE = {"yes", "no", "noanswer"}
"""Answers that are right as a whole or not at all: they have no token in common with another."""

Scores = dict[str, float]


def token_overlap(answer: str, gold: str) -> Overlap:
    """Precision, recall and F1 over tokens; nothing where one of both is yes, no or noanswer, and they differ."""
    first, second = normalised(answer), normalised(gold)
    return NONE if first != second and {first, second} & WHOLE else any_overlap(answer, gold)


def answer_scores(answer: str, gold: str) -> Scores:
    """EM, F1, precision and recall of an answer."""
    return named("", exact_match(answer, gold), token_overlap(answer, gold))


def support_scores(predicted: Set[tuple[str, int]], gold: Set[tuple[str, int]]) -> Scores:
    """The same of sets of supporting sentences (title, place)."""
    return named("sp_", float(predicted == gold), set_overlap(predicted, gold))


def joint_scores(answer: Mapping[str, float], support: Mapping[str, float]) -> Scores:
    """The products of the EMs, of the precisions and of the recalls, and the F1 of those products."""
    overlap = harmonic(
        answer["precision"] * support["sp_precision"],
        answer["recall"] * support["sp_recall"],
    )
    return named("joint_", answer["em"] * support["sp_em"], overlap)


def named(prefix: str, em: float, overlap: Overlap) -> Scores:
    """Four scores by their names."""
    values = {"em": em, "f1": overlap.f1, "precision": overlap.precision, "recall": overlap.recall}
    return {f"{prefix}{name}": value for name, value in values.items()}


# Scoring predictions that were made elsewhere, in HotpotQA's official layout.


class Predictions(BaseModel):
    """{"answer": {id: text}, "sp": {id: [[title, place], ...]}}; the supporting facts may be left out."""

    answer: dict[str, str]
    sp: dict[str, list[Fact]] = {}


def score_predictions(path: Path, questions: Sequence[HotpotQuestion]) -> list[Scored]:
    """The scores of every gold question; one without an answer or without supporting facts has none there.

    Predictions for other questions are not looked at, as the official scorer has it.

    Raises:
        Fault: the file is malformed, or has a prediction for none of the questions.
    """
    predictions = checked(Predictions, Row(str(path), read_json(path)))
    if not {question.id for question in questions} & predictions.answer.keys():
        raise Fault("data", f"{path}: no answer to any of the {len(questions)} questions: name their --split")
    return [Scored(question.kind, _scores(question, predictions)) for question in questions]


def _scores(question: HotpotQuestion, predictions: Predictions) -> dict[str, float | None]:
    answer, support = predictions.answer.get(question.id), predictions.sp.get(question.id)
    return scores(question, answer, None if support is None else frozenset(support))


def scores(question: HotpotQuestion, answer: str | None, support: frozenset[Fact] | None) -> dict[str, float | None]:
    """All scores of a prediction by name, None of what was not predicted; joint ones need both."""
    answered = None if answer is None else answer_scores(answer, question.answers[0])
    supported = None if support is None else support_scores(support, question.facts)
    joint = joint_scores(answered, supported) if answered and supported else {}
    return {"em": 0.0, "f1": 0.0, **(answered or {}), **(supported or {}), **joint}


# The pages of the interactive setting (TDP appendix A), found by their titles.


class Page(NamedTuple):
    """A page: the paragraph that a search shows, and its sentences, which a look-up goes through."""

    passage: Passage
    sentences: tuple[str, ...]


class Pages:
    """A Retriever whose query is a title: the page of that title alone, else pages of similar titles."""

    name = "titles"

    def __init__(self, pages: Iterable[tuple[str, tuple[str, ...]]]) -> None:
        """Of (title, sentences); of two with one title, upper case aside, the first counts."""
        self._pages: dict[str, Page] = {}
        self._by_title: dict[str, Page] = {}
        self._by_word: dict[str, list[Page]] = defaultdict(list)
        for title, sentences in pages:
            if title.strip() and _key(title) not in self._by_title:
                self._add(Page(paragraph(title, "".join(sentences)), sentences))

    def titled(self, title: str) -> Page | None:
        """The page of a title, whatever its case."""
        return self._by_title.get(_key(title))

    def similar(self, title: str, most: int) -> list[Hit]:
        """Pages that share words with a title, those with the largest share first; scores are Jaccard similarities."""
        asked = set(words(title))
        shared = Counter(page.passage.id for word in asked for page in self._by_word.get(word, ()))
        hits = [Hit(self.passage(id_), n / len(asked | self._words(id_))) for id_, n in shared.items()]
        return sorted(hits, key=lambda hit: (-hit.score, hit.passage.title))[:most]

    def search(self, query: str, k: int) -> list[Hit]:
        """The page of a title, else at most `k` similar ones."""
        page = self.titled(query)
        return [Hit(page.passage, 1.0)][:k] if page else self.similar(query, k)

    def passage(self, id: str) -> Passage:
        """The passage of an id. Raises UnknownName where no page has it."""
        return self.page(id).passage

    def page(self, id_: str) -> Page:
        """The page of a passage's id. Raises UnknownName where there is none."""
        if id_ not in self._pages:
            raise UnknownName(f"no page {id_!r} among {len(self._pages):,}; search for one by its title")
        return self._pages[id_]

    def _add(self, page: Page) -> None:
        self._pages[page.passage.id] = self._by_title[_key(page.passage.title)] = page
        for word in set(words(page.passage.title)):
            self._by_word[word].append(page)

    def _words(self, id_: str) -> set[str]:
        return set(words(self._pages[id_].passage.title))


def _key(title: str) -> str:
    return " ".join(title.split()).casefold()


# HotpotQA as an interactive world: search a page by its title, look a word up on it, finish (TDP appendix A).

LOOKUP = "lookup"

SIMILAR = 5
"""Titles that are offered where no page has the one that was asked for."""


class InteractiveWorld(SearchWorld):
    """One question over pages. The page that was found last is the current one."""

    def __init__(self, pages: Pages, judge: Judge) -> None:
        self._pages = pages
        super().__init__(lambda alpha: pages, judge, k=1)

    def _clear(self) -> None:
        super()._clear()
        self._current: Page | None = None
        self._looked: tuple[str, int] = ("", 0)
        """The word that is looked up on the current page, and how many of its sentences were shown."""

    def _tools(self) -> Mapping[str, Tool]:
        return {**super()._tools(), LOOKUP: self._lookup}

    def _search(self, action: Action) -> Observation:
        """Show the page of a title; where there is none, titles like it, which changes nothing."""
        title = str(action.args.get("query") or "")
        page = self._pages.titled(title)
        if page is None:
            titles = "; ".join(hit.passage.title for hit in self._pages.similar(title, SIMILAR))
            offer = f"Similar titles: {titles}." if titles else "No title has a word of it."
            return refused(f"No page is titled {title[:100]!r}. {offer}")
        self._current, self._looked = page, ("", 0)
        return self._show([page.passage], self._pages.name)

    def _lookup(self, action: Action) -> Observation:
        """Show the next sentence of the current page that has a word."""
        word = str(action.args.get("query") or "").strip().casefold()
        if self._current is None or not word:
            return refused("Nothing can be looked up: search for a page first, then look a word up on it.")
        having = [sentence for sentence in self._current.sentences if word in sentence.casefold()]
        shown = self._looked[1] if self._looked[0] == word else 0
        if shown >= len(having):
            many = f"no more than {len(having)} sentences" if having else "no sentence"
            return refused(f"{many.capitalize()} of {self._current.passage.title!r} with {word!r}.")
        self._looked = (word, shown + 1)
        place = f"{shown + 1} of {len(having)} with {word!r}"
        passage = self._current.passage.model_copy(update={"text": f"({place}) {having[shown].strip()}"})
        return told([passage], position=shown + 1, matches=len(having))


# HotpotQA as a benchmark: the distractor setting, retrieval from a corpus, and the interactive world.

INTERACTIVE = "interactive"

TITLES = """\
search[TITLE] opens the page of that title, or offers similar titles; lookup[WORD] gives the next sentence of the open
page that has the word."""

WORDS = "search[WORDS] brings up paragraphs that have the words, first those whose title they name."


class HotpotQA(QuestionBenchmark[HotpotQuestion]):
    """Questions over two paragraphs.

    Configurations: none, the question's own ten paragraphs are at hand (distractor); `corpus`, they are retrieved from
    disk (see `Retrievers`); `interactive`, pages are opened by title and looked through. There a page is as long as
    the paragraph that the question files have of it.
    """

    plain = "hotpotqa"
    configurations = (CORPUS, INTERACTIVE)
    retrieving = (CORPUS, INTERACTIVE)

    def __init__(self, folder: Path | None = None, config: str = "") -> None:
        super().__init__(folder, config)
        self.limits = PAPER_LIMITS.get(self.name, self.limits)
        titles = self.config == INTERACTIVE
        self.briefing = BRIEFING.format(search=TITLES if titles else WORDS)
        self.tools = (SEARCH, LOOKUP, FINISH) if titles else (SEARCH, FINISH)

    def open(self, task: Task) -> SearchWorld:
        """The world of a question. Raises Fault ("data") where its paragraphs should be at hand and it has none."""
        if self.config != INTERACTIVE:
            return super().open(task)
        question = self.gold(task)
        return InteractiveWorld(self._pages, lambda outcome: self.score_outcome(question, outcome))

    def retriever(self, task: Task, alpha: float | None) -> Retriever:
        """As in every question benchmark; in the interactive world the pages by their titles."""
        return self._pages if self.config == INTERACTIVE else super().retriever(task, alpha)

    def score_file(self, path: Path, split: str = "") -> list[Scored]:
        """The official scores of predictions made elsewhere, in the official layout; `rates` adds them up.

        Raises:
            UnknownName, Fault: as QuestionBank and `score_predictions`.
        """
        return score_predictions(path, self.bank.split(split))

    def key(self, passage: Passage) -> str:
        """Its title: HotpotQA names its paragraphs so, and another dump of Wikipedia may word them otherwise."""
        return passage.title

    def read(self, split: str) -> Mapping[str, HotpotQuestion]:
        """The questions of a split by id. Raises Fault as `read_questions` does."""
        return read_questions(self.folder, split) if self.folder else parse_questions(generated_rows(split))

    def answer_parts(self, question: HotpotQuestion, answer: str) -> dict[str, float]:
        """EM, F1, precision and recall."""
        return answer_scores(answer, question.answers[0])

    def parts(self, question: HotpotQuestion, outcome: Outcome) -> Parts:
        """The official scores; the supporting facts are the sentences that its claims stand on."""
        facts = frozenset(fact for claim in outcome.claims for fact in _facts(question, claim))
        return scores(question, outcome.answer, facts if outcome.claims else None)

    @cached_property
    def _pages(self) -> Pages:
        return Pages(page for question in self.bank.all() for page in question.sentences.items())


def _facts(question: HotpotQuestion, claim: Claim) -> list[Fact]:
    """The sentences of a claimed paragraph that the finding quotes, else the one with most of it."""
    if claim.passage is None:
        return []
    sentences = question.sentences.get(claim.passage.title) or sentences_of(claim.passage.text)
    return [(claim.passage.title, place) for place in supporting_sentences(claim.finding, sentences)]


BRIEFING = """\
The world holds paragraphs of Wikipedia. The question takes what two of them say. {search} finish[ANSWER] hands in the
answer and ends the task. An answer is as short as it can be: a name, a date, a number, yes or no."""
