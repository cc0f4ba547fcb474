"""CGDP's gate over messages: whether the tool calls of an agent still bring anything new (CGDP section 5.2).

`judge_rounds` applies a gate of `nodes.gates` to the responses with tool calls in a conversation, and `gate` is a node
for the graph of anybody's own, with the router `after_gate`. What counts is a function of the messages. The state holds
the gate's latest assessment only, so that a gate which asks a model asks it once a round.
"""

from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence
from functools import partial
from typing import Any, Literal, NotRequired

from langchain_core.documents import Document
from langchain_core.messages import AnyMessage, ToolMessage
from langchain_core.runnables import RunnableConfig
from langgraph.runtime import Runtime
from langgraph.utils.runnable import RunnableCallable  # type: ignore[attr-defined]
from typing_extensions import TypedDict

from certigraph.adapters.models.scripts import ScriptedChat
from certigraph.adapters.processes import wait_for_node
from certigraph.adapters.protocols import Context, Operator
from certigraph.adapters.tools.contents import format_content, text_of_message
from certigraph.adapters.tools.effects import ToolAnswer
from certigraph.nodes.conversations import (
    GO_ON,
    NOT_DONE,
    ToolRound,
    answered_calls,
    find_turn,
    is_made,
    is_note,
    rounds_in,
    to_call,
)
from certigraph.nodes.gates import exhaustion_gate
from certigraph.nodes.operators import call_operator
from certigraph.nodes.outside_agents import Model, OutsideAgent, OutsideEffects, no_tools
from certigraph.nodes.requests import requests_in
from certigraph.nodes.tools import observe
from certigraph.state.channels import LogIndexes
from certigraph.state.endings import Fault
from certigraph.state.records import Observation, Task
from certigraph.state.run import Evidence, SearchRound, Stagnation, create_turn, digest_lines, round_of
from certigraph.state.search import GateView, answer_view
from certigraph.state.tools import REQUEST_ID, TOOLS_NAME

RECORDS_KEY = "certigraph"
"""Key of a graph's state in which these nodes keep what the messages do not hold, as plain JSON."""


class MessageState(TypedDict):
    """What nodes over messages read. A graph whose state has no key `certigraph` gets it with the first such node."""

    messages: list[AnyMessage]
    certigraph: NotRequired[dict[str, Any]]


class MessageNode(RunnableCallable):
    """A node over the messages of a graph, for `invoke` and `ainvoke`.

    Args:
        function: the node as an async function.
        name: its name.
    """

    def __init__(self, function: Callable[[Any, Runtime[Any]], Coroutine[Any, Any, dict[str, Any]]], name: str) -> None:
        def node(state: MessageState, runtime: Runtime[Any]) -> dict[str, Any]:
            return wait_for_node(function(state, runtime))

        async def anode(state: MessageState, runtime: Runtime[Any]) -> dict[str, Any]:
            return await function(state, runtime)

        super().__init__(node, anode, name=name, trace=False)

    def __call__(self, state: MessageState, config: RunnableConfig | None = None) -> dict[str, Any]:
        """Run the node. LangGraph reads here which part of the state it takes."""
        update: dict[str, Any] = self.invoke(state, config)
        return update


def records_of(state: Mapping[str, Any]) -> dict[str, Any]:
    """Return what nodes over messages keep in a state."""
    return dict(state.get(RECORDS_KEY) or {})


# The rounds of a turn, as a gate reads them.


def start_of_rounds(messages: Sequence[AnyMessage]) -> int:
    """Return the place from which rounds are counted: the latest request, or a note after it that sent work back.

    A person's new message starts the count again, since it asks for something, often for the same look-up once more.
    """
    turn = find_turn(messages)
    notes = (at for at, one in enumerate(messages) if is_note(one, NOT_DONE) or is_note(one, GO_ON))
    return max(turn, *notes, 0)


def counted_rounds(messages: Sequence[AnyMessage], exempt: Collection[str] = ()) -> list[ToolRound]:
    """Return the answered responses with tool calls that a gate counts, in order.

    Args:
        messages: a conversation, or a part of it.
        exempt: names of tools, such as one that waits for something. A response that calls no other tool is left out.
    """
    rounds = (one for one in rounds_in(messages) if not one.open)
    return [one for one in rounds if not all(call["name"] in exempt for call in one.calls)]


