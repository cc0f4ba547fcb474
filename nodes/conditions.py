"""Questions that SDP's operators ask a model about a plan: its conditions, and a new rest of them.

The generic operators (`nodes/sdp.py`) and those of benchmarks ask the same questions; a benchmark adds what only it
knows, such as the names of its places, as `notes`.
"""

from collections.abc import Sequence
from functools import lru_cache
from itertools import groupby
from typing import Annotated, Any, cast

from langgraph.runtime import Runtime
from pydantic import BaseModel, create_model

from certigraph.adapters.benchmarks import benchmark_of, context_of, limits_of, steps_before
from certigraph.adapters.models.calls import ask, profile_of
from certigraph.adapters.models.prompts import (
    TURNS_HEADING,
    build_prompt,
    format_attempts,
    format_facts,
    format_history,
    format_limits,
    format_view,
    format_world,
    numbered_list,
    paragraphs,
    quote,
    quote_history,
    unquote_line,
)
from certigraph.adapters.models.schemas import FirstReasoning, Requested, bounded_list
from certigraph.adapters.protocols import Context, EffectiveLimits
from certigraph.nodes.chains import chain_form, chain_request, read_chain
from certigraph.state.certified_states import CertifiedState
from certigraph.state.records import Predicate, Task
from certigraph.state.run import Draft
from certigraph.state.sdp import ProposeView, SDPReplanView, SharedRequest, build_plan, needs_rest_of_plan


class Conditions(BaseModel):
    """Answer schema for a plan: conditions in the order in which they should come true, the goal last."""

    reasoning: FirstReasoning = ""
    conditions: list[str]


async def ask_plan(
    state: ProposeView, runtime: Runtime[Context], *, goal: Predicate | None = None, notes: str = ""
) -> dict[str, Any]:
    """Ask a model for a plan: the conditions that it gives, then the goal. Without conditions the plan is empty.

    The goal is taken from the task (SDP, Definition 1), so that a model that weakens it cannot decide what success
    means.

    Args:
        state: the view of Propose.
        runtime: the run's runtime.
        goal: the last predicate; None for the task's.
        notes: what the planner should know about this world.

    If the view shows the world (`shared`), the first actions are asked for in the same request.

    Returns:
        The operator's update: `plan`; if it is empty `gave_up`, the model's reason, unless it gave none; and `draft`
        with the first actions.
    """
    task, end, limits = state["task"], goal or goal_of(state["task"]), limits_of(state["task"], runtime)
    question = PLAN_QUESTION.format(goal=end.text, limits=format_limits(task, runtime), tries=_format_allowed(limits))
    certified, notes = _format_certified(state["certified"]), paragraphs(notes, _wordings_note(task, runtime))
    shared = _shared_request(state, runtime)
    if shared is None:
        request = paragraphs(question, notes, _format_task(task), certified, PLAN_CLOSING)
    else:
        first = _ask_for_actions(shared, task, runtime)
        request = paragraphs(question, notes, first, _format_task(task), certified, format_world(shared.view))
        request = paragraphs(request, SHARED_CLOSING)
    return await _ask_conditions(request, task, end, runtime, shared=shared)


def _shared_request(state: ProposeView | SDPReplanView, runtime: Runtime[Context]) -> SharedRequest | None:
    """Return how the first actions are asked for in the same request; None if one model may not be asked for both."""
    benchmark, context = benchmark_of(state["task"], runtime), context_of(runtime)
    planner, executor = (context.chats.get(role) or context.roles.get(role) for role in ("planner", "executor"))
    may_share = planner == executor and not benchmark.answers and "realize" not in benchmark.operators()
    return state.get("shared") if may_share else None


def _ask_for_actions(shared: SharedRequest, task: Task, runtime: Runtime[Context]) -> str:
    wordings = WORDINGS_ABOVE if _wordings(task, runtime) else ""
    return FIRST_ACTIONS + chain_request(shared.ahead, wordings, planned=True)


def _wordings(task: Task, runtime: Runtime[Context]) -> str:
    return benchmark_of(task, runtime).wordings


def _wordings_note(task: Task, runtime: Runtime[Context]) -> str:
    wordings = _wordings(task, runtime)
    return WORDINGS_NOTE.format(wordings=wordings.strip()) if wordings else ""


