"""Gates that ask a model whether the search has run dry (CGDP section 6.4, appendix E.4)."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from langgraph.runtime import Runtime
from pydantic import BaseModel

from certigraph.adapters.bounds import Cut
from certigraph.adapters.context import Context
from certigraph.adapters.models.ask import ask
from certigraph.adapters.prompting import listed, prompt, quoted
from certigraph.adapters.protocols import Operator
from certigraph.nodes.specs import factory
from certigraph.state.beliefs import Stagnation
from certigraph.state.endings import UnknownName
from certigraph.state.gathering import GateView

PRODUCTIVE, STALE, EXHAUSTED = "PRODUCTIVE", "QUERY_STALE", "EXHAUSTED"


class Judgement(BaseModel):
    """The model's answer."""

    reason: Annotated[str, Cut(200)]
    verdict: Literal["PRODUCTIVE", "QUERY_STALE", "EXHAUSTED"]


@factory
def judged_gate(*, stance: str = "conservative", window: int = 3) -> Operator:
    """Stop where the model calls the search exhausted; a stale query is one more in the streak and no reason to stop.

    Args:
        stance: `conservative`, which goes on unless stagnation is evident, or `neutral`.
        window: latest rounds that it sees.

    Raises:
        UnknownName: another stance, or no round to see.
    """
    if stance not in ORDERS or window < 1:
        told = f"judged_gate(stance={stance!r}, window={window})"
        raise UnknownName(f"{told}: stance is one of {', '.join(ORDERS)}, window at least 1")

    async def judged_gate(state: GateView, runtime: Runtime[Context]) -> dict[str, Any]:
        rounds = [f"{r.action} -> {r.glimpse}" for r in state["rounds"][-window:]]
        told = INVESTIGATION.format(
            task=state["task"].goal,
            state=quoted(state_of(state) or "(nothing)"),
            count=len(rounds),
            rounds=quoted(listed(rounds)),
        )
        answer = await ask(prompt(runtime, told + ORDERS[stance]), Judgement, role="validator", runtime=runtime)
        streak = 0 if answer.verdict == PRODUCTIVE else state["stagnation"].streak + 1
        stop = answer.verdict == EXHAUSTED
        return {"stagnation": Stagnation(streak=streak, stop=stop, reason=answer.reason)}

    return judged_gate


def state_of(state: GateView) -> str:
    """The state of the investigation: what is believed and certified; without either, what the agent thought last."""
    certified = [action.text for action in state["certified"].actions]
    known = [*state["belief"].text.splitlines(), *certified]
    return "\n".join(known or [turn.thought for turn in state["turns"][-3:] if turn.thought])


INVESTIGATION = """\
Question under investigation: {task}

Where it stands:
{state}

Its last {count} searches, each with the beginning of what it brought up:
{rounds}

"""

CONSERVATIVE = """\
Should the search end here? It goes on unless there is plain evidence that it has run dry: the same passages return
round after round, the obvious ways to ask are used up and no other comes to mind, or nothing further could change the
answer. That an answer looks right, that a few passages return, or that you are unsure are no such evidence.
Verdict: PRODUCTIVE to go on, QUERY_STALE where this line is used up and another is left, EXHAUSTED to end.
"""

NEUTRAL = """\
How does the search stand? Choose what describes it:
PRODUCTIVE: the latest rounds still bring up something new that matters.
QUERY_STALE: this line of search is used up, yet a definite other one could bring something new.
EXHAUSTED: the search stands still, and more rounds would hardly bring anything new that matters.
"""

ORDERS: Mapping[str, str] = {"conservative": CONSERVATIVE, "neutral": NEUTRAL}
