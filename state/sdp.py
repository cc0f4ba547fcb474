"""State of SDP, and the views that limit what each of its operators may read."""

from collections.abc import Iterator, Sequence
from itertools import takewhile
from typing import NotRequired

from typing_extensions import TypedDict

from certigraph.state.certified_states import (
    CertifiedPredicate,
    CertifiedState,
    certified_state,
    facts_of,
    predicates_in_force,
)
from certigraph.state.channels import Log, Plan
from certigraph.state.endings import EXHAUSTED, GAVE_UP, GOAL, WORLD_ENDED
from certigraph.state.records import (
    BRINGS,
    CHECK,
    CLAIMS,
    RESTORE,
    Action,
    Attempt,
    Audit,
    Certificate,
    Fact,
    Invalidation,
    Observation,
    Predicate,
    Record,
    Sighting,
    Task,
    Verdict,
)
from certigraph.state.run import (
    AnsweredCall,
    Belief,
    BeliefState,
    Draft,
    Evidence,
    Turn,
    advice_of,
    belief_of,
    is_stopped,
)
from certigraph.state.search import forced_ending


class SDPState(BeliefState, total=False):
    """State of a run of SDP. `head` is an index into `plan`: `plan[head]` is the target, the predicate to certify next.

    `verdict` is the latest one. `tried` counts the attempts at the target, `replans` the replans.
    """

    plan: Plan
    head: int
    certificates: Log[Certificate]
    attempts: Log[Attempt]
    trace: Log[Turn]
    """Every action of the run and the world's answer, one turn for each attempt that did something in the world."""
    verdict: Verdict
    tried: int
    replans: int
    gave_up: str
    """Reason that Propose or Replan gave with an empty plan; absent or empty if there is none."""
    audits: Log[Audit]
    """Results of the optional operator `audit`, which checks a certified goal."""
    invalidations: Log[Invalidation]
    """Certified predicates that no longer hold, as found by the optional operator `revalidate`."""


class SharedRequest(Record):
    """What Propose and Replan see besides if the first actions are chosen in the same request."""

    view: str
    """What the world shows."""
    ahead: int
    """Maximum number of actions after the first one."""


class ProposeView(TypedDict):
    """View of Propose (SDP Eq. 1), which writes the plan: the task and the certified state, but no observation."""

    task: Task
    certified: CertifiedState
    shared: NotRequired[SharedRequest]
    """What the world shows, if the first actions are chosen in the same request; else Propose does not see it."""
    draft: NotRequired[Draft | None]
    """The plan, if it was written together with the commitment."""


class RealizeView(TypedDict):
    """View of Realize (SDP Eq. 2), which chooses an action: certified state, target, present world, previous attempts.

    `attempts` are those at this target only.
    """

    task: Task
    certified: CertifiedState
    target: Predicate
    ahead: Sequence[Predicate]
    """The predicates after the target, in order."""
    evidence: Evidence
    turns: Sequence[Turn]
    """Every action so far and the world's answer, oldest first."""
    facts: Sequence[Fact]
    """What verdicts on earlier actions established."""
    observation: Observation
    """What the world answered last."""
    upcoming: Sequence[Action]
    """Actions that Realize chose together with the last one and that are still to be taken."""
    untaken: Sequence[Action]
    """Actions that were to follow and were cut off."""
    draft: NotRequired[Draft | None]
    """The first actions for the plan, if they were chosen together with it and are still to be taken."""
    attempts: Sequence[Attempt]
    belief: Belief
    """Content of the optional memory.

    It stems from earlier observations, which Realize does not see in the SDP paper.
    """
    advice: Sequence[str]
    """Advice of the optional gate, which Realize does not see in the SDP paper."""


