"""`verify`: whether conditions hold by the messages of an agent that has ended, whatever framework wrote them."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from langchain_core.messages import AIMessage, AnyMessage, convert_to_messages
from langgraph.runtime import Runtime
from pydantic import Field

from certigraph.adapters.processes import wait_for
from certigraph.adapters.tools.checks import Checks
from certigraph.adapters.tools.contents import text_of_message
from certigraph.adapters.tools.outcomes import Effect
from certigraph.adapters.tools.rules import CallRules, Corrections, FactForms, Forbidden, Rules, load_rules
from certigraph.adapters.tools.world import Tools
from certigraph.nodes.conversations import TurnView, rounds_in, state_of
from certigraph.nodes.message_checks import certify_by_checks, judge_end
from certigraph.nodes.outside_agents import Model, OutsideAgent, load_outside_tools, stand_in_tools
from certigraph.state.call_checks import CallCheck
from certigraph.state.records import Certificate, Decider, Record
from certigraph.state.run import AnsweredCall
from certigraph.state.tools import ToolCall


class Verification(Record):
    """What was found about a conversation."""

    holds: bool
    """Whether all conditions are certified, nothing is missing and no rule was broken."""
    open: tuple[str, ...] = ()
    """The conditions that nothing shows."""
    evidence: dict[str, str] = Field(default_factory=dict)
    """What shows each of the others: words of answers, numbers of calls, or what a check found."""
    decided_by: dict[str, Decider] = Field(default_factory=dict)
    """Who decided about each of the others: `code` or `model`."""
    missing: str = ""
    """What is missing by the verdict on the answer, what code found against a condition, or why nobody judged."""
    forbidden: tuple[CallCheck, ...] = ()
    """The calls that a rule forbids by what was known before them, and those about which a rule failed."""
    certificates: tuple[Certificate, ...] = ()


async def averify(
    messages: Sequence[AnyMessage | Mapping[str, Any] | tuple[str, str]],
    conditions: Sequence[str] = (),
    *,
    checks: Checks | None = None,
    rules: Rules | None = None,
    facts: FactForms | None = None,
    after: Corrections | None = None,
    model: Model | None = None,
    tools: Sequence[Any] = (),
    effects: Mapping[str, Effect] | None = None,
    instructions: str = "",
) -> Verification:
    """Verify by its messages what an agent did. Takes the arguments of `verify`."""
    if not (conditions or rules or model is not None):
        raise ValueError("verify has nothing to go by: give conditions= with checks=, rules=, or a model=")
    conversation: list[Any] = convert_to_messages(list(map(_complete, messages)))
    names = {call["name"] for one in rounds_in(conversation) for call in one.calls}
    known = tools or stand_in_tools(sorted(names))
    agent = OutsideAgent(load_outside_tools(known, effects, instructions=instructions, checks=checks), model or "")
    turn = TurnView(whole=True)
    state = state_of(conversation, agent.world, turn)
    forbidden = await _find_forbidden(state["answers"], load_rules(rules or {}, facts or {}, after or {}), agent.world)
    if model is None:
        certificates, missing = await certify_by_checks(state, agent.world, conditions)
    else:
        last = conversation[-1]
        answer = text_of_message(last) if isinstance(last, AIMessage) else ""
        judged = await judge_end(conversation, answer, agent, Runtime(), turn, conditions)
        certificates = [*judged.certificates]
        missing = "" if judged.audit.confirmed and judged.audit.judged else judged.audit.reason
    shown = {one.targets[0].text: one for one in certificates if one.targets[0].kind == "condition"}
    left = tuple(one for one in conditions if one not in shown)
    return Verification(
        holds=not (left or missing or forbidden),
        open=left,
        evidence={text: one.evidence for text, one in shown.items()},
        decided_by={text: one.decided_by for text, one in shown.items()},
        missing=missing,
        forbidden=tuple(forbidden),
        certificates=tuple(certificates),
    )


def _complete(message: Any) -> Any:
    """Return a message of OpenAI's form as LangChain reads it: with a text, and with calls whose arguments are JSON."""
    if not isinstance(message, Mapping):
        return message
    calls = message.get("tool_calls") or ()
    read = [{**call, "function": _complete_function(call["function"])} for call in calls if "function" in call]
    return {**message, "content": message.get("content") or "", **({"tool_calls": read} if read else {})}


def _complete_function(function: Mapping[str, Any]) -> dict[str, Any]:
    try:
        is_read = isinstance(json.loads(function.get("arguments") or "{}"), dict)
    except ValueError:
        is_read = False
    return {**function, "arguments": (function.get("arguments") or "{}") if is_read else "{}"}


async def _find_forbidden(answers: Sequence[AnsweredCall], rules: CallRules, world: Tools) -> list[CallCheck]:
    """Return the calls that were made and that a rule forbids by what had been answered before, or failed to judge."""
    found = list[CallCheck]()
    for place, one in enumerate(answers):
        if not one.made or one.tool not in rules.rules:
            continue
        call = ToolCall(name=one.tool, args=one.args)
        [outcome] = await rules.decide([call], answers[:place], world.deadline, world.loaded)
        record = CallCheck(tool=one.tool, args=one.args, outcome="unchecked", decided_by="code", action=one.action)
        match outcome.decision:
            case Forbidden(sentence, fact, next):
                texts = {"rule": f"{sentence}", "fact": f"{fact}", "next": f"{next}"}
                found.append(record.model_copy(update={"outcome": "forbidden", **texts}))
            case None if outcome.broken:
                found.append(record.model_copy(update={"reason": outcome.broken}))
    return found


def verify(
    messages: Sequence[AnyMessage | Mapping[str, Any] | tuple[str, str]],
    conditions: Sequence[str] = (),
    *,
    checks: Checks | None = None,
    rules: Rules | None = None,
    facts: FactForms | None = None,
    after: Corrections | None = None,
    model: Model | None = None,
    tools: Sequence[Any] = (),
    effects: Mapping[str, Effect] | None = None,
    instructions: str = "",
) -> Verification:
    """Verify by its messages what an agent did: which conditions hold, and whether its answer may end the work.

    Args:
        messages: the conversation: messages of LangChain's, or dicts as OpenAI's API has them.
        conditions: what should have come about.
        checks: functions that decide conditions, by their form; as for `agent`.
        rules: exact rules about calls; each call that was made is judged by what was known before it.
        facts: under which names answers of tools stand in the facts of rules.
        after: how calls correct these facts.
        model: judges what code does not decide, in one request; None: only code decides, and the rest stays open.
        tools: the agent's tools, whose descriptions the model then reads; without them it reads the calls alone.
        effects: tools whose calls may be repeated and change nothing; as for `agent`.
        instructions: the agent's instructions, where rules stand.

    Raises:
        Fault: ("data") no message is a request of a person.
        ValueError: nothing is given by which anything could be verified.
    """
    return wait_for(
        averify(
            messages,
            conditions,
            checks=checks,
            rules=rules,
            facts=facts,
            after=after,
            model=model,
            tools=tools,
            effects=effects,
            instructions=instructions,
        )
    )


__all__ = ["Verification", "averify", "verify"]
