"""A paying agent, invoked in every way in which LangGraph lets one graph invoke another, twice in each run."""

import asyncio
import operator
import re
import sqlite3
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, TypedDict, get_args

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import StructuredTool
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import Command, Send

from certigraph.adapters.models.schemas import Schema
from certigraph.adapters.models.scripts import ScriptedChat, current_situation
from certigraph.adapters.tools.effects import ANSWER, EFFECTS_NAMESPACE
from certigraph.graphs.agent import agent
from certigraph.state.tools import calls_of

Form = Literal["node", "function", "create_agent", "deepagents", "agent"]
FORMS: tuple[Form, ...] = get_args(Form)
Mode = Literal["sequential", "parallel"]
MODES: tuple[Mode, ...] = get_args(Mode)
Arguments = Literal["equal", "different"]
ARGUMENTS: tuple[Arguments, ...] = get_args(Arguments)

REQUESTS: Mapping[Arguments, Sequence[str]] = {
    "equal": ("Pay 5 to ann.", "Pay 5 to ann."),
    "different": ("Pay 5 to ann.", "Pay 7 to bob."),
}
PAUSE = 0.02
"""Seconds for which the bank waits before and after a payment, so that kills happen inside of calls as well."""


class Bank:
    """A tool that pays. Every payment leaves a row, whose number is its receipt."""

    def __init__(self, path: Path, *, before: Callable[[str], None] = lambda moment: None) -> None:
        self._path, self._before = path, before
        with self._open() as base:
            base.execute("CREATE TABLE IF NOT EXISTS payments (receipt INTEGER PRIMARY KEY, amount INTEGER, name TEXT)")

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        base = sqlite3.connect(self._path, isolation_level=None, timeout=30)
        try:
            yield base
        finally:
            base.close()

    def pay(self, amount: int, name: str) -> str:
        """Pay somebody."""
        self._before("pay")
        with self._open() as base:
            receipt = base.execute("INSERT INTO payments (amount, name) VALUES (?, ?)", (amount, name)).lastrowid
        self._before("paid")
        return f"paid {amount} to {name}, receipt {receipt}"

    def rows(self) -> list[tuple[int, int, str]]:
        """Return receipt, amount and name of each payment."""
        with self._open() as base:
            return base.execute("SELECT receipt, amount, name FROM payments ORDER BY receipt").fetchall()


# The paying agent, and what invokes it.


def _pay_as_requested(prompt: str, schema: Schema) -> Any:
    situation = current_situation()
    assert situation is not None
    amount, name = re.findall(r"Pay (\d+) to (\w+)", situation.state["task"].goal)[-1]
    if found := re.search(r"paid .*", situation.state["evidence"].view):
        return {"thought": "", "calls": [{"name": "finish", "args": {"answer": found[0]}}]}
    return {"thought": "", "calls": [{"name": "pay", "args": {"amount": int(amount), "name": name}}]}


def paying_agent(bank: Bank, *, approved: bool = False, saver: Any = None) -> Any:
    """Return the agent that pays once for each request and answers with the receipt."""
    options: Any = {"interrupt_on": {"pay": True}} if approved else {}
    model = ScriptedChat(responder=_pay_as_requested)
    options |= {"commitments": None, "check": None, "audit": None}  # what judges calls and answers is another subject
    return agent("react", model=model, tools=[bank.pay], name="payer", checkpointer=saver, **options)


def _delegating_tool(inner: Any) -> StructuredTool:
    def delegate(description: str) -> str:
        """Have somebody pay."""
        return str(inner.invoke({"messages": [("user", description)]})["messages"][-1].text)

    async def adelegate(description: str) -> str:
        return str((await inner.ainvoke({"messages": [("user", description)]}))["messages"][-1].text)

    return StructuredTool.from_function(delegate, adelegate, name="delegate")


