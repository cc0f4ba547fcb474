"""The exhaustion gate in every graph that acts: it ends a run that stalls, and nothing is asked afterwards."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from helpers.worlds.library_world import LibraryBenchmark, ScriptedModel, same_passages, same_search

from certigraph.adapters.models.scripts import ScriptedChat
from certigraph.adapters.protocols import Benchmark, Context, Environment, Limits
from certigraph.nodes.specs import Spec, parse_spec
from certigraph.runtime.registry import METHOD_GRAPHS, SEARCH_GRAPHS, build_graph
from certigraph.runtime.result import Result
from certigraph.runtime.run import run
from certigraph.state.records import Action, Observation, Scores, Task

GRAPHS = (*METHOD_GRAPHS, *SEARCH_GRAPHS)
GATES = (
    "exhaustion_gate:jaccard=0.0",  # the unique passage rate alone
    "exhaustion_gate:upr=1.0",  # the similarity of actions alone
    "smooth_gate:decay=0.9",
    "gap_gate",
    "judged_gate:stance=neutral",
)
ANSWERS: dict[str, Any] = {
    "verdict": {"reason": "Nothing new.", "verdict": "EXHAUSTED"},
    "conditions": {"conditions": ["The door is open."]},
    "nodes": {"nodes": [{"id": "knock", "task": "Knock until it opens.", "needs": []}]},
    "tool": same_search,
    "sentence": {"sentence": "The lake lies there."},
    "generation": {"generation": "The lake."},
    "hypotheses": {"hypotheses": ["It is a lake.", "It is a river."]},
    "facts": {"facts": [], "resolved": [], "questions": []},
    "answer": {"answer": "Ada"},
    "action": {"thought": "", "action": "knock"},
}


class Closed(Benchmark):
    """A world that takes every action and answers it in the same words."""

    name, briefing = "closed", "You stand before a door."
    limits = Limits(steps=40, repeats=0, attempts=30)

    def tasks(self, split: str = "") -> list[Task]:
        return [self.task("only")]

    def task(self, task_id: str) -> Task:
        return Task(benchmark=self.name, id=task_id, goal="Open the door.")

    def open(self, task: Task) -> "ClosedDoor":
        return ClosedDoor()


class ClosedDoor(Environment):
    def reset(self) -> Observation:
        return Observation(text="A door.")

    def step(self, action: Action) -> Observation:
        return Observation(text="Nothing happens.")

    def view(self) -> str:
        return "The door is closed."

    def admissible(self) -> list[str]:
        return ["knock", "ring"]

    def score(self) -> Scores:
        return Scores(value=0.0)


def stalled(graph: str, gate: str, folder: Path) -> Result:
    """A run in which every action is the same and the world answers it in the same words."""
    world = LibraryBenchmark(same_passages) if graph in SEARCH_GRAPHS else Closed()
    context = Context(chat=ScriptedChat(responder=ScriptedModel(**ANSWERS)), benchmark=world)
    return run(build_graph(graph, {"gate": parse_spec(gate)}), world, context=context, out=folder)


def endings_of(result: Result) -> set[str]:
    """The ending of a run; of parallel searches those of the searches, whose answers are joined then."""
    branches = result.state.get("branches", [])
    return {branch.ending for branch in branches} if branches else {result.ending}


@pytest.mark.parametrize("graph", GRAPHS)
def test_a_gate_ends_a_run_that_stalls_and_nothing_is_asked_afterwards(graph: str, tmp_path: Path):
    result = stalled(graph, "exhaustion_gate", tmp_path)
    events, branches = list(result.trajectory.events), result.state.get("branches", [])
    fired = [n for n, event in enumerate(events) if (event.update or {}).get("stagnation", {}).get("stop")]
    calling = [event.node for event in events[fired[0] :] if event.calls] if fired else []
    assert endings_of(result) == {"exhausted"}
    assert fired or {branch.rounds for branch in branches} == {3}, "a search inside a node"
    assert set(calling) <= {"answer"}


@pytest.mark.slow
@pytest.mark.parametrize("gate", GATES)
@pytest.mark.parametrize("graph", GRAPHS)
def test_every_gate_of_the_paper_fits_every_graph(graph: str, gate: str, tmp_path: Path):
    assert endings_of(stalled(graph, gate, tmp_path)) == {"exhausted"}


@pytest.mark.parametrize("graph", GRAPHS)
def test_a_drawing_shows_where_the_gate_stops(graph: str):
    def stops(swaps: Mapping[str, Spec]) -> bool:
        return any(edge.data == "stop" for edge in build_graph(graph, swaps).get_graph(xray=True).edges)

    assert stops({"gate": Spec(name="exhaustion_gate")})
    assert stops({}) is (graph in SEARCH_GRAPHS), "others have no gate by default"
