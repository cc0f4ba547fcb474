"""The agent of a search world: a thought, one of the world's tools, and what to give it."""

from functools import lru_cache
from typing import Annotated, Any, Literal, TypeVar

from langgraph.runtime import Runtime
from pydantic import BaseModel, Field, create_model

from certigraph.adapters.benchmarks import benchmark_of, limits_of
from certigraph.adapters.bounds import Cut, longest_answer
from certigraph.adapters.context import Context
from certigraph.adapters.models.ask import ask
from certigraph.adapters.prompting import prompt, unquoted
from certigraph.adapters.protocols import Operator
from certigraph.nodes.harnesses import PBAI
from certigraph.nodes.specs import factory
from certigraph.nodes.transcript import gathered
from certigraph.state.acting import DecideView
from certigraph.state.records import Action
from certigraph.state.searching import FINISH, SEARCH, search, use

TOOLS = (SEARCH, FINISH)

M = TypeVar("M", bound=BaseModel)


class Move(BaseModel):
    """The model's answer, before the world's tools are known."""

    thought: Annotated[str, Cut(120)]
    tool: str
    text: str


@factory
def pursue(*, alpha: float = PBAI.alpha) -> Operator:
    """Pursue the first open question of the belief, or, without one, the question itself (Algorithm 1, line 4).

    Args:
        alpha: weight of BM25 against vectors in the retrieval.
    """

    async def pursue(state: DecideView, runtime: Runtime[Context]) -> dict[str, Any]:
        questions = state["belief"].questions[:1]
        instruction = gathered(state, limits_of(state["task"], runtime)) + INSTRUCTION.format(
            task=state["assignment"], next=f"\nOpen, to be settled next: {questions[0]}" if questions else ""
        )
        form = with_tools(Move, state, runtime)
        move = await ask(prompt(runtime, instruction), form, role="executor", runtime=runtime)
        return {"thought": unquoted(move.thought), "action": tool_used(move.tool, move.text, alpha=alpha)}

    return pursue


def with_tools(form: type[M], state: DecideView, runtime: Runtime[Context]) -> type[M]:
    """A form whose field `tool` is one of the world's tools, and whose `text` is as long as an answer there may be."""
    benchmark = benchmark_of(state["task"], runtime)
    return _fitted(form, tuple(getattr(benchmark, "tools", TOOLS)), longest_answer(benchmark))


@lru_cache(maxsize=16)
def _fitted(form: type[M], tools: tuple[str, ...], most: int) -> type[M]:
    text = Annotated[str, Field(min_length=1), Cut(most)]
    return create_model(form.__name__, __base__=form, tool=(Literal[tools], ...), text=(text, ...))  # type: ignore[arg-type]


def tool_used(tool: str, text: str, *, alpha: float, k: int | None = None) -> Action:
    """The action; how to retrieve concerns searches alone."""
    text = unquoted(text)
    if tool != SEARCH:
        return use(tool, text)
    return search(text, alpha=alpha, k=k) if k else search(text, alpha=alpha)


INSTRUCTION = """
Question: {task}{next}
Think in one short sentence, then use one tool. Do not search for the same words again. Finish with the shortest
answer once what was found settles the question.
"""
