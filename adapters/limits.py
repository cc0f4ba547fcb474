"""Every benchmark's default limits, in one table: the papers' own where a paper ran it."""

from collections.abc import Mapping

from certigraph.adapters.protocols import Limits

_RESEARCH = Limits(attempts=3, replans=2, steps=30, subqueries=5, excerpt=3_000)

PAPER_LIMITS: Mapping[str, Limits] = {
    "alfworld": Limits(steps=50, options=60),
    "ask": _RESEARCH,
    "assistantbench": _RESEARCH,
    "blocksworld": Limits(),
    "hotpotqa": Limits(attempts=3, replans=2, steps=20, passages=10),
    "hotpotqa:interactive": Limits(attempts=3, replans=2, steps=30, passages=10),
    "locomo": Limits(replans=2, steps=20),
    "musique": Limits(attempts=3, replans=2, steps=25, passages=10),
    "rewardprediction": Limits(steps=1),
    "scienceworld": Limits(attempts=30, replans=5, steps=500, options=20, subtasks=16, failures=8),
    "scienceworld:tdp": Limits(attempts=30, replans=2, steps=60, options=20, repeats=0),
    "swe_qa": Limits(replans=2, steps=30, passages=5),
    "textworld": Limits(steps=50),
    "travelplanner": Limits(attempts=3, replans=5, steps=60),
    "travelplanner:tools": Limits(steps=50, replans=2),
    "web": _RESEARCH,
    "webshop": Limits(replans=2, steps=20),
}
"""Attempts, replans and steps of SDP (appendix A) by benchmark; BlocksWorld, LoCoMo and SWE-QA, which it did not run,
have our own. Of the configurations that are named, steps are TDP's (appendix B), which gives no number of replans.
ALFWorld's and TextWorld's 50 steps are what papers usually allow, recalled and not looked up.
Of STEP, ScienceWorld's subtasks and failures are those of its public code; elsewhere they follow the steps, as the
lengths of plans and task graphs do everywhere: no paper gives them."""
