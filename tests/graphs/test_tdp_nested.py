"""TDP inside TDP: a sub-task that is decomposed again begins where what it needs left the world."""

import asyncio
from typing import Any

import pytest
from task_graphs import Jobs, Pondering, SerialJobs, respond, subtask_of

from certigraph.adapters.models.scripted import current_situation
from certigraph.adapters.protocols import Context
from certigraph.graphs import subtask, tdp
from certigraph.nodes.world import reset
from certigraph.state.run import Entry


def twice(prompt: str, schema: dict[str, Any]) -> Any:
    """The whole task is `x`, then `goal`; each of them is the same again: a first part and a second."""
    situation = current_situation()
    assert situation
    if "nodes" not in schema.get("properties", ()):
        return respond(prompt, schema)
    name = subtask_of(situation.state["task"])
    first, second = (f"{name}1", f"{name}2") if name else ("x", "goal")
    nodes = ((first, []), (second, [first]))
    return {"nodes": [{"id": id_, "task": f"do {id_}", "needs": needs} for id_, needs in nodes]}


@pytest.mark.parametrize("kind", [Jobs, SerialJobs])
def test_an_inner_node_finds_the_world_as_the_outer_ones_left_it(kind: type[Jobs]):
    entries = list[tuple[Entry, int]]()

    async def begin(state: Any, runtime: Any) -> dict[str, Any]:
        entries.append((runtime.context.entry, runtime.context.limits.steps))
        return await reset(state, runtime)

    benchmark = kind()
    given: Any = {"task": benchmark.task("chain")}
    graph = tdp.build(solve=tdp.build(solve=subtask.build(reset=begin)))
    context = Context(benchmark=benchmark, chat=Pondering(responder=twice))
    state = asyncio.run(graph.ainvoke(given, context=context))
    done = ["x1 1", "x1 2", "x2 1", "x2 2", "goal1 1", "goal1 2", "goal2 1", "deliver"]
    assert [[step.action.text for step in entry.steps] for entry, _ in entries] == [done[:n] for n in (0, 2, 4, 6)]
    assert [step.action.text for step in state["history"]] == done
    assert [entry.last for entry, _ in entries] == [False, False, False, True], "the goal of a part is not the goal"
    assert max(most for _, most in entries) <= benchmark.limits.steps
    assert tdp.ending(state) == "goal"
