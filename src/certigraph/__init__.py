"""certigraph: long-horizon language agents whose progress can be checked.

Public names are imported on first use, so that `import certigraph` and the command line start fast.
"""

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

from certigraph import former_names

if TYPE_CHECKING:
    from certigraph.adapters.benchmarks import load_benchmark as load_benchmark
    from certigraph.adapters.faults import FaultyEnvironment as FaultyEnvironment
    from certigraph.adapters.models.calls import ScriptedModelWarning as ScriptedModelWarning
    from certigraph.adapters.models.faults import FaultyModel as FaultyModel
    from certigraph.adapters.models.faults import faulty_endpoint as faulty_endpoint
    from certigraph.adapters.models.scripts import ScriptedChat as ScriptedChat
    from certigraph.adapters.protocols import Benchmark as Benchmark
    from certigraph.adapters.protocols import Budget as Budget
    from certigraph.adapters.protocols import Context as Context
    from certigraph.adapters.protocols import Environment as Environment
    from certigraph.adapters.protocols import Limits as Limits
    from certigraph.adapters.protocols import Operator as Operator
    from certigraph.adapters.tools.memory import memory_tools as memory_tools
    from certigraph.adapters.tools.outcomes import Once as Once
    from certigraph.adapters.tools.rules import Allow as Allow
    from certigraph.adapters.tools.rules import Forbidden as Forbidden
    from certigraph.adapters.tools.rules import Unknown as Unknown
    from certigraph.adapters.tools.world import Case as Case
    from certigraph.adapters.tools.world import Episode as Episode
    from certigraph.adapters.tools.world import Tools as Tools
    from certigraph.adapters.trajectories import read_trajectory as read_trajectory
    from certigraph.benchmarks.ask import ask as ask
    from certigraph.evaluation.compare import ablate as ablate
    from certigraph.evaluation.compare import compare as compare
    from certigraph.evaluation.comparison import Choice as Choice
    from certigraph.evaluation.evaluate import evaluate as evaluate
    from certigraph.evaluation.sweep import sweep as sweep
    from certigraph.graphs.agent import agent as agent
    from certigraph.graphs.assembly import Schemas as Schemas
    from certigraph.nodes.beliefs import freeform as freeform
    from certigraph.nodes.beliefs import structured as structured
    from certigraph.nodes.gates import exhaustion_gate as exhaustion_gate
    from certigraph.nodes.gates import smooth_gate as smooth_gate
    from certigraph.nodes.goal_checks import recheck as recheck
    from certigraph.nodes.goal_checks import votes as votes
    from certigraph.nodes.goal_checks import world_check as world_check
    from certigraph.nodes.lookahead import reward_guided as reward_guided
    from certigraph.nodes.rewards import route as route
    from certigraph.nodes.sdp import always_pass as always_pass
    from certigraph.nodes.sdp import capped as capped
    from certigraph.nodes.sdp import give_up as give_up
    from certigraph.nodes.slots import factory as factory
    from certigraph.nodes.verification import Verification as Verification
    from certigraph.nodes.verification import averify as averify
    from certigraph.nodes.verification import verify as verify
    from certigraph.nodes.wrapped_tools import once as once
    from certigraph.runtime.descriptions import describe as describe
    from certigraph.runtime.report import write_report as write_report
    from certigraph.runtime.result import Result as Result
    from certigraph.runtime.result import RunFailed as RunFailed
    from certigraph.runtime.result import RunFailedWarning as RunFailedWarning
    from certigraph.runtime.run import aresume as aresume
    from certigraph.runtime.run import arun as arun
    from certigraph.runtime.run import resume as resume
    from certigraph.runtime.run import run as run
    from certigraph.state.endings import Fault as Fault
    from certigraph.state.endings import LimitReached as LimitReached
    from certigraph.state.endings import UnknownName as UnknownName
    from certigraph.state.records import Action as Action
    from certigraph.state.records import Observation as Observation
    from certigraph.state.records import Predicate as Predicate
    from certigraph.state.records import Scores as Scores
    from certigraph.state.records import Task as Task
    from certigraph.state.records import Verdict as Verdict
    from certigraph.state.rewards import Entity as Entity
    from certigraph.state.rewards import FactoredState as FactoredState
    from certigraph.state.subtask import Progress as Progress
    from certigraph.state.tdp import Dag as Dag
    from certigraph.state.tdp import Node as Node
    from certigraph.state.tdp import Outcome as Outcome
    from certigraph.state.trajectory import Trajectory as Trajectory
    from certigraph.state.trajectory import serializer as serializer

