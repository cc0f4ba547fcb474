"""TDP as a plain LangGraph graph: nodes that raise, threads that go on, savers of every kind, callers of every kind."""

import asyncio
import sqlite3
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite import SqliteSaver
from task_graphs import GRAPHS, Jobs, Pondering, SerialJobs, respond, subtask_of

from certigraph.adapters.episodes import EPISODES, close_episode
from certigraph.adapters.models.scripted import current_situation
from certigraph.adapters.protocols import Budget, Context
from certigraph.graphs import tdp
from certigraph.state.records import LimitReached
from certigraph.state.serialization import serializer

HERE = Path(__file__).parent

PAUSES = {"b": 0.01, "c": 0.03}
"""Seconds: when `b` raises, `a` has ended and `c` is at work."""

Call = Callable[[Any, Any, Context], Any]


class BrokenError(Exception):
    """What a node raises."""


class Breaking(Pondering):
    """Breaks once, when the sub-task `b` has done everything and is to be judged."""

    broken: bool = False

    def __init__(self) -> None:
        super().__init__(lambda subtask: PAUSES.get(subtask, 0.0), self.answer)

    def answer(self, prompt: str, schema: dict[str, Any]) -> Any:
        situation = current_situation()
        assert situation
        at_work = (situation.node, subtask_of(situation.state["task"]), len(situation.state.get("turns", ())))
        if at_work == ("supervise", "b", 2) and not self.broken:
            self.broken = True
            raise BrokenError("the endpoint is gone")
        return respond(prompt, schema)


def invoke(graph: Any, given: Any, context: Context) -> Any:
    return graph.invoke(given, THREAD, context=context)


def ainvoke(graph: Any, given: Any, context: Context) -> Any:
    return asyncio.run(graph.ainvoke(given, THREAD, context=context))


THREAD: Any = {"configurable": {"thread_id": "thread"}}


def in_memory() -> InMemorySaver:
    return InMemorySaver(serde=serializer())


def in_sqlite() -> SqliteSaver:
    return SqliteSaver(sqlite3.connect(":memory:", check_same_thread=False), serde=serializer())


WAYS = [(in_memory, invoke), (in_memory, ainvoke), (in_sqlite, invoke)]


@pytest.fixture(autouse=True)
def no_worlds_left() -> Iterator[None]:
    before = {*EPISODES}
    yield
    for key in {*EPISODES} - before:
        close_episode(key)


def given(benchmark: Jobs, task: str = "deep") -> Any:
    return {"task": benchmark.task(task)}


def told(state: Any) -> dict[str, Any]:
    """A state without what differs from run to run; a tuple that was in a checkpoint is a list."""
    kept = {key: value for key, value in state.items() if key not in ("episode", "usage", "spent")}
    return {key: list(value) if isinstance(value, tuple) else value for key, value in kept.items()}


@pytest.mark.parametrize("kind", [Jobs, SerialJobs])
@pytest.mark.parametrize(("saver", "call"), WAYS)
@pytest.mark.slow
def test_a_thread_whose_node_raised_goes_on_inside_its_sub_tasks(kind: type[Jobs], saver: Any, call: Call):
    benchmark, chat = kind(), Breaking()
    context, graph = Context(benchmark=benchmark, chat=chat), tdp.build(saver())
    with pytest.raises(BrokenError):
        call(graph, given(benchmark), context)
    before = Counter(chat.asked)
    state = call(graph, None, context)
    again = Counter(chat.asked) - before
    whole = Pondering()
    expected = call(tdp.build(saver()), given(benchmark), Context(benchmark=benchmark, chat=whole))
    assert told(state) == told(expected)
    assert not {name for _, name in again} & {"a"}, "a had ended"
    assert ("plan", "b") not in again, "b goes on where it was"
    repeated = Counter(chat.asked) - Counter(whole.asked)
    assert max(Counter(name for _, name in repeated).values(), default=0) <= 1, "the call that was cut off"


