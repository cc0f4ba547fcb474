"""Decide (ReAct) and execute (STEP's Executor): a thought and the action that follows from it."""

from collections.abc import Sequence
from typing import Annotated, Any

from langgraph.runtime import Runtime
from pydantic import BaseModel, Field

from certigraph.adapters.benchmarks import benchmark_of, limits_of
from certigraph.adapters.bounds import Cut, Within
from certigraph.adapters.candidates import admissible, candidates
from certigraph.adapters.context import Context
from certigraph.adapters.embeddings import encoder
from certigraph.adapters.loops import off_loop
from certigraph.adapters.matching import ranked
from certigraph.adapters.models.ask import ask, choose, deliberate
from certigraph.adapters.prompting import listed, prompt, quoted
from certigraph.adapters.protocols import Operator
from certigraph.nodes.pursue import pursue
from certigraph.nodes.situation import decided, queries
from certigraph.nodes.special import specialised
from certigraph.nodes.specs import factory
from certigraph.state.acting import DecideView
from certigraph.state.records import Action, Arguments

ACCEPT, MATCHES = 0.9, 5
"""CLIN's figures for matching a written action to the world's list."""


class Thought(BaseModel):
    """The model's answer where it writes its action freely."""

    thought: Annotated[str, Cut(160)]
    action: Annotated[str, Field(min_length=1), Within(300)]


@specialised
async def decide(state: DecideView, runtime: Runtime[Context]) -> dict[str, Any]:
    """Ask the model for a thought and the action that follows from it (ReAct)."""
    return await _thought_and_action(state, runtime)


@specialised
async def execute(state: DecideView, runtime: Runtime[Context]) -> dict[str, Any]:
    """The same for STEP's Executor, whose assignment is a subtask: a benchmark's own `decide` may know the task."""
    return await _thought_and_action(state, runtime)


async def _thought_and_action(state: DecideView, runtime: Runtime[Context]) -> dict[str, Any]:
    """Choose or write an action; in a world that takes an answer, use one of its tools.

    Where the world lists a few actions it chooses one. Where it lists thousands, it writes one that is matched to the
    list; a benchmark for small models (`shortlists`) has it choose among those relevant to its assignment instead.
    """
    if getattr(benchmark_of(state["task"], runtime), "answers", False):
        return await pursue()(state, runtime)
    most = limits_of(state["task"], runtime).options
    actions = await admissible(runtime)
    if actions and len(actions) <= most:
        return await _choosing(state, actions, runtime)
    if actions and getattr(benchmark_of(state["task"], runtime), "shortlists", False):
        return await _choosing(state, await candidates(queries(state), runtime, most), runtime)
    return await _matching(state, runtime, accept=ACCEPT, most=MATCHES)


@factory
def decide_freely(*, accept: float = ACCEPT, most: int = MATCHES) -> Operator:
    """The model writes its action, also where the world lists a few (CLIN and STEP's action matching).

    Args:
        accept: similarity from which the best match is taken at once.
        most: best matches that the model chooses among otherwise; 0: what it wrote goes to the world as it is.
    """

    async def decide_freely(state: DecideView, runtime: Runtime[Context]) -> dict[str, Any]:
        return await _matching(state, runtime, accept=accept, most=most)

    return decide_freely


async def _choosing(state: DecideView, offered: Sequence[str], runtime: Runtime[Context]) -> dict[str, Any]:
    question = decided(state, f"Actions to choose from:\n{quoted(listed(offered))}")
    answer = await deliberate(prompt(runtime, question), offered, role="executor", runtime=runtime)
    return _action_of(answer.thought, answer.choice)


async def _matching(state: DecideView, runtime: Runtime[Context], *, accept: float, most: int) -> dict[str, Any]:
    thought, written = await _written(state, runtime)
    actions = await admissible(runtime) if most else []
    if not actions:
        return _action_of(thought, written)
    synonyms = getattr(benchmark_of(state["task"], runtime), "synonyms", None)
    matches = await off_loop(lambda: ranked(written, actions, encoder=encoder(), most=most, synonyms=synonyms))
    if not matches or matches[0].score >= accept:
        return _action_of(thought, matches[0].action if matches else written, written)
    options = [match.action for match in matches]
    question = decided(state, f"You meant: {written}\nThe world knows:\n{quoted(listed(options))}")
    chosen = await choose(prompt(runtime, question), options, role="executor", runtime=runtime)
    return _action_of(thought, chosen, written)


async def _written(state: DecideView, runtime: Runtime[Context]) -> tuple[str, str]:
    question = prompt(runtime, decided(state, "Write the action as the world's rules say."))
    answer = await ask(question, Thought, role="executor", runtime=runtime)
    return answer.thought, answer.action


def _action_of(thought: str, action: str, written: str = "") -> dict[str, Any]:
    # What the model wrote stays with what was made of it: the difference is the matching's, not the model's.
    args: Arguments = {"written": written} if written and written != action else {}
    return {"thought": thought, "action": Action(text=action, args=args)}
