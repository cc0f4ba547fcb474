"""Questions that SDP's operators ask a model about predicates: a plan, an action, a verdict, a new rest of the plan.

The generic operators (`nodes/sdp.py`) and those of benchmarks ask the same questions; a benchmark adds what only it
knows, such as the names of its places, as `notes`.
"""

import re
from collections.abc import Sequence
from functools import lru_cache
from itertools import groupby
from typing import Annotated, Literal

from langgraph.runtime import Runtime
from pydantic import BaseModel, Field, create_model

from certigraph.adapters.benchmarks import limits_of
from certigraph.adapters.models.calls import ask, choose, deliberate, profile_of
from certigraph.adapters.models.decisions import describe_untaken
from certigraph.adapters.models.prompts import (
    TURNS_HEADING,
    Prompt,
    build_prompt,
    bullet_list,
    format_attempts,
    format_history,
    format_limits,
    format_options,
    format_view,
    numbered_list,
    one_line,
    paragraphs,
    quote,
    quote_history,
    unquote_line,
    view_repeats_answers,
)
from certigraph.adapters.models.schemas import Bounded, FullOnly, Truncated, bounded_list
from certigraph.adapters.models.scripts import collect_citations
from certigraph.adapters.protocols import Context
from certigraph.state.certified_states import CertifiedState
from certigraph.state.records import CHECK, Action, Fact, Predicate, Task, Verdict
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
    question = PLAN_QUESTION.format(
        goal=end.text, most=limits_of(task, runtime).plan, limits=format_limits(task, runtime)
    )
    certified = _format_certified(state["certified"])
    request = paragraphs(question, notes, _format_task(task), certified, PLAN_CLOSING)
    return await _ask_conditions(request, task, end, runtime)


async def ask_rest_of_plan(
    state: SDPReplanView,
    runtime: Runtime[Context],
    *,
    goal: Predicate | None = None,
    notes: str = "",
    findings: str = "",
) -> list[Predicate]:
    """Ask a model for a new rest of the plan, or for the missing rest of a plan that was cut; empty to give up.

    Arguments are those of `ask_plan`, with the view of Replan, and `findings`: what the planner should know of this
    episode, which changes from request to request.
    """
    task, end, profile = state["task"], goal or goal_of(state["task"]), await profile_of("planner", runtime)
    before = paragraphs(
        REST_QUESTION.format(goal=end.text, most=limits_of(task, runtime).plan), notes, _format_task(task)
    )
    after = paragraphs(
        _format_certified(state["certified"]),
        f"{FACTS_HEADING}\n{format_facts(state['facts'])}",
        _format_checks(state),
        format_view(state["evidence"].view, runtime, turns=state["turns"], profile=profile),
        findings,
        _rest_lead(state, small=profile.is_small),
        format_limits(task, runtime, used=len(state["turns"])),
        PLAN_CLOSING,
    )
    history = format_history(state["turns"], PLANNER + before + after, profile)
    request = paragraphs(before, f"{TURNS_HEADING}\n{quote_history(history)}", after)
    return await _ask_conditions(request, task, end, runtime, cut=history.cut)


def _rest_lead(state: SDPReplanView, *, small: bool) -> str:
    """Say what led to the question for a rest of the plan, and what to think about first."""
    tail = numbered_list(p.text for p in state["plan"][state["head"] :])
    if needs_rest_of_plan(state):
        return EXTEND_LEAD
    if state["undone"] or state["denied"]:
        return UNDONE_LEAD.format(tail=tail)
    return STUCK_LEAD.format(tail=tail, tried=quote(_format_tries(state, small=small)))


def _format_tries(state: SDPReplanView, *, small: bool) -> str:
    """Format the attempts at this place of the plan: at the target, and before them at targets that it replaced."""
    head, target = state["head"], state["plan"][state["head"]]
    here = [attempt for attempt in state["attempts"] if attempt.position == head]
    if not here and state["attempts"] and state["attempts"][-1].verdict.unreachable:
        return format_attempts(state["attempts"][-1:])  # it certified the target before, and ruled this one out
    latest = format_attempts([one for one in here if one.target == target][-MAX_SMALL_ATTEMPTS if small else 0 :])
    replaced = dict.fromkeys(one.target.text for one in here if one.target != target)
    if small or not replaced:
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
    question: str, task: Task, goal: Predicate, runtime: Runtime[Context], *, cut: Sequence[str] = ()
) -> list[Predicate]:
    most, small = limits_of(task, runtime).plan, (await profile_of("planner", runtime)).is_small
    prompt = build_prompt(runtime, question, role=PLANNER, cut=cut)
    form = conditions_form(min(most, MAX_SMALL_CONDITIONS) if small else most)
    answer = await ask(prompt, form, role="planner", runtime=runtime)
    texts = [stripped for text in answer.conditions if (stripped := text.strip())]
    if small:
        return build_plan([*dict.fromkeys(texts)], goal, most)  # small models repeat themselves
    return build_plan([text for text, _ in groupby(texts)], goal, most)


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


