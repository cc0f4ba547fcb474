"""Tests of `graphs.reflexion`."""

import itertools
import json
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.store.memory import InMemoryStore

from certigraph.adapters.models.schemas import minimal_instance
from certigraph.adapters.models.scripts import ScriptedChat
from certigraph.adapters.protocols import Context, Limits
from certigraph.adapters.trajectories import read_trajectory
from certigraph.benchmarks.blocksworld.benchmark import BlocksWorld
from certigraph.benchmarks.blocksworld.expert import answer_request
from certigraph.graphs import clin, plan_and_solve, react, reflexion, step
from certigraph.nodes.lessons import format_report
from certigraph.nodes.step import none
from certigraph.runtime.result import Result
from certigraph.runtime.run import resume, run
from certigraph.state.records import Action, Observation, Task
from certigraph.state.run import Turn, count_repeats
from certigraph.state.step import Lesson
from certigraph.state.trajectory import serializer

# ReAct, plan-and-solve, Reflexion, CLIN and STEP: what their roles see, how they loop, learn, stop and resume.

ALL = {"react": react, "plan_and_solve": plan_and_solve, "reflexion": reflexion, "clin": clin, "step": step}
LEARNING = {"reflexion": reflexion, "clin": clin, "step": step}

PAPER_STEP = step.build(**step.PAPER)
"""STEP as its paper describes it: one action a call, and a judgement after each."""

Answers = Callable[[str, frozenset[str]], Any]


class ScriptedModel:
    """A scripted model that records down every prompt, and answers by default with the least instance of the schema."""

    def __init__(self, answers: Answers | None = None) -> None:
        self.answers = answers
        self.requests: list[tuple[frozenset[str], str]] = []

    def __call__(self, prompt: str, schema: dict[str, Any]) -> Any:
        fields = frozenset(schema.get("properties", ()))
        self.requests.append((fields, prompt))
        given = self.answers(prompt, fields) if self.answers else None
        return minimal_instance(schema) if given is None else given

    def prompts(self, field: str) -> list[str]:
        return [prompt for fields, prompt in self.requests if field in fields]


