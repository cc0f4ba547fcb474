"""Rate by a supervised reward model (StateFactory, section 3.1.1): stateless, each prefix of a trajectory anew."""

from pathlib import Path
from typing import Any

from langgraph.runtime import Runtime

from certigraph.adapters.context import Context
from certigraph.adapters.embeddings import needed_encoder
from certigraph.adapters.loops import off_loop
from certigraph.adapters.protocols import Operator
from certigraph.adapters.reward_heads import HOW, load_heads, prefix_features
from certigraph.adapters.reward_lora import ADAPTERS, load_tuned
from certigraph.nodes.specs import factory
from certigraph.state.endings import Fault
from certigraph.state.rewarding import RateView


@factory
def supervised(*, head: str = "") -> Operator:
    """Rate by heads that were trained to rank prefixes of other tasks' trajectories.

    Args:
        head: the file that `certigraph rewards train` wrote, or the folder of `certigraph rewards tune`, whose model
            saw every task that it was tuned on.

    Raises:
        Fault: ("model") in the graph, where neither is named, or it is neither.
    """

    async def supervised(state: RateView, runtime: Runtime[Context]) -> dict[str, Any]:
        if not head:
            raise Fault("model", f"no reward head is named; train one and name it: {HOW}")
        return {"reward": await off_loop(_rated, state, Path(head)), "note": ""}

    return supervised


def _rated(state: RateView, path: Path) -> float:
    task = state["task"]
    if (path / ADAPTERS).is_file():
        return load_tuned(path).reward(task.goal, state["steps"])
    heads = load_heads(path)
    features = prefix_features(task.goal, state["steps"], needed_encoder(heads.card.encoder))
    return float(heads.of(task.id).rewards(features[-1:])[0])