def rounds_since_progress(
    messages: Sequence[AnyMessage], effects: OutsideEffects, exempt: Collection[str] = ()
) -> list[ToolRound]:
    """Return the rounds that a gate counts, from the latest one on in which a call did something new.

    Calls of tools that change nothing find something new or not, which the gate judges. A tool of which nobody says
    what it changes may do something, unless it returned documents.

    Args:
        messages: a conversation, or a part of it.
        effects: what the user says of the tools.
        exempt: as for `counted_rounds`.
    """
    rounds, known, start = counted_rounds(messages, exempt), set[str](), 0
    for number, one in enumerate(rounds, 1):
        for call, answer in zip(one.calls, one.answers, strict=True):
            digest = to_call(call).digest()
            acts = effects.given.get(call["name"]) != "repeatable" and answer is not None and not _documents_of(answer)
            if acts and digest not in known and answer and is_made(answer) and answer.status != "error":
                start = number
            known.add(digest)
    return rounds[max(start - 1, 0) :]


def observation_of(one: ToolRound) -> Observation:
    """Return what a round brought up, as the node `act` of certigraph's own agents observes it.

    Where a tool returned LangChain documents as its artifact, the documents are the sources, by their ids or else by
    what they say.
    """
    calls = [
        (to_call(call).model_copy(update={} if is_made(answer) else {"refused": str(answer.content)}), answer)
        for call, answer in zip(one.calls, one.answers, strict=True)
        if answer
    ]
    pairs = [
        (call, ToolAnswer(text=format_content(answer.content), failed=answer.status == "error"))
        for call, answer in calls
    ]
    observation, found = observe(pairs), [_documents_of(answer) for _, answer in calls]
    if not any(found):
        return observation
    others = [pair for pair, documents in zip(pairs, found, strict=True) if not documents]
    sources = [source for documents in found for source in documents]
    return observation.model_copy(
        update={"sources": (*sources, *(digest_lines(observe(others).text) if others else ()))}
    )


def _documents_of(answer: ToolMessage) -> list[str]:
    """Return the ids of the documents that a tool returned, or digests of their texts; empty if it returned none."""
    listed = answer.artifact if isinstance(answer.artifact, list) else []
    if not all(isinstance(one, Document) for one in listed):
        return []
    return [one.id or "".join(digest_lines(one.page_content)) for one in listed]


def measure_rounds(rounds: Sequence[ToolRound]) -> list[SearchRound]:
    """Return the signals of progress of rounds: how similar their calls are, and how much of the answers is new."""
    return [*_measured_in([one for round_ in rounds for one in (round_.message, *round_.answers) if one]).rounds]


class _MeasuredRounds:
    """Index of the messages of rounds: their signals. Without it each round would be measured at every later one."""

    def __init__(self) -> None:
        self.rounds: list[SearchRound] = []

    def add(self, messages: Sequence[AnyMessage]) -> None:
        for one in rounds_in(messages):
            self.rounds.append(round_of(one.action, observation_of(one), self.rounds))


_measured_in: LogIndexes[AnyMessage, _MeasuredRounds] = LogIndexes(_MeasuredRounds)


# The gate.


class TurnStagnation(Stagnation):
    """A gate's assessment of the rounds of a turn."""

    stops: int = 0
    """Number of the latest rounds in a row after which the gate would stop."""
    round: str = ""
    """Identifies the latest round that was judged; empty before the first."""


def stagnation_in(state: Mapping[str, Any]) -> TurnStagnation:
    """Return the latest assessment that a state holds; an empty one before the first round."""
    return TurnStagnation.model_validate(records_of(state).get("stagnation") or {})


def stagnation_of_rounds(state: Mapping[str, Any], rounds: Sequence[ToolRound]) -> TurnStagnation:
    """Return the latest assessment that a state holds, if it is one of these rounds, else an empty one."""
    found = stagnation_in(state)
    return found if found.round in [one.key for one in rounds] else TurnStagnation()


