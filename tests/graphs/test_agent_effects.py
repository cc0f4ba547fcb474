"""Effects of an agent's tools happen once: replays, forks, resumes, crashes, questions, nested agents."""

import asyncio
import operator
import sqlite3
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest
from helpers.worlds.support_database import GOAL, SCRIPT, SupportDatabase, scripted_model
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import Command, Send, interrupt

from certigraph.adapters.protocols import Context
from certigraph.adapters.tools import effects, positions
from certigraph.adapters.tools.world import Tools
from certigraph.graphs import sdp
from certigraph.graphs.agent import agent
from certigraph.runtime.checkpoints import SqliteCheckpointSaver
from certigraph.runtime.run import delete, resume, run
from certigraph.state.endings import Fault
from certigraph.state.trajectory import serializer

MAIL: dict[str, Any] = {"to": "ann@example.org", "text": "Order 17 was refunded."}
REFUND: dict[str, Any] = {"order": 17, "amount": 49.9}
CONFIG: Any = {"configurable": {"thread_id": "t"}, "recursion_limit": 200}
USER = {"messages": [("user", GOAL)]}
SAVERS = ("memory", "sqlite")


class Killed(BaseException):
    """The process ends here: no code of a graph may catch it."""


@contextmanager
def open_saver(kind: str, folder: Path) -> Iterator[BaseCheckpointSaver[Any]]:
    if kind == "memory":
        yield InMemorySaver(serde=serializer())
    else:
        connection = sqlite3.connect(folder / "checkpoints.sqlite", check_same_thread=False)
        yield SqliteSaver(connection, serde=serializer())
        connection.close()


@asynccontextmanager
async def open_async_saver(folder: Path) -> AsyncIterator[AsyncSqliteSaver]:
    async with AsyncSqliteSaver.from_conn_string(str(folder / "checkpoints.sqlite")) as saver:
        saver.serde = serializer()
        yield saver


def in_event_loop(test: Callable[..., Any]) -> Callable[..., None]:
    """Run an async test in an event loop of its own."""

    @wraps(test)
    def run(*args: Any, **kwargs: Any) -> None:
        asyncio.run(test(*args, **kwargs))

    return run


def build(
    database: SupportDatabase, saver: Any, method: Any = "sdp", script: Any = SCRIPT, tools: Any = None, **options: Any
) -> Any:
    given = {"effects": {"look_up": "repeatable"}, **options}
    return agent(method, model=scripted_model(script), tools=tools or database.tools, checkpointer=saver, **given)


def counts(database: SupportDatabase) -> tuple[int, int]:
    return len(database.rows("refunds")), len(database.rows("mails"))


def question_of(state: Any) -> Any:
    [question] = state["__interrupt__"]
    return question.value


def hear(graph: Any, *given: Any) -> list[Any]:
    """Invoke a graph with each of the inputs; return the questions that it puts."""
    return [question_of(graph.invoke(one, CONFIG)) for one in given]


def invoke_everywhere(graph: Any, config: Any = CONFIG) -> None:
    for snapshot in list(graph.get_state_history(config)):
        graph.invoke(None, {**snapshot.config, "recursion_limit": 200})


def check_effects(graph: Any, database: SupportDatabase, expected: tuple[int, int], given: Any = USER) -> None:
    """Invoke a graph, and again from each of its checkpoints, which adds no effect."""
    graph.invoke(given, CONFIG)
    assert counts(database) == expected
    invoke_everywhere(graph)
    assert counts(database) == expected


def in_parent(saver: Any, *agents: Any) -> Any:
    """Return a graph in which the agents are nodes, one after the other."""
    nodes = list(zip(("support", "second"), agents, strict=False))
    return StateGraph(MessagesState).add_sequence(nodes).add_edge(START, "support").compile(checkpointer=saver)


def delegating(inner: Any) -> Callable[[int], str]:
    def delegate(order: int) -> str:
        """Let customer support handle an order."""
        return str(inner.invoke({"goal": GOAL})["messages"][-1].content)

    return delegate


# Replays, forks and new turns.


@pytest.mark.slow
@pytest.mark.parametrize("kind", SAVERS)
@pytest.mark.parametrize("method", ["sdp", "react"])
def test_runs_from_every_old_checkpoint_have_no_second_effect(
    kind: str, method: str, database: SupportDatabase, tmp_path: Path
) -> None:
    with open_saver(kind, tmp_path) as saver:
        graph = build(database, saver, method)
        check_effects(graph, database, (1, 1))
        assert len(list(graph.get_state_history(CONFIG))) > 5


