"""`update_state` and forks: at every checkpoint, with JSON values, for every kind of graph, and for agents."""

import asyncio
import json
from operator import add
from typing import Annotated, Any

import pytest
from helpers.cases import first_fast
from helpers.worlds.support_database import GOAL, SupportDatabase, scripted_model
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, RemoveMessage, SystemMessage, ToolMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.errors import InvalidUpdateError
from langgraph.graph import MessagesState
from langgraph.graph.message import REMOVE_ALL_MESSAGES
from langgraph.types import Command, Overwrite, StateUpdate
from pydantic import TypeAdapter

from certigraph import agent
from certigraph.adapters.benchmarks import load_benchmark
from certigraph.adapters.protocols import Context, Limits
from certigraph.graphs import pbai, react, sdp, step, tdp
from certigraph.graphs.agent import METHODS
from certigraph.state.endings import Fault, LimitReached
from certigraph.state.records import Predicate

BLOCKS = {"task": {"benchmark": "blocksworld", "id": "3-0"}}
QUESTION = {"task": {"benchmark": "musique", "id": load_benchmark("musique").tasks()[0].id}}
GRAPHS = {"sdp": (sdp, BLOCKS), "tdp": (tdp, BLOCKS), "step": (step, BLOCKS), "react": (react, BLOCKS)}
GRAPHS |= {"pbai": (pbai, QUESTION), "sdp on a question": (sdp, QUESTION)}
CONTEXT = Context(model="scripted:expert")


def ran(module: Any, given: Any, context: Context = CONTEXT) -> tuple[Any, dict[str, Any]]:
    graph = module.build(checkpointer=InMemorySaver())
    config = {"configurable": {"thread_id": "one"}}
    graph.invoke(given, config, context=context)
    return graph, config


@pytest.mark.slow
@pytest.mark.parametrize("name", GRAPHS)
def test_state_can_be_edited_at_every_checkpoint(name: str):
    graph, config = ran(*GRAPHS[name])
    history = [*graph.get_state_history(config)]
    assert len(history) > 5
    for snapshot in history:
        if "observation" not in snapshot.values:
            continue
        edited = json.loads(snapshot.values["observation"].model_dump_json()) | {"text": "edited by a person"}
        fork = graph.update_state(snapshot.config, {"observation": edited})
        state = graph.get_state(fork)
        assert state.values["observation"].text == "edited by a person"
        assert type(state.values["observation"]) is type(snapshot.values["observation"])


@pytest.mark.slow
@pytest.mark.parametrize("name", ["sdp", "react", "pbai"])
def test_a_fork_of_every_checkpoint_runs_to_an_end(name: str):
    graph, config = ran(*GRAPHS[name])
    end = graph.get_state(config).values["observation"]
    for snapshot in [*graph.get_state_history(config)][::3]:
        if not snapshot.next or "evidence" not in snapshot.values:
            continue
        fork = graph.update_state(snapshot.config, {"evidence": snapshot.values["evidence"].model_dump(mode="json")})
        final = graph.invoke(None, fork, context=CONTEXT)
        assert final["observation"].solved == end.solved


def test_json_of_a_log_adds_to_it_and_overwrite_replaces_it():
    graph, config = ran(sdp, BLOCKS)
    state = graph.get_state(config)
    attempts = [json.loads(attempt.model_dump_json()) for attempt in state.values["attempts"]]
    added = graph.update_state(config, {"attempts": attempts[:1]}, as_node="validate")
    assert len(graph.get_state(added).values["attempts"]) == len(attempts) + 1
    replaced = graph.update_state(added, {"attempts": {"__overwrite__": attempts[:1]}}, as_node="validate")
    assert graph.get_state(replaced).values["attempts"] == state.values["attempts"][:1]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"plann": []}, "the state has no key 'plann'; it has: .*plan"),
        ({"plan": [{"txt": "a is on b"}]}, "plan.0.text: Field required"),
        ({"head": "first"}, "head: .*got 'first'"),
    ],
)
def test_an_edit_that_does_not_fit_says_where(values: dict[str, Any], message: str):
    graph, config = ran(sdp, BLOCKS)
    with pytest.raises(InvalidUpdateError, match=message):
        graph.update_state(config, values)


@pytest.mark.parametrize(("node", "key"), [("propose", "head"), ("validate", "observation")])
def test_an_edit_before_the_run_has_that_state_says_what_is_missing(node: str, key: str):
    graph = sdp.build(checkpointer=InMemorySaver())
    config: Any = {"configurable": {"thread_id": "new"}}
    with pytest.raises(InvalidUpdateError, match=f"the state has no '{key}' yet"):
        graph.update_state(config, {**BLOCKS, "plan": []}, as_node=node)


@pytest.mark.slow
@pytest.mark.parametrize(("attempts", "after"), [(1, "replan"), (5, "realize")])
def test_where_an_edited_run_continues_follows_the_limits_of_its_thread(attempts: int, after: str):
    context = CONTEXT.model_copy(update={"limits": Limits(attempts=attempts)})
    graph, config = ran(sdp, BLOCKS, context)
    first = [s for s in graph.get_state_history(config) if s.next == ("certify",)][-1]
    unmet = {"verdict": {"depth": 0, "reason": "a person disagrees"}, "tried": 1}
    fork = graph.update_state(first.config, unmet, as_node="validate")
    assert graph.get_state(fork).next == (after,)


