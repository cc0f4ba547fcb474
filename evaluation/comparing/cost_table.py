"""What methods need a run as text, for the terminal and for a page."""

from certigraph.evaluation.comparing.costs import AMOUNTS, Need
from certigraph.evaluation.report.parts import compact

NEEDS = ("a run", "method", "mean", "difference", "95 % interval", "change", "95 % interval")

NONE = "-"


def need_cells(need: Need) -> tuple[str, ...]:
    """What a method needs of one amount, in the order of NEEDS."""
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
