"""Ablations estimated from recorded trajectories without running anything (SDP paper, appendix C).

Each rule scales the score of a recorded run to estimate the score without one mechanism. It assumes that the rest of
the run would have gone the same way; `estimates_of` compares it with runs of the variant.
"""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import pandas as pd
from pydantic import Field

from certigraph.evaluation.comparison import ComparisonPlan, exchanged_operators
from certigraph.evaluation.comparison_summary import (
    Difference,
    adjust_family,
    compute_difference,
    shared_rows,
)
from certigraph.evaluation.frames import Frames
from certigraph.evaluation.measures import ComparisonRow, values_by_task
from certigraph.evaluation.statistics import ScoresByTask
from certigraph.nodes.specs import Spec
from certigraph.state.records import Record


class Replay(NamedTuple):
    """Measures of a recorded run of SDP that the rules of the SDP paper's appendix C need.

    Positions and lengths count predicates of the plan.
    """

    first_tries: int
    """Number of certified steps whose target was certified at the first attempt; a replanned target is a new one."""
    certified_steps: int
    exhausted_at: int | None
    """Position in the plan when all attempts at a target were used up for the first time; None if this never happened.
    """
    planned_then: int
    """The length of the plan at that time."""
    steps: int
    depths: tuple[int, ...]
    """Cascade depth of each certified step."""

    @property
    def action_fidelity(self) -> float:
        """Share of certified steps that were certified at the first attempt; 1 if nothing was certified."""
        return self.first_tries / self.certified_steps if self.certified_steps else 1.0

    @property
    def certified_prefix(self) -> float:
        """Share of the plan before the predicate whose attempts were the first to be used up; 1 if there is none."""
        return 1.0 if self.exhausted_at is None else self.exhausted_at / max(self.planned_then, 1)

    def capped_share(self, depth: int, most_steps: int) -> float:
        """Return the share of the run that fits into `most_steps` if an action certifies at most `depth` predicates."""
        steps = self.steps + sum(-(-k // depth) - 1 for k in self.depths)
        return min(1.0, most_steps / steps) if steps else 1.0


FORCED_STATUSES = ("forced", "dropped")
"""Statuses of predicates that a policy accepted without a certificate."""

ReplayRule = tuple[str, Callable[[Replay, int], float]]
"""Name of a rule, and its function: it takes a recorded run and its limit of steps, and returns a score's factor."""


def rule_for(swaps: Mapping[str, Spec]) -> ReplayRule | None:
    """Return the rule of the SDP paper's appendix C that estimates a variant with these swaps; None if it has none."""
    if len(swaps) != 1:
        return None
    ((slot, spec),) = swaps.items()
    depth = int(str(spec.args.get("depth", 1)))
    rules: dict[tuple[str, str], ReplayRule] = {
        ("validate", "always_pass"): ("action fidelity", lambda replay, most: replay.action_fidelity),
        ("replan", "give_up"): ("certified prefix", lambda replay, most: replay.certified_prefix),
        ("validate", "capped"): ("cascade cap", lambda replay, most: replay.capped_share(depth, most)),
    }
    return rules.get((slot, spec.name))


def replays_of(frames: Frames, method: str) -> "ReplaysByTrial":
    """Compute the measures for the rules of appendix C from the runs of a method, which must be one of SDP's."""
    transitions = frames.predicates[frames.predicates["leads"] & ~frames.predicates["status"].isin(FORCED_STATUSES)]
    by_run = {str(run): rows for run, rows in transitions.groupby("run", sort=False)}
    replays = {}
    for run in frames.runs[frames.runs["method"] == method].to_dict("records"):
        rows = by_run.get(run["run"], transitions.head(0))
        exhausted_at = None if pd.isna(run["first_exhaustion"]) else int(run["first_exhaustion"])
        replays[run["task"], run["trial"]] = Replay(
            first_tries=int((rows["tried"] == 1).sum()),
            certified_steps=len(rows),
            exhausted_at=exhausted_at,
            planned_then=0 if exhausted_at is None else int(run["planned_then"]),
            steps=run["steps"],
            depths=tuple(rows["depth"].tolist()),
        )
    return replays


# Replayed ablations compared with re-executed ones.

ReplaysByTrial = Mapping[tuple[str, int], Replay]
"""Measures of the first method's runs (see `Replay`), by task and trial."""


class ReplayEstimate(Record):
    """Score of a variant, 0 to 100, estimated by replaying the first method's runs and measured by running the variant.

    `optimism` is the estimate minus the measured score, paired over tasks; above 0 the replay overestimates. `full` is
    the score of the first method.
    """

    method: str
    rule: str
    full: float
    replayed: float
    measured: float
    optimism: Difference
    runs: tuple[tuple[ComparisonRow, float], ...] = Field(default=(), exclude=True, repr=False)
    """The replayed runs, each with its estimate."""

    @property
    def words(self) -> str:
        """The conclusion about the estimate in words."""
        if self.optimism.equal:
            return self.optimism.words
        if not self.optimism.significant:
            return f"no significant difference at n={self.optimism.n}{self.optimism.reservation}"
        kind = "optimistic" if self.optimism.mean > 0 else "pessimistic"
        return f"replay is {kind} by {abs(self.optimism.mean):.1f} points at n={self.optimism.n}"


def estimates_of(plan: ComparisonPlan, rows: Sequence[ComparisonRow], replays: ReplaysByTrial) -> list[ReplayEstimate]:
    """Estimate, from replays, every variant of the first method for which the SDP paper's appendix C has a rule."""
    first, *others = plan.methods
    by_method = shared_rows(plan.outline, rows)
    first_rows = by_method[first.name]
    if not first_rows or not replays:
        return []
    measured = {method.name: values_by_task(by_method[method.name]) for method in others}
    rules = [(method.name, rule_for(exchanged_operators(first, method))) for method in others if measured[method.name]]
    estimates = [
        _estimate(name, rule, first_rows, measured[name], replays, plan.limits.steps) for name, rule in rules if rule
    ]
    adjusted = adjust_family([estimate.optimism for estimate in estimates])
    return [one.model_copy(update={"optimism": found}) for one, found in zip(estimates, adjusted, strict=True)]


def _estimate(
    name: str,
    rule: ReplayRule,
    rows: Sequence[ComparisonRow],
    measured: ScoresByTask,
    replays: ReplaysByTrial,
    most: int,
) -> ReplayEstimate:
    rule_name, factor = rule
    runs = tuple((row, row.score * factor(replays[row.task, row.trial], most)) for row in rows)
    replayed = defaultdict(list)
    for row, estimate in runs:
        replayed[row.task].append(estimate)
    return ReplayEstimate(
        method=name,
        rule=rule_name,
        full=_mean_score(values_by_task(rows)),
        replayed=_mean_score(replayed),
        measured=_mean_score(measured),
        optimism=compute_difference("replayed", "re-executed", replayed, measured),
        runs=runs,
    )


def _mean_score(scores: ScoresByTask) -> float:
    return sum(sum(trials) for trials in scores.values()) / sum(map(len, scores.values()))
