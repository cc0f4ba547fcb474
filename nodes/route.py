"""Route: the reward as the similarity of the world's state to the goal state (StateFactory, section 3.2.3)."""

from math import floor
from typing import Any

from langgraph.runtime import Runtime

from certigraph.adapters.context import Context
from certigraph.adapters.embeddings import NAME, needed_encoder
from certigraph.adapters.loops import off_loop
from certigraph.adapters.protocols import Operator
from certigraph.adapters.routing import Routed, routed
from certigraph.nodes.specs import factory
from certigraph.state.endings import UnknownName
from certigraph.state.factored import GRANULARITIES, coarsened, raw
from certigraph.state.rewarding import FactorView


@factory
def route(*, granularity: str = "attribute", encoder: str = NAME, decimals: int | None = None) -> Operator:
    """Compare state and goal object by object, attribute by attribute.

    Args:
        granularity: raw, textual, object or attribute: how finely both are told before they are compared.
        encoder: a sentence-transformers model: all-MiniLM-L6-v2, another installed or cached one, or its folder.
        decimals: cut the reward off after so many; the paper's code does after 2.

    Raises:
        UnknownName: no such granularity.
    """
    if granularity not in GRANULARITIES:
        raise UnknownName(f"route(granularity={granularity!r}): known are {', '.join(GRANULARITIES)}")

    async def route(state: FactorView, runtime: Runtime[Context]) -> dict[str, Any]:
        reward = (await off_loop(_compared, state, granularity, encoder)).reward
        return {"reward": reward if decimals is None else cut_off(reward, decimals)}

    return route


def cut_off(reward: float, decimals: int) -> float:
    """The reward without its later decimals; rounding errors of a millionth do not count as missing the next one."""
    scale = float(10**decimals)
    return floor(round(reward * scale, 4)) / scale


def _compared(state: FactorView, granularity: str, encoder: str) -> Routed:
    goal, present = state["goal"], state["factored"]
    if granularity == "raw":
        goal, present = raw(state["task"].goal), raw(state["step"].observation)
    wanted, told = (coarsened(one, granularity, goal) for one in (goal, present))
    return routed(wanted, told, needed_encoder(encoder).encode)
