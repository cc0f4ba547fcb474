"""`Certified`: lasting calls are checked before they are made, and the answer is judged before the agent ends."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches
from typing import Annotated, Any, Literal, NotRequired
from uuid import uuid4

from langchain.agents.middleware import (
    AgentMiddleware,
    AgentState,
    ModelRequest,
    ModelResponse,
    hook_config,
)
from langchain.agents.middleware.types import PrivateStateAttr, ToolCallRequest
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage
from langgraph.runtime import Runtime
from langgraph.types import Command

from certigraph.adapters.models.given import model_fields
from certigraph.adapters.models.scripts import ScriptedChat
from certigraph.adapters.processes import wait_for_node
from certigraph.adapters.spans import find_span, note_on_span
from certigraph.adapters.tools.checks import Checks, load_checks
from certigraph.adapters.tools.contents import text_of_message
from certigraph.adapters.tools.outcomes import Effect
from certigraph.adapters.tools.rules import Corrections, FactForms, Rules, load_rules
from certigraph.adapters.user_warnings import warn_user
from certigraph.middleware.conditions import create_commit_tool, read_commitments
from certigraph.middleware.turns import begin_turn, describe_turn, keep_calls, read_turn
from certigraph.middleware.views import (
    Answer,
    DeclaresEffects,
    SeenTurns,
    UsageState,
    add_instructions,
    mark_messages,
    note_change,
    usage_update,
)
from certigraph.nodes.answer_audits import MAX_RETURNS, MAX_RETURNS_IN_CHAT, SENT_BACK
from certigraph.nodes.call_checks import check_calls
from certigraph.nodes.conversations import (
    ANSWER_NOW,
    COMMIT_TOOL,
    NOT_DONE,
    TurnView,
    find_open,
    find_turn,
    is_note,
    mark_answer,
    refuse,
    rounds_in,
    state_of,
    write_note,
)
from certigraph.nodes.message_checks import JudgedEnd, check_open_calls, judge_end
from certigraph.nodes.outside_agents import Model, OutsideAgent, OutsideEffects, load_outside_tools, stand_in_tools
from certigraph.nodes.policies import PolicySentence, format_policy
from certigraph.nodes.requests import CERTIFIED_KEY, OPEN_KEY, THE_GOAL, name_target, requests_in
from certigraph.state.call_checks import CallCheck
from certigraph.state.effects import list_effects
from certigraph.state.endings import FINISHED, GAVE_UP, STOPPED, Refused
from certigraph.state.records import Certificate


class CertificationState(AgentState[Any], UsageState):
    """What `Certified` adds to the state of an agent. Everything is plain JSON, and each turn begins without it."""

    conditions: NotRequired[list[str]]
    """The conditions that the work has to bring about."""
    certificates: NotRequired[list[dict[str, Any]]]
    """What was certified (`certigraph.state.records.Certificate`)."""
    checked: NotRequired[list[dict[str, Any]]]
    """What was found about lasting calls before they were made (`certigraph.state.call_checks.CallCheck`)."""
    ending: NotRequired[str]
    """How the turn ended: `goal` (certified), `finished` (not certified), `question`, `gave_up` (not done by the last
    verdict), `refused`, `stopped` or `limit:...`; empty while it goes on."""
    ending_reason: NotRequired[str]
    certigraph_turn: NotRequired[Annotated[dict[str, Any], PrivateStateAttr]]
    """What is known of the turn (`TurnRecord`)."""
    certigraph_kept: NotRequired[Annotated[list[dict[str, Any]], PrivateStateAttr]]
    """The calls of the thread whose effect lasts, each a `KeptCall`."""


RECORDS = frozenset(CertificationState.__annotations__.keys() - AgentState.__annotations__.keys())
"""Keys of the state that are about the turn of one agent."""


class Certified(DeclaresEffects, AgentMiddleware[CertificationState, Any, Any]):
    """Check calls whose effect lasts before they are made, and judge the answer before it ends the turn.

    A call that is not allowed is answered with the rule, the fact and what to do next, and is not made. An answer with
    which something is missing is sent back, at most twice, in a conversation once. Both fail closed: a call that could
    not be checked is not made.

    Place it last in the list of middleware, so that it sees the system prompt as the model gets it, and calls before a
    person is asked about them. It costs one model call for each response with lasting calls, and one for the answer.

    Args:
        model: the validator; None for the agent's own model.
        conditions: what the work has to bring about, in addition to the request; each is certified by itself. `agent`
            lets the agent commit to them by a tool.
        checks: functions that decide conditions, by their form; as for `certigraph.agent`.
        effects: tools that change nothing, as `{"look_up": "repeatable"}`; as for `certigraph.agent`. Every other tool
            is checked, unless hints of its MCP server say that it only reads, or it belongs to a framework.
        rules: exact rules about calls; as for `certigraph.agent`.
        facts: under which names answers of tools stand in the facts of rules.
        after: how calls correct these facts.
        policy: rules that the agent works under, for the validator: a text, or sentences as `split_policy` makes them.
            The agent's system prompt is shown to it in any case.
        check: whether lasting calls are checked before they are made.
        end: `always` judges each answer but a mere question; `unless_left` leaves that out where the check of the last
            calls found that nothing is left to do; `never` judges none.
        returns: how often an answer is sent back at most; None for two, and one in a conversation.

    Raises:
        TypeError, ValueError: an argument has another form.
    """

    state_schema = CertificationState

    def __init__(
        self,
        *,
        model: Model | None = None,
        conditions: Sequence[str] | Literal["agent"] = (),
        checks: Checks | None = None,
        effects: Mapping[str, Effect] | None = None,
        rules: Rules | None = None,
        facts: FactForms | None = None,
        after: Corrections | None = None,
        policy: str | Sequence[PolicySentence | Mapping[str, Any]] = "",
        check: bool = True,
        end: Literal["always", "unless_left", "never"] = "always",
        returns: int | None = None,
    ) -> None:
        super().__init__()
        by_agent = conditions == "agent"
        if isinstance(conditions, str) and not by_agent:
            raise TypeError(f"conditions={conditions!r:.100} is one text: give a list of texts, or 'agent'")
        if end not in ("always", "unless_left", "never"):
            raise ValueError(f"end={end!r}: give 'always', 'unless_left' or 'never'")
        if model is not None and not isinstance(model, str):
            model_fields(model)
        load_checks(checks or {})
        self._rules = load_rules(rules or {}, facts or {}, after or {})
        self._seen = SeenTurns()
        self.model, self.effects, self.policy = model, OutsideEffects(effects), format_policy(policy)
        self.tools = [create_commit_tool()] if by_agent else []
        self._conditions = [] if by_agent else list(conditions)
        self._checks, self._end, self._returns = checks, end, returns
        ask_left = end == "unless_left"
        self._check = check_calls(rules=rules, facts=facts, after=after, ask_left=ask_left) if check else None

    # Hooks.

    def before_agent(self, state: CertificationState, runtime: Runtime[Any]) -> dict[str, Any]:
        """Begin a turn without the records of the one before."""
        records = {"certificates": [], "checked": [], "ending": "", "ending_reason": ""}
        return {
            "conditions": list(self._conditions),
            **records,
            "certigraph_turn": begin_turn(state["messages"]).as_json(),
        }

    async def abefore_agent(self, state: CertificationState, runtime: Runtime[Any]) -> dict[str, Any]:
        """Begin a turn without the records of the one before."""
        return self.before_agent(state, runtime)

    def wrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], ModelResponse[Any]]
    ) -> ModelResponse[Any]:
        """Say to the agent how its calls are checked, and note the agent's parts for the hooks after its response."""
        self._note(request)
        return handler(self._extend(request))

    async def awrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]]
    ) -> ModelResponse[Any]:
        """Say to the agent how its calls are checked, and note the agent's parts for the hooks after its response."""
        self._note(request)
        return await handler(self._extend(request))

    def _note(self, request: ModelRequest[Any]) -> None:
        """Note the parts of the agent, and warn of rules that none of its tools meets."""
        parts, is_new = self._seen.note(request)
        if not is_new:
            return
        world = parts.world(self.effects.given, self._checks, self.policy)
        try:
            self._rules.check_tools(world)
        except ValueError as error:
            warn_user(f"Certified: {error}")
        for name in self.effects.given.keys() - world.loaded.keys():
            if meant := get_close_matches(name, world.loaded, 1, 0.8):  # else it is a tool of another agent
                warn_user(f"Certified: effects names {name!r}, which is not a tool; did you mean {meant[0]!r}?")

    def _extend(self, request: ModelRequest[Any]) -> ModelRequest[Any]:
        return add_instructions(request, CHECKED_NOTE) if self._check else request

    @hook_config(can_jump_to=["end"])
    def after_model(self, state: CertificationState, runtime: Runtime[Any]) -> dict[str, Any] | None:
        """Check the calls of a response whose effect lasts."""
        return wait_for_node(self.aafter_model(state, runtime))

    @hook_config(can_jump_to=["end"])
    async def aafter_model(self, state: CertificationState, runtime: Runtime[Any]) -> dict[str, Any] | None:
        """Check the calls of a response whose effect lasts."""
        named = _with_ids(state["messages"])
        kept = self._keep(state)
        noted: dict[str, Any] = {**state, "messages": named or state["messages"], **kept}
        conditions, answers = read_commitments(noted["messages"], state.get("conditions") or ())
        known = {**noted, "messages": [*noted["messages"], *answers]}
        update = await self._check_response(known, runtime)
        messages = [*(named[-1:] if named else ()), *answers, *update.get("messages", ())]
        committed = {"conditions": conditions} if answers else {}
        turn = read_turn(state).model_copy(update={"response": str(noted["messages"][-1].id)})
        return {**update, **committed, **kept, "certigraph_turn": turn.as_json(), "messages": messages}

    async def _check_response(self, state: Mapping[str, Any], runtime: Runtime[Any]) -> dict[str, Any]:
        if self._check is None or not find_open(state["messages"]):
            return {}
        agent, turn = self._agent(state), self._turn(state)
        taken_back = _take_back_answer(state["messages"], turn.others)
        try:
            found = await check_open_calls(state["messages"], agent, self._check, runtime, turn)
        except Refused as refused:
            return self._end_refused(state, str(refused))
        cleared = {"structured_response": None} if taken_back else {}
        if found is None:
            return {"messages": taken_back, **cleared}
        for one in found.checks:
            if one.is_denied:
                runtime.stream_writer({"type": "checked", **one.as_json()})
        return {
            "messages": [*taken_back, *found.messages],
            "checked": [*(state.get("checked") or ()), *(one.model_dump(mode="json") for one in found.checks)],
            **usage_update(found.usage),
            **cleared,
        }

    @hook_config(can_jump_to=["model"])
    def after_agent(self, state: CertificationState, runtime: Runtime[Any]) -> dict[str, Any] | None:
        """Judge the answer; send it back if something is missing, else name the ending."""
        return wait_for_node(self.aafter_agent(state, runtime))

    @hook_config(can_jump_to=["model"])
    async def aafter_agent(self, state: CertificationState, runtime: Runtime[Any]) -> dict[str, Any] | None:
        """Judge the answer; send it back if something is missing, else name the ending."""
        if state.get("ending") or find_open(state["messages"]):
            return None  # calls that wait for their turn are made first
        update = await self._find_end(state, runtime)
        if update.get("ending"):
            self._trace({**state, **update, "messages": state["messages"]})
        return update

    async def _find_end(self, state: CertificationState, runtime: Runtime[Any]) -> dict[str, Any]:
        if (ended := self._find_unjudged_end(state)) is not None:
            return _close(state, *ended)
        if self._seen.find(state["messages"]) is None:
            turn = read_turn(state)
            if turn.repeated:
                return _close(state, FINISHED, "the answer was not judged: nothing is known of the agent")
            repeated = turn.model_copy(update={"repeated": True})
            note = write_note(NOT_DONE, AGAIN)
            return {"messages": [note], "jump_to": "model", "certigraph_turn": repeated.as_json()}
        judged = await self._judge(state, runtime)
        for one in judged.certificates:
            runtime.stream_writer({"type": "certified", **_event_of(one)})
        update = {
            "certificates": [
                *(state.get("certificates") or ()),
                *(one.model_dump(mode="json") for one in judged.certificates),
            ],
            **usage_update(judged.usage),
            **self._keep(state),
        }
        if judged.audit.confirmed or not self._has_returns_left(state):
            doubt = judged.audit.reason if judged.ending in (GAVE_UP, FINISHED) and not judged.is_confirmed else ""
            return {**update, **_close({**state, **update}, judged.ending, judged.audit.reason, doubt)}
        return {**update, **_send_back(state, judged, runtime)}

    def wrap_tool_call(self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Answer]) -> Answer:
        """Note that a tool gave the answer, and to which call; keep the records of a sub-agent out of the state."""
        return _leave_out_records(_mark(request, note_change(request, mark_messages(handler(request)))))

    async def awrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Awaitable[Answer]]
    ) -> Answer:
        """Note that a tool gave the answer, and to which call; keep the records of a sub-agent out of the state."""
        answer = mark_messages(await handler(request))
        return _leave_out_records(_mark(request, note_change(request, answer)))

    # What the hooks are made of.

    def _trace(self, state: Mapping[str, Any]) -> None:
        """Set what was certified, denied and done in the turn as attributes of the agent's span, if there is one."""
        if (span := find_span()) is None:
            return
        checks = [CallCheck.model_validate(one) for one in state.get("checked") or ()]
        certificates = [Certificate.model_validate(one) for one in state.get("certificates") or ()]
        answers = state_of(state["messages"], self._agent(state).world, self._turn(state))["answers"]
        note_on_span(
            span,
            ending=state["ending"],
            reason=state["ending_reason"],
            certificates=certificates,
            denied=[one for one in checks if one.is_denied],
            effects=list_effects(answers, checks, certificates),
        )

    def _agent(self, state: Mapping[str, Any]) -> OutsideAgent:
        """Return the agent; if the process that asked its model has ended, one whose validator cannot be asked."""
        seen, chosen = self._seen.find(state["messages"]), {call["name"] for call in find_open(state["messages"])}
        if seen is None:
            world = load_outside_tools(stand_in_tools(sorted(chosen)), self.effects.given)
            return OutsideAgent(world, ScriptedChat(responder=lambda *_: UNKNOWN_AGENT))
        world = seen.world(self.effects.given, self._checks, self.policy)
        if hidden := sorted(chosen - world.loaded.keys() - seen.answer_forms):
            # tools that another middleware kept from the model, which may know them from earlier requests
            tools = [*seen.tools, *stand_in_tools(hidden)]
            instructions, checks = world.instructions, self._checks
            world = load_outside_tools(tools, self.effects.given, instructions=instructions, checks=checks)
        return OutsideAgent(world, seen.model, {"validator": self.model} if self.model is not None else {})

    def _turn(self, state: Mapping[str, Any]) -> TurnView:
        seen, checks = self._seen.find(state["messages"]), state.get("checked") or ()
        return describe_turn(state)._replace(
            others=(seen.answer_forms if seen else frozenset[str]()) | {COMMIT_TOOL},
            checks=tuple(CallCheck.model_validate(one) for one in checks),
        )

    def _keep(self, state: Mapping[str, Any]) -> dict[str, Any]:
        """Return the update that adds the lasting calls of the turn to those that are kept, whatever is summed up."""
        seen = self._seen.find(state["messages"])
        if seen is None:
            return {}
        world = seen.world(self.effects.given, self._checks, self.policy)
        kept = keep_calls(state, self._turn(state), world)
        return {"certigraph_kept": kept} if kept != (state.get("certigraph_kept") or []) else {}

    def _find_unjudged_end(self, state: Mapping[str, Any]) -> tuple[str, str] | None:
        """Return ending and reason of a turn whose answer is not judged; None for one that is."""
        if (stopped := _find_stop(state["messages"], read_turn(state).response)) is not None:
            return stopped
        if self._end == "never":
            return FINISHED, ""
        if self._end == "unless_left" and _is_complete(state, self._turn(state).others):
            return FINISHED, "nothing is left to do by the check of the last calls"
        return None

    async def _judge(self, state: Mapping[str, Any], runtime: Runtime[Any]) -> JudgedEnd:
        """Judge the answer and the open conditions."""
        certified = _certified_texts(state)
        left = [one for one in state.get("conditions") or () if one not in certified]
        agent, turn = self._agent(state), self._turn(state)
        return await judge_end(state["messages"], _text_of_end(state), agent, runtime, turn, left)

    def _has_returns_left(self, state: Mapping[str, Any]) -> bool:
        in_chat = len(requests_in(state["messages"])) > 1
        most = self._returns if self._returns is not None else MAX_RETURNS_IN_CHAT if in_chat else MAX_RETURNS
        return read_turn(state).returns < most

    def _end_refused(self, state: Mapping[str, Any], reason: str) -> dict[str, Any]:
        calls, ending = find_open(state["messages"]), Refused.ending
        answer = AIMessage(f"I could not complete this ({ending}: {reason})", response_metadata={"ending": ending})
        return {"messages": [*(refuse(call, reason) for call in calls), answer], "jump_to": "end"}


