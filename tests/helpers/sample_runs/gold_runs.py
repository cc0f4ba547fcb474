"""Walks every gold path through six graphs on the real simulator: the expert is to score 100 each time.

python tests/helpers/sample_runs/gold_runs.py            all thirty tasks, variation 0: about twenty minutes
python tests/helpers/sample_runs/gold_runs.py boil melt  those whose id contains one of the words
"""

import sys
from collections.abc import Callable
from functools import partial
from typing import Any

from certigraph.adapters.benchmarks import load_benchmark
from certigraph.adapters.protocols import Budget, Context, Limits
from certigraph.graphs import cot, plan_and_act, react, sdp, step, tdp
from certigraph.nodes.react import decide_freely
from certigraph.runtime.result import Result
from certigraph.runtime.run import run

as_written = decide_freely(most=0)
"""Gold paths say things otherwise than the world lists them."""

GRAPHS: dict[str, tuple[Callable[[], Any], str]] = {
    "sdp": (sdp.build, "scienceworld:paper"),
    "step": (partial(step.build, executor=as_written), "scienceworld"),
    "react": (partial(react.build, decide=as_written), "scienceworld"),
}
"""How to build each graph, and the benchmark with the operators that let actions through as they are written."""

PLANNERS: dict[str, tuple[Callable[[], Any], str]] = {
    "tdp": (partial(tdp.build, execute=as_written), "scienceworld:tdp"),
    "plan_and_act": (partial(plan_and_act.build, execute=as_written), "scienceworld:tdp"),
    "cot": (partial(cot.build, execute=as_written), "scienceworld:tdp"),
}
"""The same of TDP and of those that it is compared with."""

UNLIMITED = Context(
    model="scripted:expert",
    budget=Budget(calls=10**6, tokens=10**9, seconds=10**6),
    limits=Limits(
        attempts=10_000,
        replans=0,
        steps=10_000,
        trials=1,
        repeats=0,
        substeps=10_000,
        subtasks=10_000,
        failures=10_000,
    ),
)


def reached_goal(result: Result) -> bool:
    """Whether the run ended at the goal with score 100."""
    return result.ending == "goal" and result.scores is not None and result.scores.value == 1.0


def main(words: list[str]) -> int:
    """Run the matrix; the number of runs that fell short."""
    short = 0
    for name, (build, benchmark) in (GRAPHS | PLANNERS).items():
        for task in load_benchmark(benchmark).tasks("gold"):
            if words and not any(word in task.id for word in words):
                continue
            result = run(build(), benchmark, task, context=UNLIMITED)
            short += not reached_goal(result)
            print(name, task.id, result.ending, len(result.state["history"]), result.message[:200], flush=True)
    return short


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]) > 0)
