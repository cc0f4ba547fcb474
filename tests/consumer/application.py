"""A small application that uses certigraph as README shows. Type checkers and a test read it; nothing imports it.

A panel of lamps is a world of its own: some operators of its benchmark need no model, so that it runs in a moment.
"""

import json
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypedDict

from langchain_core.language_models import BaseChatModel, FakeListChatModel
from langchain_core.runnables import RunnableConfig, RunnableLambda
from langchain_core.tools import BaseTool, tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.runtime import Runtime
from langgraph.types import Command
from pydantic import BaseModel

import certigraph
from certigraph import (
    Action,
    Benchmark,
    Budget,
    Case,
    Choice,
    Context,
    Dag,
    Entity,
    Environment,
    Episode,
    FactoredState,
    FaultyEnvironment,
    FaultyModel,
    Limits,
    Node,
    Observation,
    Operator,
    Predicate,
    Progress,
    Result,
    Schemas,
    Scores,
    Task,
    Tools,
    Verdict,
    always_pass,
    capped,
    exhaustion_gate,
    give_up,
    recheck,
    votes,
    world_check,
)
from certigraph.graphs import react, sdp, step, tdp
from certigraph.graphs.agent import METHODS, AgentGraph
from certigraph.state.sdp import ValidateView

# Contexts, budgets and limits. No field has to be given.

local = Context(model="local", data="DIR")
budget = Budget(calls=40)
limits = Limits()
small = Context(model="openai:gpt-4o-mini", budget=Budget(usd=0.5, seconds=60), limits=Limits(steps=20, trials=2))
roles = Context(roles={"validator": "openai:gpt-4o"}, memory="lessons", cache="replies", faults="timeout=0.1", trial=1)
empty = Context()
chat: BaseChatModel = FakeListChatModel(responses=["{}"])
live = Context(chat=chat)
faulty = Context(chat=FaultyModel(chat=chat, faults="timeout=0.1,seed=3"), benchmark=None, callbacks=[])

# Records that operators return, and choices of an evaluation.

look = Node(id="look", task="Where was Jorin Meredal born?")
graph_of_tasks = Dag(nodes=(look, Node(id="goal", task="Which county does that place belong to?", needs=("look",))))
progress = Progress(status="completed", result="Mera County")
wanted = FactoredState(entities=(Entity(identity="apple 3", attributes={"place": "fridge"}), Entity(identity="fridge")))
choice = Choice(ids=["4-0"], trials=2)
recorded = Task(benchmark="rewardprediction", id="mine", goal="put it in", constants={"steps": [{"action": "go"}]})


# A world of one's own.


class Panel(Environment):
    """A row of lamps. An action names the lamp whose switch is pressed."""

    def __init__(self, lamps: int) -> None:
        self.lit = [False] * lamps

    def reset(self) -> Observation:
        self.lit = [False] * len(self.lit)
        return Observation(text=self.view())

    def step(self, action: Action) -> Observation:
        number = action.args.get("lamp")
        if not isinstance(number, int) or not 0 <= number < len(self.lit):
            return Observation(text=f"There is no lamp {number}.", accepted=False)
        self.lit[number] = not self.lit[number]
        return Observation(text=self.view(), reward=1.0, done=all(self.lit), solved=all(self.lit))

    def view(self) -> str:
        return "\n".join(f"lamp {number} is {'on' if lit else 'off'}" for number, lit in enumerate(self.lit))

    def score(self) -> Scores:
        return Scores(value=sum(self.lit) / len(self.lit), parts={"lit": sum(self.lit)})


class Lamps(Benchmark):
    """Tasks of one to three lamps."""

    name = "lamps"
    briefing = "Press each switch once."
    limits = Limits(attempts=2, steps=10)
    signals_goal = True
    instant = True

    def tasks(self, split: str = "") -> Sequence[Task]:
        return [Task(benchmark=self.name, id=str(count), goal=f"{count} lamps are on") for count in range(1, 4)]

    def open(self, task: Task) -> Environment:
        return Panel(int(task.id))

    def operators(self) -> Mapping[str, Operator]:
        return {"propose": propose, "realize": realize, "validate": validate}


fragile: Environment = FaultyEnvironment(Panel(2), "crash=0.1")


async def propose(state: Mapping[str, Any], runtime: Runtime[Context]) -> dict[str, Any]:
    count = int(state["task"].id)
    return {"plan": [Predicate(text=f"lamp {n} is on", args={"lamp": n}) for n in range(count)]}


async def realize(state: Mapping[str, Any], runtime: Runtime[Context]) -> dict[str, Any]:
    number = state["target"].args["lamp"]
    return {"action": Action(text=f"press {number}", args={"lamp": number})}


async def validate(state: ValidateView, runtime: Runtime[Context]) -> dict[str, Verdict]:
    """Certify one predicate at a time, and only what the observation says word for word."""
    held = state["tail"][0].text in state["observation"].text.splitlines()
    return {"verdict": Verdict(depth=int(held), reason="word for word")}


# The forms of an operator.


def plain(state: ValidateView, runtime: Runtime[Context]) -> dict[str, Any]:
    return {"verdict": Verdict(depth=0)}


def without_runtime(state: Any) -> Mapping[str, Verdict]:
    return {"verdict": Verdict(depth=0)}


async def with_depth(depth: int, state: ValidateView, runtime: Runtime[Context]) -> dict[str, Any]:
    return {"verdict": Verdict(depth=depth)}


