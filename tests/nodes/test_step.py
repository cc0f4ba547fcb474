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
from certigraph.nodes.rules import is_named_by
from certigraph.nodes.step import MAX_REFUSALS, align, align_always, execute_subtask
from certigraph.runtime.result import Result
from certigraph.runtime.run import run
from certigraph.state.records import Action, Observation, Scores, Task
from certigraph.state.run import Belief, Evidence, Turn
from certigraph.state.step import Approval, Lesson

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
        "observation": Observation(text="SEEN"),
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


ACTING = pytest.mark.parametrize("operator", [execute_subtask(), decide(), execute], ids=["step", "react", "execute"])


def refused(action: str) -> dict[str, Any]:
    """What an operator sees after the world refused an action."""
    return {
        "turns": (Turn(action=action, observation="?", accepted=False),),
        "observation": Observation(text="?", accepted=False),
    }


@ACTING
@pytest.mark.parametrize("written", ["focus on the water", "pick up the thing number 7", "fetch the kettle"])
def test_an_action_is_sent_as_it_is_written(operator: Operator, written: str):
    scripted_model = Writer(written)
    action = call_operator(operator, scripted_model, KITCHEN)["action"]
    assert (action.text, action.written, len(scripted_model.requests)) == (written, "", 1)


@ACTING
def test_what_the_world_refused_is_taken_by_the_name_that_it_lists_without_a_question(operator: Operator):
    nobody = SupervisorModel()
    listed = [*KITCHEN, "examine substance in metal pot"]
    action = call_operator(operator, nobody, listed, **refused("examine the water"))["action"]
    assert (action.text, action.written) == ("examine substance in metal pot", "examine the water")
    assert not nobody.prompts


@ACTING
@pytest.mark.parametrize("written", ["focus on the water", "fetch the kettle"])
def test_what_was_refused_and_means_nothing_that_the_world_lists_is_asked_for_again(operator: Operator, written: str):
    scripted_model = Writer("wait")
    action = call_operator(operator, scripted_model, KITCHEN, **refused(written))["action"]
    assert (action.text, len(scripted_model.requests)) == ("wait", 1)


def test_clin_is_offered_five_matches_of_what_it_writes():
    clin = Writer("pick up the thing number 7", "pick up thing 7")
    assert call_operator(decide_freely(accept=1), clin, KITCHEN)["action"].text == "pick up thing 7"
    assert len(offered(clin)) == CLIN_MATCHES + 1 == 6


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
        assert (again["action"].text, "upcoming" in again, len(model.prompts)) == ("wait", False, 1)


@pytest.mark.parametrize("standing", [None, "continues", "completes", "reached"])
def test_the_answer_to_a_question_of_the_world_keeps_what_was_noted_of_the_subtask(standing: str | None):
    question = Observation(text="Which?", accepted=False, data={"options": ["pick up seed"] * 2})
    update = call_operator(execute_subtask(), SupervisorModel(), KITCHEN, standing=standing, observation=question)
    kept = "completes" if standing == "completes" else "continues"
    assert (update["action"].text, update["action"].args) == ("pick up seed", {"standing": kept})


def test_an_executor_that_chooses_from_a_list_may_write_what_follows():
    model = SupervisorModel({"thought": "", "standing": "completes", "report": "", "choice": "wait", "then": ["wait"]})
    update = call_operator(execute_subtask(), model, ["activate sink", "wait"])
    assert (update["action"].text, [one.text for one in update["upcoming"]]) == ("wait", ["wait"])
    assert update["upcoming"][0].args["standing"] == "completes"


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
        assert model.schemas[0]["properties"].get("then", {}).get("maxItems", 0) == ahead
        assert [action.text for action in update.get("upcoming", ())] == ["activate sink"] * ahead


def test_a_model_with_a_small_window_gives_the_same_answer_in_bounds():
    model = SupervisorModel(move("wait", "continues", *["activate sink"] * 5))
    update = call_operator(execute_subtask(), model, KITCHEN, window=4_096)
    parts = model.schemas[0]["properties"]
    assert list(parts) == ["thought", "standing", "report", "action", "then"]
    assert parts["thought"]["maxLength"] < parts["action"]["maxLength"]
    assert [action.text for action in update["upcoming"]] == ["activate sink"] * 5


# Whole runs: which calls are made, and what ends a subtask.


class Stove(Environment):
    """A world in which every action works but `activate stove`; `burn` loses points, and `serve` solves the task."""

    def __init__(self) -> None:
        self.taken: list[str] = []

    def reset(self) -> Observation:
        self.taken.clear()
        return Observation(text="A kitchen.")

    def step(self, action: Action) -> Observation:
        self.taken.append(action.text)
        if action.text == "take soil":
            return Observation(text="Which soil?", accepted=False, data={"options": ["take soil in pot"] * 2})
        if action.text == "burn":
            return Observation(text="DONE burn", reward=-0.1)
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

    def __init__(
        self, *moves: dict[str, Any], completed: bool = True, blocked: bool = False, forbidden: bool = False
    ) -> None:
        self.moves, self.verdict = iter(moves), {"reason": "JUDGED", "completed": completed, "blocked": blocked}
        self.ruling = {"reason": "RULED-OUT", "forbidden": forbidden}
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
            "forbidden": self.ruling,
        }
        return next(self.moves) if kind == "action" else answers[kind]

    @property
    def kinds(self) -> list[str]:
        return [kind for kind, _ in self.requests]

    def prompts(self, kind: str) -> list[str]:
        return [prompt for one, prompt in self.requests if one == kind]


