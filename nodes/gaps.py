"""Gap-aware stopping (CGDP appendix B): ask which predicates are unresolved, and stop when none is."""

from typing import Annotated, Any

from langgraph.runtime import Runtime
from pydantic import BaseModel, Field

from certigraph.adapters.benchmarks import limits_of
from certigraph.adapters.bounds import Cut
from certigraph.adapters.context import Context
from certigraph.adapters.models.ask import ask
from certigraph.adapters.prompting import listed, prompt, quoted
from certigraph.adapters.protocols import Operator
from certigraph.nodes.specs import factory
from certigraph.nodes.transcript import gathered
from certigraph.state.beliefs import Stagnation
from certigraph.state.gathering import GateView


class Gaps(BaseModel):
    """The model's answer."""

    unresolved: Annotated[list[Annotated[str, Field(min_length=1), Cut(160)]], Cut(5)]
    answerable: bool


@factory
def gap_gate() -> Operator:
    """Stop once nothing is unresolved and the question can be answered; else name the first gap as what to do next.

    It aims at premature stopping and at searching on past the answer, the exhaustion gate at searching in vain:
    `either(gap_gate(), exhaustion_gate())`.
    """

    async def gap_gate(state: GateView, runtime: Runtime[Context]) -> dict[str, Any]:
        certified = quoted(listed(action.text for action in state["certified"].actions))
        told = gathered(state, limits_of(state["task"], runtime))
        order = ORDER.format(task=state["task"].goal, certified=certified)
        gaps = await ask(prompt(runtime, told + order), Gaps, role="validator", runtime=runtime)
        if gaps.answerable and not gaps.unresolved:
            return {"stagnation": Stagnation(stop=True, reason="nothing that the question needs is unresolved")}
        advice = f"Not known yet: {gaps.unresolved[0]}" if gaps.unresolved else ""
        return {"stagnation": Stagnation(advice=advice)}

    return gap_gate


@factory
def either(one: Operator, other: Operator) -> Operator:
    """Two gates as one, which stops where either does. Both are asked every round; where both speak, the first's words
    count, and those of one that stops before them."""

    async def either(state: GateView, runtime: Runtime[Context]) -> dict[str, Any]:
        found: list[Stagnation] = [(await gate(state, runtime))["stagnation"] for gate in (one, other)]
        first, second = sorted(found, key=lambda stagnation: not stagnation.stop)
        told = {**second.model_dump(exclude_defaults=True), **first.model_dump(exclude_defaults=True)}
        return {"stagnation": Stagnation.model_validate({**told, "streak": max(first.streak, second.streak)})}

    return either


ORDER = """
Certified:
{certified}

Question: {task}
What the question needs to know, and what was found does not settle yet, is unresolved: name each as a short question,
the most important first. Do not count as settled what was only assumed. Then say whether the question can be answered
from what was found.
"""
