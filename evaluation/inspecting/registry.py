"""What inspect loads for the name `certigraph` (entry point `inspect_ai`): a task per benchmark, and the models."""

from inspect_ai.util import registry_info

from certigraph.adapters.benchmarks import BENCHMARKS
from certigraph.evaluation.inspecting.models import certigraph
from certigraph.evaluation.inspecting.tasks import task_of

__all__ = ["TASKS", "certigraph", "registered"]

TASKS = {name: task_of(name) for name in BENCHMARKS}


def registered(task: str) -> str:
    """The name under which this process knows a task of ours; installed it is `certigraph/NAME`, else only `NAME`."""
    return registry_info(TASKS[task.rpartition("/")[2]]).name
