"""`ProgressGate`: an agent that repeats its tool calls and finds nothing new gets a note, and then has to answer."""

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Annotated, Any, Literal, NotRequired, get_args

from langchain.agents.middleware import AgentMiddleware, AgentState, hook_config
from langchain.agents.middleware.types import PrivateStateAttr
from langchain_core.messages import AIMessage, AnyMessage, ToolMessage
from langgraph.config import get_config
from langgraph.prebuilt.tool_node import ToolCallRequest
from langgraph.runtime import Runtime
from langgraph.types import Command

from certigraph.adapters.models.prompts import bullet_list, clip, one_line
from certigraph.adapters.processes import wait_for_node
from certigraph.adapters.protocols import Operator
from certigraph.adapters.tools.outcomes import Effect
from certigraph.adapters.tools.positions import require_checkpointer
from certigraph.middleware.views import DeclaresEffects, mark_messages, messages_around
from certigraph.nodes.conversations import (
    ANSWER_NOW,
    GO_ON,
    STALE,
    ToolRound,
    is_note,
    refuse,
    rounds_in,
    to_call,
    write_note,
)
from certigraph.nodes.gates import exhaustion_gate
from certigraph.nodes.message_gates import (
    RECORDS_KEY,
    TurnStagnation,
    judge_rounds,
    records_of,
    rounds_since_progress,
    stagnation_in,
    stagnation_of_rounds,
    start_of_rounds,
)
from certigraph.nodes.outside_agents import Model, OutsideEffects
from certigraph.nodes.questions import decisions_schema, interrupt_until_usable, read_decisions
from certigraph.state.endings import EXHAUSTED, Exhausted
from certigraph.state.records import Record

Then = Literal["note", "answer", "ask", "raise"]
"""What happens when an agent goes on repeating itself after the note."""

STALE_SEARCH = "stale_search"
"""Value of `type` in the interrupt that asks whether such an agent goes on."""

MAX_REFUSALS = 2
"""Responses with tool calls that are answered by a refusal after the answer was demanded; the next one ends the run."""

MAX_SHOWN_CALLS, MAX_SHOWN_CALL = 3, 200
"""Maximum number of repeated calls that a note names, and of characters of each."""


class RecordsState(AgentState[Any]):
    """State of an agent with what certigraph's nodes over messages keep in it, as plain JSON."""

    certigraph: NotRequired[Annotated[dict[str, Any], PrivateStateAttr]]


class GateDecision(Record):
    """A person's decision about an agent that repeats itself."""

    type: Literal["continue", "answer", "stop"]
    """`continue`: it goes on, and rounds are counted from here. `answer`: it has to answer. `stop`: the run ends."""
    message: str = ""
    """What the person says to an agent that goes on."""


