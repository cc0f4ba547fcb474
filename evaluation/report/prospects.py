"""What an agent that looks ahead had in mind before each action: where it stood, and what its candidates were worth."""

from collections.abc import Iterator
from typing import Any, NamedTuple

from certigraph.evaluation.report.html import counted
from certigraph.state.appraising import Appraisal
from certigraph.state.trajectory import Event
from certigraph.state.tree import Simulation, tally

MOST_OTHERS = 3
"""Candidates that are told on one line beside the one that was chosen."""


class Candidate(NamedTuple):
    """An action that was considered, and its worth in words: the predicted gain, or the value that a search found."""

    action: str
    worth: str


class Prospect(NamedTuple):
    """The reward of the state in which an action was chosen, and the candidates for it, the best first."""

    reward: float
    candidates: tuple[Candidate, ...]
    chosen: str

    @property
    def line(self) -> str:
        """All of it on one line, for who reads the action elsewhere."""
        worth = [f"▸ {one.worth}" for one in self.candidates if one.action == self.chosen]
        others = [f"{one.worth} {one.action}" for one in self.candidates if one.action != self.chosen]
        more = [f"{len(others) - MOST_OTHERS} more"] if len(others) > MOST_OTHERS else []
        return " · ".join([f"reward {self.reward:.2f}", *worth, *others[:MOST_OTHERS], *more])

    @property
    def listing(self) -> str:
        """The candidates, one a line, the chosen one marked."""
        told = (("▸" if one.action == self.chosen else "·", one) for one in self.candidates)
        return "\n".join(f"{mark} {one.worth}  {one.action}" for mark, one in told)


class Prospects:
    """The prospects of one episode, by the number of the action (from 1); empty for agents that do not look ahead."""

    def __init__(self) -> None:
        self.before: dict[int, Prospect] = {}
        self._reward: float | None = None
        self._appraisals: list[Any] = []
        self._tree: list[Any] = []
        self._simulations: list[Any] = []

    def take(self, step: int, event: Event) -> None:
        """Fold one event, which came after so many world steps."""
        update: dict[str, Any] = {**(event.update or {})}
        if "tree" in event.replaced:
            self._tree, self._simulations = [], []
        self._tree += update.get("tree", ())
        self._simulations += update.get("simulations", ())
        self._appraisals = update.get("appraisals", self._appraisals)
        self._reward = update.get("reward", self._reward)
        if "action" in update and self._reward is not None:
            found = self._searched() if self._simulations else self._gained()
            self.before[step + 1] = Prospect(self._reward, tuple(found), update["action"]["text"])

    def lines(self, number: int) -> list[str]:
        """The line for an action; none where nothing was known ahead."""
        return [self.before[number].line] if number in self.before else []

    def listing(self, number: int) -> str:
        """The candidates for an action, one a line; empty where there were none."""
        return self.before[number].listing if number in self.before else ""

    def _gained(self) -> Iterator[Candidate]:
        """ReAct's candidates by their gain. One that leads back to a state of the episode is told to."""
        appraisals = map(Appraisal.model_validate, self._appraisals)
        for one in sorted(appraisals, key=lambda one: -one.gain):
            yield Candidate(one.action, f"{one.gain:+.2f}" + (" (leads back)" if one.seen else ""))

    def _searched(self) -> Iterator[Candidate]:
        """The actions below the root of a tree search by their visits, with what a visit came to on average."""
        counts = tally(map(Simulation.model_validate, self._simulations))
        paths = [tuple(node["path"]) for node in self._tree if len(node["path"]) == 1]
        for path in sorted(paths, key=lambda path: (-counts.visits[path], -counts.mean(path))):
            yield Candidate(path[0], f"{counts.mean(path):.2f} ({counted(counts.visits[path], 'visit')})")