def taught(*rules: str) -> Any:
    """An operator `recall` that knows rules of an earlier episode."""

    def recall(state: Any) -> Any:
        return {"lessons": (Lesson(trial=1, report="", insights=rules),)}

    return recall


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


def test_a_chain_that_was_cut_does_not_complete_its_subtask(tmp_path: Path):
    cook = Cook(move("burn", "completes", "mix"), move("mix", "completes"), move("serve"))
    result = cooked(cook, tmp_path)
    assert [turn.action for turn in result.state["turns"]] == ["burn", "mix", "serve"], "burning loses points"
    assert cook.kinds == ["subtask", "action", "action", "subtask", "action"]


def test_the_paper_checks_every_action_before_it_and_judges_after_it(tmp_path: Path):
    cook = Cook(move("chop"), move("mix"), move("serve"), completed=False)
    graph = step.build(**step.PAPER, recall=taught("the stove DOES NOT CONTRIBUTE to X"))
    assert cooked(cook, tmp_path, graph).ending == "goal"
    assert cook.kinds == ["subtask", *["action", "forbidden", "completed"] * 2, "action", "forbidden"]
    untaught = Cook(move("chop"), move("mix"), move("serve"), completed=False)
    assert cooked(untaught, tmp_path, step.build(**step.PAPER)).ending == "goal"
    assert untaught.kinds == ["subtask", *["action", "completed"] * 2, "action"], "there are no rules to check"


@pytest.mark.parametrize("operators", [{}, step.PAPER], ids=["default", "paper"])
def test_nothing_is_asked_when_no_action_is_left(tmp_path: Path, operators: Any):
    cook = Cook(*[move("chop")] * 3, completed=False)
    result = cooked(cook, tmp_path, step.build(**operators), steps=2, substeps=2)
    assert (result.ending, len(result.state["turns"])) == ("gave_up", 2)
    assert cook.kinds.count("action") == 2 and cook.kinds[-1] == "action"


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


SINK, POTS = "focusing on the sink", "looking at flower pots"


@pytest.mark.parametrize(
    ("subject", "named", "not_named"),
    [
        (SINK, ["focus on sink", "focus on the sink"], ["focus on substance in metal pot", "activate sink"]),
        (POTS, ["look at flower pot 1", "examine flower pot"], ["move soil to flower pot 1", "look at stove", "look"]),
        ("moving soil into flower pots", ["move soil to flower pot 1", "put soil in pot"], ["look at soil"]),
        ("focusing on flower pot 2", ["focus on flower pot 2"], ["focus on flower pot 1"]),
        ("unknown substance B", ["focus on unknown substance B"], ["focus on unknown substance C", "wait"]),
        ("the broken stove", ["activate stove", "move pot to stove", "look at stove"], ["activate oven", "wait"]),
        ("The living room", ["go to living room", "look around the living room"], ["go to kitchen"]),
        ("taking the thermometer", ["pick up thermometer", "take thermometer"], ["put down thermometer"]),
        ("putting down the cup", ["drop cup", "put down cup"], ["pick up cup", "move cup to sink"]),
        ("turning on the stove", ["activate stove", "turn on stove"], ["deactivate stove", "open stove"]),
        ("activating the stove", ["turn on the stove"], ["look at stove", "turn off the stove"]),
        ("using the stove", ["activate stove", "move pot to stove", "use stove"], ["look at stove", "use oven"]),
        ("using the kitchen", [], ["teleport to kitchen", "go to kitchen"]),
        ("going to the kitchen", ["teleport to kitchen", "move to kitchen"], ["move pot to kitchen", "go to hallway"]),
        ("Exploring the art studio", ["go to art studio"], ["go to kitchen", "open cupboard"]),
        ("opening doors repeatedly", ["open door to kitchen"], ["close door to kitchen", "open cupboard"]),
        ("examining the stove", ["look at stove", "inspect stove"], ["activate stove"]),
        ("checking the inventory", ["inventory"], ["look around"]),
        ("looking around", ["look around"], ["look at stove"]),
        ("waiting", ["wait", "wait1"], ["look around"]),
        ("waiting for the water to boil", ["wait"], ["look at water"]),
        ("moving around", ["move to kitchen", "go to kitchen"], ["move pot to stove"]),
        ("skipping the thermometer", ["focus on thermometer"], ["focus on substance B"]),
        ("heating water", ["move water to stove"], ["activate stove"]),
        ("refunding order 17", ["refund(order=17)"], ["refund(order=18)"]),
        ("pick up, put down, stack and unstack", ["pick up a", "unstack a from b"], ["wait"]),
    ],
)
def test_a_rule_is_held_against_the_actions_that_it_speaks_of(subject: str, named: list[str], not_named: list[str]):
    rule = f"{subject} DOES NOT CONTRIBUTE to boiling water in the metal pot"
    assert {action: is_named_by(rule, action) for action in (*named, *not_named)} == {
        **dict.fromkeys(named, True),
        **dict.fromkeys(not_named, False),
    }


