"""Replan (SDP Eq. 4): a new plan tail when tries at the target are used up. The one operator that sees everything."""

from typing import Any

from langgraph.runtime import Runtime

from certigraph.adapters.context import Context
from certigraph.adapters.models.ask import ask
from certigraph.adapters.prompting import numbered, prompt, quoted, tried
from certigraph.nodes.propose import Conditions, as_plan
from certigraph.nodes.special import specialised
from certigraph.state.sdp import ReplanView

MOST_ATTEMPTS_SHOWN = 10


@specialised
async def replan(state: ReplanView, runtime: Runtime[Context]) -> dict[str, Any]:
    """Ask the model for a new tail. An empty tail means giving up."""
    instruction = INSTRUCTION.format(
        task=state["task"].goal,
        certified=numbered(p.text for p in state["certified"].predicates),
        view=quoted(state["evidence"].view),
        tried=quoted(tried(state["attempts"][-MOST_ATTEMPTS_SHOWN:])),
        tail=numbered(p.text for p in state["plan"][state["head"] :]),
    )
    answer = await ask(prompt(runtime, instruction), Conditions, role="planner", runtime=runtime)
    return {"plan": as_plan(answer, state["task"])}


async def give_up(state: ReplanView, runtime: Runtime[Context]) -> dict[str, Any]:
    """End the run instead of replanning (the paper's ablation of Replan, section 4.3)."""
    return {"plan": []}


INSTRUCTION = """\
Task: {task}

Certified so far:
{certified}

The world now:
{view}

Tried lately:
{tried}

The rest of the plan, whose first condition could not be made true:
{tail}

Write a new rest of the plan from here to the goal, by another way. Make each condition an observable change that a
single action can bring about. The last condition is the goal itself. If there is no way, give an empty list.
"""
