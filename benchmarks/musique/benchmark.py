"""MuSiQue-Answerable: question files, official scores, files of predictions, the benchmark."""

from collections.abc import Iterable, Mapping, Sequence, Set
from functools import cached_property
from pathlib import Path

from pydantic import BaseModel, Field

from certigraph.adapters.files import JsonRow, read_rows, warn_of_partial_answers
from certigraph.adapters.protocols import Limits, Operator
from certigraph.adapters.retrieval.answers import ScoredQuestion, exact_match, normalise_answer, set_overlap, token_f1
from certigraph.adapters.retrieval.sources import passage_of_text
from certigraph.benchmarks.qa.benchmark import (
    CORPUS,
    QuestionBenchmark,
    ScoreParts,
    SearchOutcome,
    find_supporting_sentence,
    split_sentences,
)
from certigraph.benchmarks.qa.operators import create_operators
from certigraph.benchmarks.qa.questions import (
    GoldHop,
    IdentifiedRow,
    MultiHopQuestion,
    distinct_passages,
    find_question_file,
    substitute_answers,
    validate_rows,
)
from certigraph.state.endings import Fault

# Questions in MuSiQue's official layout (facts/qa_scoring.md, section 2.1).

FILE_NAMES = {
    "dev": ("musique_ans_dev", "musique_ans_v1.0_dev"),
    "train": ("musique_ans_train", "musique_ans_v1.0_train"),
}
"""Names of the question files by split, without suffix; the publishers' own names come last."""

SAMPLE = Path(__file__).with_name("sample")
"""Folder with twenty invented questions per split, of two to four hops, which are used if there are no data."""


class MusiqueQuestion(MultiHopQuestion):
    """A question of MuSiQue; `kind` is its number of hops, as in "3hop"."""

    support: frozenset[int]
    """Numbers (`idx` in the file) of the gold supporting paragraphs."""
    numbers: dict[str, int]
    """Number of each paragraph of the question, by the passage's id."""


class _Paragraph(BaseModel):
    idx: int
    title: str = ""
    paragraph_text: str
    is_supporting: bool = False


class _Step(BaseModel):
    question: str
    answer: str
    paragraph_support_idx: int | None = None


class _Official(IdentifiedRow):
    question: str = Field(min_length=1)
    answer: str
    answer_aliases: tuple[str, ...] = ()
    answerable: bool = True
    question_decomposition: tuple[_Step, ...] = ()
    paragraphs: tuple[_Paragraph, ...] = ()


def read_questions(folder: Path, split: str) -> dict[str, MusiqueQuestion]:
    """Read the questions of a split by id, in the order of the file.

    Raises:
        Fault: ("data") the file is missing, a row is malformed, a question is marked as not answerable, or two rows
            have the same id. The message names file and line.
    """
    return parse_questions(read_rows(find_question_file("musique", folder, FILE_NAMES[split])))


def parse_questions(rows: Iterable[JsonRow]) -> dict[str, MusiqueQuestion]:
    """Convert rows in MuSiQue's official layout to questions by id.

    Raises:
        Fault: as `read_questions`.
    """
    parsed_rows = validate_rows(_Official, rows)
    return {official.id: _question(row, official) for row, official in parsed_rows}


def _question(row: JsonRow, official: _Official) -> MusiqueQuestion:
    if not official.answerable:
        raise Fault("data", f"{row.where}: answerable is false: give MuSiQue-Answerable, not MuSiQue-Full")
    by_number = {item.idx: item for item in official.paragraphs}
    hops = _hops(row, official, by_number)
    return MusiqueQuestion(
        id=official.id,
        text=" ".join(official.question.split()),
        answers=(official.answer, *official.answer_aliases),
        kind=f"{len(hops)}hop" if hops else "unknown hops",
        passages=tuple(distinct_passages((item.title, item.paragraph_text) for item in official.paragraphs).values()),
        hops=hops,
        support=frozenset(item.idx for item in official.paragraphs if item.is_supporting),
        numbers={passage_of_text(item.title, item.paragraph_text).id: item.idx for item in official.paragraphs},
    )


