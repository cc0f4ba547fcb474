"""The published form of RewardPrediction's trajectories: a goal, and steps with raw and shaped rewards."""

from pydantic import Field

from certigraph.state.records import Record


class Reward(Record):
    """The true reward after a step, in [0, 1].

    `raw` is the world's own: how far it says the goal is reached now. `shaped` grows evenly along the expert's steps
    (step i of n: i / n), is `raw` at random ones, and 0 all along a negative trajectory (appendix A.1).
    """

    raw: float = 0.0
    shaped: float = 0.0
    is_expert: bool = False


class Row(Record):
    """One step: an action, the world's unmodified answer, the reward."""

    action: str
    observation: str
    reward: Reward


class Recording(Record):
    """One trajectory towards a goal."""

    goal_description: str = Field(min_length=1)
    trajectory: tuple[Row, ...] = Field(min_length=1)


class Pair(Record):
    """A positive trajectory of a task with its negative one, or with several (section 2.2)."""

    domain: str
    task: str
    positive: Recording
    negatives: tuple[Recording, ...] = Field(min_length=1)

    @property
    def id(self) -> str:
        """The pair's name among all domains."""
        return f"{self.domain}/{self.task}"

    @property
    def recordings(self) -> tuple[Recording, ...]:
        """The positive one first, in the order in which predictors get them."""
        return self.positive, *self.negatives
