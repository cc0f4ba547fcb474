"""Validate (SDP Eq. 3) for multi-hop question answering: two stages for a finding, a cascade for the answer."""

from collections.abc import Sequence
from typing import Annotated

from langgraph.runtime import Runtime
from pydantic import BaseModel

from certigraph.adapters.benchmarks import limits_of
from certigraph.adapters.bounds import Cut
from certigraph.adapters.context import Context
from certigraph.adapters.models.ask import ask
from certigraph.adapters.multihop import prompts
from certigraph.adapters.multihop.chain import GOAL, HOP, told
from certigraph.adapters.multihop.finding import AGAIN
from certigraph.adapters.multihop.reading import passages_of, room
from certigraph.adapters.multihop.rejections import no_answer, no_finding, no_short_answer
from certigraph.adapters.prompting import clipped, prompt, quoted
from certigraph.state.chains import carried
from certigraph.state.passages import Passage
from certigraph.state.records import Observation, Predicate, Task, Verdict
from certigraph.state.sdp import ValidateView
from certigraph.state.searching import SEARCH


class Support(BaseModel):
    """The verifier's answer on a finding."""

    reason: Annotated[str, Cut(160)]
    supported: bool


class Consistency(BaseModel):
    """The verifier's answer on MuSiQue's final answers."""

    reason: Annotated[str, Cut(160)]
    consistent: bool


async def verdict_on(state: ValidateView, strict: bool, runtime: Runtime[Context]) -> Verdict:
    """The verdict on what the world answered, which carries the action's own arguments in its `data`."""
    seen, target = state["observation"], state["tail"][0]
    if target.kind == GOAL:
        return Verdict(depth=int(seen.accepted and seen.done), reason="an answer is handed in only once")
    if target.kind == HOP and seen.data.get("tool") == SEARCH:
        # The first search only gathers evidence; one that follows a search in vain is a try, so that tries end.
        return Verdict(depth=0, reason=_brought_up(seen), looked=not seen.data.get(AGAIN))
    if not seen.accepted:
        return Verdict(depth=0, reason=" ".join(seen.text.split())[:160])
    if target.kind == HOP:
        return await _on_claim(state["task"], seen, runtime)
    return await _on_answer(state["task"], state["tail"], seen, strict, runtime)


async def _on_claim(task: Task, seen: Observation, runtime: Runtime[Context]) -> Verdict:
    """The paragraph of the cited title, then the best other one; each is put to the same verifier (appendix A.5)."""
    if rejected := no_finding(_said(seen, "finding")) or no_answer(_said(seen, "entity")):
        return Verdict(depth=0, reason=rejected)
    reasons = []
    for passage in await passages_of(seen.sources, task, runtime):
        said = await _verified(passage, seen, task, runtime)
        if said.supported:
            return Verdict(depth=1, reason=_credited(said, passage, seen), evidence=passage.id)
        reasons.append(f"{passage.title}: {said.reason}")
    return Verdict(depth=0, reason="; ".join(reasons) or "no paragraph at hand has that title or a word of the finding")


async def _verified(passage: Passage, seen: Observation, task: Task, runtime: Runtime[Context]) -> Support:
    instruction = prompts.VERIFY.format(
        passage=quoted(clipped(f"{passage.title}: {passage.text}", room(limits_of(task, runtime)))),
        question=_said(seen, "subquestion"),
        finding=_said(seen, "finding"),
        entity=_said(seen, "entity"),
    )
    return await ask(prompt(runtime, instruction), Support, role="validator", runtime=runtime)


def _credited(said: Support, passage: Passage, seen: Observation) -> str:
    cited = _said(seen, "title")
    corrected = not seen.data.get("resolved") or passage.id != seen.sources[0]
    return f"in {passage.title!r} and not in {cited!r}: {said.reason}" if corrected else said.reason


async def _on_answer(
    task: Task, tail: Sequence[Predicate], seen: Observation, strict: bool, runtime: Runtime[Context]
) -> Verdict:
    """The answer, and with it the goal where that comes next."""
    answer, chain = _said(seen, "answer"), carried(seen.data)
    rejected = no_answer(answer) or (strict and no_short_answer(task.goal, answer, chain))
    if rejected:
        return Verdict(depth=0, reason=rejected)
    if strict:
        instruction = prompts.CONSISTENT.format(task=task.goal, chain=quoted(told(chain)), answer=answer)
        said = await ask(prompt(runtime, instruction), Consistency, role="validator", runtime=runtime)
        if not said.consistent:
            return Verdict(depth=0, reason=said.reason or "it does not follow from what is established")
    final = len(tail) > 1 and tail[1].kind == GOAL
    return Verdict(depth=1 + final, reason="no check speaks against it")


def _brought_up(seen: Observation) -> str:
    return f"{len(seen.sources)} passages" if seen.accepted else " ".join(seen.text.split())[:160]


def _said(seen: Observation, argument: str) -> str:
    return str(seen.data.get(argument) or "").strip()
