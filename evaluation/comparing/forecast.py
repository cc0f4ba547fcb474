"""How long the rest of a comparison will take, from what its finished runs took."""

from collections import Counter
from collections.abc import Iterable, Sequence

from certigraph.evaluation.comparing.rows import Row


def seconds_per_call(rows: Sequence[Row]) -> float | None:
    """Wall-clock per model call over all runs; None while no call has been made."""
    calls = sum(row.calls for row in rows)
    return sum(row.seconds for row in rows) / calls if calls else None


def seconds_left(rows: Sequence[Row], waiting: Iterable[str], budget: int, pace: float | None) -> float | None:
    """Seconds for the runs of the `waiting` methods, at so many seconds a call; None while nothing is measured.

    A run takes as many calls as its method's runs made so far, else as other methods' did, else the budget.
    """
    if pace is None:
        return None
    return pace * sum(n * _calls(rows, method, budget) for method, n in Counter(waiting).items())


def spoken(seconds: float | None) -> str:
    """Seconds as one says them: "about 1 h 40 min left"."""
    if seconds is None:
        return "time left unknown"
    minutes = round(seconds / 60)
    if minutes < 1:
        return "less than a minute left"
    hours, minutes = divmod(minutes, 60)
    return f"about {hours} h {minutes:02} min left" if hours else f"about {minutes} min left"


def _calls(rows: Sequence[Row], method: str, budget: int) -> float:
    made = [row.calls for row in rows if row.method == method] or [row.calls for row in rows]
    return sum(made) / len(made) if made else budget