@pytest.mark.slow
@in_event_loop
async def test_async_runs_from_every_old_checkpoint_have_no_second_effect(
    database: SupportDatabase, tmp_path: Path
) -> None:
    async with open_async_saver(tmp_path) as saver:
        graph = build(database, saver)
        await graph.ainvoke(USER, CONFIG)
        async for snapshot in graph.aget_state_history(CONFIG):
            await graph.ainvoke(None, {**snapshot.config, "recursion_limit": 200})
        assert counts(database) == (1, 1)


@pytest.mark.slow
@pytest.mark.parametrize("kind", SAVERS)
def test_forks_have_no_second_effect(kind: str, database: SupportDatabase, tmp_path: Path) -> None:
    with open_saver(kind, tmp_path) as saver:
        graph = build(database, saver)
        graph.invoke(USER, CONFIG)
        edited = [one for one in graph.get_state_history(CONFIG) if one.next]
        for snapshot in edited:
            fork = graph.update_state(snapshot.config, {"goal": "edited"})
            graph.invoke(None, {**fork, "recursion_limit": 200})
        assert counts(database) == (1, 1)


@pytest.mark.slow
def test_thread_invoked_again_from_its_first_checkpoint_has_no_second_effect(database: SupportDatabase) -> None:
    graph = build(database, InMemorySaver())
    graph.invoke(USER, CONFIG)
    first = list(graph.get_state_history(CONFIG))[-1]
    graph.invoke(USER, first.config)
    graph.invoke(None, first.config)
    assert counts(database) == (1, 1)


@pytest.mark.slow
@pytest.mark.parametrize("kind", SAVERS)
def test_second_message_may_ask_for_the_same_call_again(kind: str, database: SupportDatabase, tmp_path: Path) -> None:
    with open_saver(kind, tmp_path) as saver:
        graph = build(database, saver)
        graph.invoke(USER, CONFIG)
        check_effects(graph, database, (2, 2))


def test_other_thread_has_its_own_effects(database: SupportDatabase) -> None:
    graph = build(database, InMemorySaver())
    for thread in "ab":
        graph.invoke(USER, {"configurable": {"thread_id": thread}})
    assert counts(database) == (2, 2)


@pytest.mark.slow
def test_equal_calls_of_one_turn_all_happen(database: SupportDatabase) -> None:
    model = pair_model([("refund", REFUND)] * 3, SCRIPT)
    check_effects(agent("react", model=model, tools=database.tools, checkpointer=InMemorySaver()), database, (3, 1))


def test_deleted_thread_leaves_no_entries(database: SupportDatabase) -> None:
    saver = InMemorySaver()
    graph = build(database, saver)
    graph.invoke(USER, CONFIG)
    assert any(effects.EFFECTS_NAMESPACE in spaces for spaces in saver.storage.values())
    saver.delete_thread("t")
    assert not any(effects.EFFECTS_NAMESPACE in spaces for spaces in saver.storage.values())
    assert not any(namespace == effects.EFFECTS_NAMESPACE for _, namespace, _ in saver.writes)
    graph.invoke(USER, CONFIG)
    assert counts(database) == (2, 2)


# Agents in other graphs.


class Parent(TypedDict, total=False):
    messages: Annotated[list[Any], operator.add]
    goal: str
    note: str
    rounds: Annotated[list[int], operator.add]


@pytest.mark.slow
@pytest.mark.parametrize("kind", SAVERS)
def test_agent_as_node_has_no_second_effect_in_replays_and_forks_of_its_parent(
    kind: str, database: SupportDatabase, tmp_path: Path
) -> None:
    with open_saver(kind, tmp_path) as saver:
        builder = StateGraph(MessagesState)
        builder.add_node("before", lambda state: {})
        builder.add_node("support", build(database, None))
        graph = builder.add_edge(START, "before").add_edge("before", "support").compile(checkpointer=saver)
        graph.invoke(USER, CONFIG)
        invoke_everywhere(graph)
        assert counts(database) == (1, 1)
        for snapshot in list(graph.get_state_history(CONFIG)):
            if snapshot.next == ("support",):
                fork = graph.update_state(snapshot.config, {"messages": [("user", GOAL)]}, as_node="before")
                graph.invoke(None, fork)
        assert counts(database) == (1, 1)
        graph.invoke(USER, CONFIG)
        assert counts(database) == (2, 2)


@pytest.mark.slow
def test_two_agents_of_one_thread_have_entries_of_their_own(database: SupportDatabase) -> None:
    graph = in_parent(InMemorySaver(), build(database, None), build(database, None))
    check_effects(graph, database, (2, 2))


