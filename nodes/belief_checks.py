"""Operators that wrap a memory and check what it keeps: `grounded` and `filtered` (CGDP appendix B)."""

import re
from asyncio import gather
from collections.abc import Iterator
from typing import Annotated, Any

from langgraph.runtime import Runtime
from pydantic import BaseModel

from certigraph.adapters.models.calls import ask
from certigraph.adapters.models.prompts import build_prompt, clip, numbered_list, quote
from certigraph.adapters.models.schemas import Reasoning, Truncated
from certigraph.adapters.protocols import Context, Operator
from certigraph.nodes.beliefs import to_memory
from certigraph.nodes.operators import call_operator
from certigraph.nodes.slots import factory
from certigraph.state.records import Observation
from certigraph.state.run import Belief
from certigraph.state.search import MemoryView, lines_with_sources

# Entity-grounded extraction with an alignment check (CGDP appendix B), against evidence about the wrong entity (G7).

NAME_PATTERN = re.compile(r"\b(?:[A-Z]\w+|\d+)\b")
"""Matches what names an entity: capitalised words and numbers. The first word of a sentence may match by accident."""


class Alignment(BaseModel):
    """The model's answer."""

    reason: Reasoning
    aligned: bool


@factory
def grounded(memory: Operator | str) -> Operator:
    """Wrap a memory operator: check each new fact or note, and drop it if it is unsupported or about the wrong entity.

    The first check needs no model: names and numbers of the item must occur in the observation, the question or the
    belief. In the second check a model decides, with one call for each item, whether the item is about the entity in
    question or about one that leads to it. Items that are reworded when the belief is shortened are checked again.
    """
    memory = to_memory(memory)

    async def grounded(state: MemoryView, runtime: Runtime[Context]) -> dict[str, Any]:
        belief: Belief = (await call_operator(memory, state, runtime))["belief"]
        before = set(_belief_texts(state["belief"]))
        new = [text for text in _belief_texts(belief) if text not in before]
        checks = await gather(*(_is_grounded(text, state, runtime) for text in new))
        refused = {text for text, grounded_item in zip(new, checks, strict=True) if not grounded_item}
        facts = tuple(fact for fact in belief.facts if fact.text not in refused)
        notes = tuple(note for note in belief.notes if note not in refused)
        return {"belief": belief.model_copy(update={"facts": facts, "notes": notes})}

    return grounded


def is_anchored(text: str, *sources: str) -> bool:
    """Return whether every name and number in `text` occurs in `sources`. A capitalised first word is ignored."""
    known = set(re.findall(r"\w+", " ".join(sources).casefold()))
    names = [match[0] for match in NAME_PATTERN.finditer(text) if match.start() or match[0].isdigit()]
    return all(name.casefold() in known for name in names)


def _belief_texts(belief: Belief) -> Iterator[str]:
    yield from (fact.text for fact in belief.facts)
    yield from belief.notes


async def _is_grounded(text: str, state: MemoryView, runtime: Runtime[Context]) -> bool:
    goal, text_seen = state["task"].goal, state["observation"].text
    if not is_anchored(text, text_seen, goal, state["belief"].text):
        return False
    instruction = GROUND_QUESTION.format(passages=quote(text_seen), task=goal, text=quote(text))
    prompt, about = build_prompt(runtime, instruction), {"item": text}
    return (await ask(prompt, Alignment, role="validator", runtime=runtime, about=about)).aligned


GROUND_QUESTION = """\
Do the passages say what was taken from them of the very person, place or thing that it names? And is that the one that
the question asks about, or one that leads to it? A statement about someone else with the same role is not aligned.

Question: {task}

Passages:
{passages}

Taken from the passages:
{text}

Is it aligned?
"""


# Observation filtering (CGDP appendix B): remove irrelevant lines before they reach the belief.

MAX_FILTER_LINE = 240
"""Maximum number of characters of a line in the prompt: enough to recognise what it is about."""


class Kept(BaseModel):
    """The model's answer: numbers of lines, from 1."""

    keep: Annotated[list[int], Truncated(50)]


@factory
def filtered(memory: Operator | str) -> Operator:
    """Wrap a memory operator so that it sees only the lines of an observation that may matter to the question.

    A model chooses the lines by number. If it chooses none, the memory gets an empty observation. An observation of one
    line is not filtered.
    """
    memory = to_memory(memory)

    async def filtered(state: MemoryView, runtime: Runtime[Context]) -> dict[str, Any]:
        observation = state["observation"]
        lines = observation.text.splitlines()
        if len(lines) < 2:
            return await call_operator(memory, state, runtime)
        shown = quote(numbered_list(clip(line, MAX_FILTER_LINE) for line in lines))
        instruction = FILTER_QUESTION.format(
            lines=shown, known=quote(state["belief"].text or "(nothing)"), task=state["task"].goal
        )
        answer = await ask(build_prompt(runtime, instruction), Kept, role="extractor", runtime=runtime)
        return await call_operator(
            memory, {**state, "observation": _keep_lines(observation, lines, set(answer.keep))}, runtime
        )

    return filtered


def _keep_lines(observation: Observation, lines: list[str], keep: set[int]) -> Observation:
    indices = [number for number in range(len(lines)) if number + 1 in keep]
    listed = lines_with_sources(observation.text, observation.sources)
    sources = observation.sources if listed is None else tuple(listed[n][0] for n in indices)
    return observation.model_copy(update={"text": "\n".join(lines[n] for n in indices), "sources": sources})


FILTER_QUESTION = """\
Give the numbers of the lines just found that may matter to the question, directly or as a step towards it. Leave out
what clearly does not; where you are unsure, keep the line.

Question that all of this is for: {task}

Known already:
{known}

Just found:
{lines}

Which lines may matter to the question?
"""
