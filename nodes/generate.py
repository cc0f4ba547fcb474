"""Iter-RetGen's step: generate from the latest passages, retrieve by the generation (Shao et al., arXiv 2305.15294)."""

from typing import Annotated, Any

from langgraph.runtime import Runtime
from pydantic import BaseModel, Field

from certigraph.adapters.benchmarks import limits_of
from certigraph.adapters.bounds import Cut
from certigraph.adapters.context import Context
from certigraph.adapters.models.ask import ask
from certigraph.adapters.prompting import prompt, unquoted
from certigraph.adapters.protocols import Operator
from certigraph.nodes.harnesses import ITER_RETGEN
from certigraph.nodes.specs import factory
from certigraph.nodes.transcript import gathered, unbegun
from certigraph.state.acting import DecideView
from certigraph.state.searching import search


class Generation(BaseModel):
    """The model's answer."""

    generation: Annotated[str, Field(min_length=1), Cut(300)]


@factory
def generate(*, alpha: float = ITER_RETGEN.alpha) -> Operator:
    """Search for the question, and from then on for the question and the last generation; never stop.

    It has no memory beyond the latest passages: that is what its native belief says, so that the author of the final
    answer sees no more either.

    Args:
        alpha: weight of BM25 against vectors in the retrieval.
    """

    async def generate(state: DecideView, runtime: Runtime[Context]) -> dict[str, Any]:
        belief = state["belief"]
        if belief.form == "native":
            belief = belief.model_copy(update={"window": 1})
        if unbegun(state):
            return {"thought": "", "action": search(state["assignment"], alpha=alpha), "belief": belief}
        told = gathered(state, limits_of(state["task"], runtime))
        question = prompt(runtime, told + INSTRUCTION.format(task=state["assignment"]))
        answer = await ask(question, Generation, role="executor", runtime=runtime)
        text = unquoted(answer.generation)
        return {"thought": text, "action": search(f"{state['assignment']} {text}", alpha=alpha), "belief": belief}

    return generate


INSTRUCTION = """
Question: {task}
Reason from what the passages say, in one or two sentences, and name the answer as far as they give it. It is used as
the next query, so name what it still depends on.
"""