def _with_ids(messages: Sequence[AnyMessage]) -> list[AnyMessage]:
    """Return the messages with ids for all calls of the last response; empty if it has them."""
    last = messages[-1]
    if not isinstance(last, AIMessage) or all(call["id"] for call in last.tool_calls):
        return []
    calls = [{**call, "id": call["id"] or uuid4().hex} for call in last.tool_calls]
    return [*messages[:-1], last.model_copy(update={"tool_calls": calls})]


def _mark(request: ToolCallRequest, answer: Answer) -> Answer:
    """Return the answer of a tool with a mark that the tool itself gave it."""

    def mark(message: Any) -> Any:
        is_answer = isinstance(message, ToolMessage) and message.tool_call_id == request.tool_call["id"]
        return mark_answer(message) if is_answer else message

    if isinstance(answer, Command) and isinstance(answer.update, Mapping) and "messages" in answer.update:
        return replace(answer, update={**answer.update, "messages": [mark(one) for one in answer.update["messages"]]})
    return mark(answer)  # type: ignore[no-any-return]


def _leave_out_records(answer: Answer) -> Answer:
    """Return an answer without this middleware's keys: a tool that runs a sub-agent hands its state on as a command."""
    if not isinstance(answer, Command) or not isinstance(answer.update, Mapping) or answer.graph is not None:
        return answer
    return replace(answer, update={key: value for key, value in answer.update.items() if key not in RECORDS})


