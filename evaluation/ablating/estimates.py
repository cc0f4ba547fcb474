"""Replayed ablations beside re-executed ones: by how much the estimate is off."""

from collections import defaultdict
from collections.abc import Mapping, Sequence

from certigraph.evaluation.ablating.replay import Replay, Rule, rule_for
from certigraph.evaluation.ablating.variants import exchanged
from certigraph.evaluation.comparing.plan import Plan
from certigraph.evaluation.comparing.rows import Row
from certigraph.evaluation.comparing.summary import Difference, Scores, difference_of, scores_of, shared_rows
from certigraph.evaluation.statistics import holm
from certigraph.state.records import Record

Replays = Mapping[tuple[str, int], Replay]
"""What the first method's runs say, by task and trial."""


class Estimate(Record):
    """A variant's score twice, 0 to 100: estimated by replaying the first method's runs, and measured by running it.

    `optimism` is estimate minus measurement, paired over tasks; above 0 the replay promises too much.
    """

    method: str
    rule: str
    full: float
    replayed: float
    measured: float
    optimism: Difference

    @property
    def words(self) -> str:
        """What may be said of the estimate."""
        if self.optimism.equal:
            return self.optimism.words
        if not self.optimism.told_apart:
            return f"no difference can be told at n={self.optimism.n}"
        kind = "optimistic" if self.optimism.mean > 0 else "pessimistic"
        return f"replay is {kind} by {abs(self.optimism.mean):.1f} points at n={self.optimism.n}"


def estimates_of(plan: Plan, rows: Sequence[Row], replays: Replays) -> list[Estimate]:
    """An estimate for every variant of the first method that appendix C has a rule for; none for other methods."""
    first, *others = plan.methods
    by_method = shared_rows(plan.outline, rows)
    mine = by_method[first.name]
    if not mine or not replays:
        return []
    measured = {method.name: scores_of(by_method[method.name]) for method in others}
    rules = [(method.name, rule_for(exchanged(first, method))) for method in others if measured[method.name]]
    found = [_estimate(name, rule, mine, measured[name], replays, plan.limits.steps) for name, rule in rules if rule]
    adjusted = holm([estimate.optimism.p for estimate in found])
    return [_adjusted(estimate, p) for estimate, p in zip(found, adjusted, strict=True)]


def _adjusted(estimate: Estimate, p: float | None) -> Estimate:
    return estimate.model_copy(update={"optimism": estimate.optimism.model_copy(update={"p_adjusted": p})})


def _estimate(name: str, rule: Rule, rows: Sequence[Row], measured: Scores, replays: Replays, most: int) -> Estimate:
    replayed = defaultdict(list)
    for row in rows:
        replayed[row.task].append(row.score * rule.factor(replays[row.task, row.trial], most))
    return Estimate(
        method=name,
        rule=rule.name,
        full=_mean(scores_of(rows)),
        replayed=_mean(replayed),
        measured=_mean(measured),
        optimism=difference_of("replayed", "re-executed", replayed, measured),
    )


def _mean(scores: Scores) -> float:
    return sum(sum(trials) for trials in scores.values()) / sum(map(len, scores.values()))
