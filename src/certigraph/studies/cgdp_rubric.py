"""Judgement of the runs of the CGDP study: the gaps G1 to G7 that a run shows, and scores by a rubric.

A run belongs to an arm: a combination of harness (search agent), memory condition, gate and variant of settings. Gaps
are kinds of failure that the CGDP paper names. By a rubric (CGDP section 6.1) a judge grades the answers of runs
and of their gates. The judgements are lines of a file in the study's folder; no answer is judged twice.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from math import ceil
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import ValidationError

from certigraph.adapters.files import MAX_SETTINGS_BYTES, read_bytes, replace_text
from certigraph.adapters.models.chat_models import check_model_available
from certigraph.adapters.protocols import Benchmark, Budget, Context
from certigraph.adapters.retrieval.bm25 import terms, title_keys, words
from certigraph.evaluation.compare import ComparisonJob
from certigraph.evaluation.comparison import ComparedMethod, ComparisonPlan, finished_cells
from certigraph.evaluation.frame_rows import MEMORY_NODE, FrameRow
from certigraph.evaluation.judges import MAX_SCORE, JudgeCase, judge, judge_name_of, judging_progress, read_judgements
from certigraph.nodes.react import MAX_PARAGRAPHS
from certigraph.nodes.specs import Spec
from certigraph.nodes.transcripts import format_whole_turns
from certigraph.state.endings import Fault
from certigraph.state.records import Record, Task
from certigraph.state.run import (
    FINISH,
    Belief,
    SearchRound,
    Stagnation,
    Turn,
    belief_of,
    jaccard,
    parse_action,
    remembered_turns,
)
from certigraph.state.search import BY_GATE, lines_with_sources
from certigraph.state.trajectory import Event, Trajectory
from certigraph.studies.rubrics import rubric_by_name

# The arms: a search harness under a memory condition (section 6.2), with or without the gate.

IRCOT, REACT, MEMGPT, ITER_RETGEN = HARNESSES = ("ircot", "react", "memgpt", "iter_retgen")
NATIVE, LOBOTOMIZED, STRUCTURED, FREEFORM = MEMORIES = ("native", "lobotomized", "structured", "freeform")
BELIEFS = (STRUCTURED, FREEFORM)
OFF, SHADOW, ON = GATES = ("off", "shadow", "on")
"""Gate conditions. A shadow gate only records when it would have stopped the run, and with which answer; the run goes
on."""


class StudyArm(NamedTuple):
    """One arm of the study: harness, memory condition, gate, and a name in VARIANTS (empty: the default settings)."""

    harness: str
    memory: str
    gate: str = OFF
    variant: str = ""

    @property
    def name(self) -> str:
        """Name of the arm in tables. Arms with a shadow gate and without a gate have the same name."""
        gated = "+gate" if self.gate == ON else ""
        return f"{self.harness}/{self.memory}{gated}{self.variant and ' '}{self.variant}"


def is_arm(method: ComparedMethod) -> bool:
    """Return whether a method of the comparison is an arm of the study, by its operators and its name."""
    return {"memory", "gate"} <= set(method.operators) and method.name == arm_of(method).name


def arm_of(method: ComparedMethod) -> StudyArm:
    """Convert a method back to its arm; the variant is read from the method's name, the rest from its operators."""
    memory, gate = (Spec.model_validate(method.operators[slot]).name for slot in ("memory", "gate"))
    known = {"no_gate": OFF, "shadow": SHADOW}
    return StudyArm(method.graph, memory, known.get(gate, ON), method.name.partition(" ")[2])


# Finished runs of a study, read one at a time.


