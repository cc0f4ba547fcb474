"""Gates: operators that decide in each round whether to stop a search (CGDP section 5.2, appendices B, E.4 and G.2).

`exhaustion_gate` and `smooth_gate` decide by rules, `gap_gate`, `satisfied_gate` and `judged_gate` ask a model.
`either` combines two gates, `resampling` gives a new direction instead of stopping, and `shadow` only records when a
gate would have stopped.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import product, takewhile
from typing import Annotated, Any, Literal

from langgraph.runtime import Runtime
from pydantic import BaseModel, Field

from certigraph.adapters.benchmarks import benchmark_of
from certigraph.adapters.models.calls import ask
from certigraph.adapters.models.prompts import build_prompt, bullet_list, paragraphs, quote
from certigraph.adapters.models.schemas import FirstReasoning, Reasoning, Truncated
from certigraph.adapters.protocols import Context, Operator
from certigraph.nodes.operators import call_operator
from certigraph.nodes.search import answer, ask_hypotheses
from certigraph.nodes.slots import factory
from certigraph.nodes.specs import Spec
from certigraph.nodes.transcripts import search_prompt
from certigraph.state.endings import UnknownName
from certigraph.state.run import SearchRound, Stagnation
from certigraph.state.search import GateView

# The exhaustion gate (CGDP section 5.2) stops a search whose actions repeat and whose observations bring nothing new.
#
# It needs no model: both signals are computed from the rounds. `gate_grid` lists further settings.


async def no_gate(state: GateView, runtime: Runtime[Context]) -> dict[str, Any]:
    """Never stop the search; only the maximum number of rounds and the agent itself end it."""
    return {"stagnation": Stagnation()}


@factory
def exhaustion_gate(
    *, jaccard: float = 0.6, upr: float = 0.3, patience: int = 2, change: float | None = None
) -> Operator:
    """Stop after `patience` rounds in a row that repeat an earlier action, nearly or exactly, and find little new.

    The defaults are CGDP's best setting over all search agents.

    Args:
        jaccard: minimum Jaccard similarity of the round's action to a recent one (tau_J in CGDP).
        upr: maximum unique passage rate: the share of the round's passages that no earlier round has shown (tau_U).
        patience: number of such rounds in a row (p).
        change: maximum share of the belief's items that are new in such a round (state difference, appendix G.4); None:
            not checked. A memory that is not a belief has no state difference.

    Raises:
        UnknownName: a threshold is outside [0, 1], or `patience` is below 1.
    """
    _check_thresholds("exhaustion_gate", patience, jaccard=jaccard, upr=upr, **_given(change=change))

    async def exhaustion_gate(state: GateView, runtime: Runtime[Context]) -> dict[str, Any]:
        stagnant = [r.jaccard >= jaccard and r.upr <= upr and _is_settled(r, change) for r in state["rounds"]]
        return {"stagnation": _count_streak(state, stagnant, patience)}

    return exhaustion_gate


@factory
def smooth_gate(
    *,
    jaccard: float = 0.6,
    upr: float = 0.15,
    patience: int = 2,
    decay: float = 0.5,
    change: float | None = None,
) -> Operator:
    """Stop as `exhaustion_gate` does, but by exponential moving averages of its two measures (CGDP appendix G.2).

    Searches stop finding new passages gradually, and averages are less sensitive to a single round.

    Args:
        jaccard: minimum average Jaccard similarity of actions to recent ones.
        upr: maximum average unique passage rate: the share of passages that no earlier round has shown.
        patience: number of rounds in a row in which both averages are beyond these thresholds.
        decay: weight of the latest round in the averages, in (0, 1]; with 1 this is `exhaustion_gate`.
        change: as in `exhaustion_gate`; it is not averaged.

    Raises:
        UnknownName: a threshold is outside [0, 1], `decay` outside (0, 1], or `patience` is below 1.
    """
    _check_thresholds("smooth_gate", patience, jaccard=jaccard, upr=upr, decay=decay, **_given(change=change))

    async def smooth_gate(state: GateView, runtime: Runtime[Context]) -> dict[str, Any]:
        averages = list(_smoothed_signals(state["rounds"], decay))
        stagnant = [
            similar >= jaccard and novel <= upr and _is_settled(latest, change)
            for (similar, novel), latest in zip(averages, state["rounds"], strict=True)
        ]
        counted = _count_streak(state, stagnant, patience)
        return {"stagnation": counted.model_copy(update={"level": averages[-1][1]})}

    return smooth_gate


def _is_settled(latest: SearchRound, change: float | None) -> bool:
    """Return whether the belief changed no more in a round than a threshold allows."""
    return change is None or latest.change is None or latest.change <= change


def _given(**thresholds: float | None) -> dict[str, float]:
    return {name: value for name, value in thresholds.items() if value is not None}


def _smoothed_signals(rounds: Sequence[SearchRound], decay: float) -> Iterator[tuple[float, float]]:
    """Yield after each round the moving averages of `jaccard` and `upr`, which start at 0 and 1 (all is new)."""
    similar, novel = 0.0, 1.0
    for latest in rounds:
        similar = (1 - decay) * similar + decay * latest.jaccard
        novel = (1 - decay) * novel + decay * latest.upr
        yield similar, novel


def _count_streak(state: GateView, stagnant: Sequence[bool], patience: int) -> Stagnation:
    # The streak grows by at most one a round, so that a gate combined with this one can reset it.
    in_a_row = sum(1 for _ in takewhile(bool, reversed(stagnant)))
    streak, latest = min(in_a_row, state["stagnation"].streak + 1), state["rounds"][-1]
    if streak < patience:
        return Stagnation(streak=streak)
    reason = f"{streak} rounds in a row: similarity {latest.jaccard:.2f} to a recent action, {latest.upr:.0%} new"
    return Stagnation(streak=streak, stop=True, reason=reason)


def _check_thresholds(name: str, patience: int, **shares: float) -> None:
    wrong: dict[str, object] = {key: value for key, value in shares.items() if not _is_within(value, 0, 1)}
    wrong |= {"patience": patience} if not (isinstance(patience, int) and patience >= 1) else {}
    wrong |= {"decay": 0} if shares.get("decay") == 0 else {}
    if wrong:
        values = ", ".join(f"{key}={value}" for key, value in wrong.items())
        raise UnknownName(f"{name}({values}): thresholds lie in [0, 1], decay in (0, 1], and patience is at least 1")


def _is_within(value: object, minimum: float, maximum: float) -> bool:
    return isinstance(value, int | float) and minimum <= value <= maximum


# Sixteen settings of the exhaustion gate for a robustness sweep, by name.
#
# CGDP swept 7 discrete and 9 smooth settings (appendix G.2) but names only some: the best, f_j0.6_u0.3_p2, a cluster
# of discrete ones with U = 0.3 and p = 2 to 3, and a cluster of smooth ones with U = 0.10 to 0.15 and p = 2. This grid
# contains those; the other values, and the decay of one half, are our choice.

DISCRETE_SETTINGS = (
    (0.5, 0.3, 2),
    (0.6, 0.3, 2),
    (0.7, 0.3, 2),
    (0.5, 0.3, 3),
    (0.6, 0.3, 3),
    (0.7, 0.3, 3),
    (0.6, 0.2, 2),
)
"""Settings of `exhaustion_gate`, each as (jaccard, upr, patience)."""

SMOOTH_SETTINGS = tuple(product((0.5, 0.6, 0.7), (0.10, 0.15, 0.20), (2,)))
"""Settings of `smooth_gate`, each as (jaccard, upr, patience)."""


MAX_CHANGE = 0.1
"""Maximum state difference of the settings that check it (CGDP appendix G.4, which does not give the value)."""


def gate_grid(change: float | None = None) -> dict[str, Spec]:
    """Return all gate settings of the robustness sweep by label, each as a `Spec` (operator name and arguments).

    Labels begin with `f_` for `exhaustion_gate` and with `s_` for `smooth_gate`. The text of a spec is what the command
    line takes: `str(gate_grid()["f_j0.6_u0.3_p2"])` is `exhaustion_gate:jaccard=0.6,upr=0.3,patience=2`.

    Args:
        change: threshold of the state difference in all settings; None: it is not checked.
    """
    kinds = (("f", "exhaustion_gate", DISCRETE_SETTINGS), ("s", "smooth_gate", SMOOTH_SETTINGS))
    return {
        _setting_label(kind, *setting): _gate_spec(name, *setting, change=change)
        for kind, name, settings in kinds
        for setting in settings
    }


def _setting_label(kind: str, jaccard: float, upr: float, patience: int) -> str:
    return f"{kind}_j{jaccard:g}_u{upr:g}_p{patience}"


def _gate_spec(name: str, jaccard: float, upr: float, patience: int, *, change: float | None) -> Spec:
    return Spec(name=name, args={"jaccard": jaccard, "upr": upr, "patience": patience, **_given(change=change)})


# Gap-aware stopping (CGDP appendix B): ask a model which predicates are unresolved, and stop when none is.


class Gaps(BaseModel):
    """The model's answer."""

    unresolved: Annotated[list[Annotated[str, Field(min_length=1)]], Truncated(5)]
    answerable: bool


