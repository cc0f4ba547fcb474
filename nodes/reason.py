"""IRCoT's step: one more sentence of reasoning, which is the next query (Trivedi et al., arXiv 2212.10509)."""

import re
from typing import Annotated, Any

from langgraph.runtime import Runtime
from pydantic import BaseModel, Field

from certigraph.adapters.benchmarks import limits_of
from certigraph.adapters.bounds import Cut
from certigraph.adapters.context import Context
from certigraph.adapters.models.ask import ask
from certigraph.adapters.prompting import prompt, unquoted
from certigraph.adapters.protocols import Operator
from certigraph.nodes.harnesses import IRCOT, PARAGRAPHS
from certigraph.nodes.specs import factory
from certigraph.nodes.transcript import gathered, unbegun
from certigraph.state.acting import DecideView
from certigraph.state.searching import finish, search

ANSWERED = re.compile(r"\banswer is:?\s*(.+?)\.?\s*$", re.IGNORECASE)
"""How IRCoT ends."""


class Sentence(BaseModel):
    """The model's answer."""

    sentence: Annotated[str, Field(min_length=1), Cut(300)]


@factory
def reason(*, alpha: float = IRCOT.alpha, paragraphs: int = PARAGRAPHS) -> Operator:
    """Reason one sentence further and search with it; the first search is the question itself.

    Args:
        alpha: weight of BM25 against vectors in the retrieval.
        paragraphs: how many different paragraphs it reads at once, the latest.
    """

    async def reason(state: DecideView, runtime: Runtime[Context]) -> dict[str, Any]:
        if unbegun(state):
            return {"thought": "", "action": search(state["assignment"], alpha=alpha)}
        told = gathered(state, limits_of(state["task"], runtime), paragraphs=paragraphs)
        question = prompt(runtime, told + INSTRUCTION.format(task=state["assignment"]))
        answer = await ask(question, Sentence, role="executor", runtime=runtime)
        sentence = unquoted(answer.sentence)
        answered = ANSWERED.search(sentence)
        return {"thought": sentence, "action": finish(answered[1]) if answered else search(sentence, alpha=alpha)}

    return reason


INSTRUCTION = """
Question: {task}
Write the next sentence of the reasoning, from what the passages say; name the entity to look up next. Do not repeat
a sentence. Once the question can be answered, write instead: So the answer is: (the shortest answer).
"""