class StudyRun(NamedTuple):
    """A finished run of the study. `state` is the graph's final state.

    `support` has the titles of the passages that support the answer, by id; it is empty if the benchmark has no gold
    passages. `answerable` is whether the corpus has an answer. `judge` is a function that scores an answer to the
    question, 0 to 1. `judged` has the scores of the run's answers by a rubric, 0 to 1; None: the benchmark scores them.
    """

    arm: StudyArm
    trial: int
    trajectory: Trajectory
    state: Any
    support: Mapping[str, str]
    answerable: bool
    judge: Callable[[str], float]
    judged: Mapping[str, float] | None = None

    @property
    def run(self) -> str:
        """The run's id."""
        return self.trajectory.header.run_id

    @property
    def task(self) -> Task:
        """The question with its id and benchmark."""
        return self.trajectory.header.task

    @property
    def events(self) -> Sequence[Event]:
        """The run's node executions, in order; work that was repeated after a crash counts once."""
        return self.trajectory.events

    @property
    def rounds(self) -> Sequence[SearchRound]:
        """The rounds of search, without the final answer."""
        rounds: Sequence[SearchRound] = self.state["rounds"]
        return rounds

    @property
    def belief(self) -> Belief:
        """The agent's belief at the end of the run."""
        return belief_of(self.state)

    @property
    def benchmark_score(self) -> float:
        """The benchmark's score of the run, 0 to 1; 0 for a run without a score."""
        footer = self.trajectory.footer
        return footer.scores.value if footer and footer.scores else 0.0

    @property
    def score(self) -> float:
        """The score of the run in the study, 0 to 1: the benchmark's, or that by a rubric."""
        return self.benchmark_score if self.judged is None else self.judged[self.answer]

    @property
    def gate_score(self) -> float:
        """The score of `gate_answer` in the study, 0 to 1."""
        answer = self.gate_answer or ""
        return self.judge(answer) if self.judged is None else self.judged[answer]

    @property
    def answer(self) -> str:
        """The submitted answer; empty if there is none."""
        footer = self.trajectory.footer
        return str(footer.scores.answer or "") if footer and footer.scores else ""

    @property
    def gate_answer(self) -> str | None:
        """The answer at which a shadow gate would have stopped the run; None: it would not have, or there is none."""
        return (self.state["stagnation"].answer or "") if self.arm.gate == SHADOW and self.fired is not None else None

    @property
    def fired(self) -> int | None:
        """The search round, from 1, after which the gate stopped the run, or would have; None: it did not fire."""
        stagnation: Stagnation | None = self.state.get("stagnation")
        if self.arm.gate == SHADOW:
            return stagnation.at if stagnation else None
        return len(self.rounds) if self.arm.gate == ON and self.forced == BY_GATE else None

    @property
    def answers(self) -> Sequence[str]:
        """The answers that have a score in the study: the submitted one, and `gate_answer` if it is another one."""
        return tuple(dict.fromkeys((self.answer, *([] if self.gate_answer is None else [self.gate_answer]))))

    @property
    def forced(self) -> str:
        """What forced the agent to answer, such as the gate or the limit of rounds; empty if nothing did."""
        action = self.state.get("action")
        return str(action.args.get("forced", "")) if action and action.kind == FINISH else ""

    @property
    def stopped_itself(self) -> bool:
        """Whether the agent decided by itself to submit an answer."""
        action = self.state.get("action")
        command = parse_action(action) if action else None
        return command is not None and command.kind == FINISH and not self.forced


def select_arms(plan: ComparisonPlan) -> ComparisonPlan:
    """Return the plan of a study without the other graphs that run on the same tasks."""
    return plan.model_copy(update={"methods": tuple(filter(is_arm, plan.methods))})


def read_study_runs(
    plan: ComparisonPlan,
    folder: Path,
    benchmark: Benchmark,
    judged: Mapping[str, Mapping[str, float]] | None = None,
) -> Iterator[StudyRun]:
    """Read the study's finished runs in the order of the plan.

    Args:
        plan: the plan of the study.
        folder: its folder.
        benchmark: the benchmark, for the gold data.
        judged: scores by a rubric, 0 to 1, by the run's id and the answer; a run is left out until all its answers are
            scored. None: the benchmark's scores.
    """
    live: Any = benchmark
    for cell, trajectory in finished_cells(select_arms(plan), folder):
        task = trajectory.header.task
        gold = live.gold(task)
        seen = StudyRun(
            arm=arm_of(cell.method),
            trial=cell.trial,
            trajectory=trajectory,
            state=trajectory.state(),
            support={hop.passage.id: hop.passage.title for hop in gold.hops},
            answerable=bool(getattr(gold, "answerable", True)),
            judge=lambda answer, task=task: live.score_answer(task, answer).value,  # type: ignore[misc]
            judged=None if judged is None else judged.get(trajectory.header.run_id, {}),
        )
        if seen.judged is None or all(answer in seen.judged for answer in seen.answers):
            yield seen


