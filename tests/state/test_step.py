"""Views of STEP's Executor and Evaluator: the task is hidden from them wherever the world repeats it."""

from typing import Any

import pytest

from certigraph.state.records import Action, Observation, Task
from certigraph.state.run import Evidence, Turn
from certigraph.state.step import StepState, StepSubtask, align_view, assess_view, executor_view

GOAL = "buy a red chair for less than 40 dollars"
VIEW = Evidence(view=f"Instruction: {GOAL}\n[button] Search")


def state_of(*, whole: bool) -> StepState:
    return {
        "task": Task(benchmark="shop", id="1", goal=GOAL, constants={"secret": GOAL}),
        "subtask": StepSubtask(text="search for a chair", whole=whole),
        "action": Action(text="search[chair]"),
        "turns": [Turn(action="look", observation=f"Instruction: {GOAL}", thought="T")],
        "begun": 0,
        "history": [],
        "refusals": (),
        "lessons": (),
        "evidence": VIEW,
        "observation": Observation(text=""),
    }


@pytest.mark.parametrize("view", [executor_view, align_view, assess_view])
def test_no_part_of_a_view_repeats_the_task_unless_it_is_the_subtask(view: Any):
    assert GOAL not in str(view(state_of(whole=False)))
    assert "[button] Search" in str(view(state_of(whole=False)))
    assert GOAL in str(view(state_of(whole=True)))
