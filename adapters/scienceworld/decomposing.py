"""What the scripted expert answers to the operators that decompose a task, plan, supervise and revise (TDP)."""

from typing import Any

from certigraph.adapters.answering import chain
from certigraph.adapters.protocols import LEAST_NODES
from certigraph.adapters.scienceworld.milestones import joined, milestones
from certigraph.adapters.scienceworld.standing import Standing

FULL = 100
"""The score that ends an episode."""


def nodes(at: Standing, prompt: str, form: dict[str, Any]) -> Any:
    """A chain of the milestones ahead; the last one, of score 100, settles the task."""
    most = form["properties"]["nodes"].get("maxItems", LEAST_NODES)
    ahead = joined([m for m in milestones(at.gold) if m.score > at.score], most)
    return {"nodes": chain({f"milestone-{m.number}": m.text() for m in ahead})}


def steps(at: Standing, prompt: str, form: dict[str, Any]) -> Any:
    """The path's next actions, as many as a plan may have."""
    most = form["properties"]["steps"].get("maxItems")
    return {"steps": list(at.left[:most]) or ["Wait for what was begun."]}


def progress(at: Standing, prompt: str, form: dict[str, Any]) -> Any:
    """A milestone is reached with its score or, but for the last one, with its actions done."""
    wanted = at.assigned
    reached = wanted and (at.score >= wanted.score or (wanted.score < FULL and at.done >= wanted.last))
    told = f"{at.done} actions of the gold path are done, the score is {at.score}"
    guidance = "" if reached or not at.left else at.left[0]
    status = "completed" if reached else "needs_more_steps"
    return {"reason": told, "status": status, "off_plan": False, "guidance": guidance, "result": told}