@pytest.mark.slow
def test_agent_in_a_loop_acts_in_every_round(database: SupportDatabase) -> None:
    builder = StateGraph(Parent)
    builder.add_node("count", lambda state: {"rounds": [1], "goal": GOAL})
    builder.add_node("support", build(database, None))
    builder.add_edge(START, "count").add_edge("count", "support")
    builder.add_conditional_edges("support", lambda state: "count" if len(state["rounds"]) < 3 else "__end__")
    check_effects(builder.compile(checkpointer=InMemorySaver()), database, (3, 3), {"note": ""})


@pytest.mark.slow
def test_agents_started_by_send_have_entries_of_their_own(database: SupportDatabase) -> None:
    builder = StateGraph(Parent)
    builder.add_node("support", build(database, None))
    builder.add_node("plan", lambda state: {})
    builder.add_edge(START, "plan")
    builder.add_conditional_edges("plan", lambda state: [Send("support", {"goal": GOAL})] * 3, ["support"])
    check_effects(builder.compile(checkpointer=InMemorySaver()), database, (3, 3), {"note": ""})


@pytest.mark.slow
def test_agent_called_in_a_node_has_no_second_effect(database: SupportDatabase) -> None:
    inner = build(database, None)

    def twice(state: Any) -> Any:
        for _ in range(2):
            inner.invoke({"goal": GOAL})
        return {}

    builder = StateGraph(Parent)
    builder.add_node("twice", twice)
    graph = builder.add_edge(START, "twice").compile(checkpointer=InMemorySaver())
    check_effects(graph, database, (2, 2), {"note": ""})
    graph.invoke({"note": ""}, CONFIG)
    assert counts(database) == (4, 4)


@pytest.mark.slow
@pytest.mark.parametrize("effect", ["once", "repeatable"])
def test_agent_called_in_a_tool_of_another_agent(effect: Any, database: SupportDatabase) -> None:
    outer = agent(
        "react",
        model=scripted_model([("delegate", {"order": 17})]),
        tools=[delegating(build(database, None))],
        effects={"delegate": effect},
        checkpointer=InMemorySaver(),
    )
    check_effects(outer, database, (1, 1))


@pytest.mark.slow
def test_agent_with_its_own_memory_in_a_parent(database: SupportDatabase) -> None:
    graph = in_parent(InMemorySaver(), build(database, True))
    graph.invoke(USER, CONFIG)
    check_effects(graph, database, (2, 2))


def test_parent_that_saves_at_the_end_is_refused_before_any_call(database: SupportDatabase) -> None:
    graph = in_parent(InMemorySaver(), build(database, None))
    with pytest.raises(Fault, match="durability"):
        graph.invoke(USER, CONFIG, durability="exit")
    assert counts(database) == (0, 0)
    graph.invoke(USER, CONFIG, durability="async")
    assert counts(database) == (1, 1)


class SlowSaver(InMemorySaver):
    """Saves checkpoints late, as a busy server does."""

    def put(self, config: Any, checkpoint: Any, metadata: Any, new_versions: Any) -> Any:
        if config["configurable"].get("checkpoint_ns") != effects.EFFECTS_NAMESPACE:
            threading.Event().wait(0.02)
        return super().put(config, checkpoint, metadata, new_versions)


@pytest.mark.slow
def test_state_is_saved_before_a_call_although_the_parent_saves_in_the_background(tmp_path: Path) -> None:
    saver, missing = SlowSaver(), list[str]()

    def check(name: str) -> None:
        for namespace, stored in list(saver.storage["t"].items()):
            if namespace.startswith("support:") and name in ("refund", "send_mail"):
                chosen = [saver.serde.loads_typed(one[0])["channel_versions"] for one in stored.values()]
                if not any("branch:to:act" in versions for versions in chosen):
                    missing.append(name)

    database = SupportDatabase(tmp_path / "desk.sqlite", before=check)
    graph = in_parent(saver, build(database, None))
    graph.invoke(USER, CONFIG)
    assert counts(database) == (1, 1)
    assert not missing


# Calls of unknown outcome.


def killing(database_path: Path, moments: list[str]) -> SupportDatabase:
    """A database whose process ends at each of the moments, once."""

    def before(name: str) -> None:
        if name in moments:
            moments.remove(name)
            raise Killed

    return SupportDatabase(database_path, before=before)


def run_until_killed(graph: Any, given: Any, config: Any = CONFIG) -> None:
    with pytest.raises(Killed):
        graph.invoke(given, config)


