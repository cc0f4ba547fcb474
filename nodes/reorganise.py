"""Reorganisation of a belief that has grown too large (CGDP appendix E.3): from more than 10 items to at most 6.

A model curates it; what it leaves beyond the target is cut, so that the bound holds whatever it answers.
"""

import re
from typing import Annotated

from langgraph.runtime import Runtime
from pydantic import BaseModel, Field

from certigraph.adapters.bounds import Cut
from certigraph.adapters.context import Context
from certigraph.adapters.models.ask import ask, ask_text
from certigraph.adapters.prompting import clipped, prompt, quoted
from certigraph.state.beliefs import Belief, Fact
from certigraph.state.endings import UnknownName
from certigraph.state.records import Task

TRIGGER, TARGET = 10, 6
"""Items beyond which a belief is reorganised, and items that it is then left with at most."""

NOTE, SOURCE, TOKENS = 240, 80, 500
"""Characters of a fact, question or note, and of a source; tokens of freeform notes when they are all rewritten."""

BULLET = re.compile(r"^\s*(?:[-*•]+|\d+[.)])\s*")
NOTHING = re.compile(r"\W*nothing (new|relevant)\W*", re.IGNORECASE)


class FoundFact(BaseModel):
    """A fact as models write it."""

    fact: Annotated[str, Field(min_length=1), Cut(NOTE)]
    source: Annotated[str, Cut(SOURCE)]


def fact_of(found: FoundFact) -> Fact:
    """The same on one line: what prompts list is one a line."""
    return Fact(text=" ".join(found.fact.split()), source=" ".join(found.source.split()))


class Curated(BaseModel):
    """The model's answer for a structured belief."""

    facts: Annotated[list[FoundFact], Cut(TRIGGER)]
    questions: Annotated[list[Annotated[str, Field(min_length=1), Cut(NOTE)]], Cut(TRIGGER)]


async def reorganised(belief: Belief, task: Task, runtime: Runtime[Context], *, target: int, trigger: int) -> Belief:
    """The belief itself while it has at most `trigger` items, else one of at most `target`."""
    if belief.items <= trigger:
        return belief
    curate = _noted_anew if belief.form == "freeform" else _curated
    shorter = await curate(belief, task, runtime, target)
    # A model that answers with nothing must not cost the agent its memory: the latest items are kept then.
    kept = _cut(shorter, target) if shorter.items else _latest(belief, target)
    return kept.model_copy(update={"reorganised": belief.reorganised + 1})


def noted(text: str) -> list[str]:
    """The notes in a model's prose, one a line, without bullets; none where it says that there is nothing new."""
    bare = (" ".join(BULLET.sub("", line).split()) for line in text.splitlines())
    return [clipped(line, NOTE) for line in bare if line and not line.endswith(":") and not NOTHING.fullmatch(line)]


def checked(name: str, target: int, trigger: int, window: int) -> None:
    """Raises UnknownName where a belief of these sizes cannot be kept."""
    if not 1 <= target <= trigger or window < 0:
        told = f"target={target}, trigger={trigger}, window={window}"
        raise UnknownName(f"{name}({told}): 1 <= target <= trigger and window >= 0, as in memory={name}:target=6")


async def _curated(belief: Belief, task: Task, runtime: Runtime[Context], target: int) -> Belief:
    order = CURATE.format(belief=quoted(belief.text), task=task.goal, facts=target - _open(target), open=_open(target))
    answer = await ask(prompt(runtime, order), Curated, role="extractor", runtime=runtime)
    facts = tuple(fact for fact in map(fact_of, answer.facts) if fact.text)
    questions = (" ".join(question.split()) for question in answer.questions)
    return belief.model_copy(update={"facts": facts, "questions": tuple(filter(None, questions))})


async def _noted_anew(belief: Belief, task: Task, runtime: Runtime[Context], target: int) -> Belief:
    order = REWRITE.format(belief=quoted(belief.text), task=task.goal, target=target)
    text = await ask_text(prompt(runtime, order), role="extractor", runtime=runtime, tokens=TOKENS)
    return belief.model_copy(update={"notes": tuple(noted(text))})


def _open(target: int) -> int:
    """How many of the items may be open questions."""
    return target // 3


def _cut(belief: Belief, target: int) -> Belief:
    questions = belief.questions[: max(_open(target), target - len(belief.facts))]
    facts = belief.facts[: target - len(questions)]
    return belief.model_copy(update={"facts": facts, "questions": questions, "notes": belief.notes[:target]})


def _latest(belief: Belief, target: int) -> Belief:
    facts, questions, notes = belief.facts[-target:], belief.questions[-target:], belief.notes[-target:]
    return _cut(belief.model_copy(update={"facts": facts, "questions": questions, "notes": notes}), target)


CURATE = """\
Facts and open questions gathered so far:
{belief}

Question that they are for: {task}
Write them anew, the most important first: at most {facts} facts and {open} questions. Join facts that say the same,
drop what does not matter to the question, and keep every fact that another one needs to be of use. Each fact keeps
its source. Keep a question only while no fact answers it.
"""

REWRITE = """\
Notes gathered so far:
{belief}

Question that they are for: {task}
Write them anew, as plain text and not as JSON: at most {target} notes, one a line, the most important first. Join
notes that say the same, drop what does not matter to the question, and keep every note that another one needs to be
of use, with names, values and titles as they are.
"""