@factory
def gap_gate() -> Operator:
    """Stop once a model finds the question answerable and nothing unresolved; else advise what to find out next.

    This gate is for searches that end too early or continue past the answer; `exhaustion_gate` is for searches that
    find nothing new. Both together: `either(gap_gate(), exhaustion_gate())`.
    """

    async def gap_gate(state: GateView, runtime: Runtime[Context]) -> dict[str, Any]:
        certified = quote(bullet_list(action.text for action in state["certified"].actions))
        instruction, shown = GAPS_INSTRUCTION.format(task=state["task"].goal), f"Certified:\n{certified}"
        prompt = await search_prompt(state, instruction, "validator", runtime, shown=shown, closing=GAPS_CLOSING)
        gaps = await ask(prompt, Gaps, role="validator", runtime=runtime)
        if gaps.answerable and not gaps.unresolved:
            return {"stagnation": Stagnation(stop=True, reason="nothing that the question needs is unresolved")}
        advice = f"Not known yet: {gaps.unresolved[0]}" if gaps.unresolved else ""
        return {"stagnation": Stagnation(advice=advice)}

    return gap_gate


@factory
def either(one: Operator, other: Operator) -> Operator:
    """Combine two gates: stop if at least one of them stops. Both run in every round.

    If both give a reason or advice, that of the gate that stops is used. If both or neither stop, that of the first
    gate is used.
    """

    async def either(state: GateView, runtime: Runtime[Context]) -> dict[str, Any]:
        results: list[Stagnation] = [(await call_operator(gate, state, runtime))["stagnation"] for gate in (one, other)]
        first, second = sorted(results, key=lambda stagnation: not stagnation.stop)
        fields = {**second.model_dump(exclude_defaults=True), **first.model_dump(exclude_defaults=True)}
        return {"stagnation": Stagnation.model_validate({**fields, "streak": max(first.streak, second.streak)})}

    return either


