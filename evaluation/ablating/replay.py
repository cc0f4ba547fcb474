"""Ablations estimated from recorded trajectories, without running anything (SDP paper, appendix C).

Each rule turns the score of a recorded run into what it might have been without one mechanism. The estimate takes for
granted that the rest of the run would have gone as it did; `report` sets it beside runs that were made anew.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from certigraph.evaluation.anatomy.folding import CHECKS, EXTENDED
from certigraph.nodes.specs import Spec
from certigraph.state.trajectory import Trajectory


class Replay(NamedTuple):
    """What a recorded run of SDP says about its mechanisms. Cursors and lengths count predicates."""

    first_tries: int
    """Certified steps whose target was met at the first attempt; a replanned target is a new one."""
    certified_steps: int
    exhausted_at: int | None
    """The cursor when all attempts at a target were used up for the first time; None where that never happened."""
    planned_then: int
    """The plan's length at that moment."""
    steps: int
    depths: tuple[int, ...]
    """Cascade depth of each certified step."""

    @property
    def action_fidelity(self) -> float:
        """Steps certified at their first attempt by certified steps; 1 where nothing was certified."""
        return self.first_tries / self.certified_steps if self.certified_steps else 1.0

    @property
    def certified_prefix(self) -> float:
        """The cursor at the first exhaustion by the plan's length; 1 without exhaustion."""
        return 1.0 if self.exhausted_at is None else self.exhausted_at / max(self.planned_then, 1)

    def capped_share(self, depth: int, most_steps: int) -> float:
        """The share of the run that fits into the step cap when no action may certify more than `depth` predicates."""
        steps = self.steps + sum(-(-k // depth) - 1 for k in self.depths)
        return min(1.0, most_steps / steps) if steps else 1.0


Factor = Callable[[Replay, int], float]
"""A recorded run and its step cap -> the factor of its score."""


class Rule(NamedTuple):
    """A rule of appendix C."""

    name: str
    factor: Factor


def rule_for(swaps: Mapping[str, Spec]) -> Rule | None:
    """The rule that estimates a variant with these swaps; None where appendix C has none."""
    if len(swaps) != 1:
        return None
    ((slot, spec),) = swaps.items()
    if (slot, spec.name) == ("validate", "always_pass"):
        return Rule("action fidelity", lambda replay, most: replay.action_fidelity)
    if (slot, spec.name) == ("replan", "give_up"):
        return Rule("certified prefix", lambda replay, most: replay.certified_prefix)
    if (slot, spec.name) == ("validate", "capped"):
        depth = int(str(spec.args.get("depth", 1)))
        return Rule("cascade cap", lambda replay, most: replay.capped_share(depth, most))
    return None


def replay_of(trajectory: Trajectory) -> Replay:
    """Read a run of SDP off its events."""
    plan = head = tried = first_tries = steps = 0
    exhausted, depths, before = None, list[int](), ""
    for event in trajectory.events:
        update: Mapping[str, Any] = event.update or {}
        # an audit, a revalidation or the end of a plan that was cut comes before any try
        if event.node == "replan" and exhausted is None and before not in CHECKS | {EXTENDED} and tried:
            exhausted = (head, plan)
        before = before if event.update is None else event.node
        # what a policy let pass was certified at no attempt
        for certificate in (c for c in update.get("certificates", []) if not c.get("forced")):
            depths.append(len(certificate["targets"]))
            first_tries += tried == 1
        plan = len(update["plan"]) if "plan" in update else plan
        head, tried = update.get("head", head), update.get("tried", tried)
        steps += len(update.get("history", []))
    at, length = exhausted or (None, 0)
    return Replay(first_tries, len(depths), at, length, steps, tuple(depths))