MAX_SMALL_CONDITIONS = 40
"""Maximum number of conditions that a small model may write: it repeats itself until something ends its answer."""

MAX_SMALL_ATTEMPTS = 10
"""Maximum number of attempts in the prompt of a small model."""

PLANNER = """\
You plan for an agent that acts in a world known by text alone. A plan is a list of conditions on the world, in the
order in which they should come true. The agent works at one condition at a time, with one action after another, and a
condition counts only once the world's answer to an action shows that it holds. So write each condition as a fact that
can be read in an answer (what is where, in which state, what was learned), not as an action or an intention; small
enough that a few actions reach it, and large enough that it is worth checking. A state that passes, such as a stage of
growth or a temperature, comes right before what needs it. Name things as the world names them."""

PLAN_QUESTION = """\
Think first: what has to be true at the end, what has to be true before that, and in which order do the parts depend on
each other? Then list the conditions that lead from here to the goal, at most {most}. {limits}
The last condition is the goal itself, word for word:
{goal}
"""

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
done, or there may be no such thing. Avoid that cause.
"""

REST_QUESTION = """\
Think first about what is asked at the end. Then write a new rest of the plan from here to the goal, at most {most}
conditions. Do not repeat what is certified and still holds. The last condition is the goal itself, word for word:
{goal}
If there is no way to the goal, give an empty list.
"""

FACTS_HEADING = "Established by earlier answers; later actions may have changed it:"

# An action.

MAX_FOLLOWING = 20
"""Maximum number of actions that a model may write to follow the first one."""


class NextAction(BaseModel):
    """Answer schema for an action in the model's own words."""

    thought: Annotated[str, FullOnly()] = ""
    action: Annotated[str, Field(min_length=1), Bounded(300)]


class NextActions(BaseModel):
    """Answer schema for an action in the model's own words, with those that are to follow it."""

    thought: Annotated[str, FullOnly()] = ""
    target: Annotated[Literal["open", "holds", "unreachable"], FullOnly()] = "open"
    action: str
    then: Annotated[list[str], Truncated(MAX_FOLLOWING), FullOnly()] = []


async def ask_actions(state: RealizeView, runtime: Runtime[Context], *, several: bool = True) -> list[Action]:
    """Ask a model to write actions that should make the target true.

    A model that is not small may write several, to be taken one after another, or say that the target holds already or
    cannot be reached (`CHECK`). None of this is in the SDP paper; it saves model calls and actions.

    Args:
        state: the view of Realize.
        runtime: the run's runtime.
        several: whether a model may write several actions, or none.
    """
    several = several and not (await profile_of("executor", runtime)).is_small
    request = SEVERAL_ACTIONS.format(most=MAX_FOLLOWING) if several else ONE_ACTION
    prompt = await action_prompt(
        state, f"{request}\nWrite actions as the world's rules say.", "", runtime, several=several
    )
    if not several:
        return [Action(text=(await ask(prompt, NextAction, role="executor", runtime=runtime)).action)]
    answer = await ask(prompt, NextActions, role="executor", runtime=runtime)
    if answer.target == "unreachable":
        return [UNREACHABLE_ACTION]
    if not answer.action.strip():
        return [CHECK_ACTION]
    return [Action(text=text) for text in (answer.action, *filter(str.strip, answer.then))]


async def choose_action(
    state: RealizeView, options: Sequence[str], runtime: Runtime[Context], *, may_check: bool = True
) -> Action:
    """Ask a model to choose an action that should make the target true.

    A model that is not small thinks first.

    Args:
        state: the view of Realize.
        options: the actions.
        runtime: the run's runtime.
        may_check: whether a model that is not small may say that the target holds already (`CHECK`).
    """
    if (await profile_of("executor", runtime)).is_small:
        prompt = await action_prompt(state, ONE_ACTION, format_options(options), runtime)
        return Action(text=await choose(prompt, options, role="executor", runtime=runtime))
    offered = [*options, *([CHECK_ACTION.text] if may_check else [])]
    request = ONE_ACTION + CHOOSE_ACTION + (MAY_CHECK if may_check else "")
    prompt = await action_prompt(state, request, format_options(offered), runtime)
    chosen = (await deliberate(prompt, offered, role="executor", runtime=runtime)).choice
    return CHECK_ACTION if chosen == CHECK_ACTION.text else Action(text=chosen)


