"""What the books of a run of TDP say when nodes are cut off in the middle of a question: every call is paid once."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langgraph.checkpoint.sqlite import SqliteSaver
from task_graphs import Jobs, Pondering

from certigraph.adapters.episodes import EPISODES
from certigraph.adapters.protocols import Budget, Context
from certigraph.graphs import tdp
from certigraph.runtime.result import Result
from certigraph.runtime.run import arun, resume, run
from certigraph.state.serialization import serializer
from certigraph.state.trajectory import total


class Garbling(Pondering):
    """Plans, and then says of `b` what is no action: every try is paid for."""

    def _generate(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> ChatResult:
        unusable = ChatResult(generations=[ChatGeneration(message=AIMessage("no idea"))])
        return unusable if self.asked[-1] == ("execute", "b") else super()._generate(messages, *args, **kwargs)


def booked(result: Result) -> Any:
    """What the latest checkpoint says was spent."""
    with SqliteSaver.from_conn_string(str(result.folder / "checkpoints.sqlite")) as saver:
        saver.serde = serializer()
        return tdp.build(saver).get_state({"configurable": {"thread_id": result.folder.name}}).values["spent"]


def assert_paid_once(result: Result) -> None:
    """Every call is in the checkpoint or in a line that is not, and in one of them only."""
    failed = [event for event in result.trajectory.events if event.update is None]
    elsewhere = total(event.usage for event in [*failed, *result.trajectory.superseded]).spent()
    kept, told = booked(result), result.state["spent"]
    assert (kept.calls, kept.tokens) == (told.calls, told.tokens)
    assert kept.calls + elsewhere.calls == result.usage.calls
    assert kept.tokens + elsewhere.tokens == result.usage.spent().tokens


def test_a_call_is_paid_once_also_where_a_node_went_on_without_it(tmp_path: Path):
    context = Context(chat=Garbling(), budget=Budget(calls=1 + 3 * 3))
    stopped = run("tdp", Jobs(), "wide", context=context, out=tmp_path)
    assert (stopped.ending, stopped.usage.calls) == ("limit:calls", 10)
    assert_paid_once(stopped)
    result = resume(stopped.folder, budget=Budget(), benchmark=Jobs(), chat=Pondering())
    assert result.ending == "goal"
    assert_paid_once(result)


@pytest.mark.parametrize("events", [6, 12, 20, 30])
def test_ctrl_c_in_mid_batch_leaves_no_world_open_and_no_call_unpaid(events: int, tmp_path: Path):
    chat, after = Pondering(lambda subtask: len(subtask) / 500), Pondering()

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
    assert Result(folder).trajectory.usage.calls == len(chat.asked), "calls that were under way are paid for too"
    result = resume(folder, benchmark=Jobs(), chat=after)
    assert result.ending == "goal"
    assert_paid_once(result)
    assert result.usage.calls == len(chat.asked) + len(after.asked)


@pytest.mark.parametrize("calls", [0, 1, 3, 6, 10, 15, 20])
def test_whatever_budget_ended_a_run_a_larger_one_brings_it_to_its_goal(calls: int, tmp_path: Path):
    stopped = run("tdp", Jobs(), "deep", context=Context(chat=Pondering(), budget=Budget(calls=calls)), out=tmp_path)
    assert (stopped.ending, stopped.usage.calls) == ("limit:calls", calls), "none of it is left over"
    result = resume(stopped.folder, budget=Budget(), benchmark=Jobs(), chat=Pondering())
    assert result.ending == "goal"
    assert_paid_once(result)
