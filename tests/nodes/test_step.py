"""Planner, Executor and Evaluator of STEP: what they are shown, when they are called, and what their answers do."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from helpers.models.supervisor_models import SupervisorModel
from helpers.worlds.library_world import ScriptedModel
from helpers.worlds.records_world import Records
from langgraph.runtime import Runtime

from certigraph.adapters.models.scripts import ScriptedChat
from certigraph.adapters.protocols import Context, Environment, Limits, Operator
from certigraph.graphs import step
from certigraph.nodes.react import MAX_MATCHES as CLIN_MATCHES
from certigraph.nodes.react import decide, decide_freely, execute
from certigraph.nodes.step import assess, execute_subtask, is_named_by
from certigraph.runtime.result import Result
from certigraph.runtime.run import run
from certigraph.state.records import Action, Observation, Scores, Task
from certigraph.state.run import Belief, Evidence, Turn

# A kitchen that lists many actions; its view calls some things by other names than its list does.

KITCHEN = [
    *(f"pick up thing {n}" for n in range(40)),
    "move metal pot to sink",
    "activate sink",
    "focus on sink",
    "focus on drain",
    "focus on substance in metal pot",
    "wait",
]


class Kitchen(Records):
    """Records whose world lists the actions of a kitchen, and shows what is in its pot."""

    def __init__(self, contents: dict[str, str] | None = None, **limits: Any) -> None:
        super().__init__({}, **limits)
        self.contents = {"substance in metal pot": "water"} if contents is None else contents

    def shown_names(self, view: str) -> dict[str, str]:
        return self.contents


def call_operator(
    operator: Operator,
    scripted_model: Any,
    actions: Sequence[str] = (),
    world: Any = None,
    window: int = 0,
    **seen: Any,
) -> dict[str, Any]:
    """What an operator answers on a subtask with one turn behind it."""
    view = {
        "task": Task(benchmark="records", id="only", goal="boil water"),
        "assignment": "focus on the water",
        "steps": 1,
        "turns": (Turn(action="look", observation="SEEN"),),
        "evidence": Evidence(view="a pot (containing water)"),
        "advice": (),
        "belief": Belief(),
        "whole": False,
        "upcoming": (),
        "taken": 1,
        "standing": None,
        **seen,
    }
    context = Context(benchmark=world or Kitchen(), chat=ScriptedChat(responder=scripted_model), window=window)
    context.admissible = lambda: list(actions)
    return asyncio.run(operator(view, Runtime(context=context)))


def move(action: str, standing: str = "continues", *then: str, report: str = "") -> dict[str, Any]:
    return {"thought": "T", "standing": standing, "report": report, "action": action, "then": [*then]}


def offered(scripted_model: ScriptedModel) -> list[str]:
    return next(
        schema["properties"]["choice"]["enum"] for schema in scripted_model.schemas if "choice" in schema["properties"]
    )


class Writer(ScriptedModel):
    """A model that writes an action, and answers a second question about it; it keeps the schemas."""

    def __init__(self, written: str, choice: str = "none of these", instead: str = "") -> None:
        super().__init__()
        self.written, self.choice, self.instead = written, choice, instead
        self.schemas: list[dict[str, Any]] = []
        self.then: list[str] = []

    def __call__(self, prompt: str, schema: dict[str, Any]) -> Any:
        self.schemas.append(schema)
        self.requests.append((frozenset(schema["properties"]), prompt))
        if "choice" in schema["properties"]:
            return {"thought": "", "choice": self.choice, "action": self.instead}
        return move(self.written, "continues", *self.then)


ACTING = pytest.mark.parametrize("operator", [execute_subtask(), decide, execute], ids=["step", "react", "execute"])


@ACTING
def test_what_the_view_calls_by_another_name_is_matched_without_a_question(operator: Operator):
    scripted_model = Writer("focus on the water")
    action = call_operator(operator, scripted_model, KITCHEN)["action"]
    assert (action.text, action.args["written"]) == ("focus on substance in metal pot", "focus on the water")
    assert len(scripted_model.requests) == 1


@ACTING
def test_a_focus_is_never_taken_for_another_one_nor_is_another_thing_offered(operator: Operator):
    scripted_model = Writer("focus on boiling water")
    action = call_operator(operator, scripted_model, KITCHEN)["action"]
    assert offered(scripted_model) == ["focus on substance in metal pot", "none of these"]
    assert action.text == "focus on boiling water", "what was written, since none was meant"
    assert action.args["offered"] == ["focus on substance in metal pot"]
    nothing = Writer("focus on steam")
    assert call_operator(operator, nothing, KITCHEN)["action"].text == "focus on steam"
    assert len(nothing.requests) == 1


@ACTING
def test_a_focus_on_something_similar_is_a_question_however_similar_it_is(operator: Operator):
    scripted_model = Writer("focus on second large red round metal box")
    listed = [*KITCHEN, "focus on large red round metal box"]
    action = call_operator(operator, scripted_model, listed)["action"]
    assert offered(scripted_model) == ["focus on large red round metal box", "none of these"]
    assert action.text == "focus on second large red round metal box"


@ACTING
def test_two_things_of_one_name_are_offered_and_none_is_taken(operator: Operator):
    contents = {"substance in metal pot": "water", "substance in jug": "water"}
    scripted_model = Writer("focus on water", "focus on substance in jug")
    listed = [*KITCHEN, "focus on substance in jug"]
    action = call_operator(operator, scripted_model, listed, Kitchen(contents))["action"]
    assert offered(scripted_model) == ["focus on substance in metal pot", "focus on substance in jug", "none of these"]
    assert action.text == "focus on substance in jug"


@pytest.mark.slow
@ACTING
def test_who_meant_none_of_these_writes_another_action(operator: Operator):
    scripted_model = Writer("fetch the kettle", instead="move the metal pot to the sink")
    action = call_operator(operator, scripted_model, KITCHEN)["action"]
    assert action.text == "move metal pot to sink"
    assert action.args["written"] == "fetch the kettle"
    assert "none of these" in offered(scripted_model) and action.args["offered"] == offered(scripted_model)[:-1]


def test_the_executor_takes_exact_matches_alone_and_is_offered_ten_of_them():
    near = "pick up the thing number 7"
    scripted_model = Writer(near, "pick up thing 7")
    assert call_operator(execute_subtask(), scripted_model, KITCHEN)["action"].text == "pick up thing 7"
    assert len(offered(scripted_model)) == 11
    clin = Writer(near, "pick up thing 7")
    call_operator(decide_freely(accept=1), clin, KITCHEN)
    assert len(offered(clin)) == CLIN_MATCHES + 1 == 6


@pytest.mark.slow
def test_what_is_offered_is_ranked_by_its_things_with_every_second_one_of_its_verb():
    scripted_model = Writer("heat metal pot")
    call_operator(execute_subtask(), scripted_model, [*KITCHEN, "heat stone", "heat bread"])
    assert offered(scripted_model)[0] == "move metal pot to sink"
    pours = [f"pour blue cup into thing {n}" for n in range(40)]
    scripted_model = Writer("mix blue cup")
    call_operator(execute_subtask(), scripted_model, [*pours, "mix cup of paint"])
    assert offered(scripted_model)[0] == "mix cup of paint" and len(offered(scripted_model)) == 11


# The Executor's standing, and the actions that it gives at once.


def test_actions_that_were_given_at_once_are_taken_without_a_call_as_far_as_the_world_lists_them():
    model = SupervisorModel(move("wait", "completes", "activate sink", "wait"))
    first = call_operator(execute_subtask(), model, KITCHEN)
    assert [action.text for action in first["upcoming"]] == ["activate sink", "wait"]
    assert {action.args["standing"] for action in (first["action"], *first["upcoming"])} == {"completes"}
    nobody = SupervisorModel()
    second = call_operator(execute_subtask(), nobody, KITCHEN, upcoming=first["upcoming"])
    assert (second["action"], second["upcoming"]) == (first["upcoming"][0], first["upcoming"][1:])
    assert not nobody.prompts
    for unlisted in ("open fridge", "focus on steam"):
        model = SupervisorModel(move("wait"))
        again = call_operator(execute_subtask(), model, KITCHEN, upcoming=[Action(text=unlisted)])
        assert (again["action"].text, [*again["upcoming"]], len(model.prompts)) == ("wait", [], 1)


def test_what_was_to_follow_what_was_written_follows_it_if_no_listed_action_was_meant():
    for instead, follows in (("", ["wait"]), ("activate sink", [])):
        scripted_model = Writer("fetch the kettle", instead=instead)
        scripted_model.then = ["wait"]
        assert [one.text for one in call_operator(execute_subtask(), scripted_model, KITCHEN)["upcoming"]] == follows


def test_a_choice_among_one_is_not_a_question():
    nobody = SupervisorModel()
    for operator in (execute_subtask(), decide, execute):
        assert call_operator(operator, nobody, ["pick up seed"])["action"].text == "pick up seed"
    assert not nobody.prompts


@pytest.mark.parametrize("standing", [None, "continues", "completes"])
def test_the_answer_to_a_question_of_the_world_keeps_what_was_noted_of_the_subtask(standing: str | None):
    action = call_operator(execute_subtask(), SupervisorModel(), ["pick up seed"], standing=standing)["action"]
    assert action.args == {"standing": standing or "continues"}


def test_an_executor_that_takes_no_action_need_not_write_one():
    handed_back = SupervisorModel(move("", "reached", report="R"))
    assert call_operator(execute_subtask(), handed_back, KITCHEN)["action"].args == {
        "standing": "reached",
        "report": "R",
    }
    silent = SupervisorModel(move("", "continues"))
    assert call_operator(execute_subtask(), silent, KITCHEN)["action"].args == {"standing": "reached"}
    assert len(silent.prompts) == 1


def test_the_form_allows_as_many_actions_at_once_as_are_allowed():
    for ahead in (0, 2):
        model = SupervisorModel(move("wait", "continues", *["activate sink"] * 5))
        update = call_operator(execute_subtask(ahead=ahead), model, KITCHEN)
        assert model.schemas[0]["properties"]["then"]["maxItems"] == ahead
        assert [action.text for action in update["upcoming"]] == ["activate sink"] * ahead


def test_a_model_with_a_small_window_gives_the_same_answer_in_bounds():
    model = SupervisorModel(move("wait", "continues", *["activate sink"] * 5))
    update = call_operator(execute_subtask(), model, KITCHEN, window=4_096)
    parts = model.schemas[0]["properties"]
    assert list(parts) == ["thought", "standing", "report", "action", "then"]
    assert parts["thought"]["maxLength"] < parts["action"]["maxLength"]
    assert [action.text for action in update["upcoming"]] == ["activate sink"] * 5


# Whole runs: which calls are made, and what ends a subtask.


class Stove(Environment):
    """A world in which every action works but `activate stove`; `serve` solves the task."""

    def __init__(self) -> None:
        self.taken: list[str] = []

    def reset(self) -> Observation:
        self.taken.clear()
        return Observation(text="A kitchen.")

    def step(self, action: Action) -> Observation:
        self.taken.append(action.text)
        if action.text == "activate stove":
            return Observation(text="The stove appears broken.", accepted=False)
        done = action.text == "serve"
        return Observation(text=f"DONE {action.text}", done=done, solved=done, reward=float(done))

    def view(self) -> str:
        return "a kitchen"

    def score(self) -> Scores:
        return Scores(value=float("serve" in self.taken))


class Stoves(Records):
    def __init__(self, **limits: Any) -> None:
        super().__init__({}, **limits)

    def open(self, task: Task) -> Any:
        return Stove()


class Cook:
    """A model whose moves are given; its Planner numbers subtasks, its Evaluator answers as it is made."""

    def __init__(self, *moves: dict[str, Any], completed: bool = True, blocked: bool = False) -> None:
        self.moves, self.verdict = iter(moves), {"reason": "JUDGED", "completed": completed, "blocked": blocked}
        self.requests: list[tuple[str, str]] = []

    def __call__(self, prompt: str, schema: dict[str, Any]) -> Any:
        fields = schema["properties"]
        kind = next(
            name for name in ("subtask", "completed", "forbidden", "subtasks", "insights", "action") if name in fields
        )
        self.requests.append((kind, prompt))
        number = sum(one == "subtask" for one, _ in self.requests)
        answers = {
            "subtask": {"rationale": "", "subtask": f"SUBTASK-{number}", "insights": []},
            "completed": self.verdict,
        }
        return next(self.moves) if kind == "action" else answers[kind]

    @property
    def kinds(self) -> list[str]:
        return [kind for kind, _ in self.requests]

    def prompts(self, kind: str) -> list[str]:
        return [prompt for one, prompt in self.requests if one == kind]


def cooked(cook: Cook, tmp_path: Path, graph: Any = None, **limits: Any) -> Result:
    context = Context(chat=ScriptedChat(responder=cook), limits=Limits(**{"trials": 1, "steps": 20, **limits}))
    return run(graph or step.build(), Stoves(), "only", context=context, out=tmp_path)


def test_a_subtask_that_the_executor_calls_completed_is_checked_by_the_planner(tmp_path: Path):
    cook = Cook(move("chop"), move("mix", "completes"), move("serve"))
    result = cooked(cook, tmp_path)
    assert result.ending == "goal"
    assert cook.kinds == ["subtask", "action", "action", "subtask", "action"]
    assert [one.status for one in result.state["subtasks"]] == ["reported"]
    assert "DONE mix" in cook.prompts("subtask")[1]


def test_several_actions_cost_one_call(tmp_path: Path):
    cook = Cook(move("chop", "completes", "mix", "stir"), move("serve"))
    result = cooked(cook, tmp_path)
    assert [turn.action for turn in result.state["turns"]] == ["chop", "mix", "stir", "serve"]
    assert cook.kinds == ["subtask", "action", "subtask", "action"]


def test_a_subtask_whose_last_action_was_refused_is_not_completed(tmp_path: Path):
    cook = Cook(move("activate stove", "completes"), move("mix", "completes"), move("serve"))
    assert cooked(cook, tmp_path).ending == "goal"
    assert cook.kinds == ["subtask", "action", "action", "subtask", "action"]


def test_what_was_to_follow_a_refused_action_is_not_taken(tmp_path: Path):
    cook = Cook(move("activate stove", "completes", "mix"), move("serve"))
    result = cooked(cook, tmp_path, substeps=9)
    assert [turn.action for turn in result.state["turns"]] == ["activate stove", "serve"]


def test_the_paper_judges_after_every_action(tmp_path: Path):
    cook = Cook(move("chop"), move("mix"), move("serve"), completed=False)
    graph = step.build(executor=execute, assess=assess)
    assert cooked(cook, tmp_path, graph).ending == "goal"
    assert cook.kinds == ["subtask", "action", "completed", "action", "completed", "action"]


def test_an_executor_that_never_calls_it_completed_is_judged_when_its_actions_are_used_up(tmp_path: Path):
    cook = Cook(*[move(f"chop {n}") for n in range(3)], move("serve"))
    result = cooked(cook, tmp_path, substeps=3)
    assert cook.kinds == ["subtask", *["action"] * 3, "completed", "subtask", "action"]
    assert [one.status for one in result.state["subtasks"]] == ["completed"]


def test_a_subtask_that_is_handed_back_is_refined_at_once_with_the_reason(tmp_path: Path):
    cook = Cook(move("none", "blocked", report="The stove appears broken."), move("serve"))
    result = cooked(cook, tmp_path)
    assert cook.kinds == ["subtask", "action", "subtask", "action"]
    assert "The stove appears broken." in cook.prompts("subtask")[1]
    assert [turn.action for turn in result.state["turns"]] == ["serve"], "a subtask is handed back without an action"
    assert [one.status for one in result.state["subtasks"]] == ["failed"]


def test_a_subtask_that_the_evaluator_finds_blocked_is_refined_at_once(tmp_path: Path):
    cook = Cook(move("activate stove"), move("serve"), completed=False, blocked=True)
    result = cooked(cook, tmp_path, substeps=1)
    assert cook.kinds == ["subtask", "action", "completed", "subtask", "action"]
    assert [(one.status, one.reason) for one in result.state["subtasks"]] == [("failed", "JUDGED")]
    assert "JUDGED" in cook.prompts("subtask")[1]


def test_a_subtask_that_is_reached_already_costs_no_action(tmp_path: Path):
    cook = Cook(move("none", "reached", report="REPORTED"), move("serve"))
    result = cooked(cook, tmp_path)
    assert cook.kinds == ["subtask", "action", "completed", "subtask", "action"]
    assert "REPORTED" in cook.prompts("completed")[0]
    assert len(result.state["turns"]) == 1


def test_reports_that_the_evaluator_denies_do_not_go_on_for_ever(tmp_path: Path):
    cook = Cook(*[move("none", "reached")] * 3, move("serve"), completed=False)
    result = cooked(cook, tmp_path)
    assert cook.kinds == ["subtask", *["action", "completed"] * 3, "subtask", "action"]
    assert "JUDGED" in cook.prompts("action")[1], "the Executor learns why"
    assert [one.status for one in result.state["subtasks"]] == ["failed"]


# The Evaluator before an action.


@pytest.mark.parametrize(
    ("rule", "action", "named"),
    [
        ("focusing on the sink DOES NOT CONTRIBUTE to boiling", "focus on substance in metal pot", True),
        ("focusing on the sink DOES NOT CONTRIBUTE to boiling", "activate sink", True),
        ("focusing on the sink DOES NOT CONTRIBUTE to boiling", "open cupboard", False),
        ("using the stove DOES NOT CONTRIBUTE to boiling water in the pot", "move pot to oven", False),
        ("using the kitchen DOES NOT CONTRIBUTE to X", "teleport to kitchen", False),
        ("going to the kitchen DOES NOT CONTRIBUTE to X", "teleport to kitchen", True),
        ("examining the stove DOES NOT CONTRIBUTE to X", "look at stove", True),
        ("activating the stove DOES NOT CONTRIBUTE to X", "look at stove", False),
        ("waiting DOES NOT CONTRIBUTE to X", "wait", True),
        ("moving around DOES NOT CONTRIBUTE to X", "move to kitchen", True),
        ("the stove DOES NOT CONTRIBUTE to X", "move pot to stove", True),
    ],
)
def test_a_rule_is_held_against_the_actions_that_it_names(rule: str, action: str, named: bool):
    assert is_named_by(rule, action) is named


# The Planner.
