"""Runs of several episodes: a resumed one has not learnt what lies ahead of it, memories are shared, scopes hold."""

import itertools
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

from certigraph.adapters.blocksworld.benchmark import BlocksWorld
from certigraph.adapters.models.schemas import minimal
from certigraph.adapters.models.scripted import ScriptedChat
from certigraph.adapters.protocols import Context, Limits
from certigraph.graphs import clin, reflexion, step
from certigraph.nodes.step import report
from certigraph.runtime.result import Result
from certigraph.runtime.run import resume, run
from certigraph.state.records import Action, Observation, Task
from certigraph.state.serialization import serializer
from certigraph.state.step import Lesson
from certigraph.state.trajectory import read_trajectory

LEARNING = {"reflexion": reflexion, "clin": clin, "step": step}
TASK = {"task": {"benchmark": "blocksworld", "id": "4-0"}}


class Learner:
    """A scripted mind whose lessons are numbered, and which keeps its prompts for actions and for lessons."""

    def __init__(self) -> None:
        self.lessons = 0
        self.turns: list[str] = []
        self.reflected: list[str] = []

    def __call__(self, prompt: str, schema: dict[str, Any]) -> Any:
        fields = set(schema.get("properties", ()))
        if "thought" in fields:
            self.turns.append(prompt)
        if fields == {"insights"}:
            self.lessons += 1
            self.reflected.append(prompt)
            return {"insights": [f"LESSON-{self.lessons} MAY CONTRIBUTE to Y"]}
        return minimal(schema)

    def shown(self) -> list[list[str]]:
        """The lessons in each prompt for an action."""
        return [[word for word in prompt.split() if word.startswith("LESSON-")] for prompt in self.turns]


def played(graph: Any, out: Path, mind: Any, benchmark: Any = None, memory: str = "", **limits: Any) -> Result:
    context = Context(chat=ScriptedChat(responder=mind), limits=Limits(**limits), memory=memory)
    return run(graph, benchmark or BlocksWorld(), "4-0", context=context, out=out)


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


@pytest.mark.parametrize("name", LEARNING)
def test_a_resumed_run_does_not_know_the_lessons_that_lie_ahead_of_its_checkpoint(name: str, tmp_path: Path):
    whole = played(LEARNING[name].build(), tmp_path, minimal_mind, steps=2, trials=3)
    before = [event for event in whole.trajectory.events if event.node == "recall"]
    rewound(whole.folder, before[1].superstep - 1)
    again = resume(whole.folder, benchmark=BlocksWorld(), chat=ScriptedChat(responder=minimal_mind))
    after = [event for event in read_trajectory(whole.folder).events if event.node == "recall"]
    assert [event.update for event in after] == [event.update for event in before]
    assert again.state["trials"] == whole.state["trials"]
    assert [lesson.trial for lesson in again.state["lessons"]] == [1, 2, 3]


def minimal_mind(prompt: str, schema: dict[str, Any]) -> Any:
    return minimal(schema) if schema.get("properties") else "LESSON"


def test_runs_that_share_a_memory_see_the_latest_lessons_whoever_learnt_them(tmp_path: Path):
    mind = Learner()
    for memory in ("ours", "ours", "", "theirs"):
        played(clin.build(), tmp_path, mind, memory=memory, steps=1, trials=4)
    assert mind.shown() == [
        [], ["LESSON-1"], ["LESSON-2"], ["LESSON-3"],
        ["LESSON-4"], ["LESSON-5"], ["LESSON-6"], ["LESSON-7"],
        [], ["LESSON-9"], ["LESSON-10"], ["LESSON-11"],
        [], ["LESSON-13"], ["LESSON-14"], ["LESSON-15"],
    ]  # fmt: skip


def test_lessons_keep_their_order_by_a_clock_that_runs_backwards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    moments = itertools.count(2_000_000_000, -3600)
    monkeypatch.setattr(time, "time", lambda: float(next(moments)))
    mind = Learner()
    for memory in ("ours", "ours"):
        played(clin.build(), tmp_path, mind, memory=memory, steps=1, trials=4)
    assert mind.shown() == [[], *([f"LESSON-{number}"] for number in range(1, 8))]


def test_a_lesson_comes_after_all_that_a_large_memory_holds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(time, "time", lambda: 1.0)
    store, place = InMemoryStore(), ("lessons", "ours", "blocksworld", "4-0")
    for number in range(2_100):
        lesson = Lesson(trial=1, report="", insights=(f"LESSON-OLD-{number}",))
        store.put(place, f"old/{number:04d}", {**lesson.as_json(), "run": "old", "written": 1_000.0 + number})
    graph, mind = clin.build(store=store), Learner()
    for _ in range(2):
        context = Context(chat=ScriptedChat(responder=mind), limits=Limits(steps=1, trials=1), memory="ours")
        graph.invoke(TASK, context=context)
    assert mind.shown() == [["LESSON-OLD-2099"], ["LESSON-1"]]


