"""Operators of agents with tools.

SDP's Realize, ReAct's Decide, STEP's Executor and a final answer choose calls of tools. Propose, Validate and Replan
are the usual ones with the user's checks.
"""

from collections.abc import Mapping
from typing import Any

from langgraph.runtime import Runtime

from certigraph.adapters.benchmarks import context_of
from certigraph.adapters.models.calls import profile_of
from certigraph.adapters.models.prompts import (
    Prompt,
    build_prompt,
    format_facts,
    format_notes,
    numbered_list,
    paragraphs,
    quote,
)
from certigraph.adapters.models.streams import ArgumentOf
from certigraph.adapters.models.tool_calls import OfferedTool, ToolChoice, ask_tool_calls
from certigraph.adapters.protocols import Benchmark, Context, Operator, OperatorFactory
from certigraph.adapters.tools.definitions import HOLDS, UNREACHABLE
from certigraph.adapters.tools.world import Tools
from certigraph.nodes.actions import CHECK_ACTION, to_unreachable_action
from certigraph.nodes.own_tools import has_tools, offered_tools, tools_of
from certigraph.nodes.tool_checks import judge_by_checks
from certigraph.nodes.tool_plans import propose, replan
from certigraph.nodes.tool_prompts import decision_prompt, list_tools, plan_ends_early, plan_prompt
from certigraph.nodes.work_records import format_record
from certigraph.state.endings import UnusableAnswer
from certigraph.state.records import Action, with_args
from certigraph.state.run import FINISH, DecideView
from certigraph.state.sdp import RealizeView, ValidateView
from certigraph.state.search import AnswerView
from certigraph.state.tools import ANSWER_ARGUMENT, MESSAGE_KEY, create_tool_action

_NOTHING: dict[str, Any] = {"type": "object", "properties": {}}

HOLDS_TOOL = OfferedTool(
    HOLDS,
    "No tool is called: the answers so far show that the target holds, and it is to be judged before anything else.",
    _NOTHING,
)
UNREACHABLE_TOOL = OfferedTool(
    UNREACHABLE,
    "No tool is called: an answer shows that a condition of the plan cannot come true any more as it is worded, or "
    "that the task takes another course. Say so in the thought; the rest is planned again.",
    _NOTHING,
)


async def validate(state: ValidateView, runtime: Runtime[Context]) -> dict[str, Any]:
    """Judge how many of the plan's next conditions hold: by the checks where they match, else by the model."""
    tools = tools_of(state["task"], runtime)
    return {"verdict": await judge_by_checks(state, runtime, tools.checks, tools.deadline)}


async def realize(state: RealizeView, runtime: Runtime[Context]) -> dict[str, Any]:
    """Ask the model for a chain of calls for the target and for the conditions after it, or for the answer.

    An answer that is handed in is not final: Validate judges all open conditions by it.
    """
    tools = tools_of(state["task"], runtime)
    claims = [HOLDS_TOOL, UNREACHABLE_TOOL] if state["ahead"] else [UNREACHABLE_TOOL]
    offered = [*offered_tools(tools, runtime), tools.finish_tool(), *claims]
    request = CALLS_REQUEST + (DISCOVERY_REQUEST if plan_ends_early(state) else PLAN_REQUEST + FINISH_REQUEST)
    prompt = await plan_prompt(state, request, tools, runtime)
    choice = await ask_tool_calls(prompt, offered, role="executor", runtime=runtime, listing=list_tools(offered))
    names = [call.name for call in choice.calls]
    if not any(name in tools.tools for name in names):
        return {"action": to_unreachable_action(choice.thought) if UNREACHABLE in names else CHECK_ACTION}
    return {"action": to_action(choice, tools, final=False)}


