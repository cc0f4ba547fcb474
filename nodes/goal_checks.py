"""Operators that check SDP's certificates once more, for two optional slots that the SDP paper does not have.

`votes` and `world_check` fill the slot `audit`: they check the goal before it is certified. `recheck` fills the slot
`revalidate`: it finds certified predicates that later actions have undone.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import Annotated, Any

from langgraph.runtime import Runtime
from pydantic import BaseModel, Field, create_model

from certigraph.adapters.benchmarks import benchmark_of, context_of
from certigraph.adapters.models.calls import ask
from certigraph.adapters.models.prompts import build_prompt, numbered_list, quote
from certigraph.adapters.models.schemas import LISTED_NUMBER
from certigraph.adapters.protocols import Context, Operator
from certigraph.nodes.operators import call_operator
from certigraph.nodes.slots import factory
from certigraph.state.endings import UnknownName
from certigraph.state.records import Audit, Revalidation
from certigraph.state.sdp import AuditView, RevalidateView

# Audit: check the goal before it is certified.
#
# SDP ends with `goal` as soon as one verdict of Validate claims it. A validator that wrongly accepts one verdict in
# ten has many occasions to do so in a long run, so many of these endings are false. An audit is a second, independent
# check. A denied goal is not certified, and the run replans. Replan sees the audit (`ReplanView.denied`): the prompts
# of the generic Replan, of ScienceWorld's and of the multi-hop questions' include its reason, TravelPlanner's Replan
# uses no model, and research gives up, because its steps are done and it has no other plan.
#
# An audit sees the task, the goal predicate, the last action, its observation and the world's current view. It does
# not see the verdict that it checks, nor certificates, attempts or plan, which would suggest the same conclusion.


class GoalCheck(BaseModel):
    """One vote: the reason first, then the decision that it supports."""

    reason: str
    reached: bool


@factory
def votes(*, k: int = 2, n: int = 3, temperature: float = 0.7) -> Operator:
    """Confirm the goal if `k` of `n` independent answers of the validator model say that it is reached.

    No further answer is sampled once `k` confirm the goal or too few are left to confirm it. Each is sampled at
    `temperature`, where the model accepts one, and has its own number in a cache of replies, so that the cache does not
    repeat an answer. Voting does not remove systematic errors of a model; a different model for the validator than for
    the other roles makes them rarer.

    Args:
        k: number of votes needed, 1 to `n`.
        n: maximum number of votes.
        temperature: sampling temperature of each vote, 0 to 2; not sent to a model that refuses it.

    Raises:
        UnknownName: `k`, `n` or `temperature` is out of range.
    """
    counts = all(isinstance(number, int) for number in (k, n)) and 1 <= k <= n
    if not counts or not isinstance(temperature, int | float) or not 0 <= temperature <= 2:
        call = f"votes(k={k!r}, n={n!r}, temperature={temperature!r})"
        raise UnknownName(f"{call}: k must be an integer from 1 to n, temperature 0 to 2, as in audit=votes:k=2,n=3")

    async def votes(state: AuditView, runtime: Runtime[Context]) -> dict[str, Any]:
        request = build_prompt(
            runtime,
            AUDIT_INSTRUCTION.format(
                task=state["task"].goal,
                action=state["action"].text,
                observation=quote(state["observation"].text),
                view=quote(state["evidence"].view),
                goal=state["goal"].text,
            ),
            role=AUDITOR,
        )
        cast: list[GoalCheck] = []
        while _is_undecided(cast, k, n):
            sample = len(cast) + 1
            vote = await ask(
                request, GoalCheck, role="validator", runtime=runtime, temperature=temperature, sample=sample
            )
            cast.append(vote)
        confirmed = sum(vote.reached for vote in cast) >= k
        reason = next(vote.reason for vote in reversed(cast) if vote.reached == confirmed)
        return {"audit": Audit(confirmed=confirmed, reason=reason, votes=tuple(vote.reached for vote in cast))}

    return votes


def _is_undecided(cast: Sequence[GoalCheck], k: int, n: int) -> bool:
    positive = sum(vote.reached for vote in cast)
    return positive < k and len(cast) - positive <= n - k


@factory
def world_check(*, otherwise: Operator | None = None) -> Operator:
    """Confirm the goal if the world signals success (`Observation.solved`), without a model call.

    The signal is privileged information: a deployed agent usually has none. ReAct and the other methods without
    predicates end with `goal` by the same signal. The operator `otherwise` is used in worlds without the signal
    (`Benchmark.signals_goal` is false, as for questions and TravelPlanner) and in runs that solve only a part of a
    task.

    Args:
        otherwise: audit operator for worlds that give no signal; `votes()` if None.
    """
    fallback = otherwise or votes()

    async def world_check(state: AuditView, runtime: Runtime[Context]) -> dict[str, Any]:
        signals = benchmark_of(state["task"], runtime).signals_goal
        if not signals or context_of(runtime).entry is not None:
            return await call_operator(fallback, state, runtime)
        solved = state["observation"].solved
        reason = "the world signals success" if solved else "the world does not signal success"
        return {"audit": Audit(confirmed=solved, reason=reason)}

    return world_check


AUDITOR = """\
You check, after the fact, what was claimed about a world that you know by text alone. Rely on what the world shows, and
not on what an action was meant to do or on who made the claim."""

AUDIT_INSTRUCTION = """\
Check the claim at the end against what the world shows, one demand of the goal after the other. The goal is reached
only if all that it demands holds now; what the world does not show is no reason to believe it.

