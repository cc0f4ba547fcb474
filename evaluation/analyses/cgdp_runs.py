"""Arms and gaps of CGDP's study."""

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

# What the study's ablations vary (CGDP, appendix H): the retriever's weights, the belief's capacity, the depth.

VARIANTS: Mapping[str, Mapping[str, Mapping[str, JsonValue]]] = {
    "alpha=0": {"decide": {"alpha": 0.0}},
    "alpha=1": {"decide": {"alpha": 1.0}},
    "K=12": {"memory": {"target": 12, "trigger": 20}},
    "depth=3": {"decide": {"k": 3}},
    "depth=5": {"decide": {"k": 5}},
    "depth=10": {"decide": {"k": 10}},
}
"""Name -> slot -> arguments. K = 12 triggers at 20 items, in proportion to the usual 6 at 10; the paper gives no 20."""


class Ablation(NamedTuple):
    """Which harnesses in which variants, the empty one being the usual setting; under which conditions, none: all."""

    harnesses: tuple[str, ...]
    variants: tuple[str, ...]
    memories: tuple[str, ...] = ()


ABLATIONS: Mapping[str, Ablation] = {
    "alpha": Ablation(("react", "memgpt"), ("", "alpha=0", "alpha=1")),
    "k": Ablation(("ircot", "react"), ("", "K=12"), memories=("structured",)),
    "depth": Ablation(("ircot",), ("depth=3", "depth=5", "depth=10")),
}
"""Harnesses and conditions are the paper's (H.1 to H.3) unless others are asked for; alpha is run at both ends."""


# The arms of CGDP's study: a search harness under a memory condition (section 6.2), with or without the gate.

IRCOT, REACT, MEMGPT, ITER_RETGEN = HARNESSES = ("ircot", "react", "memgpt", "iter_retgen")
NATIVE, LOBOTOMIZED, STRUCTURED, FREEFORM = MEMORIES = ("native", "lobotomized", "structured", "freeform")
BELIEFS = (STRUCTURED, FREEFORM)
OFF, SHADOW, ON = GATES = ("off", "shadow", "on")
"""A shadow notes where the gate would have stopped and what the answer would have been; the run goes on."""

MEMORYLESS = (ITER_RETGEN,)
"""Harnesses with no memory to take away."""

GATE = "exhaustion_gate"


class Arm(NamedTuple):
    """One cell of the study. `variant` names a setting of `VARIANTS`; empty: all settings are the usual ones."""

    harness: str
    memory: str
    gate: str = OFF
    variant: str = ""

    @property
    def name(self) -> str:
        """As tables call it; natural runs are the same with a shadow and without."""
        gated = "+gate" if self.gate == ON else ""
        return f"{self.harness}/{self.memory}{gated}{self.variant and ' '}{self.variant}"


def arms_of(harnesses: Sequence[str], memories: Sequence[str], gates: Sequence[str]) -> list[Arm]:
    """Harnesses x conditions x gates, without the conditions that a harness has not.

    Raises:
        UnknownName: one of them is unknown, or nothing is left to run.
    """
    for what, names, known in (
        ("harness", harnesses, HARNESSES),
        ("memory", memories, MEMORIES),
        ("gate", gates, GATES),
    ):
        _check(what, names, known)
    if {OFF, SHADOW} <= set(gates):
        raise UnknownName("--gate off and --gate shadow make the same runs twice: shadow has both, leave off out")
    crossed = [Arm(*cell) for cell in product(harnesses, memories, gates)]
    made = [arm for arm in crossed if not (arm.harness in MEMORYLESS and arm.memory == LOBOTOMIZED)]
    if not made:
        raise UnknownName(f"{', '.join(MEMORYLESS)} has no memory to take away: name another --memory or --harness")
    return made