async def decide(state: DecideView, runtime: Runtime[Context]) -> dict[str, Any]:
    """Ask the model for the next calls, or for the answer that ends the work."""
    if (draft := state.get("draft")) and draft.action:
        return {"thought": draft.thought, "action": draft.action}
    tools, entry = tools_of(state["task"], runtime), context_of(runtime).entry
    is_part = entry is not None and not entry.last
    request = CALLS_REQUEST + _describe_part(dict(state), is_part)
    prompt = await decision_prompt(state, request, tools, runtime)
    offered = [*offered_tools(tools, runtime), tools.part_tool() if is_part else tools.finish_tool()]
    choice = await ask_tool_calls(
        prompt,
        offered,
        role="executor",
        runtime=runtime,
        answer=None if is_part else _shown_answer(tools),
        listing=list_tools(offered),
    )
    return {"thought": choice.thought, "action": to_action(choice, tools, final=not is_part, is_part=is_part)}


def _describe_part(state: Mapping[str, Any], is_part: bool) -> str:
    if is_part:
        return PART_REQUEST
    return SUBTASK_REQUEST if "whole" in state and not state["whole"] else FINISH_REQUEST


async def execute(state: DecideView, runtime: Runtime[Context]) -> dict[str, Any]:
    """Ask the model for the next calls for a sub-task, as `decide` does for the whole task."""
    return await decide(state, runtime)


async def answer(state: AnswerView, runtime: Runtime[Context]) -> dict[str, Any]:
    """Ask the model for the best answer that the work so far allows, where the work cannot go on.

    Raises:
        Fault: ("model") the endpoint failed.
        UnusableAnswer: the model called a tool instead.
    """
    tools, prompt = tools_of(state["task"], runtime), await _answer_prompt(state, runtime)
    offered, shown = [tools.finish_tool()], _shown_answer(tools)
    try:
        choice = await ask_tool_calls(
            prompt, offered, role="executor", runtime=runtime, answer=shown, listing=list_tools(offered)
        )
    except UnusableAnswer as unusable:
        reason = LIMITS_SPENT if state["trace"] or state["turns"] else NO_PLAN
        raise UnusableAnswer(
            unusable.boundary, f"{unusable}; only {FINISH} was offered, because {reason}"
        ) from unusable
    return {"action": to_action(choice, tools, final=True)}


async def _answer_prompt(state: AnswerView, runtime: Runtime[Context]) -> Prompt:
    """Build the prompt of a forced answer: what was done and answered, and why the work ended.

    Where the window has no space for all answers, what they established stands in the place of the oldest.
    """
    tools, profile = tools_of(state["task"], runtime), await profile_of("executor", runtime)
    before = paragraphs(ANSWER_REQUEST, f"Task: {state['task'].goal}")
    after = paragraphs(format_notes(state["belief"].text), _describe_end(state), ANSWER_CLOSING)
    facts = format_facts(state["facts"]) if state["facts"] else ""
    rest = build_prompt(runtime, before + facts + after, briefing=tools.conduct)
    record = format_record(state["answers"], rest.system + rest.user, profile)
    request = paragraphs(before, record.text, facts if record.cut else "", after)
    return build_prompt(runtime, request, briefing=tools.conduct, cut=record.cut)


def _describe_end(state: AnswerView) -> str:
    """Say which conditions were certified and which were not, and why the work ended."""
    # the goal as a condition repeats the task
    left = [one.text for one in state["open"] if one.kind != "goal"]
    certified = [one.text for one in state["certified"].predicates]
    listed = ((CERTIFIED_HEADING, certified), (OPEN_HEADING, left))
    reasons = (
        (VERDICT_HEADING, state["verdict"]),
        (GAVE_UP_HEADING, state["gave_up"]),
        (STOPPED_HEADING, state["stopped"]),
    )
    return paragraphs(
        *(f"{heading}\n{numbered_list(texts)}" for heading, texts in listed if texts),
        *(f"{heading}\n{quote(text)}" for heading, text in reasons if text),
    )


NO_PLAN = "the plan is empty, and the best answer is asked for: give conditions in the plan"

LIMITS_SPENT = (
    "the run has no steps left or no replans, where Limits(steps=N, replans=N) allows more, or the new plan was empty"
)