@pytest.mark.parametrize("rule", ["DO NOT open the fridge", "The agent SHOULD NOT open the fridge"])
def test_a_rule_in_another_form_is_read_too(rule: str):
    assert is_named_by(rule, "open fridge") and not is_named_by(rule, "close fridge")


RULE = "the stove DOES NOT CONTRIBUTE to X"


@pytest.mark.parametrize("rules", [(), (RULE,)], ids=["no rules", "a rule"])
def test_an_evaluator_of_the_users_sees_every_action(tmp_path: Path, rules: tuple[str, ...]):
    seen: list[str] = []

    def approve(state: Any) -> Any:
        seen.append(state["action"].text)
        return {"approval": Approval()}

    cook = Cook(move("chop", "continues", "mix"), move("serve"))
    assert cooked(cook, tmp_path, step.build(align=approve, recall=taught(*rules))).ending == "goal"
    assert seen == ["chop", "mix", "serve"]


def test_what_an_evaluator_refuses_is_never_taken(tmp_path: Path):
    def refuse(state: Any) -> Any:
        return {"approval": Approval(approved=False, reason="NO")}

    cook = Cook(*[move("chop", "continues", "mix")] * 20)
    result = cooked(cook, tmp_path, step.build(align=refuse), failures=1)
    assert result.state["turns"] == []
    kinds = [kind for kind in cook.kinds if kind in ("subtask", "action")]
    assert kinds == ["subtask", *["action"] * (MAX_REFUSALS + 1)] * 2, "the first one is refined, then it is over"
    assert [one.status for one in result.state["subtasks"]] == ["failed"] * 2
    assert "NO" in result.state["subtasks"][0].reason


def test_the_model_is_asked_about_actions_that_a_rule_speaks_of_and_once_about_each(tmp_path: Path):
    moves = [move("chop"), move("look at stove"), move("look at stove"), move("serve")]
    cook = Cook(*moves)
    assert cooked(cook, tmp_path, step.build(recall=taught(RULE))).ending == "goal"
    assert cook.kinds == ["subtask", "action", "action", "forbidden", "action", "action"]
    another = Cook(move("look at stove", "completes"), move("look at stove"), move("serve"))
    cooked(another, tmp_path, step.build(recall=taught(RULE)))
    assert another.kinds.count("forbidden") == 2, "in another subtask it may stand otherwise"


def test_a_refusal_is_remembered_until_the_next_subtask(tmp_path: Path):
    stove = move("look at stove", "continues", "chop")
    cook = Cook(stove, move("mix"), stove, move("serve"), forbidden=True)
    result = cooked(cook, tmp_path, step.build(recall=taught(RULE)))
    assert cook.kinds == ["subtask", "action", "forbidden", "action", "action", "action"]
    assert [turn.action for turn in result.state["turns"]] == ["mix", "serve"]
    assert all("RULED-OUT" in prompt for prompt in cook.prompts("action")[1:])
    stubborn = Cook(*[stove] * (MAX_REFUSALS + 1), move("serve"), forbidden=True)
    result = cooked(stubborn, tmp_path, step.build(recall=taught(RULE)))
    assert stubborn.kinds.count("forbidden") == 1
    assert [turn.action for turn in result.state["turns"]] == ["look at stove", "chop", "serve"]


def test_what_answers_a_question_of_the_world_is_not_checked_again(tmp_path: Path):
    cook = Cook(move("take soil"), move("serve"))
    result = cooked(cook, tmp_path, step.build(recall=taught("taking soil DOES NOT CONTRIBUTE to X")))
    assert [turn.action for turn in result.state["turns"]] == ["take soil", "take soil in pot", "serve"]
    assert cook.kinds.count("forbidden") == 1


@pytest.mark.parametrize(("begun", "times"), [(0, 0), (1, 1)], ids=["in this subtask", "before it"])
def test_a_corrected_action_is_not_checked_again_in_its_subtask(begun: int, times: int):
    model = SupervisorModel({"reason": "", "forbidden": True})
    corrected = Action(text="focus on substance in pot", args={"written": "focus on the water"})
    view = {
        "turns": (Turn(action="focus on the water", observation="?", accepted=False),),
        "begun": begun,
        "subtask": "S",
        "action": corrected,
        "rules": ("focusing on water DOES NOT CONTRIBUTE to X",),
        "options": (),
        "forbidden": {},
        "refused": 0,
    }
    assert call_operator(align, model, **view)["approval"].approved is not bool(times)
    assert len(model.prompts) == times
    assert not call_operator(align_always, model, **view)["approval"].approved
    assert len(model.prompts) == times + 1, "the paper's checks every action"


# The Planner.