def _hops(row: JsonRow, official: _Official, by_number: Mapping[int, _Paragraph]) -> tuple[GoldHop, ...]:
    answers = [step.answer for step in official.question_decomposition]
    return tuple(_hop(row, step, answers, by_number) for step in official.question_decomposition)


def _hop(row: JsonRow, step: _Step, answers: list[str], by_number: Mapping[int, _Paragraph]) -> GoldHop:
    number = step.paragraph_support_idx
    if number is None or number not in by_number:
        raise Fault("data", f"{row.where}: paragraph_support_idx {number} is not a paragraph's idx: correct this field")
    title, text = by_number[number].title, by_number[number].paragraph_text
    return GoldHop(
        question=step.question,
        answer=step.answer,
        passage=passage_of_text(title, text),
        finding=_finding(text, step.answer, substitute_answers(step.question, answers)),
    )


def _finding(text: str, answer: str, question: str) -> str:
    """Return the sentence of a paragraph that contains the answer.

    If several contain it, or none does, the one that shares most terms with the answer and the question is returned.
    """
    sentences = split_sentences(text)
    candidates = [sentence for sentence in sentences if answer.casefold() in sentence.casefold()] or sentences
    return candidates[find_supporting_sentence(f"{answer} {question}", candidates)]


# MuSiQue's official scores, and chain coverage (evaluate_v1.0; facts/qa_scoring.md, section 2.2).

MusiqueScores = dict[str, float]
"""Scores by name."""


def answer_scores(answer: str, references: Sequence[str]) -> MusiqueScores:
    """Return exact match and token F1, each the best over the gold answer and its aliases (`references`)."""
    return {
        "em": max(exact_match(answer, reference) for reference in references),
        "f1": max(_answer_f1(answer, reference) for reference in references),
    }


def support_scores(predicted: Set[int], gold: Set[int]) -> MusiqueScores:
    """Return exact match and F1 of two sets of paragraph numbers; both are 1 if both sets are empty."""
    return {
        "support_em": float(predicted == gold),
        "support_f1": set_overlap(predicted, gold).f1 if predicted or gold else 1.0,
    }


def chain_coverage(predicted: Set[int], chain: Sequence[int]) -> float:
    """Return the share of the gold hops whose paragraph was predicted. It is not an official score of MuSiQue.

    A paragraph that belongs to two hops counts for both. Predicting too many paragraphs does not lower this score.

    Args:
        predicted: numbers of the predicted paragraphs.
        chain: number of the paragraph of each gold hop.
    """
    return sum(number in predicted for number in chain) / len(chain)


def _answer_f1(answer: str, reference: str) -> float:
    if not (normalise_answer(answer) and normalise_answer(reference)):
        return float(normalise_answer(answer) == normalise_answer(reference))
    return token_f1(answer, reference)


# Scoring predictions of other programs, in MuSiQue's official layout.


class MusiquePrediction(IdentifiedRow):
    """One row of a file of predictions; `predicted_answerable` only matters for MuSiQue-Full."""

    predicted_answer: str
    predicted_support_idxs: list[int] | None = None
    predicted_answerable: bool = True


def score_predictions(path: Path, questions: Sequence[MusiqueQuestion]) -> list[ScoredQuestion]:
    """Score a file of predictions: return the scores of every question; one without a prediction counts 0.

    Predictions for other questions are ignored.

    Raises:
        Fault: ("data") a row is malformed, two rows have the same id, or no question has a prediction.
    """
    rows = validate_rows(MusiquePrediction, read_rows(path))
    predictions = {prediction.id: prediction for _, prediction in rows}
    ids = {question.id for question in questions}
    if not predictions.keys() & ids:
        raise Fault("data", f"{path}: no answer to any of the {len(questions)} questions: name their --split")
    warn_of_partial_answers(path, predictions, ids)
    return [
        ScoredQuestion(question.kind, _prediction_scores(question, predictions.get(question.id)))
        for question in questions
    ]


