"""Operators of agents with tools.

SDP's Realize, ReAct's Decide, STEP's Executor and a final answer choose calls of tools. Propose, Validate and Replan
are the usual ones with the user's checks.
"""

from collections.abc import Mapping
from typing import Any, cast

from langgraph.runtime import Runtime

from certigraph.adapters.benchmarks import benchmark_of, context_of
from certigraph.adapters.models.calls import profile_of
from certigraph.adapters.models.prompts import (
    Prompt,
    build_prompt,
    bullet_list,
    format_facts,
    format_history,
    format_notes,
    numbered_list,
    paragraphs,
    quote,
    quote_history,
)
from certigraph.adapters.models.streams import ArgumentOf
from certigraph.adapters.models.tool_calls import OfferedTool, ToolChoice, ask_tool_calls
from certigraph.adapters.protocols import Benchmark, Context, Operator, OperatorFactory
from certigraph.adapters.tools.definitions import HOLDS, UNREACHABLE
from certigraph.adapters.tools.world import Tools
from certigraph.nodes.actions import CHECK_ACTION, action_prompt, to_unreachable_action
from certigraph.nodes.conditions import ask_plan, ask_rest_of_plan
from certigraph.nodes.decisions import situation_prompt
from certigraph.nodes.tool_checks import judge_by_checks
from certigraph.state.endings import Fault, UnusableAnswer
from certigraph.state.records import Action, Task
from certigraph.state.run import FINISH, DecideView
from certigraph.state.sdp import ProposeView, RealizeView, SDPReplanView, ValidateView
from certigraph.state.search import AnswerView
from certigraph.state.tools import ANSWER_ARGUMENT, MESSAGE_KEY, create_call_turn, create_tool_action

_NOTHING: dict[str, Any] = {"type": "object", "properties": {}}

HOLDS_TOOL = OfferedTool(
    HOLDS,
    "No tool is called: the answers so far show that the target holds already, and it is checked by them.",
    _NOTHING,
)
UNREACHABLE_TOOL = OfferedTool(
    UNREACHABLE,
    "No tool is called: an answer shows that the target cannot come true any more as it is worded, or that the task "
    "takes another course, so that the rest is planned again.",
    _NOTHING,
)


def has_tools(benchmark: Benchmark) -> bool:
    """Return whether a world consists of tools."""
    return hasattr(benchmark, "offered")  # `isinstance` takes ten times as long for a protocol, and every node asks


def tools_of(task: Task, runtime: Runtime[Context]) -> Tools:
    """Return the tools of a run.

    Raises:
        Fault: ("operator") the world of the run is not made of tools.
    """
    benchmark = benchmark_of(task, runtime)
    if has_tools(benchmark):
        return cast(Tools, benchmark)
    name = benchmark.name
    raise Fault("operator", f"the world {name} has no tools: use its own operators, or certigraph.Tools")


def offered_tools(tools: Tools, runtime: Runtime[Context]) -> list[OfferedTool]:
    """Return the tools that a model may call, without `finish`.

    Those outside the run's commitment are hidden, unless a person may approve their calls. A call of a hidden one is
    read all the same, and refused when it is to be made.
    """
    commitment = context_of(runtime).commitment
    if commitment is None:
        return tools.offered()
    usable = {*commitment.tools, *commitment.approvable}
    return [one._replace(hidden=one.provided is None and one.name not in usable) for one in tools.offered()]


async def propose(state: ProposeView, runtime: Runtime[Context]) -> dict[str, Any]:
    """Ask the model for a plan, with the forms of conditions that checks decide."""
    return await ask_plan(state, runtime, notes=_planning_notes(state["task"], runtime))


async def replan(state: SDPReplanView, runtime: Runtime[Context]) -> dict[str, Any]:
    """Ask the model for a new rest of the plan, as `propose` does for a plan."""
    return await ask_rest_of_plan(state, runtime, notes=_planning_notes(state["task"], runtime))


async def validate(state: ValidateView, runtime: Runtime[Context]) -> dict[str, Any]:
    """Judge how many of the plan's next conditions hold: by the checks where they match, else by the model."""
    tools = tools_of(state["task"], runtime)
    return {"verdict": await judge_by_checks(state, runtime, tools.checks, tools.deadline)}


def _planning_notes(task: Task, runtime: Runtime[Context]) -> str:
    checks = tools_of(task, runtime).checks
    return CHECKS_NOTE.format(forms=bullet_list(map(str, checks))) if checks else ""


async def realize(state: RealizeView, runtime: Runtime[Context]) -> dict[str, Any]:
    """Ask the model for the calls that should make the target true.

    An answer may be handed in, and where the target is the goal, the target cannot hold without one. The answer is not
    final: Validate decides whether it settles the task.
    """
    tools, at_goal = tools_of(state["task"], runtime), state["target"].kind == "goal"
    offered = [
        *offered_tools(tools, runtime),
        tools.finish_tool(),
        *([] if at_goal else [HOLDS_TOOL]),
        UNREACHABLE_TOOL,
    ]
    request = REALIZE_REQUEST + (AT_GOAL if at_goal else "")
    prompt = await action_prompt(state, request, "", runtime)
    choice = await ask_tool_calls(prompt, offered, role="executor", runtime=runtime)
    names = [call.name for call in choice.calls]
    if not any(name in tools.tools for name in names):
        return {"action": to_unreachable_action(choice.thought) if UNREACHABLE in names else CHECK_ACTION}
    return {"action": to_action(choice, tools, final=False)}


