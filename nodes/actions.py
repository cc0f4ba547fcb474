"""Questions that SDP's operators ask a model about the next action: which one makes the target true.

The model gives an action with those that are to follow it (`ask_chain`), or as in the SDP paper a single one, which it
writes (`ask_action`) or chooses from a list (`choose_action`).
"""

from collections.abc import Sequence
from typing import Annotated, Any, Literal

from langgraph.runtime import Runtime
from pydantic import BaseModel, Field, JsonValue

from certigraph.adapters.benchmarks import benchmark_of, limits_of, steps_before
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
    unquote_line,
)
from certigraph.adapters.models.schemas import FirstReasoning, Requested, offer_options
from certigraph.adapters.protocols import Context
from certigraph.nodes.chains import AS_THE_RULES_SAY, chain_form, chain_request, describe_untaken, read_chain
from certigraph.state.records import CHECK, CLAIMS, ESTABLISHED, OUTDATED, Action, with_args
from certigraph.state.sdp import RealizeView


class NextAction(BaseModel):
    """Answer schema for an action in the model's own words."""

    thought: FirstReasoning = ""
    action: Annotated[str, Field(min_length=1)]


class Noted(BaseModel):
    """Answer schema for what an agent notes before it acts, and for how the target stands."""

    thought: FirstReasoning = ""
    established: Annotated[list[str], Requested] = []
    outdated: Annotated[list[int], Requested] = []
    target: Annotated[Literal["open", "holds", "unreachable"], Requested] = "open"


class WrittenActions(Noted):
    """Answer schema for the next actions, written freely."""

    action: str = ""


class ChosenActions(Noted):
    """Answer schema for the next actions, the first of them from a list."""

    choice: str


async def ask_chain(state: RealizeView, ahead: int, options: Sequence[str], runtime: Runtime[Context]) -> list[Action]:
    """Ask a model for the next action, and for actions that are to follow it, one after another.

    It also says what it noted, and whether the target holds already or cannot be reached (`CHECK`): the claim is
    checked before the actions are taken. None of this is in the SDP paper; it saves model calls.

    Args:
        state: the view of Realize.
        ahead: maximum number of actions after the first one.
        options: the actions from which the first one is chosen; empty if it is written freely.
        runtime: the run's runtime.
    """
    benchmark, offered = benchmark_of(state["task"], runtime), [*options, NOTHING] if options else []
    base: type[Noted] = offer_options(ChosenActions, offered) if offered else WrittenActions
    form = chain_form(base, ahead, benchmark.wordings, planned=True)
    request = (
        NOTED + (CHOSEN_FIRST if offered else WRITTEN_FIRST) + chain_request(ahead, benchmark.wordings, planned=True)
    )
    prompt = await action_prompt(state, request, format_options(offered) if offered else "", runtime, several=True)
    answer: Any = await ask(prompt, form, role="executor", runtime=runtime)
    first = str(answer.choice if offered else answer.action)
    conditions = [
        *(p.text for p in state["certified"].predicates),
        state["target"].text,
        *(p.text for p in state["ahead"]),
    ]
    chain = read_chain(answer, "" if first == NOTHING else first, conditions)
    if answer.target == "unreachable":
        chain = [to_unreachable_action(unquote_line(answer.thought))]
    elif not chain:
        chain = [CHECK_ACTION]
    elif answer.target == "holds":  # it is judged together with what these actions bring about
        chain = [with_args(chain[0], {CLAIMS: state["target"].text}), *chain[1:]]
    return _add_notes(chain, answer, state)


def _add_notes(chain: Sequence[Action], answer: Noted, state: RealizeView) -> list[Action]:
    """Return the actions, the first one with what was noted before it."""
    facts = dict(enumerate(state["facts"], 1))
    noted: dict[str, list[JsonValue]] = {
        ESTABLISHED: [*filter(None, map(unquote_line, answer.established))],
        OUTDATED: [facts[number].text for number in answer.outdated if number in facts],
    }
    first, *rest = chain
    return [with_args(first, {key: texts for key, texts in noted.items() if texts}), *rest]


async def ask_action(state: RealizeView, runtime: Runtime[Context]) -> Action:
    """Ask a model to write one action that should make the target true, as in the SDP paper."""
    prompt = await action_prompt(state, f"{ONE_ACTION}\n{AS_THE_RULES_SAY}", "", runtime)
    return Action(text=(await ask(prompt, NextAction, role="executor", runtime=runtime)).action)


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
        describe_untaken(state, runtime),
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
    judged = [attempt for attempt in state["attempts"] if not attempt.verdict.pending]
    heading = ATTEMPTS_HEADING.format(most=most)
    return f"{heading}\n{quote(format_attempts(state['attempts']))}" if judged else ""


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

NOTED = """\
Give, in this order:
- thought: what is missing for the target, and how it comes about without harm to what the plan needs later.
- established: what the latest answers show that later steps may need when it is out of sight and that is not noted yet:
  exact names, figures, contents, places, what is done, missing or broken. One short statement each, as it is now.
- outdated: the numbers of the established facts that are no longer true.
- target: "holds" if what the world shows says that the target holds: it is judged together with what your next actions
  bring about; "unreachable" if an answer of the world shows that it cannot come true any more as it is worded, so that
  the rest must be planned again; otherwise "open".
"""

WRITTEN_FIRST = """\
- action: the next action. If the target holds, it is the first one for the conditions after it. Leave it empty if the
  target is unreachable, or holds and nothing is left to do or an action might undo it before it was judged.
"""

CHOSEN_FIRST = """\
- choice: the next action, copied exactly from the list at the end. If the target holds, it is the first one for the
  conditions after it. Choose the entry that nothing is done if the target is unreachable, or holds and nothing is left
  to do or an action might undo it before it was judged.
"""

NOTHING = "(nothing is done)"
"""Option of a model that takes no action."""

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