async def action_prompt(
    state: RealizeView, request: str, options: str, runtime: Runtime[Context], *, several: bool = False
) -> Prompt:
    """Build the prompt of Realize: what is asked for, what was done, the plan and the situation.

    Args:
        state: the view of Realize.
        request: what is asked for, in the same words in all requests.
        options: the actions to choose from, formatted; empty if the model writes them.
        runtime: the run's runtime.
        several: whether several actions may be written.
    """
    profile = await profile_of("executor", runtime)
    notes = [*state["belief"].text.splitlines(), *state["advice"]]
    plan, position = _format_plan(state, small=profile.is_small)
    before = paragraphs(request, f"Task, for orientation: {state['task'].goal}", plan)
    after = paragraphs(
        f"{FACTS_HEADING}\n{format_facts(state['facts'])}" if state["facts"] else "",
        position,
        f"To keep in mind:\n{quote(bullet_list(notes))}" if notes else "",
        _format_attempts_at(state),
        format_view(state["evidence"].view, runtime, turns=state["turns"], profile=profile),
        options,
        format_limits(state["task"], runtime, used=len(state["turns"])),
        (ACTIONS_CLOSING if several else ACTION_CLOSING).format(target=state["target"].text),
    )
    rest = build_prompt(runtime, before + after, role=REALIZER)
    history = format_history(state["turns"], rest.system + rest.user, profile)
    shown = f"{TURNS_HEADING}\n{quote_history(history)}"
    return build_prompt(runtime, paragraphs(before, shown, after), role=REALIZER, cut=history.cut)


def _format_plan(state: RealizeView, *, small: bool) -> tuple[str, str]:
    """Format the plan, which stays the same until it is replaced, and the position in it; small models see a part."""
    certified, target = [p.text for p in state["certified"].predicates], state["target"].text
    if small:
        ahead = bullet_list(p.text for p in state["ahead"][:3])
        return "", SMALL_POSITION.format(certified=numbered_list(certified[-5:]), target=target, ahead=ahead)
    count = len(certified)
    plan = numbered_list([*certified, target, *(p.text for p in state["ahead"])])
    held = "none" if not count else "1" if count == 1 else f"1 to {count}"
    return f"{PLAN_HEADING}\n{plan}", POSITION.format(held=held, number=count + 1, target=target)


def _format_attempts_at(state: RealizeView) -> str:
    parts = [describe_untaken(state["upcoming"])]
    if state["attempts"]:
        attempts = quote(format_attempts(state["attempts"]))
        parts.insert(0, f"Judged actions for the target, with what was found after each:\n{attempts}\n")
    return "\n".join(filter(None, parts))


def format_facts(facts: Sequence[Fact]) -> str:
    """Format what earlier actions established, each fact with the number of the action after which it was noted."""
    return quote(numbered_list(f"{fact.text} (noted after action {fact.step})" for fact in facts))


REALIZER = """\
You act in a world that you know by text alone. A plan splits the task into conditions; you work
at one of them, the target. After each action you see what the world answered, and a checker decides by that answer
whether the target holds. Rely on the answers and not on what you expect: names must be used as the world shows them,
and an action that had no effect has none when it is repeated."""

PLAN_HEADING = "Plan, its conditions in their order:"

POSITION = """\
Conditions of the plan that are certified, each when it held; the world now may show otherwise: {held}
Target, condition {number} of the plan: {target}"""

SMALL_POSITION = """\
Plan. Certified, each when it held; the world now may show otherwise:
{certified}
Target: {target}
After it:
{ahead}"""

ACTION_CLOSING = "Target: {target}\nWhich action comes next for it?"

ACTIONS_CLOSING = "Target: {target}\nHow does it stand, and which actions come next?"

CHOOSE_ACTION = """\
Choose it from the list of actions at the end, and copy it exactly.
"""

ONE_ACTION = """\
Think first: what is missing for the target, and which action brings it about or comes closest without harm to what the
plan needs later? Then give that one action.
"""

MAY_CHECK = """\
If what the world shows now says that the target holds already, choose the entry that says so: nothing is done then but
to check the target.
"""

