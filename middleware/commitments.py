"""Commitments: what an agent may call in a turn, fixed before it reads an answer of a tool.

What a tool answers may come from strangers, who may try to have the agent do something else. `CommitTools` asks for the
tools of a turn before its first response. Other tools are not offered, and calls beyond the commitment are refused.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Annotated, Any, NamedTuple, NotRequired, cast

from langchain.agents.middleware import AgentMiddleware, AgentState, ExtendedModelResponse, ModelRequest, ModelResponse
from langchain.agents.middleware.types import PrivateStateAttr
from langchain.tools.tool_node import ToolCallRequest
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage
from langchain_core.messages import ToolCall as CalledTool
from langchain_core.tools import BaseTool
from langgraph.config import get_config
from langgraph.runtime import Runtime
from langgraph.types import Command

from certigraph.adapters.processes import wait_for_node
from certigraph.adapters.protocols import AsyncOperator, Context
from certigraph.adapters.tools.contents import text_of_message
from certigraph.adapters.tools.outputs import MADE_KEY
from certigraph.adapters.tools.positions import NAMESPACE_KEY, require_checkpointer
from certigraph.adapters.tools.world import Tools
from certigraph.middleware.views import (
    AgentParts,
    Answer,
    UsageState,
    extend_instructions,
    mark_messages,
    names_of_forms,
    usage_update,
)
from certigraph.nodes.approval import WITHOUT_APPROVAL, ApprovalRule, ask_about, name_and_args, refuse_again
from certigraph.nodes.commitments import REFUSED, commit, commit_view, refuse_beyond_commitment
from certigraph.nodes.conversations import (
    ToolRound,
    TurnView,
    find_turn,
    provenance_in,
    refuse,
    rounds_in,
    state_of,
    steps_of,
    to_call,
)
from certigraph.nodes.outside_agents import Model, OutsideAgent, load_outside_tools
from certigraph.nodes.questions import Interview
from certigraph.nodes.requests import note_sources, requests_in
from certigraph.state.commitments import CommitmentLevel, describe_commitment, find_problem
from certigraph.state.endings import Fault
from certigraph.state.records import Usage
from certigraph.state.run import Commitment
from certigraph.state.tools import ToolCall

COMMITMENT_KEY = "certigraph_commitment"
"""Key in the state: the commitment of the turn, a `Commitment` as JSON, and the request for which it was made."""

BEYOND_KEY = "certigraph_beyond"
"""Key in the state: by ids of calls beyond the commitment of which a person decides, the reason."""


class CommitState(AgentState[Any], UsageState):
    """State of an agent that commits to tools."""

    certigraph_commitment: NotRequired[Annotated[dict[str, Any], PrivateStateAttr]]
    certigraph_beyond: NotRequired[Annotated[dict[str, str], PrivateStateAttr]]


class KeptCommitment(NamedTuple):
    """A commitment, and the request for which it was made."""

    commitment: Commitment
    request: str = ""
    """Id of the message."""
    words: str = ""
    """Its text, which a summary of the conversation may replace in the messages."""

    @classmethod
    def read(cls, stored: Mapping[str, Any]) -> "KeptCommitment":
        """Read what the state holds."""
        fields = {name: value for name, value in stored.items() if name in Commitment.model_fields}
        return cls(Commitment.model_validate(fields), str(stored.get("request", "")), str(stored.get("words", "")))

    def as_json(self) -> dict[str, Any]:
        """Return what the state holds, as plain JSON."""
        return {**self.commitment.as_json(), "request": self.request, "words": self.words}


class CommitTools(AgentMiddleware[CommitState, Any, Any]):
    """Lets an agent use only the tools to which it committed before it read a tool's answer.

    The first request of a turn to the model is preceded by one for the commitment, which shows what people wrote and
    the tools, and no answer of a tool. A new human message begins a turn with a new commitment.

    - The model is offered the tools of the commitment, and those that a person may approve.
    - A call beyond the commitment is answered with a refusal. The other calls of the response are made.
    - At the level `arguments`, values of arguments have to stand in what people wrote, or in an answer of a tool to
      which the commitment allows it. Human messages with a name, system messages, summaries and messages of other
      agents are data of unknown origin. Of an agent that another graph calls, no person's words are known.

    The refusals stand in the model's response, so that every `after_model` sees these calls as answered. Only where a
    person may approve calls, the agent has a node that asks, `CommitTools.after_model`.

    Place: before middleware that repeats requests or changes the model, such as `ModelRetryMiddleware`. Otherwise each
    repetition commits again. `HumanInTheLoopMiddleware` needs `interrupt_mode="per_call"`: in batches it asks about
    refused calls as well.

    With a fixed commitment, `ToolNode(tools, wrap_tool_call=middleware.wrap_tool_call,
    awrap_tool_call=middleware.awrap_tool_call)` refuses calls beyond it in any graph. Without one, such a node reads
    the commitment under `certigraph_commitment` in the state. It asks no person, and refuses these calls as well.

    Args:
        level: what a model commits to: `tools`, or `arguments` for the origin of every argument's value as well.
        model: commits; by default the agent's own model.
        tools: a fixed commitment, for which no model is asked: names of tools, or a `Commitment` with origins.
        approve: tools of which a person may approve a call beyond the commitment. They are offered in any case. The
            question has the form of LangChain's `HumanInTheLoopMiddleware`; it needs a checkpointer.

    Raises:
        ValueError: a fixed commitment is given together with a model or a level.
    """

    state_schema = CommitState

    def __new__(cls, *, tools: Any = None, approve: Sequence[str] = (), **options: Any) -> "CommitTools":
        """Create the form with a node that asks, where a person is asked: each node takes time in every round."""
        asks = bool(approve) or bool(getattr(tools, "approvable", ()))
        if not asks or issubclass(cls, _AskingCommitTools):
            return super().__new__(cls)
        kind = _AskingCommitTools if cls is CommitTools else type(cls.__name__, (cls, _AskingCommitTools), {})
        return super().__new__(kind)

    def __init__(
        self,
        *,
        level: CommitmentLevel | None = None,
        model: Model | None = None,
        tools: Sequence[str] | Commitment | None = None,
        approve: Sequence[str] = (),
    ) -> None:
        super().__init__()
        if tools is not None and (level or model):
            raise ValueError("tools= is a fixed commitment: level= and model= are for those that a model makes")
        fixed = tools if isinstance(tools, Commitment) or tools is None else Commitment(tools=tuple(tools))
        self.model, self.approve = model, (*(fixed.approvable if fixed else ()), *approve)
        self._fixed = fixed and fixed.model_copy(update={"approvable": self.approve})
        self._commit = cast(AsyncOperator, commit(level=level or "tools", approvable=self.approve))
        self._parts: AgentParts | None = None
        self._node_world: tuple[tuple[BaseTool, ...], Tools] | None = None

    # The commitment of a turn.

    def wrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], ModelResponse[Any]]
    ) -> ExtendedModelResponse[Any]:
        """Commit in the first request of a turn, offer the tools of the commitment, and judge the calls."""
        kept, usage = self._kept(request.state), None
        if kept is None and not _has_tools(request):
            return ExtendedModelResponse(handler(request))
        if kept is None:
            kept, usage = wait_for_node(self._ask(request))
        response = handler(self._narrow(request, kept.commitment))
        return self._judge_response(request, kept, usage, response)

    async def awrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]]
    ) -> ExtendedModelResponse[Any]:
        """Do the same asynchronously."""
        kept, usage = self._kept(request.state), None
        if kept is None and not _has_tools(request):
            return ExtendedModelResponse(await handler(request))
        if kept is None:
            kept, usage = await self._ask(request)
        response = await handler(self._narrow(request, kept.commitment))
        return self._judge_response(request, kept, usage, response)

    def _kept(self, state: Mapping[str, Any]) -> KeptCommitment | None:
        """Return the commitment of the turn that a conversation has come to; None if there is none yet.

        A conversation whose request was replaced by a summary is still in the same turn.
        """
        requests, stored = requests_in(state["messages"]), state.get(COMMITMENT_KEY)
        kept = KeptCommitment.read(stored) if stored else None
        if kept and (not requests or (kept.request, kept.words) == _identify(requests[-1])):
            return kept
        if self._fixed is None:
            return None
        return KeptCommitment(self._fixed, *(_identify(requests[-1]) if requests else ()))

    async def _ask(self, request: ModelRequest[Any]) -> tuple[KeptCommitment, Usage]:
        world, messages = self._world(request), request.state["messages"]
        agent = OutsideAgent(world, self.model or request.model)
        state: Any = {**state_of(messages, world, TurnView()), "provenance": provenance_in(messages)}
        update, usage = await agent.call("commit", self._commit, commit_view(state), request.runtime)
        requests = requests_in(messages)
        return KeptCommitment(update["commitment"], *_identify(requests[-1])), usage

    def _narrow(self, request: ModelRequest[Any], commitment: Commitment) -> ModelRequest[Any]:
        """Return the request with the tools of the commitment, and with what it says in the system prompt."""
        usable = {*commitment.tools, *commitment.approvable}
        tools = [tool for tool in request.tools if isinstance(tool, dict) or tool.name in usable]
        if not tools:
            return request.override(tools=[])
        extended = extend_instructions(request.system_message, describe_commitment(commitment))
        return request.override(tools=tools, system_message=extended)

    def _world(self, request: ModelRequest[Any]) -> Tools:
        if self._parts is None or not self._parts.is_of(request):
            self._parts = AgentParts(request)
        return self._parts.world()

    # Calls beyond it.

    def _judge_response(
        self, request: ModelRequest[Any], kept: KeptCommitment, usage: Usage | None, response: ModelResponse[Any]
    ) -> ExtendedModelResponse[Any]:
        """Return the response with the commitment and what is found about its calls, as an update of the state.

        The request has all that the judgement needs. A hook after it may run in another process, after an interrupt.
        """
        update = usage_update(usage) if usage else {}
        if request.state.get(COMMITMENT_KEY) != (stored := kept.as_json()):
            update[COMMITMENT_KEY] = stored
        others = names_of_forms(request.response_format)
        opened = rounds_in([one for one in response.result if isinstance(one, AIMessage | ToolMessage)], others)
        calls = opened[-1].open if opened else []
        if kept.commitment.origins is None:
            beyond = _find_beyond_tools(calls, kept.commitment)
        else:
            world = self._world(request)
            state = _state(request.state["messages"], kept, world, others)
            response = ModelResponse(_mark_sources(response.result, state), response.structured_response)
            beyond = _find_beyond_origins(calls, kept.commitment, state, world)
        refused = [refuse(call, beyond[id]) for call in calls if (id := str(call["id"])) in beyond]
        pending = {one.tool_call_id: str(one.content) for one in refused if one.name in self.approve}
        if pending != (request.state.get(BEYOND_KEY) or {}):
            update[BEYOND_KEY] = pending
        result = [*response.result, *(one for one in refused if one.tool_call_id not in pending)]
        response = ModelResponse(result, response.structured_response)
        return ExtendedModelResponse(response, Command(update=update) if update else None)

    # A graph with a `ToolNode` and no agent. In an agent the calls of a response are judged before.

    def wrap_tool_call(self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Answer]) -> Answer:
        """Refuse a call beyond the commitment, if no agent has judged it."""
        return self._refuse(request) or mark_messages(handler(request))

    async def awrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Awaitable[Answer]]
    ) -> Answer:
        """Refuse a call beyond the commitment, if no agent has judged it."""
        return self._refuse(request) or mark_messages(await handler(request))

    def _refuse(self, request: ToolCallRequest) -> ToolMessage | None:
        """Return the answer to a call that is refused; None if it is made.

        Raises:
            Fault: ("operator") there is no commitment.
        """
        given, call = request.state, request.tool_call
        state: Mapping[str, Any] = {"messages": given} if isinstance(given, list) else given
        if "request" in (state.get(COMMITMENT_KEY) or {}):  # an agent has judged the response
            return None
        kept = self._kept(state) or (KeptCommitment.read(state[COMMITMENT_KEY]) if state.get(COMMITMENT_KEY) else None)
        if kept is None:
            fix = f"give CommitTools tools=, or the state {COMMITMENT_KEY}={{'tools': [...]}}"
            raise Fault("operator", f"no commitment says whether {call['name']} may be called: {fix}")
        beyond = _find_beyond_tools([call], kept.commitment)
        if not beyond and kept.commitment.origins is not None:
            tools = tuple(request.runtime.tools)
            if self._node_world is None or self._node_world[0] != tools:
                self._node_world = (tools, load_outside_tools(tools))
            world = self._node_world[1]
            beyond = _find_beyond_origins([call], kept.commitment, _state(state["messages"], kept, world), world)
        return next((refuse(call, reason) for reason in beyond.values()), None)


class _AskingCommitTools(CommitTools):
    """`CommitTools` with a node in which a person decides about calls beyond the commitment."""

    @property
    def name(self) -> str:
        """Name of the middleware, by which its node is drawn."""
        return CommitTools.__name__ if type(self) is _AskingCommitTools else type(self).__name__

    def after_model(self, state: CommitState, runtime: Runtime[Any]) -> dict[str, Any] | None:
        """Ask a person about calls beyond the commitment."""
        beyond = _find_beyond(state)
        return wait_for_node(self._answer(beyond, state)) if beyond else None

    async def aafter_model(self, state: CommitState, runtime: Runtime[Any]) -> dict[str, Any] | None:
        """Do the same asynchronously."""
        beyond = _find_beyond(state)
        return await self._answer(beyond, state) if beyond else None

    async def _answer(self, beyond: Sequence[tuple[CalledTool, str]], state: CommitState) -> dict[str, Any]:
        """Return the answers to those calls that are not made.

        Raises:
            GraphInterrupt: a person has to decide about some of them.
            Fault: ("operator") nobody can be asked, because there is no checkpointer.
        """
        rounds = rounds_in(state["messages"][find_turn(state["messages"]) :])
        history, answers, pending = steps_of(rounds[:-1]), list[ToolMessage](), list[tuple[CalledTool, str]]()
        for call, reason in beyond:
            again = refuse_again(to_call(call), history).refused
            if again:
                answers.append(refuse(call, again))
            else:
                pending.append((call, reason))
        if pending:
            answers += await _ask_person(pending)
        return {"messages": answers}


def _identify(request: HumanMessage) -> tuple[str, str]:
    return request.id or "", text_of_message(request)


def _has_tools(request: ModelRequest[Any]) -> bool:
    """Return whether tools are offered that the agent executes, and not the model's provider."""
    return any(isinstance(tool, BaseTool) for tool in request.tools)


