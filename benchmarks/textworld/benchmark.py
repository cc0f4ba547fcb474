"""The TextWorld benchmark: generated games with four kinds of quests."""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from certigraph.adapters.benchmarks import check_configuration, mean_score, standard_error
from certigraph.adapters.models.experts import demonstration_expert
from certigraph.adapters.protocols import Benchmark, Decision, Factors, Limits, Responder
from certigraph.benchmarks.textworld.conditions import WORDINGS, decide_condition
from certigraph.benchmarks.textworld.factors import TextWorldFactors
from certigraph.benchmarks.textworld.world import (
    KINDS,
    GameLibrary,
    TextWorldEnvironment,
    example_name,
    find_demonstration,
    import_textworld,
)
from certigraph.state.endings import UnknownName
from certigraph.state.records import Observation, Task
from certigraph.state.trajectory import Footer

BRIEFING = """\
You play a text adventure and see one room at a time. You walk with "go north", "go east", "go south" and "go west". \
What is closed is opened ("open chest"), what is locked is unlocked with the key that fits ("unlock chest with key"). \
Things are taken ("take shoe", "take shoe from chest"), put down ("drop shoe"), put on tables and shelves \
("put shoe on table") and into containers ("insert shoe into chest"). Food is eaten ("eat apple"). It is cut with a \
knife ("slice apple with knife", "dice ...", "chop ...") and cooked once, in the right place: a stove fries, an oven \
roasts, a barbecue grills ("cook apple with stove"). "examine X" tells more of a thing, "inventory" what you carry."""

REWARDS = "rewards"
GAMES_PER_KIND = 20
"""Number of games in the split of a kind."""

DEFAULT_GAMES_PER_KIND = 2
"""Number of games of each kind in the default split."""

REWARD_GAMES = {"cooking-1": 28, "cooking-2": 28, "quest-5": 56, "treasure_hunter-5": 28, "treasure_hunter-6": 28}
"""Number of games by kind and level in the split `rewards`. Their demonstrations are as long as those of
RewardPrediction, 4 to 8 actions (StateFactory, appendices A.4 and D). RewardPrediction has 150 pairs of trajectories
from TextWorld; this split has more games, because for some of them no suitable random trajectory is found."""


class TextWorldBenchmark(Benchmark):
    """Benchmark of tasks such as `cooking-1-3`: kind, level and seed of a game, which is generated on first use.

    Args:
        data: Not used: the games are generated.
        config: Must be empty: there are no variants.
    """

    name = "textworld"
    signals_goal = True
    briefing = BRIEFING
    wordings = WORDINGS
    status_lines = ("You are carrying nothing.",)
    simulated = True
    """Whether the world comes with its package and needs no data folder."""
    limits = Limits(steps=50)
    """What papers usually allow; not checked against a source."""

    def __init__(self, data: Path | None = None, config: str = "") -> None:
        check_configuration(self.name, config)
        self.library = GameLibrary()

    def ready(self) -> None:
        """Check before the first run that the package is installed.

        Raises:
            Fault: ("data") the package is not installed.
        """
        import_textworld()

    def factors(self) -> Factors:
        """Return the symbolic extractor of this world."""
        return TextWorldFactors()

    def tasks(self, split: str = "") -> list[Task]:
        """Return the tasks of a split: a kind of games, or `rewards`, from which RewardPrediction's pairs are built.

        The default is two games of each kind.

        Raises:
            UnknownName: the split is unknown; the message lists the known ones.
            Fault: see `task`.
        """
        splits = _build_splits()
        if split not in splits:
            raise UnknownName(f"no split {split!r}; known are {', '.join(sorted(filter(None, splits)))}")
        return [self.task(name) for name in splits[split]]

    def task(self, task_id: str) -> Task:
        """Return one task; on first use its game is generated, which takes about a second.

        Raises:
            UnknownName: there is no such game; the message lists the valid names.
            Fault: ("data") TextWorld is not installed, or no suitable map is found for the quest.
        """
        return Task(benchmark=self.name, id=task_id, goal=self.library.game(task_id).objective)

    def open(self, task: Task) -> TextWorldEnvironment:
        """Create the environment of a task. Raises the same errors as `task`."""
        return TextWorldEnvironment(self.library.game(task.id))

    def demonstration(self, task: Task, before: Sequence[str] = ()) -> list[str]:
        """Return commands that win from the start, or after the commands `before`.

        Raises:
            Fault: ("data") the game cannot be won after these commands.
        """
        return find_demonstration(self.library.game(task.id), before)

    def expert(self) -> Responder:
        """Return the scripted model `scripted:expert`: it follows the commands of `demonstration`."""
        return demonstration_expert(self.demonstration)

    def decide(self, condition: str, observation: Observation, view: str) -> Decision | None:
        """Decide a condition by the game's reply and by what the view shows; None if they do not settle it."""
        return decide_condition(condition, observation, view)

    def figures(self, runs: Sequence[tuple[str, Footer]]) -> dict[str, float]:
        """Return the mean score (fraction of a game's points) with its standard error, and the rate of games won."""
        scores = [footer.scores.value if footer.scores else 0.0 for _, footer in runs]
        won: list[Any] = [footer.scores.parts.get("won", 0.0) if footer.scores else 0.0 for _, footer in runs]
        rates = {"score": mean_score(scores), "score_stderr": standard_error(scores), "won": mean_score(won)}
        return {"n": len(runs), **rates}


@lru_cache(maxsize=1)
def _build_splits() -> Mapping[str, Sequence[str]]:
    default = [example_name(kind, seed) for kind in KINDS for seed in range(DEFAULT_GAMES_PER_KIND)]
    rewards = [f"{level}-{seed}" for level, count in REWARD_GAMES.items() for seed in range(count)]
    return {"": default, REWARDS: rewards} | {
        kind: [example_name(kind, n) for n in range(GAMES_PER_KIND)] for kind in KINDS
    }
