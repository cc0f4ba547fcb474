"""The final answer that is forced from an agent whose search was ended for it."""

from typing import Annotated, Any

from langgraph.runtime import Runtime
from pydantic import BaseModel, Field

from certigraph.adapters.benchmarks import limits_of
from certigraph.adapters.context import Context
from certigraph.adapters.models.ask import ask
from certigraph.adapters.prompting import listed, prompt, quoted
from certigraph.nodes.bounded import Cut
from certigraph.nodes.special import specialised
from certigraph.nodes.transcript import gathered
from certigraph.state.gathering import AnswerView
from certigraph.state.searching import finish


class FinalAnswer(BaseModel):
    """The model's answer."""

    answer: Annotated[str, Field(min_length=1), Cut(300)]


@specialised
async def answer(state: AnswerView, runtime: Runtime[Context]) -> dict[str, Any]:
    """Ask for the best answer that what was gathered supports (CGDP section 5.2: from the text of b_t)."""
    actions = state["certified"].actions
    certified = f"Certified on the way:\n{quoted(listed(a.text for a in actions))}\n" if actions else ""
    told = gathered(state, limits_of(state["task"], runtime)) + certified + INSTRUCTION.format(task=state["task"].goal)
    answered = await ask(prompt(runtime, told), FinalAnswer, role="executor", runtime=runtime)
    return {"action": finish(" ".join(answered.answer.split()))}


INSTRUCTION = """
The search is over. Question: {task}
Answer in as few words as the question allows, from what was found; where that leaves it open, make your best guess.
"""
