"""Growth of the cost of an event over a long run: Monte Carlo tree search, TDP and IRCoT, with all that a run saves.

    python scripts/growth.py --events 3000 --repeats 5

Each run has about so many events in its trajectory. The processor time of an event in the last fifth of the run is
divided by that in the second tenth; a run whose cost does not grow with its length has the ratio 1. Worlds and models
answer from memory at once, so that nothing but certigraph and LangGraph is measured. Of several repeats the lowest time
of each part counts, because what else a machine does only adds to it.
"""

import argparse
import asyncio
import hashlib
import os
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from time import process_time
from typing import Any, NamedTuple

from certigraph import Benchmark, Budget, Context, Environment, Limits
from certigraph.adapters.models.scripts import ScriptedChat, current_situation
from certigraph.graphs import ircot, mcts, tdp
from certigraph.nodes.lookahead import listed
from certigraph.nodes.mcts import backpropagate
from certigraph.runtime.run import arun
from certigraph.state.records import Action, Observation, Scores, Task
from certigraph.state.rewards import to_factored
from certigraph.state.run import FINISH, parse_action
from certigraph.state.trajectory import Event, TrajectoryLine


class World(Environment):
    """World that remembers its actions. A query finds two passages that no other query finds."""

    instant = True

    def __init__(self, benchmark: "Endless") -> None:
        self.benchmark, self.actions = benchmark, list[str]()

    def reset(self) -> Observation:
        """Forget all actions."""
        self.actions.clear()
        return Observation(text="at the beginning")

    def step(self, action: Action) -> Observation:
        """Take any action."""
        self.actions.append(action.text)
        if not self.benchmark.answers:
            return Observation(text=self.view())
        meant = parse_action(action)
        if meant and meant.kind == FINISH:
            return Observation(text="handed in", done=True)
        found = tuple(f"page {2 * len(self.actions) + part}" for part in (0, 1))
        return Observation(text="\n".join(f"{name}: {'some words ' * 20}." for name in found), sources=found)

    def view(self) -> str:
        """Return the actions so far in the search tree, which tell its states apart."""
        return "/".join(self.actions[-20:])

    def admissible(self) -> list[str] | None:
        """Return three actions that are possible everywhere."""
        return None if self.benchmark.answers else ["left", "middle", "right"]

    def score(self) -> Scores:
        """Return 0: there is nothing to reach."""
        return Scores(value=0.0)


class Endless(Benchmark):
    """Benchmark of a task that is never done."""

    name, instant, status_lines = "endless", True, ()

    def __init__(self, limits: Limits, *, answers: bool = False) -> None:
        self.limits, self.answers = limits, answers

    def tasks(self, split: str = "") -> Sequence[Task]:
        """Return the only task."""
        return [Task(benchmark=self.name, id="1", goal="go on")]

    def open(self, task: Task) -> World:
        """Open a world."""
        return World(self)


class Case(NamedTuple):
    """A run that is measured: graph, benchmark, and the function that answers for its model."""

    graph: Any
    benchmark: Endless
    answer: Callable[[str, dict[str, Any]], Any]


