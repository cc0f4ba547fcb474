"""SDP's graph as a user meets it: its drawing, its swaps, all four ways to call it, checkpoints, endings, forks."""

import asyncio
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from helpers.worlds.scripted_benchmark import Script, run_script, script_input
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

from certigraph.adapters.benchmarks import load_benchmark
from certigraph.adapters.protocols import Context, Limits
from certigraph.graphs import sdp, tdp
from certigraph.nodes.sdp import always_pass, capped, give_up, validate
from certigraph.nodes.slots import factory
from certigraph.state.certified_states import certified_state
from certigraph.state.endings import Fault
from certigraph.state.records import Predicate, Verdict
from certigraph.state.trajectory import serializer

LABELS = {
    ("propose", "realize"): "planned",
    ("propose", "__end__"): "gave_up",
    ("validate", "certify"): "certified",
    ("validate", "realize"): "retry",
    ("validate", "replan"): "stuck",
    ("validate", "__end__"): "exhausted",
    ("certify", "realize"): "advance",
    ("certify", "__end__"): "goal",
    ("certify", "replan"): "extend",
    ("replan", "realize"): "planned",
    ("replan", "__end__"): "gave_up",
} | {(planner, "answer"): "forced" for planner in ("propose", "validate", "certify", "replan")}
BUMPY = (0, 2, 0, 0, 0, 0, 1)
"""A retry, a cascade of two, three misses, a replan, a miss and then one certificate a step."""


def depths(state: dict[str, Any]) -> list[int]:
    return [c.depth for c in state["certificates"]]


def thread(name: str = "t") -> dict[str, Any]:
    return {"configurable": {"thread_id": name}}


# --- the drawing


@pytest.mark.parametrize("config", [None, {"configurable": {"benchmark": "blocksworld"}}])
def test_where_no_answer_is_given_the_drawing_is_the_papers(config: Any):
    drawing = sdp.build().get_graph(config)
    shown = {(e.source, e.target): e.data for e in drawing.edges if e.conditional}
    assert shown == {ends: label for ends, label in LABELS.items() if label != "forced"}
    assert not {"answer", "deliver"} & set(drawing.nodes)
    assert "solve:answer" not in tdp.build(solve=sdp).get_graph(config, xray=True).nodes
    assert set(asyncio.run(sdp.graph.aget_graph(config)).nodes) == set(drawing.nodes)


# --- swaps


def test_always_pass_certifies_what_the_script_refuses():
    script = Script(verdicts=[0] * 50)
    assert depths(run_script(script, validate=always_pass)) == [1, 1, 1, 1]
    assert depths(run_script(Script(verdicts=[0] * 50))) == []


def test_give_up_ends_where_replan_would_have_gone_on():
    stuck_once = [0, 0, 0]
    assert sdp.ending(run_script(Script(verdicts=stuck_once))) == "goal"
    final = run_script(Script(verdicts=stuck_once), replan=give_up)
    assert (sdp.ending(final), len(final["attempts"]), final["replans"]) == ("gave_up", 3, 0)


def test_capped_cuts_cascades():
    assert depths(run_script(Script(verdicts=[3]))) == [3, 1]
    assert depths(run_script(Script(verdicts=[3]), validate=capped(validate, depth=1))) == [1, 1, 1, 1]
    assert depths(run_script(Script(verdicts=[3]), validate=capped(depth=2))) == [2, 1, 1]


async def mine(state: Any, runtime: Any) -> dict[str, Any]:
    return {"verdict": Verdict(depth=len(state["tail"]))}


@factory
def lenient(*, bonus: int) -> Any:
    async def operator(state: Any, runtime: Any) -> dict[str, Any]:
        return {"verdict": Verdict(depth=bonus)}

    return operator


@pytest.mark.parametrize(
    ("slot", "operator", "spec"),
    [
        ("validate", always_pass, {"name": "always_pass", "args": {}}),
        ("replan", give_up, {"name": "give_up", "args": {}}),
        ("validate", capped(depth=1), {"name": "capped", "args": {"depth": 1}}),
        (
            "validate",
            capped(validate, depth=1),
            {"name": "capped", "args": {"validate": {"name": "validate", "args": {}}, "depth": 1}},
        ),
        ("validate", mine, {"name": f"{__name__}:mine", "args": {}}),
        ("validate", lenient(bonus=2), {"name": f"{__name__}:lenient", "args": {"bonus": 2}}),
    ],
)
def test_a_swap_shows_in_the_metadata_of_its_node_alone(slot: str, operator: Any, spec: dict[str, Any]):
    found = {name: node.metadata["operator"] for name, node in sdp.build(**{slot: operator}).builder.nodes.items()}
    plain = {name: node.metadata["operator"] for name, node in sdp.build().builder.nodes.items()}
    assert found == {**plain, slot: spec}


def test_an_unknown_keyword_is_refused_with_the_known_ones():
    slots = "reset, commit, propose, realize, approve, act, .*, audit, revalidate, certify, replan, answer, deliver"
    with pytest.raises(TypeError, match=rf"'judge'.*{slots}"):
        sdp.build(judge=always_pass)  # type: ignore[call-arg]


def test_an_operator_may_write_only_what_its_slot_lets_it():
    async def greedy(state: Any, runtime: Any) -> dict[str, Any]:
        return {"verdict": Verdict(depth=1), "certificates": []}

    with pytest.raises(
        Fault, match=r"slot validate returned certificates, verdict; it must return \{'verdict': "
    ) as caught:
        run_script(Script(), validate=greedy)
    assert caught.value.ending == "error:operator"


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


def stored(path: Path) -> dict[str, Any]:
    """Channels as the saver reads them, without a graph that would vouch for the types of its own state."""
    with SqliteSaver.from_conn_string(str(path)) as saver:
        saver.serde = serializer()
        found = saver.get_tuple(thread())
        assert found
        return found.checkpoint["channel_values"]


@pytest.mark.slow
def test_strict_msgpack_restores_every_record(tmp_path: Path):
    """The switch is read when langgraph is imported, hence a process of its own."""
    code = (
        "import sys, asyncio; from pathlib import Path; sys.path[:0] = sys.argv[2:]\n"
        "import test_sdp as t\n"
        "sync = t.restored_sync(Path(sys.argv[1], 's.sqlite'), t.Script(verdicts=t.BUMPY))\n"
        "mixed = asyncio.run(t.restored_async(Path(sys.argv[1], 'a.sqlite'), t.Script(verdicts=t.BUMPY)))\n"
        "raw = t.stored(Path(sys.argv[1], 's.sqlite'))\n"
        "straight = t.run_script(t.Script(verdicts=t.BUMPY))\n"
        "for key in ('task', 'plan', 'certificates', 'attempts', 'history', 'evidence', 'observation', 'verdict'):\n"
        "    assert sync[key] == mixed[key] == straight[key], key\n"
        "    assert raw.get(key, straight[key]) == straight[key], key\n"
        "assert {'task', 'evidence', 'observation', 'verdict'} <= set(raw)\n"
    )
    here = Path(__file__).parent
    folders = [str(here), str(here.parent), str(here.parent.parent / "src")]
    env = {"LANGGRAPH_STRICT_MSGPACK": "true", "PATH": ""}
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path), *folders], env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "unregistered" not in done.stderr.lower()
    assert "blocked" not in done.stderr.lower()


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
