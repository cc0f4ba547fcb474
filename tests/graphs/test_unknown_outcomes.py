"""Calls of which nobody knows whether they took effect: which errors leave that open, and what settles it."""

import asyncio
import http.client
import operator
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Annotated, Any, TypedDict

import httpx
import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import Command, RetryPolicy

from certigraph.adapters.models.schemas import Schema, minimal_instance
from certigraph.adapters.models.scripts import ScriptedChat, current_situation
from certigraph.adapters.tools import effects
from certigraph.adapters.tools.outcomes import Once, is_ambiguous
from certigraph.graphs.agent import agent
from certigraph.state.endings import Fault
from certigraph.state.tools import calls_of

THREAD: Any = {"configurable": {"thread_id": "t"}}
PAY: Any = {"messages": [("user", "Pay ann 5 euros.")]}
HAPPENED = {"decisions": [{"type": "happened", "result": "paid ann"}]}
REPEAT = {"decisions": [{"type": "repeat"}]}


class Killed(BaseException):
    """The process ends here: no code of a graph may catch it."""


def paying(*calls: tuple[str, Any], until: str = "paid") -> ScriptedChat:
    """Return a model that makes calls one after another until the answers hold a text; then it finishes."""

    def respond(prompt: str, schema: Schema) -> Any:
        fields = schema.get("properties", {})
        if "calls" not in fields:
            return {**minimal_instance(schema), **({"tools": [name for name, _ in calls]} if "tools" in fields else {})}
        situation = current_situation()
        assert situation is not None
        made = [one for step in situation.state["history"] for one in calls_of(step.action)]
        if until in situation.state["evidence"].view or len(made) >= len(calls):
            return {"thought": "", "calls": [{"name": "finish", "args": {"answer": "done"}}]}
        name, args = calls[len(made)]
        return {"thought": "", "calls": [{"name": name, "args": args}]}

    return ScriptedChat(responder=respond)


class Bank:
    """A tool that takes effect and then fails in a chosen way, each time that it is called."""

    def __init__(self, *failures: BaseException | None) -> None:
        self.paid: list[str] = []
        self._failures = list(failures)

    def pay(self, to: str) -> str:
        """Pay somebody."""
        self.paid.append(to)
        failure = self._failures.pop(0) if self._failures else None
        if failure:
            raise failure
        return f"paid {to}"

    def agent(self, *calls: tuple[str, Any], **options: Any) -> Any:
        script = calls or [("pay", {"to": "ann"})] * 2
        given = {"checkpointer": InMemorySaver(), "commitments": None, **options}
        return agent("react", model=paying(*script), tools=[self.pay], **given)


def invoke_and_die(graph: Any, given: Any, config: Any = THREAD) -> None:
    with suppress(Killed):
        graph.invoke(given, config)


def questions_of(state: Any) -> list[Any]:
    return [one.value for one in state.get("__interrupt__", ())]


# Which errors leave it open.


@contextmanager
def listening(answer: Callable[[socket.socket], None]) -> Iterator[int]:
    """Serve one connection after another by a function; yield the port."""
    server = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        with suppress(OSError):
            while True:
                connection, _ = server.accept()
                with connection, suppress(OSError):
                    connection.recv(65536)
                    answer(connection)

    threading.Thread(target=serve, daemon=True).start()
    yield server.getsockname()[1]
    server.close()


def close(connection: socket.socket) -> None:
    connection.close()


def reset(connection: socket.socket) -> None:
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    connection.close()


def hang(connection: socket.socket) -> None:
    connection.recv(1)


def cut(connection: socket.socket) -> None:
    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf")


def by_httpx(port: int) -> Any:
    return httpx.post(f"http://127.0.0.1:{port}/", timeout=0.3).text


def by_http_client(port: int) -> Any:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=0.3)
    connection.request("POST", "/")
    return connection.getresponse().read()


def by_requests(port: int) -> Any:
    requests = pytest.importorskip("requests")
    return requests.post(f"http://127.0.0.1:{port}/", timeout=0.3).text


def by_aiohttp(port: int) -> Any:
    aiohttp = pytest.importorskip("aiohttp")

    async def post() -> Any:
        limit = aiohttp.ClientTimeout(total=0.3)
        async with aiohttp.ClientSession(timeout=limit) as session, session.post(f"http://127.0.0.1:{port}/") as answer:
            return await answer.text()

    return asyncio.run(post())


