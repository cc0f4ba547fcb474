"""Propose and Replan (SDP Eqs. 1 and 4) for multi-hop question answering: sub-questions, the answer, the goal."""

import re
from collections.abc import Sequence

from langgraph.runtime import Runtime
from pydantic import BaseModel, Field

from certigraph.adapters.context import Context
from certigraph.adapters.models.ask import ask
from certigraph.adapters.multihop import prompts
from certigraph.adapters.multihop.chain import HOP, PLACEHOLDER, certified_hops, closing, hop_predicate
from certigraph.adapters.multihop.querying import queries_at
from certigraph.adapters.multihop.reading import retrieves
from certigraph.adapters.prompting import listed, numbered, prompt, quoted
from certigraph.state.endings import Fault
from certigraph.state.records import Attempt, Predicate, Task
from certigraph.state.sdp import ProposeView, ReplanView

LEAST, MOST = 2, 4
"""Sub-questions of MuSiQue; HotpotQA has two."""

_COUNTED = re.compile(r"(?:.*/)?(\d)hop")


class Subquestions(BaseModel):
    """The model's answer."""

    subquestions: list[str] = Field(max_length=MOST)


def hops_in(task: Task) -> int:
    """The number of hops that a MuSiQue id gives away: a label leak, which the papers' runs use.

    Raises:
        Fault: the id does not begin with it.
    """
    if not (counted := _COUNTED.match(task.id)):
        raise Fault("data", f"task {task.id!r} does not begin with its number of hops, as 2hop__1_2 does; use plain musique")
    return int(counted[1])


async def proposed(state: ProposeView, least: int, most: int, runtime: Runtime[Context]) -> list[Predicate]:
    """One predicate a sub-question, then answer and goal; a decomposition into nothing is the question itself."""
    count = str(least) if least == most else f"{least} to {most}"
    instruction = prompts.DECOMPOSE.format(task=state["task"].goal, count=count)
    said = await ask(prompt(runtime, instruction), Subquestions, role="planner", runtime=runtime)
    hops = numbered_hops(said.subquestions, first=1, most=most) or [state["task"].goal]
    return [*(hop_predicate(index, question) for index, question in enumerate(hops, 1)), *closing()]


async def replanned(state: ReplanView, most: int, runtime: Runtime[Context]) -> list[Predicate]:
    """A new tail after the certified hops; none where there is no other way left.

    With all passages at hand a sub-question that failed fails again: the question itself takes its place, as one hop,
    and where that failed too, the run gives up. Where passages are searched for, it goes on with other queries: the
    first hop carries those that were spent here, so that escalation goes on.
    """
    first = len(certified_hops(state["certified"])) + 1
    here = [attempt for attempt in state["attempts"] if attempt.position == state["head"]]
    said = await _asked_again(state, first, max(most - first + 1, 1), runtime)
    hops = numbered_hops(said.subquestions, first=first, most=max(most - first + 1, 1))
    failed = {_plain(str(attempt.target.args.get("question", ""))) for attempt in here}
    if not retrieves(state["task"], runtime) or not hops:
        hops = _another_way(hops, state["task"].goal, failed)
    if not hops:
        return []
    spent = _queries(here)
    tail = [hop_predicate(first, hops[0], spent), *(hop_predicate(n, q) for n, q in enumerate(hops[1:], first + 1))]
    return [*tail, *closing()]


def numbered_hops(texts: Sequence[str], *, first: int, most: int) -> list[str]:
    """The sub-questions, each once, at most `most`; their placeholders follow those that moved up.

    Args:
        texts: as the model wrote them, the first being number `first`.
    """
    written = [" ".join(text.split()) for text in texts]
    kept = [text for text in dict.fromkeys(written) if text][:most]
    moved = {n: first + kept.index(text) for n, text in enumerate(written, first) if text in kept}
    return [PLACEHOLDER.sub(lambda found: f"#{moved.get(int(found[1]), found[1])}", text) for text in kept]


async def _asked_again(state: ReplanView, first: int, most: int, runtime: Runtime[Context]) -> Subquestions:
    known = certified_hops(state["certified"]).values()
    stuck = [attempt for attempt in state["attempts"] if attempt.position == state["head"]]
    instruction = prompts.REDECOMPOSE.format(
        task=state["task"].goal,
        certified=quoted(numbered(f"{hop.question} {hop.entity}" for hop in known)),
        failed=quoted(listed(dict.fromkeys(map(_failure, stuck)))),
        count=most,
        first=first,
    )
    return await ask(prompt(runtime, instruction), Subquestions, role="planner", runtime=runtime)