def _is_nested() -> bool:
    """Return whether another graph calls the agent, whose request then is no person's as far as is known."""
    return "|" in str(get_config().get("configurable", {}).get(NAMESPACE_KEY, ""))


def _state(
    messages: Sequence[AnyMessage], kept: KeptCommitment, world: Tools, others: frozenset[str] = frozenset()
) -> dict[str, Any]:
    """Return the state in which calls are judged, with the request of the turn if the messages lack it."""
    if not requests_in(messages):
        messages = [HumanMessage(kept.words.strip() or NO_WORDS, id=kept.request or None), *messages]
    origin = provenance_in(messages, handed_on=_is_nested()) if kept.commitment.origins is not None else None
    return {**state_of(messages, world, TurnView(others=others)), "provenance": origin}


def _find_beyond_tools(calls: Sequence[CalledTool], commitment: Commitment) -> dict[str, str]:
    """Return by the ids of calls why they go beyond a commitment to tools; without those that do not."""
    found = [(str(call["id"]), find_problem(commitment, to_call(call), "", ())) for call in calls]
    return {id: REFUSED.format(problem=problem) for id, problem in found if problem}


def _find_beyond_origins(
    calls: Sequence[CalledTool], commitment: Commitment, state: Mapping[str, Any], world: Tools
) -> dict[str, str]:
    """Return by the ids of calls why they go beyond a commitment to arguments; without those that do not."""
    if not calls:
        return {}
    runtime = Runtime(context=Context(benchmark=world, commitment=commitment))
    given: Any = state
    checked = refuse_beyond_commitment([*map(to_call, calls)], given, runtime)
    return {str(call["id"]): one.refused for call, one in zip(calls, checked, strict=True) if one.refused}