def test_runs_without_a_thread_are_apart_too(tmp_path: Path):
    graph, mind = clin.build(), Learner()
    for memory in ("", "", "ours", "ours"):
        context = Context(chat=ScriptedChat(responder=mind), limits=Limits(steps=1, trials=1), memory=memory)
        graph.invoke(TASK, context=context)
    assert mind.shown() == [[], [], [], ["LESSON-3"]]


async def forgetful(state: Any, runtime: Any) -> dict[str, Any]:
    """A memory of a user's own: it returns a lesson and stores nothing."""
    trial = state["trial"]
    lesson = Lesson(trial=trial.number, report=report(trial), insights=(f"LESSON-{trial.number}",))
    return {"lessons": (*state["lessons"], lesson)}


def test_what_a_memory_of_ones_own_returns_reaches_the_next_episode(tmp_path: Path):
    mind = Learner()
    played(clin.build(memory=forgetful), tmp_path, mind, steps=1, trials=3)
    assert mind.shown() == [[], ["LESSON-1"], ["LESSON-2"]]


@pytest.mark.parametrize("name", LEARNING)
def test_the_compiled_graph_of_a_module_remembers_when_it_is_run(name: str, tmp_path: Path):
    result = played(LEARNING[name].graph, tmp_path, minimal_mind, steps=1, trials=2)
    assert [lesson.trial for lesson in result.state["lessons"]] == [1, 2]


def test_the_author_of_a_lesson_sees_how_a_long_episode_ended(tmp_path: Path):
    mind, wordy = Learner(), Telling(lambda task, number: f"ANSWER-{number} " + "and so on " * 20)
    played(clin.build(), tmp_path, lambda p, s: {**mind(p, s), **said(s)}, wordy, steps=60, trials=1, repeats=0)
    (prompt,) = mind.reflected
    assert "ANSWER-60 " in prompt
    assert "ANSWER-1 " not in prompt
    assert len(prompt) < 8_000


def test_a_model_is_asked_for_short_insights_and_long_ones_are_cut(tmp_path: Path):
    shapes: list[Any] = []

    def mind(prompt: str, schema: dict[str, Any]) -> Any:
        if "insights" not in schema.get("properties", ()):
            return minimal(schema)
        shapes.append(schema["properties"]["insights"]["items"])
        return {"insights": ["A MAY CONTRIBUTE to B " * 20]}

    (lesson,) = played(clin.build(), tmp_path, mind, steps=1, trials=1).state["lessons"]
    assert shapes == [{"type": "string", "maxLength": 160}]
    assert len(lesson.insights[0]) == 160


def said(schema: dict[str, Any]) -> dict[str, str]:
    return {"thought": "t" * 90} if "thought" in schema.get("properties", ()) else {}


def test_steps_executor_and_evaluator_do_not_read_the_task_in_the_worlds_answers(tmp_path: Path):
    scoped: list[str] = []

    def mind(prompt: str, schema: dict[str, Any]) -> Any:
        if {"thought", "completed"} & set(schema.get("properties", ())):
            scoped.append(prompt)
        return minimal(schema)

    telling = Telling(lambda task, number: f"Task description:\n{task.goal}")
    result = played(step.build(), tmp_path, mind, telling, steps=3, trials=1)
    assert len(scoped) == 6
    assert "(not shown)" in scoped[-1]
    assert not [prompt for prompt in scoped if result.state["task"].goal in prompt]


@pytest.mark.slow
def test_a_refusal_does_not_bring_the_refused_action_onto_the_shortlist(tmp_path: Path):
    offered: list[list[str]] = []

    def mind(prompt: str, schema: dict[str, Any]) -> Any:
        fields = schema.get("properties", {})
        if "choice" in fields:
            offered.append(fields["choice"]["enum"])
            return {"thought": "", "choice": offered[-1][-1]}
        if "forbidden" in fields:
            return {"reason": "it does not help", "forbidden": True}
        return {"insights": ["A DOES NOT CONTRIBUTE to B"]} if set(fields) == {"insights"} else minimal(schema)

    played(step.build(), tmp_path, mind, Shortlisting(), steps=1, trials=2, options=6)
    first_episode, *asked_again = offered
    assert len(asked_again) == 4
    assert asked_again == [first_episode] * 4


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

        def told(action: Action) -> Observation:
            return stepped(action).model_copy(update={"text": self.answer(task, next(numbers))})

        world.step = told  # type: ignore[method-assign]
        return world
