"""IRCoT's step: one more sentence of reasoning, which is the next query (Trivedi et al., arXiv 2212.10509)."""

import re
from typing import Any

from langgraph.runtime import Runtime
from pydantic import BaseModel, Field

from certigraph.adapters.benchmarks import limits_of
from certigraph.adapters.context import Context
from certigraph.adapters.models.ask import ask
from certigraph.adapters.prompting import listed, prompt, quoted
from certigraph.adapters.protocols import Operator
from certigraph.nodes.specs import factory
from certigraph.nodes.transcript import transcript
from certigraph.state.acting import DecideView
from certigraph.state.searching import finish, search

ANSWERED = re.compile(r"\banswer is:?\s*(.+?)\.?\s*$", re.IGNORECASE)
"""How IRCoT ends."""


class Sentence(BaseModel):
    """The model's answer."""

    sentence: str = Field(min_length=1, max_length=300)


@factory
def reason(*, alpha: float = 0.9) -> Operator:
    """Reason one sentence further and search with it; the first search is the question itself.

    Args:
        alpha: weight of BM25 against vectors in the retrieval (0.9 in CGDP section 6.1).
    """

    async def reason(state: DecideView, runtime: Runtime[Context]) -> dict[str, Any]:
        if not state["turns"]:
            return {"thought": "", "action": search(state["assignment"], alpha=alpha)}
        sentence = await _sentence(state, runtime)
        answered = ANSWERED.search(sentence)
        return {"thought": sentence, "action": finish(answered[1]) if answered else search(sentence, alpha=alpha)}

    return reason


async def _sentence(state: DecideView, runtime: Runtime[Context]) -> str:
    instruction = INSTRUCTION.format(
        turns=quoted(transcript(state["turns"], limits_of(state["task"], runtime))),
        belief=quoted(state["belief"].text or "(none)"),
        advice=listed(state["advice"]),
        task=state["assignment"],
    )
    answer = await ask(prompt(runtime, instruction), Sentence, role="executor", runtime=runtime)
    return " ".join(answer.sentence.split())


INSTRUCTION = """\
Reasoning so far, each sentence with the passages it brought up:
{turns}

Notes from earlier rounds:
{belief}

To keep in mind:
{advice}

Question: {task}
Write the next sentence of the reasoning, from what the passages say; name the entity to look up next. Do not repeat
a sentence. Once the question can be answered, write instead: So the answer is: (the shortest answer).
"""