def played(
    graph: Any,
    tmp_path: Path,
    scripted_model: Any = None,
    benchmark: Any = None,
    memory: str = "",
    **limits: Any,
) -> Result:
    chat = ScriptedChat(responder=scripted_model or ScriptedModel())
    context = Context(chat=chat, limits=Limits(**limits), memory=memory)
    return run(graph, benchmark or BlocksWorld(), "4-0", context=context, out=tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("name", ALL)
def test_a_trajectory_adds_up_to_the_state_of_its_graph(name: str, tmp_path: Path):
    result = played(ALL[name].build(), tmp_path, steps=7, trials=2, repeats=0)
    state = read_trajectory(result.folder).state()
    assert len(state["history"]) == len(state["turns"]) == 7
    assert [turn.action for turn in state["turns"]] == [step.action.text for step in state["history"]]


@pytest.mark.slow
@pytest.mark.parametrize("name", LEARNING)
def test_episodes_are_repeated_up_to_their_number_and_each_is_scored(name: str, tmp_path: Path):
    result = played(LEARNING[name].build(), tmp_path, steps=4, trials=3)
    trials = result.state["trials"]
    assert [trial.number for trial in trials] == [1, 2, 3]
    assert [trial.ending for trial in trials] == ["limit:steps"] * 3
    assert [lesson.trial for lesson in result.state["lessons"]] == [1, 2], "no episode follows the last one"
    assert result.ending == "gave_up"


@pytest.mark.slow
@pytest.mark.parametrize("name", LEARNING)
def test_an_episode_that_reaches_the_goal_is_the_last(name: str, tmp_path: Path):
    turns = 0

    def late(prompt: str, schema: dict[str, Any]) -> Any:
        nonlocal turns
        turns += "thought" in schema.get("properties", ())
        return (
            answer_request(prompt, schema)
            if turns > 6 or "thought" not in schema.get("properties", ())
            else minimal_instance(schema)
        )

    result = played(LEARNING[name].build(), tmp_path, late, steps=6, trials=5, repeats=0)
    assert result.ending == "goal"
    assert [trial.ending for trial in result.state["trials"]] == ["limit:steps", "goal"]
    assert result.scores.value == 1.0  # type: ignore[union-attr]


@pytest.mark.slow
def test_the_same_action_over_and_over_ends_an_episode_unless_no_number_does(tmp_path: Path):
    stuck = played(react.build(), tmp_path, repeats=5, steps=30)
    assert len(stuck.state["turns"]) == 5 or len({t.action for t in stuck.state["turns"][-5:]}) > 1
    free = played(react.build(), tmp_path, repeats=0, steps=30)
    assert len(free.state["turns"]) == 30


def test_equal_actions_with_different_answers_do_not_end_an_episode():
    readings = [Turn(action="use thermometer on lead", observation=f"{n} degrees") for n in range(9)]
    assert count_repeats(readings) == 1
    assert count_repeats([*readings, readings[-1], readings[-1]]) == 3
    assert count_repeats([]) == 0


def test_reflections_of_the_last_three_episodes_are_shown_in_the_next(tmp_path: Path):
    written: list[str] = []

    def reflecting(prompt: str, fields: frozenset[str]) -> Any:
        if fields:
            return None
        written.append(f"REFLECTION-{len(written) + 1}")
        return written[-1]

    scripted_model = ScriptedModel(reflecting)
    played(reflexion.build(), tmp_path, scripted_model, steps=1, trials=5)
    turns = scripted_model.prompts("thought")
    assert "REFLECTION" not in turns[0]
    assert "REFLECTION-1" in turns[1]
    assert all(f"REFLECTION-{n}" in turns[4] for n in (2, 3, 4))
    assert "REFLECTION-1" not in turns[4]


def test_clin_shows_the_latest_insights_alone(tmp_path: Path):
    def learning(prompt: str, fields: frozenset[str]) -> Any:
        return {"insights": [f"INSIGHT-{len(scripted_model.prompts('insights'))}"]} if "insights" in fields else None

    scripted_model = ScriptedModel(learning)
    played(clin.build(), tmp_path, scripted_model, steps=1, trials=3)
    first, second, third = scripted_model.prompts("thought")
    assert "INSIGHT" not in first
    assert "INSIGHT-1" in second
    assert "INSIGHT-2" in third
    assert "INSIGHT-1" not in third
    assert "INSIGHT-1" in scripted_model.prompts("insights")[1], (
        "the next lesson is written with the one before in sight"
    )


def make_step_model(insights: list[str], numbers: list[int], **more: Any) -> ScriptedModel:
    """Plans the subtask CANARY-SUBTASK and learns the given insights; everything else is the least instance."""

    def answering(prompt: str, fields: frozenset[str]) -> Any:
        if "subtask" in fields:
            return {"rationale": "WHY", "subtask": "CANARY-SUBTASK", "insights": numbers}
        if "insights" in fields:
            return {"insights": insights}
        if "subtasks" in fields:
            return {"subtasks": ["CANARY-STRATEGY"]}
        return next((answer for field, answer in more.items() if field in fields), None)

    return ScriptedModel(answering)


def test_steps_executor_and_evaluator_never_see_the_main_task(tmp_path: Path):
    scripted_model = make_step_model([], [], completed={"reason": "", "completed": False})
    result = played(PAPER_STEP, tmp_path, scripted_model, steps=4, trials=1)
    goal = result.state["task"].goal
    scoped = scripted_model.prompts("thought") + scripted_model.prompts("completed")
    assert len(scoped) > 4
    assert not [prompt for prompt in scoped if goal in prompt or "My goal" in prompt]
    assert all("CANARY-SUBTASK" in prompt for prompt in scoped)
    assert all(goal in prompt for prompt in scripted_model.prompts("subtask"))


def test_what_the_executor_thought_is_shown_to_no_other_role(tmp_path: Path):
    scripted_model = make_step_model([], [], completed={"reason": "", "completed": False})

    def thinking(prompt: str, schema: dict[str, Any]) -> Any:
        answer = scripted_model(prompt, schema)
        return {**answer, "thought": "CANARY-THOUGHT"} if "thought" in schema.get("properties", ()) else answer

    result = played(step.build(), tmp_path, thinking, steps=4, trials=1, substeps=2)
    assert all(turn.thought == "CANARY-THOUGHT" for turn in result.state["turns"])
    assert not [prompt for _, prompt in scripted_model.requests if "CANARY-THOUGHT" in prompt]


@pytest.mark.slow
def test_steps_second_episode_uses_what_the_first_one_taught(tmp_path: Path):
    insights = ["INSIGHT-A MAY BE NECESSARY to Y", "INSIGHT-B MAY CONTRIBUTE to Y"]
    scripted_model = make_step_model(insights, [2, 7], completed={"reason": "", "completed": False})
    played(step.build(), tmp_path, scripted_model, steps=2, trials=2, substeps=9)
    plans, turns = scripted_model.prompts("subtask"), scripted_model.prompts("thought")
    assert "INSIGHT" not in plans[0]
    assert "CANARY-STRATEGY" not in plans[0]
    assert all(text in plans[1] for text in [*insights, "CANARY-STRATEGY"])
    assert "INSIGHT" not in turns[0]
    assert "INSIGHT-B" in turns[2], "the Planner named number 2"
    assert "INSIGHT-A" not in turns[2], "only insights that the Planner named go to the Executor"


def test_a_rule_learnt_in_one_episode_refuses_an_action_in_the_next(tmp_path: Path):
    rule = "pick up, put down, stack and unstack DO NOT CONTRIBUTE to anything"
    scripted_model = make_step_model([rule], [], forbidden={"reason": "RULED-OUT", "forbidden": True})
    result = played(step.build(), tmp_path, scripted_model, steps=1, trials=2)
    assert len(scripted_model.prompts("forbidden")) == 1, "none without rules, and one for an action"
    assert all(rule in prompt for prompt in scripted_model.prompts("forbidden"))
    again = scripted_model.prompts("thought")[1:]
    assert ["RULED-OUT" in prompt for prompt in again] == [False, True, True, True]
    assert len(result.state["history"]) == 1


@pytest.mark.parametrize(
    ("insight", "is_rule"), [("A DOES NOT CONTRIBUTE to B", True), ("A MAY CONTRIBUTE to B", False)]
)
def test_only_an_insight_that_says_not_is_a_rule(insight: str, is_rule: bool):
    assert bool(Lesson(trial=1, report="", insights=(insight,)).rules) is is_rule


@pytest.mark.slow
def test_a_subtask_that_takes_too_long_is_refined_and_too_many_failures_end_the_episode(tmp_path: Path):
    scripted_model = make_step_model([], [], completed={"reason": "", "completed": False})
    result = played(step.build(), tmp_path, scripted_model, steps=60, trials=1, substeps=2, failures=3, repeats=0)
    assert [s.status for s in result.state["subtasks"]] == ["failed"] * 4
    assert len(result.state["history"]) == 8
    prompt = scripted_model.prompts("subtask")[1]
    assert "CANARY-SUBTASK" in prompt and "it was not reached in 2 actions" in prompt


@pytest.mark.slow
def test_without_a_planner_the_executor_gets_the_task_and_all_insights_and_nothing_is_refined(tmp_path: Path):
    insights = ["INSIGHT-A MAY CONTRIBUTE to Y", "INSIGHT-B MAY CONTRIBUTE to Y"]
    scripted_model = make_step_model(insights, [])
    result = played(step.build(planner=none), tmp_path, scripted_model, steps=12, trials=2, repeats=0)
    assert scripted_model.prompts("subtask") == scripted_model.prompts("completed") == []
    assert all(result.state["task"].goal in prompt for prompt in scripted_model.prompts("thought"))
    assert all("INSIGHT-A" in prompt and "INSIGHT-B" in prompt for prompt in scripted_model.prompts("thought")[12:])
    assert result.trajectory.header.operators["planner"] == {"name": "none", "args": {}}


def test_a_killed_episode_leaves_lessons_that_a_resume_reads(tmp_path: Path):
    scripted_model = ScriptedModel(lambda prompt, fields: {"insights": ["KEPT"]} if "insights" in fields else None)
    result = played(clin.build(), tmp_path, scripted_model, steps=2, trials=2)
    assert (result.folder / "memory.sqlite").is_file()
    events = [event for event in result.trajectory.events if event.node == "recall"]
    assert [json.loads(json.dumps(event.update))["lessons"] for event in events][1][0]["insights"] == ["KEPT"]


# Runs of several episodes: a resumed one has not learnt what lies ahead of it, memories are shared, scopes hold.

TASK = {"task": {"benchmark": "blocksworld", "id": "4-0"}}


class Learner:
    """A scripted model whose lessons are numbered, and which keeps its prompts for actions and for lessons."""

    def __init__(self) -> None:
        self.lessons = 0
        self.turns: list[str] = []
        self.reflected: list[str] = []

    def __call__(self, prompt: str, schema: dict[str, Any]) -> Any:
        fields = set(schema.get("properties", ()))
        if "thought" in fields:
            self.turns.append(prompt)
        if "insights" in fields:
            self.lessons += 1
            self.reflected.append(prompt)
            return {"insights": [f"LESSON-{self.lessons} MAY CONTRIBUTE to Y"]}
        return minimal_instance(schema)

    def shown(self) -> list[list[str]]:
        """The lessons in each prompt for an action."""
        return [[word for word in prompt.split() if word.startswith("LESSON-")] for prompt in self.turns]


def rewound(folder: Path, superstep: int) -> None:
    """Makes a finished run one whose process died long after its last checkpoint, that of a superstep."""
    with SqliteSaver.from_conn_string(str(folder / "checkpoints.sqlite")) as saver:
        saver.serde = serializer()
        found = list(saver.list({"configurable": {"thread_id": folder.name}}))
        last = next(c.checkpoint["id"] for c in found if (c.metadata or {}).get("step") == superstep)
    with closing(sqlite3.connect(folder / "checkpoints.sqlite")) as connection, connection:
        for table in ("checkpoints", "writes"):
            connection.execute(f"DELETE FROM {table} WHERE checkpoint_id > ?", (last,))
    lines = (folder / "trajectory.jsonl").read_text().splitlines(keepends=True)
    (folder / "trajectory.jsonl").write_text("".join(line for line in lines if '"type":"footer"' not in line))


@pytest.mark.slow
@pytest.mark.parametrize("name", LEARNING)
def test_a_resumed_run_does_not_know_the_lessons_that_lie_ahead_of_its_checkpoint(name: str, tmp_path: Path):
    whole = played(LEARNING[name].build(), tmp_path, minimal_model, steps=2, trials=3)
    before = [event for event in whole.trajectory.events if event.node == "recall"]
    rewound(whole.folder, before[1].superstep - 1)
    again = resume(whole.folder, benchmark=BlocksWorld(), chat=ScriptedChat(responder=minimal_model))
    after = [event for event in read_trajectory(whole.folder).events if event.node == "recall"]
    assert [event.update for event in after] == [event.update for event in before]
    assert again.state["trials"] == whole.state["trials"]
    assert [lesson.trial for lesson in again.state["lessons"]] == [1, 2]


def minimal_model(prompt: str, schema: dict[str, Any]) -> Any:
    return minimal_instance(schema) if schema.get("properties") else "LESSON"


@pytest.mark.slow
def test_runs_that_share_a_memory_see_the_latest_lessons_whoever_learnt_them(tmp_path: Path):
    scripted_model = Learner()
    for memory in ("ours", "ours", "", "theirs"):
        played(clin.build(), tmp_path, scripted_model, memory=memory, steps=1, trials=4)
    assert scripted_model.shown() == [
        [], ["LESSON-1"], ["LESSON-2"], ["LESSON-3"],
        ["LESSON-4"], ["LESSON-5"], ["LESSON-6"], ["LESSON-7"],
        [], ["LESSON-9"], ["LESSON-10"], ["LESSON-11"],
        [], ["LESSON-12"], ["LESSON-13"], ["LESSON-14"],
    ]  # fmt: skip


@pytest.mark.slow
def test_lessons_keep_their_order_by_a_clock_that_runs_backwards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    moments = itertools.count(2_000_000_000, -3600)
    monkeypatch.setattr(time, "time", lambda: float(next(moments)))
    scripted_model = Learner()
    for memory in ("ours", "ours"):
        played(clin.build(), tmp_path, scripted_model, memory=memory, steps=1, trials=4)
    assert scripted_model.shown() == [[], *([f"LESSON-{number}"] for number in range(1, 8))]


@pytest.mark.slow
def test_a_lesson_comes_after_all_that_a_large_memory_holds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(time, "time", lambda: 1.0)
    store, place = InMemoryStore(), ("lessons", "ours", "blocksworld", "4-0")
    for number in range(2_100):
        lesson = Lesson(trial=1, report="", insights=(f"LESSON-OLD-{number}",))
        store.put(place, f"old/{number:04d}", {**lesson.as_json(), "run": "old", "written": 1_000.0 + number})
    graph, scripted_model = clin.build(store=store), Learner()
    for _ in range(2):
        context = Context(chat=ScriptedChat(responder=scripted_model), limits=Limits(steps=1, trials=1), memory="ours")
        graph.invoke(TASK, context=context)
    assert scripted_model.shown() == [["LESSON-OLD-2099"], ["LESSON-1"]]


def test_runs_without_a_thread_are_apart_too(tmp_path: Path):
    graph, scripted_model = clin.build(), Learner()
    for memory in ("", "", "ours", "ours"):
        context = Context(chat=ScriptedChat(responder=scripted_model), limits=Limits(steps=1, trials=1), memory=memory)
        graph.invoke(TASK, context=context)
    assert scripted_model.shown() == [[], [], [], ["LESSON-1"]], (
        "runs that share no memory learn nothing from a single episode"
    )


async def forgetful(state: Any, runtime: Any) -> dict[str, Any]:
    """A memory of a user's own: it returns a lesson and stores nothing."""
    trial = state["trial"]
    lesson = Lesson(trial=trial.number, report=format_report(trial), insights=(f"LESSON-{trial.number}",))
    return {"lessons": (*state["lessons"], lesson)}


def test_what_a_memory_of_ones_own_returns_reaches_the_next_episode(tmp_path: Path):
    scripted_model = Learner()
    played(clin.build(memory=forgetful), tmp_path, scripted_model, steps=1, trials=3)
    assert scripted_model.shown() == [[], ["LESSON-1"], ["LESSON-2"]]


@pytest.mark.parametrize("name", LEARNING)
def test_the_compiled_graph_of_a_module_remembers_when_it_is_run(name: str, tmp_path: Path):
    result = played(LEARNING[name].graph, tmp_path, minimal_model, steps=1, trials=3)
    assert [lesson.trial for lesson in result.state["lessons"]] == [1, 2]


def test_steps_executor_and_evaluator_do_not_read_the_task_in_the_worlds_answers(tmp_path: Path):
    scoped: list[str] = []

    def scripted_model(prompt: str, schema: dict[str, Any]) -> Any:
        if {"thought", "completed"} & set(schema.get("properties", ())):
            scoped.append(prompt)
        return minimal_instance(schema)

    telling = Telling(lambda task, number: f"Task description:\n{task.goal}")
    result = played(PAPER_STEP, tmp_path, scripted_model, telling, steps=3, trials=1)
    assert len(scoped) == 5, "nothing is judged when no step is left"
    assert "(not shown)" in scoped[-1]
    assert not [prompt for prompt in scoped if result.state["task"].goal in prompt]


@pytest.mark.slow
def test_a_refusal_does_not_bring_the_refused_action_onto_the_shortlist(tmp_path: Path):
    offered: list[list[str]] = []

    def scripted_model(prompt: str, schema: dict[str, Any]) -> Any:
        fields = schema.get("properties", {})
        if "choice" in fields:
            offered.append(fields["choice"]["enum"])
            return {"thought": "", "choice": offered[-1][-1]}
        if "forbidden" in fields:
            return {"reason": "it does not help", "forbidden": True}
        learned = "insights" in fields and "subtask" not in fields
        return {"insights": ["move box DOES NOT CONTRIBUTE to B"]} if learned else minimal_instance(schema)

    played(step.build(), tmp_path, scripted_model, Shortlisting(), steps=1, trials=2, options=6)
    first_episode, *repeated_prompts = offered
    assert len(repeated_prompts) == 4
    assert repeated_prompts == [first_episode] * 4


class Shortlisting(BlocksWorld):
    """BlocksWorld that lists many actions, of which some are offered."""

    shortlists = True

    def open(self, task: Task) -> Any:
        world = super().open(task)
        world.admissible = lambda: [f"move box {n} to shelf {n % 7}" for n in range(99)]  # type: ignore[method-assign]
        return world


class Telling(BlocksWorld):
    """BlocksWorld whose answers are made of the task and the number of the action."""

    def __init__(self, answer: Callable[[Task, int], str]) -> None:
        super().__init__()
        self.answer = answer

    def open(self, task: Task) -> Any:
        world, numbers = super().open(task), count(1)
        stepped = world.step

        def record_answer(action: Action) -> Observation:
            return stepped(action).model_copy(update={"text": self.answer(task, next(numbers))})

        world.step = record_answer  # type: ignore[method-assign]
        return world