class ProgressGate(DeclaresEffects, AgentMiddleware[Any, Any, Any]):
    """Notes when an agent repeats its tool calls without learning anything, and ends that (CGDP's exhaustion gate).

    A round is a response with tool calls. It is stale if its calls repeat recent ones and at most 30 % of what was
    answered is new. After two stale rounds in a row the agent gets a note. If it goes on in the same way for two more
    rounds, it has to answer: further calls are refused, and after two refusals the run ends with a message that says
    so, whose `response_metadata` has the ending `exhausted`. No model is called for any of this.

    Counting starts again with each request, and where `Certified` sends an answer back. The gate sees loops only, and
    never an answer that comes too early. It counts what the messages hold: where `SummarizationMiddleware` removes
    older ones, it counts from there.

    Custom events (`stream_mode="custom"`) are `{"type": "stale", "streak": ..., "then": ..., "calls": [...]}`.

    With `then="ask"` the run is interrupted, with `{"type": "stale_search", "reason", "calls", "question"}`. Resume it
    with `Command(resume={"type": "continue", "message": "..."})`, of which the message may be left out, or with
    `{"type": "answer"}` or `{"type": "stop"}`.

    Args:
        gate: a gate of certigraph's or of the user's own; None for `exhaustion_gate()`. Its `patience` is the number of
            stale rounds before the note.
        grace: number of further stale rounds before `then` happens.
        then: `answer` (the agent has to answer), `note` (nothing more than the note), `ask` (a person decides, which
            needs a checkpointer), or `raise` (the exception `Exhausted` names the calls).
        exempt: names of tools that may be called again and again, such as one that waits for something. A response that
            calls no other tool is not counted.
        effects: tools that change nothing, as `{"look_up": "repeatable"}`; as for `certigraph.agent`. A new call of any
            other tool that did not fail is progress, whatever it is answered, and rounds are counted from there. A tool
            that returns documents is known to search.
        model: the model that a gate asks, if it asks one.

    Raises:
        ValueError: `grace` is below 1, or there is no such `then`.
    """

    state_schema = RecordsState

    def __init__(
        self,
        gate: Operator | None = None,
        *,
        grace: int = 2,
        then: Then = "answer",
        exempt: Collection[str] = (),
        effects: Mapping[str, Effect] | None = None,
        model: Model | None = None,
    ) -> None:
        super().__init__()
        if grace < 1 or then not in get_args(Then):
            raise ValueError(
                f"ProgressGate(grace={grace!r}, then={then!r}): grace is at least 1, then one of {get_args(Then)}"
            )
        self.gate, self.grace, self.then = gate or exhaustion_gate(), grace, then
        self.exempt, self.model, self.effects = frozenset(exempt), model, OutsideEffects(effects)

    @hook_config(can_jump_to=["end"])
    def before_model(self, state: Any, runtime: Runtime[Any]) -> dict[str, Any] | None:
        """Judge the latest round."""
        return wait_for_node(self._judge(state, runtime))

    @hook_config(can_jump_to=["end"])
    async def abefore_model(self, state: Any, runtime: Runtime[Any]) -> dict[str, Any] | None:
        """Judge the latest round."""
        return await self._judge(state, runtime)

    def wrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], ToolMessage | Command[Any]]
    ) -> ToolMessage | Command[Any]:
        """Refuse a call that is chosen after the answer was demanded."""
        return self._refuse(request) or mark_messages(handler(request))

    async def awrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Awaitable[ToolMessage | Command[Any]]]
    ) -> ToolMessage | Command[Any]:
        """Refuse a call that is chosen after the answer was demanded."""
        return self._refuse(request) or mark_messages(await handler(request))

    # A node after the model would refuse them before other hooks see them, and would cost each response a checkpoint
    # more, which is half as much again as an agent without middleware writes.
    def _refuse(self, request: ToolCallRequest) -> ToolMessage | None:
        demanded = _place_of_demand(messages_around(request)) is not None
        return refuse(request.tool_call, REFUSED_CALL) if demanded else None

    async def _judge(self, state: Mapping[str, Any], runtime: Runtime[Any]) -> dict[str, Any] | None:
        if self.then == "ask":
            require_checkpointer('ProgressGate(then="ask")', get_config())
        messages: Sequence[AnyMessage] = state["messages"]
        if (place := _place_of_demand(messages)) is not None:
            refused = len(rounds_in(messages[place:]))
            ended = [_write_end(stagnation_in(state).reason)]
            return {"messages": ended, "jump_to": "end"} if refused > MAX_REFUSALS else None
        rounds = rounds_since_progress(messages[start_of_rounds(messages) :], self.effects, self.exempt)
        before = stagnation_of_rounds(state, rounds)
        found = await judge_rounds(rounds, before, self.gate, runtime, messages=messages, model=self.model)
        if found == stagnation_in(state):
            return None
        kept = {RECORDS_KEY: {**records_of(state), "stagnation": found.as_json()}}
        if found.stops and not before.stops:
            return {**kept, **self._react("note", found, rounds, runtime)}
        if found.stops > self.grace and self.then != "note":
            return {**kept, **self._react(self.then, found, rounds, runtime)}
        advice = found.advice if found.advice != before.advice else ""
        return {**kept, "messages": [write_note(STALE, advice)]} if advice else kept

    def _react(
        self, then: Then, found: TurnStagnation, rounds: Sequence[ToolRound], runtime: Runtime[Any]
    ) -> dict[str, Any]:
        """Return the update that a note is, or what comes after it.

        Raises:
            Exhausted: `then` is `raise`.
        """
        calls = _repeated(rounds, found)
        if then == "raise":
            raise Exhausted(f"{found.reason}: {'; '.join(calls)}")
        decision = _ask(found.reason, calls) if then == "ask" else None
        chosen = decision.type if decision else then
        runtime.stream_writer({"type": "stale", "streak": found.streak, "then": chosen, "calls": calls})
        if chosen == "stop":
            return {"messages": [_write_end(found.reason)], "jump_to": "end"}
        if decision and chosen == "continue":
            return {"messages": [write_note(GO_ON, f"{PERSON_GOES_ON} {decision.message}".rstrip())]}
        about, text = (STALE, STALE_NOTE) if chosen == "note" else (ANSWER_NOW, ANSWER_NOTE)
        return {"messages": [write_note(about, text.format(count=found.streak, calls=bullet_list(calls)))]}