@pytest.mark.slow
def test_the_same_under_strict_msgpack():
    """The switch is read when langgraph is imported, hence a process of its own."""
    code = (
        "import sys; sys.path[:0] = sys.argv[1:]\n"
        "import test_tdp_faults as t\n"
        "for kind in (t.Jobs, t.SerialJobs):\n"
        "    for way in t.WAYS:\n"
        "        t.test_a_thread_whose_node_raised_goes_on_inside_its_sub_tasks(kind, *way)\n"
    )
    folders = [str(HERE), str(HERE.parent), str(HERE.parent.parent / "src")]
    env = {"LANGGRAPH_STRICT_MSGPACK": "true", "PATH": ""}
    done = subprocess.run([sys.executable, "-c", code, *folders], env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "unregistered" not in done.stderr.lower()
    assert "blocked" not in done.stderr.lower()


@pytest.mark.parametrize(("saver", "call"), WAYS)
def test_a_solver_of_another_kind_keeps_its_checkpoints_in_the_same_saver(saver: Any, call: Call):
    benchmark = Jobs()
    graph = tdp.build(saver(), solve="react")
    state = call(graph, given(benchmark, "chain"), Context(benchmark=benchmark, chat=Pondering(responder=acting)))
    assert tdp.ending(state) == "goal"
    assert [outcome.node for outcome in state["outcomes"]] == [*GRAPHS["chain"]]


def acting(prompt: str, schema: dict[str, Any]) -> Any:
    """The mind of agents that have no plan: they act until the world or the steps end."""
    situation = current_situation()
    assert situation
    if "action" not in schema.get("properties", ()):
        return respond(prompt, schema)
    return {"thought": "on with it", "action": "deliver"}


def test_two_threads_at_once_have_nothing_to_do_with_each_other():
    benchmark, graph, states = Jobs(), tdp.build(in_memory()), dict[str, Any]()

    def run(name: str) -> None:
        config: Any = {"configurable": {"thread_id": name}}
        context = Context(benchmark=benchmark, chat=Pondering(lambda subtask: 0.002))
        states[name] = graph.invoke(given(benchmark, name), config, context=context)

    threads = [threading.Thread(target=run, args=(name,)) for name in ("wide", "deep")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {name: [outcome.node for outcome in state["outcomes"]] for name, state in states.items()} == {
        name: [node for batch in BATCHES[name] for node in batch] for name in states
    }
    assert {tdp.ending(state) for state in states.values()} == {"goal"}


BATCHES = {"wide": ["abc", ["goal"]], "deep": ["abc", "de", ["goal"]]}
"""The nodes of each task graph in the order in which they are gathered."""


def test_every_copy_of_a_world_is_closed_also_where_a_node_raised():
    benchmark, chat = Jobs(), Breaking()
    with pytest.raises(BrokenError):
        ainvoke(tdp.build(), given(benchmark), Context(benchmark=benchmark, chat=chat))
    assert [key for key in EPISODES if "/" in key] == []


def test_a_budget_spent_inside_one_of_several_nodes_fails_that_node_and_counts_what_it_asked():
    benchmark, chat = Jobs(), Pondering()
    context = Context(benchmark=benchmark, chat=chat, budget=Budget(calls=1 + 3 * 4))
    with pytest.raises(LimitReached) as reached:
        ainvoke(tdp.build(), given(benchmark, "wide"), context)
    assert reached.value.kind == "calls"
    assert len(chat.asked) == 13


class Garbling(Pondering):
    """Plans, and then says what is no action: every try is paid for."""

    def _generate(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> ChatResult:
        garbled = self.asked[-1][0] == "execute"
        unusable = ChatResult(generations=[ChatGeneration(message=AIMessage("no idea"))])
        return unusable if garbled else super()._generate(messages, *args, **kwargs)


def test_what_a_node_spent_before_its_part_of_the_budget_was_used_up_counts():
    async def unrevised(state: Any, runtime: Any) -> dict[str, Any]:
        return {"dag": state["dag"], "notes": ()}

    benchmark, chat, graph = Jobs(), Garbling(), tdp.build(in_memory(), revise=unrevised)
    context = Context(benchmark=benchmark, chat=chat, budget=Budget(calls=1 + 3 * 3))
    with pytest.raises(LimitReached):
        ainvoke(graph, given(benchmark, "wide"), context)
    state = graph.get_state(THREAD).values
    assert {outcome.status for outcome in state["outcomes"]} == {"pending"}
    assert state["spent"].calls == sum(usage.calls for usage in state["usage"]) == len(chat.asked) == 10


def test_a_goal_node_alone_that_spends_the_budget_ends_the_run_and_goes_on_with_a_larger_one():
    benchmark, chat, graph = Jobs(), Pondering(), tdp.build(in_memory())
    context = Context(benchmark=benchmark, chat=chat)
    with pytest.raises(LimitReached):
        ainvoke(graph, given(benchmark, "chain"), context.model_copy(update={"budget": Budget(calls=3)}))
    assert len(chat.asked) == 3
    state = ainvoke(graph, None, context)
    assert tdp.ending(state) == "goal"
    assert max(Counter(chat.asked).values()) <= 2, "no call but execute and supervise comes twice"
