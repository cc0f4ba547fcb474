"""SDP's graph as a user meets it: all four ways to call it, checkpoints, cascades and budgets, endings, forks."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from helpers.worlds.scripted_benchmark import Script, run_script, script_input
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

from certigraph.adapters.benchmarks import load_benchmark
from certigraph.adapters.protocols import Context, Limits
from certigraph.graphs import sdp
from certigraph.nodes.sdp import capped, validate
from certigraph.state.certified_states import certified_state
from certigraph.state.endings import Fault
from certigraph.state.records import Predicate, Verdict
from certigraph.state.trajectory import serializer

BUMPY = (0, 2, 0, 0, 0, 0, 1)
"""A retry, a cascade of two, three misses, a replan, a miss and then one certificate a step."""


def depths(state: dict[str, Any]) -> list[int]:
    return [c.depth for c in state["certificates"]]


def thread(name: str = "t") -> dict[str, Any]:
    return {"configurable": {"thread_id": name}}


# --- swaps


def test_capped_cuts_cascades():
    assert depths(run_script(Script(verdicts=[3]))) == [3, 1]
    assert depths(run_script(Script(verdicts=[3]), validate=capped(validate, depth=1))) == [1, 1, 1, 1]
    assert depths(run_script(Script(verdicts=[3]), validate=capped(depth=2))) == [2, 1, 1]


# --- four ways to call it


async def gathered(graph: Any, task: Any, **more: Any) -> dict[str, Any]:
    return [state async for state in graph.astream(task, stream_mode="values", **more)][-1]


def called(way: str, graph: Any, task: Any, **more: Any) -> dict[str, Any]:
    if way == "invoke":
        return graph.invoke(task, **more)
    if way == "stream":
        return list(graph.stream(task, stream_mode="values", **more))[-1]
    return asyncio.run(graph.ainvoke(task, **more) if way == "ainvoke" else gathered(graph, task, **more))


@pytest.mark.slow
@pytest.mark.parametrize("way", ["invoke", "stream", "ainvoke", "astream"])
def test_all_four_ways_certify_the_same(way: str):
    script, world = Script(verdicts=BUMPY), load_benchmark("blocksworld")
    final = called(way, sdp.build(), script_input(script), context=Context(benchmark=script))
    assert final["certificates"] == run_script(Script(verdicts=BUMPY))["certificates"]
    assert depths(final) == [2, 1, 1]
    solved = called(way, sdp.graph, {"task": {"benchmark": "blocksworld", "id": "4-0"}})
    assert certified_state(solved["certificates"]).predicates == tuple(solved["plan"])
    assert world.task("4-0") == solved["task"]


def test_invoke_works_inside_a_running_event_loop():
    async def inside() -> dict[str, Any]:
        return run_script(Script(verdicts=BUMPY))

    assert depths(asyncio.run(inside())) == [2, 1, 1]


# --- checkpoints


def restored_sync(path: Path, script: Script) -> dict[str, Any]:
    with SqliteSaver.from_conn_string(str(path)) as saver:
        saver.serde = serializer()
        sdp.build(saver).invoke(script_input(script), thread(), context=Context(benchmark=script))
    with SqliteSaver.from_conn_string(str(path)) as saver:
        saver.serde = serializer()
        return sdp.build(saver).get_state(thread()).values


async def restored_async(path: Path, script: Script) -> dict[str, Any]:
    async with AsyncSqliteSaver.from_conn_string(str(path)) as saver:
        saver.serde = serializer()
        await sdp.build(saver).ainvoke(script_input(script), thread(), context=Context(benchmark=script))
    async with AsyncSqliteSaver.from_conn_string(str(path)) as saver:
        saver.serde = serializer()
        return (await sdp.build(saver).aget_state(thread())).values


@pytest.mark.slow
@pytest.mark.parametrize("way", ["sync", "async"])
def test_a_state_comes_back_from_sqlite_as_it_was(way: str, tmp_path: Path):
    path, script = tmp_path / "c.sqlite", Script(verdicts=BUMPY)
    found = restored_sync(path, script) if way == "sync" else asyncio.run(restored_async(path, script))
    straight = run_script(Script(verdicts=BUMPY))
    varying = {"episode", "usage", "spent"}
    assert {k: v for k, v in found.items() if k not in varying} == {
        k: v for k, v in straight.items() if k not in varying
    }
    assert [u.node for u in found["usage"]] == [u.node for u in straight["usage"]]


# --- cascades and budgets


@pytest.mark.parametrize("depth", [1, 2, 3, 4])
def test_a_verdict_of_depth_k_certifies_k(depth: int):
    final = run_script(Script(plan=4, verdicts=[depth]))
    first = final["certificates"][0]
    assert first.targets == tuple(final["plan"][:depth])
    assert (first.position, first.step, first.action.text) == (0, 1, "p1 try 1")
    assert final["attempts"][0].verdict.depth == depth
    assert certified_state(final["certificates"]).predicates == tuple(final["plan"])


def test_three_tries_at_a_target_then_a_replan():
    script = Script(plan=2, verdicts=[1, 0, 0, 0, 0, 1])
    final = run_script(script)
    assert script.worlds[0].actions == ["p1 try 1", "p2 try 1", "p2 try 2", "p2 try 3", "r1-1 try 1", "r1-1 try 2"]
    assert [p.text for p in final["plan"]] == ["p1", "r1-1"]
    assert [(a.position, a.target.text, a.verdict.depth) for a in final["attempts"]] == [
        (0, "p1", 1),
        (1, "p2", 0),
        (1, "p2", 0),
        (1, "p2", 0),
        (1, "r1-1", 0),
        (1, "r1-1", 1),
    ]


@pytest.mark.parametrize(("attempts", "replans"), [(3, 2), (1, 0), (2, 1), (1, 4)])
def test_the_run_gives_up_once_the_replans_are_spent(attempts: int, replans: int):
    script = Script(verdicts=[0] * 50, limits=Limits(attempts=attempts, replans=replans))
    final = run_script(script)
    assert sdp.ending(final) == "gave_up"
    assert (len(final["attempts"]), final["replans"]) == (attempts * (replans + 1), replans)


def test_a_certificate_refills_tries_and_replans():
    spent = [0, 0] * 3
    script = Script(plan=2, verdicts=[*spent[:-1], 1, *spent[:-1], 1], limits=Limits(attempts=2, replans=2))
    assert sdp.ending(run_script(script)) == "goal"
    script = Script(plan=2, verdicts=[*spent[:-1], 1, *spent], limits=Limits(attempts=2, replans=2))
    final = run_script(script)
    assert (sdp.ending(final), depths(final)) == ("gave_up", [1])


def test_a_predicate_that_is_certified_again_refills_no_replans():
    async def plan_the_same(state: Any, runtime: Any) -> dict[str, Any]:
        return {"plan": [Predicate(text="p1"), Predicate(text="p2", kind="goal")]}

    script = Script(plan=2, verdicts=[1, 0] * 30, limits=Limits(attempts=1, replans=2, steps=60))
    final = sdp.build(replan=plan_the_same).invoke({"task": script.task("only")}, context=Context(benchmark=script))
    assert (sdp.ending(final), final["replans"], depths(final)) == ("gave_up", 2, [1, 1, 1])


def test_what_was_forced_refills_tries_but_no_replans():
    forced = Verdict(depth=1, forced="force_pass")
    script = Script(plan=3, verdicts=[0, forced, 0, forced, 0, 0, 0], limits=Limits(attempts=1, replans=2))
    final = run_script(script)
    assert (sdp.ending(final), final["replans"], depths(final)) == ("gave_up", 2, [1, 1])
    assert len(final["attempts"]) == 5


def test_the_limits_of_the_context_come_before_those_of_the_benchmark():
    script = Script(verdicts=[0] * 50)
    context = Context(benchmark=script, limits=Limits(attempts=1, replans=1))
    assert len(sdp.build().invoke(script_input(script), context=context)["attempts"]) == 2


# --- endings


@pytest.mark.parametrize(
    ("script", "ending", "certified"),
    [
        (Script(plan=2), "goal", 2),
        (Script(plan=0), "gave_up", 0),
        (Script(verdicts=[1, 0, 0, 0], replans=False), "gave_up", 1),
        (Script(verdicts=[1, Verdict(depth=0, exhausted=True)]), "exhausted", 1),
        (Script(verdicts=[1, 0], done_at=2), "world_ended", 1),
        (Script(plan=2, done_at=2), "goal", 2),
    ],
)
def test_endings(script: Script, ending: str, certified: int):
    final = run_script(script)
    assert (sdp.ending(final), sum(depths(final))) == (ending, certified)


# --- threads


def test_a_second_input_on_a_thread_starts_afresh():
    graph = sdp.build(InMemorySaver())
    first = Script(verdicts=[0, 2, Verdict(depth=0, exhausted=True)])
    before = graph.invoke(script_input(first), thread(), context=Context(benchmark=first))
    assert (sdp.ending(before), depths(before)) == ("exhausted", [2])
    second = Script(plan=3)
    after = graph.invoke(script_input(second), thread(), context=Context(benchmark=second))
    alone = run_script(Script(plan=3))
    for key in ("plan", "certificates", "attempts", "history", "head", "tried", "replans", "observation", "verdict"):
        assert after[key] == alone[key], key
    assert after["episode"] != before["episode"]


def test_a_second_input_does_not_end_like_the_first():
    graph = sdp.build(InMemorySaver())
    first, second = Script(verdicts=[Verdict(depth=0, exhausted=True)]), Script(plan=0)
    graph.invoke(script_input(first), thread(), context=Context(benchmark=first))
    after = graph.invoke(script_input(second), thread(), context=Context(benchmark=second))
    assert sdp.ending(after) == "gave_up"


def test_two_threads_have_worlds_of_their_own():
    script = Script(plan=2)
    graph = sdp.build(InMemorySaver())
    for name in ("a", "b"):
        graph.invoke(script_input(script), thread(name), context=Context(benchmark=script))
    assert [world.actions for world in script.worlds] == [["p1 try 1", "p2 try 1"]] * 2


def fork_at(graph: Any, certificates: int) -> dict[str, Any]:
    history = graph.get_state_history(thread())
    found = next(s for s in history if s.next == ("realize",) and len(s.values["certificates"]) == certificates)
    return found.config


def test_a_fork_from_an_old_checkpoint_plays_the_world_up_to_there():
    script = Script(plan=4, verdicts=BUMPY)
    graph, context = sdp.build(InMemorySaver()), Context(benchmark=script)
    whole = graph.invoke(script_input(script), thread(), context=context)
    again = graph.invoke(None, fork_at(graph, 1), context=context)
    assert again["certificates"] == whole["certificates"]
    assert again["history"] == whole["history"]
    original, rebuilt = script.worlds
    assert original.closed
    assert rebuilt.actions == original.actions


def test_a_fork_whose_world_has_changed_is_refused():
    script = Script(plan=4, verdicts=BUMPY)
    graph, context = sdp.build(InMemorySaver()), Context(benchmark=script)
    graph.invoke(script_input(script), thread(), context=context)
    script.echo = "otherwise"
    with pytest.raises(Fault, match=r"replay differs at step 1 \('p1 try 1'\)") as caught:
        graph.invoke(None, fork_at(graph, 1), context=context)
    assert caught.value.ending == "error:environment"