def _place_of_demand(messages: Sequence[AnyMessage]) -> int | None:
    """Return the place of the note that demands an answer; None if none does, or something was asked for since."""
    start = start_of_rounds(messages)
    demands = (at for at, one in enumerate(messages) if at >= start and is_note(one, ANSWER_NOW))
    return max(demands, default=None)


def _repeated(rounds: Sequence[ToolRound], found: TurnStagnation) -> list[str]:
    """Return the calls of the stale rounds, each once and in one line, the latest of them."""
    stale = rounds[-max(found.streak, 1) :]
    calls = dict.fromkeys(str(to_call(call)) for one in stale for call in one.calls)
    return [clip(one_line(call), MAX_SHOWN_CALL) for call in [*calls][-MAX_SHOWN_CALLS:]]


def _ask(reason: str, calls: Sequence[str]) -> GateDecision:
    """Ask a person what to do, and return what was decided.

    Raises:
        GraphInterrupt: nobody has answered yet.
    """
    question = {"type": STALE_SEARCH, "reason": reason, "calls": [*calls], "question": QUESTION}
    allowed = ("continue", "answer", "stop")
    read = partial(read_decisions, GateDecision, count=1, allowed=allowed)
    [decision], _ = interrupt_until_usable(question, read, decisions_schema(GateDecision, 1, allowed))
    return decision


def _write_end(reason: str) -> AIMessage:
    """Return the last message of a run that the gate ends."""
    metadata = {"ending": EXHAUSTED, "ending_reason": reason}
    return AIMessage(f"I could not complete this ({EXHAUSTED}: {reason}).", response_metadata=metadata)


STALE_NOTE = """\
The tool calls of the last {count} responses repeat earlier ones, and their answers brought nothing new:
{calls}
Equal calls will probably be answered in the same way again. Useful now is what was not tried: other arguments, another
tool, or something that an earlier answer names. If what is known is enough, answer from it. What no tool can bring may
be named in the answer as missing.
"""

ANSWER_NOTE = """\
The tool calls of the last {count} responses repeat earlier ones, and their answers brought nothing new:
{calls}
No more tool calls are made for this request. Answer it now from what is known, and say what is missing.
"""

REFUSED_CALL = """\
Not made: no more tool calls are made for this request. Answer it now from what is known, and say what is missing.
"""

PERSON_GOES_ON = "A person was asked about the repeated calls and lets the work go on."

QUESTION = """\
The agent repeats its tool calls and finds nothing new. Answer {"type": "continue", "message": "..."} to let it go on,
{"type": "answer"} to make it answer from what is known, or {"type": "stop"} to end the run.
"""

__all__ = ["GateDecision", "ProgressGate", "RecordsState", "Then"]
