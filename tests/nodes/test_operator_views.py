"""Operators called alone: a view as the graph would build it, a model whose answers are given, and the update.

Each test changes nothing but what its operator reads, so that an operator can be changed without running a graph.
"""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from langgraph.runtime import Runtime

from certigraph.adapters.models.scripts import ScriptedChat
from certigraph.adapters.models.usage import Meter, metering
from certigraph.adapters.protocols import Benchmark, Context, Environment, Limits, Operator
from certigraph.nodes import beliefs, plans, react, sdp, step
from certigraph.nodes.actions import CHECK_ACTION, NOTHING, UNREACHABLE_ACTION
from certigraph.state.certified_states import CertifiedState
from certigraph.state.records import Action, Attempt, Fact, Observation, Predicate, Spent, Task, Verdict
from certigraph.state.run import Belief, BelievedFact, Evidence, Turn
from certigraph.state.sdp import CUT_ARGUMENT
from certigraph.state.step import StepSubtask
from certigraph.state.subtask import Progress

TASK = Task(benchmark="kitchen", id="tea", goal="make tea", condition="tea is in the cup")
GOAL = Predicate(text="tea is in the cup", kind="goal")
BOILED, POURED = Predicate(text="water is boiled"), Predicate(text="water is poured")
VIEW = Evidence(view="a kettle on the stove")
FILLED = Turn(action="fill the kettle", observation="The kettle is full of water.")


class Kitchen(Benchmark):
    """A benchmark without operators of its own, whose world is not opened."""

    name = "kitchen"
    limits = Limits(plan=3, options=4)

    def tasks(self, split: str = "") -> list[Task]:
        return [TASK]

    def open(self, task: Task) -> Environment:
        raise AssertionError("no operator opens a world")


class Model:
    """Gives the answers in their order, and keeps what was sent: the prompts and the fields of the forms."""

    def __init__(self, *answers: Any) -> None:
        self.left, self.prompts, self.fields = list(answers), list[str](), list[set[str]]()

    def __call__(self, prompt: str, schema: dict[str, Any]) -> Any:
        self.prompts.append(prompt)
        self.fields.append({*schema["properties"]})
        return self.left.pop(0)


def call(operator: Operator, view: Any, model: Model, listed: Sequence[str] = ()) -> dict[str, Any]:
    """The operator's update on a view, in a world that lists these actions."""
    chat = ScriptedChat(responder=model)
    context = Context(benchmark=Kitchen(), chat=chat, admissible=(lambda: [*listed]) if listed else None)
    with metering(Meter("operator", context.budget, Spent())):
        update = asyncio.run(operator(view, Runtime(context=context, stream_writer=lambda chunk: None)))
    assert not model.left, "every answer was asked for"
    return update


# SDP: propose, realize, validate, replan

PROPOSE = {"task": TASK, "certified": CertifiedState()}


@pytest.mark.parametrize(
    ("conditions", "planned", "cut"),
    [
        (["water is boiled", " water is poured "], ["water is boiled", "water is poured", GOAL.text], False),
        (["water is boiled", "water is boiled"], ["water is boiled", GOAL.text], False),
        (["water is boiled", GOAL.text], ["water is boiled", GOAL.text], False),
        (["a", "b", GOAL.text], ["a", "b", GOAL.text], False),
        (["a", "b", "c"], ["a", "b", "c", GOAL.text], True),
        (["a", "b", "c", "d"], ["a", "b", "c", GOAL.text], True),
    ],
)
def test_propose_plans_the_conditions_and_the_tasks_own_goal(conditions: list[str], planned: list[str], cut: bool):
    plan = call(sdp.propose, PROPOSE, Model({"conditions": conditions}))["plan"]
    assert [predicate.text for predicate in plan] == planned
    assert [predicate.kind for predicate in plan] == ["condition"] * (len(plan) - 1) + ["goal"]
    assert (CUT_ARGUMENT in plan[-1].args) is cut


