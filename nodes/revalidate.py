"""Revalidate certified predicates that later actions may have undone: SDP's optional slot `revalidate`.

It goes beyond the paper. A certificate says that a predicate held once. Most later changes are meant (an object that
was picked up is put down again), some undo what the goal still needs, and SDP then builds on ground that is gone until
its goal fails. The slot comes into play after an action that changed the world without being certified, which is when
a run has left its plan. Checked are the certified predicates in force; those that the rest of the plan names
are left out, for they will be made true anyway. The ones found undone are recorded as invalidated, and the run replans
at once instead of trying the same target again.

A benchmark whose own Replan does not plan undone conditions again (TravelPlanner, multi-hop questions, research) is
refused when the run begins.

Certificates are never altered: an `Invalidation` says which predicate lost its force, when and why.
"""

from functools import lru_cache
from typing import Annotated, Any

from langgraph.runtime import Runtime
from pydantic import BaseModel, Field, create_model

from certigraph.adapters.context import Context
from certigraph.adapters.models.ask import ask
from certigraph.adapters.prompting import numbered, prompt, quoted
from certigraph.adapters.protocols import Operator
from certigraph.nodes.specs import factory
from certigraph.state.endings import UnknownName
from certigraph.state.records import Revalidation
from certigraph.state.sdp import RevalidateView


class Undone(BaseModel):
    """The model's answer: a reason, then the numbers of the conditions that were undone."""

    reason: str
    undone: list[int]


@factory
def recheck(*, most: int = 40) -> Operator:
    """Ask the validator, in one call, which certified predicates no longer hold although they are still needed.

    Args:
        most: predicates checked at once, the latest certified ones.

    Raises:
        UnknownName: `most` is no whole number from 1.
    """
    if not isinstance(most, int) or most < 1:
        raise UnknownName(f"recheck(most={most!r}): a whole number from 1, as in revalidate=recheck:most=40")

    async def recheck(state: RevalidateView, runtime: Runtime[Context]) -> dict[str, Any]:
        skipped = max(len(state["certified"]) - most, 0)
        checked = state["certified"][skipped:]
        instruction = INSTRUCTION.format(
            task=state["task"].goal,
            view=quoted(state["evidence"].view),
            tail=numbered(predicate.text for predicate in state["tail"]),
            conditions=numbered(predicate.text for predicate in checked),
        )
        answer = await ask(prompt(runtime, instruction), _form(len(checked)), role="validator", runtime=runtime)
        found = tuple(skipped + number - 1 for number in sorted({*answer.undone}))
        return {"revalidation": Revalidation(undone=found, reason=answer.reason)}

    return recheck


@lru_cache(maxsize=64)
def _form(count: int) -> type[Undone]:
    number = Annotated[int, Field(ge=1, le=count)]
    return create_model("Undone", __base__=Undone, undone=(list[number], ...))


INSTRUCTION = """\
Task: {task}

The world now:
{view}

The rest of the plan:
{tail}

These conditions were met earlier. Some were only steps on the way, such as holding an object that has been placed
since; others are needed until the end. An action that failed may have undone them.
Conditions, in order:
{conditions}

Give the numbers of those that do not hold now although the goal, or the rest of the plan, needs them to hold. Give an
empty list if there is none.
"""
