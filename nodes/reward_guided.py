"""Realize by StateFactory's reward: of k actions the one whose imagined outcome comes nearest to the target.

It brings the look-ahead of `graphs/react_reward.py` into SDP. What it reads is what Realize may read (SDP, Proposition
1); only the world model, asked through the runtime, knows more.
"""

from typing import Any

from langgraph.runtime import Runtime

from certigraph.adapters.context import Context
from certigraph.adapters.prompting import tried
from certigraph.adapters.protocols import Operator
from certigraph.nodes.appraise import appraise
from certigraph.nodes.candidate_lists import WIDTH
from certigraph.nodes.candidates import propose_actions
from certigraph.nodes.choose_by_reward import choose_by_reward, greedy
from certigraph.nodes.factorise import extract_state, interpret_goal
from certigraph.nodes.imagine import predicted, rehearsed
from certigraph.nodes.route import route
from certigraph.nodes.specs import factory
from certigraph.state.appraising import AppraiseView, LookaheadView
from certigraph.state.factored import FactoredState
from certigraph.state.records import Task
from certigraph.state.rewarding import FactorView, Seen
from certigraph.state.sdp import RealizeView


@factory
def reward_guided(*, k: int = WIDTH, asks: bool = False, imagines: bool = False) -> Operator:
    """Propose k actions for the target, imagine and appraise them towards it, and take the best.

    Args:
        k: candidates.
        asks: the model chooses, knowing the gains; otherwise the highest gain decides.
        imagines: the model foresees the outcomes; otherwise a copy of the simulator does, which is privileged.
    """
    propose, imagine = propose_actions(k=k), predicted if imagines else rehearsed
    rate = route()
    choose: Operator = choose_by_reward if asks else greedy
    judge = appraise(extract=extract_state, interpret=interpret_goal, route=rate)

    async def reward_guided(state: RealizeView, runtime: Runtime[Context]) -> dict[str, Any]:
        ahead = _ahead(state)
        ahead["candidates"] = (await propose(ahead, runtime))["candidates"]
        here = await _standing(state, rate, runtime)
        here["foreseen"] = (await imagine(ahead, runtime))["foreseen"]
        imagined = (await judge(here, runtime))["appraisals"]
        offered = {**ahead, "appraisals": tuple(one.appraisal for one in imagined)}
        return {"action": (await choose(offered, runtime))["action"]}

    return reward_guided


def _ahead(state: RealizeView) -> LookaheadView:
    """What Realize may see, as who decides sees it: the target is the assignment."""
    failed = [f"Tried without success: {told}" for told in tried(state["attempts"]).splitlines()]
    return {
        "task": state["task"],
        "assignment": state["target"].text,
        "turns": (),
        "evidence": state["evidence"],
        "advice": (*state["advice"], *(failed if state["attempts"] else ())),
        "belief": state["belief"],
        "path": (),
        "candidates": (),
    }


async def _standing(state: RealizeView, rate: Operator, runtime: Runtime[Context]) -> AppraiseView:
    """What the world's view shows, and the target as a state; the task's goal where the target tells none."""
    for goal in (state["target"].text, state["task"].goal):
        view = _looking(state["task"].model_copy(update={"goal": goal}), state["evidence"].view)
        view["factored"] = (await extract_state(view, runtime))["factored"]
        view["goal"] = (await interpret_goal(view, runtime))["goal"]
        if view["goal"].entities:
            break
    reward = (await rate(view, runtime))["reward"]
    return AppraiseView(task=view["task"], factored=view["factored"], goal=view["goal"], reward=reward, foreseen=())


def _looking(task: Task, view: str) -> FactorView:
    step = Seen(observation=view)
    return FactorView(task=task, step=step, factored=FactoredState(), goal=FactoredState())
