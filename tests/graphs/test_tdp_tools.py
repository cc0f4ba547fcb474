"""TDP over tools: a model is asked only where its answer can change something."""

from typing import Any

import pytest
from helpers.models.part_models import Calls, PartModel, call, part

from certigraph import Context, Limits, Tools
from certigraph.graphs import tdp
from certigraph.nodes.tdp import undivided
from certigraph.state.subtask import Progress

GOAL = "Look up both orders and refund what is due."
LOOK: Calls = [call("look_up", order=17)]
PAY: Calls = [call("refund", order=17)]


def look_up(order: int) -> str:
    """Look up an order."""
    return f"order {order}: 49.9 euros"


def refund(order: int) -> str:
    """Refund an order."""
    return f"refunded {order}"


def fail(order: int) -> str:
    """Fail in a way that another call may not."""
    raise RuntimeError(f"no connection, order {order}")


def finish(text: str) -> Calls:
    return [call("finish", answer=text)]


def world(**given: Any) -> Tools:
    tools = [look_up, refund, fail]
    return Tools(tools, effects={"look_up": "repeatable", "fail": "repeatable"}, limits=Limits(steps=30), **given)


def solve(model: PartModel, **operators: Any) -> Any:
    """The final state of a run of TDP with its default operators, or others."""
    task = {"benchmark": "tools", "id": "request", "goal": GOAL}
    return tdp.build(**operators).invoke({"task": task}, context=Context(benchmark=world(), chat=model.chat))


CHAIN = [part("a"), part("b", "a", single=True), part("c", "b", single=True)]
CHAIN_WORK = {
    "Do a.": [LOOK, finish("order 17 costs 49.9")],
    "Do b.": [PAY, finish("17 is refunded")],
    "Do c.": [finish("all is done")],
}
ALONE = {GOAL: [LOOK, PAY, finish("all is done")]}

INDEPENDENT = [
    [part("a")],
    [part("a"), part("b", "a")],
    [part("a"), part("b"), part("c", "a", "b")],
]


@pytest.mark.parametrize("parts", INDEPENDENT, ids=["one", "a chain of two", "independent"])
def test_a_task_without_two_dependent_parts_is_worked_on_by_one_agent(parts: Any) -> None:
    model = PartModel(ALONE, parts)
    state = solve(model)
    assert model.requests == {"decompose": 1, "execute": 3}
    assert tdp.ending(state) == "goal"
    [node] = state["dag"].nodes
    assert (node.task, node.status) == (GOAL, "completed")
    assert "one agent works on the whole task" in state["notes"][-1]
    assert [step.action.text for step in state["history"]][-1] == "finish[all is done]"


def test_a_task_that_a_user_does_not_divide_has_no_plan_either() -> None:
    model = PartModel(ALONE)
    assert tdp.ending(solve(model, decompose=undivided)) == "goal"
    assert model.requests == {"execute": 3}


def test_one_agent_that_gives_up_is_not_judged_nor_revised() -> None:
    model = PartModel({GOAL: [LOOK]}, [part("a")])
    state = solve(model)
    assert tdp.ending(state) == "gave_up"
    assert set(model.requests) == {"decompose", "execute"}


def test_parts_that_depend_on_each_other_cost_what_they_bring() -> None:
    model = PartModel(CHAIN_WORK, CHAIN)
    state = solve(model)
    assert tdp.ending(state) == "goal"
    # a is planned, b and c take one action; a and b hand in what is judged, c ends the task; b uses a, and c uses b
    assert model.requests == {"decompose": 1, "plan": 1, "execute": 5, "supervise": 2, "revise": 2}
    assert [node.single for node in state["dag"].nodes] == [False, True, True]


def test_what_a_part_hands_in_is_its_result_without_a_copy() -> None:
    model = PartModel(CHAIN_WORK, CHAIN, judged=[{"status": "completed", "result": "a copy"}])
    state = solve(model)
    assert [outcome.result for outcome in state["outcomes"]][:2] == [
        "answer: order 17 costs 49.9",
        "answer: 17 is refunded",
    ]
    assert "order 17 costs 49.9" in model.prompts_of("execute")[2]
    assert not any("a copy" in prompt for _, prompt in model.prompts)


def test_a_result_that_is_not_accepted_is_worked_on() -> None:
    work = {**CHAIN_WORK, "Do b.": [finish("17 is refunded"), PAY, finish("17 is refunded now")]}
    denied = {"status": "needs_more_steps", "guidance": "refund the order first"}
    model = PartModel(work, CHAIN, judged=[{"status": "completed"}, denied, {"status": "completed"}])
    state = solve(model)
    assert state["outcomes"][1].result == "answer: 17 is refunded now"
    assert "refund the order first" in model.prompts_of("execute")[3]
    assert (model.requests["supervise"], model.requests["plan"]) == (3, 1)


