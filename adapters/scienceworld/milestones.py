"""The rises of a gold path's score: what the scripted expert's plans, subtasks and sub-tasks are made of."""

import re
from collections.abc import Sequence
from typing import NamedTuple

from certigraph.adapters.scienceworld.recording import Recording
from certigraph.adapters.scienceworld.replies import plain
from certigraph.state.records import Step

MILESTONE = re.compile(r"Milestone (\d+): actions (\d+) to (\d+) of the gold path, score (\d+)\.")


class Milestone(NamedTuple):
    """A rise of a gold path's score, and the actions (1-based, inclusive) that lead to it."""

    number: int
    first: int
    last: int
    score: int

    def text(self) -> str:
        """Its name in a plan, in which `MILESTONE` finds all of it again."""
        return f"Milestone {self.number}: actions {self.first} to {self.last} of the gold path, score {self.score}."


def milestones(gold: Recording) -> list[Milestone]:
    """The rises of a gold path's score, up to 100."""
    rises: list[Milestone] = []
    for number, score in enumerate(gold.scores[: gold.firstdone], 1):
        if score > (rises[-1].score if rises else gold.start):
            rises.append(Milestone(len(rises) + 1, rises[-1].last + 1 if rises else 1, number, score))
    return rises


def joined(rises: Sequence[Milestone], most: int) -> list[Milestone]:
    """The same way in at most `most` milestones: neighbours are taken together where there are more."""
    size = -(-len(rises) // most) or 1
    together = [rises[place : place + size] for place in range(0, len(rises), size)]
    return [some[-1]._replace(first=some[0].first) for some in together]


def named(text: str) -> Milestone | None:
    """The milestone that a text names."""
    found = MILESTONE.search(text)
    return Milestone(*map(int, found.groups())) if found else None


def walked(gold: Sequence[str], history: Sequence[Step]) -> int:
    """How many of a path's actions are done: those found in the history in their order, whatever else is in it."""
    done = 0
    for step in history:
        said = {plain(step.action.text), plain(str(step.action.args.get("written", "")))}
        done += done < len(gold) and plain(gold[done]) in said
    return done