@pytest.mark.slow
@pytest.mark.parametrize("kind", SAVERS)
@pytest.mark.parametrize(("moment", "decision"), [("refund", "repeat"), ("refunded", "happened")])
def test_person_decides_about_a_call_of_unknown_outcome(kind: str, moment: str, decision: str, tmp_path: Path) -> None:
    database = killing(tmp_path / "desk.sqlite", [moment])
    with open_saver(kind, tmp_path) as saver:
        graph = build(database, saver)
        run_until_killed(graph, USER)
        for _ in range(2):  # nothing happens without an answer
            question = question_of(graph.invoke(None, CONFIG))
            assert question["type"] == "unknown_outcome"
            assert question["calls"] == [{"name": "refund", "args": REFUND}]
        assert len(database.rows("refunds")) == (decision == "happened")
        done = graph.invoke(Command(resume={"type": decision, "result": "refunded 17: 49.9"}), CONFIG)
        assert done["ending"] == "goal"
        assert counts(database) == (1, 1)
        invoke_everywhere(graph)
        assert counts(database) == (1, 1)


def test_person_ends_the_work(tmp_path: Path) -> None:
    database = killing(tmp_path / "desk.sqlite", ["refund"])
    graph = build(database, InMemorySaver())
    run_until_killed(graph, USER)
    graph.invoke(None, CONFIG)
    done = graph.invoke(Command(resume="stop"), CONFIG)
    assert counts(database) == (0, 0)
    assert done["ending"] != "goal"
    assert done["messages"][-1].type == "ai"


@pytest.mark.parametrize(
    "malformed",
    ["yes", 7, [], {"decisions": []}, {"type": "perhaps"}, {"decisions": [{"type": "repeat"}] * 2}, [None]],
)
def test_malformed_answer_is_asked_for_again(malformed: Any, tmp_path: Path) -> None:
    database = killing(tmp_path / "desk.sqlite", ["refund"])
    graph = build(database, InMemorySaver())
    run_until_killed(graph, USER)
    graph.invoke(None, CONFIG)
    for _ in range(2):
        question = question_of(graph.invoke(Command(resume=malformed), CONFIG))
        assert question["type"] == "unknown_outcome"
        assert question["problem"]
    assert counts(database) == (0, 0)
    graph.invoke(Command(resume={"type": "repeat"}), CONFIG)
    assert counts(database) == (1, 1)


def test_decision_holds_for_one_attempt_only(tmp_path: Path) -> None:
    database = killing(tmp_path / "desk.sqlite", ["refund", "refunded"])
    graph = build(database, InMemorySaver())
    run_until_killed(graph, USER)
    graph.invoke(None, CONFIG)
    run_until_killed(graph, Command(resume="repeat"))  # the second attempt takes effect, and its answer is lost
    assert len(database.rows("refunds")) == 1
    for _ in range(2):
        assert question_of(graph.invoke(None, CONFIG))["type"] == "unknown_outcome"
    assert len(database.rows("refunds")) == 1
    assert graph.invoke(Command(resume={"type": "happened", "result": "refunded 17: 49.9"}), CONFIG)["ending"] == "goal"
    assert counts(database) == (1, 1)


def insistent_model() -> Any:
    """Return a scripted model that chooses the refund again until a tool has answered that it was paid."""
    model = scripted_model([("refund", REFUND)])
    inner = model.responder

    def respond(prompt: str, schema: Any) -> Any:
        answer = inner(prompt, schema)
        if "calls" in answer and "refunded 17" not in prompt:
            answer["calls"] = [{"name": "refund", "args": REFUND}]
        return answer

    model.responder = respond
    return model


@pytest.mark.parametrize("kind", SAVERS)
@pytest.mark.parametrize("decision", ["happened", "repeat", "stop"])
def test_a_call_that_is_chosen_again_after_its_answer_was_lost_is_asked_about(
    kind: str, decision: str, tmp_path: Path
) -> None:
    database = killing(tmp_path / "desk.sqlite", ["refunded"])
    with open_saver(kind, tmp_path) as saver:
        graph = agent("react", model=insistent_model(), tools=database.tools, checkpointer=saver)
        run_until_killed(graph, USER)
        first = question_of(graph.invoke(None, CONFIG))
        for given in (Command(resume="happened"), None):  # nothing happens without an answer to this question too
            again = question_of(graph.invoke(given, CONFIG))
            assert again["type"] == "unknown_outcome"
            assert first["calls"] == [{"name": "refund", "args": REFUND}]
            assert again["calls"] == [{"name": "refund", "args": REFUND, "chosen_again": True}]
            assert again["question"] != first["question"]
            assert len(database.rows("refunds")) == 1
        done = graph.invoke(Command(resume={"type": decision, "result": "refunded 17: 49.9"}), CONFIG)
        assert "__interrupt__" not in done
        assert len(database.rows("refunds")) == (2 if decision == "repeat" else 1)
        if decision != "stop":
            assert done["ending"] == "finished"
        invoke_everywhere(graph)
        assert len(database.rows("refunds")) == (2 if decision == "repeat" else 1)