class ValidateView(TypedDict):
    """View of Validate (SDP Eq. 3): the rest of the plan, the last action and the new observation.

    If Realize chose several actions together, they count as one action, and what the world answered to each of them as
    its observation: `turns` has those since the latest verdict of the operator's model, the last one included. If
    nothing was done since then, `turns` has the action before.
    """

    task: Task
    tail: Sequence[Predicate]
    action: Action
    observation: Observation
    turns: Sequence[Turn]
    trace: Sequence[Turn]
    """All actions of the run and the world's answers, these turns last."""
    upcoming: Sequence[Action]
    """Actions that will follow the last one."""
    announced: Sequence[str]
    """Conditions of the rest of the plan that hold or were to be brought about by whoever chose these actions."""
    sightings: Sequence[tuple[int, Sighting]]
    """What rules found to hold after earlier actions, each with the number of the action."""
    since: int
    """Number of the action that the latest certificate names; 0 without a certificate."""
    evidence: Evidence
    """What the world shows after the last action."""
    answers: Sequence[AnsweredCall]
    """The calls of the user's own tools, in order, with their answers; those that were not made are marked."""
    facts: Sequence[Fact]
    """What verdicts on earlier actions established."""


class AuditView(TypedDict):
    """View of an audit, which judges the goal by the world alone.

    It has the goal, the last action, its observation and the world at present. It has neither the verdict that the
    audit checks nor what was certified, tried or planned.
    """

    task: Task
    goal: Predicate
    action: Action
    observation: Observation
    evidence: Evidence


class RevalidateView(TypedDict):
    """View of revalidation: certified predicates to check again, the rest of the plan, and the new observation."""

    task: Task
    certified: Sequence[Predicate]
    """The certified predicates that are still valid and that the rest of the plan does not name, in order."""
    tail: Sequence[Predicate]
    observation: Observation
    evidence: Evidence


class SDPReplanView(TypedDict):
    """View of Replan (SDP Eq. 4), the only operator that sees everything."""

    task: Task
    certified: CertifiedState
    plan: Sequence[Predicate]
    head: int
    certificates: Sequence[Certificate]
    attempts: Sequence[Attempt]
    turns: Sequence[Turn]
    facts: Sequence[Fact]
    evidence: Evidence
    replans: int
    audits: Sequence[Audit]
    invalidations: Sequence[Invalidation]
    denied: Audit | None
    """The audit that denied the goal and so led to this replan. Attempts at the target may be left."""
    undone: Sequence[Invalidation]
    """Predicates found to hold no longer after the latest action, which led to this replan. Attempts may be left."""
    shared: NotRequired[SharedRequest]
    """Present if the first actions are chosen in the same request."""


CUT_ARGUMENT = "cut_at"
"""Argument of the goal predicate in a plan that was cut because it had too many conditions.

Its value is the number of conditions that the plan kept.
"""


def build_plan(texts: Sequence[str], goal: Predicate, most: int) -> list[Predicate]:
    """Build a plan of at most `most` conditions, followed by the goal. Without any text the plan is empty.

    If conditions may be missing before the goal, the goal is marked with `CUT_ARGUMENT`. That is so if `texts` has more
    than `most` entries, or exactly `most` and does not end with the goal.
    """
    cut = len(texts) > most or (len(texts) == most and texts[-1] != goal.text)
    conditions = [Predicate(text=text) for text in texts[:most] if text != goal.text]
    end = goal.model_copy(update={"args": {**goal.args, CUT_ARGUMENT: most}}) if cut else goal
    return [*conditions, end] if texts else []


def needs_rest_of_plan(state: SDPState | SDPReplanView) -> bool:
    """Return whether all conditions of a plan that was cut are certified, so that the rest must be planned now."""
    plan, head = state["plan"], state["head"]
    return head < len(plan) and CUT_ARGUMENT in plan[head].args


def propose_view(state: SDPState) -> ProposeView:
    """Return the part of the state that SDP's operator Propose may read."""
    view: ProposeView = {"task": state["task"], "certified": _certified(state)}
    if draft := state.get("draft"):
        view["draft"] = draft
    return view


def realize_view(state: SDPState) -> RealizeView:
    """Return the part of the state that SDP's operator Realize may read."""
    head = state["head"]
    view: RealizeView = {
        "task": state["task"],
        "certified": _certified(state),
        "target": state["plan"][head],
        "ahead": state["plan"][head + 1 :],
        "evidence": state["evidence"],
        "turns": tuple(state["trace"]),
        "facts": established_facts(state),
        "observation": state["observation"],
        "upcoming": state.get("upcoming", ()),
        "untaken": state.get("untaken", ()),
        "attempts": list(_attempts_at(head, judged_attempts(state), state["plan"][head])),
        "belief": belief_of(state),
        "advice": advice_of(state),
    }
    if draft := state.get("draft"):
        view["draft"] = draft
    return view


