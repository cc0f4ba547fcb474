"""Propose (SDP Eq. 1): the plan of predicates from the certified state to the goal, without any observation."""

from typing import Any

from langgraph.runtime import Runtime
from pydantic import BaseModel, Field

from certigraph.adapters.benchmarks import benchmark_of
from certigraph.adapters.context import Context
from certigraph.adapters.models.ask import ask
from certigraph.nodes.prompting import numbered, prompt
from certigraph.state.records import Predicate
from certigraph.state.sdp import ProposeView


class Conditions(BaseModel):
    """The model's answer: conditions in the order in which they should come true, the goal last."""

    conditions: list[str] = Field(max_length=40)


async def propose(state: ProposeView, runtime: Runtime[Context]) -> dict[str, Any]:
    """Ask the benchmark's own Propose, else the model, for the plan. An empty plan means giving up."""
    special = benchmark_of(state["task"], runtime).operators().get("propose")
    if special is not None:
        return await special(state, runtime)
    instruction = INSTRUCTION.format(certified=numbered(p.text for p in state["certified"].predicates))
    answer = await ask(prompt(state["task"], instruction), Conditions, role="planner", runtime=runtime)
    return {"plan": as_plan(answer)}


def as_plan(answer: Conditions) -> list[Predicate]:
    """The non-empty conditions as predicates; the last one is the goal."""
    texts = [text.strip() for text in answer.conditions if text.strip()]
    return [Predicate(text=text, kind="goal" if n == len(texts) else "condition") for n, text in enumerate(texts, 1)]


INSTRUCTION = """\
Certified so far:
{certified}

List the conditions that lead from here to the goal, in the order in which they should come true. Make each one an
observable change that a single action can bring about. The last condition is the goal itself.
"""
