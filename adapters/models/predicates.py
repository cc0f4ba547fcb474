"""Questions that SDP's operators ask a model about predicates: a plan, an action, a verdict, a new rest of the plan.

The generic operators (`nodes/sdp.py`) and those of benchmarks ask the same questions; a benchmark adds what only it
knows, such as the names of its places, as `notes`.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import Annotated

from langgraph.runtime import Runtime
from pydantic import BaseModel, Field, create_model

from certigraph.adapters.benchmarks import limits_of
from certigraph.adapters.models.calls import ask, choose, deliberate, profile_of
from certigraph.adapters.models.prompts import (
    Prompt,
    build_prompt,
    bullet_list,
    format_attempts,
    format_history,
    numbered_list,
    one_line,
    quote,
    unquote_line,
)
from certigraph.adapters.models.schemas import Bounded, FullOnly, Truncated, bounded_list
from certigraph.adapters.models.scripts import collect_citations
from certigraph.adapters.protocols import Context
from certigraph.state.records import Fact, Observation, Predicate, Task, Verdict
from certigraph.state.run import CertifiedState
from certigraph.state.sdp import ProposeView, RealizeView, SDPReplanView, ValidateView, build_plan, needs_rest_of_plan

# A plan.


class Conditions(BaseModel):
    """Answer schema for a plan: conditions in the order in which they should come true, the goal last."""

    reasoning: Annotated[str, FullOnly()] = ""
    conditions: list[str]


async def ask_plan(
    state: ProposeView, runtime: Runtime[Context], *, goal: Predicate | None = None, notes: str = ""
) -> list[Predicate]:
    """Ask a model for a plan: the conditions that it gives, then the goal. Without conditions the plan is empty.

    The goal is taken from the task (SDP, Definition 1), so that a model that weakens it cannot decide what success
    means.

    Args:
        state: the view of Propose.
        runtime: the run's runtime.
        goal: the last predicate; None for the task's.
        notes: what the planner should know about this world.
    """
    task, end = state["task"], goal or goal_of(state["task"])
    question = PLAN_QUESTION.format(goal=end.text, most=limits_of(task, runtime).plan, steps=_steps(task, runtime))
    situation = _format_certified(task, state["certified"])
    return await _ask_conditions(f"{situation}{_paragraph(notes)}\n{question}", task, end, runtime)


async def ask_rest_of_plan(
    state: SDPReplanView, runtime: Runtime[Context], *, goal: Predicate | None = None, notes: str = ""
) -> list[Predicate]:
    """Ask a model for a new rest of the plan, or for the missing rest of a plan that was cut; empty to give up.

    Arguments are those of `ask_plan`, with the view of Replan.
    """
    task, end, profile = state["task"], goal or goal_of(state["task"]), await profile_of("planner", runtime)
    before = _format_certified(task, state["certified"])
    after = f"\nEstablished by earlier answers; later actions may have changed it:\n{format_facts(state['facts'])}\n"
    after += f"\nThe world now:\n{quote(state['evidence'].view)}\n{_format_checks(state)}{_paragraph(notes)}\n"
    after += _rest_question(state, small=profile.is_small).format(
        goal=end.text,
        most=limits_of(task, runtime).plan,
        left=max(_steps(task, runtime) - len(state["turns"]), 0),
    )
    history = format_history(state["turns"], PLANNER + before + after, profile)
    shown = f"\nActions so far and the world's answers, the latest last:\n{quote(history.text)}\n"
    return await _ask_conditions(before + shown + after, task, end, runtime, cut=history.cut)


def _rest_question(state: SDPReplanView, *, small: bool) -> str:
    """Return the question for a rest of the plan, by what led to it: a template for `goal`, `most` and `left`."""
    tail = numbered_list(p.text for p in state["plan"][state["head"] :])
    if needs_rest_of_plan(state):
        lead = EXTEND_LEAD
    elif state["undone"] or state["denied"]:
        lead = UNDONE_LEAD.format(tail=tail)
    else:
        head, target = state["head"], state["plan"][state["head"]]
        attempts = [one for one in state["attempts"] if (one.position, one.target) == (head, target)]
        tried = quote(format_attempts(attempts[-MAX_SMALL_ATTEMPTS if small else 0 :]))
        lead = STUCK_LEAD.format(tail=tail, tried=tried)
    return lead.replace("{", "{{").replace("}", "}}") + REST_QUESTION


def goal_of(task: Task) -> Predicate:
    """Return the last predicate of a task's plans."""
    return Predicate(text=task.condition or task.goal, kind="goal")