def validate_view(state: SDPState) -> ValidateView:
    """Return the part of the state that SDP's operator Validate may read."""
    return {
        "task": state["task"],
        "tail": state["plan"][state["head"] :],
        "action": state["action"],
        "observation": state["observation"],
        "turns": _unjudged_turns(state),
        "trace": tuple(state["trace"]),
        "upcoming": state.get("upcoming", ()),
        "announced": _announced_conditions(state),
        "sightings": tuple(_numbered_sightings(state["attempts"])),
        "since": _latest_certified_action(state),
        "evidence": state["evidence"],
        "answers": tuple(state.get("answers", ())),
        "facts": established_facts(state),
    }


def _unjudged_turns(state: SDPState) -> tuple[Turn, ...]:
    # Rules say nothing about conditions that are not in their words, which nobody has judged.
    actions = [*(attempt.action for attempt in _unjudged_attempts(state)), state["action"]]
    taken = sum(action.kind != CHECK for action in actions)
    return tuple(state["trace"][-max(taken, 1) :])


def _unjudged_attempts(state: SDPState) -> Iterator[Attempt]:
    return takewhile(lambda a: a.verdict.pending or a.verdict.decided_by == "code", reversed(state["attempts"]))


def _announced_conditions(state: SDPState) -> tuple[str, ...]:
    left = [predicate.text for predicate in state["plan"][state["head"] :]]
    actions = (state["action"], *(attempt.action for attempt in _unjudged_attempts(state)))
    announced = {str(action.args[key]) for action in actions for key in (BRINGS, CLAIMS) if key in action.args}
    return tuple(text for text in left if text in announced)


def _numbered_sightings(attempts: Sequence[Attempt]) -> Iterator[tuple[int, Sighting]]:
    number = 0
    for attempt in attempts:
        number += attempt.action.kind != CHECK
        yield from ((number, sighting) for sighting in attempt.verdict.sightings)


def find_sighting(state: SDPState, condition: str, number: int) -> str:
    """Return the words by which a rule found a condition to hold after an action, or at last if its number is 0.

    They are empty if no rule did.
    """
    seen = [(at, sighting) for at, sighting in _numbered_sightings(state["attempts"]) if sighting.text == condition]
    latest = {one.text: one.quote for one in state["attempts"][-1].verdict.sightings} if state["attempts"] else {}
    return next((sighting.quote for at, sighting in seen if at == number), "") if number else latest.get(condition, "")


def _latest_certified_action(state: SDPState) -> int:
    if not state["certificates"]:
        return 0
    later = state["history"][state["certificates"][-1].step :]
    return len(state["trace"]) - sum(one.action.kind != CHECK for one in later)


def step_of_action(state: SDPState, number: int) -> int:
    """Return the number of the world step, from 1, at which the action with a number in the trace, from 1, was taken.

    They differ because checks count as steps and are no turns, and because the history of a nested run begins with the
    steps of the run around it.
    """
    actions = [step for step, one in enumerate(state["history"], 1) if one.action.kind != CHECK]
    return actions[number - len(state["trace"]) - 1]


def established_facts(state: SDPState) -> tuple[Fact, ...]:
    """Return what the verdicts so far established and later ones did not contradict, oldest first.

    Of equal facts the latest is returned.
    """
    return facts_of(state["attempts"])


def sdp_replan_view(state: SDPState) -> SDPReplanView:
    """Return the part of the state that SDP's operator Replan may read: everything but internal counters."""
    audits, invalidations = tuple(state.get("audits", ())), tuple(state.get("invalidations", ()))
    step = len(state["history"]) if audits or invalidations else 0
    return {
        "task": state["task"],
        "certified": _certified(state),
        "plan": tuple(state["plan"]),
        "head": state["head"],
        "certificates": tuple(state["certificates"]),
        "attempts": tuple(judged_attempts(state)),
        "turns": tuple(state["trace"]),
        "facts": established_facts(state),
        "evidence": state["evidence"],
        "replans": state["replans"],
        "audits": audits,
        "invalidations": invalidations,
        "denied": next((audit for audit in audits[-1:] if not audit.confirmed and audit.step == step), None),
        "undone": tuple(invalidation for invalidation in invalidations if invalidation.step == step),
    }


