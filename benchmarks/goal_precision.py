"""Goal precision, success and cost of SDP with an audit of the goal and with revalidation, beside the paper's graph.

Runs `certigraph ablate` on PlanBench's generated BlocksWorld instances with the simulated agent and prints one Markdown
line for each variant. Differences are paired over tasks. A folder that was begun is continued.

    python benchmarks/goal_precision.py --out /tmp/goal-precision
"""

import argparse
from collections.abc import Iterator
from pathlib import Path

from certigraph import Choice, Context, ablate
from certigraph.evaluation.comparison_summary import Comparison, Summary

SWAPS = (
    "audit=votes:k=2,n=3",
    "audit=world_check",
    "revalidate=recheck",
    "audit=votes:k=2,n=3+revalidate=recheck",
    "audit=world_check+revalidate=recheck",
)


def table_lines(found: Comparison) -> Iterator[str]:
    """The Markdown table: scores in percent, calls also as a multiple of the first method's."""
    yield "| variant | n | goal precision | success | difference (95 %) | calls | of the paper's | world steps |"
    yield "|---|---|---|---|---|---|---|---|"
    differences = {difference.method: difference for difference in found.differences}
    first = found.methods[0]
    for summary in found.methods:
        apart = differences.get(summary.method)
        between = (
            f"{apart.mean:+.0f} ({apart.low:+.0f} to {apart.high:+.0f})" if apart and apart.low is not None else ""
        )
        yield _line(summary, between, first)


def _line(summary: Summary, difference: str, first: Summary) -> str:
    cost = f"{summary.calls:,} | {summary.calls / first.calls:.2f} | {summary.steps:,}"
    success = f"{summary.successes}/{summary.runs}"
    return f"| {summary.method} | {summary.n} | {summary.goals} | {success} | {difference} | {cost} |"


def main() -> None:
    """Run or continue the measurement and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("goal-precision"), help="folder of the comparison")
    parser.add_argument("--model", default="simulated", help="as --model of certigraph ablate")
    parser.add_argument("--split", default="generated", help="PlanBench set; it needs CERTIGRAPH_DATA")
    parser.add_argument("--limit", type=int, default=100, help="number of tasks, the first ones")
    parser.add_argument("--trials", type=int, default=1, help="runs of each variant on each task")
    given = parser.parse_args()
    choice = Choice(split=given.split, limit=given.limit, trials=given.trials)
    found = ablate("sdp", "blocksworld", SWAPS, choice, context=Context(model=given.model), out=given.out)
    print("\n".join(table_lines(found.comparison)))


if __name__ == "__main__":
    main()
