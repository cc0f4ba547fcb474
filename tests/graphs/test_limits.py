"""Limits of a method's own: they follow the number of steps, and a run that one of them ends says so and goes on."""

from pathlib import Path
from typing import Any

import pytest
from helpers.sample_runs.recorded_runs import replay_of

from certigraph import Limits, resume, run
from certigraph.adapters.benchmarks import load_benchmark
from certigraph.adapters.models.scripts import ScriptedChat, current_situation
from certigraph.adapters.protocols import Budget, Context
from certigraph.benchmarks.blocksworld.benchmark import BlocksWorld
from certigraph.benchmarks.blocksworld.expert import answer_request
from certigraph.evaluation.frames import RecordedRun, frames_of
from certigraph.graphs import step
from certigraph.nodes.actions import NOTHING
from certigraph.runtime.history import RunHistory, read_history
from certigraph.runtime.registry import build_graph, parse_swap
from certigraph.runtime.result import Result
from certigraph.state.endings import LimitReached
from certigraph.state.records import Predicate
from certigraph.state.sdp import build_plan, needs_rest_of_plan

GOAL = Predicate(text="goal", kind="goal")

TOWER = "tower-12"
"""22 moves."""


def limited(graph: Any, out: Path, task: str = TOWER, model: Any = answer_request, **limits: int) -> Result:
    """A run of the expert, or of another script, under limits of its own."""
    # whole histories of thirty blocks take more than the default two million tokens
    budget = Budget(tokens=20_000_000)
    context = Context(chat=ScriptedChat(responder=model), limits=Limits(**limits), budget=budget)
    return run(graph, BlocksWorld(), task, context=context, out=out)


# --- the numbers


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        (1, {"plan": 40, "subtasks": 16, "failures": 8, "nodes": 8, "revisions": 8}),
        (60, {"plan": 60, "subtasks": 60, "failures": 15, "nodes": 8, "revisions": 8}),
        (500, {"plan": 500, "subtasks": 500, "failures": 125, "nodes": 62, "revisions": 62}),
    ],
)
def test_limits_that_are_not_set_follow_the_steps(steps: int, expected: dict[str, int]):
    effective = Limits(steps=steps).effective()
    assert {name: getattr(effective, name) for name in expected} == expected


def test_limits_that_are_set_stay_as_they_are_also_where_steps_change():
    given = Limits(plan=3, subtasks=2, failures=1, nodes=5, revisions=0)
    assert given.model_copy(update={"steps": 900}).effective().model_dump() == given.model_dump() | {"steps": 900}
    assert Limits(nodes=20).effective().revisions == 20
    assert Limits.model_validate_json('{"subtasks":16,"failures":8,"nodes":8,"revisions":8}').effective().nodes == 8


def test_what_steps_public_code_fixes_for_scienceworld_stays():
    limits = load_benchmark("scienceworld").limits
    assert (limits.subtasks, limits.failures) == (16, 8)


# --- plans


@pytest.mark.parametrize(
    ("texts", "conditions", "cut"),
    [
        (["a", "b", "goal"], ["a", "b"], False),
        (["a", "b", "c"], ["a", "b", "c"], True),  # as long as it may be and no goal: a grammar may have cut it
        (["a", "b", "c", "d", "goal"], ["a", "b", "c"], True),
        (["a"], ["a"], False),
        (["goal"], [], False),
    ],
)
def test_a_plan_that_reaches_its_limit_is_marked(texts: list[str], conditions: list[str], cut: bool):
    plan = build_plan(texts, GOAL, 3)
    assert [p.text for p in plan] == [*conditions, "goal"]
    assert needs_rest_of_plan({"plan": plan, "head": len(plan) - 1}) is cut  # type: ignore[typeddict-item]
    assert build_plan([], GOAL, 3) == []


