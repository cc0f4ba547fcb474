"""What inspect loads for the name `certigraph` (entry point `inspect_ai`): a task per benchmark, and the models."""

from certigraph.adapters.benchmarks import BENCHMARKS
from certigraph.evaluation.inspecting.models import certigraph
from certigraph.evaluation.inspecting.tasks import task_of

__all__ = ["TASKS", "certigraph"]

TASKS = {name: task_of(name) for name in BENCHMARKS}
