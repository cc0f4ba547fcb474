"""Runs of the simulated agent: reproducible, equal to the expert's at error rate 0, with the expected failures."""

import asyncio
import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from helpers.processes.children import child_environment

from certigraph.adapters.models.scripts import INVALID_ACTION, current_situation
from certigraph.adapters.protocols import Budget, Context, Limits, Responder
from certigraph.graphs import sdp
from certigraph.nodes.sdp import give_up
from certigraph.runtime.result import Result
from certigraph.runtime.run import arun, resume, run
from certigraph.state.records import Action, Attempt, Observation, Scores, Task

pytestmark = pytest.mark.slow  # whole runs, killed and resumed

FLAWLESS = "simulated:propose=0,act=0,accept=0,reject=0"
TASKS = ("4-0", "4-1", "4-2", "5-0", "5-1", "5-2")
VARYING = ("run_id", "created", "seconds", "model", "episode", "t")
"""Fields that differ between two equal runs."""

CHILD = """
import os, signal, sys
from helpers.worlds.scripted_benchmark import after_events
from certigraph.adapters.protocols import Context
from certigraph.runtime.run import run
listener = after_events(int(sys.argv[3]), lambda: os.kill(os.getpid(), signal.SIGKILL)) if int(sys.argv[3]) else None
run("sdp:paper", "blocksworld", sys.argv[1], context=Context(model="simulated"), out=sys.argv[2], listener=listener)
"""


def played(task: str, out: Path, model: str = "simulated", graph: Any = "sdp:paper", **more: Any) -> Result:
    return run(graph, "blocksworld", task, context=Context(model=model, **more), out=out)


def child(task: str, out: Path, events: int = 0) -> int:
    env = child_environment()
    command = [sys.executable, "-c", CHILD, task, str(out), str(events)]
    return subprocess.run(command, env=env, check=False, timeout=60).returncode


def plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: plain(part) for key, part in value.items() if key not in VARYING}
    return [plain(part) for part in value] if isinstance(value, list) else value


def lines(result: Result) -> list[Any]:
    text = (result.folder / "trajectory.jsonl").read_text(encoding="utf-8")
    return [plain(json.loads(line)) for line in text.splitlines()]


def did(result: Result) -> tuple[str, list[str]]:
    return result.ending, [step.action.text for step in result.state["history"]]


@pytest.mark.parametrize("graph", ["sdp", "step", "react", "plan_and_solve"])
def test_without_errors_it_is_the_expert(graph: str, tmp_path: Path):
    expert = lines(played("5-1", tmp_path, "scripted:expert", graph))
    assert lines(played("5-1", tmp_path, FLAWLESS, graph)) == expert
    assert lines(played("5-1", tmp_path, "simulated:act=0.4", graph)) != expert


@pytest.mark.slow
def test_runs_at_once_in_another_process_or_alone_are_the_same(tmp_path: Path):
    alone = [did(played(task, tmp_path / "alone")) for task in TASKS]

    async def together() -> list[Result]:
        context = Context(model="simulated")
        return await asyncio.gather(
            *(arun("sdp:paper", "blocksworld", t, context=context, out=tmp_path) for t in TASKS)
        )

    assert [did(result) for result in asyncio.run(together())] == alone
    assert len({ending for ending, _ in alone}) > 1 or len({len(actions) for _, actions in alone}) > 1
    assert child("4-0", tmp_path / "other") == 0
    (folder,) = (tmp_path / "other").iterdir()
    assert did(Result(folder)) == alone[0]


def test_seeds_and_trials_are_drawn_apart(tmp_path: Path):
    runs = [played("5-0", tmp_path, f"simulated:seed={seed}", trial=trial) for seed in (0, 1) for trial in (0, 1, 2)]
    assert len({json.dumps(did(result)) for result in runs}) > 3


@pytest.mark.parametrize("calls", [3, 6, 11])
def test_a_run_that_a_budget_stopped_goes_on_with_the_same_draws(calls: int, tmp_path: Path):
    whole = played("5-0", tmp_path / "whole")
    stopped = played("5-0", tmp_path / "stopped", budget=Budget(calls=calls))
    assert stopped.ending == "limit:calls"
    assert did(resume(stopped.folder, budget=Budget())) == did(whole)


