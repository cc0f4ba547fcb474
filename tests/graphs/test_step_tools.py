"""STEP over tools: the Evaluator judges claims, and the answer that the Planner drafted is handed in as it is."""

from typing import Any

from helpers.models.part_models import Calls, PartModel, call
from pydantic import BaseModel

from certigraph import Context, Limits, Tools
from certigraph.graphs import step
from certigraph.state.records import Task
from certigraph.state.step import StepSubtask

LOOK: Calls = [call("look_up", order=17)]
PAY: Calls = [call("refund", order=17)]
FAIL: Calls = [call("fail", order=17)]
DONE = call("target_holds", report="the answers say so")
ANSWER = "Order 17 is refunded."

FIND, ACT = {"subtask": "Find order 17."}, {"subtask": "Refund order 17."}
HAND_IN = {"subtask": "Hand in the answer.", "answer": ANSWER}


def look_up(order: int) -> str:
    """Look up an order."""
    return f"order {order}: 49.9 euros"


def refund(order: int) -> str:
    """Refund an order."""
    return f"refunded {order}"


def fail(order: int) -> str:
    """Fail in a way that another call may not."""
    raise RuntimeError(f"no connection, order {order}")


def solve(model: PartModel, response_format: Any = None, **operators: Any) -> Any:
    """The final state of a run of STEP with its default operators, or others."""
    world = Tools(
        [look_up, refund, fail],
        effects={"look_up": "repeatable", "fail": "repeatable"},
        limits=Limits(steps=20, trials=1),
        response_format=response_format,
    )
    task = Task(benchmark="tools", id="request", goal="Refund order 17.")
    return step.build(**operators).invoke({"task": task}, context=Context(benchmark=world, chat=model.chat))


def actions(state: Any) -> list[str]:
    return [one.action.text for one in state["history"]]


def test_a_claim_with_the_last_calls_is_judged_and_nothing_before_it() -> None:
    work = {FIND["subtask"]: [LOOK, [call("look_up", order=18), DONE]], ACT["subtask"]: [[*PAY, DONE]]}
    model = PartModel(work, subtasks=[FIND, ACT, HAND_IN])
    state = solve(model)
    assert model.requests == {"planner": 3, "executor": 3, "assess": 2}
    assert actions(state) == ["look_up(order=17)", "look_up(order=18)", "refund(order=17)", f"finish[{ANSWER}]"]
    assert [one.status for one in state["subtasks"]] == ["completed", "completed"]
    assert all("the answers say so" in prompt for prompt in model.prompts_of("assess"))


def test_a_claim_without_a_call_is_judged_too() -> None:
    model = PartModel({FIND["subtask"]: [LOOK, [DONE]]}, subtasks=[FIND, HAND_IN])
    state = solve(model)
    assert model.requests == {"planner": 2, "executor": 2, "assess": 1}
    assert actions(state) == ["look_up(order=17)", f"finish[{ANSWER}]"]


def test_a_claim_that_is_denied_is_worked_on_with_the_reason() -> None:
    work = {FIND["subtask"]: [[*LOOK, DONE], [call("look_up", order=18), DONE]]}
    denied = {"completed": False, "blocked": False, "reason": "order 18 is not known"}
    model = PartModel(work, subtasks=[FIND, HAND_IN], judged=[denied, {"completed": True}])
    solve(model)
    assert model.requests["assess"] == 2
    assert "order 18 is not known" in model.prompts_of("executor")[1]


def test_a_claim_whose_call_failed_is_not_judged() -> None:
    model = PartModel({FIND["subtask"]: [[*FAIL, DONE], [*LOOK, DONE]]}, subtasks=[FIND, HAND_IN])
    solve(model)
    assert model.requests == {"planner": 2, "executor": 2, "assess": 1}


def test_a_subtask_that_the_executor_cannot_fulfil_is_refined_without_the_evaluator() -> None:
    blocked = call("target_unreachable", report="there is no order 17")
    model = PartModel({FIND["subtask"]: [[blocked]]}, subtasks=[FIND, HAND_IN])
    state = solve(model)
    assert model.requests == {"planner": 2, "executor": 1}
    assert (state["subtasks"][0].status, "there is no order 17" in state["subtasks"][0].reason) == ("failed", True)


def test_a_subtask_whose_actions_are_used_up_is_judged() -> None:
    looks = [[call("look_up", order=n)] for n in range(30)]
    model = PartModel({FIND["subtask"]: looks}, subtasks=[FIND, HAND_IN])
    state = solve(model)
    assert model.requests["assess"] == 1
    assert len(actions(state)) > 2


class Form(BaseModel):
    """The answer in the form of the user's."""

    order: int


def test_an_answer_in_a_form_of_the_users_is_the_executors() -> None:
    model = PartModel({"Hand in the answer.": [[call("finish", order=17)]]}, subtasks=[HAND_IN])
    state = solve(model, response_format=Form)
    assert model.requests == {"planner": 1, "executor": 1}
    assert state["action"].args["response"] == {"order": 17}


def test_the_papers_executor_and_evaluator_do_not_use_the_draft() -> None:
    work = {FIND["subtask"]: [LOOK], "Hand in the answer.": [[call("finish", answer="mine")]]}
    model = PartModel(work, subtasks=[FIND, HAND_IN])
    state = solve(model, **step.PAPER)
    assert model.requests == {"planner": 2, "executor": 2, "assess": 1}
    assert actions(state)[-1] == "finish[mine]"


def test_a_planner_of_the_users_without_a_draft_leaves_the_answer_to_the_executor() -> None:
    def planner(state: Any) -> Any:
        return {"subtask": StepSubtask(text="Hand in the answer.")}

    model = PartModel({"Hand in the answer.": [[call("finish", answer="mine")]]})
    assert actions(solve(model, planner=planner)) == ["finish[mine]"]
    assert model.requests == {"executor": 1}
