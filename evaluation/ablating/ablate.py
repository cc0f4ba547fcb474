"""An ablation from Python: `certigraph ablate` without its command line."""

from collections.abc import Sequence
from pathlib import Path

from certigraph.adapters.benchmarks import load_benchmark
from certigraph.adapters.context import Context
from certigraph.evaluation.ablating.variants import variants
from certigraph.evaluation.comparing.command import Choice, order
from certigraph.evaluation.comparing.compare import compare
from certigraph.evaluation.comparing.findings import Findings
from certigraph.evaluation.comparing.report import report

ALL = Choice()
"""Every task of the benchmark's default split, once."""


def ablate(
    graph: str = "sdp",
    benchmark: str = "blocksworld",
    swaps: Sequence[str] = (),
    choice: Choice = ALL,
    *,
    context: Context | None = None,
    out: Path | str = "ablation",
    at_once: int = 1,
) -> Findings:
    """Run a graph and one variant for each swap on the same tasks, trials and budget, and write the report.

    Args:
        graph: a graph's name.
        benchmark: a benchmark's name; a configuration may follow: `travelplanner:paper`.
        swaps: `SLOT=OPERATOR`, several of one variant joined by `+`; for sdp the paper's three by default.
        choice: which tasks, and how often each: `Choice(limit=30, trials=5)`.
        context: model, budget, limits; a simulated agent by default.
        out: the ablation's folder; one begun there goes on.
        at_once: runs under way at a time.

    Raises:
        UnknownName: a name is unknown; the message lists the known ones.
        Fault: the folder holds another comparison.
    """
    given = context or Context(model="simulated")
    given = given.model_copy(update={"limits": given.limits or load_benchmark(benchmark, given.data).limits})
    plan, whole, live, _ = order(variants(graph, swaps), benchmark, choice, given)
    compare(plan, whole, live, Path(out), told=lambda cell, trajectory: None, at_once=at_once)
    return report(plan, Path(out))