GAPS_CLOSING = "What is unresolved, and can the question be answered?"

GAPS_INSTRUCTION = """\
What the question needs to know, and what was found does not settle yet, is unresolved: name each as a short question,
the most important first. Do not count as settled what was only assumed. Then say whether the question can be answered
from what was found.

Question: {task}
"""


# The stop of CGDP's Algorithm 1: the belief satisfies the question.


class Satisfied(BaseModel):
    """The model's answer."""

    reasoning: FirstReasoning = ""
    satisfied: bool


@factory
def satisfied_gate() -> Operator:
    """Stop once the belief satisfies the question (CGDP Algorithm 1, the condition of the loop).

    A structured belief tells by itself: it has facts, and no question is open any more. Let it begin with the question,
    `memory=structured:start=question`. With other memories a model is asked whether what is known answers the question.
    To stop exhausted searches too: `either(satisfied_gate(), exhaustion_gate())`.
    """

    async def satisfied_gate(state: GateView, runtime: Runtime[Context]) -> dict[str, Any]:
        belief = state["belief"]
        if belief.form == "structured":
            settled = bool(belief.facts) and not belief.questions
        else:
            settled = await _is_satisfied(state, runtime)
        reason = "what is known answers the question" if settled else ""
        return {"stagnation": Stagnation(stop=settled, reason=reason)}

    return satisfied_gate


async def _is_satisfied(state: GateView, runtime: Runtime[Context]) -> bool:
    belief, instruction = state["belief"].text, SATISFIED_INSTRUCTION.format(task=state["task"].goal)
    if belief:
        prompt = build_prompt(runtime, paragraphs(instruction, f"Known:\n{quote(belief)}", SATISFIED_CLOSING))
    else:
        prompt = await search_prompt(state, instruction, "validator", runtime, closing=SATISFIED_CLOSING)
    return (await ask(prompt, Satisfied, role="validator", runtime=runtime)).satisfied


SATISFIED_INSTRUCTION = """\
Does what is known below answer the question completely, so that nothing has to be assumed or looked up? In `reasoning`,
name the facts from which the answer follows, or the one that is missing.

Question: {task}
"""

SATISFIED_CLOSING = "Does it answer the question completely?"


# Gates that ask a model whether the search has run dry (CGDP section 6.4, appendix E.4).

PRODUCTIVE, STALE, EXHAUSTED = "PRODUCTIVE", "QUERY_STALE", "EXHAUSTED"
"""Possible verdicts of the model on a search, in `GateJudgement.verdict`."""


class GateJudgement(BaseModel):
    """The model's answer."""

    reason: Reasoning
    verdict: Literal["PRODUCTIVE", "QUERY_STALE", "EXHAUSTED"]


