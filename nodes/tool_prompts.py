"""Prompts of those who call tools: the task, the calls so far with their answers, and what to call next.

What is constant comes first, then what only grows, then what changes. Each call stands once, before its answer. Tools
are handed to the model natively; a model without tool calling gets them as text (`list_tools`).
"""

from collections.abc import Sequence
from textwrap import indent

from langgraph.runtime import Runtime

from certigraph.adapters.benchmarks import limits_of, steps_before
from certigraph.adapters.models.calls import profile_of
from certigraph.adapters.models.profiles import ModelProfile, estimate_tokens
from certigraph.adapters.models.prompts import (
    History,
    Prompt,
    build_prompt,
    bullet_list,
    first_fitting,
    fit_turns,
    format_facts,
    format_notes,
    numbered_list,
    paragraphs,
    quote,
    quote_history,
)
from certigraph.adapters.models.tool_calls import OfferedTool
from certigraph.adapters.protocols import Context
from certigraph.adapters.tools.definitions import HOLDS
from certigraph.adapters.tools.schemas import format_tool
from certigraph.adapters.tools.world import Tools
from certigraph.state.records import Task
from certigraph.state.run import Belief, DecideView, Evidence, Turn
from certigraph.state.sdp import CUT_ARGUMENT, RealizeView

FEW_ACTIONS = 10
"""An agent is shown how many actions it has left once these are so few."""


async def decision_prompt(state: DecideView, request: str, tools: Tools, runtime: Runtime[Context]) -> Prompt:
    """Build the prompt of an agent without a plan.

    Args:
        state: the view of the acting agent.
        request: what is asked for, in the same words in all requests.
        tools: the tools of the run.
        runtime: the run's runtime.
    """
    assignment, lasting = f"Task: {state['assignment']}", state.get("lasting", 0)
    lasts = dict(state).get("whole", True)  # a subtask of STEP changes while the calls go on
    constant, advice = state["advice"][:lasting], state["advice"][lasting:]
    given = f"Given for it:\n{bullet_list(constant)}" if constant else ""
    before = paragraphs(request, assignment if lasts else "", given)
    after = paragraphs(
        "" if lasts else assignment,
        format_notes(state["belief"].text),
        format_advice(advice),
        _format_left(state["task"], runtime, state["steps"]),
    )
    return await _complete(before, state["turns"], after, tools, runtime)


def plan_ends_early(state: RealizeView) -> bool:
    """Return whether the rest of the plan is planned once its conditions hold, and some of them are open."""
    return bool(state["ahead"]) and CUT_ARGUMENT in state["ahead"][-1].args


def first_view(task: Task) -> DecideView:
    """Return the view of an agent that has done nothing yet."""
    return {
        "task": task,
        "assignment": task.goal,
        "steps": 0,
        "rounds": 0,
        "most_rounds": 0,
        "turns": (),
        "evidence": Evidence(),
        "advice": (),
        "belief": Belief(),
    }


async def plan_prompt(state: RealizeView, request: str, tools: Tools, runtime: Runtime[Context]) -> Prompt:
    """Build the prompt of an agent with a plan of conditions (Realize); arguments as for `decision_prompt`."""
    certified, ends_early = state["certified"].predicates, plan_ends_early(state)
    left = [*([] if state["target"].kind == "goal" else [state["target"]]), *state["ahead"]]
    shown = [one for one in (*certified, *left) if one.kind != "goal"]
    plan = numbered_list([*(one.text for one in shown), *([] if ends_early else [GOAL])])
    before = paragraphs(request, f"Task: {state['task'].goal}", f"{PLAN_HEADING}\n{plan}")
    judged = [one for one in state["attempts"] if not one.verdict.pending]
    after = paragraphs(
        POSITION.format(count=len(certified)) if certified else "",
        ENDS_EARLY if ends_early else "",
        format_notes(state["belief"].text),
        format_advice(state["advice"]),
        f"{JUDGED_HEADING}\n{quote(bullet_list(one.verdict.reason for one in judged))}" if judged else "",
        _format_left(state["task"], runtime, steps_before(runtime) + len(state["turns"])),
    )
    facts = format_facts(state["facts"]) if state["facts"] else ""
    return await _complete(before, state["turns"], after, tools, runtime, once_cut=facts)


