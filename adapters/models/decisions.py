"""Prompts of an agent that acts without predicates: its situation, and the question what to do next (ReAct)."""

from langgraph.runtime import Runtime

from certigraph.adapters.benchmarks import limits_of
from certigraph.adapters.models.calls import profile_of
from certigraph.adapters.models.prompts import (
    Prompt,
    build_prompt,
    bullet_list,
    format_history,
    format_limits,
    format_view,
    quote_history,
)
from certigraph.adapters.protocols import Context
from certigraph.state.run import DecideView


async def situation_prompt(state: DecideView, question: str, runtime: Runtime[Context]) -> Prompt:
    """Build a prompt from the agent's situation (assignment, notes, turns, the world now) and a question about it."""
    notes = [*state["advice"], *state["belief"].text.splitlines()]
    after = f"Assignment: {state['assignment']}\n\n"
    after += f"To keep in mind:\n{bullet_list(notes)}\n\n" if notes else ""
    after += f"{view}\n" if (view := format_view(state["evidence"].view, runtime)) else ""
    profile, limits = await profile_of("executor", runtime), limits_of(state["task"], runtime)
    if profile.is_small:
        after += f"Actions used in this episode: {state['steps']} of at most {limits.steps}.\n\n{question}"
    else:
        ends = f"{limits.repeats} equal actions in a row with equal answers end the episode." if limits.repeats else ""
        used = format_limits(state["task"], runtime, used=state["steps"])
        after += "\n\n".join(filter(None, (f"{used} {ends}".strip(), question)))
    rest = build_prompt(runtime, after, role=ACTOR)
    history = format_history(state["turns"], rest.system + rest.user, profile)
    shown = f"Actions so far and the world's answers, the latest last:\n{quote_history(history)}\n\n"
    return build_prompt(runtime, shown + after, role=ACTOR, cut=history.cut)


async def decision_prompt(state: DecideView, choice: str, runtime: Runtime[Context]) -> Prompt:
    """Build ReAct's prompt: the situation, the text `choice` about possible actions, and the question what to do."""
    return await situation_prompt(state, f"{choice}\n{DECIDE_QUESTION}", runtime)


ACTOR = """\
You carry out an assignment in a world that you know by text alone, one action after another. The world answers each
action. Rely on those answers and not on what you expect: names must be used as the world shows them, an action that had
no effect has none when it is repeated, and an action that cannot be undone needs a reason."""

DECIDE_QUESTION = """\
Think first: what do the answers so far establish for the assignment, what is still missing, and what would each likely
action change? Then give the one action to take next.
"""