@pytest.mark.slow
@pytest.mark.parametrize("most", [1, 5, 21])
def test_a_plan_that_is_cut_is_extended_once_it_is_certified(most: int, tmp_path: Path):
    whole, cut = limited("sdp", tmp_path), limited("sdp", tmp_path, plan=most)
    assert (cut.ending, cut.scores.value if cut.scores else 0) == ("goal", 1.0)
    assert len(cut.state["history"]) == len(whole.state["history"]) == 22
    texts = [target.text for c in cut.certificates for target in c.targets]
    assert texts == [target.text for c in whole.certificates for target in c.targets]
    assert cut.state["replans"] == 0  # no try was used up


@pytest.mark.slow
def test_views_count_an_extension_neither_as_a_replan_nor_as_tries_used_up(tmp_path: Path):
    watched = RunHistory()
    context = Context(chat=ScriptedChat(responder=answer_request), limits=Limits(plan=2))
    result = run("sdp", BlocksWorld(), "6-0", context=context, out=tmp_path, listener=watched.take)
    assert (result.ending, result.state["replans"]) == ("goal", 0)
    runs = frames_of([RecordedRun("sdp", "6-0", 0, result.trajectory)]).runs
    assert runs.iloc[0].replans == 0 and runs["first_exhaustion"].isna().all()
    assert replay_of(result.trajectory).exhausted_at is None
    assert (watched.plan.replans, read_history(result.trajectory).plan.replans) == (0, 0)


@pytest.mark.slow
def test_an_extension_is_not_a_replan_that_a_limit_could_forbid(tmp_path: Path):
    assert limited("sdp", tmp_path, plan=5, replans=0, attempts=1).ending == "goal"


@pytest.mark.slow
def test_a_run_that_ended_by_its_plan_goes_on_with_a_longer_one(tmp_path: Path):
    def no_rest(prompt: str, form: dict[str, Any]) -> Any:
        situation = current_situation()
        assert situation
        extending = situation.node == "replan" and needs_rest_of_plan(situation.view)  # type: ignore[arg-type]
        return {"conditions": []} if extending else answer_request(prompt, form)

    stopped = limited("sdp", tmp_path, model=no_rest, plan=5)
    assert stopped.ending == "limit:plan"
    chat = ScriptedChat(responder=answer_request)
    assert resume(stopped.folder, limits=Limits(plan=50), benchmark=BlocksWorld(), chat=chat).ending == "goal"


def test_a_plan_of_tdp_inside_which_a_plan_ends_goes_on_with_another_sub_task(tmp_path: Path):
    def planning(prompt: str, form: dict[str, Any]) -> Any:
        answers = {
            "conditions": {"conditions": ["a", "b"]},
            "holds": {"reason": "it does", "holds": 1},
            "established": {"target": "holds", "choice": NOTHING},
        }
        fields = [name for name in answers if name in form.get("properties", {})]
        return answers[fields[0]] if fields else answer_request(prompt, form)

    graph = build_graph("tdp", dict([parse_swap("solve=sdp:replan=give_up")]))
    result = limited(graph, tmp_path, "4-0", model=planning, plan=1)
    (outcome,) = result.state["outcomes"]
    assert (outcome.status, "limit:plan" in outcome.result) == ("failed", True)
    assert (result.ending, "limit:plan" in result.message) == ("gave_up", True)


@pytest.mark.slow
@pytest.mark.parametrize("graph", ["plan_and_solve", "cot"])
def test_an_outline_is_as_long_as_the_task_and_says_where_it_was_cut(graph: str, tmp_path: Path):
    whole, cut = limited(graph, tmp_path), limited(graph, tmp_path, plan=5)
    assert len(whole.state["outline"]) == 22
    assert len(cut.state["outline"]) == 6
    assert "5 steps" in cut.state["outline"][-1]
    assert (whole.ending, cut.ending) == ("goal", "goal")


# --- STEP's subtasks


@pytest.mark.slow
def test_step_takes_as_many_subtasks_as_the_task_has_actions(tmp_path: Path):
    result = limited("step", tmp_path)
    assert (result.ending, len(result.state["trials"]), len(result.state["subtasks"])) == ("goal", 1, 21)


