"""What the scripted expert answers to the operators that decompose a task, plan, supervise and revise (TDP)."""

from typing import Any

from certigraph.adapters.protocols import LEAST_NODES
from certigraph.adapters.searching.parts import ANSWERING, needs, parts, specification
from certigraph.adapters.searching.standing import Standing

Answer = dict[str, Any]

HAND_IN = "Hand in the answer."


def nodes(here: Standing, prompt: str) -> Answer:
    """A node for each hop, after those that lead to it, and one that answers from all of them."""
    question, most = here.question, here.form["nodes"].get("maxItems", LEAST_NODES)
    hops = parts(question, most - 1)
    searches = [
        {
            "id": part.id,
            "task": specification(question, part),
            "needs": [need.id for need in needs(question, part, hops[:place])],
        }
        for place, part in enumerate(hops)
    ]
    return {"nodes": [*searches, {"id": "answer", "task": ANSWERING, "needs": [part.id for part in hops]}]}


def steps(here: Standing, prompt: str) -> Answer:
    """What is still to be found, then the answer."""
    return {"steps": [*(f"Search: {here.asks(hop)}" for hop in here.unseen), HAND_IN]}


def progress(here: Standing, prompt: str) -> Answer:
    """Never completed by itself: what a sub-task comes to is the answer that it hands in."""
    guidance = f"Search: {here.asks(here.unseen[0])}" if here.unseen else HAND_IN
    more = {"off_plan": False, "guidance": guidance, "result": ""}
    return {"reason": f"{len(here.unseen)} paragraphs are missing", "status": "needs_more_steps", **more}


def revision(here: Standing, prompt: str) -> Answer:
    """The graph as it is, but that nothing waits for what failed: the expert answers without it."""
    dag = here.state["dag"]
    failed = {node.id for node in dag.nodes if node.status == "failed"}
    waiting = [node for node in dag.pending if failed.intersection(node.needs)]
    change = [{"id": n.id, "task": n.task, "needs": [need for need in n.needs if need not in failed]} for n in waiting]
    return {"reason": f"{len(failed)} sub-tasks failed", "change": change, "add": [], "remove": []}
