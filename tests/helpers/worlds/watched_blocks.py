"""For agents that look ahead: a reward worked out by hand, and worlds that tell if they were touched."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from certigraph.adapters.models.schemas import minimal_instance
from certigraph.adapters.models.scripts import ScriptedChat
from certigraph.adapters.protocols import Context, Limits
from certigraph.benchmarks.blocksworld.benchmark import BlocksWorld, BlocksWorldEnvironment
from certigraph.benchmarks.blocksworld.domain import BlocksState, parse_facts, parse_goal, parse_observed
from certigraph.runtime.result import Result
from certigraph.runtime.run import run
from certigraph.state.records import Action, Observation, Task
from certigraph.state.rewards import FactoredState, digest_of, to_factored


async def extract_places(state: Any, runtime: Any) -> dict[str, Any]:
    """Where every block is."""
    return {"factored": _places(parse_observed(state["step"].observation))}


async def interpret_goal(state: Any, runtime: Any) -> dict[str, Any]:
    """Where blocks are to be."""
    return {"goal": _places(parse_goal(state["task"].goal) or parse_facts(state["task"].goal))}


async def share_of_goal(state: Any, runtime: Any) -> dict[str, Any]:
    """The share of the goal's places that are so, in place of similarities."""
    goal, present = state["goal"].entities, state["factored"].entities
    return {"reward": sum(one in present for one in goal) / len(goal) if goal else 0.0}


RATING: dict[str, Any] = {"extract": extract_places, "interpret": interpret_goal, "route": share_of_goal}
"""Operators that rate states as simply as can be."""


READINGS: list[tuple[str, str, str]] = []
"""State before, action and answer of every extraction by `extract_as_model`, in the order in which they were made."""

REVISIONS: list[str] = []
"""Action before every description of the goal by `describe_goal_as_model`."""


async def extract_as_model(state: Any, runtime: Any) -> dict[str, Any]:
    """Where every block is, as if a model had read it."""
    READINGS.append((digest_of(state["factored"]), state["step"].action, state["step"].observation))
    return {"factored": (await extract_places(state, runtime))["factored"].model_copy(update={"read_by": "model"})}


async def describe_goal_as_model(state: Any, runtime: Any) -> dict[str, Any]:
    """Where blocks are to be, as if a model had described it."""
    REVISIONS.append(state["step"].action)
    return {"goal": (await interpret_goal(state, runtime))["goal"].model_copy(update={"read_by": "model"})}


def _places(facts: BlocksState) -> FactoredState:
    readers = {"on": lambda fact: fact.args[1], "ontable": lambda _: "table", "holding": lambda _: "hand"}
    return to_factored(
        {fact.args[0]: {"place": readers[fact.name](fact)} for fact in sorted(facts) if fact.name in readers}
    )


def run_blocks(graph: Any, tmp_path: Path, scripted_model: Any = None, task: str = "4-0", **limits: Any) -> Result:
    """A run in BlocksWorld; without a model the answers are the least."""
    chat = ScriptedChat(responder=scripted_model or (lambda prompt, form: minimal_instance(form)))
    return run(graph, BlocksWorld(), task, context=Context(chat=chat, limits=Limits(**limits)), out=tmp_path)


class WatchedWorld(BlocksWorldEnvironment):
    """Writes down what is done in it."""

    def __init__(self, instance: Any) -> None:
        super().__init__(instance)
        self.done: list[str] = []
        self.resets, self.closed = 0, False

    def reset(self) -> Observation:
        self.resets += 1
        self.done = []
        return super().reset()

    def step(self, action: Action) -> Observation:
        self.done.append(action.text)
        return super().step(action)

    def close(self) -> None:
        self.closed = True


class WatchedBlocks(BlocksWorld):
    """BlocksWorld that remembers every world that it opened, the live one first."""

    def __init__(self) -> None:
        super().__init__()
        self.worlds: list[WatchedWorld] = []

    def open(self, task: Task) -> WatchedWorld:
        self.worlds.append(WatchedWorld(super().open(task).instance))
        return self.worlds[-1]


def take_actions(way: Sequence[str]) -> Any:
    """An operator that takes these actions, then the first candidate."""

    async def choose(state: Any, runtime: Any) -> dict[str, Any]:
        done = len(state["turns"])
        return {"action": Action(text=way[done] if done < len(way) else state["appraisals"][0].action), "thought": ""}

    return choose