@lru_cache(maxsize=16)
def conditions_form(most: int) -> type[Conditions]:
    """Create the answer schema for up to `most` conditions. Longer plans are parsed too, so that they are noticed."""
    return create_model("Conditions", __base__=Conditions, conditions=(bounded_list(most, str), ...))


async def _ask_conditions(
    question: str, task: Task, goal: Predicate, runtime: Runtime[Context], *, cut: Sequence[str] = ()
) -> list[Predicate]:
    most = limits_of(task, runtime).plan
    prompt = build_prompt(runtime, question, role=PLANNER, cut=cut)
    answer = await ask(prompt, conditions_form(most), role="planner", runtime=runtime)
    texts = dict.fromkeys(stripped for text in answer.conditions if (stripped := text.strip()))
    return build_plan([*texts], goal, most)


def _format_certified(task: Task, certified: CertifiedState) -> str:
    texts = numbered_list(p.text for p in certified.predicates)
    return f"Task: {task.goal}\n\nCertified so far, which need not be reached again:\n{texts}\n"


def _format_checks(state: SDPReplanView) -> str:
    """Describe what an audit or a revalidation found, in graphs that have one."""
    held = {predicate.text for predicate in state["certified"].predicates}
    undone = [i for i in state["invalidations"] if i.predicate.text not in held]
    lost = list(dict.fromkeys(f"{i.predicate.text} ({unquote_line(i.reason)})" for i in undone))
    parts = [f"Met earlier, but undone since:\n{numbered_list(lost)}\n"] if lost else []
    if state["audits"] and not state["audits"][-1].confirmed:
        parts.append(f"An audit found that the goal is not reached:\n{unquote_line(state['audits'][-1].reason)}\n")
    return "".join(f"\n{part}" for part in parts)


def _steps(task: Task, runtime: Runtime[Context]) -> int:
    return limits_of(task, runtime).steps


def _paragraph(text: str) -> str:
    return f"\n{text.strip()}\n" if text.strip() else ""


MAX_SMALL_ATTEMPTS = 10
"""Maximum number of attempts in the prompt of a small model."""

PLANNER = """\
You plan for an agent that acts in a world known by text alone. A plan is a list of conditions on the world, in the
order in which they should come true. The agent works at one condition at a time, with one action after another, and a
condition counts only once the world's answer to an action shows that it holds. So write each condition as a fact that
can be read in an answer (what is where, in which state, what was learned), not as an action or an intention; small
enough that a few actions reach it, and large enough that it is worth checking. Name things as the world names them."""

PLAN_QUESTION = """\
Think first: what has to be true at the end, what has to be true before that, and in which order do the parts depend on
each other? Then list the conditions that lead from here to the goal, at most {most}. The agent may take {steps} actions
in all. The last condition is the goal itself:
{goal}
"""

EXTEND_LEAD = """\
The plan ends here, because it had as many conditions as a plan may have, and all of them hold. Think first: what is
still missing?
"""

UNDONE_LEAD = """\
The rest of the plan, to which the agent had come:
{tail}

Something that was thought to be reached is not, as said above. Think first: what makes it true again, and does the rest
of the plan still fit after that?
"""

