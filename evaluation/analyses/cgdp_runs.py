"""Arms, runs and gaps of the CGDP study.

An arm is a combination of a harness (search agent), a memory condition, a gate and a variant of settings. Contents: the
arms and their ablations, the finished runs, the tokens of each search round, and the rules for the gaps G1 to G7, which
are kinds of failure that the CGDP paper names.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise, product
from math import ceil
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
from pydantic import JsonValue

from certigraph.adapters.protocols import Benchmark, Limits
from certigraph.adapters.retrieval.bm25 import terms, title_keys, words
from certigraph.evaluation.comparison import ComparedMethod, ComparisonPlan, ended_cells, finished_cells
from certigraph.graphs.assembly import operators_of
from certigraph.nodes.react import MAX_PARAGRAPHS, format_transcript
from certigraph.nodes.slots import Spec
from certigraph.runtime.registry import build_graph
from certigraph.state.records import Task, UnknownName
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
from certigraph.state.search import lines_with_sources
from certigraph.state.trajectory import Event, Trajectory

# Variants of the ablations (CGDP, appendix H): the retriever's weights, the belief's capacity, the depth.

VARIANTS: Mapping[str, Mapping[str, Mapping[str, JsonValue]]] = {
    "alpha=0": {"decide": {"alpha": 0.0}},
    "alpha=1": {"decide": {"alpha": 1.0}},
    "K=12": {"memory": {"target": 12, "trigger": 20}},
    "depth=3": {"decide": {"k": 3}},
    "depth=5": {"decide": {"k": 5}},
    "depth=10": {"decide": {"k": 10}},
}
"""Settings of each variant: name of the variant -> slot -> arguments of the operator.

With K = 12 a belief is reorganised when it has 20 items, in proportion to the default (K = 6, 10 items); the CGDP paper
does not give the 20.
"""


class Ablation(NamedTuple):
    """Harnesses, variants of settings and memory conditions of an ablation.

    The empty variant is the default setting; empty `memories` mean all memory conditions.
    """

    harnesses: tuple[str, ...]
    variants: tuple[str, ...]
    memories: tuple[str, ...] = ()


ABLATIONS: Mapping[str, Ablation] = {
    "alpha": Ablation(("react", "memgpt"), ("", "alpha=0", "alpha=1")),
    "k": Ablation(("ircot", "react"), ("", "K=12"), memories=("structured",)),
    "depth": Ablation(("ircot",), ("depth=3", "depth=5", "depth=10")),
}
"""Ablations by name. Harnesses and memory conditions are those of the CGDP paper (H.1 to H.3).

`alpha`, the weight of BM25 in retrieval, is varied to both ends of its range.
"""


# The arms: a search harness under a memory condition (section 6.2), with or without the gate.

IRCOT, REACT, MEMGPT, ITER_RETGEN = HARNESSES = ("ircot", "react", "memgpt", "iter_retgen")
NATIVE, LOBOTOMIZED, STRUCTURED, FREEFORM = MEMORIES = ("native", "lobotomized", "structured", "freeform")
BELIEFS = (STRUCTURED, FREEFORM)
OFF, SHADOW, ON = GATES = ("off", "shadow", "on")
"""Gate conditions. A shadow gate only records when it would have stopped the run, and with which answer; the run goes
on."""

MEMORYLESS = (ITER_RETGEN,)
"""Harnesses without a memory, for which the condition `lobotomized` (memory taken away) does not exist."""

GATE = "exhaustion_gate"


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


def combine_arms(harnesses: Sequence[str], memories: Sequence[str], gates: Sequence[str]) -> list[StudyArm]:
    """Combine harnesses x memory conditions x gates into arms, without the conditions that a harness does not have.

    Raises:
        UnknownName: a name is unknown, or no combination is left.
    """
    for what, names, known in (
        ("harness", harnesses, HARNESSES),
        ("memory", memories, MEMORIES),
        ("gate", gates, GATES),
    ):
        _check_names(what, names, known)
    if {OFF, SHADOW} <= set(gates):
        raise UnknownName("--gate off and --gate shadow make the same runs twice: shadow has both, omit off")
    crossed = [StudyArm(*cell) for cell in product(harnesses, memories, gates)]
    arms = [arm for arm in crossed if not (arm.harness in MEMORYLESS and arm.memory == LOBOTOMIZED)]
    if not arms:
        raise UnknownName(f"{', '.join(MEMORYLESS)} has no memory to take away: name another --memory or --harness")
    return arms


def apply_ablation(arms: Sequence[StudyArm], ablation: Ablation) -> list[StudyArm]:
    """Combine every arm with the variants of an ablation that fit the memory condition of the arm."""
    varied = [arm._replace(variant=variant) for arm in arms for variant in ablation.variants]
    return [arm for arm in varied if arm.memory in BELIEFS or "memory" not in _variant_settings(arm.variant)]


def method_of(arm: StudyArm, gate: Spec) -> ComparedMethod:
    """Convert an arm to a method of a comparison; `gate` is the gate operator.

    Raises:
        UnknownName: a graph, slot or operator is unknown.
    """
    settings, default = _variant_settings(arm.variant), build_graph(arm.harness)
    swaps = {"memory": Spec(name=arm.memory, args={**settings.get("memory", {})})}
    if arm.gate != OFF:
        swaps["gate"] = gate if arm.gate == ON else Spec(name="shadow", args={"gate": gate})
    if retrieval := settings.get("decide"):
        decide = Spec.model_validate(operators_of(default)["decide"])
        swaps["decide"] = Spec(name="retrieving", args={"decide": decide, **retrieval})
    return ComparedMethod(name=arm.name, graph=arm.harness, operators=operators_of(build_graph(arm.harness, swaps)))


def is_arm(method: ComparedMethod) -> bool:
    """Return whether a method of the comparison is an arm of the study, by its operators and its name."""
    return {"memory", "gate"} <= set(method.operators) and method.name == arm_of(method).name


def arm_of(method: ComparedMethod) -> StudyArm:
    """Convert a method back to its arm; the variant is read from the method's name, the rest from its operators."""
    memory, gate = (_operator_name(method, slot) for slot in ("memory", "gate"))
    known = {"no_gate": OFF, "shadow": SHADOW}
    return StudyArm(method.graph, memory, known.get(gate, ON), method.name.partition(" ")[2])