# Phrases that say that nothing is known, in the open questions of a belief and in abstentions.

NO_EVIDENCE_PHRASES = (
    *(
        "no evidence",
        "no information",
        "no relevant",
        "no mention",
        "no data",
        "no answer",
        "not found",
        "not mentioned",
    ),
    *("not provided", "not specified", "not stated", "not available", "not enough information", "insufficient"),
    *("unanswerable", "cannot be answered", "cannot be determined", "could not be determined"),
)
"""Phrases that say that nothing is known, matched as complete words in lower case. The list is certigraph's, not the
CGDP paper's."""

EMPTY_ANSWERS = ("none", "n/a", "na", "unknown", "nothing", "")
"""Texts that say that nothing is known when they are the complete text."""

_PHRASES = re.compile(rf"\b({'|'.join(map(re.escape, NO_EVIDENCE_PHRASES))})\b")


def is_no_evidence(text: str) -> bool:
    """Return whether a text, which should be a question or an answer, only says that nothing is known."""
    plain = " ".join(text.lower().split())
    return plain.strip(" .?!-") in EMPTY_ANSWERS or _PHRASES.search(plain) is not None


# Cost and degradation of beliefs: reorganisation (CGDP, H.4) and 'no evidence' artefacts (table 4).

EXTRACTOR_ROLE = "extractor"


def belief_fields(seen: StudyRun) -> FrameRow:
    """Compute what reorganising the belief of a run took, and whether the belief has an artefact (CGDP, H.4, table 4).

    `reorganisations` counts how often a model reorganised the belief. `artefact`: an open question of the belief only
    says that nothing is known. Both are missing for memory conditions that cannot have them. A reorganisation takes the
    calls of the role `extractor` after the first successful one, which extracts facts; failed attempts before it do not
    count.
    """
    if seen.arm.memory not in BELIEFS:
        return {}
    calls, questions, before = list[Mapping[str, Any]](), list[str](), 0
    for event in seen.events:
        belief: Any = (event.update or {}).get("belief", {}) if event.node == MEMORY_NODE else {}
        questions += belief.get("questions", ())
        count = belief.get("reorganised", before)
        if count > before:
            extracting = [call for call in event.calls if call["role"] == EXTRACTOR_ROLE]
            first = next((n for n, call in enumerate(extracting) if not call.get("failure")), len(extracting))
            calls += extracting[first + 1 :]
        before = count
    return {
        "reorganisations": seen.belief.reorganised,
        "reorganisation_calls": len(calls),
        "reorganisation_tokens": sum(call.get("input_tokens", 0) + call.get("output_tokens", 0) for call in calls),
        "artefact": any(map(is_no_evidence, questions)) if seen.arm.memory == STRUCTURED else None,
    }


# The rules that decide whether a run shows a gap of its harness; GAPS has their definitions. A rule returns True or
# False, or None where the benchmark's gold data does not allow a decision.

MIN_CORRECT_SCORE = 0.5
"""Score, 0 to 1, from which an answer counts as correct."""

EARLY_SHARE = 0.5
"""Share of the search rounds that count as early; the rounds after them count as late."""

MIN_GOAL_OVERLAP = 1 / 3
"""Share of a late action's content words that must, on average, occur in the question or in gold passages found before.
Below it the run shows gap G2."""

MIN_LATE_ROUNDS = 3
"""Minimum number of search rounds of a run for gap G2."""

MIN_GROUNDED_SHARE = 0.5
"""Share of the content words which the answer adds to the question that must occur in retrieved text. Below it the run
shows gap G3."""

MAX_PREMATURE_ROUNDS = 2
"""Maximum number of search rounds of a run that stopped too early, gap G4 (CGDP, A.2)."""