SEVERAL_ACTIONS = """\
Give, in this order:
- thought: what is missing for the target, and how it comes about without harm to what the plan needs later.
- target: "holds" if what the world shows now says that the target holds; "unreachable" if an answer of the world shows
  that it cannot come true any more as it is worded, so that the rest must be planned again; otherwise "open".
- action: the next action. If the target holds, it is the first one for the conditions after it: the target is checked
  together with them. Leave it empty only if the target is unreachable, or if it holds and must be checked before
  anything else is done, because an action might undo it or nothing is left to do; then nothing is done.
- then: up to {most} actions after it, in their order, for the target and for the conditions after it, as far as you can
  see now that they are right. They are taken one after another; the rest is dropped, and you choose again, once one of
  them is refused, loses points, or does not bring about what the plan says. Write whole chains where each step is
  plain, such as going somewhere, opening something, taking what is in it, and using it. Stop the chain where the next
  step depends on an answer that you have not seen, in a search after each place, and before a step that cannot be
  undone and might be wrong.
"""

CHECK_ACTION = Action(text="(nothing: the target holds already)", kind=CHECK)
"""Action of a model that finds its target met already."""

UNREACHABLE_ACTION = Action(text="(nothing: the target cannot be reached)", kind=CHECK)
"""Action of a model that finds its target out of reach."""


def to_unreachable_action(reason: str) -> Action:
    """Return the action of a model that finds its target out of reach and says why."""
    text = f"(nothing: the target cannot be reached: {one_line(reason)})"
    return Action(text=text, kind=CHECK) if reason else UNREACHABLE_ACTION


# A verdict.

MAX_SHOWN_CONDITIONS = 10
"""Maximum number of conditions in the prompt of a small model; if more hold at once, they take two steps."""


MAX_JUDGED_CONDITIONS = 100
"""Maximum number of conditions in the prompt of any other model."""


class Holds(BaseModel):
    """Answer schema for a verdict of a small model: a reason, and how many conditions hold."""

    reason: Annotated[str, Truncated(300)]
    holds: int = Field(ge=0, le=MAX_SHOWN_CONDITIONS, strict=True)


class FullHolds(BaseModel):
    """Answer schema for a verdict: a reason, what it rests on, what else was learned, how many conditions hold."""

    reason: str
    evidence: Annotated[str, FullOnly()] = ""
    established: Annotated[list[str], FullOnly()] = []
    outdated: Annotated[list[int], FullOnly()] = []
    reachable: Annotated[bool, FullOnly()] = True
    holds: int = Field(ge=0, le=MAX_JUDGED_CONDITIONS, strict=True)


async def ask_verdict(
    state: ValidateView,
    runtime: Runtime[Context],
    *,
    tail: Sequence[Predicate] | None = None,
    notes: str = "",
    plain: bool = False,
) -> Verdict:
    """Ask a model how many of the plan's next conditions hold now, counted from the target on without a gap.

    While actions follow that were chosen together with the last one, no model is asked.

    Args:
        state: the view of Validate.
        runtime: the run's runtime.
        tail: the conditions to be judged; None for the rest of the plan.
        notes: what the world reports besides its answer, such as the score.
        plain: whether any model is asked as a small one is, and as in the SDP paper: for a reason and a count, by the
            last action and its answer alone.
    """
    if state["upcoming"] and not state["observation"].done:
        return Verdict(depth=0, pending=True)
    judged = (state["tail"] if tail is None else tail)[:MAX_JUDGED_CONDITIONS]
    plain = plain or (await profile_of("validator", runtime)).is_small
    with collect_citations() as cited:
        if plain:
            verdict = await _ask_small_verdict(state, judged[:MAX_SHOWN_CONDITIONS], notes, runtime)
        else:
            prompt = await _verdict_prompt(state, judged, notes, runtime)
            answer = await ask(prompt, FullHolds, role="validator", runtime=runtime)
            verdict = _to_verdict(answer, len(judged), state)
    return verdict.model_copy(update={"decided_by": "oracle", "evidence": cited[-1]}) if cited else verdict


def _to_verdict(answer: FullHolds, most: int, state: ValidateView) -> Verdict:
    # Evidence that the world did not show is no evidence.
    depth = min(answer.holds, most)
    shown = (state["evidence"].view, *(text for turn in state["turns"] for text in (turn.observation, turn.seen)))
    facts = dict(enumerate(state["facts"], 1))
    return Verdict(
        depth=depth,
        reason=answer.reason,
        evidence=_select_quotations(answer.evidence, shown),
        decided_by="model",
        facts=tuple(filter(None, map(unquote_line, answer.established))),
        outdated=tuple(facts[number].text for number in answer.outdated if number in facts),
        unreachable=not answer.reachable and depth < most,
    )


def _select_quotations(evidence: str, shown: Sequence[str]) -> str:
    """Return the words that the world showed; of several passages, those that it showed."""
    texts = [one_line(text).lower() for text in shown]
    for passages in ([evidence], evidence.splitlines(), re.split(r"[;\n]|\.\.\.", evidence)):
        quoted = [one_line(passage).strip("\"' ") if len(passages) > 1 else one_line(passage) for passage in passages]
        if found := [one for one in quoted if one and any(one.lower() in text for text in texts)]:
            return " ... ".join(found)
    return ""


