"""The driver: every ending, budgets, faults at each boundary, resuming, secrets."""

import asyncio
import json
import sqlite3
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from helpers.cases import first_fast
from helpers.checkpoints import checkpointed
from helpers.worlds.scripted_benchmark import GarbageModel, Script, SlowScript, after_events

from certigraph import benchmarks as registered
from certigraph.adapters import benchmarks
from certigraph.adapters.episodes import EPISODES
from certigraph.adapters.protocols import Budget, Context, Limits, complete_benchmark
from certigraph.adapters.tools.world import Tools
from certigraph.adapters.trajectories import parse_line, read_trajectory
from certigraph.graphs import react, sdp
from certigraph.nodes.sdp import always_pass, capped, give_up, propose
from certigraph.runtime.registry import SEARCH_GRAPHS, build_graph
from certigraph.runtime.report import write_report
from certigraph.runtime.result import Result
from certigraph.runtime.run import arun, create_run_name, resume, run
from certigraph.state.endings import Fault, UnknownName
from certigraph.state.records import Certificate, Verdict
from certigraph.state.trajectory import Event

SENTINEL = "sk/live+S3NT1N3L==0123456789~abcdef"


@pytest.fixture
def known(monkeypatch: pytest.MonkeyPatch) -> Callable[[Script], Script]:
    """Register a scripted model by name, as `resume` needs it."""

    def register(script: Script) -> Script:
        monkeypatch.setitem(registered.BENCHMARKS, script.name, "helpers.worlds.scripted_benchmark:Script")
        monkeypatch.setattr(benchmarks, "_load_shipped", lambda *_: complete_benchmark(script))
        return script

    return register


@pytest.mark.parametrize("graph", first_fast(SEARCH_GRAPHS, 2))
@pytest.mark.parametrize("built", [False, True])
def test_a_search_agent_is_refused_where_nothing_is_asked(graph: str, built: bool, tmp_path: Path):
    with pytest.raises(UnknownName, match=f"^{graph} searches for an answer, and blocksworld takes none; .*musique"):
        run(build_graph(graph) if built else graph, "blocksworld", context=Context(model="simulated"), out=tmp_path)
    assert not list(tmp_path.iterdir())


def refund(order: int) -> str:
    """Refund an order."""
    return f"refunded order {order}"


def test_hypotheses_refuse_tools_that_a_search_might_call_again_after_a_crash(tmp_path: Path):
    context = Context(model="scripted:first")
    result = run("hypotheses", Tools([refund], cases=["Refund 17."]), context=context, out=tmp_path, on_error="ignore")
    assert result.ending == "error:environment"
    assert 'Tools(..., effects={"refund": "repeatable"})' in result.message
    repeatable = Tools([refund], cases=["Refund 17."], effects={"refund": "repeatable"})
    assert not run("hypotheses", repeatable, context=context, out=tmp_path).ending.startswith("error")


def test_a_context_may_be_a_dict_as_in_langgraph(tmp_path: Path) -> None:
    result = run(
        "sdp:paper", "blocksworld", "4-0", context={"model": "scripted:expert", "budget": {"calls": 2}}, out=tmp_path
    )
    assert (result.ending, result.usage.calls) == ("limit:calls", 2)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Result:
    """An uninterrupted run, with which interrupted ones are compared."""
    return run("sdp:paper", "blocksworld", "4-0", out=tmp_path_factory.mktemp("whole"))


def trajectory_file(result: Result) -> Path:
    return result.folder / "trajectory.jsonl"


def earned(result: Result) -> list[Certificate]:
    return list(result.certificates)


# --- endings