def _operator_name(method: ComparedMethod, slot: str) -> str:
    return Spec.model_validate(method.operators[slot]).name


def _variant_settings(variant: str) -> Mapping[str, Mapping[str, JsonValue]]:
    return VARIANTS[variant] if variant else {}


def _check_names(kind: str, names: Sequence[str], known: Sequence[str]) -> None:
    if unknown := [name for name in names if name not in known]:
        raise UnknownName(f"unknown {kind} {unknown[0]!r}; known: {', '.join(known)}")


# The gold data of a question that the study uses: the passages that support its answer.


class GoldSupport(NamedTuple):
    """Gold data of a question: titles of the supporting passages by id, and whether the corpus has an answer.

    `support` is empty if the benchmark has no gold passages.
    """

    support: Mapping[str, str]
    answerable: bool = True

    @property
    def hops(self) -> int | None:
        """Number of passages that the answer needs; None if the benchmark has no gold passages."""
        return len(self.support) or None


def gold_support_of(benchmark: Any, task: Task) -> GoldSupport:
    """Read the gold data of a question; it counts as answerable unless the benchmark says that it is not."""
    gold: Any = benchmark.gold(task)
    support = {hop.passage.id: hop.passage.title for hop in gold.hops}
    return GoldSupport(support, bool(getattr(gold, "answerable", True)))


# Finished runs of a study, read one at a time.


class StudyRun(NamedTuple):
    """A finished run of the study. `state` is the graph's final state, and `truth` the gold data of the question.

    `judge` is a function that scores an answer to the question, 0 to 1. `judged` has the scores of the run's answers by
    a rubric, 0 to 1; None: the benchmark scores them.
    """

    arm: StudyArm
    trial: int
    trajectory: Trajectory
    state: Any
    truth: GoldSupport
    limits: Limits
    judge: Callable[[str], float]
    judged: Mapping[str, float] | None = None

    @property
    def run(self) -> str:
        """The run's id."""
        return self.trajectory.header.run_id

    @property
    def events(self) -> Sequence[Event]:
        """The run's node executions, in order; work that was repeated after a crash counts once."""
        return self.trajectory.events

    @property
    def question(self) -> str:
        """The text of the question."""
        return self.trajectory.header.task.goal

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
        stagnation: Stagnation | None = self.state.get("stagnation")
        if self.arm.gate != SHADOW or stagnation is None or stagnation.at is None:
            return None
        return stagnation.answer or ""

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


def error_table(plan: ComparisonPlan, folder: Path) -> pd.DataFrame:
    """Count the runs of each arm that ended in an error.

    There is one row per arm and `ending`: `count` runs of all `runs` of the arm. No other table has these runs; the
    next call of the command repeats them.
    """
    arms = plan.model_copy(update={"methods": tuple(filter(is_arm, plan.methods))})
    ended = [(cell.method.name, trajectory.ending) for cell, trajectory in ended_cells(arms, folder)]
    runs, counts = Counter(method for method, _ in ended), Counter(ended)
    lines = [(*key, count, runs[key[0]]) for key, count in counts.items() if key[1].startswith("error:")]
    return pd.DataFrame(lines, columns=["method", "ending", "count", "runs"])


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
    arms = plan.model_copy(update={"methods": tuple(filter(is_arm, plan.methods))})
    for cell, trajectory in finished_cells(arms, folder):
        task = trajectory.header.task
        seen = StudyRun(
            arm=arm_of(cell.method),
            trial=cell.trial,
            trajectory=trajectory,
            state=trajectory.state(),
            truth=gold_support_of(live, task),
            limits=plan.limits,
            judge=lambda answer, task=task: live.score_answer(task, answer).value,  # type: ignore[misc]
            judged=None if judged is None else judged.get(trajectory.header.run_id, {}),
        )
        if seen.judged is None or all(answer in seen.judged for answer in seen.answers):
            yield seen


