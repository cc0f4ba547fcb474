"""The final answer that is forced from an agent whose search was ended for it."""

from functools import lru_cache
from typing import Annotated, Any

from langgraph.runtime import Runtime
from pydantic import BaseModel, Field, create_model

from certigraph.adapters.benchmarks import benchmark_of, limits_of
from certigraph.adapters.bounds import Cut, longest_answer
from certigraph.adapters.context import Context
from certigraph.adapters.models.ask import ask
from certigraph.adapters.multihop.reading import page_of
from certigraph.adapters.prompting import listed, prompt, quoted, unquoted
from certigraph.nodes.special import specialised
from certigraph.nodes.transcript import gathered
from certigraph.state.chains import carrying, certified_hops
from certigraph.state.gathering import AnswerView
from certigraph.state.records import Task
from certigraph.state.searching import finish


class FinalAnswer(BaseModel):
    """The model's answer, before it is known how long the benchmark's answers are."""

    answer: str


@specialised
async def answer(state: AnswerView, runtime: Runtime[Context]) -> dict[str, Any]:
    """Ask for the best answer that what was gathered supports (CGDP section 5.2: from the text of b_t)."""
    told = gathered(state, limits_of(state["task"], runtime)) + await _passages(state, runtime) + _certified(state)
    told += INSTRUCTION.format(task=state["task"].goal)
    form = answer_form(state["task"], runtime)
    answered = await ask(prompt(runtime, told), form, role="executor", runtime=runtime)
    chain = certified_hops(state["certified"]).values()
    return {"action": finish(unquoted(answered.answer), **carrying([*chain]))}


async def _passages(state: AnswerView, runtime: Runtime[Context]) -> str:
    """The passages at hand that fit the question best, for agents that keep no turns."""
    task, ids = state["task"], state["evidence"].sources
    if state["turns"] or not ids:
        return ""
    return f"Passages at hand:\n{quoted(await page_of(0, [task.goal], ids, task, runtime))}\n"


def _certified(state: AnswerView) -> str:
    told = [f"{a.args.get('subquestion', '')} {a.text}".strip() for a in state["certified"].actions]
    return f"Certified on the way:\n{quoted(listed(told))}\n" if told else ""


def answer_form(task: Task, runtime: Runtime[Context]) -> type[FinalAnswer]:
    """The form of a final answer, as long as one of the task's benchmark may be."""
    return _form(longest_answer(benchmark_of(task, runtime)))


@lru_cache(maxsize=16)
def _form(most: int) -> type[FinalAnswer]:
    return create_model(
        "FinalAnswer", __base__=FinalAnswer, answer=(Annotated[str, Field(min_length=1), Cut(most)], ...)
    )


INSTRUCTION = """
The search is over. Question: {task}
Answer in as few words as the question allows, from what was found; where that leaves it open, make your best guess.
"""
