"""Replan (SDP Eq. 4): a new plan tail when tries at the target are used up. The one operator that sees everything.

It also gives the rest of a plan that was longer than `Limits.plan` allows, once all that it had is certified.
"""

from typing import Any

from langgraph.runtime import Runtime

from certigraph.adapters.context import Context
from certigraph.adapters.prompting import numbered, quoted, tried, unquoted
from certigraph.nodes.propose import planned
from certigraph.nodes.special import specialised
from certigraph.state.sdp import ReplanView, extends

MOST_ATTEMPTS_SHOWN = 10


@specialised
async def replan(state: ReplanView, runtime: Runtime[Context]) -> dict[str, Any]:
    """Ask the model for a new tail. An empty tail means giving up."""
    situation = SITUATION.format(
        task=state["task"].goal,
        certified=numbered(p.text for p in state["certified"].predicates),
        view=quoted(state["evidence"].view),
    )
    return {"plan": await planned(situation + _found(state) + _order(state), state["task"], runtime)}


def _order(state: ReplanView) -> str:
    tail = state["plan"][state["head"] :]
    if extends(state):
        return EXTEND.format(goal=tail[-1].text)
    attempts = quoted(tried(state["attempts"][-MOST_ATTEMPTS_SHOWN:]))
    return ANOTHER_WAY.format(tried=attempts, tail=numbered(p.text for p in tail))


def _found(state: ReplanView) -> str:
    """What an audit or a revalidation found, where the graph has one."""
    held = {predicate.text for predicate in state["certified"].predicates}
    lost = list(dict.fromkeys(i.predicate.text for i in state["invalidations"] if i.predicate.text not in held))
    parts = [f"Met earlier, but undone since:\n{numbered(lost)}\n"] if lost else []
    if state["audits"] and not state["audits"][-1].confirmed:
        parts.append(f"An audit found that the goal is not reached:\n{unquoted(state['audits'][-1].reason)}\n")
    return "".join(f"\n{part}" for part in parts)


async def give_up(state: ReplanView, runtime: Runtime[Context]) -> dict[str, Any]:
    """End the run instead of replanning (the paper's ablation of Replan, section 4.3)."""
    return {"plan": []}


SITUATION = """\
Task: {task}

Certified so far:
{certified}

The world now:
{view}
"""

EXTEND = """
The plan ends here, for it had as many conditions as a plan may have; all of them hold. Write the rest of the plan from
here to the goal. Make each condition an observable change that a single action can bring about. The last condition is
the goal itself:
{goal}
"""

ANOTHER_WAY = """
Tried lately:
{tried}

The rest of the plan, which did not work out:
{tail}

Write a new rest of the plan from here to the goal, by another way. Make each condition an observable change that a
single action can bring about. The last condition is the goal itself. If there is no way, give an empty list.
"""
