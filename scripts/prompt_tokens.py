"""Tokens of each method's prompts, in a large and a small window, and the share of them that a prefix cache can serve.

python scripts/prompt_tokens.py    # prints the two tables of docs/prompts.md; scripts answer, no model is called

The worlds are the generated ones, and ScienceWorld's simulator, which needs Java. It takes a few minutes.
"""

import sys
from collections import defaultdict
from collections.abc import Iterable

from certigraph.adapters.benchmarks import load_benchmark
from certigraph.adapters.models.profiles import DEFAULT_WINDOW
from certigraph.runtime.prompts import CollectedPrompts, collect_prompts, group_prompts

WORLDS = (("blocksworld", "tower-30"), ("scienceworld", "boil:0"), ("travelplanner:tools", "1"))
METHODS = ("react", "sdp", "step", "tdp", "plan_and_act", "plan_and_solve", "reflexion", "clin")
OTHER_WORLDS = {("sdp", "travelplanner:tools"): ("travelplanner", "1")}
"""SDP has operators of its own for TravelPlanner, which choose among bookings and use no tools."""

WINDOWS = (DEFAULT_WINDOW, 4_096)
"""Tokens of the context windows; the shares are those with the first one."""


def main() -> int:
    """Collect the prompts of all methods on all worlds, and print the tables."""
    collected = {
        (method, world, window): _collect(method, world, task, window)
        for world, task in WORLDS
        for method in METHODS
        for window in WINDOWS
    }
    print("| method |", " | ".join(f"{world} {task}" for world, task in WORLDS), "|")
    print("|---" * (len(WORLDS) + 1), "|", sep="")
    for method in METHODS:
        cells = [[_format_tokens(collected[method, world, window]) for window in WINDOWS] for world, _ in WORLDS]
        print(f"| `{method}` |", " | ".join(" / ".join(cell) for cell in cells), "|")
    print("\n| method | role |", " | ".join(world for world, _ in WORLDS), "|")
    print("|---" * (len(WORLDS) + 2), "|", sep="")
    for method in METHODS:
        shares = {world: _shares(collected[method, world, DEFAULT_WINDOW]) for world, _ in WORLDS}
        for role in dict.fromkeys(role for by_role in shares.values() for role in by_role):
            print(f"| `{method}` | {role} |", " | ".join(shares[world].get(role, "-") for world, _ in WORLDS), "|")
    return 0


def _collect(method: str, world: str, task: str, window: int) -> CollectedPrompts:
    world, task = OTHER_WORLDS.get((method, world), (world, task))
    return collect_prompts(method, load_benchmark(world), task, window=window)


def _format_tokens(collected: CollectedPrompts) -> str:
    return f"{sum(prompt.tokens for prompt in collected.sent) / max(collected.steps, 1):,.0f}"


def _shares(collected: CollectedPrompts) -> dict[str, str]:
    """Return the prefix share of each role, over all its requests but the first of each kind."""
    shared: dict[str, int] = defaultdict(int)
    sent: dict[str, int] = defaultdict(int)
    for kind in group_prompts(collected.sent):
        shared[kind.role] += sum(kind.shared)
        sent[kind.role] += _length(prompt.cached_text for prompt in kind.prompts[1:])
    return {role: f"{shared[role] / length:.0%}" for role, length in sent.items() if length}


def _length(texts: Iterable[str]) -> int:
    return sum(map(len, texts))


if __name__ == "__main__":
    sys.exit(main())
