"""A model that follows a demonstration: every graph reaches the goal by it, and errors do not throw it off."""

from collections.abc import Sequence
from pathlib import Path

import pytest
from helpers.cases import first_fast

from certigraph.adapters.models.experts import MAX_SEGMENT_NAME, demonstration_expert
from certigraph.adapters.models.schemas import minimal_instance, schema_of
from certigraph.adapters.models.scripts import Situation, use_situation
from certigraph.adapters.protocols import Context, Responder
from certigraph.benchmarks.blocksworld.benchmark import BlocksWorld
from certigraph.nodes.conditions import Conditions
from certigraph.nodes.plans import SupervisorJudgement
from certigraph.nodes.step import Completion, Next
from certigraph.nodes.verdicts import Holds
from certigraph.runtime.run import run
from certigraph.state.records import Action, Observation, Predicate, Step, Task

GRAPHS = ("sdp", "tdp", "step", "react", "reflexion", "clin", "plan_and_solve", "plan_and_act", "cot")


class Shown(BlocksWorld):
    """BlocksWorld with the expert of worlds that demonstrate, which counts what it is asked."""

    def __init__(self) -> None:
        super().__init__()
        self.requests: list[tuple[str, ...]] = []

    def counted(self, task: Task, before: Sequence[str]) -> list[str]:
        self.requests.append(tuple(before))
        return self.demonstration(task, before)

    def expert(self) -> Responder:
        return demonstration_expert(self.counted)


@pytest.mark.parametrize("graph", first_fast(GRAPHS, 2))
def test_every_graph_reaches_the_goal_along_the_demonstration(graph: str, tmp_path: Path):
    world = Shown()
    task = world.task("5-1")
    result = run(graph, world, task.id, context=Context(model="scripted:expert"), out=tmp_path)
    assert result.scores and result.scores.value == 1.0, result.ending
    assert [step.action.text for step in result.state["history"]] == world.demonstration(task)
    assert world.requests == [()], "on the path there is nothing to be asked"


@pytest.mark.slow
def test_slips_and_wrong_verdicts_delay_it_and_a_new_way_is_requested(tmp_path: Path):
    world = Shown()
    model = "simulated:propose=0.1,act=0.3,accept=0.1,reject=0.1,seed=2"
    result = run("sdp", world, "5-1", context=Context(model=model), out=tmp_path)
    assert result.scores and result.scores.value == 1.0, result.ending
    assert len(result.state["history"]) > len(world.demonstration(world.task("5-1")))
    assert any(world.requests[1:])


PATH = tuple(f"walk {n}" for n in range(1, 21))
TASK = Task(benchmark="b", id="t", goal="Get there.")


def answer(form: type, done: int, *, goal: str = TASK.goal, seen: Observation | None = None, **state: object):
    steps = [Step(action=Action(text=text), digest="-") for text in PATH[:done]]
    task = TASK.model_copy(update={"goal": goal})
    shown = {"task": task, "history": steps, "observation": seen or Observation(text=""), **state}
    respond = demonstration_expert(lambda task, before: PATH[len(before) :])
    with use_situation(Situation("node", 1, shown)):
        return respond("", schema_of(form))


def test_conditions_name_what_is_left_and_hold_once_no_more_is():
    conditions = answer(Conditions, 5)["conditions"]
    assert (len(conditions), conditions[0], conditions[-1]) == (
        15, "14 actions to go after: walk 6", "0 actions to go after: walk 20",
    )  # fmt: skip
    plan = [*map(lambda text: Predicate(text=text), conditions[:2]), Predicate(text=TASK.goal, kind="goal")]
    held = [answer(Holds, done, plan=plan, head=0)["holds"] for done in (5, 6, 7, 19, 20)]
    assert held == [0, 1, 2, 2, 3]
    assert answer(Holds, 20, plan=[Predicate(text="Something that no action brings about")], head=0)["holds"] == 0


def test_a_subtask_and_a_sub_task_end_where_they_say():
    text = answer(Next, 2)["subtask"]
    assert text.startswith("10 actions to go after: walk 3; walk 4")
    assert len(text) <= MAX_SEGMENT_NAME
    assert [answer(Completion, done, goal=text)["completed"] for done in (9, 10, 11)] == [False, True, True]
    assert [answer(SupervisorJudgement, done, goal=text)["status"] for done in (9, 10)] == [
        "needs_more_steps",
        "completed",
    ]
    assert answer(Conditions, 2, goal=text)["conditions"][-1] == "10 actions to go after: walk 10"


def test_a_world_that_is_over_leaves_nothing_to_do_or_nothing_to_say():
    solved, lost = Observation(text="", done=True, solved=True), Observation(text="", done=True)
    assert answer(Completion, 3, seen=solved)["completed"] is True
    assert answer(SupervisorJudgement, 3, seen=lost) == minimal_instance(schema_of(SupervisorJudgement))
