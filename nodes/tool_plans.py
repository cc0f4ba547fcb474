"""Plans of agents with tools: Propose and Replan ask for conditions by which the work is judged.

Conditions that have the form of a check of the user's are decided by code. As the values in them are often known only
after something was looked up, a plan may end early: it says that the rest is planned once its conditions hold.
"""

from collections.abc import Sequence
from typing import Annotated, Any

from langgraph.runtime import Runtime
from pydantic import BaseModel

from certigraph.adapters.benchmarks import limits_of
from certigraph.adapters.models.calls import ask, profile_of
from certigraph.adapters.models.prompts import (
    Prompt,
    build_prompt,
    bullet_list,
    format_facts,
    numbered_list,
    paragraphs,
    quote,
    quote_history,
    unquote_line,
)
from certigraph.adapters.models.schemas import FirstReasoning, Requested
from certigraph.adapters.protocols import Context
from certigraph.nodes.conditions import goal_of
from certigraph.nodes.own_tools import tools_of
from certigraph.nodes.tool_prompts import CALLS_HEADING, format_calls
from certigraph.state.records import Attempt, Predicate, Task
from certigraph.state.sdp import ProposeView, SDPReplanView, build_plan, needs_rest_of_plan


class ToolPlan(BaseModel):
    """Answer schema for a plan: conditions in the order in which they should come true, without the goal."""

    reasoning: FirstReasoning = ""
    conditions: list[str]


class OpenToolPlan(ToolPlan):
    """Answer schema for a plan whose rest may be planned later."""

    then_plan: Annotated[bool, Requested] = False


async def propose(state: ProposeView, runtime: Runtime[Context]) -> dict[str, Any]:
    """Ask the model for a plan, unless Commit has written it as well. Without conditions it is the goal alone."""
    if (draft := state.get("draft")) and draft.plan:
        return {"plan": [*draft.plan]}
    task = state["task"]
    request = paragraphs(plan_request(task, runtime), f"Task: {task.goal}", PLAN_CLOSING)
    return await _ask_plan(build_prompt(runtime, request, role=PLANNER), task, runtime)


async def replan(state: SDPReplanView, runtime: Runtime[Context]) -> dict[str, Any]:
    """Ask the model for a new rest of the plan, or for the rest of one that ended early; empty to give up."""
    task, profile = state["task"], await profile_of("planner", runtime)
    certified = numbered_list(one.text for one in state["certified"].predicates)
    before = paragraphs(plan_request(task, runtime), f"Task: {task.goal}")
    facts = format_facts(state["facts"]) if state["facts"] else ""
    after = paragraphs(f"{CERTIFIED_HEADING}\n{certified}", _describe_reason(state), REST_CLOSING)
    rest = build_prompt(runtime, before + facts + after, role=PLANNER)
    history = format_calls(state["turns"], rest.system + rest.user, profile)
    shown = f"{CALLS_HEADING}\n{quote_history(history)}" if state["turns"] else ""
    request = paragraphs(before, shown, facts if history.cut else "", after)
    prompt = build_prompt(runtime, request, role=PLANNER, cut=history.cut)
    return await _ask_plan(prompt, task, runtime, may_give_up=not needs_rest_of_plan(state))


def plan_request(task: Task, runtime: Runtime[Context]) -> str:
    """Return what is asked of a planner, with the forms of conditions that checks decide."""
    checks, most = tools_of(task, runtime).checks, limits_of(task, runtime).plan
    forms = CHECKS_NOTE.format(forms=bullet_list(map(str, checks))) if checks else ""
    return paragraphs(PLAN_REQUEST.format(most=most), forms)


def _describe_reason(state: SDPReplanView) -> str:
    """Return why a rest is planned: the plan ended early, or its target was not reached."""
    if needs_rest_of_plan(state):
        return ENDED_EARLY
    tail = numbered_list(one.text for one in state["plan"][state["head"] :])
    judged = [one for one in state["attempts"] if one.position == state["head"] and not one.verdict.pending]
    checks = [one for one in state["audits"][-1:] if not one.confirmed]
    lost = [f"{one.predicate.text} held and does so no more: {unquote_line(one.reason)}" for one in state["undone"]]
    found = [*map(_describe_attempt, judged), *(f"audit of the goal: {one.reason}" for one in checks), *lost]
    return NOT_REACHED.format(tail=tail, found=quote(bullet_list(found)))