async def ask_rest_of_plan(
    state: SDPReplanView,
    runtime: Runtime[Context],
    *,
    goal: Predicate | None = None,
    notes: str = "",
    findings: str = "",
) -> dict[str, Any]:
    """Ask a model for a new rest of the plan, or for the missing rest of a plan that was cut; empty to give up.

    Arguments and result are those of `ask_plan`, with the view of Replan, and `findings`: what the planner should know
    of this episode, which changes from request to request.
    """
    task, end, profile = state["task"], goal or goal_of(state["task"]), await profile_of("planner", runtime)
    limits = limits_of(task, runtime)
    question = REST_QUESTION.format(goal=end.text, tries=_format_allowed(limits))
    shared = _shared_request(state, runtime)
    first = _ask_for_actions(shared, task, runtime) if shared else ""
    before = paragraphs(question, notes, _wordings_note(task, runtime), first, _format_task(task))
    after = paragraphs(
        _format_certified(state["certified"]),
        format_facts(state["facts"]),
        _format_checks(state),
        format_view(state["evidence"].view, runtime, turns=state["turns"], profile=profile),
        findings,
        _rest_lead(state),
        format_limits(task, runtime, used=steps_before(runtime) + len(state["turns"])),
        "" if needs_rest_of_plan(state) else REPLANS.format(number=state["replans"] + 1, most=limits.replans),
        SHARED_CLOSING if shared else PLAN_CLOSING,
    )
    history = format_history(state["turns"], PLANNER + before + after, profile)
    request = paragraphs(before, f"{TURNS_HEADING}\n{quote_history(history)}", after)
    return await _ask_conditions(request, task, end, runtime, cut=history.cut, shared=shared)


def _format_allowed(limits: EffectiveLimits) -> str:
    return TRIES.format(attempts=limits.attempts, replans=limits.replans)


def _rest_lead(state: SDPReplanView) -> str:
    """Say what led to the question for a rest of the plan, and what to think about first."""
    tail = numbered_list(p.text for p in state["plan"][state["head"] :])
    if needs_rest_of_plan(state):
        return EXTEND_LEAD
    if state["undone"] or state["denied"]:
        return UNDONE_LEAD.format(tail=tail)
    return STUCK_LEAD.format(tail=tail, tried=quote(_format_tries(state)))


def _format_tries(state: SDPReplanView) -> str:
    """Format the attempts at this place of the plan: at the target, and before them at targets that it replaced."""
    head, target = state["head"], state["plan"][state["head"]]
    here = [attempt for attempt in state["attempts"] if attempt.position == head]
    if not here and state["attempts"] and state["attempts"][-1].verdict.unreachable:
        return format_attempts(state["attempts"][-1:])  # it certified the target before, and ruled this one out
    latest = format_attempts([one for one in here if one.target == target])
    replaced = dict.fromkeys(one.target.text for one in here if one.target != target)
    if not replaced:
        return latest
    earlier = ((text, format_attempts([one for one in here if one.target.text == text])) for text in replaced)
    return "\n".join([*(f"For an earlier target, {text!r}:\n{tries}" for text, tries in earlier), latest])


def goal_of(task: Task) -> Predicate:
    """Return the last predicate of a task's plans."""
    return Predicate(text=task.condition or task.goal, kind="goal")


@lru_cache(maxsize=16)
def conditions_form(most: int) -> type[Conditions]:
    """Create the answer schema for up to `most` conditions. Longer plans are parsed too, so that they are noticed."""
    return create_model("Conditions", __base__=Conditions, conditions=(bounded_list(most, str), ...))


async def _ask_conditions(
    question: str,
    task: Task,
    goal: Predicate,
    runtime: Runtime[Context],
    *,
    cut: Sequence[str] = (),
    shared: SharedRequest | None = None,
) -> dict[str, Any]:
    most = limits_of(task, runtime).plan
    prompt = build_prompt(runtime, question, role=PLANNER, cut=cut)
    form = conditions_form(most)
    if shared:
        form = with_actions(form, shared.ahead, _wordings(task, runtime))
    answer = await ask(prompt, form, role="planner", runtime=runtime)
    texts = [stripped for text in answer.conditions if (stripped := text.strip())]
    if not texts and (reason := unquote_line(answer.reasoning)):
        return {"plan": [], "gave_up": reason}
    plan = build_plan([text for text, _ in groupby(texts)], goal, most)
    if not (chain := read_chain(answer, str(getattr(answer, "action", "")), texts)):
        return {"plan": plan}
    return {"plan": plan, "draft": Draft(chain=tuple(chain))}


