"""What of a finding no text bears out, as far as code can tell: its numbers."""

import re
from collections.abc import Iterable

NUMBER = re.compile(r"\d+(?:[.,]\d+)*")


def unseen_numbers(text: str, shown: Iterable[str]) -> list[str]:
    """The numbers of a text that stand in none of the texts shown; 1,010 is 1010, 07 is 7, and 4.50 is 4.5."""
    seen = {_plain(number) for one in shown for number in NUMBER.findall(one)}
    seen |= {_plain(part) for one in shown for part in re.findall(r"\d+", one)}
    return [number for number in dict.fromkeys(NUMBER.findall(text)) if _plain(number) not in seen]


def _plain(number: str) -> str:
    whole, point, part = number.replace(",", "").partition(".")
    return (whole.lstrip("0") or "0") + (point + part).rstrip("0").rstrip(".")