@pytest.mark.parametrize(
    ("reason", "update"), [("no kettle", {"plan": [], "gave_up": "no kettle"}), ("", {"plan": []})]
)
def test_propose_without_conditions_gives_up_with_its_reason(reason: str, update: dict[str, Any]):
    assert call(sdp.propose, PROPOSE, Model({"reasoning": reason, "conditions": []})) == update


REALIZE = {
    "task": TASK,
    "certified": CertifiedState(),
    "target": BOILED,
    "ahead": [POURED, GOAL],
    "evidence": VIEW,
    "turns": (FILLED,),
    "facts": (Fact(text="the stove is hot", step=1),),
    "observation": Observation(text="The kettle is full of water."),
    "upcoming": (),
    "untaken": (),
    "attempts": [],
    "belief": Belief(),
    "advice": (),
}


def test_realize_writes_actions_where_none_are_listed_and_the_first_is_taken():
    model = Model({"target": "open", "action": "boil", "then": ["wait", " "]})
    update = call(sdp.realize(), REALIZE, model)
    assert update == {"action": Action(text="boil"), "upcoming": (Action(text="wait"),)}
    assert all(shown in model.prompts[0] for shown in (BOILED.text, FILLED.observation, VIEW.view, "the stove is hot"))


@pytest.mark.parametrize(
    ("answer", "action"),
    [({"target": "unreachable", "action": ""}, UNREACHABLE_ACTION), ({"target": "holds", "action": " "}, CHECK_ACTION)],
)
def test_realize_may_say_that_a_target_holds_or_cannot_be_reached(answer: dict[str, Any], action: Action):
    assert call(sdp.realize(), REALIZE, Model(answer)) == {"action": action}


@pytest.mark.parametrize(("chosen", "taken"), [("heat kettle", Action(text="heat kettle")), (NOTHING, CHECK_ACTION)])
def test_realize_chooses_its_first_action_among_listed_ones_or_none(chosen: str, taken: Action):
    update = call(sdp.realize(), REALIZE, Model({"target": "open", "choice": chosen}), ["heat kettle", "wait"])
    assert update == {"action": taken}


@pytest.mark.parametrize("chosen", ["heat kettle", CHECK_ACTION.text])
def test_one_action_is_chosen_among_listed_ones_or_the_target_checked(chosen: str):
    update = call(sdp.realize_one, REALIZE, Model({"reasoning": "", "choice": chosen}), ["heat kettle", "wait"])
    assert update == {"action": CHECK_ACTION if chosen == CHECK_ACTION.text else Action(text=chosen)}


VALIDATE = {
    "task": TASK,
    "tail": [BOILED, POURED, GOAL],
    "action": Action(text="boil"),
    "observation": Observation(text="The water boils."),
    "turns": (Turn(action="boil", observation="The water boils."),),
    "trace": (FILLED, Turn(action="boil", observation="The water boils.")),
    "upcoming": (),
    "announced": (BOILED.text,),
    "sightings": (),
    "since": 0,
    "evidence": VIEW,
    "facts": (Fact(text="the water is cold", step=1),),
}


@pytest.mark.parametrize(("holds", "depth", "unreachable"), [(0, 0, True), (1, 1, True), (9, 3, False)])
def test_validate_counts_conditions_of_the_plan_and_quotes_the_world_only(holds: int, depth: int, unreachable: bool):
    answer = {
        "reason": "it boils",
        "holds": holds,
        "reachable": False,
        "established": ["steam rises"],
        "outdated": [1, 7],
    }
    verdict = call(sdp.validate_always, VALIDATE, Model({**answer, "evidence": "The water boils."}))["verdict"]
    assert (verdict.depth, verdict.unreachable, verdict.decided_by) == (depth, unreachable, "model")
    assert (verdict.evidence, verdict.facts, verdict.outdated) == (
        "The water boils.",
        ("steam rises",),
        ("the water is cold",),
    )
    invented = call(sdp.validate_always, VALIDATE, Model({**answer, "evidence": "The cup is full."}))["verdict"]
    assert invented.evidence == ""