@lru_cache(maxsize=16)
def with_actions(form: type[Conditions], ahead: int, wordings: str) -> type[Conditions]:
    """Create the answer schema for a plan and the first actions, up to `ahead` more than one, as `chain_form` does."""
    base = create_model("PlanAndActions", __base__=form, action=(Annotated[str, Requested], ""))
    return cast(type[Conditions], chain_form(base, ahead, wordings, planned=True))


def _format_task(task: Task) -> str:
    return f"Task: {task.goal}"


def _format_certified(certified: CertifiedState) -> str:
    texts = numbered_list(p.text for p in certified.predicates)
    return f"Certified so far, each when it held; later actions may have changed it:\n{texts}"


def _format_checks(state: SDPReplanView) -> str:
    """Describe what an audit or a revalidation found, in graphs that have one."""
    held = {predicate.text for predicate in state["certified"].predicates}
    undone = [i for i in state["invalidations"] if i.predicate.text not in held]
    lost = list(dict.fromkeys(f"{i.predicate.text} ({unquote_line(i.reason)})" for i in undone))
    parts = [f"Met earlier, but undone since:\n{numbered_list(lost)}"] if lost else []
    if state["audits"] and not state["audits"][-1].confirmed:
        parts.append(f"An audit found that the goal is not reached:\n{unquote_line(state['audits'][-1].reason)}")
    return paragraphs(*parts)


PLANNER = """\
You plan for an agent that acts in a world known by text alone. A plan is a list of conditions on the world, in the
order in which they should come true. A condition counts only once what the world answers or shows says that it holds.
So write each as a fact that can be read there (what is where, in which state, what was learned), not as an action or an
intention, and about one thing alone: several things are several conditions, and so are the stages of what comes with
time, in their order. A state that passes, such as a temperature, comes right before what needs it. Name things as the
task and the world name them. Where it does not matter by which thing or way something comes about, say only what is
brought about: what you think of may be missing or broken. What has to be found out before the rest can be planned is a
condition of its own."""

WORDINGS_NOTE = """\
Conditions in one of these wordings are decided by rules, at once and without doubt. Every other one costs a request of
its own, so write one only where none of these says what has to be known: {wordings}"""

PLAN_QUESTION = """\
Think first: what has to be true at the end, what has to be true before that, and in which order do the parts depend on
each other? Then list the conditions that lead from here to the goal. {limits}
{tries}
The last condition is the goal itself, word for word:
{goal}
"""

TRIES = """\
A condition gets at most {attempts} tries, each one action or a few together. If it does not hold then, the rest is
planned again, at most {replans} times in a row without a newly certified condition; then the work ends."""

REPLANS = "New plans since the latest condition was certified, this one included: {number} of at most {most}."

WORDINGS_ABOVE = "those above"

FIRST_ACTIONS = """\
Then begin with this plan, whose conditions are numbered from 1 as you list them:
- action: the first action for it; empty if you cannot see one from here.
"""

SHARED_CLOSING = "Which conditions lead from here to the goal, and which actions come first?"

PLAN_CLOSING = "Which conditions lead from here to the goal?"

EXTEND_LEAD = """\
The plan ends here, because it had as many conditions as a plan may have, and all of them hold. Think first: what is
still missing?
"""

UNDONE_LEAD = """\
The rest of the plan, to which the agent had come:
{tail}

Something that was thought to be reached is not, as stated above. Think first: what makes it true again, and does the
rest of the plan still fit after that?
"""

STUCK_LEAD = """\
The rest of the plan, whose first condition was not reached:
{tail}

Actions taken for it, with what was found after each:
{tried}

Think first: why was it not reached? It may be worded so that no answer can show it, it may need something that was not
done, there may be no such thing, or so many actions were needed that the tries for one condition were used up. Avoid
that cause; split what is large.
"""

REST_QUESTION = """\
Think first about the question with which this text ends. Then write a new rest of the plan from here to the goal.
{tries}
Do not repeat what is certified and still holds. The last condition is the goal itself, word for word:
{goal}
Give an empty list only if nothing that can still be done makes the goal, as it is worded, true.
"""
