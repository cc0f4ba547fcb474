"""Check, Validate, Certify and the verdict at the end as nodes for the graph of anybody's own.

They read `messages` and write what they find under the key `certigraph`, as plain JSON: `checked`, `certificates`,
`conditions`, `ending` and `ending_reason`. What concerns the agent, such as a call that is not made, is a message.
"""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal
from uuid import uuid4

from langchain_core.messages import AIMessage, AnyMessage, ToolMessage
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import add_messages
from langgraph.graph.state import CompiledStateGraph
from langgraph.runtime import Runtime
from typing_extensions import TypedDict

from certigraph.adapters.tools.checks import Checks
from certigraph.adapters.tools.contents import text_of_message
from certigraph.adapters.tools.outcomes import Effect
from certigraph.adapters.tools.rules import Corrections, FactForms, Rules
from certigraph.nodes.answer_audits import MAX_RETURNS, SENT_BACK
from certigraph.nodes.call_checks import check_calls
from certigraph.nodes.conversations import NOT_DONE, TurnView, find_open, find_turn, is_note, state_of, write_note
from certigraph.nodes.message_checks import JudgedEnd, certify_by_checks, check_open_calls, judge_end
from certigraph.nodes.message_gates import RECORDS_KEY, MessageNode, MessageState, records_of
from certigraph.nodes.outside_agents import Model, OutsideAgent, load_outside_tools
from certigraph.state.call_checks import CallCheck
from certigraph.state.records import Audit, Certificate, Usage


def check(
    tools: Sequence[Any],
    *,
    model: Model,
    effects: Mapping[str, Effect] | None = None,
    rules: Rules | None = None,
    facts: FactForms | None = None,
    after: Corrections | None = None,
    instructions: str = "",
) -> MessageNode:
    """Return a node that checks the open calls of the latest response before they are made.

    It stands between the agent and its tools. A call that is not allowed gets its answer, and the others are left to
    the `ToolNode`. Edges come from `after_check`:

        graph.add_conditional_edges("check", after_check, {"calls": "tools", "refused": "agent", "answer": "end"})

    Args:
        tools: the agent's tools.
        model: the validator.
        effects: as for `certigraph.agent`.
        rules: as for `certigraph.agent`.
        facts: as for `certigraph.agent`.
        after: as for `certigraph.agent`.
        instructions: the agent's instructions, where rules stand.
    """
    agent = OutsideAgent(load_outside_tools(tools, effects, instructions=instructions), model)
    operator = check_calls(rules=rules, facts=facts, after=after)

    async def check(state: MessageState, runtime: Runtime[Any]) -> dict[str, Any]:
        records = _records_of_turn(state)
        before = tuple(CallCheck.model_validate(one) for one in records.get("checked", ()))
        found = await check_open_calls(state["messages"], agent, operator, runtime, TurnView(checks=before))
        if found is None:
            return {RECORDS_KEY: records}
        checked = [*records.get("checked", ()), *(one.model_dump(mode="json") for one in found.checks)]
        messages = _part_response(state["messages"], found.messages)
        return {"messages": messages, RECORDS_KEY: {**records, "checked": checked}}

    return MessageNode(check, "check")


def _part_response(messages: Sequence[AnyMessage], found: Sequence[AnyMessage]) -> list[AnyMessage]:
    """Return what a check found as messages after which a `ToolNode` makes the calls that are left, and no others.

    It makes all calls of the latest response. So the calls that are left become a response of their own.
    """
    response = next(one for one in reversed([*messages, *found]) if isinstance(one, AIMessage))
    answers = [one for one in found if isinstance(one, ToolMessage)]
    answered = {one.tool_call_id for one in answers}
    refused, left = [list[Any](), list[Any]()]
    for call in response.tool_calls:
        (refused if call["id"] in answered else left).append(call)
    if not (refused and left):
        return list(found)
    rest = AIMessage("", id=uuid4().hex, name=response.name, tool_calls=left)
    return [response.model_copy(update={"tool_calls": refused}), *answers, rest]


def after_check(state: MessageState) -> Literal["calls", "refused", "answer"]:
    """Return `calls` if calls are to be made, `refused` if none of them is, `answer` if the response has no calls."""
    messages = state["messages"]
    if find_open(messages):
        return "calls"
    return "answer" if isinstance(messages[-1], AIMessage) else "refused"


def validate(
    tools: Sequence[Any],
    *,
    conditions: Sequence[str],
    checks: Checks,
    effects: Mapping[str, Effect] | None = None,
) -> MessageNode:
    """Return a node that judges by the user's checks which conditions hold now. It asks no model.

    Args:
        tools: the agent's tools.
        conditions: what the work has to bring about.
        checks: functions that decide conditions, by their form; as for `certigraph.agent`.
        effects: as for `certigraph.agent`.
    """
    agent = OutsideAgent(load_outside_tools(tools, effects, checks=checks), "")

    async def validate(state: MessageState, runtime: Runtime[Any]) -> dict[str, Any]:
        records = _records_of_turn(state)
        left = _open_conditions(records, conditions)
        found, refuted = await certify_by_checks(
            state_of(state["messages"], agent.world, TurnView()), agent.world, left
        )
        judged = JudgedEnd(Audit(confirmed=not refuted, reason=refuted), found, Usage(node="validate"))
        return {RECORDS_KEY: {**records, "conditions": [*conditions], "verdict": _dump(judged)}}

    return MessageNode(validate, "validate")