@pytest.mark.parametrize(("holds", "since"), [(0, ()), (2, (1, 2)), (9, (1, 2, 0))])
def test_validate_judges_what_was_announced_and_says_since_when_it_holds(holds: int, since: tuple[int, ...]):
    answer = {"reason": "it boils", "holds": holds, "reachable": False, "evidence": "full of water", "since": [1, 2, 7]}
    verdict = call(sdp.validate, VALIDATE, Model(answer))["verdict"]
    assert (verdict.depth, verdict.since, verdict.decided_by) == (min(holds, 3), since, "model")
    assert verdict.evidence == "full of water", "all that was answered is evidence"
    nobody = {**VALIDATE, "announced": ()}
    assert call(sdp.validate, nobody, Model())["verdict"] == Verdict(depth=0, pending=True)


FAILED = Attempt(
    position=1, target=POURED, action=Action(text="pour"), digest="d", verdict=Verdict(depth=0, reason="dry")
)
REPLAN = {
    "task": TASK,
    "certified": CertifiedState(predicates=(BOILED,)),
    "plan": (BOILED, POURED, GOAL),
    "head": 1,
    "certificates": (),
    "attempts": (FAILED,),
    "turns": (FILLED,),
    "facts": (),
    "evidence": VIEW,
    "replans": 0,
    "audits": (),
    "invalidations": (),
    "denied": None,
    "undone": (),
}


def test_replan_plans_from_the_certified_state_with_the_failed_tries_in_sight():
    model = Model({"conditions": ["the cup is found"]})
    assert [one.text for one in call(sdp.replan, REPLAN, model)["plan"]] == ["the cup is found", GOAL.text]
    assert all(shown in model.prompts[0] for shown in (BOILED.text, "dry", POURED.text, VIEW.view))
    assert call(sdp.replan, REPLAN, Model({"reasoning": "no cup", "conditions": []})) == {
        "plan": [],
        "gave_up": "no cup",
    }
    assert call(sdp.give_up, REPLAN, Model()) == {"plan": []}


# ReAct and STEP: decide, plan the next subtask, assess it

DECIDE = {
    "task": TASK,
    "assignment": "make tea",
    "steps": 1,
    "rounds": 1,
    "most_rounds": 0,
    "turns": (FILLED,),
    "evidence": VIEW,
    "advice": (),
    "belief": Belief(),
    "observation": Observation(text="The kettle is full of water."),
}


def test_decide_chooses_among_few_listed_actions_and_takes_a_single_one_without_a_model():
    answer = Model({"thought": "hot", "choice": "heat kettle"})
    update = call(react.decide(), DECIDE, answer, ["heat kettle", "wait"])
    assert (update["action"].text, update["thought"]) == ("heat kettle", "hot")
    assert call(react.decide(), DECIDE, Model(), ["wait"])["action"].text == "wait"


def test_decide_writes_an_action_where_none_are_listed():
    update = call(react.decide(), DECIDE, Model({"thought": "hot", "action": "heat the kettle"}))
    assert (update["action"].text, update["thought"]) == ("heat the kettle", "hot")


def test_decide_may_give_actions_ahead():
    answer = {"thought": "hot", "action": "heat the kettle", "then": ["wait", {"action": "pour"}]}
    update = call(react.decide(ahead=2), DECIDE, Model(answer))
    assert [one.text for one in (update["action"], *update["upcoming"])] == ["heat the kettle", "wait", "pour"]
    following = {**DECIDE, "upcoming": update["upcoming"]}
    assert call(react.decide(ahead=2), following, Model())["action"].text == "wait"


PLANNER = {"task": TASK, "evidence": VIEW, "turns": (FILLED,), "subtasks": (), "insights": (), "strategy": ()}


def test_the_planner_of_step_gives_a_subtask_with_the_insights_that_it_names():
    assert call(step.planner, PLANNER, Model({"rationale": "", "subtask": "boil water"})) == {
        "subtask": StepSubtask(text="boil water")
    }
    view = {**PLANNER, "insights": ("stoves are hot", "cups break")}
    model = Model({"rationale": "", "subtask": "boil water", "insights": [2, 2, 9, 0]})
    assert call(step.planner, view, model)["subtask"].insights == ("cups break",)
    whole = call(step.none, view, Model())["subtask"]
    assert (whole.text, whole.insights, whole.whole) == (TASK.goal, view["insights"], True)


