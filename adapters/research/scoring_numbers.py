"""AssistantBench's numbers: how texts become numbers, and how close two numbers are (facts/qa_scoring.md, 3.2)."""

from math import isnan, log

MARKS = ("$", "%", "sqft")
AREA = " square kilometers"

ALMOST_ZERO = 1e-4
"""Stands for 0 in a ratio."""


def number(value: object, *, area: bool = True) -> float | None:
    """The number that a value is or says (rule 3); None where it says none.

    A comma becomes a dot wherever it stands: "1,010" is 1.01. With `area`, square kilometres may follow the number.
    """
    if isinstance(value, str):
        value = _cleaned(value).replace(AREA, "") if area else _cleaned(value)
    elif type(value) not in (int, float):  # bool is no number here
        return None
    try:
        return float(value)  # type: ignore[arg-type]  # a str, int or float by now
    except (ValueError, OverflowError):
        return None


def number_score(predicted: float, gold: float) -> float:
    """1 minus the natural logarithm of the larger's ratio to the smaller, at least 0 (rule 6).

    Numbers of different signs and NaN score 0. Of two different negative numbers the official formula makes more
    than 1; here 1 is the most.
    """
    if predicted == gold == 0:
        return 1.0
    predicted, gold = predicted or ALMOST_ZERO, gold or ALMOST_ZERO
    ratio = predicted / gold if predicted > gold else gold / predicted
    return 0.0 if isnan(ratio) or ratio <= 0 else min(1.0, max(0.0, 1 - log(ratio)))


def _cleaned(text: str) -> str:
    for mark in MARKS:
        text = text.replace(mark, " ")
    return text.strip().replace(",", ".")
