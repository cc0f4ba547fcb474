"""The CGDP study: its arms, which are search harnesses under conditions, and their finished runs."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, cast

from certigraph.adapters.protocols import Benchmark
from certigraph.evaluation.comparison import ComparedMethod, ComparisonPlan, finished_cells
from certigraph.nodes.specs import Spec
from certigraph.state.records import Scores, Task
from certigraph.state.run import FINISH, Belief, SearchRound, Stagnation, belief_of, parse_action
from certigraph.state.search import BY_GATE
from certigraph.state.trajectory import Trajectory

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
    def rounds(self) -> Sequence[SearchRound]:
        """The rounds of search, without the final answer."""
        return cast(Sequence[SearchRound], self.state["rounds"])

    @property
    def belief(self) -> Belief:
        """The agent's belief at the end of the run."""
        return belief_of(self.state)

    @property
    def benchmark_scores(self) -> Scores:
        """The benchmark's scores of the run, 0 to 1; 0 for a run without scores."""
        footer = self.trajectory.footer
        return footer.scores if footer and footer.scores else Scores(value=0.0)

    @property
    def score(self) -> float:
        """The score of the run in the study, 0 to 1: the benchmark's, or that by a rubric."""
        return self.benchmark_scores.value if self.judged is None else self.judged[self.answer]

    @property
    def gate_score(self) -> float:
        """The score of `gate_answer` in the study, 0 to 1."""
        answer = self.gate_answer or ""
        return self.judge(answer) if self.judged is None else self.judged[answer]

    @property
    def answer(self) -> str:
        """The submitted answer; empty if there is none."""
        return str(self.benchmark_scores.answer or "")

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
