"""Hypotheses of where the answer may lie: directions for searches to take (CGDP sections 4.1 and appendix B)."""

from collections.abc import Iterable
from typing import Annotated, Any

from langgraph.runtime import Runtime
from pydantic import BaseModel, Field

from certigraph.adapters.bounds import Cut
from certigraph.adapters.context import Context
from certigraph.adapters.models.ask import ask
from certigraph.adapters.prompting import listed, prompt, quoted
from certigraph.adapters.protocols import Operator
from certigraph.nodes.specs import factory
from certigraph.state.acting import DecideView
from certigraph.state.endings import UnknownName
from certigraph.state.hypothesising import HypothesiseView
from certigraph.state.records import Task

MOST = 6
"""Hypotheses that one question may ask for."""


class Hypotheses(BaseModel):
    """The model's answer."""

    hypotheses: Annotated[list[Annotated[str, Field(min_length=1), Cut(200)]], Cut(MOST)]


@factory
def hypothesise(*, number: int = 3) -> Operator:
    """Ask for `number` different directions before anything was searched; fewer come where the model has no more.

    Raises:
        UnknownName: the number is not in 1..6.
    """
    if not 1 <= number <= MOST:
        raise UnknownName(f"hypothesise(number={number}): a number from 1 to {MOST}, as in hypothesise:number=3")

    async def hypothesise(state: HypothesiseView, runtime: Runtime[Context]) -> dict[str, Any]:
        found = await hypotheses(state["task"], runtime, most=number)
        return {"hypotheses": found or ("",)}

    return hypothesise


async def hypotheses(
    task: Task, runtime: Runtime[Context], *, most: int, known: str = "", tried: Iterable[str] = ()
) -> tuple[str, ...]:
    """At most `most` directions that fit what is known and were not tried, the most promising first."""
    order = ORDER.format(task=task.goal, known=quoted(known or "(nothing)"), tried=quoted(listed(tried)), most=most)
    answer = await ask(prompt(runtime, order), Hypotheses, role="planner", runtime=runtime)
    return tuple(dict.fromkeys(" ".join(text.split()) for text in answer.hypotheses))[:most]


def directed(decide: Operator, direction: str) -> Operator:
    """An agent that keeps a direction in mind as the first of its advice."""

    async def directed(state: DecideView, runtime: Runtime[Context]) -> dict[str, Any]:
        advice = (f"Direction to take: {direction}", *state["advice"])
        return await decide({**state, "advice": advice}, runtime)

    return directed if direction else decide


ORDER = """\
Question: {task}

Known so far:
{known}

Searched for already:
{tried}

Where could the answer lie? Give at most {most} hypotheses that fit what is known and are not yet searched for, the most
promising first, each a short direction for the search: whom or what to look up, and why it may lead to the answer.
"""
