"""Appraise: what each imagined outcome is worth, as StateFactory would rate it (appendix C.6.2, Eq. 15)."""

from typing import Any

from langgraph.runtime import Runtime

from certigraph.adapters.context import Context
from certigraph.adapters.protocols import Operator
from certigraph.nodes.specs import factory
from certigraph.state.appraising import Appraisal, AppraiseView, Foreseen, Imagined
from certigraph.state.rewarding import FactorView, Seen


@factory
def appraise(*, extract: Operator, interpret: Operator, route: Operator) -> Operator:
    """Extract, interpret and route every outcome, each from the same state; the gain is to the reward there.

    Args:
        extract: the operator that extracts the live world's states.
        interpret: the one that interprets the goal.
        route: the one that compares the two.
    """

    async def imagined(state: AppraiseView, foreseen: Foreseen, runtime: Runtime[Context]) -> Imagined:
        step = Seen(action=foreseen.action, observation=foreseen.observation)
        view = FactorView(task=state["task"], step=step, factored=state["factored"], goal=state["goal"])
        view["factored"] = (await extract(view, runtime))["factored"]
        view["goal"] = (await interpret(view, runtime))["goal"]
        reward = (await route(view, runtime))["reward"]
        worth = Appraisal(action=foreseen.action, reward=reward, gain=reward - state["reward"])
        return Imagined(foreseen=foreseen, appraisal=worth, factored=view["factored"], goal=view["goal"])

    async def appraise(state: AppraiseView, runtime: Runtime[Context]) -> dict[str, Any]:
        return {"appraisals": tuple([await imagined(state, foreseen, runtime) for foreseen in state["foreseen"]])}

    return appraise