async def _complete(
    before: str,
    turns: Sequence[Turn],
    after: str,
    tools: Tools,
    runtime: Runtime[Context],
    *,
    once_cut: str = "",
) -> Prompt:
    """Put the calls so far between the two parts of a prompt.

    `once_cut` is shown only where not all of them fit into the model's window.
    """
    profile = await profile_of("executor", runtime)
    after = paragraphs(after, CLOSING)
    rest = build_prompt(runtime, before + once_cut + after, role=CALLER, briefing=tools.conduct)
    history = format_calls(turns, rest.system + rest.user, profile)
    shown = f"{CALLS_HEADING}\n{quote_history(history)}" if turns else ""
    user = paragraphs(before, shown, once_cut if history.cut else "", after)
    return build_prompt(runtime, user, role=CALLER, briefing=tools.conduct, cut=history.cut)


def format_calls(turns: Sequence[Turn], rest: str, profile: ModelProfile) -> History:
    """Format calls with their answers, oldest first, as far as they fit into the model's window.

    Args:
        turns: the turns of the agent.
        rest: everything else in the prompt.
        profile: profile of the model.
    """
    texts = [_format_turn(number, turn) for number, turn in enumerate(turns, 1)]
    lengths = [estimate_tokens(text) for text in texts]

    def fit(available: int) -> tuple[int, Sequence[str]]:
        start = first_fitting(lengths, available)
        return start, texts[start:]

    return fit_turns(turns, fit, rest, profile)


def _format_turn(number: int, turn: Turn) -> str:
    thought = f" {turn.thought}" if turn.thought else ""
    answers = turn.observation.strip()
    if not _has_calls(answers, turn.action):
        answers = f"{turn.action}\n{indent(answers, ' ')}"
    return f"[turn {number}]{thought}\n{answers}"


def _has_calls(answers: str, action: str) -> bool:
    """Return whether answers have their calls as headings, as those of several calls do, and no other line like one."""
    headings = [line for line in answers.splitlines() if line and not line.startswith(" ")]
    return bool(headings) and action.startswith(f"{headings[0]}; ") and all(line in action for line in headings)


def format_advice(advice: Sequence[str]) -> str:
    """Format the advice of a gate for a prompt; empty without any."""
    return f"To keep in mind:\n{quote(bullet_list(advice))}" if advice else ""


def _format_left(task: Task, runtime: Runtime[Context], used: int) -> str:
    left = limits_of(task, runtime).steps - used
    return LEFT.format(left=left) if left <= FEW_ACTIONS else ""


def list_tools(tools: Sequence[OfferedTool]) -> str:
    """Format offered tools for a model that does not call tools natively."""
    shown = [format_tool(one.name, one.parameters, one.description) for one in tools if one.name and not one.hidden]
    return f"The tools:\n{bullet_list(shown)}"


CALLER = """\
You work on a task by calling tools. Rely on what they answer and not on what you expect; use names and numbers as they
stand there."""

CALLS_HEADING = "Calls so far and their answers, the latest last:"

PLAN_HEADING = "Plan, its conditions in order:"

POSITION = "Certified so far are the first {count} conditions of the plan."

ENDS_EARLY = f"""\
The plan ends there for now. Look up all that it asks for, and make no call yet that changes something. Once these
conditions hold, call {HOLDS}: they are judged, and the rest is planned by what is known then."""

GOAL = "All of the task is done, or the answers show why it cannot or must not be, and the answer was handed in."
"""The goal in a prompt that has the task as well."""

JUDGED_HEADING = "What was found when the target was judged:"

LEFT = "No more than {left} turns are left."

CLOSING = "What comes next?"

__all__ = [
    "GOAL",
    "JUDGED_HEADING",
    "decision_prompt",
    "first_view",
    "format_advice",
    "format_calls",
    "list_tools",
    "plan_ends_early",
    "plan_prompt",
]