@pytest.mark.parametrize(
    ("script", "ending", "credit"),
    [
        (Script(plan=3, verdicts=[2]), "goal", [2, 1]),
        (Script(plan=0), "gave_up", []),
        (Script(verdicts=[1, 0, 0, 0], replans=False), "gave_up", [1]),
        (Script(verdicts=[0] * 50), "gave_up", []),
        (Script(verdicts=[1, Verdict(depth=0, exhausted=True)]), "exhausted", [1]),
        (Script(verdicts=[1, 0], done_at=2), "world_ended", [1]),
    ],
)
def test_endings_of_the_method(script: Script, ending: str, credit: list[int], tmp_path: Path):
    result = run("sdp", script, out=tmp_path)  # type: ignore[arg-type]
    assert (result.ending, result.credit) == (ending, credit)
    assert bool(result.message) == (ending == "gave_up")
    assert result.terminated == (ending == "goal")
    assert len(result.states) == len(result.transitions) + 1 == len(credit) + 1
    assert result.scores is not None
    assert [world.closed for world in script.worlds] == [True]


def test_a_run_that_reached_an_ending_of_its_own_is_not_resumed(whole: Result):
    with pytest.raises(Fault, match=r"has ended: goal; start a new one"):
        resume(whole.folder)


def test_the_header_says_what_it_takes_to_build_the_run_again(tmp_path: Path):
    graph = sdp.build(validate=capped(always_pass, depth=1), replan=give_up)
    data = tmp_path / "private" / "blocks"
    data.mkdir(parents=True)
    context = Context(data=str(data), roles={"judge": "local"})
    result = run(graph, "blocksworld", "4-0", out=tmp_path, context=context)
    operators = result.trajectory.header.operators
    assert operators["validate"] == {
        "name": "capped",
        "args": {"validate": {"name": "always_pass", "args": {}}, "depth": 1},
    }
    assert operators["replan"] == {"name": "give_up", "args": {}}
    assert "private" not in trajectory_file(result).read_text()


# --- budgets


@pytest.mark.parametrize("most", [0, 1, 2, 5, 8])
def test_calls_stop_at_exactly_n(most: int, whole: Result, tmp_path: Path):
    stopped = run("sdp:paper", "blocksworld", "4-0", out=tmp_path, context=Context(budget=Budget(calls=most)))
    assert (stopped.ending, stopped.usage.calls) == ("limit:calls", most)
    assert f"{most} of {most} calls" in stopped.message
    assert earned(stopped) == earned(whole)[: len(earned(stopped))]
    assert_goes_on(stopped, whole, budget=Budget())


@pytest.mark.parametrize("most", [1, 2, 3])
def test_world_steps_stop_at_exactly_n(most: int, whole: Result, tmp_path: Path):
    stopped = run("sdp:paper", "blocksworld", "4-0", out=tmp_path, context=Context(limits=Limits(steps=most)))
    assert (stopped.ending, len(stopped.state["history"])) == ("limit:steps", most)
    assert_goes_on(stopped, whole, limits=Limits(), same_prompts=False)  # prompts say how many steps are left


@pytest.mark.parametrize("share", [0.1, 0.4, 0.7])
def test_tokens_stop_after_the_call_that_reaches_n(share: float, whole: Result, tmp_path: Path):
    most = int(share * (whole.usage.input_tokens + whole.usage.output_tokens))
    stopped = run("sdp:paper", "blocksworld", "4-0", out=tmp_path, context=Context(budget=Budget(tokens=most)))
    last = [call for event in stopped.trajectory.events for call in event.calls][-1]
    spent = stopped.usage.input_tokens + stopped.usage.output_tokens
    assert stopped.ending == "limit:tokens"
    assert spent - int(last["input_tokens"]) - int(last["output_tokens"]) < most <= spent  # type: ignore[arg-type]
    assert_goes_on(stopped, whole, budget=Budget())


def test_seconds_stop_a_slow_world(tmp_path: Path):
    stopped = run("sdp", Script(pause=0.05), out=tmp_path, context=Context(budget=Budget(seconds=0.08)))  # type: ignore[arg-type]
    assert stopped.ending == "limit:seconds"
    assert len(stopped.state["history"]) <= 2


