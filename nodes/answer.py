"""The final answer that is forced from an agent whose search was ended for it."""

from typing import Any

from langgraph.runtime import Runtime
from pydantic import BaseModel, Field

from certigraph.adapters.benchmarks import limits_of
from certigraph.adapters.context import Context
from certigraph.adapters.models.ask import ask
from certigraph.adapters.prompting import listed, prompt, quoted
from certigraph.nodes.special import specialised
from certigraph.nodes.transcript import transcript
from certigraph.state.gathering import AnswerView
from certigraph.state.searching import finish


class FinalAnswer(BaseModel):
    """The model's answer."""

    answer: str = Field(min_length=1, max_length=300)


@specialised
async def answer(state: AnswerView, runtime: Runtime[Context]) -> dict[str, Any]:
    """Ask for the best answer that what was gathered supports."""
    return {"action": finish(await final_answer(state, runtime))}


async def final_answer(state: AnswerView, runtime: Runtime[Context]) -> str:
    """The answer's words."""
    instruction = INSTRUCTION.format(
        turns=quoted(transcript(state["turns"], limits_of(state["task"], runtime))),
        certified=listed(a.text for a in state["certified"].actions),
        belief=quoted(state["belief"].text or "(nothing)"),
        task=state["task"].goal,
    )
    answered = await ask(prompt(runtime, instruction), FinalAnswer, role="executor", runtime=runtime)
    return answered.answer


INSTRUCTION = """\
What was found, round by round:
{turns}

Certified on the way:
{certified}

Notes:
{belief}

The search is over. Question: {task}
Answer in as few words as the question allows, from what was found; where that leaves it open,
make your best guess.
"""
