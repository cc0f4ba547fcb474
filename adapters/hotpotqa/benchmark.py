"""HotpotQA as a benchmark: the distractor setting, retrieval from a corpus, and the interactive world."""

from collections.abc import Mapping
from functools import cached_property
from pathlib import Path

from certigraph.adapters.hotpotqa.generated import generated_rows
from certigraph.adapters.hotpotqa.interactive import LOOKUP, InteractiveWorld
from certigraph.adapters.hotpotqa.pages import Pages
from certigraph.adapters.hotpotqa.predictions import score_predictions, scores
from certigraph.adapters.hotpotqa.questions import Fact, HotpotQuestion, parse_questions, read_questions
from certigraph.adapters.hotpotqa.scoring import answer_scores
from certigraph.adapters.limits import PAPER_LIMITS
from certigraph.adapters.retrieval.protocol import Retriever
from certigraph.adapters.searching.benchmark import CORPUS, Parts, QuestionBenchmark
from certigraph.adapters.searching.claims import sentences_of, supporting_sentences
from certigraph.adapters.searching.figures import Scored
from certigraph.adapters.searching.outcomes import Claim, Outcome
from certigraph.adapters.searching.world import SearchWorld
from certigraph.state.passages import Passage
from certigraph.state.records import Task
from certigraph.state.searching import FINISH, SEARCH

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
        return InteractiveWorld(self._pages, lambda outcome: self.judged(question, outcome))

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
