"""What a recorded run is gone on with."""

from collections.abc import Sequence
from pathlib import Path

from certigraph.adapters.protocols import Limits
from certigraph.evaluation.budgets import Allowance, allowance
from certigraph.evaluation.settings import load_local
from certigraph.state.reading import read_trajectory


def enlarged(folder: Path, budget: Sequence[str] | None) -> Allowance:
    """Budget and limits of a recorded run with the given changes."""
    read_trajectory(folder / "trajectory.jsonl")
    context = load_local(folder)
    return allowance(budget or [], context.limits or Limits(), context.budget)