def assert_goes_on(stopped: Result, whole: Result, *, same_prompts: bool = True, **larger: Any) -> None:
    """The stopped run, resumed, ends as if it had never stopped, and every call is counted once."""
    before = read_trajectory(trajectory_file(stopped))
    result = resume(stopped.folder, **larger)
    assert (result.ending, earned(result)) == ("goal", earned(whole))
    assert result.state["history"] == whole.state["history"]
    assert result.state["attempts"] == whole.state["attempts"]
    assert result.usage.calls == whole.usage.calls
    assert not same_prompts or result.usage.input_tokens == whole.usage.input_tokens
    assert result.trajectory.events[: len(before.events) - 1] == before.events[:-1]
    assert result.trajectory.footer.usage == result.usage  # type: ignore[union-attr]


@pytest.mark.slow
def test_a_run_can_be_stopped_and_resumed_again_and_again(whole: Result, tmp_path: Path):
    result = run("sdp:paper", "blocksworld", "4-0", out=tmp_path, context=Context(budget=Budget(calls=1)))
    for most in range(2, 30):
        if result.ending == "goal":
            break
        assert (result.ending, result.usage.calls) == ("limit:calls", most - 1)
        result = resume(result.folder, budget=Budget(calls=most))
    assert (result.ending, earned(result), result.usage.calls) == ("goal", earned(whole), whole.usage.calls)


def test_a_resumed_run_keeps_its_operators_and_settings(tmp_path: Path):
    context = Context(limits=Limits(steps=1), roles={"executor": "scripted:first"})
    graph = sdp.build(validate=capped(always_pass, depth=1))
    stopped = run(graph, "blocksworld", "4-0", out=tmp_path, context=context)
    assert stopped.ending == "limit:steps"
    events = resume(stopped.folder, limits=Limits()).trajectory.events
    verdicts = [event.update["verdict"] for event in events if event.node == "validate" and event.update]
    assert len(verdicts) > 1
    assert all(verdict == {"depth": 1, "reason": "always_pass"} for verdict in verdicts)
    values = {(call["role"], call["model"]) for event in events for call in event.calls}
    assert values == {("planner", "scripted:expert"), ("executor", "scripted:first")}


# --- faults


class Lost(Exception):
    """An error that the world, the data or an operator raises."""


async def broken(state: Any, runtime: Any) -> dict[str, Any]:
    raise Lost("no such thing")


async def forgetful(state: Any, runtime: Any) -> dict[str, Any]:
    return {}


async def greedy(state: Any, runtime: Any) -> dict[str, Any]:
    return {"head": 4}


@pytest.mark.parametrize("method", ["open", "reset", "step", "view"])
def test_a_fault_of_the_world_is_an_ending(method: str, tmp_path: Path):
    script = Script(fails={method: Lost("power cut")})
    result = run("sdp", script, out=tmp_path)  # type: ignore[arg-type]
    assert_usable(result, "error:environment", "power cut")
    assert all(world.closed for world in script.worlds)


def test_a_fault_of_the_data_is_an_ending(tmp_path: Path):
    script = Script(fails={"open": Fault("data", "no database at x: fetch it")})
    assert_usable(run("sdp", script, out=tmp_path), "error:data", "no database at x: fetch it")  # type: ignore[arg-type]


@pytest.mark.parametrize("slot", ["reset", "propose", "realize", "act", "validate", "certify"])
def test_a_fault_of_an_operator_is_an_ending(slot: str, tmp_path: Path):
    result = run(sdp.build(**{slot: broken}), Script(), out=tmp_path)  # type: ignore[misc, arg-type]
    assert_usable(result, "error:operator", "no such thing")
    assert (result.trajectory.events[-1].node, result.trajectory.events[-1].update) == (slot, None)