STUCK_LEAD = """\
The rest of the plan, whose first condition was not reached:
{tail}

Tried for it, with the reason why it was not accepted:
{tried}

Think first: why was it not reached? It may be worded so that no answer can show it, it may need something that was not
done, or there may be no such thing. Avoid that cause.
"""

REST_QUESTION = """\
Then write a new rest of the plan from here to the goal, at most {most} conditions; {left} actions are left. Do not
repeat what is certified. The last condition is the goal itself:
{goal}
If there is no way to the goal, give an empty list.
"""

# An action.


class NextAction(BaseModel):
    """Answer schema for an action in the model's own words."""

    thought: Annotated[str, FullOnly()] = ""
    action: Annotated[str, Field(min_length=1), Bounded(300)]


async def ask_action(state: RealizeView, runtime: Runtime[Context], *, notes: str = "") -> str:
    """Ask a model to write an action that should make the target true.

    Args:
        state: the view of Realize.
        runtime: the run's runtime.
        notes: what the agent should know about actions in this world.
    """
    prompt = await _action_prompt(state, f"{notes}\nWrite the action as the world's rules say.".strip(), runtime)
    return (await ask(prompt, NextAction, role="executor", runtime=runtime)).action


async def choose_action(state: RealizeView, options: Sequence[str], runtime: Runtime[Context]) -> str:
    """Ask a model to choose an action that should make the target true; a model that is not small thinks first."""
    prompt = await _action_prompt(state, f"Actions to choose from:\n{quote(bullet_list(options))}", runtime)
    if (await profile_of("executor", runtime)).is_small:
        return await choose(prompt, options, role="executor", runtime=runtime)
    return (await deliberate(prompt, options, role="executor", runtime=runtime)).choice


async def _action_prompt(state: RealizeView, choice: str, runtime: Runtime[Context]) -> Prompt:
    profile = await profile_of("executor", runtime)
    certified = [p.text for p in state["certified"].predicates]
    notes = [*state["belief"].text.splitlines(), *state["advice"]]
    before = f"Task, for orientation: {state['task'].goal}\n\n"
    after = ACTION_SITUATION.format(
        certified=numbered_list(certified[-5:] if profile.is_small else certified),
        target=state["target"].text,
        ahead=bullet_list(p.text for p in state["ahead"][: 3 if profile.is_small else None]),
        facts=format_facts(state["facts"]),
        notes=f"\nTo keep in mind:\n{quote(bullet_list(notes))}\n" if notes else "",
        view=quote(state["evidence"].view),
        tried=quote(format_attempts(state["attempts"])),
        used=len(state["turns"]),
        steps=_steps(state["task"], runtime),
        choice=choice,
    )
    rest = build_prompt(runtime, before + after, role=REALIZER)
    history = format_history(state["turns"], rest.system + rest.user, profile)
    shown = f"Actions so far and the world's answers, the latest last:\n{quote(history.text)}\n\n"
    return build_prompt(runtime, before + shown + after, role=REALIZER, cut=history.cut)


def format_facts(facts: Sequence[Fact]) -> str:
    """Format what earlier actions established, each fact with the action that showed it."""
    return quote(bullet_list(f"{fact.text} (action {fact.step}: {fact.action})" for fact in facts))


REALIZER = """\
You act in a world that you know by text alone, one action at a time. A plan splits the task into conditions; you work
at one of them, the target. After each action you see what the world answered, and a checker decides by that answer
whether the target holds. Rely on the answers and not on what you expect: names must be used as the world shows them,
and an action that had no effect has none when it is repeated."""

ACTION_SITUATION = """\
Plan. Certified:
{certified}
Target: {target}
After it:
{ahead}

Established by earlier answers; later actions may have changed it:
{facts}
{notes}
The world now:
{view}

Tried for the target without success, with the reason:
{tried}

Actions used: {used} of at most {steps}.

{choice}
Target: {target}
Think first: what is missing for the target, and which action brings it about or comes closest without harm to what the
plan needs later? Then give that one action.
"""