CLIENTS = (by_httpx, by_http_client, by_requests, by_aiohttp)


def error_of(call: Callable[[int], Any], port: int) -> BaseException:
    with pytest.raises(Exception) as raised:
        call(port)
    return raised.value


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("answer", [close, reset, hang, cut])
def test_a_connection_that_is_lost_after_the_request_leaves_the_outcome_open(client: Any, answer: Any) -> None:
    with listening(answer) as port:
        error = error_of(client, port)
    assert is_ambiguous(error)
    wrapped = RuntimeError("the bank failed")
    wrapped.__cause__ = error
    assert is_ambiguous(wrapped)
    assert is_ambiguous(ExceptionGroup("in a task", [error]))


@pytest.mark.parametrize("client", CLIENTS)
def test_a_refused_connection_is_a_failure(client: Any) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    assert not is_ambiguous(error_of(client, port))


@pytest.mark.parametrize(
    "error", [ValueError("no"), KeyError("x"), PermissionError("no"), httpx.ConnectTimeout("slow")]
)
def test_other_errors_are_failures(error: Exception) -> None:
    assert not is_ambiguous(error)
    assert is_ambiguous(error, (type(error),))


# What happens then.


@pytest.mark.parametrize("error", [TimeoutError("slow"), ConnectionResetError("lost"), httpx.ReadError("lost")])
@pytest.mark.parametrize(("decision", "paid"), [(HAPPENED, 1), (REPEAT, 2)])
def test_a_person_decides_about_a_call_of_unknown_outcome(error: Exception, decision: Any, paid: int) -> None:
    bank = Bank(error)
    graph = bank.agent()
    [question] = questions_of(graph.invoke(PAY, THREAD))
    assert question["type"] == "unknown_outcome"
    assert question["calls"] == [{"name": "pay", "args": {"to": "ann"}}]
    assert bank.paid == ["ann"]
    state = graph.invoke(Command(resume=decision), THREAD)
    assert (state["ending"], len(bank.paid)) == ("finished", paid)


def test_a_call_beyond_its_deadline_is_of_unknown_outcome() -> None:
    paid = []

    async def pay(to: str) -> str:
        """Pay somebody."""
        paid.append(to)
        await asyncio.sleep(30)
        return f"paid {to}"

    script = [("pay", {"to": "ann"})] * 2
    graph: Any = agent(
        "react", model=paying(*script), tools=[pay], checkpointer=InMemorySaver(), commitments=None, deadline=0.05
    )
    assert questions_of(graph.invoke(PAY, THREAD))
    assert questions_of(graph.invoke(None, THREAD))
    assert paid == ["ann"]


def test_a_failure_is_not_asked_about() -> None:
    bank = Bank(ConnectionRefusedError("nobody there"))
    state = bank.agent().invoke(PAY, THREAD)
    assert (questions_of(state), state["ending"]) == ([], "finished")


def test_without_a_checkpointer_the_agent_learns_that_the_outcome_is_unknown() -> None:
    bank = Bank(TimeoutError("slow"))
    state = bank.agent(("pay", {"to": "ann"}), checkpointer=None).invoke(PAY)
    assert (state["ending"], bank.paid) == ("finished", ["ann"])


def test_the_chain_stops_at_a_call_of_unknown_outcome() -> None:
    bank, mails = Bank(TimeoutError("slow")), []

    def mail(to: str) -> str:
        """Send a mail."""
        mails.append(to)
        return "sent"

    def respond(prompt: str, schema: Schema) -> Any:
        both = [{"name": "pay", "args": {"to": "ann"}}, {"name": "mail", "args": {"to": "ann"}}]
        return {"thought": "", "calls": both if not mails else [{"name": "finish", "args": {"answer": "done"}}]}

    graph: Any = agent(
        "react",
        model=ScriptedChat(responder=respond),
        tools=[bank.pay, mail],
        checkpointer=InMemorySaver(),
        commitments=None,
    )
    assert questions_of(graph.invoke(PAY, THREAD))
    assert mails == []
    graph.invoke(Command(resume=HAPPENED), THREAD)
    assert (bank.paid, mails) == (["ann"], ["ann"])


# A new turn after a crash.


