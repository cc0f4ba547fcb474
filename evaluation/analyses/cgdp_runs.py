"""Arms, runs and gaps of CGDP's study.

Contents: the arms (harness, memory condition, gate, variant) and their ablations, the finished runs, the tokens of each
round, and the rules for the gaps G1 to G7.
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
from certigraph.evaluation.comparison import Method, Plan, done_cells, ended_cells
from certigraph.graphs.assembly import operators_of
from certigraph.nodes.react import PARAGRAPHS, transcript
from certigraph.nodes.slots import Spec
from certigraph.runtime.registry import build_graph
from certigraph.state.records import Task, UnknownName
from certigraph.state.run import FINISH, Belief, Round, Turn, belief_of, jaccard, parsed, remembered_turns
from certigraph.state.search import listed_lines
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
"""Name -> slot -> arguments. K = 12 triggers at 20 items, in proportion to the default of 6 at 10; the paper does not
give the 20."""


class Ablation(NamedTuple):
    """Harnesses and variants of an ablation.

    The empty variant is the default setting; empty `memories` are all memory conditions.
    """

    harnesses: tuple[str, ...]
    variants: tuple[str, ...]
    memories: tuple[str, ...] = ()


ABLATIONS: Mapping[str, Ablation] = {
    "alpha": Ablation(("react", "memgpt"), ("", "alpha=0", "alpha=1")),
    "k": Ablation(("ircot", "react"), ("", "K=12"), memories=("structured",)),
    "depth": Ablation(("ircot",), ("depth=3", "depth=5", "depth=10")),
}
"""Default harnesses and conditions are the paper's (H.1 to H.3); alpha is varied to both ends of its range."""


# The arms: a search harness under a memory condition (section 6.2), with or without the gate.

IRCOT, REACT, MEMGPT, ITER_RETGEN = HARNESSES = ("ircot", "react", "memgpt", "iter_retgen")
NATIVE, LOBOTOMIZED, STRUCTURED, FREEFORM = MEMORIES = ("native", "lobotomized", "structured", "freeform")
BELIEFS = (STRUCTURED, FREEFORM)
OFF, SHADOW, ON = GATES = ("off", "shadow", "on")
"""Gate conditions. A shadow records where the gate would have stopped and with which answer; the run continues."""

MEMORYLESS = (ITER_RETGEN,)
"""Harnesses without a memory, for which the lobotomized condition does not exist."""

GATE = "exhaustion_gate"


class Arm(NamedTuple):
    """One arm of the study. `variant` names a setting of `VARIANTS`; empty: the default settings."""

    harness: str
    memory: str
    gate: str = OFF
    variant: str = ""

    @property
    def name(self) -> str:
        """Name in tables; the natural runs with and without a shadow have the same name."""
        gated = "+gate" if self.gate == ON else ""
        return f"{self.harness}/{self.memory}{gated}{self.variant and ' '}{self.variant}"


def arms_of(harnesses: Sequence[str], memories: Sequence[str], gates: Sequence[str]) -> list[Arm]:
    """Combine harnesses x memory conditions x gates, without the conditions that a harness does not have.

    Raises:
        UnknownName: a name is unknown, or no combination is left.
    """
    for what, names, known in (
        ("harness", harnesses, HARNESSES),
        ("memory", memories, MEMORIES),
        ("gate", gates, GATES),
    ):
        _check(what, names, known)
    if {OFF, SHADOW} <= set(gates):
        raise UnknownName("--gate off and --gate shadow make the same runs twice: shadow has both, omit off")
    crossed = [Arm(*cell) for cell in product(harnesses, memories, gates)]
    arms = [arm for arm in crossed if not (arm.harness in MEMORYLESS and arm.memory == LOBOTOMIZED)]
    if not arms:
        raise UnknownName(f"{', '.join(MEMORYLESS)} has no memory to take away: name another --memory or --harness")
    return arms


def ablated(arms: Sequence[Arm], ablation: Ablation) -> list[Arm]:
    """Combine every arm with the ablation's variants that its memory can have."""
    varied = [arm._replace(variant=variant) for arm in arms for variant in ablation.variants]
    return [arm for arm in varied if arm.memory in BELIEFS or "memory" not in _settings(arm.variant)]