@pytest.mark.parametrize(
    ("completed", "blocked", "status"),
    [(True, False, "completed"), (True, True, "completed"), (False, True, "failed"), (False, False, "open")],
)
def test_assess_judges_the_subtask_and_never_sees_the_task(completed: bool, blocked: bool, status: str):
    boil = StepSubtask(text="boil water")
    view = {"task": TASK, "subtask": boil, "turns": (FILLED,), "begun": 0, "evidence": VIEW, "upcoming": ()}
    model = Model({"reason": "steam", "completed": completed, "blocked": blocked})
    update = call(step.assess, {**view, "action": Action(text="fill the kettle")}, model)
    assert update == {"subtask": boil.model_copy(update={"status": status, "reason": "steam"})}
    assert TASK.goal not in model.prompts[0]


# TDP: plan a sub-task, supervise it, revise the graph

ASSIGNMENT = {"task": TASK, "assignment": "boil water", "known": ("the kettle is full",), "evidence": VIEW}


def test_plan_is_the_steps_of_a_subtask_up_to_its_limit():
    model = Model({"steps": [" heat ", "wait"]})
    assert call(plans.plan, {**ASSIGNMENT, "steps": 0}, model)["outline"] == ("heat", "wait")
    assert all(shown in model.prompts[0] for shown in ("boil water", "the kettle is full"))
    cut = call(plans.plan, {**ASSIGNMENT, "steps": 0}, Model({"steps": ["a", "b", "c", "d"]}))["outline"]
    assert cut[:3] == ("a", "b", "c") and "d" not in cut and len(cut) == 4


@pytest.mark.parametrize("status", ["completed", "needs_more_steps", "failed"])
def test_supervise_keeps_a_result_of_completed_subtasks_only(status: Any):
    view = {**ASSIGNMENT, "outline": ("heat",), "turns": (FILLED,), "belief": Belief(), "last": False}
    view |= {"action": Action(text="heat"), "progress": Progress(), "taken": 1}
    model = Model(
        {"reason": "steam", "status": status, "off_plan": True, "done": 1, "guidance": "go on", "result": "hot"}
    )
    expected = Progress(status=status, reason="steam", off_plan=True, done=1, guidance="go on")
    result = "hot" if status == "completed" else ""
    assert call(plans.supervise_always, view, model) == {"progress": expected.model_copy(update={"result": result})}


# The memory of a search agent: extract

MEMORY = {
    "task": TASK,
    "belief": Belief(form="structured", facts=(BelievedFact(text="cups break"),), questions=("where is the cup?",)),
    "observation": Observation(text="The cup is on the shelf."),
}


def test_extraction_adds_facts_and_closes_questions():
    found = {
        "facts": [{"fact": "the cup is on\nthe shelf", "source": "p1"}],
        "resolved": ["1"],
        "questions": ["which shelf?"],
    }
    model = Model(found)
    belief = call(beliefs.structured(), MEMORY, model)["belief"]
    assert [(fact.text, fact.source) for fact in belief.facts] == [
        ("cups break", ""),
        ("the cup is on the shelf", "p1"),
    ]
    assert belief.questions == ("which shelf?",)
    assert all(shown in model.prompts[0] for shown in ("cups break", "where is the cup?", "The cup is on the shelf."))


def test_extraction_of_an_empty_observation_calls_no_model_and_keeps_the_belief():
    belief = call(beliefs.structured(), {**MEMORY, "observation": Observation(text=" ")}, Model())["belief"]
    assert (belief.facts, belief.questions) == (MEMORY["belief"].facts, MEMORY["belief"].questions)
    assert call(beliefs.native, MEMORY, Model()) == {"belief": MEMORY["belief"]}
    assert call(beliefs.lobotomized, MEMORY, Model()) == {"belief": Belief(form="lobotomized", window=1)}
