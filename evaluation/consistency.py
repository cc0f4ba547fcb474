"""Whether the trajectory and the checkpoints of a run hold the same work.

Every execution of a node leaves a line in the trajectory, written before the checkpoint that holds what it did, and an
entry in the state's `usage`, whose figures tell executions apart.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from certigraph.state.endings import Fault
from certigraph.state.records import Usage
from certigraph.state.trajectory import Event

FIX = "restore trajectory.jsonl and the checkpoints, or delete the run (`certigraph delete`) and start it again"


def check_consistency(
    run: str, events: Iterable[Event], state: Mapping[str, Any], *, superstep: float = float("inf"), scope: str = ""
) -> None:
    """Make sure that the events of a graph account for its state and, up to a superstep, the state for the events.

    Args:
        run: the run's name, for the message.
        events: those of the run's trajectory that count.
        state: what a checkpoint holds, or what the graph ended with.
        superstep: of the checkpoint; events after it need not be in the state.
        scope: namespace of the graph, empty for the run's own.

    Raises:
        Fault: ("data") lines or checkpoints are missing; the message names their nodes.
    """
    within = [e for e in events if e.update is not None and _is_within(e.scope, scope)]
    kept = [e.usage for e in within if e.scope == scope and e.superstep <= superstep]
    stored: list[Usage] = state.get("usage", [])
    if lost := _difference(stored, [e.usage for e in within]):
        raise Fault("data", f"the trajectory of run {run} lacks lines that its state builds on: {lost}; {FIX}")
    if lost := _difference(kept, stored):
        raise Fault("data", f"the checkpoints of run {run} lack steps that its trajectory has: {lost}; {FIX}")


def _is_within(scope: str, outer: str) -> bool:
    return not outer or scope == outer or scope.startswith(f"{outer}|")


def _difference(usages: Iterable[Usage], others: Iterable[Usage]) -> str:
    """The nodes whose executions are among the first and not among the others."""
    left = Counter(map(_figures, others))
    missing = Counter[str]()
    for usage in usages:
        figures = _figures(usage)
        if left[figures]:
            left[figures] -= 1
        else:
            missing[usage.node] += 1
    return ", ".join(f"{count} of {node}" for node, count in sorted(missing.items()))


def _figures(usage: Usage) -> tuple[float, ...]:
    """What tells executions apart; the name of a node does not, and may be masked in a trajectory."""
    return usage.calls, usage.input_tokens, usage.output_tokens, usage.usd, usage.seconds
