"""Audits of the rules that certify conditions, one module a world."""

from collections import Counter
from typing import NamedTuple


class Audit(NamedTuple):
    """Counts of one path, and the false decisions, each with its action.

    `path` ends with the kind of the path: `gold`, or the kind of wrong action in it. The counts are `decided` (by a
    rule), `certified` (decided that the condition holds), `undecided` (left to a model) and `false`.
    """

    path: str
    counts: Counter[str]
    false: tuple[str, ...]
