"""TextWorld as a benchmark: generated games, four kinds of quests."""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from math import sqrt
from pathlib import Path
from statistics import fmean
from typing import Any

from certigraph.adapters.models.experts import demonstrated
from certigraph.adapters.protocols import PAPER_LIMITS, Operator, Responder
from certigraph.adapters.textworld.world import KINDS, Library, TextWorld, demonstration, example, needed_textworld
from certigraph.state.records import Task, UnknownName
from certigraph.state.trajectory import Footer

BRIEFING = """\
You play a text adventure and see one room at a time. You walk with "go north", "go east", "go south" and "go west". \
What is closed is opened ("open chest"), what is locked is unlocked with the key that fits ("unlock chest with key"). \
Things are taken ("take shoe", "take shoe from chest"), put down ("drop shoe"), put on tables and shelves \
("put shoe on table") and into containers ("insert shoe into chest"). Food is eaten ("eat apple"). It is cut with a \
knife ("slice apple with knife", "dice ...", "chop ...") and cooked once, in the right place: a stove fries, an oven \
roasts, a barbecue grills ("cook apple with stove"). "examine X" tells more of a thing, "inventory" what you carry."""

REWARDS = "rewards"
LISTED = 20
"""Games of a kind in the split of its name."""

USUAL = 2
"""Games of each kind in the default split."""

REWARDED = {"cooking-1": 28, "cooking-2": 28, "quest-5": 56, "treasure_hunter-5": 28, "treasure_hunter-6": 28}
"""Games by kind and level whose demonstrations are as long as those of RewardPrediction: 4 to 8 actions (StateFactory,
appendices A.4 and D). It has 150 pairs; a few more are there for those that no random trajectory fits."""


class TextWorldBenchmark:
    """Tasks `cooking-1-3`: kind, level, seed (see kinds.py). A game is made when it is first asked for.

    Args:
        folder: Not used: the games are generated.
    """

    name = "textworld"
    signals_goal = True
    briefing = BRIEFING
    simulated = True
    """The world comes with its package, not with a data folder."""
    configurations: tuple[str, ...] = ()
    limits = PAPER_LIMITS["textworld"]

    def __init__(self, folder: Path | None = None, config: str = "") -> None:
        if config:
            raise UnknownName(f"textworld has no configuration {config!r}; name it plainly: textworld")
        self.library = Library()

    def ready(self) -> None:
        """Make sure, before any run begins, that the package is there. Raises Fault("data") where it is not."""
        needed_textworld()

    def tasks(self, split: str = "") -> list[Task]:
        """The games of a kind, those of `rewards` for RewardPrediction, by default a few of each kind.

        Raises:
            UnknownName: for an unknown split, naming the known ones.
            Fault: as `task` does.
        """
        splits = _splits()
        if split not in splits:
            raise UnknownName(f"no split {split!r}; known are {', '.join(sorted(filter(None, splits)))}")
        return [self.task(name) for name in splits[split]]

    def task(self, task_id: str) -> Task:
        """One task; the first time ever, its game is made, which takes about a second.

        Raises:
            UnknownName: no such game; the message says how they are named.
            Fault: ("data") TextWorld is not installed, or the quest fits no world.
        """
        return Task(benchmark=self.name, id=task_id, goal=self.library.game(task_id).objective)

    def open(self, task: Task) -> TextWorld:
        """The world of a task. Raises as `task` does."""
        return TextWorld(self.library.game(task.id))

    def demonstration(self, task: Task, before: Sequence[str] = ()) -> list[str]:
        """Commands that win from the start, or from where the commands `before` lead.

        Raises:
            Fault: ("data") they lead to where nothing wins.
        """
        return demonstration(self.library.game(task.id), before)

    def operators(self) -> Mapping[str, Operator]:
        """None: the generic, prompted operators serve."""
        return {}

    def expert(self) -> Responder:
        """The mind that follows the demonstrations."""
        return demonstrated(self.demonstration)

    def figures(self, runs: Sequence[tuple[str, Footer]]) -> dict[str, float]:
        """Mean fraction of the points with its standard error, and the rate of games won."""
        scores = [footer.scores.value if footer.scores else 0.0 for _, footer in runs]
        told: list[Any] = [footer.scores.parts.get("won", 0.0) if footer.scores else 0.0 for _, footer in runs]
        mean = fmean(scores)
        spread = sqrt(sum((score - mean) ** 2 for score in scores) / (len(runs) - 1) / len(runs)) if runs[1:] else 0.0
        return {"n": len(runs), "score": mean, "score_stderr": spread, "won": fmean(told)}


@lru_cache(maxsize=1)
def _splits() -> Mapping[str, Sequence[str]]:
    usual = [example(kind, seed) for kind in KINDS for seed in range(USUAL)]
    rewarded = [f"{level}-{seed}" for level, count in REWARDED.items() for seed in range(count)]
    return {"": usual, REWARDS: rewarded} | {kind: [example(kind, n) for n in range(LISTED)] for kind in KINDS}
