"""The copies of a world that sub-tasks work in: where more are at work than are kept, and where none can be made."""

import asyncio
from typing import Any

from langgraph.types import Overwrite
from task_graphs import Jobs, Pondering

from certigraph.adapters import episodes
from certigraph.adapters.protocols import Context
from certigraph.graphs import tdp
from certigraph.graphs.tdp import solve
from certigraph.nodes.react import execute
from certigraph.state.records import Observation
from certigraph.state.run import Evidence


def solved(benchmark: Jobs, **operators: Any) -> dict[str, Any]:
    given: Any = {"task": benchmark.task("deep")}
    return asyncio.run(tdp.build(**operators).ainvoke(given, context=Context(benchmark=benchmark, chat=Pondering())))


def test_a_copy_that_was_closed_is_made_again_as_it_was():
    async def close_copies_and_execute(state: Any, runtime: Any) -> dict[str, Any]:
        for key in [key for key in episodes.EPISODES if "/" in key]:
            episodes.close_episode(key)
        return await execute(state, runtime)

    undisturbed, disturbed = Jobs(), Jobs()
    expected = solved(undisturbed)
    state = solved(disturbed, solve=solve(execute=close_copies_and_execute))
    assert state["outcomes"] == expected["outcomes"]
    assert state["history"] == expected["history"]
    assert len(disturbed.worlds) > len(undisturbed.worlds), "some were closed while their sub-tasks were at work"


def test_an_episode_that_nobody_opened_yet_is_gone_on_with_by_one_node_at_a_time():
    async def unopened(state: Any, runtime: Any) -> dict[str, Any]:
        seen = {"observation": Observation(text="nothing is done"), "evidence": Evidence()}
        return {"task": state["task"], "episode": "unopened", "history": Overwrite([]), **seen}

    state = solved(Jobs(), reset=unopened)
    episodes.close_episode("unopened")
    assert not state["concurrent"]
    assert tdp.ending(state) == "goal"  # type: ignore[arg-type]