def test_a_call_that_a_person_approves_again_is_made_again(tmp_path: Path) -> None:
    database = killing(tmp_path / "desk.sqlite", ["refunded"])
    approval = {"interrupt_on": {"refund": True}, "checkpointer": InMemorySaver()}
    graph = agent("react", model=insistent_model(), tools=database.tools, **approval)
    graph.invoke(USER, CONFIG)
    run_until_killed(graph, Command(resume="approve"))
    assert question_of(graph.invoke(None, CONFIG))["type"] == "unknown_outcome"
    assert "action_requests" in question_of(graph.invoke(Command(resume="happened"), CONFIG))
    done = graph.invoke(Command(resume="approve"), CONFIG)
    assert done["ending"] == "finished"
    assert len(database.rows("refunds")) == 2


def pair_model(pair: list[tuple[str, dict[str, Any]]], script: Any = None) -> Any:
    """A scripted model that makes several calls in one action."""
    model = scripted_model(script or pair)
    inner = model.responder

    def respond(prompt: str, schema: Any) -> Any:
        answer = inner(prompt, schema)
        if "calls" in answer and answer["calls"][0]["name"] == pair[0][0]:
            answer["calls"] = [{"name": name, "args": args} for name, args in pair]
        return answer

    model.responder = respond
    return model


def test_two_calls_of_unknown_outcome_in_one_action_are_asked_about_together(database: SupportDatabase) -> None:
    saver = InMemorySaver()
    pair = [("refund", REFUND), ("send_mail", MAIL)]
    graph = agent("react", model=pair_model(pair), tools=database.tools, checkpointer=saver)
    real = effects.Ledger.finish

    async def lose(self: Any, key: str, answer: Any) -> None:
        """As a crash of the machine: the answer is lost, and the next call has started."""

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(effects.Ledger, "finish", lose)
        patch.setattr("certigraph.nodes.tools.observe", _raise_killed)
        run_until_killed(graph, USER)
    assert effects.Ledger.finish is real
    assert counts(database) == (1, 1)
    question = question_of(graph.invoke(None, CONFIG))
    assert [one["name"] for one in question["calls"]] == ["refund", "send_mail"]
    graph.invoke(Command(resume={"decisions": [{"type": "happened"}, {"type": "repeat"}]}), CONFIG)
    assert counts(database) == (1, 2)


def _raise_killed(*args: Any) -> None:
    raise Killed


@pytest.mark.slow
@in_event_loop
async def test_cancelled_call_is_of_unknown_outcome(database: SupportDatabase, tmp_path: Path) -> None:
    begun = asyncio.Event()

    async def refund(order: int, amount: float) -> str:
        """Refund an order."""
        begun.set()
        await asyncio.sleep(0 if database.rows("refunds") else 30)
        return database.refund(order, amount)

    async with open_async_saver(tmp_path) as saver:
        graph = build(database, saver, tools=[database.look_up, refund, database.send_mail])
        running = asyncio.create_task(graph.ainvoke(USER, CONFIG))
        await begun.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert question_of(await graph.ainvoke(None, CONFIG))["type"] == "unknown_outcome"
        assert counts(database) == (0, 0)
        done = await graph.ainvoke(Command(resume={"type": "happened", "result": "refunded 17: 49.9"}), CONFIG)
        assert done["ending"] == "goal"
        assert counts(database) == (0, 1)


@pytest.mark.slow
def test_error_of_a_tool_is_an_observation_and_is_not_repeated(database: SupportDatabase) -> None:
    tried = list[int]()

    def refund(order: int, amount: float) -> str:
        """Refund an order."""
        tried.append(order)
        raise RuntimeError("the bank is closed")

    graph = build(database, InMemorySaver(), "react", tools=[database.look_up, refund, database.send_mail])
    graph.invoke(USER, CONFIG)
    assert tried == [17]
    invoke_everywhere(graph)
    assert tried == [17]
    assert "the bank is closed" in graph.get_state(CONFIG).values["evidence"].view


