"""The world of a pair: it takes predicted rewards and says how far they are from the true ones."""

from collections.abc import Sequence
from statistics import fmean

from pydantic import JsonValue

from certigraph.adapters.rewardprediction.epic import epic_distance
from certigraph.adapters.rewardprediction.rows import Recording
from certigraph.state.records import Action, Observation, Scores
from certigraph.state.rewarding import TRUE_REWARDS

Rewards = Sequence[Sequence[float]]


class RewardWorld:
    """One episode: it ends with the rewards that are handed in, one list for each of the recordings."""

    concurrent = False

    def __init__(self, recordings: Sequence[Recording]) -> None:
        self.recordings = recordings
        self.predicted: Rewards | None = None

    def reset(self) -> Observation:
        """As if nothing had been handed in."""
        self.predicted = None
        return Observation(text=self.view())

    def step(self, action: Action) -> Observation:
        """Take the predicted rewards: `args["rewards"]`, one list for each recording."""
        given = action.args.get("rewards")
        if not isinstance(given, list):
            return Observation(text="Hand in rewards: one list of numbers for each recording.", accepted=False)
        self.predicted = given  # type: ignore[assignment]
        return Observation(text=f"{sum(map(len, self.predicted or ()))} rewards taken.", done=True)

    def view(self) -> str:
        """What is to be rated."""
        return f"{len(self.recordings)} recordings, {sum(len(r.trajectory) for r in self.recordings)} steps."

    def admissible(self) -> None:
        """Rewards are not listed."""

    def score(self) -> Scores:
        """1 minus the pooled EPIC distance from the shaped rewards; its parts have the other figures.

        Nothing, with a value of 0, before rewards are handed in, and where the true ones are not known.
        """
        if self.predicted is None or not self.recordings:
            return Scores(value=0.0)
        parts = figures(self.recordings, self.predicted)
        true: list[JsonValue] = [[row.reward.shaped for row in one.trajectory] for one in self.recordings]
        return Scores(value=1.0 - parts["epic"], parts={**parts}, answer={TRUE_REWARDS: true})

    def close(self) -> None:
        """Nothing to release."""


def figures(recordings: Sequence[Recording], predicted: Rewards) -> dict[str, float]:
    """EPIC distances of one task's predictions, and the rewards that its trajectories end with.

    `epic` pools the recordings of the task before correlating, as the reference code does; `epic_each` is the mean of
    the distances of each recording; those with `raw` are from the world's own rewards instead of the shaped ones.
    """
    shaped = [[row.reward.shaped for row in one.trajectory] for one in recordings]
    raw = [[row.reward.raw for row in one.trajectory] for one in recordings]
    return {
        "epic": epic_distance(_pooled(predicted), _pooled(shaped)),
        "epic_each": _each(predicted, shaped),
        "epic_raw": epic_distance(_pooled(predicted), _pooled(raw)),
        "epic_each_raw": _each(predicted, raw),
        "final_positive": predicted[0][-1],
        "final_negative": fmean(one[-1] for one in predicted[1:]),
    }


def _each(predicted: Rewards, true: Rewards) -> float:
    return fmean(epic_distance(ours, theirs) for ours, theirs in zip(predicted, true, strict=True))


def _pooled(rewards: Rewards) -> list[float]:
    return [reward for one in rewards for reward in one]
