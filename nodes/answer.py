"""The final answer that is forced from an agent whose search was ended for it."""

from functools import lru_cache
from typing import Annotated, Any

from langgraph.runtime import Runtime
from pydantic import BaseModel, Field, create_model

from certigraph.adapters.benchmarks import benchmark_of, limits_of
from certigraph.adapters.context import Context
from certigraph.adapters.models.ask import ask
from certigraph.adapters.prompting import listed, prompt, quoted
from certigraph.nodes.bounded import Cut, longest_answer
from certigraph.nodes.special import specialised
from certigraph.nodes.transcript import gathered
from certigraph.state.gathering import AnswerView
from certigraph.state.searching import finish


class FinalAnswer(BaseModel):
    """The model's answer, before it is known how long the benchmark's answers are."""

    answer: str


@specialised
async def answer(state: AnswerView, runtime: Runtime[Context]) -> dict[str, Any]:
    """Ask for the best answer that what was gathered supports (CGDP section 5.2: from the text of b_t)."""
    actions = state["certified"].actions
    certified = f"Certified on the way:\n{quoted(listed(a.text for a in actions))}\n" if actions else ""
    told = gathered(state, limits_of(state["task"], runtime)) + certified + INSTRUCTION.format(task=state["task"].goal)
    form = _form(longest_answer(benchmark_of(state["task"], runtime)))
    answered = await ask(prompt(runtime, told), form, role="executor", runtime=runtime)
    return {"action": finish(" ".join(answered.answer.split()))}


@lru_cache(maxsize=16)
def _form(most: int) -> type[FinalAnswer]:
    return create_model(
        "FinalAnswer", __base__=FinalAnswer, answer=(Annotated[str, Field(min_length=1), Cut(most)], ...)
    )


INSTRUCTION = """
The search is over. Question: {task}
Answer in as few words as the question allows, from what was found; where that leaves it open, make your best guess.
"""