def _describe_attempt(attempt: Attempt) -> str:
    return attempt.verdict.reason or f"{attempt.action.text} did not bring it about"


async def _ask_plan(
    prompt: Prompt, task: Task, runtime: Runtime[Context], *, may_give_up: bool = False
) -> dict[str, Any]:
    """Ask for a plan.

    Args:
        prompt: the prompt.
        task: the task.
        runtime: the run's runtime.
        may_give_up: whether a plan without conditions means to give up.
    """
    answer = await ask(prompt, plan_form(task, runtime), role="planner", runtime=runtime)
    if not any(map(str.strip, answer.conditions)) and may_give_up:
        reason = unquote_line(answer.reasoning)
        return {"plan": [], **({"gave_up": reason} if reason else {})}
    return {"plan": read_plan(answer, task, runtime)}


def plan_form(task: Task, runtime: Runtime[Context]) -> type[ToolPlan]:
    """Return the answer schema of a plan; where the user has checks, its rest may be planned later."""
    return OpenToolPlan if tools_of(task, runtime).checks else ToolPlan


def read_plan(answer: ToolPlan, task: Task, runtime: Runtime[Context]) -> list[Predicate]:
    """Return the plan of a model's answer: its conditions, each once, and the goal."""
    texts = list(dict.fromkeys(stripped for text in answer.conditions if (stripped := text.strip())))
    ends_early = isinstance(answer, OpenToolPlan) and answer.then_plan and bool(texts)
    return create_plan(texts, task, limits_of(task, runtime).plan, ends_early=ends_early)


def create_plan(texts: Sequence[str], task: Task, most: int, *, ends_early: bool = False) -> list[Predicate]:
    """Create a plan of conditions and the goal.

    Args:
        texts: the conditions.
        task: the task.
        most: maximum number of conditions.
        ends_early: whether the rest is planned once the conditions hold.
    """
    goal = goal_of(task)
    if ends_early:
        kept = texts[:most]
        return build_plan(kept, goal, len(kept))
    return build_plan([*texts, goal.text], goal, most + 1)


PLANNER = """\
You plan for an agent that calls tools. A plan is a list of conditions by which the work is judged, in the order in
which they should come true. Write each as a fact that can be read in what tools answer or in the list of the calls that
were made: what was found out, done, sent or changed. Name things as the task and the tools name them. A condition is
worth its place if it can be judged by itself: one for each part of the task, and one before each step that cannot be
undone, which says that what the step needs is established, such as that it is allowed, which one it is about, and how
much."""

PLAN_REQUEST = """\
Think first: which parts does the task have, what has to be known or done before what, and which steps cannot be undone?
Then list the conditions, at most {most} and no more than are needed. The goal itself, that all of the task is done and
the answer was handed in, comes after them by itself: leave it out."""

CHECKS_NOTE = """\
Conditions of the following forms are decided by code, which makes them certain. Wherever one of them says what is
meant, write the condition in exactly these words, with a value in the place of each name in braces.
{forms}
Where these values are only known after something was looked up, list only the conditions that say what has to be found
out, and set then_plan: the rest is planned, with the values, once they hold."""

CERTIFIED_HEADING = "Certified so far, each when it held; later calls may have changed it:"

ENDED_EARLY = "The plan ended here, so that the rest is planned by what is known now."

NOT_REACHED = """\
The rest of the plan, whose first condition was not reached:
{tail}

What was found about it:
{found}

Think first: why was it not reached? It may be worded so that no answer can show it, there may be no such thing, or a
rule may forbid it. Avoid that cause. Give an empty list only if nothing that can still be done completes the task, and
say why in the reasoning."""

PLAN_CLOSING = "Which conditions is the work judged by?"

REST_CLOSING = "Which conditions is the rest of the work judged by? Do not repeat what is certified and still holds."

__all__ = ["OpenToolPlan", "ToolPlan", "create_plan", "plan_form", "plan_request", "propose", "read_plan", "replan"]