def test_a_run_that_was_killed_goes_on_with_the_same_draws(tmp_path: Path):
    whole = played("5-0", tmp_path / "whole")
    assert child("5-0", tmp_path / "killed", events=9) == -signal.SIGKILL
    (folder,) = (tmp_path / "killed").iterdir()
    assert len(Result(folder).trajectory.events) == 9
    assert did(resume(folder)) == did(whole)


def test_variants_share_their_draws_until_they_part(tmp_path: Path):
    parted = 0
    for task in TASKS:
        ended, actions = did(played(task, tmp_path, graph=sdp.build(**sdp.PAPER, replan=give_up)))
        _, replanned = did(played(task, tmp_path))
        assert replanned[: len(actions)] == actions
        parted += ended == "gave_up" and len(replanned) > len(actions)
    assert parted


# --- expected rates: a target is exhausted when each of its B attempts fails


TASK = {"benchmark": "buttons", "id": "row"}


class Buttons:
    """A world of buttons in a row. Pressing a button makes its condition true; other actions are rejected."""

    name, briefing, configurations = "buttons", "", ()
    limits = Limits(attempts=1, replans=10_000, steps=10_000)
    buttons = 40
    pressed = 0

    def task(self, task_id: str) -> Task:
        return Task(benchmark=self.name, id=task_id, goal=f"{self.buttons} are pressed")

    def open(self, task: Task) -> "Buttons":
        return self

    def reset(self) -> Observation:
        self.pressed = 0
        return Observation(text="0 are pressed")

    def step(self, action: Action) -> Observation:
        right = action.text == f"press {self.pressed + 1}"
        self.pressed += right
        over = self.pressed == self.buttons
        return Observation(text=f"{self.pressed} are pressed", accepted=right, done=over, solved=over)

    def view(self) -> str:
        return f"{self.pressed} are pressed"

    def admissible(self) -> None:
        return None

    def score(self) -> Scores:
        return Scores(value=self.pressed / self.buttons)

    def close(self) -> None:
        pass

    def operators(self) -> dict[str, Any]:
        return {}

    def expert(self) -> Responder:
        return self._answer

    def _answer(self, prompt: str, schema: dict[str, Any]) -> Any:
        situation = current_situation()
        assert situation
        if "action" in schema["properties"]:
            return {"action": f"press {self.pressed + 1}"}
        if "conditions" in schema["properties"]:
            return {"conditions": [f"{n} are pressed" for n in range(self.pressed + 1, self.buttons + 1)]}
        target = situation.state["plan"][situation.state["head"]].text
        return {"reason": "", "holds": int(target == self.view())}


def failed_whole(tried: list[Attempt], budget: int) -> int:
    """Number of times that all attempts at a target failed."""
    found = in_vain = 0
    for attempt in tried:
        in_vain = 0 if attempt.verdict.depth else in_vain + 1
        found += in_vain == budget
        in_vain %= budget
    return found


@pytest.mark.slow
@pytest.mark.parametrize(("rate", "attempts"), [(0.6, 1), (0.6, 2), (0.7, 3)])
def test_the_share_of_exhausted_targets_is_the_error_rate_to_the_number_of_attempts(rate: float, attempts: int):
    exhausted = met = 0
    for seed in range(3):
        model = f"simulated:propose=0,act={rate},accept=0,reject=0,seed={seed}"
        limits = Buttons.limits.model_copy(update={"attempts": attempts})
        context = Context(model=model, benchmark=Buttons(), limits=limits, budget=Budget(calls=10**6, seconds=10**6))
        state = sdp.build(**sdp.PAPER).invoke({"task": TASK}, {"recursion_limit": 10**5}, context=context)
        assert {attempt.action.text == INVALID_ACTION for attempt in state["attempts"]} == {True, False}
        exhausted += failed_whole(state["attempts"], attempts)
        met += len(state["certificates"])
    share, targets = rate**attempts, exhausted + met
    assert targets > 150
    assert abs(exhausted - targets * share) <= 4 * (targets * share * (1 - share)) ** 0.5
