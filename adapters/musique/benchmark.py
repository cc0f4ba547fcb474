"""MuSiQue-Answerable as a benchmark."""

from collections.abc import Mapping
from functools import cached_property
from pathlib import Path

from certigraph.adapters.multihop.operators import operators
from certigraph.adapters.musique.generated import generated_rows
from certigraph.adapters.musique.predictions import score_predictions, scores
from certigraph.adapters.musique.questions import MusiqueQuestion, parse_questions, read_questions
from certigraph.adapters.musique.scoring import answer_scores
from certigraph.adapters.protocols import Operator
from certigraph.adapters.searching.benchmark import CORPUS, Parts, QuestionBenchmark
from certigraph.adapters.searching.figures import Scored
from certigraph.adapters.searching.outcomes import Outcome

HOPS, CORPUS_HOPS = "hops", "corpus-hops"

FOREIGN = -1
"""Stands for a claimed paragraph that the question did not come with: it is no gold one."""


class MuSiQue(QuestionBenchmark[MusiqueQuestion]):
    """Questions over two to four paragraphs, and aliases of their answers.

    Configurations: none, the question's own twenty paragraphs are at hand; `corpus`, they are retrieved from disk (see
    `Retrievers`); `hops` and `corpus-hops`, the same with SDP's plan as long as the task's id says, as the paper has
    it (appendix A.6). The number of hops is a label: those two leak it.
    """

    plain = "musique"
    configurations = (CORPUS, HOPS, CORPUS_HOPS)
    retrieving = (CORPUS, CORPUS_HOPS)

    def __init__(self, folder: Path | None = None, config: str = "") -> None:
        super().__init__(folder, config)
        self.briefing = BRIEFING

    def score_file(self, path: Path, split: str = "") -> list[Scored]:
        """The official scores of predictions made elsewhere, in the official layout; `rates` adds them up.

        Raises:
            UnknownName, Fault: as QuestionBank and `score_predictions`.
        """
        return score_predictions(path, self.bank.split(split))

    def read(self, split: str) -> Mapping[str, MusiqueQuestion]:
        """The questions of a split by id. Raises Fault as `read_questions` does."""
        return read_questions(self.folder, split) if self.folder else parse_questions(generated_rows(split))

    def answer_parts(self, question: MusiqueQuestion, answer: str) -> dict[str, float]:
        """EM and F1."""
        return answer_scores(answer, question.answers)

    def parts(self, question: MusiqueQuestion, outcome: Outcome) -> Parts:
        """The official scores and the chain's coverage; the support is the paragraphs that its claims stand on."""
        claimed = [claim.passage for claim in outcome.claims if claim.passage]
        numbers = {self.key(passage): question.numbers[passage.id] for passage in question.passages}
        support = frozenset(numbers.get(self.key(passage), FOREIGN) for passage in claimed)
        return scores(question, outcome.answer, support if outcome.claims else None)

    @cached_property
    def _operators(self) -> Mapping[str, Operator]:
        return operators(self, strict=True, hops=self.config in (HOPS, CORPUS_HOPS))


BRIEFING = """\
The world holds paragraphs of Wikipedia. The question takes what two to four of them say, each leading to the next.
search[WORDS] brings up paragraphs that have the words, first those whose title they name. finish[ANSWER] hands in the
answer and ends the task. An answer is as short as it can be: a name, a date, a number."""