Task: {task}

The last action: {action}
The world answered:
{observation}

The world now:
{view}

It is claimed that the goal is reached:
{goal}

Is it reached?
"""


# Revalidate: check certified predicates that later actions may have undone.
#
# A certificate says that a predicate held once. Most later changes are intended (an object that was picked up is put
# down again), but some undo what the goal still needs, and SDP then continues from a false state until its goal
# fails. The slot runs after an action that changed the world without being certified, because the run has then left
# its plan. It checks the certified predicates in force, except those that the rest of the plan makes true again.
# Undone predicates are recorded as invalidated, and the run replans at once instead of retrying the same target.
#
# A benchmark whose Replan does not plan undone conditions again (TravelPlanner, multi-hop questions, research) is
# refused when the run starts.
#
# Certificates are never changed: an `Invalidation` records which predicate no longer holds, since when and why.


class Undone(BaseModel):
    """Answer schema of `recheck`: a reason, then the numbers of the certified conditions that were undone."""

    reason: str
    undone: list[int]


@factory
def recheck(*, most: int = 40) -> Operator:
    """Ask the validator model, in one call, which certified predicates no longer hold although they are still needed.

    Args:
        most: maximum number of predicates in a call; the latest certified ones are checked.

    Raises:
        UnknownName: `most` is not a positive integer.
    """
    if not isinstance(most, int) or most < 1:
        raise UnknownName(f"recheck(most={most!r}): most must be a positive integer, as in revalidate=recheck:most=40")

    async def recheck(state: RevalidateView, runtime: Runtime[Context]) -> dict[str, Any]:
        skipped = max(len(state["certified"]) - most, 0)
        checked = state["certified"][skipped:]
        instruction = REVALIDATE_INSTRUCTION.format(
            task=state["task"].goal,
            view=quote(state["evidence"].view),
            tail=numbered_list(predicate.text for predicate in state["tail"]),
            conditions=numbered_list(predicate.text for predicate in checked),
        )
        answer = await ask(
            build_prompt(runtime, instruction, role=AUDITOR),
            _undone_form(len(checked)),
            role="validator",
            runtime=runtime,
            about={"checked": checked},
        )
        undone = tuple(skipped + number - 1 for number in sorted({*answer.undone}))
        return {"revalidation": Revalidation(undone=undone, reason=answer.reason)}

    return recheck


@lru_cache(maxsize=64)
def _undone_form(count: int) -> type[Undone]:
    number = Annotated[int, Field(ge=1, le=count, description=LISTED_NUMBER)]
    return create_model("Undone", __base__=Undone, undone=(list[number], ...))


REVALIDATE_INSTRUCTION = """\
Conditions were met earlier. Some were only steps on the way, such as holding an object that has been placed since;
others are needed until the end. An action that failed may have undone them. Give the numbers of those that do not hold
now although the goal, or the rest of the plan, needs them to hold. Give an empty list if there is none.

Task: {task}

Conditions that were met earlier, in order:
{conditions}

The rest of the plan:
{tail}

The world now:
{view}

Which of the conditions that were met earlier are needed and do not hold now?
"""
