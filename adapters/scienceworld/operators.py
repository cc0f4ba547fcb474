"""SDP's operators for ScienceWorld (SDP paper, appendix A.3).

Propose and Replan know the rooms and what the world refused before; Realize picks among admissible actions; Validate
has three shortcuts before the model is asked, and no cascade crosses into the goal. `scienceworld:paper` stops there.
The default goes further where a small model needs it: a draft of the plan from the task's own sentences (`draft`),
actions of the kind that the target asks for (`offers`), and conditions that the world's words settle (`wording`).
"""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Annotated, Any

from langgraph.runtime import Runtime
from pydantic import BaseModel, Field, create_model

from certigraph.adapters.benchmarks import limits_of
from certigraph.adapters.bounds import Cut, Within, at_most
from certigraph.adapters.candidates import admissible
from certigraph.adapters.context import Context
from certigraph.adapters.embeddings import encoder
from certigraph.adapters.loops import off_loop
from certigraph.adapters.matching import shortlist
from certigraph.adapters.models.ask import ask, choose
from certigraph.adapters.prompting import listed, numbered, prompt, quoted, unquoted
from certigraph.adapters.protocols import Operator
from certigraph.adapters.scienceworld import prompts
from certigraph.adapters.scienceworld.draft import ROOMS, draft
from certigraph.adapters.scienceworld.offers import harmless, offers
from certigraph.adapters.scienceworld.wording import read, settled
from certigraph.state.records import Action, Attempt, Observation, Predicate, Task, Verdict
from certigraph.state.sdp import ProposeView, RealizeView, ReplanView, ValidateView, extends, plan_of

if TYPE_CHECKING:
    from certigraph.adapters.scienceworld.benchmark import ScienceWorldBenchmark

GOAL = Predicate(text="The task is completed: the score is 100.", kind="goal")

FOCUS = "focus on "

FEW = 2
"""Options that a model too small to plan gets where meaning alone decides: of many it takes any."""

REJECTED = "rejected"
"""Evidence of a verdict on an action that the world did not take: what a replan must not name again."""

MOST_VIEW = 900
MOST_CASCADE = 5


class Conditions(BaseModel):
    """The model's plan, before it is known how many conditions it may have."""

    conditions: list[str]


@lru_cache(maxsize=16)
def conditions_form(most: int) -> type[Conditions]:
    """The form of a plan of `most` conditions."""
    return create_model("Conditions", __base__=Conditions, conditions=(at_most(most, str), ...))


class Written(BaseModel):
    """An action in the model's own words."""

    action: Annotated[str, Field(min_length=1), Within(300)]


class Holds(BaseModel):
    """The model's verdict: a reason, then how many conditions hold, from the first on."""

    reason: Annotated[str, Cut(120)]
    holds: int = Field(ge=0, le=MOST_CASCADE, strict=True)


def operators(benchmark: "ScienceWorldBenchmark") -> Mapping[str, Operator]:
    """The four by slot; `benchmark.grounded` says whether they go beyond the paper."""
    grounded = benchmark.grounded

    async def propose(state: ProposeView, runtime: Runtime[Context]) -> dict[str, Any]:
        hint = draft(state["task"].goal) if grounded else []
        if hint and benchmark.drafted:
            return {"plan": _with_goal(hint)}
        return {"plan": await _planned(state["task"], hint, "", runtime)}

    async def replan(state: ReplanView, runtime: Runtime[Context]) -> dict[str, Any]:
        left = _left(state)
        if extends(state):
            told = prompts.CUT.format(
                certified=numbered(p.text for p in state["certified"].predicates),
                view=quoted(state["evidence"].view, MOST_VIEW),
            )
            return {"plan": await _planned(state["task"], [], told, runtime)}
        told = prompts.STUCK.format(
            certified=numbered(p.text for p in state["certified"].predicates),
            why=_why(state),
            failures=listed(_failure(a) for a in state["attempts"][-5:]),
            rejected=listed(dict.fromkeys(a.action.text for a in state["attempts"] if a.verdict.evidence == REJECTED)),
            view=quoted(state["evidence"].view, MOST_VIEW),
        )
        if left and benchmark.drafted:
            return {"plan": _with_goal(left)}
        return {"plan": await _planned(state["task"], left if grounded else [], told, runtime)}

    async def realize(state: RealizeView, runtime: Runtime[Context]) -> dict[str, Any]:
        # A condition in words of the model's own gets an action in its own words, where the model can write one.
        choosing = benchmark.drafted or (grounded and read(state["target"].text))
        few = FEW if benchmark.drafted else limits_of(state["task"], runtime).options
        text = await (_chosen(state, few, runtime) if choosing else _written(state, runtime))
        return {"action": Action(text=text)}

    async def validate(state: ValidateView, runtime: Runtime[Context]) -> dict[str, Any]:
        verdict = _shortcut(state["tail"], state["observation"])
        if verdict is None and grounded:
            verdict = _by_words(state["tail"], state["observation"])
        return {"verdict": verdict or await _judged(state, runtime)}

    return {"propose": propose, "realize": realize, "validate": validate, "replan": replan}