__version__ = "0.1.0"

former_names.install()

PUBLIC_NAMES = {
    "adapters.benchmarks": ("load_benchmark",),
    "adapters.faults": ("FaultyEnvironment",),
    "adapters.models.calls": ("ScriptedModelWarning",),
    "adapters.models.faults": (
        "FaultyModel",
        "faulty_endpoint",
    ),
    "adapters.models.scripts": ("ScriptedChat",),
    "adapters.trajectories": ("read_trajectory",),
    "adapters.protocols": (
        "Benchmark",
        "Budget",
        "Context",
        "Environment",
        "Limits",
        "Operator",
    ),
    "adapters.tools.memory": ("memory_tools",),
    "adapters.tools.outcomes": ("Once",),
    "adapters.tools.rules": (
        "Allow",
        "Forbidden",
        "Unknown",
    ),
    "adapters.tools.world": (
        "Case",
        "Episode",
        "Tools",
    ),
    "evaluation.compare": (
        "Choice",
        "ablate",
        "compare",
    ),
    "evaluation.evaluate": ("evaluate",),
    "evaluation.sweep": ("sweep",),
    "graphs.agent": ("agent",),
    "graphs.assembly": ("Schemas",),
    "nodes.beliefs": (
        "freeform",
        "structured",
    ),
    "nodes.gates": (
        "exhaustion_gate",
        "smooth_gate",
    ),
    "nodes.goal_checks": (
        "recheck",
        "votes",
        "world_check",
    ),
    "nodes.lookahead": ("reward_guided",),
    "nodes.rewards": ("route",),
    "nodes.sdp": (
        "always_pass",
        "capped",
        "give_up",
    ),
    "nodes.slots": ("factory",),
    "nodes.verification": (
        "Verification",
        "averify",
        "verify",
    ),
    "nodes.wrapped_tools": ("once",),
    "benchmarks.ask": ("ask",),
    "runtime.descriptions": ("describe",),
    "runtime.report": ("write_report",),
    "runtime.result": (
        "Result",
        "RunFailed",
        "RunFailedWarning",
    ),
    "runtime.run": (
        "aresume",
        "arun",
        "resume",
        "run",
    ),
    "state.endings": (
        "Fault",
        "LimitReached",
        "UnknownName",
    ),
    "state.records": (
        "Action",
        "Observation",
        "Predicate",
        "Scores",
        "Task",
        "Verdict",
    ),
    "state.run": ("AnsweredCall",),
    "state.rewards": (
        "Entity",
        "FactoredState",
    ),
    "state.subtask": ("Progress",),
    "state.tdp": (
        "Dag",
        "Node",
        "Outcome",
    ),
    "state.trajectory": (
        "serializer",
        "Trajectory",
    ),
}
"""Names that the package exports, by the module that has them; a module is imported when a name of it is used."""


def __getattr__(name: str) -> Any:
    module_name = next((module for module, names in PUBLIC_NAMES.items() if name in names), None)
    if module_name is None:
        raise AttributeError(f"module 'certigraph' has no attribute {name!r}", name=name, obj=sys.modules[__name__])
    try:
        return getattr(import_module(f"certigraph.{module_name}"), name)
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("certigraph"):
            raise
        message = f"certigraph.{name} needs {error.name}, missing here: pip install 'certigraph[eval]'"
        raise ModuleNotFoundError(message, name=error.name) from error


def __dir__() -> list[str]:
    return sorted(name for names in PUBLIC_NAMES.values() for name in names)
