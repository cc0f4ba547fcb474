"""Exhaustion gates (CGDP): rules, model judgements and replays of settings."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import product, takewhile
from typing import Annotated, Any, Literal

from langgraph.runtime import Runtime
from pydantic import BaseModel, Field

from certigraph.adapters.benchmarks import benchmark_of, limits_of
from certigraph.adapters.models.calls import ask, bullet_list, prompt, quoted
from certigraph.adapters.models.schemas import Cut
from certigraph.adapters.protocols import Context, Operator
from certigraph.nodes.react import gathered
from certigraph.nodes.search import answer, hypotheses
from certigraph.nodes.slots import Spec, factory
from certigraph.state.records import UnknownName
from certigraph.state.run import Round, Stagnation
from certigraph.state.search import GateView

# The exhaustion gate (CGDP section 5.2): stops a search whose actions repeat and whose observations bring nothing
# new.
#
# It asks no model: the signals are facts about the rounds. Settings beyond the published default are labelled in
# `gate_grid`.


async def no_gate(state: GateView, runtime: Runtime[Context]) -> dict[str, Any]:
    """Never stop: the round cap and the agent itself do."""
    return {"stagnation": Stagnation()}


@factory
def exhaustion_gate(*, jaccard: float = 0.6, upr: float = 0.3, patience: int = 2) -> Operator:
    """Stop after `patience` consecutive stagnant rounds; a round is stagnant where both thresholds say so.

    Args:
        jaccard: least similarity to a recent action (tau_J).
        upr: highest unique passage rate (tau_U).
        patience: p; the defaults are the paper's best setting over all harnesses.

    Raises:
        UnknownName: a threshold outside [0, 1], or a patience below 1.
    """
    _checked("exhaustion_gate", patience, jaccard=jaccard, upr=upr)

    async def exhaustion_gate(state: GateView, runtime: Runtime[Context]) -> dict[str, Any]:
        stagnant = [r.jaccard >= jaccard and r.upr <= upr for r in state["rounds"]]
        return {"stagnation": _counted(state, stagnant, patience)}

    return exhaustion_gate


@factory
def smooth_gate(*, jaccard: float = 0.6, upr: float = 0.15, patience: int = 2, decay: float = 0.5) -> Operator:
    """The same over exponentially weighted moving averages, since a search runs dry gradually (appendix G.2).

    Args:
        jaccard: least average similarity.
        upr: highest average unique passage rate.
        patience: consecutive stagnant rounds.
        decay: weight of the latest round, in (0, 1]; 1 is the discrete gate.

    Raises:
        UnknownName: as `exhaustion_gate`, or a decay outside (0, 1].
    """
    _checked("smooth_gate", patience, jaccard=jaccard, upr=upr, decay=decay)

    async def smooth_gate(state: GateView, runtime: Runtime[Context]) -> dict[str, Any]:
        averages = list(_averages(state["rounds"], decay))
        counted = _counted(state, [similar >= jaccard and novel <= upr for similar, novel in averages], patience)
        return {"stagnation": counted.model_copy(update={"level": averages[-1][1]})}

    return smooth_gate


def _averages(rounds: Sequence[Round], decay: float) -> Iterator[tuple[float, float]]:
    """Similarity and novelty, smoothed, after each round; before the first nothing repeats and all is new."""
    similar, novel = 0.0, 1.0
    for latest in rounds:
        similar = (1 - decay) * similar + decay * latest.jaccard
        novel = (1 - decay) * novel + decay * latest.upr
        yield similar, novel


def _counted(state: GateView, stagnant: Sequence[bool], patience: int) -> Stagnation:
    # Counted from the rounds, and no further than since the last reset of the streak: gates can be combined.
    in_a_row = sum(1 for _ in takewhile(bool, reversed(stagnant)))
    streak, latest = min(in_a_row, state["stagnation"].streak + 1), state["rounds"][-1]
    if streak < patience:
        return Stagnation(streak=streak)
    told = f"{streak} rounds in a row: similarity {latest.jaccard:.2f} to a recent action, {latest.upr:.0%} new"
    return Stagnation(streak=streak, stop=True, reason=told)


def _checked(name: str, patience: int, **shares: float) -> None:
    wrong: dict[str, object] = {key: value for key, value in shares.items() if not _within(value, 0, 1)}
    wrong |= {"patience": patience} if not (isinstance(patience, int) and patience >= 1) else {}
    wrong |= {"decay": 0} if shares.get("decay") == 0 else {}
    if wrong:
        told = ", ".join(f"{key}={value}" for key, value in wrong.items())
        raise UnknownName(f"{name}({told}): thresholds lie in [0, 1], decay in (0, 1], and patience is at least 1")


def _within(value: object, least: float, most: float) -> bool:
    return isinstance(value, int | float) and least <= value <= most


# Sixteen settings of the exhaustion gate for a robustness sweep, by name.
#
# CGDP swept 7 discrete and 9 smooth ones (appendix G.2) and names few: the global best f_j0.6_u0.3_p2, a cluster of
# discrete ones with U = 0.3 and p = 2 to 3, one of smooth ones with U = 0.10 to 0.15 and p = 2. This grid is our own
# and contains those; what is not in the paper is the rest of the values, and the weight of the latest round, one
# half.

DISCRETE = (
    (0.5, 0.3, 2),
    (0.6, 0.3, 2),
    (0.7, 0.3, 2),
    (0.5, 0.3, 3),
    (0.6, 0.3, 3),
    (0.7, 0.3, 3),
    (0.6, 0.2, 2),
)
"""Jaccard, unique passage rate, patience."""

SMOOTH = tuple(product((0.5, 0.6, 0.7), (0.10, 0.15, 0.20), (2,)))


def gate_grid() -> dict[str, Spec]:
    """The settings by label: `f_...` discrete, `s_...` smooth. As text each is what a command line takes.

    `str(gate_grid()["f_j0.6_u0.3_p2"])` is `exhaustion_gate:jaccard=0.6,upr=0.3,patience=2`.
    """
    discrete = {_label("f", *setting): _spec("exhaustion_gate", *setting) for setting in DISCRETE}
    return discrete | {_label("s", *setting): _spec("smooth_gate", *setting) for setting in SMOOTH}


def _label(kind: str, jaccard: float, upr: float, patience: int) -> str:
    return f"{kind}_j{jaccard:g}_u{upr:g}_p{patience}"


def _spec(name: str, jaccard: float, upr: float, patience: int) -> Spec:
    return Spec(name=name, args={"jaccard": jaccard, "upr": upr, "patience": patience})


# Gap-aware stopping (CGDP appendix B): ask which predicates are unresolved, and stop when none is.


class Gaps(BaseModel):
    """The model's answer."""

    unresolved: Annotated[list[Annotated[str, Field(min_length=1), Cut(160)]], Cut(5)]
    answerable: bool