def test_work_that_stands_still_is_judged_and_planned_again() -> None:
    work = {
        **CHAIN_WORK,
        "Do a.": [[call("fail", order=1)], [call("fail", order=2)], LOOK, finish("order 17 costs 49.9")],
    }
    astray = {"status": "needs_more_steps", "off_plan": True, "reason": "there is no connection"}
    model = PartModel(work, CHAIN, judged=[astray, {"status": "completed"}])
    state = solve(model)
    assert tdp.ending(state) == "goal"
    assert (model.requests["supervise"], model.requests["replan"]) == (3, 1)
    assert "there is no connection" in model.prompts_of("replan")[0]
    assert "49.9 euros" not in model.prompts_of("replan")[0]  # before the look-up that worked


def test_an_action_that_repeats_the_one_before_is_judged() -> None:
    work = {**CHAIN_WORK, "Do a.": [LOOK, LOOK, finish("order 17 costs 49.9")]}
    model = PartModel(work, CHAIN, judged=[{"status": "needs_more_steps"}, {"status": "completed"}])
    state = solve(model)
    assert model.requests["supervise"] == 3
    assert [step.action.text for step in state["outcomes"][0].steps].count("finish[order 17 costs 49.9]") == 1


def test_more_actions_than_the_plan_has_steps_are_judged() -> None:
    looks = [[call("look_up", order=n)] for n in range(4)]
    model = PartModel({**CHAIN_WORK, "Do a.": [*looks, finish("order 17 costs 49.9")]}, CHAIN)
    state = solve(model)  # the plan of the script has one step; the fourth action is judged, and completes the part
    assert model.requests["supervise"] == 2
    assert state["outcomes"][0].taken == 4


def test_a_part_that_failed_is_revised_although_nothing_waits_for_it() -> None:
    parts = [part("a"), part("b", "a"), part("c", "b")]
    model = PartModel(CHAIN_WORK, parts, judged=[{"status": "completed"}, {"status": "failed", "reason": "no"}])
    state = solve(model)
    assert [node.status for node in state["dag"].nodes] == ["completed", "failed", "pending"]
    assert model.requests["revise"] == 2


def test_nothing_is_revised_before_a_part_that_uses_the_result_is_ready() -> None:
    parts = [part("a", single=True), part("b", single=True), part("c", "a", single=True), part("d", "b", "c")]
    work = {f"Do {id_}.": [finish(f"{id_} is done")] for id_ in "abcd"}
    model = PartModel(work, parts)
    state = solve(model)
    assert [outcome.node for outcome in state["outcomes"]] == ["a", "b", "c", "d"]
    ready_after = ["a", "c"]  # c uses a, and d uses b and c
    assert (model.requests["revise"], model.requests["plan"]) == (len(ready_after), 1)


def test_the_papers_loop_stays_a_configuration() -> None:
    work = {"Do a.": [LOOK], "Do b.": [PAY], "Do c.": [finish("all is done")]}
    model = PartModel(work, CHAIN)
    assert tdp.ending(solve(model, **tdp.PAPER)) == "goal"
    assert model.requests == {"decompose": 1, "plan": 3, "execute": 3, "supervise": 2, "revise": 2}
    model = PartModel({f"Do {id_}.": [finish("done")] for id_ in "ab"}, [part("a"), part("b", "a")])
    assert len(solve(model, **tdp.PAPER)["dag"].nodes) == 2


def test_a_users_supervisor_sees_every_action() -> None:
    seen: list[str] = []

    def supervise(state: Any) -> Any:
        seen.append(state["action"].text)
        handed_in = state["action"].kind == "answer"
        return {"progress": Progress(status="completed" if handed_in else "needs_more_steps", result="mine")}

    solve(PartModel(CHAIN_WORK, CHAIN), supervise=supervise)
    assert seen == ["look_up(order=17)", "finish[order 17 costs 49.9]", "refund(order=17)", "finish[17 is refunded]"]


def test_a_users_revise_sees_every_batch() -> None:
    seen: list[int] = []

    def revise(state: Any) -> Any:
        seen.append(len(state["outcomes"]))
        return {"dag": state["dag"], "notes": ()}

    parts = [part("a", single=True), part("b", single=True), part("c", "a", single=True), part("d", "b", "c")]
    solve(PartModel({f"Do {id_}.": [finish("done")] for id_ in "abcd"}, parts), revise=revise)
    assert seen == [1, 2, 3]