# A verdict.

MAX_SHOWN_CONDITIONS = 10
"""Maximum number of conditions in Validate's prompt. If more hold at once, they are certified in two steps."""


class Holds(BaseModel):
    """Answer schema for a verdict: a reason, what it rests on, and how many conditions hold."""

    reason: Annotated[str, Truncated(300)]
    evidence: Annotated[str, FullOnly()] = ""
    established: Annotated[list[str], FullOnly()] = []
    reachable: Annotated[bool, FullOnly()] = True
    holds: int = Field(ge=0, le=MAX_SHOWN_CONDITIONS, strict=True)


async def ask_verdict(
    state: ValidateView, runtime: Runtime[Context], *, tail: Sequence[Predicate] | None = None, notes: str = ""
) -> Verdict:
    """Ask a model how many of the plan's next conditions hold now, counted from the target on without a gap.

    Args:
        state: the view of Validate.
        runtime: the run's runtime.
        tail: the conditions to be judged; None for the first MAX_SHOWN_CONDITIONS of the plan's rest.
        notes: what the world reports besides its answer, such as the score.
    """
    judged = (state["tail"] if tail is None else tail)[:MAX_SHOWN_CONDITIONS]
    question = VERDICT_SITUATION.format(
        task=state["task"].goal,
        facts=format_facts(state["facts"]),
        conditions=numbered_list(p.text for p in judged),
        action=quote(state["action"].text),
        observation=quote(state["observation"].text),
        notes=notes.strip() and f"{notes.strip()}\n",
    )
    small = (await profile_of("validator", runtime)).is_small
    question += SMALL_VERDICT_QUESTION if small else VERDICT_QUESTION
    with collect_citations() as cited:
        answer = await ask(build_prompt(runtime, question, role=VALIDATOR), Holds, role="validator", runtime=runtime)
    verdict = _to_verdict(answer, len(judged), state["observation"])
    return verdict.model_copy(update={"decided_by": "oracle", "evidence": cited[-1]}) if cited else verdict


def _to_verdict(answer: Holds, most: int, observation: Observation) -> Verdict:
    # Evidence that is not in the observation is no evidence.
    quoted, depth = one_line(answer.evidence), min(answer.holds, most)
    is_shown = quoted.lower() in one_line(observation.text).lower()
    return Verdict(
        depth=depth,
        reason=answer.reason,
        evidence=quoted if is_shown else "",
        decided_by="model",
        facts=tuple(filter(None, map(unquote_line, answer.established))),
        unreachable=not (answer.reachable or depth),
    )


VALIDATOR = """\
You check progress in a world that you know by text alone. You get the conditions of a plan in the order in which they
should come true, the last action, and the world's answer to it. Judge by what the answer shows, and by established
facts that nothing since has changed. That an action was meant to achieve something is no evidence that it did. A
condition that you count is taken as proven from then on, so count none that is merely likely."""

VERDICT_SITUATION = """\
Task, for orientation: {task}

Established by earlier answers; later actions may have changed it:
{facts}

Conditions, in order; the first one is the target:
{conditions}

The last action:
{action}
The world answered:
{observation}
{notes}
"""

VERDICT_QUESTION = """\
Give, in this order:
- reason: what the answer says about the target, then about the conditions after it as far as they hold too.
- evidence: the words of the answer, copied exactly, that show it; empty if the target does not hold.
- established: what the answer shows that later steps may need when it is out of sight: readings, contents, places,
  exact names, recipes, what is broken. One short statement each; an empty list if there is nothing new.
- reachable: false only if the answer shows that the target can never come true as it is worded, for example because
  what it names does not exist. It is then planned anew. Otherwise true.
- holds: how many conditions hold now, counted from the target on without a gap; 0 if the target does not hold.
"""

SMALL_VERDICT_QUESTION = """\
Count how many of the conditions hold now, from the first one on, without a gap. If the first one does not hold, the
count is 0.
"""