async def _ask_small_verdict(
    state: ValidateView, judged: Sequence[Predicate], notes: str, runtime: Runtime[Context]
) -> Verdict:
    question = SMALL_VERDICT_QUESTION.format(
        task=state["task"].goal,
        conditions=numbered_list(p.text for p in judged),
        action=quote(state["action"].text),
        observation=quote(state["observation"].text),
        notes=notes.strip() and f"{notes.strip()}\n",
    )
    prompt = build_prompt(runtime, question, role=VALIDATOR)
    answer = await ask(prompt, Holds, role="validator", runtime=runtime)
    return Verdict(depth=min(answer.holds, len(judged)), reason=answer.reason, decided_by="model")


async def _verdict_prompt(
    state: ValidateView, judged: Sequence[Predicate], notes: str, runtime: Runtime[Context]
) -> Prompt:
    profile, view = await profile_of("validator", runtime), state["evidence"].view
    before = paragraphs(VERDICT_QUESTION, f"Task, for orientation: {state['task'].goal}")
    facts = f"{FACTS_HEADING}\n{format_facts(state['facts'])}" if state["facts"] else ""
    conditions = f"Conditions, in order; the first one is the target:\n{numbered_list(p.text for p in judged)}"
    world = format_view(view, runtime, turns=state["turns"], profile=profile) if view else ""
    latest = "The latest actions, which are to be judged, and the world's answers"
    if view and view_repeats_answers(runtime):  # it only grows
        before = paragraphs(before, f"{ALL_ANSWERS}:\n{quote(view)}")
        latest += ", which are the last of those above"
    closing = VERDICT_CLOSING.format(target=judged[0].text) if judged else ""
    if state["action"].kind == CHECK:
        notes = paragraphs(notes, CLAIM.format(action=quote(state["action"].text)))
    rest = paragraphs(VALIDATOR, before, facts, conditions, world, notes, closing)
    history = format_history(state["turns"], rest, profile)
    shown = f"{latest}:\n{quote_history(history)}"
    request = paragraphs(before, facts, conditions, shown, world, notes, closing)
    return build_prompt(runtime, request, role=VALIDATOR, cut=history.cut)


ALL_ANSWERS = "All answers so far, in their order; what an earlier one says may have changed since"
"""Heading of a view that consists of the answers."""

VALIDATOR = """\
You check progress in a world that you know by text alone. You get the conditions of a plan in the order in which they
should come true, what was done last, and what the world answered. Judge by what the world shows, and by established
facts that nothing since has changed. That an action was meant to achieve something is no evidence that it did; where
an answer says that an action was carried out, the action's own words show what was done. A condition that you count is
taken as proven from then on, so count none that is merely likely."""

SMALL_VERDICT_QUESTION = """\
Count how many of the conditions below hold now, from the first one on, without a gap. If the first one does not hold,
the count is 0.

Task, for orientation: {task}

Conditions, in order; the first one is the target:
{conditions}

The last action:
{action}
The world answered:
{observation}
{notes}
How many of the conditions hold now?
"""

CLAIM = "In place of an action the agent says, which the answers have to bear out:\n{action}"

VERDICT_CLOSING = "Target: {target}\nDoes it hold, and which of the conditions after it hold too?"

VERDICT_QUESTION = """\
Give, in this order:
- reason: what the world shows about the target, then about each condition after it as far as they hold too. A condition
  may hold for longer already; what was met on the way counts too. Draw the plain conclusions: what is in a thing that
  the agent carries is carried along, and what the world lists in a place is there.
- evidence: the words of the world, copied exactly, that show each condition that you count, each passage on a line of
  its own; empty if the target does not hold.
- established: what the answers show that later steps may need when it is out of sight: readings, contents, places,
  exact names, recipes, what is broken. One short statement each, as it is now; an empty list if there is nothing new.
- outdated: the numbers of the established facts below that are no longer true.
- reachable: false only if the world showed that the first condition that does not hold cannot come true any more as it
  is worded: what it names does not exist or is broken, a way to it is closed for good, or what is left of moves or
  actions cannot suffice. Then the rest is planned again. Otherwise true.
- holds: how many conditions have come true by now, counted from the target on without a gap; 0 if the target has not.
  One about something that happens and passes (was read, was in focus, was young) counts once an answer or an
  established fact shows that it happened; one about how things are has to hold now, or to have given way to a later one
  of the conditions that has come true.
"""
