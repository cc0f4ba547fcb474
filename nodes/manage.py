"""MemGPT's step: act, note in core memory, and flush the queue when the context fills (Packer et al., 2310.08560).

Its own memory lies in the belief while that is native: `notes` are core memory, the one fact is the summary of what
left the queue, `window` the turns in it. Under another memory condition that belief is gone, and it keeps none.
"""

from collections.abc import Sequence
from typing import Annotated, Any

from langgraph.runtime import Runtime
from pydantic import BaseModel, Field

from certigraph.adapters.benchmarks import limits_of
from certigraph.adapters.bounds import Cut
from certigraph.adapters.context import Context
from certigraph.adapters.models.ask import ask
from certigraph.adapters.prompting import prompt, quoted, unquoted
from certigraph.adapters.protocols import Limits, Operator
from certigraph.nodes.harnesses import CORE, KEPT, MEMGPT, PAGE, PRESSURE, RETURNED
from certigraph.nodes.pursue import tool_used, with_tools
from certigraph.nodes.specs import factory
from certigraph.nodes.transcript import gathered, transcript, weight
from certigraph.state.acting import DecideView
from certigraph.state.beliefs import Belief, Fact

EARLIER = "rounds no longer shown"
"""Where a summary stands."""


class ManagedMove(BaseModel):
    """The model's answer, before the world's tools are known. An empty `remember` leaves core memory as it is."""

    thought: Annotated[str, Cut(120)]
    remember: Annotated[str, Cut(200)]
    tool: str
    text: str


class Summary(BaseModel):
    """The model's answer."""

    summary: Annotated[str, Field(min_length=1), Cut(800)]


@factory
def manage(*, alpha: float = MEMGPT.alpha, page: int = PAGE, pressure: float = PRESSURE) -> Operator:
    """Use a tool and note what must not be lost; under memory pressure it is warned, then its queue is flushed.

    Args:
        alpha: weight of BM25 against vectors in the retrieval.
        page: passages that a search returns at most.
        pressure: share of `Limits.context` that counts as pressure.
    """

    async def manage(state: DecideView, runtime: Runtime[Context]) -> dict[str, Any]:
        given = limits_of(state["task"], runtime)
        limits = given.model_copy(update={"excerpt": min(given.excerpt, RETURNED // page)})
        own, most = state["belief"].form == "native", pressure * limits.context
        pressed = own and len(state["turns"]) > KEPT and weight(state["turns"], limits) > most
        order = INSTRUCTION.format(task=state["assignment"], warning=WARNING if pressed else "")
        form = with_tools(ManagedMove, state, runtime)
        move = await ask(prompt(runtime, gathered(state, limits) + order), form, role="executor", runtime=runtime)
        belief = remembering(state["belief"], move.remember, len(state["turns"])) if own else state["belief"]
        return {
            "thought": unquoted(move.thought),
            "action": tool_used(move.tool, move.text, alpha=alpha, k=min(page, limits.passages)),
            "belief": await _flushed(belief, state, limits, runtime) if pressed else belief,
        }

    return manage


def remembering(belief: Belief, note: str, turns: int) -> Belief:
    """The belief with a note more, within the bound of core memory, and room for the turn that is about to be."""
    notes = tuple(filter(None, (*belief.notes, unquoted(note))))
    while _size(notes) > CORE:
        notes = notes[1:]
    return belief.model_copy(update={"notes": tuple(dict.fromkeys(notes)), "window": turns + 1})


def _size(notes: Sequence[str]) -> int:
    return sum(map(len, notes)) + len(notes)


async def _flushed(belief: Belief, state: DecideView, limits: Limits, runtime: Runtime[Context]) -> Belief:
    """The belief with all turns but the latest in its summary."""
    leaving = transcript(state["turns"][:-KEPT], limits)
    before = belief.facts[0].text if belief.facts else "(none)"
    order = SUMMARISE.format(before=quoted(before), turns=quoted(leaving, limits.context), task=state["assignment"])
    told = await ask(prompt(runtime, order), Summary, role="memory", runtime=runtime)
    summary = Fact(text=unquoted(told.summary), source=EARLIER)
    changes = {"facts": (summary,), "window": KEPT + 1, "reorganised": belief.reorganised + 1}
    return belief.model_copy(update=changes)


INSTRUCTION = """{warning}
Question: {task}
Think in one short sentence. In `remember`, write what you must not lose sight of, or leave it empty: it stays in your
notes when rounds are no longer shown. Then use one tool. Finish with the shortest answer once the question is settled.
"""

WARNING = """
Your context is nearly full: after this round only a summary of the older rounds is left. Remember what matters now.
"""

SUMMARISE = """\
Summary so far:
{before}

Rounds that are about to leave the context:
{turns}

They were made to answer: {task}
Write one summary in place of both, in a few sentences: what was found, with names, and what led nowhere.
"""