def judged_attempts(state: SDPState) -> Sequence[Attempt]:
    """Return the attempts with their final verdicts.

    If an attempt claimed the goal and an audit denied it, its verdict has depth 0 and the audit's reason. The state
    itself keeps the verdict of Validate.
    """
    denied = {audit.step: audit for audit in state.get("audits", ()) if not audit.confirmed}
    if not denied:
        return state["attempts"]
    # Every action is validated, so attempts and steps correspond; a nested run's history begins with the outer steps.
    first = 1 + len(state["history"]) - len(state["attempts"])
    return [
        _deny_attempt(attempt, denied[step]) if step in denied else attempt
        for step, attempt in enumerate(state["attempts"], first)
    ]


def _deny_attempt(attempt: Attempt, audit: Audit) -> Attempt:
    verdict = attempt.verdict.model_copy(update={"depth": 0, "reason": f"audit of the goal: {audit.reason}"})
    return attempt.model_copy(update={"verdict": verdict})


def audit_view(state: SDPState) -> AuditView:
    """Return the part of the state that the operator `audit` may read."""
    return {
        "task": state["task"],
        "goal": state["plan"][-1],
        "action": state["action"],
        "observation": state["observation"],
        "evidence": state["evidence"],
    }


def revalidate_view(state: SDPState) -> RevalidateView:
    """Return the part of the state that the operator `revalidate` may read."""
    return {
        "task": state["task"],
        "certified": [entry.predicate for entry in predicates_to_recheck(state)],
        "tail": state["plan"][state["head"] :],
        "observation": state["observation"],
        "evidence": state["evidence"],
    }


def predicates_to_recheck(state: SDPState) -> list[CertifiedPredicate]:
    """Return the certified predicates to check again: those that still hold and that the plan will not make true.

    Of predicates with the same text only the latest is returned. Predicates for going back to an earlier state are left
    out, because they are not conditions on the world.
    """
    planned = {predicate.text for predicate in state["plan"][state["head"] :]}
    entries = predicates_in_force(state["certificates"], state.get("invalidations", ()))
    latest = {entry.predicate.text: entry for entry in entries if entry.predicate.kind != RESTORE}
    return sorted((p for text, p in latest.items() if text not in planned), key=lambda entry: entry[:2])


def _certified(state: SDPState) -> CertifiedState:
    return certified_state(state["certificates"], state.get("invalidations", ()))


def sdp_ending(state: SDPState) -> str:
    """Return the ending of a run of SDP whose graph reached its end."""
    plan, head, verdict = state.get("plan"), state.get("head", 0), state.get("verdict")
    if plan and head >= len(plan):
        return GAVE_UP if state["certificates"][-1].forced else GOAL
    if forced := forced_ending(state):
        return forced
    if (verdict and verdict.exhausted) or is_stopped(state):
        return EXHAUSTED
    observation = state.get("observation")
    return WORLD_ENDED if observation and observation.done else GAVE_UP


def sdp_message(state: SDPState) -> str:
    """Return which predicate a run that gave up could not certify, and why. The text is empty for any other ending."""
    if sdp_ending(state) != GAVE_UP:
        return ""
    plan, head = state.get("plan", ()), state.get("head", 0)
    given = f"; its reason: {state['gave_up']}" if state.get("gave_up") else ""
    if not plan:
        return f"the plan is empty: Propose gave no predicate{given}"
    if head >= len(plan):
        return "the last predicate was let pass without being certified"
    verdict = state.get("verdict")
    reason = f"; the last verdict: {verdict.reason}" if verdict and verdict.reason else ""
    # also those before a replan, which is counted too
    tries = takewhile(lambda a: a.position == head, reversed(state.get("attempts", ())))
    attempts = sum(attempt.verdict.is_counted for attempt in tries)
    spent = f"attempts: {attempts}, replans: {state.get('replans', 0)}"
    uncertified = f"predicate {head + 1} of {len(plan)} was not certified ({spent}): {plan[head].text!r}{reason}"
    return f"{uncertified}; Replan gave up{given}" if given else uncertified


def _attempts_at(head: int, attempts: Sequence[Attempt], target: Predicate) -> Iterator[Attempt]:
    latest = list(takewhile(lambda a: a.position == head, reversed(attempts)))
    return (a for a in reversed(latest) if a.target == target)
