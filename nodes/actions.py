"""Questions that SDP's operators ask a model about the next action: which one makes the target true.

The model writes actions (`ask_actions`) or chooses one of a list (`choose_action`).
"""

from collections.abc import Sequence
from typing import Annotated, Literal

from langgraph.runtime import Runtime
from pydantic import BaseModel, Field

from certigraph.adapters.benchmarks import limits_of, steps_before
from certigraph.adapters.models.calls import ask, deliberate, profile_of
from certigraph.adapters.models.prompts import (
    TURNS_HEADING,
    Prompt,
    build_prompt,
    bullet_list,
    format_attempts,
    format_facts,
    format_history,
    format_limits,
    format_notes,
    format_options,
    format_view,
    numbered_list,
    one_line,
    paragraphs,
    quote,
    quote_history,
)
from certigraph.adapters.models.schemas import FirstReasoning, Requested, Truncated
from certigraph.adapters.protocols import Context
from certigraph.nodes.decisions import describe_untaken
from certigraph.state.records import CHECK, Action
from certigraph.state.sdp import RealizeView

MAX_FOLLOWING = 20
"""Maximum number of actions that a model may write to follow the first one."""


class NextAction(BaseModel):
    """Answer schema for an action in the model's own words."""

    thought: FirstReasoning = ""
    action: Annotated[str, Field(min_length=1)]


class NextActions(BaseModel):
    """Answer schema for an action in the model's own words, with those that are to follow it."""

    thought: FirstReasoning = ""
    target: Annotated[Literal["open", "holds", "unreachable"], Requested] = "open"
    action: str
    then: Annotated[list[str], Truncated(MAX_FOLLOWING), Requested] = []


async def ask_actions(state: RealizeView, runtime: Runtime[Context], *, several: bool = True) -> list[Action]:
    """Ask a model to write actions that should make the target true.

    It may write several, to be taken one after another, or say that the target holds already or cannot be reached
    (`CHECK`). None of this is in the SDP paper; it saves model calls and actions.

    Args:
        state: the view of Realize.
        runtime: the run's runtime.
        several: whether a model may write several actions, or none.
    """
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
    """Ask a model to choose, after a thought, an action that should make the target true.

    Args:
        state: the view of Realize.
        options: the actions.
        runtime: the run's runtime.
        may_check: whether the model may say that the target holds already (`CHECK`).
    """
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
    advice = state["advice"]
    plan, position = _format_plan(state)
    before = paragraphs(request, f"Task, for orientation: {state['task'].goal}", plan)
    after = paragraphs(
        format_facts(state["facts"]) if state["facts"] else "",
        position,
        format_notes(state["belief"].text),
        f"To keep in mind:\n{quote(bullet_list(advice))}" if advice else "",
        _format_attempts_at(state, limits_of(state["task"], runtime).attempts),
        format_view(state["evidence"].view, runtime, turns=state["turns"], profile=profile),
        options,
        format_limits(state["task"], runtime, used=steps_before(runtime) + len(state["turns"])),
        (ACTIONS_CLOSING if several else ACTION_CLOSING).format(target=state["target"].text),
    )
    rest = build_prompt(runtime, before + after, role=REALIZER)
    history = format_history(state["turns"], rest.system + rest.user, profile)
    shown = f"{TURNS_HEADING}\n{quote_history(history)}"
    return build_prompt(runtime, paragraphs(before, shown, after), role=REALIZER, cut=history.cut)


def _format_plan(state: RealizeView) -> tuple[str, str]:
    """Format the plan, which stays the same until it is replaced, and the position in it."""
    certified, target = [p.text for p in state["certified"].predicates], state["target"].text
    count = len(certified)
    plan = numbered_list([*certified, target, *(p.text for p in state["ahead"])])
    held = "none" if not count else "1" if count == 1 else f"1 to {count}"
    return f"{PLAN_HEADING}\n{plan}", POSITION.format(held=held, number=count + 1, target=target)


def _format_attempts_at(state: RealizeView, most: int) -> str:
    parts = [describe_untaken(state["upcoming"])]
    if state["attempts"]:
        attempts = quote(format_attempts(state["attempts"]))
        parts.insert(0, f"{ATTEMPTS_HEADING.format(most=most)}\n{attempts}\n")
    return "\n".join(filter(None, parts))


ATTEMPTS_HEADING = """\
Judged actions for the target, with what was found after each; after {most} in vain, the rest is planned again:"""

REALIZER = """\
You act in a world that you know by text alone. A plan splits the task into conditions; you work
at one of them, the target. After each action you see what the world answered, and a checker decides by that answer
whether the target holds. Rely on the answers and not on what you expect: names must be used as the world shows them,
and an action that had no effect has none when it is repeated."""

PLAN_HEADING = "Plan, its conditions in their order:"

POSITION = """\
Conditions of the plan that are certified, each when it held; the world now may show otherwise: {held}
Target, condition {number} of the plan: {target}"""

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

UNREACHABLE_TEXT = "(nothing: the target cannot be reached"

UNREACHABLE_ACTION = Action(text=f"{UNREACHABLE_TEXT})", kind=CHECK)
"""Action of a model that finds its target out of reach."""


def to_unreachable_action(reason: str) -> Action:
    """Return the action of a model that finds its target out of reach and says why."""
    text = f"{UNREACHABLE_TEXT}: {one_line(reason)})"
    return Action(text=text, kind=CHECK) if reason else UNREACHABLE_ACTION


def is_unreachable(action: Action) -> bool:
    """Return whether an action says that the target cannot be reached."""
    return action.kind == CHECK and action.text.startswith(UNREACHABLE_TEXT)