# Tools that ask a person.


def asking_tools(database: SupportDatabase) -> list[Callable[..., str]]:
    def refund(order: int, amount: float) -> str:
        """Refund an order."""
        first = interrupt("really refund?")
        second = interrupt("how?")
        return database.refund(order, amount) + f" ({first}, {second})"

    def send_mail(to: str, text: str) -> str:
        """Send a mail."""
        return database.send_mail(to, f"{text} {interrupt('which greeting?')}")

    return [database.look_up, refund, send_mail]


@pytest.mark.slow
@pytest.mark.parametrize("kind", SAVERS)
def test_tool_that_interrupts_goes_on_with_the_answers(kind: str, database: SupportDatabase, tmp_path: Path) -> None:
    with open_saver(kind, tmp_path) as saver:
        graph = build(database, saver, tools=asking_tools(database))
        questions = hear(graph, USER, Command(resume="yes"), Command(resume="by card"))
        assert questions == ["really refund?", "how?", "which greeting?"]
        graph.invoke(Command(resume="Yours"), CONFIG)
        assert counts(database) == (1, 1)
        assert database.rows("mails")[0][1].endswith("Yours")
        assert "(yes, by card)" in graph.get_state(CONFIG).values["evidence"].view


def test_answers_of_two_interrupting_calls_in_one_action_are_not_mixed_up(database: SupportDatabase) -> None:
    pair = [("refund", REFUND), ("send_mail", MAIL)]
    graph = agent("react", model=pair_model(pair), tools=asking_tools(database), checkpointer=InMemorySaver())
    questions = hear(graph, USER, Command(resume="yes"), Command(resume="by card"))
    assert questions == ["really refund?", "how?", "which greeting?"]
    assert counts(database) == (1, 0)
    graph.invoke(Command(resume="Yours"), CONFIG)
    assert counts(database) == (1, 1)
    assert database.rows("mails")[0][1].endswith("Yours")


def test_answer_to_a_tool_is_not_a_decision_about_an_unknown_outcome(tmp_path: Path) -> None:
    database = killing(tmp_path / "desk.sqlite", ["refunded"])
    graph = build(database, InMemorySaver(), tools=asking_tools(database))
    assert hear(graph, USER, Command(resume="repeat")) == ["really refund?", "how?"]
    run_until_killed(graph, Command(resume="repeat"))
    assert len(database.rows("refunds")) == 1
    for _ in range(2):
        assert question_of(graph.invoke(None, CONFIG))["type"] == "unknown_outcome"
    state = graph.invoke(Command(resume={"type": "happened", "result": "refunded 17: 49.9"}), CONFIG)
    assert question_of(state) == "which greeting?"
    assert graph.invoke(Command(resume="Yours"), CONFIG)["ending"] == "goal"
    assert counts(database) == (1, 1)


@pytest.mark.slow
def test_tool_asks_again_after_a_person_decided_to_repeat_it(tmp_path: Path) -> None:
    database = killing(tmp_path / "desk.sqlite", ["refund"])
    graph = build(database, InMemorySaver(), tools=asking_tools(database))
    graph.invoke(USER, CONFIG)
    graph.invoke(Command(resume="yes"), CONFIG)
    run_until_killed(graph, Command(resume="by card"))
    assert question_of(graph.invoke(None, CONFIG))["type"] == "unknown_outcome"
    questions = hear(graph, *(Command(resume=given) for given in ("repeat", "yes", "cash")))
    assert questions == ["really refund?", "how?", "which greeting?"]
    graph.invoke(Command(resume="Yours"), CONFIG)
    assert counts(database) == (1, 1)
    assert "(yes, cash)" in graph.get_state(CONFIG).values["evidence"].view


def test_interrupting_tool_that_may_be_repeated_is_asked_once(database: SupportDatabase) -> None:
    seen = list[str]()

    def look_up(order: int) -> str:
        """Look up an order."""
        seen.append(answer := interrupt("which shop?"))
        return f"{database.look_up(order)} in {answer}"

    pair = [("look_up", {"order": 17}), ("send_mail", MAIL)]
    tools = [look_up, asking_tools(database)[2]]
    options: Any = {"effects": {"look_up": "repeatable"}, "checkpointer": InMemorySaver()}
    graph = agent("react", model=pair_model(pair), tools=tools, **options)
    assert question_of(graph.invoke(USER, CONFIG)) == "which shop?"
    assert question_of(graph.invoke(Command(resume="Bonn"), CONFIG)) == "which greeting?"
    graph.invoke(Command(resume="Yours"), CONFIG)
    assert seen == ["Bonn"]
    assert counts(database) == (0, 1)


