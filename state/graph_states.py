"""States of graphs: the state type of every certigraph graph, and states computed from the updates of nodes."""

from collections.abc import Iterable, Mapping, Sequence, Set
from functools import lru_cache
from typing import Any, NamedTuple, get_type_hints

from pydantic import TypeAdapter, ValidationError

from certigraph.state.channels import DeltaChannels, ValueChannel, delta_channels_of
from certigraph.state.memgpt import MemGPTState
from certigraph.state.rewards import LookaheadState, RewardState
from certigraph.state.run import OutlineState, ReActState, RunState
from certigraph.state.sdp import SDPState
from certigraph.state.search import HypothesesState
from certigraph.state.search_tree import TreeState
from certigraph.state.step import StepState, TrialState
from certigraph.state.subtask import SubtaskState
from certigraph.state.tdp import TDPState

GRAPH_STATES: dict[str, Any] = {
    "sdp": SDPState,
    "step": StepState,
    "react": ReActState,
    "react_reward": LookaheadState,
    "mcts": TreeState,
    "plan_and_solve": OutlineState,
    "reflexion": TrialState,
    "clin": TrialState,
    "pbai": ReActState,
    "ircot": ReActState,
    "memgpt": MemGPTState,
    "iter_retgen": ReActState,
    "hypotheses": HypothesesState,
    "tdp": TDPState,
    "subtask": SubtaskState,
    "plan_and_act": SubtaskState,
    "cot": SubtaskState,
    "monotonic": RewardState,
    "reward_head": RewardState,
    "reward_judge": RewardState,
    "statefactory": RewardState,
}
"""State type of every certigraph graph, by name of the graph.

It lets a trajectory be read without loading the graph.
"""


def state_type(graph: str) -> Any:
    """Return the TypedDict of a graph's state; `RunState` if certigraph has no graph of that name."""
    return GRAPH_STATES.get(graph, RunState)


class NodeUpdate(NamedTuple):
    """The update of the state that a graph node returned.

    `replaced` are the keys whose previous value the update replaces instead of extending it.
    """

    update: Mapping[str, Any]
    replaced: Sequence[str] = ()


def fold_state(graph: str, initial: Mapping[str, Any], changes: Iterable[NodeUpdate]) -> Any:
    """Compute the state of a graph from its initial state and the updates of its nodes, in order.

    For a user's own graph the most similar state type of certigraph is used. Keys that this type lacks, and values that
    do not fit it, are returned as they are in the trajectory.

    Raises:
        TypeError, ValueError: an update does not fit the graph's state.
    """
    changes = list(changes)
    is_own = graph not in GRAPH_STATES
    schema = _closest_state({*initial, *(key for c in changes for key in c.update)}) if is_own else GRAPH_STATES[graph]
    channels = delta_channels_of(schema)
    state: dict[str, Any] = {**{name: [] for name in channels.lists}, **initial}
    for change in changes:
        _apply(state, change, channels)
    return {**state, **_fitting_part(schema, state)} if is_own else _validator(schema).validate_python(state)


def _closest_state(keys: Set[str]) -> Any:
    """Return the state type that has most of the keys; of several, the one with the fewest other keys."""
    states = [RunState, *dict.fromkeys(GRAPH_STATES.values())]
    return max(states, key=lambda kind: (len(keys & {*kind.__annotations__}), -len(kind.__annotations__)))


def _fitting_part(schema: Any, state: Mapping[str, Any]) -> dict[str, Any]:
    try:
        fitting: dict[str, Any] = _validator(schema).validate_python(state)
    except ValidationError as error:
        unfit = {detail["loc"][0] for detail in error.errors()}
        fitting = _validator(schema).validate_python({key: state[key] for key in state.keys() - unfit})
    return fitting


def _apply(state: dict[str, Any], change: NodeUpdate, channels: DeltaChannels) -> None:
    """Apply one update to `state`, in place. Lists of the update are copied, never changed."""
    appended = channels.logs - {*change.replaced}
    for key, value in change.update.items():
        if key in appended and isinstance(value, list):
            state[key].extend(value)
        elif key in channels.values:
            state[key] = _reduce(channels.values[key], state.get(key), value)
        else:
            state[key] = list(value) if key in channels.logs and isinstance(value, list) else value


def _reduce(channel: ValueChannel, before: Any, value: Any) -> Any:
    """Return the value of a channel after an update; the update itself where it has another form than the channel's."""
    try:
        writes = _validator(get_type_hints(channel.reducer)["writes"]).validate_python([value])
    except ValidationError:
        return value
    return channel.reducer(channel.empty() if before is None else before, writes)


@lru_cache(maxsize=32)
def _validator(kind: Any) -> TypeAdapter[Any]:
    return TypeAdapter(kind)
