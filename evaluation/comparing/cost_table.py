"""What methods need a run as text, for the terminal and for a page."""

from collections.abc import Sequence

from certigraph.evaluation.comparing.costs import AMOUNTS, Need
from certigraph.evaluation.report.parts import compact

NONE = "-"


def need_table(needs: Sequence[Need]) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Heads and lines; a difference is the method's amount minus the first method's."""
    first = needs[0].against if needs else "the first"
    beside = (f"difference from {first}", "95 % interval", f"change from {first}", "95 % interval")
    return ("a run", "method", "mean", *beside), [_cells(need) for need in needs]


def _cells(need: Need) -> tuple[str, ...]:
    mean = compact(round(need.mean, 1)) if need.n else NONE
    difference = NONE if need.difference is None else _signed(need.difference)
    change = NONE if need.percent is None else f"{need.percent:+.0f} %"
    return AMOUNTS[need.amount], need.method, mean, difference, _apart(need), change, _changed(need)


def _apart(need: Need) -> str:
    return NONE if need.low is None or need.high is None else f"{_signed(need.low)} to {_signed(need.high)}"


def _changed(need: Need) -> str:
    low, high = need.percent_low, need.percent_high
    return NONE if low is None or high is None else f"{low:+.0f} to {high:+.0f} %"


def _signed(amount: float) -> str:
    return f"{'-' if amount < 0 else '+'}{compact(round(abs(amount), 1))}"
