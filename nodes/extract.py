"""Update of the belief state (CGDP section 5.1, appendix E): what an observation adds, told from b_t and o_t alone.

An item is added once and stays until it is resolved or the belief is reorganised. What was believed under another
form (MemGPT's own notes, say) is dropped: the belief takes the place of the harness's memory.
"""

from collections.abc import Iterable, Sequence
from typing import Annotated, Any

from langgraph.runtime import Runtime
from pydantic import BaseModel, Field

from certigraph.adapters.benchmarks import limits_of
from certigraph.adapters.bounds import Cut
from certigraph.adapters.context import Context
from certigraph.adapters.models.ask import Prompt, ask, ask_text
from certigraph.adapters.prompting import clipped, prompt, quoted
from certigraph.adapters.protocols import Operator
from certigraph.nodes.reorganise import NOTE, TARGET, TRIGGER, FoundFact, checked, fact_of, noted, reorganised
from certigraph.nodes.specs import factory
from certigraph.state.beliefs import Belief, Form, jaccard
from certigraph.state.gathering import MemoryView
from certigraph.state.passages import listed_lines

WINDOW = 1
"""Latest turns that stay visible. Section 5.1 discards the raw o_t once it is extracted (0); the experiments inject
the belief into the lobotomized harness, which sees o_t (section 6.2): so does the default."""

TOKENS = 300
"""Of freeform notes; the paper's extraction calls take fewer than 500 in all."""

SAME = 0.5
"""Similarity from which an open question counts as the one that is called resolved: models reword."""


class Findings(BaseModel):
    """The model's answer to structured extraction."""

    facts: Annotated[list[FoundFact], Cut(5)]
    resolved: Annotated[list[Annotated[str, Cut(NOTE)]], Cut(6)]
    questions: Annotated[list[Annotated[str, Field(min_length=1), Cut(NOTE)]], Cut(3)]


@factory
def structured(*, target: int = TARGET, trigger: int = TRIGGER, window: int = WINDOW) -> Operator:
    """Facts with their sources, and open questions: the resolved ones go, new ones are appended.

    Args:
        target: items that a reorganisation leaves, at most (K).
        trigger: items beyond which the belief is reorganised; no belief is ever larger.
        window: latest turns that the agent sees beside the belief.

    Raises:
        UnknownName: the numbers contradict each other.
    """
    checked("structured", target, trigger, window)

    async def structured(state: MemoryView, runtime: Runtime[Context]) -> dict[str, Any]:
        before = _own(state["belief"], "structured", window)
        if not state["observation"].text.strip():
            return {"belief": before}
        told = STRUCTURED.format(known=quoted(before.text or "(nothing)"), task=state["task"].goal)
        found = await ask(_question(state, runtime, told), Findings, role="extractor", runtime=runtime)
        belief = updated(before, found)
        return {"belief": await reorganised(belief, state["task"], runtime, target=target, trigger=trigger)}

    return structured


@factory
def freeform(*, target: int = TARGET, trigger: int = TRIGGER, window: int = WINDOW) -> Operator:
    """Notes in plain text, as appendix E.2 asks for them: new ones are appended, one a line. Arguments as above."""
    checked("freeform", target, trigger, window)

    async def freeform(state: MemoryView, runtime: Runtime[Context]) -> dict[str, Any]:
        before = _own(state["belief"], "freeform", window)
        if not state["observation"].text.strip():
            return {"belief": before}
        told = FREEFORM.format(known=quoted(before.text or "(nothing)"), task=state["task"].goal)
        text = await ask_text(_question(state, runtime, told), role="extractor", runtime=runtime, tokens=TOKENS)
        belief = before.model_copy(update={"notes": (*before.notes, *_unknown(noted(text), before.notes))})
        return {"belief": await reorganised(belief, state["task"], runtime, target=target, trigger=trigger)}

    return freeform


def updated(before: Belief, found: Findings) -> Belief:
    """The belief after an extraction: its new facts appended, its resolved questions gone, its new ones appended."""
    told = {fact.text: fact for fact in map(fact_of, found.facts)}
    facts = [told[text] for text in _unknown(filter(None, told), [fact.text for fact in before.facts])]
    left = [q for q in before.questions if all(jaccard(q, resolved) < SAME for resolved in found.resolved)]
    asked = (" ".join(question.split()) for question in found.questions)
    questions = (*left, *_unknown(filter(None, asked), before.questions))
    return before.model_copy(update={"facts": (*before.facts, *facts), "questions": questions})


def _own(belief: Belief, form: Form, window: int) -> Belief:
    return belief if belief.form == form else Belief(form=form, window=window)


def _unknown(texts: Iterable[str], known: Sequence[str]) -> list[str]:
    folded = {text.casefold() for text in known}
    return [text for text in dict.fromkeys(texts) if text.casefold() not in folded]


def _question(state: MemoryView, runtime: Runtime[Context], told: str) -> Prompt:
    limits, observation = limits_of(state["task"], runtime), state["observation"]
    listed = listed_lines(observation.text, observation.sources)
    lines = [clipped(line, limits.excerpt) for _, line in listed] if listed is not None else [observation.text]
    seen = "\n".join(lines)
    return prompt(runtime, f"Just found:\n{quoted(seen, limits.context)}\n\n{told}")


STRUCTURED = """\
Known already, not to be written again:
{known}

Question that all of this is for: {task}
facts: what the text just found says that matters to the question and is not known yet. Keep who did what, names and
values as the text has them; `source` is the title of its passage. None if it says nothing new.
resolved: of the questions that are still open above, those which are now answered, word for word.
questions: what else must be found out to answer the question, one thing each. None if nothing is missing.
"""

FREEFORM = """\
Notes so far, not to be written again:
{known}

Question that all of this is for: {task}
Write down, as plain text and not as JSON, what the text just found adds to the notes: one short note a line, names
and values as the text has them, with the title of the passage; also what still has to be found out. If it adds
nothing, write: Nothing new.
"""