def test_asynchronous_edits_are_the_same():
    async def edited() -> Any:
        graph = sdp.build(checkpointer=InMemorySaver())
        config: Any = {"configurable": {"thread_id": "two"}}
        await graph.ainvoke(BLOCKS, config, context=CONTEXT)  # type: ignore[arg-type]
        await graph.aupdate_state(config, {"plan": [{"text": "a is on b"}]}, as_node="replan")
        return (await graph.aget_state(config)).values["plan"]

    assert asyncio.run(edited()) == [Predicate(text="a is on b")]


@pytest.mark.parametrize("error", [Fault("world", "the simulator stopped"), LimitReached("calls", 1, 1)])
def test_langgraphs_server_shows_why_a_run_stopped(error: Exception):
    serde = pytest.importorskip("langgraph_api.serde")
    assert json.loads(serde.json_dumpb(error))["message"] == str(error)


# Edits of an agent's thread.

TEXT = "one more thing"
AS_JSON = {"type": "human", "content": TEXT}
FORMS: list[Any] = [
    HumanMessage(TEXT),
    [AIMessage(TEXT)],
    [SystemMessage("be brief"), ToolMessage(TEXT, tool_call_id="1")],
    TEXT,
    ("user", TEXT),
    [("user", TEXT)],
    [{"role": "user", "content": TEXT}],
    [AS_JSON],
    [RemoveMessage(REMOVE_ALL_MESSAGES), HumanMessage(TEXT)],
    Overwrite([HumanMessage(TEXT)]),
    {"__overwrite__": [AS_JSON]},
    {"type": "__overwrite__", "value": [AS_JSON]},
]


def waiting_or_ended(method: Any, database: SupportDatabase, *, waits: bool, **options: Any) -> tuple[Any, Any]:
    settings: Any = {"interrupt_on": {"refund": True} if waits else None, "checkpointer": InMemorySaver(), **options}
    graph = agent(method, model=scripted_model(), tools=database.tools, **settings)
    config: Any = {"configurable": {"thread_id": "1"}}
    graph.invoke({"messages": [("user", GOAL)]}, config)
    return graph, config


@pytest.mark.parametrize("waits", [False, True])
@pytest.mark.parametrize("method", first_fast(METHODS, 2))
def test_messages_may_have_every_form_that_langgraph_takes(method: Any, waits: bool, database: SupportDatabase):
    graph, config = waiting_or_ended(method, database, waits=waits)
    following = graph.get_state(config).next
    assert bool(following) is waits
    for form in FORMS:
        before = len(graph.get_state(config).values["messages"])
        graph.update_state(config, {"messages": form})
        graph.bulk_update_state(config, [[StateUpdate({"messages": form})]])
        asyncio.run(graph.aupdate_state(config, {"messages": form}))
        state = graph.get_state(config)
        messages = state.values["messages"]
        assert all(isinstance(message, BaseMessage) and message.id for message in messages)
        assert (messages[-1].text, state.next) == (TEXT, following)
        assert len(messages) > before or len(messages) == 1
    first = graph.get_state(config).values["messages"][0]
    graph.update_state(config, {"messages": [RemoveMessage(str(first.id))]})
    assert first not in graph.get_state(config).values["messages"]


@pytest.mark.parametrize("waits", [False, True])
@pytest.mark.parametrize("method", first_fast(METHODS, 2))
def test_every_key_of_an_agent_takes_what_it_holds_as_records_and_as_json(
    method: Any, waits: bool, database: SupportDatabase
):
    graph, config = waiting_or_ended(method, database, waits=waits)
    values = {**graph.get_state(config).values}
    assert {"task", "history", "spent", "ending"} <= set(values)
    del values["messages"]
    for key, value in values.items():
        for given in (value, TypeAdapter(object).dump_python(value, mode="json")):
            graph.update_state(config, {key: Overwrite(given)})
            assert graph.get_state(config).values[key] == value


class OfMyOwn:
    """A class that pydantic does not know."""


class Mine(MessagesState, total=False):
    """Keys of a caller's own, one of which adds up, and one of a class of the caller's."""

    notes: Annotated[list[str], add]
    priority: int
    thing: OfMyOwn


@pytest.mark.parametrize("form", [lambda values: values, lambda values: Command(update=values)])
def test_keys_of_the_callers_own_take_every_value(form: Any, database: SupportDatabase):
    graph, config = waiting_or_ended("react", database, waits=False, state_schema=Mine)
    thing = OfMyOwn()
    graph.update_state(config, form({"notes": [1], "messages": TEXT}))
    graph.update_state(config, form({"notes": ["b"], "priority": None}))
    values = graph.get_state(config).values
    assert (values["notes"], values["priority"], values["messages"][-1].text) == ([1, "b"], None, TEXT)
    with pytest.raises(TypeError, match="OfMyOwn"):  # the saver's error: no checkpoint can hold it
        graph.update_state(config, form({"thing": thing}))