def ablated(arms: Sequence[Arm], ablation: Ablation) -> list[Arm]:
    """Every arm in each of the ablation's variants that its memory can have."""
    varied = [arm._replace(variant=variant) for arm in arms for variant in ablation.variants]
    return [arm for arm in varied if arm.memory in BELIEFS or "memory" not in _settings(arm.variant)]


def method_of(arm: Arm, gate: Spec) -> Method:
    """The arm as a method of a comparison. Raises UnknownName where a graph, slot or operator is unknown."""
    settings, usual = _settings(arm.variant), build_graph(arm.harness)
    swaps = {"memory": Spec(name=arm.memory, args={**settings.get("memory", {})})}
    if arm.gate != OFF:
        swaps["gate"] = gate if arm.gate == ON else Spec(name="shadow", args={"gate": gate})
    if retrieval := settings.get("decide"):
        decide = Spec.model_validate(operators_of(usual)["decide"])
        swaps["decide"] = Spec(name="retrieving", args={"decide": decide, **retrieval})
    return Method(name=arm.name, graph=arm.harness, operators=operators_of(build_graph(arm.harness, swaps)))


def is_arm(method: Method) -> bool:
    """Whether a method is an arm, and no graph that is run beside them, of which some have the same operators."""
    return {"memory", "gate"} <= set(method.operators) and method.name == arm_of(method).name


def arm_of(method: Method) -> Arm:
    """The arm that a method is, by its operators; the variant by its name."""
    memory, gate = (_operator(method, slot) for slot in ("memory", "gate"))
    known = {"no_gate": OFF, "shadow": SHADOW}
    return Arm(method.graph, memory, known.get(gate, ON), method.name.partition(" ")[2])


def _operator(method: Method, slot: str) -> str:
    return Spec.model_validate(method.operators[slot]).name


def _settings(variant: str) -> Mapping[str, Mapping[str, JsonValue]]:
    return VARIANTS[variant] if variant else {}


def _check(what: str, names: Sequence[str], known: Sequence[str]) -> None:
    if unknown := [name for name in names if name not in known]:
        raise UnknownName(f"unknown {what} {unknown[0]!r}; known: {', '.join(known)}")


# What a benchmark's gold says of a question, as far as the study asks: which passages bear the answer out.


class Truth(NamedTuple):
    """Titles of the gold passages by id, none where the benchmark names none; whether the corpus has an answer."""

    support: Mapping[str, str]
    answerable: bool = True

    @property
    def hops(self) -> int | None:
        """How many passages the answer takes."""
        return len(self.support) or None


def truth_of(benchmark: Any, task: Task) -> Truth:
    """The truth about a task, from the gold of a search benchmark; one without unanswerable questions says nothing."""
    gold: Any = benchmark.gold(task)
    support = {hop.passage.id: hop.passage.title for hop in gold.hops}
    return Truth(support, bool(getattr(gold, "answerable", True)))


# Finished runs of a study, read one at a time with what its analyses need.


class Seen(NamedTuple):
    """A finished run. `state` is the graph's at its end; `judge` scores an answer to its question, 0 to 1."""

    arm: Arm
    trial: int
    trajectory: Trajectory
    state: Any
    truth: Truth
    limits: Limits
    judge: Callable[[str], float]

    @property
    def events(self) -> Sequence[Event]:
        """What the method needed: work that a resume did anew counts once."""
        return self.trajectory.events

    @property
    def question(self) -> str:
        """The task's own words."""
        return self.trajectory.header.task.goal

    @property
    def rounds(self) -> Sequence[Round]:
        """The rounds of search; the final answer is none."""
        found: Sequence[Round] = self.state["rounds"]
        return found

    @property
    def belief(self) -> Belief:
        """What was believed at the end."""
        return belief_of(self.state)

    @property
    def score(self) -> float:
        """The benchmark's verdict, 0 to 1; 0 where a run came to none."""
        footer = self.trajectory.footer
        return footer.scores.value if footer and footer.scores else 0.0

    @property
    def answer(self) -> str:
        """What was handed in; empty where nothing was."""
        footer = self.trajectory.footer
        return str(footer.scores.answer or "") if footer and footer.scores else ""

    @property
    def forced(self) -> str:
        """What forced the answer: the gate, spent rounds, ...; empty where the agent handed it in or none was given."""
        action = self.state.get("action")
        return str(action.args.get("forced", "")) if action and action.kind == FINISH else ""

    @property
    def stopped_itself(self) -> bool:
        """Whether the agent handed an answer in by its own decision."""
        action = self.state.get("action")
        meant = parsed(action) if action else None
        return meant is not None and meant.kind == FINISH and not self.forced


