"""Propose and Replan (SDP Eqs. 1 and 4) for multi-hop question answering: sub-questions, the answer, the goal."""

import re
from collections.abc import Iterator, Sequence, Set
from typing import Annotated

from langgraph.runtime import Runtime
from pydantic import BaseModel

from certigraph.adapters.benchmarks import limits_of
from certigraph.adapters.bounds import Cut
from certigraph.adapters.context import Context
from certigraph.adapters.models.ask import ask
from certigraph.adapters.multihop import prompts
from certigraph.adapters.multihop.chain import HOP, PLACEHOLDER, closing, hop_predicate, resolved
from certigraph.adapters.multihop.querying import plain
from certigraph.adapters.multihop.reading import retrieves
from certigraph.adapters.prompting import listed, numbered, prompt, quoted
from certigraph.state.chains import certified_hops
from certigraph.state.endings import Fault
from certigraph.state.records import Attempt, Predicate, Task
from certigraph.state.sdp import ProposeView, ReplanView
from certigraph.state.searching import SEARCH

LEAST, MOST = 2, 4
"""Sub-questions that MuSiQue needs; HotpotQA needs `LEAST`."""

_COUNTED = re.compile(r"(?:.*/)?(\d)hop")


class Subquestions(BaseModel):
    """The model's answer."""

    subquestions: Annotated[list[str], Cut(MOST)]


def hops_in(task: Task) -> int:
    """The number of hops that a MuSiQue id gives away: a label leak, which the papers' runs use.

    Raises:
        Fault: the id does not begin with it.
    """
    if not (counted := _COUNTED.match(task.id)):
        raise Fault(
            "data", f"task {task.id!r} does not begin with its number of hops, as 2hop__1_2 does: use plain musique"
        )
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
    first = 1 + sum(predicate.kind == HOP for predicate in state["certified"].predicates)
    here = [attempt for attempt in state["attempts"] if attempt.position == state["head"]]
    hops = await _asked_again(state, here, first, max(most - first + 1, 1), runtime)
    if not hops or not retrieves(state["task"], runtime):
        hops = _another_way(hops, _asked_in_vain(here, state), state)
    spent = [str(attempt.action.args["query"]) for attempt in here if attempt.action.kind == SEARCH]
    tail = [hop_predicate(n, question, () if n > first else spent) for n, question in enumerate(hops, first)]
    return [*tail, *closing()] if tail else []


def _another_way(hops: Sequence[str], failed: Set[str], state: ReplanView) -> list[str]:
    """The hops, else the question itself as one, else none: the first of them must not have failed."""
    known = certified_hops(state["certified"])
    ways = (hops, [state["task"].goal])
    return next(([*way] for way in ways if way and plain(resolved(way[0], known)) not in failed), [])


def numbered_hops(texts: Sequence[str], *, first: int, most: int) -> list[str]:
    """The sub-questions, each once, at most `most`; their placeholders follow those that moved up.

    Args:
        texts: as the model wrote them, the first being number `first`.
    """
    written = [_without_number(" ".join(text.split()), n) for n, text in enumerate(texts, first)]
    kept = [text for text in dict.fromkeys(written) if text][:most]
    moved = {n: first + kept.index(text) for n, text in enumerate(written, first) if text in kept}
    return [PLACEHOLDER.sub(lambda found: f"#{moved.get(int(found[1]), found[1])}", text) for text in kept]


def _without_number(text: str, number: int) -> str:
    """A sub-question without its own number before it; "#1" before another one is a placeholder."""
    return re.sub(rf"^(?:#{number}[.:)]?|\d[.:)]) +", "", text)


async def _asked_again(
    state: ReplanView, here: Sequence[Attempt], first: int, most: int, runtime: Runtime[Context]
) -> list[str]:
    instruction = prompts.REDECOMPOSE.format(
        task=state["task"].goal,
        certified=quoted(
            numbered(f"{hop.question} {hop.entity}" for hop in certified_hops(state["certified"]).values())
        ),
        failed=quoted(listed(_failures(here)), limits_of(state["task"], runtime).context // 4),
        count=most,
        first=first,
    )
    said = await ask(prompt(runtime, instruction), Subquestions, role="planner", runtime=runtime)
    return numbered_hops(said.subquestions, first=first, most=most)


def _asked_in_vain(here: Sequence[Attempt], state: ReplanView) -> set[str]:
    known = certified_hops(state["certified"])
    return {plain(resolved(str(attempt.target.args.get("question", "")), known)) for attempt in here}


def _failures(here: Sequence[Attempt]) -> Iterator[str]:
    """Each target that was tried, with why its claims did not do."""
    for target in dict.fromkeys(attempt.target.text for attempt in here):
        reasons = (a.verdict.reason for a in here if a.target.text == target and a.action.kind != SEARCH)
        yield f"{target} {'; '.join(dict.fromkeys(reasons)) or 'nothing was found'}"