def _shown_answer(tools: Tools) -> ArgumentOf | None:
    """Return where the text of the answer stands in the model's calls; None if the answer has a form of the user's."""
    return ArgumentOf(FINISH, ANSWER_ARGUMENT) if tools.response_format is None else None


def to_action(choice: ToolChoice, tools: Tools, *, final: bool, is_part: bool = False) -> Action:
    """Create the action of the calls that a model chose. An answer that comes with calls of tools is not handed in.

    Args:
        choice: the calls.
        tools: the tools of the run.
        final: whether an answer ends the episode.
        is_part: whether the answer is that of a part of the task.
    """
    calls = [call for call in choice.calls if call.name in tools.loaded]
    if calls:
        return create_tool_action(calls)
    finish = next(call for call in choice.calls if call.name == FINISH)
    action = tools.finish_action(finish.args, final=final, is_part=is_part)
    shown = {MESSAGE_KEY: choice.message_id} if choice.message_id else {}
    return with_args(action, shown)


OPERATORS: Mapping[str, Operator] = {
    "propose": propose,
    "realize": realize,
    "validate": validate,
    "replan": replan,
    "decide": decide,
    "pursue": decide,
    "execute": execute,
    "answer": answer,
}
"""The operators by the name of the generic operator that each replaces."""


def operators_for(benchmark: Benchmark) -> Mapping[str, Operator | OperatorFactory]:
    """Return the operators of a benchmark's own by name; in a world of tools, those that choose calls of them."""
    own = benchmark.operators()
    return {**OPERATORS, **own} if has_tools(benchmark) else own


CALLS_REQUEST = """\
Write a short thought first: what is established, what is missing, and why these calls. Then make all calls that are
right by what is known now. They are made in the order in which you give them, and after one that fails no call is made
that changes something. So give whole chains, such as a mail and then the closing that has to come after it; leave for
later only calls whose arguments, or whether they are right, depend on an answer that is not there yet. First look up
all that can be looked up; then make the calls that change something together, for all parts of the task.
Names, ids, addresses, dates and figures come from the task or from an answer; what is not known has to be looked up.
Only a value that does no harm if it is wrong, such as a title, may be chosen where nothing gives it; the answer then
says so. A text that the task wants written is yours to word.
"""

PLAN_REQUEST = """\
The work is judged by the conditions of a plan. Serve the target and the conditions after it in one go wherever you can.
"""

DISCOVERY_REQUEST = """\
The work is judged by the conditions of a plan, which ends where more has to be known.
"""

FINISH_REQUEST = """\
Once all is done, hand in the answer with finish: what was done and found, whatever the task asks to be told, and what
could not be done.
"""

PART_REQUEST = """\
The task is a part of a larger one. Once it is done, hand in its result with finish. Others build on that: give them
every name, number and id that they need, as it stands in the answers, and what could not be done.
"""

SUBTASK_REQUEST = """\
The task is one subtask of a larger one. Call finish only where it is to hand in the answer: nothing can be done after
that.
"""

ANSWER_REQUEST = """\
The work on a task has ended, and no tool can be called any more. Hand in the answer that the work allows: what was
done, what was found, and plainly what was not done, was done otherwise than the task wants, or is not known, with the
reason. What a judgement or a reason below says about the work belongs into the answer, unless an answer of a tool shows
that it is wrong: whoever gave the task knows of nothing else.
"""

CERTIFIED_HEADING = "Conditions that were certified, each when it held:"
OPEN_HEADING = "Conditions that were not certified:"
VERDICT_HEADING = "The latest judgement of the work:"
GAVE_UP_HEADING = "Why the rest was not planned again:"
STOPPED_HEADING = "Why the search was stopped:"

ANSWER_CLOSING = "What is the answer?"

__all__ = [
    "OPERATORS",
    "answer",
    "decide",
    "execute",
    "propose",
    "realize",
    "replan",
    "tools_of",
    "validate",
]