def audit(
    tools: Sequence[Any],
    *,
    model: Model,
    conditions: Sequence[str] = (),
    checks: Checks | None = None,
    effects: Mapping[str, Effect] | None = None,
    instructions: str = "",
) -> MessageNode:
    """Return a node that judges the answer with which an agent wants to end, and the conditions that are open.

    Args:
        tools: the agent's tools.
        model: the validator.
        conditions: what the work has to bring about, in addition to the request.
        checks: functions that decide conditions, by their form; as for `certigraph.agent`.
        effects: as for `certigraph.agent`.
        instructions: the agent's instructions, where rules stand.
    """
    agent = OutsideAgent(load_outside_tools(tools, effects, instructions=instructions, checks=checks), model)

    async def audit(state: MessageState, runtime: Runtime[Any]) -> dict[str, Any]:
        records, messages = _records_of_turn(state), state["messages"]
        left = _open_conditions(records, conditions)
        judged = await judge_end(messages, text_of_message(messages[-1]), agent, runtime, TurnView(), left)
        return {RECORDS_KEY: {**records, "conditions": [*conditions], "verdict": _dump(judged)}}

    return MessageNode(audit, "audit")


def certify(*, returns: int = MAX_RETURNS) -> MessageNode:
    """Return a node that turns the latest verdict into certificates.

    After a verdict on an answer it also names the ending, or sends the answer back.

    Args:
        returns: how often an answer is sent back at most.
    """

    async def certify(state: MessageState, runtime: Runtime[Any]) -> dict[str, Any]:
        records = _records_of_turn(state)
        verdict = records.pop("verdict", None)
        if verdict is None:
            return {RECORDS_KEY: records}
        records["certificates"] = [*records.get("certificates", ()), *verdict["certificates"]]
        messages = state["messages"]
        if not isinstance(messages[-1], AIMessage) or messages[-1].tool_calls:
            return {RECORDS_KEY: records}
        returned = sum(is_note(one, NOT_DONE) for one in messages[find_turn(messages) :])
        if not verdict["confirmed"] and returned < returns:
            note = write_note(NOT_DONE, SENT_BACK.format(missing=verdict["reason"]))
            return {"messages": [note], RECORDS_KEY: records}
        return {RECORDS_KEY: {**records, "ending": verdict["ending"], "ending_reason": verdict["reason"]}}

    return MessageNode(certify, "certify")


def after_certify(state: MessageState) -> Literal["over", "not_done"]:
    """Return `not_done` if the answer was sent back to the agent, else `over`."""
    return "not_done" if is_note(state["messages"][-1], NOT_DONE) else "over"


class EndState(TypedDict):
    """State of the graph that certifies an end."""

    messages: Annotated[list[AnyMessage], add_messages]
    certigraph: dict[str, Any]


def certified_end(
    tools: Sequence[Any],
    *,
    model: Model,
    conditions: Sequence[str] = (),
    checks: Checks | None = None,
    effects: Mapping[str, Effect] | None = None,
    instructions: str = "",
    returns: int = MAX_RETURNS,
) -> CompiledStateGraph[Any, Any, Any, Any]:
    """Return a graph of the nodes `audit` and `certify`, to be a node of yours. Edges come from `after_certify`.

    Args:
        tools: the agent's tools.
        model: the validator.
        conditions: what the work has to bring about, in addition to the request.
        checks: functions that decide conditions, by their form; as for `certigraph.agent`.
        effects: as for `certigraph.agent`.
        instructions: the agent's instructions, where rules stand.
        returns: how often an answer is sent back at most.
    """
    given = {"conditions": conditions, "checks": checks, "effects": effects, "instructions": instructions}
    graph = StateGraph(EndState)
    graph.add_node("audit", audit(tools, model=model, **given))  # type: ignore[arg-type]
    graph.add_node("certify", certify(returns=returns))
    graph.add_edge(START, "audit")
    graph.add_edge("audit", "certify")
    graph.add_edge("certify", END)
    return graph.compile(name="certified_end")


def _records_of_turn(state: MessageState) -> dict[str, Any]:
    """Return what these nodes keep, without what belongs to an earlier turn."""
    messages, records = state["messages"], records_of(state)
    turn = str(messages[find_turn(messages)].id)
    kept = records if records.get("turn") == turn else {key: records[key] for key in records.keys() & {"stagnation"}}
    return {**kept, "turn": turn}


def _open_conditions(records: Mapping[str, Any], conditions: Sequence[str]) -> list[str]:
    certificates = [Certificate.model_validate(one) for one in records.get("certificates", ())]
    certified = {target.text for one in certificates for target in one.targets}
    return [one for one in conditions if one not in certified]


def _dump(judged: JudgedEnd) -> dict[str, Any]:
    return {
        "confirmed": judged.audit.confirmed,
        "reason": judged.audit.reason,
        "ending": judged.ending,
        "certificates": [one.model_dump(mode="json") for one in judged.certificates],
    }


__all__ = ["after_certify", "after_check", "audit", "certified_end", "certify", "check", "validate"]
