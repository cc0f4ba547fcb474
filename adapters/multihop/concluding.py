"""Realize (SDP Eq. 2) for the end of a plan: the answer from the certified hops, then handing it in."""

from typing import Annotated

from langgraph.runtime import Runtime
from pydantic import BaseModel, Field

from certigraph.adapters.benchmarks import limits_of
from certigraph.adapters.bounds import Within
from certigraph.adapters.context import Context
from certigraph.adapters.models.ask import ask
from certigraph.adapters.multihop import prompts
from certigraph.adapters.multihop.chain import GOAL, chain_answer, told
from certigraph.adapters.prompting import clipped, prompt, quoted, tried, unquoted
from certigraph.state.chains import carrying, certified_hops
from certigraph.state.records import Action
from certigraph.state.sdp import RealizeView
from certigraph.state.searching import ANSWER, finish

MOST_FAILURES_SHOWN = 3


class Conclusion(BaseModel):
    """The model's answer to the question."""

    answer: Annotated[str, Field(min_length=1), Within(200)]


async def closing_action(state: RealizeView, runtime: Runtime[Context]) -> Action:
    """An answer for the predicate `answer`; for the goal, where it was not certified with it, that answer handed in."""
    chain = [*certified_hops(state["certified"]).values()]
    certified = [a.args["answer"] for a in state["certified"].actions if a.kind == ANSWER]
    if state["target"].kind == GOAL and certified:
        return finish(str(certified[-1]), **carrying(chain))
    instruction = prompts.CONCLUDE.format(
        task=state["task"].goal,
        chain=quoted(told(chain)),
        failed=clipped(tried(state["attempts"][-MOST_FAILURES_SHOWN:]), limits_of(state["task"], runtime).context // 8),
    )
    said = await ask(prompt(runtime, instruction), Conclusion, role="executor", runtime=runtime)
    text = unquoted(said.answer)
    return finish(text, **carrying(chain)) if state["target"].kind == GOAL else chain_answer(text, chain)