REPEAT_SIMILARITY, MIN_REPEATED_PAIRS = 0.5, 2
"""Jaccard similarity above which an action repeats the one before, and number of repetitions in a row that count as
stagnation (CGDP, A.2)."""


def has_lost_evidence(seen: StudyRun) -> bool | None:
    """Decide whether a run shows gap G1, "evidence not persisted"; None if the gold data does not allow a decision."""
    if not seen.support:
        return None
    early = _search_turns(seen)[: _early_rounds(len(seen.rounds))]
    retrieved = {source for turn in early for source in turn.sources} & seen.support.keys()
    context = f" {' '.join(words(_final_context(seen)))} "
    return _is_wrong(seen) and not all(_mentions(context, seen.support[source]) for source in retrieved)


def has_displaced_goal(seen: StudyRun) -> bool | None:
    """Decide whether a run shows gap G2, "goal displacement"; None if the gold data does not allow a decision."""
    if not seen.support:
        return None
    if not _is_wrong(seen) or len(seen.rounds) < MIN_LATE_ROUNDS:
        return False
    first = _early_rounds(len(seen.rounds))
    shares = [_goal_overlap(seen, index) for index in range(first, len(seen.rounds))]
    return sum(shares) / len(shares) < MIN_GOAL_OVERLAP


def is_parametric(seen: StudyRun) -> bool | None:
    """Decide whether a run shows gap G3, "parametric dominance": the answer is not based on retrieved text."""
    own = set(terms(seen.answer)) - set(terms(seen.task.goal))
    if not own or is_no_evidence(seen.answer):
        return False
    retrieved = {word for turn in _search_turns(seen) for word in terms(turn.observation)}
    return len(own & retrieved) / len(own) < MIN_GROUNDED_SHARE


def is_premature(seen: StudyRun) -> bool | None:
    """Decide whether a run shows gap G4, "premature stop": a wrong answer after few rounds, by the agent's decision."""
    return _is_wrong(seen) and seen.stopped_itself and len(seen.rounds) <= MAX_PREMATURE_ROUNDS


def is_stagnant(seen: StudyRun) -> bool | None:
    """Decide whether a run shows gaps G5 and G6, "retrieval stagnation": the agent repeated similar actions."""
    longest = streak = 0
    for before, after in pairwise(seen.rounds):
        streak = streak + 1 if jaccard(before.action, after.action) > REPEAT_SIMILARITY else 0
        longest = max(longest, streak)
    return longest >= MIN_REPEATED_PAIRS


def is_misaligned(seen: StudyRun) -> bool | None:
    """Decide whether a run shows gap G7, "evidence-action misalignment"; None if the question has an answer."""
    return None if seen.answerable else _is_wrong(seen)


def _is_wrong(seen: StudyRun) -> bool:
    return seen.score < MIN_CORRECT_SCORE


def _early_rounds(rounds: int) -> int:
    return ceil(rounds * EARLY_SHARE)


def _search_turns(seen: StudyRun) -> Sequence[Turn]:
    """Return the search turns of a run, without the turn of the final answer."""
    return list(seen.state["turns"])[: len(seen.rounds)]


def _final_context(seen: StudyRun) -> str:
    """Return the text that the agent saw before its last decision: belief and transcript."""
    turns = remembered_turns({**seen.state, "turns": list(_search_turns(seen))})  # type: ignore[typeddict-item]
    most = MAX_PARAGRAPHS if seen.arm.harness == IRCOT else None
    return "\n".join([seen.belief.text, *format_whole_turns(turns[_count_left_out(seen) :], paragraphs=most)])


def _count_left_out(seen: StudyRun) -> int:
    calls = [call for event in seen.events if event.node in ("decide", "answer") for call in event.calls]
    cuts: Any = calls[-1].get("cut") or () if calls else ()
    return next((int(match[1]) for cut in cuts if (match := re.match(r"the oldest (\d+) of", cut))), 0)


def _mentions(context: str, title: str) -> bool:
    keys = title_keys(title)
    return not keys or any(f" {key} " in context for key in keys)