def method_of(arm: Arm, gate: Spec) -> Method:
    """Convert an arm to a method of a comparison.

    Raises:
        UnknownName: a graph, slot or operator is unknown.
    """
    settings, default = _settings(arm.variant), build_graph(arm.harness)
    swaps = {"memory": Spec(name=arm.memory, args={**settings.get("memory", {})})}
    if arm.gate != OFF:
        swaps["gate"] = gate if arm.gate == ON else Spec(name="shadow", args={"gate": gate})
    if retrieval := settings.get("decide"):
        decide = Spec.model_validate(operators_of(default)["decide"])
        swaps["decide"] = Spec(name="retrieving", args={"decide": decide, **retrieval})
    return Method(name=arm.name, graph=arm.harness, operators=operators_of(build_graph(arm.harness, swaps)))


def is_arm(method: Method) -> bool:
    """Return whether a method is an arm; another graph may have the same operators, but not the name."""
    return {"memory", "gate"} <= set(method.operators) and method.name == arm_of(method).name


def arm_of(method: Method) -> Arm:
    """Return the arm of a method, from its operators; the variant is read from its name."""
    memory, gate = (_operator(method, slot) for slot in ("memory", "gate"))
    known = {"no_gate": OFF, "shadow": SHADOW}
    return Arm(method.graph, memory, known.get(gate, ON), method.name.partition(" ")[2])


def _operator(method: Method, slot: str) -> str:
    return Spec.model_validate(method.operators[slot]).name


def _settings(variant: str) -> Mapping[str, Mapping[str, JsonValue]]:
    return VARIANTS[variant] if variant else {}


def _check(kind: str, names: Sequence[str], known: Sequence[str]) -> None:
    if unknown := [name for name in names if name not in known]:
        raise UnknownName(f"unknown {kind} {unknown[0]!r}; known: {', '.join(known)}")


# The gold data of a question that the study uses: the passages that support its answer.


class Truth(NamedTuple):
    """Titles of the gold passages by id (empty where the benchmark has none), and whether the corpus has an answer."""

    support: Mapping[str, str]
    answerable: bool = True

    @property
    def hops(self) -> int | None:
        """Number of passages that the answer needs; None where the benchmark has no gold passages."""
        return len(self.support) or None


def truth_of(benchmark: Any, task: Task) -> Truth:
    """Read the gold data of a task; in a benchmark without unanswerable questions all are answerable."""
    gold: Any = benchmark.gold(task)
    support = {hop.passage.id: hop.passage.title for hop in gold.hops}
    return Truth(support, bool(getattr(gold, "answerable", True)))


# Finished runs of a study, read one at a time.


class Seen(NamedTuple):
    """A finished run. `state` is the graph's final state; `judge` scores an answer to the run's question, 0 to 1."""

    arm: Arm
    trial: int
    trajectory: Trajectory
    state: Any
    truth: Truth
    limits: Limits
    judge: Callable[[str], float]

    @property
    def events(self) -> Sequence[Event]:
        """The run's events; work that a resume repeated counts once."""
        return self.trajectory.events

    @property
    def question(self) -> str:
        """The text of the task."""
        return self.trajectory.header.task.goal

    @property
    def rounds(self) -> Sequence[Round]:
        """The rounds of search, without the final answer."""
        rounds: Sequence[Round] = self.state["rounds"]
        return rounds

    @property
    def belief(self) -> Belief:
        """The final belief."""
        return belief_of(self.state)

    @property
    def score(self) -> float:
        """The benchmark's score, 0 to 1; 0 for a run without a score."""
        footer = self.trajectory.footer
        return footer.scores.value if footer and footer.scores else 0.0

    @property
    def answer(self) -> str:
        """The submitted answer; empty where there is none."""
        footer = self.trajectory.footer
        return str(footer.scores.answer or "") if footer and footer.scores else ""

    @property
    def forced(self) -> str:
        """What forced the answer: the gate, exhausted rounds, ...; empty where nothing forced one."""
        action = self.state.get("action")
        return str(action.args.get("forced", "")) if action and action.kind == FINISH else ""

    @property
    def stopped_itself(self) -> bool:
        """Whether the agent decided to submit an answer."""
        action = self.state.get("action")
        command = parsed(action) if action else None
        return command is not None and command.kind == FINISH and not self.forced


def errors_in(plan: Plan, folder: Path) -> pd.DataFrame:
    """Count the runs of each arm that ended in an error: one row per arm and `ending`, with `count` of all `runs`.

    No other table has these runs; the next call repeats them.
    """
    arms = plan.model_copy(update={"methods": tuple(filter(is_arm, plan.methods))})
    ended = [(cell.method.name, trajectory.ending) for cell, trajectory in ended_cells(arms, folder)]
    runs, counts = Counter(method for method, _ in ended), Counter(ended)
    lines = [(*key, count, runs[key[0]]) for key, count in counts.items() if key[1].startswith("error:")]
    return pd.DataFrame(lines, columns=["method", "ending", "count", "runs"])


