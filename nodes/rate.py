"""Predictors that look at nothing: the baselines of RewardPrediction (StateFactory, section 4.1, appendix C.1)."""

from typing import Any

from langgraph.runtime import Runtime

from certigraph.adapters.context import Context
from certigraph.state.rewarding import RateView


async def monotonic(state: RateView, runtime: Runtime[Context]) -> dict[str, Any]:
    """Step t of T is worth t / T, whatever happens: the length is a leak that no other predictor is given."""
    return {"reward": len(state["steps"]) / state["length"], "note": ""}


async def constant(state: RateView, runtime: Runtime[Context]) -> dict[str, Any]:
    """Every step is worth the same: uncorrelated with any reward, an EPIC distance of 0.7071."""
    return {"reward": 0.5, "note": ""}