def _goal_overlap(seen: StudyRun, index: int) -> float:
    """Compute the share of an action's content words that occur in the question or in gold passages found before."""
    action_terms, turns = set(terms(seen.rounds[index].action)), _search_turns(seen)[:index]
    lines = [line for turn in turns for line in _gold_lines(turn, seen)]
    known = {word for text in (seen.task.goal, *lines) for word in terms(text)}
    return len(action_terms & known) / len(action_terms) if action_terms else 0.0


def _gold_lines(turn: Turn, seen: StudyRun) -> list[str]:
    listed = lines_with_sources(turn.observation, turn.sources) or ()
    return [line for source, line in listed if source in seen.support]


# The gaps G1 to G7 of a search harness (CGDP, appendix A.2 and table 7). The paper defines G4 and G5/6; the other
# definitions are certigraph's.


class Gap(NamedTuple):
    """A gap (kind of failure of a search agent): its name in the CGDP paper, its definition, and the deciding rule."""

    name: str
    definition: str
    shows: Callable[[StudyRun], bool | None]


GAPS = (
    Gap(
        "G1",
        "evidence not persisted: a wrong answer, and the title of a gold passage that was retrieved in the first half "
        "of the rounds stands neither in the turns nor in the belief that the agent saw at the end",
        has_lost_evidence,
    ),
    Gap(
        "G2",
        f"goal displacement: a wrong answer after at least {MIN_LATE_ROUNDS} rounds, and on average less than "
        f"{MIN_GOAL_OVERLAP:.0%} of the content words of the late actions (second half) occur in the question or in "
        "gold passages found before",
        has_displaced_goal,
    ),
    Gap(
        "G3",
        f"parametric dominance: less than {MIN_GROUNDED_SHARE:.0%} of the content words that the answer adds to the "
        "question occur in anything retrieved, and it is no abstention; right or wrong",
        is_parametric,
    ),
    Gap(
        "G4",
        f"premature stop: the agent stopped by itself after at most {MAX_PREMATURE_ROUNDS} rounds, wrong",
        is_premature,
    ),
    Gap(
        "G5/G6",
        f"retrieval stagnation: the Jaccard similarity of consecutive actions exceeds {REPEAT_SIMILARITY:g} for at "
        f"least {MIN_REPEATED_PAIRS} pairs in a row",
        is_stagnant,
    ),
    Gap("G7", "evidence-action misalignment: a question without an answer in the corpus was answered", is_misaligned),
)
"""The gaps G1 to G7. "Wrong" means a score below MIN_CORRECT_SCORE."""


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
) -> StudyScores | None:
    """Have the answers of a study judged that have no judgement yet, and return the scores of all.

    All judgements together may take MAX_CALLS calls for each answer, and the tokens, dollars and seconds of as many
    runs.

    Args:
        study: the study.
        folder: its folder.
        benchmark: has the reference answers.
        choice: the rubric and the judge.
        at_once: number of judgements at a time.
        silent: whether to show no progress.

    Returns:
        The scores; None if the benchmark's own are chosen.

    Raises:
        UnknownName: there is no such model.
        Fault: the model failed, or a line of the file is no judgement.
    """
    if choice.is_own:
        return None
    context = choice.context(study.context)
    check_model_available(context.roles.get("judge", context.model))
    cases = list(_cases_to_judge(read_study_runs(study.plan, folder, benchmark), benchmark))
    bounded = context.model_copy(update={"budget": _budget_of(len(cases), context.budget)})
    with judging_progress(len(cases), silent=silent) as listener:
        rubric = rubric_by_name(choice.rubric)
        judge(cases, rubric, bounded, folder / JUDGEMENTS, progress=listener, at_once=at_once)
    return read_scores(study, folder, benchmark, choice)


def _budget_of(answers: int, each: Budget) -> Budget:
    limits = {name: getattr(each, name) * answers for name in ("tokens", "usd", "seconds")}
    return each.model_copy(update={**limits, "calls": min(each.calls, MAX_CALLS) * answers})


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
