"""What the scripted expert answers to the operators that keep a belief, or stop a search (CGDP)."""

from typing import Any

from certigraph.adapters.searching.standing import Standing
from certigraph.state.beliefs import Belief

Answer = dict[str, Any]


def facts(here: Standing, prompt: str) -> Answer:
    """What the last observation adds to a structured belief."""
    believed = {fact.text for fact in _believed(here).facts}
    new = [hop for hop in here.latest if hop.finding not in believed]
    facts = [{"fact": hop.finding, "source": hop.passage.title} for hop in new]
    asked, seen = set(_believed(here).questions), {here.asks(hop) for hop in here.seen}
    missing = [here.asks(hop) for hop in here.unseen if here.asks(hop) not in asked]
    return {"facts": facts, "resolved": sorted(asked & seen), "questions": missing}


def reorganised(here: Standing, prompt: str) -> Answer:
    """A belief that is never too large as it is."""
    facts = [{"fact": fact.text, "source": fact.source} for fact in _believed(here).facts]
    return {"facts": facts, "questions": list(_believed(here).questions)}


def notes(here: Standing) -> str:
    """What was found and is not noted yet, a note a line; for extractors in plain text."""
    new = [hop.finding for hop in here.seen if hop.finding not in _believed(here).notes]
    return "\n".join(new) or "Nothing new."


def verdict(here: Standing, prompt: str) -> Answer:
    """A gate's verdict: stale where the last round brought nothing new and something is missing."""
    dry = bool(here.state.get("rounds")) and here.state["rounds"][-1].upr == 0
    return {"reason": "counted", "verdict": "QUERY_STALE" if dry and here.unseen else "PRODUCTIVE"}


def unresolved(here: Standing, prompt: str) -> Answer:
    """What is still to be found."""
    return {"unresolved": [here.asks(hop) for hop in here.unseen], "answerable": not here.unseen}


def hypotheses(here: Standing, prompt: str) -> Answer:
    """Where the missing paragraphs are, or, with none missing, the answer again."""
    hops = here.unseen or here.hops
    return {"hypotheses": [f"{hop.passage.title} tells it: {hop.answer}" for hop in hops] or [here.answer]}


def _believed(here: Standing) -> Belief:
    belief: Belief = here.state.get("belief", Belief())
    return belief