@factory
def gap_gate() -> Operator:
    """Stop once nothing is unresolved and the question can be answered; else name the first gap as what to do next.

    It aims at premature stopping and at searching on past the answer, the exhaustion gate at searching in vain:
    `either(gap_gate(), exhaustion_gate())`.
    """

    async def gap_gate(state: GateView, runtime: Runtime[Context]) -> dict[str, Any]:
        certified = quoted(bullet_list(action.text for action in state["certified"].actions))
        told = gathered(state, limits_of(state["task"], runtime))
        order = ORDER.format(task=state["task"].goal, certified=certified)
        gaps = await ask(prompt(runtime, told + order), Gaps, role="validator", runtime=runtime)
        if gaps.answerable and not gaps.unresolved:
            return {"stagnation": Stagnation(stop=True, reason="nothing that the question needs is unresolved")}
        advice = f"Not known yet: {gaps.unresolved[0]}" if gaps.unresolved else ""
        return {"stagnation": Stagnation(advice=advice)}

    return gap_gate


@factory
def either(one: Operator, other: Operator) -> Operator:
    """Two gates as one, which stops where either does. Both are asked every round; where both speak, the first's words
    count, and those of one that stops before them."""

    async def either(state: GateView, runtime: Runtime[Context]) -> dict[str, Any]:
        found: list[Stagnation] = [(await gate(state, runtime))["stagnation"] for gate in (one, other)]
        first, second = sorted(found, key=lambda stagnation: not stagnation.stop)
        told = {**second.model_dump(exclude_defaults=True), **first.model_dump(exclude_defaults=True)}
        return {"stagnation": Stagnation.model_validate({**told, "streak": max(first.streak, second.streak)})}

    return either


ORDER = """
Certified:
{certified}

Question: {task}
What the question needs to know, and what was found does not settle yet, is unresolved: name each as a short question,
the most important first. Do not count as settled what was only assumed. Then say whether the question can be answered
from what was found.
"""


# Gates that ask a model whether the search has run dry (CGDP section 6.4, appendix E.4).

PRODUCTIVE, STALE, EXHAUSTED = "PRODUCTIVE", "QUERY_STALE", "EXHAUSTED"


class Judgement(BaseModel):
    """The model's answer."""

    reason: Annotated[str, Cut(200)]
    verdict: Literal["PRODUCTIVE", "QUERY_STALE", "EXHAUSTED"]


