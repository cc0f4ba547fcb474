"""Check and audit over messages: what is found about the open calls of an agent, and about the answer that it gives.

The operators are those of certigraph's own agents; here they get their views from a conversation, and what they find
becomes messages again.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from langchain_core.messages import AIMessage, AnyMessage, ToolMessage
from langchain_core.messages import ToolCall as CalledTool
from langgraph.runtime import Runtime

from certigraph.adapters.protocols import AsyncOperator
from certigraph.adapters.tools.checks import check_condition
from certigraph.adapters.tools.outputs import MADE_KEY
from certigraph.adapters.tools.world import Tools
from certigraph.nodes.answer_audits import QUESTION_MARK, AnswerAuditView, judge_answer
from certigraph.nodes.call_checks import find_waiting
from certigraph.nodes.conversations import TurnView, refuse, rounds_of_turn, state_of, to_call
from certigraph.nodes.outside_agents import OutsideAgent
from certigraph.state.call_checks import CallCheck
from certigraph.state.endings import FINISHED, GAVE_UP, GOAL, QUESTION
from certigraph.state.records import Action, Audit, Certificate, Predicate, Usage
from certigraph.state.run import FINISH
from certigraph.state.tools import ANSWER_ARGUMENT, ASKS_ARGUMENT, ToolCall, calls_of


class CheckedResponse(NamedTuple):
    """What a check of open calls found."""

    messages: Sequence[AnyMessage]
    """Answers to the calls that are not made, and the response again if a person changed a call of it."""
    checks: Sequence[CallCheck]
    usage: Usage


async def check_open_calls(
    messages: Sequence[AnyMessage],
    agent: OutsideAgent,
    check: AsyncOperator,
    runtime: Runtime[Any],
    turn: TurnView = TurnView(),  # noqa: B008 - a tuple
) -> CheckedResponse | None:
    """Check the open calls of the latest response whose effect lasts; None if it has none.

    Args:
        messages: the conversation.
        agent: the agent.
        check: the operator, as `check_calls` makes it.
        runtime: runtime of the node or hook.
        turn: what else is known of the turn.

    Raises:
        Refused: a call was denied before and chosen again, and no person can decide about it.
        GraphInterrupt: a person has to decide.
    """
    state = state_of(messages, agent.world, turn)
    calls = calls_of(state["action"]) if "action" in state else ()
    if not find_waiting(calls, agent.world):
        return None
    update, usage = await agent.call("check", check, state, runtime)
    response = rounds_of_turn(messages, turn)[-1]
    checked = list(zip(response.open, calls_of(update["action"]), strict=True))
    answers: list[AnyMessage] = [_answer_unmade(*pair) for pair in checked if not pair[1].is_made]
    changed = {str(one["id"]): call for one, call in checked if call.is_made and call != to_call(one)}
    edited = [_with_changes(response.message, changed)] if changed else []
    return CheckedResponse([*edited, *answers], update.get("checks", ()), usage)


def _answer_unmade(called: CalledTool, call: ToolCall) -> ToolMessage:
    if call.refused:
        return refuse(called, call.refused, denied=call.denied)
    given = {"name": called["name"], "tool_call_id": str(called["id"]), "response_metadata": {MADE_KEY: False}}
    return ToolMessage(call.response, **given)


def _with_changes(response: AIMessage, changed: Mapping[str, ToolCall]) -> AIMessage:
    """Return a response with calls as a person changed them."""
    calls = [
        {**one, "name": call.name, "args": call.model_dump()["args"]} if (call := changed.get(str(one["id"]))) else one
        for one in response.tool_calls
    ]
    return response.model_copy(update={"tool_calls": calls})


class JudgedEnd(NamedTuple):
    """What was found about the answer with which an agent wants to end."""

    audit: Audit
    certificates: Sequence[Certificate]
    usage: Usage

    @property
    def is_confirmed(self) -> bool:
        """Whether somebody judged the answer and found nothing missing."""
        return self.audit.confirmed and self.audit.judged

    @property
    def ending(self) -> str:
        """The ending, if the answer is the last one."""
        if not self.audit.confirmed:
            return GAVE_UP
        if not self.audit.judged:
            return FINISHED if self.audit.reason else QUESTION
        return GOAL if any(one.targets[0].kind == "goal" for one in self.certificates) else FINISHED


async def judge_end(
    messages: Sequence[AnyMessage],
    text: str,
    agent: OutsideAgent,
    runtime: Runtime[Any],
    turn: TurnView = TurnView(),  # noqa: B008 - a tuple
    conditions: Sequence[str] = (),
) -> JudgedEnd:
    """Judge the answer with which an agent wants to end, and the open conditions.

    Checks of the user's decide first. Where one finds that a condition does not hold, no model is asked.

    Args:
        messages: the conversation.
        text: the answer.
        agent: the agent, whose world has the checks.
        runtime: runtime of the node or hook.
        turn: what else is known of the turn.
        conditions: the conditions that are not certified.
    """
    state = state_of(messages, agent.world, turn)
    by_code, refuted = await certify_by_checks(state, agent.world, conditions)
    if refuted:
        return JudgedEnd(Audit(confirmed=False, reason=refuted), by_code, Usage(node="audit"))
    certified = {one.targets[0].text for one in by_code}
    # nobody replies in a conversation that has ended
    asks: dict[str, Any] = {ASKS_ARGUMENT: True} if ends_with_question(text) and not turn.whole else {}
    view: AnswerAuditView = {
        "task": state["task"],
        "action": Action(text=f"{FINISH}[{text}]", kind=FINISH, args={ANSWER_ARGUMENT: text, **asks}),
        "answers": state["answers"],
        "steps": len(state["history"]),
        "conditions": [Predicate(text=one) for one in conditions if one not in certified],
        "claims": any(one.made and one.lasting for one in state["answers"]),
    }
    update, usage = await agent.call("audit", judge_answer, view, runtime)
    return JudgedEnd(update["audit"], [*by_code, *update.get("certificates", ())], usage)


def ends_with_question(text: str) -> bool:
    """Return whether the last line of a text ends with a question mark."""
    lines = [line.strip(" *_`\"')]}»”") for line in text.splitlines() if line.strip()]
    return bool(lines) and bool(QUESTION_MARK.fullmatch(lines[-1][-1:]))


async def certify_by_checks(
    state: Mapping[str, Any], world: Tools, conditions: Sequence[str]
) -> tuple[list[Certificate], str]:
    """Return certificates of the conditions that checks find to hold, and what they find against another.

    Args:
        state: the state that operators read (`state_of`).
        world: the agent's tools, with the checks.
        conditions: the conditions that are not certified.
    """
    made, found, refuted = tuple(one for one in state["answers"] if one.made), list[Certificate](), ""
    latest = state["history"][-1].action if state["history"] else Action(text="", kind="text")
    for place, text in enumerate(conditions):
        target = Predicate(text=text)
        outcome = await check_condition(world.checks, target, made, world.deadline)
        if outcome and outcome.holds:
            certificate = Certificate(
                step=max(len(state["history"]), 1),
                position=place,
                targets=(target,),
                action=latest,
                digest="",
                evidence=outcome.shown,
                decided_by="code",
            )
            found.append(certificate)
        elif outcome and outcome.holds is False and not refuted:
            refuted = f"{text!r} does not hold by code: {outcome.shown}"
    return found, refuted


__all__ = [
    "CheckedResponse",
    "JudgedEnd",
    "certify_by_checks",
    "check_open_calls",
    "ends_with_question",
    "judge_end",
]