def in_parent(inner: Any, saver: Any) -> Any:
    def work(state: MessagesState) -> Any:
        return {"messages": inner.invoke({"messages": state["messages"][-1:]})["messages"][-1:]}

    return StateGraph(MessagesState).add_node("work", work).add_edge(START, "work").compile(checkpointer=saver)


@pytest.mark.parametrize("nested", [False, True])
@pytest.mark.parametrize(("decision", "paid"), [(HAPPENED, 1), (REPEAT, 2)])
def test_a_new_turn_settles_what_the_earlier_one_left_open(decision: Any, paid: int, nested: bool) -> None:
    bank = Bank(Killed())
    graph = in_parent(bank.agent(checkpointer=None), InMemorySaver()) if nested else bank.agent()
    invoke_and_die(graph, PAY)
    [question] = questions_of(graph.invoke(PAY, THREAD))
    assert question["calls"] == [{"name": "pay", "args": {"to": "ann"}}]
    assert len(bank.paid) == 1
    assert questions_of(graph.invoke(PAY, THREAD)), "a third message does not pass by the question"
    state = graph.invoke(Command(resume=decision), THREAD)
    assert not questions_of(state)
    assert len(bank.paid) == paid
    assert not questions_of(graph.invoke(PAY, THREAD)), "what is settled is not put again"


def test_a_new_turn_is_not_asked_about_calls_that_ended() -> None:
    bank = Bank()
    graph = bank.agent()
    for _ in range(3):
        assert not questions_of(graph.invoke(PAY, THREAD))
    assert len(bank.paid) == 3


def test_calls_of_other_threads_are_not_asked_about() -> None:
    bank = Bank(Killed())
    graph = bank.agent()
    invoke_and_die(graph, PAY)
    assert not questions_of(graph.invoke(PAY, {"configurable": {"thread_id": "other"}}))


# Calls that run elsewhere.


