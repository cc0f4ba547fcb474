"""BlocksWorld as a benchmark: generated tasks always, PlanBench's instances when their data is there."""

import re
from collections.abc import Mapping, Sequence
from functools import cached_property
from math import sqrt
from pathlib import Path
from statistics import fmean

from pydantic import ValidationError

from certigraph.adapters.blocksworld.expert import plan
from certigraph.adapters.blocksworld.instances import Instance, random_instance, tower_instance
from certigraph.adapters.blocksworld.pddl import read_problems
from certigraph.adapters.blocksworld.responder import respond
from certigraph.adapters.blocksworld.wording import list_facts, move_text, statement
from certigraph.adapters.blocksworld.world import BlocksWorldEnvironment
from certigraph.adapters.hints import missing_data, unknown_task
from certigraph.adapters.limits import PAPER_LIMITS
from certigraph.adapters.protocols import Operator, Responder
from certigraph.state.endings import GOAL, Fault, UnknownName
from certigraph.state.records import Action, Task
from certigraph.state.trajectory import Footer

ARCHIVE = "instances.tar.gz"
USUAL_SET = "generated_basic"


class BlocksWorld:
    """Tasks `4-0` (4 blocks, seed 0) and `tower-30` (30 blocks); with data also `generated_basic/instance-1`.

    Args:
        data: The folder that holds instances.tar.gz, read when first needed; None for generated tasks only.
    """

    name = "blocksworld"
    briefing = ""
    instant = True
    signals_goal = True
    configurations: tuple[str, ...] = ()
    limits = PAPER_LIMITS["blocksworld"]

    def __init__(self, data: Path | None = None, config: str = "") -> None:
        if config:
            raise UnknownName(f"blocksworld has no configuration {config!r}; name it plainly: blocksworld")
        self.data = data

    def tasks(self, split: str = "") -> list[Task]:
        """A set of instances by its name: `hard`. By default PlanBench's basic set, without data twenty generated ones.

        Raises:
            UnknownName: for an unknown split, naming the known ones.
            Fault: ("data") when the data folder holds no readable instances.
        """
        if not split and self.data:
            return self.tasks(USUAL_SET)
        if not split:
            return [self.task(f"{blocks}-{seed}") for blocks in range(3, 7) for seed in range(5)]
        tasks = [self._task(id_, instance) for id_, instance in self._instances.items() if _set(id_) == split]
        if not tasks:
            known = ", ".join(sorted(set(map(_set, self._instances)))) or "none"
            raise UnknownName("; ".join(filter(None, [f"no split {split!r}", f"known are {known}", self._more])))
        return tasks

    def task(self, task_id: str) -> Task:
        """One task. Raises UnknownName whose message lists some valid ids, and Fault as `tasks` does."""
        if match := re.fullmatch(r"([2-9]|[1-9]\d+)-(0|[1-9]\d*)", task_id):
            return self._task(task_id, random_instance(*map(int, match.groups())))
        if match := re.fullmatch(r"tower-([2-9]|[1-9]\d+)", task_id):
            return self._task(task_id, tower_instance(int(match[1])))
        if task_id not in self._instances:
            pattern = "BLOCKS-SEED or tower-BLOCKS, and with PlanBench's data SET/INSTANCE"
            raise unknown_task(self.name, task_id, pattern, ["4-0", "tower-30", *self._instances], self._more)
        return self._task(task_id, self._instances[task_id])

    def demonstration(self, task: Task, before: Sequence[str] = ()) -> list[str]:
        """A plan from the start, or from where the actions `before` lead."""
        world = self.open(task)
        for action in before:
            world.step(Action(text=action))
        return [move_text(move) for move in plan(world.state, world.instance.goal)]

    def open(self, task: Task) -> BlocksWorldEnvironment:
        """The world of a task, rebuilt from its constants. Raises Fault("data") when they are no instance."""
        try:
            return BlocksWorldEnvironment(Instance.model_validate(task.constants))
        except ValidationError as error:
            raise Fault("data", f"task {task.id}: {error}; make it with BlocksWorld().task('4-0')") from error

    def operators(self) -> Mapping[str, Operator]:
        """None: the generic, prompted operators serve."""
        return {}

    def expert(self) -> Responder | None:
        """Reads the prompts and answers right."""
        return respond

    def figures(self, runs: Sequence[tuple[str, Footer]]) -> dict[str, float]:
        """Rate of tasks solved with its standard error, and of runs that certified their goal."""
        solved = [footer.scores.value if footer.scores else 0.0 for _, footer in runs]
        return {
            "n": len(runs),
            "solved": (rate := fmean(solved)),
            "solved_stderr": sqrt(rate * (1 - rate) / (len(runs) - 1)) if len(runs) > 1 else 0.0,
            "goal": fmean(footer.ending == GOAL for _, footer in runs),
        }

    @cached_property
    def _instances(self) -> dict[str, Instance]:
        if self.data is None:
            return {}
        if not (self.data / ARCHIVE).is_file():
            raise missing_data(self.name, self.data, ARCHIVE)
        return read_problems(self.data / ARCHIVE)

    def _task(self, task_id: str, instance: Instance) -> Task:
        goal = statement(instance.init, instance.goal)
        wanted = list_facts(instance.goal)
        return Task(benchmark=self.name, id=task_id, goal=goal, condition=wanted, constants=instance.as_json())

    @property
    def _more(self) -> str:
        return "" if self.data else f"PlanBench's need --data DIR, with {ARCHIVE} under DIR/{self.name}/"


def _set(task_id: str) -> str:
    return task_id.rpartition("/")[0]
