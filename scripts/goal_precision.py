"""Compare goal precision, success and cost of SDP with goal audits and revalidation with those of the paper's graph.

Runs `certigraph ablate` on PlanBench's generated BlocksWorld instances with the simulated agent and prints one Markdown
line for each variant. Differences are paired over tasks. A folder that was started is resumed.

    python scripts/goal_precision.py --out /tmp/goal-precision
"""

import argparse
from collections.abc import Iterator
from pathlib import Path

from certigraph import Choice, Context, ablate
from certigraph.evaluation.comparison_summary import Comparison, MethodSummary

SWAPS = (
    "audit=votes:k=2,n=3",
    "audit=world_check",
    "revalidate=recheck",
    "audit=votes:k=2,n=3+revalidate=recheck",
    "audit=world_check+revalidate=recheck",
)


def table_lines(comparison: Comparison) -> Iterator[str]:
    """Format the Markdown table: scores in per cent, calls also as a multiple of the first method's."""
    yield "| variant | n | goal precision | success | difference (95 %) | calls | of the paper's | world steps |"
    yield "|---|---|---|---|---|---|---|---|"
    differences = {difference.method: difference for difference in comparison.differences}
    first = comparison.methods[0]
    for summary in comparison.methods:
        difference = differences.get(summary.method)
        interval = (
            f"{difference.mean:+.0f} ({difference.low:+.0f} to {difference.high:+.0f})"
            if difference and difference.low is not None
            else ""
        )
        yield _line(summary, interval, first)


def _line(summary: MethodSummary, difference: str, first: MethodSummary) -> str:
    cost = f"{summary.calls:,} | {summary.calls / first.calls:.2f} | {summary.steps:,}"
    success = f"{summary.successes}/{summary.runs}"
    return f"| {summary.method} | {summary.n} | {summary.goals} | {success} | {difference} | {cost} |"


def main() -> None:
    """Run or resume the measurement and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("goal-precision"), help="folder of the comparison")
    parser.add_argument("--model", default="simulated", help="as --model of certigraph ablate")
    parser.add_argument("--split", default="generated", help="PlanBench set; it needs CERTIGRAPH_DATA")
    parser.add_argument("--limit", type=int, default=100, help="number of tasks, the first ones")
    parser.add_argument("--trials", type=int, default=1, help="runs of each variant on each task")
    options = parser.parse_args()
    choice = Choice(split=options.split, limit=options.limit, trials=options.trials)
    findings = ablate("sdp", "blocksworld", SWAPS, choice, context=Context(model=options.model), out=options.out)
    print("\n".join(table_lines(findings.comparison)))


if __name__ == "__main__":
    main()