@pytest.mark.parametrize("slot", ["propose", "realize", "act", "validate"])
def test_an_operator_that_writes_what_is_not_its_own_is_named(slot: str, tmp_path: Path):
    result = run(sdp.build(**{slot: greedy}), Script(), out=tmp_path)  # type: ignore[misc, arg-type]
    assert_usable(result, "error:operator", f"greedy in slot {slot} returned head;")


@pytest.mark.parametrize(("slot", "key"), [("realize", "action"), ("validate", "verdict")])
def test_an_operator_that_forgets_its_answer_is_named(slot: str, key: str, tmp_path: Path):
    result = run(sdp.build(**{slot: forgetful}), Script(), out=tmp_path)  # type: ignore[misc, arg-type]
    assert_usable(result, "error:operator", key)
    assert result.trajectory.events[-1].node == slot


def test_an_unusable_model_is_an_ending_and_its_calls_are_paid(tmp_path: Path):
    result = run("sdp:paper", "blocksworld", "4-0", out=tmp_path, context=Context(chat=GarbageModel()))
    assert_usable(result, "error:model", "in 3 tries")
    assert result.usage.calls == 3
    assert result.trajectory.events[-1].update is None


@pytest.mark.slow
def test_a_dead_endpoint_is_an_ending(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setenv("CERTIGRAPH_BASE_URL", "http://127.0.0.1:9/v1")
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    result = run("sdp:paper", "blocksworld", "4-0", out=tmp_path, context=Context(model="openai:none"))
    assert_usable(result, "error:model", "check CERTIGRAPH_BASE_URL")
    assert result.trajectory.events[-1].calls[0]["failure"]


def test_a_missing_key_is_an_ending(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.delenv("CERTIGRAPH_BASE_URL", raising=False)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    result = run("sdp:paper", "blocksworld", "4-0", out=tmp_path, context=Context(model="openai:none"))
    assert_usable(result, "error:model", "OPENAI_API_KEY")


def test_a_world_that_cannot_be_closed_does_not_undo_the_run(tmp_path: Path):
    result = run("sdp", Script(fails={"close": Lost("power cut")}), out=tmp_path)
    assert (result.ending, result.credit) == ("goal", [1, 1, 1, 1])
    assert result.scores


def test_a_run_that_cannot_be_scored_keeps_its_certificates_but_is_not_a_success(tmp_path: Path):
    result = run("sdp", Script(fails={"score": Lost("power cut")}), out=tmp_path)
    assert (result.ending, result.credit) == ("error:environment", [1, 1, 1, 1])
    assert result.scores is None
    assert "power cut" in result.message


@pytest.mark.parametrize(
    "graph", first_fast(["react", "step", "plan_and_act", "cot", "react_reward", "mcts", "reflexion", "clin"], 2)
)
def test_a_run_that_repeated_itself_until_it_was_ended_says_so(graph: str, tmp_path: Path):
    benchmark = Tools([refund], cases=["Refund 17."])
    context = Context(model="scripted:first", limits=Limits(repeats=3, trials=1))
    result = run(graph, benchmark, context=context, out=tmp_path)
    assert (result.ending, len(result.state["history"])) == ("gave_up", 3)
    assert "3 times in a row, with equal answers; --budget repeats=N" in result.message


def assert_usable(result: Result, ending: str, message: str) -> None:
    """A batch can continue: the failed run has a name, a message, usage and a saved trajectory."""
    assert result.ending == ending
    assert message in result.message
    assert not result.terminated
    assert len(result.states) == len(result.certificates) + 1
    assert result.usage == result.trajectory.footer.usage  # type: ignore[union-attr]
    assert Result(result.folder).state == result.state == checkpointed(result.folder)
    assert worlds_of(result.folder) == []


def worlds_of(folder: Path) -> list[str]:
    return [key for key in EPISODES if key.startswith(folder.name)]


@pytest.mark.slow
def test_a_run_goes_on_once_its_world_is_back(known: Callable[[Script], Script], tmp_path: Path):
    script = known(Script(verdicts=[1, 2]))
    straight = run("sdp", script, out=tmp_path)  # type: ignore[arg-type]
    script.fails = {"step": Lost("power cut")}
    stopped = run("sdp", script, out=tmp_path)  # type: ignore[arg-type]
    assert stopped.ending == "error:environment"
    script.fails = {}
    result = resume(stopped.folder)
    assert (result.ending, earned(result)) == ("goal", earned(straight))


SLOWLY = [pytest.param(events, marks=pytest.mark.slow) for events in (1, 4, 5, 6, 11, 13)]


@pytest.mark.slow
@pytest.mark.parametrize("events", [12, *SLOWLY])
def test_a_cancelled_run_closes_its_world_and_can_be_resumed(
    events: int, known: Callable[[Script], Script], tmp_path: Path
):
    script = known(SlowScript())

    async def cancelled() -> None:
        listener = after_events(events, lambda: task.cancel())  # noqa: PLW0108 - the task comes later
        task = asyncio.create_task(arun("sdp", script, out=tmp_path, listener=listener))  # type: ignore[arg-type]
        await task

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(cancelled())
    (folder,) = tmp_path.iterdir()
    assert Result(folder).ending == "interrupted"
    assert worlds_of(folder) == []
    assert earned(resume(folder)) == earned(run("sdp", SlowScript(), out=tmp_path))  # type: ignore[arg-type]


# --- interrupted while a line, a step or a checkpoint is written


def interrupted(folder: Path, most: int = 6) -> Result:
    return run("sdp:paper", "blocksworld", "4-0", out=folder, context=Context(budget=Budget(calls=most)))


@pytest.mark.slow
def test_a_torn_last_line_is_tolerated_and_cut_off_on_resume(whole: Result, tmp_path: Path):
    stopped = interrupted(tmp_path)
    path = trajectory_file(stopped)
    intact = path.read_bytes()
    path.write_bytes(intact + '{"type":"event","t":0.1,"superstep":99,"node":"realize","us\u00e4'.encode()[:-1])
    assert read_trajectory(path) == stopped.trajectory
    result = resume(stopped.folder, budget=Budget())
    assert (result.ending, earned(result)) == ("goal", earned(whole))
    assert path.read_bytes().startswith(intact + b'{"type":"resumed"')
    assert all(json.loads(line) for line in path.read_text().splitlines())


@pytest.mark.parametrize(
    ("kept", "found"),
    [
        ([0, 1, 2, 8, 9], r"trajectory\.jsonl:4: lines 4 to 8 are missing"),
        ([0, 1, 2, 4], r"trajectory\.jsonl:4: line 4 is missing"),
        ([1, 2, 3], r"trajectory\.jsonl:1: line 1 is missing"),
        ([0, 1, 2, 2, 3], r"trajectory\.jsonl:4: line 3 follows line 3"),
        ([0, 2, 1], r"trajectory\.jsonl:2: line 2 is missing"),
    ],
)
def test_missing_and_repeated_lines_are_refused_by_every_reader(kept: list[int], found: str, tmp_path: Path):
    path = trajectory_file(run("sdp:paper", "blocksworld", "4-0", out=tmp_path))
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(lines[i] for i in kept))
    for read in (read_trajectory, Result, resume):
        with pytest.raises(Fault, match=found):
            read(path.parent)


@pytest.mark.parametrize("schema", [2, 3, 4])
def test_a_run_of_an_earlier_schema_is_read_and_reported_and_not_resumed(schema: int, tmp_path: Path):
    stopped = interrupted(tmp_path)
    path = trajectory_file(stopped)
    old = [{key: value for key, value in json.loads(line).items() if key != "number"} for line in path.open()]
    old[0]["schema_version"] = schema
    path.write_text("".join(json.dumps(line) + "\n" for line in old))
    assert read_trajectory(path).events == stopped.trajectory.events
    assert write_report(read_trajectory(path), tmp_path / "report.html").is_file()
    before = path.read_bytes()
    with pytest.raises(Fault, match=rf"schema {schema}, .* start it again with `certigraph run`"):
        resume(stopped.folder, budget=Budget())
    assert path.read_bytes() == before


@pytest.mark.slow
@pytest.mark.parametrize("lost", [1, 2, 3])
def test_lines_ahead_of_the_checkpoint_are_superseded_and_stay_paid(lost: int, whole: Result, tmp_path: Path):
    """The latest checkpoints were not saved, but their trajectory lines were."""
    stopped = interrupted(tmp_path)
    forget_checkpoints(stopped.folder, lost, writes=True)
    assert_redone(resume(stopped.folder, budget=Budget()), lost, whole)


@pytest.mark.slow
def test_calls_that_a_crash_lost_count_against_the_budget(tmp_path: Path):
    """A killed run may make no more calls than any other: calls that were lost had been sent."""
    stopped = interrupted(tmp_path, 6)
    forget_checkpoints(stopped.folder, 3, writes=True)
    for _ in range(2):
        resumed = resume(stopped.folder, budget=Budget(calls=7))
        assert (resumed.ending, resumed.usage.calls) == ("limit:calls", 7)


@pytest.mark.slow
@pytest.mark.parametrize("most", range(1, 9))
def test_a_node_whose_checkpoint_is_missing_runs_again(most: int, whole: Result, tmp_path: Path):
    """LangGraph saves the writes of a node before the next checkpoint, and would not run the node again."""
    stopped = interrupted(tmp_path, most)
    forget_checkpoints(stopped.folder, 1, writes=False)
    assert_redone(resume(stopped.folder, budget=Budget()), 1, whole)


@pytest.mark.slow
@pytest.mark.parametrize("most", range(1, 9))
def test_a_node_whose_line_was_never_written_runs_again(most: int, whole: Result, tmp_path: Path):
    """A cancelled run may have saved the writes of its last node, although its line says that the node was cut off."""
    stopped = interrupted(tmp_path, most)
    forget_checkpoints(stopped.folder, 1, writes=False)
    path = trajectory_file(stopped)
    *lines, last, _failed, _footer = path.read_text().splitlines(keepends=True)
    path.write_text("".join([*lines, json.dumps({**json.loads(last), "update": None}) + "\n"]))
    result = resume(stopped.folder, budget=Budget())
    assert (result.ending, earned(result)) == ("goal", earned(whole))
    assert [e.node for e in result.trajectory.events] == [e.node for e in whole.trajectory.events]
    assert result.state == checkpointed(result.folder)


def assert_redone(result: Result, count: int, whole: Result) -> None:
    assert (result.ending, earned(result)) == ("goal", earned(whole))
    assert [e.node for e in result.trajectory.events] == [e.node for e in whole.trajectory.events]
    redone = [e for e in result.trajectory.superseded if e.update is not None]
    assert len(redone) == count
    assert result.usage.calls == whole.usage.calls + sum(e.usage.calls for e in redone)
    assert result.state == checkpointed(result.folder)


def forget_checkpoints(folder: Path, count: int, *, writes: bool) -> None:
    """Delete the latest checkpoints, and with `writes` also what nodes wrote after the remaining latest one."""
    with closing(sqlite3.connect(folder / "checkpoints.sqlite")) as connection:
        ids = [
            row[0] for row in connection.execute("SELECT checkpoint_id FROM checkpoints ORDER BY checkpoint_id DESC")
        ]
        for forgotten in ids[:count]:
            connection.execute("DELETE FROM checkpoints WHERE checkpoint_id = ?", (forgotten,))
            connection.execute("DELETE FROM writes WHERE checkpoint_id = ?", (forgotten,))
        if writes:
            connection.execute("DELETE FROM writes WHERE checkpoint_id = ?", (ids[count],))
        connection.commit()


@pytest.mark.slow
def test_a_run_without_any_checkpoint_starts_again(whole: Result, tmp_path: Path):
    stopped = interrupted(tmp_path)
    (stopped.folder / "checkpoints.sqlite").unlink()
    result = resume(stopped.folder, budget=Budget())
    assert (result.ending, earned(result)) == ("goal", earned(whole))
    assert result.usage.calls == whole.usage.calls + stopped.usage.calls


def test_a_world_that_changed_is_not_resumed_in_silence(known: Callable[[Script], Script], tmp_path: Path):
    script = known(Script(limits=Limits(steps=2)))
    stopped = run("sdp", script, out=tmp_path)  # type: ignore[arg-type]
    script.echo = "otherwise"
    result = resume(stopped.folder, limits=Limits())
    assert (result.ending, result.credit) == ("error:environment", [1, 1])
    assert "replay differs at step 1 ('p1 try 1')" in result.message


def test_a_folder_without_a_run_is_refused(tmp_path: Path):
    for folder in (tmp_path, tmp_path / "absent"):
        with pytest.raises(Fault, match=str(folder)):
            resume(folder)
    inside = run("sdp", Script(), out=tmp_path).folder  # type: ignore[arg-type]
    with pytest.raises(Fault, match=f"the latest of the runs in it is {inside}"):
        resume(tmp_path)


# --- the lines as they are written


def test_a_listener_sees_every_line_as_it_is_on_disk(tmp_path: Path):
    seen: list[Any] = []
    result = run("sdp", Script(verdicts=[0, 2]), out=tmp_path, listener=seen.append)  # type: ignore[arg-type]
    written = trajectory_file(result).read_text().splitlines()
    assert [parse_line(text) for text in written] == seen
    assert [json.loads(text)["number"] for text in written] == [*range(1, len(seen) + 1)]
    assert [line.type for line in seen] == ["header", *["event"] * len(result.trajectory.events), "footer"]


def test_the_listener_of_a_resumed_run_sees_the_run_from_its_start(whole: Result, tmp_path: Path):
    seen: list[Any] = []
    resume(interrupted(tmp_path).folder, budget=Budget(), listener=seen.append)
    certificates = [
        c for line in seen if isinstance(line, Event) and line.update for c in line.update.get("certificates", [])
    ]
    assert len(certificates) == len(earned(whole))


# --- loops


@pytest.mark.slow
def test_run_works_inside_a_running_event_loop(whole: Result, tmp_path: Path):
    async def notebook() -> Result:
        return run("sdp:paper", "blocksworld", "4-0", out=tmp_path)

    assert earned(asyncio.run(notebook())) == earned(whole)


@pytest.mark.slow
def test_runs_side_by_side_do_not_mix(tmp_path: Path):
    async def together() -> list[Result]:
        tasks = (f"{blocks}-{seed}" for blocks in (3, 4) for seed in (0, 1))
        return list(
            await asyncio.gather(*(arun("sdp:paper", "blocksworld", task, out=tmp_path / "a") for task in tasks))
        )

    for result in asyncio.run(together()):
        alone = run("sdp:paper", "blocksworld", result.trajectory.header.task.id, out=tmp_path / "b")
        assert (earned(result), result.usage.calls) == (earned(alone), alone.usage.calls)
        assert result.ending == "goal"


# --- secrets


class Leaky(GarbageModel):
    """Model that repeats the key in its errors and answers."""

    raises: bool = True

    def _generate(self, *args: Any, **kwargs: Any) -> Any:
        if self.raises:
            raise Lost(f"401: bad key {SENTINEL} ({quote(SENTINEL, safe='')}, {b64encode(SENTINEL.encode()).decode()})")
        return self.saying(SENTINEL)


async def telling(state: Any, runtime: Any) -> dict[str, Any]:
    return {"verdict": Verdict(depth=0, reason=f"the key is {SENTINEL}")}


RAW = SENTINEL.encode()
FORMS = [RAW, quote(SENTINEL, safe="").encode(), *(e(RAW).rstrip(b"=") for e in (b64encode, urlsafe_b64encode))]


def holding_the_key(folder: Path, *names: str) -> list[tuple[str, bytes]]:
    files = [folder / name for name in names] or [path for path in folder.rglob("*") if path.is_file()]
    return [(path.name, form) for path in files for form in FORMS if form in path.read_bytes()]


@pytest.mark.parametrize(
    "given",
    [
        {"benchmark": "blocksworld", "context": Context(chat=Leaky())},
        {"benchmark": Script(fails={"step": Lost(f"Bearer {SENTINEL}")})},
        {"benchmark": Script(fails={"open": Fault("data", f"no access with {SENTINEL}")})},
    ],
    ids=["model", "world", "data"],
)
def test_no_file_of_a_run_holds_a_key_that_an_error_showed(
    given: dict[str, Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    monkeypatch.setenv("OPENAI_API_KEY", SENTINEL)
    result = run(out=tmp_path, **given)
    assert result.ending.startswith("error:")
    assert "[redacted]" in result.message
    assert holding_the_key(result.folder) == []


@pytest.mark.slow
@pytest.mark.parametrize(
    "given",
    [
        {"benchmark": "blocksworld", "context": Context(chat=Leaky(raises=False))},
        {"benchmark": Script(echo=f"Bearer {SENTINEL}")},
        {"benchmark": Script(), "graph": sdp.build(validate=telling)},
    ],
    ids=["model", "world", "operator"],
)
def test_what_may_be_shared_holds_no_key_that_was_shown(
    given: dict[str, Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    monkeypatch.setenv("OPENAI_API_KEY", SENTINEL)
    result = run(out=tmp_path, **given)
    assert "[redacted]" in trajectory_file(result).read_text()
    assert holding_the_key(result.folder, "trajectory.jsonl", "local.json") == []


def test_the_files_of_a_run_are_these(whole: Result):
    assert {p.name for p in whole.folder.iterdir()} == {"trajectory.jsonl", "checkpoints.sqlite", "local.json"}


@pytest.mark.slow
def test_the_nodes_of_a_graph_that_an_operator_runs_are_not_lines_of_the_run(whole: Result, tmp_path: Path):
    async def with_another(state: Any, runtime: Any) -> dict[str, Any]:
        await react.build().ainvoke({"task": {"benchmark": "blocksworld", "id": "3-0"}}, context=Context())
        return await propose(state, runtime)

    result = run(sdp.build(propose=with_another, **sdp.PAPER), "blocksworld", "4-0", out=tmp_path)

    def lines(run: Result) -> list[tuple[int, str, int]]:
        return [(event.superstep, event.node, event.usage.calls) for event in run.trajectory.events]

    assert result.ending == "goal"
    assert lines(result) == lines(whole)


def test_a_memory_whose_making_was_cut_off_is_made_by_the_resume(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def killed(*_: object) -> list[str]:
        return ["CREATE TABLE store (a)", "no SQL: the process ends between two statements"]

    with monkeypatch.context() as patched, pytest.raises(sqlite3.OperationalError):
        patched.setattr("certigraph.runtime.storage._schema_statements", killed)
        run("clin", "blocksworld", "3-0", out=tmp_path)
    [folder] = tmp_path.iterdir()
    assert Result(folder).ending == "interrupted"
    assert resume(folder).ending == "goal"


def test_runs_of_one_task_in_one_second_have_different_names():
    task = benchmarks.load_benchmark("blocksworld").task("3-0")
    assert len({create_run_name("sdp", task) for _ in range(2000)}) == 2000


@pytest.mark.parametrize("arguments", [("sdp", "blocksworld", 6), (None, "blocksworld"), ("sdp", None)])
def test_an_argument_of_a_wrong_kind_is_refused(arguments: Any, tmp_path: Path):
    with pytest.raises(TypeError):
        run(*arguments, out=tmp_path)
    assert list(tmp_path.iterdir()) == []
