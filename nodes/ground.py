"""Entity-grounded extraction with an alignment check (CGDP appendix B), against evidence of the wrong entity (G7)."""

import re
from asyncio import gather
from collections.abc import Iterator
from typing import Annotated, Any

from langgraph.runtime import Runtime
from pydantic import BaseModel

from certigraph.adapters.benchmarks import limits_of
from certigraph.adapters.bounds import Cut
from certigraph.adapters.context import Context
from certigraph.adapters.models.ask import ask
from certigraph.adapters.prompting import prompt, quoted
from certigraph.adapters.protocols import Operator
from certigraph.nodes.memory import as_memory
from certigraph.nodes.specs import factory
from certigraph.state.beliefs import Belief
from certigraph.state.gathering import MemoryView

NAME = re.compile(r"\b(?:[A-Z]\w+|\d+)\b")
"""What names an entity: capitalised words and numbers. The first word of a sentence may be one by accident."""


class Alignment(BaseModel):
    """The model's answer."""

    reason: Annotated[str, Cut(200)]
    aligned: bool


@factory
def grounded(memory: Operator | str) -> Operator:
    """A memory that takes up only what is grounded: each new fact or note is checked, and dropped where it fails.

    First without a model: its names and numbers stand in the observation, the question or what is believed. Then one
    question for each: is it about those whom the question is about, or someone who leads to them? What a
    reorganisation rewords counts as new.
    """
    memory = as_memory(memory)

    async def grounded(state: MemoryView, runtime: Runtime[Context]) -> dict[str, Any]:
        belief: Belief = (await memory(state, runtime))["belief"]
        before = set(_told(state["belief"]))
        new = [text for text in _told(belief) if text not in before]
        kept = await gather(*(_stands(text, state, runtime) for text in new))
        refused = {text for text, stands in zip(new, kept, strict=True) if not stands}
        facts = tuple(fact for fact in belief.facts if fact.text not in refused)
        notes = tuple(note for note in belief.notes if note not in refused)
        return {"belief": belief.model_copy(update={"facts": facts, "notes": notes})}

    return grounded


def anchored(text: str, *sources: str) -> bool:
    """Whether every name and number of a text, its first word aside, stands in one of the sources."""
    known = set(re.findall(r"\w+", " ".join(sources).casefold()))
    named = [match[0] for match in NAME.finditer(text) if match.start() or match[0].isdigit()]
    return all(name.casefold() in known for name in named)


def _told(belief: Belief) -> Iterator[str]:
    yield from (fact.text for fact in belief.facts)
    yield from belief.notes


async def _stands(text: str, state: MemoryView, runtime: Runtime[Context]) -> bool:
    goal, seen = state["task"].goal, state["observation"].text
    if not anchored(text, seen, goal, state["belief"].text):
        return False
    passages = quoted(seen, limits_of(state["task"], runtime).context)
    order = ORDER.format(passages=passages, task=goal, text=quoted(text))
    return (await ask(prompt(runtime, order), Alignment, role="validator", runtime=runtime)).aligned


ORDER = """\
Passages:
{passages}

Question: {task}

Taken from the passages:
{text}

Do the passages say this of the very person, place or thing that it names? And is that the one that the question asks
about, or one that leads to it? A statement about someone else with the same role is not aligned.
"""