def test_two_messages_at_once_are_two_turns() -> None:
    both, paid = threading.Barrier(2), []

    def pay(to: str) -> str:
        """Pay somebody."""
        both.wait(10)
        paid.append(to)
        return f"paid {to}"

    graph: Any = agent(
        "react", model=paying(("pay", {"to": "ann"})), tools=[pay], checkpointer=InMemorySaver(), commitments=None
    )
    endings: list[Any] = []
    threads = [threading.Thread(target=lambda: endings.append(graph.invoke(PAY, THREAD)["ending"])) for _ in range(2)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert (endings, paid) == (["finished"] * 2, ["ann"] * 2)


def test_a_call_that_runs_elsewhere_is_neither_asked_about_nor_repeated() -> None:
    bank = Bank(Killed())
    graph = bank.agent()
    invoke_and_die(graph, PAY)
    assert questions_of(graph.invoke(None, THREAD))
    begun, released = threading.Event(), threading.Event()
    real = bank.pay

    def pay(to: str) -> str:
        """Pay somebody."""
        begun.set()
        released.wait(10)
        return real(to)

    slow: Any = agent(
        "react",
        model=paying(("pay", {"to": "ann"})),
        tools=[pay],
        checkpointer=graph.checkpointer,
        commitments=None,
    )
    first = threading.Thread(target=lambda: slow.invoke(Command(resume=REPEAT), THREAD))
    first.start()
    assert begun.wait(10)
    for _ in range(3):  # the answer is delivered again while the call runs
        with pytest.raises(Fault, match="another process"):
            slow.invoke(Command(resume=REPEAT), THREAD)
    released.set()
    first.join()
    assert len(bank.paid) == 2


@pytest.mark.parametrize(("host", "running"), [("another.example", True), (socket.gethostname(), False)])
def test_a_start_in_another_process_counts_as_running_only_while_it_can_be(host: str, running: bool) -> None:
    with effects.RunningCall("pay", {}, 60) as start:
        assert start.is_running()
    assert not start.is_running()
    gone = start.model_copy(update={"host": host, "process": 2**22 + 1})
    assert gone.is_running() is running
    assert not gone.model_copy(update={"time": start.time - 61}).is_running()


# Rules of tools.


def test_the_agent_is_to_look_where_the_rule_says_so() -> None:
    bank = Bank(TimeoutError("slow"))
    graph = bank.agent(effects={"pay": Once(on_unknown="tell")})
    state = graph.invoke(PAY, THREAD)
    assert (questions_of(state), bank.paid) == ([], ["ann", "ann"])


@pytest.mark.parametrize(("found", "paid"), [(True, 1), ("paid ann, says the statement", 1), (False, 2)])
@pytest.mark.parametrize("how", ["plain", "async"])
@pytest.mark.parametrize("failure", [TimeoutError("slow"), Killed()])
def test_a_function_finds_out_whether_the_effect_happened(found: Any, paid: int, how: str, failure: Any) -> None:
    bank, consulted = Bank(failure), []

    def look(to: str) -> Any:
        consulted.append(to)
        return found

    async def look_async(to: str) -> Any:
        return look(to)

    rule = Once(on_unknown=look if how == "plain" else look_async)
    graph = bank.agent(("pay", {"to": "ann"}), effects={"pay": rule})
    invoke_and_die(graph, PAY)
    state = graph.invoke(None, THREAD)
    assert (questions_of(state), len(bank.paid)) == ([], paid if isinstance(failure, Killed) or found else 1)
    assert consulted == ["ann"]


def test_a_person_is_asked_where_the_function_finds_nothing() -> None:
    graph = Bank(TimeoutError("slow")).agent(effects={"pay": Once(on_unknown=lambda to: None)})
    assert questions_of(graph.invoke(PAY, THREAD))


def test_a_tool_declares_errors_after_which_the_outcome_is_unknown() -> None:
    class Rejected(Exception):
        pass

    for rule, consulted in ((Once(), 0), (Once(ambiguous=(Rejected,)), 1)):
        graph = Bank(Rejected("by the bank")).agent(effects={"pay": rule})
        assert len(questions_of(graph.invoke(PAY, THREAD))) == consulted


@pytest.mark.parametrize(
    ("rule", "in_turn", "in_thread", "in_all"),
    [
        (Once(), 2, 4, 6),
        (Once(key=lambda to: to), 1, 2, 3),
        (Once(scope="thread"), 1, 1, 2),
        (Once(key=lambda to: to.lower(), scope="thread"), 1, 1, 2),
        (Once(scope="store"), 1, 1, 1),
    ],
)
def test_an_effect_happens_once_within_its_scope(rule: Once, in_turn: int, in_thread: int, in_all: int) -> None:
    """Two equal calls in a turn, then a second turn, then a second thread."""
    bank = Bank()
    script = [("pay", {"to": "ann"})] * 2
    graph: Any = agent(
        "react",
        model=paying(*script, until="nothing"),
        tools=[bank.pay],
        checkpointer=InMemorySaver(),
        commitments=None,
        effects={"pay": rule},
    )
    paid = []
    for thread in "tto":
        graph.invoke(PAY, {"configurable": {"thread_id": thread}})
        paid.append(len(bank.paid))
    assert paid == [in_turn, in_thread, in_all]


def test_the_agent_reads_the_first_answer_of_a_call_that_is_not_made_again() -> None:
    bank = Bank()
    graph = bank.agent(effects={"pay": Once(scope="thread")})
    graph.invoke(PAY, THREAD)
    graph.invoke(PAY, THREAD)
    view = graph.get_state(THREAD).values["evidence"].view
    assert bank.paid == ["ann"]
    assert view.endswith("paid ann")
    assert view.count("\n") == 2


# Retries by a graph around the agent.


class Work(TypedDict, total=False):
    failures: int
    answers: Annotated[list[str], operator.add]


@pytest.mark.parametrize("agents", [1, 2])
def test_a_retried_node_does_not_repeat_the_effects_of_its_agents(agents: int) -> None:
    bank, failures = Bank(), [ConnectionError("the node failed after its agents")] * 2
    inner = bank.agent(("pay", {"to": "ann"}), checkpointer=None)

    def work(state: Work) -> Work:
        answers = [inner.invoke(PAY)["messages"][-1].text for _ in range(agents)]
        if failures:
            raise failures.pop()
        return {"answers": answers}

    policy = RetryPolicy(max_attempts=5, initial_interval=0.001)
    builder = StateGraph(Work).add_node("work", work, retry_policy=policy).add_edge(START, "work")
    graph = builder.compile(checkpointer=InMemorySaver())
    assert graph.invoke({}, THREAD)["answers"] == ["done"] * agents
    assert bank.paid == ["ann"] * agents
