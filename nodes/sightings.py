"""What rules decide about the conditions of a plan, action by action, and the verdicts that rest on that alone.

After every action the rules of the benchmark (`Benchmark.decide`) look at the rest of the plan. What they find to hold
is recorded with the attempt, so that a condition which came true on the way is known later, with the action that
brought it about, although the world has changed since.
"""

from collections.abc import Sequence
from itertools import takewhile
from typing import NamedTuple

from certigraph.adapters.protocols import Benchmark, Decision
from certigraph.state.records import Predicate, Sighting, Verdict
from certigraph.state.sdp import ValidateView

MAX_WATCHED = 100
"""Maximum number of conditions that rules look at after an action; those after them come later."""


class RulesRecord(NamedTuple):
    """What rules found about the rest of a plan."""

    now: dict[str, Decision]
    """Decisions on its conditions after the latest action, by the condition."""
    held: dict[str, list[tuple[int, str]]]
    """By condition, the numbers of the actions after which it held, in order, each with the words that show it."""
    sightings: tuple[Sighting, ...]
    """What holds after the latest action."""

    def find(self, condition: str, since: int) -> tuple[int, str] | None:
        """Return the first action, from number `since` on, after which a condition held, and the words that show it."""
        return next((one for one in self.held.get(condition, ()) if one[0] >= since), None)


def look_at_plan(state: ValidateView, benchmark: Benchmark) -> RulesRecord:
    """Let the rules of a benchmark look at the rest of the plan after an action; the goal is not theirs to decide."""
    observation, view = state["observation"], state["evidence"].view
    conditions = dict.fromkeys(p.text for p in state["tail"][:MAX_WATCHED] if p.kind != "goal")
    decisions = ((text, benchmark.decide(text, observation, view)) for text in conditions)
    now = {text: decision for text, decision in decisions if decision is not None}
    held = dict[str, list[tuple[int, str]]]()
    for number, sighting in state["sightings"]:
        held.setdefault(sighting.text, []).append((number, sighting.quote))
    sightings = tuple(Sighting(text=text, quote=one.quote) for text, one in now.items() if one.holds)
    for sighting in sightings:
        held.setdefault(sighting.text, []).append((len(state["trace"]), sighting.quote))
    return RulesRecord(now, held, sightings)


def judge_by_rules(tail: Sequence[Predicate], record: RulesRecord, since: int) -> Verdict | None:
    """Return the verdict that rests on rules alone; None if they do not find that the target held.

    A condition counts if it held after the action that the one before it names, or later: in its place in the plan.

    Args:
        tail: the rest of the plan.
        record: what the rules found.
        since: number of the action that the latest certificate names.
    """
    found = list[tuple[int, str]]()
    for predicate in takewhile(lambda one: one.kind != "goal", tail):
        one = record.find(predicate.text, found[-1][0] if found else since)
        if one is None:
            break
        found.append(one)
    if not found:
        return None
    return Verdict(
        depth=len(found),
        evidence="; ".join(dict.fromkeys(quote for _, quote in found)),
        decided_by="code",
        since=tuple(number for number, _ in found),
    )


def judge_at_goal(tail: Sequence[Predicate], record: RulesRecord, since: int, evidence: str) -> Verdict:
    """Return the verdict on all that is left of a plan when the world reports its goal reached.

    In the SDP paper that certifies the rest of the plan. Here it certifies the goal, and those conditions of which a
    rule found on the way, in the order of the plan, that they held.

    Args:
        tail: the rest of the plan.
        record: what the rules found.
        since: number of the action that the latest certificate names.
        evidence: the words with which the world reports the goal.
    """
    numbers, skipped = list[int](), list[int]()
    for index, predicate in enumerate(tail[:-1]):
        if (one := record.find(predicate.text, since)) is None:
            skipped.append(index)
        else:
            since = one[0]
        numbers.append(since)
    return Verdict(
        depth=len(tail),
        reason="the world reports that the goal is reached",
        evidence=evidence,
        decided_by="code",
        since=(*numbers, 0),
        skipped=tuple(skipped),
    )


__all__ = ["RulesRecord", "judge_at_goal", "judge_by_rules", "look_at_plan"]