@factory
def judged_gate(*, stance: str = "conservative", window: int = 3) -> Operator:
    """Stop where the model calls the search exhausted; a stale query is one more in the streak and no reason to stop.

    Args:
        stance: `conservative`, which goes on unless stagnation is evident, or `neutral`.
        window: latest rounds that it sees.

    Raises:
        UnknownName: another stance, or no round to see.
    """
    if stance not in ORDERS or window < 1:
        told = f"judged_gate(stance={stance!r}, window={window})"
        raise UnknownName(f"{told}: stance is one of {', '.join(ORDERS)}, window at least 1")

    async def judged_gate(state: GateView, runtime: Runtime[Context]) -> dict[str, Any]:
        rounds = [f"{r.action} -> {r.glimpse}" for r in state["rounds"][-window:]]
        told = INVESTIGATION.format(
            task=state["task"].goal,
            state=quoted(state_of(state) or "(nothing)"),
            count=len(rounds),
            rounds=quoted(bullet_list(rounds)),
        )
        answer = await ask(prompt(runtime, told + ORDERS[stance]), Judgement, role="validator", runtime=runtime)
        streak = 0 if answer.verdict == PRODUCTIVE else state["stagnation"].streak + 1
        stop = answer.verdict == EXHAUSTED
        return {"stagnation": Stagnation(streak=streak, stop=stop, reason=answer.reason)}

    return judged_gate


def state_of(state: GateView) -> str:
    """The state of the investigation: what is believed and certified; without either, what the agent thought last."""
    certified = [action.text for action in state["certified"].actions]
    known = [*state["belief"].text.splitlines(), *certified]
    return "\n".join(known or [turn.thought for turn in state["turns"][-3:] if turn.thought])


INVESTIGATION = """\
Question under investigation: {task}

Where it stands:
{state}

Its last {count} searches, each with the beginning of what it brought up:
{rounds}

"""

CONSERVATIVE = """\
Should the search end here? It goes on unless there is plain evidence that it has run dry: the same passages return
round after round, the obvious ways to ask are used up and no other comes to mind, or nothing further could change the
answer. That an answer looks right, that a few passages return, or that you are unsure are no such evidence.
Verdict: PRODUCTIVE to go on, QUERY_STALE where this line is used up and another is left, EXHAUSTED to end.
"""

NEUTRAL = """\
How does the search stand? Choose what describes it:
PRODUCTIVE: the latest rounds still bring up something new that matters.
QUERY_STALE: this line of search is used up, yet a definite other one could bring something new.
EXHAUSTED: the search stands still, and more rounds would hardly bring anything new that matters.
"""

ORDERS: Mapping[str, str] = {"conservative": CONSERVATIVE, "neutral": NEUTRAL}


# Triggered resampling (CGDP appendix B): where a search stagnates, a new hypothesis instead of the end.


@factory
def resampling(gate: Operator, *, times: int = 2) -> Operator:
    """Where the gate would stop, give the agent a direction that fits what was found and start counting anew.

    The direction stays in mind until the next one, or until the gate itself advises. After `times` of them, or where
    the model has none, it stops.

    Raises:
        UnknownName: a negative number of times.
    """
    if times < 0:
        raise UnknownName(f"resampling(times={times}): at least 0, as in gate=resampling:gate=exhaustion_gate,times=2")

    async def resampling(state: GateView, runtime: Runtime[Context]) -> dict[str, Any]:
        before: Stagnation = state["stagnation"]
        found: Stagnation = (await gate(state, runtime))["stagnation"]
        kept = {"advice": found.advice or before.advice, "resampled": before.resampled}
        if not found.stop or before.resampled >= times:
            return {"stagnation": found.model_copy(update=kept)}
        tried = dict.fromkeys(r.action for r in state["rounds"])
        new = await hypotheses(state["task"], runtime, most=1, known=state_of(state), tried=tried)
        if not new:
            return {"stagnation": found.model_copy(update=kept)}
        advice = f"The search stood still. Take another direction: {new[0]}"
        return {"stagnation": Stagnation(reason=found.reason, advice=advice, resampled=before.resampled + 1)}

    return resampling


# A gate at work without consequence: what it would have answered, and when, in a run that goes on (CGDP table 13).
#
# One run then yields both sides of the blended comparison: the answer at the gate where it would have stopped, else
# the natural one.


@factory
def shadow(gate: Operator) -> Operator:
    """Run a gate; where it would stop first, ask for the final answer there, keep both, and go on.

    `Stagnation.at` is the round, `Stagnation.answer` the answer; None in a world that takes none. The tokens of that
    one question are the gate node's, as are those of a gate that asks a model, which is not asked again. Of a gate
    that also advises only the stop is seen: what its advice would have led to no run without it can tell.
    """

    async def shadow(state: GateView, runtime: Runtime[Context]) -> dict[str, Any]:
        before = state["stagnation"]
        if before.at is not None:
            return {"stagnation": before}
        found = (await gate(state, runtime))["stagnation"]
        silent = found.model_copy(update={"stop": False, "advice": ""})  # advice would change the run
        if not found.stop:
            return {"stagnation": silent}
        seen = {"at": len(state["rounds"]), "answer": await _answered(state, runtime)}
        return {"stagnation": silent.model_copy(update=seen)}

    return shadow


async def _answered(state: GateView, runtime: Runtime[Context]) -> str | None:
    if not getattr(benchmark_of(state["task"], runtime), "answers", False):
        return None
    return str((await answer(state, runtime))["action"].args["answer"])
