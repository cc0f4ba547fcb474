"""The ScienceWorld benchmark: thirty tasks, published evaluation protocols as splits, one simulator per episode."""

import re
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path

from pydantic import ValidationError

from certigraph.adapters.benchmarks import check_configuration
from certigraph.adapters.extras import check_packages
from certigraph.adapters.matching import is_focus
from certigraph.adapters.protocols import Benchmark, Decision, Factors, Limits, Operator, Responder
from certigraph.benchmarks.scienceworld import splits
from certigraph.benchmarks.scienceworld.conditions import decide_condition
from certigraph.benchmarks.scienceworld.factors import ScienceWorldFactors
from certigraph.benchmarks.scienceworld.names import (
    carry_over_names,
    find_action,
    find_meanings,
    is_in_view,
    select_likely,
    select_visible,
)
from certigraph.benchmarks.scienceworld.pool import load_goal
from certigraph.benchmarks.scienceworld.prompts import BRIEFING, PLACES, SYNONYMS, WORDINGS
from certigraph.benchmarks.scienceworld.recordings import load_gold_recording
from certigraph.benchmarks.scienceworld.simulator import check_java
from certigraph.benchmarks.scienceworld.splits import (
    DEFAULT_SPLIT,
    TDP_HUNDRED,
    EpisodeSetting,
    EpisodeTally,
    list_ids,
    setting_of,
)
from certigraph.benchmarks.scienceworld.world import ScienceWorld
from certigraph.state.endings import Fault, UnknownName
from certigraph.state.records import Observation, Task
from certigraph.state.trajectory import Footer

TDP = "tdp"

HELD_SUBSTANCE = re.compile(r"\b(?:an?|the) ([\w -]+?) \(containing a substance called ([\w -]+)[,)]")
"""Pattern of a container and the substance in it, in a view."""


