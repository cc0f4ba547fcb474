"""certigraph: long-horizon language agents whose progress can be checked.

The public names below are imported on first use, so that `import certigraph` stays fast.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from certigraph.adapters.benchmarks import load_benchmark
    from certigraph.adapters.context import Budget, Context
    from certigraph.adapters.protocols import Limits
    from certigraph.evaluation.report import write_report
    from certigraph.evaluation.result import Result
    from certigraph.evaluation.run import aresume, arun, resume, run
    from certigraph.nodes.replan import give_up
    from certigraph.nodes.specs import factory
    from certigraph.nodes.validate import always_pass, capped
    from certigraph.state.records import Action, Observation, Predicate, Task, Verdict
    from certigraph.state.serializing import serializer
    from certigraph.state.trajectory import Trajectory, read_trajectory

__version__ = "0.1.0"

_HOMES = {
    "Action": "state.records",
    "Budget": "adapters.context",
    "Context": "adapters.context",
    "Limits": "adapters.protocols",
    "Observation": "state.records",
    "Predicate": "state.records",
    "Result": "evaluation.result",
    "Task": "state.records",
    "Trajectory": "state.trajectory",
    "Verdict": "state.records",
    "always_pass": "nodes.validate",
    "aresume": "evaluation.run",
    "arun": "evaluation.run",
    "capped": "nodes.validate",
    "factory": "nodes.specs",
    "give_up": "nodes.replan",
    "load_benchmark": "adapters.benchmarks",
    "read_trajectory": "state.trajectory",
    "resume": "evaluation.run",
    "run": "evaluation.run",
    "serializer": "state.serializing",
    "write_report": "evaluation.report",
}
"""Where each public name lives."""

__all__ = list(_HOMES)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"certigraph has no {name!r}; it has {', '.join(_HOMES)}")
    return getattr(import_module(f"certigraph.{_HOMES[name]}"), name)