@pytest.mark.slow
def test_nested_agent_asks_through_the_tool_of_another_agent(tmp_path: Path) -> None:
    database = killing(tmp_path / "desk.sqlite", ["refunded"])
    model: Any = scripted_model([("delegate", {"order": 17})])
    outer = agent("react", model=model, tools=[delegating(build(database, None))], checkpointer=InMemorySaver())
    run_until_killed(outer, USER)
    question = question_of(outer.invoke(None, CONFIG))
    assert [one["name"] for one in question["calls"]] == ["delegate"]
    question = question_of(outer.invoke(Command(resume="repeat"), CONFIG))
    assert [one["name"] for one in question["calls"]] == ["refund"]
    done = outer.invoke(Command(resume={"type": "happened", "result": "refunded 17: 49.9"}), CONFIG)
    assert done["messages"][-1].type == "ai"
    assert counts(database) == (1, 1)


# Checkpointers, and several processes.


class ForgetfulSaver(InMemorySaver):
    """Loses what is written between checkpoints."""

    def put_writes(self, *args: Any, **kwargs: Any) -> None:
        """Do nothing."""


def test_checkpointer_that_loses_pending_writes_is_refused(database: SupportDatabase) -> None:
    with pytest.raises(Fault, match="ForgetfulSaver"):
        build(database, ForgetfulSaver()).invoke(USER, CONFIG)
    assert counts(database) == (0, 0)


