"""Verdicts of the user's checks and, for what code does not decide, of a model."""

from collections.abc import Sequence
from itertools import takewhile
from typing import NamedTuple

from langgraph.runtime import Runtime

from certigraph.adapters.models.prompts import bullet_list, one_line, paragraphs
from certigraph.adapters.models.scripts import use_about
from certigraph.adapters.protocols import Context
from certigraph.adapters.tools.checks import Check, CheckOutcome, check_condition, find_unfilled
from certigraph.nodes.actions import is_unreachable
from certigraph.nodes.tool_verdicts import ask_grounded_verdict
from certigraph.state.records import CHECK, Predicate, Verdict
from certigraph.state.run import ANSWER_ACTIONS
from certigraph.state.sdp import ValidateView


class _Judged(NamedTuple):
    """A condition of the plan, and what checks found for it."""

    condition: Predicate
    outcome: CheckOutcome | None
    unfilled: bool = False
    """Whether it is not a statement: a name of a check's form stands where a value should."""

    @property
    def is_open(self) -> bool:
        """Whether code does not decide the condition."""
        return self.outcome is None or self.outcome.holds is None

    def __str__(self) -> str:
        text = one_line(self.condition.text)
        if self.outcome is None:
            return text
        found = {True: "holds", False: "does not hold", None: "could not be decided"}[self.outcome.holds]
        return f"{text!r} {found} by code ({self.outcome.shown})"


async def judge_by_checks(
    state: ValidateView, runtime: Runtime[Context], checks: Sequence[Check], deadline: float
) -> Verdict:
    """Judge how many of the plan's next conditions hold: by checks as soon as they can, else by the model.

    The model is asked only where the agent says that the target holds, or hands in an answer. It then judges all open
    conditions together, up to the first one that code finds false. After any other action only code judges; the action
    counts as a try only if it repeats one with the same answer. The goal is never certified without an answer.

    Args:
        state: the view of Validate.
        runtime: the run's runtime.
        checks: the checks.
        deadline: seconds after which a check is given up.
    """
    action = state["action"]
    if is_unreachable(action):
        return Verdict(depth=0, reason=action.text, unreachable=True)
    span, refuted = await _check_tail(state, checks, deadline)
    if not span and refuted is not None and refuted.unfilled:
        return Verdict(depth=0, reason=str(refuted), decided_by="code", unreachable=True)
    if action.kind != CHECK and action.kind not in ANSWER_ACTIONS:
        return _judge_by_code(state, span)
    left = [one for one in span if one.is_open]
    if not left:
        return _combine(span, refuted, Verdict(depth=0, decided_by="code"), left)
    known = [str(one) for one in span if one.outcome]
    handed_in = ANSWER_NOTE if any(one.condition.kind == "goal" for one in left) else ""
    notes = paragraphs(CHECKED_NOTE.format(known=bullet_list(known)) if known else "", handed_in)
    open_conditions = [one.condition for one in left]
    with use_about({"tail": open_conditions}):
        by_model = await ask_grounded_verdict(state, runtime, tail=open_conditions, notes=notes)
    return _combine(span, refuted, by_model, left)


def _judge_by_code(state: ValidateView, span: Sequence[_Judged]) -> Verdict:
    """Return the verdict after calls of tools: what code proves, and whether the action was in vain."""
    proven = list(takewhile(lambda one: not one.is_open, span))
    if proven:
        return _combine(proven, None, Verdict(depth=0, decided_by="code"), [])
    if _brings_news(state):
        return Verdict(depth=0, pending=True)
    return Verdict(depth=0, reason=IN_VAIN, decided_by="code")


async def _check_tail(
    state: ValidateView, checks: Sequence[Check], deadline: float
) -> tuple[list[_Judged], _Judged | None]:
    """Return the conditions before the first one that code finds false, and that one; None if there is none.

    The goal includes the answer, so that it is judged after no other action than `finish`; it then has no outcome.
    """
    span, made = list[_Judged](), tuple(one for one in state["answers"] if one.made)
    for condition in state["tail"]:
        if condition.kind == "goal" and state["action"].kind not in ANSWER_ACTIONS:
            return span, _Judged(condition, None)
        if condition.kind == "condition" and (names := find_unfilled(checks, condition.text)):
            outcome = CheckOutcome(False, UNFILLED.format(names=", ".join(names)))
            return span, _Judged(condition, outcome, unfilled=True)
        judged = _Judged(condition, await check_condition(checks, condition, made, deadline))
        if judged.outcome and judged.outcome.holds is False:
            return span, judged
        span.append(judged)
    return span, None


def _brings_news(state: ValidateView) -> bool:
    """Return whether the last action is none that was taken before with the same result."""
    taken = [(turn.action, turn.observation) for turn in state["turns"]]
    return not taken or taken[-1] not in taken[:-1]


def _combine(span: Sequence[_Judged], refuted: _Judged | None, by_model: Verdict, left: Sequence[_Judged]) -> Verdict:
    """Return the verdict on the conditions of `span`, of which the model judged those in `left`."""
    depth = span.index(left[by_model.depth]) if by_model.depth < len(left) else len(span)
    by_code = [one for one in span[:depth] if not one.is_open]
    undecided = [one for one in span[: depth + 1] if one.is_open and one.outcome]
    at_end = [str(refuted) if refuted.outcome else NO_ANSWER] if refuted and depth == len(span) else []
    evidence = [one.outcome.shown for one in by_code if one.outcome]
    deciders = ["code"] * bool(by_code) + [by_model.decided_by] * bool(by_model.depth or not by_code)
    # a model that certifies nothing writes of the next condition, which this verdict is not about
    words = by_model.reason if by_model.depth or by_model.unreachable or not by_code else ""
    if by_model.depth:
        evidence.append(by_model.evidence)
    return by_model.model_copy(
        update={
            "depth": depth,
            "reason": "; ".join(filter(None, [*map(str, [*by_code, *undecided]), words.rstrip(". "), *at_end])),
            "evidence": "; ".join(filter(None, evidence)),
            "decided_by": " and ".join(dict.fromkeys(deciders)),
        }
    )


UNFILLED = "{names} stands where a value should, so nothing can be checked: name what is meant"
IN_VAIN = "these calls were made before, with the same answers: nothing new was learnt and nothing changed"
NO_ANSWER = "the goal is judged once finish has handed in an answer"

CHECKED_NOTE = """\
Checked by code just now; what it decided stands:
{known}"""

ANSWER_NOTE = """\
The goal includes the answer, which counts only if the world bears out what it says: not if it claims
what was not done, or leaves out what it was to tell. That a thing cannot be done is shown only where none of the ways
to it that the world named is left."""
