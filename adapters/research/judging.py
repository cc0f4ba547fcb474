"""Validate (SDP Eq. 3) for research: a finding from the evidence, a verdict on it, and answers that are none.

The tools were run by `act`; what they brought up, with the findings that the action carried along, is the observation.
A finding names its sources by number, so that it can rest on no page that was not shown. Those that a model calls
contradicting are kept with it.
"""

import re
from collections.abc import Sequence

from langgraph.runtime import Runtime

from certigraph.adapters.benchmarks import limits_of
from certigraph.adapters.context import Context
from certigraph.adapters.models.ask import ask
from certigraph.adapters.multihop.rejections import no_answer
from certigraph.adapters.prompting import clipped, listed, prompt, quoted, unquoted
from certigraph.adapters.research import prompts
from certigraph.adapters.research.forms import Adequacy, Found
from certigraph.adapters.research.gathering import NUMBER
from certigraph.adapters.research.grounds import unseen_numbers
from certigraph.adapters.research.plans import GOAL, goal_of, is_step, told
from certigraph.state.certified import Known
from certigraph.state.records import Finding, Observation, Predicate, Task, Verdict
from certigraph.state.researching import COMPUTE, FILTER, carried
from certigraph.state.sdp import ValidateView

NO_SOURCE = "no source at hand and no finding before it bears this out"

EMPTY = re.compile(r"[\s\[\]{}\"',.:;-]*")
"""An answer that is nothing but brackets and marks."""


async def verdict_on(state: ValidateView, runtime: Runtime[Context]) -> Verdict:
    """The verdict on what the world answered, which carries the action's own arguments in its `data`."""
    seen, target = state["observation"], state["tail"][0]
    if target.kind == GOAL:
        delivered = Verdict(depth=int(seen.accepted and seen.done), reason="an answer is handed in once")
        return _forced_by(delivered, carried(seen.data))
    if not seen.accepted:
        return Verdict(depth=0, reason=" ".join(seen.text.split())[:160])
    if is_step(target):
        return await _on_step(state["task"], target, seen, runtime)
    return _on_answer(state["tail"], seen)


async def _on_step(task: Task, target: Predicate, seen: Observation, runtime: Runtime[Context]) -> Verdict:
    known = carried(seen.data)
    finding = await _found(task, target, seen, known, runtime)
    if rejected := no_answer(finding.text) if finding.text else "nothing was established":
        return Verdict(depth=0, reason=rejected, finding=finding)
    if not finding.sources:
        return Verdict(depth=0, reason=NO_SOURCE, finding=finding)
    said = await _adequate(task, target, finding, seen, runtime)
    verdict = Verdict(depth=int(said.adequate), reason=said.reason, evidence=finding.sources[0], finding=finding)
    derived = target.kind in (FILTER, COMPUTE) or not {*finding.sources} & {*seen.sources}
    return _forced_by(verdict, known) if derived else verdict


async def _found(
    task: Task, target: Predicate, seen: Observation, known: Sequence[Known], runtime: Runtime[Context]
) -> Finding:
    """What the evidence says. What it is drawn from findings alone rests on their sources."""
    context = limits_of(task, runtime).context
    evidence, shown = _shown(seen, context // 2)
    instruction = prompts.FIND.format(
        task=task.goal,
        known=told(known, context // 4),
        evidence=quoted(evidence, context),
        kind=target.kind,
        goal=goal_of(target),
    )
    said = await ask(prompt(runtime, instruction), Found, role="extractor", runtime=runtime)
    cited = _named(said.supported_by, shown)
    against = [url for url in _named(said.contradicted_by, shown) if url not in cited]
    before = dict.fromkeys(url for one in known for url in one.finding.sources if url not in against)
    return Finding(
        about=goal_of(target),
        text=unquoted(said.finding),
        sources=tuple(cited or before),
        against=tuple(against),
        dispute=unquoted(said.dispute) if against else "",
    )


async def _adequate(
    task: Task, target: Predicate, finding: Finding, seen: Observation, runtime: Runtime[Context]
) -> Adequacy:
    known = carried(seen.data)
    shown = [task.goal, goal_of(target), seen.text, *(one.finding.text for one in known)]
    unseen = [] if target.kind == COMPUTE else unseen_numbers(finding.text, shown)
    instruction = prompts.JUDGE.format(
        kind=target.kind,
        goal=goal_of(target),
        known=told(known, limits_of(task, runtime).context // 4),
        finding=quoted(finding.text),
        unseen=f"Numbers in it that nothing shown has: {', '.join(unseen)}\n" if unseen else "",
        sources=quoted(listed(finding.sources)),
        dispute=f"Some sources say otherwise: {quoted(finding.dispute)}\n" if finding.dispute else "",
    )
    return await ask(prompt(runtime, instruction), Adequacy, role="validator", runtime=runtime)


def _on_answer(tail: Sequence[Predicate], seen: Observation) -> Verdict:
    """The answer, and with it the goal where that comes next."""
    answer = str(seen.data.get("answer") or "").strip()
    if weak := weakness(answer):
        return Verdict(depth=0, reason=weak)
    final = len(tail) > 1 and tail[1].kind == GOAL
    return _forced_by(Verdict(depth=1 + final, reason="no check speaks against it"), carried(seen.data))


def weakness(answer: str) -> str:
    """Why an answer is weak: empty, null or a refusal; empty where it may be one."""
    return "it is empty" if EMPTY.fullmatch(answer) else no_answer(answer)


def _forced_by(verdict: Verdict, known: Sequence[Known]) -> Verdict:
    """What is drawn from a finding that was forced is itself not certified."""
    forced = next((one.forced for one in known if one.forced), "")
    if not (forced and verdict.depth):
        return verdict
    return verdict.model_copy(
        update={"forced": forced, "reason": f"it rests on an uncertified finding; {verdict.reason}"}
    )


def _shown(seen: Observation, most: int) -> tuple[str, Sequence[str]]:
    """What the world answered, cut where it is too long, and the sources that are left."""
    text = clipped(seen.text, most)
    return text, seen.sources if text == seen.text else seen.sources[: len(NUMBER.findall(text))]


def _named(numbers: Sequence[int], sources: Sequence[str]) -> list[str]:
    """The sources of some numbers, from 1; a number that is none of theirs names no source."""
    return [sources[number - 1] for number in dict.fromkeys(numbers) if 1 <= number <= len(sources)]