def errors_in(plan: Plan, folder: Path) -> pd.DataFrame:
    """The arms of which an error ended runs, a line a kind of ending: `ending`, and `count` of so many `runs`.

    No other table has these runs, and the next call tries them again.
    """
    arms = plan.model_copy(update={"methods": tuple(filter(is_arm, plan.methods))})
    ended = [(cell.method.name, trajectory.ending) for cell, trajectory in ended_cells(arms, folder)]
    runs, counts = Counter(method for method, _ in ended), Counter(ended)
    lines = [(*key, count, runs[key[0]]) for key, count in counts.items() if key[1].startswith("error:")]
    return pd.DataFrame(lines, columns=["method", "ending", "count", "runs"])


def seen_in(plan: Plan, folder: Path, benchmark: Benchmark) -> Iterator[Seen]:
    """The study's runs that have their ending, in the order of the plan."""
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


# What each round of a run read and spent.

DECIDE, MEMORY, GATE_NODE = "decide", "memory", "gate"
CLOSING = ("answer", "deliver")
"""Nodes after the last round."""


class Spending(NamedTuple):
    """One round, from 1: prompt tokens of the agent's own node, of memory, and tokens of all but the gate."""

    number: int
    agent: int
    memory: int
    tokens: int


def spending_of(events: Sequence[Event]) -> list[Spending]:
    """Every round of a run. A round begins with the agent's decision; what the gate asks is no part of it."""
    rounds: list[Spending] = []
    for event in events:
        if event.node == DECIDE:
            rounds.append(Spending(len(rounds) + 1, 0, 0, 0))
        if rounds and event.node not in (GATE_NODE, *CLOSING):
            rounds[-1] = _with(rounds[-1], event)
    return rounds


def tokens_of(events: Sequence[Event]) -> int:
    """Prompt and output tokens of several events."""
    return sum(event.usage.spent().tokens for event in events)


def _with(spent: Spending, event: Event) -> Spending:
    read = event.usage.input_tokens
    return spent._replace(
        agent=spent.agent + read * (event.node == DECIDE),
        memory=spent.memory + read * (event.node == MEMORY),
        tokens=spent.tokens + tokens_of([event]),
    )


# How texts say that nothing is known: what a belief's open questions should not be, and what an abstention says.

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
"""Our own list, matched as whole words in lower case."""

EMPTY = ("none", "n/a", "na", "unknown", "nothing", "")
"""The same where it is all that a text says."""

_PHRASES = re.compile(rf"\b({'|'.join(map(re.escape, NOTHING_KNOWN))})\b")


def nothing_known(text: str) -> bool:
    """Whether a text says that nothing is known, in place of a question or an answer."""
    plain = " ".join(text.lower().split())
    return plain.strip(" .?!-") in EMPTY or _PHRASES.search(plain) is not None


# The rules by which a run shows a gap of its harness; what they mean is in `gaps`.
#
# Each tells True or False, or None where the benchmark's gold does not say enough.

CORRECT = 0.5
"""Score from which an answer counts as right."""

EARLY = 0.5
"""Part of the rounds in which evidence counts as found early; the rounds after it are the late ones."""

ON_GOAL = 1 / 3
"""Least share of a late action's content words that the question or gold evidence found before has, on average."""

LATE = 3
"""Rounds from which a run has late actions."""