def search_case(events: int) -> Case:
    """Return the tree search: all simulations before one action. A simulation takes five nodes."""

    async def place(state: Any, runtime: Any) -> dict[str, Any]:
        return {"factored": to_factored({"agent": {"place": state["step"].observation}})}

    async def goal(state: Any, runtime: Any) -> dict[str, Any]:
        return {"goal": to_factored({"agent": {"place": "nowhere"}})}

    async def rate(state: Any, runtime: Any) -> dict[str, Any]:
        shown = state["factored"].model_dump_json()
        return {"reward": hashlib.sha256(shown.encode()).digest()[0] / 512}

    simulate = backpropagate(simulations=events // 5)
    graph = mcts.build(extract=place, interpret=goal, route=rate, propose=listed, backpropagate=simulate)
    return Case(graph, Endless(Limits(steps=1, repeats=0)), lambda prompt, schema: {})


def tasks_case(events: int) -> Case:
    """Return TDP with a chain of sub-tasks. Each takes two actions in eight nodes, and three of the outer graph."""
    nodes = events // 11
    chain = [
        {"id": f"n{n}", "task": f"do part {n}", "needs": [f"n{n - 1}"] if n > 1 else []} for n in range(1, nodes + 1)
    ]

    def answer(prompt: str, schema: dict[str, Any]) -> Any:
        situation, fields = current_situation(), frozenset(schema.get("properties", ()))
        taken = len(situation.state["turns"]) if situation and "turns" in situation.state else 0
        if "nodes" in fields:
            return {"reasoning": "", "nodes": chain}
        if "add" in fields:
            return {"reason": "as planned", "change": [], "add": [], "remove": []}
        if "steps" in fields:
            return {"steps": ["begin it", "end it"]}
        if "status" in fields:
            status = "completed" if taken == 2 else "needs_more_steps"
            return {"reason": "seen", "status": status, "off_plan": False, "guidance": "go on", "result": "it is done"}
        return {"thought": "on with it", "choice": "left", "action": "left"}

    return Case(tdp.build(), Endless(Limits(steps=4 * nodes, nodes=nodes, revisions=nodes, repeats=0)), answer)


def search_agent_case(events: int) -> Case:
    """Return IRCoT. A round takes four nodes."""
    numbers = iter(range(events))
    limits = Limits(steps=events, rounds=events // 4, repeats=0)

    def answer(prompt: str, schema: dict[str, Any]) -> Any:
        if "answer" in schema.get("properties", ()):
            return {"answer": "none"}
        return {"sentence": f"The next page to look at is number {next(numbers)}."}

    return Case(ircot.build(), Endless(limits, answers=True), answer)


CASES = {"mcts": search_case, "tdp": tasks_case, "ircot": search_agent_case}


async def measure(case: Case, folder: Path) -> tuple[list[float], str]:
    """Return the processor time at every event of a run, and how the run ended."""
    times: list[float] = []

    def listen(line: TrajectoryLine) -> None:
        if isinstance(line, Event):
            times.append(process_time())

    chat = ScriptedChat(responder=case.answer, model_name="endless")
    context = Context(chat=chat, budget=Budget(calls=10**6, tokens=10**12, seconds=3600))
    task = case.benchmark.tasks()[0]
    result = await arun(
        case.graph, case.benchmark, task, context=context, out=folder, listener=listen, on_error="ignore"
    )
    return times, f"{result.ending} {result.message}".strip()


def measure_parts(name: str, events: int) -> tuple[float, float, int, str]:
    """Return milliseconds per event early and late in a run, the number of its events, and how it ended."""
    with tempfile.TemporaryDirectory() as folder:
        times, ending = asyncio.run(measure(CASES[name](events), Path(folder)))
    tenth = max(len(times) // 10, 1)
    if len(times) < 20:
        raise SystemExit(f"{name}: the run ended {ending}")
    early = 1000 * (times[2 * tenth] - times[tenth]) / tenth
    late = 1000 * (times[-1] - times[-1 - 2 * tenth]) / (2 * tenth)
    return early, late, len(times), ending


def main() -> None:
    """Measure and print a line for each graph."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, default=3_000, help="events of each run")
    parser.add_argument("--repeats", type=int, default=1, help="runs of each graph")
    parser.add_argument("--only", choices=CASES, action="append", help="graphs to measure; by default all")
    options = parser.parse_args()
    for name in options.only or CASES:
        runs = [measure_parts(name, options.events) for _ in range(options.repeats)]
        early, late = min(run[0] for run in runs), min(run[1] for run in runs)
        figures = f"{early:5.2f} ms early, {late:5.2f} ms late, ratio {late / early:.2f}"
        print(
            f"{name:6} {runs[0][2]:5} events: {figures} (ended {runs[0][3]:.90}; load {os.getloadavg()[0]:.1f})",
            flush=True,
        )


if __name__ == "__main__":
    main()
