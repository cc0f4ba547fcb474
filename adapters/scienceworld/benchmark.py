"""ScienceWorld as a benchmark: thirty tasks, the published protocols as splits, one simulator for each open episode."""

from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path

from pydantic import ValidationError

from certigraph.adapters.processes import require
from certigraph.adapters.protocols import PAPER_LIMITS, Operator, Responder
from certigraph.adapters.scienceworld import splits
from certigraph.adapters.scienceworld.pool import describe
from certigraph.adapters.scienceworld.prompts import BRIEFING, SYNONYMS
from certigraph.adapters.scienceworld.recordings import gold_recording
from certigraph.adapters.scienceworld.simulator import find_java
from certigraph.adapters.scienceworld.splits import TDP_HUNDRED, USUAL, Setting, ids, setting_of
from certigraph.adapters.scienceworld.world import ScienceWorld
from certigraph.state.records import Fault, Task, UnknownName
from certigraph.state.trajectory import Footer

TDP = "tdp"


class ScienceWorldBenchmark:
    """Tasks `boil:0` (task and variation, in the usual way) and `step-18/boil:1` (as a split has it; see splits.py).

    Args:
        folder: Not used: the simulator brings its world.
        config: of SDP's operators: "paper" as published; "" grounded further; "drafted" for models too small to plan.
            "tdp": as "", in TDP's protocol: its hundred test instances unless a split is named, at most 60 steps.
    """

    queues = True
    """At most so many simulators run at once: a world may wait for one."""
    configurations = ("drafted", "paper", TDP)
    simulated = True
    """The world comes with its package, not with a data folder."""
    briefing = BRIEFING
    signals_goal = True
    replans_undone = True
    synonyms: Mapping[str, str] = SYNONYMS

    def __init__(self, folder: Path | None = None, config: str = "") -> None:
        if config not in ("", *self.configurations):
            known = ", ".join(self.configurations)
            raise UnknownName(f"scienceworld has no configuration {config!r}; known: {known}")
        self.grounded = config != "paper"
        """Whether the operators go beyond the paper's."""
        self.drafted = self.shortlists = config == "drafted"
        """Whether the model is too small to plan and to write actions: a draft read off the task's words is the plan,
        not a hint to the model that writes it, and agents choose among relevant actions."""
        self.name = f"scienceworld:{config}" if config else "scienceworld"
        self.limits = PAPER_LIMITS.get(self.name, PAPER_LIMITS["scienceworld"])
        self.usual = TDP_HUNDRED if config == TDP else USUAL
        """The split that is meant where none is named."""

    def ready(self) -> None:
        """Make sure, before any run begins, that package and Java are there. Raises Fault with what is missing."""
        require("ScienceWorld's simulator needs", ["py4j", "scienceworld"], "scienceworld", "environment")
        find_java()

    def tasks(self, split: str = "") -> list[Task]:
        """The tasks of a split, by default variation 0 of all thirty (TDP's hundred in `scienceworld:tdp`).

        The first time ever, each asks the simulator for its goal: about 0.2 s a task.

        Raises:
            UnknownName: for an unknown split, naming the known ones.
            Fault: as `task` does.
        """
        return [self.task(task_id) for task_id in ids(split or self.usual)]

    def task(self, task_id: str) -> Task:
        """One task; its constants are a `Setting`.

        Raises:
            UnknownName: no such split, task or variation; lists what there is. No Java is started.
            Fault: ("environment") its goal is not known on this machine yet and the simulator does not start.
        """
        own, setting = setting_of(task_id)
        goal = describe(setting.task, setting.variation, setting.simplification)
        return Task(benchmark=self.name, id=own, goal=goal, constants=setting.model_dump())

    def open(self, task: Task) -> ScienceWorld:
        """The world of a task, after its constants. Raises Fault("data") when they are no setting."""
        try:
            setting = Setting.model_validate(task.constants)
        except ValidationError as error:
            fix = "make it with ScienceWorldBenchmark().task('boil:0')"
            raise Fault("data", f"task {task.id}: {error}; {fix}") from error
        return ScienceWorld(setting)

    def operators(self) -> Mapping[str, Operator]:
        """SDP's operators of appendix A.3, and what this world adds to those of other graphs."""
        return self._operators

    def expert(self) -> Responder:
        """The mind that knows the gold paths."""
        from certigraph.adapters.scienceworld.expert import respond_for

        return respond_for()

    def gold_length(self, task: Task) -> int:
        """Actions on the simulator's own way to 100. The first time ever it is walked, which takes seconds.

        To let an agent know it, or stop by it, leaks how long the solution is.
        """
        setting = Setting.model_validate(task.constants)
        return len(gold_recording(setting.task, setting.variation, setting.simplification).actions)

    def demonstration(self, task: Task, before: Sequence[str] = ()) -> list[str]:
        """The simulator's own way to 100, answers to its questions as texts; the same wherever `before` has led.

        Raises:
            Fault: ("environment") its way ends below 100, as it does in some variations of growing plants, or it is not
                on disk yet and the simulator does not start.
        """
        setting = Setting.model_validate(task.constants)
        return list(gold_recording(setting.task, setting.variation, setting.simplification).actions)

    def figures(self, runs: Sequence[tuple[str, Footer]]) -> dict[str, float]:
        """Mean score, successes, and SwiftSage's means by group; see `scoring.figures`.

        `score` is TDP's reward (section 4.1), which its table has times 100.
        """
        return splits.figures(runs)

    @cached_property
    def _operators(self) -> Mapping[str, Operator]:
        from certigraph.adapters.scienceworld.operators import operators

        return operators(self)
