"""Observation filtering (CGDP appendix B): what clearly does not matter never reaches the belief."""

from typing import Annotated, Any

from langgraph.runtime import Runtime
from pydantic import BaseModel

from certigraph.adapters.benchmarks import limits_of
from certigraph.adapters.bounds import Cut
from certigraph.adapters.context import Context
from certigraph.adapters.models.ask import ask
from certigraph.adapters.prompting import clipped, numbered, prompt, quoted
from certigraph.adapters.protocols import Operator
from certigraph.nodes.memory import as_memory
from certigraph.nodes.specs import factory
from certigraph.state.gathering import MemoryView
from certigraph.state.passages import listed_lines
from certigraph.state.records import Observation

GLIMPSE = 240
"""Characters of a line that are shown for the choice: enough to tell what it is about."""


class Kept(BaseModel):
    """The model's answer: numbers of lines, from 1."""

    keep: Annotated[list[int], Cut(50)]


@factory
def filtered(memory: Operator | str) -> Operator:
    """A memory that sees only the lines of an observation that may matter to the question, chosen by number.

    An observation of one line is left as it is; of one that keeps no line nothing is extracted.
    """
    memory = as_memory(memory)

    async def filtered(state: MemoryView, runtime: Runtime[Context]) -> dict[str, Any]:
        observation = state["observation"]
        lines = observation.text.splitlines()
        if len(lines) < 2:
            return await memory(state, runtime)
        most = limits_of(state["task"], runtime).context
        shown = quoted(numbered(clipped(line, GLIMPSE) for line in lines), most)
        order = ORDER.format(lines=shown, known=quoted(state["belief"].text or "(nothing)"), task=state["task"].goal)
        answer = await ask(prompt(runtime, order), Kept, role="extractor", runtime=runtime)
        return await memory({**state, "observation": _only(observation, lines, set(answer.keep))}, runtime)

    return filtered


def _only(observation: Observation, lines: list[str], keep: set[int]) -> Observation:
    kept = [number for number in range(len(lines)) if number + 1 in keep]
    listed = listed_lines(observation.text, observation.sources)
    sources = observation.sources if listed is None else tuple(listed[n][0] for n in kept)
    return observation.model_copy(update={"text": "\n".join(lines[n] for n in kept), "sources": sources})


ORDER = """\
Just found:
{lines}

Known already:
{known}

Question that all of this is for: {task}
Give the numbers of the lines that may matter to the question, directly or as a step towards it. Leave out what
clearly does not; where you are unsure, keep the line.
"""
