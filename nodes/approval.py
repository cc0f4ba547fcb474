"""A person's approval of calls before they are made: the optional node `approve`, in LangChain's form.

A graph has the node, between choosing and acting, only where `interrupt_on` names a tool.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, get_args

from langgraph.config import get_config
from langgraph.runtime import Runtime
from pydantic import Field, ValidationError
from pydantic_core import to_jsonable_python

from certigraph.adapters.protocols import AsyncOperator, Context
from certigraph.adapters.tools.definitions import LoadedTool
from certigraph.adapters.tools.positions import require_checkpointer
from certigraph.nodes.commitments import refuse_beyond_commitment
from certigraph.nodes.own_tools import tools_of
from certigraph.nodes.questions import Interview, decisions_schema, read_decisions
from certigraph.nodes.slots import Slot
from certigraph.nodes.specs import Spec
from certigraph.state.records import Action, Record, Step
from certigraph.state.run import RunState
from certigraph.state.tools import ToolCall, calls_of, replace_calls

Decision = Literal["approve", "edit", "reject", "respond"]
ALL_DECISIONS: tuple[Decision, ...] = get_args(Decision)

InterruptOn = Mapping[str, "bool | Mapping[str, Any]"]
"""Tools that need approval: True for every decision, or `{"allowed_decisions": [...], "description": ...}`."""

DescribeCall = Callable[[dict[str, Any], RunState, Runtime[Context]], str]
"""A function that writes the question about a call, from the call in LangChain's form, the state and the runtime."""


class ApprovalRule(Record):
    """What a person may decide about the calls of a tool, and how a call is shown."""

    allowed_decisions: tuple[Decision, ...] = Field(default=ALL_DECISIONS, min_length=1)
    description: str | DescribeCall = ""
    """The question; empty for the call itself."""


RULE_FORMS = {
    "allowed_decisions": f"a list of {', '.join(ALL_DECISIONS)}",
    "description": "a text, or a function of the call, the state and the runtime",
}
"""What each key of a rule holds, for error messages."""


class EditedCall(Record):
    """A call as a person changed it."""

    name: str
    args: dict[str, Any]


class CallDecision(Record):
    """A person's decision about a call that was chosen and not made yet."""

    type: Decision
    edited_action: EditedCall | None = None
    message: str = ""
    """Why the call is rejected, or what a person answers in place of the tool."""


def approvals(interrupt_on: InterruptOn) -> AsyncOperator:
    """Create the operator of the node `approve`.

    Args:
        interrupt_on: the tools whose calls need approval.

    Raises:
        ValueError, TypeError: a rule has another form.
    """
    rules = {name: rule for name, given in interrupt_on.items() if (rule := _read_rule(name, given))}

    async def approve(state: RunState, runtime: Runtime[Context]) -> dict[str, Any]:
        tools = tools_of(state["task"], runtime)
        calls = [refuse_again(call, state["history"]) for call in calls_of(state["action"])]
        beyond = refuse_beyond_commitment(calls, state, runtime)
        waiting = [index for index, call in enumerate(calls) if call.name in rules and call.is_made]
        if not waiting:
            return {"action": replace_calls(state["action"], calls) if calls else state["action"]}
        config = get_config()
        require_checkpointer(f"approval of {calls[waiting[0]].name}", config)
        interview = Interview(config)
        while waiting:
            shown = [_show_call(beyond[index], rules, state, runtime) for index in waiting]
            decided = await ask_about(interview, shown, [calls[index] for index in waiting], rules, tools.loaded)
            for index, call in zip(waiting, decided, strict=True):
                calls[index] = call
            # a call that became one of another tool is decided by the rule of that tool
            beyond = refuse_beyond_commitment(calls, state, runtime)
            waiting = [index for index, call in enumerate(calls) if call.edited and call.is_made and not call.approved]
        return {"action": replace_calls(state["action"], calls)}

    given = to_jsonable_python(interrupt_on, fallback=lambda value: getattr(value, "__name__", type(value).__name__))
    approve.spec = Spec(name="approvals", args={"interrupt_on": given})  # type: ignore[attr-defined]
    return approve


async def ask_about(
    interview: Interview,
    shown: Sequence[Mapping[str, Any]],
    calls: Sequence[ToolCall],
    rules: Mapping[str, ApprovalRule],
    tools: Mapping[str, LoadedTool],
) -> list[ToolCall]:
    """Ask a person about calls, and return them as the person decided.

    Args:
        interview: the interview of the node.
        shown: the calls as the person sees them.
        calls: the calls.
        rules: what may be decided, by tool.
        tools: the tools of which an edited call may be, by name.
    """
    names = list(dict.fromkeys(call.name for call in calls))
    allowed = list(dict.fromkeys(kind for name in names for kind in rules[name].allowed_decisions))

    def read(answer: Any) -> list[ToolCall]:
        decisions = read_decisions(CallDecision, answer, len(calls), allowed)
        return [_decide_call(call, decision, rules, tools) for call, decision in zip(calls, decisions, strict=True)]

    configs = [{"action_name": name, "allowed_decisions": list(rules[name].allowed_decisions)} for name in names]
    question = {"action_requests": [*shown], "review_configs": configs}
    return await interview.ask(question, read, decisions_schema(CallDecision, len(calls), allowed))


