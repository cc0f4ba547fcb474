"""The two operators that touch the world: `reset` opens an episode, `act` takes one action in it."""

import uuid
from typing import Any

from langgraph.runtime import Runtime
from langgraph.types import Overwrite

from certigraph.adapters.benchmarks import benchmark_of, limits_of
from certigraph.adapters.context import Context
from certigraph.adapters.episodes import Episode, live_episode
from certigraph.adapters.loops import off_loop
from certigraph.adapters.models.meter import current_meter
from certigraph.state.endings import LimitReached
from certigraph.state.records import Observation, Task, Verdict
from certigraph.state.sdp import Evidence, SDPState

MOST_ACTIONS_LISTED = 100


async def reset(state: SDPState, runtime: Runtime[Context]) -> dict[str, Any]:
    """Open a new episode of the task and begin with nothing certified, also on a thread that ran before."""
    task = _whole(Task.model_validate(state["task"]), runtime)
    thread = runtime.execution_info.thread_id if runtime.execution_info else None
    key = f"{thread or 'run'}:{uuid.uuid4().hex[:8]}"
    logs = {log: Overwrite([]) for log in ("certificates", "attempts", "history")}
    books = {"plan": [], "head": 0, "tried": 0, "replans": 0, "verdict": Verdict(depth=0), **logs}
    return {"task": task, "episode": key, **books, **await off_loop(_opened, key, task, runtime)}


async def act(state: SDPState, runtime: Runtime[Context]) -> dict[str, Any]:
    """Take the chosen action.

    Raises:
        LimitReached: the episode's steps or another budget are spent.
        Fault: the world failed, or a replayed episode answered otherwise than logged.
    """
    most, taken = limits_of(state["task"], runtime).steps, len(state["history"])
    if taken >= most:
        raise LimitReached("steps", most, taken)
    current_meter().check()
    return await off_loop(_stepped, state, runtime)


def _whole(task: Task, runtime: Runtime[Context]) -> Task:
    return task if task.goal else benchmark_of(task, runtime).task(task.id)


def _opened(key: str, task: Task, runtime: Runtime[Context]) -> dict[str, Any]:
    episode = live_episode(key, task, [], runtime)
    return {"observation": episode.first, "evidence": _evidence(episode, episode.first)}


def _stepped(state: SDPState, runtime: Runtime[Context]) -> dict[str, Any]:
    history = state["history"]
    episode = live_episode(state["episode"], state["task"], history, runtime)
    observation = episode.step(state["action"])
    evidence = _evidence(episode, observation)
    return {"observation": observation, "evidence": evidence, "history": episode.log[len(history) :]}


def _evidence(episode: Episode, observation: Observation) -> Evidence:
    listed = episode.admissible() or []
    return Evidence(view=observation.text, admissible=tuple(listed) if len(listed) <= MOST_ACTIONS_LISTED else ())
