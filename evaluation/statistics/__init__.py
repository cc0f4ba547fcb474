"""What scores of methods over tasks and trials are worth: pure functions on scipy and statsmodels."""

from certigraph.evaluation.statistics.changes import Changed, changed
from certigraph.evaluation.statistics.estimates import (
    CONFIDENCE,
    Estimate,
    Share,
    mean_of,
    share_of,
    standard_error,
    wilson,
)
from certigraph.evaluation.statistics.family import holm
from certigraph.evaluation.statistics.pairs import (
    LEAST,
    POWER,
    RESAMPLES,
    SEED,
    Paired,
    detectable,
    interval,
    mean_difference,
    paired,
    paired_p,
    told_apart,
)
from certigraph.evaluation.statistics.trials import pass_hat_k

__all__ = [
    "CONFIDENCE",
    "LEAST",
    "POWER",
    "RESAMPLES",
    "SEED",
    "Changed",
    "Estimate",
    "Paired",
    "Share",
    "changed",
    "detectable",
    "holm",
    "interval",
    "mean_difference",
    "mean_of",
    "paired",
    "paired_p",
    "pass_hat_k",
    "share_of",
    "standard_error",
    "told_apart",
    "wilson",
]
