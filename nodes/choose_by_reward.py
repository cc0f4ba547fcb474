"""Choose: one of the candidates, by what their outcomes are worth (StateFactory, appendix C.6.2)."""

from collections.abc import Sequence
from typing import Any

from langgraph.runtime import Runtime

from certigraph.adapters.context import Context
from certigraph.adapters.models.ask import deliberate
from certigraph.adapters.prompting import listed, prompt, quoted
from certigraph.nodes.situation import decided
from certigraph.state.appraising import Appraisal, ChooseView
from certigraph.state.endings import Fault
from certigraph.state.records import Action


async def choose_by_reward(state: ChooseView, runtime: Runtime[Context]) -> dict[str, Any]:
    """The model sees each candidate with its predicted gain, the best first, and picks one after a thought."""
    offered = ranking(state["appraisals"])
    shown = quoted(listed(f"{one.action} ({one.gain:+.2f})" for one in offered))
    question = prompt(runtime, decided(state, f"{GAINS}\n{shown}"))
    answer = await deliberate(question, [one.action for one in offered], role="executor", runtime=runtime)
    return {"thought": answer.thought, "action": Action(text=answer.choice)}


async def greedy(state: ChooseView, runtime: Runtime[Context]) -> dict[str, Any]:
    """The candidate of the highest gain, without a question; of equals, the one proposed first.

    A way back to a state that the episode was in is taken where nothing else is left. The paper has no such rule: its
    model is shown the gains alone, and what gains most in a row can go in circles.
    """
    offered = ranking(state["appraisals"])
    best = next((one for one in offered if not one.seen), offered[0])
    return {"thought": f"predicted gain {best.gain:+.2f}", "action": Action(text=best.action)}


def ranking(appraisals: Sequence[Appraisal]) -> list[Appraisal]:
    """The best first; equals in the order of their proposal.

    Raises:
        Fault: ("operator") there is none.
    """
    if not appraisals:
        raise Fault("operator", "no candidate was appraised: let `propose` return at least one")
    return sorted(appraisals, key=lambda one: -one.gain)


GAINS = """\
Actions to choose from, each with how much nearer to the goal it is predicted to bring the world; below zero it leads
away, around zero it changes nothing that counts:"""