def seen_in(plan: Plan, folder: Path, benchmark: Benchmark) -> Iterator[Seen]:
    """Read the study's finished runs in the order of the plan."""
    live: Any = benchmark
    arms = plan.model_copy(update={"methods": tuple(filter(is_arm, plan.methods))})
    for cell, trajectory in done_cells(arms, folder):
        task = trajectory.header.task
        yield Seen(
            arm=arm_of(cell.method),
            trial=cell.trial,
            trajectory=trajectory,
            state=trajectory.state(),
            truth=truth_of(live, task),
            limits=plan.limits,
            judge=lambda answer, task=task: live.score_answer(task, answer).value,  # type: ignore[misc]
        )


# Tokens of each round of a run.

DECIDE, MEMORY, GATE_NODE = "decide", "memory", "gate"
CLOSING = ("answer", "deliver")
"""Nodes that run after the last round."""


class Spending(NamedTuple):
    """Tokens of one round.

    `number` is from 1; `agent` and `memory` are prompt tokens of these nodes; `tokens` are all tokens but the gate's.
    """

    number: int
    agent: int
    memory: int
    tokens: int


def spending_of(events: Sequence[Event]) -> list[Spending]:
    """Compute the tokens of every round. A round starts with the agent's decision; it excludes the gate's requests."""
    rounds: list[Spending] = []
    for event in events:
        if event.node == DECIDE:
            rounds.append(Spending(len(rounds) + 1, 0, 0, 0))
        if rounds and event.node not in (GATE_NODE, *CLOSING):
            rounds[-1] = _with(rounds[-1], event)
    return rounds


def tokens_of(events: Sequence[Event]) -> int:
    """Sum the prompt and output tokens of several events."""
    return sum(event.usage.spent().tokens for event in events)


def _with(usage: Spending, event: Event) -> Spending:
    prompt_tokens = event.usage.input_tokens
    return usage._replace(
        agent=usage.agent + prompt_tokens * (event.node == DECIDE),
        memory=usage.memory + prompt_tokens * (event.node == MEMORY),
        tokens=usage.tokens + tokens_of([event]),
    )


# Phrases that say that nothing is known, in the open questions of a belief and in abstentions.