@factory
def judged_gate(*, stance: str = "conservative", window: int = 3) -> Operator:
    """Ask a model how the search stands, and stop if its verdict is EXHAUSTED.

    The verdict QUERY_STALE (this line of search is used up, another is left) does not stop the search.

    Args:
        stance: `conservative`, which continues unless the search has evidently run dry, or `neutral`.
        window: number of latest rounds that the model sees.

    Raises:
        UnknownName: there is no such stance, or `window` is below 1.
    """
    if stance not in STANCES or window < 1:
        call = f"judged_gate(stance={stance!r}, window={window})"
        raise UnknownName(f"{call}: stance is one of {', '.join(STANCES)}, window at least 1")

    async def judged_gate(state: GateView, runtime: Runtime[Context]) -> dict[str, Any]:
        rounds = [f"{r.action} -> {r.glimpse}" for r in state["rounds"][-window:]]
        investigation = INVESTIGATION_TEMPLATE.format(
            stance=STANCES[stance],
            task=state["task"].goal,
            state=quote(format_investigation(state) or "(nothing)"),
            rounds=quote(bullet_list(rounds)),
        )
        answer = await ask(build_prompt(runtime, investigation), GateJudgement, role="validator", runtime=runtime)
        streak = 0 if answer.verdict == PRODUCTIVE else state["stagnation"].streak + 1
        stop = answer.verdict == EXHAUSTED
        return {"stagnation": Stagnation(streak=streak, stop=stop, reason=answer.reason)}

    return judged_gate


def format_investigation(state: GateView) -> str:
    """Format what the agent knows: its belief and the certified actions; if there are none, its last three thoughts."""
    certified = [action.text for action in state["certified"].actions]
    known = [*state["belief"].text.splitlines(), *certified]
    return "\n".join(known or [turn.thought for turn in state["turns"][-3:] if turn.thought])


INVESTIGATION_TEMPLATE = """\
{stance}
Question under investigation: {task}

Where it stands:
{state}

Its last searches, each with the beginnings of the passages that it brought up:
{rounds}

What is the verdict on the search?
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

STANCES: Mapping[str, str] = {"conservative": CONSERVATIVE, "neutral": NEUTRAL}


# Triggered resampling (CGDP appendix B): when a search stagnates, try a new hypothesis instead of stopping.


@factory
def resampling(gate: Operator, *, times: int = 2) -> Operator:
    """Wrap a gate: where it would stop, a model gives the agent a new direction to search in instead.

    The gate then starts to count stagnant rounds from 0. The agent is advised to take the direction until it gets the
    next one or other advice from the gate. After `times` directions, or if the model has none left, the search stops.

    Raises:
        UnknownName: `times` is negative.
    """
    if times < 0:
        raise UnknownName(f"resampling(times={times}): at least 0, as in gate=resampling:gate=exhaustion_gate,times=2")

    async def resampling(state: GateView, runtime: Runtime[Context]) -> dict[str, Any]:
        before: Stagnation = state["stagnation"]
        result: Stagnation = (await call_operator(gate, state, runtime))["stagnation"]
        history = {"advice": result.advice or before.advice, "resampled": before.resampled}
        if not result.stop or before.resampled >= times:
            return {"stagnation": result.model_copy(update=history)}
        tried = dict.fromkeys(r.action for r in state["rounds"])
        directions = await ask_hypotheses(
            state["task"], runtime, most=1, known=format_investigation(state), tried=tried
        )
        if not directions:
            return {"stagnation": result.model_copy(update=history)}
        advice = f"The search stood still. Take another direction: {directions[0]}"
        return {"stagnation": Stagnation(reason=result.reason, advice=advice, resampled=before.resampled + 1)}

    return resampling


# Shadow gate (CGDP table 13): record when a gate would have stopped, and the answer at that point, while the run
# continues.
#
# One run then gives both sides of the blended comparison: the answer at the gate, if it would have stopped, and the
# answer at the natural end.


@factory
def shadow(gate: Operator) -> Operator:
    """Run a gate without stopping the search. Where it would first stop, record the round and the agent's answer there.

    `Stagnation.at` is the round. `Stagnation.answer` is the answer, or None in a world that takes none. The gate does
    not run again afterwards. The model calls for the answer and by the gate count as usage of the gate's node. The
    gate's advice is dropped, because it would change the run.
    """

    async def shadow(state: GateView, runtime: Runtime[Context]) -> dict[str, Any]:
        before = state["stagnation"]
        if before.at is not None:
            return {"stagnation": before}
        result = (await call_operator(gate, state, runtime))["stagnation"]
        silent = result.model_copy(update={"stop": False, "advice": ""})  # advice would change the run
        if not result.stop:
            return {"stagnation": silent}
        record = {"at": len(state["rounds"]), "answer": await _ask_answer(state, runtime)}
        return {"stagnation": silent.model_copy(update=record)}

    return shadow


async def _ask_answer(state: GateView, runtime: Runtime[Context]) -> str | None:
    if not benchmark_of(state["task"], runtime).answers:
        return None
    return str((await answer(state, runtime))["action"].args["answer"])