GROUNDED = 0.5
"""Least share of an answer's own content words that occur in what was retrieved."""

PREMATURE = 2
"""Most rounds of a premature stop (CGDP, A.2)."""

REPEATING, PAIRS = 0.5, 2
"""Similarity that consecutive actions exceed, and consecutive pairs of them that are a stagnation (CGDP, A.2)."""


def evidence_lost(seen: Seen) -> bool | None:
    """G1."""
    if not seen.truth.support:
        return None
    early = _turns(seen)[: _half(len(seen.rounds))]
    found = {source for turn in early for source in turn.sources} & seen.truth.support.keys()
    kept = f" {' '.join(words(_kept(seen)))} "
    return _wrong(seen) and not all(_names(kept, seen.truth.support[source]) for source in found)


def goal_displaced(seen: Seen) -> bool | None:
    """G2."""
    if not seen.truth.support:
        return None
    if not _wrong(seen) or len(seen.rounds) < LATE:
        return False
    first = _half(len(seen.rounds))
    shares = [_on_goal(seen, place) for place in range(first, len(seen.rounds))]
    return sum(shares) / len(shares) < ON_GOAL


def parametric(seen: Seen) -> bool | None:
    """G3."""
    own = set(terms(seen.answer)) - set(terms(seen.question))
    if not own or nothing_known(seen.answer):
        return False
    retrieved = {word for turn in _turns(seen) for word in terms(turn.observation)}
    return len(own & retrieved) / len(own) < GROUNDED


def premature(seen: Seen) -> bool | None:
    """G4."""
    return _wrong(seen) and seen.stopped_itself and len(seen.rounds) <= PREMATURE


def stagnant(seen: Seen) -> bool | None:
    """G5 and G6."""
    longest = streak = 0
    for before, after in pairwise(seen.rounds):
        streak = streak + 1 if jaccard(before.action, after.action) > REPEATING else 0
        longest = max(longest, streak)
    return longest >= PAIRS


def misaligned(seen: Seen) -> bool | None:
    """G7."""
    return None if seen.truth.answerable else _wrong(seen)


def _wrong(seen: Seen) -> bool:
    return seen.score < CORRECT


def _half(rounds: int) -> int:
    return ceil(rounds * EARLY)


def _turns(seen: Seen) -> Sequence[Turn]:
    """The turns of search: the one of the final answer is none."""
    turns: Sequence[Turn] = seen.state["turns"]
    return turns[: len(seen.rounds)]


def _kept(seen: Seen) -> str:
    """What the agent saw before its last decision."""
    turns = remembered_turns({**seen.state, "turns": list(_turns(seen))})  # type: ignore[typeddict-item]
    paragraphs = PARAGRAPHS if seen.arm.harness == IRCOT else None
    return f"{seen.belief.text}\n{transcript(turns, seen.limits, paragraphs=paragraphs)}"


def _names(kept: str, title: str) -> bool:
    keys = title_keys(title)
    return not keys or any(f" {key} " in kept for key in keys)


def _on_goal(seen: Seen, place: int) -> float:
    """The share of an action's content words that the question or the gold evidence found before has."""
    said, turns = set(terms(seen.rounds[place].action)), _turns(seen)[:place]
    lines = [line for turn in turns for line in _gold_lines(turn, seen)]
    known = {word for text in (seen.question, *lines) for word in terms(text)}
    return len(said & known) / len(said) if said else 0.0


def _gold_lines(turn: Turn, seen: Seen) -> list[str]:
    listed = listed_lines(turn.observation, turn.sources) or ()
    return [line for source, line in listed if source in seen.truth.support]


# The gaps G1 to G7 of a search harness (CGDP, appendix A.2 and table 7): names and definitions.
#
# The paper defines G4 and G5/6; the other definitions are ours.


class Gap(NamedTuple):
    """A gap by its name in the paper, what counts as one, and the rule."""

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
"""Wrong is a score below `gap_rules.CORRECT`."""