async def decide(state: DecideView, runtime: Runtime[Context]) -> dict[str, Any]:
    """Ask the model for the next calls, or for the answer that ends the work."""
    tools, entry = tools_of(state["task"], runtime), context_of(runtime).entry
    is_part = entry is not None and not entry.last
    request = DECIDE_REQUEST + _describe_part(dict(state), is_part)
    prompt = await situation_prompt(state, request, runtime, closing=DECIDE_CLOSING)
    offered = [*offered_tools(tools, runtime), tools.part_tool() if is_part else tools.finish_tool()]
    shown = None if is_part else _shown_answer(tools)
    choice = await ask_tool_calls(prompt, offered, role="executor", runtime=runtime, answer=shown)
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
        choice = await ask_tool_calls(prompt, offered, role="executor", runtime=runtime, answer=shown)
    except UnusableAnswer as unusable:
        reason = LIMITS_SPENT if state["trace"] or state["turns"] else NO_PLAN
        raise UnusableAnswer(
            unusable.boundary, f"{unusable}; only {FINISH} was offered, because {reason}"
        ) from unusable
    return {"action": to_action(choice, tools, final=True)}


async def _answer_prompt(state: AnswerView, runtime: Runtime[Context]) -> Prompt:
    """Build the prompt of a forced answer: what was done and answered, and why the work ended.

    Where the window has no space for all answers, what they established stands in the place of the oldest, and the
    calls whose effect lasts are listed once more.
    """
    before = paragraphs(ANSWER_REQUEST, f"Task: {state['task'].goal}")
    after = paragraphs(format_notes(state["belief"].text), _describe_end(state), ANSWER_CLOSING)
    turns, profile = [*map(create_call_turn, state["answers"])], await profile_of("executor", runtime)
    rest = build_prompt(runtime, before + after)
    history = format_history(turns, rest.system + rest.user, profile)
    if history.cut:
        lasting = (turn for turn, one in zip(turns, state["answers"], strict=True) if one.made and one.lasting)
        listed = quote(bullet_list(f"{turn.action}: {turn.observation}" for turn in lasting))
        facts = format_facts(state["facts"]) if state["facts"] else ""
        after = paragraphs(facts, f"{LASTING_HEADING}\n{listed}", after)
        history = format_history(turns, rest.system + before + after, profile)
    calls = f"{CALLS_HEADING}\n{quote_history(history)}" if turns else NO_CALLS
    return build_prompt(runtime, paragraphs(before, calls, after), cut=history.cut)


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
    return action.model_copy(update={"args": {**action.args, **shown}})


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


CHECKS_NOTE = """\
Conditions of the following forms are decided by code, which makes them certain. Wherever one of them says what is
meant, write the condition in exactly these words, with a value in the place of each name in braces. Where such a value
can only be known later, word the condition in your own way.
{forms}"""

REALIZE_REQUEST = """\
Think first: what is missing for the target, and which calls bring it about without harm to what the plan needs later?
Then make the call. Make several at once only where none needs what another answers. They are carried out in your order,
and after one that fails none is, but look-ups after a failed look-up, so that a call may rely on those before it.
Names, ids, addresses, dates and figures come from the task or from what a tool answered; what is not known has to be
looked up first. Only a value that does no harm if it is wrong, such as a title, may be chosen where nothing gives it;
the answer at the end then says so. A text that the task wants written is yours to word.
"""

AT_GOAL = """\
The target is the goal, the last condition of the plan. Hand in the answer with finish if it is all that is missing: it
says what was done and found, whatever the task asks to be told, and what could not be done.
"""

DECIDE_REQUEST = """\
Think first: what do the answers so far establish for the assignment, what is still missing, and what would each likely
call change? Then make the next call. Make several at once only where none needs what another answers. They are carried
out in your order, and after one that fails none is, but look-ups after a failed look-up, so that a call may rely on
those before it. Names, ids, addresses, dates and figures come from the assignment or from what a tool answered; what is
not known has to be looked up first. Only a value that does no harm if it is wrong, such as a title, may be chosen where
nothing gives it; the answer at the end then says so. A text that the assignment wants written is yours to word.
"""

DECIDE_CLOSING = "What is the next call for the assignment?"

FINISH_REQUEST = """\
Once all is done, hand in the answer with finish: what was done and found, whatever the assignment asks to be told, and
what could not be done.
"""

PART_REQUEST = """\
The assignment is a part of a larger task. Once it is done, hand in its result as a text with finish(answer: string).
Others build on that: give them every name, number and id that they need, as it stands in the answers, and what could
not be done.
"""

SUBTASK_REQUEST = """\
The assignment is one subtask of a larger task. Call finish only where the assignment is to hand in the answer: nothing
can be done after that.
"""

ANSWER_REQUEST = """\
The work on a task has ended, and no tool can be called any more. Hand in the answer that the work allows: what was
done, what was found, and plainly what was not done, was done otherwise than the task wants, or is not known, with the
reason. What a judgement or a reason below says about the work belongs into the answer, unless an answer of a tool shows
that it is wrong: whoever gave the task knows of nothing else.
"""

CALLS_HEADING = "The calls and their answers, in order; what was not made is marked, with the reason:"
NO_CALLS = "No tool was called."
LASTING_HEADING = "All calls whose effect lasts:"
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
