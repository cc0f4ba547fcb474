"""In which order methods and tasks appear, how they are called, and STEP's groups of tasks."""

from collections.abc import Iterable

from certigraph.adapters.scienceworld.splits import STEP_LONG, STEP_SHORT
from certigraph.evaluation.figures.traces import Method, Trace

TITLES = {
    "step": "STEP",
    "clin": "CLIN",
    "sdp": "SDP",
    "react": "ReAct",
    "react_reward": "ReAct + StateFactory",
    "mcts": "MCTS + StateFactory",
    "reflexion": "Reflexion",
    "plan_and_solve": "Plan-and-Solve",
}
"""The graphs as papers call them, STEP beside CLIN."""

GROUPS = {**dict.fromkeys(STEP_SHORT.values(), "S"), **dict.fromkeys(STEP_LONG.values(), "L")}
"""STEP's nine short and nine long tasks, in the order of its table."""


def methods_of(traces: Iterable[Trace]) -> list[Method]:
    """The methods, whole ones before those with operators swapped."""
    graphs = list(TITLES)

    def rank(method: Method) -> tuple[bool, int, str, str]:
        place = graphs.index(method.graph) if method.graph in graphs else len(graphs)
        return bool(method.swaps), place, str(method), method.model

    return sorted({trace.method for trace in traces}, key=rank)


def tasks_of(traces: Iterable[Trace]) -> list[str]:
    """The tasks: STEP's in the order of its table, then the others by name."""
    places = {task: place for place, task in enumerate(GROUPS)}
    return sorted({trace.task for trace in traces}, key=lambda task: (places.get(task, len(places)), task))


def titles(methods: Iterable[Method]) -> dict[Method, str]:
    """What to call each method; its model is named where there are several."""
    methods = list(methods)
    several = len({method.model for method in methods}) > 1
    return {method: _title(method) + (f", {method.model}" if several else "") for method in methods}


def _title(method: Method) -> str:
    graph = TITLES.get(method.graph, method.graph)
    return f"{graph} ({', '.join(method.swaps)})" if method.swaps else graph