NOTHING_KNOWN = (
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
"""certigraph's list, not the paper's; matched as complete words in lower case."""

EMPTY = ("none", "n/a", "na", "unknown", "nothing", "")
"""Texts that say that nothing is known when they are the complete text."""

_PHRASES = re.compile(rf"\b({'|'.join(map(re.escape, NOTHING_KNOWN))})\b")


def nothing_known(text: str) -> bool:
    """Return whether a text says that nothing is known, in place of a question or an answer."""
    plain = " ".join(text.lower().split())
    return plain.strip(" .?!-") in EMPTY or _PHRASES.search(plain) is not None


# The rules that decide whether a run shows a gap of its harness; GAPS has their definitions. A rule returns True or
# False, or None where the benchmark's gold data does not allow a decision.

CORRECT = 0.5
"""Minimum score of a correct answer."""

EARLY = 0.5
"""Share of the rounds that count as early; the rounds after them are late."""

ON_GOAL = 1 / 3
"""Minimum mean share of a late action's content words that occur in the question or in gold evidence found before."""

LATE = 3
"""Minimum number of rounds of a run with late actions."""

GROUNDED = 0.5
"""Minimum share of the content words that an answer adds to the question that occur in retrieved text."""

PREMATURE = 2
"""Maximum number of rounds of a premature stop (CGDP, A.2)."""

REPEATING, PAIRS = 0.5, 2
"""Similarity above which consecutive actions repeat each other, and the minimum number of consecutive such pairs of a
stagnation (CGDP, A.2)."""


def evidence_lost(seen: Seen) -> bool | None:
    """Decide gap G1, evidence not persisted."""
    if not seen.truth.support:
        return None
    early = _turns(seen)[: _half(len(seen.rounds))]
    retrieved = {source for turn in early for source in turn.sources} & seen.truth.support.keys()
    context = f" {' '.join(words(_kept(seen)))} "
    return _wrong(seen) and not all(_names(context, seen.truth.support[source]) for source in retrieved)


def goal_displaced(seen: Seen) -> bool | None:
    """Decide gap G2, goal displacement."""
    if not seen.truth.support:
        return None
    if not _wrong(seen) or len(seen.rounds) < LATE:
        return False
    first = _half(len(seen.rounds))
    shares = [_on_goal(seen, index) for index in range(first, len(seen.rounds))]
    return sum(shares) / len(shares) < ON_GOAL


def parametric(seen: Seen) -> bool | None:
    """Decide gap G3, parametric dominance."""
    own = set(terms(seen.answer)) - set(terms(seen.question))
    if not own or nothing_known(seen.answer):
        return False
    retrieved = {word for turn in _turns(seen) for word in terms(turn.observation)}
    return len(own & retrieved) / len(own) < GROUNDED


def premature(seen: Seen) -> bool | None:
    """Decide gap G4, premature stop."""
    return _wrong(seen) and seen.stopped_itself and len(seen.rounds) <= PREMATURE


def stagnant(seen: Seen) -> bool | None:
    """Decide gaps G5 and G6, retrieval stagnation."""
    longest = streak = 0
    for before, after in pairwise(seen.rounds):
        streak = streak + 1 if jaccard(before.action, after.action) > REPEATING else 0
        longest = max(longest, streak)
    return longest >= PAIRS


def misaligned(seen: Seen) -> bool | None:
    """Decide gap G7, evidence-action misalignment."""
    return None if seen.truth.answerable else _wrong(seen)


def _wrong(seen: Seen) -> bool:
    return seen.score < CORRECT


def _half(rounds: int) -> int:
    return ceil(rounds * EARLY)


def _turns(seen: Seen) -> Sequence[Turn]:
    """Turns of search, without the turn of the final answer."""
    turns: Sequence[Turn] = seen.state["turns"]
    return turns[: len(seen.rounds)]


def _kept(seen: Seen) -> str:
    """Text that the agent saw before its last decision."""
    turns = remembered_turns({**seen.state, "turns": list(_turns(seen))})  # type: ignore[typeddict-item]
    paragraphs = PARAGRAPHS if seen.arm.harness == IRCOT else None
    return f"{seen.belief.text}\n{transcript(turns, seen.limits, paragraphs=paragraphs)}"


def _names(context: str, title: str) -> bool:
    keys = title_keys(title)
    return not keys or any(f" {key} " in context for key in keys)


def _on_goal(seen: Seen, index: int) -> float:
    """Share of an action's content words that occur in the question or in gold evidence found before."""
    action_terms, turns = set(terms(seen.rounds[index].action)), _turns(seen)[:index]
    lines = [line for turn in turns for line in _gold_lines(turn, seen)]
    known = {word for text in (seen.question, *lines) for word in terms(text)}
    return len(action_terms & known) / len(action_terms) if action_terms else 0.0


def _gold_lines(turn: Turn, seen: Seen) -> list[str]:
    listed = listed_lines(turn.observation, turn.sources) or ()
    return [line for source, line in listed if source in seen.truth.support]


# The gaps G1 to G7 of a search harness (CGDP, appendix A.2 and table 7). The paper defines G4 and G5/6; the other
# definitions are certigraph's.


class Gap(NamedTuple):
    """A gap: its name in the paper, its definition, and the rule that decides it."""

    name: str
    definition: str
    shows: Callable[[Seen], bool | None]


GAPS = (
    Gap(
        "G1",
        "evidence not persisted: a wrong answer, and the title of a gold passage that was retrieved in the first half "
        "of the rounds stands neither in the turns nor in the belief that the agent saw at the end",
        evidence_lost,
    ),
    Gap(
        "G2",
        f"goal displacement: a wrong answer after at least {LATE} rounds, and on average less than "
        f"{ON_GOAL:.0%} of the content words of the late actions (second half) occur in the question or in gold "
        "passages found before",
        goal_displaced,
    ),
    Gap(
        "G3",
        f"parametric dominance: less than {GROUNDED:.0%} of the content words that the answer adds to the "
        "question occur in anything retrieved, and it is no abstention; right or wrong",
        parametric,
    ),
    Gap(
        "G4",
        f"premature stop: the agent stopped by itself after at most {PREMATURE} rounds, wrong",
        premature,
    ),
    Gap(
        "G5/G6",
        f"retrieval stagnation: the Jaccard similarity of consecutive actions exceeds {REPEATING:g} for at least "
        f"{PAIRS} pairs in a row",
        stagnant,
    ),
    Gap("G7", "evidence-action misalignment: a question without an answer in the corpus was answered", misaligned),
)
"""The gaps; a wrong answer has a score below MIN_CORRECT_SCORE."""