def _take_back_answer(messages: Sequence[AnyMessage], forms: frozenset[str]) -> list[AnyMessage]:
    """Return what takes back a structured answer that was given together with calls, whose answers it cannot know."""
    response = rounds_in(messages[find_turn(messages) :])[-1]
    given = zip(response.calls, response.answers, strict=True)
    answers = [answer for call, answer in given if answer and call["name"] in forms]
    return [one.model_copy(update={"content": TAKEN_BACK, "status": "error"}) for one in answers]


def _find_stop(messages: Sequence[AnyMessage], response: str) -> tuple[str, str] | None:
    """Return ending and reason if the last message is not a response of the model: something else ended the turn.

    Args:
        messages: the conversation.
        response: id of the model's latest response in the turn; empty if there was none.
    """
    last = messages[-1]
    if not isinstance(last, AIMessage):
        return None
    if ending := last.response_metadata.get("ending"):
        return str(ending), str(last.response_metadata.get("ending_reason") or text_of_message(last))
    return (STOPPED, text_of_message(last)) if last.id != response else None


def _text_of_end(state: Mapping[str, Any]) -> str:
    """Return the answer with which the agent ends: a structured one as it was given, else the last message's text."""
    last = state["messages"][-1]
    if state.get("structured_response") is not None:
        return str(state["structured_response"])
    return text_of_message(last)