def _read_rule(name: str, given: bool | Mapping[str, Any]) -> ApprovalRule | None:
    """Return the rule of a tool; None for a tool whose calls need no approval."""
    if isinstance(given, bool):
        return ApprovalRule() if given else None
    where = f"interrupt_on[{name!r}]"
    if not isinstance(given, Mapping):
        example = '{"allowed_decisions": ["approve", "reject"]}'
        raise TypeError(f"{where} = {given!r:.100}: give True, False or a dict such as {example}")
    try:
        return ApprovalRule.model_validate({**given})
    except ValidationError as error:
        key = error.errors()[0]["loc"][0]
    if key not in RULE_FORMS:
        raise ValueError(f"{where} has the key {key!r}; it takes {' and '.join(RULE_FORMS)}")
    raise ValueError(f"{where} has the {key} {given[str(key)]!r:.100}: give {RULE_FORMS[str(key)]}")


def refuse_again(call: ToolCall, history: Sequence[Step]) -> ToolCall:
    """Return a call as refused if a person rejected an equal one and no call was made since: nobody is asked twice."""
    for before in (one for step in reversed(history) for one in reversed(calls_of(step.action))):
        if not before.refused:
            break
        if before.refused.startswith(REJECTED) and before.digest() == call.digest():
            return call.model_copy(update={"refused": before.refused})
    return call


def _show_call(
    call: ToolCall, rules: Mapping[str, ApprovalRule], state: RunState, runtime: Runtime[Context]
) -> dict[str, Any]:
    """Return a call as it stands in the question: name, arguments, and the text that a person reads."""
    described = rules[call.name].description
    if callable(described):
        described = described({"type": "tool_call", "id": call.digest(), **name_and_args(call)}, state, runtime)
    question = described or f"Approve {call}?"
    shown = f"{question} {WITHOUT_APPROVAL} {call.refused}" if call.refused else question
    return {**name_and_args(call), "description": shown}


def name_and_args(call: ToolCall) -> dict[str, Any]:
    """Return a call as questions to a person hold it, in LangChain's form."""
    return {"name": call.name, "args": call.model_dump()["args"]}  # integers of any size can be stored


def _decide_call(
    call: ToolCall, decision: CallDecision, rules: Mapping[str, ApprovalRule], tools: Mapping[str, LoadedTool]
) -> ToolCall:
    """Return the call as a person decided. One that became a call of another tool with a rule is not approved yet.

    Raises:
        ValueError: the decision is not allowed, or the edited call cannot be made.
    """
    if decision.type not in (possible := rules[call.name].allowed_decisions):
        allowed = ", ".join(possible)
        raise ValueError(f"{decision.type!r} is not allowed for {call.name}: {allowed}")
    match decision.type:
        case "approve":
            return call.model_copy(update={"approved": True})
        case "reject":
            return call.model_copy(update={"refused": f"{REJECTED} {decision.message or 'no reason given'}"})
        case "respond":
            if not decision.message:
                raise ValueError('a response needs {"type": "respond", "message": what the tool would have answered}')
            return call.model_copy(update={"response": decision.message})
    edited = decision.edited_action
    if edited is None or edited.name not in tools:
        form = '{"edited_action": {"name": ..., "args": ...}}'
        raise ValueError(f"an edit needs {form} with one of the tools {', '.join(tools)}")
    if problem := tools[edited.name].check_arguments(edited.args):
        raise ValueError(f"the edited call cannot be made: {problem}")
    has_rule = edited.name != call.name and edited.name in rules
    chosen = call.chosen or str(call)
    return ToolCall(name=edited.name, args=edited.args, approved=not has_rule, edited=True, chosen=chosen)


WITHOUT_APPROVAL = "Without your approval:"
REJECTED = "A person rejected this call:"

APPROVE = Slot("approve", {"action": Action})
"""Slot `approve`, between choosing an action and acting. Optional."""

__all__ = [
    "ALL_DECISIONS",
    "APPROVE",
    "REJECTED",
    "WITHOUT_APPROVAL",
    "ApprovalRule",
    "InterruptOn",
    "approvals",
    "ask_about",
    "name_and_args",
    "refuse_again",
]