@pytest.mark.slow
def test_an_episode_that_subtasks_ended_is_not_repeated_if_nothing_was_learnt(tmp_path: Path):
    stopped = limited("step", tmp_path, subtasks=4)
    assert stopped.ending == "limit:subtasks"
    assert "--budget subtasks=10" in stopped.message
    assert [(t.ending, t.steps) for t in stopped.state["trials"]] == [("limit:subtasks", 5)]
    again = resume(stopped.folder, benchmark=BlocksWorld(), chat=ScriptedChat(responder=answer_request))
    assert (again.ending, again.usage.calls) == ("limit:subtasks", stopped.usage.calls)
    more = Limits(subtasks=30)
    went_on = resume(stopped.folder, limits=more, benchmark=BlocksWorld(), chat=ScriptedChat(responder=answer_request))
    assert (went_on.ending, [t.ending for t in went_on.state["trials"]]) == ("goal", ["limit:subtasks", "goal"])


@pytest.mark.slow
def test_an_episode_that_taught_something_is_followed_by_others_up_to_their_number(tmp_path: Path):
    episodes = iter(range(100))

    def learning(prompt: str, form: dict[str, Any]) -> Any:
        insights = "insights" in form["properties"] and "subtask" not in form["properties"]
        return {"insights": [f"X{next(episodes)} MAY BE NECESSARY to Y"]} if insights else answer_request(prompt, form)

    stopped = limited("step", tmp_path, model=learning, subtasks=4, trials=3)
    assert (stopped.ending, len(stopped.state["trials"])) == ("limit:subtasks", 3)


def test_whoever_invokes_the_graph_gets_the_limit_as_an_exception():
    context = Context(limits=Limits(subtasks=4))
    with pytest.raises(LimitReached, match=r"subtasks.* Limits\(subtasks=10\)") as reached:
        step.build().invoke({"task": BlocksWorld().task(TOWER)}, context=context)
    assert "--budget" not in str(reached.value)


def test_episodes_that_use_up_their_steps_say_so(tmp_path: Path):
    result = limited("reflexion", tmp_path, steps=3, trials=2)
    assert (result.ending, [t.ending for t in result.state["trials"]]) == ("gave_up", ["limit:steps"] * 2)
    assert "none of 2 episodes" in result.message
    assert "--budget steps=6" in result.message


# --- steps


BY_RULES = ("extract=state_by_rules", "interpret=goal_by_rules")
"""Swaps that read states without a model."""


@pytest.mark.slow
@pytest.mark.parametrize("graph", ["react", "plan_and_solve", "plan_and_act", "cot", "mcts", "sdp"])
def test_a_run_that_uses_up_its_steps_says_so_and_goes_on_with_more(graph: str, tmp_path: Path):
    swaps = dict(map(parse_swap, BY_RULES if graph == "mcts" else ()))
    stopped = limited(build_graph(graph, swaps), tmp_path, "4-0", steps=2)
    assert (stopped.ending, "--budget steps=4" in stopped.message) == ("limit:steps", True)
    chat = ScriptedChat(responder=answer_request)
    went_on = resume(stopped.folder, limits=Limits(steps=60), benchmark=BlocksWorld(), chat=chat)
    assert (went_on.ending, went_on.scores.value if went_on.scores else 0) == ("goal", 1.0)


@pytest.mark.slow
def test_the_last_sub_task_of_tdp_ends_the_run_by_its_steps(tmp_path: Path):
    graph = build_graph("tdp", dict([parse_swap("decompose=undivided")]))
    stopped = limited(graph, tmp_path, steps=21)
    assert stopped.ending == "limit:steps"


# --- many blocks


@pytest.mark.slow
@pytest.mark.parametrize(
    ("graph", "task", "steps"),
    [("sdp", "15-0", 80), ("react", "20-0", 120)]
    + [(graph, "tower-30", 60) for graph in ("sdp", "tdp", "step", "react", "plan_and_solve")],
)
def test_a_world_of_many_blocks_is_shown_whole(graph: str, task: str, steps: int, tmp_path: Path):
    assert limited(graph, tmp_path, task, steps=steps).ending == "goal"