class Outside(BaseChatModel):
    """A model of an agent around: it delegates the requests, together or one after another, and reports the answers."""

    requests: Sequence[str]
    mode: Mode
    tool: str
    extra: Mapping[str, str] = {}

    @property
    def _llm_type(self) -> str:
        return "outside"

    def bind_tools(self, tools: Any, **kwargs: Any) -> Any:
        return self

    def _generate(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> ChatResult:
        answers = [one.text for one in messages if one.type == "tool"]
        left = list(enumerate(self.requests))[len(answers) :][: None if self.mode == "parallel" else 1]
        if left:
            calls: list[Any] = [
                {"name": self.tool, "args": {"description": text, **self.extra}, "id": f"call-{number}"}
                for number, text in left
            ]
            reply = AIMessage("", tool_calls=calls)
        else:
            reply = AIMessage("\n".join(answers))
        return ChatResult(generations=[ChatGeneration(message=reply)])


def _delegate_as_requested(requests: Sequence[str], mode: Mode) -> Any:
    def respond(prompt: str, schema: Schema) -> Any:
        situation = current_situation()
        assert situation is not None
        made = [call for step in situation.state["history"] for call in calls_of(step.action)]
        left = list(requests)[len(made) :][: None if mode == "parallel" else 1]
        if left:
            return {"thought": "", "calls": [{"name": "delegate", "args": {"description": text}} for text in left]}
        answers = re.findall(r"paid .*", situation.state["evidence"].view)
        return {"thought": "", "calls": [{"name": "finish", "args": {"answer": "\n".join(answers)}}]}

    return ScriptedChat(responder=respond)


class Answers(TypedDict, total=False):
    request: str
    answers: Annotated[list[str], operator.add]


class Setting(NamedTuple):
    """One way in which the paying agent is invoked twice."""

    form: Form
    mode: Mode
    arguments: Arguments
    approved: bool = False

    @property
    def requests(self) -> Sequence[str]:
        """The two requests."""
        return REQUESTS[self.arguments]

    def build(self, bank: Bank, saver: Any) -> Any:
        """Return the outermost graph, which takes `{}` or messages."""
        inner = paying_agent(bank, approved=self.approved)
        match self.form:
            case "node":
                return self._build_nodes(inner, saver)
            case "function":
                return self._build_function(inner, saver)
            case "create_agent":
                from langchain.agents import create_agent

                outside = Outside(requests=self.requests, mode=self.mode, tool="delegate")
                return create_agent(outside, [_delegating_tool(inner)], checkpointer=saver)
            case "deepagents":
                from deepagents import create_deep_agent

                extra = {"subagent_type": "payer"}
                outside = Outside(requests=self.requests, mode=self.mode, tool="task", extra=extra)
                payer: Any = {"name": "payer", "description": "It pays.", "runnable": inner}
                return create_deep_agent(model=outside, tools=[], subagents=[payer], checkpointer=saver)
            case "agent":
                model = _delegate_as_requested(self.requests, self.mode)
                tools = [_delegating_tool(inner)]
                return agent(
                    "react", model=model, tools=tools, commitments=None, check=None, audit=None, checkpointer=saver
                )

    def _build_nodes(self, inner: Any, saver: Any) -> Any:
        builder: Any = StateGraph(MessagesState)
        given = [{"messages": [("user", text)]} for text in self.requests]
        if self.mode == "parallel":
            builder.add_node("payer", inner)
            builder.add_conditional_edges(START, lambda state: [Send("payer", one) for one in given], ["payer"])
            return builder.compile(checkpointer=saver)
        before = START
        for number, one in enumerate(given):
            builder.add_node(f"ask{number}", lambda state, one=one: one)
            builder.add_node(f"payer{number}", inner)
            builder.add_edge(before, f"ask{number}")
            builder.add_edge(f"ask{number}", f"payer{number}")
            before = f"payer{number}"
        return builder.compile(checkpointer=saver)

    def _build_function(self, inner: Any, saver: Any) -> Any:
        def work(state: Answers) -> Answers:
            texts = [state["request"]] if "request" in state else self.requests
            return {"answers": [inner.invoke({"messages": [("user", one)]})["messages"][-1].text for one in texts]}

        async def awork(state: Answers) -> Answers:
            texts = [state["request"]] if "request" in state else self.requests
            runs = [inner.ainvoke({"messages": [("user", one)]}) for one in texts]
            found = await asyncio.gather(*runs) if self.mode == "parallel" else [await run for run in runs]
            return {"answers": [one["messages"][-1].text for one in found]}

        from langgraph.utils.runnable import RunnableCallable

        builder: Any = StateGraph(Answers).add_node("work", RunnableCallable(work, awork))
        if self.mode == "parallel":
            builder.add_conditional_edges(
                START, lambda state: [Send("work", {"request": one}) for one in self.requests], ["work"]
            )
        else:
            builder.add_edge(START, "work")
        return builder.compile(checkpointer=saver)

    @property
    def given(self) -> Any:
        """The input of the outermost graph."""
        return {} if self.form == "function" else {"messages": [("user", "Have both paid.")]}

    def answers(self, state: Any) -> list[str]:
        """Return what the paying agents answered, in the order of the requests."""
        if self.form == "function":
            return list(state["answers"])
        if self.form == "node":
            return [one.text for one in state["messages"] if one.type == "ai" and one.text]
        return str(state["messages"][-1].text).splitlines()

    def check(self, bank: Bank, answers: Sequence[str]) -> None:
        """Assert that each request was paid once, and that each answer is that of its own payment."""
        wanted = [re.findall(r"Pay (\d+) to (\w+)", text)[0] for text in self.requests]
        rows = bank.rows()
        assert sorted((str(amount), name) for _, amount, name in rows) == sorted(wanted), rows
        receipts = {f"paid {amount} to {name}, receipt {receipt}" for receipt, amount, name in rows}
        assert set(answers) == receipts, (answers, rows)
        assert [re.findall(r"paid (\d+) to (\w+)", one)[0] for one in answers] == wanted, answers


# Resuming, with what a person would find out.


def delivered_receipts(saver: BaseCheckpointSaver[Any], thread: str) -> set[int]:
    """Return the receipts of the payments whose answers are in the ledger."""
    place: Any = {"configurable": {"thread_id": thread, "checkpoint_ns": EFFECTS_NAMESPACE}}
    values = [one.checkpoint["channel_values"] for one in saver.list(place)]
    texts = [str(answer) for entry in values for name, answer in entry.items() if name.startswith(ANSWER)]
    return {int(number) for text in texts for number in re.findall(r"receipt (\d+)", text)}


def decide(question: Any, bank: Bank, taken: set[int]) -> Any:
    """Answer a question truthfully: whether the calls happened, by the rows of the bank, or that they are approved.

    Args:
        question: value of the interrupt.
        bank: the bank.
        taken: receipts that belong to other calls; those that are given out are added.
    """
    if "action_requests" in question:
        return {"decisions": [{"type": "approve"} for _ in question["action_requests"]]}
    decisions = []
    for call in question["calls"]:
        decisions.append({"type": "repeat"})
        for receipt, amount, name in bank.rows():
            if call["args"] == {"amount": amount, "name": name} and receipt not in taken:
                taken.add(receipt)
                decisions[-1] = {"type": "happened", "result": f"paid {amount} to {name}, receipt {receipt}"}
                break
    return {"decisions": decisions}


def finish(graph: Any, bank: Bank, config: Any) -> tuple[Any, int]:
    """Resume a thread until it has ended; return its state and the number of questions that were put."""
    answered = 0
    for _ in range(20):
        state = graph.get_state(config)
        if not state.tasks:
            return state.values, answered
        questions = {one.id: one.value for one in state.interrupts}
        answered += len(questions)
        taken = delivered_receipts(graph.checkpointer, config["configurable"]["thread_id"])
        answers = {id_: decide(question, bank, taken) for id_, question in questions.items()}
        graph.invoke(Command(resume=answers) if answers else None, config)
    raise AssertionError("the thread does not end")


# Runs in child processes that are killed.


class KilledPayments(NamedTuple):
    """A run in a folder of its own, in a process that may be killed at any moment."""

    setting: Setting
    folder: Path
    server: str = ""
    """Address of a Postgres server for the checkpoints; empty for a file."""

    @property
    def bank(self) -> Bank:
        """The bank of this run."""
        return Bank(self.folder / "bank.sqlite", before=lambda moment: time.sleep(PAUSE))

    def count(self, name: str) -> int:
        """Lines that the children have written to a file."""
        path = self.folder / name
        return len(path.read_text().splitlines()) if path.exists() else 0

    def note(self, name: str, line: str = "x") -> None:
        """Write a line to a file."""
        with (self.folder / name).open("a") as file:
            file.write(f"{line}\n")


@contextmanager
def open_saver(kind: str, folder: Path) -> Iterator[BaseCheckpointSaver[Any]]:
    """Open a checkpointer with LangGraph's own serializer: "memory", "sqlite", or the address of a Postgres server."""
    if kind == "memory":
        yield InMemorySaver()
    elif kind == "sqlite":
        connection = sqlite3.connect(folder / "checkpoints.sqlite", check_same_thread=False, timeout=30)
        yield SqliteSaver(connection)
        connection.close()
    else:
        from langgraph.checkpoint.postgres import PostgresSaver

        with PostgresSaver.from_conn_string(kind) as saver:
            saver.setup()
            yield saver


def carry_payments(run: KilledPayments) -> None:
    """Begin a run, or go on with it, until it ends."""
    run.note("started")
    config: Any = {"configurable": {"thread_id": str(run.folder)}}
    with open_saver(run.server or "sqlite", run.folder) as saver:
        graph, bank = run.setting.build(run.bank, saver), run.bank
        if saver.get_tuple(config) is None:
            graph.invoke(run.setting.given, config)
        state, answered = finish(graph, bank, config)
        for _ in range(answered):
            run.note("questions")
        for answer in run.setting.answers(state):
            run.note("answers", answer)
    run.note("ended")


def carry_in_child(run: KilledPayments, fork: Any, seconds: float | None = None) -> float:
    """Carry a run in a child process, which is killed after some seconds; return how long it ran."""
    before = run.count("started")
    child = fork.Process(target=carry_payments, args=(run,), daemon=True)
    child.start()
    while child.is_alive() and run.count("started") == before:
        time.sleep(0.001)
    begun = time.monotonic()
    child.join(seconds)
    if seconds is not None:
        with suppress(ProcessLookupError):
            child.kill()
        child.join()
    return time.monotonic() - begun
