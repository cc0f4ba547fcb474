"""Realize (SDP Eq. 2): one action meant to make the target hold."""

from typing import Annotated, Any

from langgraph.runtime import Runtime
from pydantic import BaseModel, Field

from certigraph.adapters.benchmarks import limits_of
from certigraph.adapters.bounds import Within
from certigraph.adapters.candidates import candidates
from certigraph.adapters.context import Context
from certigraph.adapters.models.ask import ask, choose
from certigraph.adapters.prompting import listed, numbered, prompt, quoted, tried
from certigraph.nodes.special import specialised
from certigraph.state.records import Action
from certigraph.state.sdp import RealizeView


class NextAction(BaseModel):
    """The model's answer where the world does not list its actions."""

    action: Annotated[str, Field(min_length=1), Within(300)]


@specialised
async def realize(state: RealizeView, runtime: Runtime[Context]) -> dict[str, Any]:
    """Ask the model for the next action."""
    goal, target = state["task"].goal, state["target"].text
    most = limits_of(state["task"], runtime).options
    offered = await candidates([target, goal], runtime, most)
    question = prompt(
        runtime,
        INSTRUCTION.format(
            task=state["task"].goal,
            certified=numbered(p.text for p in state["certified"].predicates[-5:]),
            notes=_notes(state),
            view=quoted(state["evidence"].view),
            actions=quoted(numbered(offered)),
            tried=quoted(tried(state["attempts"])),
            target=state["target"].text,
        ),
    )
    if offered:
        text = await choose(question, offered, role="executor", runtime=runtime)
    else:
        text = (await ask(question, NextAction, role="executor", runtime=runtime)).action
    return {"action": Action(text=text)}


def _notes(state: RealizeView) -> str:
    told = [*state["belief"].text.splitlines(), *state["advice"]]
    return f"\nTo keep in mind:\n{quoted(listed(told))}\n" if told else ""


INSTRUCTION = """\
Task: {task}

Certified last:
{certified}
{notes}
The world now:
{view}

Actions to choose from:
{actions}

Tried for this condition without success:
{tried}

Condition to make true next: {target}
Give the one action that makes it true. Do not repeat what was tried.
"""