def _is_complete(state: Mapping[str, Any], others: frozenset[str]) -> bool:
    """Return whether the check of the latest lasting calls found nothing left, and all calls since were answered."""
    checks = [CallCheck.model_validate(one) for one in state.get("checked") or ()]
    rounds = rounds_in(state["messages"][find_turn(state["messages"]) :], others)
    if not checks or not rounds or checks[-1].action != len(rounds):
        return False
    failed = any(answer is None or answer.status == "error" for answer in rounds[-1].answers)
    return not failed and all(one.completes for one in checks if one.action == len(rounds))


def _certified_texts(state: Mapping[str, Any]) -> list[str]:
    certificates = [Certificate.model_validate(one) for one in state.get("certificates") or ()]
    return [name_target(target) for one in certificates for target in one.targets]


def _event_of(certificate: Certificate) -> dict[str, Any]:
    target = certificate.targets[0]
    found = {"goal": target.kind == "goal", "decided_by": certificate.decided_by, "evidence": certificate.evidence}
    return {"conditions": [name_target(target)], **found}


def _send_back(state: Mapping[str, Any], judged: JudgedEnd, runtime: Runtime[Any]) -> dict[str, Any]:
    last, reason = state["messages"][-1], judged.audit.reason
    runtime.stream_writer({"type": "not_done", "message_id": last.id or "", "reason": reason})
    demanded = any(is_note(one, ANSWER_NOW) for one in state["messages"][find_turn(state["messages"]) :])
    text = f"{SENT_BACK.format(missing=reason)}{AGAIN_ALLOWED if demanded else ''}"
    note: HumanMessage = write_note(NOT_DONE, text)
    cleared = {"structured_response": None} if state.get("structured_response") is not None else {}
    turn = read_turn(state)
    noted = turn.model_copy(update={"returns": turn.returns + 1}).as_json()
    return {"messages": [note], "jump_to": "model", "certigraph_turn": noted, **cleared}


