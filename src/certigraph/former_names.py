"""Former names of modules. They import the modules of today, with a warning, until version 0.2."""

import sys
import warnings
from collections.abc import Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

BENCHMARK_FOLDERS = (
    *("agentdojo", "alfworld", "assistantbench", "blocksworld", "hotpotqa", "locomo", "musique", "qa", "research"),
    *("rewardprediction", "scienceworld", "swe_qa", "textworld", "travelplanner", "webshop"),
)

FORMER_NAMES = {
    "adapters.qa.scoring": "adapters.retrieval.answers",
    **{f"adapters.{name}": f"benchmarks.{name}" for name in BENCHMARK_FOLDERS},
    "adapters.models.actions": "nodes.actions",
    "adapters.models.decisions": "nodes.decisions",
    "adapters.models.plans": "nodes.conditions",
    "adapters.models.verdicts": "nodes.verdicts",
    "adapters.tools.operators": "nodes.tool_choices",
    "evaluation.analyses": "studies",
    "evaluation.sweep_file": "evaluation.sweep",
    "evaluation.sweep_report": "evaluation.sweep",
    "runtime.episodes": "runtime.history",
    "runtime.progress": "runtime.history",
    "runtime.questions": "benchmarks.ask",
}
"""Present names of modules and packages by their former ones, without `certigraph.`; the most exact one comes first."""


def find_present_name(name: str) -> str | None:
    """Return the present name of a module; None if the name is not a former one."""
    inner = name.removeprefix("certigraph.")
    for former, present in FORMER_NAMES.items():
        if inner == former or inner.startswith(f"{former}."):
            return f"certigraph.{present}{inner.removeprefix(former)}"
    return None


class FormerNameFinder(MetaPathFinder):
    """Finds modules by their former names.

    It stands first in `sys.meta_path`: the path finder would load the modules of a package a second time, since the
    package has the same path by either name.
    """

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the spec of a module that has another name today."""
        if not fullname.startswith("certigraph.") or not (present := find_present_name(fullname)):
            return None
        return ModuleSpec(fullname, _PresentModule(present))


class _PresentModule(Loader):
    def __init__(self, name: str) -> None:
        self._name = name

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        warnings.warn(f"{spec.name} is now {self._name}", DeprecationWarning, stacklevel=2)
        self._module = import_module(self._name)
        self._spec = self._module.__spec__
        return self._module

    def exec_module(self, module: ModuleType) -> None:
        module.__spec__ = self._spec  # the import of the former name has replaced it


def install() -> None:
    """Let former names be imported."""
    if not any(isinstance(finder, FormerNameFinder) for finder in sys.meta_path):
        sys.meta_path.insert(0, FormerNameFinder())