@pytest.mark.slow
def test_of_two_runs_that_race_for_a_call_only_one_makes_it(tmp_path: Path) -> None:
    together, arrived = threading.Barrier(2), list[str]()
    outcomes = list[Any]()
    real = effects.Ledger.start

    async def start(self: Any, key: str, *args: Any) -> bool:
        arrived.append(key)
        if len(arrived) <= 2:
            together.wait(10)
        return await real(self, key, *args)

    database = SupportDatabase(tmp_path / "desk.sqlite")

    def run() -> None:
        connection = sqlite3.connect(tmp_path / "checkpoints.sqlite", check_same_thread=False, timeout=30)
        graph = build(database, SqliteSaver(connection, serde=serializer()))
        try:
            outcomes.append(graph.invoke(None, CONFIG))
        except Fault as fault:
            outcomes.append(fault)
        finally:
            connection.close()

    with open_saver("sqlite", tmp_path) as saver:
        before = build(database, saver)
        before.interrupt_before_nodes = ["act"]
        before.invoke(USER, CONFIG)
        graph = build(database, saver)
        while graph.get_state(CONFIG).values["action"].args.get("calls", [{}])[0].get("name") != "refund":
            before.invoke(None, CONFIG)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(effects.Ledger, "start", start)
        threads = [threading.Thread(target=run) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
    assert len(database.rows("refunds")) == 1
    assert any(isinstance(one, Fault) and "another process" in str(one) for one in outcomes)


def test_unsaved_checkpoint_of_a_parent_is_a_fault(database: SupportDatabase, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(positions, "SAVE_SECONDS", 0.05)

    class Lost(InMemorySaver):
        def put(self, config: Any, checkpoint: Any, metadata: Any, new_versions: Any) -> Any:
            return {"configurable": {**config["configurable"], "checkpoint_id": checkpoint["id"]}}

    graph = in_parent(Lost(), build(database, None))
    with pytest.raises(Fault, match="not saved"):
        graph.invoke(USER, CONFIG)
    assert counts(database) == (0, 0)


@pytest.mark.slow
def test_method_graph_over_tools_has_no_second_effect(database: SupportDatabase) -> None:
    world = Tools(database.tools, [GOAL], effects={"look_up": "repeatable"})
    graph = sdp.build(checkpointer=InMemorySaver())
    context = Context(benchmark=world, chat=scripted_model())
    graph.invoke({"task": world.tasks()[0]}, CONFIG, context=context)
    assert counts(database) == (1, 1)
    for snapshot in list(graph.get_state_history(CONFIG)):
        graph.invoke(None, snapshot.config, context=context)
    assert counts(database) == (1, 1)
    with pytest.raises(Fault, match="durability"):
        graph.invoke({"task": world.tasks()[0]}, CONFIG, context=context, durability="exit")


# Answers are used once.


def test_approval_of_one_call_is_not_used_for_another_when_the_run_is_resumed_without_an_answer(
    database: SupportDatabase,
) -> None:
    graph = in_parent(InMemorySaver(), build(database, None, interrupt_on={"refund": True, "send_mail": True}))
    questions = hear(graph, USER, Command(resume={"type": "approve"}), None, None)
    assert [one["action_requests"][0]["name"] for one in questions] == ["refund", *["send_mail"] * 3]
    assert counts(database) == (1, 0)
    graph.invoke(Command(resume={"type": "approve"}), CONFIG)
    assert counts(database) == (1, 1)


@pytest.mark.slow
def test_decision_that_names_its_question(tmp_path: Path) -> None:
    database = killing(tmp_path / "desk.sqlite", ["refund", "refunded"])
    graph = build(database, InMemorySaver())
    run_until_killed(graph, USER)
    [question] = graph.invoke(None, CONFIG)["__interrupt__"]
    run_until_killed(graph, Command(resume={question.id: {"type": "repeat"}}))
    [question] = graph.invoke(None, CONFIG)["__interrupt__"]
    graph.invoke(Command(resume={question.id: {"type": "happened", "result": "refunded 17: 49.9"}}), CONFIG)
    assert counts(database) == (1, 1)


# Injected faults, and runs.


@pytest.mark.slow
@pytest.mark.parametrize("fault", ["crash", "hang"])
def test_injected_faults_come_before_calls_and_leave_nothing_unknown(
    fault: str, database: SupportDatabase, tmp_path: Path
) -> None:
    world = Tools(database.tools, [GOAL], effects={"look_up": "repeatable"})
    context = Context(chat=scripted_model(), faults=f"{fault}=0.5,delay=0.01,seed=4")
    result = run("sdp", world, context=context, out=tmp_path, on_error="ignore")
    failed = 0
    while result.ending == "error:environment" and failed < 30:
        failed += 1
        result = resume(result.folder, benchmark=world, chat=scripted_model(), on_error="ignore")
    assert failed
    assert not result.questions
    assert result.ending == "goal"
    assert counts(database) == (1, 1)
    assert result.scores is not None
    assert result.scores.value == 1


@pytest.mark.slow
@pytest.mark.parametrize("method", ["sdp", "react", "tdp"])
def test_run_that_is_killed_in_a_tool_is_resumed_with_a_decision(method: str, tmp_path: Path) -> None:
    database = killing(tmp_path / "desk.sqlite", ["refunded"])
    world = Tools(database.tools, [GOAL], effects={"look_up": "repeatable"})
    with pytest.raises(Killed):
        run(method, world, context=Context(chat=scripted_model()), out=tmp_path / "runs")
    [folder] = (tmp_path / "runs").iterdir()
    result = resume(folder, benchmark=world, chat=scripted_model())
    assert [one["name"] for one in result.questions[0]["calls"]] == ["refund"]  # type: ignore[call-overload,index,union-attr]
    answer = {"type": "happened", "result": "refunded 17: 49.9"}
    result = resume(folder, answer=answer, benchmark=world, chat=scripted_model())
    assert not result.failed
    assert counts(database) == (1, 1)
    delete(folder)
    assert not folder.exists()


@asynccontextmanager
async def other_ledger(path: Path) -> AsyncIterator[effects.Ledger]:
    async with AsyncSqliteSaver.from_conn_string(str(path)) as saver:
        yield effects.Ledger(saver, "t")


def test_entries_of_a_run_survive_when_its_process_ends_at_once(database: SupportDatabase, tmp_path: Path) -> None:
    async def enter() -> None:
        path = tmp_path / "checkpoints.sqlite"
        with SqliteCheckpointSaver.open(path) as saver:
            ledger = effects.Ledger(saver, "t")
            with effects.RunningCall("refund", {}, 60) as start:
                assert await ledger.start("call", await ledger.read("call"), start)
            async with other_ledger(path) as other:
                assert (await other.read("call")).start == start
            await saver.prepare_resume("t")
            assert await saver.inner_steps("t") == {}
            assert (await ledger.read("call")).start == start
            await ledger.finish("call", effects.ToolAnswer(text="done"))
            async with other_ledger(path) as other:
                assert (await other.read("call")).answer == effects.ToolAnswer(text="done")

    asyncio.run(enter())


def test_run_without_thread_is_refused(database: SupportDatabase) -> None:
    graph = build(database, InMemorySaver())
    with pytest.raises(Fault, match="thread_id"):
        graph.invoke(USER)
    assert counts(database) == (0, 0)
    graph.with_config(CONFIG).invoke(USER)
    assert counts(database) == (1, 1)
