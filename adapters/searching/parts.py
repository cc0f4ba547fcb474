"""The parts of a question that TDP's sub-tasks work on, as the scripted expert divides it and finds it again."""

import re
from collections.abc import Sequence
from typing import NamedTuple

from certigraph.adapters.searching.questions import Hop, Question, substituted

ANSWERING = "Answer the question from what was found."
"""The specification of the node that settles the task."""

ASSIGNED = re.compile(r"Hops? (\d+)(?: to (\d+))?: ")

ASKS = re.compile(r"#(\d+)")
"""How a hop's question stands for the answer of another."""

MOST_SPECIFICATION = 280
"""Characters of a specification."""

COMPARISON = "comparison"
"""HotpotQA's kind of question whose paragraphs need not be read in any order."""


class Part(NamedTuple):
    """Consecutive hops that make one sub-task; their numbers, from 1 and inclusive."""

    first: int
    last: int

    @property
    def id(self) -> str:
        """Its id in the task graph."""
        return f"hop-{self.first}" if self.first == self.last else f"hops-{self.first}-{self.last}"


def parts(question: Question, most: int) -> list[Part]:
    """The hops of a question in at most `most` parts, a hop each where that is enough; none where there is no room."""
    count = len(question.hops) if most else 0
    size = -(-count // most) if count else 1
    return [Part(first, min(first + size - 1, count)) for first in range(1, count + 1, size)]


def specification(question: Question, part: Part) -> str:
    """A sub-task in words that stand alone; answers of other hops are named, not told."""
    name = f"Hop {part.first}" if part.first == part.last else f"Hops {part.first} to {part.last}"
    named = [f"(the answer of hop {number})" for number in range(1, len(question.hops) + 1)]
    asked = dict.fromkeys(substituted(hop.question, named) for hop in question.hops[part.first - 1 : part.last])
    return f"{name}: {' '.join(asked)}"[:MOST_SPECIFICATION]


def own_hops(question: Question, goal: str) -> tuple[Hop, ...] | None:
    """The hops that a goal is after: a sub-task's own, none of the one that answers; None: no sub-task's goal."""
    if goal.startswith(ANSWERING):
        return ()
    found = ASSIGNED.match(goal)
    return question.hops[int(found[1]) - 1 : int(found[2] or found[1])] if found else None


def needs(question: Question, part: Part, before: Sequence[Part]) -> list[Part]:
    """The parts before that one cannot do without: they have the bridge that leads to one of its hops.

    A hop leads to another whose question asks about its answer (`#1`); where a file's questions say nothing of the
    kind, to one whose page is its answer. What a file calls a comparison has hops side by side, which lead to each
    other by nothing and are worked on at the same time.
    """
    bridges = {number for hop in question.hops[part.first - 1 : part.last] for number in _leading(question, hop)}
    return [other for other in before if bridges & {*range(other.first, other.last + 1)}]


def _leading(question: Question, to: Hop) -> list[int]:
    if any(ASKS.search(hop.question) for hop in question.hops):
        return [int(number) for number in ASKS.findall(to.question)]
    if question.kind == COMPARISON:
        return []
    return [number for number, hop in enumerate(question.hops, 1) if hop.answer == to.passage.title]
