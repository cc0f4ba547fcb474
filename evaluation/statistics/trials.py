"""What several trials of each task say of reliability: do all of k succeed (pass^k)."""

from collections.abc import Mapping, Sequence
from math import comb

from certigraph.evaluation.statistics.estimates import Estimate, mean_of
from certigraph.state.endings import Fault

Outcomes = Mapping[str, Sequence[bool]]
"""Task -> which of its trials succeeded."""


def pass_hat_k(outcomes: Outcomes, k: int) -> Estimate:
    """The probability, 0 to 1, that k independent trials of a task all succeed (Yao et al. 2024, tau-bench).

    With c of a task's n trials successful the share of k-subsets without a failure, C(c, k) / C(n, k), has no bias.
    The estimate is its mean over tasks, the interval is over tasks.

    Raises:
        Fault: a task has fewer than k trials.
        ValueError: k is below 1.
    """
    if k < 1:
        raise ValueError(f"k={k}: k trials of a task are drawn, so k is at least 1")
    short = [(task, len(trials)) for task, trials in outcomes.items() if len(trials) < k]
    if short:
        task, n = min(short, key=lambda found: found[1])
        told = f"{len(short)} of {len(outcomes)} tasks have fewer than {k} trials ({task} has {n})"
        raise Fault("data", f"{told}: run them again with --trials {k}, or ask for k={n}" if n else told)
    shares = [comb(sum(map(bool, trials)), k) / comb(len(trials), k) for trials in outcomes.values()]
    return mean_of(shares, top=1.0)
