"""How an evaluation under inspect_ai is shown while it goes on, and what its logs say when it is over."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from certigraph.evaluation.inspecting.evaluation import Evaluation, read_evaluation
from certigraph.evaluation.scaling.shared import is_url
from certigraph.state.endings import Interrupted

if TYPE_CHECKING:
    from inspect_ai.log import EvalLog


def display(quiet: bool) -> dict[str, Any]:
    """inspect's settings of what it shows: nothing but on a terminal."""
    shown = sys.stdout.isatty() and not quiet
    # figures on the way, which cost time, only where somebody sees them
    return {"ctl_server": False, "display": "rich" if shown else "none", "score_display": shown}


def concluded(logs: "Sequence[EvalLog]", out: str, ray: str | None) -> Evaluation:
    """What an evaluation came to. Raises Interrupted, with the command that finishes it, where it was stopped."""
    if not logs or logs[0].status == "cancelled":
        again = f" --ray {ray}" if ray else ""
        raise Interrupted(f"interrupted; finish it with: certigraph eval --retry {_newest(logs, out)}{again}")
    return read_evaluation(logs[0].location)  # thin: the log in hand reads all of itself where it is looked into


def _newest(logs: "Sequence[EvalLog]", out: str) -> str:
    if is_url(out):
        return logs[0].location if logs else f"{out}/LOG.eval"
    return str(max(Path(out).glob("*.eval"), key=lambda log: log.stat().st_mtime, default=Path(out) / "LOG.eval"))
