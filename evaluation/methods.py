"""Names of the statistical methods, which JSON output and printed tables carry beside the figures."""

TASK_BOOTSTRAP = "95 %, percentile bootstrap over tasks, 1,000 resamples"
PAIRED_BOOTSTRAP = "95 %, BCa bootstrap over tasks of the paired difference, 10,000 resamples"
T_OVER_TASKS = "95 %, t with a cluster-robust standard error over tasks; Wilson where all scores are equal"
PAIRED_T = "two-sided paired t-test over tasks, not adjusted; the sign test where all differences are equal"
HOLM = "the same p after Holm (1979)"
DETECTABLE = "least mean difference of a two-sided paired t-test, 5 %, power 0.8"

EVALUATION = {"intervals": f"{TASK_BOOTSTRAP}; Wilson for shares of fewer than 6 tasks or without spread"}
"""Of `eval --json`."""

SCORES = {"intervals": TASK_BOOTSTRAP}
"""Of `score --json`."""

COMPARISON = {
    "methods.low, methods.high": T_OVER_TASKS,
    "differences.low, differences.high": PAIRED_BOOTSTRAP,
    "differences.p": PAIRED_T,
    "differences.p_adjusted": f"{HOLM}, over all differences of the comparison",
    "differences.detectable": DETECTABLE,
    "replayed.optimism": f"interval: {PAIRED_BOOTSTRAP}; p: {PAIRED_T}",
}
"""Of `compare --json`, `ablate --json` and `table.json`, by field."""

RECALL = {
    "low, high": "95 %, t over questions",
    "difference_low, difference_high": "95 %, BCa bootstrap over questions of the paired difference, 10,000 resamples",
    "p": "two-sided paired t-test over questions, not adjusted",
    "p_holm": f"{HOLM}, over all differences of the split",
}
"""Of `study retrieval --json`, by field."""
