"""Decisions of an agent: the prompt that asks what to do next (ReAct), and which action of the world is meant.

Code decides what is exact. Where the world's list leaves doubt, the operator asks the model.
"""

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

from langgraph.runtime import Runtime

from certigraph.adapters.benchmarks import benchmark_of, limits_of
from certigraph.adapters.encoders import find_encoder
from certigraph.adapters.episodes import admissible_actions, candidate_actions
from certigraph.adapters.matching import find_exact, is_focus, rank_actions, rank_meanings
from certigraph.adapters.models.calls import profile_of
from certigraph.adapters.models.prompts import (
    TURNS_HEADING,
    Prompt,
    build_prompt,
    bullet_list,
    format_history,
    format_limits,
    format_notes,
    format_view,
    paragraphs,
    quote_history,
)
from certigraph.adapters.processes import run_in_thread
from certigraph.adapters.protocols import Context
from certigraph.state.defaults import MATCHING_ENCODER
from certigraph.state.records import Task
from certigraph.state.run import DecideView

# The prompt: the agent's situation, and the question what to do next.


async def situation_prompt(
    state: DecideView, instruction: str, runtime: Runtime[Context], *, shown: str = "", closing: str
) -> Prompt:
    """Build a prompt about the agent's situation: assignment, turns, notes, the world now.

    Args:
        state: view of the acting agent.
        instruction: what is asked, in the same words in all requests of the operator.
        runtime: the operator's runtime.
        shown: what else is asked about and changes from request to request, such as possible actions.
        closing: the last line, which says what to answer now.
    """
    profile, limits = await profile_of("executor", runtime), limits_of(state["task"], runtime)
    assignment = f"Assignment: {state['assignment']}"
    lasts = dict(state).get("whole", True)  # a subtask of STEP changes while the turns go on
    ends = f"{limits.repeats} equal actions in a row with equal answers end the episode."
    constant = state["advice"][: state.get("lasting", 0)]
    before = paragraphs(
        instruction,
        ends if limits.repeats else "",
        assignment if lasts else "",
        f"Given for it:\n{bullet_list(constant)}" if constant else "",
    )
    advice = state["advice"][len(constant) :]
    after = paragraphs(
        "" if lasts else assignment,
        format_notes(state["belief"].text),
        f"To keep in mind:\n{bullet_list(advice)}" if advice else "",
        format_view(state["evidence"].view, runtime, turns=state["turns"], profile=profile),
        shown,
        format_limits(state["task"], runtime, used=state["steps"]),
        closing,
    )
    rest = build_prompt(runtime, before + after, role=ACTOR)
    history = format_history(state["turns"], rest.system + rest.user, profile)
    turns = f"{TURNS_HEADING}\n{quote_history(history)}"
    return build_prompt(runtime, paragraphs(before, turns, after), role=ACTOR, cut=history.cut)


async def decision_prompt(state: DecideView, rule: str, runtime: Runtime[Context], *, shown: str = "") -> Prompt:
    """Build ReAct's prompt: what to do next in the agent's situation.

    Args:
        state: view of the acting agent.
        rule: what holds for the action, in the same words in all requests.
        runtime: the operator's runtime.
        shown: the possible actions.
    """
    return await situation_prompt(state, f"{DECIDE_QUESTION}{rule}", runtime, shown=shown, closing=DECIDE_CLOSING)


ACTOR = """\
You carry out an assignment in a world that you know by text alone, one action after another. The world answers each
action. Rely on those answers and not on what you expect: names must be used as the world shows them, an action that had
no effect has none when it is repeated, and an action that cannot be undone needs a reason."""

DECIDE_QUESTION = """\
Think first: what do the answers so far establish for the assignment, what is still missing, and what would each likely
action change? Then give the one action to take next.
"""

DECIDE_CLOSING = "What is the next action for the assignment?"


async def options_of(queries: Sequence[str], task: Task, runtime: Runtime[Context]) -> Sequence[str]:
    """Return the actions from which an agent chooses the next one; none if it writes its actions freely.

    It chooses if the world lists at most `Limits.options`. If it lists more, it chooses from those that are most
    relevant to the queries where `Benchmark.shortlists` is true, and writes them elsewhere.
    """
    maximum, actions = limits_of(task, runtime).options, await admissible_actions(runtime)
    if len(actions) <= maximum:
        return actions
    return await candidate_actions(queries, runtime, maximum) if benchmark_of(task, runtime).shortlists else ()


# What a written action means.

MAX_CANDIDATES = 10
"""Maximum number of the world's actions from which a model says which one it meant (STEP's public code)."""


class Resolution(NamedTuple):
    """The action that a written one means; or, if `action` is empty, the world's actions that it may mean."""

    action: str
    candidates: tuple[str, ...] = ()


async def resolve_action(
    written: str,
    view: str,
    task: Task,
    runtime: Runtime[Context],
    *,
    accept: float = 1,
    most: int = MAX_CANDIDATES,
    similar: bool = True,
    refused: bool = False,
) -> Resolution:
    """Find the world's action that a written one means, or those that it may mean, best first.

    A focus action is sent as it is listed or written, never as the most similar one, because it cannot be undone.

    Args:
        written: what the model wrote.
        view: what the world shows.
        task: the task.
        runtime: the operator's runtime.
        accept: minimum similarity at which the most similar action is taken; 1 for exact matches only.
        most: maximum number of candidates; with 0 the action is sent as it was written.
        similar: whether actions that are merely similar are candidates too.
        refused: whether the world refused the action as it was written.
    """
    benchmark, actions = benchmark_of(task, runtime), await admissible_actions(runtime) if most else []
    if not actions:
        return Resolution(written)
    if known := await _find_exact(written, actions, view, task, runtime, refused=refused):
        return Resolution(known)
    actions = list(await run_in_thread(benchmark.select_visible, actions, view))
    synonyms, encoder = benchmark.synonyms, find_encoder(MATCHING_ENCODER)
    if accept < 1 and not is_focus(written):
        best = await run_in_thread(partial(rank_actions, written, actions, most=1, synonyms=synonyms, encoder=encoder))
        if best and best[0].score >= accept:
            return Resolution(best[0].action)
    candidates = [*await run_in_thread(benchmark.find_meanings, written, actions)]
    if similar:
        ranked = partial(rank_meanings, shown=benchmark.shown_names(view), synonyms=synonyms, encoder=encoder)
        candidates += await run_in_thread(partial(ranked, written, actions, most=most))
    offered = tuple(dict.fromkeys(candidates))[:most]
    return Resolution("", offered) if offered else Resolution(written)


async def _find_exact(
    written: str, actions: Sequence[str], view: str, task: Task, runtime: Runtime[Context], *, refused: bool = False
) -> str | None:
    benchmark = benchmark_of(task, runtime)
    known = await run_in_thread(benchmark.find_action, written, actions, view)
    if refused and known == written:  # it was sent by the names that the view shows
        known = await run_in_thread(benchmark.find_action, written, actions, "")
    return known or find_exact(written, actions, shown=benchmark.shown_names(view), synonyms=benchmark.synonyms)
