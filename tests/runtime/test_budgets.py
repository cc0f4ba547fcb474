"""Tests of budgets: every limit ends a run exactly, and every call is counted once."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from helpers.cases import first_fast
from helpers.worlds.task_graphs import Jobs, SlowModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.messages.ai import UsageMetadata
from langchain_core.outputs import ChatGeneration, ChatResult
from langgraph.checkpoint.sqlite import SqliteSaver

from certigraph.adapters.benchmarks import load_benchmark
from certigraph.adapters.episodes import EPISODES
from certigraph.adapters.models.prices import PRICES_VARIABLE
from certigraph.adapters.models.scripts import ScriptedChat
from certigraph.adapters.protocols import Budget, Context, Limits
from certigraph.adapters.trajectories import read_trajectory
from certigraph.graphs import tdp
from certigraph.runtime.recorder import Recorder
from certigraph.runtime.registry import GRAPHS, SEARCH_GRAPHS, parse_budget
from certigraph.runtime.result import Result
from certigraph.runtime.run import arun, resume, run
from certigraph.state.endings import LimitReached, UnknownName
from certigraph.state.trajectory import CallStarted, serializer, total_usage

# A model that never makes progress stops exactly at its limit in every graph; the ending names the limit.

ENDLESS = Limits(
    attempts=9_999, replans=9_999, steps=9_999, trials=99, substeps=999, subtasks=999, failures=999, repeats=0
)
FEW = 5
"""Fewer calls than any method of the papers needs for this task with a model that is always right."""


class Looping(ScriptedChat):
    """Model with minimal answers, or the expert's: 100 input and 10 output tokens, `pause` seconds a call."""

    pause: float = 0.0
    free: bool = False
    model_name: str = "looping"

    async def _agenerate(self, *args: Any, **kwargs: Any) -> ChatResult:
        await asyncio.sleep(self.pause)
        result = self._generate(*args, **kwargs)
        used = UsageMetadata(input_tokens=100, output_tokens=10, total_tokens=110)
        result.generations[0].message.usage_metadata = used  # type: ignore[attr-defined]
        return result


