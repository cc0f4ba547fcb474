"""Accidental wins: episodes that reached ScienceWorld's goal past its procedure (STEP, section 4.2.2).

In some tasks the last thing to do is to focus on an answer that is in sight from the start, one inclined plane of two:
guessing it right scores 100 at once. A win counts as accidental when its last action is a focus and the score before
that was less than half of what the task's gold path has before its own last focus. That score adds up milestones, which
are worth 50 of the 100 points together; where no gold path is known, or it does not end in a focus, 50 is taken. Half,
and not all, because some milestones, like reading a recipe, can honestly be skipped.
"""

from collections.abc import Mapping, Sequence

from certigraph.adapters.benchmarks import data_folder
from certigraph.adapters.scienceworld.recording import Recording, read_recordings
from certigraph.evaluation.figures.traces import FULL, Trace
from certigraph.state.records import Record

SHARE = 0.5
"""Part of the gold path's milestones without which a win by focus is an accident."""

MILESTONES = 50.0
"""What the milestones of a task are worth that one focus solves."""


class Accident(Record):
    """An accidental win: the score was `before` at that step, the gold path's `gold` before its last focus."""

    run: str
    method: str
    task_id: str
    episode: int
    step: int
    action: str
    before: float
    gold: float


def accident_of(trace: Trace, golds: Mapping[str, float]) -> Accident | None:
    """What was accidental about an episode's win; None where it did not win, or not by accident."""
    if not trace.solved:
        return None
    won = next(index for index, score in enumerate(trace.scores) if score >= FULL)
    before, gold = trace.at(won), golds.get(trace.task, MILESTONES)
    if before >= SHARE * gold or not focused(trace.actions, won):
        return None
    return Accident(
        run=trace.run,
        method=str(trace.method),
        task_id=trace.task_id,
        episode=trace.episode,
        step=won + 1,
        action=trace.actions[won],
        before=before,
        gold=gold,
    )


def gold_scores(data: str | None = None) -> dict[str, float]:
    """The score before the winning focus of each recorded gold path that ends in one, by task; empty without data."""
    folder = data_folder("scienceworld", data)
    path = folder / "gold_var0.jsonl.gz" if folder else None
    recordings = read_recordings(path) if path and path.is_file() else ()
    return {r.task: _before(r) for r in recordings if focused(r.gold, r.firstdone - 1)}


def focused(actions: Sequence[str], index: int) -> bool:
    """Whether that action is a focus, or the number that answers which object an ambiguous focus meant."""
    while index > 0 and actions[index].strip().isdecimal():
        index -= 1
    return actions[index].strip().lower().startswith("focus")


def _before(recording: Recording) -> float:
    won = recording.firstdone - 1
    return float(recording.scores[won - 1]) if won else 0.0
