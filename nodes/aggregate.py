"""One answer from several searches (CGDP appendix B): the majority's, else a model's choice from what each found."""

import re
from collections import Counter
from collections.abc import Sequence
from typing import Any

from langgraph.runtime import Runtime

from certigraph.adapters.context import Context
from certigraph.adapters.models.ask import ask
from certigraph.adapters.prompting import prompt, quoted, unquoted
from certigraph.nodes.answer import answer_form
from certigraph.nodes.special import specialised
from certigraph.state.hypothesising import AggregateView, Branch
from certigraph.state.searching import finish


@specialised
async def aggregate(state: AggregateView, runtime: Runtime[Context]) -> dict[str, Any]:
    """The answer that more than half of the searches gave, compared by words; without one, ask a model."""
    return {"action": finish(majority(state["branches"]) or await _chosen(state, runtime))}


def majority(branches: Sequence[Branch]) -> str:
    """The answer of more than half of the searches that gave one, as the first of them words it; empty if none."""
    answers = [branch.answer for branch in branches if branch.answer]
    for alike, votes in Counter(map(_folded, answers)).most_common(1):
        if 2 * votes > len(answers):
            return next(answer for answer in answers if _folded(answer) == alike)
    return ""


def _folded(answer: str) -> str:
    return " ".join(re.findall(r"\w+", answer.casefold())) or answer


async def _chosen(state: AggregateView, runtime: Runtime[Context]) -> str:
    told = "\n\n".join(map(_report, state["branches"]))
    order = ORDER.format(branches=quoted(told), task=state["task"].goal)
    form = answer_form(state["task"], runtime)
    return unquoted((await ask(prompt(runtime, order), form, role="planner", runtime=runtime)).answer)


def _report(branch: Branch) -> str:
    answer = branch.answer or "(none)"
    return f"Search {branch.number}: {branch.hypothesis}\nAnswer: {answer}\nFound:\n{branch.belief or '(nothing)'}"


ORDER = """\
Several searches followed different hypotheses and do not agree:
{branches}

Question: {task}
Give the one answer that what they found supports best, in as few words as the question allows.
"""
