"""Realize (SDP Eq. 2): one action meant to make the target hold."""

from typing import Any

from langgraph.runtime import Runtime
from pydantic import BaseModel, Field

from certigraph.adapters.benchmarks import benchmark_of
from certigraph.adapters.context import Context
from certigraph.adapters.models.ask import ask, choose
from certigraph.nodes.prompting import numbered, prompt, quoted, tried
from certigraph.state.records import Action
from certigraph.state.sdp import RealizeView


class NextAction(BaseModel):
    """The model's answer where the world does not list its actions."""

    action: str = Field(min_length=1, max_length=300)


async def realize(state: RealizeView, runtime: Runtime[Context]) -> dict[str, Any]:
    """Ask the benchmark's own Realize, else the model, for the next action."""
    special = benchmark_of(state["task"], runtime).operators().get("realize")
    if special is not None:
        return await special(state, runtime)
    question = prompt(
        state["task"],
        INSTRUCTION.format(
            certified=numbered(p.text for p in state["certified"].predicates[-5:]),
            view=quoted(state["evidence"].view),
            actions=quoted(numbered(state["evidence"].admissible)),
            tried=quoted(tried(state["attempts"])),
            target=state["target"].text,
        ),
    )
    if state["evidence"].admissible:
        text = await choose(question, state["evidence"].admissible, role="executor", runtime=runtime)
    else:
        text = (await ask(question, NextAction, role="executor", runtime=runtime)).action
    return {"action": Action(text=text)}


INSTRUCTION = """\
Certified last:
{certified}

The world now:
{view}

Actions that the world lists:
{actions}

Tried for this condition without success:
{tried}

Condition to make true next: {target}
Give the one action that makes it true. Do not repeat what was tried.
"""
