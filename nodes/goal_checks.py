"""Checks of certificates beyond the SDP paper: audit and revalidate."""

from collections.abc import Sequence
from functools import lru_cache
from typing import Annotated, Any

from langgraph.runtime import Runtime
from pydantic import BaseModel, Field, create_model

from certigraph.adapters.benchmarks import benchmark_of, context_of
from certigraph.adapters.models.calls import ask, numbered, prompt, quoted
from certigraph.adapters.protocols import Context, Operator
from certigraph.nodes.slots import factory
from certigraph.state.records import Audit, Revalidation, UnknownName
from certigraph.state.sdp import AuditView, RevalidateView

# Audit the goal before it is certified: operators of SDP's optional slot `audit`, which go beyond the paper.
#
# SDP ends `goal` as soon as one verdict of Validate says so. A validator that wrongly accepts one verdict in ten is
# given many occasions in a long run, so many of these endings are false. An audit is a second, independent check; a
# denied goal is not certified, and the run replans. Replan sees the audit (`ReplanView.denied`); the prompts of the
# generic Replan, of ScienceWorld's and of the multi-hop questions' have its reason. TravelPlanner's asks no model,
# and research has no other way once its steps are done: it gives up.
#
# An audit sees the task, the goal predicate, the last action, what the world answered, and the world's present view.
# It sees neither the verdict that it checks nor certificates, attempts or plan: they would lead it to the same
# conclusion.


class GoalCheck(BaseModel):
    """One vote: the reason first, then the decision that it supports."""

    reason: str
    reached: bool


@factory
def votes(*, k: int = 2, n: int = 3, temperature: float = 0.7) -> Operator:
    """Confirm the goal if `k` of `n` independent answers of the validator say that it is reached.

    Asking stops as soon as `k` agree or can no longer agree. Each answer is sampled on its own: at a temperature above
    0 where the model takes one, and under its own number in a cache of replies. Errors that a model makes every time
    are not voted away; give the validator another model than the other roles to make them rarer.

    Args:
        k: votes needed, 1 to `n`.
        n: votes at most.
        temperature: sampling temperature of each vote, 0 to 2; left out for a model that refuses it.

    Raises:
        UnknownName: `k`, `n` or `temperature` is out of range.
    """
    counts = all(isinstance(number, int) for number in (k, n)) and 1 <= k <= n
    if not counts or not isinstance(temperature, int | float) or not 0 <= temperature <= 2:
        given = f"votes(k={k!r}, n={n!r}, temperature={temperature!r})"
        raise UnknownName(f"{given}: k is a whole number from 1 to n, temperature 0 to 2, as in audit=votes:k=2,n=3")

    async def votes(state: AuditView, runtime: Runtime[Context]) -> dict[str, Any]:
        question = prompt(
            runtime,
            AUDIT_INSTRUCTION.format(
                task=state["task"].goal,
                action=state["action"].text,
                observation=quoted(state["observation"].text),
                view=quoted(state["evidence"].view),
                goal=state["goal"].text,
            ),
        )
        cast: list[GoalCheck] = []
        while _undecided(cast, k, n):
            sample = len(cast) + 1
            vote = await ask(
                question, GoalCheck, role="validator", runtime=runtime, temperature=temperature, sample=sample
            )
            cast.append(vote)
        confirmed = sum(vote.reached for vote in cast) >= k
        reason = next(vote.reason for vote in reversed(cast) if vote.reached == confirmed)
        return {"audit": Audit(confirmed=confirmed, reason=reason, votes=tuple(vote.reached for vote in cast))}

    return votes


def _undecided(cast: Sequence[GoalCheck], k: int, n: int) -> bool:
    yes = sum(vote.reached for vote in cast)
    return yes < k and len(cast) - yes <= n - k


@factory
def world_check(*, otherwise: Operator | None = None) -> Operator:
    """Confirm the goal if the world itself signals success (`Observation.solved`); no model is asked.

    This is privileged information wherever a deployed agent has no such signal. ReAct and the other methods without
    predicates end `goal` by the same signal. Worlds without one (`Benchmark.signals_goal` is not true: questions,
    TravelPlanner, worlds of your own), and parts of a task, are checked by `otherwise`.

    Args:
        otherwise: the audit where the world gives no signal; `votes()` when not given.
    """
    fallback = otherwise or votes()

    async def world_check(state: AuditView, runtime: Runtime[Context]) -> dict[str, Any]:
        signals = getattr(benchmark_of(state["task"], runtime), "signals_goal", False)
        if not signals or context_of(runtime).entry is not None:
            return await fallback(state, runtime)
        solved = state["observation"].solved
        reason = "the world signals success" if solved else "the world does not signal success"
        return {"audit": Audit(confirmed=solved, reason=reason)}

    return world_check


AUDIT_INSTRUCTION = """\
Task: {task}

The last action: {action}
The world answered:
{observation}

The world now:
{view}

It is claimed that the goal is reached:
{goal}

Check this claim against what the world shows, one demand of the goal after the other. It is reached only if all that
the goal demands holds now; what the world does not show is no reason to believe it.
"""


# Revalidate certified predicates that later actions may have undone: SDP's optional slot `revalidate`.
#
# It goes beyond the paper. A certificate says that a predicate held once. Most later changes are meant (an object
# that was picked up is put down again), some undo what the goal still needs, and SDP then builds on ground that is
# gone until its goal fails. The slot comes into play after an action that changed the world without being certified,
# which is when a run has left its plan. Checked are the certified predicates in force; those that the rest of the
# plan names are left out, for they will be made true anyway. The ones found undone are recorded as invalidated, and
# the run replans at once instead of trying the same target again.
#
# A benchmark whose own Replan does not plan undone conditions again (TravelPlanner, multi-hop questions, research) is
# refused when the run begins.
#
# Certificates are never altered: an `Invalidation` says which predicate lost its force, when and why.


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
        instruction = REVALIDATE_INSTRUCTION.format(
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


REVALIDATE_INSTRUCTION = """\
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