class Judge:
    def __call__(self, state: Any, runtime: Runtime[Context]) -> Awaitable[dict[str, Verdict]]:
        return validate(state, runtime)

    async def method(self, state: Any, runtime: Runtime[Context]) -> dict[str, Any]:
        context = runtime.context
        model: BaseChatModel | None = context.chat
        world: Benchmark | None = context.benchmark
        return {"verdict": Verdict(depth=0, reason=f"{model} {world.name if world else ''}")}


forms: Sequence[Operator] = [
    validate,
    plain,
    without_runtime,
    partial(with_depth, 1),
    Judge(),
    Judge().method,
    RunnableLambda(without_runtime),
]


# Graphs with exchanged operators.


def build_all() -> list[str]:
    graphs = (
        sdp.build(),
        sdp.build(validate=always_pass, replan=give_up),
        sdp.build(validate=capped(depth=1), gate=exhaustion_gate(jaccard=0.6)),
        sdp.build(validate=capped(validate, depth=1), audit=votes(k=2, n=3), revalidate=recheck()),
        sdp.build(audit=world_check(), checkpointer=InMemorySaver(serde=certigraph.serializer())),
        react.build(memory="structured"),
        step.build(),
        tdp.build(solve=sdp.build(validate=validate)),
    )
    return [graph.name for graph in graphs]


def use_python(out: Path) -> dict[str, Any]:
    script = Context(model="scripted:expert")
    result: Result = certigraph.run("sdp", "blocksworld", "4-0", context=script, out=out)
    mine = certigraph.run(sdp.build(validate=validate), Lamps(), "3", context=Context(budget=budget), out=out)
    state = sdp.graph.invoke({"task": {"benchmark": "blocksworld", "id": "4-0"}}, context=script)
    same = sdp.graph.invoke({"task": Task(benchmark="lamps", id="2")}, context=Context(benchmark=Lamps()))
    names = [predicate.text for predicate in result.states[-1].predicates]
    plan: Sequence[Predicate] = mine.state["plan"]
    return {
        "endings": [result.ending, mine.ending],
        "credit": [*result.credit, *mine.credit],
        "scores": [run.scores.value if run.scores else None for run in (result, mine)],
        "plan": [predicate.text for predicate in plan],
        "certified": len(names),
        "certificates": [len(state["certificates"]), len(same["certificates"])],
        "seconds": result.usage.seconds >= 0,
    }


# An agent over tools of one's own, with approvals, a form of the answer, and further keys of the state.


def look_up(order: int) -> str:
    """Look up an order."""
    return f"order {order}: 49.9 euros, eligible"


async def refund(order: int, amount: float) -> dict[str, float]:
    """Refund an order."""
    return {"order": order, "amount": amount}


@tool
def send_mail(address: str, body: str) -> str:
    """Send a mail."""
    return f"mail sent to {address}"


class Refunded(BaseModel):
    answer: str
    amount: float = 0.0


class Ticket(TypedDict, total=False):
    ticket: str


async def note_ticket(state: Mapping[str, Any], runtime: Runtime[Context]) -> dict[str, Any]:
    return {"ticket": state.get("ticket", "none")}


def count_refunds(episode: Episode) -> bool:
    return [call.name for call in episode.calls].count("refund") == 1 and episode.case.expected == episode.answer


cases: Sequence[Case] = [
    Case(goal="Refund order 17.", expected="done", constants={"order": 17}),
    Case(goal="Say hello."),
]
world: Benchmark = Tools([look_up, refund, send_mail], [*cases, "Say hello."], check=count_refunds)
tools: Sequence[BaseTool | Callable[..., Any]] = [look_up, refund, send_mail]


def build_agents() -> list[AgentGraph]:
    saver = InMemorySaver(serde=certigraph.serializer(Refunded))
    full = certigraph.agent(
        "sdp",
        model=chat,
        tools=[look_up, refund, send_mail],
        effects={"look_up": "repeatable"},
        interrupt_on={"refund": True, "send_mail": {"allowed_decisions": ["approve", "reject"]}},
        response_format=Refunded,
        state_schema=Ticket,
        budget=Budget(calls=20),
        limits=Limits(steps=20),
        checkpointer=saver,
        validate=votes_once,
        audit=votes(k=2, n=3),
    )
    return [full, *(certigraph.agent(method, model="local", tools=tools) for method in METHODS)]


def votes_once(state: ValidateView, runtime: Runtime[Context]) -> dict[str, Verdict]:
    return {"verdict": Verdict(depth=int(state["action"].kind == "answer"))}


def extend_graph() -> list[str]:
    extended = sdp.builder(Schemas(state=Ticket), validate=validate).insert(
        "note", note_ticket, between=("reset", "propose")
    )
    ended = react.builder().insert("note", note_ticket, between=("decide", "act"))
    return [*extended.compile(name="sdp").nodes, *ended.nodes]


def use_agent(graph: AgentGraph) -> list[str]:
    thread: RunnableConfig = {"configurable": {"thread_id": "1"}}
    state = graph.invoke({"messages": [("user", "Refund order 17.")], "ticket": "a"}, thread, context=small)
    while waiting := state.get("__interrupt__"):
        decisions = [{"type": "approve"} for _ in waiting[0].value["action_requests"]]
        state = graph.invoke(Command(resume={"decisions": decisions}), thread)
    return [str(state["ending"]), state["messages"][-1].text]


def use_ask(question: str, out: Path) -> str:
    answer = certigraph.ask(question, search="generated", context=Context(model="scripted:expert"), out=out)
    return answer.ending


def main(question: str, out: Path) -> None:
    agents = [graph.name for graph in build_agents()]
    extended = sum(name == "note" for name in extend_graph())
    built = {"graphs": build_all(), "agents": agents, "extended": extended}
    print(json.dumps({**use_python(out), **built, "ask": use_ask(question, out)}))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
