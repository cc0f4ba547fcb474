"""What a run of a reward predictor did, read from its trajectory: each recorded step with the reward it was given."""

from collections.abc import Iterable
from itertools import groupby
from typing import Any, NamedTuple

from certigraph.state.factored import FactoredState
from certigraph.state.rewarding import Seen
from certigraph.state.trajectory import Event


class Rated(NamedTuple):
    """A recorded step, its reward, and the states that were compared; both are empty where none were made."""

    step: Seen
    reward: float
    state: FactoredState
    goal: FactoredState


class Rating:
    """All rated steps of a run, folded from its events as they come."""

    def __init__(self) -> None:
        self.steps: list[Seen] = []
        self.rated: list[Rated] = []
        self._state = self._goal = FactoredState()

    def take(self, event: Event) -> None:
        """Fold one event of a predictor's graph; those of other graphs have nothing to fold."""
        update: dict[str, Any] = {**(event.update or {})}
        if "rewards" not in update:
            self._know(update)
        elif event.node == "reset":
            self.steps = [Seen.model_validate(step) for step in update.get("steps", ())]
            self.rated = []
            self._know(update)
        elif len(self.rated) < len(self.steps):
            step = self.steps[len(self.rated)]
            self.rated.append(Rated(step, update["rewards"][0]["reward"], self._state, self._goal))

    @property
    def recordings(self) -> list[list[Rated]]:
        """The rated steps of each recording."""
        return [[*group] for _, group in groupby(self.rated, key=lambda rated: rated.step.recording)]

    def _know(self, update: dict[str, Any]) -> None:
        self._state = FactoredState.model_validate(update.get("factored", self._state))
        self._goal = FactoredState.model_validate(update.get("goal", self._goal))


def read_rating(events: Iterable[Event]) -> Rating:
    """The rating that a trajectory's events tell; one without steps where no recording was rated."""
    rating = Rating()
    for event in events:
        rating.take(event)
    return rating