def score_prediction(
    question: MusiqueQuestion, answer: str | None, support: frozenset[int] | None
) -> dict[str, float | None]:
    """Return all scores of a prediction by name.

    Args:
        question: the question.
        answer: the predicted answer; None counts 0.
        support: numbers of the predicted supporting paragraphs; None leaves out the scores of the support.
    """
    answered = {"em": 0.0, "f1": 0.0} if answer is None else answer_scores(answer, question.answers)
    if support is None:
        return {**answered}
    chain = [question.numbers[hop.passage.id] for hop in question.hops]
    covered = {"chain_coverage": chain_coverage(support, chain)} if chain else {}
    return {**answered, **support_scores(support, question.support), **covered}


def _prediction_scores(question: MusiqueQuestion, prediction: MusiquePrediction | None) -> dict[str, float | None]:
    if prediction is None:
        return score_prediction(question, None, None)
    support = prediction.predicted_support_idxs
    return score_prediction(question, prediction.predicted_answer, None if support is None else frozenset(support))


# The benchmark.

SPLIT_HOPS, CORPUS_HOPS = "hops", "corpus-hops"
"""Configurations in which the number of hops of SDP's plan is taken from the task's id."""

FOREIGN_PARAGRAPH = -1
"""Number that stands for any claimed paragraph that does not come with the question, and so is not a gold paragraph."""


class MuSiQue(QuestionBenchmark[MusiqueQuestion]):
    """The benchmark MuSiQue-Answerable: questions over two to four paragraphs, with aliases of their answers.

    Without a configuration, the question's twenty paragraphs are given; with `corpus`, paragraphs are retrieved from an
    index on disk (see `Retrievers`). `hops` and `corpus-hops` are the same, but SDP's plan has as many hops as the
    task's id says (SDP, appendix A.6). The number of hops is a label, which these two configurations leak.
    """

    plain = "musique"
    score_metrics = ("f1",)
    published = Path(__file__).with_name("published.json")
    limits = Limits(attempts=3, replans=2, steps=25, passages=10)
    """Attempts, replans and steps are those of SDP (appendix A.6)."""
    configurations = (CORPUS, SPLIT_HOPS, CORPUS_HOPS)
    retrieval_configurations = (CORPUS, CORPUS_HOPS)

    def __init__(self, data: Path | None = None, config: str = "") -> None:
        super().__init__(data, config)
        self.briefing, self.material = BRIEFING, MATERIAL

    def score_file(self, path: Path, split: str = "") -> list[ScoredQuestion]:
        """Score a file of predictions in MuSiQue's official layout, for example of another program.

        `rates` computes metrics from the result.

        Raises:
            UnknownName, Fault: as `QuestionBank.split` and `score_predictions` raise.
        """
        return score_predictions(path, self.bank.split(split))

    def read(self, split: str) -> Mapping[str, MusiqueQuestion]:
        """Read the questions of a split, by id.

        Raises:
            Fault: as `read_questions` raises.
        """
        return read_questions(self.folder or SAMPLE, split)

    def answer_parts(self, question: MusiqueQuestion, answer: str) -> dict[str, float]:
        """Return exact match and token F1 of an answer."""
        return answer_scores(answer, question.answers)

    def parts(self, question: MusiqueQuestion, outcome: SearchOutcome) -> ScoreParts:
        """Return the official scores of an episode and its chain coverage.

        The paragraphs behind the claims count as the predicted support.
        """
        claimed = [claim.passage for claim in outcome.claims if claim.passage]
        numbers = {self.key(passage): question.numbers[passage.id] for passage in question.passages}
        support = frozenset(numbers.get(self.key(passage), FOREIGN_PARAGRAPH) for passage in claimed)
        return score_prediction(question, outcome.answer, support if outcome.claims else None)

    @cached_property
    def _operators(self) -> Mapping[str, Operator]:
        return create_operators(self, strict=True, hops=self.config in (SPLIT_HOPS, CORPUS_HOPS))


MATERIAL = """\
The passages are paragraphs of Wikipedia. The question takes what two to four of them say, each leading to the next. An
answer is as short as it can be: a name, a date, a number."""

BRIEFING = """\
The world holds paragraphs of Wikipedia. The question takes what two to four of them say, each leading to the next.
search[WORDS] brings up several paragraphs at once, whole: first those whose title the words name, then the nearest.
finish[ANSWER] hands in the answer and ends the work on it. The answer to the question is as short as it can be: a name,
a date, a number."""