@pytest.fixture
def prices(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = tmp_path / "prices.toml"
    table.write_text("[looping]\nread = 90.0\nwritten = 100.0\n")  # a cent a call
    monkeypatch.setenv(PRICES_VARIABLE, str(table))


def able() -> Looping:
    return Looping(responder=load_benchmark("blocksworld").expert())


def begun(out: Path, graph: str, limits: Limits = ENDLESS, **budget: Any) -> Result:
    return run(
        graph, "blocksworld", "8-0", context=Context(chat=able(), budget=Budget(**budget), limits=limits), out=out
    )


def looped(out: Path, graph: str = "react", pause: float = 0.0, limits: Limits = ENDLESS, **budget: Any) -> Result:
    context = Context(chat=Looping(pause=pause), budget=Budget(**budget), limits=limits)
    benchmark, task = ("musique", None) if graph in SEARCH_GRAPHS else ("blocksworld", "4-0")
    return run(graph, benchmark, task, context=context, out=out)


@pytest.mark.parametrize(
    "graph", first_fast(sorted(GRAPHS, key=lambda graph: (graph not in ("sdp", "tdp", "step", "react"), graph)), 4)
)
def test_no_graph_makes_more_calls_than_it_was_granted(tmp_path: Path, graph: str) -> None:
    stopped = looped(tmp_path, graph, calls=FEW)
    assert stopped.usage.calls <= FEW
    assert (stopped.ending == "limit:calls") == (stopped.usage.calls == FEW), stopped.message
    assert stopped.trajectory.footer is not None


@pytest.mark.parametrize("graph", ["sdp", "react", "tdp", "step"])
def test_each_of_the_papers_loops_stops_at_exactly_n_calls(tmp_path: Path, graph: str) -> None:
    stopped = begun(tmp_path, graph, calls=FEW)
    assert (stopped.ending, stopped.usage.calls) == ("limit:calls", FEW), stopped.message


@pytest.mark.slow
@pytest.mark.usefixtures("prices")
def test_dollars_stop_at_exactly_n(tmp_path: Path) -> None:
    stopped = looped(tmp_path, usd=0.25)
    assert (stopped.ending, stopped.usage.calls) == ("limit:usd", 25)
    assert stopped.usage.usd == pytest.approx(0.25)


@pytest.mark.slow
@pytest.mark.usefixtures("prices")
def test_without_a_dollar_nothing_that_costs_is_queried(tmp_path: Path) -> None:
    stopped = looped(tmp_path, usd=0)
    assert (stopped.ending, stopped.usage.calls) == ("limit:usd", 0)


def test_a_call_under_way_is_broken_off_when_the_seconds_are_over(tmp_path: Path) -> None:
    stopped = looped(tmp_path, pause=30.0, seconds=0.3)
    assert (stopped.ending, stopped.usage.calls) == ("limit:seconds", 1)
    assert 0.3 <= stopped.usage.seconds < 3


# --- models without a price


@pytest.mark.parametrize("limit", [{"usd": 1.0}, {"usd": 0}])
def test_dollars_are_not_granted_to_a_model_without_a_price(tmp_path: Path, limit: dict[str, float]) -> None:
    refused = looped(tmp_path, **limit)
    assert (refused.ending, refused.usage.calls) == ("error:model", 0)
    assert "looping has no known price" in refused.message and PRICES_VARIABLE in refused.message


# --- resumed runs


@pytest.mark.slow
@pytest.mark.parametrize("graph", ["sdp", "react", "step", "tdp"])
def test_going_on_with_no_more_than_there_was_costs_nothing(tmp_path: Path, graph: str) -> None:
    result = begun(tmp_path, graph, calls=FEW)
    for _ in range(3):
        result = resume(result.folder, chat=able())
        assert (result.ending, result.usage.calls) == ("limit:calls", FEW)


@pytest.mark.slow
@pytest.mark.parametrize("graph", ["sdp", "react", "step", "tdp"])
def test_going_on_with_more_stops_at_exactly_that(tmp_path: Path, graph: str) -> None:
    result = begun(tmp_path, graph, calls=2)
    for most in (3, 4, 6):
        result = resume(result.folder, chat=able(), budget=Budget(calls=most))
        assert (result.ending, result.usage.calls) == ("limit:calls", most)


@pytest.mark.slow
def test_calls_that_an_error_cut_off_count_when_the_run_is_gone_on_with(tmp_path: Path) -> None:
    """A loop of `resume` around a model that never gives a valid answer ends."""
    silent = ScriptedChat(replies=("no JSON",) * 99)
    context = Context(chat=silent, budget=Budget(calls=8))
    result = run("sdp:paper", "blocksworld", "4-0", context=context, out=tmp_path)
    endings = [result.ending]
    for _ in range(4):
        result = resume(result.folder, chat=silent)
        endings.append(result.ending)
    assert endings == ["error:model", "error:model", "limit:calls", "limit:calls", "limit:calls"]
    assert result.usage.calls == 8


# --- calls that started and that no event records


@pytest.mark.slow
def test_calls_that_no_event_records_count_and_are_named(tmp_path: Path) -> None:
    stopped = begun(tmp_path, "sdp", calls=2)
    path = stopped.folder / "trajectory.jsonl"
    before = stopped.usage.calls
    with Recorder(path) as recorder:
        for _ in range(2):
            recorder.begin_call(CallStarted(node="validate", model="m", input_tokens=7), max_calls=9)
    lost = read_trajectory(path)
    assert lost.usage.calls == before + 2
    assert [event.usage.input_tokens for event in lost.superseded] == [7, 7]
    assert all(event.calls[0]["failure"] for event in lost.superseded)
    for most in (before + 2, before + 3):
        resumed = resume(stopped.folder, chat=able(), budget=Budget(calls=most))
        assert (resumed.ending, resumed.usage.calls) == ("limit:calls", most)


def test_parallel_parts_together_begin_no_more_calls_than_the_run_is_granted(tmp_path: Path) -> None:
    stopped = begun(tmp_path, "sdp", calls=2)
    with Recorder(stopped.folder / "trajectory.jsonl") as recorder, pytest.raises(LimitReached, match="4 of 4 calls"):
        for _ in range(9):
            recorder.begin_call(CallStarted(node="solve"), max_calls=4)
    assert read_trajectory(stopped.folder).usage.calls == 4


# Usage of a TDP run whose nodes are cut off during a model call: every call is counted once.


class Garbling(SlowModel):
    """Model that plans, and then gives invalid actions for `b`: every attempt is paid for."""

    def _generate(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> ChatResult:
        unusable = ChatResult(generations=[ChatGeneration(message=AIMessage("no idea"))])
        return unusable if self.requests[-1] == ("execute", "b") else super()._generate(messages, *args, **kwargs)


def booked(result: Result) -> Any:
    """Usage in the latest checkpoint."""
    with SqliteSaver.from_conn_string(str(result.folder / "checkpoints.sqlite")) as saver:
        saver.serde = serializer()
        return tdp.build(saver).get_state({"configurable": {"thread_id": result.folder.name}}).values["spent"]


def assert_paid_once(result: Result) -> None:
    """Every call is either in the checkpoint or in a superseded line, and in one of them only."""
    failed = [event for event in result.trajectory.events if event.update is None]
    elsewhere = total_usage(event.usage for event in [*failed, *result.trajectory.superseded]).spent()
    kept, spent = booked(result), result.state["spent"]
    assert (kept.calls, kept.tokens) == (spent.calls, spent.tokens)
    assert kept.calls + elsewhere.calls == result.usage.calls
    assert kept.tokens + elsewhere.tokens == result.usage.spent().tokens


@pytest.mark.slow
def test_a_call_is_paid_once_also_where_a_node_went_on_without_it(tmp_path: Path):
    context = Context(chat=Garbling(), budget=Budget(calls=1 + 3 * 3))
    stopped = run("tdp", Jobs(), "wide", context=context, out=tmp_path)
    assert (stopped.ending, stopped.usage.calls) == ("limit:calls", 10)
    assert_paid_once(stopped)
    result = resume(stopped.folder, budget=Budget(), benchmark=Jobs(), chat=SlowModel())
    assert result.ending == "goal"
    assert_paid_once(result)


@pytest.mark.slow
@pytest.mark.parametrize("events", [6, 12, 20, 30])
def test_ctrl_c_in_mid_batch_leaves_no_world_open_and_no_call_unpaid(events: int, tmp_path: Path):
    chat, after = SlowModel(lambda subtask: len(subtask) / 500), SlowModel()

    async def interrupted() -> None:
        left, task = [events], asyncio.current_task()
        assert task

        def count(line: Any) -> None:
            left[0] -= 1
            if not left[0]:
                task.cancel()

        await arun("tdp", Jobs(), "wide", context=Context(chat=chat), out=tmp_path, listener=count)

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(interrupted())
    (folder,) = tmp_path.iterdir()
    assert [key for key in EPISODES if key.startswith(folder.name)] == []
    assert Result(folder).trajectory.usage.calls == len(chat.requests), "calls that were under way are paid for too"
    result = resume(folder, benchmark=Jobs(), chat=after)
    assert result.ending == "goal"
    assert_paid_once(result)
    assert result.usage.calls == len(chat.requests) + len(after.requests)


@pytest.mark.slow
@pytest.mark.parametrize("calls", [0, 1, 3, 6, 10, 15, 20])
def test_whatever_budget_ended_a_run_a_larger_one_brings_it_to_its_goal(calls: int, tmp_path: Path):
    stopped = run("tdp", Jobs(), "deep", context=Context(chat=SlowModel(), budget=Budget(calls=calls)), out=tmp_path)
    assert (stopped.ending, stopped.usage.calls) == ("limit:calls", calls), "none of it is left over"
    result = resume(stopped.folder, budget=Budget(), benchmark=Jobs(), chat=SlowModel())
    assert result.ending == "goal"
    assert_paid_once(result)


@pytest.mark.parametrize("value", ["x", "1e3", "", "\udc80", "nan"])
def test_an_amount_that_is_not_a_number_is_refused_with_its_name(value: str):
    with pytest.raises(UnknownName, match=r"^--budget steps="):
        parse_budget([f"steps={value}"], Limits())
