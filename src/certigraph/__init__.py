"""certigraph: long-horizon language agents whose progress can be checked.

The public names are imported on first use, so that `import certigraph` and the command line start at once.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from certigraph.adapters.benchmarks import load_benchmark as load_benchmark
    from certigraph.adapters.context import Budget as Budget
    from certigraph.adapters.context import Context as Context
    from certigraph.adapters.faults.model import FaultyModel as FaultyModel
    from certigraph.adapters.faults.wire import faulty_endpoint as faulty_endpoint
    from certigraph.adapters.faults.world import FaultyEnvironment as FaultyEnvironment
    from certigraph.adapters.models.minds import ScriptedModelWarning as ScriptedModelWarning
    from certigraph.adapters.protocols import Limits as Limits
    from certigraph.evaluation.ablating.ablate import ablate as ablate
    from certigraph.evaluation.ask import ask as ask
    from certigraph.evaluation.comparing.command import Choice as Choice
    from certigraph.evaluation.evaluate import evaluate as evaluate
    from certigraph.evaluation.report.report import write_report as write_report
    from certigraph.evaluation.result import Result as Result
    from certigraph.evaluation.result import RunFailed as RunFailed
    from certigraph.evaluation.result import RunFailedWarning as RunFailedWarning
    from certigraph.evaluation.resume import aresume as aresume
    from certigraph.evaluation.resume import resume as resume
    from certigraph.evaluation.run import arun as arun
    from certigraph.evaluation.run import run as run
    from certigraph.evaluation.sweeping.sweep import sweep as sweep
    from certigraph.nodes.audit import votes as votes
    from certigraph.nodes.audit import world_check as world_check
    from certigraph.nodes.extract import freeform as freeform
    from certigraph.nodes.extract import structured as structured
    from certigraph.nodes.gate import exhaustion_gate as exhaustion_gate
    from certigraph.nodes.gate import smooth_gate as smooth_gate
    from certigraph.nodes.replan import give_up as give_up
    from certigraph.nodes.revalidate import recheck as recheck
    from certigraph.nodes.reward_guided import reward_guided as reward_guided
    from certigraph.nodes.route import route as route
    from certigraph.nodes.specs import factory as factory
    from certigraph.nodes.validate import always_pass as always_pass
    from certigraph.nodes.validate import capped as capped
    from certigraph.state.dag import Dag as Dag
    from certigraph.state.dag import Node as Node
    from certigraph.state.factored import Entity as Entity
    from certigraph.state.factored import FactoredState as FactoredState
    from certigraph.state.reading import read_trajectory as read_trajectory
    from certigraph.state.records import Action as Action
    from certigraph.state.records import Observation as Observation
    from certigraph.state.records import Predicate as Predicate
    from certigraph.state.records import Task as Task
    from certigraph.state.records import Verdict as Verdict
    from certigraph.state.serializing import serializer as serializer
    from certigraph.state.subtask import Progress as Progress
    from certigraph.state.tdp import Outcome as Outcome
    from certigraph.state.trajectory import Trajectory as Trajectory

__version__ = "0.1.0"

_PUBLIC = {
    "adapters.benchmarks": ("load_benchmark",),
    "adapters.context": ("Budget", "Context"),
    "adapters.faults.model": ("FaultyModel",),
    "adapters.faults.wire": ("faulty_endpoint",),
    "adapters.faults.world": ("FaultyEnvironment",),
    "adapters.models.minds": ("ScriptedModelWarning",),
    "adapters.protocols": ("Limits",),
    "evaluation.ablating.ablate": ("ablate",),
    "evaluation.ask": ("ask",),
    "evaluation.comparing.command": ("Choice",),
    "evaluation.evaluate": ("evaluate",),
    "evaluation.report.report": ("write_report",),
    "evaluation.result": ("Result", "RunFailed", "RunFailedWarning"),
    "evaluation.resume": ("aresume", "resume"),
    "evaluation.run": ("arun", "run"),
    "evaluation.sweeping.sweep": ("sweep",),
    "nodes.audit": ("votes", "world_check"),
    "nodes.extract": ("freeform", "structured"),
    "nodes.gate": ("exhaustion_gate", "smooth_gate"),
    "nodes.replan": ("give_up",),
    "nodes.revalidate": ("recheck",),
    "nodes.reward_guided": ("reward_guided",),
    "nodes.route": ("route",),
    "nodes.specs": ("factory",),
    "nodes.validate": ("always_pass", "capped"),
    "state.dag": ("Dag", "Node"),
    "state.factored": ("Entity", "FactoredState"),
    "state.subtask": ("Progress",),
    "state.tdp": ("Outcome",),
    "state.records": ("Action", "Observation", "Predicate", "Task", "Verdict"),
    "state.serializing": ("serializer",),
    "state.reading": ("read_trajectory",),
    "state.trajectory": ("Trajectory",),
}


def __getattr__(name: str) -> Any:
    home = next((module for module, names in _PUBLIC.items() if name in names), None)
    if home is None:
        raise AttributeError(f"certigraph has no {name!r}; it has {', '.join(__dir__())}")
    try:
        return getattr(import_module(f"certigraph.{home}"), name)
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("certigraph"):
            raise
        told = f"certigraph.{name} needs {error.name}, missing here: pip install 'certigraph[eval]'"
        raise ModuleNotFoundError(told, name=error.name) from error


def __dir__() -> list[str]:
    return sorted(name for names in _PUBLIC.values() for name in names)