class ScienceWorldBenchmark(Benchmark):
    """Benchmark of tasks such as `boil:0` (task and variation) and `step-18/boil:1` (of a split, see splits.py).

    Args:
        data: Not used: the simulator contains its world.
        config: Variant. "paper": the SDP operators as in the SDP paper; "": the SDP operators with extensions (see
            `scienceworld.operators`); "drafted": these, for models too small to plan; "tdp": as "", but with the
            protocol of the TDP paper (its hundred test instances unless a split is named, at most 60 steps).
    """

    queues = True
    """Whether a world may have to wait, because the number of simulators is limited."""
    configurations = ("drafted", "paper", TDP)
    limits = Limits(attempts=30, replans=5, steps=500, options=20, repeats=20, substeps=20, subtasks=16, failures=8)
    """Attempts, replans and steps are those of SDP (appendix A.3), subtasks and failures those of STEP's public code.

    Repeats and substeps leave time for things that grow.
    """
    configured_limits: Mapping[str, Limits] = {
        TDP: Limits(attempts=30, replans=2, steps=60, options=20, repeats=0),  # steps: TDP, appendix B; replans: ours
    }
    score_metrics = ("score", "overall")
    """`overall` is the mean score if every task has as many variations."""
    published = Path(__file__).with_name("published.json")
    simulated = True
    """Whether the world comes with its package and needs no data folder."""
    briefing = BRIEFING
    status_lines = ("Rooms seen: ", "Score: ", "Moves used: ", "Actions used: ")
    signals_goal = True
    replans_undone = True
    free_names = True
    synonyms: Mapping[str, str] = SYNONYMS

    def __init__(self, data: Path | None = None, config: str = "") -> None:
        check_configuration("scienceworld", config, self.configurations)
        self.config = config
        self.wordings = "" if config == "paper" else WORDINGS
        self.drafted = self.shortlists = config == "drafted"
        """Whether the operators suit a model too small to plan and to write actions.

        Then the plan is the draft that `draft_conditions` derives from the task's text, which is otherwise only a hint
        to the model, and agents choose from a list of relevant actions.
        """
        self.briefing = f"{BRIEFING}{PLACES}" if self.drafted else BRIEFING
        self.name = f"scienceworld:{config}" if config else "scienceworld"
        self.limits = self.configured_limits.get(config, self.limits)
        self.default_split = TDP_HUNDRED if config == TDP else DEFAULT_SPLIT
        """Default split."""

    def ready(self) -> None:
        """Check before the first run that the package and Java are installed.

        Raises:
            Fault: something is missing; the message names it.
        """
        check_packages("ScienceWorld's simulator needs", ["py4j", "scienceworld"], "scienceworld", "environment")
        check_java()

    def factors(self) -> Factors:
        """Return the symbolic extractor of this world."""
        return ScienceWorldFactors()

    def horizon(self, task: Task) -> tuple[float, str]:
        """Return the group, 1 to 3, into which the SwiftSage paper sorts a task by the length of its gold paths."""
        group = splits.FAMILIES[str(task.constants["task"])].group
        return {"short": 1.0, "medium": 2.0, "long": 3.0}[group], f"{group} gold path"

    def tasks(self, split: str = "") -> list[Task]:
        """Return the tasks of a split.

        The default is variation 0 of all thirty tasks; in `scienceworld:tdp`, the hundred tasks of the TDP protocol.

        On first use on a machine the simulator is queried for each goal, about 0.2 s per task.

        Raises:
            UnknownName: the split is unknown; the message lists the known ones.
            Fault: see `task`.
        """
        return [self.task(task_id) for task_id in list_ids(split or self.default_split)]

    def task(self, task_id: str) -> Task:
        """Return one task; its constants are the fields of an `EpisodeSetting`.

        Raises:
            UnknownName: there is no such split, task or variation; the message lists them.
            Fault: ("environment") the goal is not cached on this machine and the simulator does not start.
        """
        full_id, setting = setting_of(task_id)
        goal = load_goal(setting.task, setting.variation, setting.simplification)
        return Task(benchmark=self.name, id=full_id, goal=goal, constants=setting.model_dump())

    def open(self, task: Task) -> ScienceWorld:
        """Create the world of a task.

        Raises:
            Fault: ("data") the task's constants are not a valid `EpisodeSetting`.
        """
        try:
            setting = EpisodeSetting.model_validate(task.constants)
        except ValidationError as error:
            fix = "make it with ScienceWorldBenchmark().task('boil:0')"
            raise Fault("data", f"task {task.id}: {error}; {fix}") from error
        return ScienceWorld(setting)

    def describe_limits(self, task: Task) -> str:
        """Say how many moves or actions an episode of the task allows, and what a move is."""
        try:
            setting = EpisodeSetting.model_validate(task.constants) if task.constants else setting_of(task.id)[1]
        except UnknownName:
            return ""
        return EpisodeTally(setting).describe_limits()

    def operators(self) -> Mapping[str, Operator]:
        """Return the SDP operators for ScienceWorld (SDP, appendix A.3) by name: propose, realize, validate, replan."""
        return self._operators

    def expert(self) -> Responder:
        """Return the scripted model `scripted:expert`: it follows the gold paths, the simulator's own solutions."""
        from certigraph.benchmarks.scienceworld.expert import create_expert

        return create_expert()

    def gold_length(self, task: Task) -> int:
        """Return the number of actions with which the gold path (the simulator's own solution) reaches 100 points.

        The path is recorded on first use, which takes seconds. Showing its length to an agent, or using it as a limit,
        reveals the length of the solution.
        """
        setting = EpisodeSetting.model_validate(task.constants)
        return len(load_gold_recording(setting.task, setting.variation, setting.simplification).actions)

    def demonstration(self, task: Task, before: Sequence[str] = ()) -> list[str]:
        """Return the actions of the gold path (the simulator's own solution) up to 100 points; `before` is ignored.

        Where the simulator asks which of several objects is meant, the answer is the option's text, not its number.

        Raises:
            Fault: ("environment") the gold path ends below 100, as in some variations of growing plants, or it is not
                cached yet and the simulator does not start.
        """
        setting = EpisodeSetting.model_validate(task.constants)
        return list(load_gold_recording(setting.task, setting.variation, setting.simplification).actions)

    def decide(self, condition: str, observation: Observation, view: str) -> Decision | None:
        """Decide a condition by the reply and the view, if it is in one of the wordings of `conditions.py`."""
        return decide_condition(condition, observation, view)

    def is_ready(self, action: str, view: str) -> bool:
        """Return whether an action may be taken without a look: not a focus on what the view shows by another name.

        A wrong focus ends everything. The name may say where the thing is, if a rule finds it there.
        """
        named = action
        for listed, substance in self.shown_names(view).items():
            named = named.replace(listed, substance)
        if not is_focus(action) or is_in_view(named, view):
            return True
        focus, _, place = named.rpartition(" in ")
        is_there = f"The {focus.lower().removeprefix('focus on ')} is in the {place}."
        decision = decide_condition(is_there, Observation(text=""), view) if focus else None
        return decision is not None and decision.holds and is_in_view(focus, view)

    def likely_meanings(self, written: str, options: Sequence[str]) -> Sequence[str]:
        """Return the options without those that pick up what is carried already, which would change nothing."""
        return select_likely(written, options)

    def carry_over(self, action: str, written: str, meant: str) -> str:
        """Return an action with the names that the simulator has for the things of another one."""
        return carry_over_names(action, written, meant)

    def find_action(self, written: str, actions: Sequence[str], view: str) -> str | None:
        """Return an action as written if it has the world's verb and names its things as the view shows them.

        Else a listed one is returned that has the same verb and things, or differs only in what says where a thing is,
        what it holds or of which kind it is, where the view shows a single one. A focus, which cannot be undone, is
        never replaced.
        """
        return find_action(written, actions, view)

    def find_meanings(self, written: str, actions: Sequence[str]) -> Sequence[str]:
        """Return the listed actions with the same verb whose things may be the written ones."""
        return find_meanings(written, actions)

    def select_visible(self, actions: Sequence[str], view: str) -> Sequence[str]:
        """Return the actions without those on things that are out of sight, which the simulator lists and refuses."""
        return select_visible(actions, view)

    def shown_names(self, view: str) -> Mapping[str, str]:
        """Return the names of substances by the names that the simulator lists: "substance in metal pot" -> "water"."""
        return {f"substance in {holder}": substance for holder, substance in HELD_SUBSTANCE.findall(view)}

    def figures(self, runs: Sequence[tuple[str, Footer]]) -> dict[str, float]:
        """Return mean score, success rate, and mean scores by SwiftSage's task groups; see `splits.compute_figures`.

        `score` is the reward of the TDP paper (section 4.1), whose table shows it times 100.
        """
        return splits.compute_figures(runs)

    @cached_property
    def _operators(self) -> Mapping[str, Operator]:
        from certigraph.benchmarks.scienceworld.operators import create_operators

        return create_operators(self.config)