# Tokens of each round of a run.

DECIDE, MEMORY, GATE_NODE = "decide", "memory", "gate"
CLOSING_NODES = ("answer", "deliver")
"""Nodes that run after the last search round."""


class RoundUsage(NamedTuple):
    """Tokens of one search round; `number` counts from 1.

    `agent` and `memory` are the prompt tokens of the nodes that decide and that update the memory; `tokens` are all
    tokens of the round except the gate's.
    """

    number: int
    agent: int
    memory: int
    tokens: int


def round_usage_of(events: Sequence[Event]) -> list[RoundUsage]:
    """Compute the tokens of every search round. A round starts with the agent's decision; the gate is left out."""
    rounds: list[RoundUsage] = []
    for event in events:
        if event.node == DECIDE:
            rounds.append(RoundUsage(len(rounds) + 1, 0, 0, 0))
        if rounds and event.node not in (GATE_NODE, *CLOSING_NODES):
            rounds[-1] = _add_event(rounds[-1], event)
    return rounds


def tokens_of(events: Sequence[Event]) -> int:
    """Sum the prompt and output tokens of several events."""
    return sum(event.usage.spent().tokens for event in events)


def _add_event(usage: RoundUsage, event: Event) -> RoundUsage:
    prompt_tokens = event.usage.input_tokens
    return usage._replace(
        agent=usage.agent + prompt_tokens * (event.node == DECIDE),
        memory=usage.memory + prompt_tokens * (event.node == MEMORY),
        tokens=usage.tokens + tokens_of([event]),
    )


# Phrases that say that nothing is known, in the open questions of a belief and in abstentions.

NO_EVIDENCE_PHRASES = (
    "no evidence",
    "no information",
    "no relevant",
    "no mention",
    "no data",
    "no answer",
    "not found",
    "not mentioned",
    "not provided",
    "not specified",
    "not stated",
    "not available",
    "not enough information",
    "insufficient",
    "unanswerable",
    "cannot be answered",
    "cannot be determined",
    "could not be determined",
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
    if not seen.truth.support:
        return None
    early = _search_turns(seen)[: _early_rounds(len(seen.rounds))]
    retrieved = {source for turn in early for source in turn.sources} & seen.truth.support.keys()
    context = f" {' '.join(words(_final_context(seen)))} "
    return _is_wrong(seen) and not all(_mentions(context, seen.truth.support[source]) for source in retrieved)


def has_displaced_goal(seen: StudyRun) -> bool | None:
    """Decide whether a run shows gap G2, "goal displacement"; None if the gold data does not allow a decision."""
    if not seen.truth.support:
        return None
    if not _is_wrong(seen) or len(seen.rounds) < MIN_LATE_ROUNDS:
        return False
    first = _early_rounds(len(seen.rounds))
    shares = [_goal_overlap(seen, index) for index in range(first, len(seen.rounds))]
    return sum(shares) / len(shares) < MIN_GOAL_OVERLAP


def is_parametric(seen: StudyRun) -> bool | None:
    """Decide whether a run shows gap G3, "parametric dominance": the answer is not based on retrieved text."""
    own = set(terms(seen.answer)) - set(terms(seen.question))
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
    return None if seen.truth.answerable else _is_wrong(seen)


def _is_wrong(seen: StudyRun) -> bool:
    return seen.score < MIN_CORRECT_SCORE


def _early_rounds(rounds: int) -> int:
    return ceil(rounds * EARLY_SHARE)


def _search_turns(seen: StudyRun) -> Sequence[Turn]:
    """Return the search turns of a run, without the turn of the final answer."""
    turns: Sequence[Turn] = seen.state["turns"]
    return turns[: len(seen.rounds)]


def _final_context(seen: StudyRun) -> str:
    """Return the text that the agent saw before its last decision: belief and transcript."""
    turns = remembered_turns({**seen.state, "turns": list(_search_turns(seen))})  # type: ignore[typeddict-item]
    paragraphs = MAX_PARAGRAPHS if seen.arm.harness == IRCOT else None
    return f"{seen.belief.text}\n{format_transcript(turns, seen.limits, paragraphs=paragraphs)}"


def _mentions(context: str, title: str) -> bool:
    keys = title_keys(title)
    return not keys or any(f" {key} " in context for key in keys)


def _goal_overlap(seen: StudyRun, index: int) -> float:
    """Compute the share of an action's content words that occur in the question or in gold passages found before."""
    action_terms, turns = set(terms(seen.rounds[index].action)), _search_turns(seen)[:index]
    lines = [line for turn in turns for line in _gold_lines(turn, seen)]
    known = {word for text in (seen.question, *lines) for word in terms(text)}
    return len(action_terms & known) / len(action_terms) if action_terms else 0.0


def _gold_lines(turn: Turn, seen: StudyRun) -> list[str]:
    listed = lines_with_sources(turn.observation, turn.sources) or ()
    return [line for source, line in listed if source in seen.truth.support]


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
