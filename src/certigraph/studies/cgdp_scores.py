"""Scores of the runs of the CGDP study by a rubric (CGDP, section 6.1), by which a judge grades their answers."""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import ValidationError

from certigraph.adapters.files import MAX_SETTINGS_BYTES, read_bytes, replace_text
from certigraph.adapters.models.chat_models import check_model_available
from certigraph.adapters.protocols import Benchmark, Context
from certigraph.evaluation.compare import ComparisonJob
from certigraph.evaluation.judges import MAX_SCORE, JudgeCase, judge, judge_name_of, judging_progress, read_judgements
from certigraph.state.endings import Fault
from certigraph.state.records import Record
from certigraph.studies.cgdp_runs import StudyRun, read_study_runs
from certigraph.studies.rubrics import rubric_by_name

# Scores by a rubric.

OWN = "own"
"""Name of the scores that a benchmark gives itself."""

JUDGEMENTS, CHOICE = "judgements.jsonl", "rubric.json"
"""Files in the study's folder: the judgements, and the rubric of its report."""

NO_ANSWER_EXISTS = "(The question cannot be answered from the corpus.)"
"""Reference for questions without a reference answer."""


MAX_CALLS = 4
"""Maximum number of calls of the judge for one answer: the first one, and those after an answer of the wrong form."""


class RubricChoice(Record):
    """The rubric by which a study's answers are scored, and the model that judges.

    Without a model, the role `judge` of the study's context judges, or else its model.
    """

    rubric: str = OWN
    judge: str = ""

    @property
    def is_own(self) -> bool:
        """Whether the benchmark's scores are used."""
        return self.rubric == OWN

    def context(self, study: Context) -> Context:
        """Return the context of a study in which the chosen model judges."""
        return study.model_copy(update={"roles": {**study.roles, "judge": self.judge}}) if self.judge else study


class StudyScores(NamedTuple):
    """Scores of a study's answers by a rubric.

    `by_answer` has the scores, 0 to 1, by the run's id and the answer; `left` counts the answers without a score.
    """

    rubric: str
    judge: str
    by_answer: Mapping[str, Mapping[str, float]]
    left: int = 0

    @property
    def words(self) -> str:
        """Who scored, for tables."""
        return f"{self.rubric} by {self.judge}"


def choose_rubric(folder: Path, choice: RubricChoice | None) -> RubricChoice:
    """Return the rubric of a study, `own` by default, and keep the choice in the folder for the next call.

    Args:
        folder: the study's folder.
        choice: the rubric and the judge; None: those of the call before.

    Raises:
        UnknownName: there is no such rubric.
        Fault: the file with the choice cannot be read.
    """
    path = folder / CHOICE
    if choice is None and path.is_file():
        try:
            return RubricChoice.model_validate_json(read_bytes(path, MAX_SETTINGS_BYTES))
        except ValidationError as error:
            fix = "name the rubric: --rubric cgdp, or --rubric own"
            raise Fault("data", f"{path}: no rubric in it ({error.errors()[0]['msg']}): {fix}") from error
    choice = choice or RubricChoice()
    if not choice.is_own:
        rubric_by_name(choice.rubric)
    if not choice.is_own or path.is_file():
        folder.mkdir(parents=True, exist_ok=True)
        replace_text(path, choice.model_dump_json() + "\n")
    return choice


def score_study(
    study: ComparisonJob, folder: Path, benchmark: Benchmark, choice: RubricChoice, *, at_once: int = 1, silent: bool
) -> None:
    """Have the answers of a study judged that have no judgement yet; nothing with the benchmark's own scores.

    All judgements together may take MAX_CALLS calls for each answer, and the tokens, dollars and seconds of as many
    runs.

    Args:
        study: the study.
        folder: its folder.
        benchmark: has the reference answers.
        choice: the rubric and the judge.
        at_once: number of judgements at a time.
        silent: whether to show no progress.

    Raises:
        UnknownName: there is no such model.
        Fault: the model failed, or a line of the file is not a judgement.
    """
    if choice.is_own:
        return
    context = choice.context(study.context)
    check_model_available(context.roles.get("judge", context.model))
    cases = list(_cases_to_judge(read_study_runs(study.plan, folder, benchmark), benchmark))
    each, n = context.budget, len(cases)
    total = {name: getattr(each, name) * n for name in ("tokens", "usd", "seconds")}
    budget = each.model_copy(update={**total, "calls": min(each.calls, MAX_CALLS) * n})
    bounded = context.model_copy(update={"budget": budget})
    with judging_progress(len(cases), silent=silent) as listener:
        rubric = rubric_by_name(choice.rubric)
        judge(cases, rubric, bounded, folder / JUDGEMENTS, progress=listener, at_once=at_once)


def read_scores(study: ComparisonJob, folder: Path, benchmark: Benchmark, choice: RubricChoice) -> StudyScores | None:
    """Read the scores that the judge gave to a study's answers so far; None if the benchmark's own are chosen."""
    if choice.is_own:
        return None
    name = judge_name_of(rubric_by_name(choice.rubric), choice.context(study.context))
    scores: dict[str, dict[str, float]] = {}
    for given in read_judgements(folder / JUDGEMENTS):
        if (given.rubric, given.judge) == (choice.rubric, name):
            scores.setdefault(given.run, {})[given.answer] = given.score / MAX_SCORE
    runs = read_study_runs(study.plan, folder, benchmark)
    left = sum(answer not in scores.get(seen.run, {}) for seen in runs for answer in seen.answers)
    return StudyScores(choice.rubric, name, scores, left)


def _cases_to_judge(runs: Iterable[StudyRun], benchmark: Any) -> Iterator[JudgeCase]:
    # The answers of the runs, and those at which a shadow gate would have stopped them.
    for seen in runs:
        references = tuple(text for text in benchmark.gold(seen.task).answers if text.strip()) or (NO_ANSWER_EXISTS,)
        for answer in seen.answers:
            yield JudgeCase(seen.run, seen.arm.name, seen.task, seen.trial, references, answer)
