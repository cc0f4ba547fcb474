"""ALFWorld as a benchmark: six types of household tasks, each game played live."""

from collections.abc import Mapping, Sequence
from math import sqrt
from pathlib import Path
from statistics import fmean

from certigraph.adapters.alfworld.games import Games, goal_of
from certigraph.adapters.alfworld.plans import planned
from certigraph.adapters.alfworld.world import AlfWorld
from certigraph.adapters.demonstrating import demonstrated
from certigraph.adapters.extras import require
from certigraph.adapters.limits import PAPER_LIMITS
from certigraph.adapters.protocols import Operator, Responder
from certigraph.state.endings import UnknownName
from certigraph.state.records import Task
from certigraph.state.trajectory import Footer

BRIEFING = """\
You are in a room and handle things with these actions, one at a time:
go to PLACE: what is on it is seen, in it once it is open. open PLACE, close PLACE. take THING from PLACE.
put THING in/on PLACE, or move THING to PLACE, as the listed actions have it: one thing is carried at a time.
heat THING with microwave, cool THING with fridge, clean THING with sinkbasin: at that place, THING in hand.
use THING: a lamp, where it stands. examine THING or PLACE, look, inventory.
Things and places are called by name and number, such as apple 1; any thing of the name will do for the task.
"Nothing happens." means that the action was not possible.
"""


class ALFWorld:
    """Tasks `look_at_obj_in_light-AlarmClock-None-DeskLamp-308/trial_T20190908_222917_366542`: those of the games.

    The simulators run in this process, one for each game that is open. Their memory stays taken until it ends: to free
    one crashes the process (game.py).

    Args:
        data: the folder of the games' archives, or the folder that holds them unpacked; None: what ALFWORLD_DATA names.
    """

    name = "alfworld"
    signals_goal = True
    briefing = BRIEFING
    configurations: tuple[str, ...] = ()
    limits = PAPER_LIMITS["alfworld"]

    def __init__(self, data: Path | None = None, config: str = "") -> None:
        if config:
            raise UnknownName(f"alfworld has no configuration {config!r}; name it plainly: alfworld")
        self.games = Games(data)

    def ready(self) -> None:
        """Make sure, before any run begins, that games and simulator are there. Raises Fault with what is missing."""
        self.games.splits()
        require("ALFWorld's simulator needs", ["textworld", "alfworld"], "alfworld", "environment")

    def tasks(self, split: str = "") -> list[Task]:
        """The tasks of valid_unseen (the default), valid_seen, valid_train or train.

        Raises:
            UnknownName: for a split that is not there, naming those that are.
            Fault: ("data") there are no games.
        """
        return [self.task(task_id) for task_id in self.games.ids(split or self.games.splits()[0])]

    def task(self, task_id: str) -> Task:
        """One task. Raises UnknownName whose message lists some valid ids, and Fault("data") without games."""
        return Task(benchmark=self.name, id=task_id, goal=goal_of(self.games.path(task_id)))

    def open(self, task: Task) -> AlfWorld:
        """The world of a task, after its id. Raises as `task` does; the game is loaded when it is reset."""
        return AlfWorld(self.games.path(task.id))

    def demonstration(self, task: Task, before: Sequence[str] = ()) -> list[str]:
        """The planner's way to the goal from the start, or from where the actions `before` lead; see `planned`."""
        return planned(self.games.path(task.id), before)

    def operators(self) -> Mapping[str, Operator]:
        """None: the generic, prompted operators serve."""
        return {}

    def expert(self) -> Responder:
        """The mind that follows the planner, which knows the whole world, seen or not."""
        return demonstrated(self.demonstration)

    def figures(self, runs: Sequence[tuple[str, Footer]]) -> dict[str, float]:
        """Rate of tasks done with its standard error, and for each of the six types of tasks that there are."""
        done = [(_type(id_), footer.scores.value if footer.scores else 0.0) for id_, footer in runs]
        rate = fmean(value for _, value in done)
        types = {kind: fmean(value for of, value in done if of == kind) for kind in sorted(dict(done))}
        return {
            "n": len(runs),
            "success": rate,
            "success_stderr": sqrt(rate * (1 - rate) / (len(runs) - 1)) if len(runs) > 1 else 0.0,
            **{f"success_{kind}": mean for kind, mean in types.items()},
        }


def _type(task_id: str) -> str:
    return task_id.partition("-")[0]
