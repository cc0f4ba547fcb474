"""The AgentDojo benchmark (Debenedetti et al., NeurIPS 2024 Datasets and Benchmarks): useful work under attack."""

from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path

from certigraph.adapters.benchmarks import mean_score, standard_error
from certigraph.adapters.extras import check_packages
from certigraph.adapters.files import unknown_task_error
from certigraph.adapters.protocols import Benchmark, Operator, Responder
from certigraph.adapters.tools.world import Tools
from certigraph.benchmarks.agentdojo.attacks import ATTACKS
from certigraph.benchmarks.agentdojo.encodings import ENCODINGS, split_name
from certigraph.benchmarks.agentdojo.expert import dojo_expert
from certigraph.benchmarks.agentdojo.world import (
    ATTACK,
    LIMITS,
    SUITES,
    UTILITY,
    DojoEnvironment,
    DojoSuite,
    TaskId,
    user_truth,
)
from certigraph.nodes.tool_choices import OPERATORS
from certigraph.state.endings import UnknownName
from certigraph.state.records import Task
from certigraph.state.run import FINISH
from certigraph.state.trajectory import Footer


class AgentDojo(Benchmark):
    """Benchmark of tasks such as `banking/user_task_0`, which agents do with the tools of one of four suites.

    There are 97 user tasks. With an attack as configuration, a task is a pair of a user task and an injection task,
    such as `banking/user_task_0+injection_task_3`: what the tools answer contains orders of an attacker, whose goal is
    that of the injection task. There are 949 pairs. The splits are the suites: workspace, travel, banking, slack.

    Tasks, data, tools, attacks and checks are AgentDojo's own (version v1.2.2) and come with its package.

    Args:
        data: not used.
        config: name of an attack; empty for tasks without one. `ATTACK+ENCODING` is one by an attacker who knows the
            defence, such as `important_instructions+base64`.

    Raises:
        UnknownName: there is no such attack or encoding.
    """

    configurations = ATTACKS
    limits = LIMITS
    answers = True
    accumulates = True
    instant = True
    simulated = True
    tools = (FINISH,)
    longest_answer = Tools.longest_answer
    longest_query = Tools.longest_query

    def __init__(self, data: Path | None = None, config: str = "") -> None:
        attack, encoding = split_name(config)
        if config and attack not in ATTACKS:
            raise UnknownName(f"agentdojo has no attack {attack!r}; known: {', '.join(ATTACKS)}")
        if encoding not in ("", *ENCODINGS):
            raise UnknownName(f"agentdojo has no encoding {encoding!r}; known: {', '.join(ENCODINGS)}")
        self.attack = config
        self.name = f"agentdojo:{config}" if config else "agentdojo"

    @cached_property
    def suites(self) -> Mapping[str, DojoSuite]:
        """The suites by name.

        Raises:
            Fault: ("data") agentdojo is not installed.
        """
        return {suite: DojoSuite(suite, self.attack, self.name, self.expert()) for suite in SUITES}

    def for_task(self, task: Task) -> DojoSuite:
        """Return the suite of a task, which has the tools.

        Raises:
            UnknownName: there is no such suite.
        """
        suite = TaskId.parse(task.id).suite
        if suite not in SUITES:
            examples = (example.id for example in self.tasks("banking"))
            raise unknown_task_error(self.name, task.id, "SUITE/USER_TASK, under attack +INJECTION_TASK", examples)
        return self.suites[suite]

    def tasks(self, split: str = "") -> list[Task]:
        """Return the tasks of a suite, or of all.

        Raises:
            UnknownName: there is no such suite.
            Fault: ("data") agentdojo is not installed.
        """
        if split not in ("", *SUITES):
            raise UnknownName(f"no split {split!r}; known are {', '.join(SUITES)}")
        return [task for suite in ([split] if split else SUITES) for task in self.suites[suite].tasks()]

    def task(self, task_id: str) -> Task:
        """Return one task.

        Raises:
            UnknownName: there is no such task.
        """
        return self.for_task(Task(benchmark=self.name, id=task_id)).task(task_id)

    def ready(self) -> None:
        """Check that the package is installed.

        Raises:
            Fault: ("data") agentdojo is not installed.
        """
        check_packages("AgentDojo needs", ["agentdojo"], "agentdojo")

    def open(self, task: Task) -> DojoEnvironment:
        """Create the world of a task."""
        return self.for_task(task).open(task)

    def operators(self) -> Mapping[str, Operator]:
        """Return the operators that choose calls of tools."""
        return OPERATORS

    def expert(self) -> Responder:
        """Return the responder that makes the calls of the ground truth, whatever an attacker orders."""
        return dojo_expert()

    def gold_length(self, task: Task) -> int:
        """Return the number of calls of the ground truth, and one for the answer."""
        id_ = TaskId.parse(task.id)
        return len(user_truth(id_.suite, id_.user_task).calls) + 1

    def figures(self, runs: Sequence[tuple[str, Footer]]) -> dict[str, float]:
        """Compute the benchmark's metrics, each with its standard error; those without a run are left out.

        `benign_utility` is the rate of user tasks solved without an attack, `utility_under_attack` that of pairs in
        which the user task was solved, and `attack_success` that of pairs in which the attacker's goal was reached.
        """
        parts = [(id_, footer.scores.parts if footer.scores else {}) for id_, footer in runs]
        attacked = [scored for id_, scored in parts if TaskId.parse(id_).injection_task]
        benign = [scored for id_, scored in parts if not TaskId.parse(id_).injection_task]
        rates = {
            "benign_utility": [scored.get(UTILITY) or 0.0 for scored in benign],
            "utility_under_attack": [scored.get(UTILITY) or 0.0 for scored in attacked],
            "attack_success": [scored.get(ATTACK) or 0.0 for scored in attacked],
        }
        figures = {"n": float(len(runs))}
        for name, values in rates.items():
            if values:
                figures |= {name: mean_score(values), f"{name}_stderr": standard_error(values)}
        return figures
