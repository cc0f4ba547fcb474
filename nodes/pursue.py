"""The agent of a search world: a thought, one of the world's tools, and what to give it."""

from functools import lru_cache
from typing import Any, Literal

from langgraph.runtime import Runtime
from pydantic import BaseModel, Field, create_model

from certigraph.adapters.benchmarks import benchmark_of, limits_of
from certigraph.adapters.context import Context
from certigraph.adapters.models.ask import ask
from certigraph.adapters.prompting import listed, prompt, quoted
from certigraph.adapters.protocols import Operator
from certigraph.nodes.specs import factory
from certigraph.nodes.transcript import transcript
from certigraph.state.acting import DecideView
from certigraph.state.searching import FINISH, SEARCH, use

TOOLS = (SEARCH, FINISH)


class Move(BaseModel):
    """The model's answer, before the world's tools are known."""

    thought: str = Field(max_length=200)
    tool: str
    text: str = Field(min_length=1, max_length=200)


@factory
def pursue(*, alpha: float = 0.5) -> Operator:
    """Pursue the first open question of the belief, or, without one, the question itself.

    Args:
        alpha: weight of BM25 against vectors in the retrieval (0.5 in CGDP section 6.1).
    """

    async def pursue(state: DecideView, runtime: Runtime[Context]) -> dict[str, Any]:
        tools = tuple(getattr(benchmark_of(state["task"], runtime), "tools", TOOLS))
        move = await ask(prompt(runtime, _question(state, runtime)), _form(tools), role="executor", runtime=runtime)
        return {"thought": " ".join(move.thought.split()), "action": use(move.tool, move.text, alpha=alpha)}

    return pursue


@lru_cache(maxsize=16)
def _form(tools: tuple[str, ...]) -> type[Move]:
    return create_model("Move", __base__=Move, tool=(Literal[tools], ...))  # type: ignore[arg-type]


def _question(state: DecideView, runtime: Runtime[Context]) -> str:
    questions = state["belief"].questions[:1]
    return INSTRUCTION.format(
        turns=quoted(transcript(state["turns"], limits_of(state["task"], runtime))),
        belief=quoted(state["belief"].text or "(none)"),
        advice=listed(state["advice"]),
        task=state["assignment"],
        next=f"\nOpen, to be settled next: {questions[0]}" if questions else "",
    )


INSTRUCTION = """\
Rounds so far, each action with what it brought up:
{turns}

Notes from earlier rounds:
{belief}

To keep in mind:
{advice}

Question: {task}{next}
Think in one short sentence, then use one tool. Do not search for the same words again. Finish with the shortest
answer once what was found settles the question.
"""