def _mark_sources(result: Sequence[Any], state: Mapping[str, Any]) -> list[Any]:
    """Return messages, those of the model with the tools from whose answers they were written, if all are known."""
    if not any(isinstance(one, AIMessage) and text_of_message(one) for one in result):
        return [*result]
    marks = note_sources(state)
    return [
        one.model_copy(update={"response_metadata": {**one.response_metadata, **marks}})
        if isinstance(one, AIMessage)
        else one
        for one in result
    ]


def _find_beyond(state: Mapping[str, Any]) -> list[tuple[CalledTool, str]]:
    """Return the open calls of the latest response that go beyond the commitment, each with the reason."""
    if not (beyond := state.get(BEYOND_KEY)):
        return []
    rounds: list[ToolRound] = rounds_in(state["messages"][find_turn(state["messages"]) :])
    latest = rounds[-1].open if rounds else []
    return [(call, beyond[id]) for call in latest if (id := str(call["id"])) in beyond]


async def _ask_person(pending: Sequence[tuple[CalledTool, str]]) -> list[ToolMessage]:
    """Let a person decide about calls beyond the commitment; return the answers to those that are not made."""
    config, calls = get_config(), [to_call(call) for call, _ in pending]
    require_checkpointer(f"approval of {calls[0].name}", config)
    shown = [
        {**name_and_args(call), "description": f"Approve {call}? {WITHOUT_APPROVAL} {reason}"}
        for call, (_, reason) in zip(calls, pending, strict=True)
    ]
    rules = {call.name: ApprovalRule(allowed_decisions=("approve", "reject", "respond")) for call in calls}
    decided = await ask_about(Interview(config), shown, calls, rules, {})
    found = (_to_answer(call, one) for (call, _), one in zip(pending, decided, strict=True))
    return [answer for answer in found if answer]


def _to_answer(call: CalledTool, decided: ToolCall) -> ToolMessage | None:
    """Return what the agent reads in place of a tool's answer; None for a call that is made."""
    if decided.refused:
        return refuse(call, decided.refused)
    if not decided.response:
        return None
    return ToolMessage(
        decided.response, name=call["name"], tool_call_id=str(call["id"]), response_metadata={MADE_KEY: False}
    )


NO_WORDS = "(no text)"
"""Stands for a request without words."""

__all__ = ["BEYOND_KEY", "COMMITMENT_KEY", "CommitState", "CommitTools"]