def _close(state: Mapping[str, Any], ending: str, reason: str, doubt: str = "") -> dict[str, Any]:
    """Return the update that names the ending, also in the metadata of the last message.

    Args:
        state: the state.
        ending: the ending.
        reason: why it ended so.
        doubt: why the answer is not confirmed, which its text then says as well.
    """
    certified, last = _certified_texts(state), state["messages"][-1]
    left = [one for one in state.get("conditions") or () if one not in certified]
    open_ = left if THE_GOAL in certified else [*left, THE_GOAL]
    metadata = {"ending": ending, "ending_reason": reason, CERTIFIED_KEY: certified, OPEN_KEY: open_}
    noted = last.model_copy(update={"response_metadata": {**last.response_metadata, **metadata}})
    if doubt and isinstance(last, AIMessage) and isinstance(last.content, str):
        noted = noted.model_copy(update={"content": f"{last.content}\n\n{INCOMPLETE.format(reason=doubt)}"})
    return {"ending": ending, "ending_reason": reason, "messages": [noted]}


CHECKED_NOTE = """\
Calls that change something are checked first: a refused one was not made, and its answer says what to do instead. Look
up first what they depend on, then make as many of them together as you can: each such response costs a check."""

UNKNOWN_AGENT = "The process that knew the agent has ended."

AGAIN = "The answer was not judged, because the process that was to judge it has ended. Give it again."

AGAIN_ALLOWED = " Calls of tools are made again."
"""What is added where `ProgressGate` has demanded an answer before."""

TAKEN_BACK = "This answer was given together with calls. It is not taken: give it again once they are answered."

INCOMPLETE = "(This was not confirmed: {reason})"

__all__ = ["CertificationState", "Certified"]