async def judge_rounds(
    rounds: Sequence[ToolRound],
    before: TurnStagnation,
    operator: Operator,
    runtime: Runtime[Any],
    *,
    messages: Sequence[AnyMessage] = (),
    model: Model | None = None,
) -> TurnStagnation:
    """Apply a gate to each round that it has not judged yet.

    Args:
        rounds: the rounds that count.
        before: the assessment of one of them, or an empty one.
        operator: the gate.
        runtime: the node's runtime.
        messages: the conversation, for gates that ask a model.
        model: the model that such a gate asks.
    """
    keys, found = [one.key for one in rounds], before
    done = keys.index(before.round) + 1 if before.round else 0
    measured = measure_rounds(rounds) if done < len(rounds) else []
    for number in range(done, len(rounds)):
        # what only models read is not made for a gate without one
        read = rounds[: number + 1] if model else ()
        view = _gate_view(measured[: number + 1], found, read, messages)
        judged = (await _call_gate(operator, view, runtime, model))["stagnation"]
        stops = found.stops + 1 if judged.stop else 0
        found = TurnStagnation(**{**judged.model_dump(), "stops": stops, "round": keys[number]})
    return found


def _gate_view(
    measured: Sequence[SearchRound], before: Stagnation, read: Sequence[ToolRound], messages: Sequence[AnyMessage]
) -> GateView:
    """Return the view of a gate after a round. The task is the latest request alone.

    Args:
        measured: the signals of the rounds, the latest last.
        before: the assessment after the one before the latest.
        read: the rounds that are shown as turns and answers.
        messages: the conversation.
    """
    goal = "\n".join(map(text_of_message, requests_in(messages)[-1:]))
    known: dict[str, Any] = {
        "task": Task(benchmark=TOOLS_NAME, id=REQUEST_ID, goal=goal),
        "turns": [create_turn(text_of_message(one.message), one.action, observation_of(one)) for one in read],
        "answers": answered_calls(read, lambda tool: True),
        "evidence": Evidence(),
    }
    return {**answer_view(known), "rounds": measured, "stagnation": before}


async def _call_gate(operator: Operator, view: Any, runtime: Runtime[Any], model: Model | None) -> dict[str, Any]:
    if model is None:
        return await call_operator(operator, view, Runtime(context=NO_MODEL))
    update, _ = await OutsideAgent(no_tools(), model).call("gate", partial(call_operator, operator), view, runtime)
    return update


def _miss_model(prompt: str, schema: Any) -> str:
    raise Fault("operator", "this gate asks a model, and it has none: give model= together with it")


NO_MODEL = Context(chat=ScriptedChat(responder=_miss_model))
"""The context of a gate that has no model."""


# The gate as a node.


def gate(operator: Operator | None = None, *, exempt: Collection[str] = (), model: Model | None = None) -> MessageNode:
    """Return a node that judges whether the tool calls since the latest request still bring anything new.

    It stands after the tools, reads `messages` and writes `{"certigraph": {"stagnation": {...}}}`: plain JSON with
    `stop`, the `streak` of rounds without anything new, and the `reason`. Edges come from `after_gate`:

        graph.add_node("gate", gate())
        graph.add_edge("tools", "gate")
        graph.add_conditional_edges("gate", after_gate, {"continue": "agent", "stop": END})

    Args:
        operator: a gate of `nodes.gates` or of the user's own; None for `exhaustion_gate()`, which asks no model.
        exempt: names of tools. A response that calls no other tool is not counted.
        model: the model that a gate asks. A gate without one reads the rounds and the request, and no turns or answers.
    """
    judge = operator or exhaustion_gate()

    async def gate(state: MessageState, runtime: Runtime[Any]) -> dict[str, Any]:
        messages = state["messages"]
        rounds = counted_rounds(messages[start_of_rounds(messages) :], exempt)
        before = stagnation_of_rounds(state, rounds)
        found = await judge_rounds(rounds, before, judge, runtime, messages=messages, model=model)
        return {RECORDS_KEY: {**records_of(state), "stagnation": found.as_json()}}

    return MessageNode(gate, "gate")


def after_gate(state: MessageState) -> Literal["continue", "stop"]:
    """Return `stop` if the gate has stopped the search, else `continue`."""
    return "stop" if stagnation_in(state).stop else "continue"


__all__ = [
    "MessageNode",
    "MessageState",
    "TurnStagnation",
    "after_gate",
    "counted_rounds",
    "gate",
    "judge_rounds",
    "measure_rounds",
    "observation_of",
    "records_of",
    "rounds_since_progress",
    "stagnation_in",
    "stagnation_of_rounds",
    "start_of_rounds",
]