def _left(state: ReplanView) -> list[str]:
    """The conditions that are still to be met: those that were undone first; without the target if it is exhausted."""
    tail = [p.text for p in state["plan"][state["head"] :] if p.kind != "goal"]
    if state["undone"] or state["denied"]:
        return [*dict.fromkeys(invalidation.predicate.text for invalidation in state["undone"]), *tail]
    return tail[1:]


def _why(state: ReplanView) -> str:
    """What led to the replan."""
    if undone := state["undone"]:
        texts = numbered(dict.fromkeys(invalidation.predicate.text for invalidation in undone))
        return prompts.UNDONE.format(undone=texts, reason=unquoted(undone[0].reason))
    if denied := state["denied"]:
        return prompts.DENIED.format(reason=unquoted(denied.reason))
    return prompts.EXHAUSTED.format(stuck=state["plan"][state["head"]].text, tries=len(state["attempts"]))


async def _planned(task: Task, hint: Sequence[str], told: str, runtime: Runtime[Context]) -> list[Predicate]:
    wordings = prompts.DRAFT.format(draft="\n".join(hint)) if hint else prompts.WORDINGS
    question = prompts.PLAN.format(task=task.goal, rooms=", ".join(ROOMS), situation=told, wordings=wordings)
    most = limits_of(task, runtime).plan
    answer = await ask(prompt(runtime, question), conditions_form(most), role="planner", runtime=runtime)
    return plan_of([*dict.fromkeys(text.strip() for text in answer.conditions if text.strip())], GOAL, most)


def _with_goal(texts: Sequence[str]) -> list[Predicate]:
    return [*(Predicate(text=text) for text in texts), GOAL]


async def _chosen(state: RealizeView, few: int, runtime: Runtime[Context]) -> str:
    """One of the actions of the target's kind that were not tried for it; without asking where only one is left."""
    tried = {attempt.action.text for attempt in state["attempts"]}
    target, most = state["target"].text, limits_of(state["task"], runtime).options
    left = [action for action in await admissible(runtime) if action not in tried]
    focused = next((a.text[len(FOCUS) :] for a in reversed(state["certified"].actions) if a.text.startswith(FOCUS)), "")
    view = state["evidence"].view
    offered = await off_loop(offers, target, left, view, focused=focused, most=most, few=few)
    queries = [target, state["task"].goal]
    offered = offered or await off_loop(lambda: shortlist(queries, harmless(left), most=most, encoder=encoder()))
    if not offered:
        return await _written(state, runtime)
    if len(offered) == 1:
        return offered[0]
    question = prompts.ACT.format(
        task=state["task"].goal,
        target=target,
        count=len(state["attempts"]),
        tried=quoted(listed(_failure(a) for a in state["attempts"][-3:])),
        view=quoted(state["evidence"].view, MOST_VIEW),
        actions=quoted(listed(offered)),
    )
    return await choose(prompt(runtime, question), offered, role="executor", runtime=runtime)


async def _written(state: RealizeView, runtime: Runtime[Context]) -> str:
    """An action in the model's words, as in the paper."""
    question = prompts.WRITE.format(
        task=state["task"].goal,
        target=state["target"].text,
        count=len(state["attempts"]),
        tried=quoted(listed(_failure(a) for a in state["attempts"][-5:])),
        view=quoted(state["evidence"].view, MOST_VIEW),
    )
    return (await ask(prompt(runtime, question), Written, role="executor", runtime=runtime)).action


def _shortcut(tail: Sequence[Predicate], seen: Observation) -> Verdict | None:
    """The paper's three: the task is done, the world refused the action, only the goal is left and not reached."""
    if seen.solved:
        return Verdict(depth=len(tail), reason="the score is 100")
    if not seen.accepted:
        evidence = str(seen.data.get("result", REJECTED))  # an ambiguous action is understood: it may be named again
        return Verdict(depth=0, reason=" ".join(seen.text.split())[:160], evidence=evidence)
    if tail[0].kind == "goal":
        return Verdict(depth=0, reason=f"the score is {seen.data.get('score')} of 100")
    return None


def _by_words(tail: Sequence[Predicate], seen: Observation) -> Verdict | None:
    """What the world's own words settle; None where the first condition is not among it."""
    depth = 0
    for predicate in tail:
        holds = None if predicate.kind == "goal" else settled(predicate.text, seen)
        if not holds:
            break
        depth += 1
    said = " ".join(seen.text.split())[:120]
    if depth:
        return Verdict(depth=depth, reason=said, evidence="the world's words")
    return Verdict(depth=0, reason=said, evidence="the world's words") if holds is False else None


async def _judged(state: ValidateView, runtime: Runtime[Context]) -> Verdict:
    tail = [p for p in state["tail"][:MOST_CASCADE] if p.kind != "goal"]
    seen = state["observation"]
    question = prompts.JUDGE.format(
        observation=quoted(seen.text, 500),
        score=seen.data.get("score", 0),
        change=f"{100 * seen.reward:+.0f}",
        room="The agent is in a room where it was not before.\n" if seen.data.get("new_room") else "",
        conditions=numbered(p.text for p in tail),
    )
    answer = await ask(prompt(runtime, question), Holds, role="validator", runtime=runtime)
    return Verdict(depth=min(answer.holds, len(tail)), reason=answer.reason, evidence="model")


def _failure(attempt: Attempt) -> str:
    return f"{attempt.action.text}: {attempt.verdict.reason[:100]}"
